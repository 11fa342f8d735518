/* pcm_encode_avx2.c: residuals, widths and packing with AVX2 and BMI2; the same results as
 * pcm_encode.c. */
#include "pcm_internal.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2")))

TARGET static inline __m256i load(const int16_t *samples)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)samples);
}

/* A load from an even distance holds, in each 32-bit element, two samples that the same later
 * sample is predicted from: 8 loads make the sums of 8 samples, and 8 loads at the next sample make
 * the sums of the samples between. */
TARGET void spsh__pcm_residuals_avx2(const pcm_coefficients *set, const int16_t *pcm,
                                     uint32_t count, int16_t *residuals)
{
    const __m128i shift = _mm_cvtsi32_si128((int)set->shift);
    __m256i pairs[PCM_ORDER / 2];
    uint32_t t = 0;
    for (size_t k = 0; k < PCM_ORDER / 2; k++)
        pairs[k] = _mm256_set1_epi32(
            (int)((uint32_t)set->values[2 * k] << 16 | (uint16_t)set->values[2 * k + 1]));
    for (; t + PCM_GROUP_SAMPLES <= count; t += PCM_GROUP_SAMPLES) {
        __m256i even = _mm256_setzero_si256();
        __m256i odd = _mm256_setzero_si256();
        for (size_t k = 0; k < PCM_ORDER / 2; k++) {
            const int16_t *before = pcm + t - 2 - 2 * k;
            even = _mm256_add_epi32(even, _mm256_madd_epi16(load(before), pairs[k]));
            odd = _mm256_add_epi32(odd, _mm256_madd_epi16(load(before + 1), pairs[k]));
        }
        even = _mm256_srl_epi32(even, shift);
        odd = _mm256_slli_epi32(_mm256_srl_epi32(odd, shift), 16);
        __m256i result = _mm256_sub_epi16(load(pcm + t), _mm256_blend_epi16(even, odd, 0xaa));
        _mm256_storeu_si256((__m256i *)(void *)(residuals + t), result);
    }
    spsh__pcm_residuals_scalar(set, pcm + t, count - t, residuals + t);
}

TARGET uint8_t spsh__pcm_width_avx2(const int16_t residuals[PCM_GROUP_SAMPLES])
{
    __m256i r = load(residuals);
    __m256i positive = _mm256_cmpgt_epi16(r, _mm256_setzero_si256());
    __m256i reach = _mm256_add_epi16(_mm256_abs_epi16(r), positive);
    __m128i bits = _mm_or_si128(_mm256_castsi256_si128(reach), _mm256_extracti128_si256(reach, 1));
    uint64_t two = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(bits, _mm_srli_si128(bits, 8)));
    two |= two >> 32;
    uint32_t any = (uint32_t)((two | two >> 16) & 0xffff);
    if (any == 0)
        return _mm256_testz_si256(r, r) ? 0 : 1;
    uint32_t width = 33 - (uint32_t)__builtin_clz(any);
    return width > PCM_WIDTH_MAX ? PCM_WIDTH_MAX : (uint8_t)width;
}

/* Writes 32 bytes, of which 2 * width count. */
TARGET void spsh__pcm_pack_avx2(const int16_t residuals[PCM_GROUP_SAMPLES], unsigned width,
                                uint8_t *out)
{
    uint64_t mask = (UINT64_C(1) << width) - 1;
    uint64_t fields[4];
    __m256i biased = _mm256_add_epi16(load(residuals), _mm256_set1_epi16((int16_t)(mask >> 1)));
    _mm256_storeu_si256((__m256i *)(void *)fields, biased);
    mask *= UINT64_C(0x0001000100010001);
    for (size_t i = 0; i < 2; i++, out += width) {
        uint64_t low = _pext_u64(fields[2 * i], mask);
        uint64_t high = _pext_u64(fields[2 * i + 1], mask);
        uint64_t first = low;
        uint64_t second = high;
        if (width < PCM_WIDTH_MAX) { /* 4 * width bits each; a shift by 64 is not defined */
            first = low | high << (4 * width);
            second = high >> 1 >> (63 - 4 * width);
        }
        _mm_storeu_si128((__m128i *)(void *)out, _mm_set_epi64x((int64_t)second, (int64_t)first));
    }
}

#endif

/* flac_decode_avx2.c: residual and prediction in one pass, and CRC-16, with vector instructions.
 *
 * Two chains bound the speed: where the next Rice code begins (a count of zeros and two shifts),
 * and what the next sample is (a multiplication, an addition, a shift). They do not touch each
 * other, so that one loop over both keeps the processor busy. All taps but the first two are kept
 * off the second chain: sums of later samples wait in the elements of acc, and each new sample is
 * multiplied with all further taps at once:
 *
 *     acc[0] acc[1] ...   element i: what samples up to t contribute to sample t + 3 + i
 *     taps[0] taps[1] ... element i: tap i + 2
 *
 *     acc = (acc moved down by one element) + sample[t] * taps
 *
 * Element 0 leaves for an ordinary register two samples before it is needed. Its latency is hidden.
 *
 * 32 bits hold these sums when the taps' sizes add up to less than 2^(32 - bits_per_sample); the
 * caller has checked it, and that no sample which is out of range can come back into it by
 * wrapping. So the first sample out of range is stored as such, whatever the later ones are.
 */
#include "flac_bits.h"
#include "flac_frames.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,pclmul")))
#define INLINE TARGET __attribute__((always_inline)) static inline

enum { NEAR_TAPS = 2, GROUP_TAPS = 4, GROUPS_MAX = 8, FAST_PARAMETER_MAX = 20 };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef struct flac_history {
    __m128i acc[GROUPS_MAX];
    __m128i taps[GROUPS_MAX];
    uint64_t near[NEAR_TAPS];    /* taps 0 and 1, sign-extended */
    uint64_t samples[NEAR_TAPS]; /* the last one, the one before */
    uint64_t sums[NEAR_TAPS];    /* of the next sample, of the one behind it */
    uint32_t shift;
} flac_history;

/* Puts a sample behind the others. is_wide: samples of more than 16 bits. */
INLINE void remember(flac_history *history, uint64_t sample, unsigned groups, bool is_wide)
{
    history->samples[1] = history->samples[0];
    history->samples[0] = sample;
    if (groups == 0)
        return;
    const __m128i all = _mm_broadcastd_epi32(_mm_cvtsi32_si128((int32_t)(uint32_t)sample));
    UNROLL
    for (unsigned i = 0; i < groups; i++) {
        __m128i moved = i + 1 < groups ? _mm_alignr_epi8(history->acc[i + 1], history->acc[i], 4)
                                       : _mm_srli_si128(history->acc[i], 4);
        __m128i product = is_wide ? _mm_mullo_epi32(all, history->taps[i])
                                  : _mm_madd_epi16(all, history->taps[i]);
        history->acc[i] = _mm_add_epi32(moved, product);
    }
}

INLINE int32_t predict(flac_history *history, int32_t residual, unsigned groups, bool is_wide)
{
    uint64_t sum = history->sums[0] + history->near[1] * history->samples[1] +
                   ((uint64_t)(int64_t)residual << history->shift);
    sum += history->near[0] * history->samples[0];
    int64_t sample = (int64_t)sum >> history->shift;
    history->sums[0] = history->sums[1];
    if (groups > 0)
        history->sums[1] = (uint64_t)(int64_t)_mm_cvtsi128_si32(history->acc[0]);
    remember(history, (uint64_t)sample, groups, is_wide);
    return (int32_t)(uint32_t)(uint64_t)sample;
}

INLINE void begin(flac_history *history, const spsh__flac_predictor *predictor,
                  const int32_t *warm_up, unsigned groups, bool is_wide)
{
    uint32_t mask = is_wide ? UINT32_MAX : UINT16_MAX;
    uint32_t far[GROUPS_MAX * GROUP_TAPS] = {0};
    for (uint32_t i = NEAR_TAPS; i < predictor->order; i++)
        far[i - NEAR_TAPS] = (uint32_t)predictor->taps[i] & mask;
    UNROLL
    for (unsigned i = 0; i < groups; i++) {
        history->acc[i] = _mm_setzero_si128();
        history->taps[i] = _mm_loadu_si128((const __m128i *)(const void *)(far + 4 * (size_t)i));
    }
    UNROLL
    for (unsigned i = 0; i < NEAR_TAPS; i++) {
        history->near[i] = i < predictor->order ? (uint64_t)(int64_t)predictor->taps[i] : 0;
        history->samples[i] = 0;
        history->sums[i] = 0;
    }
    history->shift = predictor->shift;
    for (uint32_t i = 0; i < predictor->order; i++) {
        history->sums[0] = history->sums[1];
        if (groups > 0)
            history->sums[1] = (uint64_t)(int64_t)_mm_cvtsi128_si32(history->acc[0]);
        remember(history, (uint64_t)(int64_t)warm_up[i], groups, is_wide);
    }
}

/* The residual whose code begins at the top of *window, which moves on; zeros are counted. The
 * stop bit becomes 1 << parameter, which is taken away from the result again. */
INLINE int32_t take_rice(uint64_t *window, uint32_t parameter, uint32_t *used)
{
    uint32_t zeros = (uint32_t)_lzcnt_u64(*window | 1);
    uint64_t rest = *window << zeros;
    uint32_t low = (uint32_t)(rest >> (63 - parameter));
    *window = rest << (parameter + 1);
    *used += zeros;
    return spsh__flac_unfold((zeros << parameter) + low - (1u << parameter));
}

typedef struct slow_rice {
    spsh__flac_bits bits;
    int32_t residual;
    bool is_good;
} slow_rice;

/* By value, so that the loop's copy of bits stays in registers. */
TARGET __attribute__((noinline)) static slow_rice take_slow_rice(spsh__flac_bits bits,
                                                                 uint32_t parameter)
{
    slow_rice result = {bits, 0, false};
    result.is_good = spsh__flac_get_rice(&result.bits, parameter, &result.residual);
    return result;
}

/* Codes in steps of as many as fit a refilled window, as nearly all do. */
INLINE bool restore_rice(spsh__flac_bits *outer, flac_history *history, uint32_t parameter,
                         int32_t *out, uint32_t count, unsigned groups, bool is_wide)
{
    enum { STEP = 2 };
    spsh__flac_bits bits = *outer;
    uint32_t i = 0;
    while (i < count) {
        spsh__flac_refill(&bits);
        uint64_t window = bits.window;
        uint32_t used = STEP * (parameter + 1);
        int32_t first = take_rice(&window, parameter, &used);
        int32_t second = take_rice(&window, parameter, &used);
        if (__builtin_expect(used <= bits.count && count - i >= STEP, 1)) {
            bits.window = window;
            bits.count -= used;
            out[i] = predict(history, first, groups, is_wide);
            out[i + 1] = predict(history, second, groups, is_wide);
            i += STEP;
            continue;
        }
        slow_rice slow = take_slow_rice(bits, parameter);
        if (!slow.is_good)
            return false;
        bits = slow.bits;
        out[i++] = predict(history, slow.residual, groups, is_wide);
    }
    *outer = bits;
    return true;
}

INLINE bool restore(spsh__flac_bits *outer, const spsh__flac_predictor *predictor,
                    const spsh__flac_partitions *partitions, int32_t *plane, unsigned groups,
                    bool is_wide)
{
    spsh__flac_bits bits = *outer;
    flac_history history;
    begin(&history, predictor, plane, groups, is_wide);
    int32_t *out = plane + predictor->order;
    for (uint32_t p = 0; p < partitions->count; p++) {
        uint32_t count = spsh__flac_partition_samples(partitions, p, predictor->order);
        spsh__flac_coding coding;
        if (!spsh__flac_get_coding(&bits, partitions, &coding))
            return false;
        if (coding.is_raw) {
            for (uint32_t i = 0; i < count; i++)
                out[i] =
                    predict(&history, spsh__flac_get_signed(&bits, coding.bits), groups, is_wide);
        } else if (!restore_rice(&bits, &history, coding.bits, out, count, groups, is_wide)) {
            return false;
        }
        out += count;
    }
    *outer = bits;
    return true;
}

/* One function for each number of vectors, so that they stay in registers. */
#define RESTORE(name_, groups_, is_wide_)                                                          \
    TARGET __attribute__((noinline)) static bool name_(                                            \
        spsh__flac_bits *bits, const spsh__flac_predictor *predictor,                              \
        const spsh__flac_partitions *partitions, int32_t *plane)                                   \
    {                                                                                              \
        return restore(bits, predictor, partitions, plane, groups_, is_wide_);                     \
    }
RESTORE(restore_2, 0, false)
RESTORE(restore_6, 1, false)
RESTORE(restore_10, 2, false)
RESTORE(restore_14, 3, false)
RESTORE(restore_32, 8, false)
RESTORE(restore_wide_6, 1, true)
RESTORE(restore_wide_14, 3, true)
RESTORE(restore_wide_32, 8, true)

bool spsh__flac_restore_avx2(spsh__flac_bits *bits, const spsh__flac_predictor *predictor,
                             const spsh__flac_partitions *partitions, int32_t *plane)
{
    bool is_wide = predictor->bits_per_sample > 16;
    spsh__flac_restore_fn *restore_fn = is_wide ? restore_wide_32 : restore_32;
    if (predictor->order <= NEAR_TAPS)
        restore_fn = restore_2;
    else if (predictor->order <= NEAR_TAPS + GROUP_TAPS)
        restore_fn = is_wide ? restore_wide_6 : restore_6;
    else if (predictor->order <= NEAR_TAPS + 2 * GROUP_TAPS)
        restore_fn = is_wide ? restore_wide_14 : restore_10;
    else if (predictor->order <= NEAR_TAPS + 3 * GROUP_TAPS)
        restore_fn = is_wide ? restore_wide_14 : restore_14;
    return restore_fn(bits, predictor, partitions, plane);
}

/* Polynomials modulo x^16 + x^15 + x^2 + 1: 16 bytes move up by 128 places, which multiplies their
 * halves by x^128 and, for the upper one, by x^192. What is left stands for all bytes before it. */
TARGET uint32_t spsh__flac_crc16_pclmul(const uint8_t *data, size_t size_bytes)
{
    const __m128i reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    const __m128i powers = _mm_set_epi64x(0x1666, 0x0106);
    uint8_t left[16] = {0};
    if (size_bytes < 32)
        return spsh__flac_crc16(0, data, size_bytes);
    __m128i sum = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)data), reverse);
    size_t done = 16;
    for (; size_bytes - done >= 16; done += 16) {
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)(data + done));
        __m128i low = _mm_clmulepi64_si128(sum, powers, 0x00);
        __m128i high = _mm_clmulepi64_si128(sum, powers, 0x11);
        sum = _mm_xor_si128(_mm_xor_si128(low, high), _mm_shuffle_epi8(next, reverse));
    }
    _mm_storeu_si128((__m128i *)(void *)left, _mm_shuffle_epi8(sum, reverse));
    return spsh__flac_crc16(spsh__flac_crc16(0, left, sizeof(left)), data + done,
                            size_bytes - done);
}

#endif

/* frames_avx512.c: sixteen lanes, like frames_avx2.c, but in quarters instead of halves. */
#include "frames.h"
#include "frames_constants.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME      "avx512"
#define LANES     16
#define TARGET    __attribute__((target("avx512f,avx512dq")))
#define MM(name_) _mm512_##name_
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef __m512d doubles;

#include "frames_x86.h"

INLINE vec vec_load_i16(const int16_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)from)));
}

/* Four samples of two windows. */
INLINE __m256 load_two(const float *low, const float *high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

INLINE void gather4(const float *const *windows, size_t at, vec *x)
{
    vec quads[4];
    for (size_t lane = 0; lane < 4; lane++) {
        const __m256 low = load_two(windows[lane] + at, windows[lane + 4] + at);
        const __m256 high = load_two(windows[lane + 8] + at, windows[lane + 12] + at);
        quads[lane] = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
    }
    transpose4(quads, x);
}

INLINE void scatter4(float *const *rows, size_t at, const vec *y)
{
    vec quads[4];
    transpose4(y, quads);
    for (size_t lane = 0; lane < 4; lane++) {
        _mm_storeu_ps(rows[lane] + at, _mm512_castps512_ps128(quads[lane]));
        _mm_storeu_ps(rows[lane + 4] + at, _mm512_extractf32x4_ps(quads[lane], 1));
        _mm_storeu_ps(rows[lane + 8] + at, _mm512_extractf32x4_ps(quads[lane], 2));
        _mm_storeu_ps(rows[lane + 12] + at, _mm512_extractf32x4_ps(quads[lane], 3));
    }
}

#include "frames_body.h"

const spsh__frames_isa *spsh__frames_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? &isa : NULL;
}

#else

const spsh__frames_isa *spsh__frames_avx512(void)
{
    return NULL;
}

#endif

/* frames_avx512.c: sixteen lanes; as frames_avx2.c, in quarters. */
#include "frames.h"
#include "frames_constants.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME   "avx512"
#define LANES  16
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define INLINE TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));

INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

INLINE vec vec_sqrt(vec value)
{
    return _mm512_sqrt_ps(value);
}

INLINE vec vec_of_ints(ivec value)
{
    return __builtin_convertvector(value, vec);
}

INLINE vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

INLINE vec vec_load_i16(const int16_t *from)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)from)));
}

INLINE void vec_store(float *to, vec value)
{
    _mm512_storeu_ps(to, value);
}

INLINE void transpose4(const vec *x, vec *y)
{
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
    y[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    y[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    y[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    y[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
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

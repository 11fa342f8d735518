/* frames_avx2.c: eight lanes. A vector of four values of eight frames, transposed within each half,
 * is a value of eight frames four times: lanes are frames 0 to 3 and 4 to 7. */
#include "frames.h"
#include "frames_constants.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME   "avx2"
#define LANES  8
#define TARGET __attribute__((target("avx2")))
#define INLINE TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(32)));
typedef int32_t ivec __attribute__((vector_size(32)));

INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

INLINE vec vec_sqrt(vec value)
{
    return _mm256_sqrt_ps(value);
}

INLINE vec vec_of_ints(ivec value)
{
    return __builtin_convertvector(value, vec);
}

INLINE vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

INLINE vec vec_load_i16(const int16_t *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)from)));
}

INLINE void vec_store(float *to, vec value)
{
    _mm256_storeu_ps(to, value);
}

INLINE void transpose4(const vec *x, vec *y)
{
    const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1]));
    const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3]));
    const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1]));
    const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
    y[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23));
    y[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23));
    y[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23));
    y[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23));
}

INLINE void gather4(const float *const *windows, size_t at, vec *x)
{
    vec quads[4];
    for (size_t lane = 0; lane < 4; lane++)
        quads[lane] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(windows[lane] + at)),
                                           _mm_loadu_ps(windows[lane + 4] + at), 1);
    transpose4(quads, x);
}

INLINE void scatter4(float *const *rows, size_t at, const vec *y)
{
    vec quads[4];
    transpose4(y, quads);
    for (size_t lane = 0; lane < 4; lane++) {
        _mm_storeu_ps(rows[lane] + at, _mm256_castps256_ps128(quads[lane]));
        _mm_storeu_ps(rows[lane + 4] + at, _mm256_extractf128_ps(quads[lane], 1));
    }
}

#include "frames_body.h"

const spsh__frames_isa *spsh__frames_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &isa : NULL;
}

#else

const spsh__frames_isa *spsh__frames_avx2(void)
{
    return NULL;
}

#endif

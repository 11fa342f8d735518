/* cpu_kernels_avx2.c: eight lanes. */
#include "cpu_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME      "avx2"
#define LANES     8
#define TILE_ROWS 4
#define GRAD_TAPS 3
#define TARGET    __attribute__((target("avx2,fma")))
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(32)));
typedef int32_t ivec __attribute__((vector_size(32)));
typedef uint32_t uvec __attribute__((vector_size(32)));

INLINE vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

INLINE void vec_store(float *to, vec value)
{
    _mm256_storeu_ps(to, value);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* max and min return b if either is NaN. */
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

INLINE float lane_sum(vec value)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#include "cpu_kernels_body.h"

const spsh__cpu_kernels *spsh__cpu_kernels_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels : NULL;
}

#else

const spsh__cpu_kernels *spsh__cpu_kernels_avx2(void)
{
    return NULL;
}

#endif

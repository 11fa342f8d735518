/* cpu_kernels_avx512.c: sixteen lanes. */
#include "cpu_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME      "avx512"
#define LANES     16
#define TILE_ROWS 8
#define GRAD_TAPS 6
#define TARGET    __attribute__((target("avx512f,avx512dq")))
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));

INLINE vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

INLINE void vec_store(float *to, vec value)
{
    _mm512_storeu_ps(to, value);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* max and min return b if either is NaN. */
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

INLINE float lane_sum(vec value)
{
    return _mm512_reduce_add_ps(value);
}

#include "cpu_kernels_body.h"

const spsh__cpu_kernels *spsh__cpu_kernels_avx512(void)
{
    const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    return has ? &kernels : NULL;
}

#else

const spsh__cpu_kernels *spsh__cpu_kernels_avx512(void)
{
    return NULL;
}

#endif

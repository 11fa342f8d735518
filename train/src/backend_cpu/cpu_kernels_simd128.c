/* cpu_kernels_simd128.c: four lanes, in what the compiler makes of vectors of 16 bytes everywhere:
 * SSE2 on every x86-64, NEON on every aarch64. */
#include "cpu_kernels.h"

#include <math.h>
#include <string.h>

#define NAME      "simd128"
#define LANES     4
#define TILE_ROWS 4
#define GRAD_TAPS 3
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));
typedef uint32_t uvec __attribute__((vector_size(16)));

INLINE vec vec_load(const float *from)
{
    vec value;
    memcpy(&value, from, sizeof(value));
    return value;
}

INLINE void vec_store(float *to, vec value)
{
    memcpy(to, &value, sizeof(value));
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

INLINE vec vec_pick(ivec where, vec a, vec b)
{
    return (vec)((where & (ivec)a) | (~where & (ivec)b));
}

/* max and min return b if either is NaN. */
INLINE vec vec_max(vec a, vec b)
{
    return vec_pick(a > b, a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return vec_pick(a < b, a, b);
}

INLINE vec vec_sqrt(vec value)
{
    for (int lane = 0; lane < LANES; lane++)
        value[lane] = sqrtf(value[lane]);
    return value;
}

INLINE float lane_sum(vec value)
{
    return (value[0] + value[2]) + (value[1] + value[3]);
}

#include "cpu_kernels_body.h"

const spsh__cpu_kernels *spsh__cpu_kernels_simd128(void)
{
    return &kernels;
}

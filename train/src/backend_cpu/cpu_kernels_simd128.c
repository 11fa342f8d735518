/* cpu_kernels_simd128.c: four lanes, as the compiler's generic vectors of 16 bytes: SSE2 on every
 * x86-64, NEON on every aarch64. */
#include "cpu_kernels.h"

#include <math.h>
#include <string.h>

#define NAME      "simd128"
#define LANES     4
#define TILE_ROWS 4
#define GRAD_TAPS 3
#define TARGET

#include "cpu_kernels_vec.h"

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

#include "cpu_kernels_body.h"

const spsh__cpu_kernels *spsh__cpu_kernels_simd128(void)
{
    return &kernels;
}

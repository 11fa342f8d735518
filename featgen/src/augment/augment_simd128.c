/* augment_simd128.c: four lanes at a time, with the baseline vectors of x86-64 (SSE2) and aarch64
 * (NEON). */
#include "augment_kernels.h"

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#define NAME "sse2"
#else
#define NAME "neon"
#endif
#define VEC_LANES 4
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(16)));

INLINE float sum8(const vec *sums)
{
    const vec four = sums[0] + sums[1];
    const vec two = four + __builtin_shufflevector(four, four, 2, 3, 2, 3);
    return two[0] + two[1];
}

#include "augment_kernels_body.h"

const spsh__augment_isa *spsh__augment_simd128(void)
{
    return &isa;
}

#else

const spsh__augment_isa *spsh__augment_simd128(void)
{
    return NULL;
}

#endif

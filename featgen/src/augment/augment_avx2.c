/* augment_avx2.c: eight lanes at a time. */
#include "augment_kernels.h"

#if defined(__x86_64__)

#define NAME      "avx2"
#define VEC_LANES 8
#define TARGET    __attribute__((target("avx2")))
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(32)));
typedef float half_vec __attribute__((vector_size(16)));

INLINE float sum8(const vec *sums)
{
    const half_vec four = __builtin_shufflevector(sums[0], sums[0], 0, 1, 2, 3) +
                          __builtin_shufflevector(sums[0], sums[0], 4, 5, 6, 7);
    const half_vec two = four + __builtin_shufflevector(four, four, 2, 3, 2, 3);
    return two[0] + two[1];
}

#include "augment_kernels_body.h"

const spsh__augment_isa *spsh__augment_avx2(void)
{
    return __builtin_cpu_supports("avx2") ? &isa : NULL;
}

#else

const spsh__augment_isa *spsh__augment_avx2(void)
{
    return NULL;
}

#endif

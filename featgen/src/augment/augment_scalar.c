/* augment_scalar.c: one lane at a time, plain C. */
#include "augment_kernels.h"

#define NAME      "scalar"
#define VEC_LANES 1
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec;

INLINE float sum8(const vec *sums)
{
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

#include "augment_kernels_body.h"

const spsh__augment_isa *spsh__augment_scalar(void)
{
    return &isa;
}

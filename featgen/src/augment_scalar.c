/* augment_scalar.c: one lane at a time, plain C. */
#include "augment_kernels.h"

#define NAME      "scalar"
#define VEC_LANES 1
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec;

#include "augment_kernels_body.h"

const spsh__augment_isa *spsh__augment_scalar(void)
{
    return &isa;
}

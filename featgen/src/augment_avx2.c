/* augment_avx2.c: eight lanes at a time. */
#include "augment_kernels.h"

#if defined(__x86_64__)

#define NAME      "avx2"
#define VEC_LANES 8
#define TARGET    __attribute__((target("avx2")))
#define INLINE    TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(32)));

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

/* cpu_kernels_avx2.c: eight lanes. */
#include "cpu_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME       "avx2"
#define LANES      8
#define TILE_ROWS  4
#define GRAD_TAPS  3
#define TARGET     __attribute__((target("avx2,fma")))
#define X86(name_) _mm256_##name_

#include "cpu_kernels_vec.h"

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

/* cpu_kernels_avx512.c: sixteen lanes. */
#include "cpu_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define NAME       "avx512"
#define LANES      16
#define TILE_ROWS  8
#define GRAD_TAPS  6
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#define X86(name_) _mm512_##name_

#include "cpu_kernels_vec.h"

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

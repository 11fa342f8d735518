/* cpu_kernels.c: which instruction set this processor has for cpu_kernels.h. */
#include "cpu_kernels.h"

const spsh__cpu_kernels *spsh__cpu_kernels_best(void)
{
    const spsh__cpu_kernels *best = spsh__cpu_kernels_avx512();
    if (best == NULL)
        best = spsh__cpu_kernels_avx2();
    return best != NULL ? best : spsh__cpu_kernels_simd128();
}

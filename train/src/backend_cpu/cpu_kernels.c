/* cpu_kernels.c: choose the instruction set of cpu_kernels.h that this processor supports. */
#include "cpu_kernels.h"

const spsh__cpu_kernels *spsh__cpu_kernels_best(void)
{
    const spsh__cpu_kernels *best = spsh__cpu_kernels_avx512();
    if (best == NULL)
        best = spsh__cpu_kernels_avx2();
    return best != NULL ? best : spsh__cpu_kernels_simd128();
}

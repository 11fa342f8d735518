/* cpu_kernels_vec.h: the vectors of cpu_kernels_body.h, for a file that has defined LANES and
 * TARGET. It may define X86(name_), which adds the prefix of its instruction set to the name of an
 * intrinsic. Otherwise the file defines the functions below itself.
 */
#include <stdint.h>

#define INLINE TARGET __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

INLINE vec vec_pick(ivec where, vec a, vec b)
{
    return (vec)((where & (ivec)a) | (~where & (ivec)b));
}

#ifdef X86

INLINE vec vec_load(const float *from)
{
    return X86(loadu_ps)(from);
}

INLINE void vec_store(float *to, vec value)
{
    X86(storeu_ps)(to, value);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return X86(fmadd_ps)(a, b, c);
}

/* max and min return b if either is NaN. */
INLINE vec vec_max(vec a, vec b)
{
    return X86(max_ps)(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return X86(min_ps)(a, b);
}

INLINE vec vec_sqrt(vec value)
{
    return X86(sqrt_ps)(value);
}

#endif

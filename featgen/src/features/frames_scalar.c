/* frames_scalar.c: one lane, plain C. */
#include "frames.h"
#include "frames_constants.h"

#define NAME  "scalar"
#define LANES 1
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec;
typedef int32_t ivec;

INLINE vec vec_max(vec a, vec b)
{
    return a > b ? a : b;
}

INLINE vec vec_min(vec a, vec b)
{
    return a < b ? a : b;
}

INLINE vec vec_sqrt(vec value)
{
    return sqrtf(value);
}

INLINE vec vec_of_ints(ivec value)
{
    return (float)value;
}

INLINE vec vec_load(const float *from)
{
    return *from;
}

INLINE vec vec_load_i16(const int16_t *from)
{
    return (float)*from;
}

INLINE void vec_store(float *to, vec value)
{
    *to = value;
}

INLINE void gather4(const float *const *windows, size_t at, vec *x)
{
    for (size_t i = 0; i < 4; i++)
        x[i] = windows[0][at + i];
}

INLINE void scatter4(float *const *rows, size_t at, const vec *y)
{
    for (size_t i = 0; i < 4; i++)
        rows[0][at + i] = y[i];
}

#include "frames_body.h"

const spsh__frames_isa *spsh__frames_scalar(void)
{
    return &isa;
}

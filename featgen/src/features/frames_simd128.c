/* frames_simd128.c: four lanes, with the baseline vectors of x86-64 (SSE2) and aarch64 (NEON). */
#include "frames.h"
#include "frames_constants.h"

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#include <emmintrin.h>
#define NAME "sse2"
#else
#include <arm_neon.h>
#define NAME "neon"
#endif

#define LANES 4
#define TARGET
#define INLINE __attribute__((always_inline)) static inline

typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));
typedef int16_t half_vec __attribute__((vector_size(8)));

#if defined(__x86_64__)
INLINE vec vec_max(vec a, vec b)
{
    return _mm_max_ps(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return _mm_min_ps(a, b);
}

INLINE vec vec_sqrt(vec value)
{
    return _mm_sqrt_ps(value);
}
#else
INLINE vec vec_max(vec a, vec b)
{
    return (vec)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

INLINE vec vec_min(vec a, vec b)
{
    return (vec)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

INLINE vec vec_sqrt(vec value)
{
    return (vec)vsqrtq_f32((float32x4_t)value);
}
#endif

INLINE vec vec_of_ints(ivec value)
{
    return __builtin_convertvector(value, vec);
}

INLINE vec vec_load(const float *from)
{
    vec value;
    memcpy(&value, from, sizeof(value));
    return value;
}

INLINE vec vec_load_i16(const int16_t *from)
{
    half_vec value;
    memcpy(&value, from, sizeof(value));
    return vec_of_ints(__builtin_convertvector(value, ivec));
}

INLINE void vec_store(float *to, vec value)
{
    memcpy(to, &value, sizeof(value));
}

INLINE void transpose4(vec *x)
{
    const vec low01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    const vec low23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    const vec high01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    const vec high23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    x[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

INLINE void gather4(const float *const *windows, size_t at, vec *x)
{
    vec quads[4];
    for (size_t lane = 0; lane < 4; lane++)
        quads[lane] = vec_load(windows[lane] + at);
    transpose4(quads);
    for (size_t i = 0; i < 4; i++)
        x[i] = quads[i];
}

INLINE void scatter4(float *const *rows, size_t at, const vec *y)
{
    vec quads[4] = {y[0], y[1], y[2], y[3]};
    transpose4(quads);
    for (size_t lane = 0; lane < 4; lane++)
        vec_store(rows[lane] + at, quads[lane]);
}

#include "frames_body.h"

const spsh__frames_isa *spsh__frames_simd128(void)
{
    return &isa;
}

#else

const spsh__frames_isa *spsh__frames_simd128(void)
{
    return NULL;
}

#endif

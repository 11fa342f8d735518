/* augment_kernels.h: the loops of augmentation that take time.
 *
 * All work on eight lanes, in vectors of 1, 4 or 8 floats, so that the order of operations is the
 * same for every instruction set. augment_kernels_body.h is the one text of them, compiled once for
 * each (augment_scalar.c, augment_simd128.c, augment_avx2.c).
 *
 * The transform: S = 8 M numbers x[8 m + v] are M points of eight lanes v, each lane transformed
 * for itself, M a power of two:
 *
 *     X_v[k] = sum over m of x[8 m + v] exp(-2 pi i k m / M)
 *
 * Lane v of a cyclic convolution x * h of S numbers then is, with D(k) = exp(-2 pi i k / M) for
 * what goes past the end of eight lanes and so is one point later,
 *
 *     Y_v[k] = sum over u <= v of X_u[k] H_(v - u)[k] + sum over u > v of X_u[k] H_(v - u + 8)[k]
 * D(k)
 *
 * so neither bits nor lanes are ever reversed: the results of the transform stay where the last
 * pass leaves them, and the inverse begins there. A delayed response is transformed like any other,
 * so that D needs no table.
 */
#ifndef SPSH_AUGMENT_KERNELS_H
#define SPSH_AUGMENT_KERNELS_H

#include "speechshard/base.h"

enum {
    SPSH__AUGMENT_LANES = 8,
    SPSH__POINT_FLOATS = 2 * SPSH__AUGMENT_LANES,    /* eight real parts, eight imaginary ones */
    SPSH__RESPONSE_FLOATS = 4 * SPSH__AUGMENT_LANES, /* real parts of lanes one point later and as
                                                        they are, imaginary parts likewise */
    SPSH__POINTS_LOG2_MAX = 20,
};

/* One change of speed: output i is at input i * down / up. */
typedef struct spsh__resampler {
    uint32_t percent;  /* 100 * down / up */
    uint32_t up, down; /* without a common divisor */
    uint32_t half;     /* inputs on each side of an output; a multiple of 4 */
    float *weights;    /* up rows of 2 * half: of the place i * down % up between two inputs */
} spsh__resampler;

/* For j = 0 ... 2^b / 4 - 1: cos, -sin of 2 pi j t / 2^b, t = 1, 2, 3; of passes over blocks of 2^b
 * points. */
typedef struct spsh__turns {
    const float *of_log2[SPSH__POINTS_LOG2_MAX + 1];
} spsh__turns;

typedef struct spsh__augment_isa {
    const char *name;
    /* x: input 0, with half zeros (or inputs) before it and behind the last. y: count outputs. */
    void (*resample_fn)(const spsh__resampler *resampler, const float *x, uint64_t count, float *y);
    /* 2^points_log2 points in place. The inverse is not divided by their number. */
    void (*transform_fn)(const spsh__turns *turns, uint32_t points_log2, float *points);
    void (*inverse_fn)(const spsh__turns *turns, uint32_t points_log2, float *points);
    /* Each point times the response's. */
    void (*multiply_fn)(const float *response, uint64_t point_count, float *points);
    void (*from_i16_fn)(const int16_t *samples, uint64_t count, float *x);
    /* y = x * scale */
    void (*scale_fn)(const float *x, uint64_t count, float scale, float *y);
    /* x += noise * scale */
    void (*add_fn)(const int16_t *noise, uint64_t count, float scale, float *x);
    /* x * scale to the nearest int16, ties to even; returns how many were beyond. */
    uint64_t (*to_i16_fn)(const float *x, uint64_t count, float scale, int16_t *samples);
} spsh__augment_isa;

/* The best that this processor has; or by name (tests), NULL when it is not there. */
const spsh__augment_isa *spsh__augment_isa_best(void);
const spsh__augment_isa *spsh__augment_isa_named(const char *name);

/* NULL where they were not compiled. */
const spsh__augment_isa *spsh__augment_scalar(void);
const spsh__augment_isa *spsh__augment_simd128(void);
const spsh__augment_isa *spsh__augment_avx2(void);

#endif

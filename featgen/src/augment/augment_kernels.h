/* augment_kernels.h: the inner loops of augmentation.
 *
 * All of them work on eight lanes, in vectors of 1, 4 or 8 floats, so that the order of operations
 * is the same for every instruction set. augment_kernels_body.h is their only source, compiled once
 * for each instruction set (augment_scalar.c, augment_simd128.c, augment_avx2.c).
 *
 * The transform: S = 8 M numbers x[8 m + v] are M points of eight lanes v. Each lane is transformed
 * separately. M is a power of two:
 *
 *     X_v[k] = sum over m of x[8 m + v] exp(-2 pi i k m / M)
 *
 * Let D(k) = exp(-2 pi i k / M), for products that pass the end of the eight lanes and so are one
 * point later. Lane v of a cyclic convolution x * h of S numbers then is
 *
 *     Y_v[k] =        sum over u <= v of X_u[k] H_(v - u)[k]
 *            + D(k) * sum over u >  v of X_u[k] H_(v - u + 8)[k]
 *
 * So neither bits nor lanes are ever reversed: the results of the transform stay where the last
 * pass leaves them, and the inverse begins there. A delayed response is transformed like any other,
 * so that D needs no table.
 */
#ifndef SPSH_AUGMENT_KERNELS_H
#define SPSH_AUGMENT_KERNELS_H

#include "speechshard/base.h"

enum {
    SPSH__AUGMENT_LANES = 8,
    SPSH__POINT_FLOATS = 2 * SPSH__AUGMENT_LANES, /* eight real parts, eight imaginary ones */
    /* Real parts of the response delayed by a point, then of the response, then the imaginary parts
     * in the same order. */
    SPSH__RESPONSE_FLOATS = 4 * SPSH__AUGMENT_LANES,
    SPSH__POINTS_LOG2_MAX = 20,
};

/* One change of speed: output i is at input i * down / up. */
typedef struct spsh__resampler {
    uint32_t percent;  /* 100 * down / up */
    uint32_t up, down; /* without a common divisor */
    uint32_t half;     /* inputs on each side of an output; a multiple of 4 */
    float *weights;    /* up rows of 2 * half weights: row i * down % up */
} spsh__resampler;

/* For j = 0 ... 2^b / 4 - 1: cos, -sin of 2 pi j t / 2^b, t = 1, 2, 3; for passes over blocks of
 * 2^b points. */
typedef struct spsh__turns {
    const float *of_log2[SPSH__POINTS_LOG2_MAX + 1];
} spsh__turns;

typedef struct spsh__augment_isa {
    const char *name;
    /* x: input 0, with `half` zeros (or inputs) before it and after the last. y: count outputs. */
    void (*resample_fn)(const spsh__resampler *resampler, const float *x, uint64_t count, float *y);
    /* Transform 2^points_log2 points in place. The inverse is not divided by their number. */
    void (*transform_fn)(const spsh__turns *turns, uint32_t points_log2, float *points);
    void (*inverse_fn)(const spsh__turns *turns, uint32_t points_log2, float *points);
    /* Multiply each point by the response's point. */
    void (*multiply_fn)(const float *response, uint64_t point_count, float *points);
    void (*from_i16_fn)(const int16_t *samples, uint64_t count, float *x);
    /* y = x * scale */
    void (*scale_fn)(const float *x, uint64_t count, float scale, float *y);
    /* x += noise * scale */
    void (*add_fn)(const int16_t *noise, uint64_t count, float scale, float *x);
    /* Convert x * scale to the nearest int16, ties to even. Returns the number of clipped values.
     */
    uint64_t (*to_i16_fn)(const float *x, uint64_t count, float scale, int16_t *samples);
} spsh__augment_isa;

/* Return the best instruction set of this processor, or the one with a name (tests); NULL if it is
 * not available. */
const spsh__augment_isa *spsh__augment_isa_best(void);
const spsh__augment_isa *spsh__augment_isa_named(const char *name);

/* NULL if they were not compiled. */
const spsh__augment_isa *spsh__augment_scalar(void);
const spsh__augment_isa *spsh__augment_simd128(void);
const spsh__augment_isa *spsh__augment_avx2(void);

#endif

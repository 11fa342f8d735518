/* cpu_kernels.h: the inner loops of the backend `cpu`, once per instruction set.
 *
 * exp, tanh, and the logistic function are our polynomials, not functions of libm, so results do
 * not depend on the installed libm. NaN stays NaN.
 */
#ifndef SPSH_TRAIN_CPU_KERNELS_H
#define SPSH_TRAIN_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPSH__TILE_VECTORS = 3, /* vectors of columns per tile */
    SPSH__LANES_MAX = 16,   /* floats of a vector */
    SPSH__TILE_ROWS_MAX = 8,
    SPSH__TILE_COLUMNS_MAX = SPSH__TILE_VECTORS * SPSH__LANES_MAX,
    SPSH__GRAD_CHANNELS = 4, /* channels of spsh__cpu_taps_grad */
    SPSH__GRAD_TAPS_MAX = 6,
};

/* out[r][c] = sum over k < depth of rows[k * tile_rows + r] * columns[at(k) + c], with at(k) =
 * offsets[k], or k * step without offsets; r < tile_rows, c < vectors * lanes. A product of
 * matrices, or a convolution whose offsets are its taps. */
typedef struct spsh__cpu_tile {
    const float *rows, *columns;
    const uint32_t *offsets;
    size_t step, depth;
    uint32_t vectors; /* 1 ... SPSH__TILE_VECTORS */
    float *out;
    size_t out_stride;
} spsh__cpu_tile;

/* out[o][k] += sum over lines f and t < vectors * lanes of dy[o * dy_channel + f * dy_line + t] *
 * x[f * x_line + taps[k] + t]; o < SPSH__GRAD_CHANNELS, k < tap_count. */
typedef struct spsh__cpu_taps_grad {
    const float *dy, *x;
    size_t dy_channel, dy_line, x_line;
    const uint32_t *taps; /* grad_taps elements, of which the first tap_count are used */
    size_t tap_count;     /* at most grad_taps */
    size_t lines, vectors;
    float *out; /* [SPSH__GRAD_CHANNELS][SPSH__GRAD_TAPS_MAX] */
} spsh__cpu_taps_grad;

/* One step of one utterance. gates: 4 (LSTM: i, f, g, o) or 3 (GRU: r, z, n) times hidden. On entry
 * they hold the part from the input, on return their values. product: the recurrent product. */
typedef struct spsh__cpu_cell {
    uint32_t hidden;
    float *gates;
    const float *product, *bias;
    const float *before; /* LSTM: c of the step before; GRU: h */
    float *inner;        /* LSTM: c, written; GRU: the reset gate's factor, written */
    float *h;            /* written */
} spsh__cpu_cell;

/* The gradient of h is dh + product (+ carry of GRU). gates: values on entry, gradients
 * of their inputs on return. */
typedef struct spsh__cpu_cell_grad {
    uint32_t hidden;
    float *gates;
    const float *before;
    float *inner;         /* LSTM: read; GRU: becomes its gradient */
    const float *dh;      /* gradient from the layer above */
    const float *product; /* gradient from the next step, through the recurrent weights */
    float *carry;         /* gradient from the next step that bypasses them: LSTM of c, GRU of h;
                             updated */
} spsh__cpu_cell_grad;

typedef struct spsh__sgd_factors {
    float rate, momentum, decay, gradient_scale;
    bool is_nesterov;
} spsh__sgd_factors;

typedef struct spsh__adamw_factors {
    float keep;                       /* 1 - rate * weight decay */
    float beta1, beta2, gain1, gain2; /* gain: 1 - beta */
    float epsilon, gradient_scale;
    float step; /* rate / (1 - beta1^t) */
    float root; /* 1 / sqrt(1 - beta2^t) */
} spsh__adamw_factors;

typedef struct spsh__cpu_kernels {
    const char *name;
    uint32_t lanes, tile_rows, grad_taps;

    void (*tile_fn)(const spsh__cpu_tile *t);
    void (*taps_grad_fn)(const spsh__cpu_taps_grad *g);
    void (*lstm_fn)(const spsh__cpu_cell *c);
    void (*lstm_grad_fn)(const spsh__cpu_cell_grad *g);
    void (*gru_fn)(const spsh__cpu_cell *c);
    void (*gru_grad_fn)(const spsh__cpu_cell_grad *g);

    /* Sums in blocks of floats, blocks in double. */
    double (*sum_fn)(const float *x, size_t count);
    double (*square_sum_fn)(const float *x, float mean, size_t count); /* sum of squares of x -
                                                                          mean */
    double (*dot_fn)(const float *x, float mean, const float *y, size_t count);
    float (*max_fn)(const float *x, size_t count);                        /* not empty */
    double (*exp_fn)(const float *x, float less, float *y, size_t count); /* y NULL: the sum only */

    /* sums[c] = sum over rows of x[r * stride + c] */
    void (*column_sums_fn)(const float *x, size_t stride, size_t rows, float *sums, size_t width);

    /* y = a * x + c */
    void (*affine_fn)(float a, const float *x, float c, float *y, size_t count);
    /* z = a * x + b * y + c; z may be x or y */
    void (*blend_fn)(const float abc[3], const float *x, const float *y, float *z, size_t count);
    /* z += x * y */
    void (*multiply_add_fn)(const float *x, const float *y, float *z, size_t count);
    void (*clip_fn)(float limit, const float *x, float *y, size_t count);
    void (*clip_grad_fn)(float limit, const float *y, const float *dy, float *dx, size_t count);
    void (*sgd_fn)(const spsh__sgd_factors *o, float *w, const float *g, float *moment,
                   size_t count);
    void (*adamw_fn)(const spsh__adamw_factors *o, float *w, const float *g,
                     float *const moments[2], size_t count);
} spsh__cpu_kernels;

/* NULL if the processor does not support it. */
const spsh__cpu_kernels *spsh__cpu_kernels_avx512(void);
const spsh__cpu_kernels *spsh__cpu_kernels_avx2(void);
const spsh__cpu_kernels *spsh__cpu_kernels_simd128(void);
const spsh__cpu_kernels *spsh__cpu_kernels_best(void);

#endif

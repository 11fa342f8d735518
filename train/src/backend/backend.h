/* backend.h: the operators of models, as a table: `reference`, `cpu`, `cuda`.
 *
 * Memory belongs to the backend: only operators, read_f32_fn, and similar functions read and write
 * a buffer. The backend defines the element type: double in `reference`, float in `cpu`. Operators
 * return nothing. The first failure is kept: no memory for scratch, which grows to the largest
 * shape seen and then stays, or a device error. Later results are undefined, and status_fn returns
 * the failure. The trainer calls status_fn once per step. A shape with a zero needs no work and is
 * not an error.
 *
 * Shapes. Convolutions use [N][C][F][T] (T innermost). All later operators use rows [T][N][W]: row
 * t * N + n. Only t < lengths[n] counts for utterance n. Rows from there on are padding. Operators
 * documented as "masked" write zeros there. All others leave undefined values, which are never
 * used.
 *
 * Results are identical bits for any number of threads: only the shape determines the pieces of an
 * operator's work, and every sum has a fixed order within a piece and over pieces.
 *
 * Gradients: _backward functions overwrite dx and add to dw. The trainer zeroes gradients once per
 * step, and micro-batches add up. A NULL dx is not computed.
 */
#ifndef SPSH_TRAIN_BACKEND_H
#define SPSH_TRAIN_BACKEND_H

#include <stdbool.h>

#include "speechshard/cuda.h"
#include "step_rule.h"

/* Precision of products. Sums, norms, losses, weights, and moments are always floats (or doubles).
 * In the last two precisions, activations, their gradients, and a copy of the weights have 16 bits.
 */
typedef enum spsh__precision {
    SPSH__FP32 = 0, /* element type of the backend: float or double */
    SPSH__TF32 = 1, /* factors rounded to 10 fraction bits */
    SPSH__BF16 = 2,
    SPSH__FP16 = 3, /* gradients are scaled: spsh__loss_scale */
} spsh__precision;

/* Memory of a backend. Elements have the type of the backend (element_bytes each). With is_half
 * they have 16 bits in the precision of the backend. data NULL: no buffer. spsh__at makes views. */
typedef struct spsh__backend_buffer {
    void *data;
    bool is_half;
} spsh__backend_buffer;

typedef struct spsh__conv_shape {
    uint32_t batch, in_channels, out_channels;
    uint32_t in_bins, in_frames;   /* F, T */
    uint32_t out_bins, out_frames; /* as spsh__conv_out returns */
    uint32_t kernel_bins, kernel_frames, stride_bins, stride_frames, pad_bins, pad_frames;
} spsh__conv_shape;

/* [frames][batch][width] */
typedef struct spsh__rows {
    uint32_t frames, batch, width;
} spsh__rows;

typedef enum spsh__cell { SPSH__CELL_LSTM = 0, SPSH__CELL_GRU = 1 } spsh__cell;

/* Algorithms for recurrent layers on a GPU (backend_cuda_rnn.h). */
typedef enum spsh__rnn_algorithm {
    SPSH__RNN_AUTO = 0, /* 16 bits: first try persistent; else cudnn-persistent */
    SPSH__RNN_PERSISTENT,
    SPSH__RNN_CUDNN_PERSISTENT,
    SPSH__RNN_CUDNN,
    SPSH__RNN_STEPWISE,
    SPSH__RNN_ALGORITHMS
} spsh__rnn_algorithm;

/* One direction. Gates: LSTM (Hochreiter and Schmidhuber 1997, with forget gates) i, f, g, o; GRU
 * (Cho and others 2014) r, z, n with the reset gate inside (linear before reset): as PyTorch and
 * cuDNN. Weights [gates * hidden][inputs], [gates * hidden][hidden], two biases of gates * hidden.
 */
typedef struct spsh__rnn_shape {
    spsh__cell cell;
    uint32_t frames, batch, inputs, hidden;
} spsh__rnn_shape;

static inline uint32_t spsh__rnn_gates(const spsh__rnn_shape *s)
{
    return s->cell == SPSH__CELL_LSTM ? 4 : 3;
}

static inline size_t spsh__rnn_rows(const spsh__rnn_shape *s)
{
    return (size_t)s->frames * s->batch;
}

static inline bool spsh__rnn_is_empty(const spsh__rnn_shape *s)
{
    return s->frames == 0 || s->batch == 0 || s->hidden == 0;
}

typedef struct spsh__rnn_weights {
    spsh__backend_buffer input, recurrent, input_bias;
    spsh__backend_buffer recurrent_bias; /* data NULL: no such bias */
} spsh__rnn_weights;

/* Batch statistics per channel. Elements count if their frame is below lengths[n] (NULL: all), or
 * always with counts_padding. There y = (x - mean) * scale * weight + bias, and 0 elsewhere. scale
 * is 1 / sqrt(variance + 1e-5). If no element counts, mean and variance are 0, and the running
 * statistics do not change. They do not change either if the batch's statistics are not finite, so
 * a skipped step has no effect.
 *
 * Convolutions are masked: padding that counts is 0 in x, whatever is in memory. y and dx are 0
 * there, and dy is ignored.
 */
typedef struct spsh__norm_shape {
    bool is_conv; /* [N][C][F][T]; else rows [T][N][W], channels = W */
    uint32_t batch, channels, bins, frames;
    bool counts_padding; /* `compat`: padding counts in the statistics */
    double clip;         /* convolutions: y becomes min(max(y, 0), clip), NaN stays; 0: no clip */
} spsh__norm_shape;

typedef struct spsh__norm_state {
    spsh__backend_buffer weight, bias;                   /* parameters */
    spsh__backend_buffer running_mean, running_variance; /* momentum 0.1, unbiased variance */
    spsh__backend_buffer batch_mean, batch_scale;        /* from training, kept for backward */
    /* Bias of the convolution, which the norm adds to x except in padding. NULL without
     * norm_adds_bias. batch_mean excludes it. */
    spsh__backend_buffer conv_bias;
} spsh__norm_state;

/* Labels of a batch, on the host: utterance n has labels[offsets[n] ... offsets[n + 1]). */
typedef struct spsh__label_batch {
    const uint32_t *labels;
    const uint32_t *offsets; /* batch + 1 entries */
} spsh__label_batch;

typedef struct spsh__ctc_shape {
    uint32_t frames, batch, symbols, blank;
    double scale; /* factor of all gradients: loss scale and accumulation */
} spsh__ctc_shape;

typedef struct spsh__ctc_result { /* result of one utterance */
    double loss;                  /* -ln p; infinite if infeasible; 0 without frames */
    bool is_infeasible;           /* fewer frames than labels and repeats: gradient 0 */
} spsh__ctc_result;

/* With g = gradient * gradient_scale + weight_decay * w (if it decays), as PyTorch has it:
 *
 *     m = momentum * m + g;  w -= rate * (is_nesterov ? g + momentum * m : m)
 */
typedef struct spsh__sgd {
    double rate, momentum, weight_decay;
    bool is_nesterov;
} spsh__sgd;

/* Loshchilov and Hutter 2019, with g = gradient * gradient_scale, as PyTorch has it:
 *
 *     w -= rate * weight_decay * w                                      if it decays
 *     m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g
 *     w -= rate * m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon)
 */
typedef struct spsh__adamw {
    double rate, beta1, beta2, epsilon, weight_decay;
    uint64_t step; /* from 1 */
} spsh__adamw;

/* c[m][n] = a[m][k] b[k][n] + keep * c; a is [k][m] if a_transposed, b is [n][k] if b_transposed.
 * Row-major, with row strides in elements. */
typedef struct spsh__gemm {
    bool a_transposed, b_transposed;
    uint32_t m, n, k;
    spsh__backend_buffer a, b, c;
    size_t a_stride, b_stride, c_stride;
    double keep; /* 0: c is not read */
} spsh__gemm;

typedef struct spsh__conv_grad {
    spsh__backend_buffer x, weight, dy;  /* inputs */
    spsh__backend_buffer dx;             /* data NULL: not computed */
    spsh__backend_buffer dweight, dbias; /* added to; data of dbias NULL: not computed */
} spsh__conv_grad;

typedef struct spsh__norm_io {
    spsh__backend_buffer x, y; /* y may be x; padding of a convolution's x may be overwritten */
} spsh__norm_io;

typedef struct spsh__norm_grad {
    spsh__backend_buffer x, dy, dx;      /* dx may be dy; 0 in padding unless counts_padding */
    spsh__backend_buffer dweight, dbias; /* added to */
    spsh__backend_buffer y;              /* with clip, which also needs dx */
    spsh__backend_buffer dconv_bias;     /* added to; data NULL: not computed */
} spsh__norm_grad;

/* Arguments of rnn_forward_fn for one direction. */
typedef struct spsh__rnn_pass {
    const spsh__rnn_weights *weights;
    spsh__backend_buffer x, y, reserve;
} spsh__rnn_pass;

typedef struct spsh__rnn_grad {
    const spsh__rnn_weights *weights, *gradients; /* gradients are added to */
    spsh__backend_buffer x, y, reserve;           /* reserve is overwritten */
    spsh__backend_buffer dy;                      /* 0 in padding; overwritten */
    spsh__backend_buffer dx;                      /* data NULL: not computed */
} spsh__rnn_grad;

/* y[t] = sum over j of weight[w][j] x[t + j], for t + j below frames (zeros past the end), per
 * column w. */
typedef struct spsh__lookahead {
    uint32_t frames, batch, width, context;
    spsh__backend_buffer weight; /* [width][context] */
} spsh__lookahead;

typedef struct spsh__lookahead_grad {
    spsh__backend_buffer x, dy, dx, dweight; /* dweight is added to */
} spsh__lookahead_grad;

typedef struct spsh__ctc_io {
    spsh__backend_buffer logits; /* [T][N][V] */
    /* overwritten: (softmax - posterior) * scale * weight; 0 in padding, and if the weight is 0;
     * data NULL: not computed */
    spsh__backend_buffer dlogits;
    const double *weights;     /* weights of utterances; NULL: 1; results are unweighted */
    spsh__ctc_result *results; /* N, on the host */
} spsh__ctc_io;

/* Softmax cross-entropy of rows with one state each. State UINT32_MAX: not trained on. */
typedef struct spsh__cross_entropy {
    size_t rows;
    uint32_t width;
    const uint32_t *states; /* rows, on the host */
    double scale;
    spsh__backend_buffer logits;
    spsh__backend_buffer dlogits; /* (softmax - 1 at the state) * scale; may be logits; data NULL:
                             not computed */
    double *row_losses; /* written: rows, on the host; 0 for rows without a label; NULL: none */
    double loss;        /* written: the sum, without scale */
    uint64_t right;     /* written: rows whose first maximum is the state's logit */
} spsh__cross_entropy;

/* Columns to copy between matrices, to join or split directions. Row strides in elements. */
typedef struct spsh__columns {
    size_t rows;
    uint32_t width;
    spsh__backend_buffer from, to;
    size_t from_stride, to_stride;
} spsh__columns;

#define SPSH__UPDATE_BLOCK   64u /* elements; parameters begin at multiples */
#define SPSH__UPDATE_TOGGLES 96u

/* A slice of the arenas, updated like PyTorch's SGD and AdamW. decays: whether weight decay applies
 * to the slice. */
typedef struct spsh__update {
    spsh__backend_buffer weights, gradients;
    spsh__backend_buffer moments[2]; /* SGD: [0], not used without momentum; AdamW: both */
    size_t count;
    bool decays;
    double gradient_scale; /* factor of gradients, for clipping */
    /* Devices only: parameters with and without decay in one slice. Element i decays if the number
     * of toggles up to (offset + i) / SPSH__UPDATE_BLOCK is odd. Ascending. NULL: `decays` holds
     * for all elements. */
    const uint32_t *toggles;
    uint32_t toggle_count; /* at most SPSH__UPDATE_TOGGLES */
    uint64_t offset;       /* position of the slice in the arena */
    /* Devices only: the result of decide_fn, which replaces gradient_scale. The update changes
     * nothing if it says so. data NULL: none. */
    spsh__backend_buffer decision;
} spsh__update;

#define SPSH__DECISION_ELEMENTS 2u

typedef struct spsh__decide {
    spsh__backend_buffer gradients;
    size_t count; /* not 0 */
    spsh__step_rule rule;
    spsh__backend_buffer decision; /* written: SPSH__DECISION_ELEMENTS floats: the gradient scale,
                                      and 1 to update or 0 to skip */
    double *ret_square_sum;        /* written: on the host; 0 after a failure */
} spsh__decide;

/* to[i] = from[0][i] + from[1][i] + ..., as floats, in the order of rows. One row: a conversion. */
typedef struct spsh__add_rows {
    void *stream;              /* on the backend's device */
    spsh__precision half;      /* BF16 or FP16: type of buffers with is_half, whatever the backend's
                                  precision is */
    spsh__backend_buffer from; /* [rows][count] */
    spsh__backend_buffer to;   /* [count]; may be a row of `from` */
    uint32_t rows;
    size_t count; /* not 0 */
} spsh__add_rows;

/* Features of a batch, in the device's memory, in the layout of the model: zeros past the lengths.
 */
typedef struct spsh__arrange {
    uint32_t batch, frames, width;
    bool is_conv;            /* to [N][1][F][T], else to rows [T][N][W] */
    const void *features;    /* [batch][feature_frames][width] floats */
    uint32_t feature_batch;  /* utterances in `features`, at most `batch` */
    uint32_t feature_frames; /* frames in `features`, at most `frames`; the rest is padding */
    const uint32_t *lengths; /* `in` of batch_fn; at most feature_frames */
    spsh__backend_buffer to;
    void *ready, *done; /* CUDA events, or NULL: wait for `ready` before; record `done` after */
} spsh__arrange;

/* Lengths of a batch, on the host. */
typedef struct spsh__batch_lengths {
    const uint32_t *in, *out; /* frames of features; rows of the model */
    uint32_t batch;
} spsh__batch_lengths;

/* Work that is the same for every batch of a shape: the same operators with the same arguments,
 * except for the data at pointers and the lengths passed to batch_fn. */
typedef struct spsh__graph_segment {
    uint64_t key;    /* key of the shape, not 0 */
    uint32_t number; /* index within the step */
} spsh__graph_segment;

typedef struct spsh__backend spsh__backend;

typedef struct spsh__backend_ops {
    const char *name;
    size_t element_bytes;
    /* Devices: the norm after a convolution adds the convolution's bias and computes its gradient,
     * which saves passes over the result. The convolution has neither. */
    bool norm_adds_bias;

    void (*close_fn)(spsh__backend *b);
    /* The first failure of an operator since open. */
    spsh_status (*status_fn)(spsh__backend *b, spsh_error *err);

    /* memory; alloc_fn: zeroed, aligned to 256 bytes; from and to of a copy do not overlap */
    spsh_status (*alloc_fn)(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                            spsh_error *err);
    void (*free_fn)(spsh__backend *b, spsh__backend_buffer buffer); /* data may be NULL */
    void (*write_f32_fn)(spsh__backend *b, spsh__backend_buffer to, const float *from,
                         size_t count);
    void (*read_f32_fn)(spsh__backend *b, float *to, spsh__backend_buffer from, size_t count);
    void (*zero_fn)(spsh__backend *b, spsh__backend_buffer to, size_t count);
    void (*copy_fn)(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                    size_t count);

    void (*gemm_fn)(spsh__backend *b, const spsh__gemm *g);
    /* x[r][w] += bias[w]; dbias[w] += sum over r of dy[r][w] */
    void (*bias_forward_fn)(spsh__backend *b, size_t rows, uint32_t width,
                            spsh__backend_buffer bias, spsh__backend_buffer x);
    void (*bias_backward_fn)(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer dy,
                             spsh__backend_buffer dbias);
    void (*copy_columns_fn)(spsh__backend *b, const spsh__columns *c);

    /* On a device, weight and y have the kind of x. Biases, and gradients of weights and biases,
     * are floats. bias: data NULL: none.
     */
    void (*conv_forward_fn)(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                            spsh__backend_buffer weight, spsh__backend_buffer bias,
                            spsh__backend_buffer y);
    void (*conv_backward_fn)(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g);
    void (*norm_forward_fn)(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                            bool is_training, const spsh__norm_state *state,
                            const spsh__norm_io *io);
    void (*norm_backward_fn)(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                             const spsh__norm_state *state, const spsh__norm_grad *g);
    /* min(max(x, 0), limit) and its gradient, from y; y may be x, dx may be dy. NaN stays NaN. */
    void (*clip_forward_fn)(spsh__backend *b, double limit, size_t count, spsh__backend_buffer x,
                            spsh__backend_buffer y);
    void (*clip_backward_fn)(spsh__backend *b, double limit, size_t count, spsh__backend_buffer y,
                             spsh__backend_buffer dy, spsh__backend_buffer dx);
    void (*mask_rows_fn)(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                         spsh__backend_buffer x);
    /* the out_ side [N][C][F][T] to rows of C * F (channel-major), and back */
    void (*rows_from_conv_fn)(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer conv, spsh__backend_buffer rows);
    void (*conv_from_rows_fn)(spsh__backend *b, const spsh__conv_shape *s,
                              spsh__backend_buffer rows, spsh__backend_buffer conv);
    /* row t of utterance n becomes row lengths[n] - 1 - t; padding stays where it is */
    void (*reverse_fn)(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                       spsh__backend_buffer from, spsh__backend_buffer to);
    void (*rnn_forward_fn)(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                           spsh__backend_buffer x, spsh__backend_buffer y,
                           spsh__backend_buffer reserve);
    void (*rnn_backward_fn)(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g);
    size_t (*rnn_reserve_fn)(const spsh__rnn_shape *s); /* elements of `reserve` */
    void (*lookahead_forward_fn)(spsh__backend *b, const spsh__lookahead *l, spsh__backend_buffer x,
                                 spsh__backend_buffer y);
    void (*lookahead_backward_fn)(spsh__backend *b, const spsh__lookahead *l,
                                  const spsh__lookahead_grad *g);
    void (*ctc_fn)(spsh__backend *b, const spsh__ctc_shape *s, const uint32_t *lengths,
                   const spsh__label_batch *labels, const spsh__ctc_io *io);
    void (*cross_entropy_fn)(spsh__backend *b, spsh__cross_entropy *c);
    /* y may be x */
    void (*log_softmax_fn)(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                           spsh__backend_buffer y);
    /* ret, on the host: the first maximum of each row. A row with NaNs, in which log_softmax leaves
     * only NaN and -infinity: 0. */
    void (*argmax_fn)(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                      uint32_t *ret);

    /* square_sum: in double. axpy: y += factor * x. mix: y += factor * (theirs - mine); mine may be
     * y */
    double (*square_sum_fn)(spsh__backend *b, spsh__backend_buffer x, size_t count);
    void (*scale_fn)(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count);
    void (*axpy_fn)(spsh__backend *b, double factor, spsh__backend_buffer x, spsh__backend_buffer y,
                    size_t count);
    void (*mix_fn)(spsh__backend *b, double factor, spsh__backend_buffer theirs,
                   spsh__backend_buffer mine, spsh__backend_buffer y, size_t count);
    void (*sgd_fn)(spsh__backend *b, const spsh__sgd *o, const spsh__update *u);
    void (*adamw_fn)(spsh__backend *b, const spsh__adamw *o, const spsh__update *u);

    /* ---- NULL in backends on the host. Operators of a device return before their work is done.
     * Their results on the host (losses, argmax) are valid after finish_fn. Host inputs (labels,
     * states, weights) have been read when an operator returns. Functions that return a number, or
     * read, wait. */
    spsh_status (*alloc_half_fn)(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                                 spsh_error *err);
    /* Convert between buffers of either kind, to nearest, ties to even. */
    void (*convert_fn)(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                       size_t count);
    /* Call before a batch's operators. Their `lengths` must be one of these two pointers. */
    void (*batch_fn)(spsh__backend *b, const spsh__batch_lengths *l);
    void (*arrange_fn)(spsh__backend *b, const spsh__arrange *a);
    void (*finish_fn)(spsh__backend *b);
    /* Both directions of a recurrent layer at once. No buffer that is written is shared. */
    void (*rnn_both_forward_fn)(spsh__backend *b, const spsh__rnn_shape *s,
                                const spsh__rnn_pass passes[2]);
    void (*rnn_both_backward_fn)(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_grad g[2]);
    /* Decide about updates that follow, without a wait of the host. ret_square_sum is valid after
     * finish_fn, which does not wait for these updates. */
    void (*decide_fn)(spsh__backend *b, const spsh__decide *d);
    /* Make later operators of b run after the operators that were enqueued on `before`, another
     * backend of the device. The host does not wait. No other thread may use either meanwhile. */
    void (*follow_fn)(spsh__backend *b, spsh__backend *before);
    /* Leave this many multiprocessors free, for kernels of other libraries that wait for other
     * devices while operators run. Later operators whose blocks wait for each other use the rest.
     * Do not call between a forward and its backward. */
    void (*spare_fn)(spsh__backend *b, uint32_t multiprocessors);
    /* Return true if the captured segment was launched: operators enqueue nothing until
     * segment_end_fn, and may be skipped. false: they work, and are captured if possible. Do not
     * wait in between. */
    bool (*segment_begin_fn)(spsh__backend *b, const spsh__graph_segment *s);
    void (*segment_end_fn)(spsh__backend *b);
    /* Return the stream of lane 0 (cudaStream_t), for callers that enqueue separate work in
     * between. */
    void *(*stream_fn)(spsh__backend *b);
    /* Add rows on another stream. The caller orders it. */
    spsh_status (*add_rows_fn)(spsh__backend *b, const spsh__add_rows *a, spsh_error *err);
} spsh__backend_ops;

/* Operators of every backend: X(NAME) for NAME_fn, which is the function spsh__BACKEND_NAME. */
#define SPSH__OPERATORS(X)                                                                         \
    X(write_f32)                                                                                   \
    X(read_f32)                                                                                    \
    X(zero)                                                                                        \
    X(copy)                                                                                        \
    X(gemm)                                                                                        \
    X(bias_forward)                                                                                \
    X(bias_backward)                                                                               \
    X(copy_columns)                                                                                \
    X(conv_forward)                                                                                \
    X(conv_backward)                                                                               \
    X(norm_forward)                                                                                \
    X(norm_backward)                                                                               \
    X(clip_forward)                                                                                \
    X(clip_backward)                                                                               \
    X(mask_rows)                                                                                   \
    X(rows_from_conv)                                                                              \
    X(conv_from_rows)                                                                              \
    X(reverse)                                                                                     \
    X(rnn_forward)                                                                                 \
    X(rnn_backward)                                                                                \
    X(rnn_reserve)                                                                                 \
    X(lookahead_forward)                                                                           \
    X(lookahead_backward)                                                                          \
    X(ctc)                                                                                         \
    X(cross_entropy)                                                                               \
    X(log_softmax)                                                                                 \
    X(argmax)                                                                                      \
    X(square_sum)                                                                                  \
    X(scale)                                                                                       \
    X(axpy)                                                                                        \
    X(mix)                                                                                         \
    X(sgd)                                                                                         \
    X(adamw)

/* The type of NAME_fn's function: to declare it. */
#define SPSH__OPERATOR_TYPE(name_) __typeof__(*((const spsh__backend_ops *)NULL)->name_##_fn)

/* Output size of a convolution along one axis (bins or frames). */
static inline uint32_t spsh__conv_out(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    return in == 0 || in + 2 * pad < kernel ? 0 : (in + 2 * pad - kernel) / stride + 1;
}

/* Element i of a buffer. */
static inline spsh__backend_buffer spsh__at(const spsh__backend_ops *ops,
                                            spsh__backend_buffer buffer, size_t i)
{
    const size_t bytes = buffer.is_half ? sizeof(uint16_t) : ops->element_bytes;
    return (spsh__backend_buffer){(char *)buffer.data + i * bytes, buffer.is_half};
}

struct spsh__backend {
    const spsh__backend_ops *ops;
    spsh_allocator allocator;
    uint32_t threads;
    const spsh_cuda *cuda; /* cuda: borrowed; else NULL */
    uint32_t device;
    spsh__precision precision;
    bool is_deterministic;
    /* True if the precision is one of the last two. Then these values have 16 bits: the values
     * passed between layers (x, y, dx, dy; a and b of gemm), and the weights of products,
     * convolutions, and recurrent layers (w_ih, w_hh). These stay floats: biases, states of norms,
     * look-ahead weights, logits and all inputs of losses and log_softmax, all dw and dbias, and c
     * of a gemm that makes logits or dw.
     */
    bool has_half;
    uint64_t model_count;    /* models opened so far; part of their segment keys */
    uint32_t batch_multiple; /* with segments: models pad batches to a multiple of it */
    void *state;             /* the backend's */
};

typedef struct spsh__backend_options {
    const char *name;      /* "cpu", "reference", "cuda" */
    uint32_t threads;      /* 0: one per core */
    const spsh_cuda *cuda; /* for "cuda": borrowed until close */
    uint32_t device;
    spsh__precision precision; /* backends on the host: only FP32 */
    bool is_deterministic;     /* cuda: only deterministic algorithms; the host always is */
    bool has_graphs;           /* cuda: capture segments as graphs */
} spsh__backend_options;

/* SPSH_E_NOT_FOUND, _NO_MEMORY; SPSH_E_UNSUPPORTED: a precision, or libraries of the device. */
spsh_status spsh__backend_open_with(const spsh__backend_options *options,
                                    const spsh_allocator *allocator, spsh__backend **ret_backend,
                                    spsh_error *err);
/* On the host: "cpu" or "reference". */
spsh_status spsh__backend_open(const char *name, uint32_t threads, const spsh_allocator *allocator,
                               spsh__backend **ret_backend, spsh_error *err);
void spsh__backend_close(spsh__backend *backend);

/* Wait until the results of operators on the host are valid. */
static inline void spsh__backend_finish(spsh__backend *backend)
{
    if (backend->ops->finish_fn != NULL)
        backend->ops->finish_fn(backend);
}

/* Make later operators of b run after the operators that were called on `before`. */
static inline void spsh__backend_follow(spsh__backend *b, spsh__backend *before)
{
    if (b != before && b->ops->follow_fn != NULL)
        b->ops->follow_fn(b, before);
}

static inline void spsh__backend_spare(spsh__backend *b, uint32_t multiprocessors)
{
    if (b->ops->spare_fn != NULL)
        b->ops->spare_fn(b, multiprocessors);
}

/* alloc_fn and free_fn of backends in host memory. */
spsh_status spsh__host_alloc(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                             spsh_error *err);
void spsh__host_free(spsh__backend *b, spsh__backend_buffer buffer);

/* Open a backend by name, for spsh__backend_open. Each function sets ops and state. After a failure
 * there is nothing to close. */
spsh_status spsh__backend_cpu_open(spsh__backend *backend, spsh_error *err);
spsh_status spsh__backend_reference_open(spsh__backend *backend, spsh_error *err);
spsh_status spsh__backend_cuda_open(spsh__backend *backend, const spsh__backend_options *options,
                                    spsh_error *err);

#endif

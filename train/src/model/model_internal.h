/* model_internal.h: the parts of a model: slices of the arenas, layers, activations.
 *
 * A model is declared once: its slices in the order in which backward completes them, cut into
 * units (one call of spsh__model_unit_done each), which are joined to buckets. Then activations are
 * allocated for the largest batch within the limits. Forward and backward allocate nothing.
 */
#ifndef SPSH_TRAIN_MODEL_INTERNAL_H
#define SPSH_TRAIN_MODEL_INTERNAL_H

#include "model.h"
#include "speechshard/inside.h"

enum {
    SPSH__MODEL_SLICES_MAX = 16 * 10 + 16,
    SPSH__MODEL_UNITS_MAX = 2 * 16 + 4,
    SPSH__MODEL_BUFFERS_MAX = 16 * 8 + 48,
    SPSH__MODEL_NORMS_MAX = 16 + 2,
    SPSH__MODEL_ALIGNMENT = 64, /* elements: 256 bytes of floats */
};

/* One or two directions over rows. Direction 1 runs over utterances that are each reversed within
 * their own length. With zeros at both ends, the results equal those of packed sequences. */
typedef struct spsh__rnn_layer {
    spsh__rnn_shape shape; /* frames and batch are set per batch */
    uint32_t directions;
    bool is_concatenated; /* else directions are summed */
    bool has_two_biases;
    uint32_t slices[2];     /* first slice of each direction: w_ih, w_hh, b_ih, (b_hh) */
    spsh__backend_buffer x; /* borrowed */
    spsh__backend_buffer y[2], reserve[2]; /* [1]: in reversed order */
    spsh__backend_buffer out;              /* 0 in padding */
} spsh__rnn_layer;

typedef struct spsh__norm_layer {
    uint32_t channels, bins;                 /* bins 0: the norm is over rows */
    uint32_t slice;                          /* slice of the weight; the bias is the next slice */
    uint64_t running_mean, running_variance; /* offsets in the statistics */
    spsh__backend_buffer batch_mean, batch_scale;
    uint32_t conv_bias; /* with bins: slice of the bias of the convolution before */
    double clip;        /* as in spsh__norm_shape */
} spsh__norm_layer;

typedef struct spsh__model_ops {
    uint32_t (*out_frames_fn)(uint32_t frames);
    void (*declare_fn)(spsh__model *m);
    void (*activations_fn)(spsh__model *m); /* allocates the activations */
    /* Copy features from [N][T][D] to the model's order, with zeros in padding. */
    void (*arrange_fn)(const spsh__model *m, const float *features, const uint32_t *lengths);
    void (*forward_fn)(spsh__model *m, bool is_training);
    void (*backward_fn)(spsh__model *m, spsh__backend_buffer logit_gradients);
    /* Return the output of a block, except for the last one. activations_fn sets it if the block is
     * in the stage. */
    spsh__backend_buffer *(*border_fn)(spsh__model *m, uint32_t block, uint32_t *ret_width);
} spsh__model_ops;

extern const spsh__model_ops spsh__model_ds2;
extern const spsh__model_ops spsh__model_hybrid;

/* Initial values of a slice: uniform in -bound ... bound, or value if bound is 0. */
typedef struct spsh__slice_start {
    double bound, value;
} spsh__slice_start;

typedef struct spsh__conv_stage { /* convolution; norm with masks and clip */
    spsh__conv_shape shape;       /* batch and frames are set per batch */
    uint32_t weight;              /* slice of the weight; the bias is the next slice */
    spsh__norm_layer *norm;
    spsh__backend_buffer out, y;
} spsh__conv_stage;

struct spsh__model {
    spsh__backend *backend;
    const spsh__backend_ops *b; /* operators of the backend */
    const spsh__model_ops *ops;
    spsh__model_shape shape;
    spsh__model_limits limits;
    spsh__model_stage stage;      /* blocks */
    uint32_t in_width, out_width; /* widths at its borders; 0: the input is features */
    spsh__backend_buffer stage_in, stage_out;
    bool is_forward_only;
    bool is_layout;            /* slices and sizes only, without memory */
    const spsh__model *lender; /* owner of the shared weights and statistics; NULL: not shared */
    bool has_lanes;            /* directions run concurrently */
    bool has_segments;
    uint64_t number; /* index among the backend's models */

    spsh__parameter slices[SPSH__MODEL_SLICES_MAX];
    spsh__slice_start starts[SPSH__MODEL_SLICES_MAX];
    uint32_t slice_count;
    uint64_t arena_elements, weight_count, statistics_elements;
    uint64_t unit_ends[SPSH__MODEL_UNITS_MAX]; /* elements of the arena */
    uint32_t unit_count;
    uint64_t bucket_ends[SPSH__MODEL_UNITS_MAX];
    uint32_t bucket_count;
    spsh__backend_buffer weights, gradients, statistics;
    spsh__backend_buffer diverted;     /* statistics of training; data NULL: statistics */
    spsh__backend_buffer half_weights; /* float16 copy of weights, if the backend uses float16 */

    spsh__backend_buffer buffers[SPSH__MODEL_BUFFERS_MAX]; /* all allocations, to free them */
    uint32_t buffer_count;
    spsh_status take_status; /* first failed allocation */
    spsh_error take_error;
    uint64_t in_rows_max, out_rows_max; /* frames times batch */
    float *staging;                     /* only for backends on the host */
    spsh__backend_buffer upload;        /* only for a device, allocated when features first come
                                           from the host */
    spsh__backend_buffer input, logits, logit_gradients;
    spsh__backend_buffer half_gradients; /* logit gradients for products; data NULL: no float16 */
    spsh__backend_buffer gradient[2];    /* alternating gradients of the layers */
    spsh__backend_buffer in_gradients;   /* the buffer with the final gradients of backward */
    spsh__backend_buffer reversed_x, reversed_dy, reversed_dx;
    spsh__backend_buffer forward_dy; /* only for concatenated directions that run concurrently */

    spsh__rnn_layer rnn[SPSH__MODEL_LAYERS_MAX]; /* in order from the first layer */
    spsh__norm_layer norms[SPSH__MODEL_NORMS_MAX];
    uint32_t norm_count;
    uint32_t output; /* slice of the last product; lstm-hybrid: its bias is the next */

    /* ds2 */
    spsh__conv_stage conv[2];
    spsh__backend_buffer rows;                          /* output of the convolutions */
    spsh__norm_layer *rnn_norm[SPSH__MODEL_LAYERS_MAX]; /* before a layer; NULL: none */
    spsh__norm_layer *output_norm;
    spsh__backend_buffer rnn_normed[SPSH__MODEL_LAYERS_MAX], output_normed;
    uint32_t lookahead_slice;
    spsh__backend_buffer lookahead_out;

    /* lstm-hybrid */
    uint32_t bottleneck_slice;
    spsh__backend_buffer bottleneck_out;

    /* the current batch */
    uint32_t batch, frames, out_frames; /* padded */
    bool is_training;
    uint32_t *in_lengths, *lengths; /* frames and output rows of each utterance, with padding */
    uint32_t unit;                  /* current unit of backward */
    uint32_t bucket;
    void (*bucket_fn)(void *user, uint32_t bucket);
    void *bucket_user;
};

/* Declare a slice and return its number. name: printf format. shape: 0 after the last dimension. */
uint32_t spsh__model_slice(spsh__model *m, const uint32_t shape[4], bool decays,
                           spsh__slice_start start, const char *name, ...) SPSH_PRINTF(5, 6);
void spsh__model_unit_end(spsh__model *m);
/* Declare a norm's two slices and its statistics. */
spsh__norm_layer *spsh__model_norm(spsh__model *m, const char *name, uint32_t channels,
                                   uint32_t bins);
/* Declare the slices of one direction of a layer. number: from 0. */
void spsh__rnn_declare(spsh__model *m, uint32_t number, uint32_t direction);
/* Output width of a layer. */
uint32_t spsh__rnn_width(const spsh__rnn_layer *layer);

/* Allocate activations or their gradients, which are freed with the model: float16 values if the
 * backend uses them. The model keeps the first failure. After it, nothing is allocated: data is
 * NULL. */
spsh__backend_buffer spsh__model_take_values(spsh__model *m, uint64_t elements);
/* Return the number of utterances, with padding, of the largest batch of `frames` frames that the
 * limits allow. */
uint32_t spsh__model_batch_max(const spsh__model *m, uint32_t frames);
void spsh__rnn_take(spsh__model *m, spsh__rnn_layer *layer);
/* Allocate gradient[2] and reversed_*: enough for all layers, and for `elements`. */
void spsh__model_take_scratch(spsh__model *m, uint64_t elements);

static inline void spsh__model_swap(spsh__backend_buffer *a, spsh__backend_buffer *b)
{
    const spsh__backend_buffer kept = *a;
    *a = *b;
    *b = kept;
}

static inline bool spsh__model_has(const spsh__model *m, uint32_t block)
{
    return block >= m->stage.first && block < m->stage.end;
}

static inline spsh__backend_buffer spsh__model_weight(const spsh__model *m, uint32_t slice)
{
    return spsh__at(m->b, m->weights, m->slices[slice].offset);
}

/* Weights in the type for products, convolutions, and recurrent layers. */
static inline spsh__backend_buffer spsh__model_factor(const spsh__model *m, uint32_t slice)
{
    const spsh__backend_buffer arena = m->half_weights.data != NULL ? m->half_weights : m->weights;
    return spsh__at(m->b, arena, m->slices[slice].offset);
}

static inline spsh__backend_buffer spsh__model_gradient(const spsh__model *m, uint32_t slice)
{
    return spsh__at(m->b, m->gradients, m->slices[slice].offset);
}

static inline size_t spsh__model_out_rows(const spsh__model *m)
{
    return (size_t)m->out_frames * m->batch;
}

/* Functions that run a batch. */
void spsh__rnn_forward(spsh__model *m, spsh__rnn_layer *layer, spsh__backend_buffer x);
/* Overwrites dy. Ends the units of its directions except the last, because a preceding norm may
 * belong to the last unit. Directions that run concurrently end together. */
void spsh__rnn_backward(spsh__model *m, spsh__rnn_layer *layer, spsh__backend_buffer dy,
                        spsh__backend_buffer dx);
void spsh__norm_forward(spsh__model *m, const spsh__norm_layer *layer, bool is_training,
                        spsh__backend_buffer x, spsh__backend_buffer y);
/* Works in place. y: the output of forward. */
void spsh__norm_backward(spsh__model *m, const spsh__norm_layer *layer, spsh__backend_buffer x,
                         spsh__backend_buffer y, spsh__backend_buffer dy);
/* y[rows][outputs] = x[rows][inputs] weight^T. The slice's shape gives the sizes of weight. */
void spsh__linear_forward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                          spsh__backend_buffer y);
void spsh__linear_backward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                           spsh__backend_buffer dy, spsh__backend_buffer dx);
void spsh__model_unit_done(spsh__model *m);

/* ---- model_stage.c ---- */
/* An empty range selects all blocks. */
spsh_status spsh__model_check_stage(spsh__model *m, spsh_error *err);
bool spsh__model_has_output(const spsh__model *m);
void spsh__model_find_borders(spsh__model *m);
void spsh__model_take_borders(spsh__model *m); /* after all other allocations */

/* ---- model_segment.c: forward is segment 0, bucket b of backward b + 1 ---- */
void spsh__model_segments_open(spsh__model *m);
uint32_t spsh__model_segment_frames(const spsh__model *m, uint32_t frames);
uint32_t spsh__model_segment_batch(const spsh__model *m, uint32_t batch);
void spsh__model_segment_begin(spsh__model *m, uint32_t number);
void spsh__model_segment_end(spsh__model *m);

#endif

/* model.h: a list of layers over one arena of parameters.
 *
 *     features [T][N][D] -> conv, BN, clip, mask (twice) -> rows -> N recurrent layers, BN between
 *                        -> (look-ahead) -> BN, linear -> logits [T'][N][V]                   ds2
 *     features [21][N][D] -> 6 bidirectional layers, concatenated -> 256 -> 32,000     lstm-hybrid
 *
 * Arenas: parameters, gradients, and moments are one allocation each. A parameter is a slice,
 * aligned to 256 bytes, in the order in which gradients become ready: the last layer first. A
 * communication bucket is therefore a contiguous slice, a checkpoint is one write, and an average
 * is one axpy.
 */
#ifndef SPSH_TRAIN_MODEL_H
#define SPSH_TRAIN_MODEL_H

#include "backend/backend.h"

#define SPSH__MODEL_LAYERS_MAX 16

typedef enum spsh__model_kind { SPSH__MODEL_DS2 = 0, SPSH__MODEL_LSTM_HYBRID = 1 } spsh__model_kind;

typedef struct spsh__model_shape {
    spsh__model_kind kind;
    uint32_t inputs;        /* features per frame: 161 for deepspeech at 16 kHz */
    uint32_t conv_channels; /* 32 */
    uint32_t layers;        /* recurrent layers: 5 */
    spsh__cell cell;
    uint32_t hidden;       /* 1024 */
    bool is_bidirectional; /* ds2: directions are summed; lstm-hybrid: concatenated */
    uint32_t lookahead;    /* ds2: context of a unidirectional model: 20; 0: none */
    uint32_t bottleneck;   /* width of the product before the last: 256 for lstm-hybrid */
    uint32_t chunk_frames; /* lstm-hybrid: 21, the chunk length for callers (frame_batch.h); 0: no
                              chunks. The model itself takes any length */
    uint32_t outputs;      /* symbols including the blank; states */
    bool counts_padding;   /* batch norm includes padding (model.batch_norm: compat) */
} spsh__model_shape;

/* "ds2" (86,618,400 with 161 inputs and 29 outputs), "ds2-small" (5,580,832), "ds2-tiny"
 * (1,139,728), "lstm-hybrid" (43,130,368 with 260 and 32,000). The caller sets inputs and outputs;
 * this function does not. SPSH_E_NOT_FOUND. */
spsh_status spsh__model_preset(const char *name, spsh__model_shape *shape, spsh_error *err);

/* A named slice. */
typedef struct spsh__parameter {
    char name[64];          /* "rnn2.forward.w_hh", with PyTorch's shape */
    uint64_t offset, count; /* in the arena, elements */
    uint32_t shape[4];
    uint32_t rank;
    bool decays; /* true for weights; false for biases and BN */
    uint32_t bucket;
} spsh__parameter;

/* Maximum size of a batch, which determines the memory. All at least 1. */
typedef struct spsh__model_limits {
    uint32_t batch_max;
    uint32_t frames_max;
    uint64_t rows_max; /* batch * frames, including padding */
} spsh__model_limits;

/* Frames of a batch are padded to a multiple of this number if a device keeps captured work. */
#define SPSH__MODEL_FRAMES UINT32_C(32)

typedef struct spsh__model spsh__model;

/* Weights are 0 until init or a checkpoint fills them. The backend must outlive the model.
 * SPSH_E_INVALID_ARG: invalid shape, _NO_MEMORY. */
spsh_status spsh__model_open(spsh__backend *backend, const spsh__model_shape *shape,
                             const spsh__model_limits *limits, spsh__model **ret_model,
                             spsh_error *err);
/* Open a model for inference only. It has no gradients, and layers share memory, so that a frame
 * takes about a third (TRAINING.md has numbers). lender: a model of the same shape, which
 * shares its weights and statistics with this model and must outlive it. NULL: separate ones. There
 * is no backward, spsh__model_gradients is a NULL buffer, and spsh__model_logit_gradients returns
 * the logits. */
spsh_status spsh__model_open_forward(spsh__backend *backend, const spsh__model_shape *shape,
                                     const spsh__model_limits *limits, const spsh__model *lender,
                                     spsh__model **ret_model, spsh_error *err);
void spsh__model_close(spsh__model *model);

/* Range of blocks of a pipeline stage, counted from the features. In ds2, the blocks are the
 * convolutions, each recurrent layer with its preceding norm, and the remaining layers. In
 * lstm-hybrid, the blocks are each recurrent layer, then the two products. */
typedef struct spsh__model_stage {
    uint32_t first, end; /* blocks first ... end - 1 */
} spsh__model_stage;
uint32_t spsh__model_block_count(const spsh__model_shape *shape);

/* Open some blocks of a model for training. Slices, buckets, statistics, and activations cover only
 * those blocks, with the same initial values as in the whole model. lender: NULL, or the same stage
 * opened before. The lender must outlive this model and shares its weights, gradients, statistics,
 * and scratch with it, so that several batches may be in flight. Without the first block the
 * features of a batch are ignored: the input is spsh__model_stage_in. Without the last block the
 * output of spsh__model_forward is spsh__model_stage_out, and spsh__model_backward begins with
 * spsh__model_stage_out_gradients. SPSH_E_INVALID_ARG: no such blocks. */
spsh_status spsh__model_open_stage(spsh__backend *backend, const spsh__model_shape *shape,
                                   const spsh__model_limits *limits, const spsh__model_stage *stage,
                                   const spsh__model *lender, spsh__model **ret_model,
                                   spsh_error *err);
/* Open only the slices, buckets, and sizes of those blocks, without memory for them. */
spsh_status spsh__model_open_layout(spsh__backend *backend, const spsh__model_shape *shape,
                                    const spsh__model_stage *stage, spsh__model **ret_model,
                                    spsh_error *err);
/* At a stage's borders: [out_frames][batch][width], 0 in padding if the layer guarantees it. */
uint32_t spsh__model_stage_in_width(const spsh__model *model);
uint32_t spsh__model_stage_out_width(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_in(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_out(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_out_gradients(const spsh__model *model);
/* Valid after a backward, until the next backward of this stage or of a stage that borrows from it.
 */
spsh__backend_buffer spsh__model_stage_in_gradients(const spsh__model *model);
/* Multiplications and additions of a model's blocks, forward and backward, per frame after the
 * convolutions. */
double spsh__model_work(const spsh__model *model);
/* Set the buffer that norms write to in training. It is as large as the statistics. data NULL: the
 * statistics. */
void spsh__model_divert_statistics(spsh__model *model, spsh__backend_buffer to);

/* Set PyTorch's defaults. Each value depends only on the seed, the parameter's name, and the
 * element. Values are drawn as floats, so that all backends start alike. Statistics: mean 0,
 * variance 1. */
void spsh__model_init(spsh__model *model, uint64_t seed);

uint32_t spsh__model_parameter_count(const spsh__model *model); /* slices */
const spsh__parameter *spsh__model_parameter(const spsh__model *model, uint32_t number);
uint64_t spsh__model_arena_elements(const spsh__model *model); /* including gaps */
uint64_t spsh__model_weight_count(const spsh__model *model);   /* without gaps */
spsh__backend_buffer spsh__model_weights(const spsh__model *model);
/* Call after each write to the weights: a backend with float16 values keeps a copy of the weights.
 */
void spsh__model_weights_changed(spsh__model *model);
spsh__backend_buffer spsh__model_gradients(const spsh__model *model);
/* BN's running means and variances, in one arena. No gradient changes them. */
spsh__backend_buffer spsh__model_statistics(const spsh__model *model, uint64_t *ret_elements);

/* Buckets tile the arena, in ascending order. Small buckets are joined until their size justifies a
 * message.
 */
uint32_t spsh__model_bucket_count(const spsh__model *model);
void spsh__model_bucket(const spsh__model *model, uint32_t bucket, uint64_t *ret_offset,
                        uint64_t *ret_count);

/* Return the frame count to which the model pads `frames`. It is larger if a device keeps captured
 * work per shape, so that shapes are few. The padding does not affect real frames. */
uint32_t spsh__model_padded_frames(const spsh__model *model, uint32_t frames);
/* Return the utterance count to which the model pads `batch`, for the same reason. The padding
 * follows the utterances of the batch and has no frames. Rows of the model, its logits, and
 * spsh__model_out_lengths include it. */
uint32_t spsh__model_padded_batch(const spsh__model *model, uint32_t batch);
/* Return the number of output frames for `frames` input frames. */
uint32_t spsh__model_out_frames(const spsh__model *model, uint32_t frames);
/* Number of output rows of the largest batch, with its padding. */
uint64_t spsh__model_out_rows_max(const spsh__model *model);
/* Output lengths of the current batch, for the loss. */
const uint32_t *spsh__model_out_lengths(const spsh__model *model);

typedef struct spsh__model_batch {
    const float *features;   /* [batch][frames][inputs], on the host; NULL: */
    const uint32_t *lengths; /* frame counts; frames past them are ignored */
    uint32_t batch, frames;
    const void *device_features; /* like features, but in device memory */
    void *ready, *done;          /* CUDA events after writing and after reading features, or NULL */
} spsh__model_batch;

/* Logits: [out_frames][batch][outputs], owned by the model, until the next call. out_lengths:
 * written, one per utterance. SPSH_E_INVALID_ARG: an empty batch, or a length above frames; _LIMIT.
 * The backend's status reports failures of operators. */
spsh_status spsh__model_forward(spsh__model *model, const spsh__model_batch *batch,
                                bool is_training, spsh__backend_buffer *ret_logits,
                                uint32_t *out_lengths, spsh_error *err);

/* Call before a backward if another model ran forward on this backend after this model did. */
void spsh__model_resume(spsh__model *model);
/* Needs a preceding forward for training, and consumes it. Adds to the gradients. bucket_fn is
 * called as soon as a bucket is complete, in ascending order; NULL is fine. */
void spsh__model_backward(spsh__model *model, spsh__backend_buffer logit_gradients,
                          void (*bucket_fn)(void *user, uint32_t bucket), void *user);
/* Return the buffer for the loss's gradients, as large as the logits. For lstm-hybrid it is the
 * logits buffer itself, because its loss can run in place. */
spsh__backend_buffer spsh__model_logit_gradients(const spsh__model *model);

#endif

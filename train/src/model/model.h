/* model.h: a list of layers over one arena of parameters.
 *
 *     features [T][N][D] -> conv, BN, clip, mask (twice) -> rows -> N recurrent layers, BN between
 *                        -> (look-ahead) -> BN, linear -> logits [T'][N][V]                   ds2
 *     features [21][N][D] -> 6 bidirectional layers, concatenated -> 256 -> 32,000     lstm-hybrid
 *
 * Arenas: parameters, gradients, moments are one allocation each; a parameter is a slice, aligned
 * to 256 bytes, in the order in which gradients become ready: the last layer first. So a bucket of
 * communication is a contiguous slice, a checkpoint is one write, an average one axpy.
 */
#ifndef SPSH_TRAIN_MODEL_H
#define SPSH_TRAIN_MODEL_H

#include "backend/backend.h"

#define SPSH__MODEL_LAYERS_MAX 16

typedef enum spsh__model_kind { SPSH__MODEL_DS2 = 0, SPSH__MODEL_LSTM_HYBRID = 1 } spsh__model_kind;

typedef struct spsh__model_shape {
    spsh__model_kind kind;
    uint32_t inputs;        /* features a frame: 161 for deepspeech at 16 kHz */
    uint32_t conv_channels; /* 32 */
    uint32_t layers;        /* recurrent: 5 */
    spsh__cell cell;
    uint32_t hidden;       /* 1024 */
    bool is_bidirectional; /* directions are summed (ds2), concatenated (lstm-hybrid) */
    uint32_t lookahead;    /* ds2: context of a unidirectional model: 20; 0: none */
    uint32_t bottleneck;   /* lstm-hybrid: 256 */
    uint32_t chunk_frames; /* lstm-hybrid: 21, what its callers cut utterances into (frame_batch.h);
                              0: nothing is cut. The model itself takes what it is given */
    uint32_t outputs;      /* symbols with the blank; states */
    bool counts_padding;   /* BN `compat` */
} spsh__model_shape;

/* "ds2" (86,618,400 with 161 inputs and 29 outputs), "ds2-small" (5,580,832), "ds2-tiny"
 * (1,139,728), "lstm-hybrid" (43,130,368 with 260 and 32,000). inputs and outputs are the caller's,
 * and not touched. SPSH_E_NOT_FOUND. */
spsh_status spsh__model_preset(const char *name, spsh__model_shape *shape, spsh_error *err);

/* A named slice. */
typedef struct spsh__parameter {
    char name[64];          /* "rnn2.forward.w_hh", as PyTorch would shape it */
    uint64_t offset, count; /* in the arena, elements */
    uint32_t shape[4];
    uint32_t rank;
    bool decays; /* weights; not biases, not BN */
    uint32_t bucket;
} spsh__parameter;

/* Batches no larger than this are taken; memory follows from it. All at least 1. */
typedef struct spsh__model_limits {
    uint32_t batch_max;
    uint32_t frames_max;
    uint64_t rows_max; /* batch * frames, padding counted */
} spsh__model_limits;

typedef struct spsh__model spsh__model;

/* Weights are 0 until init or a checkpoint fills them. The backend must outlive the model.
 * SPSH_E_INVALID_ARG: a shape that is none, _NO_MEMORY. */
spsh_status spsh__model_open(spsh__backend *backend, const spsh__model_shape *shape,
                             const spsh__model_limits *limits, spsh__model **ret_model,
                             spsh_error *err);
/* For forward without training alone: no gradients, and layers share their memory, so that a frame
 * takes about a third (docs/TRAINING.md has numbers). lender: a model of the same shape, whose
 * weights and statistics are this one's, too; it must outlive it. NULL: own ones. There is no
 * backward, no gradients (a NULL buffer), and spsh__model_logit_gradients are the logits
 * themselves. */
spsh_status spsh__model_open_forward(spsh__backend *backend, const spsh__model_shape *shape,
                                     const spsh__model_limits *limits, const spsh__model *lender,
                                     spsh__model **ret_model, spsh_error *err);
void spsh__model_close(spsh__model *model);

/* Blocks, the first one nearest to the features, as stages of a pipeline have them: of ds2 the
 * convolutions, each recurrent layer with the norm before it, and what is behind them; of
 * lstm-hybrid each recurrent layer, then the two products. */
typedef struct spsh__model_stage {
    uint32_t first, end; /* blocks first ... end - 1 */
} spsh__model_stage;
uint32_t spsh__model_block_count(const spsh__model_shape *shape);

/* Some blocks of a model, for training: slices, buckets, statistics and activations are theirs
 * alone, and begin as those of the whole model do. lender: NULL, or the same stage opened before,
 * which must outlive this one: its weights, gradients, statistics and scratch are this one's, too,
 * so that several batches are on their way. Without the first block a batch's features are not
 * looked at: what comes in is in spsh__model_stage_in. Without the last one the logits of
 * spsh__model_forward are spsh__model_stage_out, and spsh__model_backward begins with what is in
 * spsh__model_stage_out_gradients. SPSH_E_INVALID_ARG: no such blocks. */
spsh_status spsh__model_open_stage(spsh__backend *backend, const spsh__model_shape *shape,
                                   const spsh__model_limits *limits, const spsh__model_stage *stage,
                                   const spsh__model *lender, spsh__model **ret_model,
                                   spsh_error *err);
/* Slices, buckets and sizes of those blocks: nothing else is there, and no memory is taken. */
spsh_status spsh__model_open_layout(spsh__backend *backend, const spsh__model_shape *shape,
                                    const spsh__model_stage *stage, spsh__model **ret_model,
                                    spsh_error *err);
/* At a stage's borders: [out_frames][batch][width], 0 in padding where the layer says so. */
uint32_t spsh__model_stage_in_width(const spsh__model *model);
uint32_t spsh__model_stage_out_width(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_in(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_out(const spsh__model *model);
spsh__backend_buffer spsh__model_stage_out_gradients(const spsh__model *model);
/* Behind a backward, until the next one of the stage, or of one that it lends to. */
spsh__backend_buffer spsh__model_stage_in_gradients(const spsh__model *model);
/* Multiplications and additions of its blocks, forward and backward, a frame behind the
 * convolutions. */
double spsh__model_work(const spsh__model *model);
/* Where norms of training write; as large as the statistics; data NULL: there. */
void spsh__model_divert_statistics(spsh__model *model, spsh__backend_buffer to);

/* PyTorch's defaults, drawn from seed, the parameter's name and the element alone; floats, so that
 * all backends begin alike. Statistics: mean 0, variance 1. */
void spsh__model_init(spsh__model *model, uint64_t seed);

uint32_t spsh__model_parameter_count(const spsh__model *model); /* slices */
const spsh__parameter *spsh__model_parameter(const spsh__model *model, uint32_t number);
uint64_t spsh__model_arena_elements(const spsh__model *model); /* with gaps */
uint64_t spsh__model_weight_count(const spsh__model *model);   /* without */
spsh__backend_buffer spsh__model_weights(const spsh__model *model);
/* Whoever writes to the weights says so: of backends with halves there is a copy of them. */
void spsh__model_weights_changed(spsh__model *model);
spsh__backend_buffer spsh__model_gradients(const spsh__model *model);
/* BN's running means and variances: state that no gradient changes; one arena, too. */
spsh__backend_buffer spsh__model_statistics(const spsh__model *model, uint64_t *ret_elements);

/* Buckets tile the arena, in ascending order; small ones are joined until they are worth a
 * message. */
uint32_t spsh__model_bucket_count(const spsh__model *model);
void spsh__model_bucket(const spsh__model *model, uint32_t bucket, uint64_t *ret_offset,
                        uint64_t *ret_count);

/* Frames that the model makes of so many: more where a device keeps work by its shape, so that few
 * shapes are met. Real frames do not feel it. */
uint32_t spsh__model_padded_frames(const spsh__model *model, uint32_t frames);
/* Frames that come out of a batch of so many. */
uint32_t spsh__model_out_frames(const spsh__model *model, uint32_t frames);
/* Of the batch at hand: those that losses must be given. */
const uint32_t *spsh__model_out_lengths(const spsh__model *model);

typedef struct spsh__model_batch {
    const float *features;   /* [batch][frames][inputs], on the host; NULL: */
    const uint32_t *lengths; /* of frames; what lies behind them is not looked at */
    uint32_t batch, frames;
    const void *device_features; /* ... as many floats in the device's memory */
    void *ready, *done;          /* CUDA events of these, or NULL: they are there; they were read */
} spsh__model_batch;

/* Logits: [out_frames][batch][outputs], the model's, until the next call. out_lengths: batch of
 * them, written. SPSH_E_INVALID_ARG: nothing in the batch, or a length beyond frames; _LIMIT.
 * Failures of operators are the backend's status. */
spsh_status spsh__model_forward(spsh__model *model, const spsh__model_batch *batch,
                                bool is_training, spsh__backend_buffer *ret_logits,
                                uint32_t *out_lengths, spsh_error *err);

/* After a forward of training; uses it up. Adds to the gradients. bucket_fn is called as soon as a
 * bucket is complete, in ascending order; NULL is fine. */
void spsh__model_backward(spsh__model *model, spsh__backend_buffer logit_gradients,
                          void (*bucket_fn)(void *user, uint32_t bucket), void *user);
/* Where the loss writes its gradients: as large as the logits; of lstm-hybrid, whose loss needs no
 * other, the logits themselves. */
spsh__backend_buffer spsh__model_logit_gradients(const spsh__model *model);

#endif

/* device_rnn.h: the interface between the trainer's library (backend_cuda_rnn.c) and its part of
 * the plug-in (rnn.cu) for recurrent layers: the kernels of kernels_rnn.h, and cuDNN's.
 * tests/support/twin_rnn.c is the same table in C.
 *
 * All functions except layer_open_fn enqueue work on a stream and return at once. Pointers are to
 * device memory. Work that is in flight on two streams at once needs two lanes.
 */
#ifndef SPSH_DEVICE_RNN_H
#define SPSH_DEVICE_RNN_H

#include "device_train.h"
#include "kernels_rnn_persistent.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH__DEVICE_RNN_SYMBOL "spsh_cuda_rnn_entry"

typedef enum spsh__rnn_kernel {
    SPSH__RNN_FORWARD = 0, /* cooperative: kernels_rnn_persistent.h */
    SPSH__RNN_BACKWARD,    /* cooperative */
    SPSH__RNN_FORWARD_STEP,
    SPSH__RNN_BACKWARD_STEP,
    SPSH__RNN_PACK,
    SPSH__RNN_KERNELS
} spsh__rnn_kernel;

typedef struct spsh__rnn_launch {
    spsh__rnn_kernel kernel;
    spsh__device_kind kind; /* kind of elements */
    uint32_t blocks_x, blocks_y;
    uint32_t shared_bytes;
    const void *job; /* on the host, copied */
    size_t job_bytes;
    const spsh__device_use *uses; /* copied */
    uint32_t use_count;
} spsh__rnn_launch;

/* Limits of a cooperative grid. */
typedef struct spsh__rnn_limits {
    uint32_t blocks;       /* in all rows of the grid */
    uint32_t shared_bytes; /* shared memory per block */
} spsh__rnn_limits;

/* A layer of cuDNN for one shape. */
typedef struct spsh__cudnn_plan {
    spsh__rnn_shape shape;
    uint32_t has_two_biases;
    uint32_t is_persistent; /* PERSIST_STATIC; else STANDARD */
    spsh__device_kind kind;
} spsh__cudnn_plan;

/* Position of weights in the weight space, in elements of the plan's kind: matrices are [hidden]
 * [inputs or hidden] without gaps. Matrix and bias i: gate i % gates, of the input (i < gates) or
 * the state.
 */
typedef struct spsh__cudnn_part {
    size_t matrix, bias; /* offsets in bytes; SIZE_MAX: none */
} spsh__cudnn_part;

typedef struct spsh__cudnn_sizes {
    size_t weights, work, reserve; /* bytes */
    spsh__cudnn_part parts[2 * SPSH__RNN_GATES];
} spsh__cudnn_sizes;

typedef enum spsh__cudnn_step { /* steps of a pass, in this order */
                                SPSH__CUDNN_FORWARD = 0,
                                SPSH__CUDNN_BACKWARD_DATA,
                                SPSH__CUDNN_BACKWARD_WEIGHTS,
                                SPSH__CUDNN_STEPS
} spsh__cudnn_step;

typedef struct spsh__cudnn_call {
    spsh__cudnn_step step;
    uint32_t lane;
    const void *x, *weights, *dy;
    void *y, *dx, *dweights; /* dweights is added to */
    void *work, *reserve;    /* reserve: written by forward; consumed by both steps of backward */
} spsh__cudnn_call;

typedef struct spsh__device_rnn_entry {
    size_t jobs_bytes; /* size of the jobs, as compiled into the plug-in */
    spsh_status (*open_fn)(const spsh__device_train_plan *plan, void **ret_state, spsh_error *err);
    void (*close_fn)(void *state); /* no work may be in flight; layers are closed */
    /* No blocks: the device has no cooperative grids, or is older than sm_80. */
    spsh__rnn_limits (*limits_fn)(void *state);
    /* Blocks of a cooperative kernel that fit on the device at once. */
    uint32_t (*resident_fn)(void *state, spsh__rnn_kernel kernel, spsh__device_kind kind,
                            uint32_t shared_bytes);
    spsh_status (*launch_fn)(void *state, void *stream, const spsh__rnn_launch *l, spsh_error *err);
    /* SPSH_E_UNSUPPORTED: no cuDNN, or cuDNN does not support the plan. Later calls may return it,
     * too. */
    spsh_status (*layer_open_fn)(void *state, const spsh__cudnn_plan *plan, void **ret_layer,
                                 spsh__cudnn_sizes *ret_sizes, spsh_error *err);
    void (*layer_close_fn)(void *layer);
    /* Do not run two persistent layers at once: cuDNN does not document whether their blocks could
     * wait for each other forever. */
    spsh_status (*layer_call_fn)(void *layer, void *stream, const spsh__cudnn_call *c,
                                 spsh_error *err);
} spsh__device_rnn_entry;

typedef const spsh__device_rnn_entry *spsh__device_rnn_entry_fn(void);

#define SPSH__RNN_JOBS_BYTES (sizeof(spsh__rnn_grid_job) + sizeof(spsh__rnn_pack_job))

#ifdef __cplusplus
}
#endif

#endif

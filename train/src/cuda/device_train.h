/* device_train.h: the interface between the trainer's library and its part of the plug-in. The
 * library (backend_cuda.c and its parts) knows operators, memory, streams, and their order. The
 * plug-in starts kernels and calls cuBLASLt and cuDNN. tests/support/twin_train.c is the same table
 * in C.
 *
 * All functions enqueue work on a stream and return at once. All pointers are to device memory,
 * except pointers documented as host pointers. A lane is one of LANES sets of handles and work
 * space. Work that is in flight on two streams at once needs two lanes.
 */
#ifndef SPSH_DEVICE_TRAIN_H
#define SPSH_DEVICE_TRAIN_H

#include "backend/backend.h"
#include "speechshard/cuda_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH__DEVICE_TRAIN_SYMBOL "spsh_cuda_train_entry"
#define SPSH__DEVICE_LANES        2u
#define SPSH__DEVICE_JOB_BYTES    1024u /* maximum size of a kernel's job */

typedef struct spsh__device_train_plan {
    uint32_t device;
    spsh__precision precision;
    uint32_t is_deterministic;
} spsh__device_train_plan;

typedef struct spsh__kernel_launch {
    uint32_t kernel; /* index in the list of kernels.h */
    uint32_t blocks_x, blocks_y;
    uint32_t shared_bytes;
    const void *job; /* on the host; copied */
    size_t job_bytes;
    const spsh__device_use *uses; /* copied */
    uint32_t use_count;
} spsh__kernel_launch;

/* Which of a convolution's three tensors is computed from the other two. */
typedef enum spsh__conv_kind {
    SPSH__CONV_FORWARD = 1, /* y, without the bias */
    SPSH__CONV_DATA = 2,    /* x: the input's gradient, from y, the output's gradient */
    SPSH__CONV_FILTER = 3,  /* weight: the filters' gradient, which is added to if it is float */
} spsh__conv_kind;

typedef struct spsh__conv_work {
    spsh__conv_shape shape; /* no field is 0 */
    spsh__conv_kind kind;
    spsh__backend_buffer x, weight, y; /* all have the same kind */
    void *work; /* at least the bytes that conv_space_fn returns, aligned to 256 */
    size_t work_bytes;
    size_t work_bytes_max; /* limit for conv_space_fn: slower algorithms need less */
} spsh__conv_work;

typedef struct spsh__device_train_entry {
    size_t jobs_bytes; /* sum of sizeof over the list of jobs, as the plug-in was compiled */
    uint32_t kernel_count;
    size_t open_bytes; /* device memory that open_fn takes */
    spsh_status (*open_fn)(const spsh__device_train_plan *plan, void **ret_state, spsh_error *err);
    void (*close_fn)(void *state);
    spsh_status (*launch_fn)(void *state, void *stream, const spsh__kernel_launch *l,
                             spsh_error *err);
    /* Like the backend operators with these names. gemm: m, n, and k are not 0. a and b have one
     * kind; c has the same kind, or is float. */
    spsh_status (*gemm_fn)(void *state, uint32_t lane, void *stream, const spsh__gemm *g,
                           spsh_error *err);
    /* Return the work space that the convolution needs. Buffers need not have memory. */
    spsh_status (*conv_space_fn)(void *state, uint32_t lane, const spsh__conv_work *w,
                                 size_t *ret_bytes, spsh_error *err);
    spsh_status (*conv_fn)(void *state, uint32_t lane, void *stream, const spsh__conv_work *w,
                           spsh_error *err);
} spsh__device_train_entry;

typedef const spsh__device_train_entry *spsh__device_train_entry_fn(void);

#ifdef __cplusplus
}
#endif

#endif

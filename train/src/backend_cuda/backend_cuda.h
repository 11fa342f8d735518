/* backend_cuda.h: shared declarations of the parts of the backend `cuda`. backend_cuda.c opens it
 * and has its lanes, _memory.c memory and transfers, _segment.c captured segments, _product.c
 * products and convolutions. _rows.c, _norm.c, _update.c, _loss.c, and _rnn.c have the operators of
 * the kernels with those names.
 *
 * An operator enqueues work on the stream of its lane and returns. The first failure is kept
 * (spsh__cuda_failed), and no work is enqueued after it.
 *
 * Operators enqueue only through spsh__cuda_launch or spsh__cuda_put, which also record the work of
 * a segment to be captured. Scratch never moves while captured work refers to it: the graphs are
 * dropped first.
 */
#ifndef SPSH_TRAIN_BACKEND_CUDA_H
#define SPSH_TRAIN_BACKEND_CUDA_H

#include "backend_cuda_segment.h"
#include "base/whole_numbers.h"
#include "cuda/device_half.h"
#include "cuda/device_train.h"
#include "cuda/kernels.h"
#include "speechshard/inside.h"

/* Models pad the utterances of a batch to a multiple of this number, so that shapes are few. Sums
 * over rows are grouped as if they were padded, so the padding does not change their bits. */
#define SPSH__CUDA_BATCH_MULTIPLE UINT32_C(8)

typedef struct spsh__cuda_state spsh__cuda_state; /* backend->state; opaque here */

/* Index of a kernel in the list: SPSH__KERNEL_CLIP_FORWARD, ... */
enum {
#define SPSH_X(number_, name_, job_) SPSH__KERNEL_##number_,
    SPSH__KERNELS(SPSH_X)
#undef SPSH_X
        SPSH__KERNEL_COUNT
};

/* Record a failure if it is the first. SPSH_OK is ignored. err: the error that belongs to rc. */
void spsh__cuda_failed(spsh__backend *b, spsh_status rc, const spsh_error *err);
bool spsh__cuda_has_failed(const spsh__backend *b);

/* Arguments of a launch: the job of its kernel, and the memory that it reads and writes. */
#define SPSH__CUDA_JOB(job_, uses_, use_count_)                                                    \
    .job = (job_), .job_bytes = sizeof(*(job_)), .uses = (uses_), .use_count = (use_count_)

/* Enqueue a kernel on the stream of the lane. */
void spsh__cuda_launch(spsh__backend *b, const spsh__kernel_launch *l);
/* Enqueue a kernel on a separate stream, outside of segments. */
spsh_status spsh__cuda_launch_on(spsh__backend *b, void *stream, const spsh__kernel_launch *l,
                                 spsh_error *err);
/* Number of blocks along x for `count` elements, with one or more elements per thread: at least 1,
 * and at most enough to fill the device a few times. */
uint32_t spsh__cuda_blocks(const spsh__backend *b, uint64_t count);

/* Do a piece of work, work_fn(b, stream of the lane, arguments), and record it with a copy of its
 * arguments. work_fn only enqueues work on the stream. */
typedef spsh_status spsh__cuda_work_fn(spsh__backend *b, void *stream, const void *arguments,
                                       spsh_error *err);
void spsh__cuda_put(spsh__backend *b, spsh__cuda_work_fn *work_fn, const void *arguments,
                    size_t size_bytes);

/* Stream of the lane, for work that bypasses spsh__cuda_put: its segment is never captured. */
void *spsh__cuda_stream(spsh__backend *b);
uint32_t spsh__cuda_lane(const spsh__backend *b);

/* Two lanes of operators. fork: lane 1 waits for the work enqueued on lane 0. choose_lane: selects
 * the lane of the next operators. join: lane 0 waits for lane 1, and is selected again. */
void spsh__cuda_fork(spsh__backend *b);
void spsh__cuda_choose_lane(spsh__backend *b, uint32_t lane);
void spsh__cuda_join(spsh__backend *b);

/* Scratch of the lane in the device's memory, until the next operator on it; aligned to 256 bytes.
 * NULL: out of memory, recorded as the failure. number: 0 to 3; the four buffers can be used at
 * once. */
void *spsh__cuda_scratch(spsh__backend *b, uint32_t number, size_t size_bytes);

/* Utterances of the batch that was passed to batch_fn; 0: none was. */
uint32_t spsh__cuda_batch_size(const spsh__backend *b);
/* The device's copy of lengths that were passed to batch_fn. */
const uint32_t *spsh__cuda_lengths(spsh__backend *b, const uint32_t *lengths);

/* Copy from the host to the device, on the stream of the lane, through pinned slots that are used
 * in turn. The source has been read when the call returns. Not allowed inside a segment. */
void spsh__cuda_upload(spsh__backend *b, void *to, const void *from, size_t size_bytes);

/* Copy from the device to pinned host memory, and call take_fn(user, pinned) in finish_fn. user:
 * user_bytes are copied, at most 128. Not allowed inside a captured graph. */
void spsh__cuda_download(spsh__backend *b, const void *from, size_t size_bytes,
                         void (*take_fn)(const void *user, const void *bytes), const void *user,
                         size_t user_bytes);

/* Copy from the device to the host at once. Waits for the lane's stream. */
void spsh__cuda_fetch(spsh__backend *b, void *to, const void *from, size_t size_bytes);

/* Bytes of `count` elements of a buffer, and a use of them. */
static inline size_t spsh__cuda_bytes(spsh__backend_buffer buffer, size_t count)
{
    return count * (buffer.is_half ? sizeof(uint16_t) : sizeof(float));
}

/* A buffer in the form that kernels use. */
static inline spsh__device_array spsh__cuda_array(const spsh__backend *b,
                                                  spsh__backend_buffer buffer)
{
    const spsh__device_kind half =
        b->precision == SPSH__BF16 ? SPSH__DEVICE_BF16 : SPSH__DEVICE_FP16;
    return (spsh__device_array){buffer.data, buffer.is_half ? half : SPSH__DEVICE_F32};
}

static inline spsh__device_use spsh__cuda_reads(spsh__backend_buffer buffer, size_t count)
{
    return (spsh__device_use){buffer.data, spsh__cuda_bytes(buffer, count), 0};
}

static inline spsh__device_use spsh__cuda_writes(spsh__backend_buffer buffer, size_t count)
{
    return (spsh__device_use){buffer.data, spsh__cuda_bytes(buffer, count), 1};
}

/* Recurrent layers keep a separate state: backend_cuda_rnn.c. Call open after everything else. */
spsh_status spsh__cuda_rnn_open(spsh__backend *b, void **ret_state, spsh_error *err);
void spsh__cuda_rnn_close(spsh__backend *b, void *state);
void *spsh__cuda_rnn_state(const spsh__backend *b);
/* For backend_cuda_count.c. swap replaces the pieces of reserve and returns the old ones. forget
 * drops counted pieces, which have no memory. */
void *spsh__cuda_rnn_swap(spsh__backend *b, void *reserves);
void spsh__cuda_rnn_forget(spsh__backend *b, void *reserves);
/* Count size_bytes that are allocated temporarily for a trial. */
void spsh__cuda_count_trial(spsh__backend *b, size_t size_bytes);

/* Add the sums of the columns of x, [rows][width], to `to`. Also add the sums of the first
 * also_width columns to `also`, if it is not NULL. Uses scratch 0. backend_cuda_rows.c. */
typedef struct spsh__cuda_sums {
    size_t rows;
    uint32_t width, also_width;
    spsh__backend_buffer x, to, also;
} spsh__cuda_sums;

void spsh__cuda_add_sums(spsh__backend *b, const spsh__cuda_sums *s);

/* ---- operators of all backends, and operators of devices ---- */
#define SPSH__CUDA_OPERATORS(X)                                                                    \
    SPSH__OPERATORS(X)                                                                             \
    /* backend_cuda_memory.c */                                                                    \
    X(alloc)                                                                                       \
    X(alloc_half)                                                                                  \
    X(free)                                                                                        \
    X(batch)                                                                                       \
    X(finish)                                                                                      \
    /* backend_cuda_rnn.c */                                                                       \
    X(spare)                                                                                       \
    X(rnn_both_forward)                                                                            \
    X(rnn_both_backward)                                                                           \
    /* backend_cuda_segment.c */                                                                   \
    X(segment_begin)                                                                               \
    X(segment_end)                                                                                 \
    /* backend_cuda_update.c */                                                                    \
    X(decide)                                                                                      \
    /* backend_cuda_rows.c */                                                                      \
    X(convert)                                                                                     \
    X(add_rows)                                                                                    \
    X(arrange)

#define SPSH_X(name_) SPSH__OPERATOR_TYPE(name_) spsh__cuda_##name_;
SPSH__CUDA_OPERATORS(SPSH_X)
#undef SPSH_X

#endif

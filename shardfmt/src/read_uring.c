/* read_uring.c: the io_uring back end of the read engine, the only file that knows liburing.
 *
 * Buffers and files are registered with the ring when the kernel lets us (RLIMIT_MEMLOCK, version):
 * then it neither pins the pages nor takes a file reference for every read. Without, reads work the
 * same and cost a little more. Operations are handed over together by the next wait.
 */
#include "io_internal.h"
#include "read_engine.h"

#include <errno.h>
#include <liburing.h>
#include <sched.h>

/* The kernel takes at most 1 GiB as one registered buffer. */
#define REGISTERED_BYTES_MAX ((size_t)1 << 30)

#define HAND_OVER_TRIES_MAX UINT32_C(100000)

typedef struct uring_state {
    const spsh_allocator *allocator;
    struct io_uring ring;
    bool fixed_buffers, fixed_files;
    bool *file_registered;
    uint64_t in_kernel; /* handed over and not reaped */
} uring_state;

static void uring_close(void *opaque)
{
    uring_state *state = (uring_state *)opaque;
    io_uring_queue_exit(&state->ring);
    spsh__free(state->allocator, state->file_registered);
    spsh__free(state->allocator, state);
}

static spsh_status uring_open(const spsh__read_setup *setup, void **ret_state, spsh_error *err)
{
    uring_state *state = spsh__alloc_zero(setup->allocator, sizeof(*state));
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "io_uring");
    state->allocator = setup->allocator;
    state->file_registered = spsh__alloc_zero(setup->allocator, setup->files_max * sizeof(bool));
    int rc = state->file_registered == NULL
                 ? -ENOMEM
                 : io_uring_queue_init(setup->requests_max, &state->ring, IORING_SETUP_CLAMP);
    if (rc < 0) {
        spsh__free(setup->allocator, state->file_registered);
        spsh__free(setup->allocator, state);
        return SPSH_FAIL_OS(err, rc == -ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_UNSUPPORTED, -rc,
                            SPSH_OFFSET_NONE, "io_uring: %s", spsh__os_text(-rc));
    }
    const struct iovec arena = {.iov_base = setup->arena, .iov_len = setup->arena_bytes};
    state->fixed_buffers = setup->arena_bytes <= REGISTERED_BYTES_MAX &&
                           io_uring_register_buffers(&state->ring, &arena, 1) == 0;
    state->fixed_files = io_uring_register_files_sparse(&state->ring, setup->files_max) == 0;
    *ret_state = state;
    return SPSH_OK;
}

static void uring_file(void *opaque, uint32_t file, int fd)
{
    uring_state *state = (uring_state *)opaque;
    if (!state->fixed_files)
        return;
    state->file_registered[file] =
        io_uring_register_files_update(&state->ring, file, &fd, 1) == 1 && fd >= 0;
}

static spsh_status uring_submit(void *opaque, const spsh__read_op *op, spsh_error *err)
{
    uring_state *state = (uring_state *)opaque;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&state->ring);
    if (sqe == NULL) /* one a slot fits: the queue was clamped by the kernel's limit */
        return SPSH_FAIL(err, SPSH_E_IO, op->offset_bytes, "io_uring: submission queue is full");
    const bool fixed_file = state->file_registered[op->file];
    const int fd = fixed_file ? (int)op->file : op->fd;
    if (state->fixed_buffers)
        io_uring_prep_read_fixed(sqe, fd, op->dst, (unsigned)op->size_bytes, op->offset_bytes, 0);
    else
        io_uring_prep_read(sqe, fd, op->dst, (unsigned)op->size_bytes, op->offset_bytes);
    if (fixed_file)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, op->slot);
    return SPSH_OK;
}

/* Hand over what was submitted. With nothing in the kernel there is nothing to wait for, so a
 * refusal is tried again here; else what completes makes room. */
static spsh_status hand_over(uring_state *state, spsh_error *err)
{
    int rc = 0;
    for (uint32_t tries = 0; io_uring_sq_ready(&state->ring) > 0; tries++) {
        rc = io_uring_submit(&state->ring);
        if (rc > 0) {
            state->in_kernel += (uint64_t)rc;
            continue;
        }
        const bool refused = rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY;
        if (refused || tries >= HAND_OVER_TRIES_MAX)
            break;
        if (state->in_kernel > 0)
            return SPSH_OK;
        (void)sched_yield();
    }
    if (io_uring_sq_ready(&state->ring) == 0)
        return SPSH_OK;
    return SPSH_FAIL_OS(err, SPSH_E_IO, -rc, SPSH_OFFSET_NONE, "io_uring: submit: %s",
                        spsh__os_text(-rc));
}

static spsh_status uring_wait(void *opaque, uint32_t *ret_slot, int64_t *ret_result,
                              spsh_error *err)
{
    uring_state *state = (uring_state *)opaque;
    struct io_uring_cqe *cqe = NULL;
    spsh_status status = hand_over(state, err);
    if (status != SPSH_OK)
        return status;
    int rc = -EINTR;
    while (rc == -EINTR)
        rc = io_uring_wait_cqe(&state->ring, &cqe);
    if (rc < 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, -rc, SPSH_OFFSET_NONE, "io_uring: wait: %s",
                            spsh__os_text(-rc));
    *ret_slot = (uint32_t)io_uring_cqe_get_data64(cqe);
    *ret_result = cqe->res;
    io_uring_cqe_seen(&state->ring, cqe);
    state->in_kernel--;
    return SPSH_OK;
}

const spsh__read_backend spsh__read_uring = {
    .name = "io_uring",
    .open_fn = uring_open,
    .file_fn = uring_file,
    .submit_fn = uring_submit,
    .wait_fn = uring_wait,
    .close_fn = uring_close,
};

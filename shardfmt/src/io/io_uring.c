/* io_uring.c: the io_uring back end of the read engine, the only file that uses liburing.
 *
 * Buffers and files are registered with the ring if the kernel allows it (RLIMIT_MEMLOCK, version).
 * Then the kernel neither pins the pages nor takes a file reference for every read. Otherwise reads
 * work the same and cost a little more. The next wait submits all prepared operations together.
 */
#include "io_backend.h"
#include "io_internal.h"

#include <errno.h>
#include <liburing.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

/* The kernel takes at most 1 GiB as one registered buffer. */
#define REGISTERED_BYTES_MAX ((size_t)1 << 30)

#define HAND_OVER_TRIES_MAX UINT32_C(100000)

/* With SQPOLL: how long the kernel's thread spins without work before it sleeps. */
#define SQPOLL_IDLE_MS UINT32_C(20)

typedef struct uring_state {
    const spsh_allocator *allocator;
    struct io_uring ring;
    bool fixed_buffers, fixed_files;
    bool *file_registered;
    uint64_t in_kernel; /* handed over and not reaped */
    uint64_t prepared;  /* put into the submission queue and not handed over */
} uring_state;

static void uring_close(void *opaque, bool is_inherited)
{
    uring_state *state = (uring_state *)opaque;
    if (is_inherited) /* its memory is not mapped here: other memory may be at those addresses */
        (void)close(state->ring.ring_fd);
    else
        io_uring_queue_exit(&state->ring);
    spsh__free(state->allocator, state->file_registered);
    spsh__free(state->allocator, state);
}

/* Open a ring. A kernel thread that polls the queue (SQPOLL) needs registered files and privileges
 * before Linux 5.11, so it is not used there. The thread moves the head of the queue only after a
 * whole batch. Reads of that batch may be complete, and their slots reused, by then: so the queue
 * has twice the capacity. */
static int open_ring(const spsh__read_setup *setup, struct io_uring *ring)
{
    if (setup->sqpoll && setup->requests_max <= UINT32_MAX / 2) {
        struct io_uring_params params = {.flags = IORING_SETUP_CLAMP | IORING_SETUP_SQPOLL,
                                         .sq_thread_idle = SQPOLL_IDLE_MS};
        if (io_uring_queue_init_params(2 * setup->requests_max, ring, &params) == 0) {
            if ((params.features & IORING_FEAT_SQPOLL_NONFIXED) != 0)
                return 0;
            io_uring_queue_exit(ring);
        }
    }
    return io_uring_queue_init(setup->requests_max, ring, IORING_SETUP_CLAMP);
}

static spsh_status uring_open(const spsh__read_setup *setup, void **ret_state, spsh_error *err)
{
    uring_state *state = spsh__new(setup->allocator, 1, sizeof(*state));
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "io_uring");
    state->allocator = setup->allocator;
    state->file_registered = spsh__new(setup->allocator, 1, setup->files_max * sizeof(bool));
    if (state->file_registered == NULL) {
        spsh__free(setup->allocator, state);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "io_uring");
    }
    int rc = open_ring(setup, &state->ring);
    if (rc < 0) { /* ENOMEM too: it is RLIMIT_MEMLOCK */
        spsh__free(setup->allocator, state->file_registered);
        spsh__free(setup->allocator, state);
        return SPSH_FAIL_OS(err, SPSH_E_UNSUPPORTED, -rc, "io_uring: %s", spsh__os_text(-rc));
    }
    /* A child of this process must not reach into the queues. */
    rc = io_uring_ring_dontfork(&state->ring);
    if (rc < 0) {
        uring_close(state, false);
        return SPSH_FAIL_OS(err, SPSH_E_UNSUPPORTED, -rc, "io_uring: %s", spsh__os_text(-rc));
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
    if (sqe == NULL) /* one entry per slot fits unless the kernel clamped the queue */
        return SPSH_FAIL_AT(err, SPSH_E_IO, op->offset_bytes,
                            "io_uring: the submission queue is full");
    const bool fixed_file = state->file_registered[op->file];
    const int fd = fixed_file ? (int)op->file : op->fd;
    if (state->fixed_buffers)
        io_uring_prep_read_fixed(sqe, fd, op->dst, (unsigned)op->size_bytes, op->offset_bytes, 0);
    else
        io_uring_prep_read(sqe, fd, op->dst, (unsigned)op->size_bytes, op->offset_bytes);
    if (fixed_file)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, op->slot);
    state->prepared++;
    return SPSH_OK;
}

/* Wake up the kernel's thread, which takes the entries of the submission queue. */
static int hand_over_to_thread(uring_state *state)
{
    int rc = -EINTR;
    while (rc == -EINTR)
        rc = io_uring_submit(&state->ring);
    if (rc >= 0) {
        state->in_kernel += state->prepared;
        state->prepared = 0;
    }
    return rc;
}

static int hand_over_to_call(uring_state *state)
{
    int rc = 0;
    for (uint32_t tries = 0; state->prepared > 0; tries++) {
        rc = io_uring_submit(&state->ring);
        if (rc > 0) {
            state->in_kernel += (uint64_t)rc;
            state->prepared -= (uint64_t)rc;
            continue;
        }
        const bool refused = rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY;
        if (refused || tries >= HAND_OVER_TRIES_MAX)
            break;
        if (state->in_kernel > 0)
            return 0;
        (void)sched_yield();
    }
    if (state->prepared == 0)
        return 0;
    return rc < 0 ? rc : -EAGAIN;
}

/* Submit the prepared entries. If the kernel has no operation in flight, there is nothing to wait
 * for, so retry here after a refusal. Otherwise the next completion frees capacity. */
static spsh_status hand_over(uring_state *state, spsh_error *err)
{
    if (state->prepared == 0)
        return SPSH_OK;
    const bool thread = (state->ring.flags & IORING_SETUP_SQPOLL) != 0;
    int rc = thread ? hand_over_to_thread(state) : hand_over_to_call(state);
    if (rc >= 0)
        return SPSH_OK;
    return SPSH_FAIL_OS(err, SPSH_E_IO, -rc, "io_uring: submit: %s", spsh__os_text(-rc));
}

/* 0, or a negative errno: ETIME when time is up. A ring is readable when something has completed;
 * that holds for every kernel, which waiting with a time-out inside io_uring does not. */
static int wait_for_cqe(uring_state *state, uint32_t timeout_ms, struct io_uring_cqe **ret_cqe)
{
    int rc = io_uring_peek_cqe(&state->ring, ret_cqe);
    if (rc != -EAGAIN || timeout_ms == 0)
        return rc == -EAGAIN ? -ETIME : rc;
    struct pollfd ready = {.fd = state->ring.ring_fd, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX) < 0)
        return -errno;
    rc = io_uring_peek_cqe(&state->ring, ret_cqe);
    return rc == -EAGAIN ? -ETIME : rc;
}

static spsh_status uring_wait(void *opaque, uint32_t timeout_ms, spsh__read_result *ret_result,
                              spsh_error *err)
{
    uring_state *state = (uring_state *)opaque;
    struct io_uring_cqe *cqe = NULL;
    spsh_status status = hand_over(state, err);
    if (status != SPSH_OK)
        return status;
    const bool forever = timeout_ms == SPSH__READ_FOREVER;
    int rc = -EINTR;
    while (rc == -EINTR && forever)
        rc = io_uring_wait_cqe(&state->ring, &cqe);
    if (!forever)
        rc = wait_for_cqe(state, timeout_ms, &cqe);
    if (!forever && (rc == -ETIME || rc == -EINTR))
        return SPSH_E_TIMEOUT;
    if (rc < 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, -rc, "io_uring: wait: %s", spsh__os_text(-rc));
    ret_result->slot = (uint32_t)io_uring_cqe_get_data64(cqe);
    ret_result->value = cqe->res;
    io_uring_cqe_seen(&state->ring, cqe);
    state->in_kernel--;
    return SPSH_OK;
}

const spsh_read_backend spsh__read_uring = {
    .name = "io_uring",
    .open_fn = uring_open,
    .file_fn = uring_file,
    .submit_fn = uring_submit,
    .wait_fn = uring_wait,
    .close_fn = uring_close,
};

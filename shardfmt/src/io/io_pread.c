/* io_pread.c: the portable back end of the read engine: pread in a few threads.
 *
 * One mutex guards two rings of slots, `waiting` and `finished`. Each has capacity for every slot,
 * so neither can overflow. Threads do one system call per operation and do not interpret its
 * result: short reads and errors are returned to the engine unchanged, as io_uring would report
 * them.
 */
#include "io_backend.h"
#include "io_internal.h"

#include <pthread.h>
#include <time.h>

#define THREADS_MAX UINT32_C(64)

typedef struct ring {
    uint32_t *slots;
    uint64_t begin, end;
} ring;

typedef struct pread_state {
    const spsh_allocator *allocator;
    const spsh_io *io;
    uint32_t requests_max;
    spsh__read_op *ops; /* by slot */
    int64_t *results;   /* by slot */
    ring waiting, finished;
    bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    uint32_t thread_count;
    pthread_t threads[THREADS_MAX];
} pread_state;

static void ring_put(const pread_state *state, ring *to, uint32_t slot)
{
    to->slots[to->end++ % state->requests_max] = slot;
}

static uint32_t ring_take(const pread_state *state, ring *from)
{
    return from->slots[from->begin++ % state->requests_max];
}

static void *pread_worker(void *opaque)
{
    pread_state *state = (pread_state *)opaque;
    (void)pthread_mutex_lock(&state->mutex);
    for (;;) {
        while (state->waiting.begin == state->waiting.end && !state->stop)
            (void)pthread_cond_wait(&state->work, &state->mutex);
        if (state->stop)
            break;
        uint32_t slot = ring_take(state, &state->waiting);
        const spsh__read_op op = state->ops[slot];
        (void)pthread_mutex_unlock(&state->mutex);
        int64_t result =
            state->io->pread_fn(state->io->user, op.fd, op.dst, op.size_bytes, op.offset_bytes);
        (void)pthread_mutex_lock(&state->mutex);
        state->results[slot] = result;
        ring_put(state, &state->finished, slot);
        (void)pthread_cond_signal(&state->done);
    }
    (void)pthread_mutex_unlock(&state->mutex);
    return NULL;
}

static void free_state(pread_state *state)
{
    spsh__free(state->allocator, state->finished.slots);
    spsh__free(state->allocator, state->waiting.slots);
    spsh__free(state->allocator, state->results);
    spsh__free(state->allocator, state->ops);
    spsh__free(state->allocator, state);
}

static void pread_close(void *opaque, bool is_inherited)
{
    pread_state *state = (pread_state *)opaque;
    if (is_inherited) { /* a thread of the parent may have held the mutex */
        free_state(state);
        return;
    }
    (void)pthread_mutex_lock(&state->mutex);
    state->stop = true;
    (void)pthread_cond_broadcast(&state->work);
    (void)pthread_mutex_unlock(&state->mutex);
    for (uint32_t at = 0; at < state->thread_count; at++)
        (void)pthread_join(state->threads[at], NULL);
    (void)pthread_cond_destroy(&state->done);
    (void)pthread_cond_destroy(&state->work);
    (void)pthread_mutex_destroy(&state->mutex);
    free_state(state);
}

/* Bound waits by the monotonic clock, which cannot be set. */
static void init_done(pread_state *state)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&state->done, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static spsh_status pread_open(const spsh__read_setup *setup, void **ret_state, spsh_error *err)
{
    const spsh_allocator *allocator = setup->allocator;
    pread_state *state = spsh__new(allocator, 1, sizeof(*state));
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "read threads");
    state->allocator = allocator;
    state->io = setup->io;
    state->requests_max = setup->requests_max;
    state->ops = spsh__alloc_array(allocator, setup->requests_max, sizeof(*state->ops));
    state->results = spsh__alloc_array(allocator, setup->requests_max, sizeof(*state->results));
    state->waiting.slots = spsh__alloc_array(allocator, setup->requests_max, sizeof(uint32_t));
    state->finished.slots = spsh__alloc_array(allocator, setup->requests_max, sizeof(uint32_t));
    if (state->ops == NULL || state->results == NULL || state->waiting.slots == NULL ||
        state->finished.slots == NULL) {
        free_state(state);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "read threads");
    }
    (void)pthread_mutex_init(&state->mutex, NULL);
    (void)pthread_cond_init(&state->work, NULL);
    init_done(state);
    uint32_t wanted = setup->threads < THREADS_MAX ? setup->threads : THREADS_MAX;
    int rc = 0;
    while (state->thread_count < wanted && rc == 0) {
        rc = pthread_create(&state->threads[state->thread_count], NULL, pread_worker, state);
        state->thread_count += rc == 0;
    }
    if (state->thread_count == 0) { /* fewer threads than requested suffice, but not zero */
        pread_close(state, false);
        return SPSH_FAIL_OS(err, SPSH_E_IO, rc, "read threads: %s", spsh__os_text(rc));
    }
    *ret_state = state;
    return SPSH_OK;
}

static void pread_file(void *opaque, uint32_t file, int fd)
{
    (void)opaque, (void)file, (void)fd; /* an operation brings its descriptor */
}

static spsh_status pread_submit(void *opaque, const spsh__read_op *op, spsh_error *err)
{
    (void)err;
    pread_state *state = (pread_state *)opaque;
    (void)pthread_mutex_lock(&state->mutex);
    state->ops[op->slot] = *op;
    ring_put(state, &state->waiting, op->slot);
    (void)pthread_cond_signal(&state->work);
    (void)pthread_mutex_unlock(&state->mutex);
    return SPSH_OK;
}

/* Absolute, on the clock of `done`. */
static struct timespec time_after(uint32_t timeout_ms)
{
    struct timespec at = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(timeout_ms / 1000);
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static spsh_status pread_wait(void *opaque, uint32_t timeout_ms, spsh__read_result *ret_result,
                              spsh_error *err)
{
    (void)err;
    pread_state *state = (pread_state *)opaque;
    const bool bounded = timeout_ms != SPSH__READ_FOREVER;
    const struct timespec end = bounded ? time_after(timeout_ms) : (struct timespec){0};
    int rc = 0;
    (void)pthread_mutex_lock(&state->mutex);
    while (state->finished.begin == state->finished.end && rc == 0)
        rc = bounded ? pthread_cond_timedwait(&state->done, &state->mutex, &end)
                     : pthread_cond_wait(&state->done, &state->mutex);
    const bool found = state->finished.begin != state->finished.end;
    if (found) {
        ret_result->slot = ring_take(state, &state->finished);
        ret_result->value = state->results[ret_result->slot];
    }
    (void)pthread_mutex_unlock(&state->mutex);
    return found ? SPSH_OK : SPSH_E_TIMEOUT;
}

const spsh_read_backend spsh__read_pread = {
    .name = "pread",
    .open_fn = pread_open,
    .file_fn = pread_file,
    .submit_fn = pread_submit,
    .wait_fn = pread_wait,
    .close_fn = pread_close,
};

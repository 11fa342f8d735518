/* featgen_batch.c: utterances dealt to threads, each straight to its place.
 *
 *     caller: checks, lays out, wakes --> thread 1 ... n: takes the next utterance until there is
 * none takes utterances itself <-- the last one to finish wakes the caller
 *
 * Places follow from frame counts, which follow from sample counts: they are known before anything
 * is computed, so that it does not matter who computes what.
 */
#include "featgen_batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "featgen_state.h"
#include "speechshard/cores.h"

/* One thread, the caller's included. */
typedef struct hand {
    spsh__batch *batch;
    spsh_featgen_worker *worker;
    float *rows; /* rows of an utterance to convert to float16 */
    size_t row_values;
    pthread_t thread;
} hand;

struct spsh__batch {
    const spsh_featgen *featgen;
    hand *hands; /* element 0 belongs to the calling thread */
    uint32_t hand_count, started;
    pid_t pid;         /* process that started the threads */
    uint64_t *offsets; /* values before each utterance */
    size_t offset_capacity;

    /* the current call */
    const spsh_feature_input *inputs;
    size_t count;
    const spsh_feature_batch *out;
    atomic_size_t next;

    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t work, done;
    uint64_t call; /* number of the call; a new number signals work */
    uint32_t busy;
    bool stop;
    size_t failed; /* the first utterance that failed; SIZE_MAX: none */
    spsh_status status;
    spsh_error error;
};

/* ---- one utterance ---- */

static uint64_t frames_of(const spsh__batch *batch, size_t number)
{
    return spsh_featgen_frame_count(batch->featgen, batch->inputs[number].sample_count);
}

static void pad(const spsh__batch *batch, uint64_t offset, uint64_t value_count)
{
    const spsh_feature_batch *out = batch->out;
    if (out->dtype == SPSH_FLOAT32) {
        float *values = (float *)out->values + offset;
        for (uint64_t i = 0; i < value_count; i++)
            values[i] = out->padding_value;
        return;
    }
    uint16_t half = 0;
    uint16_t *halves = (uint16_t *)out->values + offset;
    spsh_half_from_float(&half, &out->padding_value, 1);
    for (uint64_t i = 0; i < value_count; i++)
        halves[i] = half;
}

static spsh_status compute_one(spsh__batch *batch, hand *self, size_t number, spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(batch->featgen);
    const spsh_feature_batch *out = batch->out;
    const uint64_t frames = frames_of(batch, number);
    const uint64_t offset = batch->offsets[number];
    const bool is_half = out->dtype == SPSH_FLOAT16;
    float *rows = is_half ? self->rows : (float *)out->values + offset;
    spsh_status rc = spsh_featgen_compute(self->worker, &batch->inputs[number], rows, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_half)
        spsh_half_from_float((uint16_t *)out->values + offset, rows, frames * dim);
    if (out->padded_frames > frames)
        pad(batch, offset + frames * dim, (out->padded_frames - frames) * dim);
    return SPSH_OK;
}

static void compute_some(spsh__batch *batch, hand *self)
{
    for (;;) {
        spsh_error why = SPSH_ERROR_INIT;
        const size_t number = atomic_fetch_add(&batch->next, 1);
        if (number >= batch->count)
            return;
        spsh_status rc = compute_one(batch, self, number, &why);
        if (rc == SPSH_OK)
            continue;
        (void)pthread_mutex_lock(&batch->lock);
        if (number < batch->failed) {
            batch->failed = number;
            batch->status = rc;
            batch->error = why;
        }
        (void)pthread_mutex_unlock(&batch->lock);
    }
}

/* ---- threads ---- */

static void *thread_main(void *opaque)
{
    hand *self = (hand *)opaque;
    spsh__batch *batch = self->batch;
    uint64_t seen = 0;
    (void)pthread_mutex_lock(&batch->lock);
    for (;;) {
        while (!batch->stop && batch->call == seen)
            (void)pthread_cond_wait(&batch->work, &batch->lock);
        if (batch->stop)
            break;
        seen = batch->call;
        (void)pthread_mutex_unlock(&batch->lock);
        compute_some(batch, self);
        (void)pthread_mutex_lock(&batch->lock);
        if (--batch->busy == 0)
            (void)pthread_cond_signal(&batch->done);
    }
    (void)pthread_mutex_unlock(&batch->lock);
    return NULL;
}

static void init_lock(spsh__batch *batch)
{
    batch->pid = getpid();
    (void)pthread_mutex_init(&batch->lock, NULL);
    (void)pthread_cond_init(&batch->work, NULL);
    (void)pthread_cond_init(&batch->done, NULL);
}

/* A forked child has no threads, and a thread of the parent may have held the lock. */
static void forget_parent(spsh__batch *batch)
{
    if (batch->pid == getpid())
        return;
    batch->started = 0;
    init_lock(batch);
}

void spsh__batch_close(spsh__batch *batch)
{
    if (batch == NULL)
        return;
    forget_parent(batch);
    const spsh_allocator *allocator = &batch->featgen->allocator;
    (void)pthread_mutex_lock(&batch->lock);
    batch->stop = true;
    (void)pthread_cond_broadcast(&batch->work);
    (void)pthread_mutex_unlock(&batch->lock);
    for (uint32_t i = 0; i < batch->hand_count; i++) {
        if (i > 0 && i <= batch->started)
            (void)pthread_join(batch->hands[i].thread, NULL);
        spsh_featgen_worker_close(batch->hands[i].worker);
        spsh__free(allocator, batch->hands[i].rows);
    }
    (void)pthread_cond_destroy(&batch->done);
    (void)pthread_cond_destroy(&batch->work);
    (void)pthread_mutex_destroy(&batch->lock);
    spsh__free(allocator, batch->offsets);
    spsh__free(allocator, batch->hands);
    spsh__free(allocator, batch);
}

/* Run with fewer threads than requested if some cannot start. The caller is one of them. */
static spsh_status batch_open(const spsh_featgen *featgen, spsh__batch **ret_batch, spsh_error *err)
{
    const spsh_allocator *allocator = &featgen->allocator;
    const uint32_t hands = featgen->options.threads != 0
                               ? featgen->options.threads
                               : spsh_core_count(SPSH_FEATGEN_THREADS_MAX);
    spsh_status rc = SPSH_OK;
    spsh__batch *batch = spsh__new(allocator, 1, sizeof *batch);
    if (batch == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: %zu bytes", sizeof *batch);
    batch->featgen = featgen;
    init_lock(batch);
    batch->hands = spsh__new(allocator, hands, sizeof *batch->hands);
    if (batch->hands == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: %u threads", hands);
        goto out;
    }
    batch->hand_count = hands;
    for (uint32_t i = 0; i < hands; i++) {
        batch->hands[i].batch = batch;
        rc = spsh_featgen_worker_open(featgen, &batch->hands[i].worker, err);
        if (rc != SPSH_OK)
            goto out;
    }
    for (uint32_t i = 1; i < hands; i++) {
        if (pthread_create(&batch->hands[i].thread, NULL, thread_main, &batch->hands[i]) != 0)
            break;
        batch->started = i;
    }
    *ret_batch = batch;
    batch = NULL;
out:
    spsh__batch_close(batch);
    return rc;
}

/* ---- a call ---- */

/* Reserve memory for offsets and, for float16, for the longest utterance in each thread. */
static spsh_status reserve(spsh__batch *batch, uint64_t row_values, spsh_error *err)
{
    const spsh_allocator *allocator = &batch->featgen->allocator;
    if (batch->offset_capacity < batch->count) {
        spsh__free(allocator, batch->offsets);
        batch->offset_capacity = 0;
        batch->offsets = spsh__new(allocator, batch->count, sizeof *batch->offsets);
        if (batch->offsets == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: %zu offsets", batch->count);
        batch->offset_capacity = batch->count;
    }
    for (uint32_t i = 0; i < batch->hand_count; i++) {
        hand *of = &batch->hands[i];
        if (of->row_values >= row_values)
            continue;
        spsh__free(allocator, of->rows);
        of->row_values = 0;
        of->rows = spsh__new(allocator, row_values, sizeof(float));
        if (of->rows == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: %llu values",
                             (unsigned long long)row_values);
        of->row_values = row_values;
    }
    return SPSH_OK;
}

/* Check that the batch fits, and compute the offset of each utterance. */
static spsh_status lay_out(spsh__batch *batch, uint64_t *frame_counts, spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(batch->featgen);
    const spsh_feature_batch *out = batch->out;
    uint64_t longest = 0;
    uint64_t needed = 0;
    for (size_t u = 0; u < batch->count; u++) {
        const uint64_t frames = frames_of(batch, u);
        const uint64_t taken = out->padded_frames != 0 ? out->padded_frames : frames;
        uint64_t values = 0;
        if (frames > taken)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "utterance %zu has %llu frames, but the batch has %llu", u,
                             (unsigned long long)frames, (unsigned long long)taken);
        if (__builtin_mul_overflow(taken, (uint64_t)dim, &values) ||
            __builtin_add_overflow(needed, values, &needed) || needed > out->capacity)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "the buffer of %zu values is full at utterance %zu of %zu",
                             out->capacity, u, batch->count);
        longest = frames > longest ? frames : longest;
    }
    spsh_status rc = reserve(batch, out->dtype == SPSH_FLOAT16 ? longest * dim : 0, err);
    uint64_t offset = 0;
    for (size_t u = 0; rc == SPSH_OK && u < batch->count; u++) {
        const uint64_t frames = frames_of(batch, u);
        batch->offsets[u] = offset;
        offset += (out->padded_frames != 0 ? out->padded_frames : frames) * dim;
        if (frame_counts != NULL)
            frame_counts[u] = frames;
    }
    return rc;
}

spsh_status spsh_featgen_batch(spsh_featgen *featgen, const spsh_feature_input *inputs,
                               size_t count, const spsh_feature_batch *out, uint64_t *frame_counts,
                               spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (out->dtype != SPSH_FLOAT32 && out->dtype != SPSH_FLOAT16)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "unknown dtype %u", (unsigned)out->dtype);
    spsh__batch *batch = featgen->batch;
    if (batch == NULL) {
        rc = batch_open(featgen, &batch, err);
        if (rc != SPSH_OK)
            return rc;
        featgen->batch = batch;
    }
    forget_parent(batch);
    batch->inputs = inputs;
    batch->count = count;
    batch->out = out;
    rc = lay_out(batch, frame_counts, err);
    if (rc != SPSH_OK)
        return rc;

    (void)pthread_mutex_lock(&batch->lock);
    atomic_store(&batch->next, 0);
    batch->failed = SIZE_MAX;
    batch->busy = batch->started;
    batch->call++;
    (void)pthread_cond_broadcast(&batch->work);
    (void)pthread_mutex_unlock(&batch->lock);
    compute_some(batch, &batch->hands[0]);
    (void)pthread_mutex_lock(&batch->lock);
    while (batch->busy > 0)
        (void)pthread_cond_wait(&batch->done, &batch->lock);
    rc = batch->failed == SIZE_MAX ? SPSH_OK : batch->status;
    if (rc != SPSH_OK && err != NULL)
        *err = batch->error;
    (void)pthread_mutex_unlock(&batch->lock);
    return rc;
}

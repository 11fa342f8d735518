/* extract_pipeline.c: a ring of slots, each with a writer of its own.
 *
 *     released <= finished in any order <= taken <= released + window
 *
 * Threads take jobs in order; whoever publishes waits for the oldest. A job is a few utterances, so
 * one mutex for everything costs nothing that shows. Each thread opens its extractor when it
 * begins; if that fails, its first job fails with it.
 */
#include "extract_pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum { SLOTS_PER_THREAD = 8 };

typedef struct slot {
    spsh__extract_result result;
    bool done;
    spsh_status status;
    spsh_error error;
} slot;

struct spsh__extract_pipeline {
    spsh__extract_pipeline_options options;
    pthread_mutex_t mutex;
    pthread_cond_t may_take;
    pthread_cond_t may_hand_out;
    pthread_t *threads;
    size_t thread_count;
    slot *slots;
    size_t window;
    size_t taken, released;
    bool stopping;
};

static double decoded_seconds(const spsh__segment_row *row)
{
    return (row->flags & SPSH__ROW_DECODED) != 0
               ? (double)row->samples / (double)row->sample_rate_hz
               : 0.0;
}

static spsh_status run_job(const spsh__extract_pipeline *p, spsh__extractor *extractor,
                           spsh__extract_result *result, spsh_error *err)
{
    spsh_status rc = spsh__segment_writer_reset(result->rows, err);
    result->seconds = 0.0;
    for (uint32_t i = 0; i < result->job.count && rc == SPSH_OK; i++) {
        spsh__segment_entry entry;
        if (p->options.stop != NULL && *p->options.stop)
            return SPSH_DEDUP_FAIL(err, SPSH_E_CANCELED, "stopped");
        rc = spsh__extractor_run(extractor, result->job.first + i, &entry, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_add(result->rows, &entry, err);
        if (rc == SPSH_OK)
            result->seconds += decoded_seconds(&entry.row);
    }
    return rc;
}

/* The next job's slot; NULL: there is nothing more to do. Under the mutex. */
static slot *take(spsh__extract_pipeline *p)
{
    while (!p->stopping && p->taken < p->options.job_count && p->taken - p->released >= p->window)
        (void)pthread_cond_wait(&p->may_take, &p->mutex);
    if (p->stopping || p->taken == p->options.job_count)
        return NULL;
    slot *s = &p->slots[p->taken % p->window];
    s->result.job = p->options.jobs[p->taken];
    s->done = false;
    p->taken++;
    return s;
}

static void *work(void *user)
{
    spsh__extract_pipeline *p = user;
    spsh__extractor *extractor = NULL;
    (void)pthread_mutex_lock(&p->mutex);
    for (slot *s = take(p); s != NULL; s = take(p)) {
        (void)pthread_mutex_unlock(&p->mutex);
        s->status = extractor != NULL
                        ? SPSH_OK
                        : spsh__extractor_open(p->options.dataset, &extractor, &s->error);
        if (s->status == SPSH_OK)
            s->status = run_job(p, extractor, &s->result, &s->error);
        (void)pthread_mutex_lock(&p->mutex);
        s->done = true;
        (void)pthread_cond_signal(&p->may_hand_out);
    }
    (void)pthread_mutex_unlock(&p->mutex);
    spsh__extractor_close(extractor);
    return NULL;
}

static spsh_status start_threads(spsh__extract_pipeline *p, spsh_error *err)
{
    while (p->thread_count < p->options.threads &&
           pthread_create(&p->threads[p->thread_count], NULL, work, p) == 0)
        p->thread_count++; /* fewer are slower, not wrong */
    return p->thread_count > 0 ? SPSH_OK
                               : SPSH_DEDUP_FAIL(err, SPSH_E_NO_MEMORY, "no thread can be started");
}

spsh_status spsh__extract_pipeline_start(const spsh__extract_pipeline_options *options,
                                         spsh__extract_pipeline **ret_pipeline, spsh_error *err)
{
    spsh__extract_pipeline *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return SPSH_DEDUP_NO_MEMORY(err);
    p->options = *options;
    if (p->options.threads == 0)
        p->options.threads = 1;
    p->window = (size_t)p->options.threads * SLOTS_PER_THREAD;
    (void)pthread_mutex_init(&p->mutex, NULL);
    (void)pthread_cond_init(&p->may_take, NULL);
    (void)pthread_cond_init(&p->may_hand_out, NULL);
    p->slots = calloc(p->window, sizeof(*p->slots));
    p->threads = calloc(p->options.threads, sizeof(*p->threads));
    spsh_status rc = p->slots == NULL || p->threads == NULL ? SPSH_DEDUP_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < p->window && rc == SPSH_OK; i++)
        rc = spsh__segment_writer_open(&p->slots[i].result.rows, err);
    if (rc == SPSH_OK)
        rc = start_threads(p, err);
    if (rc != SPSH_OK) {
        spsh__extract_pipeline_stop(p);
        return rc;
    }
    *ret_pipeline = p;
    return SPSH_OK;
}

spsh_status spsh__extract_pipeline_next(spsh__extract_pipeline *pipeline,
                                        const spsh__extract_result **ret_result, spsh_error *err)
{
    spsh__extract_pipeline *p = pipeline;
    if (p->released == p->options.job_count)
        return SPSH_E_END;
    slot *s = &p->slots[p->released % p->window];
    (void)pthread_mutex_lock(&p->mutex);
    while (p->taken == p->released || !s->done)
        (void)pthread_cond_wait(&p->may_hand_out, &p->mutex);
    (void)pthread_mutex_unlock(&p->mutex);
    if (s->status != SPSH_OK && err != NULL)
        *err = s->error;
    *ret_result = &s->result;
    return s->status;
}

void spsh__extract_pipeline_release(spsh__extract_pipeline *pipeline)
{
    (void)pthread_mutex_lock(&pipeline->mutex);
    pipeline->slots[pipeline->released % pipeline->window].done = false;
    pipeline->released++;
    (void)pthread_cond_broadcast(&pipeline->may_take);
    (void)pthread_mutex_unlock(&pipeline->mutex);
}

void spsh__extract_pipeline_stop(spsh__extract_pipeline *pipeline)
{
    spsh__extract_pipeline *p = pipeline;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->may_take);
    (void)pthread_mutex_unlock(&p->mutex);
    for (size_t i = 0; i < p->thread_count; i++)
        (void)pthread_join(p->threads[i], NULL);
    for (size_t i = 0; p->slots != NULL && i < p->window; i++)
        spsh__segment_writer_free(p->slots[i].result.rows);
    (void)pthread_cond_destroy(&p->may_hand_out);
    (void)pthread_cond_destroy(&p->may_take);
    (void)pthread_mutex_destroy(&p->mutex);
    free(p->threads);
    free(p->slots);
    free(p);
}

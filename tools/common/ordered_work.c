/* ordered_work.c: a ring of slots, one result per slot.
 *
 *     released <= finished in any order <= taken <= released + window
 *
 * Threads take jobs in order, and the consumer waits for the oldest job. A job takes milliseconds
 * and a lock less than a microsecond, so one mutex for everything has no measurable cost.
 */
#include "ordered_work.h"
#include "speechshard/inside.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct slot {
    void *result;
    size_t job;
    bool done;
    spsh_status status;
    spsh_error error;
} slot;

struct spsh__ordered_work {
    spsh__ordered_work_options options;
    pthread_mutex_t mutex;
    pthread_cond_t may_take;
    pthread_cond_t may_hand_out;
    pthread_t *threads;
    size_t thread_count;
    slot *slots;
    size_t window;
    size_t taken, released;
    uint64_t cost; /* cost of the jobs between released and taken */
    bool stopping;
};

static uint64_t cost_of(const spsh__ordered_work *w, size_t job)
{
    return w->options.cost_fn == NULL ? 0 : w->options.cost_fn(w->options.user, job);
}

static bool may_take(const spsh__ordered_work *w)
{
    return w->taken == w->released || (w->taken - w->released < w->window &&
                                       w->cost + cost_of(w, w->taken) <= w->options.cost_max);
}

/* Return the slot of the next job, or NULL if no job is left. Call with the mutex locked. */
static slot *take(spsh__ordered_work *w)
{
    while (!w->stopping && w->taken < w->options.job_count && !may_take(w))
        (void)pthread_cond_wait(&w->may_take, &w->mutex);
    if (w->stopping || w->taken == w->options.job_count)
        return NULL;
    slot *s = &w->slots[w->taken % w->window];
    w->cost += cost_of(w, w->taken);
    s->job = w->taken++;
    s->done = false;
    return s;
}

static void *run(void *user)
{
    spsh__ordered_work *w = user;
    const spsh__ordered_work_kind *kind = w->options.kind;
    void *worker = NULL;
    (void)pthread_mutex_lock(&w->mutex);
    for (slot *s = take(w); s != NULL; s = take(w)) {
        (void)pthread_mutex_unlock(&w->mutex);
        s->status = worker != NULL || kind->open_fn == NULL
                        ? SPSH_OK
                        : kind->open_fn(w->options.user, &worker, &s->error);
        if (s->status == SPSH_OK)
            s->status = kind->run_fn(w->options.user, worker, s->job, s->result, &s->error);
        (void)pthread_mutex_lock(&w->mutex);
        s->done = true;
        (void)pthread_cond_signal(&w->may_hand_out);
    }
    (void)pthread_mutex_unlock(&w->mutex);
    if (kind->close_fn != NULL)
        kind->close_fn(worker);
    return NULL;
}

static spsh_status start_threads(spsh__ordered_work *w, spsh_error *err)
{
    int failed = 0;
    while (w->thread_count < w->options.threads && failed == 0) {
        failed = pthread_create(&w->threads[w->thread_count], NULL, run, w);
        w->thread_count += failed == 0;
    }
    if (w->thread_count > 0)
        return SPSH_OK; /* fewer threads are only slower */
    return SPSH_FAIL_OS(err, SPSH_E_NO_MEMORY, failed, "cannot start a thread");
}

spsh_status spsh__ordered_work_start(const spsh__ordered_work_options *options,
                                     spsh__ordered_work **ret_work, spsh_error *err)
{
    spsh__ordered_work *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return SPSH_NO_MEMORY(err);
    w->options = *options;
    w->taken = w->released = options->first_job;
    if (w->options.threads == 0)
        w->options.threads = 1;
    w->window = (size_t)w->options.threads * w->options.ahead;
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->may_take, NULL);
    (void)pthread_cond_init(&w->may_hand_out, NULL);
    w->slots = calloc(w->window, sizeof(*w->slots));
    w->threads = calloc(w->options.threads, sizeof(*w->threads));
    spsh_status rc = w->slots == NULL || w->threads == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < w->window && rc == SPSH_OK; i++)
        rc = options->kind->result_new_fn(options->user, &w->slots[i].result, err);
    if (rc == SPSH_OK)
        rc = start_threads(w, err);
    if (rc != SPSH_OK) {
        spsh__ordered_work_stop(w);
        return rc;
    }
    *ret_work = w;
    return SPSH_OK;
}

spsh_status spsh__ordered_work_next(spsh__ordered_work *work, size_t *ret_job, void **ret_result,
                                    spsh_error *err)
{
    spsh__ordered_work *w = work;
    if (w->released == w->options.job_count)
        return SPSH_E_END;
    slot *s = &w->slots[w->released % w->window];
    (void)pthread_mutex_lock(&w->mutex);
    while (w->taken == w->released || !s->done)
        (void)pthread_cond_wait(&w->may_hand_out, &w->mutex);
    (void)pthread_mutex_unlock(&w->mutex);
    if (s->status != SPSH_OK && err != NULL)
        *err = s->error;
    *ret_job = s->job;
    *ret_result = s->result;
    return s->status;
}

void spsh__ordered_work_release(spsh__ordered_work *work)
{
    spsh__ordered_work *w = work;
    (void)pthread_mutex_lock(&w->mutex);
    w->slots[w->released % w->window].done = false;
    w->cost -= cost_of(w, w->released);
    w->released++;
    (void)pthread_cond_broadcast(&w->may_take);
    (void)pthread_mutex_unlock(&w->mutex);
}

void spsh__ordered_work_stop(spsh__ordered_work *work)
{
    spsh__ordered_work *w = work;
    if (w == NULL)
        return;
    (void)pthread_mutex_lock(&w->mutex);
    w->stopping = true;
    (void)pthread_cond_broadcast(&w->may_take);
    (void)pthread_mutex_unlock(&w->mutex);
    for (size_t i = 0; i < w->thread_count; i++)
        (void)pthread_join(w->threads[i], NULL);
    for (size_t i = 0; w->slots != NULL && i < w->window; i++)
        w->options.kind->result_free_fn(w->slots[i].result);
    (void)pthread_cond_destroy(&w->may_hand_out);
    (void)pthread_cond_destroy(&w->may_take);
    (void)pthread_mutex_destroy(&w->mutex);
    free(w->threads);
    free(w->slots);
    free(w);
}

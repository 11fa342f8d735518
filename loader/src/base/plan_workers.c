/* plan_workers.c: threads that draw numbers from one counter.
 *
 * A thread that cannot be started is done without: the calling one works, too.
 */
#include "plan_workers.h"

#include <pthread.h>
#include <stdatomic.h>

#include "speechshard/cores.h"

enum { THREADS_MAX = 64 };

typedef struct run {
    _Atomic(uint64_t) next;
    uint64_t count;
    spsh__plan_piece_fn piece_fn;
    void *user;
    const spsh__plan_progress *progress;
    pthread_mutex_t mutex; /* of what follows */
    uint64_t failed_piece;
    spsh_status status;
    spsh_error error;
} run;

typedef struct thread {
    run *of;
    uint32_t number;
    pthread_t id;
} thread;

uint32_t spsh__workers_default(void)
{
    return spsh_core_count(THREADS_MAX);
}

static void note_failure(run *r, uint64_t piece, spsh_status status, const spsh_error *error)
{
    (void)pthread_mutex_lock(&r->mutex);
    if (piece < r->failed_piece) {
        r->failed_piece = piece;
        r->status = status;
        r->error = *error;
    }
    (void)pthread_mutex_unlock(&r->mutex);
    atomic_store(&r->next, r->count);
}

spsh_status spsh__plan_progress_report(const spsh__plan_progress *progress, uint64_t done,
                                       uint64_t total, spsh_error *err)
{
    if (progress->fn == NULL || progress->fn(progress->user, progress->phase, done, total) == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_CANCELED, "the plan was canceled");
}

static void *work(void *argument)
{
    const thread *self = (const thread *)argument;
    run *r = self->of;
    for (;;) {
        spsh_error error = SPSH_ERROR_INIT;
        uint64_t piece = atomic_fetch_add(&r->next, 1);
        if (piece >= r->count)
            return NULL;
        spsh_status rc = SPSH_OK;
        if (self->number == 0 && r->progress != NULL)
            rc = spsh__plan_progress_report(r->progress, piece, r->count, &error);
        if (rc == SPSH_OK)
            rc = r->piece_fn(r->user, self->number, piece, &error);
        if (rc != SPSH_OK)
            note_failure(r, piece, rc, &error);
    }
}

spsh_status spsh__workers_run(uint32_t threads, uint64_t count, spsh__plan_piece_fn piece_fn,
                              void *user, const spsh__plan_progress *progress, spsh_error *err)
{
    run r = {.count = count,
             .piece_fn = piece_fn,
             .user = user,
             .progress = progress,
             .failed_piece = UINT64_MAX,
             .status = SPSH_OK,
             .error = SPSH_ERROR_INIT};
    thread list[THREADS_MAX];
    uint32_t started = 1;
    atomic_init(&r.next, 0);
    if (pthread_mutex_init(&r.mutex, NULL) != 0)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "mutex");
    list[0] = (thread){.of = &r, .number = 0};
    for (; started < threads && started < THREADS_MAX && started < count; started++) {
        list[started] = (thread){.of = &r, .number = started};
        if (pthread_create(&list[started].id, NULL, work, &list[started]) != 0)
            break;
    }
    (void)work(&list[0]);
    for (uint32_t i = 1; i < started; i++)
        (void)pthread_join(list[i].id, NULL);
    (void)pthread_mutex_destroy(&r.mutex);
    if (r.status != SPSH_OK && err != NULL)
        *err = r.error;
    return r.status;
}

/* cores.c: the core count, and threads that take pieces from one counter.
 *
 * Pieces begin in order, so all pieces below a failed one have begun and will end: the lowest that
 * fails is the same for any number of threads.
 */
#include "speechshard/cores.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "speechshard/inside.h"

enum { THREADS_MAX = 1024 };

uint32_t spsh_core_count(uint32_t most)
{
    cpu_set_t cores;
    long count = 0;
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
        count = CPU_COUNT(&cores);
    else /* the set has too few bits for these cores */
        count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 || most == 0 ? 1 : count > (long)most ? most : (uint32_t)count;
}

typedef struct run {
    _Atomic(uint64_t) next;
    _Atomic(uint32_t) numbered; /* threads that have their number */
    uint64_t count;
    spsh_piece_fn piece_fn;
    void *user;
    pthread_mutex_t mutex; /* protects the members below */
    uint64_t failed_piece;
    spsh_status status;
    spsh_error error;
} run;

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

static void work(run *r, uint32_t worker)
{
    for (;;) {
        spsh_error error = SPSH_ERROR_INIT;
        const uint64_t piece = atomic_fetch_add(&r->next, 1);
        if (piece >= r->count)
            return;
        const spsh_status rc = r->piece_fn(r->user, worker, piece, &error);
        if (rc != SPSH_OK)
            note_failure(r, piece, rc, &error);
    }
}

static void *work_in_thread(void *user)
{
    run *r = (run *)user;
    work(r, atomic_fetch_add(&r->numbered, 1) + 1);
    return NULL;
}

spsh_status spsh_cores_run(uint32_t threads, uint64_t count, spsh_piece_fn piece_fn, void *user,
                           spsh_error *err)
{
    run r = {.count = count,
             .piece_fn = piece_fn,
             .user = user,
             .mutex = PTHREAD_MUTEX_INITIALIZER,
             .failed_piece = UINT64_MAX};
    pthread_t started[THREADS_MAX];
    uint32_t started_count = 0;
    while (started_count + 1 < threads && started_count + 1 < count &&
           started_count + 1 < THREADS_MAX &&
           pthread_create(&started[started_count], NULL, work_in_thread, &r) == 0)
        started_count++;
    work(&r, 0);
    for (uint32_t i = 0; i < started_count; i++)
        (void)pthread_join(started[i], NULL);
    if (r.status != SPSH_OK && err != NULL)
        *err = r.error;
    return r.status;
}

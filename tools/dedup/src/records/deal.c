/* deal.c: pieces of a few numbers each for spsh_cores_run, with progress under a lock. */
#include "deal.h"

#include <pthread.h>

#include "speechshard/cores.h"
#include "speechshard/inside.h"

typedef struct table {
    const spsh__deal *deal;
    uint8_t *workers;
    size_t worker_bytes;
    pthread_mutex_t mutex; /* guards `done` and serializes progress reports */
    uint64_t done;
} table;

static spsh_status take_piece(void *user, uint32_t worker, uint64_t piece, spsh_error *err)
{
    table *t = user;
    const spsh__deal *deal = t->deal;
    const uint64_t first = deal->first + piece * deal->at_once;
    const uint64_t end = deal->end - first < deal->at_once ? deal->end : first + deal->at_once;
    spsh_status rc = spsh__call_watch_check(deal->watch, err);
    for (uint64_t i = first; rc == SPSH_OK && i < end; i++)
        rc = deal->take_fn(t->workers + worker * t->worker_bytes, i, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(&t->mutex);
    t->done += end - first;
    spsh__call_watch_tell(deal->watch, deal->stage, t->done, deal->end - deal->first);
    (void)pthread_mutex_unlock(&t->mutex);
    return SPSH_OK;
}

spsh_status spsh__deal_run(const spsh__deal *deal, void *workers, size_t worker_bytes,
                           uint32_t worker_count, spsh_error *err)
{
    table t = {.deal = deal,
               .workers = workers,
               .worker_bytes = worker_bytes,
               .mutex = PTHREAD_MUTEX_INITIALIZER};
    const uint64_t count = deal->end - deal->first;
    const uint64_t pieces = count / deal->at_once + (count % deal->at_once != 0);
    const spsh_status rc = spsh_cores_run(worker_count, pieces, take_piece, &t, err);
    return rc == SPSH_OK ? spsh__call_watch_check(deal->watch, err) : rc;
}

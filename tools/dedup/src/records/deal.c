/* deal.c: runs of a few work items each for spsh_cores_run, with progress reports under a lock. */
#include "deal.h"

#include <pthread.h>
#include <stdlib.h>

#include "speechshard/cores.h"
#include "speechshard/inside.h"

typedef struct table {
    const spsh__deal *deal;
    uint8_t *workers;
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
        rc = deal->take_fn(t->workers + worker * deal->worker_bytes, i, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(&t->mutex);
    t->done += end - first;
    spsh__call_watch_report(deal->watch, deal->stage, t->done, deal->end - deal->first);
    (void)pthread_mutex_unlock(&t->mutex);
    return SPSH_OK;
}

spsh_status spsh__deal_run(const spsh__deal *deal, spsh_error *err)
{
    const uint32_t threads = deal->threads < 1 ? 1 : deal->threads;
    const uint64_t count = deal->end - deal->first;
    const uint64_t pieces = count / deal->at_once + (count % deal->at_once != 0);
    table t = {.deal = deal, .mutex = PTHREAD_MUTEX_INITIALIZER};
    spsh_status rc = SPSH_OK;
    t.workers = calloc(threads, deal->worker_bytes);
    if (t.workers == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; rc == SPSH_OK && i < threads; i++)
        rc = deal->open_fn(t.workers + i * deal->worker_bytes, deal->user, err);
    if (rc == SPSH_OK)
        rc = spsh_cores_run(threads, pieces, take_piece, &t, err);
    if (rc == SPSH_OK)
        rc = spsh__call_watch_check(deal->watch, err);
    for (uint32_t i = 0; i < threads; i++)
        deal->close_fn(t.workers + i * deal->worker_bytes, deal->user);
    free(t.workers);
    return rc;
}

/* deal.c: one lock for the next number and for what has failed. */
#include "deal.h"

#include <pthread.h>
#include <stdlib.h>

#include "speechshard/inside.h"

typedef struct table {
    const spsh__deal *deal;
    pthread_mutex_t mutex; /* for all below, and progress */
    uint64_t next, done;
    spsh_status status;
    spsh_error err;
} table;

typedef struct seat {
    table *table;
    void *worker;
    pthread_t thread;
} seat;

/* False: nothing is left to do. */
static bool next_piece(table *t, uint64_t *ret_first, uint64_t *ret_end)
{
    const spsh__deal *deal = t->deal;
    (void)pthread_mutex_lock(&t->mutex);
    if (t->status == SPSH_OK)
        t->status = spsh__call_watch_check(deal->watch, &t->err);
    const bool is_left = t->status == SPSH_OK && t->next < deal->end;
    if (is_left) {
        *ret_first = t->next;
        *ret_end = deal->end - t->next < deal->at_once ? deal->end : t->next + deal->at_once;
        t->next = *ret_end;
    }
    (void)pthread_mutex_unlock(&t->mutex);
    return is_left;
}

static void end_piece(table *t, uint64_t count, spsh_status rc, const spsh_error *err)
{
    const spsh__deal *deal = t->deal;
    (void)pthread_mutex_lock(&t->mutex);
    if (rc != SPSH_OK && t->status == SPSH_OK) {
        t->status = rc;
        t->err = *err;
    }
    t->done += count;
    spsh__call_watch_tell(deal->watch, deal->stage, t->done, deal->end - deal->first);
    (void)pthread_mutex_unlock(&t->mutex);
}

static void *work(void *argument)
{
    const seat *mine = argument;
    uint64_t first = 0;
    uint64_t end = 0;
    while (next_piece(mine->table, &first, &end)) {
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = SPSH_OK;
        for (uint64_t i = first; rc == SPSH_OK && i < end; i++)
            rc = mine->table->deal->take_fn(mine->worker, i, &err);
        end_piece(mine->table, end - first, rc, &err);
    }
    return NULL;
}

spsh_status spsh__deal_run(const spsh__deal *deal, void *workers, size_t worker_bytes,
                           uint32_t worker_count, spsh_error *err)
{
    table t = {.deal = deal, .next = deal->first};
    uint32_t started = 1;
    seat *seats = calloc(worker_count, sizeof(*seats));
    if (seats == NULL)
        return SPSH_NO_MEMORY(err);
    if (pthread_mutex_init(&t.mutex, NULL) != 0) {
        free(seats);
        return SPSH_NO_MEMORY(err);
    }
    for (uint32_t i = 0; i < worker_count; i++) {
        seats[i].table = &t;
        seats[i].worker = (uint8_t *)workers + i * worker_bytes;
    }
    while (started < worker_count &&
           pthread_create(&seats[started].thread, NULL, work, &seats[started]) == 0)
        started++;
    (void)work(&seats[0]);
    for (uint32_t i = 1; i < started; i++)
        (void)pthread_join(seats[i].thread, NULL);
    (void)pthread_mutex_destroy(&t.mutex);
    free(seats);
    if (t.status != SPSH_OK && err != NULL)
        *err = t.err;
    return t.status;
}

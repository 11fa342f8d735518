/* copies_keys.c: feed the keys of all prints into a join.
 *
 * Only the first utterance of a group with equal samples takes part. Stored keys are read. Keys of
 * the test side of an audit, and keys of other speeds, are computed from the audio. This takes
 * time, so utterances are dealt to threads. Each thread adds its keys under a lock. Their order
 * does not change the result of the join.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/grow.h"
#include "copies_internal.h"
#include "join/contour_search.h"
#include "join/frame_search.h"
#include "records/deal.h"
#include "set/dense_keys.h"
#include "set/scaled_keys.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"

enum { DEAL_AT_ONCE = 64 };

typedef struct pool {
    const spsh__key_feed *feed;
    spsh__key_join *join;
    pthread_mutex_t mutex; /* guards the join */
} pool;

typedef struct worker {
    pool *pool;
    spsh__set_readers readers;
    spsh__print_key *keys; /* buffer for the keys of one print */
    size_t key_capacity;
} worker;

static bool has_audit(const pool *p)
{
    return p->feed->options->mode == SPSH__JOIN_AUDIT;
}

static spsh_status add_keys(pool *p, uint64_t number, const spsh__print_key *keys, size_t count,
                            spsh_error *err)
{
    (void)pthread_mutex_lock(&p->mutex);
    spsh_status rc = spsh__key_join_add(p->join, number, keys, count, err);
    (void)pthread_mutex_unlock(&p->mutex);
    return rc;
}

static spsh_status add_stored(worker *w, uint64_t number, const spsh__set_print *print,
                              spsh_error *err)
{
    const size_t count = (size_t)print->key_count;
    if (!SPSH_GROW(w->keys, w->key_capacity, count))
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh__segment_keys(print->segment, print->first_key, print->key_count, w->keys, err);
    return rc == SPSH_OK ? add_keys(w->pool, number, w->keys, count, err) : rc;
}

static spsh_status add_dense(worker *w, uint64_t number, const spsh__set_print *print,
                             spsh_error *err)
{
    spsh_reader *reader = NULL;
    spsh__dense_key *keys = NULL;
    size_t count = 0;
    uint64_t position = 0;
    spsh_status rc = spsh__set_readers_find(&w->readers, print->utterance, &reader, &position, err);
    if (rc == SPSH_OK)
        rc = spsh__dense_keys_make(w->pool->feed->set, reader, number, &keys, &count, err);
    if (rc == SPSH_OK) {
        (void)pthread_mutex_lock(&w->pool->mutex);
        rc = spsh__key_join_add_test(w->pool->join, number, keys, count, err);
        (void)pthread_mutex_unlock(&w->pool->mutex);
    }
    free(keys);
    return rc;
}

static spsh_status add_scaled(worker *w, uint64_t number, const spsh__set_print *print,
                              spsh_error *err)
{
    const spsh__print_set *set = w->pool->feed->set;
    const size_t end = has_audit(w->pool) ? SPSH__SCALE_COUNT : SPSH__SCALE_FASTER_END;
    spsh__print_signal signal = {set, NULL, print->utterance, print->channel};
    uint64_t position = 0;
    spsh_status rc =
        spsh__set_readers_find(&w->readers, print->utterance, &signal.reader, &position, err);
    for (size_t scale = 1; scale < end && rc == SPSH_OK; scale++) {
        spsh__print_key *keys = NULL;
        size_t count = 0;
        rc = spsh__scaled_keys_make(&signal, spsh__scales[scale], &keys, &count, err);
        if (rc == SPSH_OK)
            rc = add_keys(w->pool,
                          spsh__scaled_number(spsh__print_set_print_count(set), number, scale),
                          keys, count, err);
        free(keys);
    }
    return rc;
}

static spsh_status add_utterance(worker *w, uint64_t ordinal, spsh_error *err)
{
    const spsh__key_feed *feed = w->pool->feed;
    const spsh_side side = spsh__print_set_side(feed->set, ordinal);
    uint64_t first = 0;
    uint64_t count = 0;
    spsh_status rc = spsh__print_set_prints_of(feed->set, ordinal, &first, &count, err);
    for (uint64_t number = first; number < first + count && rc == SPSH_OK; number++) {
        spsh__set_print print;
        rc = spsh__print_set_print(feed->set, number, &print, err);
        if (rc != SPSH_OK)
            return rc;
        /* At the original speed, frame_search.h compares every frame of an audit's prints. */
        if (has_audit(w->pool) && side == SPSH_SIDE_TEST && feed->options->speed_grid)
            rc = add_dense(w, number, &print, err);
        else if (!has_audit(w->pool))
            rc = add_stored(w, number, &print, err);
        if (rc == SPSH_OK && feed->options->speed_grid &&
            !(has_audit(w->pool) && side == SPSH_SIDE_TEST))
            rc = add_scaled(w, number, &print, err);
    }
    return rc;
}

/* Whether the utterance is searched: it has its own prints, or its base takes no part. */
static spsh_status takes_part(const spsh__key_feed *feed, uint64_t ordinal, bool *ret_takes_part,
                              spsh_error *err)
{
    spsh__segment_row row;
    uint64_t base = SPSH_NONE_U64;
    *ret_takes_part = false;
    if (spsh__print_set_side(feed->set, ordinal) == SPSH_SIDE_NONE ||
        spsh__exact_representative(feed->groups, ordinal) != ordinal)
        return SPSH_OK;
    spsh_status rc = spsh__print_set_row(feed->set, ordinal, &row, &base, err);
    *ret_takes_part =
        base == SPSH_NONE_U64 || spsh__print_set_side(feed->set, base) == SPSH_SIDE_NONE;
    return rc;
}

static spsh_status take_utterance(void *argument, uint64_t ordinal, spsh_error *err)
{
    worker *w = argument;
    bool part = false;
    const spsh_status rc = takes_part(w->pool->feed, ordinal, &part, err);
    return rc == SPSH_OK && part ? add_utterance(w, ordinal, err) : rc;
}

static spsh_status is_searched(const void *user, uint64_t ordinal, bool *ret_takes_part,
                               spsh_error *err)
{
    return takes_part(user, ordinal, ret_takes_part, err);
}

static spsh_status search_contours(const spsh__key_feed *feed, spsh__key_join *join,
                                   spsh_error *err)
{
    const spsh__copies_options *options = feed->options;
    const spsh__contour_search search = {
        .set = feed->set,
        .io = options->io,
        .temporary_path = options->work_path,
        .memory_bytes = options->memory_bytes < SPSH__JOIN_MEMORY_MIN ? SPSH__JOIN_MEMORY_MIN
                                                                      : options->memory_bytes,
        .threads = options->threads,
        .weak = options->contour_weak,
        .takes_part_fn = is_searched,
        .user = feed,
        .watch = options->watch,
    };
    return options->contour_weak == 0 ? SPSH_OK : spsh__contour_search_run(&search, join, err);
}

static spsh_status search_frames(const spsh__key_feed *feed, spsh__key_join *join, spsh_error *err)
{
    const spsh__copies_options *options = feed->options;
    const spsh__frame_search search = {
        .set = feed->set,
        .memory_bytes = options->memory_bytes,
        .threads = options->threads,
        .takes_part_fn = is_searched,
        .user = feed,
        .watch = options->watch,
    };
    return spsh__frame_search_run(&search, join, err);
}

static spsh_status open_worker(void *worker_of, void *user, spsh_error *err)
{
    worker *w = worker_of;
    w->pool = user;
    return spsh__set_readers_open(w->pool->feed->set, &w->readers, err);
}

static void close_worker(void *worker_of, void *user)
{
    worker *w = worker_of;
    (void)user;
    spsh__set_readers_close(&w->readers);
    free(w->keys);
}

spsh_status spsh__key_feed_run(const spsh__key_feed *feed, spsh__key_join *join, spsh_error *err)
{
    pool p = {.feed = feed, .join = join};
    const spsh__deal deal = {
        .end = spsh__print_set_count(feed->set),
        .at_once = DEAL_AT_ONCE,
        .threads = feed->options->threads,
        .user = &p,
        .worker_bytes = sizeof(worker),
        .open_fn = open_worker,
        .close_fn = close_worker,
        .take_fn = take_utterance,
        .watch = feed->options->watch,
        .stage = "read keys",
    };
    if (pthread_mutex_init(&p.mutex, NULL) != 0)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = search_contours(feed, join, err); /* before the keys take memory */
    if (rc == SPSH_OK)
        rc = spsh__deal_run(&deal, err);
    (void)pthread_mutex_destroy(&p.mutex);
    return rc == SPSH_OK && has_audit(&p) ? search_frames(feed, join, err) : rc;
}

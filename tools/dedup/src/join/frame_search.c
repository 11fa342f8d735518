/* frame_search.c: build the table for each part of test; threads look up the utterances of train.
 *
 * If there are several parts, test is decoded two more times first to count its words: the set of
 * frequent words must not depend on where the parts end.
 */
#include "frame_search.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "frame_scan.h"
#include "records/deal.h"
#include "set/dense_keys.h"
#include "set/set_readers.h"
#include "speechshard/inside.h"

enum {
    DEAL_AT_ONCE = 64,
    STRETCH = 1 << 16, /* frames at once: 17 minutes */
};

typedef struct pool {
    const spsh__frame_search *search;
    spsh__key_join *join;
    spsh_side side;             /* current side: TEST fills the table, TRAIN is looked up in it */
    spsh__word_counts *counts;  /* receives the words of TEST during the count; else NULL */
    spsh__frequent_words words; /* frequent words of all of test; mixed == NULL: there is only one
                                   part */
    spsh__frame_scan *scan;     /* table of this part */
    pthread_mutex_t mutex;      /* for the join, and the scan or counts while they fill */
} pool;

typedef struct worker {
    pool *pool;
    spsh__set_readers readers; /* readers of test */
    spsh__frame_finder *finder;
    spsh__print_frame *frames; /* STRETCH */
} worker;

static spsh_status takes_part(const spsh__frame_search *search, uint64_t ordinal, spsh_side side,
                              bool *ret_takes_part, spsh_error *err)
{
    *ret_takes_part = false;
    if (spsh__print_set_side(search->set, ordinal) != side)
        return SPSH_OK;
    return search->takes_part_fn(search->user, ordinal, ret_takes_part, err);
}

/* ---- test: words into the table, or into counts ---- */

static spsh_status add_words(worker *w, uint64_t ordinal, uint64_t number, spsh_error *err)
{
    pool *p = w->pool;
    spsh__weak_word *words = NULL;
    size_t count = 0;
    spsh_reader *reader = NULL;
    uint64_t position = 0;
    spsh_status rc = spsh__set_readers_find(&w->readers, ordinal, &reader, &position, err);

    if (rc == SPSH_OK)
        rc = spsh__weak_words_make(p->search->set, reader, number, &words, &count, err);
    if (rc == SPSH_OK) {
        (void)pthread_mutex_lock(&p->mutex);
        if (p->counts != NULL)
            spsh__word_counts_add(p->counts, words, count);
        else
            rc = spsh__frame_scan_add(p->scan, number, words, count, err);
        (void)pthread_mutex_unlock(&p->mutex);
    }
    free(words);
    return rc;
}

/* ---- train: frames against the table ---- */

static spsh_status add_found(pool *p, const spsh__candidate *found, size_t count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (count == 0)
        return SPSH_OK;
    (void)pthread_mutex_lock(&p->mutex);
    for (size_t i = 0; rc == SPSH_OK && i < count; i++)
        rc = spsh__key_join_add_candidate(p->join, &found[i], err);
    (void)pthread_mutex_unlock(&p->mutex);
    return rc;
}

static spsh_status find_row(worker *w, uint64_t number, const spsh__set_print *print,
                            spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t first = 0; rc == SPSH_OK && first < print->frame_count;
         first += STRETCH - SPSH__SCAN_OVERLAP) {
        const uint64_t left = print->frame_count - first;
        const spsh__frame_stretch stretch = {number, first, w->frames,
                                             left < STRETCH ? (size_t)left : STRETCH};
        const spsh__candidate *found = NULL;
        size_t found_count = 0;
        rc = spsh__segment_frames(print->segment, print->first_frame + first, stretch.count,
                                  w->frames, err);
        if (rc == SPSH_OK)
            rc = spsh__frame_finder_run(w->finder, &stretch, &found, &found_count, err);
        if (rc == SPSH_OK)
            rc = add_found(w->pool, found, found_count, err);
        if (left <= STRETCH)
            break;
    }
    return rc;
}

/* ---- both sides ---- */

static spsh_status take_utterance(void *argument, uint64_t ordinal, spsh_error *err)
{
    worker *w = argument;
    const pool *p = w->pool;
    uint64_t first = 0;
    uint64_t count = 0;
    bool part = false;
    spsh_status rc = takes_part(p->search, ordinal, p->side, &part, err);
    if (rc != SPSH_OK || !part)
        return rc;
    rc = spsh__print_set_prints_of(p->search->set, ordinal, &first, &count, err);
    for (uint64_t number = first; rc == SPSH_OK && number < first + count; number++) {
        spsh__set_print print;
        rc = spsh__print_set_print(p->search->set, number, &print, err);
        if (rc == SPSH_OK)
            rc = p->side == SPSH_SIDE_TEST ? add_words(w, ordinal, number, err)
                                           : find_row(w, number, &print, err);
    }
    return rc;
}

static spsh_status open_worker(void *worker_of, void *user, spsh_error *err)
{
    worker *w = worker_of;
    pool *p = user;
    w->pool = p;
    if (p->side == SPSH_SIDE_TEST)
        return spsh__set_readers_open(p->search->set, &w->readers, err);
    w->frames = calloc(STRETCH, sizeof(*w->frames));
    if (w->frames == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__frame_finder_new(p->scan, &w->finder, err);
}

static void close_worker(void *worker_of, void *user)
{
    worker *w = worker_of;
    (void)user;
    spsh__set_readers_close(&w->readers);
    free(w->frames);
    spsh__frame_finder_free(w->finder);
}

/* Process the utterances [first, end) of one side on all threads. */
static spsh_status take_all(pool *p, spsh_side side, uint64_t first, uint64_t end, spsh_error *err)
{
    const spsh__deal deal = {
        .first = first,
        .end = end,
        .at_once = DEAL_AT_ONCE,
        .threads = p->search->threads,
        .user = p,
        .worker_bytes = sizeof(worker),
        .open_fn = open_worker,
        .close_fn = close_worker,
        .take_fn = take_utterance,
        .watch = p->search->watch,
        .stage = side == SPSH_SIDE_TEST ? "listen to test" : "search train",
    };
    p->side = side;
    return spsh__deal_run(&deal, err);
}

/* Find the end of the part: the frames of test utterances from first to *ret_end fit in memory. */
static spsh_status find_part(const spsh__frame_search *search, uint64_t first, uint64_t *ret_end,
                             bool *ret_is_empty, spsh_error *err)
{
    const uint64_t count = spsh__print_set_count(search->set);
    uint64_t frames = 0;
    uint64_t i = first;

    for (; i < count; i++) {
        bool part = false;
        uint64_t prints = 0;
        uint64_t first_print = 0;
        uint64_t own = 0;
        spsh_status rc = takes_part(search, i, SPSH_SIDE_TEST, &part, err);
        if (rc == SPSH_OK && part)
            rc = spsh__print_set_prints_of(search->set, i, &first_print, &prints, err);
        for (uint64_t k = 0; rc == SPSH_OK && k < prints; k++) {
            spsh__set_print print;
            rc = spsh__print_set_print(search->set, first_print + k, &print, err);
            own += rc == SPSH_OK ? print.frame_count : 0;
        }
        if (rc != SPSH_OK)
            return rc;
        if (frames > 0 && spsh__frame_scan_bytes(frames + own) > search->memory_bytes)
            break;
        frames += own;
    }
    const uint64_t needed = spsh__frame_scan_bytes(frames);
    if (needed > search->memory_bytes)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "the longest test recording needs %" PRIu64
                         " MiB of memory; raise memory_bytes",
                         (needed >> 20) + 1);
    *ret_end = i;
    *ret_is_empty = frames == 0;
    return SPSH_OK;
}

static spsh_status count_words(pool *p, spsh_error *err)
{
    const uint64_t count = spsh__print_set_count(p->search->set);
    spsh_status rc = spsh__word_counts_new(&p->counts, err);
    if (rc == SPSH_OK)
        rc = take_all(p, SPSH_SIDE_TEST, 0, count, err);
    if (rc == SPSH_OK)
        rc = spsh__word_counts_narrow(p->counts, err);
    if (rc == SPSH_OK)
        rc = take_all(p, SPSH_SIDE_TEST, 0, count, err);
    if (rc == SPSH_OK)
        rc = spsh__word_counts_finish(p->counts, &p->words, err);
    spsh__word_counts_free(p->counts);
    p->counts = NULL;
    return rc;
}

static spsh_status run_part(pool *p, uint64_t first, uint64_t end, spsh_error *err)
{
    spsh_status rc = spsh__frame_scan_open(&p->scan, err);
    if (rc == SPSH_OK)
        rc = take_all(p, SPSH_SIDE_TEST, first, end, err);
    if (rc == SPSH_OK)
        rc = spsh__frame_scan_ready(p->scan, p->words.mixed == NULL ? NULL : &p->words, err);
    if (rc == SPSH_OK)
        rc = take_all(p, SPSH_SIDE_TRAIN, 0, spsh__print_set_count(p->search->set), err);
    spsh__frame_scan_free(p->scan);
    p->scan = NULL;
    return rc;
}

spsh_status spsh__frame_search_run(const spsh__frame_search *search, spsh__key_join *join,
                                   spsh_error *err)
{
    pool p = {.search = search, .join = join};
    const uint64_t count = spsh__print_set_count(search->set);
    spsh_status rc = SPSH_OK;
    uint64_t end = 0;

    if (pthread_mutex_init(&p.mutex, NULL) != 0)
        return SPSH_NO_MEMORY(err);
    for (uint64_t first = 0; rc == SPSH_OK && first < count; first = end) {
        bool is_empty = false;
        rc = find_part(search, first, &end, &is_empty, err);
        if (rc == SPSH_OK && first == 0 && end < count)
            rc = count_words(&p, err);
        if (rc == SPSH_OK && !is_empty)
            rc = run_part(&p, first, end, err);
    }
    (void)pthread_mutex_destroy(&p.mutex);
    free(p.words.mixed);
    return rc;
}

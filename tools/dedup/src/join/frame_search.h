/* frame_search.h: find the candidates of an audit by frames: search every print of test in every
 * print of train.
 *
 * The words of test, the small side, are computed from its audio. The words of train are read from
 * its segments. If the table of test does not fit into memory, it is built in parts, and train is
 * read once per part. The frequent words are counted before that over all of test, which is decoded
 * two more times. So the result does not depend on threads and memory.
 */
#ifndef SPSH_DEDUP_FRAME_SEARCH_H
#define SPSH_DEDUP_FRAME_SEARCH_H

#include "key_join.h"
#include "set/print_set.h"

typedef struct spsh__frame_search {
    const spsh__print_set *set;
    uint64_t memory_bytes; /* memory of the table; counting takes 16 MB to 80 MB */
    uint32_t threads;
    /* Return whether to search an utterance. Any thread may call it. */
    spsh_status (*takes_part_fn)(const void *user, uint64_t ordinal, bool *ret_takes_part,
                                 spsh_error *err);
    const void *user;
    spsh__call_watch *watch; /* may be NULL */
} spsh__frame_search;

/* Add the candidates to join, whose mode is AUDIT: a is a print of train, b of test. */
spsh_status spsh__frame_search_run(const spsh__frame_search *search, spsh__key_join *join,
                                   spsh_error *err);

#endif

/* frame_search.h: every print of test looked for in every print of train, by frames: an audit's
 * candidates.
 *
 * The small side's words are made from its audio; the large side's are read from its segments. When
 * the table of the small side does not fit into the memory, it is made in parts, and the large side
 * is read once for each. Which words are too frequent is counted before that, over all of the small
 * side, which is decoded twice more. So the result is the same for any threads and any memory.
 */
#ifndef SPSH_DEDUP_FRAME_SEARCH_H
#define SPSH_DEDUP_FRAME_SEARCH_H

#include "key_join.h"
#include "set/print_set.h"

typedef struct spsh__frame_search {
    const spsh__print_set *set;
    uint64_t memory_bytes; /* of the table; counting takes 16 MB, at most 80 */
    uint32_t threads;
    /* Whether an utterance is looked at: any thread. */
    spsh_status (*takes_part_fn)(const void *user, uint64_t ordinal, bool *ret_takes_part,
                                 spsh_error *err);
    const void *user;
    spsh__call_watch *watch; /* may be NULL */
} spsh__frame_search;

/* Into join, whose mode is AUDIT: a of train, b of test. */
spsh_status spsh__frame_search_run(const spsh__frame_search *search, spsh__key_join *join,
                                   spsh_error *err);

#endif

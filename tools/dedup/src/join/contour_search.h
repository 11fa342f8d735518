/* contour_search.h: find the candidates of a deduplication by loudness contours: copies of whole
 * recordings that short clips and telephone codecs hide from the stored keys.
 *
 * Equal contour keys are frequent by chance, so each proposal is compared with the stored frames at
 * once. Only proposals whose bits agree become candidates. The number of proposals grows with the
 * square of the number of prints. Therefore large sets flip fewer weak bits, and find fewer copies.
 * The result does not depend on threads and memory.
 */
#ifndef SPSH_DEDUP_CONTOUR_SEARCH_H
#define SPSH_DEDUP_CONTOUR_SEARCH_H

#include "key_join.h"
#include "set/print_set.h"

enum { SPSH__CONTOUR_FRAMES_MAX = 4096 }; /* longer prints (66 s) are left to the stored keys */

typedef struct spsh__contour_search {
    const spsh__print_set *set;
    const spsh_io *io;
    const char *temporary_path;
    uint64_t memory_bytes; /* at least 64 MiB */
    uint32_t threads;
    unsigned weak; /* weak bits per key to flip, 1 to SPSH__CONTOUR_WEAK */
    /* Return whether to search an utterance. Any thread may call it. */
    spsh_status (*takes_part_fn)(const void *user, uint64_t ordinal, bool *ret_takes_part,
                                 spsh_error *err);
    const void *user;
    spsh__call_watch *watch; /* may be NULL */
} spsh__contour_search;

/* Return the number of weak bits at which a set of this size stays affordable: SPSH__CONTOUR_WEAK
 * for small sets, 0 if the set is too large for the search. */
unsigned spsh__contour_weak_for(uint64_t print_count);

/* Estimate the peak of the temporary disk space in bytes, before a run starts. The estimate assumes
 * short clips of many voices; takes of a few words need more. */
uint64_t spsh__contour_search_space(uint64_t print_count, unsigned weak, uint64_t memory_bytes);

/* Add the candidates to join, whose mode is MILD or DEEP, and which has no keys yet. */
spsh_status spsh__contour_search_run(const spsh__contour_search *search, spsh__key_join *join,
                                     spsh_error *err);

#endif

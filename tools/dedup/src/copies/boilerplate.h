/* boilerplate.h: find stretches that many utterances share among the matches.
 *
 * Boilerplate has its own module because it is a separate result. A shared jingle does not make two
 * recordings copies, but a list of jingles is useful.
 */
#ifndef SPSH_DEDUP_BOILERPLATE_H
#define SPSH_DEDUP_BOILERPLATE_H

#include "clusters.h"

/* A partial match. Utterances are numbered as the nodes of copy_graph.h. */
typedef struct spsh__partial {
    uint64_t match;
    uint64_t a, b;
    uint64_t a_group, b_group; /* components of the two utterances; copies of one recording count
                                  once */
    bool is_boilerplate;       /* result */
} spsh__partial;

/* Set is_boilerplate in the partials whose stretch occurs in at least count_min groups. The caller
 * frees *ret_list with free(). Its ordinals are utterance ordinals, as in the matches. */
spsh_status spsh__boilerplate_find(const spsh__match *matches, spsh__partial *partials,
                                   size_t partial_count, uint64_t count_min,
                                   spsh__boilerplate **ret_list, size_t *ret_count,
                                   spsh_error *err);

#endif

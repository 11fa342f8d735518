/* boilerplate.h: stretches that many utterances share, found among the matches.
 *
 * Part of clusters.c, by itself because it is a question of its own: a jingle makes no two
 * recordings copies of each other, and a list of jingles is worth having.
 */
#ifndef SPSH_DEDUP_BOILERPLATE_H
#define SPSH_DEDUP_BOILERPLATE_H

#include "clusters.h"

/* A match in part, by the numbers that clusters.c gives to utterances. */
typedef struct spsh__partial {
    uint64_t match;
    uint64_t a, b;
    uint64_t a_group, b_group; /* of the same recording: counted once */
    bool is_boilerplate;       /* result */
} spsh__partial;

/* Marks the partials whose stretch at least count_min groups share. *ret_list from malloc; its
 * ordinals are those of the matches. */
spsh_status spsh__boilerplate_find(const spsh__match *matches, spsh__partial *partials,
                                   size_t partial_count, uint64_t count_min,
                                   spsh__boilerplate **ret_list, size_t *ret_count,
                                   spsh_error *err);

#endif

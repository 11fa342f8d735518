/* join_votes.h: count sorted hits into candidates: pairs of prints with enough votes at one offset.
 *
 *     spsh__join_votes_new(hits, votes_min, &votes, err);
 *     while ((rc = spsh__join_votes_next(votes, &candidate, err)) == SPSH_OK) ...
 *
 * Votes are distinct places of a within 3 frames of an offset. One vote suffices if a print of the
 * pair has few keys. The SPSH__JOIN_OFFSETS_MAX best offsets per pair are kept.
 */
#ifndef SPSH_DEDUP_JOIN_VOTES_H
#define SPSH_DEDUP_JOIN_VOTES_H

#include "join_record.h"

enum { SPSH__JOIN_OFFSETS_MAX = 16 };

typedef struct spsh__join_votes spsh__join_votes;

/* hits: packed, borrowed, and read from the first record. */
spsh_status spsh__join_votes_new(spsh__sort128 *hits, uint32_t votes_min,
                                 spsh__join_votes **ret_votes, spsh_error *err);
/* Return the candidates in ascending order of (a, b, offset), then SPSH_E_END. */
spsh_status spsh__join_votes_next(spsh__join_votes *votes, spsh__candidate *ret_candidate,
                                  spsh_error *err);
void spsh__join_votes_free(spsh__join_votes *votes);

#endif

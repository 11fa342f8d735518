/* explain.h: all that is known about two utterances, and the limits that decide.
 *
 *     spsh__explain_find(set, a, b, &facts, err);
 *     ... facts.matches, facts.checks, facts.verdict ...
 */
#ifndef SPSH_EXPLAIN_H
#define SPSH_EXPLAIN_H

#include "fingerprint/align.h"
#include "set/match.h"
#include "set/print_set.h"

enum { SPSH__EXPLAIN_CHECKS = 12, SPSH__EXPLAIN_MATCHES = 16, SPSH__EXPLAIN_WORDS = 1024 };

typedef struct spsh__explain_facts {
    uint64_t a, b; /* ordinals in the order of the call */
    spsh__segment_row rows[2];
    uint64_t alias_of[2];
    spsh_explain_facts shown; /* public facts; closest is NULL */
    /* Matches found in the audio. The first one is also `best`, which the verdict is about: the
     * best class, then the longest. Without a match, `best` is the closest alignment. Its count is
     * 0 if nothing was close enough to measure. */
    spsh__match matches[SPSH__EXPLAIN_MATCHES];
    spsh__match best;
    spsh__align_limits limits; /* thresholds that were applied to `best` */
    bool is_searched;          /* false: too long for a search at every offset, and no keys agree */
    spsh_explain_check checks[SPSH__EXPLAIN_CHECKS];
    char verdict[SPSH__EXPLAIN_WORDS];
} spsh__explain_facts;

spsh_status spsh__explain_find(const spsh__print_set *set, uint64_t a, uint64_t b,
                               spsh__explain_facts *ret_facts, spsh_error *err);

/* Fill checks and verdict from the other facts. In explain_words.c. */
void spsh__explain_judge(spsh__explain_facts *facts);

#endif

/* explain.h: everything that is known of two utterances, and which limits decided.
 *
 *     spsh__explain_find(set, a, b, &facts, err);
 *     ... facts.matches, facts.checks, facts.verdict ...
 */
#ifndef SPSH_EXPLAIN_H
#define SPSH_EXPLAIN_H

#include "set/match.h"
#include "set/print_set.h"

enum { SPSH__EXPLAIN_CHECKS = 12, SPSH__EXPLAIN_MATCHES = 16, SPSH__EXPLAIN_WORDS = 1024 };

typedef struct spsh__explain_facts {
    uint64_t a, b; /* ordinals, as asked for */
    spsh__segment_row rows[2];
    uint64_t alias_of[2];
    spsh_explain_facts shown; /* closest: NULL */
    /* by listening; [0] is the one that the verdict is about, the longest. Without any: kind NONE,
     * what came closest; count 0 where nothing came close enough to be measured. */
    spsh__match matches[SPSH__EXPLAIN_MATCHES];
    spsh__match best;
    bool is_searched; /* false: too long to compare at every offset, and no keys agree */
    spsh_explain_check checks[SPSH__EXPLAIN_CHECKS];
    char verdict[SPSH__EXPLAIN_WORDS];
} spsh__explain_facts;

spsh_status spsh__explain_find(const spsh__print_set *set, uint64_t a, uint64_t b,
                               spsh__explain_facts *ret_facts, spsh_error *err);

/* explain_words.c: fills checks and verdict from what was found. */
void spsh__explain_judge(spsh__explain_facts *facts);

#endif

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
    /* without listening */
    bool is_one_record, has_equal_pcm, has_equal_trimmed, has_equal_mono;
    uint64_t equal_chunks;
    double equal_chunk_seconds;
    /* transcripts, by the profile default */
    bool has_texts, has_equal_texts;
    double similarity;
    /* by listening; [0] is the one that the verdict is about, the longest. Without any: kind NONE,
     * what came closest; count 0 where nothing came close enough to be measured. */
    spsh__match matches[SPSH__EXPLAIN_MATCHES];
    size_t match_count;
    spsh__match best;
    bool is_searched; /* false: too long to compare at every offset, and no keys agree */
    spsh_explain_check checks[SPSH__EXPLAIN_CHECKS];
    size_t check_count;
    bool has_gain;
    double gain_db;
    spsh_copy_tier tier; /* of the verdict */
    spsh_copy_class kind;
    bool may_drop;
    char verdict[SPSH__EXPLAIN_WORDS];
} spsh__explain_facts;

spsh_status spsh__explain_find(const spsh__print_set *set, uint64_t a, uint64_t b,
                               spsh__explain_facts *ret_facts, spsh_error *err);

/* explain_words.c: fills checks and verdict from what was found. */
void spsh__explain_judge(spsh__explain_facts *facts);

#endif

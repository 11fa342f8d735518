/* judge.h: listens to candidates: decodes both, aligns, and says what they are.
 *
 *     spsh__judge_open(set, &options, &judge, err);
 *     spsh__judge_run(judge, candidates, count, sink, err);       // a batch, in the order given
 *     spsh__judge_close(judge);
 *
 * Bits are compared over the whole common part from the stored prints; audio is decoded only where
 * they agree, and only around the minute that is compared: of a 100-hour recording 180 MB of frames
 * are in memory, and no more samples than of one of a minute.
 */
#ifndef SPSH_DEDUP_JUDGE_H
#define SPSH_DEDUP_JUDGE_H

#include "join/key_join.h"
#include "set/match.h"
#include "set/print_set.h"

typedef struct spsh__judge_options {
    const spsh__align_limits *limits; /* NULL: spsh__align_limits_default; borrowed */
    uint32_t threads;
    uint64_t memory_bytes; /* for frames: threads wait for each other beyond it; 0: no limit */
    bool speed_grid; /* spsh__judge_pair tries b at the usual speeds (0.9, 0.95, 1.05, 1.1, ...) */
} spsh__judge_options;

typedef struct spsh__judge_facts {
    uint64_t judged_count, decoded_count; /* candidates; those whose audio was looked at */
    uint64_t by_class[SPSH_COPY_CLASS_COUNT];
    uint64_t frame_pairs; /* compared, for the statement of how much was looked at */
} spsh__judge_facts;

typedef struct spsh__judge spsh__judge;

spsh_status spsh__judge_open(const spsh__print_set *set, const spsh__judge_options *options,
                             spsh__judge **ret_judge, spsh_error *err);
/* Matches (every class but NONE) in the order of the candidates, whatever the number of threads. A
 * pair may have several, but each stretch once, however many candidates point to it. Candidates
 * whose prints belong to one utterance are passed over; numbers of scaled_keys.h are prints at
 * another speed. The first candidate, in order, that cannot be judged fails the batch: the message
 * names the utterance, and nothing has gone to sink. */
spsh_status spsh__judge_run(spsh__judge *judge, const spsh__candidate *candidates, size_t count,
                            spsh__match_sink sink, spsh_error *err);
void spsh__judge_facts_get(const spsh__judge *judge, spsh__judge_facts *ret_facts);
void spsh__judge_close(spsh__judge *judge);

/* Two utterances with no candidate: searched at every offset (for `explain`, and for checking a
 * member against the one that is kept). Time is the product of the lengths: at most 10 minutes
 * each, else only offsets that their keys propose. */
spsh_status spsh__judge_pair(spsh__judge *judge, uint64_t a, uint64_t b, spsh__match_sink sink,
                             spsh_error *err);

#endif

/* judge.h: judge candidates: load both prints, align them, and classify the pair.
 *
 *     spsh__judge_open(set, &options, &judge, err);
 *     spsh__judge_run(judge, candidates, count, sink, err);       // a batch, in the order given
 *     spsh__judge_close(judge);
 *
 * The bits of the stored prints are compared over the whole common part. Audio is decoded only if
 * the bits agree, and only around the minute that is compared. So a 100-hour recording needs 180 MB
 * for its frames, and no more memory for samples than a recording of one minute.
 */
#ifndef SPSH_DEDUP_JUDGE_H
#define SPSH_DEDUP_JUDGE_H

#include "join/key_join.h"
#include "set/match.h"
#include "set/print_set.h"

typedef struct spsh__judge_options {
    const spsh__align_limits *limits; /* NULL: spsh__align_limits_default; borrowed */
    uint32_t threads;
    uint64_t memory_bytes; /* limit for frames, above which threads wait; 0: no limit */
    bool speed_grid; /* spsh__judge_pair also tries b at the usual speeds (0.9, 0.95, 1.05, 1.1,
                        ...) */
} spsh__judge_options;

typedef struct spsh__judge_facts {
    uint64_t judged_count, decoded_count; /* judged candidates; candidates whose audio was read */
    uint64_t by_class[SPSH_COPY_CLASS_COUNT];
    uint64_t frame_pairs; /* number of compared frame pairs, for the report of the work done */
} spsh__judge_facts;

typedef struct spsh__judge spsh__judge;

spsh_status spsh__judge_open(const spsh__print_set *set, const spsh__judge_options *options,
                             spsh__judge **ret_judge, spsh_error *err);
/* Judge a batch. Matches of every class except NONE arrive in the order of the candidates, for any
 * number of threads. A pair may have several matches, but each stretch only once, even if several
 * candidates point to it. Candidates whose prints belong to one utterance are skipped. Print
 * numbers of scaled_keys.h are prints at another speed.
 *
 * The first candidate, in order, that cannot be judged fails the batch. The message names the
 * utterance, and nothing has been sent to sink.
 */
spsh_status spsh__judge_run(spsh__judge *judge, const spsh__candidate *candidates, size_t count,
                            spsh__match_sink sink, spsh_error *err);
void spsh__judge_facts_get(const spsh__judge *judge, spsh__judge_facts *ret_facts);
void spsh__judge_close(spsh__judge *judge);

/* Compare two utterances without a candidate, for `explain` and to check a member against the kept
 * one. Every offset is searched if both have at most 10 minutes, in time proportional to the
 * product of their lengths. Otherwise only offsets that the keys propose are compared. */
spsh_status spsh__judge_pair(spsh__judge *judge, uint64_t a, uint64_t b, spsh__match_sink sink,
                             spsh_error *err);

#endif

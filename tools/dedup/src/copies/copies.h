/* copies.h: all of detection in audio, in one call: exact tiers, candidates, judgement.
 *
 * What is found is kept in a work directory, batch by batch, so a run that was killed goes on, and
 * several machines can share the listening (part i of n); the last one finishes. The matches are
 * the same however it was done.
 *
 *     WORK/run          what this is the work of: set's hash, options; another run's is refused
 *     WORK/exact        matches of the exact tiers
 *     WORK/candidates   pairs to listen to, in batches of 4,096
 *     WORK/judged-N     matches of batch N
 */
#ifndef SPSH_DEDUP_COPIES_H
#define SPSH_DEDUP_COPIES_H

#include "exact/exact.h"
#include "join/key_join.h"
#include "judge.h"

typedef struct spsh__copies_options {
    const spsh_io *io;
    const char *work_path; /* made; removed by spsh__copies_remove */
    uint64_t memory_bytes;
    uint32_t threads;
    bool exact_only;
    spsh__join_mode mode;
    bool speed_grid;
    bool confirm;
    uint64_t part, part_count; /* this machine's batches: part (from 0) of part_count, 1 or more */
    spsh__call_watch *watch;   /* may be NULL */
} spsh__copies_options;

typedef struct spsh__copies_facts {
    spsh__join_facts join;
    spsh__judge_facts judge;
    uint64_t exact_count;
    uint64_t undecoded_count; /* utterances that nothing could be said of */
} spsh__copies_facts;

/* Find all; matches arrive sorted (spsh__match_compare). SPSH_E_END when other parts are not
 * finished yet: nothing has arrived, run again. */
spsh_status spsh__copies_find(const spsh__print_set *set, const spsh__copies_options *options,
                              spsh__match_sink sink, spsh__copies_facts *ret_facts,
                              spsh_error *err);

spsh_status spsh__copies_remove(const char *work_path, const spsh_io *io, spsh_error *err);

#endif

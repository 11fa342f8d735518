/* copies.h: detect copies by audio in one call: exact tiers, candidates, comparison.
 *
 * Results are kept in a work directory, batch by batch. A run that was killed resumes from there,
 * and several machines can share the comparison (part i of n). The last machine to finish collects
 * the result. The matches are the same in all cases.
 *
 *     WORK/run          identity of the work: hash of the set, options; other work is rejected
 *     WORK/exact        matches of the exact tiers
 *     WORK/candidates   pairs to compare, in batches of 4,096
 *     WORK/judged-N     matches of batch N
 */
#ifndef SPSH_DEDUP_COPIES_H
#define SPSH_DEDUP_COPIES_H

#include "exact/exact.h"
#include "join/key_join.h"
#include "judge.h"

typedef struct spsh__copies_options {
    const spsh_io *io;
    const char *work_path; /* work directory; created by the run, removed by spsh__copies_remove */
    uint64_t memory_bytes;
    uint32_t threads;
    bool exact_only;
    spsh__join_mode mode;
    unsigned contour_weak; /* search for loudness contours, too, with this many weak bits; 0: do not
                            */
    bool speed_grid;
    bool confirm;
    uint64_t part, part_count; /* this machine judges batches part, part + part_count, ...; part
                                  counts from 0, part_count is at least 1 */
    spsh__call_watch *watch;   /* may be NULL */
} spsh__copies_options;

typedef struct spsh__copies_facts {
    spsh__join_facts join;
    spsh__judge_facts judge;
    uint64_t exact_count;
    uint64_t undecoded_count; /* number of utterances that could not be decoded */
} spsh__copies_facts;

/* Find all copies. Matches arrive sorted by spsh__match_compare. Returns SPSH_E_END if other parts
 * are not finished yet. Nothing has been sent to sink then, and the caller can run it again. */
spsh_status spsh__copies_find(const spsh__print_set *set, const spsh__copies_options *options,
                              spsh__match_sink sink, spsh__copies_facts *ret_facts,
                              spsh_error *err);

spsh_status spsh__copies_remove(const char *work_path, const spsh_io *io, spsh_error *err);

#endif

/* fingerprint_run.h: make the missing segments of a dataset.
 *
 * Threads extract utterances, and shards are published one after another. Valid segments are kept,
 * so a rerun resumes the work. Several machines can share the shards (part i of n).
 */
#ifndef SPSH_DEDUP_FINGERPRINT_RUN_H
#define SPSH_DEDUP_FINGERPRINT_RUN_H

#include "records/call_watch.h"
#include "segment.h"
#include "speechshard/dedup.h"

typedef struct spsh__fingerprint_run_options {
    const spsh_io *io;
    uint32_t threads;
    uint64_t part, part_count; /* process the shards n with n % part_count == part; 0 of 1: all */
    bool check_pages; /* verify every page of existing segments, not only the parts that opening
                         reads */
    spsh__call_watch *watch; /* may be NULL; stage "fingerprint", counts utterances */
} spsh__fingerprint_run_options;

/* Make the segments. Published segments remain after SPSH_E_CANCELED. A segment that is damaged, or
 * belongs to another version or shard, is made again. Without check_pages, a damaged page is
 * detected only when it is read. */
spsh_status spsh__fingerprint_run(const char *dataset_path,
                                  const spsh__fingerprint_run_options *options,
                                  spsh_fingerprint_facts *ret_facts, spsh_error *err);

/* Estimate the cost by extracting utterances for about measure_s seconds. Writes nothing. threads
 * and watch are ignored. */
spsh_status spsh__fingerprint_estimate_make(const char *dataset_path,
                                            const spsh__fingerprint_run_options *options,
                                            double measure_s, spsh_fingerprint_cost *ret_cost,
                                            spsh_error *err);

#endif

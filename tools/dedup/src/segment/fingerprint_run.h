/* fingerprint_run.h: makes the segments that a dataset lacks.
 *
 * Utterances are extracted on threads, shards are published one after the other; what is there and
 * sound is left alone, so a rerun goes on. Several machines share the shards (part i of n).
 */
#ifndef SPSH_DEDUP_FINGERPRINT_RUN_H
#define SPSH_DEDUP_FINGERPRINT_RUN_H

#include "records/call_watch.h"
#include "segment.h"
#include "speechshard/dedup.h"

typedef struct spsh__fingerprint_run_options {
    const spsh_io *io;
    uint32_t threads;
    uint64_t part, part_count; /* shards whose number is part modulo part_count; 0 of 1: all */
    bool check_pages; /* of segments that are there: each byte, not only what opening looks at */
    spsh__call_watch *watch; /* may be NULL; stage "fingerprint", in utterances */
} spsh__fingerprint_run_options;

/* SPSH_E_CANCELED: published segments stay. A segment of
 * another version or shard, or damaged, is made anew; without check_pages a damaged page shows when
 * it is read. */
spsh_status spsh__fingerprint_run(const char *dataset_path,
                                  const spsh__fingerprint_run_options *options,
                                  spsh_fingerprint_facts *ret_facts, spsh_error *err);

/* Extracts for about measure_s; writes nothing. threads and watch are not used. */
spsh_status spsh__fingerprint_estimate_make(const char *dataset_path,
                                            const spsh__fingerprint_run_options *options,
                                            double measure_s, spsh_fingerprint_cost *ret_cost,
                                            spsh_error *err);

#endif

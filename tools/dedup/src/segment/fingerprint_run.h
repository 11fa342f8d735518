/* fingerprint_run.h: makes the segments that a dataset lacks.
 *
 * Utterances are extracted on threads, shards are published one after the other; what is there and
 * sound is left alone, so a rerun goes on. Several machines share the shards (part i of n).
 */
#ifndef SPSH_DEDUP_FINGERPRINT_RUN_H
#define SPSH_DEDUP_FINGERPRINT_RUN_H

#include "segment.h"

typedef struct spsh__fingerprint_run_options {
    const spsh_io *io;
    uint32_t threads;
    uint64_t part, part_count; /* shards whose number is part modulo part_count; 0 of 1: all */
    bool check_pages; /* of segments that are there: each byte, not only what opening looks at */
    /* "fingerprint", utterances */
    void (*progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);
    void *user;
} spsh__fingerprint_run_options;

typedef struct spsh__fingerprint_run_facts {
    uint64_t shard_count, made_count;                       /* of this part; of those, new ones */
    uint64_t utterance_count, alias_count, undecoded_count; /* of this part, also those below */
    uint64_t key_count, chunk_count;
    double seconds;         /* audio that was extracted now */
    uint64_t segment_bytes; /* of all segments of this part */
} spsh__fingerprint_run_facts;

/* SPSH_E_CANCELED when *stop (may be NULL) was seen true: published segments stay. A segment of
 * another version or shard, or damaged, is made anew; without check_pages a damaged page shows when
 * it is read. */
spsh_status spsh__fingerprint_run(const char *dataset_path,
                                  const spsh__fingerprint_run_options *options,
                                  const volatile bool *stop, spsh__fingerprint_run_facts *ret_facts,
                                  spsh_error *err);

/* What it would take, measured on a few utterances from all over the part. */
typedef struct spsh__fingerprint_estimate {
    uint64_t shard_count, to_do_count;
    uint64_t utterance_count; /* of shards to do */
    double seconds;           /* of their audio; copies by reference are no work */
    uint64_t segment_bytes;   /* of what would be made */
    double core_seconds;
    uint64_t sample_count; /* utterances measured */
    double sample_seconds; /* of their audio */
} spsh__fingerprint_estimate;

/* Extracts for about measure_s; writes nothing. threads, progress_fn: not looked at. */
spsh_status spsh__fingerprint_estimate_make(const char *dataset_path,
                                            const spsh__fingerprint_run_options *options,
                                            double measure_s,
                                            spsh__fingerprint_estimate *ret_estimate,
                                            spsh_error *err);

#endif

/* feature_work.h: the common part of making and summing features. It finds the shards that a run
 * has to do, computes their utterances on threads, and returns them in order.
 */
#ifndef SPSH_FEATURES_FEATURE_WORK_H
#define SPSH_FEATURES_FEATURE_WORK_H

#include "common/ordered_work.h"
#include "feature_maker.h"
#include "feature_run.h"

enum { SPSH__FEATURE_JOB_UTTERANCES = 4 };

/* A shard of the source. */
typedef struct spsh__feature_shard {
    spsh_shard_seal seal;
    uint64_t first;     /* position of its first utterance */
    uint64_t first_job; /* index of its first job in this run */
    bool is_to_do;
    bool is_made; /* made before, or by another part */
} spsh__feature_shard;

/* An utterance. An empty message means that it was computed. */
typedef struct spsh__feature_entry {
    uint64_t position;
    spsh_row row;
    bool skipped;        /* skipped by an overlay */
    bool is_undecodable; /* marked undecodable by pack; status is damage */
    spsh_status status;
    char message[sizeof(((spsh_error *)0)->message)]; /* set if status is damage */
    uint64_t frame_count;
    spsh__feature_bytes bytes;    /* output of finish_fn: a payload, sums */
    uint8_t hash[16], source[16]; /* hashes of a payload */
} spsh__feature_entry;

typedef struct spsh__feature_result {
    spsh__feature_entry entries[SPSH__FEATURE_JOB_UTTERANCES];
    size_t count;
} spsh__feature_result;

typedef struct spsh__feature_work spsh__feature_work;

struct spsh__feature_work {
    const spsh__feature_run_options *options;
    const spsh_io *io;
    spsh_dataset *source;
    spsh_feature_options features; /* options used for the computation */
    spsh_featgen *featgen;
    spsh_statistics *statistics;
    uint64_t *skipped; /* positions, ascending */
    uint64_t skipped_count;
    spsh__feature_shard *shards; /* shards of the whole source */
    uint64_t shard_count;
    uint64_t job_count, utterances_to_do, utterances_done;
    /* Called on a worker's thread to turn rows into entry->bytes. scratch belongs to the worker. */
    spsh_status (*finish_fn)(const spsh__feature_work *work, spsh__feature_entry *entry,
                             const float *rows, spsh__feature_bytes *scratch, spsh_error *err);
    spsh__feature_run_facts facts;
};

/* Open the source and find its shards and skipped utterances. features is copied. ignore_overlays:
 * no utterance is skipped. */
spsh_status spsh__feature_work_open(spsh__feature_work *work,
                                    const spsh__feature_run_options *options, bool ignore_overlays,
                                    spsh_error *err);
void spsh__feature_work_close(spsh__feature_work *work);

/* Make the feature tables, and load the statistics that a norm needs. */
spsh_status spsh__feature_work_open_featgen(spsh__feature_work *work, spsh_error *err);

/* Number the jobs of this part's shards that are not made yet. */
void spsh__feature_work_number_jobs(spsh__feature_work *work);

bool spsh__feature_is_skipped(const spsh__feature_work *work, uint64_t position);

spsh_status spsh__feature_work_start(spsh__feature_work *work, spsh__ordered_work **ret_ordered,
                                     spsh_error *err);

/* Compute all utterances of a shard to do, in order. put_fn gets the computed utterances. A damaged
 * utterance is a failure, or is skipped and reported. */
typedef spsh_status (*spsh__feature_put_fn)(void *user, const spsh__feature_entry *entry,
                                            spsh_error *err);
spsh_status spsh__feature_work_shard(spsh__feature_work *work, spsh__ordered_work *ordered,
                                     uint64_t shard, spsh__feature_put_fn put_fn, void *user,
                                     spsh_error *err);

#endif

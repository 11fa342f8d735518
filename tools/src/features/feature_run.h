/* feature_run.h: a dataset of features from a dataset of audio, shard by shard.
 *
 *     shard u of the source --> maker threads --> shards/U-000.spsh of the output
 *     all shards there --> index, manifest
 *
 * A shard of features is a pure function of the source and the options, so shards are made anywhere
 * and in any order; a sealed one is done. What is there is left alone: a run that was killed goes
 * on by being started again, and several machines share the shards (part i of n). The run that
 * finds all of them publishes the dataset.
 */
#ifndef SPSH_FEATURES_FEATURE_RUN_H
#define SPSH_FEATURES_FEATURE_RUN_H

#include "speechshard/featgen.h"
#include "speechshard/io.h"
#include "speechshard/publish.h"

typedef struct spsh__feature_run_options {
    const char *source; /* DATASET */
    const char *output; /* made if it is not there; not looked at for statistics and estimates */
    spsh_feature_options features;
    spsh_feature_dtype dtype;
    bool by_speaker;           /* statistics: of each, beside the dataset's */
    bool leave_out_damaged;    /* else the first one is a failure */
    bool fail_on_undecodable;  /* else records that pack has marked so are left out and counted */
    uint64_t part, part_count; /* shards whose number is part modulo part_count; 0 of 1: all */
    uint32_t threads;
    const spsh_io *io;
    const volatile bool *stop; /* may be NULL */
    void (*progress_fn)(void *user, uint64_t utterances_done, uint64_t utterances_to_do);
    void (*left_out_fn)(void *user, const char *why); /* names the utterance; may be NULL */
    void *user;
} spsh__feature_run_options;

typedef struct spsh__feature_run_facts {
    uint64_t shard_count, made_count; /* of this part; of those, new ones */
    uint64_t missing_count;           /* of all parts: shards that are still to be made */
    uint64_t utterance_count;         /* of shards that were made now, also what follows */
    uint64_t left_out_count;
    uint64_t undecodable_count;
    spsh_error undecodable; /* of the first of them */
    uint64_t frame_count;
    double seconds;             /* of their audio */
    uint64_t resampled_count;   /* utterances of another rate than the features' */
    uint32_t resampled_from_hz; /* of the first of them */
    bool published;             /* all is there */
    bool already_there;         /* nothing was done */
    spsh_dataset_info info;     /* when published; not of statistics */
} spsh__feature_run_facts;

/* SPSH_E_EXISTS: the output is something else; SPSH_E_CANCELED: *stop was seen true, what is sealed
 * stays. */
spsh_status spsh__feature_run(const spsh__feature_run_options *options,
                              spsh__feature_run_facts *ret_facts, spsh_error *err);

/* Sums over the source, beside it (statistics.h). The features' norm is not looked at. */
spsh_status spsh__statistics_run(const spsh__feature_run_options *options,
                                 spsh__feature_run_facts *ret_facts, spsh_error *err);

/* What a run would take, measured on a few utterances from all over the part. */
typedef struct spsh__feature_estimate {
    uint64_t shard_count, to_do_count;
    uint64_t utterance_count; /* of shards to do */
    double seconds;           /* of their audio */
    uint64_t feature_bytes;   /* of payloads that would be made */
    double core_seconds;
    uint64_t sample_count; /* utterances measured */
    double sample_seconds; /* of their audio */
} spsh__feature_estimate;

/* Computes for about measure_s; writes nothing. */
spsh_status spsh__feature_estimate_make(const spsh__feature_run_options *options, double measure_s,
                                        spsh__feature_estimate *ret_estimate, spsh_error *err);

#endif

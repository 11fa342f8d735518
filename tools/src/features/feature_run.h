/* feature_run.h: make a dataset of features from a dataset of audio, shard by shard.
 *
 *     shard u of the source --> maker threads --> shards/U-000.spsh of the output
 *     all shards exist      --> index, manifest
 *
 * A shard of features is a pure function of the source and the options. So shards can be made on
 * any machine in any order, and a sealed shard is complete. Existing shards are kept: a killed run
 * resumes when it is started again, and several machines share the shards (part i of n). The run
 * that finds all shards publishes the dataset.
 */
#ifndef SPSH_FEATURES_FEATURE_RUN_H
#define SPSH_FEATURES_FEATURE_RUN_H

#include "speechshard/featgen.h"
#include "speechshard/io.h"
#include "speechshard/publish.h"

typedef struct spsh__feature_run_options {
    const char *source; /* DATASET */
    const char *output; /* created if missing; unused for statistics and estimates */
    spsh_feature_options features;
    spsh_feature_dtype dtype;
    bool by_speaker;           /* statistics: also per speaker, in addition to the dataset */
    bool leave_out_damaged;    /* skip damaged utterances; else the first one is a failure */
    bool fail_on_undecodable;  /* else records marked undecodable by pack are skipped and counted */
    uint64_t part, part_count; /* shards whose number is part modulo part_count; 0 of 1: all */
    uint32_t threads;
    const spsh_io *io;
    const volatile bool *stop; /* may be NULL */
    void (*progress_fn)(void *user, uint64_t utterances_done, uint64_t utterances_to_do);
    void (*left_out_fn)(void *user, const char *why); /* why: names the utterance; the function may
                                                         be NULL */
    void *user;
} spsh__feature_run_options;

typedef struct spsh__feature_run_facts {
    uint64_t shard_count, made_count; /* shards of this part, and newly made ones */
    uint64_t missing_count;           /* shards of all parts that are still to be made */
    uint64_t utterance_count;         /* utterances of the new shards, like the next fields */
    uint64_t left_out_count;
    uint64_t undecodable_count;
    spsh_error undecodable; /* error of the first of them */
    uint64_t frame_count;
    double seconds;             /* length of the utterances' audio */
    uint64_t resampled_count;   /* utterances whose rate differs from the features' rate */
    uint32_t resampled_from_hz; /* rate of the first of them */
    bool published;             /* all shards exist */
    bool already_there;         /* the output was complete: nothing was done */
    spsh_dataset_info info;     /* set if published; unused for statistics */
} spsh__feature_run_facts;

/* Make the features. SPSH_E_EXISTS: the output is something else; SPSH_E_CANCELED: *stop was true,
 * and sealed shards are kept. */
spsh_status spsh__feature_run(const spsh__feature_run_options *options,
                              spsh__feature_run_facts *ret_facts, spsh_error *err);

/* Write sums over the source next to it (statistics.h). The features' norm is ignored. */
spsh_status spsh__statistics_run(const spsh__feature_run_options *options,
                                 spsh__feature_run_facts *ret_facts, spsh_error *err);

/* Estimated cost of a run, measured on a few utterances spread over the part. */
typedef struct spsh__feature_estimate {
    uint64_t shard_count, to_do_count;
    uint64_t utterance_count; /* utterances of the shards to do */
    double seconds;           /* length of the utterances' audio */
    uint64_t feature_bytes;   /* size of the payloads that the run would make */
    double core_seconds;
    uint64_t sample_count; /* utterances measured */
    double sample_seconds; /* length of the measured audio */
} spsh__feature_estimate;

/* Estimate the cost. Takes about measure_s and writes nothing. */
spsh_status spsh__feature_estimate_make(const spsh__feature_run_options *options, double measure_s,
                                        spsh__feature_estimate *ret_estimate, spsh_error *err);

#endif

/* config.h: one YAML file and key=value overrides become one struct; unknown keys are refused with
 * the nearest known one named; what was resolved is written back, canonical, into the run and its
 * checkpoints. docs/TRAINING.md has every key with its range and its default.
 *
 *     features, augment, vocabulary                                     outside of the sections
 *     data:   train, train_weights, alpha, dev, alignments, noises, rooms, seed, max_seconds,
 *             max_padded_seconds, utterance_seconds_min, utterance_seconds_max, virtual_world,
 *             decode, damaged, undecodable
 *     model:  preset, conv_channels, layers, cell, hidden, bidirectional, lookahead, bottleneck,
 *             chunk_frames, outputs, batch_norm
 *     train:  backend, device, precision, deterministic, graphs, rnn, exchange, threads, strategy,
 *             servers, staleness_max, scale_by_staleness, overlap, node_size, inner, outer, stages,
 *             optimiser, rate, momentum, nesterov, beta1, beta2, epsilon, weight_decay, clip,
 *             schedule, warm_up_samples, schedule_samples, anneal, epochs, samples_max, accumulate,
 *             checkpoint_every_s, keep, deadline_ms, on_lost
 *     eval:   every_s, beam_width
 *
 * Paths are the process's: relative to its working directory, not
 * to the file.
 */
#ifndef SPSH_TRAIN_CONFIG_H
#define SPSH_TRAIN_CONFIG_H

#include "backend/backend.h"
#include "model/model.h"
#include "speechshard/io.h"
#include "speechshard/loader.h"

typedef struct spsh__config spsh__config; /* fields below; made by the two functions only */

typedef enum spsh__backend_choice {
    SPSH__BACKEND_AUTO = 0, /* cuda where there is a device, else cpu */
    SPSH__BACKEND_CPU = 1,
    SPSH__BACKEND_CUDA = 2,
    SPSH__BACKEND_REFERENCE = 3,
} spsh__backend_choice;

typedef enum spsh__exchange_choice { /* how ranks on devices exchange gradients */
                                     SPSH__EXCHANGE_AUTO = 0,
                                     SPSH__EXCHANGE_NCCL = 1,
                                     SPSH__EXCHANGE_HOST = 2,
} spsh__exchange_choice;

typedef enum spsh__schedule_kind {
    SPSH__SCHEDULE_CONSTANT = 0,
    SPSH__SCHEDULE_ANNEAL = 1, /* times `anneal` after each schedule_samples */
    SPSH__SCHEDULE_COSINE = 2, /* half a cosine down to 0 at schedule_samples */
} spsh__schedule_kind;

struct spsh__config {
    char **train, **dev;   /* "path" or "path:split,split"; NULL behind the last; train has one */
    double *train_weights; /* a number a dataset of train; NULL: shares follow from alpha */
    double alpha;          /* of domains' shares: spsh_plan_options */
    char **alignments;     /* files of train and dev; of lstm-hybrid, which has one at least */
    char **noises, **rooms;
    char *vocabulary; /* a path; empty: none is named */
    uint64_t seed;
    double max_seconds, max_padded_seconds;              /* of a batch; 0: no bound */
    double utterance_seconds_min, utterance_seconds_max; /* the second 0: no bound */
    uint32_t virtual_world;                              /* 0: the world size */
    char *features, *augment; /* canonical texts of featgen.h and augment.h */
    spsh__model_shape model;  /* inputs are 0; outputs too, but for lstm-hybrid, where it is said */
    spsh__backend_choice backend;
    char *device; /* "auto": by the local rank; or its number */
    uint32_t
        precision; /* 0: auto: of cuda tf32, of the others their own; else 1 + spsh__precision */
    bool is_deterministic, has_graphs;
    spsh__rnn_rung rnn;
    spsh__exchange_choice exchange;
    spsh_decode decode;    /* of `pcm` payloads, for a device */
    spsh_on_error damaged; /* of a record whose bytes are damaged: fail or skip */
    spsh_undecodable undecodable;
    char *strategy;
    /* ... and what some of them take (strategy.h) */
    uint32_t servers;       /* 0: all processes */
    uint32_t staleness_max; /* UINT32_MAX: any */
    bool scales_by_staleness, overlaps;
    uint32_t node_size; /* 0: as many as the launcher has begun on a node */
    char *inner, *outer;
    char **stages;    /* pipeline: the blocks that stages 1, 2, ... begin with; none: by work */
    uint32_t threads; /* 0: as many as there are cores */
    bool is_adamw;
    spsh__sgd sgd;     /* one rate and one weight_decay for both */
    spsh__adamw adamw; /* step is 0 */
    double clip;       /* of the gradients' norm; 0: none */
    spsh__schedule_kind schedule;
    uint64_t warm_up_samples;
    uint64_t schedule_samples; /* 0: until spsh__config_resolve: an epoch; of a cosine all epochs */
    double anneal;
    uint32_t epochs;      /* 0: samples_max decides */
    uint64_t samples_max; /* 0: epochs decide */
    uint32_t accumulate;
    double checkpoint_every_s, evaluate_every_s; /* 0: at the end of each epoch alone */
    uint32_t keep_checkpoints, deadline_ms;
    bool shrinks;        /* train.on_lost: the run goes on without processes that are lost */
    uint32_t beam_width; /* 0: greedy */
};

/* overrides: "train.rate=3e-4", "data.train=[a.spsh:train, b.spsh]"; NULL behind the last; a later
 * one wins; may be NULL itself. What is behind '=' is the value as it stands, but for a list, which
 * is written as in YAML. SPSH_E_SYNTAX with the line, SPSH_E_NOT_FOUND (no such key; _read: no such
 * file), SPSH_E_INVALID_ARG (out of range, or a contradiction), SPSH_E_LIMIT, _NO_MEMORY. */
spsh_status spsh__config_read(const char *path, const char *const *overrides, const spsh_io *io,
                              spsh__config **ret, spsh_error *err);
spsh_status spsh__config_parse(const char *yaml, size_t size, const char *const *overrides,
                               spsh__config **ret, spsh_error *err);
void spsh__config_free(spsh__config *config); /* NULL is fine */

/* Fills in what follows from the data: schedule_samples, where it is 0, from the utterances of an
 * epoch. Before the first step, and before the text is written. */
void spsh__config_resolve(spsh__config *config, uint64_t epoch_samples);

/* Canonical YAML of everything, which parses to the same again; caller frees. NULL: no memory. */
char *spsh__config_text(const spsh__config *config);

/* The rate after so many samples: a function of samples alone, the same at any world size. Resolved
 * configurations only. */
double spsh__schedule_rate(const spsh__config *config, uint64_t samples);
#endif

/* config.h: reads one YAML file and key=value overrides into one struct. Unknown keys are rejected
 * with the closest known key in the message. The resolved configuration is written back, in
 * canonical form, into the run and its checkpoints. TRAINING.md lists every key with range and
 * default.
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
 *             schedule, warm_up_samples, warm_up_epochs, warm_up_from, schedule_samples, anneal,
 *             rate_scaling, rate_seconds, epochs, samples_max, accumulate, accumulate_max,
 *             accumulate_samples, checkpoint_every_s, keep, deadline_ms, on_lost
 *     eval:   every_s, beam_width
 *
 * Paths are relative to the working directory of the process, not to the file.
 */
#ifndef SPSH_TRAIN_CONFIG_H
#define SPSH_TRAIN_CONFIG_H

#include "backend/backend.h"
#include "model/model.h"
#include "speechshard/io.h"
#include "speechshard/loader.h"

typedef struct spsh__config spsh__config; /* fields below; created only by the two functions */

typedef enum spsh__backend_choice {
    SPSH__BACKEND_AUTO = 0, /* cuda if there is a device, else cpu */
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

#define SPSH__COUNT_MAX 9007199254740992.0 /* 2^53: a double holds smaller integers exactly */

typedef enum spsh__rate_scaling {
    SPSH__SCALING_NONE = 0,
    SPSH__SCALING_LINEAR = 1, /* the rate is proportional to the seconds of an update's batches */
    SPSH__SCALING_SQRT = 2,   /* ... to the square root of them */
} spsh__rate_scaling;

struct spsh__config {
    char **train, **dev;   /* "path" or "path:split,split"; NULL-terminated; train has at least
                              one */
    double *train_weights; /* one number per dataset of train; NULL: shares follow from alpha */
    double alpha;          /* exponent of the domain shares: spsh_plan_options */
    char **alignments;     /* files for train and dev; lstm-hybrid needs at least one */
    char **noises, **rooms;
    char *vocabulary; /* path; empty: no file was named */
    uint64_t seed;
    double max_seconds, max_padded_seconds;              /* limits of a batch; 0: unlimited */
    double utterance_seconds_min, utterance_seconds_max; /* the maximum 0: unlimited */
    uint32_t virtual_world;                              /* 0: the world size */
    char *features, *augment; /* canonical strings of featgen.h and augment.h */
    spsh__model_shape model;  /* inputs is 0; outputs is 0, except for lstm-hybrid if the file sets
                                 it */
    spsh__backend_choice backend;
    char *device;       /* "auto": by the local rank; or the device number */
    uint32_t precision; /* 0: auto (bf16 on cuda, the backend's precision elsewhere); else 1 +
                      spsh__precision */
    bool is_deterministic, has_graphs;
    spsh__rnn_algorithm rnn;
    spsh__exchange_choice exchange;
    uint32_t gradient_exchange; /* 0: fp32, 1: bf16, 2: fp16 */
    spsh_decode decode;         /* location of the decoding of `pcm` payloads, for a device */
    spsh_on_error damaged;      /* action on a record with damaged bytes: fail or skip */
    spsh_undecodable undecodable;
    char *strategy;
    /* ... and the options of some strategies (strategy.h) */
    uint32_t servers;       /* 0: all processes */
    uint32_t staleness_max; /* UINT32_MAX: unlimited */
    bool scales_by_staleness, overlaps;
    uint32_t node_size; /* 0: the number of processes that the launcher started per node */
    char *inner, *outer;
    char **stages;    /* pipeline: first blocks of stages 1, 2, ...; none: split by work */
    uint32_t threads; /* 0: one per core */
    bool is_adamw;
    spsh__sgd sgd;     /* one rate and one weight_decay for both */
    spsh__adamw adamw; /* step is 0 */
    double clip;       /* limit of the gradients' norm; 0: none */
    spsh__schedule_kind schedule;
    uint64_t warm_up_samples;
    double warm_up_epochs;     /* not 0: replaces warm_up_samples; 0 after spsh__config_resolve */
    double warm_up_from;       /* share of the rate at the first sample of the warm-up */
    uint64_t schedule_samples; /* 0 until spsh__config_resolve sets it: one epoch, or all epochs for
                                  a cosine */
    double anneal;
    spsh__rate_scaling rate_scaling;
    double rate_seconds;                         /* seconds per update that the rate is meant for */
    uint32_t epochs;                             /* 0: samples_max decides */
    uint64_t samples_max;                        /* 0: epochs decide */
    uint32_t accumulate;                         /* loader steps per update, at first */
    uint32_t accumulate_max;                     /* it doubles up to this; 0: it does not change */
    uint64_t accumulate_samples;                 /* ... after every accumulate_samples samples */
    double checkpoint_every_s, evaluate_every_s; /* 0: only at the end of each epoch */
    uint32_t keep_checkpoints, deadline_ms;
    bool shrinks;        /* train.on_lost: the run continues without lost processes */
    uint32_t beam_width; /* 0: greedy */
};

/* overrides: "train.rate=3e-4", "data.train=[a.spsh:train, b.spsh]"; NULL-terminated. A later
 * override wins. May be NULL. The text after '=' is taken verbatim, except for a list, which uses
 * YAML syntax. Returns SPSH_E_SYNTAX with the line, SPSH_E_NOT_FOUND (unknown key; _read: missing
 * file), SPSH_E_INVALID_ARG (out of range, or a contradiction), SPSH_E_LIMIT, _NO_MEMORY. */
spsh_status spsh__config_read(const char *path, const char *const *overrides, const spsh_io *io,
                              spsh__config **ret, spsh_error *err);
spsh_status spsh__config_parse(const char *yaml, size_t size, const char *const *overrides,
                               spsh__config **ret, spsh_error *err);
void spsh__config_free(spsh__config *config); /* accepts NULL */

/* Element type of gradients in messages. */
static inline spsh__precision spsh__config_sent_as(const spsh__config *c)
{
    return c->gradient_exchange == 0   ? SPSH__FP32
           : c->gradient_exchange == 1 ? SPSH__BF16
                                       : SPSH__FP16;
}

/* Fill in values that depend on the data: compute schedule_samples if it is 0, and warm_up_samples
 * from warm_up_epochs, from the utterances of an epoch. Call before the first step, and before the
 * text is written. SPSH_E_INVALID_ARG: the warm-up is longer than the cosine. */
spsh_status spsh__config_resolve(spsh__config *config, uint64_t epoch_samples, spsh_error *err);

/* Return the configuration as canonical YAML, which parses to the same configuration. The caller
 * frees it. NULL: out of memory. */
char *spsh__config_text(const spsh__config *config);

/* Return the rate after `samples` samples. It depends only on the configuration and samples, so it
 * is the same at any world size. The configuration must be resolved. */
double spsh__schedule_rate(const spsh__config *config, uint64_t samples);
/* Return the factor of that rate for an update of virtual_world batches per loader step. */
double spsh__schedule_scale(const spsh__config *config, uint32_t virtual_world, uint64_t samples);

/* Return the number of loader steps of the update after `samples` samples, and its maximum. */
uint32_t spsh__schedule_accumulate(const spsh__config *config, uint64_t samples);
uint32_t spsh__schedule_accumulate_most(const spsh__config *config);

/* Return the maximum seconds of a batch, with padding. */
double spsh__config_batch_seconds(const spsh__config *config);
#endif

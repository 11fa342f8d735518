/* config.h: one YAML file and key=value overrides become one struct; unknown keys are refused with
 * the nearest known one named; what was resolved is written back, canonical, into the run and its
 * checkpoints.
 *
 *     data:     train, dev: [dataset:splits, weight]   seed, max_seconds, max_padded_seconds,
 * min/max utterance features: text   augment: text   noises, rooms   virtual_world   vocabulary:
 * path model:    preset, layers, hidden, cell, bidirectional, lookahead, conv_channels, batch_norm:
 * masked | compat train:    backend, threads, strategy, optimiser: sgd | adamw ... rate, schedule,
 * warm_up_samples, clip, epochs, accumulate, checkpoint_every_s, keep, deadline_s eval: every_s,
 * decoder: greedy | beam, beam_width
 */
#ifndef SPSH_TRAIN_CONFIG_H
#define SPSH_TRAIN_CONFIG_H

#include "backend.h"
#include "model.h"
#include "speechshard/io.h"

typedef struct spsh__config spsh__config; /* fields below; made by the two functions only */

typedef enum spsh__schedule_kind {
    SPSH__SCHEDULE_CONSTANT = 0,
    SPSH__SCHEDULE_ANNEAL = 1 /* times `anneal` an epoch's worth of samples */,
    SPSH__SCHEDULE_COSINE = 2,
} spsh__schedule_kind;

struct spsh__config {
    char **train, **dev; /* "path:splits"; NULL behind the last */
    double *train_weights;
    char **noises, **rooms;
    char *vocabulary, *output;
    uint64_t seed;
    double max_seconds, max_padded_seconds, utterance_seconds_min, utterance_seconds_max;
    uint32_t virtual_world;
    char *features, *augment;
    spsh__model_shape model;
    char *backend, *strategy;
    uint32_t threads;
    bool is_adamw;
    spsh__sgd sgd;
    spsh__adamw adamw;
    double clip; /* of the gradients' norm; 0: none */
    spsh__schedule_kind schedule;
    uint64_t warm_up_samples, schedule_samples;
    double anneal;
    uint32_t epochs;
    uint64_t samples_max; /* 0: epochs decide */
    uint32_t accumulate;
    double checkpoint_every_s, evaluate_every_s;
    uint32_t keep_checkpoints, deadline_ms, beam_width;
};

/* overrides: "train.rate=3e-4", NULL behind the last. SPSH_E_SYNTAX with line, _NOT_FOUND,
 * _INVALID_ARG. */
spsh_status spsh__config_read(const char *path, const char *const *overrides, const spsh_io *io,
                              spsh__config **ret, spsh_error *err);
spsh_status spsh__config_parse(const char *yaml, size_t size, const char *const *overrides,
                               spsh__config **ret, spsh_error *err);
void spsh__config_free(spsh__config *config);
/* Canonical YAML of everything; caller frees. */
char *spsh__config_text(const spsh__config *config);

/* The rate after so many samples: a function of samples alone, the same at any world size. */
double spsh__schedule_rate(const spsh__config *config, uint64_t samples);
#endif

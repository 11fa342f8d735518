/* maker.h: what one decode thread needs to follow the recipe. */
#ifndef SPSH_MAKER_H
#define SPSH_MAKER_H

#include "recipe.h"

/* A sound could not be read. Does the utterance go without it? */
typedef struct spsh__sound_policy {
    bool (*goes_without_fn)(void *user, const spsh_error *why);
    void *user;
} spsh__sound_policy;

typedef struct spsh__maker {
    const spsh__recipe *recipe; /* NULL: samples go straight into the slot */
    spsh__budget *budget;
    spsh__sound_policy policy;
    spsh_featgen_worker *worker;
    spsh_augmenter *augmenter;
    spsh__sound_reader noises, rooms;
    uint8_t *memory; /* of what follows */
    size_t memory_bytes;
    uint64_t samples_max;    /* that fit into pcm */
    int16_t *pcm;            /* of an utterance, at the batch's rate */
    int16_t *sound;          /* augmented */
    float *rows;             /* of features */
    uint8_t *halves;         /* as stored */
    uint8_t *block;          /* of what is stored, while it is decompressed */
    double *sums;            /* 2 * dim: of values to be masked; of statistics */
    float *means;            /* 2 * dim: means and scales */
    _Atomic uint64_t cpu_ns; /* of making */
} spsh__maker;

/* All memory is taken here, from the budget. */
spsh_status spsh__maker_open(spsh__maker *maker, const spsh__recipe *recipe,
                             const spsh_plan_info *info, spsh__budget *budget, spsh_error *err);
void spsh__maker_close(spsh__maker *maker);

/* Of the job->rate_samples in maker->pcm, what belongs into the job's place, and behind it. */
spsh_status spsh__maker_run(spsh__maker *maker, spsh__job *job, spsh_error *err);

/* Into the slot: the norm of a job whose features a device makes. */
spsh_status spsh__maker_norm(const spsh__maker *maker, const spsh__job *job, spsh_error *err);

/* Of a payload of stored features. */
spsh_status spsh__maker_run_stored(spsh__maker *maker, spsh__job *job, spsh_bytes payload,
                                   spsh_error *err);

#endif

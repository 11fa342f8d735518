/* maker.h: apply the recipe (recipe.h) to utterances, on one decode thread. */
#ifndef SPSH_MAKER_H
#define SPSH_MAKER_H

#include "recipe.h"

/* Called when a noise or RIR cannot be read. true: continue without it. */
typedef struct spsh__sound_policy {
    bool (*may_omit_fn)(void *user, const spsh_error *why);
    void *user;
} spsh__sound_policy;

typedef struct spsh__maker {
    const spsh__recipe *recipe; /* NULL: samples are decoded directly to the slot */
    spsh__budget *budget;
    spsh__sound_policy policy;
    spsh_featgen_worker *worker;
    spsh_augmenter *augmenter;
    spsh__sound_reader noises, rooms;
    uint8_t *memory; /* one block for the buffers below */
    size_t memory_bytes;
    uint64_t samples_max;    /* capacity of pcm */
    int16_t *pcm;            /* an utterance's samples at the batch's rate */
    int16_t *sound;          /* augmented samples */
    float *rows;             /* features as float32 */
    uint8_t *halves;         /* stored float16 features */
    uint8_t *block;          /* a block of stored features during decompression */
    double *sums;            /* [2 * dim]: sums for the mask value, or from the statistics */
    float *means;            /* [2 * dim]: means and scales */
    _Atomic uint64_t cpu_ns; /* CPU time of spsh__maker_run */
} spsh__maker;

/* Takes all memory from the budget: nothing grows later. */
spsh_status spsh__maker_open(spsh__maker *maker, const spsh__recipe *recipe,
                             const spsh_plan_info *info, spsh__budget *budget, spsh_error *err);
void spsh__maker_close(spsh__maker *maker);

/* Convert the job->rate_samples samples in maker->pcm, and write the result and its padding to the
 * job's position in the slot. */
spsh_status spsh__maker_run(spsh__maker *maker, spsh__job *job, spsh_error *err);

/* Write the means and scales of a job to the slot, for features that a device computes. */
spsh_status spsh__maker_norm(const spsh__maker *maker, const spsh__job *job, spsh_error *err);

/* Like spsh__maker_run, from a payload of stored features. */
spsh_status spsh__maker_run_stored(spsh__maker *maker, spsh__job *job, spsh_bytes payload,
                                   spsh_error *err);

#endif

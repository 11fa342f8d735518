/* maker.h: what one decode thread needs to follow the recipe. */
#ifndef SPSH_MAKER_H
#define SPSH_MAKER_H

#include "recipe.h"

typedef struct spsh__maker {
    const spsh__recipe *recipe; /* NULL: samples go straight into the slot */
    spsh__budget *budget;
    spsh_featgen_worker *worker;
    uint64_t samples_max;
    int16_t *pcm; /* of an utterance, at the batch's rate */
    float *rows;  /* of features that are served as float16 */
    uint64_t row_values_max;
    _Atomic uint64_t cpu_ns; /* of making */
} spsh__maker;

/* Bytes of one thread's buffers. */
uint64_t spsh__maker_bytes(const spsh__recipe *recipe, const spsh_plan_info *info);

/* All memory is taken here, from the budget. */
spsh_status spsh__maker_open(spsh__maker *maker, const spsh__recipe *recipe,
                             const spsh_plan_info *info, spsh__budget *budget, spsh_error *err);
void spsh__maker_close(spsh__maker *maker);

/* Of the job->rate_samples in maker->pcm, what belongs into the job's place, and behind it. */
spsh_status spsh__maker_run(spsh__maker *maker, spsh__job *job, spsh_error *err);

#endif

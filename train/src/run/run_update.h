/* run_update.h: the optimizer on slices of a learner's arena: in a step, and in the serving task
 * (runtime.h) for gradients that other learners send.
 */
#ifndef SPSH_TRAIN_RUN_UPDATE_H
#define SPSH_TRAIN_RUN_UPDATE_H

#include "config/config.h"
#include "model/model.h"
#include "strategy/strategy.h"

typedef struct spsh__optimizer {  /* all borrowed */
    const spsh__config *config;   /* SGD or AdamW */
    const spsh__model *model;     /* its parameters: some of them decay */
    const spsh__learner *learner; /* updated weights and their moments */
} spsh__optimizer;

typedef struct spsh__slice_update {
    spsh__backend *backend;
    const spsh__slice *slice;
    spsh__backend_buffer gradients; /* from the beginning of the slice */
    double gradient_scale, rate;
    spsh__backend_buffer decision; /* as in spsh__update */
    uint64_t number;               /* number of the update, from 1 */
} spsh__slice_update;
void spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u);

typedef struct spsh__part_count {
    uint64_t offset, count; /* range of the arena; updates */
} spsh__part_count;

/* Updates by the serving task. */
typedef struct spsh__served_updates {
    const spsh__optimizer *optimizer;
    spsh__backend *backend;  /* accesses the model's arena while the model computes; else NULL */
    spsh__part_count *parts; /* parts with updates */
    uint32_t count;
    uint64_t base; /* updates before this process */
    double rate;   /* atomic: the rate of the computing task */
} spsh__served_updates;

/* Open a separate backend with the options of `like` and one thread. */
spsh_status spsh__served_open_backend(spsh__served_updates *s, const spsh__backend *like,
                                      const spsh_cuda *cuda, spsh_error *err);
/* Allocate the counts of all parts. After that, update_fn of the learner may be called with s as
 * its user. world_size: each rank has at least one part. */
spsh_status spsh__served_open(spsh__served_updates *s, const spsh__optimizer *optimizer,
                              uint32_t world_size, spsh_error *err);
void spsh__served_close(spsh__served_updates *s); /* accepts an all-zero struct */
/* Call under the runtime's lock, as the update. */
void spsh__served_set_rate(spsh__served_updates *s, double rate);
void spsh__served_update(void *served, const spsh__slice *slice, spsh__backend_buffer gradients,
                         double scale);

#endif

/* free_model.h: the model of a free learner: an arena that both its tasks touch, part by part,
 * under the learner's lock.
 *
 *     weights <-- read ---- arena      computing task, before forward: what the gradient is of
 *     arena  <-- update                computing task, behind backward: by slices
 *     arena  <-> take, mix             either: snapshots are sent, those of others mixed in
 * (parts.h)
 */
#ifndef SPSH_TRAIN_FREE_MODEL_H
#define SPSH_TRAIN_FREE_MODEL_H

#include "parts.h"
#include "strategy.h"

typedef struct spsh__free_model {
    spsh__learner *learner;
    spsh__runtime *runtime;
    spsh__backend *backend; /* the arena's */
    spsh__backend_buffer arena;
    spsh__parts parts;  /* of the arena; under the lock */
    uint32_t *mixes;    /* [2][part]: that came to each, ever; when it was read. Of a learner whose
                           staleness is counted; else NULL */
    bool is_inside;     /* a slice */
    spsh_status status; /* of slices */
    spsh_error error;
} spsh__free_model;

/* The arena begins as `weights`, which all ranks have of rank 0, and is the learner's `updated`. */
spsh_status spsh__free_model_open(spsh__learner *l, uint32_t parts_min, spsh__free_model *ret,
                                  spsh_error *err);
void spsh__free_model_close(spsh__free_model *m); /* zeroed is fine */

/* Another's model was mixed into a part. Under the lock. */
static inline void spsh__free_model_mixed(spsh__free_model *m, uint32_t part)
{
    if (m->mixes != NULL)
        m->mixes[part]++;
}

/* The computing task: all parts, each under the lock. */
spsh_status spsh__free_model_read(spsh__free_model *m, spsh_error *err);
/* slice_fn of strategies: the parts, each under the lock until the next one is asked for. */
bool spsh__free_model_slice(spsh__free_model *m, uint32_t number, spsh__slice *ret);
/* after_step_fn: what slices failed with. */
spsh_status spsh__free_model_after_step(spsh__free_model *m, spsh_error *err);

/* All ranks, settled: see consensus_fn. */
spsh_status spsh__free_model_consensus(spsh__free_model *m, bool is_taken, spsh_error *err);

#endif

/* own_model.h: the model of a learner with its own model: an arena that its computing task and its
 * serving task access part by part, under the learner's lock.
 *
 *     weights <-- read ---- arena      computing task, before forward: weights for the gradient
 *     arena   <-- update               computing task, after backward: slice by slice
 *     arena   <-> take, mix            both: send snapshots, mix in snapshots of others (parts.h)
 *
 * The learner's backend makes the updates; the backend of the arena does the rest, under the lock.
 * On a device, an operator returns before its work is done, so the lock orders only calls. The
 * computing task also orders the work of the two backends (spsh__backend_follow):
 *
 *     learner   backward | update part |          | forward ...
 *                       ^             |          ^
 *     arena     mix ----'             '--> mix, copy to the weights
 *
 * The training stream waits only for work that was enqueued on the arena before, not for the host.
 */
#ifndef SPSH_TRAIN_OWN_MODEL_H
#define SPSH_TRAIN_OWN_MODEL_H

#include "parts.h"
#include "strategy.h"

typedef struct spsh__own_model {
    spsh__learner *learner;
    spsh__runtime *runtime;
    spsh__backend *backend; /* backend of the arena */
    spsh__backend_buffer arena;
    spsh__parts parts;  /* parts of the arena; under the lock */
    uint32_t *mixes;    /* [2][part]: number of mixes into each part so far, and at the last read;
                           NULL if the learner does not count staleness */
    bool is_inside;     /* a slice is being updated, under the lock */
    spsh_status status; /* first failure of a slice */
    spsh_error error;
} spsh__own_model;

/* Open the model. The arena starts as a copy of `weights`, which are rank 0's on all ranks, and
 * becomes the learner's `updated`. */
spsh_status spsh__own_model_open(spsh__learner *l, uint32_t parts_min, spsh__own_model *ret,
                                 spsh_error *err);
void spsh__own_model_close(spsh__own_model *m); /* zeroed is fine */

/* Count a mix of another learner's model into a part. Under the lock. */
static inline void spsh__own_model_mixed(spsh__own_model *m, uint32_t part)
{
    if (m->mixes != NULL)
        m->mixes[part]++;
}

/* Take a part as floats, to send it. Under the lock. After a failure of the backend, its status:
 * the floats are not the model's. */
spsh_status spsh__own_model_take(spsh__own_model *m, uint32_t part, float *to, spsh_error *err);
/* Copy all parts to `weights`, each under the lock. Computing task only. */
spsh_status spsh__own_model_read(spsh__own_model *m, spsh_error *err);
/* slice_fn of strategies: the slices are the parts. The lock is held for a part until the next
 * call. */
bool spsh__own_model_slice(spsh__own_model *m, uint32_t number, spsh__slice *ret);
/* after_step_fn: return the status that the slices left. */
spsh_status spsh__own_model_after_step(spsh__own_model *m, spsh_error *err);

/* See consensus_fn. All ranks call together, after settle_fn. */
spsh_status spsh__own_model_consensus(spsh__own_model *m, bool is_taken, spsh_error *err);

#endif

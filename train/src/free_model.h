/* free_model.h: the model of a free learner: an arena that both its tasks touch, part by part,
 * under the learner's lock.
 *
 *     weights <-- read ---- arena      computing task, before forward: what the gradient is of
 *     arena  <-- update                computing task, behind backward: by slices
 *     arena  --- take ---> snapshot    either: a part, to be sent
 *     arena  <-- mix ------ snapshots  either: arena += weight * (theirs - mine)
 *
 * Averages are made of snapshots, and the difference is what is applied: a gradient step that came
 * in between stays, and what one learner gains of another that one loses: the sum over learners
 * stays, but for rounding.
 */
#ifndef SPSH_TRAIN_FREE_MODEL_H
#define SPSH_TRAIN_FREE_MODEL_H

#include "strategy.h"

typedef struct spsh__free_model {
    spsh__learner *learner;
    spsh__runtime *runtime;
    spsh__backend *backend; /* the arena's */
    spsh__buffer arena;
    spsh__buffer scratch; /* a part */
    float *host;          /* a part */
    uint64_t part_elements;
    uint32_t part_count;
    bool is_inside;     /* a slice */
    spsh_status status; /* of slices */
    spsh_error error;
    spsh_allocator allocator;
} spsh__free_model;

/* The arena begins as `weights`, which all ranks have of rank 0, and is the learner's `updated`. */
spsh_status spsh__free_model_open(spsh__learner *l, const spsh_allocator *allocator,
                                  spsh__free_model *ret, spsh_error *err);
void spsh__free_model_close(spsh__free_model *m); /* zeroed is fine */

static inline spsh__slice spsh__free_model_part(const spsh__free_model *m, uint32_t part)
{
    const uint64_t first = part * m->part_elements, left = m->learner->arena_elements - first;
    return (spsh__slice){first, left < m->part_elements ? left : m->part_elements};
}

/* The computing task: all parts, each under the lock. */
spsh_status spsh__free_model_read(spsh__free_model *m, spsh_error *err);
/* slice_fn of strategies: the parts, each under the lock until the next one is asked for. */
bool spsh__free_model_slice(spsh__free_model *m, uint32_t number, spsh__slice *ret);
/* after_step_fn: what slices failed with. */
spsh_status spsh__free_model_after_step(spsh__free_model *m, spsh_error *err);

/* Under the lock. Floats of a part. */
void spsh__free_model_take(spsh__free_model *m, uint32_t part, float *to);
void spsh__free_model_mix(spsh__free_model *m, uint32_t part, double weight, const float *theirs,
                          const float *mine);

/* All ranks, settled: see consensus_fn. */
spsh_status spsh__free_model_consensus(spsh__free_model *m, bool is_taken, spsh_error *err);

#endif

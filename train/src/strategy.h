/* strategy.h: how learners keep their models together: a struct of callbacks around the run loop's
 * step.
 *
 *     for each step:  before_forward; { forward, loss, backward -> on_bucket for each bucket } per
 * micro-batch; after_backward (gradients are final); clip; optimiser; after_step
 */
#ifndef SPSH_TRAIN_STRATEGY_H
#define SPSH_TRAIN_STRATEGY_H

#include "comm.h"
#include "model.h"

typedef struct spsh__learner {
    spsh__backend *backend;
    spsh__model *model;
    spsh__comm *comm;
    uint32_t virtual_world;  /* leaves of the sum; 0: the world size */
    spsh__buffer moments[2]; /* of the optimiser, arena-shaped; data NULL where there is none */
    uint64_t step;
} spsh__learner;

#define SPSH__STRATEGY_EQUAL_SPEED 1u /* the slowest learner sets the pace */
#define SPSH__STRATEGY_SAME_MODELS 2u /* all learners have the same weights after each step */
#define SPSH__STRATEGY_COMM_THREAD 4u
#define SPSH__STRATEGY_OWNS_UPDATE 8u /* updates a part of the arena itself (partitioned, server)  \
                                       */

typedef struct spsh__strategy spsh__strategy;
typedef struct spsh__strategy_ops {
    const char *name;
    unsigned capabilities;
    spsh_status (*start_fn)(spsh__strategy *s, spsh__learner *l, spsh_error *err);
    spsh_status (*before_forward_fn)(spsh__strategy *s, spsh_error *err);
    /* leaf: which of the step's micro-batches. Called during backward: starts what can be
     * overlapped. */
    spsh_status (*on_bucket_fn)(spsh__strategy *s, uint32_t leaf, uint32_t bucket, spsh_error *err);
    /* flags: summed with the last bucket: stop, overflow, losses ... (count doubles). */
    spsh_status (*after_backward_fn)(spsh__strategy *s, double *shared, size_t shared_count,
                                     spsh_error *err);
    spsh_status (*after_step_fn)(spsh__strategy *s, spsh_error *err);
    /* The model to evaluate and to store into consensus: arena-shaped. */
    spsh_status (*consensus_fn)(spsh__strategy *s, spsh__buffer consensus, spsh_error *err);
    /* State beyond weights and moments, for checkpoints. */
    spsh_status (*save_fn)(spsh__strategy *s, uint8_t **ret_bytes, size_t *ret_size,
                           spsh_error *err);
    spsh_status (*restore_fn)(spsh__strategy *s, const uint8_t *bytes, size_t size,
                              spsh_error *err);
    void (*close_fn)(spsh__strategy *s);
} spsh__strategy_ops;

struct spsh__strategy {
    const spsh__strategy_ops *ops;
    spsh__learner *learner;
    void *state;
};

/* "allreduce", "partitioned". */
spsh_status spsh__strategy_open(const char *name, const spsh_allocator *allocator,
                                spsh__strategy **ret, spsh_error *err);
void spsh__strategy_close(spsh__strategy *s);

#endif

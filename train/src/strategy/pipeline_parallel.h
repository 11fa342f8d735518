/* pipeline_parallel.h: a model whose blocks are divided among the ranks of a communicator, one
 * stage per rank.
 *
 *     rank 0               rank 1              rank 2 (the last one)
 *     features -> blocks -> activations -> blocks -> activations -> blocks -> loss
 *                 blocks <- gradients   <- blocks <- gradients   <- blocks <-
 *
 *     spsh__stages_open(&options, &p, &err);
 *     each step:  spsh__stages_begin(p);
 *                 each micro-batch:  spsh__stages_put(p, number, &batch, &err);
 *                 spsh__stages_end(p, &err);                    gradients are complete
 *
 * The leaves of a step (strategy.h) are its micro-batches. Every stage gets all of them, in the
 * same order, and runs them in the order of pipeline_schedule.h. bucket_fn gets the gradients
 * micro-batch by micro-batch, in order. The running statistics of each micro-batch start from the
 * values at the beginning of the step. The sum of micro-batches (gradient_sum.h) therefore has the
 * same bits as in one process that has all blocks and runs the micro-batches one by one.
 *
 * Activations and gradients are sent in the backend's format, without a header: both sides know the
 * shape of a batch. Messages move while the stage computes. A stage posts its next receive before
 * it runs the backward pass of a micro-batch.
 */
#ifndef SPSH_PIPELINE_PARALLEL_H
#define SPSH_PIPELINE_PARALLEL_H

#include "strategy.h"

typedef struct spsh__stages spsh__stages;

typedef struct spsh__stages_options {
    spsh__backend *backend; /* same kind and precision on all ranks */
    spsh__comm *comm;       /* its ranks are the stages */
    /* borrowed until open returns */
    const spsh__model_shape *shape;
    const spsh__model_limits *limits;
    const uint32_t *cuts; /* first blocks of stages 1, 2, ...; NULL: balance by work */
    uint32_t cut_count;
    /* Compute the loss after forward, on the last stage. Writes the model's
     * spsh__model_logit_gradients. Returns after spsh__backend_finish. */
    spsh_status (*loss_fn)(void *user, uint32_t micro_batch, spsh__model *model,
                           spsh__backend_buffer logits, spsh_error *err);
    /* See on_bucket_fn and skip_leaf_fn of the strategy. */
    spsh_status (*bucket_fn)(void *user, uint32_t micro_batch, uint32_t bucket, spsh_error *err);
    spsh_status (*skip_fn)(void *user, uint32_t micro_batch, spsh_error *err);
    void *user;
} spsh__stages_options;

/* Open the stages. SPSH_E_INVALID_ARG: bad cuts, or more ranks than blocks. */
spsh_status spsh__stages_open(const spsh__stages_options *options, spsh__stages **ret,
                              spsh_error *err);
/* Close the stages. NULL is fine. After a failure in the middle of a step, mark comm as failed
 * first (has_failed), so that no message moves in freed memory. */
void spsh__stages_close(spsh__stages *p);

/* Model of this stage: its weights, gradients, and statistics. */
spsh__model *spsh__stages_model(const spsh__stages *p);
spsh__model_stage spsh__stages_blocks(const spsh__stages *p, uint32_t stage);
/* Whole model, without memory, for lookups of its parameters. */
const spsh__model *spsh__stages_layout(const spsh__stages *p);
/* Fill in the backend, arenas, and buckets of a learner that has this stage, and its `staged`. The
 * learner's comm must contain only itself (spsh__comm_self_open). The pipeline owns the memory. */
void spsh__stages_learner(const spsh__stages *p, spsh__learner *learner);

void spsh__stages_begin(spsh__stages *p);
/* Add one micro-batch. batch: NULL for an empty micro-batch; not needed after the call. Only the
 * first stage reads the features. */
spsh_status spsh__stages_put(spsh__stages *p, uint32_t micro_batch, const spsh__model_batch *batch,
                             spsh_error *err);
spsh_status spsh__stages_end(spsh__stages *p, spsh_error *err);

#endif

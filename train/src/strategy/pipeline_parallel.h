/* pipeline_parallel.h: a model whose blocks are shared by the ranks of a communication, a stage
 * each.
 *
 *     rank 0               rank 1              rank 2 (the last one)
 *     features -> blocks -> activations -> blocks -> activations -> blocks -> loss
 *                 blocks <- gradients   <- blocks <- gradients   <- blocks <-
 *
 *     spsh__stages_open(&options, &p, &err);
 *     each step:  spsh__stages_begin(p);
 *                 each micro-batch:  spsh__stages_put(p, leaf, &batch, &err);
 *                 spsh__stages_end(p, &err);                    gradients are complete
 *
 * A step's leaves (strategy.h) are its micro-batches: all stages are given all of them, in the same
 * order. The order of what a stage does is that of pipeline_schedule.h. Gradients come to bucket_fn
 * leaf by leaf, in order, and running statistics of each leaf start from those of the step's
 * beginning, so that what sums leaves (gradient_sum.h) makes of a pipeline the same bits as of one
 * process that has all blocks and goes through the leaves one by one.
 *
 * Activations and gradients travel as the backend has them, with no header: both sides know a
 * batch's shape. What is sent goes on by itself while the stage computes; what a stage needs next
 * is asked for before it takes a micro-batch back.
 */
#ifndef SPSH_PIPELINE_PARALLEL_H
#define SPSH_PIPELINE_PARALLEL_H

#include "strategy.h"

typedef struct spsh__stages spsh__stages;

typedef struct spsh__stages_options {
    spsh__backend *backend; /* on the host */
    spsh__comm *comm;       /* its ranks are the stages */
    /* Borrowed until open returns. */
    const spsh__model_shape *shape;
    const spsh__model_limits *limits;
    const uint32_t *cuts; /* blocks that stages 1, 2, ... begin with; NULL: balanced by work */
    uint32_t cut_count;
    /* Of the last stage, behind forward: writes spsh__model_logit_gradients of the model. */
    spsh_status (*loss_fn)(void *user, uint32_t leaf, spsh__model *model,
                           spsh__backend_buffer logits, spsh_error *err);
    /* As the strategy's functions of like names. */
    spsh_status (*bucket_fn)(void *user, uint32_t leaf, uint32_t bucket, spsh_error *err);
    spsh_status (*skip_fn)(void *user, uint32_t leaf, spsh_error *err);
    void *user;
} spsh__stages_options;

/* SPSH_E_UNSUPPORTED: a device; _INVALID_ARG: cuts, or more ranks than blocks. */
spsh_status spsh__stages_open(const spsh__stages_options *options, spsh__stages **ret,
                              spsh_error *err);
/* NULL is fine. Behind a failure in the middle of a step: first comm's has_failed, so that no
 * message goes on in memory that is given back. */
void spsh__stages_close(spsh__stages *p);

/* This stage's: its weights, gradients and statistics. */
spsh__model *spsh__stages_model(const spsh__stages *p);
spsh__model_stage spsh__stages_blocks(const spsh__stages *p, uint32_t stage);
/* The whole model's, to look up its parameters. */
const spsh__model *spsh__stages_layout(const spsh__stages *p);
/* Backend, arenas and buckets of a learner that has this stage, and what `staged` says; its comm
 * must be of itself alone (spsh__comm_self_open). They are the pipeline's. */
void spsh__stages_learner(const spsh__stages *p, spsh__learner *learner);

void spsh__stages_begin(spsh__stages *p);
/* batch NULL: an empty leaf. Without the first stage features are not looked at. What the batch
 * points to is not needed behind it. */
spsh_status spsh__stages_put(spsh__stages *p, uint32_t leaf, const spsh__model_batch *batch,
                             spsh_error *err);
spsh_status spsh__stages_end(spsh__stages *p, spsh_error *err);

#endif

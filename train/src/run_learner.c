/* run_learner.c: what a strategy sees of a run: arenas, options, a runtime; and the model that all
 * learners together have, for what is made of it between steps.
 *
 * Where learners have models of their own, an evaluation is one of their mean, and they go on as
 * they were; with a checkpoint they all go on from the mean, so that a run that goes on from it is
 * the one that was left.
 */
#include <stdlib.h>

#include "arena_mean.h"
#include "run_internal.h"
#include "runtime_processes.h"
#include "train_internal.h"

void spsh__run_close_moments(spsh__run *r)
{
    for (int m = 0; m < 2; m++) {
        if (r->learner.moments[m].data != NULL)
            r->backend->ops->free_fn(r->backend, r->learner.moments[m]);
        r->learner.moments[m].data = NULL;
    }
}

static spsh__strategy_options options_of(const spsh__run *r)
{
    const spsh__config *c = r->config;
    const uint32_t local = r->launch.local_size > 0 ? r->launch.local_size : 1;
    return (spsh__strategy_options){.servers = c->servers,
                                    .bound = c->staleness_max,
                                    .scales_by_staleness = c->scales_by_staleness,
                                    .node_size = c->node_size > 0 ? c->node_size : local,
                                    .inner = c->inner,
                                    .outer = c->outer,
                                    .overlaps = c->overlaps};
}

spsh_status spsh__run_open_learner(spsh__run *r, spsh_error *err)
{
    const spsh__config *c = r->config;
    const uint32_t buckets = spsh__model_bucket_count(r->model);
    const int moments = c->is_adamw ? 2 : c->sgd.momentum > 0 ? 1 : 0;
    spsh__learner *l = &r->learner;
    r->buckets = calloc(buckets, sizeof(*r->buckets));
    if (r->buckets == NULL)
        return spsh__fail_memory(err);
    for (uint32_t b = 0; b < buckets; b++)
        spsh__model_bucket(r->model, b, &r->buckets[b].offset, &r->buckets[b].count);
    l->backend = r->backend;
    l->comm = r->comm;
    l->weights = spsh__model_weights(r->model);
    l->gradients = spsh__model_gradients(r->model);
    l->arena_elements = spsh__model_arena_elements(r->model);
    l->statistics = spsh__model_statistics(r->model, &l->statistics_elements);
    l->buckets = r->buckets;
    l->bucket_count = buckets;
    l->virtual_world = spsh__feed_leaves(r->feed);
    l->accumulate = c->accumulate;
    l->exchange = c->exchange;
    l->seed = c->seed;
    l->options = options_of(r);
    spsh_status rc = SPSH_OK;
    for (int m = 0; m < moments && rc == SPSH_OK; m++)
        rc = r->backend->ops->alloc_fn(r->backend, l->arena_elements, &l->moments[m], err);
    return rc == SPSH_E_NO_MEMORY ? spsh__run_explain_memory(r, rc, err) : rc;
}

/* Learners that do not step together have no batches from this loop: they are simulated alone. */
spsh_status spsh__run_open_strategy(spsh__run *r, spsh_error *err)
{
    const spsh__config *c = r->config;
    spsh_status rc = spsh__strategy_open(c->strategy, &r->allocator, &r->strategy, err);
    if (rc != SPSH_OK)
        return rc;
    if (!spsh__strategy_goes_in_step(r->strategy, &r->learner.options))
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE,
                         "train.strategy: '%s' is not for runs yet: allreduce, partitioned, "
                         "ps-sync, dpsgd-ring, d1-model, d1-grad",
                         c->strategy);
    if (r->strategy->ops->needs_runtime)
        rc = spsh__runtime_processes_open(r->comm, &r->allocator, &r->runtime, err);
    r->learner.runtime = r->runtime;
    return rc;
}

void spsh__run_close_strategy(spsh__run *r)
{
    spsh__strategy_close(r->strategy);
    if (r->runtime != NULL)
        r->runtime->ops->close_fn(r->runtime);
    if (r->arena_backend != NULL)
        spsh__backend_close(r->arena_backend);
}

bool spsh__run_is_heard(const spsh__run *r)
{
    const bool has_nodes = strcmp(r->strategy->ops->name, "hierarchical") == 0;
    return !has_nodes || r->comm->rank % r->learner.options.node_size == 0;
}

/* Of learners whose weights are alike: running statistics are of what each has seen. */
static spsh_status mean_statistics(const spsh__run *r, spsh_error *err)
{
    const spsh__learner *l = &r->learner;
    spsh__parts parts = {0};
    if (l->comm->world_size == 1 || l->statistics_elements == 0)
        return SPSH_OK;
    spsh_status rc =
        spsh__parts_open(l->backend, l->statistics, l->statistics_elements, 1, &parts, err);
    if (rc == SPSH_OK)
        rc = spsh__arena_mean(l->comm, &parts, &parts, err);
    spsh__parts_close(&parts);
    return rc;
}

spsh_status spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    if (!ops->is_free)
        return ops->needs_runtime ? mean_statistics(r, err) : SPSH_OK;
    spsh__backend_finish(r->backend);
    spsh_status rc = ops->settle_fn(r->strategy, err);
    if (rc == SPSH_OK)
        rc = ops->consensus_fn(r->strategy, is_taken, err);
    if (rc == SPSH_OK)
        spsh__model_weights_changed(r->model);
    return rc;
}

/* run_learner.c: the view that a strategy has of a run: arenas, options, a runtime. Also the common
 * model of all learners, for the work between steps.
 *
 * If learners have separate models, an evaluation uses their mean, and the learners keep their own
 * models. After a checkpoint all of them continue from the mean, so that a resumed run equals the
 * original run.
 */
#include <string.h>

#include "run_internal.h"
#include "speechshard/inside.h"
#include "strategy/strategy_internal.h"

void spsh__run_close_moments(spsh__learner *l)
{
    for (int m = 0; m < 2; m++) {
        if (l->moments[m].data != NULL)
            l->backend->ops->free_fn(l->backend, l->moments[m]);
        l->moments[m].data = NULL;
    }
}

static spsh__strategy_options options_of(const spsh__config *c, uint32_t local_size)
{
    return (spsh__strategy_options){.servers = c->servers,
                                    .bound = c->staleness_max,
                                    .scales_by_staleness = c->scales_by_staleness,
                                    .node_size = spsh__run_node_size(c, local_size),
                                    .inner = c->inner,
                                    .outer = c->outer,
                                    .overlaps = c->overlaps};
}

spsh_status spsh__run_open_learner(spsh__run *r, spsh_error *err)
{
    const spsh__config *c = r->setup.config;
    const int moments = c->is_adamw ? 2 : c->sgd.momentum > 0 ? 1 : 0;
    spsh__learner *l = &r->learner;
    r->model.buckets = spsh__learner_list_buckets(r->model.own);
    if (r->model.buckets == NULL)
        return SPSH_NO_MEMORY(err);
    l->backend = r->backend;
    l->comm = r->world->comm;
    l->weights = spsh__model_weights(r->model.own);
    l->gradients = spsh__model_gradients(r->model.own);
    l->arena_elements = spsh__model_arena_elements(r->model.own);
    l->statistics = spsh__model_statistics(r->model.own, &l->statistics_elements);
    l->buckets = r->model.buckets;
    l->bucket_count = spsh__model_bucket_count(r->model.own);
    /* Each asynchronous learner has one batch at a time. */
    l->virtual_world =
        r->rounds.has_own_model ? r->world->comm->world_size : spsh__feed_leaves(r->feed);
    l->accumulate = spsh__schedule_accumulate_most(c);
    l->exchange = c->exchange;
    l->sent_as = spsh__config_sent_as(c);
    l->seed = c->seed;
    l->options = options_of(c, r->world->launch.local_size);
    r->optimizer = (spsh__optimizer){c, r->model.own, l};
    spsh_status rc = r->model.stages == NULL ? SPSH_OK : spsh__run_stage_learner(r, err);
    for (int m = 0; m < moments && rc == SPSH_OK; m++)
        rc = r->backend->ops->alloc_fn(r->backend, l->arena_elements, &l->moments[m], err);
    return rc == SPSH_E_NO_MEMORY && r->model.stages == NULL /* estimates have whole models */
               ? spsh__run_explain_memory(r, rc, err)
               : rc;
}

static spsh_status open_served(spsh__run *r, spsh_error *err)
{
    r->learner.update_fn = spsh__served_update;
    r->learner.update_user = &r->served;
    return spsh__served_open(&r->served, &r->optimizer, r->world->comm->world_size, err);
}

/* Open the arena that all learners share. */
static spsh_status open_shared(spsh__run *r, spsh_error *err)
{
    const size_t size = r->learner.arena_elements * sizeof(float);
    const spsh_status rc = spsh__shared_open(r->world, r->o->run, r->io, size, &r->shared, err);
    r->learner.shared = r->shared.elements;
    return rc;
}

static spsh_status open_draw(spsh__run *r, spsh_error *err)
{
    const spsh__draw_options options = {.comm = r->world->comm,
                                        .runtime = r->runtime.used,
                                        .feed = r->feed,
                                        .node_size = r->learner.options.node_size,
                                        .accumulate = r->setup.config->accumulate,
                                        .allocator = spsh_allocator_default()};
    if (r->world->comm->world_size % options.node_size != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.node_size: %u processes cannot form nodes of %u each",
                         r->world->comm->world_size, options.node_size);
    return spsh__draw_open(&options, &r->rounds.draw, err);
}

spsh_status spsh__run_open_strategy(spsh__run *r, spsh_error *err)
{
    const bool is_shared = strcmp(r->setup.config->strategy, "hogwild") == 0;
    spsh_status rc =
        spsh__strategy_open(r->setup.config->strategy, spsh_allocator_default(), &r->strategy, err);
    if (rc == SPSH_OK)
        rc = spsh__run_open_lost(r, err);
    if (rc == SPSH_OK && (r->strategy->ops->needs_runtime || r->rounds.has_own_model))
        rc = spsh__run_open_runtime(r, err);
    r->learner.runtime = r->runtime.used;
    r->learner.staleness = r->runtime.used != NULL ? &r->traffic.staleness : NULL;
    if (rc == SPSH_OK && r->rounds.has_own_model && r->strategy->ops->needs_runtime)
        rc = spsh__served_open_backend(&r->served, r->backend, r->compute.cuda, err);
    r->learner.arena_backend = r->served.backend;
    if (rc == SPSH_OK && r->strategy->ops->push_fn != NULL)
        rc = open_served(r, err);
    if (rc == SPSH_OK && is_shared)
        rc = open_shared(r, err);
    return rc != SPSH_OK || !r->rounds.has_own_model ? rc : open_draw(r, err);
}

void spsh__run_close_strategy(spsh__run *r)
{
    spsh__draw_close(r->rounds.draw);
    spsh__strategy_close(r->strategy);
    spsh__run_close_runtime(r);
    spsh__served_close(&r->served);
    spsh__shared_close(&r->shared);
}

bool spsh__run_is_heard(const spsh__learner *l)
{
    return l->comm->rank % l->options.node_size == 0;
}

spsh_status spsh__run_meet(spsh__run *r, bool is_taken, spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    spsh_status rc = spsh__host_arenas_hold(&r->saving.arenas, &r->learner, err);
    if (rc != SPSH_OK)
        return rc;
    if (!ops->has_own_model) /* equal on all ranks, in contrast to running statistics */
        return ops->needs_runtime ? spsh__strategy_mean_statistics(&r->learner, err) : SPSH_OK;
    spsh__backend_finish(r->backend);
    rc = ops->settle_fn(r->strategy, err);
    /* All updates have arrived, and no other arrives before consensus. */
    if (rc == SPSH_OK && r->served.count > 0)
        r->progress.updates = r->served.parts[0].count;
    if (rc == SPSH_OK)
        rc = ops->consensus_fn(r->strategy, is_taken, err);
    if (rc == SPSH_OK)
        spsh__model_weights_changed(r->model.own);
    return rc;
}

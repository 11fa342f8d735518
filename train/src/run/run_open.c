/* run_open.c: opens what a run is made of, and closes it.
 *
 *     world -> config, vocabulary (rank 0's, for all) -> backend -> (alignments) -> feed -> model
 *     -> learner -> checkpoint or first weights -> strategy (rank 0's arenas, for all)
 */
#include <stdlib.h>

#include "run_internal.h"
#include "speechshard/inside.h"

static spsh_status open_world(spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    const spsh_status rc = w->ops->open_fn != NULL ? w->ops->open_fn(w, r->o, err) : SPSH_OK;
    w->is_first = rc == SPSH_OK && w->comm->rank == 0;
    return rc;
}

/* Call before large objects are opened. */
static spsh_status configure(spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    r->setup.given.threads = r->setup.config->threads;
    r->setup.given.backend = r->setup.config->backend;
    r->rounds.has_own_model = spsh__run_is_asynchronous(r->setup.config);
    w->comm->deadline_ms = r->setup.config->deadline_ms;
    return w->ops->configure_fn(w, r->o, r->setup.config, err);
}

spsh__feed_options spsh__run_feed_options(const spsh__run *r, const char *const *names)
{
    return (spsh__feed_options){.config = r->setup.config,
                                .vocabulary = r->setup.vocabulary,
                                .alignments = r->setup.alignments,
                                .names = names,
                                .rank = r->world->comm->rank,
                                .world_size = r->world->comm->world_size,
                                .cuda = spsh__run_lent_device(&r->compute, r->setup.alignments),
                                .device = r->backend->device,
                                .io = r->io,
                                .log_fn = r->o->log_fn,
                                .log_user = r->o->log_user};
}

static spsh_status open_feed(spsh__run *r, spsh_error *err)
{
    const bool is_staged = spsh__run_is_staged(r->setup.config); /* all ranks see all batches */
    spsh__feed_options options =
        spsh__run_feed_options(r, (const char *const *)r->setup.config->train);
    options.weights = r->setup.config->train_weights;
    options.is_training = true;
    options.rank = is_staged ? 0 : options.rank;
    options.world_size = is_staged ? 1 : options.world_size;
    options.is_asked = r->rounds.has_own_model;
    spsh_status rc = spsh__feed_open(&options, &r->feed, err);
    if (rc == SPSH_OK)
        rc = spsh__config_resolve(r->setup.config, spsh__feed_epoch_utterances(r->feed), err);
    if (rc != SPSH_OK)
        return rc;
    free(r->setup.config_text);
    r->setup.config_text = spsh__setup_text(&r->setup);
    return r->setup.config_text == NULL ? SPSH_NO_MEMORY(err) : spsh__run_check_dev(r, err);
}

/* Return an estimate's view of the objects that the run has opened. Call after the feed is open. */
static spsh__estimating estimating_of(const spsh__run *r, spsh_train_estimate *out)
{
    return (spsh__estimating){.launch = r->world->launch,
                              .config = r->setup.config,
                              .vocabulary = r->setup.vocabulary,
                              .alignments = r->setup.alignments,
                              .feed = r->feed,
                              .limits = spsh__feed_limits(r->feed),
                              .compute = r->compute,
                              .out = out};
}

/* Explain an out-of-memory failure. Closes the model and the optimizer moments first, so that the
 * message states the free memory before they were opened. */
spsh_status spsh__run_explain_memory(spsh__run *r, spsh_status status, spsh_error *err)
{
    spsh__run_close_moments(&r->learner);
    spsh__run_close_model(&r->model);
    spsh_train_estimate out = {.config = NULL};
    spsh__estimating e = estimating_of(r, &out);
    return r->compute.cuda == NULL ? status : spsh__estimate_explain(&e, status, err);
}

static spsh_status log_world(const spsh__run *r, spsh_error *err)
{
    spsh__run_world *w = r->world;
    spsh_train_estimate out = {.config = NULL};
    spsh__estimating e = estimating_of(r, &out);
    return w->ops->opened_fn != NULL ? w->ops->opened_fn(w, r->o, &e, err) : SPSH_OK;
}

static spsh_status open_model(spsh__run *r, spsh_error *err)
{
    spsh__model_shape shape = r->setup.config->model;
    spsh__model_limits limits = spsh__feed_limits(r->feed);
    shape.inputs = spsh__feed_dim(r->feed);
    if (r->setup.vocabulary != NULL)
        shape.outputs = spsh__vocabulary_size(r->setup.vocabulary);
    else
        limits = spsh__frame_limits(&limits, shape.chunk_frames);
    r->model.shape = shape;
    if (spsh__run_is_staged(r->setup.config))
        return spsh__run_open_stage(r, &limits, err);
    spsh_status rc = spsh__model_open(r->backend, &shape, &limits, &r->model.own, err);
    if (rc == SPSH_E_NO_MEMORY)
        rc = spsh__run_explain_memory(r, rc, err);
    if (rc == SPSH_OK)
        spsh__model_init(r->model.own, r->setup.config->seed);
    return rc;
}

static spsh_status open_backend(spsh__run *r, spsh_error *err)
{
    const spsh__compute_options options = {
        .config = r->setup.config,
        .threads = spsh__run_threads(r->setup.config, r->world->launch.local_size),
        .local_rank = r->world->launch.local_rank,
        .comm = r->world->comm,
        .allocator = spsh_allocator_default()};
    const spsh_status rc = spsh__compute_open(&options, &r->compute, err);
    if (rc != SPSH_OK)
        return rc;
    r->backend = r->compute.backend;
    r->progress.loss_scale = spsh__loss_scale_start(r->backend->precision);
    return SPSH_OK;
}

spsh_status spsh__run_open(spsh__run *r, spsh_error *err)
{
    spsh_status rc = open_world(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_find(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_check(r->setup.config, r->world->comm->world_size, err);
    if (rc == SPSH_OK)
        rc = configure(r, err);
    if (rc == SPSH_OK)
        rc = open_backend(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_alignments(r->setup.config, &r->setup.alignments, err);
    if (rc == SPSH_OK)
        rc = open_feed(r, err);
    if (rc == SPSH_OK)
        rc = open_model(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_open_learner(r, err);
    if (rc == SPSH_OK)
        rc = log_world(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_open_strategy(r, err);
    if (rc == SPSH_OK)
        rc = spsh__run_restore(r, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->start_fn(r->strategy, &r->learner, err);
    if (rc == SPSH_OK)
        spsh__model_weights_changed(r->model.own);
    if (rc == SPSH_OK)
        rc = spsh__run_step_open(r, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__run_open_report(r, err);
    if (r->o->record) /* remove the record of a run that rank 0 could not begin */
        rc = spsh__run_agree(r->world, rc, err);
    r->runtime.has_begun = rc == SPSH_OK;
    if (rc == SPSH_OK)
        spsh__run_report_start(r);
    return rc;
}

void spsh__run_close(spsh__run *r)
{
    spsh__metrics_close(r->report.metrics);
    spsh__run_close_saving(&r->saving);
    spsh__run_close_strategy(r);
    spsh__run_close_moments(&r->learner);
    if (r->step.statistics_before.data != NULL)
        r->backend->ops->free_fn(r->backend, r->step.statistics_before);
    spsh__run_close_model(&r->model);
    spsh__feed_close(r->feed);
    spsh__compute_close(&r->compute);
    spsh__setup_close(&r->setup);
    spsh__run_close_lost(r);
    spsh__comm_close(r->world->comm);
    free(r->runtime.record_folder);
    free(r->model.buckets);
    spsh__rows_close(&r->rows);
    spsh__loss_close(&r->loss);
}

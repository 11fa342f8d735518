/* trained.c: see trained.h. */
#include "trained.h"

#include <stdlib.h>

#include "speechshard/inside.h"

/* Copy a checkpoint's weights and statistics to a model of the same shape. */
static spsh_status fill(spsh__backend *backend, spsh__model *model, const spsh__checkpoint *state,
                        spsh_error *err)
{
    uint64_t statistics = 0;
    const spsh__backend_buffer there = spsh__model_statistics(model, &statistics);
    const uint64_t elements = spsh__model_arena_elements(model);
    const uint32_t count = spsh__model_parameter_count(model);
    spsh__parameter *parameters = calloc(count, sizeof(*parameters));
    if (parameters == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; i < count; i++)
        parameters[i] = *spsh__model_parameter(model, i);
    const spsh_status rc =
        spsh__checkpoint_match(state, parameters, count, elements, statistics, err);
    free(parameters);
    if (rc != SPSH_OK)
        return rc;
    backend->ops->write_f32_fn(backend, spsh__model_weights(model), state->weights, elements);
    backend->ops->write_f32_fn(backend, there, state->statistics, statistics);
    spsh__model_weights_changed(model);
    return backend->ops->status_fn(backend, err);
}

spsh_status spsh__trained_open(const spsh__trained_options *o, spsh__trained **ret, spsh_error *err)
{
    spsh__trained *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh__checkpoint_open(o->path, o->io, o->log_fn, o->log_user, &t->file, &t->state, err);
    if (rc == SPSH_OK)
        rc = spsh__config_parse(t->state.config, strlen(t->state.config), NULL, &t->config, err);
    if (rc == SPSH_OK && t->config->model.kind == SPSH__MODEL_DS2)
        rc = spsh__vocabulary_parse(t->state.vocabulary, strlen(t->state.vocabulary), o->path,
                                    &t->vocabulary, err);
    if (rc == SPSH_OK)
        rc = spsh__compute_open(&(spsh__compute_options){.config = t->config,
                                                         .threads = o->threads,
                                                         .is_for_reading = true,
                                                         .allocator = spsh_allocator_default()},
                                &t->compute, err);
    if (rc == SPSH_OK) {
        t->backend = t->compute.backend;
        *ret = t;
        t = NULL;
    }
    spsh__trained_close(t);
    return rc;
}

spsh_status spsh__trained_size(spsh__trained *t, uint32_t inputs, const spsh__model_limits *limits,
                               spsh_error *err)
{
    spsh__model_shape shape = t->config->model;
    shape.inputs = inputs;
    if (t->vocabulary != NULL)
        shape.outputs = spsh__vocabulary_size(t->vocabulary);
    spsh__model_close(t->model);
    t->model = NULL;
    spsh_status rc = spsh__model_open_forward(t->backend, &shape, limits, NULL, &t->model, err);
    if (rc == SPSH_OK)
        rc = fill(t->backend, t->model, &t->state, err);
    if (rc != SPSH_OK) {
        spsh__model_close(t->model);
        t->model = NULL;
        return rc;
    }
    t->limits = *limits;
    return SPSH_OK;
}

void spsh__trained_close(spsh__trained *t)
{
    if (t == NULL)
        return;
    spsh__model_close(t->model);
    spsh__compute_close(&t->compute);
    spsh__vocabulary_free(t->vocabulary);
    spsh__config_free(t->config);
    spsh__checkpoint_close(t->file);
    free(t);
}

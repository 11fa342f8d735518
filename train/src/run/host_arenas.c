/* host_arenas.c: see host_arenas.h. */
#include "host_arenas.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

/* Zeroed memory for an arena; pinned if it is copied from a device. */
static spsh_status new_arena(const spsh__host_arenas *a, uint64_t count, float **ret,
                             spsh_error *err)
{
    void *memory = NULL;
    if (a->cuda == NULL) {
        *ret = calloc(count, sizeof(float));
        return *ret != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
    }
    const spsh_status rc = spsh_cuda_host_alloc(a->cuda, count * sizeof(float), &memory, err);
    if (rc != SPSH_OK)
        return rc;
    memset(memory, 0, count * sizeof(float));
    *ret = memory;
    return SPSH_OK;
}

static void free_arena(const spsh__host_arenas *a, float *arena)
{
    if (a->cuda == NULL)
        free(arena);
    else
        spsh_cuda_host_free(a->cuda, arena);
}

static spsh_status open_stream(spsh__host_arenas *a, uint32_t device, spsh_error *err)
{
    spsh_status rc = spsh_cuda_stream_open(a->cuda, device, 0, &a->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(a->cuda, device, 0, &a->before, err);
    return rc == SPSH_OK ? spsh_cuda_event_open(a->cuda, device, 0, &a->down, err) : rc;
}

spsh_status spsh__host_arenas_open(spsh__backend *backend, const spsh__model *whole,
                                   const bool has_moments[2], spsh__host_arenas *ret,
                                   spsh_error *err)
{
    const uint64_t count = spsh__model_arena_elements(whole);
    const uint32_t parameters = spsh__model_parameter_count(whole);
    uint64_t statistics = 0;
    (void)spsh__model_statistics(whole, &statistics);
    ret->cuda = backend->ops->stream_fn != NULL ? backend->cuda : NULL;
    ret->parameters = calloc(parameters, sizeof(*ret->parameters));
    spsh_status rc = ret->parameters != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK && ret->cuda != NULL)
        rc = open_stream(ret, backend->device, err);
    if (rc == SPSH_OK)
        rc = new_arena(ret, count, &ret->weights, err);
    if (rc == SPSH_OK)
        rc = new_arena(ret, statistics + 1, &ret->statistics, err);
    for (int m = 0; rc == SPSH_OK && m < 2 && has_moments[m]; m++)
        rc = new_arena(ret, count, &ret->moments[m], err);
    for (uint32_t i = 0; rc == SPSH_OK && i < parameters; i++)
        ret->parameters[i] = *spsh__model_parameter(whole, i);
    return rc;
}

void spsh__host_arenas_close(spsh__host_arenas *a)
{
    if (a->cuda != NULL)
        spsh_cuda_stream_close(a->cuda, a->stream); /* waits for the copies */
    free(a->parameters);
    free_arena(a, a->weights);
    free_arena(a, a->moments[0]);
    free_arena(a, a->moments[1]);
    free_arena(a, a->statistics);
    if (a->cuda == NULL)
        return;
    spsh_cuda_event_close(a->cuda, a->before);
    spsh_cuda_event_close(a->cuda, a->down);
}

bool spsh__host_arenas_take(spsh__host_arenas *a, const spsh__checkpoint *c)
{
    memcpy(a->weights, c->weights, c->arena_elements * sizeof(float));
    memcpy(a->statistics, c->statistics, c->statistics_elements * sizeof(float));
    for (int m = 0; m < 2; m++) {
        if ((a->moments[m] == NULL) != (c->moments[m] == NULL))
            return false;
        if (c->moments[m] != NULL)
            memcpy(a->moments[m], c->moments[m], c->arena_elements * sizeof(float));
    }
    return true;
}

static void read_on_host(spsh__host_arenas *a, const spsh__learner *l)
{
    const spsh__backend_ops *ops = l->backend->ops;
    ops->read_f32_fn(l->backend, a->weights, l->weights, l->arena_elements);
    ops->read_f32_fn(l->backend, a->statistics, l->statistics, l->statistics_elements);
    for (int m = 0; m < 2 && l->moments[m].data != NULL; m++)
        ops->read_f32_fn(l->backend, a->moments[m], l->moments[m], l->arena_elements);
}

/* Copy an arena after the earlier copies. */
static spsh_status bring(const spsh__host_arenas *a, float *to, spsh__backend_buffer from,
                         uint64_t count, spsh_error *err)
{
    return count == 0 || from.data == NULL
               ? SPSH_OK
               : spsh_cuda_copy(a->cuda, to, from.data, count * sizeof(float), a->stream, err);
}

static void *stream_of(const spsh__learner *l)
{
    return l->backend->ops->stream_fn(l->backend);
}

/* The event `down` is first recorded after the statistics: a wait keeps the position. */
spsh_status spsh__host_arenas_read(spsh__host_arenas *a, const spsh__learner *l, spsh_error *err)
{
    if (a->cuda == NULL) {
        read_on_host(a, l);
        return l->backend->ops->status_fn(l->backend, err);
    }
    spsh_status rc = spsh_cuda_event_record(a->cuda, a->before, stream_of(l), err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_wait(a->cuda, a->before, a->stream, err);
    if (rc == SPSH_OK)
        rc = bring(a, a->statistics, l->statistics, l->statistics_elements, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(a->cuda, a->down, a->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_wait(a->cuda, a->down, stream_of(l), err);
    if (rc == SPSH_OK)
        rc = bring(a, a->weights, l->weights, l->arena_elements, err);
    for (int m = 0; rc == SPSH_OK && m < 2; m++)
        rc = bring(a, a->moments[m], l->moments[m], l->arena_elements, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(a->cuda, a->down, a->stream, err);
    a->is_coming = rc == SPSH_OK;
    return rc != SPSH_OK ? rc : l->backend->ops->status_fn(l->backend, err);
}

spsh_status spsh__host_arenas_hold(spsh__host_arenas *a, const spsh__learner *l, spsh_error *err)
{
    if (!a->is_coming)
        return SPSH_OK;
    a->is_coming = false;
    return spsh_cuda_event_wait(a->cuda, a->down, stream_of(l), err);
}

spsh_status spsh__host_arenas_land(const spsh__host_arenas *a, spsh_error *err)
{
    return a->cuda == NULL ? SPSH_OK : spsh_cuda_event_synchronize(a->cuda, a->down, err);
}

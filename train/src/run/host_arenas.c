/* host_arenas.c: see host_arenas.h. */
#include "host_arenas.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

spsh_status spsh__host_arenas_open(const spsh__model *whole, const bool has_moments[2],
                                   spsh__host_arenas *ret, spsh_error *err)
{
    const uint64_t count = spsh__model_arena_elements(whole);
    const uint32_t parameters = spsh__model_parameter_count(whole);
    uint64_t statistics = 0;
    (void)spsh__model_statistics(whole, &statistics);
    ret->weights = calloc(count, sizeof(float));
    ret->statistics = calloc(statistics + 1, sizeof(float));
    ret->parameters = calloc(parameters, sizeof(*ret->parameters));
    bool is_there = ret->weights != NULL && ret->statistics != NULL && ret->parameters != NULL;
    for (int m = 0; m < 2 && has_moments[m]; m++) {
        ret->moments[m] = calloc(count, sizeof(float));
        is_there = is_there && ret->moments[m] != NULL;
    }
    for (uint32_t i = 0; is_there && i < parameters; i++)
        ret->parameters[i] = *spsh__model_parameter(whole, i);
    return is_there ? SPSH_OK : SPSH_NO_MEMORY(err);
}

void spsh__host_arenas_close(spsh__host_arenas *a)
{
    free(a->parameters);
    free(a->weights);
    free(a->moments[0]);
    free(a->moments[1]);
    free(a->statistics);
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

void spsh__host_arenas_read(spsh__host_arenas *a, const spsh__learner *l)
{
    const spsh__backend_ops *ops = l->backend->ops;
    ops->read_f32_fn(l->backend, a->weights, l->weights, l->arena_elements);
    ops->read_f32_fn(l->backend, a->statistics, l->statistics, l->statistics_elements);
    for (int m = 0; m < 2 && l->moments[m].data != NULL; m++)
        ops->read_f32_fn(l->backend, a->moments[m], l->moments[m], l->arena_elements);
}

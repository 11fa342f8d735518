/* run_update.c: see run_update.h. */
#include "run_update.h"

#include <stdlib.h>

#include "speechshard/inside.h"

/* Update the elements of a parameter that are in the slice. */
static void update_part(const spsh__optimizer *o, const spsh__parameter *p,
                        const spsh__slice_update *u)
{
    const spsh__backend_ops *ops = u->backend->ops;
    const spsh__learner *l = o->learner;
    const spsh__slice *slice = u->slice;
    const uint64_t first = p->offset > slice->offset ? p->offset : slice->offset;
    const uint64_t end = p->offset + p->count < slice->offset + slice->count
                             ? p->offset + p->count
                             : slice->offset + slice->count;
    if (first >= end)
        return;
    const spsh__update update = {
        .weights = spsh__at(ops, l->updated, first),
        .gradients = spsh__at(ops, u->gradients, first - slice->offset),
        .moments = {l->moments[0].data == NULL ? l->moments[0]
                                               : spsh__at(ops, l->moments[0], first),
                    l->moments[1].data == NULL ? l->moments[1]
                                               : spsh__at(ops, l->moments[1], first)},
        .count = end - first,
        .decays = p->decays,
        .gradient_scale = u->gradient_scale,
    };
    if (o->config->is_adamw) {
        spsh__adamw adamw = o->config->adamw;
        adamw.rate = u->rate;
        adamw.step = u->number;
        ops->adamw_fn(u->backend, &adamw, &update);
    } else {
        spsh__sgd sgd = o->config->sgd;
        sgd.rate = u->rate;
        ops->sgd_fn(u->backend, &sgd, &update);
    }
}

void spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u)
{
    const uint32_t count = spsh__model_parameter_count(o->model);
    for (uint32_t p = 0; p < count; p++)
        update_part(o, spsh__model_parameter(o->model, p), u);
}

/* ---- the serving task ---- */

spsh_status spsh__served_open_backend(spsh__served_updates *s, const spsh__backend *like,
                                      const spsh_cuda *cuda, spsh_error *err)
{
    const spsh__backend_options options = {.name = like->ops->name,
                                           .threads = 1,
                                           .precision = like->precision,
                                           .is_deterministic = like->is_deterministic,
                                           .cuda = cuda,
                                           .device = like->device};
    return spsh__backend_open_with(&options, spsh_allocator_default(), &s->backend, err);
}

/* Parts have SPSH__PART_BYTES, or one process's share of the arena if that is smaller (parts.c).
 * The arena has at most arena bytes / SPSH__PART_BYTES + world_size + 1 parts. */
spsh_status spsh__served_open(spsh__served_updates *s, const spsh__optimizer *optimizer,
                              uint32_t world_size, spsh_error *err)
{
    const uint64_t parts = optimizer->learner->arena_elements * sizeof(float) / SPSH__PART_BYTES;
    s->optimizer = optimizer;
    s->parts = calloc(parts + world_size + 1, sizeof(*s->parts));
    return s->parts == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

void spsh__served_close(spsh__served_updates *s)
{
    spsh__backend_close(s->backend);
    free(s->parts);
}

void spsh__served_set_rate(spsh__served_updates *s, double rate)
{
    __atomic_store(&s->rate, &rate, __ATOMIC_RELAXED);
}

/* Count optimizer steps per part. A part is identified by its offset. */
static uint64_t count_part(spsh__served_updates *s, uint64_t offset)
{
    uint32_t i = 0;
    while (i < s->count && s->parts[i].offset != offset)
        i++;
    if (i == s->count)
        s->parts[s->count++] = (spsh__part_count){offset, s->base};
    return ++s->parts[i].count;
}

void spsh__served_update(void *served, const spsh__slice *slice, spsh__backend_buffer gradients,
                         double scale)
{
    spsh__served_updates *s = (spsh__served_updates *)served;
    spsh__slice_update u = {.backend = s->backend,
                            .slice = slice,
                            .gradients = gradients,
                            .gradient_scale = scale,
                            .number = count_part(s, slice->offset)};
    __atomic_load(&s->rate, &u.rate, __ATOMIC_RELAXED);
    spsh__optimizer_update(s->optimizer, &u);
}

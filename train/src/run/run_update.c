/* run_update.c: see run_update.h. */
#include "run_update.h"

#include <stdlib.h>

#include "speechshard/inside.h"

/* Update elements of the slice, from `first` in the arena on. like: decay of them. */
static void update_range(const spsh__optimizer *o, const spsh__slice_update *u, spsh__slice range,
                         const spsh__update *like)
{
    const spsh__backend_ops *ops = u->backend->ops;
    const spsh__learner *l = o->learner;
    spsh__update update = *like;
    update.weights = spsh__at(ops, l->updated, range.offset);
    update.gradients = spsh__at(ops, u->gradients, range.offset - u->slice->offset);
    for (int i = 0; i < 2; i++)
        update.moments[i] =
            l->moments[i].data == NULL ? l->moments[i] : spsh__at(ops, l->moments[i], range.offset);
    update.count = range.count;
    update.offset = range.offset;
    update.gradient_scale = u->gradient_scale;
    update.decision = u->decision;
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

/* Update the elements of a parameter that are in the slice. */
static void update_part(const spsh__optimizer *o, const spsh__parameter *p,
                        const spsh__slice_update *u)
{
    const spsh__slice *slice = u->slice;
    const uint64_t first = p->offset > slice->offset ? p->offset : slice->offset;
    const uint64_t end = p->offset + p->count < slice->offset + slice->count
                             ? p->offset + p->count
                             : slice->offset + slice->count;
    const spsh__update like = {.decays = p->decays};
    if (first < end)
        update_range(o, u, (spsh__slice){first, end - first}, &like);
}

/* List the blocks of the arena at which decay begins or ends. Return the number of toggles, or 0 if
 * there are too many. */
static uint32_t list_toggles(const spsh__optimizer *o, uint32_t toggles[SPSH__UPDATE_TOGGLES])
{
    const uint32_t parameters = spsh__model_parameter_count(o->model);
    uint32_t count = 0;
    for (uint32_t i = 0; i < parameters; i++) {
        const spsh__parameter *p = spsh__model_parameter(o->model, i);
        if (p->decays == (count % 2 != 0))
            continue;
        if (count == SPSH__UPDATE_TOGGLES || p->offset % SPSH__UPDATE_BLOCK != 0)
            return 0;
        toggles[count++] = (uint32_t)(p->offset / SPSH__UPDATE_BLOCK);
    }
    return count;
}

/* On a device, one kernel updates the slice, because launches of small ones take longer than their
 * work. Gaps between parameters are zero, and stay zero. */
void spsh__optimizer_update(const spsh__optimizer *o, const spsh__slice_update *u)
{
    const uint32_t count = spsh__model_parameter_count(o->model);
    uint32_t toggles[SPSH__UPDATE_TOGGLES];
    const spsh__update like = {
        .toggles = toggles,
        .toggle_count = u->backend->ops->stream_fn != NULL ? list_toggles(o, toggles) : 0};
    if (like.toggle_count > 0 && u->slice->count > 0)
        update_range(o, u, *u->slice, &like);
    for (uint32_t p = 0; like.toggle_count == 0 && p < count; p++)
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

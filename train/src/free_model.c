/* free_model.c: see free_model.h. */
#include "free_model.h"

#include "arena_mean.h"
#include "strategy_internal.h"
#include "train_internal.h"

#define PART_ELEMENTS (SPSH__PART_BYTES / sizeof(float))

/* All begin as rank 0 does. */
static spsh_status align(const spsh__free_model *m, spsh_error *err)
{
    const spsh__learner *l = m->learner;
    const spsh__arena_mean all = {l->comm, l->backend, m->host, m->part_elements};
    spsh_status rc = spsh__arena_mean_align(&all, l->weights, l->arena_elements, err);
    if (rc == SPSH_OK)
        rc = spsh__arena_mean_align(&all, l->statistics, l->statistics_elements, err);
    for (int i = 0; i < 2 && rc == SPSH_OK; i++)
        if (l->moments[i].data != NULL)
            rc = spsh__arena_mean_align(&all, l->moments[i], l->arena_elements, err);
    spsh__backend_finish(l->backend);
    return rc;
}

spsh_status spsh__free_model_open(spsh__learner *l, const spsh_allocator *allocator,
                                  spsh__free_model *ret, spsh_error *err)
{
    spsh__backend *b = l->arena_backend != NULL ? l->arena_backend : l->backend;
    const uint64_t parts = (l->arena_elements + PART_ELEMENTS - 1) / PART_ELEMENTS;
    *ret = (spsh__free_model){.learner = l,
                              .runtime = l->runtime,
                              .backend = b,
                              .part_elements = PART_ELEMENTS,
                              .part_count = (uint32_t)parts,
                              .error = SPSH_ERROR_INIT,
                              .allocator = *allocator};
    spsh_status rc = spsh__learner_check_sizes(l, err);
    if (rc == SPSH_OK)
        rc = b->ops->alloc_fn(b, l->arena_elements, &ret->arena, err);
    if (rc == SPSH_OK)
        rc = b->ops->alloc_fn(b, PART_ELEMENTS, &ret->scratch, err);
    ret->host = spsh__train_new(allocator, PART_ELEMENTS, sizeof(float));
    if (rc == SPSH_OK && ret->host == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "a part of the weights");
    if (rc == SPSH_OK)
        rc = align(ret, err);
    if (rc != SPSH_OK)
        return rc;
    b->ops->copy_fn(b, ret->arena, l->weights, l->arena_elements);
    spsh__backend_finish(b);
    l->updated = ret->arena;
    return b->ops->status_fn(b, err);
}

void spsh__free_model_close(spsh__free_model *m)
{
    if (m->arena.data != NULL)
        m->backend->ops->free_fn(m->backend, m->arena);
    if (m->scratch.data != NULL)
        m->backend->ops->free_fn(m->backend, m->scratch);
    if (m->learner != NULL)
        spsh__train_delete(&m->allocator, m->host);
}

spsh_status spsh__free_model_read(spsh__free_model *m, spsh_error *err)
{
    const spsh__backend_ops *ops = m->backend->ops;
    const spsh__learner *l = m->learner;
    spsh__backend_finish(l->backend); /* nothing reads the weights any more */
    for (uint32_t part = 0; part < m->part_count; part++) {
        const spsh__mark mark = {SPSH__MARK_READ, part, l->step};
        const spsh__slice slice = spsh__free_model_part(m, part);
        const spsh_status rc = m->runtime->ops->enter_fn(m->runtime, &mark, err);
        if (rc != SPSH_OK)
            return rc;
        ops->copy_fn(m->backend, spsh__at(ops, l->weights, slice.offset),
                     spsh__at(ops, m->arena, slice.offset), slice.count);
        spsh__backend_finish(m->backend);
        m->runtime->ops->leave_fn(m->runtime);
    }
    return SPSH_OK;
}

/* What the update is made of is there before the lock is taken, and what it made before it is left.
 */
bool spsh__free_model_slice(spsh__free_model *m, uint32_t number, spsh__slice *ret)
{
    const spsh__mark mark = {SPSH__MARK_UPDATE, number, m->learner->step};
    spsh__backend_finish(m->learner->backend);
    if (m->is_inside)
        m->runtime->ops->leave_fn(m->runtime);
    m->is_inside = false;
    if (number >= m->part_count || m->status != SPSH_OK)
        return false;
    m->status = m->runtime->ops->enter_fn(m->runtime, &mark, &m->error);
    m->is_inside = m->status == SPSH_OK;
    *ret = spsh__free_model_part(m, number);
    return m->is_inside;
}

spsh_status spsh__free_model_after_step(spsh__free_model *m, spsh_error *err)
{
    const spsh_status rc = m->status;
    if (rc != SPSH_OK && err != NULL)
        *err = m->error;
    m->status = SPSH_OK;
    return rc;
}

void spsh__free_model_take(spsh__free_model *m, uint32_t part, float *to)
{
    const spsh__backend_ops *ops = m->backend->ops;
    const spsh__slice slice = spsh__free_model_part(m, part);
    ops->read_f32_fn(m->backend, to, spsh__at(ops, m->arena, slice.offset), slice.count);
}

void spsh__free_model_mix(spsh__free_model *m, uint32_t part, double weight, const float *theirs,
                          const float *mine)
{
    const spsh__backend_ops *ops = m->backend->ops;
    const spsh__slice slice = spsh__free_model_part(m, part);
    for (uint64_t i = 0; i < slice.count; i++)
        m->host[i] = theirs[i] - mine[i];
    ops->write_f32_fn(m->backend, m->scratch, m->host, slice.count);
    ops->axpy_fn(m->backend, weight, m->scratch, spsh__at(ops, m->arena, slice.offset),
                 slice.count);
    spsh__backend_finish(m->backend);
}

spsh_status spsh__free_model_consensus(spsh__free_model *m, bool is_taken, spsh_error *err)
{
    const spsh__learner *l = m->learner;
    const spsh__arena_mean mean = {l->comm, l->backend, m->host, m->part_elements};
    spsh__backend_finish(l->backend);
    spsh_status rc = spsh__arena_mean_make(&mean, m->arena, l->weights, l->arena_elements, err);
    if (rc == SPSH_OK)
        rc =
            spsh__arena_mean_make(&mean, l->statistics, l->statistics, l->statistics_elements, err);
    if (rc != SPSH_OK || !is_taken)
        return rc;
    for (int i = 0; i < 2 && rc == SPSH_OK; i++)
        if (l->moments[i].data != NULL)
            rc = spsh__arena_mean_make(&mean, l->moments[i], l->moments[i], l->arena_elements, err);
    if (rc == SPSH_OK)
        l->backend->ops->copy_fn(l->backend, m->arena, l->weights, l->arena_elements);
    spsh__backend_finish(l->backend);
    return rc;
}

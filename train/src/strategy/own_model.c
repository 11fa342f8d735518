/* own_model.c: see own_model.h. */
#include "own_model.h"

#include "speechshard/inside.h"
#include "strategy_internal.h"

spsh_status spsh__own_model_open(spsh__learner *l, uint32_t parts_min, spsh__own_model *ret,
                                 spsh_error *err)
{
    spsh__backend *b = l->arena_backend != NULL ? l->arena_backend : l->backend;
    *ret = (spsh__own_model){
        .learner = l, .runtime = l->runtime, .backend = b, .error = SPSH_ERROR_INIT};
    spsh_status rc = spsh__strategy_align(l, err);
    if (rc == SPSH_OK)
        rc = b->ops->alloc_fn(b, l->arena_elements, &ret->arena, err);
    if (rc == SPSH_OK)
        rc = spsh__parts_open(b, ret->arena, l->arena_elements, spsh__learner_parts(l, parts_min),
                              &ret->parts, err);
    if (rc == SPSH_OK && l->staleness != NULL) {
        ret->mixes = spsh__new(&b->allocator, 2 * (size_t)ret->parts.count, sizeof(*ret->mixes));
        rc = ret->mixes == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    if (rc != SPSH_OK)
        return rc;
    spsh__backend_follow(b, l->backend);
    b->ops->copy_fn(b, ret->arena, l->weights, l->arena_elements);
    l->updated = ret->arena;
    return b->ops->status_fn(b, err);
}

void spsh__own_model_close(spsh__own_model *m)
{
    if (m->mixes != NULL)
        spsh__free(&m->backend->allocator, m->mixes);
    spsh__parts_close(&m->parts);
    if (m->arena.data != NULL)
        m->backend->ops->free_fn(m->backend, m->arena);
}

static spsh__slice part_slice(const spsh__own_model *m, uint32_t part)
{
    return (spsh__slice){spsh__parts_offset(&m->parts, part),
                         spsh__parts_elements(&m->parts, part)};
}

/* Take the lock for work of the learner's backend on the arena. */
static spsh_status enter(const spsh__own_model *m, const spsh__mark *mark, spsh_error *err)
{
    const spsh_status rc = m->runtime->ops->enter_fn(m->runtime, mark, err);
    if (rc == SPSH_OK)
        spsh__backend_follow(m->learner->backend, m->backend);
    return rc;
}

static void leave(const spsh__own_model *m)
{
    spsh__backend_follow(m->backend, m->learner->backend);
    m->runtime->ops->leave_fn(m->runtime);
}

spsh_status spsh__own_model_take(spsh__own_model *m, uint32_t part, float *to, spsh_error *err)
{
    spsh__parts_take(&m->parts, part, to);
    return m->backend->ops->status_fn(m->backend, err);
}

/* The first copy follows all work that reads the old weights. */
spsh_status spsh__own_model_read(spsh__own_model *m, spsh_error *err)
{
    const spsh__backend_ops *ops = m->backend->ops;
    const spsh__learner *l = m->learner;
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < m->parts.count; part++) {
        const spsh__mark mark = {SPSH__MARK_READ, part, l->step};
        const spsh__slice slice = part_slice(m, part);
        rc = m->runtime->ops->enter_fn(m->runtime, &mark, err);
        if (rc != SPSH_OK)
            return rc;
        if (part == 0)
            spsh__backend_follow(m->backend, l->backend);
        ops->copy_fn(m->backend, spsh__at(ops, l->weights, slice.offset),
                     spsh__at(ops, m->arena, slice.offset), slice.count);
        if (part + 1 == m->parts.count)
            spsh__backend_follow(l->backend, m->backend);
        rc = ops->status_fn(m->backend, err);
        if (m->mixes != NULL)
            m->mixes[m->parts.count + part] = m->mixes[part];
        m->runtime->ops->leave_fn(m->runtime);
    }
    return rc;
}

bool spsh__own_model_slice(spsh__own_model *m, uint32_t number, spsh__slice *ret)
{
    const spsh__mark mark = {SPSH__MARK_UPDATE, number, m->learner->step};
    if (m->is_inside)
        leave(m);
    m->is_inside = false;
    if (number >= m->parts.count || m->status != SPSH_OK)
        return false;
    m->status = enter(m, &mark, &m->error);
    m->is_inside = m->status == SPSH_OK;
    *ret = part_slice(m, number);
    if (m->is_inside && m->mixes != NULL)
        spsh__learner_stale(m->learner, m->mixes[number] - m->mixes[m->parts.count + number]);
    return m->is_inside;
}

spsh_status spsh__own_model_after_step(spsh__own_model *m, spsh_error *err)
{
    const spsh_status rc = spsh__fail_again(m->status, &m->error, err);
    m->status = SPSH_OK;
    return rc;
}

/* No learner continues before all have the mean. Otherwise a snapshot of the first learner would be
 * mixed into the old model of the last one, and be overwritten with it. */
static spsh_status take_mean(spsh__own_model *m, spsh_error *err)
{
    const spsh__learner *l = m->learner;
    const spsh__mark mark = {SPSH__MARK_MIX, 0, l->step};
    uint64_t ranks = 1;
    spsh_status rc = enter(m, &mark, err);
    if (rc != SPSH_OK)
        return rc;
    l->backend->ops->copy_fn(l->backend, m->arena, l->weights, l->arena_elements);
    leave(m);
    rc = l->backend->ops->status_fn(l->backend, err);
    return rc != SPSH_OK ? rc
                         : spsh__comm_all_reduce(spsh__learner_living(l), SPSH__COMM_U64,
                                                 SPSH__COMM_SUM, &ranks, 1, err);
}

/* All messages have been served, so no other task uses the arena. */
spsh_status spsh__own_model_consensus(spsh__own_model *m, bool is_taken, spsh_error *err)
{
    const spsh__learner *l = m->learner;
    if (spsh__learner_living(l)->world_size == 1)
        return spsh__own_model_read(m, err);
    spsh__backend_follow(l->backend, m->backend);
    const spsh_status rc = spsh__strategy_mean(l, m->arena, is_taken, err);
    return rc != SPSH_OK || !is_taken ? rc : take_mean(m, err);
}

/* strategy.c: strategies by name, and which leaves a rank has. */
#include "strategy.h"

#include <assert.h>

#include "strategy_internal.h"
#include "train_internal.h"

static const spsh__strategy_ops *const strategies[] = {
    &spsh__strategy_allreduce,
    &spsh__strategy_partitioned,
};

spsh_status spsh__strategy_open(const char *name, const spsh_allocator *allocator,
                                spsh__strategy **ret, spsh_error *err)
{
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        if (strcmp(strategies[i]->name, name) != 0)
            continue;
        spsh__strategy *s = spsh__train_new(allocator, 1, sizeof(*s));
        if (s == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "strategy %s", name);
        *s = (spsh__strategy){.ops = strategies[i], .allocator = *allocator};
        *ret = s;
        return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, SPSH_OFFSET_NONE,
                     "no strategy is called '%s': allreduce, partitioned", name);
}

void spsh__strategy_close(spsh__strategy *s)
{
    if (s == NULL)
        return;
    spsh_allocator allocator = s->allocator;
    s->ops->close_fn(s);
    spsh__train_delete(&allocator, s);
}

static uint32_t virtual_world(const spsh__learner *l)
{
    return l->virtual_world == 0 ? l->comm->world_size : l->virtual_world;
}

/* Of one of the loader's steps. */
static uint32_t leaves_of_step(const spsh__learner *l)
{
    uint32_t world = l->comm->world_size;
    uint32_t leaves = virtual_world(l);
    return leaves <= l->comm->rank ? 0 : (leaves - l->comm->rank + world - 1) / world;
}

uint32_t spsh__leaf_count(const spsh__learner *l)
{
    return leaves_of_step(l) * (l->accumulate == 0 ? 1 : l->accumulate);
}

uint32_t spsh__leaf_of(const spsh__learner *l, uint32_t own)
{
    uint32_t in_step = leaves_of_step(l);
    assert(in_step > 0);
    return own / in_step * virtual_world(l) + l->comm->rank + own % in_step * l->comm->world_size;
}

spsh_status spsh__strategy_sum_start(spsh__strategy *s, spsh__learner *l, bool is_whole,
                                     spsh_error *err)
{
    spsh__gradient_sum *g = NULL;
    spsh_status rc = spsh__gradient_sum_open(l, is_whole, &s->allocator, &g, err);
    if (rc != SPSH_OK)
        return rc;
    s->learner = l;
    s->state = g;
    return spsh__gradient_sum_align(g, err);
}

spsh_status spsh__strategy_sum_before_forward(spsh__strategy *s, spsh_error *err)
{
    return spsh__gradient_sum_begin(s->state, err);
}

spsh_status spsh__strategy_sum_on_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                         spsh_error *err)
{
    return spsh__gradient_sum_bucket(s->state, leaf, bucket, err);
}

spsh_status spsh__strategy_sum_skip_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err)
{
    return spsh__gradient_sum_skip(s->state, leaf, err);
}

spsh_status spsh__strategy_sum_after_backward(spsh__strategy *s, const double *rows, double *totals,
                                              uint32_t count, spsh_error *err)
{
    return spsh__gradient_sum_end(s->state, rows, totals, count, err);
}

spsh_status spsh__strategy_sum_square_sum(spsh__strategy *s, double *ret, spsh_error *err)
{
    return spsh__gradient_sum_squares(s->state, ret, err);
}

void spsh__strategy_sum_close(spsh__strategy *s)
{
    spsh__gradient_sum_close(s->state);
}

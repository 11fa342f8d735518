/* strategy_hierarchical.c: each node is one learner (H-ADPSGD, Zhang and others 2019): a
 * synchronous strategy among the ranks of a node, and an has_own_model strategy between nodes.
 *
 *     node      ranks n S ... n S + S - 1 sum their gradients; the first rank leads, and gets the
 *               whole sum from the inner strategy
 *     leaders   run the outer strategy with the node's gradient; after they read their arena before
 *               forward, they send it to their node: with NCCL if the inner strategy uses it, else
 *               over comm.h
 *
 * With one node, the results are the bits of the synchronous strategy. With one rank per node, they
 * are the bits of the outer strategy. Only the leaders hold the optimizer's moments.
 */
#include "arena_mean.h"
#include "runtime/comm_sub.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

#define TAGS_OF_NODE 10000u /* first tag of a node (comm_sub.h); tags of strategies are lower */

typedef struct hierarchy {
    spsh__comm *node_comm, *leader_comm;
    spsh__runtime *leader_runtime;
    spsh__learner node, leader; /* this learner, for inner and for outer */
    spsh__strategy *inner;
    spsh__strategy *outer; /* only for leaders; else NULL */
    spsh__parts parts;     /* parts of the weights */
    spsh__parts statistics;
} hierarchy;

static hierarchy *state_of(const spsh__strategy *s)
{
    return (hierarchy *)s->state;
}

/* ---- starting ---- */

static spsh_status open_comms(hierarchy *h, spsh__learner *l, uint32_t size, spsh_error *err)
{
    const uint32_t world = l->comm->world_size, rank = l->comm->rank;
    const spsh__ranks node = {rank - rank % size, 1, size}, leaders = {0, size, world / size};
    spsh_status rc = spsh__comm_sub_open(l->comm, &node, TAGS_OF_NODE, &h->node_comm, err);
    if (rc != SPSH_OK || rank % size != 0)
        return rc;
    rc = spsh__comm_sub_open(l->comm, &leaders, 0, &h->leader_comm, err);
    return rc != SPSH_OK ? rc
                         : spsh__runtime_sub_open(l->runtime, &leaders, &l->comm->allocator,
                                                  &h->leader_runtime, err);
}

static spsh_status start_inner(spsh__strategy *s, spsh_error *err)
{
    hierarchy *h = state_of(s);
    const char *name = s->learner->options.inner != NULL ? s->learner->options.inner : "allreduce";
    const uint32_t nodes = s->learner->comm->world_size / h->node_comm->world_size;
    h->node = *s->learner;
    h->node.comm = h->node_comm;
    h->node.virtual_world = s->learner->virtual_world / nodes;
    spsh_status rc = spsh__strategy_open(name, &s->allocator, &h->inner, err);
    if (rc == SPSH_OK && h->inner->ops->has_own_model)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                       "'%s' cannot be the inner strategy: the ranks of a node share one model",
                       name);
    if (rc == SPSH_OK)
        rc = h->inner->ops->start_fn(h->inner, &h->node, err);
    s->learner->exchange = h->node.exchange;
    memcpy(s->learner->exchange_reason, h->node.exchange_reason, sizeof(h->node.exchange_reason));
    return rc;
}

static spsh_status start_outer(spsh__strategy *s, spsh_error *err)
{
    hierarchy *h = state_of(s);
    const char *name =
        s->learner->options.outer != NULL ? s->learner->options.outer : SPSH__OUTER_DEFAULT;
    if (h->leader_comm == NULL)
        return SPSH_OK;
    h->leader = *s->learner;
    h->leader.comm = h->leader_comm;
    h->leader.runtime = h->leader_runtime;
    h->leader.virtual_world = s->learner->virtual_world / h->node_comm->world_size;
    spsh_status rc = spsh__strategy_open(name, &s->allocator, &h->outer, err);
    if (rc == SPSH_OK && !h->outer->ops->has_own_model)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                       "'%s' cannot be the outer strategy: each node has its own model", name);
    if (rc == SPSH_OK)
        rc = h->outer->ops->start_fn(h->outer, &h->leader, err);
    s->learner->updated = h->leader.updated;
    return rc;
}

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t size = l->options.node_size > 0 ? l->options.node_size : 1;
    if (l->comm->world_size % size != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%u ranks cannot form nodes of %u each",
                         l->comm->world_size, size);
    if (l->virtual_world % l->comm->world_size != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the %u micro-batches of a step cannot be divided equally among %u ranks",
                         l->virtual_world, l->comm->world_size);
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(hierarchy), err);
    hierarchy *h = state_of(s);
    l->updated = (spsh__backend_buffer){NULL, false}; /* the leader has the arena */
    if (rc == SPSH_OK)
        rc = spsh__strategy_open_parts(s, l->weights, 1, &h->parts, err);
    if (rc == SPSH_OK)
        rc = open_comms(h, l, size, err);
    if (rc == SPSH_OK && l->statistics_elements > 0)
        rc = spsh__parts_open(l->backend, l->statistics, l->statistics_elements, 1, &h->statistics,
                              err);
    if (rc == SPSH_OK)
        rc = start_inner(s, err);
    return rc != SPSH_OK ? rc : start_outer(s, err);
}

/* ---- steps ---- */

/* Copy the leader's values to its node. */
static spsh_status share(hierarchy *h, spsh__parts *parts, spsh_error *err)
{
    if (h->node.exchange == SPSH__EXCHANGE_NCCL && h->inner->ops->share_fn != NULL)
        return h->inner->ops->share_fn(h->inner, parts->arena, parts->elements, err);
    return spsh__arena_align(h->node_comm, parts, err);
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    hierarchy *h = state_of(s);
    spsh_status rc = SPSH_OK;
    h->node.step = h->leader.step = s->learner->step;
    if (h->outer != NULL)
        rc = h->outer->ops->before_forward_fn(h->outer, err);
    if (rc == SPSH_OK)
        rc = share(h, &h->parts, err);
    return rc != SPSH_OK ? rc : h->inner->ops->before_forward_fn(h->inner, err);
}

/* Index that a leaf of this rank has within its node. */
static uint32_t node_leaf(const spsh__strategy *s, uint32_t leaf)
{
    uint32_t own = 0;
    while (spsh__leaf_of(s->learner, own) != leaf)
        own++;
    return spsh__leaf_of(&state_of(s)->node, own);
}

static spsh_status on_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket, spsh_error *err)
{
    spsh__strategy *inner = state_of(s)->inner;
    return inner->ops->on_bucket_fn(inner, node_leaf(s, leaf), bucket, err);
}

static spsh_status skip_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err)
{
    spsh__strategy *inner = state_of(s)->inner;
    return inner->ops->skip_leaf_fn(inner, node_leaf(s, leaf), err);
}

static spsh_status after_backward(spsh__strategy *s, const double *rows, double *totals,
                                  uint32_t count, spsh_error *err)
{
    hierarchy *h = state_of(s);
    double none[SPSH__SHARED_MAX];
    spsh_status rc = h->inner->ops->after_backward_fn(h->inner, rows, totals, count, err);
    /* The leader updates all parts. */
    if (rc == SPSH_OK && h->inner->ops->slice_fn == spsh__strategy_sum_part)
        rc = spsh__strategy_sum_share_gradients(h->inner, err);
    if (rc == SPSH_OK && h->outer != NULL) /* ignore totals of a single rank */
        rc = h->outer->ops->after_backward_fn(h->outer, rows, none, count, err);
    return rc;
}

static spsh_status square_sum(spsh__strategy *s, double *ret, spsh_error *err)
{
    spsh__strategy *inner = state_of(s)->inner;
    return inner->ops->square_sum_fn(inner, ret, err);
}

static bool next_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    const spsh__strategy *outer = state_of(s)->outer;
    return outer != NULL && outer->ops->slice_fn(outer, number, ret);
}

static spsh_status after_step(spsh__strategy *s, spsh_error *err)
{
    spsh__strategy *outer = state_of(s)->outer;
    return outer != NULL ? outer->ops->after_step_fn(outer, err) : SPSH_OK;
}

static spsh_status settle(spsh__strategy *s, spsh_error *err)
{
    spsh__strategy *outer = state_of(s)->outer;
    const spsh_status rc = outer != NULL ? outer->ops->settle_fn(outer, err) : SPSH_OK;
    return rc != SPSH_OK ? rc : spsh__strategy_meet(s, err);
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    hierarchy *h = state_of(s);
    spsh_status rc =
        h->outer != NULL ? h->outer->ops->consensus_fn(h->outer, is_taken, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = share(h, &h->parts, err);
    return rc != SPSH_OK ? rc : share(h, &h->statistics, err);
}

static void close_state(spsh__strategy *s)
{
    hierarchy *h = state_of(s);
    if (h == NULL)
        return;
    spsh__strategy_close(h->outer);
    spsh__strategy_close(h->inner);
    spsh__parts_close(&h->parts);
    spsh__parts_close(&h->statistics);
    if (h->leader_runtime != NULL)
        h->leader_runtime->ops->close_fn(h->leader_runtime);
    spsh__comm_close(h->leader_comm);
    spsh__comm_close(h->node_comm);
    spsh__free(&s->allocator, h);
}

const spsh__strategy_ops spsh__strategy_hierarchical = {
    .name = "hierarchical",
    .has_own_model = true,
    .needs_runtime = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    .on_bucket_fn = on_bucket,
    .skip_leaf_fn = skip_leaf,
    .after_backward_fn = after_backward,
    .square_sum_fn = square_sum,
    .slice_fn = next_slice,
    .after_step_fn = after_step,
    .gather_fn = spsh__strategy_own_nothing,
    .settle_fn = settle,
    .consensus_fn = consensus,
    .close_fn = close_state,
};

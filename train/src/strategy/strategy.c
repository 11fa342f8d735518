/* strategy.c: strategies by name, and which leaves a rank has. */
#include "strategy.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "arena_mean.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

static const spsh__strategy_ops *const strategies[] = {
    &spsh__strategy_allreduce,    &spsh__strategy_partitioned,   &spsh__strategy_ps_sync,
    &spsh__strategy_ps_async,     &spsh__strategy_hogwild,       &spsh__strategy_dpsgd_ring,
    &spsh__strategy_adpsgd_fixed, &spsh__strategy_adpsgd_random, &spsh__strategy_d1_model,
    &spsh__strategy_d1_grad,      &spsh__strategy_hierarchical,  &spsh__strategy_pipeline,
};

static const spsh__strategy_ops *find(const char *name)
{
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    return NULL;
}

const char *spsh__strategy_name(uint32_t number)
{
    return number < sizeof(strategies) / sizeof(strategies[0]) ? strategies[number]->name : NULL;
}

spsh_status spsh__strategy_open(const char *name, const spsh_allocator *allocator,
                                spsh__strategy **ret, spsh_error *err)
{
    const spsh__strategy_ops *ops = find(name);
    if (ops == NULL)
        return SPSH_FAIL(
            err, SPSH_E_NOT_FOUND,
            "unknown strategy '%s'; expected allreduce, partitioned, ps-sync, ps-async, hogwild, "
            "dpsgd-ring, adpsgd-fixed, adpsgd-random, d1-model, d1-grad, hierarchical, or pipeline",
            name);
    spsh__strategy *s = spsh__new(allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "strategy %s", name);
    *s = (spsh__strategy){.ops = ops, .allocator = *allocator};
    *ret = s;
    return SPSH_OK;
}

bool spsh__strategy_goes_in_step(const char *name, const spsh__strategy_options *options)
{
    const spsh__strategy_ops *ops = find(name);
    if (ops == &spsh__strategy_hierarchical)
        ops = find(options->outer != NULL ? options->outer : SPSH__OUTER_DEFAULT);
    return ops == NULL || !ops->has_own_model || ops->goes_in_step;
}

void spsh__strategy_close(spsh__strategy *s)
{
    if (s == NULL)
        return;
    spsh_allocator allocator = s->allocator;
    if (s->learner != NULL && s->learner->runtime != NULL)
        s->learner->runtime->ops->listen_fn(s->learner->runtime, SPSH__SERVICE_STRATEGY, NULL,
                                            NULL);
    s->ops->close_fn(s);
    spsh__free(&allocator, s);
}

static uint32_t virtual_world(const spsh__learner *l)
{
    return l->virtual_world == 0 ? l->comm->world_size : l->virtual_world;
}

/* Number of this rank's leaves in one step of the loader. */
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

uint32_t spsh__learner_parts(const spsh__learner *l, uint32_t count_min)
{
    const uint64_t parts =
        l->part_elements > 0 ? (l->arena_elements + l->part_elements - 1) / l->part_elements : 1;
    return parts > count_min ? (uint32_t)parts : count_min;
}

void spsh__learner_stale(const spsh__learner *l, uint64_t stale)
{
    if (l->staleness != NULL)
        l->staleness->counts[stale < SPSH__STALENESS_MAX ? stale : SPSH__STALENESS_MAX - 1]++;
}

spsh__slice *spsh__learner_list_buckets(const spsh__model *m)
{
    const uint32_t count = spsh__model_bucket_count(m);
    spsh__slice *list = calloc(count, sizeof(*list));
    for (uint32_t b = 0; list != NULL && b < count; b++)
        spsh__model_bucket(m, b, &list[b].offset, &list[b].count);
    return list;
}

void spsh__learner_arenas(const spsh__learner *l, spsh__arena ret[SPSH__ARENAS])
{
    ret[0] = (spsh__arena){l->weights, l->arena_elements};
    ret[1] = (spsh__arena){l->moments[0], l->arena_elements};
    ret[2] = (spsh__arena){l->moments[1], l->arena_elements};
    ret[3] = (spsh__arena){l->statistics, l->statistics_elements};
}

/* Check before anything large is sent: some MPI libraries write a message that is longer than
 * expected past the end of the buffer. */
spsh_status spsh__learner_check_sizes(const spsh__learner *l, spsh_error *err)
{
    const uint64_t own[2] = {l->arena_elements, l->statistics_elements};
    uint64_t greatest[4] = {own[0], own[1], ~own[0], ~own[1]};
    const spsh_status rc =
        spsh__comm_all_reduce(l->comm, SPSH__COMM_U64, SPSH__COMM_MAX, greatest, 4, err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t i = 0; i < 2; i++)
        if (greatest[i] != ~greatest[2 + i])
            return SPSH_FAIL(err, SPSH_E_MISMATCH,
                             "the models of the ranks have %" PRIu64 " to %" PRIu64
                             " %s, and that of rank %u has %" PRIu64
                             "; do all ranks have the same configuration?",
                             ~greatest[2 + i], greatest[i], i == 0 ? "weights" : "statistics",
                             l->comm->rank, own[i]);
    return SPSH_OK;
}

spsh_status spsh__strategy_begin(spsh__strategy *s, spsh__learner *l, size_t state_bytes,
                                 spsh_error *err)
{
    s->state = spsh__new(&s->allocator, 1, state_bytes);
    if (s->state == NULL)
        return SPSH_NO_MEMORY(err);
    s->learner = l;
    l->updated = l->weights;
    return SPSH_OK;
}

spsh_status spsh__strategy_open_parts(const spsh__strategy *s, spsh__backend_buffer arena,
                                      uint32_t count_min, spsh__parts *ret, spsh_error *err)
{
    const spsh__learner *l = s->learner;
    const spsh_status rc = spsh__strategy_align(l, err);
    return rc != SPSH_OK ? rc
                         : spsh__parts_open(l->backend, arena, l->arena_elements,
                                            spsh__learner_parts(l, count_min), ret, err);
}

/* ---- shared by strategies that sum all gradients ---- */

/* An early NCCL takes as many multiprocessors as it likes. */
static void check_nccl(spsh__learner *l, const spsh__collectives *c)
{
    const uint32_t version = spsh__collectives_version(c);
    if (version < SPSH__NCCL_VERSION_LIMITED)
        (void)snprintf(l->exchange_reason, sizeof(l->exchange_reason),
                       "NCCL %u.%u may take multiprocessors that recurrent layers need, and wait "
                       "for them; set NCCL_MAX_NCHANNELS=%u, or install NCCL 2.17 or later",
                       version / 10000, version / 100 % 100, SPSH__NCCL_MULTIPROCESSORS);
}

/* Fall back to the host if NCCL is not available and not required. */
static spsh_status open_collectives(spsh__learner *l, spsh__collectives **ret, spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    const spsh_status rc = spsh__collectives_open(l->comm, l->backend, &l->step, ret, &why);
    if (rc == SPSH_OK) {
        l->exchange = SPSH__EXCHANGE_NCCL;
        check_nccl(l, *ret);
        return SPSH_OK;
    }
    if (rc == SPSH_E_UNSUPPORTED && l->exchange == SPSH__EXCHANGE_AUTO) {
        l->exchange = SPSH__EXCHANGE_HOST;
        (void)snprintf(l->exchange_reason, sizeof(l->exchange_reason), "%.190s", why.message);
        return SPSH_OK;
    }
    return SPSH_FAIL(err, rc, "%s", why.message);
}

static spsh_status open_sum(spsh__strategy *s, bool is_whole, spsh_error *err)
{
    spsh__learner *l = s->learner;
    spsh__sum *sum = s->state;
    spsh__collectives *collectives = NULL;
    const bool is_device = l->backend->ops->stream_fn != NULL;
    spsh_status rc = SPSH_OK;
    if (!is_device || (l->comm->world_size == 1 && l->exchange == SPSH__EXCHANGE_NCCL))
        l->exchange = SPSH__EXCHANGE_AUTO;
    if (is_device && l->exchange != SPSH__EXCHANGE_HOST && l->comm->world_size > 1)
        rc = open_collectives(l, &collectives, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_device && l->exchange != SPSH__EXCHANGE_HOST)
        return spsh__device_sum_open(l, is_whole, collectives, &s->allocator, sum, err);
    return spsh__gradient_sum_open(l, is_whole, &s->allocator, sum, err);
}

spsh_status spsh__strategy_sum_start(spsh__strategy *s, spsh__learner *l, bool is_whole,
                                     spsh_error *err)
{
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(spsh__sum), err);
    if (rc == SPSH_OK)
        rc = open_sum(s, is_whole, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__sum *sum = s->state;
    return sum->ops->align_fn(sum->state, err);
}

spsh_status spsh__strategy_sum_before_forward(spsh__strategy *s, spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->begin_fn(sum->state, err);
}

spsh_status spsh__strategy_sum_on_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                         spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->bucket_fn(sum->state, leaf, bucket, err);
}

spsh_status spsh__strategy_sum_skip_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->skip_fn(sum->state, leaf, err);
}

spsh_status spsh__strategy_sum_after_backward(spsh__strategy *s, const double *rows, double *totals,
                                              uint32_t count, spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->end_fn(sum->state, rows, totals, count, err);
}

void spsh__strategy_sum_decide(spsh__strategy *s, const spsh__step_rule *rule,
                               spsh__backend_buffer *ret)
{
    const spsh__sum *sum = s->state;
    if (sum->ops->decide_fn != NULL)
        sum->ops->decide_fn(sum->state, rule, ret);
}

spsh_status spsh__strategy_sum_square_sum(spsh__strategy *s, double *ret, spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->squares_fn(sum->state, ret, err);
}

spsh_status spsh__strategy_sum_share(spsh__strategy *s, spsh__backend_buffer values, uint64_t count,
                                     spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->share_fn(sum->state, values, count, err);
}

bool spsh__strategy_sum_part(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    const spsh__sum *sum = s->state;
    return sum->ops->slice_fn(sum->state, number, ret);
}

static spsh_status gather(const spsh__strategy *s, spsh__backend_buffer arena, spsh_error *err)
{
    const spsh__sum *sum = s->state;
    return sum->ops->gather_fn(sum->state, arena, err);
}

spsh_status spsh__strategy_sum_share_weights(spsh__strategy *s, spsh_error *err)
{
    return gather(s, s->learner->weights, err);
}

spsh_status spsh__strategy_sum_share_gradients(spsh__strategy *s, spsh_error *err)
{
    return gather(s, s->learner->gradients, err);
}

spsh_status spsh__strategy_sum_gather_moments(spsh__strategy *s, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (int i = 0; rc == SPSH_OK && i < 2; i++)
        if (s->learner->moments[i].data != NULL)
            rc = gather(s, s->learner->moments[i], err);
    return rc;
}

void spsh__strategy_sum_close(spsh__strategy *s)
{
    spsh__sum *sum = s->state;
    if (sum == NULL)
        return;
    spsh__sum_close(sum);
    spsh__free(&s->allocator, sum);
}

bool spsh__strategy_whole_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    if (number > 0)
        return false;
    *ret = (spsh__slice){0, s->learner->arena_elements};
    return true;
}

/* ---- shared by strategies with a model per learner ---- */

spsh_status spsh__strategy_own_zero(spsh__strategy *s, spsh_error *err)
{
    const spsh__learner *l = s->learner;
    (void)err;
    l->backend->ops->zero_fn(l->backend, l->gradients, l->arena_elements);
    return SPSH_OK;
}

spsh_status spsh__strategy_own_bucket(spsh__strategy *s, uint32_t leaf, uint32_t bucket,
                                      spsh_error *err)
{
    (void)s, (void)leaf, (void)bucket, (void)err;
    return SPSH_OK;
}

spsh_status spsh__strategy_own_leaf(spsh__strategy *s, uint32_t leaf, spsh_error *err)
{
    (void)s, (void)leaf, (void)err;
    return SPSH_OK;
}

spsh_status spsh__strategy_own_totals(spsh__strategy *s, const double *rows, double *totals,
                                      uint32_t count, spsh_error *err)
{
    const uint32_t leaves = spsh__leaf_count(s->learner);
    (void)err;
    memset(totals, 0, count * sizeof(*totals));
    for (uint32_t leaf = 0; leaf < leaves; leaf++)
        for (uint32_t i = 0; i < count; i++)
            totals[i] += rows[(size_t)leaf * count + i];
    return SPSH_OK;
}

spsh_status spsh__strategy_own_square_sum(spsh__strategy *s, double *ret, spsh_error *err)
{
    const spsh__learner *l = s->learner;
    (void)err;
    *ret = l->backend->ops->square_sum_fn(l->backend, l->gradients, l->arena_elements);
    return SPSH_OK;
}

spsh_status spsh__strategy_own_nothing(spsh__strategy *s, spsh_error *err)
{
    (void)s, (void)err;
    return SPSH_OK;
}

spsh_status spsh__strategy_meet(spsh__strategy *s, spsh_error *err)
{
    uint64_t ranks = 1;
    return spsh__comm_all_reduce(spsh__learner_living(s->learner), SPSH__COMM_U64, SPSH__COMM_SUM,
                                 &ranks, 1, err);
}

static spsh_status align_arena(const spsh__learner *l, const spsh__arena *a, spsh_error *err)
{
    spsh__parts parts = {0};
    spsh_status rc = spsh__parts_open(l->backend, a->buffer, a->elements, 1, &parts, err);
    if (rc == SPSH_OK)
        rc = spsh__arena_align(l->comm, &parts, err);
    spsh__parts_close(&parts);
    return rc;
}

spsh_status spsh__strategy_align(const spsh__learner *l, spsh_error *err)
{
    spsh__arena arenas[SPSH__ARENAS];
    spsh__learner_arenas(l, arenas);
    spsh_status rc = spsh__learner_check_sizes(l, err);
    for (size_t i = 0; rc == SPSH_OK && i < SPSH__ARENAS; i++)
        if (arenas[i].buffer.data != NULL)
            rc = align_arena(l, &arenas[i], err);
    return rc;
}

static spsh_status mean_arena(const spsh__learner *l, spsh__backend_buffer from,
                              const spsh__arena *to, spsh_error *err)
{
    spsh__parts in = {0}, out = {0};
    spsh_status rc = spsh__parts_open(l->backend, from, to->elements, 1, &in, err);
    if (rc == SPSH_OK)
        rc = spsh__parts_open(l->backend, to->buffer, to->elements, 1, &out, err);
    if (rc == SPSH_OK)
        rc = spsh__arena_mean(spsh__learner_living(l), &in, &out, err);
    spsh__parts_close(&in);
    spsh__parts_close(&out);
    return rc;
}

spsh_status spsh__strategy_mean_statistics(const spsh__learner *l, spsh_error *err)
{
    const spsh__arena a = {l->statistics, l->statistics_elements};
    if (spsh__learner_living(l)->world_size == 1 || a.elements == 0)
        return SPSH_OK;
    spsh__backend_finish(l->backend);
    return mean_arena(l, a.buffer, &a, err);
}

spsh_status spsh__strategy_mean(const spsh__learner *l, spsh__backend_buffer models,
                                bool has_moments, spsh_error *err)
{
    spsh__arena arenas[SPSH__ARENAS];
    spsh_status rc = SPSH_OK;
    spsh__learner_arenas(l, arenas);
    spsh__backend_finish(l->backend);
    for (size_t i = 0; rc == SPSH_OK && i < SPSH__ARENAS; i++) {
        const bool is_moment = i == 1 || i == 2;
        if (arenas[i].buffer.data != NULL && (has_moments || !is_moment))
            rc = mean_arena(l, i == 0 ? models : arenas[i].buffer, &arenas[i], err);
    }
    return rc;
}

spsh_status spsh__strategy_mean_aside(const spsh__learner *l, spsh__parts *weights, float *aside,
                                      bool *is_aside, bool is_taken, spsh_error *err)
{
    spsh__parts_restore(weights, aside, is_aside);
    if (!is_taken)
        spsh__parts_save(weights, aside, is_aside);
    return spsh__strategy_mean(l, l->weights, is_taken, err);
}

spsh_status spsh__strategy_unknown(const spsh__message *message, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "learner %u sent a message that this strategy does not know (kind %u, part "
                     "%u, %zu bytes); do all ranks have the same configuration?",
                     message->from, message->kind, message->part, message->size_bytes);
}

/* strategy_dpsgd.c: synchronous decentralised SGD (Lian and others 2017) on a ring:
 *
 *     W <- W T - rate * U(g(W)),      T: thirds of the learner and its two neighbours
 *
 * What is averaged and what gradients are of are the same W: snapshots are on their way to both
 * neighbours while the gradient is computed, and each learner waits for two others, whatever the
 * world size. A neighbour may be a step ahead, and no more: it waits for this learner's snapshot,
 * too. So there is room for two steps. In a world of two the neighbours are one, and T has halves.
 */
#include "free_model.h"
#include "strategy_internal.h"
#include "train_internal.h"

enum { LEFT = 0, RIGHT = 1, SIDES = 2, ROUNDS = 2 };

typedef struct dpsgd {
    spsh__free_model model;
    uint32_t side_count; /* 0 in a world of one, 1 in a world of two */
    uint32_t peers[SIDES];
    double weight;
    float *mine; /* a part */
    /* under the lock; [round mod 2] */
    float *theirs[ROUNDS][SIDES]; /* arenas */
    uint32_t came[ROUNDS];        /* parts, of all sides */
    uint64_t round;               /* this learner's: the step's number since start */
} dpsgd;

static dpsgd *state_of(const spsh__strategy *s)
{
    return (dpsgd *)s->state;
}

/* ---- serving task ---- */

static spsh_status take_snapshot(dpsgd *d, const spsh__message *m, uint32_t side)
{
    const spsh__slice slice = spsh__free_model_part(&d->model, m->part);
    const uint64_t round = m->number;
    memcpy(d->theirs[round % ROUNDS][side] + slice.offset, m->bytes, m->size_bytes);
    d->came[round % ROUNDS]++;
    return SPSH_OK;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    dpsgd *d = state_of((spsh__strategy *)user);
    const bool is_fit =
        m->kind == SPSH__MESSAGE_SNAPSHOT && m->part < d->model.part_count &&
        m->size_bytes == spsh__free_model_part(&d->model, m->part).count * sizeof(float) &&
        (m->number == d->round || m->number == d->round + 1);
    for (uint32_t side = 0; is_fit && side < d->side_count; side++)
        if (m->from == d->peers[side])
            return take_snapshot(d, m, side);
    return SPSH_FAIL(err, SPSH_E_MISMATCH, SPSH_OFFSET_NONE,
                     "learner %u has sent a message that this strategy does not know (kind %u, "
                     "part %u)",
                     m->from, m->kind, m->part);
}

/* ---- computing task ---- */

static spsh_status send_snapshots(dpsgd *d, spsh_error *err)
{
    spsh__runtime *t = d->model.runtime;
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < d->model.part_count; part++) {
        const spsh__mark mark = {SPSH__MARK_BEGIN, part, d->round};
        const size_t size = spsh__free_model_part(&d->model, part).count * sizeof(float);
        const spsh__message m = {.kind = SPSH__MESSAGE_SNAPSHOT,
                                 .part = part,
                                 .number = d->round,
                                 .bytes = d->mine,
                                 .size_bytes = size};
        rc = t->ops->enter_fn(t, &mark, err);
        if (rc != SPSH_OK)
            break;
        spsh__free_model_take(&d->model, part, d->mine);
        t->ops->leave_fn(t);
        for (uint32_t side = 0; rc == SPSH_OK && side < d->side_count; side++)
            rc = t->ops->post_fn(t, d->peers[side], &m, err);
    }
    return rc;
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    dpsgd *d = state_of(s);
    spsh_status rc = spsh__free_model_read(&d->model, err);
    if (rc == SPSH_OK)
        rc = send_snapshots(d, err);
    return rc != SPSH_OK ? rc : spsh__strategy_own_zero(s, err);
}

static bool is_round_here(void *user)
{
    const dpsgd *d = (const dpsgd *)user;
    return d->came[d->round % ROUNDS] == d->side_count * d->model.part_count;
}

/* Nothing has changed the arena since the snapshots. */
static void mix(dpsgd *d, uint32_t part)
{
    const uint64_t offset = spsh__free_model_part(&d->model, part).offset;
    spsh__free_model_take(&d->model, part, d->mine);
    for (uint32_t side = 0; side < d->side_count; side++)
        spsh__free_model_mix(&d->model, part, d->weight,
                             d->theirs[d->round % ROUNDS][side] + offset, d->mine);
}

static spsh_status after_backward(spsh__strategy *s, const double *rows, double *totals,
                                  uint32_t count, spsh_error *err)
{
    dpsgd *d = state_of(s);
    spsh__runtime *t = d->model.runtime;
    const spsh__mark mark = {SPSH__MARK_WAIT, 0, d->round};
    spsh_status rc = t->ops->wait_fn(t, &mark, is_round_here, d, 0, err);
    for (uint32_t part = 0; rc == SPSH_OK && part < d->model.part_count; part++) {
        const spsh__mark here = {SPSH__MARK_MIX, part, d->round};
        rc = t->ops->enter_fn(t, &here, err);
        if (rc != SPSH_OK)
            break;
        mix(d, part);
        if (part + 1 == d->model.part_count)
            d->came[d->round++ % ROUNDS] = 0;
        t->ops->leave_fn(t);
    }
    return rc != SPSH_OK ? rc : spsh__strategy_own_totals(s, rows, totals, count, err);
}

/* ---- the table ---- */

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t world = l->runtime->world_size, rank = l->runtime->rank;
    dpsgd *d = spsh__train_new(&s->allocator, 1, sizeof(*d));
    bool has_all = true;
    if (d == NULL)
        return spsh__fail_memory(err);
    s->learner = l;
    s->state = d;
    const spsh_status rc = spsh__free_model_open(l, &s->allocator, &d->model, err);
    if (rc != SPSH_OK)
        return rc;
    d->side_count = world > 2 ? 2 : world - 1;
    d->peers[LEFT] = (rank + world - 1) % world;
    d->peers[RIGHT] = (rank + 1) % world;
    d->weight = world > 2 ? 1.0 / 3 : 0.5;
    d->mine = spsh__train_new(&s->allocator, d->model.part_elements, sizeof(float));
    for (uint32_t i = 0; i < ROUNDS * d->side_count; i++) {
        float *arena = spsh__train_new(&s->allocator, l->arena_elements, sizeof(float));
        d->theirs[i % ROUNDS][i / ROUNDS] = arena;
        has_all = has_all && arena != NULL;
    }
    if (!has_all || d->mine == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "models of neighbours");
    l->runtime->serve_user = s;
    l->runtime->serve_fn = serve;
    return SPSH_OK;
}

static bool next_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    return spsh__free_model_slice(&state_of(s)->model, number, ret);
}

static spsh_status after_step(spsh__strategy *s, spsh_error *err)
{
    return spsh__free_model_after_step(&state_of(s)->model, err);
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    return spsh__free_model_consensus(&state_of(s)->model, is_taken, err);
}

static void close_state(spsh__strategy *s)
{
    dpsgd *d = state_of(s);
    if (d == NULL)
        return;
    spsh__free_model_close(&d->model);
    for (uint32_t i = 0; i < ROUNDS * SIDES; i++)
        spsh__train_delete(&s->allocator, d->theirs[i % ROUNDS][i / ROUNDS]);
    spsh__train_delete(&s->allocator, d->mine);
    spsh__train_delete(&s->allocator, d);
}

const spsh__strategy_ops spsh__strategy_dpsgd_ring = {
    .name = "dpsgd-ring",
    .is_free = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    .on_bucket_fn = spsh__strategy_own_bucket,
    .skip_leaf_fn = spsh__strategy_own_leaf,
    .after_backward_fn = after_backward,
    .square_sum_fn = spsh__strategy_own_square_sum,
    .slice_fn = next_slice,
    .after_step_fn = after_step,
    .gather_fn = spsh__strategy_own_nothing,
    .settle_fn = spsh__strategy_meet,
    .consensus_fn = consensus,
    .close_fn = close_state,
};

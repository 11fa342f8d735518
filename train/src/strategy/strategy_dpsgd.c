/* strategy_dpsgd.c: synchronous decentralized SGD (Lian and others 2017) on a ring:
 *
 *     W <- W T - rate * U(g(W)),      T: thirds of the learner and its two neighbors
 *
 * Averages and gradients use the same W: snapshots are in flight to both neighbors while the
 * gradient is computed. Each learner waits for two others, whatever the world size. A neighbor may
 * be at most one step ahead, because it also waits for this learner's snapshot. The buffers
 * therefore hold two steps. In a world of two, both neighbors are the same learner, and T has
 * halves.
 */
#include "speechshard/inside.h"
#include "strategy_internal.h"

enum { LEFT = 0, RIGHT = 1, SIDES = 2, ROUNDS = 2 };

typedef struct dpsgd {
    spsh__runtime *runtime;
    spsh__parts parts;   /* parts of the weights */
    uint32_t side_count; /* 0 in a world of one, 1 in a world of two */
    uint32_t peers[SIDES];
    double weight;
    float *mine;                 /* a part, to send */
    spsh__backend_buffer before; /* a part, before it is mixed */
    bool is_away;                /* own weights: `weights` are the consensus model */
    /* under the lock; [round mod 2] */
    float *theirs[ROUNDS][SIDES]; /* arenas */
    uint32_t came[ROUNDS];        /* parts, of all sides */
    uint64_t round;               /* this learner's round: its steps since start */
} dpsgd;

static dpsgd *state_of(const spsh__strategy *s)
{
    return (dpsgd *)s->state;
}

/* ---- serving task ---- */

static spsh_status take_snapshot(dpsgd *d, const spsh__message *m, uint32_t side)
{
    const uint64_t offset = spsh__parts_offset(&d->parts, m->part);
    const uint64_t round = m->number;
    memcpy(d->theirs[round % ROUNDS][side] + offset, m->bytes, m->size_bytes);
    d->came[round % ROUNDS]++;
    return SPSH_OK;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    dpsgd *d = state_of((spsh__strategy *)user);
    const bool is_fit = m->kind == SPSH__MESSAGE_SNAPSHOT && spsh__parts_is_of(&d->parts, m) &&
                        (m->number == d->round || m->number == d->round + 1);
    for (uint32_t side = 0; is_fit && side < d->side_count; side++)
        if (m->from == d->peers[side])
            return take_snapshot(d, m, side);
    return spsh__strategy_unknown(m, err);
}

/* ---- computing task ---- */

static spsh_status send_snapshots(dpsgd *d, spsh_error *err)
{
    spsh__runtime *t = d->runtime;
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < d->parts.count; part++) {
        const spsh__message m = {.kind = SPSH__MESSAGE_SNAPSHOT,
                                 .part = part,
                                 .number = d->round,
                                 .bytes = d->mine,
                                 .size_bytes = spsh__parts_bytes(&d->parts, part)};
        spsh__parts_take(&d->parts, part, d->mine);
        for (uint32_t side = 0; rc == SPSH_OK && side < d->side_count; side++)
            rc = t->ops->post_fn(t, d->peers[side], &m, err);
    }
    return rc;
}

/* Buffer for the learner's own weights, while `weights` is the consensus model. It is the receive
 * buffer of the next round, which no neighbor fills before this learner sends its next snapshot. */
static float *away(const dpsgd *d)
{
    return d->theirs[(d->round + 1) % ROUNDS][0];
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    dpsgd *d = state_of(s);
    spsh__parts_restore(&d->parts, away(d), &d->is_away);
    const spsh_status rc = send_snapshots(d, err);
    return rc != SPSH_OK ? rc : spsh__strategy_own_zero(s, err);
}

static bool is_round_here(void *user)
{
    const dpsgd *d = (const dpsgd *)user;
    return d->came[d->round % ROUNDS] == d->side_count * d->parts.count;
}

/* The weights have not changed since the snapshots. The received snapshots do not change either:
 * only neighbors that have this learner's next snapshot send the round that overwrites them. */
static void mix(dpsgd *d, uint32_t part)
{
    const uint64_t offset = spsh__parts_offset(&d->parts, part);
    spsh__parts_keep(&d->parts, part, d->before);
    for (uint32_t side = 0; side < d->side_count; side++)
        spsh__parts_mix(&d->parts, part, d->weight, d->theirs[d->round % ROUNDS][side] + offset,
                        d->before);
}

static spsh_status after_backward(spsh__strategy *s, const double *rows, double *totals,
                                  uint32_t count, spsh_error *err)
{
    dpsgd *d = state_of(s);
    spsh__runtime *t = d->runtime;
    const spsh__mark mark = {SPSH__MARK_WAIT, 0, d->round}, next = {SPSH__MARK_MIX, 0, d->round};
    spsh_status rc = t->ops->wait_fn(t, &mark, is_round_here, d, 0, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t part = 0; part < d->parts.count; part++)
        mix(d, part);
    rc = t->ops->enter_fn(t, &next, err);
    if (rc != SPSH_OK)
        return rc;
    d->came[d->round++ % ROUNDS] = 0;
    t->ops->leave_fn(t);
    return spsh__strategy_own_totals(s, rows, totals, count, err);
}

/* ---- the table ---- */

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t world = l->runtime->world_size, rank = l->runtime->rank;
    bool has_all = true;
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(dpsgd), err);
    dpsgd *d = state_of(s);
    if (rc == SPSH_OK)
        rc = spsh__strategy_open_parts(s, l->weights, 1, &d->parts, err);
    if (rc != SPSH_OK)
        return rc;
    d->runtime = l->runtime;
    d->side_count = world > 2 ? 2 : world - 1;
    d->peers[LEFT] = (rank + world - 1) % world;
    d->peers[RIGHT] = (rank + 1) % world;
    d->weight = world > 2 ? 1.0 / 3 : 0.5;
    d->mine = spsh__new(&s->allocator, d->parts.part_elements, sizeof(float));
    for (uint32_t i = 0; i < ROUNDS * d->side_count; i++) {
        float *arena = spsh__new(&s->allocator, l->arena_elements, sizeof(float));
        d->theirs[i % ROUNDS][i / ROUNDS] = arena;
        has_all = has_all && arena != NULL;
    }
    if (!has_all || d->mine == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "models of the neighbors");
    rc = l->backend->ops->alloc_fn(l->backend, d->parts.part_elements, &d->before, err);
    if (rc != SPSH_OK)
        return rc;
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_STRATEGY, serve, s);
    return SPSH_OK;
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    dpsgd *d = state_of(s);
    if (d->side_count == 0)
        return SPSH_OK;
    return spsh__strategy_mean_aside(s->learner, &d->parts, away(d), &d->is_away, is_taken, err);
}

static void close_state(spsh__strategy *s)
{
    dpsgd *d = state_of(s);
    if (d == NULL)
        return;
    if (d->before.data != NULL)
        s->learner->backend->ops->free_fn(s->learner->backend, d->before);
    spsh__parts_close(&d->parts);
    for (uint32_t i = 0; i < ROUNDS * SIDES; i++)
        spsh__free(&s->allocator, d->theirs[i % ROUNDS][i / ROUNDS]);
    spsh__free(&s->allocator, d->mine);
    spsh__free(&s->allocator, d);
}

const spsh__strategy_ops spsh__strategy_dpsgd_ring = {
    .name = "dpsgd-ring",
    .has_own_model = true,
    .goes_in_step = true,
    .needs_runtime = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    SPSH__STRATEGY_OWN_AT_ONCE,
    .after_backward_fn = after_backward,
    .settle_fn = spsh__strategy_meet,
    .consensus_fn = consensus,
    .close_fn = close_state,
};

/* strategy_adpsgd.c: asynchronous decentralized SGD (Lian and others 2018) on a ring, as in
 * Zhang and others 2019, 2020: no learner waits for another.
 *
 *     w_i += (s_j - s_i) / 3,  w_j += (s_i - s_j) / 3        for each neighbor j on the ring
 *     w_i <- w_i - rate * U(g(w_i when the gradient began))
 *
 * With each gradient, a learner begins one exchange with its right neighbor, if the last exchange
 * is done. It answers its left neighbor at any time. Only the serving tasks do this, part by part,
 * a few parts ahead, while gradients are computed. Learners that make steps at the same pace
 * realize the mixing matrix of the ring: thirds of the learner and its two neighbors. In a world of
 * two, both neighbors are the same learner, and two exchanges run at once. The weight is then a
 * quarter each, so that both learners reach the mean; a half would swap the models.
 *
 * fixed    the ring of ranks: the difference between models shrinks, per step, by
 *          ((1 + 2 cos(2 pi / L)) / 3)^2: slowly if there are many learners
 * random   a different ring each time, drawn from the seed and the learner's exchange count:
 *          1/3 - 2 / (3 (L - 1)), for any L
 *
 * A lost learner (runtime.h) leaves the ring, and an exchange with it is over. The learners learn
 * of a loss at different times. Until all know, their rings differ, which is harmless because no
 * learner waits for another. The weight does not change, so both sides of an exchange use the same
 * weight.
 */
#include "own_model.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

#define PARTS_AHEAD 4u

typedef struct adpsgd {
    spsh__own_model model;
    bool is_random;
    double weight; /* factor of a difference */
    uint32_t *ring;
    bool *is_lost; /* learners: under the lock */
    /* under the lock: the exchange that this learner began */
    bool is_under_way;
    uint32_t peer, asked, answered;         /* parts */
    uint64_t exchange;                      /* how many were begun */
    spsh__backend_buffer sent[PARTS_AHEAD]; /* snapshots without an answer yet, of the arena's
                                               backend: part mod PARTS_AHEAD */
    float *mine;                            /* snapshot that is being sent */
} adpsgd;

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return spsh__mix64(*state);
}

/* Right-hand neighbor of this learner on the ring of one exchange. The ring holds the live ranks,
 * in rank order or permuted. Returns the learner's own rank if no other is alive. */
static uint32_t neighbour(const adpsgd *a, uint64_t exchange)
{
    const spsh__runtime *t = a->model.runtime;
    uint64_t state = a->model.learner->seed ^ (exchange * UINT64_C(0x2545f4914f6cdd1d));
    uint32_t count = 0, place = 0;
    for (uint32_t i = 0; i < t->world_size; i++)
        if (!a->is_lost[i])
            a->ring[count++] = i;
    if (count < 2)
        return t->rank;
    for (uint32_t i = count - 1; a->is_random && i > 0; i--) {
        const uint32_t other = (uint32_t)(draw(&state) % (i + 1)), moved = a->ring[i];
        a->ring[i] = a->ring[other];
        a->ring[other] = moved;
    }
    while (a->ring[place] != t->rank)
        place++;
    return a->ring[(place + 1) % count];
}

/* Under the lock, as all that follows of messages. */
static spsh_status ask(adpsgd *a, spsh_error *err)
{
    spsh__runtime *t = a->model.runtime;
    const uint32_t part = a->asked++;
    const spsh__message m = {.kind = SPSH__MESSAGE_ASK,
                             .part = part,
                             .number = a->exchange,
                             .bytes = a->mine,
                             .size_bytes = spsh__parts_bytes(&a->model.parts, part)};
    spsh__parts_keep(&a->model.parts, part, a->sent[part % PARTS_AHEAD]);
    const spsh_status rc = spsh__own_model_take(&a->model, part, a->mine, err);
    return rc != SPSH_OK ? rc : t->ops->post_fn(t, a->peer, &m, err);
}

static spsh_status begin(adpsgd *a, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (a->is_under_way)
        return SPSH_OK;
    a->peer = neighbour(a, a->exchange);
    if (a->peer == a->model.runtime->rank)
        return SPSH_OK;
    a->exchange++;
    a->is_under_way = true;
    a->asked = a->answered = 0;
    while (rc == SPSH_OK && a->asked < PARTS_AHEAD && a->asked < a->model.parts.count)
        rc = ask(a, err);
    return rc;
}

static spsh_status answer(adpsgd *a, const spsh__message *m, spsh_error *err)
{
    spsh__runtime *t = a->model.runtime;
    const spsh__message back = {.kind = SPSH__MESSAGE_ANSWER,
                                .part = m->part,
                                .number = m->number,
                                .bytes = a->mine,
                                .size_bytes = m->size_bytes};
    spsh_status rc = spsh__own_model_take(&a->model, m->part, a->mine, err);
    if (rc == SPSH_OK)
        rc = t->ops->post_fn(t, m->from, &back, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__parts_mix(&a->model.parts, m->part, a->weight, m->bytes,
                    (spsh__backend_buffer){NULL, false}); /* the arena is still the snapshot */
    spsh__own_model_mixed(&a->model, m->part);
    return SPSH_OK;
}

static spsh_status take_answer(adpsgd *a, const spsh__message *m, spsh_error *err)
{
    spsh__parts_mix(&a->model.parts, m->part, a->weight, m->bytes, a->sent[m->part % PARTS_AHEAD]);
    spsh__own_model_mixed(&a->model, m->part);
    a->answered++;
    a->is_under_way = a->answered < a->model.parts.count;
    return a->asked < a->model.parts.count ? ask(a, err) : SPSH_OK;
}

static spsh_status lose(adpsgd *a, uint32_t rank)
{
    a->is_lost[rank] = true;
    a->is_under_way = a->is_under_way && a->peer != rank;
    return SPSH_OK;
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    adpsgd *a = (adpsgd *)((spsh__strategy *)user)->state;
    const bool is_fit = spsh__parts_is_of(&a->model.parts, m);
    if (m->kind == SPSH__LOST_KIND)
        return lose(a, m->from);
    if (is_fit && m->kind == SPSH__MESSAGE_ASK)
        return answer(a, m, err);
    if (is_fit && m->kind == SPSH__MESSAGE_ANSWER && a->is_under_way && m->from == a->peer)
        return take_answer(a, m, err);
    return spsh__strategy_unknown(m, err);
}

/* ---- the table ---- */

static adpsgd *state_of(const spsh__strategy *s)
{
    return (adpsgd *)s->state;
}

static spsh_status open_state(spsh__strategy *s, spsh__learner *l, bool is_random, spsh_error *err)
{
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(adpsgd), err);
    adpsgd *a = state_of(s);
    if (rc == SPSH_OK)
        rc = spsh__own_model_open(l, 1, &a->model, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__backend *b = a->model.backend;
    a->is_random = is_random;
    a->weight = l->runtime->world_size > 2 ? 1.0 / 3 : 0.25;
    a->is_lost = spsh__new(&s->allocator, l->runtime->world_size, sizeof(*a->is_lost));
    a->ring = spsh__new(&s->allocator, l->runtime->world_size, sizeof(*a->ring));
    a->mine = spsh__new(&s->allocator, a->model.parts.part_elements, sizeof(*a->mine));
    if (a->ring == NULL || a->is_lost == NULL || a->mine == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "snapshots of the model");
    for (uint32_t i = 0; rc == SPSH_OK && i < PARTS_AHEAD; i++)
        rc = b->ops->alloc_fn(b, a->model.parts.part_elements, &a->sent[i], err);
    if (rc != SPSH_OK)
        return rc;
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_STRATEGY, serve, s);
    return SPSH_OK;
}

static spsh_status fixed_start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    return open_state(s, l, false, err);
}

static spsh_status random_start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    return open_state(s, l, true, err);
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    adpsgd *a = state_of(s);
    spsh__runtime *t = a->model.runtime;
    const spsh__mark mark = {SPSH__MARK_BEGIN, 0, s->learner->step};
    spsh_status rc = spsh__own_model_read(&a->model, err);
    if (rc == SPSH_OK)
        rc = t->ops->enter_fn(t, &mark, err);
    if (rc != SPSH_OK)
        return rc;
    rc = begin(a, err);
    t->ops->leave_fn(t);
    return rc != SPSH_OK ? rc : spsh__strategy_own_zero(s, err);
}

static bool next_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    return spsh__own_model_slice(&state_of(s)->model, number, ret);
}

/* For learners without a serving task. */
static spsh_status after_step(spsh__strategy *s, spsh_error *err)
{
    adpsgd *a = state_of(s);
    const spsh_status rc = spsh__own_model_after_step(&a->model, err);
    return rc != SPSH_OK ? rc : a->model.runtime->ops->poll_fn(a->model.runtime, err);
}

static bool is_over(void *user)
{
    return !((const adpsgd *)user)->is_under_way;
}

/* After the barrier, the exchanges of all learners are over, and all requests are answered. A
 * serving task may still mix in a snapshot under the lock. Taking the lock after the barrier waits
 * for it. */
static spsh_status settle(spsh__strategy *s, spsh_error *err)
{
    static const spsh__mark mark = {SPSH__MARK_WAIT, 0, 0};
    adpsgd *a = state_of(s);
    spsh__runtime *t = a->model.runtime;
    const spsh__mark mixed = {SPSH__MARK_MIX, 1, s->learner->step};
    spsh_status rc = t->ops->wait_fn(t, &mark, is_over, a, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__strategy_meet(s, err);
    if (rc == SPSH_OK)
        rc = t->ops->enter_fn(t, &mixed, err);
    if (rc == SPSH_OK)
        t->ops->leave_fn(t);
    return rc;
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    return spsh__own_model_consensus(&state_of(s)->model, is_taken, err);
}

static void close_state(spsh__strategy *s)
{
    adpsgd *a = state_of(s);
    if (a == NULL)
        return;
    for (uint32_t i = 0; i < PARTS_AHEAD && a->sent[i].data != NULL; i++)
        a->model.backend->ops->free_fn(a->model.backend, a->sent[i]);
    spsh__own_model_close(&a->model);
    spsh__free(&s->allocator, a->ring);
    spsh__free(&s->allocator, a->is_lost);
    spsh__free(&s->allocator, a->mine);
    spsh__free(&s->allocator, a);
}

#define ADPSGD(name_, start_)                                                                      \
    {                                                                                              \
        .name = (name_), .has_own_model = true, .needs_runtime = true, .outlives = true,           \
        .start_fn = (start_), .before_forward_fn = before_forward, SPSH__STRATEGY_OWN,             \
        .after_backward_fn = spsh__strategy_own_totals, .slice_fn = next_slice,                    \
        .after_step_fn = after_step, .settle_fn = settle, .consensus_fn = consensus,               \
        .close_fn = close_state                                                                    \
    }

const spsh__strategy_ops spsh__strategy_adpsgd_fixed = ADPSGD("adpsgd-fixed", fixed_start);
const spsh__strategy_ops spsh__strategy_adpsgd_random = ADPSGD("adpsgd-random", random_start);

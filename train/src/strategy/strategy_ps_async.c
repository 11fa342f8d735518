/* strategy_ps_async.c: asynchronous parameter servers (Dean and others 2012), with an optional
 * bound (Ho and others 2013).
 *
 *     learner  pushes its gradient, part by part, and continues with the weights that come back
 *     server   of a part, when a gradient arrives: w <- w - rate * U(g), and answers
 *
 * The serving task of learner p mod servers serves part p. The staleness t is the number of
 * gradients of others that arrive after a learner reads a part and before its own gradient arrives.
 * It is about L - 1 if all learners have the same speed.
 *
 * With a bound s, the answer to a learner waits until the learner is at most s steps ahead of the
 * slowest. 0 is bulk synchronous: each step has all gradients of the last one. Steps are counted
 * from the last time that all settled. Servers do not wait for a learner that has retired, or is
 * lost (runtime.h). No learner waits until the servers have received its retirement. That message
 * may arrive after all have settled and learn again, so it carries the number of its round. The
 * servers hold the moments of the optimizer. If a server is lost, its parts are lost, which ends
 * the run.
 */
#include "own_model.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

/* A learner, as a server sees it, per part. If steps overlap, two gradients may be unanswered. */
typedef struct client {
    uint64_t came, answered; /* number of gradients that arrived, and that were answered */
    uint64_t version;        /* version of the part in the last answer */
    bool has_retired;        /* servers do not wait for this learner */
} client;

typedef struct ps {
    spsh__own_model model; /* its arena: own parts as served, parts of others as last received */
    spsh__backend_buffer gradients; /* buffer for one part */
    uint32_t servers;
    float *mine;              /* one part, for the computing task */
    float *sent;              /* one part, under the lock */
    uint64_t pushed, settled; /* gradients pushed: in total, and up to the last settling */
    bool is_retired;
    uint64_t round; /* number of times that all learners settled; changes under the lock */
    /* under the lock */
    client *clients;    /* [part][learner]; used for own parts */
    uint64_t *versions; /* [part] */
    bool *is_lost;      /* [learner] */
    uint64_t answers;   /* number of parts that servers sent back */
} ps;

static ps *state_of(const spsh__strategy *s)
{
    return (ps *)s->state;
}

static uint32_t server_of(const ps *p, uint32_t part)
{
    return part % p->servers;
}

/* ---- server: under the lock ---- */

static client *clients_of(const ps *p, uint32_t part)
{
    return p->clients + (size_t)part * p->model.runtime->world_size;
}

static spsh_status send_weights(ps *p, uint32_t part, uint32_t to, spsh_error *err)
{
    spsh__runtime *t = p->model.runtime;
    client *c = clients_of(p, part) + to;
    const spsh__message m = {.kind = SPSH__MESSAGE_WEIGHTS,
                             .part = part,
                             .number = p->versions[part],
                             .bytes = p->sent,
                             .size_bytes = spsh__parts_bytes(&p->model.parts, part)};
    c->version = p->versions[part];
    c->answered++;
    const spsh_status rc = spsh__own_model_take(&p->model, part, p->sent, err);
    return rc != SPSH_OK ? rc : t->ops->post_fn(t, to, &m, err);
}

/* Return true if a learner's next answer is due: it would be at most `bound` steps ahead of `last`,
 * the step of the slowest learner. */
static bool is_due(const client *c, uint64_t last, uint32_t bound)
{
    if (c->answered == c->came)
        return false;
    return bound == UINT32_MAX || c->has_retired || last == UINT64_MAX ||
           c->answered + 1 <= last + bound;
}

static spsh_status answer(ps *p, uint32_t part, spsh_error *err)
{
    const uint32_t world = p->model.runtime->world_size;
    const uint32_t bound = p->model.learner->options.bound;
    client *c = clients_of(p, part);
    uint64_t last = UINT64_MAX;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < world; i++)
        last = !c[i].has_retired && c[i].came < last ? c[i].came : last;
    for (uint32_t i = 0; rc == SPSH_OK && i < world; i++)
        while (rc == SPSH_OK && is_due(&c[i], last, bound))
            rc = send_weights(p, part, i, err);
    return rc;
}

static spsh_status take_push(ps *p, const spsh__message *m, spsh_error *err)
{
    const spsh__learner *l = p->model.learner;
    const spsh__backend_ops *ops = p->model.backend->ops;
    const uint64_t count = spsh__parts_elements(&p->model.parts, m->part);
    const spsh__slice slice = {spsh__parts_offset(&p->model.parts, m->part), count};
    client *c = clients_of(p, m->part) + m->from;
    const uint64_t stale = p->versions[m->part] - c->version;
    const double scale = l->options.scales_by_staleness && stale > 1 ? 1.0 / (double)stale : 1;
    ops->write_f32_fn(p->model.backend, p->gradients, m->bytes, count);
    l->update_fn(l->update_user, &slice, p->gradients, scale);
    p->versions[m->part]++;
    spsh__learner_stale(l, stale);
    c->came = m->number + 1;
    c->has_retired = false;
    return answer(p, m->part, err);
}

/* Stop waiting for this learner, and send the answers that become due. */
static spsh_status let_retire(ps *p, uint32_t learner, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < p->model.parts.count; part++) {
        if (server_of(p, part) != p->model.runtime->rank)
            continue;
        clients_of(p, part)[learner].has_retired = true;
        rc = answer(p, part, err);
    }
    return rc;
}

static spsh_status take_done(ps *p, const spsh__message *m, spsh_error *err)
{
    return m->number == p->round ? let_retire(p, m->from, err) : SPSH_OK;
}

static spsh_status take_lost(ps *p, const spsh__message *m, spsh_error *err)
{
    if (m->from < p->servers)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                         "learner %u disconnected: the part of the model that it served is lost",
                         m->from);
    p->is_lost[m->from] = true;
    return let_retire(p, m->from, err);
}

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    ps *p = state_of((spsh__strategy *)user);
    const uint32_t rank = p->model.runtime->rank;
    if (m->kind == SPSH__LOST_KIND)
        return take_lost(p, m, err);
    if (m->kind == SPSH__MESSAGE_DONE && m->size_bytes == 0)
        return take_done(p, m, err);
    if (!spsh__parts_is_of(&p->model.parts, m))
        return spsh__strategy_unknown(m, err);
    if (m->kind == SPSH__MESSAGE_PUSH && server_of(p, m->part) == rank)
        return take_push(p, m, err);
    if (m->kind != SPSH__MESSAGE_WEIGHTS || server_of(p, m->part) != m->from)
        return spsh__strategy_unknown(m, err);
    p->answers++;
    if (m->from != rank)
        spsh__parts_put(&p->model.parts, m->part, m->bytes);
    return SPSH_OK;
}

/* ---- computing task ---- */

static bool has_answers(void *user)
{
    const ps *p = (const ps *)user;
    const uint64_t ahead = p->model.learner->options.overlaps ? 1 : 0;
    return p->pushed <= ahead || p->answers >= (p->pushed - ahead) * p->model.parts.count;
}

static bool has_all_answers(void *user)
{
    const ps *p = (const ps *)user;
    return p->answers == p->pushed * p->model.parts.count;
}

static spsh_status before_forward(spsh__strategy *s, spsh_error *err)
{
    ps *p = state_of(s);
    spsh__runtime *t = p->model.runtime;
    const spsh__mark mark = {SPSH__MARK_WAIT, 0, p->pushed};
    p->is_retired = false;
    spsh_status rc = t->ops->wait_fn(t, &mark, has_answers, p, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__own_model_read(&p->model, err);
    return rc != SPSH_OK ? rc : spsh__strategy_own_zero(s, err);
}

static spsh_status push(spsh__strategy *s, double scale, spsh_error *err)
{
    ps *p = state_of(s);
    const spsh__learner *l = s->learner;
    const spsh__backend_ops *ops = l->backend->ops;
    spsh__runtime *t = p->model.runtime;
    const spsh__mark mark = {SPSH__MARK_BEGIN, 0, p->pushed};
    spsh_status rc = t->ops->enter_fn(t, &mark, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t number = p->pushed++ - p->settled;
    t->ops->leave_fn(t);
    ops->scale_fn(l->backend, scale, l->gradients, l->arena_elements);
    for (uint32_t part = 0; rc == SPSH_OK && part < p->model.parts.count; part++) {
        const uint64_t offset = spsh__parts_offset(&p->model.parts, part);
        const spsh__message m = {.kind = SPSH__MESSAGE_PUSH,
                                 .part = part,
                                 .number = number,
                                 .bytes = p->mine,
                                 .size_bytes = spsh__parts_bytes(&p->model.parts, part)};
        ops->read_f32_fn(l->backend, p->mine, spsh__at(ops, l->gradients, offset),
                         spsh__parts_elements(&p->model.parts, part));
        rc = t->ops->post_fn(t, server_of(p, part), &m, err);
    }
    return rc;
}

/* Servers must not wait for a learner that has nothing more to push. */
static spsh_status retire(spsh__strategy *s, spsh_error *err)
{
    ps *p = state_of(s);
    spsh__runtime *t = p->model.runtime;
    const spsh__message done = {.kind = SPSH__MESSAGE_DONE, .number = p->round};
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 0; rc == SPSH_OK && !p->is_retired && r < p->servers; r++)
        rc = t->ops->post_fn(t, r, &done, err);
    p->is_retired = true;
    return rc;
}

/* All learners restart from step 0. No push arrives before all have finished consensus. */
static spsh_status reset_clocks(ps *p, spsh_error *err)
{
    spsh__runtime *t = p->model.runtime;
    const spsh__mark mark = {SPSH__MARK_BEGIN, 1, p->pushed};
    const spsh_status rc = t->ops->enter_fn(t, &mark, err);
    if (rc != SPSH_OK)
        return rc;
    p->settled = p->pushed;
    p->round++;
    p->is_retired = false;
    for (size_t i = 0; i < (size_t)p->model.parts.count * t->world_size; i++) {
        p->clients[i].came = p->clients[i].answered = 0;
        p->clients[i].has_retired = p->is_lost[i % t->world_size];
    }
    t->ops->leave_fn(t);
    return SPSH_OK;
}

static spsh_status settle(spsh__strategy *s, spsh_error *err)
{
    ps *p = state_of(s);
    spsh__runtime *t = p->model.runtime;
    const spsh__mark mark = {SPSH__MARK_WAIT, 1, p->pushed};
    spsh_status rc = retire(s, err);
    if (rc == SPSH_OK)
        rc = t->ops->wait_fn(t, &mark, has_all_answers, p, 0, err);
    if (rc == SPSH_OK)
        rc = spsh__strategy_meet(s, err);
    return rc != SPSH_OK ? rc : reset_clocks(p, err);
}

/* Copy each part from its server to all ranks. */
static spsh_status share_parts(const ps *p, spsh__parts *parts, spsh_error *err)
{
    spsh__comm *c = spsh__learner_living(p->model.learner); /* servers keep their ranks in it */
    spsh_status rc = SPSH_OK;
    for (uint32_t part = 0; rc == SPSH_OK && part < parts->count; part++) {
        const uint32_t server = server_of(p, part);
        if (c->rank == server)
            spsh__parts_take(parts, part, p->mine);
        rc = spsh__comm_broadcast(c, p->mine, spsh__parts_bytes(parts, part), server, err);
        if (rc == SPSH_OK && c->rank != server)
            spsh__parts_put(parts, part, p->mine);
    }
    return rc;
}

static spsh_status share_moments(const ps *p, spsh__backend_buffer moments, spsh_error *err)
{
    spsh__parts parts = {0};
    spsh_status rc = spsh__parts_open(p->model.backend, moments, p->model.parts.elements,
                                      p->servers, &parts, err);
    if (rc == SPSH_OK)
        rc = share_parts(p, &parts, err);
    spsh__parts_close(&parts);
    return rc;
}

static spsh_status consensus(spsh__strategy *s, bool is_taken, spsh_error *err)
{
    ps *p = state_of(s);
    const spsh__learner *l = s->learner;
    spsh_status rc = share_parts(p, &p->model.parts, err);
    for (int m = 0; rc == SPSH_OK && is_taken && m < 2; m++)
        if (l->moments[m].data != NULL)
            rc = share_moments(p, l->moments[m], err);
    if (rc == SPSH_OK)
        rc = spsh__strategy_mean_statistics(l, err);
    return rc != SPSH_OK ? rc : spsh__own_model_read(&p->model, err);
}

/* ---- the table ---- */

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t world = l->runtime->world_size;
    spsh_status rc = spsh__strategy_begin(s, l, sizeof(ps), err);
    if (rc != SPSH_OK)
        return rc;
    ps *p = state_of(s);
    p->servers = l->options.servers == 0 || l->options.servers > world ? world : l->options.servers;
    rc = spsh__own_model_open(l, p->servers, &p->model, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__parts *parts = &p->model.parts;
    rc =
        p->model.backend->ops->alloc_fn(p->model.backend, parts->part_elements, &p->gradients, err);
    p->mine = spsh__new(&s->allocator, parts->part_elements, sizeof(*p->mine));
    p->sent = spsh__new(&s->allocator, parts->part_elements, sizeof(*p->sent));
    p->clients = spsh__new(&s->allocator, (size_t)parts->count * world, sizeof(*p->clients));
    p->versions = spsh__new(&s->allocator, parts->count, sizeof(*p->versions));
    p->is_lost = spsh__new(&s->allocator, world, sizeof(*p->is_lost));
    if (rc == SPSH_OK && (p->mine == NULL || p->sent == NULL || p->clients == NULL ||
                          p->versions == NULL || p->is_lost == NULL))
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a parameter server");
    if (rc != SPSH_OK)
        return rc;
    l->runtime->ops->listen_fn(l->runtime, SPSH__SERVICE_STRATEGY, serve, s);
    return SPSH_OK;
}

static bool no_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    (void)s, (void)number, (void)ret;
    return false;
}

static void close_state(spsh__strategy *s)
{
    ps *p = state_of(s);
    if (p == NULL)
        return;
    if (p->gradients.data != NULL)
        p->model.backend->ops->free_fn(p->model.backend, p->gradients);
    spsh__own_model_close(&p->model);
    spsh__free(&s->allocator, p->mine);
    spsh__free(&s->allocator, p->sent);
    spsh__free(&s->allocator, p->clients);
    spsh__free(&s->allocator, p->versions);
    spsh__free(&s->allocator, p->is_lost);
    spsh__free(&s->allocator, p);
}

const spsh__strategy_ops spsh__strategy_ps_async = {
    .name = "ps-async",
    .has_own_model = true,
    .needs_runtime = true,
    .outlives = true,
    .start_fn = start,
    .before_forward_fn = before_forward,
    SPSH__STRATEGY_OWN,
    .after_backward_fn = spsh__strategy_own_totals,
    .slice_fn = no_slice,
    .push_fn = push,
    .after_step_fn = spsh__strategy_own_nothing,
    .settle_fn = settle,
    .retire_fn = retire,
    .consensus_fn = consensus,
    .close_fn = close_state,
};

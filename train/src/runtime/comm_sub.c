/* comm_sub.c: see comm_sub.h. */
#include "comm_sub.h"

#include "speechshard/inside.h"

static uint32_t above(const spsh__ranks *r, uint32_t rank)
{
    return r->first + rank * r->stride;
}

static uint32_t below(const spsh__ranks *r, uint32_t rank)
{
    return (rank - r->first) / r->stride;
}

static bool is_one(const spsh__ranks *r, uint32_t rank)
{
    return rank >= r->first && (rank - r->first) % r->stride == 0 &&
           (rank - r->first) / r->stride < r->count;
}

/* ---- comm.h ---- */

typedef struct sub_comm {
    spsh__comm comm; /* below it: the parent */
    spsh__ranks ranks;
    uint32_t tag_first;
    uint32_t *list; /* ranks of the members; NULL: first and stride give them */
} sub_comm;

static sub_comm *sub_of(const spsh__comm *c)
{
    return (sub_comm *)c->state;
}

static uint32_t rank_above(const sub_comm *s, uint32_t rank)
{
    return s->list != NULL ? s->list[rank] : above(&s->ranks, rank);
}

static spsh_status sub_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const sub_comm *s = sub_of(c);
    return c->below->ops->send_fn(c->below, rank_above(s, to), tag + s->tag_first, bytes,
                                  size_bytes, ret_handle, err);
}

static spsh_status sub_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const sub_comm *s = sub_of(c);
    return c->below->ops->receive_fn(c->below, rank_above(s, from), tag + s->tag_first, bytes,
                                     size_bytes, ret_handle, err);
}

static bool sub_done(spsh__comm *c, spsh__comm_handle handle)
{
    spsh__comm *parent = c->below;
    return parent->ops->done_fn(parent, handle);
}

static spsh_status sub_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                            spsh_error *err)
{
    spsh__comm *parent = c->below;
    return parent->ops->wait_fn(parent, handle, deadline_ms, err);
}

static bool sub_message_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    return spsh__comm_await(c->below, handle, deadline_ms);
}

static void sub_close(spsh__comm *c)
{
    const spsh_allocator allocator = c->allocator;
    spsh__free(&allocator, sub_of(c)->list);
    spsh__free(&allocator, sub_of(c));
}

static const spsh__comm_ops sub_ops = {
    .name = "sub",
    .send_fn = sub_send,
    .receive_fn = sub_receive,
    .done_fn = sub_done,
    .wait_fn = sub_wait,
    .await_fn = sub_message_await,
    .close_fn = sub_close,
};

spsh_status spsh__comm_sub_open(spsh__comm *parent, const spsh__ranks *ranks, uint32_t tag_first,
                                spsh__comm **ret_comm, spsh_error *err)
{
    if (!is_one(ranks, parent->rank))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "rank %u is not in this group of ranks",
                         parent->rank);
    sub_comm *s = spsh__new(&parent->allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    s->ranks = *ranks;
    s->tag_first = tag_first;
    s->comm = (spsh__comm){.ops = &sub_ops,
                           .rank = below(ranks, parent->rank),
                           .world_size = ranks->count,
                           .deadline_ms = parent->deadline_ms,
                           .below = parent,
                           .allocator = parent->allocator,
                           .state = s};
    *ret_comm = &s->comm;
    return SPSH_OK;
}

spsh_status spsh__comm_list_open(spsh__comm *parent, const uint32_t *list, uint32_t count,
                                 spsh__comm **ret_comm, spsh_error *err)
{
    const spsh__ranks all = {0, 1, parent->world_size};
    uint32_t own = 0;
    while (own < count && list[own] != parent->rank)
        own++;
    if (own == count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "rank %u is not one of them", parent->rank);
    spsh__comm *c = NULL;
    const spsh_status rc = spsh__comm_sub_open(parent, &all, 0, &c, err);
    if (rc != SPSH_OK)
        return rc;
    sub_comm *s = sub_of(c);
    s->list = spsh__new(&parent->allocator, count, sizeof(*list));
    if (s->list == NULL) {
        sub_close(c);
        return SPSH_NO_MEMORY(err);
    }
    memcpy(s->list, list, count * sizeof(*list));
    c->rank = own;
    c->world_size = count;
    *ret_comm = c;
    return SPSH_OK;
}

/* ---- runtime.h ---- */

typedef struct sub_runtime {
    spsh__runtime runtime; /* below it: the parent */
    spsh__ranks ranks;
    spsh_allocator allocator;
} sub_runtime;

static sub_runtime *runtime_of(spsh__runtime *t)
{
    return (sub_runtime *)t->state;
}

static spsh_status sub_serve(void *user, const spsh__message *m, spsh_error *err)
{
    sub_runtime *s = (sub_runtime *)user;
    spsh__message own = *m;
    const bool is_ours = is_one(&s->ranks, m->from);
    if (!is_ours && m->kind == SPSH__LOST_KIND)
        return SPSH_OK;
    if (!is_ours)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "learner %u sent a message to a learner outside its group", m->from);
    own.from = below(&s->ranks, m->from);
    return spsh__runtime_serve(&s->runtime, &own, err);
}

static spsh_status sub_post(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err)
{
    return t->below->ops->post_fn(t->below, above(&runtime_of(t)->ranks, to), m, err);
}

static spsh_status sub_await(spsh__runtime *t, const spsh__mark *mark, bool (*ready_fn)(void *user),
                             void *user, uint32_t deadline_ms, spsh_error *err)
{
    return t->below->ops->wait_fn(t->below, mark, ready_fn, user, deadline_ms, err);
}

static spsh_status sub_enter(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    return t->below->ops->enter_fn(t->below, mark, err);
}

static spsh_status sub_note(spsh__runtime *t, uint64_t *value, spsh_error *err)
{
    return t->below->ops->note_fn(t->below, value, err);
}

static void sub_listen(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn, void *user)
{
    t->below->ops->listen_fn(t->below, service, NULL, NULL);
    spsh__runtime_listen(t, service, serve_fn, user);
    if (serve_fn != NULL)
        t->below->ops->listen_fn(t->below, service, sub_serve, runtime_of(t));
}

static void sub_runtime_close(spsh__runtime *t)
{
    sub_runtime *s = runtime_of(t);
    const spsh_allocator allocator = s->allocator;
    for (uint32_t i = 0; i < SPSH__SERVICES; i++)
        if (t->listeners[i].serve_fn != NULL)
            t->below->ops->listen_fn(t->below, (spsh__service)i, NULL, NULL);
    spsh__free(&allocator, s);
}

static const spsh__runtime_ops sub_runtime_ops = {
    .name = "sub",
    .now_fn = spsh__runtime_below_now,
    .compute_fn = spsh__runtime_below_compute,
    .post_fn = sub_post,
    .poll_fn = spsh__runtime_below_poll,
    .wait_fn = sub_await,
    .enter_fn = sub_enter,
    .leave_fn = spsh__runtime_below_leave,
    .note_fn = sub_note,
    .listen_fn = sub_listen,
    .close_fn = sub_runtime_close,
};

spsh_status spsh__runtime_sub_open(spsh__runtime *parent, const spsh__ranks *ranks,
                                   const spsh_allocator *allocator, spsh__runtime **ret_runtime,
                                   spsh_error *err)
{
    sub_runtime *s = spsh__new(allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    s->ranks = *ranks;
    s->allocator = *allocator;
    s->runtime = (spsh__runtime){.ops = &sub_runtime_ops,
                                 .rank = below(ranks, parent->rank),
                                 .world_size = ranks->count,
                                 .deadline_ms = parent->deadline_ms,
                                 .below = parent,
                                 .state = s};
    *ret_runtime = &s->runtime;
    return SPSH_OK;
}

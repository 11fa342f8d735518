/* task_comm.c: see task_comm.h. */
#include "task_comm.h"

#include "train_internal.h"

/* A message that nobody has asked for yet; its bytes lie behind it. */
typedef struct early {
    struct early *next;
    uint32_t from, tag;
    size_t size_bytes;
} early;

/* A receive; handles are its place in the table, from 1. */
typedef struct receive {
    bool is_used, is_done;
    uint32_t from, tag;
    uint64_t order; /* the earliest takes what comes first */
    void *bytes;
    size_t size_bytes;
} receive;

typedef struct task_comm {
    spsh__comm comm;
    const spsh__task_comm_ops *ops;
    void *user;
    early *first;
    receive *receives;
    size_t receive_max;
    uint64_t receive_count;
} task_comm;

static task_comm *state_of(const spsh__comm *c)
{
    return (task_comm *)c->state;
}

static spsh_status new_receive(task_comm *t, spsh__comm_handle *ret, spsh_error *err)
{
    const spsh_allocator *a = &t->comm.allocator;
    for (size_t i = 0; i < t->receive_max; i++) {
        if (!t->receives[i].is_used) {
            *ret = i + 1;
            return SPSH_OK;
        }
    }
    const size_t more = t->receive_max == 0 ? 16 : 2 * t->receive_max;
    receive *receives = spsh__train_new(a, more, sizeof(*receives));
    if (receives == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "messages on their way");
    if (t->receive_max > 0)
        memcpy(receives, t->receives, t->receive_max * sizeof(*receives));
    spsh__train_delete(a, t->receives);
    t->receives = receives;
    *ret = t->receive_max + 1;
    t->receive_max = more;
    return SPSH_OK;
}

static spsh_status check_peer(const spsh__comm *c, uint32_t peer, spsh_error *err)
{
    if (peer < c->world_size && peer != c->rank)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                     "rank %u of %u has no other rank %u", c->rank, c->world_size, peer);
}

static spsh_status task_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                             size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const task_comm *t = state_of(c);
    *ret_handle = 0;
    const spsh_status rc = check_peer(c, to, err);
    return rc != SPSH_OK ? rc : t->ops->send_fn(t->user, to, tag, bytes, size_bytes, err);
}

/* What is longer than was asked for is another program's. */
static void take(receive *r, const void *bytes, size_t size_bytes)
{
    memcpy(r->bytes, bytes, size_bytes < r->size_bytes ? size_bytes : r->size_bytes);
    r->is_done = true;
}

static void take_early(task_comm *t, receive *r)
{
    for (early **at = &t->first; *at != NULL; at = &(*at)->next) {
        early *e = *at;
        if (e->from != r->from || e->tag != r->tag)
            continue;
        take(r, e + 1, e->size_bytes);
        *at = e->next;
        spsh__train_delete(&t->comm.allocator, e);
        return;
    }
}

static spsh_status task_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                                size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    task_comm *t = state_of(c);
    *ret_handle = 0;
    spsh_status rc = check_peer(c, from, err);
    if (rc == SPSH_OK)
        rc = new_receive(t, ret_handle, err);
    if (rc != SPSH_OK)
        return rc;
    receive *r = &t->receives[*ret_handle - 1];
    *r = (receive){.is_used = true,
                   .from = from,
                   .tag = tag,
                   .order = t->receive_count++,
                   .bytes = bytes,
                   .size_bytes = size_bytes};
    take_early(t, r);
    return SPSH_OK;
}

static spsh_status keep(task_comm *t, const early *head, const void *bytes)
{
    early **end = &t->first;
    early *e = spsh__train_new(&t->comm.allocator, 1, sizeof(*e) + head->size_bytes);
    if (e == NULL)
        return SPSH_E_NO_MEMORY;
    *e = *head;
    memcpy(e + 1, bytes, head->size_bytes);
    while (*end != NULL)
        end = &(*end)->next;
    *end = e;
    return SPSH_OK;
}

spsh_status spsh__task_comm_deliver(spsh__comm *comm, uint32_t from, uint32_t tag,
                                    const void *bytes, size_t size_bytes)
{
    task_comm *t = state_of(comm);
    const early head = {.from = from, .tag = tag, .size_bytes = size_bytes};
    receive *first = NULL;
    for (size_t i = 0; i < t->receive_max; i++) {
        receive *r = &t->receives[i];
        const bool is_for = r->is_used && !r->is_done && r->from == from && r->tag == tag;
        if (is_for && (first == NULL || r->order < first->order))
            first = r;
    }
    if (first == NULL)
        return keep(t, &head, bytes);
    take(first, bytes, size_bytes);
    return SPSH_OK;
}

static bool task_done(spsh__comm *c, spsh__comm_handle handle)
{
    return handle == 0 || state_of(c)->receives[handle - 1].is_done;
}

typedef struct waited {
    const task_comm *task; /* its table may move */
    spsh__comm_handle handle;
} waited;

static bool is_done(void *user)
{
    const waited *w = (const waited *)user;
    return w->task->receives[w->handle - 1].is_done;
}

static spsh_status task_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                             spsh_error *err)
{
    task_comm *t = state_of(c);
    waited w = {t, handle};
    if (handle == 0)
        return SPSH_OK;
    const spsh_status rc = t->ops->wait_fn(t->user, is_done, &w, deadline_ms);
    const uint32_t from = t->receives[handle - 1].from;
    t->receives[handle - 1].is_used = false;
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL(err, rc, SPSH_OFFSET_NONE, "rank %u has not answered within %u ms", from,
                         deadline_ms);
    return rc == SPSH_OK ? rc : SPSH_FAIL(err, rc, SPSH_OFFSET_NONE, "it is over");
}

static uint64_t task_now(const spsh__comm *c)
{
    const task_comm *t = state_of(c);
    return t->ops->now_fn(t->user);
}

static void task_close(spsh__comm *c)
{
    (void)c;
}

static const spsh__comm_ops task_ops = {
    .name = "tasks",
    .send_fn = task_send,
    .receive_fn = task_receive,
    .done_fn = task_done,
    .wait_fn = task_wait,
    .close_fn = task_close,
    .now_fn = task_now,
};

spsh_status spsh__task_comm_open(const spsh__task_comm_ops *ops, void *user, uint32_t rank,
                                 uint32_t world_size, const spsh_allocator *allocator,
                                 spsh__comm **ret_comm, spsh_error *err)
{
    task_comm *t = spsh__train_new(allocator, 1, sizeof(*t));
    if (t == NULL)
        return spsh__fail_memory(err);
    t->ops = ops;
    t->user = user;
    t->comm = (spsh__comm){.ops = &task_ops,
                           .rank = rank,
                           .world_size = world_size,
                           .allocator = *allocator,
                           .state = t};
    *ret_comm = &t->comm;
    return SPSH_OK;
}

void spsh__task_comm_free(spsh__comm *comm)
{
    if (comm == NULL)
        return;
    task_comm *t = state_of(comm);
    const spsh_allocator allocator = comm->allocator;
    while (t->first != NULL) {
        early *next = t->first->next;
        spsh__train_delete(&allocator, t->first);
        t->first = next;
    }
    spsh__train_delete(&allocator, t->receives);
    spsh__train_delete(&allocator, t);
}

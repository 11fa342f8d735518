/* comm_tasks.c: see comm_tasks.h. */
#include "comm_tasks.h"

#include "speechshard/inside.h"

/* A message that arrived before its receive was posted. Its bytes follow the struct. */
typedef struct early {
    struct early *next;
    uint32_t from, tag;
    size_t size_bytes;
} early;

/* A receive; handles are its place in the table, from 1. */
typedef struct receive {
    bool is_done;
    uint32_t from, tag;
    spsh__comm_handle next; /* next in its bin (waiting) or in the free list (finished); 0: none */
    void *bytes;
    size_t size_bytes;
} receive;

enum { BINS = 64 };

/* Hash bin of some (sender, tag) pairs: waiting receives, and messages that arrived before their
 * receive, both oldest first. A collective of many learners posts one receive per learner at once.
 */
typedef struct bin {
    spsh__comm_handle first_receive;
    early *first_early;
} bin;

typedef struct task_comm {
    spsh__comm comm;
    const spsh__task_comm_ops *ops;
    void *user;
    bin bins[BINS];
    receive *receives;
    size_t receive_max;
    spsh__comm_handle first_free;
} task_comm;

static task_comm *state_of(const spsh__comm *c)
{
    return (task_comm *)c->state;
}

static bin *bin_of(task_comm *t, uint32_t from, uint32_t tag)
{
    return &t->bins[(from + 31 * tag) % BINS];
}

static spsh_status more_receives(task_comm *t, spsh_error *err)
{
    const size_t more = t->receive_max == 0 ? 16 : 2 * t->receive_max;
    receive *receives =
        spsh__enlarge(&t->comm.allocator, t->receives, t->receive_max, more, sizeof(*receives));
    if (receives == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "messages in flight");
    for (size_t i = t->receive_max; i < more; i++)
        receives[i].next = i + 1 < more ? i + 2 : 0;
    t->receives = receives;
    t->first_free = t->receive_max + 1;
    t->receive_max = more;
    return SPSH_OK;
}

static spsh_status new_receive(task_comm *t, spsh__comm_handle *ret, spsh_error *err)
{
    const spsh_status rc = t->first_free == 0 ? more_receives(t, err) : SPSH_OK;
    if (rc != SPSH_OK)
        return rc;
    *ret = t->first_free;
    t->first_free = t->receives[*ret - 1].next;
    return SPSH_OK;
}

static void append_receive(task_comm *t, bin *to, spsh__comm_handle handle)
{
    spsh__comm_handle *at = &to->first_receive;
    while (*at != 0)
        at = &t->receives[*at - 1].next;
    *at = handle;
}

static void remove_receive(task_comm *t, bin *from, spsh__comm_handle handle)
{
    spsh__comm_handle *at = &from->first_receive;
    while (*at != handle)
        at = &t->receives[*at - 1].next;
    *at = t->receives[handle - 1].next;
}

static spsh_status task_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                             size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const task_comm *t = state_of(c);
    *ret_handle = 0;
    const spsh_status rc = spsh__comm_check_peer(c, to, err);
    return rc != SPSH_OK ? rc : t->ops->send_fn(t->user, to, tag, bytes, size_bytes, err);
}

/* Truncate a message that is longer than its receive. Only a mismatched program sends one. */
static void take(receive *r, const void *bytes, size_t size_bytes)
{
    memcpy(r->bytes, bytes, size_bytes < r->size_bytes ? size_bytes : r->size_bytes);
    r->is_done = true;
}

static bool take_early(task_comm *t, bin *of, receive *r)
{
    for (early **at = &of->first_early; *at != NULL; at = &(*at)->next) {
        early *e = *at;
        if (e->from != r->from || e->tag != r->tag)
            continue;
        take(r, e + 1, e->size_bytes);
        *at = e->next;
        spsh__free(&t->comm.allocator, e);
        return true;
    }
    return false;
}

static spsh_status task_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                                size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    task_comm *t = state_of(c);
    *ret_handle = 0;
    spsh_status rc = spsh__comm_check_peer(c, from, err);
    if (rc == SPSH_OK)
        rc = new_receive(t, ret_handle, err);
    if (rc != SPSH_OK)
        return rc;
    receive *r = &t->receives[*ret_handle - 1];
    *r = (receive){.from = from, .tag = tag, .bytes = bytes, .size_bytes = size_bytes};
    bin *of = bin_of(t, from, tag);
    if (!take_early(t, of, r))
        append_receive(t, of, *ret_handle);
    return SPSH_OK;
}

static spsh_status keep(task_comm *t, const early *head, const void *bytes)
{
    early **end = &bin_of(t, head->from, head->tag)->first_early;
    early *e = spsh__new(&t->comm.allocator, 1, sizeof(*e) + head->size_bytes);
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
    bin *to = bin_of(t, from, tag);
    for (spsh__comm_handle at = to->first_receive; at != 0; at = t->receives[at - 1].next) {
        receive *r = &t->receives[at - 1];
        if (r->from != from || r->tag != tag)
            continue;
        remove_receive(t, to, at);
        take(r, bytes, size_bytes);
        return SPSH_OK;
    }
    return keep(t, &head, bytes);
}

static bool task_done(spsh__comm *c, spsh__comm_handle handle)
{
    return handle == 0 || state_of(c)->receives[handle - 1].is_done;
}

typedef struct waited {
    const task_comm *task; /* task, not message: the task's table may move */
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
    receive *r = &t->receives[handle - 1];
    const uint32_t from = r->from;
    if (!r->is_done)
        remove_receive(t, bin_of(t, from, r->tag), handle);
    r->next = t->first_free;
    t->first_free = handle;
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL(err, rc, "rank %u did not answer within %u ms", from, deadline_ms);
    return rc == SPSH_OK ? rc : SPSH_FAIL(err, rc, "the run ended while a message was awaited");
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
    task_comm *t = spsh__new(allocator, 1, sizeof(*t));
    if (t == NULL)
        return SPSH_NO_MEMORY(err);
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
    for (uint32_t b = 0; b < BINS; b++) {
        early *next = NULL;
        for (early *e = t->bins[b].first_early; e != NULL; e = next) {
            next = e->next;
            spsh__free(&allocator, e);
        }
    }
    spsh__free(&allocator, t->receives);
    spsh__free(&allocator, t);
}

/* sim_comm.c: comm.h over the links of a simulation: sends are copied and done at once, receives
 * take what comes in the order in which they were posted. */
#include "sim_internal.h"
#include "train_internal.h"

static spsh__sim_learner *learner_of(const spsh__comm *c)
{
    return (spsh__sim_learner *)c->state;
}

static spsh_status new_handle(spsh__sim_learner *l, spsh__comm_handle *ret, spsh_error *err)
{
    const spsh_allocator *a = &l->comm.allocator;
    for (size_t i = 0; i < l->handle_count; i++) {
        if (!l->handles[i].is_used) {
            *ret = i + 1;
            return SPSH_OK;
        }
    }
    const size_t more = l->handle_count == 0 ? 16 : 2 * l->handle_count;
    spsh__sim_handle *handles = spsh__train_new(a, more, sizeof(*handles));
    if (handles == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "messages on their way");
    if (l->handle_count > 0)
        memcpy(handles, l->handles, l->handle_count * sizeof(*handles));
    spsh__train_delete(a, l->handles);
    l->handles = handles;
    *ret = l->handle_count + 1;
    l->handle_count = more;
    return SPSH_OK;
}

static spsh_status check_peer(const spsh__comm *c, uint32_t peer, spsh_error *err)
{
    if (peer < c->world_size && peer != c->rank)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                     "rank %u of %u has no other rank %u", c->rank, c->world_size, peer);
}

static spsh_status sim_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const spsh__parcel head = {.from = c->rank, .to = to, .is_comm = true, .tag = tag};
    *ret_handle = 0;
    const spsh_status rc = check_peer(c, to, err);
    return rc != SPSH_OK ? rc : spsh__sim_send(learner_of(c), &head, bytes, size_bytes, err);
}

/* A message that is longer than what was asked for is another program's. */
static void take(spsh__sim_handle *h, const spsh__parcel *parcel)
{
    const size_t size = parcel->message.size_bytes;
    memcpy(h->bytes, parcel->message.bytes, size < h->size_bytes ? size : h->size_bytes);
    h->is_done = true;
}

/* The first that lies there, of this sender and tag. */
static spsh__parcel *find_early(spsh__sim_learner *l, uint32_t from, uint32_t tag)
{
    spsh__parcel_queue rest = {NULL, NULL};
    spsh__parcel *found = NULL, *p = NULL;
    while ((p = spsh__parcel_pop(&l->early)) != NULL) {
        if (found == NULL && p->from == from && p->tag == tag)
            found = p;
        else
            spsh__parcel_push(&rest, p);
    }
    l->early = rest;
    return found;
}

static spsh_status sim_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    spsh__sim_learner *l = learner_of(c);
    *ret_handle = 0;
    spsh_status rc = check_peer(c, from, err);
    if (rc == SPSH_OK)
        rc = new_handle(l, ret_handle, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__sim_handle *h = &l->handles[*ret_handle - 1];
    *h = (spsh__sim_handle){.is_used = true,
                            .is_receive = true,
                            .peer = from,
                            .tag = tag,
                            .order = l->receive_count++,
                            .bytes = bytes,
                            .size_bytes = size_bytes};
    spsh__parcel *parcel = find_early(l, from, tag);
    if (parcel != NULL) {
        take(h, parcel);
        spsh__sim_free(l, parcel);
    }
    return SPSH_OK;
}

void spsh__sim_comm_deliver(spsh__sim_learner *l, spsh__parcel *parcel)
{
    spsh__sim_handle *first = NULL;
    for (size_t i = 0; i < l->handle_count; i++) {
        spsh__sim_handle *h = &l->handles[i];
        const bool is_for = h->is_used && h->is_receive && !h->is_done && h->peer == parcel->from &&
                            h->tag == parcel->tag;
        if (is_for && (first == NULL || h->order < first->order))
            first = h;
    }
    if (first == NULL) {
        spsh__parcel_push(&l->early, parcel);
        return;
    }
    take(first, parcel);
    spsh__sim_free(l, parcel);
}

static bool sim_done(spsh__comm *c, spsh__comm_handle handle)
{
    return handle == 0 || learner_of(c)->handles[handle - 1].is_done;
}

typedef struct waited {
    const spsh__sim_learner *learner; /* its table may move */
    spsh__comm_handle handle;
} waited;

static bool is_done(void *user)
{
    const waited *w = (const waited *)user;
    return w->learner->handles[w->handle - 1].is_done;
}

static spsh_status sim_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                            spsh_error *err)
{
    spsh__sim_learner *l = learner_of(c);
    waited w = {l, handle};
    if (handle == 0)
        return SPSH_OK;
    const uint64_t deadline_ns =
        l->runtime.ops->now_fn(&l->runtime) + (uint64_t)deadline_ms * UINT64_C(1000000);
    const spsh_status rc = spsh__sim_wait(l, is_done, &w, deadline_ns);
    const uint32_t peer = l->handles[handle - 1].peer;
    l->handles[handle - 1].is_used = false;
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL(err, rc, SPSH_OFFSET_NONE, "rank %u has not answered within %u ms", peer,
                         deadline_ms);
    return rc == SPSH_OK ? rc : SPSH_FAIL(err, rc, SPSH_OFFSET_NONE, "the simulation is over");
}

static void sim_close(spsh__comm *c)
{
    (void)c; /* the simulation's */
}

static const spsh__comm_ops sim_comm_ops = {
    .name = "sim",
    .send_fn = sim_send,
    .receive_fn = sim_receive,
    .done_fn = sim_done,
    .wait_fn = sim_wait,
    .close_fn = sim_close,
};

void spsh__sim_comm_start(spsh__sim_learner *l)
{
    l->comm = (spsh__comm){.ops = &sim_comm_ops,
                           .rank = l->runtime.rank,
                           .world_size = l->runtime.world_size,
                           .deadline_ms = l->runtime.deadline_ms,
                           .allocator = *spsh_allocator_default(),
                           .state = l};
}

void spsh__sim_comm_stop(spsh__sim_learner *l)
{
    spsh__train_delete(&l->comm.allocator, l->handles);
}

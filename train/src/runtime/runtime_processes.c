/* runtime_processes.c: see runtime_processes.h.
 *
 * A message is a head of 32 bytes, followed by its bytes, if any. Each is one message of comm.h,
 * with a separate tag. A head is always expected from every other rank, then its bytes. Then the
 * message is served, and the next head is expected. The messages of a rank are thus served in
 * order.
 *
 *     head   u32 kind | u32 part | u64 number | u64 size | u64 0
 *
 * A posted message is stored in a separate buffer until comm.h has sent it. The serving thread
 * frees the buffer. At the end each rank sends BYE to all others, and serves until all have sent
 * BYE.
 *
 * If the carrier loses ranks one by one, and comm->outlives is set, a rank that disconnects without
 * BYE is lost. First its messages are served, then its loss. Queued messages for it are dropped,
 * and later messages to it are not sent.
 */
#include "runtime_processes.h"

#include "base/steady_wait.h"

#define TAG_HEAD 29998u
#define TAG_BODY 29999u
#define KIND_BYE SPSH__MESSAGE_KIND_MAX

enum { HEAD_BYTES = 32, SWEEP_MS = 200 };

typedef struct queued_message {
    struct queued_message *next;
    uint32_t to;
    spsh__comm_handle head, body;
    uint8_t head_bytes[HEAD_BYTES];
    spsh__message message; /* for a message to this rank */
    uint8_t bytes[];
} queued_message;

/* Another rank, as the serving thread sees it. */
typedef struct peer {
    spsh__comm_handle handle; /* receive of a head or its bytes */
    bool is_body, has_sent_bye;
    bool is_lost;     /* changes locked for posting, too */
    bool is_reported; /* its loss was reported to all listeners; under the lock */
    spsh__message message;
    uint8_t *bytes;
    size_t capacity;
    uint8_t head[HEAD_BYTES]; /* comm.h writes here: separate from fields that are read meanwhile */
} peer;

typedef struct processes {
    spsh__runtime runtime;
    spsh__comm *comm;
    spsh_allocator allocator;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* lock of the learner */
    pthread_cond_t news;  /* a message was served, a listener was set, or the run is over */
    bool is_closing;
    bool outlives;      /* continue after the loss of ranks */
    spsh_status status; /* failure of serving */
    spsh_error error;
    pthread_mutex_t out_lock;
    pthread_cond_t own_news;              /* own_first changed, or the run is over */
    queued_message *out;                  /* messages being sent */
    queued_message *own_first, *own_last; /* messages to this learner itself */
    /* used by the serving thread */
    peer *peers;
    spsh__comm_handle *handles;
    uint32_t *whose; /* rank of each handle */
} processes;

static processes *processes_of(spsh__runtime *t)
{
    return (processes *)t->state;
}

/* ---- posting ---- */

static queued_message *new_queued(const processes *p, const spsh__message *m)
{
    queued_message *one = spsh__new(&p->allocator, 1, sizeof(*one) + m->size_bytes);
    if (one == NULL)
        return NULL;
    spsh__store_u32le(one->head_bytes, m->kind);
    spsh__store_u32le(one->head_bytes + 4, m->part);
    spsh__store_u64le(one->head_bytes + 8, m->number);
    spsh__store_u64le(one->head_bytes + 16, m->size_bytes);
    one->message = *m;
    one->message.from = p->runtime.rank;
    one->message.bytes = one->bytes;
    if (m->size_bytes > 0)
        memcpy(one->bytes, m->bytes, m->size_bytes);
    return one;
}

/* Call with the lock for posting held, so that each head is followed by its bytes. */
static spsh_status send(processes *p, uint32_t to, queued_message *one, spsh_error *err)
{
    spsh__comm *c = p->comm;
    const size_t size = one->message.size_bytes;
    one->to = to;
    spsh_status rc = c->ops->send_fn(c, to, TAG_HEAD, one->head_bytes, HEAD_BYTES, &one->head, err);
    if (rc == SPSH_OK && size > 0)
        rc = c->ops->send_fn(c, to, TAG_BODY, one->bytes, size, &one->body, err);
    one->next = p->out;
    p->out = one;
    return rc;
}

static void put_own(processes *p, queued_message *one)
{
    if (p->own_last != NULL)
        p->own_last->next = one;
    else
        p->own_first = one;
    p->own_last = one;
}

/* Wake the serving thread: from its wait for other ranks, or, in a world of one, for messages to
 * itself. Call with the lock for posting held. */
static void wake(processes *p)
{
    (void)pthread_cond_broadcast(&p->own_news);
    if (p->comm->ops->wake_fn != NULL)
        p->comm->ops->wake_fn(p->comm);
}

static spsh_status post(processes *p, uint32_t to, const spsh__message *m, spsh_error *err)
{
    queued_message *one = new_queued(p, m);
    spsh_status rc = SPSH_OK;
    if (one == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message");
    (void)pthread_mutex_lock(&p->out_lock);
    if (to != p->runtime.rank && p->peers[to].is_lost) {
        spsh__free(&p->allocator, one);
    } else if (to != p->runtime.rank) {
        rc = send(p, to, one, err);
    } else {
        put_own(p, one);
        wake(p);
    }
    (void)pthread_mutex_unlock(&p->out_lock);
    return rc;
}

/* Finish a send that is done. */
static spsh_status end_send(const processes *p, const queued_message *one, spsh_error *err)
{
    spsh__comm *c = p->comm;
    if (p->peers[one->to].is_lost) {
        c->ops->drop_fn(c, one->head);
        c->ops->drop_fn(c, one->body);
        return SPSH_OK;
    }
    const spsh_status rc = c->ops->wait_fn(c, one->head, c->deadline_ms, err);
    return rc != SPSH_OK ? rc : c->ops->wait_fn(c, one->body, c->deadline_ms, err);
}

/* Free messages that were sent, or never will be because their rank is lost. */
static spsh_status sweep(processes *p, spsh_error *err)
{
    spsh__comm *c = p->comm;
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&p->out_lock);
    for (queued_message **at = &p->out; rc == SPSH_OK && *at != NULL;) {
        queued_message *one = *at;
        if (!p->peers[one->to].is_lost &&
            (!c->ops->done_fn(c, one->head) || !c->ops->done_fn(c, one->body))) {
            at = &one->next;
            continue;
        }
        rc = end_send(p, one, err);
        if (rc == SPSH_OK) {
            *at = one->next;
            spsh__free(&p->allocator, one);
        }
    }
    (void)pthread_mutex_unlock(&p->out_lock);
    return rc;
}

/* ---- serving ---- */

/* Wait until the message has a listener, or the runtime closes. Locked. */
static bool is_listened_to(processes *p, const spsh__message *m)
{
    while (!spsh__runtime_has_listener(&p->runtime, m) && !p->is_closing)
        (void)pthread_cond_wait(&p->news, &p->lock);
    return spsh__runtime_has_listener(&p->runtime, m);
}

static spsh_status serve(processes *p, const spsh__message *m, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&p->lock);
    if (m->kind == SPSH__LOST_KIND)
        p->peers[m->from].is_reported = true;
    if (is_listened_to(p, m))
        rc = spsh__runtime_serve(&p->runtime, m, err);
    (void)pthread_cond_broadcast(&p->news);
    (void)pthread_mutex_unlock(&p->lock);
    return rc;
}

static spsh_status serve_own(processes *p, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (queued_message *one = NULL; rc == SPSH_OK;) {
        (void)pthread_mutex_lock(&p->out_lock);
        one = p->own_first;
        if (one != NULL)
            p->own_first = one->next;
        if (p->own_first == NULL)
            p->own_last = NULL;
        (void)pthread_mutex_unlock(&p->out_lock);
        if (one == NULL)
            return SPSH_OK;
        rc = serve(p, &one->message, err);
        spsh__free(&p->allocator, one);
    }
    return rc;
}

static spsh_status await_head(processes *p, uint32_t rank, spsh_error *err)
{
    spsh__comm *c = p->comm;
    peer *from = &p->peers[rank];
    from->is_body = false;
    return c->ops->receive_fn(c, rank, TAG_HEAD, from->head, HEAD_BYTES, &from->handle, err);
}

static spsh_status await_body(processes *p, uint32_t rank, spsh_error *err)
{
    spsh__comm *c = p->comm;
    peer *from = &p->peers[rank];
    const size_t size = from->message.size_bytes;
    if (size > from->capacity) {
        spsh__free(&p->allocator, from->bytes);
        from->bytes = spsh__new(&p->allocator, size, 1);
        from->capacity = from->bytes != NULL ? size : 0;
    }
    if (from->bytes == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message of %zu bytes", size);
    from->is_body = true;
    from->message.bytes = from->bytes;
    return c->ops->receive_fn(c, rank, TAG_BODY, from->bytes, size, &from->handle, err);
}

static spsh_status take_head(processes *p, uint32_t rank, spsh_error *err)
{
    peer *from = &p->peers[rank];
    from->message = (spsh__message){.from = rank,
                                    .kind = spsh__load_u32le(from->head),
                                    .part = spsh__load_u32le(from->head + 4),
                                    .number = spsh__load_u64le(from->head + 8),
                                    .size_bytes = spsh__load_u64le(from->head + 16)};
    if (from->message.kind == KIND_BYE) {
        from->has_sent_bye = true;
        return SPSH_OK;
    }
    if (from->message.kind > KIND_BYE || from->message.kind == SPSH__LOST_KIND ||
        from->message.size_bytes > SPSH__PART_BYTES)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "rank %u sent an invalid message; do all ranks run the same program?",
                         rank);
    if (from->message.size_bytes > 0)
        return await_body(p, rank, err);
    const spsh_status rc = serve(p, &from->message, err);
    return rc != SPSH_OK ? rc : await_head(p, rank, err);
}

static spsh_status lose(processes *p, uint32_t rank, spsh_error *err)
{
    const spsh__message lost = {.from = rank, .kind = SPSH__LOST_KIND};
    peer *from = &p->peers[rank];
    (void)pthread_mutex_lock(&p->out_lock);
    from->is_lost = true;
    (void)pthread_mutex_unlock(&p->out_lock);
    p->comm->ops->drop_fn(p->comm, from->handle);
    return serve(p, &lost, err);
}

/* Handle a finished receive, or a lost rank. A receive that is not done when the rank disconnects
 * is never done later. */
static spsh_status take(processes *p, uint32_t rank, spsh_error *err)
{
    spsh__comm *c = p->comm;
    peer *from = &p->peers[rank];
    if (p->outlives && c->ops->has_gone_fn(c, rank) && !c->ops->done_fn(c, from->handle))
        return lose(p, rank, err);
    spsh_status rc = c->ops->wait_fn(c, from->handle, c->deadline_ms, err);
    if (rc != SPSH_OK)
        return rc;
    if (!from->is_body)
        return take_head(p, rank, err);
    rc = serve(p, &from->message, err);
    return rc != SPSH_OK ? rc : await_head(p, rank, err);
}

/* Wait for the first receive that finishes. */
static spsh_status turn(processes *p, uint32_t *ret_open, spsh_error *err)
{
    spsh__comm *c = p->comm;
    uint32_t count = 0, which = 0;
    for (uint32_t r = 0; r < c->world_size; r++) {
        if (r == c->rank || p->peers[r].has_sent_bye || p->peers[r].is_lost)
            continue;
        p->handles[count] = p->peers[r].handle;
        p->whose[count++] = r;
    }
    *ret_open = count;
    if (count == 0)
        return SPSH_OK;
    spsh_status rc = c->ops->wait_any_fn(c, p->handles, count, SWEEP_MS, &which, err);
    if (rc == SPSH_OK && which < count)
        rc = take(p, p->whose[which], err);
    return rc != SPSH_OK ? rc : sweep(p, err);
}

/* The serving loop in a world of one. */
static void await_own(processes *p)
{
    const struct timespec end = spsh__timespec_after_ms(SWEEP_MS);
    (void)pthread_mutex_lock(&p->out_lock);
    if (p->own_first == NULL)
        (void)pthread_cond_timedwait(&p->own_news, &p->out_lock, &end);
    (void)pthread_mutex_unlock(&p->out_lock);
}

static void *serve_all(void *user)
{
    processes *p = (processes *)user;
    spsh_error err = SPSH_ERROR_INIT;
    uint32_t open = 1;
    bool is_closing = false;
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 0; rc == SPSH_OK && r < p->comm->world_size; r++)
        if (r != p->comm->rank)
            rc = await_head(p, r, &err);
    while (rc == SPSH_OK && (open > 0 || !is_closing) &&
           !(is_closing && spsh__comm_has_failed(p->comm))) {
        rc = turn(p, &open, &err);
        if (rc == SPSH_OK)
            rc = serve_own(p, &err);
        if (rc == SPSH_OK && open == 0)
            await_own(p);
        (void)pthread_mutex_lock(&p->lock);
        is_closing = p->is_closing;
        (void)pthread_mutex_unlock(&p->lock);
    }
    (void)pthread_mutex_lock(&p->lock);
    if (p->status == SPSH_OK) { /* else a listener failed first */
        p->status = rc;
        p->error = err;
    }
    (void)pthread_cond_broadcast(&p->news);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the table of runtime.h ---- */

static uint64_t processes_now(spsh__runtime *t)
{
    (void)t;
    return spsh__now_ns();
}

static void processes_compute(spsh__runtime *t, uint64_t duration_ns)
{
    struct timespec left = {(time_t)(duration_ns / 1000000000), (long)(duration_ns % 1000000000)};
    (void)t;
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Call with the lock held. */
static spsh_status failure(const processes *p, spsh_error *err)
{
    return spsh__fail_again(p->status, &p->error, err);
}

static spsh_status processes_post(spsh__runtime *t, uint32_t to, const spsh__message *m,
                                  spsh_error *err)
{
    if (to >= t->world_size || m->size_bytes > SPSH__PART_BYTES)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "learner %u does not exist, or the message of %zu bytes is too large", to,
                         m->size_bytes);
    return post(processes_of(t), to, m, err);
}

static spsh_status processes_poll(spsh__runtime *t, spsh_error *err)
{
    processes *p = processes_of(t);
    (void)pthread_mutex_lock(&p->lock);
    const spsh_status rc = failure(p, err);
    (void)pthread_mutex_unlock(&p->lock);
    return rc;
}

static spsh_status processes_wait(spsh__runtime *t, const spsh__mark *mark,
                                  bool (*ready_fn)(void *user), void *user, uint32_t deadline_ms,
                                  spsh_error *err)
{
    processes *p = processes_of(t);
    const uint32_t ms = deadline_ms > 0 ? deadline_ms : t->deadline_ms;
    const struct timespec end = spsh__timespec_after_ms(ms);
    int late = 0;
    (void)pthread_mutex_lock(&p->lock);
    bool is_ready = ready_fn(user);
    while (!is_ready && p->status == SPSH_OK && late == 0) {
        late = pthread_cond_timedwait(&p->news, &p->lock, &end);
        is_ready = ready_fn(user);
    }
    spsh_status rc = is_ready ? SPSH_OK : failure(p, err);
    (void)pthread_mutex_unlock(&p->lock);
    if (!is_ready && rc == SPSH_OK)
        rc = SPSH_FAIL(
            err, SPSH_E_TIMEOUT,
            "learner %u waited %u ms for the others without success (mark %u, number %llu)",
            t->rank, ms, mark->kind, (unsigned long long)mark->number);
    return rc;
}

static spsh_status processes_enter(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    processes *p = processes_of(t);
    (void)mark;
    (void)pthread_mutex_lock(&p->lock);
    const spsh_status rc = failure(p, err);
    if (rc != SPSH_OK)
        (void)pthread_mutex_unlock(&p->lock);
    return rc;
}

static void processes_leave(spsh__runtime *t)
{
    (void)pthread_mutex_unlock(&processes_of(t)->lock);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): a replay writes it */
static spsh_status processes_note(spsh__runtime *t, uint64_t *value, spsh_error *err)
{
    (void)t, (void)value, (void)err;
    return SPSH_OK;
}

static void processes_listen(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn,
                             void *user)
{
    processes *p = processes_of(t);
    (void)pthread_mutex_lock(&p->lock);
    spsh__runtime_listen(t, service, serve_fn, user);
    for (uint32_t r = 0; serve_fn != NULL && r < t->world_size; r++) {
        const spsh__message lost = {.from = r, .kind = SPSH__LOST_KIND};
        if (p->peers[r].is_reported && p->status == SPSH_OK)
            p->status = serve_fn(user, &lost, &p->error);
    }
    (void)pthread_cond_broadcast(&p->news);
    (void)pthread_mutex_unlock(&p->lock);
}

static void send_bye(processes *p)
{
    const spsh__message bye = {.kind = KIND_BYE};
    for (uint32_t r = 0; r < p->comm->world_size; r++)
        if (r != p->comm->rank && !spsh__comm_has_failed(p->comm))
            (void)post(p, r, &bye, NULL); /* skips lost ranks */
}

static void free_queued(processes *p, queued_message *first)
{
    while (first != NULL) {
        queued_message *next = first->next;
        spsh__free(&p->allocator, first);
        first = next;
    }
}

/* Do not free posted messages that may still be in flight: if only serving has failed, or after a
 * failure of a carrier that lingers. */
static void free_state(processes *p)
{
    const spsh_allocator allocator = p->allocator;
    const bool is_still =
        spsh__comm_has_failed(p->comm) ? !spsh__comm_lingers(p->comm) : p->status == SPSH_OK;
    if (is_still) {
        free_queued(p, p->out);
        for (uint32_t r = 0; p->peers != NULL && r < p->comm->world_size; r++)
            spsh__free(&allocator, p->peers[r].bytes);
        spsh__free(&allocator, p->peers);
    }
    free_queued(p, p->own_first);
    spsh__free(&allocator, p->handles);
    spsh__free(&allocator, p->whose);
    (void)pthread_cond_destroy(&p->news);
    (void)pthread_cond_destroy(&p->own_news);
    (void)pthread_mutex_destroy(&p->lock);
    (void)pthread_mutex_destroy(&p->out_lock);
    spsh__free(&allocator, p);
}

static void processes_close(spsh__runtime *t)
{
    processes *p = processes_of(t);
    send_bye(p);
    (void)pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    for (uint32_t i = 0; i < SPSH__SERVICES; i++)
        spsh__runtime_listen(t, (spsh__service)i, NULL, NULL);
    (void)pthread_cond_broadcast(&p->news);
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_mutex_lock(&p->out_lock);
    wake(p);
    (void)pthread_mutex_unlock(&p->out_lock);
    if (p->has_thread)
        (void)pthread_join(p->thread, NULL);
    for (const queued_message *one = p->out; one != NULL && p->status == SPSH_OK; one = one->next)
        if (!spsh__comm_has_failed(p->comm)) /* after a failure no message is sent */
            (void)end_send(p, one, NULL);
    if (spsh__comm_has_failed(p->comm))
        spsh__comm_fail(p->comm); /* returns once no message is in flight */
    free_state(p);
}

static const spsh__runtime_ops processes_ops = {
    .name = "processes",
    .now_fn = processes_now,
    .compute_fn = processes_compute,
    .post_fn = processes_post,
    .poll_fn = processes_poll,
    .wait_fn = processes_wait,
    .enter_fn = processes_enter,
    .leave_fn = processes_leave,
    .note_fn = processes_note,
    .listen_fn = processes_listen,
    .close_fn = processes_close,
};

spsh_status spsh__runtime_processes_open(spsh__comm *comm, const spsh_allocator *allocator,
                                         spsh__runtime **ret_runtime, spsh_error *err)
{
    processes *p = spsh__new(allocator, 1, sizeof(*p));
    if (p == NULL)
        return SPSH_NO_MEMORY(err);
    p->comm = comm;
    p->outlives = comm->outlives && comm->ops->has_gone_fn != NULL;
    p->allocator = *allocator;
    p->error = (spsh_error)SPSH_ERROR_INIT;
    p->runtime = (spsh__runtime){.ops = &processes_ops,
                                 .rank = comm->rank,
                                 .world_size = comm->world_size,
                                 .deadline_ms = comm->deadline_ms,
                                 .state = p};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_mutex_init(&p->out_lock, NULL);
    const bool has_news = spsh__steady_cond_init(&p->news);
    const bool has_own_news = spsh__steady_cond_init(&p->own_news);
    p->peers = spsh__new(allocator, comm->world_size, sizeof(*p->peers));
    p->handles = spsh__new(allocator, comm->world_size, sizeof(*p->handles));
    p->whose = spsh__new(allocator, comm->world_size, sizeof(*p->whose));
    if (p->peers == NULL || p->handles == NULL || p->whose == NULL || !has_news || !has_own_news) {
        free_state(p);
        return SPSH_NO_MEMORY(err);
    }
    const int failed = pthread_create(&p->thread, NULL, serve_all, p);
    if (failed != 0) {
        free_state(p);
        return SPSH_FAIL_OS(err, SPSH_E_LIMIT, failed, "cannot start a thread");
    }
    p->has_thread = true;
    *ret_runtime = &p->runtime;
    return SPSH_OK;
}

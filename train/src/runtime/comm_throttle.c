/* comm_throttle.c: see comm_throttle.h. A thread passes copies of messages to the parent when they
 * are due. A copy exists until its message was waited for, or the parent is closed. The handle of a
 * sent message is an index of the table with the highest bit set. Handles of receives are the
 * parent's. */
#include "comm_throttle.h"

#include "base/steady_wait.h"

#define IS_SENT   ((spsh__comm_handle)1 << 63)
#define NS_PER_MS UINT64_C(1000000)

#define NOTHING SIZE_MAX

enum { SLICE_MS = 1 };

typedef struct queued_message {
    bool is_used, has_gone; /* gone: passed to the parent, or failed */
    bool is_late;           /* not gone when the deadline of a wait passed */
    uint32_t to, tag;
    void *bytes; /* a copy of the message */
    size_t size_bytes;
    uint64_t go_ns;
    spsh__comm_handle handle; /* handle at the parent */
    spsh_status status;
    spsh_error error;
    size_t next; /* next waiting message; NOTHING: none */
} queued_message;

typedef struct throttle {
    spsh__comm comm; /* below it: the parent */
    spsh__link link;
    pthread_t thread;
    bool has_thread, is_closing;
    pthread_mutex_t lock;
    pthread_cond_t news, gone; /* signals for the thread; for waits */
    queued_message *queued;
    size_t queued_max;
    size_t first, last; /* indices of waiting messages, by time; first NOTHING: none */
    uint64_t free_ns;   /* time when the link is free */
} throttle;

static throttle *throttle_of(const spsh__comm *c)
{
    return (throttle *)c->state;
}

/* ---- the thread ---- */

/* Pass the first message to the parent. Call with the lock held. */
static void hand_on(throttle *t)
{
    const size_t place = t->first;
    queued_message p = t->queued[place]; /* a copy: sending may move the table */
    spsh__comm *parent = t->comm.below;
    t->first = p.next;
    (void)pthread_mutex_unlock(&t->lock);
    p.status =
        parent->ops->send_fn(parent, p.to, p.tag, p.bytes, p.size_bytes, &p.handle, &p.error);
    (void)pthread_mutex_lock(&t->lock);
    p.is_late = t->queued[place].is_late;
    p.has_gone = true;
    t->queued[place] = p;
    (void)pthread_cond_broadcast(&t->gone);
}

static void *run(void *user)
{
    throttle *t = (throttle *)user;
    (void)pthread_mutex_lock(&t->lock);
    while (t->first != NOTHING || !t->is_closing) {
        if (t->first == NOTHING) {
            (void)pthread_cond_wait(&t->news, &t->lock);
            continue;
        }
        const uint64_t go_ns = t->queued[t->first].go_ns;
        const struct timespec end = spsh__timespec_of(go_ns);
        if (spsh__now_ns() < go_ns)
            (void)pthread_cond_timedwait(&t->news, &t->lock, &end);
        else
            hand_on(t);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- the table of comm.h ---- */

/* Call with the lock held. */
static spsh_status grow(throttle *t, spsh_error *err)
{
    const size_t more = t->queued_max == 0 ? 64 : 2 * t->queued_max;
    queued_message *queued =
        spsh__enlarge(&t->comm.allocator, t->queued, t->queued_max, more, sizeof(*queued));
    if (queued == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "messages in flight");
    t->queued = queued;
    t->queued_max = more;
    return SPSH_OK;
}

/* Call with the lock held. */
static void put(throttle *t, size_t place, queued_message p)
{
    const uint64_t now_ns = spsh__now_ns();
    const double rate = t->link.bytes_per_s;
    const double takes_ns = rate > 0 ? (double)p.size_bytes / rate * 1e9 : 0;
    t->free_ns = (t->free_ns > now_ns ? t->free_ns : now_ns) + (uint64_t)takes_ns;
    p.go_ns = t->free_ns + t->link.latency_ns;
    p.is_used = true;
    p.error = (spsh_error)SPSH_ERROR_INIT;
    p.next = NOTHING;
    t->queued[place] = p;
    if (t->first == NOTHING)
        t->first = place;
    else
        t->queued[t->last].next = place;
    t->last = place;
    (void)pthread_cond_signal(&t->news);
}

static spsh_status throttle_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                                 size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    throttle *t = throttle_of(c);
    queued_message p = {.to = to, .tag = tag, .size_bytes = size_bytes};
    spsh_status rc = SPSH_OK;
    size_t place = 0;
    *ret_handle = 0;
    spsh__comm_count(c, size_bytes);
    p.bytes = spsh__new(&c->allocator, size_bytes, 1);
    if (p.bytes == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a message");
    if (size_bytes > 0)
        memcpy(p.bytes, bytes, size_bytes);
    (void)pthread_mutex_lock(&t->lock);
    while (place < t->queued_max && t->queued[place].is_used)
        place++;
    if (place == t->queued_max)
        rc = grow(t, err);
    if (rc == SPSH_OK) {
        put(t, place, p);
        *ret_handle = IS_SENT | place;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (rc != SPSH_OK)
        spsh__free(&c->allocator, p.bytes);
    return rc;
}

static spsh_status throttle_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                                    size_t size_bytes, spsh__comm_handle *ret_handle,
                                    spsh_error *err)
{
    spsh__comm *parent = c->below;
    return parent->ops->receive_fn(parent, from, tag, bytes, size_bytes, ret_handle, err);
}

/* Return false if the message is not due yet. Otherwise it was passed to the parent, or has
 * failed. */
static bool is_done(throttle *t, spsh__comm_handle handle, queued_message *ret)
{
    (void)pthread_mutex_lock(&t->lock);
    *ret = t->queued[handle & ~IS_SENT];
    (void)pthread_mutex_unlock(&t->lock);
    return ret->has_gone;
}

static bool throttle_done(spsh__comm *c, spsh__comm_handle handle)
{
    throttle *t = throttle_of(c);
    queued_message p;
    if ((handle & IS_SENT) == 0)
        return c->below->ops->done_fn(c->below, handle);
    return is_done(t, handle, &p) &&
           (p.status != SPSH_OK || c->below->ops->done_fn(c->below, p.handle));
}

/* Wait until the message has left. SPSH_E_TIMEOUT: it has not, and counts as late for all later
 * waits. */
static spsh_status await_gone(throttle *t, size_t place, uint32_t deadline_ms, queued_message *ret)
{
    const struct timespec end = spsh__timespec_after_ms(deadline_ms);
    int late = 0;
    (void)pthread_mutex_lock(&t->lock);
    while (!t->queued[place].has_gone && !t->queued[place].is_late && late == 0)
        late = pthread_cond_timedwait(&t->gone, &t->lock, &end);
    t->queued[place].is_late = t->queued[place].is_late || !t->queued[place].has_gone;
    *ret = t->queued[place];
    (void)pthread_mutex_unlock(&t->lock);
    return ret->is_late ? SPSH_E_TIMEOUT : SPSH_OK;
}

static void free_place(throttle *t, size_t place)
{
    (void)pthread_mutex_lock(&t->lock);
    spsh__free(&t->comm.allocator, t->queued[place].bytes);
    t->queued[place] = (queued_message){.is_used = false};
    (void)pthread_mutex_unlock(&t->lock);
}

static spsh_status wait_sent(throttle *t, size_t place, uint32_t deadline_ms, spsh_error *err)
{
    spsh__comm *parent = t->comm.below;
    queued_message p;
    spsh_status rc = await_gone(t, place, deadline_ms, &p);
    if (rc != SPSH_OK)
        return SPSH_FAIL(err, rc,
                         "a message to rank %u was not sent within %u ms; the link is too slow for "
                         "the amount of data",
                         p.to, deadline_ms);
    if (p.status != SPSH_OK)
        return spsh__fail_again(p.status, &p.error, err);
    rc = parent->ops->wait_fn(parent, p.handle, deadline_ms, err);
    if (rc == SPSH_OK)
        free_place(t, place);
    return rc;
}

static spsh_status throttle_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                                 spsh_error *err)
{
    throttle *t = throttle_of(c);
    const spsh_status rc = (handle & IS_SENT) != 0
                               ? wait_sent(t, (size_t)(handle & ~IS_SENT), deadline_ms, err)
                               : c->below->ops->wait_fn(c->below, handle, deadline_ms, err);
    if (rc != SPSH_OK)
        spsh__comm_fail(c);
    return rc;
}

/* A message that has not left in time is late because of the link, not of a rank. Return true, so
 * that wait_fn reports it at once. */
static bool throttle_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    const uint64_t begin_ns = spsh__now_ns();
    queued_message p;
    if ((handle & IS_SENT) == 0)
        return spsh__comm_await(c->below, handle, deadline_ms);
    if (await_gone(throttle_of(c), (size_t)(handle & ~IS_SENT), deadline_ms, &p) != SPSH_OK ||
        p.status != SPSH_OK)
        return true;
    const uint64_t waited_ms = (spsh__now_ns() - begin_ns) / NS_PER_MS;
    return spsh__comm_await(c->below, p.handle,
                            waited_ms < deadline_ms ? deadline_ms - (uint32_t)waited_ms : 0);
}

/* Let the parent wait if it has all handles. If some messages have not left yet, poll all handles.
 */
static spsh_status throttle_wait_any(spsh__comm *c, const spsh__comm_handle *handles,
                                     uint32_t count, uint32_t deadline_ms, uint32_t *ret_which,
                                     spsh_error *err)
{
    spsh__comm *parent = c->below;
    bool has_own = false;
    for (uint32_t i = 0; i < count; i++)
        has_own = has_own || (handles[i] & IS_SENT) != 0;
    if (!has_own)
        return parent->ops->wait_any_fn(parent, handles, count, deadline_ms, ret_which, err);
    const uint64_t end_ns = spsh__now_ns() + deadline_ms * NS_PER_MS;
    do {
        for (uint32_t i = 0; i < count; i++)
            if (throttle_done(c, handles[i])) {
                *ret_which = i;
                return SPSH_OK;
            }
        const struct timespec pause = spsh__timespec_of(SLICE_MS * NS_PER_MS);
        (void)nanosleep(&pause, NULL);
    } while (spsh__now_ns() < end_ns);
    *ret_which = count;
    return SPSH_OK;
}

static void throttle_wake(spsh__comm *c)
{
    spsh__comm *parent = c->below;
    parent->ops->wake_fn(parent);
}

static void free_state(throttle *t)
{
    const spsh_allocator allocator = t->comm.allocator;
    (void)pthread_cond_destroy(&t->news);
    (void)pthread_cond_destroy(&t->gone);
    (void)pthread_mutex_destroy(&t->lock);
    for (size_t i = 0; i < t->queued_max; i++)
        spsh__free(&allocator, t->queued[i].bytes);
    spsh__free(&allocator, t->queued);
    spsh__free(&allocator, t);
}

/* After a failure, drop the messages that still wait. */
static void throttle_close(spsh__comm *c)
{
    throttle *t = throttle_of(c);
    (void)pthread_mutex_lock(&t->lock);
    t->is_closing = true;
    if (spsh__comm_has_failed(c))
        t->first = NOTHING;
    (void)pthread_cond_signal(&t->news);
    (void)pthread_mutex_unlock(&t->lock);
    if (t->has_thread)
        (void)pthread_join(t->thread, NULL);
    c->below->deadline_ms = c->deadline_ms;
    spsh__comm_close(c->below);
    free_state(t);
}

static const spsh__comm_ops throttle_ops = {
    .name = "throttle",
    .send_fn = throttle_send,
    .receive_fn = throttle_receive,
    .done_fn = throttle_done,
    .wait_fn = throttle_wait,
    .await_fn = throttle_await,
    .wait_any_fn = throttle_wait_any,
    .wake_fn = throttle_wake,
    .close_fn = throttle_close,
};

spsh_status spsh__comm_throttle_open(spsh__comm *parent, const spsh__link *link,
                                     spsh__comm **ret_comm, spsh_error *err)
{
    throttle *t = spsh__new(&parent->allocator, 1, sizeof(*t));
    if (t == NULL)
        return SPSH_NO_MEMORY(err);
    t->link = *link;
    t->first = NOTHING;
    t->comm = (spsh__comm){.ops = &throttle_ops,
                           .rank = parent->rank,
                           .world_size = parent->world_size,
                           .deadline_ms = parent->deadline_ms,
                           .below = parent,
                           .allocator = parent->allocator,
                           .state = t};
    (void)pthread_mutex_init(&t->lock, NULL);
    const bool has_news = spsh__steady_cond_init(&t->news);
    if (!spsh__steady_cond_init(&t->gone) || !has_news) {
        free_state(t);
        return SPSH_NO_MEMORY(err);
    }
    const int failed = pthread_create(&t->thread, NULL, run, t);
    if (failed != 0) {
        free_state(t);
        return SPSH_FAIL_OS(err, SPSH_E_LIMIT, failed, "cannot start a thread");
    }
    t->has_thread = true;
    *ret_comm = &t->comm;
    return SPSH_OK;
}

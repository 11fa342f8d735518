/* comm_tcp.c: messages over TCP, for processes that were started without MPI: torchrun, Kubernetes.
 *
 * Each pair of ranks has one connection (rendezvous.h). It carries frames: a head of 24 bytes
 * (kind, tag, size, ID) and a payload.
 *
 *     up to EAGER_BYTES   EAGER ->                the payload follows; kept if no receive is posted
 *     more                ASK ->, <- GO, DATA ->  GO follows the receive; DATA goes into its buffer
 *     at the end          BYE ->
 *
 * Large payloads are therefore never kept, and kept messages are bounded: after UNEXPECTED_MAX
 * messages without a receive, the thread stops reading the connection. A peer that sends a
 * malformed frame, or a GO or DATA that was not requested, is disconnected.
 *
 * A separate thread moves messages while the trainer computes. All state is under one lock. A peer
 * that disconnects without BYE fails the ranks that wait for its messages, at once. Other
 * connections keep working: a rank that checks has_gone_fn before it waits, and drops the messages
 * to and from that peer, continues with the other ranks. Nothing is read from a connection or
 * written to it after its end, so the buffers of dropped messages are not touched again.
 */
#include "comm.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/steady_wait.h"
#include "rendezvous.h"
#include "speechshard/inside.h"

enum {
    FRAME_BYTES = 24,
    EAGER_BYTES = 16384,
    UNEXPECTED_MAX = 1024,
    MESSAGES_FIRST = 64,
    READ_BYTES = 1 << 20,  /* maximum bytes per recv call */
    READS_A_TURN = 8,      /* recv calls per connection and pass */
    END_PAUSE_MS = 300,    /* after a failure: lets other ranks with a timeout report it, too */
    CLOSE_MS_MIN = 600000, /* minimum time that close waits for the other ranks to finish */
};
#define MESSAGE_MAGIC 0x53505300u /* XORed with the frame kind */

typedef enum frame_kind { EAGER = 1, ASK = 2, GO = 3, DATA = 4, BYE = 5 } frame_kind;

typedef enum message_state {
    WAITING = 0, /* receive: nothing arrived; send: not completely sent, or no GO yet */
    MOVING,      /* receive: GO was sent, or the payload is arriving; send: GO arrived */
    DONE,
} message_state;

/* A handle is (generation, number + 1). */
typedef struct message {
    uint32_t generation;
    uint32_t peer, tag;
    bool is_used, is_send, is_other_size;
    message_state state;
    uint8_t *incoming;
    const uint8_t *outgoing;
    size_t size_bytes, sent_size_bytes; /* expected; announced by the sender */
    uint64_t id;                        /* receive: ID from the sender */
    uint64_t order;                     /* sequence number of posting */
} message;

typedef struct head {
    uint32_t kind, tag;
    uint64_t size_bytes, id;
} head;

typedef struct frame { /* an outgoing frame */
    struct frame *next;
    uint8_t head[FRAME_BYTES];
    const uint8_t *payload;
    size_t payload_bytes, at; /* at: sent bytes of head and payload */
    spsh__comm_handle handle; /* done when it is sent; 0: none */
} frame;

typedef struct unexpected { /* EAGER with its payload, or ASK */
    struct unexpected *next;
    head what;
    uint8_t bytes[];
} unexpected;

typedef struct peer {
    int socket;
    bool has_gone, has_sent_bye;
    frame *first_out, **end_out;
    uint8_t head[FRAME_BYTES]; /* the frame that is being read */
    size_t head_at;
    head what;
    uint8_t *to; /* the payload's rest goes there */
    size_t left;
    spsh__comm_handle receiving; /* DATA: done when left is 0 */
    uint8_t eager[EAGER_BYTES];
    unexpected *first_kept, **end_kept;
    uint32_t kept_count;
} peer;

typedef struct tcp_state {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t thread;
    bool has_lock, has_thread, stops;
    bool is_woken; /* request: wait_any returns early */
    int wake;
    uint32_t capacity;
    uint64_t posted;
    message *messages;
    peer *peers;
    struct pollfd *polls;
} tcp_state;

static void wake_up(tcp_state *s)
{
    const uint64_t one = 1;
    const ssize_t written = write(s->wake, &one, sizeof(one));
    (void)written; /* a write fails only if a wake-up is already pending */
}

/* ---- all functions below: call with the lock held ---- */

/* Mark the connection as ended: the peer closed it, or sent malformed data. */
static void cut_off(tcp_state *s, peer *p)
{
    if (p->socket >= 0)
        (void)shutdown(p->socket, SHUT_RDWR);
    p->has_gone = true;
    (void)pthread_cond_broadcast(&s->news);
}

static message *message_of(const tcp_state *s, spsh__comm_handle handle)
{
    const uint32_t number = (uint32_t)handle - 1;
    if (handle == 0 || number >= s->capacity || !s->messages[number].is_used ||
        s->messages[number].generation != (uint32_t)(handle >> 32))
        return NULL;
    return &s->messages[number];
}

static spsh__comm_handle handle_of(const tcp_state *s, const message *m)
{
    return (uint64_t)m->generation << 32 | ((uint32_t)(m - s->messages) + 1);
}

static void finish(tcp_state *s, spsh__comm_handle handle)
{
    message *m = message_of(s, handle);
    if (m == NULL)
        return;
    m->state = DONE;
    (void)pthread_cond_broadcast(&s->news);
}

/* ---- sending ---- */

/* Queue a frame. payload: may be NULL. handle: done once the frame is sent. Return false if out of
 * memory. */
static bool put_frame(spsh__comm *c, peer *p, const head *what, const uint8_t *payload,
                      spsh__comm_handle handle)
{
    frame *f = spsh__new(&c->allocator, 1, sizeof(*f));
    if (f == NULL)
        return false;
    spsh__store_u32le(f->head, MESSAGE_MAGIC | what->kind);
    spsh__store_u32le(f->head + 4, what->tag);
    spsh__store_u64le(f->head + 8, what->size_bytes);
    spsh__store_u64le(f->head + 16, what->id);
    f->payload = payload;
    f->payload_bytes = payload != NULL ? (size_t)what->size_bytes : 0;
    f->handle = handle;
    *p->end_out = f;
    p->end_out = &f->next;
    return true;
}

static void drop_frame(spsh__comm *c, peer *p)
{
    frame *f = p->first_out;
    p->first_out = f->next;
    if (p->first_out == NULL)
        p->end_out = &p->first_out;
    spsh__free(&c->allocator, f);
}

/* Send as much as the connection accepts. */
static void flush(spsh__comm *c, peer *p)
{
    tcp_state *s = c->state;
    while (p->first_out != NULL && !p->has_gone && !spsh__comm_has_failed(c)) {
        frame *f = p->first_out;
        const size_t head_at = f->at < FRAME_BYTES ? f->at : FRAME_BYTES;
        const size_t body_at = f->at - head_at;
        struct iovec parts[2] = {
            {f->head + head_at, FRAME_BYTES - head_at     },
            {NULL,              f->payload_bytes - body_at},
        };
        if (f->payload != NULL) /* drops const: sendmsg does not write to the payload */
            memcpy(&parts[1].iov_base, &(const uint8_t *){f->payload + body_at}, sizeof(void *));
        const struct msghdr all = {.msg_iov = parts, .msg_iovlen = f->payload != NULL ? 2 : 1};
        const ssize_t sent = sendmsg(p->socket, &all, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            cut_off(s, p);
            return;
        }
        f->at += (size_t)sent;
        if (f->at < FRAME_BYTES + f->payload_bytes)
            continue;
        finish(s, f->handle);
        drop_frame(c, p);
        if (p->first_out == NULL)
            (void)pthread_cond_broadcast(&s->news); /* send_bye waits for an empty queue */
    }
}

/* ---- receiving ---- */

/* Return the receive for this sender and tag that was posted first. NULL: no such receive. */
static message *receiver_of(const tcp_state *s, uint32_t from, uint32_t tag)
{
    message *found = NULL;
    for (uint32_t i = 0; i < s->capacity; i++) {
        message *m = &s->messages[i];
        if (m->is_used && !m->is_send && m->state == WAITING && m->peer == from && m->tag == tag &&
            (found == NULL || m->order < found->order))
            found = m;
    }
    return found;
}

/* Match receive m with the message of a head. bytes: payload of an EAGER. Return false if out of
 * memory. */
static bool deliver(spsh__comm *c, message *m, const head *what, const uint8_t *bytes)
{
    tcp_state *s = c->state;
    const head go = {GO, m->tag, what->size_bytes, what->id};
    m->is_other_size = what->size_bytes != m->size_bytes;
    m->sent_size_bytes = (size_t)what->size_bytes;
    if (!m->is_other_size && what->kind == ASK) {
        m->state = MOVING;
        m->id = what->id;
        return put_frame(c, &s->peers[m->peer], &go, NULL, 0);
    }
    if (!m->is_other_size && m->size_bytes > 0)
        memcpy(m->incoming, bytes, m->size_bytes);
    finish(s, handle_of(s, m));
    return true;
}

/* Handle an EAGER or an ASK. Return false if out of memory. */
static bool take_new(spsh__comm *c, peer *p)
{
    tcp_state *s = c->state;
    message *m = receiver_of(s, (uint32_t)(p - s->peers), p->what.tag);
    if (m != NULL)
        return deliver(c, m, &p->what, p->eager);
    const size_t size_bytes = p->what.kind == EAGER ? (size_t)p->what.size_bytes : 0;
    unexpected *u = spsh__new(&c->allocator, 1, sizeof(*u) + size_bytes);
    if (u == NULL)
        return false;
    u->what = p->what;
    memcpy(u->bytes, p->eager, size_bytes);
    *p->end_kept = u;
    p->end_kept = &u->next;
    p->kept_count++;
    return true;
}

/* Match m with the first kept message for it, if there is one. Return false if out of memory. */
static bool take_kept(spsh__comm *c, message *m)
{
    const tcp_state *s = c->state;
    peer *p = &s->peers[m->peer];
    unexpected **at = &p->first_kept;
    while (*at != NULL && (*at)->what.tag != m->tag)
        at = &(*at)->next;
    unexpected *u = *at;
    if (u == NULL)
        return true;
    *at = u->next;
    if (u->next == NULL)
        p->end_kept = at;
    p->kept_count--;
    const bool is_good = deliver(c, m, &u->what, u->bytes);
    spsh__free(&c->allocator, u);
    return is_good;
}

static bool take_go(spsh__comm *c, peer *p)
{
    const tcp_state *s = c->state;
    message *m = message_of(s, p->what.id);
    if (m == NULL || !m->is_send || m->state != WAITING || &s->peers[m->peer] != p ||
        m->size_bytes <= EAGER_BYTES)
        return false;
    const head data = {DATA, m->tag, m->size_bytes, p->what.id};
    m->state = MOVING;
    return put_frame(c, p, &data, m->outgoing, p->what.id);
}

static bool begin_data(const tcp_state *s, peer *p)
{
    for (uint32_t i = 0; i < s->capacity; i++) {
        message *m = &s->messages[i];
        if (!m->is_used || m->is_send || m->state != MOVING || m->id != p->what.id ||
            &s->peers[m->peer] != p || m->size_bytes != p->what.size_bytes)
            continue;
        p->to = m->incoming;
        p->left = m->size_bytes;
        p->receiving = handle_of(s, m);
        return true;
    }
    return false;
}

/* Choose the destination of the payload, once the head is complete. Return false if the frame is
 * not valid, or answers no request. */
static bool begin_frame(const tcp_state *s, peer *p)
{
    p->what = (head){spsh__load_u32le(p->head) ^ MESSAGE_MAGIC, spsh__load_u32le(p->head + 4),
                     spsh__load_u64le(p->head + 8), spsh__load_u64le(p->head + 16)};
    p->left = 0;
    if (p->has_sent_bye)
        return false;
    if (p->what.kind == DATA)
        return begin_data(s, p);
    if (p->what.kind != EAGER)
        return true;
    p->to = p->eager;
    p->left = p->what.size_bytes <= EAGER_BYTES ? (size_t)p->what.size_bytes : 0;
    return p->what.size_bytes <= EAGER_BYTES;
}

/* Handle a complete frame. Return false if the frame is not valid, or if out of memory. */
static bool end_frame(spsh__comm *c, peer *p)
{
    tcp_state *s = c->state;
    p->head_at = 0;
    switch (p->what.kind) {
    case EAGER:
    case ASK: return take_new(c, p);
    case GO: return take_go(c, p);
    case DATA: finish(s, p->receiving); return true;
    case BYE:
        p->has_sent_bye = true;
        (void)pthread_cond_broadcast(&s->news);
        return true;
    default: return false;
    }
}

/* Read some of the data that is available without blocking. */
static void hear(spsh__comm *c, peer *p)
{
    tcp_state *s = c->state;
    for (int turn = 0; turn < READS_A_TURN; turn++) {
        const bool is_head = p->head_at < FRAME_BYTES;
        const size_t want = is_head ? FRAME_BYTES - p->head_at : p->left;
        const ssize_t got = recv(p->socket, is_head ? p->head + p->head_at : p->to,
                                 want < READ_BYTES ? want : READ_BYTES, MSG_DONTWAIT);
        bool is_good = got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
        if (got < 0 && errno == EAGAIN)
            return;
        if (got > 0 && is_head) {
            p->head_at += (size_t)got;
            is_good = p->head_at < FRAME_BYTES || begin_frame(s, p);
        } else if (got > 0) {
            p->to += got;
            p->left -= (size_t)got;
        }
        if (is_good && p->head_at == FRAME_BYTES && p->left == 0)
            is_good = end_frame(c, p);
        if (!is_good)
            cut_off(s, p);
        if (!is_good || p->kept_count >= UNEXPECTED_MAX)
            return;
    }
}

/* ---- thread ---- */

static void choose_polls(const spsh__comm *c)
{
    tcp_state *s = c->state;
    for (uint32_t r = 0; r < c->world_size; r++) {
        const peer *p = &s->peers[r];
        short events = p->kept_count < UNEXPECTED_MAX ? POLLIN : 0;
        events = (short)(events | (p->first_out != NULL ? POLLOUT : 0));
        const bool is_out = p->has_gone || spsh__comm_has_failed(c) || events == 0;
        s->polls[r] = (struct pollfd){is_out ? -1 : p->socket, events, 0};
    }
    s->polls[c->world_size] = (struct pollfd){s->wake, POLLIN, 0};
}

static void *move_messages(void *user)
{
    spsh__comm *c = user;
    tcp_state *s = c->state;
    uint64_t count = 0;
    (void)pthread_mutex_lock(&s->lock);
    while (!s->stops) {
        choose_polls(c);
        (void)pthread_mutex_unlock(&s->lock);
        (void)poll(s->polls, c->world_size + 1, -1);
        (void)pthread_mutex_lock(&s->lock);
        if ((s->polls[c->world_size].revents & POLLIN) != 0 &&
            read(s->wake, &count, sizeof(count)) < 0)
            count = 0; /* another thread read it */
        for (uint32_t r = 0; r < c->world_size && !spsh__comm_has_failed(c); r++) {
            peer *p = &s->peers[r];
            if (s->polls[r].fd < 0 || p->has_gone)
                continue;
            if ((s->polls[r].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                hear(c, p);
            flush(c, p);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- posting ---- */

static bool grow(spsh__comm *c, tcp_state *s)
{
    const uint32_t capacity = s->capacity == 0 ? MESSAGES_FIRST : 2 * s->capacity;
    message *messages =
        spsh__enlarge(&c->allocator, s->messages, s->capacity, capacity, sizeof(*messages));
    if (messages == NULL)
        return false;
    s->messages = messages;
    s->capacity = capacity;
    return true;
}

static message *free_message(spsh__comm *c, tcp_state *s)
{
    for (uint32_t i = 0; i < s->capacity; i++)
        if (!s->messages[i].is_used)
            return &s->messages[i];
    const uint32_t number = s->capacity;
    return grow(c, s) ? &s->messages[number] : NULL;
}

static bool start(spsh__comm *c, message *m)
{
    tcp_state *s = c->state;
    peer *p = &s->peers[m->peer];
    const spsh__comm_handle handle = handle_of(s, m);
    const bool is_eager = m->size_bytes <= EAGER_BYTES;
    const head what = {is_eager ? EAGER : ASK, m->tag, m->size_bytes, handle};
    const bool is_good =
        !m->is_send ? take_kept(c, m)
                    : put_frame(c, p, &what, is_eager ? m->outgoing : NULL, is_eager ? handle : 0);
    flush(c, p);
    return is_good;
}

static spsh_status post(spsh__comm *c, const message *what, spsh__comm_handle *ret_handle,
                        spsh_error *err)
{
    tcp_state *s = c->state;
    spsh_status rc = SPSH_OK;
    rc = spsh__comm_check_peer(c, what->peer, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(&s->lock);
    message *m = free_message(c, s);
    if (m != NULL) {
        const uint32_t generation = m->generation + 1;
        *m = *what;
        m->generation = generation;
        m->is_used = true;
        m->order = s->posted++;
        *ret_handle = handle_of(s, m);
    }
    if (m == NULL || !start(c, m))
        rc = SPSH_NO_MEMORY(err);
    (void)pthread_mutex_unlock(&s->lock);
    wake_up(s);
    return rc;
}

static spsh_status tcp_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const message m = {
        .peer = to, .tag = tag, .is_send = true, .outgoing = bytes, .size_bytes = size_bytes};
    spsh__comm_count(c, size_bytes);
    return post(c, &m, ret_handle, err);
}

static spsh_status tcp_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    const message m = {.peer = from, .tag = tag, .incoming = bytes, .size_bytes = size_bytes};
    return post(c, &m, ret_handle, err);
}

static bool tcp_done(spsh__comm *c, spsh__comm_handle handle)
{
    tcp_state *s = c->state;
    (void)pthread_mutex_lock(&s->lock);
    const message *m = message_of(s, handle);
    const bool is_done = m == NULL || m->state == DONE;
    (void)pthread_mutex_unlock(&s->lock);
    return is_done;
}

/* Return the result of a wait for m: it is done, late, or its rank has disconnected. Call with the
 * lock held. */
static spsh_status judge(spsh__comm *c, message *m, uint64_t begin_ns, spsh_error *err)
{
    tcp_state *s = c->state;
    if (m->state == DONE && !m->is_other_size) {
        m->is_used = false;
        return SPSH_OK;
    }
    spsh__comm_set_failed(c);
    if (m->state == DONE)
        return spsh__comm_fail_size(m->peer, m->tag, m->size_bytes,
                                    m->sent_size_bytes > m->size_bytes, err);
    if (s->peers[m->peer].has_gone)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT, "rank %u disconnected", m->peer);
    return spsh__comm_fail_late(m->peer, m->tag, m->size_bytes, m->is_send, begin_ns, err);
}

/* Call with the lock held. */
static bool is_over(const tcp_state *s, spsh__comm_handle handle)
{
    const message *m = message_of(s, handle);
    return m == NULL || m->state == DONE || s->peers[m->peer].has_gone;
}

static bool await_locked(tcp_state *s, spsh__comm_handle handle, uint32_t deadline_ms)
{
    const struct timespec end = spsh__timespec_after_ms(deadline_ms);
    int late = 0;
    while (!is_over(s, handle) && late == 0)
        late = pthread_cond_timedwait(&s->news, &s->lock, &end);
    return is_over(s, handle);
}

static bool tcp_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    tcp_state *s = c->state;
    (void)pthread_mutex_lock(&s->lock);
    const bool is_good = await_locked(s, handle, deadline_ms);
    (void)pthread_mutex_unlock(&s->lock);
    return is_good;
}

static spsh_status tcp_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                            spsh_error *err)
{
    tcp_state *s = c->state;
    const uint64_t begin_ns = spsh__now_ns();
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&s->lock);
    (void)await_locked(s, handle, deadline_ms);
    message *m = message_of(s, handle);
    if (m != NULL)
        rc = judge(c, m, begin_ns, err);
    (void)pthread_mutex_unlock(&s->lock);
    return rc;
}

/* Call with the lock held. */
static uint32_t find_any(const tcp_state *s, const spsh__comm_handle *handles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_over(s, handles[i]))
            return i;
    }
    return count;
}

static spsh_status tcp_wait_any(spsh__comm *c, const spsh__comm_handle *handles, uint32_t count,
                                uint32_t deadline_ms, uint32_t *ret_which, spsh_error *err)
{
    tcp_state *s = c->state;
    const struct timespec end = spsh__timespec_after_ms(deadline_ms);
    int late = 0;
    (void)err;
    (void)pthread_mutex_lock(&s->lock);
    *ret_which = find_any(s, handles, count);
    while (*ret_which == count && !s->is_woken && late == 0) {
        late = pthread_cond_timedwait(&s->news, &s->lock, &end);
        *ret_which = find_any(s, handles, count);
    }
    s->is_woken = false;
    (void)pthread_mutex_unlock(&s->lock);
    return SPSH_OK;
}

static bool tcp_has_gone(spsh__comm *c, uint32_t rank)
{
    tcp_state *s = c->state;
    (void)pthread_mutex_lock(&s->lock);
    const bool has_gone = rank != c->rank && s->peers[rank].has_gone;
    (void)pthread_mutex_unlock(&s->lock);
    return has_gone;
}

static void tcp_drop(spsh__comm *c, spsh__comm_handle handle)
{
    tcp_state *s = c->state;
    (void)pthread_mutex_lock(&s->lock);
    message *m = message_of(s, handle);
    if (m != NULL)
        m->is_used = false;
    (void)pthread_mutex_unlock(&s->lock);
}

static void tcp_wake(spsh__comm *c)
{
    tcp_state *s = c->state;
    (void)pthread_mutex_lock(&s->lock);
    s->is_woken = true;
    (void)pthread_cond_broadcast(&s->news);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- opening and closing ---- */

static bool is_all_sent(const spsh__comm *c)
{
    const tcp_state *s = c->state;
    for (uint32_t r = 0; r < c->world_size; r++) {
        const peer *p = &s->peers[r];
        if (r != c->rank && !p->has_gone && (p->first_out != NULL || !p->has_sent_bye))
            return false;
    }
    return true;
}

static void send_bye(spsh__comm *c)
{
    tcp_state *s = c->state;
    const struct timespec end =
        spsh__timespec_after_ms(c->deadline_ms > CLOSE_MS_MIN ? c->deadline_ms : CLOSE_MS_MIN);
    const head bye = {.kind = BYE};
    int late = 0;
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t r = 0; r < c->world_size; r++)
        if (r != c->rank && !s->peers[r].has_gone) {
            (void)put_frame(c, &s->peers[r], &bye, NULL, 0);
            flush(c, &s->peers[r]);
        }
    wake_up(s);
    while (late == 0 && !is_all_sent(c))
        late = pthread_cond_timedwait(&s->news, &s->lock, &end);
    (void)pthread_mutex_unlock(&s->lock);
}

static void free_peer(spsh__comm *c, peer *p)
{
    if (p->socket >= 0)
        (void)close(p->socket);
    while (p->first_out != NULL)
        drop_frame(c, p);
    while (p->first_kept != NULL) {
        unexpected *u = p->first_kept;
        p->first_kept = u->next;
        spsh__free(&c->allocator, u);
    }
}

static void tcp_close(spsh__comm *c)
{
    spsh_allocator allocator = c->allocator;
    tcp_state *s = c->state;
    const struct timespec pause = {0, END_PAUSE_MS * 1000000L};
    if (s->has_thread && !spsh__comm_has_failed(c))
        send_bye(c);
    else if (s->has_thread)
        (void)nanosleep(&pause, NULL);
    if (s->has_thread) {
        (void)pthread_mutex_lock(&s->lock);
        s->stops = true;
        (void)pthread_mutex_unlock(&s->lock);
        wake_up(s);
        (void)pthread_join(s->thread, NULL);
    }
    for (uint32_t r = 0; s->peers != NULL && r < c->world_size; r++)
        free_peer(c, &s->peers[r]);
    if (s->wake >= 0)
        (void)close(s->wake);
    (void)pthread_cond_destroy(&s->news);
    if (s->has_lock)
        (void)pthread_mutex_destroy(&s->lock);
    spsh__free(&allocator, s->messages);
    spsh__free(&allocator, s->peers);
    spsh__free(&allocator, s->polls);
    spsh__free(&allocator, s);
    spsh__free(&allocator, c);
}

static const spsh__comm_ops tcp_ops = {
    .name = "tcp",
    .send_fn = tcp_send,
    .receive_fn = tcp_receive,
    .done_fn = tcp_done,
    .wait_fn = tcp_wait,
    .await_fn = tcp_await,
    .wait_any_fn = tcp_wait_any,
    .wake_fn = tcp_wake,
    .close_fn = tcp_close,
    .has_gone_fn = tcp_has_gone,
    .drop_fn = tcp_drop,
};

static bool open_state(spsh__comm *c, tcp_state *s)
{
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->has_lock = pthread_mutex_init(&s->lock, NULL) == 0;
    const bool has_news = spsh__steady_cond_init(&s->news);
    s->peers = spsh__new(&c->allocator, c->world_size, sizeof(*s->peers));
    s->polls = spsh__new(&c->allocator, (size_t)c->world_size + 1, sizeof(*s->polls));
    for (uint32_t r = 0; s->peers != NULL && r < c->world_size; r++) {
        peer *p = &s->peers[r];
        p->socket = -1;
        p->has_gone = r == c->rank;
        p->end_out = &p->first_out;
        p->end_kept = &p->first_kept;
    }
    return s->wake >= 0 && s->has_lock && has_news && s->peers != NULL && s->polls != NULL &&
           grow(c, s);
}

spsh_status spsh__comm_tcp_open(const spsh__rendezvous_options *options,
                                const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err)
{
    const spsh__launch *launch = options->launch;
    spsh__comm *c = spsh__new(allocator, 1, sizeof(*c));
    tcp_state *s = spsh__new(allocator, 1, sizeof(*s));
    int *sockets = spsh__new(allocator, launch->world_size, sizeof(*sockets));
    spsh_status rc = SPSH_OK;
    if (c == NULL || s == NULL || sockets == NULL) {
        spsh__free(allocator, c);
        spsh__free(allocator, s);
        spsh__free(allocator, sockets);
        return SPSH_NO_MEMORY(err);
    }
    s->wake = -1;
    *c = (spsh__comm){.ops = &tcp_ops,
                      .rank = launch->rank,
                      .world_size = launch->world_size,
                      .deadline_ms = options->deadline_ms,
                      .allocator = *allocator,
                      .state = s};
    rc = open_state(c, s) ? spsh__rendezvous_meet(options, allocator, sockets, err)
                          : SPSH_NO_MEMORY(err);
    for (uint32_t r = 0; rc == SPSH_OK && r < c->world_size; r++)
        s->peers[r].socket = sockets[r];
    if (rc == SPSH_OK) {
        s->has_thread = pthread_create(&s->thread, NULL, move_messages, c) == 0;
        rc = s->has_thread ? SPSH_OK : SPSH_NO_MEMORY(err);
    }
    if (rc == SPSH_OK) {
        *ret_comm = c;
    } else {
        spsh__comm_set_failed(c);
        tcp_close(c);
    }
    spsh__free(allocator, sockets);
    return rc;
}

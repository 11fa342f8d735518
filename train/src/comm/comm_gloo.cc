/* comm_gloo.cc: messages over Gloo, the CPU engine of PyTorch, for processes that no MPI has
 * started: torchrun, Kubernetes. The only C++ here; no exception leaves this file.
 *
 * The processes meet as those of comm_tcp.c do (rendezvous.h), hand each other Gloo's addresses
 * over those connections, and end them: whom the meeting refuses never learns an address.
 *
 * Gloo tells that a transfer is done only to a thread that waits for it, and a wait of its own with
 * a time-out ends every connection where the time is up. So each other rank has two threads here,
 * one that hears and one that sends, whose waits have no end but a message or the connection's end;
 * those of the trainer wait for these threads. Between two ranks frames go through one slot of
 * Gloo, in order, from and to memory of this file's own: what Gloo still moves when the trainer has
 * given up is nobody else's. A frame is 24 bytes (kind, tag, size, id) and a piece of at most
 * PIECE_BYTES.
 *
 *     up to EAGER_BYTES      EAGER -> the payload comes at once, and is kept where nobody waits yet
 *     more                   ASK ->, <- GO once somebody waits, DATA -> for each piece
 *     at the end             BYE
 *
 * Whatever is not DATA goes before it, so that what is small never waits behind what is large. What
 * is kept has a bound: behind UNEXPECTED_MAX messages that nobody waits for, a rank is not heard
 * on. Frames are the receiver's sizes before they are Gloo's: a message of another size than
 * expected never meets Gloo's own check, which would end the process.
 *
 * A rank that has gone takes its own two threads with it, and nothing else: whoever looks before it
 * waits goes on with the others (comm.h, has_gone_fn).
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

extern "C" {
#include "base/train_internal.h"
#include "comm.h"
#include "rendezvous.h"
}

namespace
{

constexpr size_t HEAD_BYTES = 24;
constexpr size_t EAGER_BYTES = 16384;
constexpr size_t PIECE_BYTES = 262144;
constexpr size_t FRAME_BYTES = HEAD_BYTES + PIECE_BYTES;
constexpr size_t FRAMES_IN = 4; /* that a rank may send before one of them was heard */
constexpr size_t FRAMES_OUT = 2;
constexpr size_t UNEXPECTED_MAX = 1024;
constexpr uint32_t CLOSE_MS_MIN = 600000;                /* for the others to come to their end */
constexpr auto END_NAP = std::chrono::milliseconds(300); /* others can say so as well */
constexpr auto FOREVER = std::chrono::milliseconds(std::chrono::hours(24 * 365));
constexpr uint64_t FRAMES = 0; /* slots */
constexpr uint64_t END = 1; /* nothing comes there: the end of a connection is told to whom waits */
constexpr uint32_t FRAME_MAGIC = 0x53504700u; /* and a kind */
constexpr char GREETING[] = "SPSHGLOO";
constexpr size_t GREETING_BYTES = 8 + 4 + gloo::transport::Address::kMaxByteSize;

using clock_type = std::chrono::steady_clock;
using gloo::transport::UnboundBuffer;

enum frame_kind : uint32_t { EAGER = 1, ASK = 2, GO = 3, DATA = 4, BYE = 5 };
enum message_state { WAITING, MOVING, DONE };

struct message { /* in the order of handles: of posting */
    uint32_t peer = 0, tag = 0;
    bool is_send = false, is_other_size = false;
    message_state state = WAITING;
    uint8_t *incoming = nullptr;
    const uint8_t *outgoing = nullptr;
    size_t size_bytes = 0, sent_size_bytes = 0; /* expected; what a sender has said */
    size_t at = 0;                              /* so much has moved */
    uint64_t id = 0;                            /* receive: the sender's handle */
};

struct head {
    uint32_t kind = 0, tag = 0;
    uint64_t size_bytes = 0, id = 0;
};

struct unexpected { /* EAGER with its payload, or ASK */
    head what;
    std::vector<uint8_t> bytes;
};

struct peer {
    uint32_t rank = 0;
    bool has_gone = false, has_said_bye = false;
    bool says_bye = false, has_sent_all = false; /* behind all else; out of Gloo's hands */
    std::deque<head> heads; /* to be sent; the payload of EAGER is the message `id`'s */
    std::deque<spsh__comm_handle> bodies; /* ... of those for which GO has come */
    std::deque<unexpected> kept;
    std::condition_variable work; /* for both threads */
    std::vector<uint8_t> in_bytes, out_bytes;
    std::unique_ptr<UnboundBuffer> in, out;
    std::thread hearing, sending;
};

struct gloo_state {
    std::mutex lock; /* of all below */
    std::condition_variable news;
    bool stops = false, is_woken = false;
    spsh__comm_handle last = 0;
    std::map<spsh__comm_handle, message> messages;
    /* By the address at which this rank is reached: of nearly all worlds one. */
    std::map<std::string, std::shared_ptr<gloo::transport::Context>> contexts;
    std::vector<std::unique_ptr<peer>> peers; /* of ranks; none of this one */
};

gloo_state *state_of(const spsh__comm *c)
{
    return static_cast<gloo_state *>(c->state);
}

/* ---- all of this part: locked ---- */

/* The connection has ended, or is ended as what came is wrong. Gloo does not tell those that wait
 * in the middle of a frame. */
void cut_off(gloo_state *s, peer *p)
{
    p->has_gone = true;
    p->in->abortWaitRecv();
    p->out->abortWaitSend();
    p->work.notify_all();
    s->news.notify_all();
}

message *message_of(gloo_state *s, spsh__comm_handle handle)
{
    auto found = s->messages.find(handle);
    return found == s->messages.end() ? nullptr : &found->second;
}

void finish(gloo_state *s, message *m)
{
    m->state = DONE;
    s->news.notify_all();
}

void put_head(peer *p, const head &h)
{
    p->heads.push_back(h);
    p->work.notify_all();
}

/* The first that was posted for it. */
message *receiver_of(gloo_state *s, uint32_t from, uint32_t tag)
{
    for (auto &entry : s->messages) {
        message *m = &entry.second;
        if (!m->is_send && m->state == WAITING && m->peer == from && m->tag == tag)
            return m;
    }
    return nullptr;
}

/* What has come is m's. */
void deliver(gloo_state *s, message *m, const head &what, const uint8_t *bytes)
{
    m->is_other_size = what.size_bytes != m->size_bytes;
    m->sent_size_bytes = what.size_bytes;
    if (!m->is_other_size && what.kind == ASK) { /* the rest may come */
        m->state = MOVING;
        m->id = what.id;
        put_head(s->peers[m->peer].get(), {GO, m->tag, what.size_bytes, what.id});
        return;
    }
    if (!m->is_other_size && m->size_bytes > 0)
        std::memcpy(m->incoming, bytes, m->size_bytes);
    finish(s, m);
}

bool take_new(gloo_state *s, peer *p, const head &what, const uint8_t *bytes)
{
    if (what.kind == EAGER && what.size_bytes > EAGER_BYTES)
        return false;
    message *m = receiver_of(s, p->rank, what.tag);
    if (m != nullptr) {
        deliver(s, m, what, bytes);
        return true;
    }
    unexpected u{what, {}};
    if (what.kind == EAGER)
        u.bytes.assign(bytes, bytes + what.size_bytes);
    p->kept.push_back(std::move(u));
    return true;
}

bool take_go(gloo_state *s, peer *p, const head &what)
{
    message *m = message_of(s, what.id);
    if (m == nullptr || !m->is_send || m->state != WAITING || m->peer != p->rank ||
        m->size_bytes <= EAGER_BYTES)
        return false;
    m->state = MOVING;
    p->bodies.push_back(what.id);
    p->work.notify_all();
    return true;
}

bool take_data(gloo_state *s, peer *p, const head &what, const uint8_t *bytes)
{
    for (auto &entry : s->messages) {
        message *m = &entry.second;
        if (m->is_send || m->state != MOVING || m->id != what.id || m->peer != p->rank)
            continue;
        const size_t size = std::min(PIECE_BYTES, m->size_bytes - m->at);
        std::memcpy(m->incoming + m->at, bytes, size);
        m->at += size;
        if (m->at == m->size_bytes)
            finish(s, m);
        return true;
    }
    return false;
}

/* false: it is no frame, or was not asked for. */
bool take_frame(gloo_state *s, peer *p, const uint8_t *frame)
{
    const head what = {spsh__load_u32le(frame) ^ FRAME_MAGIC, spsh__load_u32le(frame + 4),
                       spsh__load_u64le(frame + 8), spsh__load_u64le(frame + 16)};
    if (p->has_said_bye)
        return false;
    switch (what.kind) {
    case EAGER:
    case ASK: return take_new(s, p, what, frame + HEAD_BYTES);
    case GO: return take_go(s, p, what);
    case DATA: return take_data(s, p, what, frame + HEAD_BYTES);
    case BYE:
        p->has_said_bye = true;
        s->news.notify_all();
        return true;
    default: return false;
    }
}

void write_head(uint8_t *frame, const head &what)
{
    spsh__store_u32le(frame, FRAME_MAGIC | what.kind);
    spsh__store_u32le(frame + 4, what.tag);
    spsh__store_u64le(frame + 8, what.size_bytes);
    spsh__store_u64le(frame + 16, what.id);
}

bool has_work(const peer *p)
{
    return !p->heads.empty() || !p->bodies.empty() || p->says_bye;
}

/* What goes next; its memory is free once it is in the frame. Returns the frame's size. */
size_t write_frame(gloo_state *s, peer *p, uint8_t *frame)
{
    head what = {BYE, 0, 0, 0};
    message *m = nullptr;
    size_t size = 0;
    if (!p->heads.empty()) {
        what = p->heads.front();
        p->heads.pop_front();
        m = what.kind == EAGER ? message_of(s, what.id) : nullptr;
    } else if (!p->bodies.empty()) {
        m = message_of(s, p->bodies.front());
        what = {DATA, m->tag, m->size_bytes, p->bodies.front()};
    }
    write_head(frame, what);
    if (m != nullptr) {
        size = std::min(PIECE_BYTES, m->size_bytes - m->at);
        if (size > 0)
            std::memcpy(frame + HEAD_BYTES, m->outgoing + m->at, size);
        m->at += size;
    }
    if (m != nullptr && m->at == m->size_bytes) {
        finish(s, m);
        if (what.kind == DATA)
            p->bodies.pop_front();
    }
    return HEAD_BYTES + size;
}

/* ---- the threads of a rank ---- */

void hear_frames(spsh__comm *c, peer *p)
{
    gloo_state *s = state_of(c);
    const int rank = static_cast<int>(p->rank);
    for (size_t i = 0; i < FRAMES_IN; i++)
        p->in->recv(rank, FRAMES, i * FRAME_BYTES, FRAME_BYTES);
    p->in->recv(rank, END, 0, 0);
    for (uint64_t heard = 0; p->in->waitRecv(nullptr, FOREVER); heard++) {
        const size_t at = heard % FRAMES_IN * FRAME_BYTES;
        {
            std::unique_lock<std::mutex> locked(s->lock);
            if (!spsh__comm_has_failed(c) && !take_frame(s, p, &p->in_bytes[at]))
                cut_off(s, p);
            p->work.wait(
                locked, [&] { return p->kept.size() < UNEXPECTED_MAX || s->stops || p->has_gone; });
            if (s->stops || p->has_gone)
                return;
        }
        p->in->recv(rank, FRAMES, at, FRAME_BYTES);
    }
}

/* Until Gloo has so few frames left; false: they will not go. */
bool await_sent(peer *p, uint64_t sent, uint64_t *gone, uint64_t left)
{
    for (; sent - *gone > left; ++*gone)
        if (!p->out->waitSend(nullptr, FOREVER))
            return false;
    return true;
}

void send_frames(spsh__comm *c, peer *p)
{
    gloo_state *s = state_of(c);
    uint64_t sent = 0, gone = 0; /* given to Gloo; out of its hands */
    bool is_bye = false;
    while (!is_bye) {
        if (!await_sent(p, sent, &gone, FRAMES_OUT - 1))
            return;
        const size_t at = sent % FRAMES_OUT * FRAME_BYTES;
        std::unique_lock<std::mutex> locked(s->lock);
        p->work.wait(locked, [&] {
            return s->stops || p->has_gone || (has_work(p) && !spsh__comm_has_failed(c));
        });
        if (s->stops || p->has_gone)
            return;
        is_bye = p->heads.empty() && p->bodies.empty();
        const size_t size = write_frame(s, p, &p->out_bytes[at]);
        locked.unlock();
        p->out->send(static_cast<int>(p->rank), FRAMES, at, size);
        sent++;
    }
    if (!await_sent(p, sent, &gone, 0))
        return;
    const std::lock_guard<std::mutex> locked(s->lock);
    p->has_sent_all = true;
    s->news.notify_all();
}

/* What Gloo throws is the end of a connection. */
void run_thread(void (*run)(spsh__comm *, peer *), spsh__comm *c, peer *p) noexcept
{
    try {
        run(c, p);
        return;
    } catch (const std::exception &) {
    }
    gloo_state *s = state_of(c);
    const std::lock_guard<std::mutex> locked(s->lock);
    cut_off(s, p);
}

/* ---- the table of comm.h ---- */

spsh_status fail(const std::exception &thrown, spsh_error *err)
{
    if (dynamic_cast<const std::bad_alloc *>(&thrown) != nullptr)
        return spsh__fail_memory(err);
    return SPSH_FAIL(err, SPSH_E_IO, SPSH_OFFSET_NONE, "Gloo: %.180s", thrown.what());
}

spsh_status post(spsh__comm *c, const message &what, spsh__comm_handle *ret_handle, spsh_error *err)
{
    gloo_state *s = state_of(c);
    if (what.peer >= c->world_size || what.peer == c->rank)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "rank %u of %u has no message for rank %u", c->rank, c->world_size,
                         what.peer);
    const std::lock_guard<std::mutex> locked(s->lock);
    const spsh__comm_handle handle = s->last + 1;
    peer *p = s->peers[what.peer].get();
    message *m = &s->messages.emplace(handle, what).first->second;
    s->last = *ret_handle = handle;
    if (m->is_send) {
        put_head(p, {m->size_bytes <= EAGER_BYTES ? EAGER : ASK, m->tag, m->size_bytes, handle});
        return SPSH_OK;
    }
    auto kept = std::find_if(p->kept.begin(), p->kept.end(),
                             [m](const unexpected &u) { return u.what.tag == m->tag; });
    if (kept == p->kept.end())
        return SPSH_OK;
    deliver(s, m, kept->what, kept->bytes.data());
    p->kept.erase(kept);
    p->work.notify_all();
    return SPSH_OK;
}

spsh_status post_or_fail(spsh__comm *c, const message &what, spsh__comm_handle *ret_handle,
                         spsh_error *err) noexcept
{
    try {
        return post(c, what, ret_handle, err);
    } catch (const std::exception &thrown) {
        return fail(thrown, err);
    }
}

spsh_status gloo_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                      size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err)
{
    message m;
    m.peer = to;
    m.tag = tag;
    m.is_send = true;
    m.outgoing = static_cast<const uint8_t *>(bytes);
    m.size_bytes = size_bytes;
    spsh__comm_count(c, size_bytes);
    return post_or_fail(c, m, ret_handle, err);
}

spsh_status gloo_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes, size_t size_bytes,
                         spsh__comm_handle *ret_handle, spsh_error *err)
{
    message m;
    m.peer = from;
    m.tag = tag;
    m.incoming = static_cast<uint8_t *>(bytes);
    m.size_bytes = size_bytes;
    return post_or_fail(c, m, ret_handle, err);
}

/* Locked. Waiting for it is over: it is done, or was waited for, or its rank has gone. */
bool is_over(gloo_state *s, spsh__comm_handle handle)
{
    const message *m = message_of(s, handle);
    return m == nullptr || m->state == DONE || s->peers[m->peer]->has_gone;
}

bool gloo_done(spsh__comm *c, spsh__comm_handle handle)
{
    gloo_state *s = state_of(c);
    const std::lock_guard<std::mutex> locked(s->lock);
    const message *m = message_of(s, handle);
    return m == nullptr || m->state == DONE;
}

bool gloo_has_gone(spsh__comm *c, uint32_t rank)
{
    gloo_state *s = state_of(c);
    const std::lock_guard<std::mutex> locked(s->lock);
    return rank != c->rank && s->peers[rank]->has_gone;
}

/* The rank's threads look at none of its messages any more. */
void gloo_drop(spsh__comm *c, spsh__comm_handle handle)
{
    gloo_state *s = state_of(c);
    const std::lock_guard<std::mutex> locked(s->lock);
    s->messages.erase(handle);
}

/* Locked. m was waited for: done, late, or of a rank that has gone. */
spsh_status judge(spsh__comm *c, spsh__comm_handle handle, double waited_s, spsh_error *err)
{
    gloo_state *s = state_of(c);
    const message m = *message_of(s, handle);
    if (m.state == DONE && !m.is_other_size) {
        s->messages.erase(handle);
        return SPSH_OK;
    }
    spsh__comm_set_failed(c);
    if (m.state == DONE)
        return SPSH_FAIL(err, SPSH_E_MISMATCH, SPSH_OFFSET_NONE,
                         "rank %u sent %s than the %zu bytes that were expected (tag %u): do all "
                         "ranks have the same configuration?",
                         m.peer, m.sent_size_bytes > m.size_bytes ? "more" : "less", m.size_bytes,
                         m.tag);
    if (s->peers[m.peer]->has_gone)
        return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                         "rank %u has gone: its connection has ended", m.peer);
    return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                     "rank %u %s %zu bytes (tag %u) in %.1f s", m.peer,
                     m.is_send ? "has not taken" : "has not sent", m.size_bytes, m.tag, waited_s);
}

bool gloo_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms)
{
    gloo_state *s = state_of(c);
    std::unique_lock<std::mutex> locked(s->lock);
    return s->news.wait_for(locked, std::chrono::milliseconds(deadline_ms),
                            [&] { return is_over(s, handle); });
}

spsh_status gloo_wait(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                      spsh_error *err)
{
    gloo_state *s = state_of(c);
    const auto begin = clock_type::now();
    std::unique_lock<std::mutex> locked(s->lock);
    (void)s->news.wait_until(locked, begin + std::chrono::milliseconds(deadline_ms),
                             [&] { return is_over(s, handle); });
    if (message_of(s, handle) == nullptr)
        return SPSH_OK;
    const std::chrono::duration<double> waited = clock_type::now() - begin;
    return judge(c, handle, waited.count(), err);
}

spsh_status gloo_wait_any(spsh__comm *c, const spsh__comm_handle *handles, uint32_t count,
                          uint32_t deadline_ms, uint32_t *ret_which, spsh_error *err)
{
    gloo_state *s = state_of(c);
    const auto end = clock_type::now() + std::chrono::milliseconds(deadline_ms);
    (void)err;
    std::unique_lock<std::mutex> locked(s->lock);
    (void)s->news.wait_until(locked, end, [&] {
        *ret_which = 0;
        while (*ret_which < count && !is_over(s, handles[*ret_which]))
            ++*ret_which;
        return *ret_which < count || s->is_woken;
    });
    s->is_woken = false;
    return SPSH_OK;
}

void gloo_wake(spsh__comm *c)
{
    gloo_state *s = state_of(c);
    const std::lock_guard<std::mutex> locked(s->lock);
    s->is_woken = true;
    s->news.notify_all();
}

/* ---- opening and closing ---- */

bool is_all_said(const gloo_state *s)
{
    return std::all_of(s->peers.begin(), s->peers.end(), [](const std::unique_ptr<peer> &p) {
        return p == nullptr || p->has_gone || (p->has_said_bye && p->has_sent_all);
    });
}

void say_bye(const spsh__comm *c)
{
    gloo_state *s = state_of(c);
    const auto patience = std::chrono::milliseconds(std::max(c->deadline_ms, CLOSE_MS_MIN));
    std::unique_lock<std::mutex> locked(s->lock);
    for (auto &p : s->peers) {
        if (p == nullptr)
            continue;
        p->says_bye = true;
        p->work.notify_all();
    }
    (void)s->news.wait_for(locked, patience, [s] { return is_all_said(s); });
}

void join_threads(gloo_state *s)
{
    {
        const std::lock_guard<std::mutex> locked(s->lock);
        s->stops = true;
        for (auto &p : s->peers)
            if (p != nullptr && p->out != nullptr)
                cut_off(s, p.get());
    }
    for (auto &p : s->peers) {
        if (p != nullptr && p->hearing.joinable())
            p->hearing.join();
        if (p != nullptr && p->sending.joinable())
            p->sending.join();
    }
}

/* Connections end before the memory to which Gloo moves what comes. */
void free_state(gloo_state *s)
{
    for (auto &entry : s->contexts)
        for (int r = 0; r < entry.second->size; r++)
            if (entry.second->getPair(r) != nullptr)
                entry.second->getPair(r)->close();
    s->peers.clear();
    s->contexts.clear();
    delete s;
}

void gloo_close(spsh__comm *c)
{
    const spsh_allocator allocator = c->allocator;
    gloo_state *s = state_of(c);
    if (!spsh__comm_has_failed(c))
        say_bye(c);
    else
        std::this_thread::sleep_for(END_NAP);
    join_threads(s);
    free_state(s);
    spsh__train_delete(&allocator, c);
}

const spsh__comm_ops gloo_ops = {"gloo",     gloo_send,     gloo_receive, gloo_done,  gloo_wait,
                                 gloo_await, gloo_wait_any, gloo_wake,    gloo_close, gloo_has_gone,
                                 gloo_drop,  nullptr,       false};

/* Of a connection of the meeting: its end here. Numbers only. */
std::string own_address(int socket)
{
    struct sockaddr_storage at = {};
    socklen_t size = sizeof(at);
    char name[NI_MAXHOST] = "";
    if (getsockname(socket, reinterpret_cast<struct sockaddr *>(&at), &size) != 0 ||
        getnameinfo(reinterpret_cast<struct sockaddr *>(&at), size, name, sizeof(name), nullptr, 0,
                    NI_NUMERICHOST) != 0)
        return "";
    const std::string text = name;
    return text.compare(0, 7, "::ffff:") == 0 ? text.substr(7) : text;
}

/* A greeting, all of it, one way. */
spsh_status move_greeting(const spsh__rendezvous_options *o, int socket, bool is_out,
                          uint8_t *bytes, spsh_error *err)
{
    const auto end = clock_type::now() + std::chrono::milliseconds(o->deadline_ms);
    for (size_t at = 0; at < GREETING_BYTES;) {
        struct pollfd p = {socket, static_cast<short>(is_out ? POLLOUT : POLLIN), 0};
        if (o->stop != nullptr && *o->stop != 0)
            return SPSH_FAIL(err, SPSH_E_CANCELED, SPSH_OFFSET_NONE,
                             "stopped while the processes met; nothing was begun");
        if (clock_type::now() > end)
            return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE, "it says nothing");
        if (poll(&p, 1, 100) <= 0)
            continue;
        const ssize_t moved = is_out ? send(socket, bytes + at, GREETING_BYTES - at, MSG_NOSIGNAL)
                                     : recv(socket, bytes + at, GREETING_BYTES - at, 0);
        if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
            return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE, "it has hung up");
        at += moved < 0 ? 0 : static_cast<size_t>(moved);
    }
    return SPSH_OK;
}

gloo::transport::Context *context_at(spsh__comm *c, const std::string &address)
{
    gloo_state *s = state_of(c);
    auto &context = s->contexts[address];
    if (context == nullptr) {
        const gloo::transport::tcp::attr where(address.c_str());
        context = gloo::transport::tcp::CreateDevice(where)->createContext(
            static_cast<int>(c->rank), static_cast<int>(c->world_size));
        /* Of connecting, of which Gloo takes five. */
        context->setTimeout(std::chrono::milliseconds(c->deadline_ms / 5 + 1));
    }
    return context.get();
}

/* Where p finds this rank is sent to it. */
spsh_status greet(spsh__comm *c, const spsh__rendezvous_options *o, uint32_t rank, int socket,
                  spsh_error *err)
{
    uint8_t greeting[GREETING_BYTES] = {};
    gloo::transport::Context *context = context_at(c, own_address(socket));
    const std::vector<char> address =
        context->createPair(static_cast<int>(rank))->address().bytes();
    if (address.size() > gloo::transport::Address::kMaxByteSize)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE, "an address of Gloo is long");
    std::memcpy(greeting, GREETING, 8);
    spsh__store_u32le(greeting + 8, static_cast<uint32_t>(address.size()));
    std::memcpy(greeting + 12, address.data(), address.size());
    return move_greeting(o, socket, true, greeting, err);
}

spsh_status connect(spsh__comm *c, const spsh__rendezvous_options *o, uint32_t rank, int socket,
                    spsh_error *err)
{
    gloo_state *s = state_of(c);
    uint8_t greeting[GREETING_BYTES] = {};
    const spsh_status rc = move_greeting(o, socket, false, greeting, err);
    if (rc != SPSH_OK)
        return rc;
    const size_t size = spsh__load_u32le(greeting + 8);
    if (std::memcmp(greeting, GREETING, 8) != 0 || size > gloo::transport::Address::kMaxByteSize)
        return SPSH_FAIL(err, SPSH_E_MISMATCH, SPSH_OFFSET_NONE,
                         "it does not use Gloo: SPEECHSHARD_COMM must be the same everywhere");
    gloo::transport::Context *context = context_at(c, own_address(socket));
    const char *address = reinterpret_cast<const char *>(greeting + 12);
    context->getPair(static_cast<int>(rank))->connect(std::vector<char>(address, address + size));
    peer *p = (s->peers[rank] = std::make_unique<peer>()).get();
    p->rank = rank;
    p->in_bytes.resize(FRAMES_IN * FRAME_BYTES);
    p->out_bytes.resize(FRAMES_OUT * FRAME_BYTES);
    p->in = context->createUnboundBuffer(p->in_bytes.data(), p->in_bytes.size());
    p->out = context->createUnboundBuffer(p->out_bytes.data(), p->out_bytes.size());
    return SPSH_OK;
}

/* step: greet or connect. A failure names the rank. */
spsh_status with_each(spsh__comm *c, const spsh__rendezvous_options *o, const int *sockets,
                      decltype(greet) *step, spsh_error *err)
{
    for (uint32_t r = 0; r < c->world_size; r++) {
        spsh_error why = SPSH_ERROR_INIT;
        spsh_status rc = SPSH_OK;
        if (r == c->rank)
            continue;
        try {
            rc = step(c, o, r, sockets[r], &why);
        } catch (const std::exception &thrown) {
            rc = fail(thrown, &why);
        }
        if (rc == SPSH_E_CANCELED)
            return SPSH_FAIL(err, rc, SPSH_OFFSET_NONE, "%.230s", why.message);
        if (rc != SPSH_OK)
            return SPSH_FAIL(err, rc, SPSH_OFFSET_NONE,
                             "rank %u cannot be reached from rank %u: %.190s", r, c->rank,
                             why.message);
    }
    return SPSH_OK;
}

void start_threads(spsh__comm *c)
{
    for (auto &p : state_of(c)->peers) {
        if (p == nullptr)
            continue;
        p->hearing = std::thread(run_thread, hear_frames, c, p.get());
        p->sending = std::thread(run_thread, send_frames, c, p.get());
    }
}

/* Gloo writes to connections that may have ended: SIGPIPE is no business of the threads of this
 * file and of Gloo's own, which have the mask of whoever begins them. */
class without_signals
{
  public:
    without_signals()
    {
        sigset_t all;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    }
    ~without_signals()
    {
        (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    without_signals(const without_signals &) = delete;
    without_signals &operator=(const without_signals &) = delete;

  private:
    sigset_t before = {};
};

spsh_status open_state(spsh__comm *c, const spsh__rendezvous_options *o, int *sockets,
                       spsh_error *err)
{
    state_of(c)->peers.resize(c->world_size);
    spsh_status rc = spsh__rendezvous_meet(o, &c->allocator, sockets, err);
    if (rc != SPSH_OK)
        return rc;
    const without_signals quiet;
    rc = with_each(c, o, sockets, greet, err);
    if (rc == SPSH_OK)
        rc = with_each(c, o, sockets, connect, err);
    for (uint32_t r = 0; r < c->world_size; r++)
        if (sockets[r] >= 0)
            (void)close(sockets[r]);
    if (rc == SPSH_OK)
        start_threads(c); /* throws */
    return rc;
}

spsh_status open_comm(spsh__comm *c, const spsh__rendezvous_options *o, spsh_error *err) noexcept
{
    try {
        std::vector<int> sockets(c->world_size, -1);
        c->state = new gloo_state;
        return open_state(c, o, sockets.data(), err);
    } catch (const std::exception &thrown) {
        return fail(thrown, err);
    }
}

} // namespace

extern "C" spsh_status spsh__comm_gloo_open(const spsh__rendezvous_options *options,
                                            const spsh_allocator *allocator, spsh__comm **ret_comm,
                                            spsh_error *err)
{
    auto *c = static_cast<spsh__comm *>(spsh__train_new(allocator, 1, sizeof(spsh__comm)));
    if (c == nullptr)
        return spsh__fail_memory(err);
    c->ops = &gloo_ops;
    c->rank = options->launch->rank;
    c->world_size = options->launch->world_size;
    c->deadline_ms = options->deadline_ms;
    c->allocator = *allocator;
    const spsh_status rc = open_comm(c, options, err);
    if (rc == SPSH_OK) {
        *ret_comm = c;
        return SPSH_OK;
    }
    if (c->state != nullptr) {
        join_threads(state_of(c));
        free_state(state_of(c));
    }
    spsh__train_delete(allocator, c);
    return rc;
}

/* rendezvous.c: see rendezvous.h. Numbers are little-endian, integers of 4 bytes unless stated.
 *
 *     hello    to the listener: 8 magic, version, zeros up to 168: version 1's length, so that its
 *              ranks read the version and refuse it
 *     ask      8 magic, 32 nonce
 *     claim    kind (1 to rank 0, 2 to another), rank, world size, restarts, own port, 0, 8 number
 *              of the meeting (0: not known), 32 proof of the run's name, 32 proof
 *     answer   8 magic: HOLD (stay on the line) or GOOD (connected), 32 proof; or NOPE, 120 reason
 *     table    8 magic, 8 number of the meeting; of each rank 16 address (IPv6 or mapped IPv4),
 *              4 port
 *
 * The nonce of the connecting rank is in the hello, after the version. Both proofs cover the port
 * that the listener has, the hello, the ask and the claim. The port stops a relay that listens at
 * another port of the same host.
 */
#include "rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "peer_proof.h"
#include "speechshard/inside.h"

enum {
    HELLO_BYTES = 168,
    MAGIC_BYTES = 8,
    NONCE_BYTES = 32,
    NONCE_AT = 16, /* offset in the hello */
    ASK_BYTES = MAGIC_BYTES + NONCE_BYTES,
    CLAIM_BYTES = 64, /* without its proof */
    ANSWER_BYTES = MAGIC_BYTES + SPSH__PROOF_BYTES,
    NOPE_BYTES = 128,
    ENTRY_BYTES = 20,
    RUN_BYTES = 128,
    FILE_BYTES = 4096,
    ADDRESSES_MAX = 16,
    PENDING_MAX = 64,    /* connections without a proof */
    ACCEPTS_A_TURN = 16, /* accepted per pass, before connections without a proof are read again */
    HELLO_MS = 5000,     /* limit from connection to proof, and per connect or send */
    AGAIN_MS = 100,      /* pause between two tries */
    VERSION = 2,
};

#define HELLO_MAGIC "SPSHMEET"
#define HOLD_MAGIC  "SPSHHOLD"
#define GOOD_MAGIC  "SPSHGOOD"
#define NOPE_MAGIC  "SPSHNOPE"
#define TABLE_MAGIC "SPSHALL1"
#define ASK_MAGIC   "SPSHASKS"
#define FILE_MAGIC  "speechshard meeting "
#define FILE_HEAD   FILE_MAGIC "2\n"
#define NO_ANSWER   "the process that listens there does not answer"
#define ROLE_RUN    "speechshard meeting run"
#define ROLE_COMES  "speechshard meeting connecting"
#define ROLE_HEARS  "speechshard meeting listening"

_Static_assert(ASK_BYTES == ANSWER_BYTES, "take_answer takes both");

typedef enum hello_kind { TO_FIRST = 1, TO_OTHER = 2 } hello_kind;

typedef struct claim {
    uint32_t kind, rank, port;
    uint64_t number;
} claim;

/* The bytes that proofs cover, in this order, and the first proof. Byte arrays only: no padding. */
typedef struct dialog {
    uint8_t port[4]; /* port of the listener */
    uint8_t hello[HELLO_BYTES];
    uint8_t ask[ASK_BYTES];
    uint8_t claim[CLAIM_BYTES + SPSH__PROOF_BYTES];
} dialog;

typedef struct meeting {
    const spsh__rendezvous_options *o;
    const spsh__launch *launch;
    const spsh_allocator *allocator;
    int *sockets;
    char run[RUN_BYTES]; /* name of the run */
    char path[4096];     /* path of the meeting file; empty: none */
    bool is_file_secret; /* the file holds the secret, since the environment does not */
    bool is_file_place;  /* the file publishes the address of rank 0 */
    bool has_secret;
    spsh__secret secret;
    char host[256]; /* host of rank 0; empty: not known */
    uint32_t port;
    bool is_local; /* all ranks are on one node */
    uint64_t number, end_ns;
    int listeners[2]; /* this rank's listener; on rank 0, another at the known port */
    uint32_t own_port;
    struct sockaddr_in6 *addresses; /* address of each rank */
    char why[160];                  /* reason that the last complete try failed */
    bool is_refused;                /* why is a rejection; later reasons are less informative */
    bool is_final;                  /* another try of this connection would fail, too */
} meeting;

static bool is_stopped(const meeting *m)
{
    return m->o->stop != NULL && *m->o->stop != 0;
}

static bool is_over(const meeting *m)
{
    return spsh__now_ns() >= m->end_ns || is_stopped(m);
}

static void hang_up(int *socket)
{
    if (*socket >= 0)
        (void)close(*socket);
    *socket = -1;
}

/* ---- sockets ---- */

static void set_up(int socket)
{
    const int on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* port 0: any. Return -1 on failure: errno has the reason. */
static int listen_at(const meeting *m, uint32_t port)
{
    const int on = 1, off = 0;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int s = -1;
    v4.sin_addr.s_addr = htonl(m->is_local ? INADDR_LOOPBACK : INADDR_ANY);
    if (!m->is_local)
        s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool is_v6 = s >= 0;
    if (!is_v6)
        s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (is_v6)
        (void)setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    const int rc = is_v6 ? bind(s, (struct sockaddr *)&v6, sizeof(v6))
                         : bind(s, (struct sockaddr *)&v4, sizeof(v4));
    if (rc == 0 && listen(s, 1024) == 0)
        return s;
    const int failed = errno;
    (void)close(s);
    errno = failed;
    return -1;
}

/* An IPv4 or IPv6 address has its port at the same offset. */
static uint32_t port_at(const void *address)
{
    uint16_t port = 0;
    memcpy(&port, (const uint8_t *)address + offsetof(struct sockaddr_in, sin_port), sizeof(port));
    return ntohs(port);
}

/* Return the local port of a socket. 0: unknown. */
static uint32_t port_of(int socket)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    return getsockname(socket, (struct sockaddr *)&at, &size) == 0 ? port_at(&at) : 0;
}

/* Poll often: a signal that requests a stop may interrupt another thread. */
static bool wait_for(const meeting *m, int socket, short events, uint64_t end_ns)
{
    struct pollfd p = {socket, events, 0};
    for (uint64_t now = spsh__now_ns(); !is_over(m) && now < end_ns; now = spsh__now_ns()) {
        const uint64_t left_ms = (end_ns - now) / 1000000 + 1;
        const int rc = poll(&p, 1, left_ms < AGAIN_MS ? (int)left_ms : AGAIN_MS);
        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static uint64_t after_ms(uint32_t ms)
{
    return spsh__now_ns() + ms * UINT64_C(1000000);
}

/* Send all bytes, within HELLO_MS and the meeting's time. */
static bool put(const meeting *m, int socket, const void *bytes, size_t size_bytes)
{
    const uint64_t end_ns = after_ms(HELLO_MS);
    const uint8_t *at = bytes;
    while (size_bytes > 0) {
        const ssize_t sent = send(socket, at, size_bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            size_bytes -= (size_t)sent;
        } else if (errno == EINTR) {
            continue;
        } else if (errno != EAGAIN || !wait_for(m, socket, POLLOUT, end_ns)) {
            return false;
        }
    }
    return true;
}

/* Receive all bytes. Single bytes do not extend the time: a slow peer has no more than a silent
 * one. */
static bool take(const meeting *m, int socket, void *bytes, size_t size_bytes, uint64_t end_ns)
{
    uint8_t *at = bytes;
    while (size_bytes > 0) {
        if (!wait_for(m, socket, POLLIN, end_ns))
            return false;
        const ssize_t got = recv(socket, at, size_bytes, 0);
        if (got > 0) {
            at += got;
            size_bytes -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        }
    }
    return true;
}

static int connect_to(const meeting *m, const struct sockaddr *to, socklen_t size)
{
    int failed = 0;
    socklen_t failed_size = sizeof(failed);
    int s = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    if (connect(s, to, size) != 0 && errno != EINPROGRESS)
        failed = errno;
    else if (!wait_for(m, s, POLLOUT, after_ms(HELLO_MS)))
        failed = ETIMEDOUT;
    else if (getsockopt(s, SOL_SOCKET, SO_ERROR, &failed, &failed_size) != 0)
        failed = EIO;
    if (failed == 0) {
        set_up(s);
        return s;
    }
    (void)close(s);
    errno = failed;
    return -1;
}

/* Keep the reason of a failed try for the error message. If the meeting's end cut a try short, the
 * try has no separate reason. After a rejection, the results of later tries explain nothing. Return
 * false.
 */
static bool note_why(meeting *m, bool is_refusal, const char *why)
{
    if (is_refusal || (!m->is_refused && (!is_over(m) || m->why[0] == '\0')))
        (void)snprintf(m->why, sizeof(m->why), "%s%.119s", is_refusal ? "refused: " : "", why);
    m->is_refused = m->is_refused || is_refusal;
    return false;
}

/* ---- proofs ---- */

/* The proof of the connecting rank. */
static void prove_coming(const meeting *m, const dialog *d, uint8_t proof[SPSH__PROOF_BYTES])
{
    spsh__proof_make(&m->secret, ROLE_COMES, d, sizeof(*d) - SPSH__PROOF_BYTES, proof);
}

/* Make the proof of the listener, which also covers the proof of the connecting rank. */
static void prove_hearing(const meeting *m, const dialog *d, uint8_t proof[SPSH__PROOF_BYTES])
{
    spsh__proof_make(&m->secret, ROLE_HEARS, d, sizeof(*d), proof);
}

static void prove_run(const meeting *m, uint8_t proof[SPSH__PROOF_BYTES])
{
    spsh__proof_make(&m->secret, ROLE_RUN, m->run, RUN_BYTES, proof);
}

static bool write_hello(uint8_t to[HELLO_BYTES])
{
    memset(to, 0, HELLO_BYTES);
    memcpy(to, HELLO_MAGIC, MAGIC_BYTES);
    spsh__store_u32le(to + MAGIC_BYTES, VERSION);
    return spsh__random_bytes(to + NONCE_AT, NONCE_BYTES);
}

static void write_claim(const meeting *m, hello_kind kind, uint64_t number, dialog *d)
{
    uint8_t *to = d->claim;
    spsh__store_u32le(to, kind);
    spsh__store_u32le(to + 4, m->launch->rank);
    spsh__store_u32le(to + 8, m->launch->world_size);
    spsh__store_u32le(to + 12, m->launch->restart_count);
    spsh__store_u32le(to + 16, m->own_port);
    spsh__store_u32le(to + 20, 0);
    spsh__store_u64le(to + 24, number);
    prove_run(m, to + 32);
    prove_coming(m, d, to + CLAIM_BYTES);
}

/* Check a claim. why: at least 120 bytes. Return false, with the reason in why, to reject it. The
 * reason is sent without encryption, so it must not name the run. */
static bool read_claim(const meeting *m, const dialog *d, claim *ret, char *why)
{
    const uint8_t *from = d->claim;
    const uint32_t world = spsh__load_u32le(from + 8), restarts = spsh__load_u32le(from + 12);
    const claim c = {spsh__load_u32le(from), spsh__load_u32le(from + 4),
                     spsh__load_u32le(from + 16), spsh__load_u64le(from + 24)};
    const bool must_know = m->launch->rank > 0; /* rank 0 sends the number to the others */
    uint8_t run[SPSH__PROOF_BYTES], proof[SPSH__PROOF_BYTES];
    prove_coming(m, d, proof);
    prove_run(m, run);
    *ret = c;
    if (!spsh__proof_is_equal(proof, from + CLAIM_BYTES))
        (void)snprintf(why, 120, "the secret is not the same on both ranks");
    else if (!spsh__proof_is_equal(run, from + 32))
        (void)snprintf(why, 120, "another run uses this address");
    else if (restarts != m->launch->restart_count)
        (void)snprintf(why, 120, "expected attempt %u of the run, found %u",
                       m->launch->restart_count, restarts);
    else if (world != m->launch->world_size)
        (void)snprintf(why, 120, "expected %u processes, found %u", m->launch->world_size, world);
    else if (c.number != m->number && (must_know || c.number != 0))
        (void)snprintf(why, 120, "the ranks have started again since");
    else if (c.kind != (must_know ? TO_OTHER : TO_FIRST) || c.rank <= m->launch->rank ||
             c.rank >= world || c.port == 0 || c.port > 65535)
        (void)snprintf(why, 120, "a connection from rank %u was not expected here", c.rank);
    else
        return true;
    return false;
}

static void refuse(const meeting *m, int socket, const char *why)
{
    uint8_t nope[NOPE_BYTES] = {0};
    memcpy(nope, NOPE_MAGIC, MAGIC_BYTES);
    memcpy(nope + MAGIC_BYTES, why, strnlen(why, NOPE_BYTES - MAGIC_BYTES - 1));
    (void)put(m, socket, nope, sizeof(nope));
}

/* ---- connecting ---- */

/* Receive a message of ANSWER_BYTES with this magic. Return false on failure: m->why has the
 * reason. */
static bool take_answer(meeting *m, int s, const char *magic, uint64_t end_ns, uint8_t *to)
{
    char why[NOPE_BYTES - MAGIC_BYTES];
    if (!take(m, s, to, MAGIC_BYTES, end_ns))
        return note_why(m, false, NO_ANSWER);
    if (memcmp(to, magic, MAGIC_BYTES) == 0)
        return take(m, s, to + MAGIC_BYTES, ANSWER_BYTES - MAGIC_BYTES, after_ms(HELLO_MS)) ||
               note_why(m, false, NO_ANSWER);
    if (memcmp(to, NOPE_MAGIC, MAGIC_BYTES) != 0 ||
        !take(m, s, why, sizeof(why), after_ms(HELLO_MS)))
        return note_why(m, false, "the program that listens there is not speechshard");
    why[sizeof(why) - 1] = '\0';
    for (char *c = why; *c != '\0'; c++) /* any process may have sent them */
        if (*c < ' ' || *c > '~')
            *c = '?';
    m->is_final = true;
    return note_why(m, true, why);
}

/* Exchange hello, ask, claim, and answer. s: socket connected to a listener at `port`. */
static bool speak(meeting *m, int s, uint32_t port, hello_kind kind, uint64_t number)
{
    dialog d = {.port = {0}};
    uint8_t answer[ANSWER_BYTES], proof[SPSH__PROOF_BYTES];
    /* A rank other than 0 answers only after it has connected to the ranks below it. Once it has
     * answered all, it closes its listener, so a second try could fail. */
    const bool is_patient = kind == TO_OTHER;
    spsh__store_u32le(d.port, port);
    if (!write_hello(d.hello))
        return note_why(m, false, "the system has no random numbers");
    if (!put(m, s, d.hello, sizeof(d.hello)))
        return note_why(m, false, NO_ANSWER);
    if (!take_answer(m, s, ASK_MAGIC, is_patient ? m->end_ns : after_ms(HELLO_MS), d.ask))
        return false;
    write_claim(m, kind, number, &d);
    if (!put(m, s, d.claim, sizeof(d.claim)))
        return note_why(m, false, NO_ANSWER);
    if (!take_answer(m, s, is_patient ? GOOD_MAGIC : HOLD_MAGIC,
                     is_patient ? m->end_ns : after_ms(HELLO_MS), answer))
        return false;
    prove_hearing(m, &d, proof);
    return spsh__proof_is_equal(proof, answer + MAGIC_BYTES) ||
           note_why(m, false, "the process that listens there does not know the secret");
}

/* Connect, and prove the secret. Return the socket, or -1: m->why has the reason. */
static int greet(meeting *m, const struct sockaddr *to, socklen_t size, hello_kind kind,
                 uint64_t number)
{
    int s = connect_to(m, to, size);
    m->is_final = s < 0 && errno != ETIMEDOUT;
    if (s < 0)
        (void)note_why(m, false, strerror(errno));
    else if (!speak(m, s, port_at(to), kind, number))
        hang_up(&s);
    return s;
}

/* ---- incoming connections ---- */

typedef struct caller {
    int socket;
    uint32_t at; /* bytes received of the hello or the claim */
    bool is_asked;
    uint64_t since_ns;
    dialog said;
} caller;

/* Answer a complete hello. Return false to close the connection. */
static bool ask(const meeting *m, caller *c)
{
    dialog *d = &c->said;
    if (memcmp(d->hello, HELLO_MAGIC, MAGIC_BYTES) != 0)
        return false;
    if (spsh__load_u32le(d->hello + MAGIC_BYTES) != VERSION) {
        refuse(m, c->socket, "the ranks have different versions of speechshard");
        return false;
    }
    spsh__store_u32le(d->port, port_of(c->socket));
    memcpy(d->ask, ASK_MAGIC, MAGIC_BYTES);
    c->is_asked = true;
    c->at = 0;
    return spsh__random_bytes(d->ask + MAGIC_BYTES, NONCE_BYTES) &&
           put(m, c->socket, d->ask, sizeof(d->ask));
}

/* The other end of a connection, with the port at which that rank listens. */
static bool find_address(int socket, uint32_t port, struct sockaddr_in6 *ret)
{
    struct sockaddr_in6 from = {0};
    socklen_t size = sizeof(from);
    if (getpeername(socket, (struct sockaddr *)&from, &size) != 0)
        return false;
    if (from.sin6_family == AF_INET) { /* IPv4 address in IPv6 form */
        const struct sockaddr_in v4 = *(struct sockaddr_in *)(void *)&from;
        from = (struct sockaddr_in6){.sin6_family = AF_INET6};
        from.sin6_addr.s6_addr[10] = from.sin6_addr.s6_addr[11] = 0xff;
        memcpy(from.sin6_addr.s6_addr + 12, &v4.sin_addr, 4);
    }
    from.sin6_port = htons((uint16_t)port);
    *ret = from;
    return true;
}

/* Handle a complete claim: keep the connection of the rank, or leave it to be closed. */
static void take_in(meeting *m, caller *c, uint32_t *missing)
{
    uint8_t answer[ANSWER_BYTES];
    struct sockaddr_in6 from;
    char why[120] = "";
    claim of;
    if (!read_claim(m, &c->said, &of, why)) {
        refuse(m, c->socket, why);
        return;
    }
    memcpy(answer, m->launch->rank == 0 ? HOLD_MAGIC : GOOD_MAGIC, MAGIC_BYTES);
    prove_hearing(m, &c->said, answer + MAGIC_BYTES);
    if (!find_address(c->socket, of.port, &from) || !put(m, c->socket, answer, sizeof(answer)))
        return;
    *missing -= m->sockets[of.rank] < 0;
    hang_up(&m->sockets[of.rank]); /* the rank may have connected before */
    m->addresses[of.rank] = from;
    m->sockets[of.rank] = c->socket;
    c->socket = -1;
}

/* Read from a connection. Return true if more is to come, and false once it was accepted or must be
 * closed. Its time ends HELLO_MS after the connection, however slowly bytes arrive. */
static bool hear(meeting *m, caller *c, uint32_t *missing)
{
    uint8_t *to = c->is_asked ? c->said.claim : c->said.hello;
    const uint32_t size = c->is_asked ? sizeof(c->said.claim) : sizeof(c->said.hello);
    const ssize_t got = recv(c->socket, to + c->at, size - c->at, 0);
    bool stays = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    c->at += got > 0 ? (uint32_t)got : 0;
    if (stays && c->at == size && c->is_asked) {
        take_in(m, c, missing);
        stays = false;
    } else if (stays && c->at == size) {
        stays = ask(m, c);
    } else if (stays) {
        stays = spsh__now_ns() - c->since_ns < HELLO_MS * UINT64_C(1000000);
    }
    if (!stays)
        hang_up(&c->socket);
    return stays;
}

static spsh_status name_missing(const meeting *m, spsh_error *err)
{
    char names[100] = "";
    size_t length = 0;
    for (uint32_t r = m->launch->rank + 1; r < m->launch->world_size && length < 80; r++)
        if (m->sockets[r] < 0)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%u",
                                       length == 0 ? "" : ", ", r);
    return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                     "rank %s of %u did not connect within %.1f s; they look for rank 0 %s %.100s",
                     names, m->launch->world_size, (double)m->o->deadline_ms / 1e3,
                     m->is_file_place ? "by" : "at", m->is_file_place ? m->path : m->host);
}

/* Drop ranks that hung up because they got no answer in time. They connect again. A hello that this
 * process reads late may belong to a rank that no longer waits. */
static uint32_t forget_gone(const meeting *m)
{
    uint32_t gone = 0;
    for (uint32_t r = 1; r < m->launch->world_size; r++) {
        uint8_t byte;
        const ssize_t got =
            m->sockets[r] < 0 ? 1 : recv(m->sockets[r], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            hang_up(&m->sockets[r]);
            gone++;
        }
    }
    return gone;
}

/* Accept connections. Those without a proof have PENDING_MAX slots: one more replaces the oldest,
 * so that idle connections never keep a rank out. */
static void answer_door(int listener, caller *callers, uint32_t *count)
{
    for (uint32_t i = 0; i < ACCEPTS_A_TURN; i++) {
        const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        const bool is_short = s < 0 && (errno == EMFILE || errno == ENFILE);
        if (s < 0 && !is_short)
            return;
        if (*count == PENDING_MAX || (is_short && *count > 0)) {
            hang_up(&callers[0].socket);
            --*count;
            memmove(callers, callers + 1, *count * sizeof(*callers));
        }
        if (is_short)
            return;
        set_up(s);
        callers[*count] = (caller){.socket = s, .since_ns = spsh__now_ns()};
        ++*count;
    }
}

/* Accept connections until all ranks above this one have connected. */
static spsh_status welcome(meeting *m, spsh_error *err)
{
    caller callers[PENDING_MAX]; /* oldest first */
    uint32_t count = 0;
    uint32_t missing = m->launch->world_size - 1 - m->launch->rank;
    while (missing > 0 && !is_over(m)) {
        struct pollfd p[PENDING_MAX + 2];
        for (uint32_t i = 0; i < count; i++)
            p[i] = (struct pollfd){callers[i].socket, POLLIN, 0};
        for (uint32_t i = 0; i < 2; i++)
            p[count + i] = (struct pollfd){m->listeners[i], POLLIN, 0};
        (void)poll(p, count + 2, AGAIN_MS);
        uint32_t stay = 0;
        for (uint32_t i = 0; i < count; i++)
            if (hear(m, &callers[i], &missing))
                callers[stay++] = callers[i];
        count = stay;
        for (uint32_t i = 0; i < 2; i++)
            if (m->listeners[i] >= 0)
                answer_door(m->listeners[i], callers, &count);
        if (missing == 0 && m->launch->rank == 0) /* other ranks do not reconnect */
            missing = forget_gone(m);
    }
    for (uint32_t i = 0; i < count; i++)
        hang_up(&callers[i].socket);
    return missing == 0 ? SPSH_OK : name_missing(m, err);
}

/* ---- the meeting file ---- */

static size_t put_addresses(char *text, size_t length, size_t capacity)
{
    struct ifaddrs *all = NULL;
    uint32_t count = 0;
    if (getifaddrs(&all) != 0)
        return length;
    for (const struct ifaddrs *i = all; i != NULL && count < ADDRESSES_MAX; i = i->ifa_next) {
        char name[INET6_ADDRSTRLEN] = "";
        if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 ||
            (i->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)i->ifa_addr;
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)i->ifa_addr;
        if (i->ifa_addr->sa_family == AF_INET)
            (void)inet_ntop(AF_INET, &v4->sin_addr, name, sizeof(name));
        else if (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
            (void)inet_ntop(AF_INET6, &v6->sin6_addr, name, sizeof(name));
        if (name[0] == '\0' || length + sizeof(name) + 16 > capacity)
            continue;
        length += (size_t)snprintf(text + length, capacity - length, "address %s\n", name);
        count++;
    }
    freeifaddrs(all);
    return length;
}

/* Create a file that only this user may read. path: a template of mkostemp. Return -1 on failure:
 * err has the reason. */
static int create_private(const meeting *m, char *path, spsh_error *err)
{
    struct stat found;
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found) != 0)
        (void)SPSH_FAIL_OS(err, SPSH_E_IO, errno, "%.200s: %s", m->path, strerror(errno));
    else if (m->is_file_secret && (found.st_mode & 077) != 0)
        (void)SPSH_FAIL(err, SPSH_E_IO,
                        "%.120s: cannot keep a secret in this file, because other users may read "
                        "new files here (mode %o); set " SPSH__LAUNCH_SECRET " for all ranks",
                        m->path, (unsigned)found.st_mode & 0777);
    else
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* Write the file and rename it into place: a reader sees the old file or the new file. */
static spsh_status write_file(const meeting *m, spsh_error *err)
{
    char text[FILE_BYTES], hex[SPSH__SECRET_HEX_BYTES] = "-";
    char draft[sizeof(m->path) + 32];
    if (m->is_file_secret)
        spsh__secret_write(&m->secret, hex);
    size_t length = (size_t)snprintf(text, sizeof(text),
                                     FILE_HEAD "number %016" PRIx64 "\nport %u\nsecret %s\n",
                                     m->number, m->own_port, hex);
    if (m->is_local)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "address 127.0.0.1\n");
    else
        length = put_addresses(text, length, sizeof(text));
    (void)snprintf(draft, sizeof(draft), "%s.XXXXXX", m->path);
    const int fd = create_private(m, draft, err);
    if (fd < 0) {
        (void)unlink(draft);
        return SPSH_E_IO;
    }
    bool is_good = write(fd, text, length) == (ssize_t)length;
    is_good = close(fd) == 0 && is_good;
    explicit_bzero(text, sizeof(text));
    explicit_bzero(hex, sizeof(hex));
    if (is_good && rename(draft, m->path) == 0)
        return SPSH_OK;
    const int failed = errno;
    (void)unlink(draft);
    return SPSH_FAIL_OS(err, SPSH_E_IO, failed, "%.200s: %s", m->path, strerror(failed));
}

typedef struct place { /* published address of rank 0 */
    uint64_t number;
    uint32_t port, count;
    char addresses[ADDRESSES_MAX][INET6_ADDRSTRLEN];
    spsh__secret secret; /* only if the file holds one */
} place;

/* Read the meeting file. text: FILE_BYTES. Return false on failure: m->why has the reason. A secret
 * that other users can read proves nothing. */
static bool load_file(meeting *m, char *text)
{
    struct stat found;
    const int fd = open(m->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t length = -1;
    char why[120];
    if (fd < 0) {
        (void)snprintf(why, sizeof(why), "%.40s%s", strerror(errno),
                       m->is_file_secret ? ": share the folder, or set " SPSH__LAUNCH_SECRET
                                           " for all ranks"
                                         : "");
        return note_why(m, false, why);
    }
    const bool is_there = fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
    const bool is_private = is_there && (found.st_mode & 07) == 0; /* Kubernetes adds a group */
    if (is_there && (is_private || !m->is_file_secret))
        length = read(fd, text, FILE_BYTES - 1);
    (void)close(fd);
    if (length < 0)
        note_why(m, false,
                 is_there && !is_private ? "other users can read that file"
                                         : "cannot read that file");
    text[length < 0 ? 0 : length] = '\0';
    return length >= 0 && strlen(text) == (size_t)length;
}

/* Parse the meeting file. Reject any content that write_file does not write. */
static bool parse_file(meeting *m, const char *text, place *ret)
{
    char hex[SPSH__SECRET_HEX_BYTES] = "";
    int used = 0;
    if (strncmp(text, FILE_HEAD, strlen(FILE_HEAD)) != 0)
        return note_why(m, false,
                        strncmp(text, FILE_MAGIC, strlen(FILE_MAGIC)) == 0
                            ? "another version of speechshard wrote that file"
                            : "that file is not a meeting file of speechshard");
    const char *at = text + strlen(FILE_HEAD);
    /* NOLINTNEXTLINE(cert-err34-c): widths bound the numbers */
    if (sscanf(at, "number %16" SCNx64 "\nport %5" SCNu32 "\nsecret %64[-0-9a-f]\n%n", &ret->number,
               &ret->port, hex, &used) != 3 ||
        used == 0 || ret->number == 0 || ret->port == 0 || ret->port > 65535)
        return false;
    for (at += used; ret->count < ADDRESSES_MAX && *at != '\0'; at += used) {
        used = 0;
        if (sscanf(at, "address %45[0-9a-fA-F:.]\n%n", ret->addresses[ret->count], &used) != 1 ||
            used == 0)
            return false;
        ret->count++;
    }
    if (m->is_file_secret && !spsh__secret_read(hex, &ret->secret))
        return note_why(m, false, "rank 0 has " SPSH__LAUNCH_SECRET " set, and this rank has not");
    return ret->count > 0 || !m->is_file_place;
}

static bool read_file(meeting *m, place *ret)
{
    char text[FILE_BYTES];
    *ret = (place){0};
    const bool is_good = load_file(m, text) && parse_file(m, text, ret);
    explicit_bzero(text, sizeof(text));
    return is_good;
}

/* ---- connecting to rank 0 ---- */

/* Try each address of a host name in turn. */
static int greet_first(meeting *m, const char *host, uint32_t port, uint64_t number)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[16], why[120];
    int s = -1;
    (void)snprintf(service, sizeof(service), "%u", port);
    const int rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0) {
        (void)snprintf(why, sizeof(why), "%.60s: %s", host, gai_strerror(rc));
        note_why(m, false, why);
        return -1;
    }
    for (const struct addrinfo *i = found; i != NULL && s < 0; i = i->ai_next)
        s = greet(m, i->ai_addr, i->ai_addrlen, TO_FIRST, number);
    freeaddrinfo(found);
    return s;
}

static int try_first(meeting *m)
{
    place p = {0};
    int s = -1;
    const bool has_file = m->path[0] != '\0' && read_file(m, &p);
    if (m->is_file_secret && has_file) {
        m->secret = p.secret;
        m->has_secret = true;
    }
    if (!m->has_secret)
        return -1;
    if (m->is_file_place && has_file)
        for (uint32_t i = 0; i < p.count && s < 0; i++)
            s = greet_first(m, p.addresses[i], p.port, p.number);
    if (s < 0 && m->host[0] != '\0')
        s = greet_first(m, m->host, m->port, 0);
    return s;
}

static bool take_table(meeting *m, int first)
{
    const uint32_t world = m->launch->world_size;
    const size_t size = 16 + (size_t)world * ENTRY_BYTES;
    uint8_t *table = spsh__new(m->allocator, 1, size);
    const bool is_good = table != NULL && take(m, first, table, size, m->end_ns) &&
                         memcmp(table, TABLE_MAGIC, MAGIC_BYTES) == 0;
    for (uint32_t r = 1; is_good && r < world; r++) {
        const uint8_t *entry = table + 16 + (size_t)r * ENTRY_BYTES;
        m->addresses[r] = (struct sockaddr_in6){.sin6_family = AF_INET6};
        memcpy(&m->addresses[r].sin6_addr, entry, 16);
        m->addresses[r].sin6_port = htons((uint16_t)spsh__load_u32le(entry + 16));
    }
    if (is_good)
        m->number = spsh__load_u64le(table + MAGIC_BYTES);
    spsh__free(m->allocator, table);
    return is_good;
}

/* Connect to rank 0. Retry, because it may not have started, or the address may be of an earlier
 * start. */
static spsh_status find_first(meeting *m, spsh_error *err)
{
    const struct timespec pause = {0, AGAIN_MS * 1000000L};
    while (!is_over(m)) {
        int s = try_first(m);
        if (s >= 0 && take_table(m, s)) {
            m->sockets[0] = s;
            m->is_refused = false; /* an earlier address was rejected */
            return SPSH_OK;
        }
        if (s >= 0)
            note_why(m, false, "rank 0 disconnected");
        hang_up(&s);
        (void)nanosleep(&pause, NULL);
    }
    return SPSH_FAIL(err, SPSH_E_TIMEOUT,
                     "rank 0 was not found within %.1f s %s %.120s%s%.160s; this is rank %u of %u",
                     (double)m->o->deadline_ms / 1e3, m->is_file_place ? "by" : "at",
                     m->is_file_place ? m->path : m->host, m->why[0] != '\0' ? ": " : "", m->why,
                     m->launch->rank, m->launch->world_size);
}

/* Connect to another rank. Retry, because a flooded listener may drop a connection before its
 * proof. */
static int greet_other(meeting *m, const struct sockaddr *to, socklen_t size)
{
    const struct timespec pause = {0, AGAIN_MS * 1000000L};
    while (true) {
        const int s = greet(m, to, size, TO_OTHER, m->number);
        if (s >= 0 || m->is_final || is_over(m))
            return s;
        (void)nanosleep(&pause, NULL);
    }
}

static spsh_status go_to_others(meeting *m, spsh_error *err)
{
    for (uint32_t r = 1; r < m->launch->rank; r++) {
        struct sockaddr_in6 to = m->addresses[r];
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = to.sin6_port};
        memcpy(&v4.sin_addr, to.sin6_addr.s6_addr + 12, 4);
        m->sockets[r] = IN6_IS_ADDR_V4MAPPED(&to.sin6_addr)
                            ? greet_other(m, (struct sockaddr *)&v4, sizeof(v4))
                            : greet_other(m, (struct sockaddr *)&to, sizeof(to));
        if (m->sockets[r] < 0)
            return SPSH_FAIL(err, SPSH_E_TIMEOUT, "rank %u is not reachable from rank %u: %.160s",
                             r, m->launch->rank, m->why);
    }
    return SPSH_OK;
}

/* ---- rank 0 ---- */

static spsh_status give_table(const meeting *m, spsh_error *err)
{
    const uint32_t world = m->launch->world_size;
    const size_t size = 16 + (size_t)world * ENTRY_BYTES;
    uint8_t *table = spsh__new(m->allocator, 1, size);
    spsh_status rc = SPSH_OK;
    if (table == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(table, TABLE_MAGIC, MAGIC_BYTES);
    spsh__store_u64le(table + MAGIC_BYTES, m->number);
    for (uint32_t r = 1; r < world; r++) {
        uint8_t *entry = table + 16 + (size_t)r * ENTRY_BYTES;
        memcpy(entry, &m->addresses[r].sin6_addr, 16);
        spsh__store_u32le(entry + 16, ntohs(m->addresses[r].sin6_port));
    }
    for (uint32_t r = 1; rc == SPSH_OK && r < world; r++)
        if (!put(m, m->sockets[r], table, size))
            rc = SPSH_FAIL(err, SPSH_E_TIMEOUT,
                           "rank %u connected, but disconnected before all ranks were there", r);
    spsh__free(m->allocator, table);
    return rc;
}

static spsh_status lead(meeting *m, spsh_error *err)
{
    const bool is_folder_new = m->path[0] != '\0' && m->o->folder != NULL &&
                               strncmp(m->path, m->o->folder, strlen(m->o->folder)) == 0 &&
                               mkdir(m->o->folder, 0777) == 0;
    spsh_status rc = SPSH_OK;
    if (!spsh__random_bytes(&m->number, sizeof(m->number)) ||
        (m->is_file_secret && !spsh__random_bytes(&m->secret, sizeof(m->secret))))
        return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "the system has no random numbers: %s",
                            strerror(errno));
    m->number |= m->number == 0; /* 0: not known */
    m->has_secret = true;
    if (m->host[0] != '\0') {
        m->listeners[1] = listen_at(m, m->port);
        if (m->listeners[1] < 0 && m->path[0] == '\0')
            return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "rank 0 cannot listen on port %u: %s",
                                m->port, strerror(errno));
    }
    if (m->path[0] != '\0')
        rc = write_file(m, err);
    if (rc == SPSH_OK)
        rc = welcome(m, err);
    if (rc == SPSH_OK)
        rc = give_table(m, err);
    if (m->path[0] != '\0')
        (void)unlink(m->path);
    if (is_folder_new) /* a run that does not start leaves no folder */
        (void)rmdir(m->o->folder);
    return rc;
}

/* ---- the address ---- */

/* Name of the run: the launcher's run ID. Runs without a name share torchrun's "none", so the run
 * folder identifies them. */
static void name_run(const spsh__rendezvous_options *o, char *name)
{
    const char *id = o->launch->run_id;
    const bool is_named = id[0] != '\0' && strcmp(id, "none") != 0;
    if (is_named || o->folder == NULL)
        (void)snprintf(name, RUN_BYTES, "%s", id);
    else
        (void)snprintf(name, RUN_BYTES, "folder %016" PRIx64,
                       XXH3_64bits(o->folder, strlen(o->folder)));
}

bool spsh__rendezvous_path(const spsh__rendezvous_options *o, char *path, size_t capacity)
{
    const bool is_named = o->where != NULL && strncmp(o->where, "file://", 7) == 0;
    const char *folder = is_named ? o->where + 7 : o->folder;
    char run[RUN_BYTES], key[RUN_BYTES + 32];
    name_run(o, run);
    (void)snprintf(key, sizeof(key), "%s %u %u", run, o->launch->restart_count,
                   o->launch->world_size);
    const uint64_t hash = XXH3_64bits(key, strlen(key));
    const int length = snprintf(path, capacity, "%s/.meeting-%016" PRIx64, folder, hash);
    return length > 0 && (size_t)length < capacity;
}

/* "tcp://HOST:PORT", "tcp://[ADDRESS]:PORT" */
static bool read_tcp(meeting *m, const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    const bool is_bracketed = text[0] == '[';
    if (colon == NULL || colon == text)
        return false;
    const char *end = colon + 1;
    size_t length = (size_t)(colon - text);
    if (is_bracketed && (length < 3 || text[length - 1] != ']'))
        return false;
    text += is_bracketed;
    length -= is_bracketed ? 2 : 0;
    if (!spsh__take_digits(&end, 65535, &port) || *end != '\0' || port == 0 || length == 0 ||
        length >= sizeof(m->host))
        return false;
    memcpy(m->host, text, length);
    m->host[length] = '\0';
    m->port = (uint32_t)port;
    return true;
}

/* Check the folder of file://FOLDER on every rank. Otherwise only rank 0 would fail, and the others
 * would wait for its file. Rank 0 creates the run folder, so that one may be missing. */
static spsh_status check_folder(const spsh__rendezvous_options *o, const char *folder,
                                spsh_error *err)
{
    struct stat info;
    const size_t run_length = o->folder == NULL ? 0 : strlen(o->folder);
    if (run_length > 0 && strncmp(folder, o->folder, run_length) == 0 &&
        folder[run_length + strspn(folder + run_length, "/")] == '\0')
        return SPSH_OK;
    const int os_errno = stat(folder, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
    if (os_errno == 0)
        return SPSH_OK;
    return SPSH_FAIL_OS(err, SPSH_E_IO, os_errno,
                        "the rendezvous folder %.200s: %s: name an existing folder that all "
                        "processes share",
                        folder, strerror(os_errno));
}

static spsh_status find_place(meeting *m, spsh_error *err)
{
    const spsh__rendezvous_options *o = m->o;
    const spsh__launch *l = m->launch;
    const bool is_auto = o->where == NULL || strcmp(o->where, "auto") == 0;
    const bool is_file = !is_auto && strncmp(o->where, "file://", 7) == 0 && o->where[7] != '\0';
    const bool is_tcp = !is_auto && strncmp(o->where, "tcp://", 6) == 0;
    if (!is_auto && !is_file && !(is_tcp && read_tcp(m, o->where + 6)))
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "the rendezvous must be auto, file://FOLDER, or tcp://HOST:PORT, not '%.100s'",
            o->where);
    const spsh_status rc = is_file ? check_folder(o, o->where + 7, err) : SPSH_OK;
    if (rc != SPSH_OK)
        return rc;
    const uint64_t port = (uint64_t)l->master_port + 1 + l->restart_count;
    if (is_auto && l->master[0] != '\0' && l->master_port != 0 && port <= 65535) {
        (void)snprintf(m->host, sizeof(m->host), "%s", l->master);
        m->port = (uint32_t)port;
    }
    if (m->is_local && m->host[0] != '\0')
        (void)snprintf(m->host, sizeof(m->host), "127.0.0.1");
    m->is_file_place = is_file || (is_auto && o->folder != NULL);
    m->is_file_secret = !m->has_secret;
    const bool has_file = m->is_file_place || (m->is_file_secret && o->folder != NULL);
    if (has_file && !spsh__rendezvous_path(o, m->path, sizeof(m->path)))
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the path of the rendezvous folder is too long");
    if (!m->is_file_place && m->host[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "MASTER_ADDR and MASTER_PORT are not set: set the rendezvous to "
                         "file://FOLDER or tcp://HOST:PORT");
    if (m->is_file_secret && !has_file)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the ranks share no secret: without a folder that all of them see, "
                         "set " SPSH__LAUNCH_SECRET " to the same random string for all ranks");
    return SPSH_OK;
}

static spsh_status meet(meeting *m, spsh_error *err)
{
    const spsh__launch *l = m->launch;
    m->listeners[0] = listen_at(m, 0);
    m->own_port = m->listeners[0] < 0 ? 0 : port_of(m->listeners[0]);
    if (m->own_port == 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "cannot open a port for the other ranks: %s",
                            strerror(errno));
    if (l->rank == 0)
        return lead(m, err);
    spsh_status rc = find_first(m, err);
    if (rc == SPSH_OK)
        rc = go_to_others(m, err);
    return rc == SPSH_OK ? welcome(m, err) : rc;
}

spsh_status spsh__rendezvous_meet(const spsh__rendezvous_options *options,
                                  const spsh_allocator *allocator, int *sockets, spsh_error *err)
{
    const spsh__launch *l = options->launch;
    meeting *m = spsh__new(allocator, 1, sizeof(*m));
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 0; r < l->world_size; r++)
        sockets[r] = -1;
    if (m == NULL)
        return SPSH_NO_MEMORY(err);
    *m = (meeting){
        .o = options,
        .launch = l,
        .allocator = allocator,
        .sockets = sockets,
        .listeners = {-1, -1},
        .is_local = l->local_size == l->world_size,
        .end_ns = spsh__now_ns() + options->deadline_ms * UINT64_C(1000000)
    };
    name_run(options, m->run);
    m->addresses = spsh__new(allocator, l->world_size, sizeof(*m->addresses));
    if (m->addresses == NULL)
        rc = SPSH_NO_MEMORY(err);
    m->has_secret = l->secret != NULL;
    if (m->has_secret)
        spsh__secret_of_text(l->secret, &m->secret);
    if (rc == SPSH_OK)
        rc = find_place(m, err);
    if (rc == SPSH_OK)
        rc = meet(m, err);
    if (rc == SPSH_E_TIMEOUT && is_stopped(m))
        rc = SPSH_FAIL(
            err, SPSH_E_CANCELED,
            "stopped while rank %u of %u waited for the other ranks; the run has not started",
            l->rank, l->world_size);
    for (uint32_t r = 0; rc != SPSH_OK && r < l->world_size; r++)
        hang_up(&sockets[r]);
    hang_up(&m->listeners[0]);
    hang_up(&m->listeners[1]);
    spsh__free(allocator, m->addresses);
    explicit_bzero(&m->secret, sizeof(m->secret));
    spsh__free(allocator, m);
    return rc;
}

/* rendezvous.c: see rendezvous.h.
 *
 *     hello    8 magic, 4 version, 4 kind (1 to rank 0, 2 to another), 4 rank, 4 world size,
 *              4 restarts, 4 own port, 8 number of the meeting (0: not known), 128 run
 *     answer   8 magic: HOLD (stay on the line), GOOD (connected) or NOPE and 120 of why not
 *     table    8 magic, 8 number of the meeting; of each rank 16 address (IPv6 or mapped IPv4),
 *              4 port
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
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "train_internal.h"

enum {
    HELLO_BYTES = 168,
    MAGIC_BYTES = 8,
    NOPE_BYTES = 128,
    ENTRY_BYTES = 20,
    RUN_BYTES = 128,
    FILE_BYTES = 4096,
    ADDRESSES_MAX = 16,
    PENDING_MAX = 64, /* that have connected and said nothing yet */
    HELLO_MS = 5000,  /* for a hello and its answer */
    AGAIN_MS = 100,   /* between two tries */
    VERSION = 1,
};

#define HELLO_MAGIC "SPSHMEET"
#define HOLD_MAGIC  "SPSHHOLD"
#define GOOD_MAGIC  "SPSHGOOD"
#define NOPE_MAGIC  "SPSHNOPE"
#define TABLE_MAGIC "SPSHALL1"
#define FILE_HEAD   "speechshard meeting 1\n"

typedef enum hello_kind { TO_FIRST = 1, TO_OTHER = 2 } hello_kind;

typedef struct hello {
    uint32_t kind, rank, port;
    uint64_t number;
} hello;

typedef struct meeting {
    const spsh__rendezvous_options *o;
    const spsh__launch *launch;
    const spsh_allocator *allocator;
    int *sockets;
    char run[RUN_BYTES]; /* which one: the cookie */
    char path[4096];     /* of the file; empty: none */
    char host[256];      /* of rank 0; empty: not known */
    uint32_t port;
    bool is_local; /* all on one node */
    uint64_t number, end_ns;
    int listeners[2]; /* own port; rank 0's known one */
    uint32_t own_port;
    struct sockaddr_in6 *addresses; /* of ranks */
    char why[160];                  /* the last whole try failed */
    bool is_refused;                /* that is why; other reasons tell less */
} meeting;

static int ms_left(const meeting *m, int at_most)
{
    const uint64_t now = spsh__now_ns();
    const uint64_t left = now >= m->end_ns ? 0 : (m->end_ns - now) / 1000000;
    return left < (uint64_t)at_most ? (int)left : at_most;
}

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

/* port 0: any. -1: errno says why not. */
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

static uint32_t port_of(int listener)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);
    if (getsockname(listener, (struct sockaddr *)&at, &size) != 0)
        return 0;
    uint16_t port = 0; /* at the same place in both kinds */
    memcpy(&port, (const uint8_t *)&at + offsetof(struct sockaddr_in, sin_port), sizeof(port));
    return ntohs(port);
}

/* Looks up often: a signal that asks to stop may come to another thread. */
static bool wait_for(const meeting *m, int socket, short events, int timeout_ms)
{
    const uint64_t begin_ns = spsh__now_ns();
    struct pollfd p = {socket, events, 0};
    while (!is_over(m)) {
        const uint64_t waited_ms = (spsh__now_ns() - begin_ns) / 1000000;
        const int left_ms = waited_ms < (uint64_t)timeout_ms ? timeout_ms - (int)waited_ms : 0;
        const int rc = poll(&p, 1, left_ms < AGAIN_MS ? left_ms : AGAIN_MS);
        if (rc > 0)
            return true;
        if ((rc < 0 && errno != EINTR) || left_ms == 0)
            return false;
    }
    return false;
}

/* All of it, within HELLO_MS and the meeting's time. */
static bool put(const meeting *m, int socket, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    while (size_bytes > 0) {
        const ssize_t sent = send(socket, at, size_bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            size_bytes -= (size_t)sent;
        } else if (errno == EINTR) {
            continue;
        } else if (errno != EAGAIN || !wait_for(m, socket, POLLOUT, ms_left(m, HELLO_MS))) {
            return false;
        }
    }
    return true;
}

static bool take(const meeting *m, int socket, void *bytes, size_t size_bytes, int timeout_ms)
{
    uint8_t *at = bytes;
    while (size_bytes > 0) {
        const ssize_t got = recv(socket, at, size_bytes, 0);
        if (got > 0) {
            at += got;
            size_bytes -= (size_t)got;
        } else if (got < 0 && errno == EINTR) {
            continue;
        } else if (got == 0 || errno != EAGAIN ||
                   !wait_for(m, socket, POLLIN, ms_left(m, timeout_ms))) {
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
    else if (!wait_for(m, s, POLLOUT, ms_left(m, HELLO_MS)))
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

/* What `why` says. A try that the meeting's end cut short says nothing about who was tried, and
 * where somebody refused, what came of later tries does not explain it. */
static void note_why(meeting *m, bool is_refusal, const char *why)
{
    if (is_refusal || (!m->is_refused && (!is_over(m) || m->why[0] == '\0')))
        (void)snprintf(m->why, sizeof(m->why), "%s%.119s", is_refusal ? "refused: " : "", why);
    m->is_refused = m->is_refused || is_refusal;
}

/* ---- hellos ---- */

static void write_hello(const meeting *m, hello_kind kind, uint64_t number, uint8_t *to)
{
    memset(to, 0, HELLO_BYTES);
    memcpy(to, HELLO_MAGIC, MAGIC_BYTES);
    spsh__store_u32le(to + 8, VERSION);
    spsh__store_u32le(to + 12, kind);
    spsh__store_u32le(to + 16, m->launch->rank);
    spsh__store_u32le(to + 20, m->launch->world_size);
    spsh__store_u32le(to + 24, m->launch->restart_count);
    spsh__store_u32le(to + 28, m->own_port);
    spsh__store_u64le(to + 32, number);
    memcpy(to + 40, m->run, RUN_BYTES);
}

/* why: at least 120 letters; false: it is refused. */
static bool read_hello(const meeting *m, const uint8_t *from, hello *ret, char *why)
{
    const uint32_t world = spsh__load_u32le(from + 20), restarts = spsh__load_u32le(from + 24);
    const hello h = {spsh__load_u32le(from + 12), spsh__load_u32le(from + 16),
                     spsh__load_u32le(from + 28), spsh__load_u64le(from + 32)};
    const bool must_know = m->launch->rank > 0; /* rank 0 gives the number out */
    *ret = h;
    if (memcmp(from, HELLO_MAGIC, MAGIC_BYTES) != 0 || spsh__load_u32le(from + 8) != VERSION)
        (void)snprintf(why, 120, "that is no hello of this version");
    else if (memcmp(from + 40, m->run, RUN_BYTES) != 0)
        (void)snprintf(why, 120, "another run is meeting here: %.80s", m->run);
    else if (restarts != m->launch->restart_count)
        (void)snprintf(why, 120, "this is attempt %u, not %u", m->launch->restart_count, restarts);
    else if (world != m->launch->world_size)
        (void)snprintf(why, 120, "these are %u processes, not %u", m->launch->world_size, world);
    else if (h.number != m->number && (must_know || h.number != 0))
        (void)snprintf(why, 120, "this is a later meeting");
    else if (h.kind != (must_know ? TO_OTHER : TO_FIRST) || h.rank <= m->launch->rank ||
             h.rank >= world || h.port == 0 || h.port > 65535)
        (void)snprintf(why, 120, "rank %u has no business here", h.rank);
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

/* Says hello; good: the answer that is hoped for. -1: m->why says why not. */
static int greet(meeting *m, const struct sockaddr *to, socklen_t size, hello_kind kind,
                 uint64_t number)
{
    uint8_t bytes[HELLO_BYTES];
    uint8_t answer[NOPE_BYTES] = {0};
    const char *good = kind == TO_FIRST ? HOLD_MAGIC : GOOD_MAGIC;
    int s = connect_to(m, to, size);
    if (s < 0) {
        note_why(m, false, strerror(errno));
        return -1;
    }
    write_hello(m, kind, number, bytes);
    /* Another rank answers once it has gone to those below it. */
    const int patience_ms = kind == TO_FIRST ? HELLO_MS : (int)(m->o->deadline_ms & INT32_MAX);
    if (!put(m, s, bytes, sizeof(bytes)) || !take(m, s, answer, MAGIC_BYTES, patience_ms)) {
        note_why(m, false, "whoever listens there does not answer");
    } else if (memcmp(answer, good, MAGIC_BYTES) == 0) {
        return s;
    } else if (memcmp(answer, NOPE_MAGIC, MAGIC_BYTES) == 0 &&
               take(m, s, answer + MAGIC_BYTES, NOPE_BYTES - MAGIC_BYTES, HELLO_MS)) {
        note_why(m, true, (const char *)answer + MAGIC_BYTES);
    } else {
        note_why(m, false, "whoever listens there is somebody else");
    }
    hang_up(&s);
    return -1;
}

/* ---- who comes ---- */

typedef struct caller {
    int socket;
    uint32_t at;
    uint64_t since_ns;
    uint8_t bytes[HELLO_BYTES];
} caller;

/* 0: not yet; 1: hung up, or taken in. */
static bool hear(meeting *m, caller *c, uint32_t *missing)
{
    char why[120] = "";
    hello h;
    const ssize_t got = recv(c->socket, c->bytes + c->at, HELLO_BYTES - c->at, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (spsh__now_ns() - c->since_ns < HELLO_MS * UINT64_C(1000000))
            return false;
        hang_up(&c->socket);
        return true;
    }
    if (got <= 0) {
        hang_up(&c->socket);
        return true;
    }
    c->at += (uint32_t)got;
    if (c->at < HELLO_BYTES)
        return false;
    const bool is_first = m->launch->rank == 0;
    if (!read_hello(m, c->bytes, &h, why)) {
        refuse(m, c->socket, why);
        hang_up(&c->socket);
        return true;
    }
    struct sockaddr_in6 from = {0};
    socklen_t size = sizeof(from);
    if (getpeername(c->socket, (struct sockaddr *)&from, &size) != 0 ||
        !put(m, c->socket, is_first ? HOLD_MAGIC : GOOD_MAGIC, MAGIC_BYTES)) {
        hang_up(&c->socket);
        return true;
    }
    if (from.sin6_family == AF_INET) { /* mapped */
        const struct sockaddr_in v4 = *(struct sockaddr_in *)(void *)&from;
        from = (struct sockaddr_in6){.sin6_family = AF_INET6};
        from.sin6_addr.s6_addr[10] = from.sin6_addr.s6_addr[11] = 0xff;
        memcpy(from.sin6_addr.s6_addr + 12, &v4.sin_addr, 4);
    }
    from.sin6_port = htons((uint16_t)h.port);
    *missing -= m->sockets[h.rank] < 0;
    hang_up(&m->sockets[h.rank]); /* it came before, and again */
    m->addresses[h.rank] = from;
    m->sockets[h.rank] = c->socket;
    c->socket = -1;
    return true;
}

static void answer_door(int listener, caller *callers, uint32_t *count)
{
    while (*count < PENDING_MAX) {
        const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0)
            return;
        set_up(s);
        callers[*count] = (caller){.socket = s, .since_ns = spsh__now_ns()};
        ++*count;
    }
}

static spsh_status name_missing(const meeting *m, spsh_error *err)
{
    char names[100] = "";
    size_t length = 0;
    for (uint32_t r = m->launch->rank + 1; r < m->launch->world_size && length < 80; r++)
        if (m->sockets[r] < 0)
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%u",
                                       length == 0 ? "" : ", ", r);
    return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                     "rank %s of %u has not come within %.1f s; they look for rank 0 %s %.100s",
                     names, m->launch->world_size, (double)m->o->deadline_ms / 1e3,
                     m->path[0] != '\0' ? "by" : "at", m->path[0] != '\0' ? m->path : m->host);
}

/* A rank that got no answer in time has hung up, and comes again: the hello that is found of it
 * later, when this process gets to run, is no rank that waits. */
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

/* Until all of the ranks above this one have come. */
static spsh_status welcome(meeting *m, spsh_error *err)
{
    caller callers[PENDING_MAX];
    uint32_t count = 0;
    uint32_t missing = m->launch->world_size - 1 - m->launch->rank;
    while (missing > 0 && !is_over(m)) {
        struct pollfd p[PENDING_MAX + 2];
        for (uint32_t i = 0; i < count; i++)
            p[i] = (struct pollfd){callers[i].socket, POLLIN, 0};
        for (uint32_t i = 0; i < 2; i++) /* with a full hall the door stays shut */
            p[count + i] = (struct pollfd){count < PENDING_MAX ? m->listeners[i] : -1, POLLIN, 0};
        (void)poll(p, count + 2, ms_left(m, AGAIN_MS));
        uint32_t stay = 0;
        for (uint32_t i = 0; i < count; i++)
            if (!hear(m, &callers[i], &missing))
                callers[stay++] = callers[i];
        count = stay;
        for (uint32_t i = 0; i < 2; i++)
            if (m->listeners[i] >= 0)
                answer_door(m->listeners[i], callers, &count);
        if (missing == 0 && m->launch->rank == 0) /* others do not come again */
            missing = forget_gone(m);
    }
    for (uint32_t i = 0; i < count; i++)
        hang_up(&callers[i].socket);
    return missing == 0 ? SPSH_OK : name_missing(m, err);
}

/* ---- the file ---- */

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

/* A whole file in one move: whoever reads sees the old one or this one. */
static spsh_status write_file(const meeting *m, spsh_error *err)
{
    char text[FILE_BYTES];
    char draft[sizeof(m->path) + 32];
    size_t length = (size_t)snprintf(
        text, sizeof(text), FILE_HEAD "number %016" PRIx64 "\nport %u\n", m->number, m->own_port);
    if (m->is_local)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "address 127.0.0.1\n");
    else
        length = put_addresses(text, length, sizeof(text));
    (void)snprintf(draft, sizeof(draft), "%s.%ld", m->path, (long)getpid());
    FILE *file = fopen(draft, "wbe");
    bool is_good = file != NULL && fwrite(text, 1, length, file) == length;
    if (file != NULL)
        is_good = fclose(file) == 0 && is_good;
    if (is_good && rename(draft, m->path) == 0)
        return SPSH_OK;
    const int failed = errno;
    (void)unlink(draft);
    return SPSH_FAIL_OS(err, SPSH_E_IO, failed, SPSH_OFFSET_NONE, "%.200s: %s", m->path,
                        strerror(failed));
}

typedef struct place { /* where rank 0 says it is */
    uint64_t number;
    uint32_t port, count;
    char addresses[ADDRESSES_MAX][INET6_ADDRSTRLEN];
} place;

/* Anything else than what write_file writes is no place. */
static bool read_file(const meeting *m, place *ret)
{
    char text[FILE_BYTES];
    int used = 0;
    *ret = (place){0};
    FILE *file = fopen(m->path, "rbe");
    if (file == NULL)
        return false;
    const size_t length = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    if (strncmp(text, FILE_HEAD, strlen(FILE_HEAD)) != 0 || strlen(text) != length)
        return false;
    const char *at = text + strlen(FILE_HEAD);
    /* NOLINTNEXTLINE(cert-err34-c): widths bound the numbers */
    if (sscanf(at, "number %16" SCNx64 "\nport %5" SCNu32 "\n%n", &ret->number, &ret->port,
               &used) != 2 ||
        used == 0 || ret->number == 0 || ret->port == 0 || ret->port > 65535)
        return false;
    for (at += used; ret->count < ADDRESSES_MAX && *at != '\0'; at += used) {
        used = 0;
        if (sscanf(at, "address %45[0-9a-fA-F:.]\n%n", ret->addresses[ret->count], &used) != 1 ||
            used == 0)
            return false;
        ret->count++;
    }
    return ret->count > 0;
}

/* ---- going to rank 0 ---- */

/* Each address of a name in turn. */
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
    place p;
    int s = -1;
    if (m->path[0] != '\0' && read_file(m, &p))
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
    uint8_t *table = spsh__train_new(m->allocator, 1, size);
    const int patience_ms = (int)(m->o->deadline_ms & INT32_MAX);
    const bool is_good = table != NULL && take(m, first, table, size, patience_ms) &&
                         memcmp(table, TABLE_MAGIC, MAGIC_BYTES) == 0;
    for (uint32_t r = 1; is_good && r < world; r++) {
        const uint8_t *entry = table + 16 + (size_t)r * ENTRY_BYTES;
        m->addresses[r] = (struct sockaddr_in6){.sin6_family = AF_INET6};
        memcpy(&m->addresses[r].sin6_addr, entry, 16);
        m->addresses[r].sin6_port = htons((uint16_t)spsh__load_u32le(entry + 16));
    }
    if (is_good)
        m->number = spsh__load_u64le(table + MAGIC_BYTES);
    spsh__train_delete(m->allocator, table);
    return is_good;
}

/* Rank 0 may be a later one than the one that was found, or not be there yet: again. */
static spsh_status find_first(meeting *m, spsh_error *err)
{
    const struct timespec nap = {0, AGAIN_MS * 1000000L};
    while (!is_over(m)) {
        int s = try_first(m);
        if (s >= 0 && take_table(m, s)) {
            m->sockets[0] = s;
            m->is_refused = false; /* that was another one */
            return SPSH_OK;
        }
        if (s >= 0)
            note_why(m, false, "rank 0 has hung up");
        hang_up(&s);
        (void)nanosleep(&nap, NULL);
    }
    return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                     "rank 0 was not found within %.1f s %s %.120s%s%.120s; this is rank %u of %u",
                     (double)m->o->deadline_ms / 1e3, m->path[0] != '\0' ? "by" : "at",
                     m->path[0] != '\0' ? m->path : m->host, m->why[0] != '\0' ? ": " : "", m->why,
                     m->launch->rank, m->launch->world_size);
}

static spsh_status go_to_others(meeting *m, spsh_error *err)
{
    for (uint32_t r = 1; r < m->launch->rank; r++) {
        struct sockaddr_in6 to = m->addresses[r];
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = to.sin6_port};
        memcpy(&v4.sin_addr, to.sin6_addr.s6_addr + 12, 4);
        m->sockets[r] = IN6_IS_ADDR_V4MAPPED(&to.sin6_addr)
                            ? greet(m, (struct sockaddr *)&v4, sizeof(v4), TO_OTHER, m->number)
                            : greet(m, (struct sockaddr *)&to, sizeof(to), TO_OTHER, m->number);
        if (m->sockets[r] < 0)
            return SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                             "rank %u cannot be reached from rank %u: %.120s", r, m->launch->rank,
                             m->why);
    }
    return SPSH_OK;
}

/* ---- rank 0 ---- */

static spsh_status give_table(const meeting *m, spsh_error *err)
{
    const uint32_t world = m->launch->world_size;
    const size_t size = 16 + (size_t)world * ENTRY_BYTES;
    uint8_t *table = spsh__train_new(m->allocator, 1, size);
    spsh_status rc = SPSH_OK;
    if (table == NULL)
        return spsh__fail_memory(err);
    memcpy(table, TABLE_MAGIC, MAGIC_BYTES);
    spsh__store_u64le(table + MAGIC_BYTES, m->number);
    for (uint32_t r = 1; r < world; r++) {
        uint8_t *entry = table + 16 + (size_t)r * ENTRY_BYTES;
        memcpy(entry, &m->addresses[r].sin6_addr, 16);
        spsh__store_u32le(entry + 16, ntohs(m->addresses[r].sin6_port));
    }
    for (uint32_t r = 1; rc == SPSH_OK && r < world; r++)
        if (!put(m, m->sockets[r], table, size))
            rc = SPSH_FAIL(err, SPSH_E_TIMEOUT, SPSH_OFFSET_NONE,
                           "rank %u came, and has hung up while the others were waited for", r);
    spsh__train_delete(m->allocator, table);
    return rc;
}

static spsh_status lead(meeting *m, spsh_error *err)
{
    const bool is_folder_new = m->path[0] != '\0' && m->o->folder != NULL &&
                               strncmp(m->path, m->o->folder, strlen(m->o->folder)) == 0 &&
                               mkdir(m->o->folder, 0777) == 0;
    spsh_status rc = SPSH_OK;
    while (m->number == 0)
        if (getrandom(&m->number, sizeof(m->number), 0) != (ssize_t)sizeof(m->number))
            m->number = 0;
    if (m->host[0] != '\0') {
        m->listeners[1] = listen_at(m, m->port);
        if (m->listeners[1] < 0 && m->path[0] == '\0')
            return SPSH_FAIL_OS(err, SPSH_E_IO, errno, SPSH_OFFSET_NONE,
                                "rank 0 cannot listen at port %u: %s", m->port, strerror(errno));
    }
    if (m->path[0] != '\0')
        rc = write_file(m, err);
    if (rc == SPSH_OK)
        rc = welcome(m, err);
    if (rc == SPSH_OK)
        rc = give_table(m, err);
    if (m->path[0] != '\0')
        (void)unlink(m->path);
    if (is_folder_new) /* what the run does not begin leaves nothing behind */
        (void)rmdir(m->o->folder);
    return rc;
}

/* ---- where ---- */

/* By its name. torchrun's "none" is everybody's: then by the folder that it trains in. */
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
    char *end = NULL;
    const bool is_bracketed = text[0] == '[';
    if (colon == NULL || colon == text)
        return false;
    const unsigned long port = strtoul(colon + 1, &end, 10);
    size_t length = (size_t)(colon - text);
    if (is_bracketed && (length < 3 || text[length - 1] != ']'))
        return false;
    text += is_bracketed;
    length -= is_bracketed ? 2 : 0;
    if (end == colon + 1 || *end != '\0' || port == 0 || port > 65535 || length == 0 ||
        length >= sizeof(m->host))
        return false;
    memcpy(m->host, text, length);
    m->host[length] = '\0';
    m->port = (uint32_t)port;
    return true;
}

static spsh_status find_place(meeting *m, spsh_error *err)
{
    const spsh__rendezvous_options *o = m->o;
    const spsh__launch *l = m->launch;
    const bool is_auto = o->where == NULL || strcmp(o->where, "auto") == 0;
    const bool is_file = !is_auto && strncmp(o->where, "file://", 7) == 0 && o->where[7] != '\0';
    const bool is_tcp = !is_auto && strncmp(o->where, "tcp://", 6) == 0;
    if (!is_auto && !is_file && !(is_tcp && read_tcp(m, o->where + 6)))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "a rendezvous is auto, file://FOLDER or tcp://HOST:PORT, not '%.100s'",
                         o->where);
    const uint64_t port = (uint64_t)l->master_port + 1 + l->restart_count;
    if (is_auto && l->master[0] != '\0' && l->master_port != 0 && port <= 65535) {
        (void)snprintf(m->host, sizeof(m->host), "%s", l->master);
        m->port = (uint32_t)port;
    }
    if (m->is_local && m->host[0] != '\0')
        (void)snprintf(m->host, sizeof(m->host), "127.0.0.1");
    if ((is_file || (is_auto && o->folder != NULL)) &&
        !spsh__rendezvous_path(o, m->path, sizeof(m->path)))
        return SPSH_FAIL(err, SPSH_E_LIMIT, SPSH_OFFSET_NONE, "the rendezvous' folder is too long");
    if (m->path[0] == '\0' && m->host[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "the launcher says no MASTER_ADDR and MASTER_PORT: say where the "
                         "processes meet");
    return SPSH_OK;
}

static spsh_status meet(meeting *m, spsh_error *err)
{
    const spsh__launch *l = m->launch;
    m->listeners[0] = listen_at(m, 0);
    m->own_port = m->listeners[0] < 0 ? 0 : port_of(m->listeners[0]);
    if (m->own_port == 0)
        return SPSH_FAIL_OS(err, SPSH_E_IO, errno, SPSH_OFFSET_NONE, "cannot listen: %s",
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
    meeting *m = spsh__train_new(allocator, 1, sizeof(*m));
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 0; r < l->world_size; r++)
        sockets[r] = -1;
    if (m == NULL)
        return spsh__fail_memory(err);
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
    m->addresses = spsh__train_new(allocator, l->world_size, sizeof(*m->addresses));
    if (m->addresses == NULL)
        rc = spsh__fail_memory(err);
    if (rc == SPSH_OK)
        rc = find_place(m, err);
    if (rc == SPSH_OK)
        rc = meet(m, err);
    if (rc == SPSH_E_TIMEOUT && is_stopped(m))
        rc = SPSH_FAIL(err, SPSH_E_CANCELED, SPSH_OFFSET_NONE,
                       "stopped while rank %u of %u waited for the others; nothing was begun",
                       l->rank, l->world_size);
    for (uint32_t r = 0; rc != SPSH_OK && r < l->world_size; r++)
        hang_up(&sockets[r]);
    hang_up(&m->listeners[0]);
    hang_up(&m->listeners[1]);
    spsh__train_delete(allocator, m->addresses);
    spsh__train_delete(allocator, m);
    return rc;
}

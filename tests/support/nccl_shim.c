/* nccl_shim.c: a library with the NCCL functions that we call, for processes whose devices are host
 * emulations (twin_runtime.h), to test several ranks without a GPU.
 *
 * The ranks share a file in $TMPDIR, whose name is the id: a head, and a region for each rank.
 * Collective n is a piece of work on its stream. At its turn, after all ranks have finished n - 1,
 * it copies this rank's input to the rank's region and marks n as posted. After all ranks have
 * posted n, it reads from all regions, adds in the order of ranks, and marks n as finished. Nothing
 * blocks: the emulation polls whether the work is ready.
 *
 * As with a nonblocking communicator, calls are in progress (ncclInProgress) for a while; only then
 * is their work on the stream. Ranks whose n differs in kind or size get an error.
 *
 * The caller owns a communicator until it destroys or aborts it, which may be during opening. Work
 * on streams owns a reference as well. A communicator that the caller forgets is a leak. Another
 * thread may abort, while the caller waits for the device; after that, the caller may not use it.
 *
 * NCCL_SHIM=absent:RANK      it never joins
 *           stop:RANK        ... and its process stops there
 *           hang:RANK:N      its collective N never begins
 *           error:RANK:N     ... fails asynchronously
 *           slow:RANK:N      every collective is polled N times before it begins
 *           bytes:RANK       it prints the bytes that it sent when it leaves: the ring's, without
 *                            copies to itself
 *
 * NCCL_SHIM_VERSION: the version to act as; 22809 by default.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_shim.h"

enum {
    SUCCESS = 0,
    SYSTEM_ERROR = 2,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7,
    HALF = 6,
    FLOAT = 7,
    SUM = 0,
    RANKS_MAX = 8,
    POLLS = 3, /* polls until a call is no longer in progress */
};
#define REGION_BYTES ((size_t)16 << 20)
#define REGION_MAGIC UINT64_C(0x6d6873204c43434e)

typedef struct shim_id {
    char bytes[128];
} shim_id;

typedef enum kind { ALL_REDUCE = 1, REDUCE_SCATTER, ALL_GATHER, BROADCAST, EXCHANGE } kind;

typedef struct rank_state {
    _Atomic uint32_t has_joined, has_left;
    _Atomic uint64_t posted, finished;
    uint32_t kind;  /* kind of the posted collective */
    uint64_t count; /* bytes that this rank sends or receives, per row */
} rank_state;

typedef struct head {
    uint64_t magic;
    rank_state ranks[RANKS_MAX];
} head;

typedef struct shim_comm shim_comm;

typedef struct job { /* arguments of the work */
    shim_comm *comm;
    kind kind;
    const void *from[RANKS_MAX]; /* EXCHANGE: per peer; otherwise only [0] */
    void *to[RANKS_MAX];
    size_t count, element_bytes;
    uint64_t number;
    uint32_t asked;
    bool is_posted;
} job;

struct shim_comm {
    _Atomic uint32_t references; /* one of the caller, and one per piece of work on a stream */
    head *shared;
    uint32_t rank, world;
    _Atomic bool is_aborted;
    _Atomic int failed; /* error code, or SUCCESS */
    bool is_joining, is_leaving;
    uint32_t polls;
    char path[128];  /* path of the file, which is unlinked once all ranks have it open */
    uint64_t called; /* number of collectives that were called */
    uint64_t sent_bytes;
    bool has_pending;
    job pending;
    void *pending_stream;
};

/* Calls between ncclGroupStart and ncclGroupEnd: one exchange with all ranks. */
static _Thread_local struct {
    bool is_open, has_failed;
    job job;
    void *stream;
} group;

static nccl_shim_enqueue_fn *enqueue;
static nccl_shim_config received;

/* NCCL's names. NOLINTBEGIN(readability-identifier-naming) */
SPSH_API void nccl_shim_streams(nccl_shim_enqueue_fn *enqueue_fn);
SPSH_API const nccl_shim_config *nccl_shim_received(void);
SPSH_API int ncclGetVersion(int *version);
SPSH_API const char *ncclGetErrorString(int result);
SPSH_API const char *ncclGetLastError(shim_comm *comm);
SPSH_API int ncclGetUniqueId(shim_id *id);
SPSH_API int ncclCommInitRankConfig(shim_comm **comm, int count, shim_id id, int rank,
                                    const nccl_shim_config *config);
SPSH_API int ncclCommGetAsyncError(shim_comm *comm, int *result);
SPSH_API int ncclCommFinalize(shim_comm *comm);
SPSH_API int ncclCommDestroy(shim_comm *comm);
SPSH_API int ncclCommAbort(shim_comm *comm);
SPSH_API int ncclAllReduce(const void *from, void *to, size_t count, int type, int op,
                           shim_comm *comm, void *stream);
SPSH_API int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op,
                               shim_comm *comm, void *stream);
SPSH_API int ncclAllGather(const void *from, void *to, size_t count, int type, shim_comm *comm,
                           void *stream);
SPSH_API int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                           shim_comm *comm, void *stream);
SPSH_API int ncclSend(const void *from, size_t count, int type, int peer, shim_comm *comm,
                      void *stream);
SPSH_API int ncclRecv(void *to, size_t count, int type, int peer, shim_comm *comm, void *stream);
SPSH_API int ncclGroupStart(void);
SPSH_API int ncclGroupEnd(void);

/* ---- faults ---- */

/* Whether NCCL_SHIM requests this fault for this rank. *ret_number: N. */
static bool suffers(const shim_comm *c, const char *name, uint64_t *ret_number)
{
    const char *text = getenv("NCCL_SHIM");
    char word[16] = "";
    unsigned rank = 0;
    unsigned long long number = 0;
    /* NOLINTNEXTLINE(cert-err34-c): the test gives small numbers */
    if (text == NULL || sscanf(text, "%15[a-z]:%u:%llu", word, &rank, &number) < 2)
        return false;
    *ret_number = number;
    return strcmp(word, name) == 0 && rank == c->rank;
}

/* ---- communicators ---- */

static size_t shared_bytes(void)
{
    return sizeof(head) + RANKS_MAX * REGION_BYTES;
}

static void let_go(shim_comm *c)
{
    if (atomic_fetch_sub(&c->references, 1) != 1)
        return;
    (void)munmap(c->shared, shared_bytes());
    free(c);
}

static bool have_all(const shim_comm *c, bool left)
{
    for (uint32_t r = 0; r < c->world; r++)
        if (atomic_load(left ? &c->shared->ranks[r].has_left : &c->shared->ranks[r].has_joined) ==
            0)
            return false;
    return true;
}

/* ---- a collective, on the stream ---- */

static char *region_of(const shim_comm *c, uint32_t rank)
{
    return (char *)c->shared + sizeof(head) + rank * REGION_BYTES;
}

static size_t row_bytes(const job *j)
{
    return j->count * j->element_bytes;
}

/* Bytes of this rank's input, and of its region. */
static size_t given_bytes(const shim_comm *c, const job *j)
{
    return row_bytes(j) * (j->kind == REDUCE_SCATTER || j->kind == EXCHANGE ? c->world : 1);
}

/* Bytes that a rank sends to others, on a ring or directly. */
static size_t sent_bytes(const shim_comm *c, const job *j)
{
    const size_t others = c->world > 1 ? c->world - 1 : 0;
    switch (j->kind) {
    case ALL_REDUCE: return 2 * row_bytes(j) * others / (others + 1);
    case BROADCAST: return c->rank == 0 ? row_bytes(j) : 0;
    case REDUCE_SCATTER:
    case ALL_GATHER:
    case EXCHANGE: break;
    }
    return row_bytes(j) * others;
}

static bool all_finished(const shim_comm *c, uint64_t number)
{
    for (uint32_t r = 0; r < c->world; r++)
        if (atomic_load(&c->shared->ranks[r].finished) < number)
            return false;
    return true;
}

static bool may_begin(shim_comm *c, job *j)
{
    uint64_t number = 0;
    if (suffers(c, "hang", &number) && j->number >= number)
        return false;
    if (suffers(c, "error", &number) && j->number >= number) {
        atomic_store(&c->failed, REMOTE_ERROR);
        return false;
    }
    if (suffers(c, "slow", &number) && j->asked++ < number)
        return false;
    return all_finished(c, j->number - 1);
}

static void post(shim_comm *c, job *j)
{
    rank_state *mine = &c->shared->ranks[c->rank];
    if (j->kind == EXCHANGE) {
        for (uint32_t r = 0; r < c->world; r++)
            memcpy(region_of(c, c->rank) + r * row_bytes(j), j->from[r], row_bytes(j));
    } else {
        memcpy(region_of(c, c->rank), j->from[0], given_bytes(c, j));
    }
    mine->kind = j->kind;
    mine->count = row_bytes(j);
    atomic_store(&mine->posted, j->number);
    j->is_posted = true;
}

static bool is_ready(void *arguments)
{
    job *j = arguments;
    shim_comm *c = j->comm;
    if (atomic_load(&c->is_aborted))
        return true;
    if (atomic_load(&c->failed) != SUCCESS || (!j->is_posted && !may_begin(c, j)))
        return false;
    if (!j->is_posted)
        post(c, j);
    for (uint32_t r = 0; r < c->world; r++) {
        const rank_state *other = &c->shared->ranks[r];
        if (atomic_load(&other->posted) < j->number)
            return false;
        if (other->kind != j->kind || other->count != row_bytes(j)) {
            atomic_store(&c->failed, INVALID_USAGE);
            return false;
        }
    }
    return true;
}

/* Adds in the order of ranks, so that all ranks get identical bits. */
static void add_all(const shim_comm *c, float *to, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = ((const float *)(const void *)region_of(c, 0))[first + i];
        for (uint32_t r = 1; r < c->world; r++)
            sum += ((const float *)(const void *)region_of(c, r))[first + i];
        to[i] = sum;
    }
}

static void give(const shim_comm *c, const job *j)
{
    const size_t size_bytes = row_bytes(j);
    switch (j->kind) {
    case ALL_REDUCE: add_all(c, j->to[0], 0, j->count); break;
    case REDUCE_SCATTER: add_all(c, j->to[0], c->rank * j->count, j->count); break;
    case BROADCAST: memcpy(j->to[0], region_of(c, 0), size_bytes); break;
    case ALL_GATHER:
        for (uint32_t r = 0; r < c->world; r++)
            memcpy((char *)j->to[0] + r * size_bytes, region_of(c, r), size_bytes);
        break;
    case EXCHANGE:
        for (uint32_t r = 0; r < c->world; r++)
            memcpy(j->to[r], region_of(c, r) + c->rank * size_bytes, size_bytes);
        break;
    }
    atomic_store(&c->shared->ranks[c->rank].finished, j->number);
}

static void run(void *arguments)
{
    const job *j = arguments;
    shim_comm *c = j->comm;
    if (!atomic_load(&c->is_aborted))
        give(c, j);
    let_go(c);
}

/* ---- calls ---- */

/* Memory that a collective reads and writes. Return the number of uses. */
static size_t list_uses(const shim_comm *c, const job *j, spsh__device_use uses[2 * RANKS_MAX])
{
    const bool exchanges = j->kind == EXCHANGE;
    const size_t size_bytes = row_bytes(j);
    size_t count = 0;
    for (uint32_t r = 0; r < (exchanges ? c->world : 1); r++) {
        uses[count++] =
            (spsh__device_use){j->from[r], exchanges ? size_bytes : given_bytes(c, j), 0};
        uses[count++] = (spsh__device_use){
            j->to[r], j->kind == ALL_GATHER ? size_bytes * c->world : size_bytes, 1};
    }
    return count;
}

static int put_pending(shim_comm *c)
{
    const job *j = &c->pending;
    spsh__device_use uses[2 * RANKS_MAX];
    static const char *const names[] = {"",           "all-reduce", "reduce-scatter",
                                        "all-gather", "broadcast",  "all-to-all"};
    const twin_work work = {.name = names[j->kind],
                            .run_fn = run,
                            .arguments = j,
                            .argument_bytes = sizeof(*j),
                            .uses = uses,
                            .use_count = list_uses(c, j, uses),
                            .is_ready_fn = is_ready};
    c->has_pending = false;
    atomic_fetch_add(&c->references, 1);
    if (enqueue(c->pending_stream, &work, NULL) == SPSH_OK)
        return SUCCESS;
    let_go(c);
    return SYSTEM_ERROR;
}

/* is_known: the shim supports the operator and the root. */
static int call(shim_comm *c, job j, bool is_known, void *stream)
{
    if (!is_known || group.is_open || c->has_pending || c->is_joining || c->is_leaving ||
        j.count == 0 || j.element_bytes == 0 || given_bytes(c, &j) > REGION_BYTES)
        return INVALID_USAGE;
    j.comm = c;
    j.number = ++c->called;
    c->sent_bytes += sent_bytes(c, &j);
    c->pending = j;
    c->pending_stream = stream;
    c->has_pending = true;
    c->polls = 0;
    return IN_PROGRESS;
}

/* 0: an unknown type, which `call` rejects. */
static size_t bytes_of(int type)
{
    return type == FLOAT ? sizeof(float) : type == HALF ? sizeof(uint16_t) : 0;
}

static job new_job(kind of, const void *from, void *to, size_t count, int type)
{
    return (job){
        .kind = of, .from = {from}, .to = {to}, .count = count, .element_bytes = bytes_of(type)};
}

/* A send or a receive of a group. All have the same size and stream. */
static int add_to_group(shim_comm *c, const job *part, int peer, void *stream)
{
    job *j = &group.job;
    const bool is_first = j->comm == NULL;
    if (is_first) {
        *j = (job){.comm = c,
                   .kind = EXCHANGE,
                   .count = part->count,
                   .element_bytes = part->element_bytes};
        group.stream = stream;
    }
    if (!group.is_open || peer < 0 || (uint32_t)peer >= c->world || j->comm != c ||
        row_bytes(j) != row_bytes(part) || group.stream != stream ||
        (part->from[0] != NULL ? j->from[peer] != NULL : j->to[peer] != NULL)) {
        group.has_failed = true;
        return INVALID_USAGE;
    }
    if (part->from[0] != NULL)
        j->from[peer] = part->from[0];
    else
        j->to[peer] = part->to[0];
    return SUCCESS;
}

void nccl_shim_streams(nccl_shim_enqueue_fn *enqueue_fn)
{
    enqueue = enqueue_fn;
}

const nccl_shim_config *nccl_shim_received(void)
{
    return &received;
}

int ncclGetVersion(int *version)
{
    const char *text = getenv("NCCL_SHIM_VERSION");
    *version = text == NULL ? 22809 : (int)strtol(text, NULL, 10);
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == REMOTE_ERROR    ? "remote process exited or there was a network error"
           : result == INVALID_USAGE ? "invalid usage"
                                     : "unhandled system error";
}

const char *ncclGetLastError(shim_comm *comm)
{
    (void)comm;
    return "as the shim was told";
}

int ncclGetUniqueId(shim_id *id)
{
    const char *folder = getenv("TMPDIR");
    memset(id, 0, sizeof(*id));
    (void)snprintf(id->bytes, sizeof(id->bytes), "%s/nccl-shim-XXXXXX",
                   folder == NULL ? "/tmp" : folder);
    const int file = mkstemp(id->bytes);
    if (file < 0)
        return SYSTEM_ERROR;
    const head empty = {.magic = REGION_MAGIC};
    const bool is_good = ftruncate(file, (off_t)shared_bytes()) == 0 &&
                         pwrite(file, &empty, sizeof(empty), 0) == (ssize_t)sizeof(empty);
    (void)close(file);
    return is_good ? SUCCESS : SYSTEM_ERROR;
}

/* Read a configuration as NCCL does. Size and version must be those of one of its headers, which
 * this version of the library knows. */
static bool read_config(const nccl_shim_config *config)
{
    const size_t first_bytes = offsetof(nccl_shim_config, min_ctas); /* 2.14, with its padding */
    int version = 0;
    (void)ncclGetVersion(&version);
    const bool is_limited = config->version >= 21700;
    received =
        (nccl_shim_config){.cga_cluster_size = INT_MIN, .min_ctas = INT_MIN, .max_ctas = INT_MIN};
    memcpy(&received, config,
           is_limited ? sizeof(received) : offsetof(nccl_shim_config, cga_cluster_size));
    return config->magic == 0xcafebeefU && config->version <= (unsigned)version &&
           config->size_bytes == (is_limited ? sizeof(*config) : first_bytes) &&
           (received.min_ctas == INT_MIN || received.min_ctas > 0) &&
           (received.max_ctas == INT_MIN || received.max_ctas > 0) &&
           (received.cga_cluster_size == INT_MIN || received.cga_cluster_size >= 0);
}

int ncclCommInitRankConfig(shim_comm **comm, int count, shim_id id, int rank,
                           const nccl_shim_config *config)
{
    uint64_t ignored = 0;
    *comm = NULL;
    if (!read_config(config) || config->blocking != 0 || count < 1 || count > RANKS_MAX)
        return INVALID_USAGE;
    const int file = open(id.bytes, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return SYSTEM_ERROR;
    void *memory = mmap(NULL, shared_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (memory == MAP_FAILED)
        return SYSTEM_ERROR;
    shim_comm *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)munmap(memory, shared_bytes());
        return SYSTEM_ERROR;
    }
    atomic_init(&c->references, 1);
    c->shared = memory;
    c->rank = (uint32_t)rank;
    c->world = (uint32_t)count;
    c->is_joining = true;
    memcpy(c->path, id.bytes, sizeof(c->path));
    if (suffers(c, "stop", &ignored))
        (void)raise(SIGSTOP);
    if (!suffers(c, "absent", &ignored))
        atomic_store(&c->shared->ranks[rank].has_joined, 1);
    *comm = c;
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(shim_comm *comm, int *result)
{
    *result = atomic_load(&comm->failed);
    if (*result != SUCCESS)
        return SUCCESS;
    *result = IN_PROGRESS;
    if (comm->is_joining && !have_all(comm, false))
        return SUCCESS;
    if (comm->is_leaving && !have_all(comm, true))
        return SUCCESS;
    if (comm->is_joining)
        (void)unlink(comm->path);
    comm->is_joining = false;
    if (comm->has_pending && ++comm->polls < POLLS)
        return SUCCESS;
    *result = comm->has_pending ? put_pending(comm) : SUCCESS;
    return SUCCESS;
}

int ncclCommFinalize(shim_comm *comm)
{
    uint64_t ignored = 0;
    if (suffers(comm, "bytes", &ignored))
        (void)fprintf(stderr, "shim of NCCL: rank %u sent %llu bytes\n", comm->rank,
                      (unsigned long long)comm->sent_bytes);
    if (comm->has_pending || comm->is_joining || comm->is_leaving)
        return INVALID_USAGE;
    comm->is_leaving = true;
    atomic_store(&comm->shared->ranks[comm->rank].has_left, 1);
    return IN_PROGRESS;
}

int ncclCommDestroy(shim_comm *comm)
{
    if (!comm->is_leaving || !have_all(comm, true))
        return INVALID_USAGE;
    let_go(comm);
    return SUCCESS;
}

int ncclCommAbort(shim_comm *comm)
{
    if (comm->is_joining)
        (void)unlink(comm->path);
    if (atomic_exchange(&comm->is_aborted, true)) {
        (void)fputs("shim of NCCL: a communicator was aborted twice\n", stderr);
        abort();
    }
    let_go(comm);
    return SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, shim_comm *comm,
                  void *stream)
{
    return call(comm, new_job(ALL_REDUCE, from, to, count, type), type == FLOAT && op == SUM,
                stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, shim_comm *comm,
                      void *stream)
{
    return call(comm, new_job(REDUCE_SCATTER, from, to, count, type), type == FLOAT && op == SUM,
                stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, shim_comm *comm, void *stream)
{
    return call(comm, new_job(ALL_GATHER, from, to, count, type), true, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, shim_comm *comm,
                  void *stream)
{
    return call(comm, new_job(BROADCAST, from, to, count, type), root == 0, stream);
}

int ncclSend(const void *from, size_t count, int type, int peer, shim_comm *comm, void *stream)
{
    const job part = new_job(EXCHANGE, from, NULL, count, type);
    return add_to_group(comm, &part, peer, stream);
}

int ncclRecv(void *to, size_t count, int type, int peer, shim_comm *comm, void *stream)
{
    const job part = new_job(EXCHANGE, NULL, to, count, type);
    return add_to_group(comm, &part, peer, stream);
}

int ncclGroupStart(void)
{
    if (group.is_open)
        return INVALID_USAGE;
    memset(&group, 0, sizeof(group));
    group.is_open = true;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    const job *j = &group.job;
    bool is_whole = group.is_open && !group.has_failed;
    group.is_open = false;
    if (!is_whole || j->comm == NULL)
        return is_whole ? SUCCESS : INVALID_USAGE;
    for (uint32_t r = 0; r < j->comm->world; r++)
        is_whole = is_whole && j->from[r] != NULL && j->to[r] != NULL;
    return call(j->comm, *j, is_whole, group.stream);
}
/* NOLINTEND(readability-identifier-naming) */

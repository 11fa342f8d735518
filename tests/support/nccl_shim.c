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
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
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

typedef struct shim_config {
    size_t size_bytes;
    unsigned magic, version;
    int blocking;
} shim_config;

typedef enum kind { ALL_REDUCE = 1, REDUCE_SCATTER, ALL_GATHER, BROADCAST } kind;

typedef struct rank_state {
    _Atomic uint32_t has_joined, has_left;
    _Atomic uint64_t posted, finished;
    uint32_t kind;  /* kind of the posted collective */
    uint64_t count; /* floats that this rank sends or receives in the posted collective */
} rank_state;

typedef struct head {
    uint64_t magic;
    rank_state ranks[RANKS_MAX];
} head;

typedef struct shim_comm shim_comm;

typedef struct job { /* arguments of the work */
    shim_comm *comm;
    kind kind;
    const float *from;
    float *to;
    size_t count;
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
    bool has_pending;
    job pending;
    void *pending_stream;
};

static nccl_shim_enqueue_fn *enqueue;

/* NCCL's names. NOLINTBEGIN(readability-identifier-naming) */
SPSH_API void nccl_shim_streams(nccl_shim_enqueue_fn *enqueue_fn);
SPSH_API int ncclGetVersion(int *version);
SPSH_API const char *ncclGetErrorString(int result);
SPSH_API const char *ncclGetLastError(shim_comm *comm);
SPSH_API int ncclGetUniqueId(shim_id *id);
SPSH_API int ncclCommInitRankConfig(shim_comm **comm, int count, shim_id id, int rank,
                                    shim_config *config);
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

static float *region_of(const shim_comm *c, uint32_t rank)
{
    return (float *)(void *)((char *)c->shared + sizeof(head) + rank * REGION_BYTES);
}

static size_t given(const shim_comm *c, const job *j)
{
    return j->kind == REDUCE_SCATTER ? j->count * c->world : j->count;
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
    memcpy(region_of(c, c->rank), j->from, given(c, j) * sizeof(float));
    mine->kind = j->kind;
    mine->count = j->count;
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
        if (other->kind != j->kind || other->count != j->count) {
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
        float sum = region_of(c, 0)[first + i];
        for (uint32_t r = 1; r < c->world; r++)
            sum += region_of(c, r)[first + i];
        to[i] = sum;
    }
}

static void give(const shim_comm *c, const job *j)
{
    switch (j->kind) {
    case ALL_REDUCE: add_all(c, j->to, 0, j->count); break;
    case REDUCE_SCATTER: add_all(c, j->to, c->rank * j->count, j->count); break;
    case BROADCAST: memcpy(j->to, region_of(c, 0), j->count * sizeof(float)); break;
    case ALL_GATHER:
        for (uint32_t r = 0; r < c->world; r++)
            memcpy(j->to + r * j->count, region_of(c, r), j->count * sizeof(float));
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

static int put_pending(shim_comm *c)
{
    const job *j = &c->pending;
    const bool gathers = j->kind == ALL_GATHER;
    const spsh__device_use uses[] = {
        {j->from, given(c, j) * sizeof(float),                                      0},
        {j->to,       (gathers ? j->count * c->world : j->count) * sizeof(float),          1},
    };
    static const char *const names[] = {"", "all-reduce", "reduce-scatter", "all-gather",
                                        "broadcast"};
    const twin_work work = {.name = names[j->kind],
                            .run_fn = run,
                            .arguments = j,
                            .argument_bytes = sizeof(*j),
                            .uses = uses,
                            .use_count = 2,
                            .is_ready_fn = is_ready};
    c->has_pending = false;
    atomic_fetch_add(&c->references, 1);
    if (enqueue(c->pending_stream, &work, NULL) == SPSH_OK)
        return SUCCESS;
    let_go(c);
    return SYSTEM_ERROR;
}

/* is_known: the shim supports the type, the operator, and the root. */
static int call(shim_comm *c, job j, bool is_known, void *stream)
{
    if (!is_known || c->has_pending || c->is_joining || c->is_leaving || j.count == 0 ||
        given(c, &j) * sizeof(float) > REGION_BYTES)
        return INVALID_USAGE;
    j.comm = c;
    j.number = ++c->called;
    c->pending = j;
    c->pending_stream = stream;
    c->has_pending = true;
    c->polls = 0;
    return IN_PROGRESS;
}

void nccl_shim_streams(nccl_shim_enqueue_fn *enqueue_fn)
{
    enqueue = enqueue_fn;
}

int ncclGetVersion(int *version)
{
    *version = 22809;
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

int ncclCommInitRankConfig(shim_comm **comm, int count, shim_id id, int rank, shim_config *config)
{
    uint64_t ignored = 0;
    *comm = NULL;
    if (config->magic != 0xcafebeefU || config->blocking != 0 || count < 1 || count > RANKS_MAX ||
        config->version != 21400 || config->size_bytes != sizeof(*config))
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
    return call(comm, (job){.kind = ALL_REDUCE, .from = from, .to = to, .count = count},
                type == FLOAT && op == SUM, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, shim_comm *comm,
                      void *stream)
{
    return call(comm, (job){.kind = REDUCE_SCATTER, .from = from, .to = to, .count = count},
                type == FLOAT && op == SUM, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, shim_comm *comm, void *stream)
{
    return call(comm, (job){.kind = ALL_GATHER, .from = from, .to = to, .count = count},
                type == FLOAT, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, shim_comm *comm,
                  void *stream)
{
    return call(comm, (job){.kind = BROADCAST, .from = from, .to = to, .count = count},
                type == FLOAT && root == 0, stream);
}
/* NOLINTEND(readability-identifier-naming) */

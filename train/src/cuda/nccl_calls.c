/* nccl_calls.c: all calls of NCCL: device_nccl.h's table over libnccl.so.2, which is loaded on
 * demand. C, so that the plug-in and its emulation in tests compile the same file.
 */
#include "nccl_calls.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct spsh__nccl_state {
    const spsh__nccl *nccl;
    void *comm;
    uint32_t device, rank, world_size;
} spsh__nccl_state;

static spsh_status spsh__nccl_failed(const spsh__nccl *nccl, void *comm, int result,
                                     const char *what, spsh_error *err)
{
    const char *last = nccl->get_last_error(comm);
    const int has_last = last != NULL && last[0] != '\0';
    return spsh__cuda_fail(err, SPSH_E_IO, "NCCL: %s: %s%s%.120s", what,
                           nccl->get_error_string(result), has_last ? ": " : "",
                           has_last ? last : "");
}

static void spsh__nccl_unload(void *library)
{
    spsh__nccl *nccl = (spsh__nccl *)library;
    if (nccl == NULL)
        return;
    if (nccl->handle != NULL)
        (void)dlclose(nccl->handle);
    free(nccl);
}

/* Names of functions, and addresses of the pointers to set. Function pointers have the size of data
 * pointers. */
static const char *spsh__nccl_missing(spsh__nccl *nccl)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"ncclGetVersion",         &nccl->get_version          },
        {"ncclGetErrorString",     &nccl->get_error_string     },
        {"ncclGetLastError",       &nccl->get_last_error       },
        {"ncclGetUniqueId",        &nccl->get_unique_id        },
        {"ncclCommInitRankConfig", &nccl->comm_init_rank_config},
        {"ncclCommGetAsyncError",  &nccl->comm_get_async_error },
        {"ncclCommFinalize",       &nccl->comm_finalize        },
        {"ncclCommDestroy",        &nccl->comm_destroy         },
        {"ncclCommAbort",          &nccl->comm_abort           },
        {"ncclAllReduce",          &nccl->all_reduce           },
        {"ncclReduceScatter",      &nccl->reduce_scatter       },
        {"ncclAllGather",          &nccl->all_gather           },
        {"ncclBroadcast",          &nccl->broadcast            },
        {"ncclSend",               &nccl->send                 },
        {"ncclRecv",               &nccl->recv                 },
        {"ncclGroupStart",         &nccl->group_start          },
        {"ncclGroupEnd",           &nccl->group_end            },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *address = dlsym(nccl->handle, wanted[i].name);
        if (address == NULL)
            return wanted[i].name;
        memcpy(wanted[i].to, &address, sizeof(address));
    }
    return NULL;
}

/* The library stays loaded until the process ends. Its thread that connects ranks is started for an
 * id and never joined. It may still wait for a rank that never connected. */
static spsh_status spsh__nccl_load(const char *path, void **ret_library, spsh_error *err)
{
    const char *name = path != NULL ? path : spsh__nccl_default();
    spsh__nccl *nccl = (spsh__nccl *)calloc(1, sizeof(*nccl));
    spsh_status rc = SPSH_OK;
    if (nccl == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    nccl->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (nccl->handle == NULL) {
        const char *why = dlerror();
        rc = spsh__cuda_fail(err, SPSH_E_NOT_FOUND, "cannot load NCCL: %.150s",
                             why == NULL ? name : why);
        goto out;
    }
    {
        const char *missing = spsh__nccl_missing(nccl);
        if (missing != NULL || nccl->get_version(&nccl->version) != SPSH__NCCL_SUCCESS)
            rc = spsh__cuda_fail(err, SPSH_E_VERSION,
                                 "%s has no function %s; NCCL 2.14 or later is needed", name,
                                 missing != NULL ? missing : "version");
        else if (nccl->version < SPSH__NCCL_VERSION_MIN)
            rc = spsh__cuda_fail(err, SPSH_E_VERSION,
                                 "%s is NCCL version %d; 2.14 or later is needed", name,
                                 nccl->version);
    }
out:
    if (rc == SPSH_OK)
        *ret_library = nccl;
    else
        spsh__nccl_unload(nccl);
    return rc;
}

static uint32_t spsh__nccl_version(void *library)
{
    return (uint32_t)((const spsh__nccl *)library)->version;
}

static spsh_status spsh__nccl_id_get(void *library, spsh__nccl_id *ret_id, spsh_error *err)
{
    const spsh__nccl *nccl = (const spsh__nccl *)library;
    const int result = nccl->get_unique_id(ret_id);
    return result == SPSH__NCCL_SUCCESS
               ? SPSH_OK
               : spsh__nccl_failed(nccl, NULL, result, "ncclGetUniqueId", err);
}

/* Check a call of a nonblocking communicator: "in progress" is not a failure. */
static spsh_status spsh__nccl_began(const spsh__nccl_state *s, int result, const char *what,
                                    spsh_error *err)
{
    if (result == SPSH__NCCL_SUCCESS || result == SPSH__NCCL_IN_PROGRESS)
        return SPSH_OK;
    return spsh__nccl_failed(s->nccl, s->comm, result, what, err);
}

/* The initializer of nccl.h of 2.17, or of 2.14 with an earlier library. */
static spsh__nccl_config spsh__nccl_configure(const spsh__nccl *nccl, const spsh__nccl_plan *plan)
{
    const int is_limited = nccl->version >= (int)SPSH__NCCL_VERSION_LIMITED;
    spsh__nccl_config config = {sizeof(config),
                                SPSH__NCCL_MAGIC,
                                SPSH__NCCL_VERSION_LIMITED,
                                0,
                                0,
                                SPSH__NCCL_UNDEFINED,
                                (int)plan->blocks_max,
                                NULL};
    if (!is_limited) {
        config.size_bytes = SPSH__NCCL_CONFIG_BYTES_214;
        config.version = SPSH__NCCL_VERSION_MIN;
    }
    return config;
}

static spsh_status spsh__nccl_open(void *library, const spsh__nccl_plan *plan, void **ret_state,
                                   spsh_error *err)
{
    const spsh__nccl *nccl = (const spsh__nccl *)library;
    spsh__nccl_config config = spsh__nccl_configure(nccl, plan);
    spsh__nccl_state *s = (spsh__nccl_state *)calloc(1, sizeof(*s));
    int before = 0;
    if (s == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    s->nccl = nccl;
    s->device = plan->device;
    s->rank = plan->rank;
    s->world_size = plan->world_size;
    spsh_status rc = spsh__cuda_enter(plan->device, &before, err);
    if (rc != SPSH_OK) {
        free(s);
        return rc;
    }
    rc = spsh__nccl_began(s,
                          nccl->comm_init_rank_config(&s->comm, (int)plan->world_size, plan->id,
                                                      (int)plan->rank, &config),
                          "ncclCommInitRankConfig", err);
    if (rc != SPSH_OK && s->comm != NULL)
        (void)nccl->comm_abort(s->comm);
    spsh__cuda_leave(before);
    if (rc == SPSH_OK)
        *ret_state = s;
    else
        free(s);
    return rc;
}

static spsh_status spsh__nccl_state_get(void *state, spsh_error *err)
{
    const spsh__nccl_state *s = (const spsh__nccl_state *)state;
    int now = SPSH__NCCL_SUCCESS;
    const int result = s->nccl->comm_get_async_error(s->comm, &now);
    if (result != SPSH__NCCL_SUCCESS)
        now = result;
    if (now == SPSH__NCCL_IN_PROGRESS)
        return SPSH_E_TIMEOUT;
    return now == SPSH__NCCL_SUCCESS
               ? SPSH_OK
               : spsh__nccl_failed(s->nccl, s->comm, now, "creating a communicator", err);
}

/* A rank also sends to itself, as a copy. The group is ended after a failure, too: it belongs to
 * the thread. NCCL moves 16 bits of any type as ncclHalf. */
static spsh_status spsh__nccl_exchange(const spsh__nccl_state *s, const spsh__collective *c,
                                       void *stream, spsh_error *err)
{
    const spsh__nccl *nccl = s->nccl;
    const uint16_t *sent = (const uint16_t *)c->values;
    uint16_t *received = (uint16_t *)c->values + s->world_size * c->count;
    spsh_status rc = spsh__nccl_began(s, nccl->group_start(), "ncclGroupStart", err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t peer = 0; rc == SPSH_OK && peer < s->world_size; peer++) {
        rc = spsh__nccl_began(s,
                              nccl->send(sent + peer * c->count, c->count, SPSH__NCCL_HALF,
                                         (int)peer, s->comm, stream),
                              "ncclSend", err);
        if (rc == SPSH_OK)
            rc = spsh__nccl_began(s,
                                  nccl->recv(received + peer * c->count, c->count, SPSH__NCCL_HALF,
                                             (int)peer, s->comm, stream),
                                  "ncclRecv", err);
    }
    const int result = nccl->group_end();
    return rc != SPSH_OK ? rc : spsh__nccl_began(s, result, "ncclGroupEnd", err);
}

static spsh_status spsh__nccl_call(const spsh__nccl_state *s, const spsh__collective *c,
                                   void *stream, spsh_error *err)
{
    const spsh__nccl *nccl = s->nccl;
    float *mine = (float *)c->values + s->rank * c->count;
    const uint16_t *my_halves = (const uint16_t *)c->values + s->rank * c->count;
    switch (c->kind) {
    case SPSH__COLLECTIVE_SUM:
        return spsh__nccl_began(s,
                                nccl->all_reduce(c->values, c->values, c->count, SPSH__NCCL_FLOAT,
                                                 SPSH__NCCL_SUM, s->comm, stream),
                                "ncclAllReduce", err);
    case SPSH__COLLECTIVE_SUM_PARTS:
        return spsh__nccl_began(s,
                                nccl->reduce_scatter(c->values, mine, c->count, SPSH__NCCL_FLOAT,
                                                     SPSH__NCCL_SUM, s->comm, stream),
                                "ncclReduceScatter", err);
    case SPSH__COLLECTIVE_GATHER_PARTS:
        return spsh__nccl_began(
            s, nccl->all_gather(mine, c->values, c->count, SPSH__NCCL_FLOAT, s->comm, stream),
            "ncclAllGather", err);
    case SPSH__COLLECTIVE_BROADCAST:
        return spsh__nccl_began(
            s,
            nccl->broadcast(c->values, c->values, c->count, SPSH__NCCL_FLOAT, 0, s->comm, stream),
            "ncclBroadcast", err);
    case SPSH__COLLECTIVE_EXCHANGE_HALVES: return spsh__nccl_exchange(s, c, stream, err);
    case SPSH__COLLECTIVE_GATHER_HALVES:
        return spsh__nccl_began(
            s, nccl->all_gather(my_halves, c->values, c->count, SPSH__NCCL_HALF, s->comm, stream),
            "ncclAllGather", err);
    }
    return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "unknown collective %d", (int)c->kind);
}

static spsh_status spsh__nccl_start(void *state, const spsh__collective *c, void *stream,
                                    spsh_error *err)
{
    const spsh__nccl_state *s = (const spsh__nccl_state *)state;
    int before = 0;
    spsh_status rc = spsh__cuda_enter(s->device, &before, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__nccl_call(s, c, stream, err);
    spsh__cuda_leave(before);
    return rc;
}

static spsh_status spsh__nccl_finish(void *state, spsh_error *err)
{
    const spsh__nccl_state *s = (const spsh__nccl_state *)state;
    return spsh__nccl_began(s, s->nccl->comm_finalize(s->comm), "ncclCommFinalize", err);
}

/* Abort or destroy the communicator. Both free it, so neither may follow. */
static void spsh__nccl_end(spsh__nccl_state *s, int (*end)(void *comm))
{
    int before = 0;
    if (s->comm == NULL)
        return;
    const int has_entered = spsh__cuda_enter(s->device, &before, NULL) == SPSH_OK;
    (void)end(s->comm);
    s->comm = NULL;
    if (has_entered)
        spsh__cuda_leave(before);
}

/* NCCL first sets a flag that its kernels poll. Then they end, and the call of CUDA that waited for
 * them returns. That call may hold locks of the driver until then, so nothing else comes first:
 * selecting the device, too, could wait for them. NCCL selects it itself, after the flag. */
static void spsh__nccl_abort(void *state)
{
    spsh__nccl_state *s = (spsh__nccl_state *)state;
    void *comm = s->comm;
    s->comm = NULL;
    if (comm != NULL)
        (void)s->nccl->comm_abort(comm);
}

static void spsh__nccl_close(void *state, uint32_t is_aborted)
{
    spsh__nccl_state *s = (spsh__nccl_state *)state;
    if (s == NULL)
        return;
    spsh__nccl_end(s, is_aborted != 0 ? s->nccl->comm_abort : s->nccl->comm_destroy);
    free(s);
}

const spsh__device_nccl_entry spsh__nccl_entry = {
    spsh__nccl_load,   spsh__nccl_unload, spsh__nccl_version,   spsh__nccl_key,
    spsh__nccl_id_get, spsh__nccl_open,   spsh__nccl_state_get, spsh__nccl_start,
    spsh__nccl_finish, spsh__nccl_abort,  spsh__nccl_close,
};

/* nccl_calls.h: the text of device_nccl.h's entry, compiled by nvcc (nccl.cu) and as C for the twin
 * (tests/support/twin_nccl.c), which define the three functions declared first.
 *
 * NCCL's header is not needed: its functions have kept their shape since 2.14, the first version
 * that opens without blocking, and a library takes the configuration of an older version, which is
 * a beginning of its own. nccl.cu compares what is declared here with nccl.h where that is there.
 */
#ifndef SPSH_NCCL_CALLS_H
#define SPSH_NCCL_CALLS_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device_nccl.h"

/* Makes it the thread's device. */
static spsh_status spsh__nccl_device(uint32_t device, spsh_error *err);
static spsh_status spsh__nccl_key(uint32_t device, uint64_t *ret_key, spsh_error *err);
static const char *spsh__nccl_default(void); /* the library's name */

enum {
    SPSH__NCCL_SUCCESS = 0,
    SPSH__NCCL_IN_PROGRESS = 7,
    SPSH__NCCL_FLOAT = 7,
    SPSH__NCCL_SUM = 0,
    SPSH__NCCL_VERSION_MIN = 21400,
};
#define SPSH__NCCL_MAGIC 0xcafebeefU

typedef struct spsh__nccl_config { /* ncclConfig_t of 2.14 */
    size_t size_bytes;
    unsigned magic, version;
    int blocking;
} spsh__nccl_config;

/* NCCL's functions: ncclResult_t, ncclDataType_t and ncclRedOp_t are int here. */
typedef struct spsh__nccl {
    void *handle;
    int version;
    int (*get_version)(int *version);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(void *comm);
    int (*get_unique_id)(spsh__nccl_id *id);
    int (*comm_init_rank_config)(void **comm, int count, spsh__nccl_id id, int rank,
                                 spsh__nccl_config *config);
    int (*comm_get_async_error)(void *comm, int *result);
    int (*comm_finalize)(void *comm);
    int (*comm_destroy)(void *comm);
    int (*comm_abort)(void *comm);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, void *comm,
                      void *stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int op, void *comm,
                          void *stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, void *comm, void *stream);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, void *comm,
                     void *stream);
} spsh__nccl;

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

/* Names and where their addresses go: a function's pointer has the size of a pointer to data. */
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
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *address = dlsym(nccl->handle, wanted[i].name);
        if (address == NULL)
            return wanted[i].name;
        memcpy(wanted[i].to, &address, sizeof(address));
    }
    return NULL;
}

/* The library's code stays until the process ends: the thread that brings ranks together, which it
 * starts for an id and does not join, may still wait for one that never came. */
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
        rc = spsh__cuda_fail(err, SPSH_E_NOT_FOUND, "NCCL is not there: %.150s",
                             why == NULL ? name : why);
        goto out;
    }
    {
        const char *missing = spsh__nccl_missing(nccl);
        if (missing != NULL || nccl->get_version(&nccl->version) != SPSH__NCCL_SUCCESS)
            rc = spsh__cuda_fail(err, SPSH_E_VERSION, "%s has no %s: 2.14 or later is needed", name,
                                 missing != NULL ? missing : "version");
        else if (nccl->version < SPSH__NCCL_VERSION_MIN)
            rc = spsh__cuda_fail(err, SPSH_E_VERSION, "%s is version %d: 2.14 or later is needed",
                                 name, nccl->version);
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

/* Of a call of a communicator that does not block: under way is no failure. */
static spsh_status spsh__nccl_began(const spsh__nccl_state *s, int result, const char *what,
                                    spsh_error *err)
{
    if (result == SPSH__NCCL_SUCCESS || result == SPSH__NCCL_IN_PROGRESS)
        return SPSH_OK;
    return spsh__nccl_failed(s->nccl, s->comm, result, what, err);
}

static spsh_status spsh__nccl_open(void *library, const spsh__nccl_plan *plan, void **ret_state,
                                   spsh_error *err)
{
    const spsh__nccl *nccl = (const spsh__nccl *)library;
    spsh__nccl_config config = {sizeof(config), SPSH__NCCL_MAGIC, SPSH__NCCL_VERSION_MIN, 0};
    spsh_status rc = spsh__nccl_device(plan->device, err);
    spsh__nccl_state *s = NULL;
    if (rc != SPSH_OK)
        return rc;
    s = (spsh__nccl_state *)calloc(1, sizeof(*s));
    if (s == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "out of memory");
    s->nccl = nccl;
    s->device = plan->device;
    s->rank = plan->rank;
    s->world_size = plan->world_size;
    rc = spsh__nccl_began(s,
                          nccl->comm_init_rank_config(&s->comm, (int)plan->world_size, plan->id,
                                                      (int)plan->rank, &config),
                          "ncclCommInitRankConfig", err);
    if (rc != SPSH_OK) {
        if (s->comm != NULL)
            (void)nccl->comm_abort(s->comm);
        free(s);
        return rc;
    }
    *ret_state = s;
    return SPSH_OK;
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
               : spsh__nccl_failed(s->nccl, s->comm, now, "a communicator", err);
}

static spsh_status spsh__nccl_start(void *state, const spsh__collective *c, void *stream,
                                    spsh_error *err)
{
    const spsh__nccl_state *s = (const spsh__nccl_state *)state;
    const spsh__nccl *nccl = s->nccl;
    float *mine = (float *)c->values + s->rank * c->count;
    const spsh_status rc = spsh__nccl_device(s->device, err);
    if (rc != SPSH_OK)
        return rc;
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
    }
    return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "collective %d", (int)c->kind);
}

static spsh_status spsh__nccl_finish(void *state, spsh_error *err)
{
    const spsh__nccl_state *s = (const spsh__nccl_state *)state;
    return spsh__nccl_began(s, s->nccl->comm_finalize(s->comm), "ncclCommFinalize", err);
}

static void spsh__nccl_close(void *state, uint32_t is_aborted)
{
    spsh__nccl_state *s = (spsh__nccl_state *)state;
    if (s == NULL)
        return;
    (void)spsh__nccl_device(s->device, NULL);
    if (is_aborted != 0)
        (void)s->nccl->comm_abort(s->comm);
    else
        (void)s->nccl->comm_destroy(s->comm);
    free(s);
}

static const spsh__device_nccl_entry spsh__nccl_entry = {
    spsh__nccl_load, spsh__nccl_unload,    spsh__nccl_version, spsh__nccl_key,    spsh__nccl_id_get,
    spsh__nccl_open, spsh__nccl_state_get, spsh__nccl_start,   spsh__nccl_finish, spsh__nccl_close,
};

#endif

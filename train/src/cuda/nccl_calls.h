/* nccl_calls.h: the interface between the calls of NCCL (nccl_calls.c) and the CUDA below them:
 * CUDA in the plug-in (nccl.cu), or the host emulation of CUDA in tests
 * (tests/support/twin_nccl.c).
 *
 * The calls need no header of NCCL. Its functions have kept their signatures since 2.14, the first
 * version that opens a communicator without blocking. Later versions append
 * members to its configuration and accept the shorter ones: 2.14 has `blocking`, and 2.17 has the
 * members up to `net_name`. nccl.cu compares the declarations below with nccl.h if it is installed.
 */
#ifndef SPSH_NCCL_CALLS_H
#define SPSH_NCCL_CALLS_H

#include <limits.h>

#include "device_nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* nccl.cu and twin_nccl.c define two functions. */
spsh_status spsh__nccl_key(uint32_t device, uint64_t *ret_key, spsh_error *err);
const char *spsh__nccl_default(void); /* name of the library to load */

enum {
    SPSH__NCCL_SUCCESS = 0,
    SPSH__NCCL_IN_PROGRESS = 7,
    SPSH__NCCL_HALF = 6,
    SPSH__NCCL_FLOAT = 7,
    SPSH__NCCL_SUM = 0,
    SPSH__NCCL_VERSION_MIN = 21400,
};
#define SPSH__NCCL_MAGIC 0xcafebeefU

#define SPSH__NCCL_UNDEFINED INT_MIN /* NCCL's default */

enum { SPSH__NCCL_CONFIG_BYTES_214 = 24 }; /* size of ncclConfig_t of 2.14, with its padding */

typedef struct spsh__nccl_config { /* ncclConfig_t of 2.17 */
    size_t size_bytes;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size; /* 0: no clusters, whose blocks need adjacent multiprocessors */
    int min_ctas, max_ctas;
    const char *net_name;
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
    int (*send)(const void *from, size_t count, int type, int peer, void *comm, void *stream);
    int (*recv)(void *to, size_t count, int type, int peer, void *comm, void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
} spsh__nccl;

/* The whole table. */
extern const spsh__device_nccl_entry spsh__nccl_entry;

#ifdef __cplusplus
}
#endif

#endif

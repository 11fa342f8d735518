/* nccl_shim.h: how the host emulation of the CUDA plug-in gives the NCCL shim access to its
 * streams. */
#ifndef SPSH_NCCL_SHIM_H
#define SPSH_NCCL_SHIM_H

#include "twin_runtime.h"

#define NCCL_SHIM_STREAMS_SYMBOL "nccl_shim_streams"

#define NCCL_SHIM_RECEIVED_SYMBOL "nccl_shim_received"

/* ncclConfig_t, as the shim reads it: members past `size_bytes` have NCCL's defaults. */
typedef struct nccl_shim_config {
    size_t size_bytes;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size, min_ctas, max_ctas; /* since 2.17 */
    const char *net_name;
} nccl_shim_config;

/* The last configuration that was received. */
typedef const nccl_shim_config *nccl_shim_received_fn(void);

typedef spsh_status nccl_shim_enqueue_fn(void *stream, const twin_work *work, spsh_error *err);

/* Call before any other function. */
typedef void nccl_shim_streams_fn(nccl_shim_enqueue_fn *enqueue_fn);

#endif

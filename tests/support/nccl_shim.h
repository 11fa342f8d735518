/* nccl_shim.h: how the host emulation of the CUDA plug-in gives the NCCL shim access to its
 * streams. */
#ifndef SPSH_NCCL_SHIM_H
#define SPSH_NCCL_SHIM_H

#include "twin_runtime.h"

#define NCCL_SHIM_STREAMS_SYMBOL "nccl_shim_streams"

typedef spsh_status nccl_shim_enqueue_fn(void *stream, const twin_work *work, spsh_error *err);

/* Call before any other function. */
typedef void nccl_shim_streams_fn(nccl_shim_enqueue_fn *enqueue_fn);

#endif

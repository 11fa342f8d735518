/* nccl_shim.h: how the twin of the CUDA plug-in lends its streams to the shim of NCCL. */
#ifndef SPSH_NCCL_SHIM_H
#define SPSH_NCCL_SHIM_H

#include "twin_runtime.h"

#define NCCL_SHIM_STREAMS_SYMBOL "nccl_shim_streams"

typedef spsh_status nccl_shim_enqueue_fn(void *stream, const twin_work *work, spsh_error *err);

/* Before any other call. */
typedef void nccl_shim_streams_fn(nccl_shim_enqueue_fn *enqueue_fn);

#endif

/* cuda_plugin.h: what the libraries and the plug-in of cuda.h say to each other. Not for users: it
 * changes with any version, and both sides are of the same one.
 *
 * The plug-in links none of our libraries: all that it needs comes in arguments. It exports
 *
 *     const spsh__cuda_plugin *spsh_cuda_plugin(void);
 *
 * and, for each library with kernels, an entry of its own that the library fetches by name with
 * spsh_cuda_symbol.
 */
#ifndef SPEECHSHARD_CUDA_PLUGIN_H
#define SPEECHSHARD_CUDA_PLUGIN_H

#include "speechshard/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything here, or in an entry, changes. */
#define SPSH__CUDA_ABI           1
#define SPSH__CUDA_PLUGIN_SYMBOL "spsh_cuda_plugin"

typedef struct spsh__cuda_plugin {
    uint32_t abi;        /* first in every version */
    const char *version; /* SPSH_VERSION_STRING */
    /* SPSH_OK and at least 1, or why not. */
    spsh_status (*count_fn)(uint32_t *ret_count, spsh_error *err);
    spsh_status (*device_fn)(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err);
    spsh_status (*alloc_fn)(uint32_t device, size_t size_bytes, void **ret_memory, spsh_error *err);
    void (*free_fn)(void *memory);
    spsh_status (*copy_fn)(void *to, const void *from, size_t size_bytes, void *stream,
                           spsh_error *err);
    spsh_status (*synchronize_fn)(void *stream, spsh_error *err);
} spsh__cuda_plugin;

typedef const spsh__cuda_plugin *spsh__cuda_plugin_fn(void);

/* Within the plug-in: a cudaError_t as a status, with what was tried; SPSH_OK for cudaSuccess. The
 * one place where errors of CUDA become ours. */
spsh_status spsh__cuda_check(int code, const char *what, spsh_error *err);

/* Within the plug-in: fill err as spsh_error_set does; returns status. */
spsh_status spsh__cuda_fail(spsh_error *err, spsh_status status, const char *format, ...)
    SPSH_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif

#endif

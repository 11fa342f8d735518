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

#include <stdarg.h>
#include <stdio.h>

#include "speechshard/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything here, or in an entry, changes. */
#define SPSH__CUDA_ABI           4
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
    /* As the functions of cuda.h of like names. */
    spsh_status (*fill_fn)(void *memory, uint8_t byte, size_t size_bytes, void *stream,
                           spsh_error *err);
    spsh_status (*memory_fn)(uint32_t device, uint64_t *ret_free_bytes, uint64_t *ret_all_bytes,
                             spsh_error *err);
    spsh_status (*host_alloc_fn)(size_t size_bytes, void **ret_memory, spsh_error *err);
    void (*host_free_fn)(void *memory);
    spsh_status (*host_register_fn)(void *memory, size_t size_bytes, spsh_error *err);
    void (*host_unregister_fn)(void *memory);
    spsh_status (*stream_open_fn)(uint32_t device, uint32_t urgent, void **ret_stream,
                                  spsh_error *err);
    void (*stream_close_fn)(void *stream);
    spsh_status (*event_open_fn)(uint32_t device, uint32_t timed, void **ret_event,
                                 spsh_error *err);
    void (*event_close_fn)(void *event);
    spsh_status (*event_record_fn)(void *event, void *stream, spsh_error *err);
    spsh_status (*event_wait_fn)(void *event, void *stream, spsh_error *err);
    spsh_status (*event_query_fn)(void *event, spsh_error *err);
    spsh_status (*event_synchronize_fn)(void *event, spsh_error *err);
    spsh_status (*event_ms_fn)(void *first, void *last, float *ret_ms, spsh_error *err);
    /* Graphs: what is put onto a stream between begin and end, with what it makes other streams
     * wait for and do, is kept instead of done; launch does all of it again, with the same memory.
     * Begun and ended by one thread, which waits for nothing in between and frees nothing, but may
     * allocate; other threads may use other streams. abandon: the capture failed; the stream is as
     * it was. Not from the NULL stream.
     */
    spsh_status (*graph_begin_fn)(void *stream, spsh_error *err);
    spsh_status (*graph_end_fn)(void *stream, void **ret_graph, spsh_error *err);
    void (*graph_abandon_fn)(void *stream);
    spsh_status (*graph_launch_fn)(void *graph, void *stream, spsh_error *err);
    void (*graph_close_fn)(void *graph);
    spsh_status (*library_fn)(uint32_t number, spsh_cuda_library *ret_library);
    spsh_status (*enter_fn)(uint32_t device, int *ret_before, spsh_error *err);
    void (*leave_fn)(int before);
} spsh__cuda_plugin;

typedef const spsh__cuda_plugin *spsh__cuda_plugin_fn(void);

/* The plug-in's table, for libraries that put whole sequences of work onto streams. */
SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin_of(const spsh_cuda *cuda);

/* Memory that a piece of work reads or writes. Whoever puts work onto a stream through an entry of
 * the plug-in says so; the plug-in takes no notice, the twin (tests/support) proves by it that no
 * two streams are at the same memory without an event between them. */
typedef struct spsh__device_use {
    const void *begin;
    size_t size_bytes;
    uint32_t is_write; /* or both */
} spsh__device_use;

/* ---- within the plug-in, and its twin ---- */

static inline spsh_status spsh__cuda_fail(spsh_error *err, spsh_status status, const char *format,
                                          ...) SPSH_PRINTF(3, 4);

/* Fill err as spsh_error_set does, which is not linked; returns status. */
static inline spsh_status spsh__cuda_fail(spsh_error *err, spsh_status status, const char *format,
                                          ...)
{
    if (err != NULL) {
        va_list arguments;
        va_start(arguments, format);
        err->status = status;
        err->os_errno = 0;
        err->offset_bytes = SPSH_OFFSET_NONE;
        (void)vsnprintf(err->message, sizeof(err->message), format, arguments);
        va_end(arguments);
    }
    return status;
}

/* A cudaError_t as a status, with what was tried; SPSH_OK for cudaSuccess. The one place where
 * errors of CUDA become ours. */
spsh_status spsh__cuda_check(int code, const char *what, spsh_error *err);

/* A device becomes the calling thread's, until it leaves: then the one that the thread had is its
 * again. A thread that had none keeps this one: to give it another would make a context there, some
 * hundred megabytes of a device that nobody uses. */
spsh_status spsh__cuda_enter(uint32_t device, int *ret_before, spsh_error *err);
void spsh__cuda_leave(int before);

#ifdef __cplusplus
}
#endif

#endif

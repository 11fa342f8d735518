/* cuda_plugin.h: the interface between the libraries and the plug-in of cuda.h. Not for users: it
 * changes with any version, and both sides must have the same version.
 *
 * The plug-in links none of our libraries: it receives everything in arguments. It exports
 *
 *     const spsh__cuda_plugin *spsh_cuda_plugin(void);
 *
 * and one table for each library with kernels. The library looks it up with spsh_cuda_symbol.
 */
#ifndef SPEECHSHARD_CUDA_PLUGIN_H
#define SPEECHSHARD_CUDA_PLUGIN_H

#include <stdarg.h>
#include <stdio.h>

#include "speechshard/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increment it when anything here, or in a table of the plug-in, changes. */
#define SPSH__CUDA_ABI           5
#define SPSH__CUDA_PLUGIN_SYMBOL "spsh_cuda_plugin"

typedef struct spsh__cuda_plugin {
    uint32_t abi;        /* first in every version */
    const char *version; /* SPSH_VERSION_STRING */
    /* SPSH_OK and at least 1, or the reason of the failure. */
    spsh_status (*count_fn)(uint32_t *ret_count, spsh_error *err);
    spsh_status (*device_fn)(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err);
    spsh_status (*alloc_fn)(uint32_t device, size_t size_bytes, void **ret_memory, spsh_error *err);
    void (*free_fn)(void *memory);
    spsh_status (*copy_fn)(void *to, const void *from, size_t size_bytes, void *stream,
                           spsh_error *err);
    spsh_status (*synchronize_fn)(void *stream, spsh_error *err);
    /* Like the functions of cuda.h with the same names. */
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
    /* Graphs: begin and end capture the work that is enqueued on a stream between them, and the
     * work that it makes other streams wait for and run. launch runs all of it again, on the same
     * memory. One thread calls begin and end. Between them it must not wait or free memory, but may
     * allocate; other threads may use other streams. abandon: end a failed capture; the stream is
     * then as before. Not for the NULL stream.
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

/* The plug-in's table, for libraries that enqueue sequences of work. */
SPSH_API const spsh__cuda_plugin *spsh_cuda_plugin_of(const spsh_cuda *cuda);

/* Memory that a piece of work reads or writes. Callers that enqueue work through a table of the
 * plug-in declare it. The plug-in ignores the declaration; the host emulation (tests/support) uses
 * it to prove that no two streams use the same memory without an event between them. */
typedef struct spsh__device_use {
    const void *begin;
    size_t size_bytes;
    uint32_t is_write; /* it writes, and may read */
} spsh__device_use;

/* ---- inside the plug-in and its host emulation ---- */

static inline spsh_status spsh__cuda_fail(spsh_error *err, spsh_status status, const char *format,
                                          ...) SPSH_PRINTF(3, 4);

/* Fill err like spsh_error_set, which the plug-in does not link; returns status. */
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

/* Convert a cudaError_t to a status; SPSH_OK for cudaSuccess. what: the failed operation, for the
 * message. All CUDA errors are converted here. */
spsh_status spsh__cuda_check(int code, const char *what, spsh_error *err);

/* Make a device current for the calling thread until leave restores the previous one. A thread
 * without a previous device keeps this one: selecting another would create a context there, some
 * hundred megabytes on a device that nothing uses. */
spsh_status spsh__cuda_enter(uint32_t device, int *ret_before, spsh_error *err);
void spsh__cuda_leave(int before);

#ifdef __cplusplus
}

/* A device that is current for the calling thread until the end of the block. */
struct spsh__cuda_scope {
    spsh__cuda_scope(uint32_t device, spsh_error *err)
        : before(0), status(spsh__cuda_enter(device, &before, err))
    {
    }
    ~spsh__cuda_scope()
    {
        if (status == SPSH_OK)
            spsh__cuda_leave(before);
    }
    spsh__cuda_scope(const spsh__cuda_scope &) = delete;
    spsh__cuda_scope &operator=(const spsh__cuda_scope &) = delete;

    int before;
    spsh_status status; /* SPSH_OK, or why the device cannot be used */
};
#endif

#endif

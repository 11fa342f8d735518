/* cuda.h: GPUs. All code that needs CUDA is in a plug-in, libspeechshard-cuda.so, which
 * spsh_cuda_open loads. The libraries and the command are the same with and without it.
 *
 *     spsh_cuda *cuda = NULL;
 *     if (spsh_cuda_open(NULL, &cuda, &err) != SPSH_OK)
 *         fprintf(stderr, "no GPU: %s\n", err.message);       // states why: use the CPU
 *     spsh_cuda_close(cuda);
 *
 * A stream is a cudaStream_t, passed as void *. NULL is the legacy default stream of the calling
 * thread's current device. If a thread has not chosen a device (cudaSetDevice), the first call here
 * that uses a device makes it current. All work is enqueued on the stream and runs in its order.
 *
 * CUDA does not survive a fork. A child must not use or close anything of this header that the
 * parent opened, and can open devices only if the parent has not used CUDA before the fork.
 */
#ifndef SPEECHSHARD_CUDA_H
#define SPEECHSHARD_CUDA_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_CUDA_PLUGIN_NAME "libspeechshard-cuda.so"

/** A loaded plug-in that found a driver and at least one device. Immutable: any thread may use it,
 * but not during close. */
typedef struct spsh_cuda spsh_cuda;

typedef struct spsh_cuda_device {
    size_t struct_size;
    char name[256];
    uint32_t capability_major, capability_minor; /* 9, 0: sm_90 */
    uint32_t multiprocessor_count;
    uint32_t driver_version, runtime_version; /* 13000: 13.0 */
    uint64_t memory_bytes;
    uint64_t
        bandwidth_bytes; /* memory bandwidth per second, from clock and bus width; 0: unknown */
} spsh_cuda_device;
/* clang-format off */
#define SPSH_CUDA_DEVICE_INIT {sizeof(spsh_cuda_device), {0}, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/**
 * Load the plug-in and look for devices.
 *
 * @param path  path of the plug-in. NULL: search SPSH_CUDA_PLUGIN_NAME next to the library (or
 * program) that contains this function, then in the installed library folder, then in the Python
 * package speechshard_cuda next to the folder of the library, then where the system searches
 * libraries (including LD_LIBRARY_PATH). No other environment variable is read.
 * @return SPSH_OK; SPSH_E_NOT_FOUND (no plug-in there), SPSH_E_VERSION (a plug-in of another
 * version), SPSH_E_UNSUPPORTED (no driver, a driver that is too old, or no device), SPSH_E_IO (it
 * cannot be loaded, or the driver fails), SPSH_E_NO_MEMORY. The message has the reason and a
 * remedy.
 *
 * Thread-safe. Once loaded, the plug-in's code stays in the process.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_open(const char *path, spsh_cuda **ret_cuda,
                                                   spsh_error *err);

/** Close all objects that were opened through it first. NULL is fine. */
SPSH_API void spsh_cuda_close(spsh_cuda *cuda);

/** Number of devices; at least 1. */
SPSH_API uint32_t spsh_cuda_device_count(const spsh_cuda *cuda);

/** Describe a device. SPSH_OK, SPSH_E_INVALID_ARG (no such device), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_device_get(const spsh_cuda *cuda, uint32_t number,
                                                         spsh_cuda_device *ret_device,
                                                         spsh_error *err);

/** An NVIDIA library that parts of the plug-in load on demand. If it is missing, opening such a
 * part fails with a message. */
typedef struct spsh_cuda_library {
    size_t struct_size;
    const char *name;     /* "cuDNN" */
    const char *used_for; /* "training" */
    char version[32];     /* "9.13.0"; "" if it cannot be loaded */
    char reason[200];     /* why it cannot be loaded; else "" */
} spsh_cuda_library;
/* clang-format off */
#define SPSH_CUDA_LIBRARY_INIT {sizeof(spsh_cuda_library), NULL, NULL, {0}, {0}}
/* clang-format on */

/** Look for library `number`, from 0. SPSH_OK (found or not), SPSH_E_END (past the last number),
 * SPSH_E_INVALID_ARG (struct_size). */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_library_get(const spsh_cuda *cuda, uint32_t number,
                                                          spsh_cuda_library *ret_library);

/** Allocate device memory, aligned to 256 bytes. SPSH_OK, SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG (no
 * such device, or no bytes), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_alloc(const spsh_cuda *cuda, uint32_t device,
                                                    size_t size_bytes, void **ret_memory,
                                                    spsh_error *err);
/** Free device memory after the work that uses it. NULL is fine. */
SPSH_API void spsh_cuda_free(const spsh_cuda *cuda, void *memory);

/** Enqueue a copy in any direction between host and device. Unpinned host memory is read before the
 * return. Host memory that is the destination is complete after spsh_cuda_synchronize. SPSH_OK,
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_copy(const spsh_cuda *cuda, void *to,
                                                   const void *from, size_t size_bytes,
                                                   void *stream, spsh_error *err);

/** Enqueue setting bytes of device memory on a stream of that device. SPSH_OK, SPSH_E_INVALID_ARG
 * (not device memory), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_fill(const spsh_cuda *cuda, void *memory,
                                                   uint8_t byte, size_t size_bytes, void *stream,
                                                   spsh_error *err);

/** Current free bytes and total bytes of device memory. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_memory(const spsh_cuda *cuda, uint32_t device,
                                                     uint64_t *ret_free_bytes,
                                                     uint64_t *ret_all_bytes, spsh_error *err);

/* ---- pinned host memory: devices copy it at full speed without CPU time ---- */

/** Allocate pinned memory, aligned to 4096 bytes, for all devices. SPSH_OK, SPSH_E_INVALID_ARG (no
 * bytes), SPSH_E_NO_MEMORY, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_host_alloc(const spsh_cuda *cuda, size_t size_bytes,
                                                         void **ret_memory, spsh_error *err);
/** Free pinned memory that no work in flight uses. NULL is fine. */
SPSH_API void spsh_cuda_host_free(const spsh_cuda *cuda, void *memory);

/** Pin existing memory, in whole pages, until it is unregistered. SPSH_OK, SPSH_E_INVALID_ARG (not
 * whole pages, or registered already), SPSH_E_NO_MEMORY (the system allows no more), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_host_register(const spsh_cuda *cuda, void *memory,
                                                            size_t size_bytes, spsh_error *err);
/** Unpin memory; call it before freeing the memory. NULL is fine. */
SPSH_API void spsh_cuda_host_unregister(const spsh_cuda *cuda, void *memory);

/* ---- streams and events: the order of work ---- */

/** Open a stream that does not wait for other streams (cudaStreamNonBlocking). urgent: the device
 * prefers its work to other streams' work. Close waits for its work; NULL is fine. SPSH_OK,
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_stream_open(const spsh_cuda *cuda, uint32_t device,
                                                          uint32_t urgent, void **ret_stream,
                                                          spsh_error *err);
SPSH_API void spsh_cuda_stream_close(const spsh_cuda *cuda, void *stream);

/** Open a cudaEvent_t of a device. timed: spsh_cuda_event_ms needs it. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_open(const spsh_cuda *cuda, uint32_t device,
                                                         uint32_t timed, void **ret_event,
                                                         spsh_error *err);
SPSH_API void spsh_cuda_event_close(const spsh_cuda *cuda, void *event); /* NULL is fine */

/** Record the event after the work enqueued so far on a stream of the event's device. SPSH_OK,
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_record(const spsh_cuda *cuda, void *event,
                                                           void *stream, spsh_error *err);
/** Make work that is enqueued on the stream from now on wait for the event; the caller does not
 * wait. An event that was never recorded has no effect. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_wait(const spsh_cuda *cuda, void *event,
                                                         void *stream, spsh_error *err);
/** Check whether the device has reached the event. SPSH_OK: yes; SPSH_E_TIMEOUT: not yet;
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_query(const spsh_cuda *cuda, void *event,
                                                          spsh_error *err);
/** Wait until the device has reached the event. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_synchronize(const spsh_cuda *cuda, void *event,
                                                                spsh_error *err);
/** Milliseconds between two timed events that the device has reached. SPSH_OK, SPSH_E_INVALID_ARG,
 * SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_ms(const spsh_cuda *cuda, void *first,
                                                       void *last, float *ret_ms, spsh_error *err);

/** Make a device current for the calling thread until spsh_cuda_leave. For callers that use default
 * streams (NULL) on several devices. ret_before: the argument for leave. SPSH_OK,
 * SPSH_E_INVALID_ARG (no such device), SPSH_E_IO; after a failure do not call leave. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_enter(const spsh_cuda *cuda, uint32_t device,
                                                    int *ret_before, spsh_error *err);
SPSH_API void spsh_cuda_leave(const spsh_cuda *cuda, int before);

/** Wait until a stream has finished, and report errors of its work. SPSH_OK, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_synchronize(const spsh_cuda *cuda, void *stream,
                                                          spsh_error *err);

/** Return a symbol that the plug-in exports (cuda_plugin.h), or NULL. */
SPSH_API void *spsh_cuda_symbol(const spsh_cuda *cuda, const char *name);

#ifdef __cplusplus
}
#endif

#endif

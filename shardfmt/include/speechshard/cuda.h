/* cuda.h: GPUs. What needs CUDA is in a plug-in, libspeechshard-cuda.so, that is loaded when
 * somebody asks for it: libraries and command are the same with and without it.
 *
 *     spsh_cuda *cuda = NULL;
 *     if (spsh_cuda_open(NULL, &cuda, &err) != SPSH_OK)
 *         fprintf(stderr, "no GPU: %s\n", err.message);       // says why: go on with the CPU
 *     spsh_cuda_close(cuda);
 *
 * A stream is a cudaStream_t, given as void *; NULL is the legacy default stream of the device that
 * is current for the calling thread. A thread that has not chosen one (cudaSetDevice) keeps the
 * first that a call here used on it. All work is put onto the stream and done in its order.
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
 * not during close. */
typedef struct spsh_cuda spsh_cuda;

typedef struct spsh_cuda_device {
    size_t struct_size;
    char name[256];
    uint32_t capability_major, capability_minor; /* 9, 0: sm_90 */
    uint32_t multiprocessor_count;
    uint32_t driver_version, runtime_version; /* 13000: 13.0 */
    uint64_t memory_bytes;
    uint64_t bandwidth_bytes; /* of its memory, a second, by clock and bus width; 0: unknown */
} spsh_cuda_device;
/* clang-format off */
#define SPSH_CUDA_DEVICE_INIT {sizeof(spsh_cuda_device), {0}, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/**
 * Load the plug-in and look for devices.
 *
 * @param path  of the plug-in; NULL: SPSH_CUDA_PLUGIN_NAME beside the library (or program) that
 * this function is in, then in the library folder as installed, then wherever the system looks for
 * libraries (LD_LIBRARY_PATH too). The environment is not looked at otherwise.
 * @return SPSH_OK; SPSH_E_NOT_FOUND (no plug-in there), SPSH_E_VERSION (one of another version),
 * SPSH_E_UNSUPPORTED (no driver, one that is too old, no device), SPSH_E_IO (it cannot be loaded,
 * the driver fails), SPSH_E_NO_MEMORY. The message says which, and what to do.
 *
 * Thread-safe. The plug-in's code stays in the process once it was loaded.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_open(const char *path, spsh_cuda **ret_cuda,
                                                   spsh_error *err);

/** NULL is fine. What was opened through it must be closed before. */
SPSH_API void spsh_cuda_close(spsh_cuda *cuda);

/** At least 1. */
SPSH_API uint32_t spsh_cuda_device_count(const spsh_cuda *cuda);

/** SPSH_OK, SPSH_E_INVALID_ARG (no such number), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_device_get(const spsh_cuda *cuda, uint32_t number,
                                                         spsh_cuda_device *ret_device,
                                                         spsh_error *err);

/** A library of NVIDIA's that parts of the plug-in load when they need it; a part that finds none
 * says so when it is opened. */
typedef struct spsh_cuda_library {
    size_t struct_size;
    const char *name;     /* "cuDNN" */
    const char *used_for; /* "training" */
    char version[32];     /* "9.13.0"; "": it cannot be loaded */
    char reason[200];     /* why not; "": it can */
} spsh_cuda_library;
/* clang-format off */
#define SPSH_CUDA_LIBRARY_INIT {sizeof(spsh_cuda_library), NULL, NULL, {0}, {0}}
/* clang-format on */

/** Looks for a library: number 0, 1, ... SPSH_OK (found or not), SPSH_E_END (there is no such
 * number), SPSH_E_INVALID_ARG (struct_size). */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_library_get(const spsh_cuda *cuda, uint32_t number,
                                                          spsh_cuda_library *ret_library);

/** Memory of a device, aligned to 256 bytes: SPSH_OK, SPSH_E_NO_MEMORY, SPSH_E_INVALID_ARG (no such
 * device, no bytes), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_alloc(const spsh_cuda *cuda, uint32_t device,
                                                    size_t size_bytes, void **ret_memory,
                                                    spsh_error *err);
/** Waits for work that uses it. NULL is fine. */
SPSH_API void spsh_cuda_free(const spsh_cuda *cuda, void *memory);

/** Copy between host and device, any way, in the stream's order. Host memory that is not pinned is
 * read before the return; what is written to it is there after spsh_cuda_synchronize. SPSH_OK,
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_copy(const spsh_cuda *cuda, void *to,
                                                   const void *from, size_t size_bytes,
                                                   void *stream, spsh_error *err);

/** Set bytes of a device's memory, in the order of a stream of that device. SPSH_OK,
 * SPSH_E_INVALID_ARG (no memory of a device), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_fill(const spsh_cuda *cuda, void *memory,
                                                   uint8_t byte, size_t size_bytes, void *stream,
                                                   spsh_error *err);

/** Free and all bytes of a device's memory, at this moment. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_memory(const spsh_cuda *cuda, uint32_t device,
                                                     uint64_t *ret_free_bytes,
                                                     uint64_t *ret_all_bytes, spsh_error *err);

/* ---- pinned memory: the host's, which copies read and write by themselves, at full speed ---- */

/** Pinned memory, aligned to 4096 bytes, for all devices. SPSH_OK, SPSH_E_INVALID_ARG (no bytes),
 * SPSH_E_NO_MEMORY, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_host_alloc(const spsh_cuda *cuda, size_t size_bytes,
                                                         void **ret_memory, spsh_error *err);
/** NULL is fine. Nothing may be under way that uses it. */
SPSH_API void spsh_cuda_host_free(const spsh_cuda *cuda, void *memory);

/** Pin memory that is there, until it is unregistered: whole pages. SPSH_OK, SPSH_E_INVALID_ARG (no
 * whole pages, or registered already), SPSH_E_NO_MEMORY (the system allows no more), SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_host_register(const spsh_cuda *cuda, void *memory,
                                                            size_t size_bytes, spsh_error *err);
/** Before the memory is given back. NULL is fine. */
SPSH_API void spsh_cuda_host_unregister(const spsh_cuda *cuda, void *memory);

/* ---- streams and events: what comes after what ---- */

/** A stream of a device that waits for no other one (cudaStreamNonBlocking). urgent: before others
 * where both have work. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. Close: waits for its work; NULL is
 * fine. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_stream_open(const spsh_cuda *cuda, uint32_t device,
                                                          uint32_t urgent, void **ret_stream,
                                                          spsh_error *err);
SPSH_API void spsh_cuda_stream_close(const spsh_cuda *cuda, void *stream);

/** A cudaEvent_t of a device. timed: spsh_cuda_event_ms may be asked. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_open(const spsh_cuda *cuda, uint32_t device,
                                                         uint32_t timed, void **ret_event,
                                                         spsh_error *err);
SPSH_API void spsh_cuda_event_close(const spsh_cuda *cuda, void *event); /* NULL is fine */

/** Mark the place in a stream, of the event's device, that it has come to. SPSH_OK,
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_record(const spsh_cuda *cuda, void *event,
                                                           void *stream, spsh_error *err);
/** What is put onto the stream from now on waits for the event's mark; the caller does not. An
 * event without a mark is none to wait for. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_wait(const spsh_cuda *cuda, void *event,
                                                         void *stream, spsh_error *err);
/** Has the device come to the mark? SPSH_OK: yes; SPSH_E_TIMEOUT: not yet;
 * SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_query(const spsh_cuda *cuda, void *event,
                                                          spsh_error *err);
/** Wait until it has. SPSH_OK, SPSH_E_INVALID_ARG, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_synchronize(const spsh_cuda *cuda, void *event,
                                                                spsh_error *err);
/** Milliseconds between the marks of two timed events, both reached. SPSH_OK, SPSH_E_INVALID_ARG,
 * SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_event_ms(const spsh_cuda *cuda, void *first,
                                                       void *last, float *ret_ms, spsh_error *err);

/** Make a device the calling thread's, until it leaves: for who is given default streams (NULL) and
 * works with several devices. before: what leave is to be told. SPSH_OK, SPSH_E_INVALID_ARG (no
 * such device), SPSH_E_IO; then there is nothing to leave. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_enter(const spsh_cuda *cuda, uint32_t device,
                                                    int *ret_before, spsh_error *err);
SPSH_API void spsh_cuda_leave(const spsh_cuda *cuda, int before);

/** Wait until a stream is done; errors of its work are told here. SPSH_OK, SPSH_E_IO. */
SPSH_API SPSH_NODISCARD spsh_status spsh_cuda_synchronize(const spsh_cuda *cuda, void *stream,
                                                          spsh_error *err);

/** What a part of the plug-in exports under a name (cuda_plugin.h); NULL: nothing. */
SPSH_API void *spsh_cuda_symbol(const spsh_cuda *cuda, const char *name);

#ifdef __cplusplus
}
#endif

#endif

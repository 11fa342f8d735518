/* read_engine.h: keep many reads in flight, and deliver them in the order of the requests.
 *
 *     spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
 *     spsh_read_engine_open(&opt, &engine, &err);
 *     spsh_read_engine_add_file(engine, path, &file, &err);
 *     while (more requests or spsh_read_pending(engine) > 0) {
 *         while (more requests && spsh_read_has_space(engine, size_bytes))
 *             spsh_read_submit(engine, file, offset_bytes, size_bytes, tag, &err);
 *         spsh_read_wait(engine, &done, &err);                // the oldest request
 *         ... done.data, done.got_bytes, done.status ...
 *         spsh_read_recycle(engine, &done);
 *     }
 *     spsh_read_engine_close(engine);
 *
 * Reads use io_uring if the kernel allows it, else pread in a few threads. Results and their order
 * are the same. A request may have any offset and size: the engine widens it for O_DIRECT. It
 * continues short reads, and tries a failing read three times.
 *
 * One thread per engine. All memory is allocated at open.
 *
 * An engine belongs to the process that opened it. In a forked child, add_file, submit, and wait
 * return SPSH_E_INVALID_ARG. The child may close the engine: that frees the child's memory and
 * descriptors and does not affect the parent's reads.
 */
#ifndef SPEECHSHARD_READ_ENGINE_H
#define SPEECHSHARD_READ_ENGINE_H

#include "speechshard/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Alignment of O_DIRECT transfers; valid for every common device. A request occupies its size,
 * rounded up to this, plus one unit of the arena. */
#define SPSH_READ_ALIGN UINT32_C(4096)

#define SPSH_READ_CACHED   UINT32_C(1) /* through the page cache, not O_DIRECT */
#define SPSH_READ_NO_URING UINT32_C(2) /* always pread */
#define SPSH_READ_NO_PREAD UINT32_C(4) /* io_uring, or SPSH_E_UNSUPPORTED */
#define SPSH_READ_SQPOLL   UINT32_C(8) /* io_uring: a kernel thread takes requests, if allowed */
/* Files are read from front to back. With CACHED, the kernel reads ahead. Without it, the kernel
 * reads only the requested bytes. */
#define SPSH_READ_IN_ORDER UINT32_C(16)

struct spsh_read_backend; /* private to the library */

typedef struct spsh_read_engine_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io;     /* opens files and reads for pread; NULL: the operating system; borrowed
                              until close */
    uint8_t *arena;        /* destination of reads; it and arena_bytes are multiples of
                              SPSH_READ_ALIGN; borrowed until close. NULL: memory of the engine */
    size_t arena_bytes;    /* limit for bytes in flight or borrowed, and for one request; 0: 33 MiB,
                              if arena is NULL */
    uint32_t requests_max; /* in flight or borrowed; 0: 64 */
    uint32_t files_max;    /* open at a time; 0: 16 */
    uint32_t threads;      /* for pread; 0: 8; at most 64 are used */
    uint32_t flags;        /* SPSH_READ_* */
    const struct spsh_read_backend *backend; /* NULL: chosen by the flags; for tests */
} spsh_read_engine_options;

/* clang-format off */
#define SPSH_READ_ENGINE_OPTIONS_INIT {sizeof(spsh_read_engine_options), NULL, NULL, NULL, 0, 0, 0,\
    0, 0, NULL}
/* clang-format on */

/** A completed request. */
typedef struct spsh_read_completion {
    uint64_t tag;
    uint32_t file;
    uint64_t offset_bytes;
    size_t size_bytes;   /* requested */
    size_t got_bytes;    /* size_bytes if status is SPSH_OK, else the bytes before the end or the
                            error */
    const uint8_t *data; /* borrowed until recycle; aligned to SPSH_READ_ALIGN if offset_bytes is */
    spsh_status status;  /* SPSH_OK, _TRUNCATED (the file ends inside the request), _IO */
    int os_errno;
    uint64_t sequence; /* internal */
} spsh_read_completion;

typedef struct spsh_read_engine spsh_read_engine;

/**
 * Open an engine.
 *
 * @param options     NULL for defaults; copied, allocator too
 * @param ret_engine  written on success only; close with spsh_read_engine_close
 * @return SPSH_OK, SPSH_E_INVALID_ARG (flags, arena), _NO_MEMORY, _IO (no thread can be started),
 * _UNSUPPORTED (SPSH_READ_NO_PREAD without io_uring; err has the reason)
 *
 * Thread-safe. Arena, buffers, and files are registered with io_uring if the kernel allows it. If
 * it does not (RLIMIT_MEMLOCK), reads work but need a little more CPU time.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_engine_open(const spsh_read_engine_options *options,
                                                          spsh_read_engine **ret_engine,
                                                          spsh_error *err);

/** Wait for all reads in flight, without a time limit; close all files. Borrowed data become
 * invalid. NULL is fine. */
SPSH_API void spsh_read_engine_close(spsh_read_engine *engine);

/** "io_uring" or "pread". */
SPSH_API const char *spsh_read_engine_name(const spsh_read_engine *engine);

/**
 * Open a regular file for reading: with O_DIRECT, unless SPSH_READ_CACHED is set or the file system
 * refuses it.
 *
 * @param path      not kept
 * @param ret_file  the file's number in this engine, below files_max
 * @return SPSH_OK; SPSH_E_LIMIT if files_max are open; _NOT_FOUND; _IO, also if it is not a regular
 * file
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_engine_add_file(spsh_read_engine *engine,
                                                              const char *path, uint32_t *ret_file,
                                                              spsh_error *err);

/** Close an added file. It must have no pending request; its data may still be borrowed. */
SPSH_API void spsh_read_engine_remove_file(spsh_read_engine *engine, uint32_t file);

/** Size of an added file when it was added. */
SPSH_API uint64_t spsh_read_file_bytes(const spsh_read_engine *engine, uint32_t file);

/** Return whether O_DIRECT is in use for an added file. */
SPSH_API bool spsh_read_file_direct(const spsh_read_engine *engine, uint32_t file);

/** Return whether submit would succeed now for a request of size_bytes. */
SPSH_API bool spsh_read_has_space(const spsh_read_engine *engine, size_t size_bytes);

/**
 * Request any bytes of a file. The read starts at the next wait at the latest.
 *
 * @param tag  returned with the completion
 * @return SPSH_OK, SPSH_E_LIMIT if there is no capacity, _INVALID_ARG for a file that was not added
 * or an offset beyond 2^63, _IO if the back end failed
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_submit(spsh_read_engine *engine, uint32_t file,
                                                     uint64_t offset_bytes, size_t size_bytes,
                                                     uint64_t tag, spsh_error *err);

/**
 * Deliver the oldest request. A failed read is delivered with its status; this call returns
 * SPSH_OK.
 *
 * @return SPSH_OK, SPSH_E_END if nothing is pending, _IO if the back end failed
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_wait(spsh_read_engine *engine,
                                                   spsh_read_completion *ret_completion,
                                                   spsh_error *err);

/**
 * Wait like spsh_read_wait, with a time limit. After it the request stays pending; wait again.
 *
 * @param timeout_ms  0: do not block
 * @return as spsh_read_wait, and SPSH_E_TIMEOUT if the oldest request did not complete in time
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_wait_for(spsh_read_engine *engine,
                                                       uint32_t timeout_ms,
                                                       spsh_read_completion *ret_completion,
                                                       spsh_error *err);

/** Return the memory of a completion, in any order; the order of delivery is best. */
SPSH_API void spsh_read_recycle(spsh_read_engine *engine, const spsh_read_completion *completion);

/** Number of requests that were submitted and not delivered. */
SPSH_API uint64_t spsh_read_pending(const spsh_read_engine *engine);

#ifdef __cplusplus
}
#endif

#endif

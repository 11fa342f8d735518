/* read_engine.h: many reads in flight, answered in the order in which they were asked for.
 *
 *     spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
 *     spsh_read_engine_open(&opt, &engine, &err);
 *     spsh_read_engine_add_file(engine, path, &file, &err);
 *     while (more to ask or spsh_read_pending(engine) > 0) {
 *         while (more to ask && spsh_read_has_room(engine, size_bytes))
 *             spsh_read_submit(engine, file, offset_bytes, size_bytes, tag, &err);
 *         spsh_read_wait(engine, &done, &err);                // the oldest one
 *         ... done.data, done.got_bytes, done.status ...
 *         spsh_read_recycle(engine, &done);
 *     }
 *     spsh_read_engine_close(engine);
 *
 * Reads go through io_uring where the kernel allows it, else through pread in a few threads; what
 * is answered, and in which order, is the same. Requests may have any offset and size: for O_DIRECT
 * they are widened inside. Short reads are continued; a failing read is tried three times.
 *
 * One thread per engine. Memory is taken at open, and nothing afterwards.
 *
 * An engine belongs to the process that opened it. In a child that was forked, add_file, submit,
 * and wait return SPSH_E_INVALID_ARG. The child may close the engine: close then frees the memory
 * and descriptors of the child, without an effect on the parent's reads.
 */
#ifndef SPEECHSHARD_READ_ENGINE_H
#define SPEECHSHARD_READ_ENGINE_H

#include "speechshard/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of O_DIRECT transfers: suits every common device. A request takes its size, rounded up to this,
 * and one unit more from the arena. */
#define SPSH_READ_ALIGN UINT32_C(4096)

#define SPSH_READ_CACHED   UINT32_C(1) /* through the page cache, not O_DIRECT */
#define SPSH_READ_NO_URING UINT32_C(2) /* pread, even where io_uring would do */
#define SPSH_READ_NO_PREAD UINT32_C(4) /* io_uring, or SPSH_E_UNSUPPORTED */
#define SPSH_READ_SQPOLL   UINT32_C(8) /* io_uring: a kernel thread takes requests, where allowed */
#define SPSH_READ_IN_ORDER                                                                         \
    UINT32_C(                                                                                      \
        16) /* files are read from front to back: with CACHED, the kernel                     \
                    reads ahead; without, it reads what is asked for */

struct spsh_read_backend; /* the library's own; not public */

typedef struct spsh_read_engine_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io;     /* opens files, and reads for pread; NULL: the operating system;
                              borrowed until close */
    uint8_t *arena;        /* where reads land, arena_bytes long, both multiples of SPSH_READ_ALIGN;
                              borrowed until close. NULL: the engine's own memory */
    size_t arena_bytes;    /* bound of bytes in flight or lent, and of one request; 0: 33 MiB,
                              without an arena of the caller's */
    uint32_t requests_max; /* in flight or lent; 0: 64 */
    uint32_t files_max;    /* open at a time; 0: 16 */
    uint32_t threads;      /* of pread; 0: 8; at most 64 are used */
    uint32_t flags;        /* SPSH_READ_* */
    const struct spsh_read_backend *backend; /* NULL: as the flags say; tests bring their own */
} spsh_read_engine_options;

/* clang-format off */
#define SPSH_READ_ENGINE_OPTIONS_INIT {sizeof(spsh_read_engine_options), NULL, NULL, NULL, 0, 0, 0,\
    0, 0, NULL}
/* clang-format on */

/** An answered request. */
typedef struct spsh_read_completion {
    uint64_t tag;
    uint32_t file;
    uint64_t offset_bytes;
    size_t size_bytes;   /* asked for */
    size_t got_bytes;    /* size_bytes when status is SPSH_OK, else what came before the end or the
                            error */
    const uint8_t *data; /* lent until recycle; aligned to SPSH_READ_ALIGN when offset_bytes is */
    spsh_status status;  /* SPSH_OK, _TRUNCATED (the file ends inside the request), _IO */
    int os_errno;
    uint64_t sequence; /* the engine's */
} spsh_read_completion;

typedef struct spsh_read_engine spsh_read_engine;

/**
 * Build an engine.
 *
 * @param options     NULL for defaults; copied, allocator too
 * @param ret_engine  written on success only; close with spsh_read_engine_close
 * @return SPSH_OK, SPSH_E_INVALID_ARG (flags, arena), _NO_MEMORY, _IO (no thread can be started),
 * _UNSUPPORTED (SPSH_READ_NO_PREAD where io_uring is refused; err says why)
 *
 * Thread-safe. Arena, buffers and files are registered with io_uring where the kernel lets us;
 * where it does not (RLIMIT_MEMLOCK), reads work the same and cost a little more.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_engine_open(const spsh_read_engine_options *options,
                                                          spsh_read_engine **ret_engine,
                                                          spsh_error *err);

/** Waits for what is in flight, however long it takes; closes all files; what is lent ends. NULL is
 * fine. */
SPSH_API void spsh_read_engine_close(spsh_read_engine *engine);

/** "io_uring" or "pread". */
SPSH_API const char *spsh_read_engine_name(const spsh_read_engine *engine);

/**
 * Open a regular file for reading: with O_DIRECT, unless SPSH_READ_CACHED is set or the file system
 * refuses it.
 *
 * @param path      not kept
 * @param ret_file  the file's number in this engine, below files_max
 * @return SPSH_OK; SPSH_E_LIMIT when files_max are open; _NOT_FOUND; _IO, also for what is not a
 * regular file
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_engine_add_file(spsh_read_engine *engine,
                                                              const char *path, uint32_t *ret_file,
                                                              spsh_error *err);

/** Close a file that was added. No request of it may be pending; answers that are lent may. */
SPSH_API void spsh_read_engine_remove_file(spsh_read_engine *engine, uint32_t file);

/** Size of a file that was added, at that time. */
SPSH_API uint64_t spsh_read_file_bytes(const spsh_read_engine *engine, uint32_t file);

/** Is O_DIRECT in use for a file that was added? */
SPSH_API bool spsh_read_file_direct(const spsh_read_engine *engine, uint32_t file);

/** Would submit find room now? */
SPSH_API bool spsh_read_has_room(const spsh_read_engine *engine, size_t size_bytes);

/**
 * Ask for any bytes of a file. Started by the next wait at the latest.
 *
 * @param tag  comes back with the answer
 * @return SPSH_OK, SPSH_E_LIMIT without room, _INVALID_ARG for a file that was not added or an
 * offset beyond 2^63, _IO when the back end broke down
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_submit(spsh_read_engine *engine, uint32_t file,
                                                     uint64_t offset_bytes, size_t size_bytes,
                                                     uint64_t tag, spsh_error *err);

/**
 * The oldest request that was not delivered yet. A failed read is delivered, not returned.
 *
 * @return SPSH_OK, SPSH_E_END when nothing is pending, _IO when the back end broke down
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_wait(spsh_read_engine *engine,
                                                   spsh_read_completion *ret_completion,
                                                   spsh_error *err);

/**
 * spsh_read_wait that gives up. The request stays pending: it can be waited for again.
 *
 * @param timeout_ms  0: do not block, take what is there
 * @return as spsh_read_wait, and SPSH_E_TIMEOUT when the oldest request was not done in time
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_read_wait_for(spsh_read_engine *engine,
                                                       uint32_t timeout_ms,
                                                       spsh_read_completion *ret_completion,
                                                       spsh_error *err);

/** Give the memory back; in any order, best in the order of delivery. */
SPSH_API void spsh_read_recycle(spsh_read_engine *engine, const spsh_read_completion *completion);

/** Submitted and not delivered. */
SPSH_API uint64_t spsh_read_pending(const spsh_read_engine *engine);

#ifdef __cplusplus
}
#endif

#endif

/* read_engine.h: many reads in flight, answered in the order in which they were asked for.
 *
 *     spsh__read_engine_open(&opt, &engine, err);
 *     spsh__read_engine_add_file(engine, path, &file, err);
 *     while (more to ask or spsh__read_pending(engine) > 0) {
 *         while (more to ask && spsh__read_has_room(engine, size_bytes))
 *             spsh__read_submit(engine, file, offset_bytes, size_bytes, tag, err);
 *         spsh__read_wait(engine, &done, err);            // the oldest one
 *         ... done.data, done.got_bytes, done.status ...
 *         spsh__read_recycle(engine, &done);
 *     }
 *     spsh__read_engine_close(engine);
 *
 * Back ends (io_uring, and pread in a few threads) know raw operations only. What is subtle is
 * here, once, for both: aligning requests for O_DIRECT, going on after short reads, retrying,
 * order. One thread per engine. Memory: one arena of arena_bytes, taken at open; nothing
 * afterwards.
 */
#ifndef SPSH_READ_ENGINE_H
#define SPSH_READ_ENGINE_H

#include "base_internal.h"
#include "speechshard/io.h"

#define SPSH__READ_ALIGN UINT32_C(4096) /* of O_DIRECT transfers: suits every common device */

#define SPSH__READ_CACHED   UINT32_C(1) /* through the page cache, not O_DIRECT */
#define SPSH__READ_NO_URING UINT32_C(2) /* pread, even where io_uring would do */

/* One read as a back end sees it: aligned when its file is open with O_DIRECT. */
typedef struct spsh__read_op {
    uint32_t slot; /* who asked; below requests_max */
    uint32_t file; /* below files_max */
    int fd;
    uint8_t *dst; /* inside the arena */
    size_t size_bytes;
    uint64_t offset_bytes;
} spsh__read_op;

/* What a back end is built for; borrowed until close. */
typedef struct spsh__read_setup {
    const spsh_allocator *allocator;
    const spsh_io *io;
    uint8_t *arena; /* aligned to SPSH__READ_ALIGN */
    size_t arena_bytes;
    uint32_t requests_max; /* operations in flight, at most one a slot */
    uint32_t files_max;
    uint32_t threads;
} spsh__read_setup;

/* The ops table. Operations complete in any order; a result is a byte count or a negative errno. */
typedef struct spsh__read_backend {
    const char *name;
    spsh_status (*open_fn)(const spsh__read_setup *setup, void **ret_state, spsh_error *err);
    void (*file_fn)(void *state, uint32_t file, int fd); /* a file came, or went (-1) */
    spsh_status (*submit_fn)(void *state, const spsh__read_op *op, spsh_error *err);
    /* Start what was submitted, then block until one operation has completed. */
    spsh_status (*wait_fn)(void *state, uint32_t *ret_slot, int64_t *ret_result, spsh_error *err);
    void (*close_fn)(void *state); /* nothing is in flight */
} spsh__read_backend;

extern const spsh__read_backend spsh__read_uring;
extern const spsh__read_backend spsh__read_pread;

typedef struct spsh__read_engine spsh__read_engine;

/* 0 and NULL mean the defaults. */
typedef struct spsh__read_engine_options {
    const spsh_allocator *allocator;
    const spsh_io *io;     /* opens files, and reads in the pread back end; borrowed until close */
    size_t arena_bytes;    /* bound of bytes in flight or lent, and of one request; 33 MiB */
    uint32_t requests_max; /* in flight or lent; 64 */
    uint32_t files_max;    /* open at a time; 16 */
    uint32_t threads;      /* of the pread back end; 8 */
    uint32_t flags;        /* SPSH__READ_* */
    const spsh__read_backend *backend; /* NULL: io_uring, else pread; tests bring their own */
} spsh__read_engine_options;

/* An answered request. */
typedef struct spsh__read_completion {
    uint64_t tag;
    uint32_t file;
    uint64_t offset_bytes;
    size_t size_bytes; /* asked for */
    size_t
        got_bytes; /* size_bytes when status is SPSH_OK, else what came before the end or error */
    const uint8_t *data; /* lent until recycle */
    spsh_status status;  /* SPSH_OK, _TRUNCATED (the file ends inside the request), _IO */
    int os_errno;
    uint64_t sequence; /* the engine's */
} spsh__read_completion;

spsh_status spsh__read_engine_open(const spsh__read_engine_options *options,
                                   spsh__read_engine **ret_engine, spsh_error *err);
void spsh__read_engine_close(spsh__read_engine *engine); /* waits for what is in flight */
const char *spsh__read_engine_name(const spsh__read_engine *engine); /* "io_uring" or "pread" */

/* Open a file for reading; SPSH_E_LIMIT when files_max are open. The path is not kept. */
spsh_status spsh__read_engine_add_file(spsh__read_engine *engine, const char *path,
                                       uint32_t *ret_file, spsh_error *err);
/* No request of the file may be pending. */
void spsh__read_engine_remove_file(spsh__read_engine *engine, uint32_t file);
uint64_t spsh__read_file_bytes(const spsh__read_engine *engine,
                               uint32_t file);                               /* when it was added */
bool spsh__read_file_direct(const spsh__read_engine *engine, uint32_t file); /* O_DIRECT in use */

/* Would submit find room now? A request needs up to two SPSH__READ_ALIGN more than its size. */
bool spsh__read_has_room(const spsh__read_engine *engine, size_t size_bytes);
/* Any offset and size; SPSH_E_LIMIT without room. Started by the next wait at the latest. */
spsh_status spsh__read_submit(spsh__read_engine *engine, uint32_t file, uint64_t offset_bytes,
                              size_t size_bytes, uint64_t tag, spsh_error *err);
/* The oldest request that was not delivered yet. A failed read is delivered, not returned: the
 * status here is SPSH_E_END (nothing pending) or that of a back end that broke down. */
spsh_status spsh__read_wait(spsh__read_engine *engine, spsh__read_completion *ret_completion,
                            spsh_error *err);
/* Give the memory back; in any order, best in the order of delivery. */
void spsh__read_recycle(spsh__read_engine *engine, const spsh__read_completion *completion);
/* Submitted and not delivered. */
uint64_t spsh__read_pending(const spsh__read_engine *engine);

#endif

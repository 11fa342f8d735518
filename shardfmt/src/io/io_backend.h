/* io_backend.h: interface of the read engine's back ends: raw reads, completed in any order.
 *
 * The engine implements the difficult parts once for all back ends: aligning requests for O_DIRECT,
 * continuing short reads, retrying, order.
 */
#ifndef SPSH_IO_BACKEND_H
#define SPSH_IO_BACKEND_H

#include "base/base_internal.h"
#include "speechshard/read_engine.h"

#define SPSH__READ_FOREVER UINT32_MAX

/* One read as a back end sees it: aligned when its file is open with O_DIRECT. */
typedef struct spsh__read_op {
    uint32_t slot; /* slot of the request, below requests_max */
    uint32_t file; /* below files_max */
    int fd;
    uint8_t *dst; /* inside the arena */
    size_t size_bytes;
    uint64_t offset_bytes;
} spsh__read_op;

/* Parameters of a back end; borrowed until close. */
typedef struct spsh__read_setup {
    const spsh_allocator *allocator;
    const spsh_io *io;
    uint8_t *arena; /* aligned to SPSH_READ_ALIGN */
    size_t arena_bytes;
    uint32_t requests_max; /* maximum of operations in flight, at most one per slot */
    uint32_t files_max;
    uint32_t threads;
    bool sqpoll; /* request a kernel thread that polls the submission queue */
} spsh__read_setup;

/* A completed operation. */
typedef struct spsh__read_result {
    uint32_t slot;
    int64_t value; /* a byte count or a negative errno */
} spsh__read_result;

/* The ops table. Operations complete in any order. */
typedef struct spsh_read_backend {
    const char *name;
    spsh_status (*open_fn)(const spsh__read_setup *setup, void **ret_state, spsh_error *err);
    void (*file_fn)(void *state, uint32_t file, int fd); /* a file was added, or removed (fd -1) */
    spsh_status (*submit_fn)(void *state, const spsh__read_op *op, spsh_error *err);
    /* Start the submitted operations, then block until one has completed. SPSH_E_TIMEOUT, with err
     * unchanged, after timeout_ms, or earlier if interrupted. */
    spsh_status (*wait_fn)(void *state, uint32_t timeout_ms, spsh__read_result *ret_result,
                           spsh_error *err);
    /* Called with nothing in flight. is_inherited: called in a child of the process that opened it.
     * Then free only memory and descriptors: the threads do not exist, and the ring is the
     * parent's. */
    void (*close_fn)(void *state, bool is_inherited);
} spsh_read_backend;

extern const spsh_read_backend spsh__read_uring;
extern const spsh_read_backend spsh__read_pread;

#endif

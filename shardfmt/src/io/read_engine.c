/* read_engine.c: requests in, completions out in the same order, over a back end of raw reads.
 *
 * Requests are numbered; number modulo requests_max is their slot. Three numbers move forward:
 *
 *     recycled <= delivered <= submitted        (submitted - recycled <= requests_max)
 *
 * The arena is a ring of bytes with positions that only grow (position modulo size is the address).
 * Each request has one contiguous span of it. A span that would cross the end starts at the
 * beginning instead. The oldest request that is not recycled holds the tail, so requests may be
 * recycled in any order, and memory is never fragmented.
 *
 * A request over O_DIRECT is widened to whole SPSH_READ_ALIGN units. A short read is continued from
 * the last aligned byte that arrived: the kernel may have stopped inside a unit, and a direct read
 * must not start there. The size from fstat distinguishes the end of the file from a short read.
 */
#include "io_backend.h"
#include "io_internal.h"
#include "speechshard/options.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define ARENA_BYTES_DEFAULT  ((size_t)33 << 20) /* 32 reads of 1 MiB, widened */
#define REQUESTS_MAX_DEFAULT UINT32_C(64)
#define FILES_MAX_DEFAULT    UINT32_C(16)
#define THREADS_DEFAULT      UINT32_C(8)

#define FLAGS_KNOWN                                                                                \
    (SPSH_READ_CACHED | SPSH_READ_NO_URING | SPSH_READ_NO_PREAD | SPSH_READ_SQPOLL |               \
     SPSH_READ_IN_ORDER)

/* A bad sector is tried three times; a kernel that cannot start a read now, for a while. */
#define IO_RETRIES_MAX    UINT32_C(2)
#define AGAIN_RETRIES_MAX UINT32_C(1000)

typedef struct request {
    uint64_t tag;
    uint32_t file;
    uint32_t io_retries, again_retries;
    bool done, recycled;
    uint64_t offset_bytes; /* offset that the caller requested */
    size_t size_bytes;
    uint64_t start_bytes; /* file offset of the widened span */
    size_t span_bytes;    /* size of the widened span */
    size_t need_bytes;    /* bytes of the span before the end of the file */
    size_t arrived_bytes; /* bytes of the span that arrived */
    uint64_t arena_begin, arena_end;
    spsh_status status;
    int os_errno;
} request;

typedef struct read_file {
    int fd; /* -1: free */
    bool direct;
    uint64_t size_bytes;
} read_file;

struct spsh_read_engine {
    spsh_allocator allocator;
    const spsh_io *io;
    const spsh_read_backend *backend;
    void *state;
    uint32_t flags;
    pid_t pid;             /* that opened it: a child has neither its threads nor its ring */
    uint8_t *arena_memory; /* NULL: the arena is the caller's */
    uint8_t *arena;
    size_t arena_bytes;
    uint64_t arena_head; /* the tail is the oldest request's */
    request *requests;
    uint32_t requests_max;
    uint64_t submitted, delivered, recycled;
    uint64_t in_flight;
    read_file *files;
    uint32_t files_max;
};

static request *request_at(const spsh_read_engine *engine, uint64_t sequence)
{
    return &engine->requests[sequence % engine->requests_max];
}

/* Where a span of size_bytes would begin; false when the ring is too full. */
static bool arena_place(const spsh_read_engine *engine, size_t size_bytes, uint64_t *ret_begin)
{
    if (size_bytes > engine->arena_bytes)
        return false;
    uint64_t begin = engine->arena_head;
    uint64_t tail = engine->recycled == engine->submitted
                        ? begin
                        : request_at(engine, engine->recycled)->arena_begin;
    size_t place = (size_t)(begin % engine->arena_bytes);
    if (place + size_bytes > engine->arena_bytes) {
        begin += engine->arena_bytes - place;
        if (engine->recycled == engine->submitted)
            tail = begin; /* empty: the tail imposes no limit */
    }
    *ret_begin = begin;
    return begin + size_bytes - tail <= engine->arena_bytes;
}

static uint8_t *request_memory(const spsh_read_engine *engine, const request *req)
{
    return engine->arena + req->arena_begin % engine->arena_bytes;
}

static bool is_inherited(const spsh_read_engine *engine)
{
    return engine->pid != getpid();
}

static spsh_status check_process(const spsh_read_engine *engine, spsh_error *err)
{
    return is_inherited(engine)
               ? SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                           "process %ld opened the read engine, and this process was forked from "
                           "it: open an engine after the fork",
                           (long)engine->pid)
               : SPSH_OK;
}

/* ---- one request's life ---- */

static spsh_status start(spsh_read_engine *engine, uint64_t sequence, spsh_error *err)
{
    request *req = request_at(engine, sequence);
    const spsh__read_op op = {
        .slot = (uint32_t)(sequence % engine->requests_max),
        .file = req->file,
        .fd = engine->files[req->file].fd,
        .dst = request_memory(engine, req) + req->arrived_bytes,
        .size_bytes = req->span_bytes - req->arrived_bytes,
        .offset_bytes = req->start_bytes + req->arrived_bytes,
    };
    spsh_status rc = engine->backend->submit_fn(engine->state, &op, err);
    if (rc == SPSH_OK)
        engine->in_flight++;
    return rc;
}

static void finish(request *req, spsh_status status, int os_errno)
{
    req->status = status;
    req->os_errno = os_errno;
    req->done = true;
}

/* true: the operation is to be started again. */
static bool retry_after_error(request *req, int os_errno)
{
    if (os_errno == EINTR || os_errno == EAGAIN) {
        if (os_errno == EAGAIN)
            (void)sched_yield();
        return req->again_retries++ < AGAIN_RETRIES_MAX;
    }
    return req->io_retries++ < IO_RETRIES_MAX;
}

/* Take one raw result; either the request is done or its rest is started. */
static spsh_status take_result(spsh_read_engine *engine, uint64_t sequence, int64_t result,
                               spsh_error *err)
{
    request *req = request_at(engine, sequence);
    if (result < 0) {
        int os_errno = (int)-result;
        if (retry_after_error(req, os_errno))
            return start(engine, sequence, err);
        finish(req, SPSH_E_IO, os_errno);
        return SPSH_OK;
    }
    size_t arrived = req->arrived_bytes + (size_t)result;
    if (arrived > req->span_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_IO, req->start_bytes,
                            "a read returned more bytes than requested");
    if (arrived >= req->need_bytes) {
        req->arrived_bytes = req->need_bytes;
        finish(req, SPSH_OK, 0);
        return SPSH_OK;
    }
    if (result == 0) { /* the file has become shorter since it was opened */
        finish(req, SPSH_E_TRUNCATED, 0);
        return SPSH_OK;
    }
    size_t before = req->arrived_bytes;
    req->arrived_bytes = arrived;
    if (engine->files[req->file].direct)
        req->arrived_bytes = arrived & ~(size_t)(SPSH_READ_ALIGN - 1);
    if (req->arrived_bytes == before && req->again_retries++ >= AGAIN_RETRIES_MAX) {
        finish(req, SPSH_E_IO, EIO);
        return SPSH_OK;
    }
    return start(engine, sequence, err);
}

/* The request whose operation runs in a slot: the only one between recycled and submitted. */
static uint64_t sequence_of(const spsh_read_engine *engine, uint32_t slot)
{
    uint64_t base = engine->recycled - engine->recycled % engine->requests_max + slot;
    return base >= engine->recycled ? base : base + engine->requests_max;
}

static spsh_status reap(spsh_read_engine *engine, uint32_t timeout_ms, spsh_error *err)
{
    spsh__read_result result = {0};
    spsh_status rc = engine->backend->wait_fn(engine->state, timeout_ms, &result, err);
    if (rc != SPSH_OK)
        return rc;
    engine->in_flight--;
    return take_result(engine, sequence_of(engine, result.slot), result.value, err);
}

static uint64_t now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Wait until the request is done. After the timeout, still take operations that have completed. */
static spsh_status await(spsh_read_engine *engine, const request *req, uint32_t timeout_ms,
                         spsh_error *err)
{
    const bool bounded = timeout_ms != SPSH__READ_FOREVER && timeout_ms != 0;
    const uint64_t end_ms = bounded && !req->done ? now_ms() + timeout_ms : 0;
    uint32_t left_ms = timeout_ms;
    spsh_status rc = SPSH_OK;
    while (!req->done && (rc == SPSH_OK || (rc == SPSH_E_TIMEOUT && bounded && left_ms > 0))) {
        if (bounded) {
            const uint64_t time_ms = now_ms();
            left_ms = time_ms < end_ms ? (uint32_t)(end_ms - time_ms) : 0;
        }
        rc = reap(engine, left_ms, err);
    }
    if (rc == SPSH_E_TIMEOUT)
        return SPSH_FAIL_AT(err, SPSH_E_TIMEOUT, req->offset_bytes,
                            "a read of %zu bytes at %llu did not finish within %u ms",
                            req->size_bytes, (unsigned long long)req->offset_bytes, timeout_ms);
    return rc;
}

/* ---- files ---- */

static int open_retry(const spsh_io *io, const char *path, int flags)
{
    int fd = -EINTR;
    while (fd == -EINTR)
        fd = io->open_fn(io->user, path, flags, 0);
    return fd;
}

/* Some file systems accept O_DIRECT at open and reject it at the first read. */
static bool direct_works(const spsh_read_engine *engine, int fd, uint64_t size_bytes)
{
    const spsh_io *io = engine->io;
    uint8_t memory[2 * SPSH_READ_ALIGN];
    uint8_t *probe = memory + (SPSH_READ_ALIGN - (uintptr_t)memory % SPSH_READ_ALIGN);
    return size_bytes == 0 || io->pread_fn(io->user, fd, probe, SPSH_READ_ALIGN, 0) != -EINVAL;
}

static spsh_status open_with(const spsh_read_engine *engine, const char *path, int flags,
                             read_file *ret_file, spsh_error *err)
{
    const spsh_io *io = engine->io;
    struct stat info;
    int fd = open_retry(io, path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: cannot open: %s", path,
                            spsh__os_text(-fd));
    int rc = io->fstat_fn(io->user, fd, &info);
    if (rc == 0 && !S_ISREG(info.st_mode))
        rc = S_ISDIR(info.st_mode) ? -EISDIR : -EINVAL;
    if (rc < 0) {
        (void)io->close_fn(io->user, fd);
        return SPSH_FAIL_OS(err, spsh_io_status(-rc), -rc, "%s: not a readable file: %s", path,
                            spsh__os_text(-rc));
    }
    *ret_file = (read_file){
        .fd = fd, .direct = (flags & O_DIRECT) != 0, .size_bytes = (uint64_t)info.st_size};
    return SPSH_OK;
}

/* Forget the descriptor first: a child that is forked in between must not close another file. */
static void close_file(const spsh_read_engine *engine, read_file *file)
{
    const int fd = file->fd;
    file->fd = -1;
    (void)engine->io->close_fn(engine->io->user, fd);
}

static spsh_status open_file(const spsh_read_engine *engine, const char *path, read_file *ret_file,
                             spsh_error *err)
{
    const spsh_io *io = engine->io;
    spsh_error local = SPSH_ERROR_INIT;
    struct stat info;

    /* Opening a pipe would wait for a writer. */
    if (io->stat_fn(io->user, path, &info) == 0 && S_ISFIFO(info.st_mode))
        return SPSH_FAIL(err, SPSH_E_IO, "%s: not a readable file", path);
    if ((engine->flags & SPSH_READ_CACHED) == 0) {
        spsh_status rc = open_with(engine, path, O_DIRECT, ret_file, &local);
        if (rc == SPSH_OK && direct_works(engine, ret_file->fd, ret_file->size_bytes))
            return SPSH_OK;
        if (rc == SPSH_OK) {
            close_file(engine, ret_file);
        } else if (local.os_errno != EINVAL) {
            return SPSH_FAIL_OS(err, rc, local.os_errno, "%s", local.message);
        }
    }
    spsh_status rc = open_with(engine, path, 0, ret_file, err);
    const int advice =
        (engine->flags & SPSH_READ_IN_ORDER) != 0 ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM;
    if (rc == SPSH_OK) /* no more than advice */
        (void)posix_fadvise(ret_file->fd, 0, 0, advice);
    return rc;
}

spsh_status spsh_read_engine_add_file(spsh_read_engine *engine, const char *path,
                                      uint32_t *ret_file, spsh_error *err)
{
    uint32_t at = 0;
    spsh_status rc = check_process(engine, err);
    if (rc != SPSH_OK)
        return rc;
    while (at < engine->files_max && engine->files[at].fd >= 0)
        at++;
    if (at == engine->files_max)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: %u files are already open, which is the limit",
                         path, engine->files_max);
    rc = open_file(engine, path, &engine->files[at], err);
    if (rc != SPSH_OK)
        return rc;
    engine->backend->file_fn(engine->state, at, engine->files[at].fd);
    *ret_file = at;
    return SPSH_OK;
}

void spsh_read_engine_remove_file(spsh_read_engine *engine, uint32_t file)
{
    if (!is_inherited(engine)) /* the registered files are the parent's */
        engine->backend->file_fn(engine->state, file, -1);
    close_file(engine, &engine->files[file]);
}

uint64_t spsh_read_file_bytes(const spsh_read_engine *engine, uint32_t file)
{
    return engine->files[file].size_bytes;
}

bool spsh_read_file_direct(const spsh_read_engine *engine, uint32_t file)
{
    return engine->files[file].direct;
}

/* ---- requests ---- */

/* The span of a request, widened for the worst case so that spsh_read_has_space needs no offset. */
static size_t widest_bytes(size_t size_bytes)
{
    return (size_t)spsh__align_up(size_bytes, SPSH_READ_ALIGN) + SPSH_READ_ALIGN;
}

bool spsh_read_has_space(const spsh_read_engine *engine, size_t size_bytes)
{
    uint64_t begin = 0;
    return size_bytes <= engine->arena_bytes &&
           engine->submitted - engine->recycled < engine->requests_max &&
           arena_place(engine, widest_bytes(size_bytes), &begin);
}

spsh_status spsh_read_submit(spsh_read_engine *engine, uint32_t file, uint64_t offset_bytes,
                             size_t size_bytes, uint64_t tag, spsh_error *err)
{
    spsh_status rc = check_process(engine, err);
    if (rc != SPSH_OK)
        return rc;
    if (file >= engine->files_max || engine->files[file].fd < 0 ||
        offset_bytes > UINT64_MAX / 2 - size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, offset_bytes,
                            "a read names an unknown file or an invalid offset");
    if (!spsh_read_has_space(engine, size_bytes))
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, offset_bytes,
                            "a read of %zu bytes does not fit into the free buffers", size_bytes);

    const read_file *source = &engine->files[file];
    request req = {
        .tag = tag, .file = file, .offset_bytes = offset_bytes, .size_bytes = size_bytes};
    uint64_t unit = source->direct ? SPSH_READ_ALIGN : 1;
    req.start_bytes = offset_bytes & ~(unit - 1);
    req.span_bytes = (size_t)(spsh__align_up(offset_bytes + size_bytes, unit) - req.start_bytes);
    uint64_t left = source->size_bytes > req.start_bytes ? source->size_bytes - req.start_bytes : 0;
    req.need_bytes = left < req.span_bytes ? (size_t)left : req.span_bytes;
    /* The whole widened size is taken, so that every span begins aligned. */
    (void)arena_place(engine, widest_bytes(size_bytes), &req.arena_begin);
    req.arena_end = req.arena_begin + widest_bytes(size_bytes);

    uint64_t sequence = engine->submitted;
    *request_at(engine, sequence) = req;
    if (req.need_bytes == 0) {
        finish(request_at(engine, sequence), SPSH_OK, 0);
    } else {
        rc = start(engine, sequence, err);
        if (rc != SPSH_OK)
            return rc;
    }
    engine->submitted++;
    engine->arena_head = req.arena_end;
    return SPSH_OK;
}

static spsh_status deliver(spsh_read_engine *engine, uint32_t timeout_ms,
                           spsh_read_completion *ret_completion, spsh_error *err)
{
    spsh_status rc = check_process(engine, err);
    if (rc != SPSH_OK)
        return rc;
    if (engine->delivered == engine->submitted)
        return SPSH_FAIL(err, SPSH_E_END, "no read is pending");
    const request *req = request_at(engine, engine->delivered);
    rc = await(engine, req, timeout_ms, err);
    if (rc != SPSH_OK)
        return rc;
    size_t skip = (size_t)(req->offset_bytes - req->start_bytes);
    size_t got = req->arrived_bytes > skip ? req->arrived_bytes - skip : 0;
    if (got > req->size_bytes)
        got = req->size_bytes;
    spsh_status status = req->status;
    if (status == SPSH_OK && got < req->size_bytes)
        status = SPSH_E_TRUNCATED;
    *ret_completion = (spsh_read_completion){
        .tag = req->tag,
        .file = req->file,
        .offset_bytes = req->offset_bytes,
        .size_bytes = req->size_bytes,
        .got_bytes = got,
        .data = request_memory(engine, req) + skip,
        .status = status,
        .os_errno = req->os_errno,
        .sequence = engine->delivered,
    };
    engine->delivered++;
    return SPSH_OK;
}

spsh_status spsh_read_wait(spsh_read_engine *engine, spsh_read_completion *ret_completion,
                           spsh_error *err)
{
    return deliver(engine, SPSH__READ_FOREVER, ret_completion, err);
}

spsh_status spsh_read_wait_for(spsh_read_engine *engine, uint32_t timeout_ms,
                               spsh_read_completion *ret_completion, spsh_error *err)
{
    if (timeout_ms == SPSH__READ_FOREVER) /* 49 days */
        timeout_ms--;
    return deliver(engine, timeout_ms, ret_completion, err);
}

void spsh_read_recycle(spsh_read_engine *engine, const spsh_read_completion *completion)
{
    request_at(engine, completion->sequence)->recycled = true;
    while (engine->recycled < engine->delivered && request_at(engine, engine->recycled)->recycled)
        engine->recycled++;
}

uint64_t spsh_read_pending(const spsh_read_engine *engine)
{
    return engine->submitted - engine->delivered;
}

/* ---- opening and closing ---- */

static spsh_status open_backend(spsh_read_engine *engine, const spsh__read_setup *setup,
                                const spsh_read_backend *wanted, spsh_error *err)
{
    engine->backend = wanted;
    if (wanted == NULL && (engine->flags & SPSH_READ_NO_URING) == 0) {
        /* Refused by an old kernel, a container's rules or a limit: pread can do it too. */
        const bool alone = (engine->flags & SPSH_READ_NO_PREAD) != 0;
        engine->backend = &spsh__read_uring;
        spsh_status rc = engine->backend->open_fn(setup, &engine->state, alone ? err : NULL);
        if (rc == SPSH_OK || alone)
            return rc;
    }
    if (wanted == NULL)
        engine->backend = &spsh__read_pread;
    return engine->backend->open_fn(setup, &engine->state, err);
}

static spsh_status check_options(const spsh_read_engine_options *opt, spsh_error *err)
{
    const uint32_t neither = SPSH_READ_NO_URING | SPSH_READ_NO_PREAD;
    if ((opt->flags & ~FLAGS_KNOWN) != 0 || (opt->flags & neither) == neither)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "read engine: flags 0x%x are unknown, or exclude every way to read",
                         opt->flags);
    if (opt->arena != NULL && ((uintptr_t)opt->arena % SPSH_READ_ALIGN != 0 ||
                               opt->arena_bytes % SPSH_READ_ALIGN != 0 || opt->arena_bytes == 0))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "read engine: an arena of %zu bytes is not a multiple of %u",
                         opt->arena_bytes, SPSH_READ_ALIGN);
    if (opt->arena_bytes > SIZE_MAX / 2)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "read engine: an arena of %zu bytes",
                         opt->arena_bytes);
    return SPSH_OK;
}

static spsh_status take_memory(spsh_read_engine *engine, spsh_error *err)
{
    const spsh_allocator *allocator = &engine->allocator;
    if (engine->arena == NULL) {
        engine->arena_memory = spsh__alloc(allocator, engine->arena_bytes + SPSH_READ_ALIGN);
        if (engine->arena_memory == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "read buffers of %zu bytes",
                             engine->arena_bytes);
        const uintptr_t address = (uintptr_t)engine->arena_memory;
        engine->arena = engine->arena_memory + (SPSH_READ_ALIGN - address % SPSH_READ_ALIGN);
    }
    engine->requests =
        spsh__alloc_array(allocator, engine->requests_max, sizeof(*engine->requests));
    engine->files = spsh__alloc_array(allocator, engine->files_max, sizeof(*engine->files));
    /* Even if requests is NULL: spsh_read_engine_close closes each descriptor of files. */
    for (uint32_t at = 0; engine->files != NULL && at < engine->files_max; at++)
        engine->files[at] = (read_file){.fd = -1};
    if (engine->requests == NULL || engine->files == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%u reads of %u files", engine->requests_max,
                         engine->files_max);
    return SPSH_OK;
}

spsh_status spsh_read_engine_open(const spsh_read_engine_options *options,
                                  spsh_read_engine **ret_engine, spsh_error *err)
{
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    spsh_read_engine *engine = NULL;
    spsh_status rc = spsh_options_take(options, &opt, sizeof(opt), err);
    if (rc == SPSH_OK)
        rc = check_options(&opt, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_allocator *allocator =
        opt.allocator != NULL ? opt.allocator : spsh_allocator_default();
    engine = spsh__new(allocator, 1, sizeof(*engine));
    if (engine == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "read engine");
    engine->allocator = *allocator;
    engine->pid = getpid();
    engine->io = opt.io != NULL ? opt.io : spsh_io_default();
    engine->flags = opt.flags;
    engine->arena = opt.arena;
    engine->arena_bytes = opt.arena_bytes != 0 ? opt.arena_bytes : ARENA_BYTES_DEFAULT;
    engine->arena_bytes = (size_t)spsh__align_up(engine->arena_bytes, SPSH_READ_ALIGN);
    engine->requests_max = opt.requests_max != 0 ? opt.requests_max : REQUESTS_MAX_DEFAULT;
    engine->files_max = opt.files_max != 0 ? opt.files_max : FILES_MAX_DEFAULT;
    rc = take_memory(engine, err);
    if (rc != SPSH_OK)
        goto out;
    const spsh__read_setup setup = {
        .allocator = &engine->allocator,
        .io = engine->io,
        .arena = engine->arena,
        .arena_bytes = engine->arena_bytes,
        .requests_max = engine->requests_max,
        .files_max = engine->files_max,
        .threads = opt.threads != 0 ? opt.threads : THREADS_DEFAULT,
        .sqpoll = (opt.flags & SPSH_READ_SQPOLL) != 0,
    };
    rc = open_backend(engine, &setup, opt.backend, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_engine = engine;
    engine = NULL;
out:
    spsh_read_engine_close(engine);
    return rc;
}

void spsh_read_engine_close(spsh_read_engine *engine)
{
    if (engine == NULL)
        return;
    const spsh_allocator allocator = engine->allocator;
    const bool inherited = is_inherited(engine);
    /* The kernel writes into the arena until an operation has completed: into the parent's, if this
     * process was forked. */
    bool drained = true;
    while (!inherited && engine->in_flight > 0 && drained) {
        spsh__read_result result = {0};
        drained =
            engine->backend->wait_fn(engine->state, SPSH__READ_FOREVER, &result, NULL) == SPSH_OK;
        engine->in_flight--;
    }
    if (engine->state != NULL)
        engine->backend->close_fn(engine->state, inherited);
    for (uint32_t at = 0; engine->files != NULL && at < engine->files_max; at++)
        if (engine->files[at].fd >= 0)
            close_file(engine, &engine->files[at]);
    spsh__free(&allocator, engine->files);
    spsh__free(&allocator, engine->requests);
    if (drained) /* otherwise leak it: a read in flight may still write to it */
        spsh__free(&allocator, engine->arena_memory);
    spsh__free(&allocator, engine);
}

const char *spsh_read_engine_name(const spsh_read_engine *engine)
{
    return engine->backend->name;
}

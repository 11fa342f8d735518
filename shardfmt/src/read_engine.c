/* read_engine.c: requests in, completions out in the same order, over a back end of raw reads.
 *
 * Requests are numbered; number modulo requests_max is their slot. Three numbers move forward:
 *
 *     recycled <= delivered <= submitted        (submitted - recycled <= requests_max)
 *
 * The arena is a ring of bytes with positions that only grow (position modulo size is the place);
 * each request has one contiguous span of it, and a span that would cross the end starts over at
 * the beginning. The oldest request that is not recycled holds the tail, so order of recycling is
 * free, and memory is never fragmented.
 *
 * A request over O_DIRECT is widened to whole SPSH__READ_ALIGN units. A short read is continued
 * from the last aligned byte that arrived: the kernel may have stopped inside a unit, and a direct
 * read must not start there. End of file is told from a short read by the size that fstat gave.
 */
#include "read_engine.h"
#include "io_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#define ARENA_BYTES_DEFAULT  ((size_t)33 << 20) /* 32 reads of 1 MiB, widened */
#define REQUESTS_MAX_DEFAULT UINT32_C(64)
#define FILES_MAX_DEFAULT    UINT32_C(16)
#define THREADS_DEFAULT      UINT32_C(8)

/* A bad sector is tried three times; a kernel that cannot start a read now, for a while. */
#define IO_RETRIES_MAX    UINT32_C(2)
#define AGAIN_RETRIES_MAX UINT32_C(1000)

typedef struct request {
    uint64_t tag;
    uint32_t file;
    uint32_t io_retries, again_retries;
    bool done, recycled;
    uint64_t offset_bytes; /* asked for */
    size_t size_bytes;
    uint64_t start_bytes; /* of the widened span, in the file */
    size_t span_bytes;    /* of the widened span */
    size_t need_bytes;    /* of the span, up to the end of the file */
    size_t arrived_bytes; /* of the span */
    uint64_t arena_begin, arena_end;
    spsh_status status;
    int os_errno;
} request;

typedef struct read_file {
    int fd; /* -1: free */
    bool direct;
    uint64_t size_bytes;
} read_file;

struct spsh__read_engine {
    const spsh_allocator *allocator;
    const spsh_io *io;
    const spsh__read_backend *backend;
    void *state;
    uint32_t flags;
    uint8_t *arena_memory, *arena;
    size_t arena_bytes;
    uint64_t arena_head; /* the tail is the oldest request's */
    request *requests;
    uint32_t requests_max;
    uint64_t submitted, delivered, recycled;
    uint64_t in_flight;
    read_file *files;
    uint32_t files_max;
};

static request *request_at(const spsh__read_engine *engine, uint64_t sequence)
{
    return &engine->requests[sequence % engine->requests_max];
}

/* Where a span of size_bytes would begin; false when the ring is too full. */
static bool arena_place(const spsh__read_engine *engine, size_t size_bytes, uint64_t *ret_begin)
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
            tail = begin; /* empty: nothing is behind us */
    }
    *ret_begin = begin;
    return begin + size_bytes - tail <= engine->arena_bytes;
}

static uint8_t *request_memory(const spsh__read_engine *engine, const request *req)
{
    return engine->arena + req->arena_begin % engine->arena_bytes;
}

/* ---- one request's life ---- */

static spsh_status start(spsh__read_engine *engine, uint64_t sequence, spsh_error *err)
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
static spsh_status take_result(spsh__read_engine *engine, uint64_t sequence, int64_t result,
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
        return SPSH_FAIL(err, SPSH_E_IO, req->start_bytes,
                         "a read returned more than it was asked");
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
        req->arrived_bytes = arrived & ~(size_t)(SPSH__READ_ALIGN - 1);
    if (req->arrived_bytes == before && req->again_retries++ >= AGAIN_RETRIES_MAX) {
        finish(req, SPSH_E_IO, EIO);
        return SPSH_OK;
    }
    return start(engine, sequence, err);
}

/* The request whose operation runs in a slot: the only one between recycled and submitted. */
static uint64_t sequence_of(const spsh__read_engine *engine, uint32_t slot)
{
    uint64_t base = engine->recycled - engine->recycled % engine->requests_max + slot;
    return base >= engine->recycled ? base : base + engine->requests_max;
}

static spsh_status reap(spsh__read_engine *engine, spsh_error *err)
{
    uint32_t slot = 0;
    int64_t result = 0;
    spsh_status rc = engine->backend->wait_fn(engine->state, &slot, &result, err);
    if (rc != SPSH_OK)
        return rc;
    engine->in_flight--;
    return take_result(engine, sequence_of(engine, slot), result, err);
}

/* ---- files ---- */

static int open_retry(const spsh_io *io, const char *path, int flags)
{
    int fd = -EINTR;
    while (fd == -EINTR)
        fd = io->open_fn(io->user, path, flags, 0);
    return fd;
}

/* Some file systems take O_DIRECT at open and refuse it at the first read. */
static bool direct_works(const spsh__read_engine *engine, int fd, uint64_t size_bytes)
{
    const spsh_io *io = engine->io;
    uint8_t memory[2 * SPSH__READ_ALIGN];
    uint8_t *probe = memory + (SPSH__READ_ALIGN - (uintptr_t)memory % SPSH__READ_ALIGN);
    return size_bytes == 0 || io->pread_fn(io->user, fd, probe, SPSH__READ_ALIGN, 0) != -EINVAL;
}

static spsh_status open_with(const spsh__read_engine *engine, const char *path, int flags,
                             read_file *ret_file, spsh_error *err)
{
    const spsh_io *io = engine->io;
    struct stat info;
    int fd = open_retry(io, path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, SPSH_OFFSET_NONE,
                            "%s: cannot be opened: %s", path, spsh__os_text(-fd));
    int rc = io->fstat_fn(io->user, fd, &info);
    if (rc == 0 && !S_ISREG(info.st_mode))
        rc = S_ISDIR(info.st_mode) ? -EISDIR : -EINVAL;
    if (rc < 0) {
        (void)io->close_fn(io->user, fd);
        return SPSH_FAIL_OS(err, spsh_io_status(-rc), -rc, SPSH_OFFSET_NONE,
                            "%s: not a readable file: %s", path, spsh__os_text(-rc));
    }
    *ret_file = (read_file){
        .fd = fd, .direct = (flags & O_DIRECT) != 0, .size_bytes = (uint64_t)info.st_size};
    return SPSH_OK;
}

static spsh_status open_file(const spsh__read_engine *engine, const char *path, read_file *ret_file,
                             spsh_error *err)
{
    const spsh_io *io = engine->io;
    spsh_error local = SPSH_ERROR_INIT;
    struct stat info;

    /* Opening a pipe would wait for a writer. */
    if (io->stat_fn(io->user, path, &info) == 0 && S_ISFIFO(info.st_mode))
        return SPSH_FAIL(err, SPSH_E_IO, SPSH_OFFSET_NONE, "%s: not a readable file", path);
    if ((engine->flags & SPSH__READ_CACHED) == 0) {
        spsh_status rc = open_with(engine, path, O_DIRECT, ret_file, &local);
        if (rc == SPSH_OK && direct_works(engine, ret_file->fd, ret_file->size_bytes))
            return SPSH_OK;
        if (rc == SPSH_OK) {
            (void)io->close_fn(io->user, ret_file->fd);
            ret_file->fd = -1;
        } else if (local.os_errno != EINVAL) {
            return SPSH_FAIL_OS(err, rc, local.os_errno, SPSH_OFFSET_NONE, "%s", local.message);
        }
    }
    spsh_status rc = open_with(engine, path, 0, ret_file, err);
    if (rc == SPSH_OK) /* advice only */
        (void)posix_fadvise(ret_file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return rc;
}

spsh_status spsh__read_engine_add_file(spsh__read_engine *engine, const char *path,
                                       uint32_t *ret_file, spsh_error *err)
{
    uint32_t at = 0;
    while (at < engine->files_max && engine->files[at].fd >= 0)
        at++;
    if (at == engine->files_max)
        return SPSH_FAIL(err, SPSH_E_LIMIT, SPSH_OFFSET_NONE, "%s: %u files are open already", path,
                         engine->files_max);
    spsh_status rc = open_file(engine, path, &engine->files[at], err);
    if (rc != SPSH_OK)
        return rc;
    engine->backend->file_fn(engine->state, at, engine->files[at].fd);
    *ret_file = at;
    return SPSH_OK;
}

void spsh__read_engine_remove_file(spsh__read_engine *engine, uint32_t file)
{
    engine->backend->file_fn(engine->state, file, -1);
    (void)engine->io->close_fn(engine->io->user, engine->files[file].fd);
    engine->files[file].fd = -1;
}

uint64_t spsh__read_file_bytes(const spsh__read_engine *engine, uint32_t file)
{
    return engine->files[file].size_bytes;
}

bool spsh__read_file_direct(const spsh__read_engine *engine, uint32_t file)
{
    return engine->files[file].direct;
}

/* ---- requests ---- */

/* The span of a request, widened for the worst case so that has_room needs no offset. */
static size_t widest_bytes(size_t size_bytes)
{
    return (size_t)spsh__align_up(size_bytes, SPSH__READ_ALIGN) + SPSH__READ_ALIGN;
}

bool spsh__read_has_room(const spsh__read_engine *engine, size_t size_bytes)
{
    uint64_t begin = 0;
    return size_bytes <= engine->arena_bytes &&
           engine->submitted - engine->recycled < engine->requests_max &&
           arena_place(engine, widest_bytes(size_bytes), &begin);
}

spsh_status spsh__read_submit(spsh__read_engine *engine, uint32_t file, uint64_t offset_bytes,
                              size_t size_bytes, uint64_t tag, spsh_error *err)
{
    if (file >= engine->files_max || engine->files[file].fd < 0 ||
        offset_bytes > UINT64_MAX / 2 - size_bytes)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, offset_bytes, "read of an unknown file or place");
    if (!spsh__read_has_room(engine, size_bytes))
        return SPSH_FAIL(err, SPSH_E_LIMIT, offset_bytes, "read of %zu bytes: no room", size_bytes);

    const read_file *source = &engine->files[file];
    request req = {
        .tag = tag, .file = file, .offset_bytes = offset_bytes, .size_bytes = size_bytes};
    uint64_t unit = source->direct ? SPSH__READ_ALIGN : 1;
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
        spsh_status rc = start(engine, sequence, err);
        if (rc != SPSH_OK)
            return rc;
    }
    engine->submitted++;
    engine->arena_head = req.arena_end;
    return SPSH_OK;
}

spsh_status spsh__read_wait(spsh__read_engine *engine, spsh__read_completion *ret_completion,
                            spsh_error *err)
{
    if (engine->delivered == engine->submitted)
        return SPSH_FAIL(err, SPSH_E_END, SPSH_OFFSET_NONE, "no read is pending");
    const request *req = request_at(engine, engine->delivered);
    while (!req->done) {
        spsh_status rc = reap(engine, err);
        if (rc != SPSH_OK)
            return rc;
    }
    size_t skip = (size_t)(req->offset_bytes - req->start_bytes);
    size_t got = req->arrived_bytes > skip ? req->arrived_bytes - skip : 0;
    if (got > req->size_bytes)
        got = req->size_bytes;
    spsh_status status = req->status;
    if (status == SPSH_OK && got < req->size_bytes)
        status = SPSH_E_TRUNCATED;
    *ret_completion = (spsh__read_completion){
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

void spsh__read_recycle(spsh__read_engine *engine, const spsh__read_completion *completion)
{
    request_at(engine, completion->sequence)->recycled = true;
    while (engine->recycled < engine->delivered && request_at(engine, engine->recycled)->recycled)
        engine->recycled++;
}

uint64_t spsh__read_pending(const spsh__read_engine *engine)
{
    return engine->submitted - engine->delivered;
}

/* ---- opening and closing ---- */

static spsh_status open_backend(spsh__read_engine *engine, const spsh__read_setup *setup,
                                const spsh__read_backend *wanted, spsh_error *err)
{
    engine->backend = wanted;
    if (wanted == NULL && (engine->flags & SPSH__READ_NO_URING) == 0) {
        /* Refused by an old kernel, a container's rules or a limit: pread can do it too. */
        engine->backend = &spsh__read_uring;
        if (engine->backend->open_fn(setup, &engine->state, NULL) == SPSH_OK)
            return SPSH_OK;
    }
    if (wanted == NULL)
        engine->backend = &spsh__read_pread;
    return engine->backend->open_fn(setup, &engine->state, err);
}

static spsh_status take_memory(spsh__read_engine *engine, spsh_error *err)
{
    const spsh_allocator *allocator = engine->allocator;
    engine->arena_memory = spsh__alloc(allocator, engine->arena_bytes + SPSH__READ_ALIGN);
    engine->requests =
        spsh__alloc_array(allocator, engine->requests_max, sizeof(*engine->requests));
    engine->files = spsh__alloc_array(allocator, engine->files_max, sizeof(*engine->files));
    if (engine->arena_memory == NULL || engine->requests == NULL || engine->files == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "read buffers of %zu bytes",
                         engine->arena_bytes);
    uintptr_t address = (uintptr_t)engine->arena_memory;
    engine->arena = engine->arena_memory + (SPSH__READ_ALIGN - address % SPSH__READ_ALIGN);
    for (uint32_t at = 0; at < engine->files_max; at++)
        engine->files[at] = (read_file){.fd = -1};
    return SPSH_OK;
}

spsh_status spsh__read_engine_open(const spsh__read_engine_options *options,
                                   spsh__read_engine **ret_engine, spsh_error *err)
{
    const spsh_allocator *allocator =
        options->allocator != NULL ? options->allocator : spsh_allocator_default();
    spsh__read_engine *engine = spsh__alloc_zero(allocator, sizeof(*engine));
    spsh_status rc = SPSH_OK;

    if (engine == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "read engine");
    engine->allocator = allocator;
    engine->io = options->io != NULL ? options->io : spsh_io_default();
    engine->flags = options->flags;
    engine->arena_bytes = options->arena_bytes != 0 ? options->arena_bytes : ARENA_BYTES_DEFAULT;
    engine->arena_bytes = (size_t)spsh__align_up(engine->arena_bytes, SPSH__READ_ALIGN);
    engine->requests_max =
        options->requests_max != 0 ? options->requests_max : REQUESTS_MAX_DEFAULT;
    engine->files_max = options->files_max != 0 ? options->files_max : FILES_MAX_DEFAULT;
    rc = take_memory(engine, err);
    if (rc != SPSH_OK)
        goto out;
    const spsh__read_setup setup = {
        .allocator = allocator,
        .io = engine->io,
        .arena = engine->arena,
        .arena_bytes = engine->arena_bytes,
        .requests_max = engine->requests_max,
        .files_max = engine->files_max,
        .threads = options->threads != 0 ? options->threads : THREADS_DEFAULT,
    };
    rc = open_backend(engine, &setup, options->backend, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_engine = engine;
    engine = NULL;
out:
    spsh__read_engine_close(engine);
    return rc;
}

void spsh__read_engine_close(spsh__read_engine *engine)
{
    if (engine == NULL)
        return;
    /* The kernel writes into the arena until an operation has completed. */
    bool drained = true;
    while (engine->in_flight > 0 && drained) {
        uint32_t slot = 0;
        int64_t result = 0;
        drained = engine->backend->wait_fn(engine->state, &slot, &result, NULL) == SPSH_OK;
        engine->in_flight--;
    }
    if (engine->state != NULL)
        engine->backend->close_fn(engine->state);
    for (uint32_t at = 0; engine->files != NULL && at < engine->files_max; at++)
        if (engine->files[at].fd >= 0)
            (void)engine->io->close_fn(engine->io->user, engine->files[at].fd);
    spsh__free(engine->allocator, engine->files);
    spsh__free(engine->allocator, engine->requests);
    if (drained) /* else it is lost: better than memory that somebody else writes into */
        spsh__free(engine->allocator, engine->arena_memory);
    spsh__free(engine->allocator, engine);
}

const char *spsh__read_engine_name(const spsh__read_engine *engine)
{
    return engine->backend->name;
}

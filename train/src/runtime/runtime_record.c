/* runtime_record.c: a runtime around a runtime that writes down the order of its marks
 * (runtime_record.h). */
#include "runtime_record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include <xxhash.h>

#include "base/append_all.h"
#include "speechshard/inside.h"

enum {
    HEAD_BYTES = 32,
    BLOCK_HEAD_BYTES = 16,
    MARK_BYTES = 16,
    BLOCK_MARKS = 4096,
    BLOCK_BYTES_MAX = BLOCK_HEAD_BYTES + BLOCK_MARKS * MARK_BYTES,
    VERSION = 1,
    NOTE_KIND = 255,
};

static const char magic[8] = {'S', 'P', 'S', 'H', 'M', 'A', 'R', 'K'};

typedef struct recorder {
    spsh__runtime runtime; /* below it: the runtime whose marks are recorded */
    spsh_allocator allocator;
    const spsh_io *io;
    char *path;
    int fd;
    uint64_t size_bytes;
    uint32_t mark_count; /* marks in block */
    spsh_status status;  /* first write error: the next post or wait returns it */
    spsh_error error;
    uint8_t block[BLOCK_BYTES_MAX];
} recorder;

static recorder *recorder_of(spsh__runtime *t)
{
    return (recorder *)t->state;
}

/* ---- the file ---- */

static char *make_path(const spsh__record_options *o, uint32_t rank)
{
    const size_t capacity = strlen(o->folder) + 32;
    char *path = (char *)spsh__new(o->allocator, capacity, 1);
    if (path != NULL)
        (void)snprintf(path, capacity, "%s/learner-%05" PRIu32 ".marks", o->folder, rank);
    return path;
}

static void make_head(uint8_t head[HEAD_BYTES], const spsh__record_options *o, uint32_t rank,
                      uint32_t world_size)
{
    memcpy(head, magic, sizeof(magic));
    spsh__store_u32le(head + 8, VERSION);
    spsh__store_u32le(head + 12, rank);
    spsh__store_u32le(head + 16, world_size);
    spsh__store_u32le(head + 20, 0);
    spsh__store_u64le(head + 24, o->run);
}

static void write_block(recorder *r)
{
    const size_t size = (size_t)r->mark_count * MARK_BYTES;
    if (r->mark_count == 0 || r->status != SPSH_OK)
        return;
    spsh__store_u32le(r->block, r->mark_count);
    spsh__store_u32le(r->block + 4, 0);
    spsh__store_u64le(r->block + 8, XXH3_64bits(r->block + BLOCK_HEAD_BYTES, size));
    r->status = spsh__append_all(r->io, r->fd, r->block, BLOCK_HEAD_BYTES + size, &r->size_bytes,
                                 r->path, &r->error);
    r->mark_count = 0;
}

/* Call with the lock held. */
static void put(recorder *r, const spsh__recorded *m)
{
    uint8_t *at = r->block + BLOCK_HEAD_BYTES + (size_t)r->mark_count * MARK_BYTES;
    at[0] = m->what;
    at[1] = m->kind;
    at[2] = (uint8_t)m->from;
    at[3] = (uint8_t)(m->from >> 8);
    spsh__store_u32le(at + 4, m->part);
    spsh__store_u64le(at + 8, m->number);
    if (++r->mark_count == BLOCK_MARKS)
        write_block(r);
}

/* ---- the table of runtime.h ---- */

static spsh_status failure(spsh__runtime *t, spsh_error *err)
{
    spsh__runtime *inner = t->below;
    recorder *r = recorder_of(t);
    static const spsh__mark none = {0, 0, 0};
    const spsh_status entered = inner->ops->enter_fn(inner, &none, err);
    if (entered != SPSH_OK)
        return entered;
    const spsh_status rc = spsh__fail_again(r->status, &r->error, err);
    inner->ops->leave_fn(inner);
    return rc;
}

static spsh_status rec_post(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err)
{
    return t->below->ops->post_fn(t->below, to, m, err);
}

static spsh_status rec_wait(spsh__runtime *t, const spsh__mark *mark, bool (*ready_fn)(void *user),
                            void *user, uint32_t deadline_ms, spsh_error *err)
{
    spsh__runtime *inner = t->below;
    const spsh_status rc = inner->ops->wait_fn(inner, mark, ready_fn, user,
                                               deadline_ms > 0 ? deadline_ms : t->deadline_ms, err);
    return rc != SPSH_OK ? rc : failure(t, err);
}

static spsh_status rec_enter(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    recorder *r = recorder_of(t);
    const spsh_status rc = t->below->ops->enter_fn(t->below, mark, err);
    const spsh__recorded m = {SPSH__MARK_ENTER, (uint8_t)mark->kind, 0, mark->part, mark->number};
    if (rc == SPSH_OK)
        put(r, &m);
    return rc;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): a replay writes it */
static spsh_status rec_note(spsh__runtime *t, uint64_t *value, spsh_error *err)
{
    static const spsh__mark here = {NOTE_KIND, 0, 0};
    recorder *r = recorder_of(t);
    const spsh__recorded m = {SPSH__MARK_NOTE, 0, 0, 0, *value};
    const spsh_status rc = t->below->ops->enter_fn(t->below, &here, err);
    if (rc != SPSH_OK)
        return rc;
    put(r, &m);
    t->below->ops->leave_fn(t->below);
    return SPSH_OK;
}

/* Called by the inner runtime under its lock. Serving a message is also recorded as a mark. */
static spsh_status rec_serve(void *user, const spsh__message *m, spsh_error *err)
{
    recorder *r = (recorder *)user;
    const spsh__recorded mark = {SPSH__MARK_SERVE, (uint8_t)m->kind, (uint16_t)m->from, m->part,
                                 m->number};
    put(r, &mark);
    return spsh__runtime_serve(&r->runtime, m, err);
}

/* Set the listener here before the inner runtime may serve messages. */
static void rec_listen(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn, void *user)
{
    recorder *r = recorder_of(t);
    t->below->ops->listen_fn(t->below, service, NULL, NULL);
    spsh__runtime_listen(t, service, serve_fn, user);
    if (serve_fn != NULL)
        t->below->ops->listen_fn(t->below, service, rec_serve, r);
}

static void free_recorder(recorder *r)
{
    const spsh_allocator allocator = r->allocator;
    if (r->fd >= 0)
        (void)r->io->close_fn(r->io->user, r->fd);
    spsh__free(&allocator, r->path);
    spsh__free(&allocator, r);
}

static void rec_close(spsh__runtime *t)
{
    recorder *r = recorder_of(t);
    const spsh__recorded end = {.what = SPSH__MARK_END};
    for (uint32_t i = 0; i < SPSH__SERVICES; i++)
        t->below->ops->listen_fn(t->below, (spsh__service)i, NULL, NULL);
    put(r, &end);
    write_block(r);
    free_recorder(r);
}

static const spsh__runtime_ops recorder_ops = {
    .name = "record",
    .now_fn = spsh__runtime_below_now,
    .compute_fn = spsh__runtime_below_compute,
    .post_fn = rec_post,
    .poll_fn = spsh__runtime_below_poll,
    .wait_fn = rec_wait,
    .enter_fn = rec_enter,
    .leave_fn = spsh__runtime_below_leave,
    .note_fn = rec_note,
    .listen_fn = rec_listen,
    .close_fn = rec_close,
};

spsh_status spsh__record_open(const spsh__record_options *o, spsh__runtime *inner,
                              spsh__runtime **ret_runtime, spsh_error *err)
{
    uint8_t head[HEAD_BYTES];
    recorder *r = spsh__new(o->allocator, 1, sizeof(*r));
    if (r == NULL)
        return SPSH_NO_MEMORY(err);
    r->allocator = *o->allocator;
    r->io = o->io;
    r->fd = -1;
    r->error = (spsh_error)SPSH_ERROR_INIT;
    r->path = make_path(o, inner->rank);
    spsh_status rc = r->path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK) {
        r->fd = o->io->open_fn(o->io->user, r->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (r->fd < 0)
            rc = SPSH_FAIL_OS(err, spsh_io_status(-r->fd), -r->fd, "%s: cannot create: %s", r->path,
                              strerror(-r->fd));
    }
    make_head(head, o, inner->rank, inner->world_size);
    if (rc == SPSH_OK)
        rc = spsh__append_all(o->io, r->fd, head, sizeof(head), &r->size_bytes, r->path, err);
    if (rc != SPSH_OK) {
        if (r->fd >= 0)
            (void)o->io->unlink_fn(o->io->user, r->path);
        free_recorder(r);
        return rc;
    }
    r->runtime = (spsh__runtime){.ops = &recorder_ops,
                                 .rank = inner->rank,
                                 .world_size = inner->world_size,
                                 .deadline_ms = inner->deadline_ms,
                                 .below = inner,
                                 .state = r};
    *ret_runtime = &r->runtime;
    return SPSH_OK;
}

void spsh__record_remove(const spsh__record_options *o, uint32_t rank)
{
    char *path = make_path(o, rank);
    if (path != NULL)
        (void)o->io->unlink_fn(o->io->user, path);
    (void)o->io->rmdir_fn(o->io->user, o->folder);
    spsh__free(o->allocator, path);
}

/* ---- reading ---- */

static void take_marks(const uint8_t *bytes, uint32_t count, spsh__recorded *to)
{
    for (uint32_t i = 0; i < count; i++, bytes += MARK_BYTES)
        to[i] = (spsh__recorded){bytes[0], bytes[1], (uint16_t)(bytes[2] | bytes[3] << 8),
                                 spsh__load_u32le(bytes + 4), spsh__load_u64le(bytes + 8)};
}

/* Read the blocks. marks NULL: only count. */
static spsh_status read_blocks(const uint8_t *bytes, size_t size, const char *path,
                               spsh__recorded *marks, size_t *ret_count, spsh_error *err)
{
    size_t count = 0;
    for (size_t at = HEAD_BYTES; size - at >= BLOCK_HEAD_BYTES;) {
        const uint32_t here = spsh__load_u32le(bytes + at);
        const size_t marks_bytes = (size_t)here * MARK_BYTES;
        if (here == 0 || here > BLOCK_MARKS || spsh__load_u32le(bytes + at + 4) != 0)
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, at,
                                "%s: a block has an invalid number of marks, %" PRIu32, path, here);
        if (size - at - BLOCK_HEAD_BYTES < marks_bytes)
            break; /* cut: the record ends before it */
        const uint8_t *first = bytes + at + BLOCK_HEAD_BYTES;
        if (XXH3_64bits(first, marks_bytes) != spsh__load_u64le(bytes + at + 8))
            return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, at, "%s: the checksum of a block is wrong",
                                path);
        if (marks != NULL)
            take_marks(first, here, marks + count);
        count += here;
        at += BLOCK_HEAD_BYTES + marks_bytes;
    }
    *ret_count = count;
    return SPSH_OK;
}

static spsh_status check_kind(const uint8_t *bytes, size_t size, const char *path, spsh_error *err)
{
    if (size < HEAD_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, size, "%s: the file ends inside its header",
                            path);
    if (memcmp(bytes, magic, sizeof(magic)) != 0 || spsh__load_u32le(bytes + 8) != VERSION)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 0, "%s: not a record of marks of version 1", path);
    return SPSH_OK;
}

static spsh_status check_head(const uint8_t *bytes, size_t size, const uint8_t want[HEAD_BYTES],
                              const char *path, spsh_error *err)
{
    const spsh_status rc = check_kind(bytes, size, path, err);
    if (rc != SPSH_OK)
        return rc;
    if (memcmp(bytes, want, HEAD_BYTES) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 0,
                            "%s: the record is of learner %" PRIu32 " of %" PRIu32
                            " in a different run",
                            path, spsh__load_u32le(bytes + 12), spsh__load_u32le(bytes + 16));
    return SPSH_OK;
}

spsh_status spsh__record_read(const spsh__record_options *o, uint32_t rank, uint32_t world_size,
                              spsh__recorded **ret_marks, size_t *ret_count, spsh_error *err)
{
    uint8_t *bytes = NULL, head[HEAD_BYTES];
    size_t size = 0, count = 0;
    spsh__recorded *marks = NULL;
    char *path = make_path(o, rank);
    spsh_status rc = path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh_io_read_file(o->io, path, SIZE_MAX / 2, o->allocator, &bytes, &size, err);
    if (rc != SPSH_OK)
        goto out;
    make_head(head, o, rank, world_size);
    rc = check_head(bytes, size, head, path, err);
    if (rc == SPSH_OK)
        rc = read_blocks(bytes, size, path, NULL, &count, err);
    if (rc != SPSH_OK)
        goto out;
    marks = spsh__new(o->allocator, count, sizeof(*marks));
    if (marks == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    rc = read_blocks(bytes, size, path, marks, &count, err);
    *ret_marks = marks;
    *ret_count = count;
out:
    spsh__free(o->allocator, bytes);
    spsh__free(o->allocator, path);
    return rc;
}

spsh_status spsh__record_find(const spsh__record_options *o, uint64_t *ret_run,
                              uint32_t *ret_learners, spsh_error *err)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    char *path = make_path(o, 0);
    spsh_status rc = path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh_io_read_file(o->io, path, SIZE_MAX / 2, o->allocator, &bytes, &size, err);
    if (rc == SPSH_OK)
        rc = check_kind(bytes, size, path, err);
    if (rc == SPSH_OK && spsh__load_u32le(bytes + 12) != 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 12, "%s: the record is not of learner 0", path);
    if (rc == SPSH_OK) {
        *ret_learners = spsh__load_u32le(bytes + 16);
        *ret_run = spsh__load_u64le(bytes + 24);
    }
    spsh__free(o->allocator, bytes);
    spsh__free(o->allocator, path);
    return rc;
}

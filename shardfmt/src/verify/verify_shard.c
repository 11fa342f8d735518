/* verify_shard.c: read the blocks of a shard and check them, each once and in order.
 *
 * The index, whose pages are checked by now, gives the offsets of the blocks. Blocks are read
 * whole, many at a time. A worker computes the checksum while reads of later blocks are in flight.
 * Then the blocks are taken in order, so that reports and the rebuilt index do not depend on the
 * number of threads:
 *
 *     next --submit--> engine --wait--> workers --take in order--> index, reports --> recycle
 *
 * A block larger than usual (it holds one oversize record) does not fit into the engine's arena. It
 * is read in parts into separate memory.
 *
 * Without an index (damaged, or cut off) the blocks are searched on their grid. The bytes between
 * intact ones are damaged.
 */
#include "verify_shard.h"
#include "base/worker_pool.h"

#include "io/io_internal.h"

#define ULL(value_) ((unsigned long long)(value_))

#define PART_BYTES ((size_t)1 << 20)
#define TASKS_MAX  UINT32_C(64)
#define HEAP_BYTES_MAX                                                                             \
    ((uint64_t)64 << 20)                   /* limit for blocks read in parts, except a single
                                               larger one */
#define GAP_BYTES_MAX ((uint64_t)64 << 20) /* limit of damage searched for records */

typedef struct block_stream {
    spsh__shard_check *check;
    spsh__worker_pool *pool;
    spsh__block_task tasks[TASKS_MAX];
    uint64_t next, taken;   /* blocks: begun to be read; taken */
    size_t submitted_bytes; /* bytes submitted of block next, if it is read in parts */
    uint64_t heap_bytes;
} block_stream;

/* ---- the list of blocks ---- */

/* The index's list, if blocks fill the space from the header to the sections. */
static bool take_list(spsh__shard_check *check)
{
    const spsh__verify_file *file = check->file;
    const uint8_t *offsets = NULL;
    uint64_t count = 0;
    if (!spsh__verify_section(file, SPSH__SHARD_BLOCK_OFFSET, 8, &offsets, &count))
        return false;
    uint64_t before = 0;
    for (uint64_t n = 0; n < count; n++) {
        uint64_t offset = spsh__load_u64le(offsets + 8 * n);
        bool in_place = n == 0 ? offset == SPSH__PAGE_BYTES : offset > before;
        if (!in_place || offset % SPSH__PAGE_BYTES != 0 || offset >= check->end_bytes)
            return false;
        if (n > 0 && offset - before > SPSH__BLOCK_OVERSIZE_BYTES_MAX)
            return false;
        before = offset;
    }
    if (count == 0 ? check->end_bytes != SPSH__PAGE_BYTES
                   : check->end_bytes - before > SPSH__BLOCK_OVERSIZE_BYTES_MAX)
        return false;
    check->offsets = offsets;
    check->block_count = count;
    return true;
}

static uint64_t block_begin(const spsh__shard_check *check, uint64_t block)
{
    return block < check->block_count ? spsh__load_u64le(check->offsets + 8 * block)
                                      : check->end_bytes;
}

/* ---- the stream ---- */

static spsh__block_task *task_at(block_stream *stream, uint64_t block)
{
    return &stream->tasks[block % TASKS_MAX];
}

/* Request the next block, or its next part. false: no capacity now. */
static bool has_next(const block_stream *stream)
{
    const spsh__shard_check *check = stream->check;
    if (stream->next == check->block_count)
        return false;
    uint64_t size = block_begin(check, stream->next + 1) - block_begin(check, stream->next);
    if (stream->submitted_bytes != 0) {
        uint64_t left = size - stream->submitted_bytes;
        return spsh_read_has_space(check->v->engine, left < PART_BYTES ? (size_t)left : PART_BYTES);
    }
    if (stream->next - stream->taken == TASKS_MAX)
        return false;
    if (size <= SPSH_BLOCK_BYTES_MAX)
        return spsh_read_has_space(check->v->engine, (size_t)size);
    return (stream->heap_bytes == 0 || stream->heap_bytes + size <= HEAP_BYTES_MAX) &&
           spsh_read_has_space(check->v->engine, PART_BYTES);
}

static spsh_status begin_task(block_stream *stream, uint64_t offset, uint64_t size, spsh_error *err)
{
    spsh__block_task *task = task_at(stream, stream->next);
    *task = (spsh__block_task){.offset_bytes = offset,
                               .block_bytes = (size_t)size,
                               .readable = true,
                               .why = SPSH_ERROR_INIT};
    if (size <= SPSH_BLOCK_BYTES_MAX)
        return SPSH_OK;
    task->heap = spsh__alloc(stream->check->v->allocator, (size_t)size);
    if (task->heap == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, offset, "%s: block of %llu bytes",
                            stream->check->file->name, ULL(size));
    stream->heap_bytes += size;
    return SPSH_OK;
}

static spsh_status submit_next(block_stream *stream, spsh_error *err)
{
    const spsh__shard_check *check = stream->check;
    uint64_t offset = block_begin(check, stream->next);
    uint64_t size = block_begin(check, stream->next + 1) - offset;
    size_t at = stream->submitted_bytes;
    spsh_status rc = at == 0 ? begin_task(stream, offset, size, err) : SPSH_OK;
    if (rc != SPSH_OK)
        return rc;
    size_t part = (size_t)size - at;
    if (size > SPSH_BLOCK_BYTES_MAX && part > PART_BYTES)
        part = PART_BYTES;
    rc =
        spsh_read_submit(check->v->engine, check->file->file, offset + at, part, stream->next, err);
    if (rc != SPSH_OK)
        return rc;
    stream->submitted_bytes = at + part;
    if (stream->submitted_bytes == size) {
        stream->submitted_bytes = 0;
        stream->next++;
    }
    return SPSH_OK;
}

/* Handle a block, or a part of a block, that has been read. */
static spsh_status arrive(block_stream *stream, const spsh_read_completion *done, spsh_error *err)
{
    spsh__verify *v = stream->check->v;
    spsh__block_task *task = task_at(stream, done->tag);
    if (done->status != SPSH_OK && task->readable) {
        task->readable = false;
        spsh_error_set(&task->why, done->status, done->os_errno, done->offset_bytes,
                       "%s: block at %llu cannot be read: %s", stream->check->file->name,
                       ULL(task->offset_bytes),
                       done->status == SPSH_E_IO ? spsh__os_text(done->os_errno) : "end of file");
    }
    task->arrived_bytes += done->size_bytes;
    if (task->heap != NULL) {
        memcpy(task->heap + (size_t)(done->offset_bytes - task->offset_bytes), done->data,
               done->got_bytes);
        task->data = task->heap;
        spsh_read_recycle(v->engine, done);
    } else {
        task->data = done->data;
        task->lent = *done;
    }
    if (task->arrived_bytes == task->block_bytes)
        spsh__worker_pool_put(stream->pool, task);
    return spsh__verify_progress(v, done->got_bytes, err);
}

static void release(block_stream *stream, spsh__block_task *task)
{
    spsh__verify *v = stream->check->v;
    if (task->heap != NULL) {
        stream->heap_bytes -= task->block_bytes;
        spsh__free(v->allocator, task->heap);
    } else {
        spsh_read_recycle(v->engine, &task->lent);
    }
    spsh__buffer_free(&task->findings, v->allocator);
    task->heap = NULL;
}

/* Look at a damaged block again, page by page where the medium fails. */
static spsh_status name_damage(spsh__shard_check *check, uint64_t offset_bytes, size_t size_bytes,
                               const spsh_error *why, spsh_error *err)
{
    uint8_t *data = NULL;
    spsh_status rc = SPSH_OK;
    if (check->scan.fd < 0)
        rc = spsh__io_open_read(check->scan.io, check->file->path, &check->scan.fd, err);
    if (rc == SPSH_OK)
        rc = spsh__salvage_bytes(&check->scan, offset_bytes, size_bytes, &data, err);
    if (rc == SPSH_OK)
        rc = spsh__verify_block_damage(check, offset_bytes, (spsh_bytes){data, size_bytes}, why,
                                       err);
    spsh__free(check->v->allocator, data);
    return rc;
}

static spsh_status take(block_stream *stream, spsh__block_task *task, spsh_error *err)
{
    spsh__shard_check *check = stream->check;
    spsh_status rc = SPSH_OK;
    if (!task->readable)
        rc = name_damage(check, task->offset_bytes, task->block_bytes, &task->why, err);
    else if (task->status == SPSH_OK)
        rc = spsh__verify_block_take(check, task, err);
    else if (task->status == SPSH_E_NO_MEMORY)
        rc = SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, task->offset_bytes, "%s", task->why.message);
    else
        rc =
            spsh__verify_block_damage(check, task->offset_bytes,
                                      (spsh_bytes){task->data, task->block_bytes}, &task->why, err);
    release(stream, task);
    stream->taken++;
    return rc;
}

static spsh_status run_stream(block_stream *stream, spsh_error *err)
{
    spsh__shard_check *check = stream->check;
    spsh_read_engine *engine = check->v->engine;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && stream->taken < check->block_count) {
        while (rc == SPSH_OK && has_next(stream))
            rc = submit_next(stream, err);
        const bool reading = spsh_read_pending(engine) > 0;
        if (rc == SPSH_OK && reading) {
            spsh_read_completion done;
            rc = spsh_read_wait(engine, &done, err);
            if (rc == SPSH_OK)
                rc = arrive(stream, &done, err);
        }
        spsh__block_task *task = NULL;
        while (rc == SPSH_OK && (task = spsh__worker_pool_take(stream->pool, !reading)) != NULL)
            rc = take(stream, task, err);
    }
    return rc;
}

/* Drain after a failure: no memory may be borrowed and no read in flight when the next file begins.
 */
static void drain(block_stream *stream)
{
    spsh__shard_check *check = stream->check;
    spsh_read_completion done;
    spsh__block_task *task = NULL;
    while (spsh_read_wait(check->v->engine, &done, NULL) == SPSH_OK)
        spsh_read_recycle(check->v->engine, &done);
    while ((task = spsh__worker_pool_take(stream->pool, true)) != NULL)
        spsh__buffer_free(&task->findings, check->v->allocator);
    for (uint32_t at = 0; at < TASKS_MAX; at++)
        spsh__free(check->v->allocator, stream->tasks[at].heap);
}

static spsh_status check_listed(spsh__shard_check *check, spsh_error *err)
{
    const spsh__verify *v = check->v;
    block_stream *stream = spsh__new(v->allocator, 1, sizeof(*stream));
    if (stream == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: blocks", check->file->name);
    stream->check = check;
    spsh_status rc = spsh__worker_pool_open(v->allocator, v->opt.jobs, TASKS_MAX,
                                            spsh__verify_block_work, check, &stream->pool, err);
    if (rc == SPSH_OK)
        rc = run_stream(stream, err);
    if (rc != SPSH_OK && stream->pool != NULL)
        drain(stream);
    spsh__worker_pool_close(stream->pool);
    spsh__free(v->allocator, stream);
    return rc;
}

/* ---- without a list ---- */

static spsh_status take_found(spsh__shard_check *check, const spsh__salvaged_block *found,
                              spsh_error *err)
{
    spsh__block_task task = {.offset_bytes = found->offset_bytes,
                             .block_bytes = (size_t)found->block.block_bytes,
                             .data = found->data,
                             .readable = true,
                             .why = SPSH_ERROR_INIT};
    spsh__verify_block_work(check, 0, &task);
    spsh_status rc = task.status == SPSH_OK ? spsh__verify_block_take(check, &task, err)
                                            : SPSH_FAIL_AT(err, task.status, task.offset_bytes,
                                                           "%s", task.why.message);
    spsh__buffer_free(&task.findings, check->v->allocator);
    if (rc == SPSH_OK)
        rc = spsh__verify_progress(check->v, task.block_bytes, err);
    return rc;
}

/* Return the size of the damaged block at the start of a gap, as far as its header is credible. */
static uint64_t piece_bytes(const spsh__shard_check *check, uint64_t begin, uint64_t end)
{
    uint8_t header[SPSH__BLOCK_HEADER_BYTES];
    spsh__block block;
    if (spsh_io_read_exact(check->scan.io, check->scan.fd, header, sizeof(header), begin,
                           check->file->name, NULL) == SPSH_OK &&
        spsh__block_header_decode(header, begin, check->file->name, &block, NULL) == SPSH_OK &&
        block.block_bytes <= end - begin)
        return block.block_bytes;
    return end - begin;
}

static spsh_status name_gap(spsh__shard_check *check, uint64_t begin, uint64_t end, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    check->whole = false;
    while (begin < end && rc == SPSH_OK) {
        uint64_t size = piece_bytes(check, begin, end);
        spsh_error why = SPSH_ERROR_INIT;
        spsh_error_set(&why, SPSH_E_TRUNCATED, 0, begin,
                       "%s: %llu bytes at %llu are not an intact block, and the index, which would "
                       "name their records, is also damaged",
                       check->file->name, ULL(size), ULL(begin));
        if (size > GAP_BYTES_MAX)
            rc = spsh__verify_refused(check->v, check->file, "block", size, &why, err);
        else
            rc = name_damage(check, begin, (size_t)size, &why, err);
        begin += size;
    }
    return rc;
}

static spsh_status check_unlisted(spsh__shard_check *check, spsh_error *err)
{
    uint64_t offset = SPSH__PAGE_BYTES;
    spsh_status rc = check->scan.fd >= 0 ? SPSH_OK
                                         : spsh__io_open_read(check->scan.io, check->file->path,
                                                              &check->scan.fd, err);
    while (rc == SPSH_OK && offset < check->end_bytes) {
        spsh__salvaged_block found = {.data = NULL};
        rc = spsh__salvage_block(&check->scan, offset, &found, err);
        const bool none = rc == SPSH_E_END;
        if (none && !check->file->footer_ok)
            return SPSH_OK; /* where the blocks end is not known: this may be the index */
        uint64_t begin = none ? check->end_bytes : found.offset_bytes;
        if (none)
            rc = SPSH_OK;
        if (rc == SPSH_OK && begin > offset)
            rc = name_gap(check, offset, begin, err);
        if (rc == SPSH_OK && !none)
            rc = take_found(check, &found, err);
        offset = none ? check->end_bytes : begin + found.block.block_bytes;
        spsh__free(check->v->allocator, found.data);
    }
    return rc;
}

/* ---- the whole ---- */

static spsh_status check_blocks(spsh__shard_check *check, spsh_error *err)
{
    spsh__verify_file *file = check->file;
    if (take_list(check))
        return check_listed(check, err);
    if (file->area != NULL) {
        spsh_error why = SPSH_ERROR_INIT;
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, file->footer.section_area_offset,
                       "%s: the index's list of blocks does not fill the space for blocks",
                       file->name);
        spsh_status rc = spsh__verify_refused(check->v, file, "index", 0, &why, err);
        if (rc != SPSH_OK)
            return rc;
        check->whole = false;
    }
    return check_unlisted(check, err);
}

/* A shard's file id identifies the dataset and the shard. */
static spsh_status check_identity(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    uint8_t file_id[16];
    const spsh__header *header = &file->header;
    spsh__shard_file_id(header->dataset_id, header->ordinal, header->sub_ordinal, file_id);
    if (!file->header_ok || memcmp(file_id, header->file_id, 16) == 0)
        return SPSH_OK;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_error_set(&why, SPSH_E_CORRUPT, 0, 16,
                   "%s: header: the file_id does not match its dataset, unit, and number",
                   file->name);
    return spsh__verify_refused(v, file, "identity", 16, &why, err);
}

spsh_status spsh__verify_shard(spsh__verify *v, spsh__verify_file *file, spsh_error *err)
{
    spsh__shard_check check = {
        .v = v,
        .file = file,
        .end_bytes = file->footer_ok ? file->footer.section_area_offset : file->sealed_bytes,
        .whole = true,
        .rebuilt = spsh__shard_index_new(v->allocator),
        .metadata = spsh__metadata_new(v->allocator),
    };
    check.scan = (spsh__salvage){.io = v->io,
                                 .allocator = v->allocator,
                                 .fd = -1,
                                 .path = file->name,
                                 .file_id = file->file_id,
                                 .end_bytes = check.end_bytes};
    spsh_status rc = SPSH_OK;
    if (check.rebuilt == NULL || check.metadata == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: index", file->name);
    if (rc == SPSH_OK)
        rc = check_identity(v, file, err);
    if (rc == SPSH_OK)
        rc = check_blocks(&check, err);
    if (rc == SPSH_OK && check.whole && file->area != NULL)
        rc = spsh__verify_rebuilt(&check, err);
    if (check.scan.fd >= 0)
        (void)v->io->close_fn(v->io->user, check.scan.fd);
    spsh__free(v->allocator, check.uses);
    spsh__metadata_free(check.metadata);
    spsh__shard_index_free(check.rebuilt);
    return rc;
}

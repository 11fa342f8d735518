/* sorter.c: external merge sort of (key, value) entries.
 *
 *     arena   | entry | entry | entry ...  ->        <- ... item | item | item |
 *     entry   u32 key_bytes, u32 value_bytes, key, value            as in a run
 *     item    the key's first 8 bytes as a big-endian number, and the offset of its entry
 *
 * Entries are packed from the front of the arena and items from its back. When the two meet, the
 * items are sorted and the entries are written, in that order, to the end of a temporary file: a
 * run. The prefixes decide most comparisons. Ties are decided by the full keys, then by the
 * entries' positions in the arena, which is the order of adding. So the order is total, and an
 * unstable in-place sort is as good as a stable one.
 *
 * Runs are numbered in order of adding and merged by a heap whose last criterion is that number.
 * The arena, empty by then, is divided into the runs' read buffers. If there are more runs than
 * buffers, groups of adjacent runs are first merged into a second file, which then replaces the
 * first one. The runs of a group are adjacent, so that run numbers still follow the order of
 * adding.
 *
 * Each run has a checksum in memory: if a disk returns wrong bytes, the merge detects it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/checksum.h"
#include "io_internal.h"
#include "speechshard/options.h"
#include "speechshard/sorter.h"

enum {
    ENTRY_HEAD_BYTES = 8,
    KEY_BYTES_MAX = 1 << 20,
    VALUE_BYTES_MAX = 64 << 20,
    READ_BYTES_MIN = 64 << 10, /* a run's share of the arena; smaller reads cost more than a pass */
    WRITE_BYTES_MAX = 1 << 20,
    INSERTION_MAX = 24,
};

#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)
#define MEMORY_BYTES_MIN     (UINT64_C(1) << 20)

typedef struct item {
    uint64_t prefix;
    uint64_t offset_bytes; /* offset of the entry in the arena */
} item;

typedef struct run {
    uint64_t begin_bytes, end_bytes; /* in the temporary file */
    uint64_t checksum;
} run;

/* A run being read: data[begin, end) is in memory, the rest begins at next_bytes in the file. */
typedef struct cursor {
    uint8_t *data;
    size_t capacity_bytes;
    size_t begin, end;
    uint64_t next_bytes;
    uint64_t prefix; /* key prefix of the entry at begin */
    const run *source;
    spsh__hasher *hasher;
    bool owns_data; /* an entry did not fit into its share of the arena */
} cursor;

/* A temporary file being written. */
typedef struct output {
    int fd;
    uint64_t size_bytes;
    size_t buffered_bytes;
    run *runs;
    size_t run_count, run_capacity;
} output;

struct spsh_sorter {
    spsh_allocator allocator;
    const spsh_io *io;
    char *directory;
    uint8_t *arena, *write_buffer;
    size_t arena_bytes, write_bytes;
    size_t used_bytes, item_count;
    spsh__hasher *hasher; /* hasher of the run being written */
    output out;           /* all runs so far */
    cursor *cursors;
    uint32_t *heap; /* cursor numbers, the smallest entry first */
    size_t cursor_count, heap_count;
    uint64_t entry_count;
    size_t next_item;
    bool done_adding, have_current, failed;
};

/* ---- order ---- */

static uint64_t key_prefix(const uint8_t *key, size_t key_bytes)
{
    uint64_t prefix = 0;
    if (key_bytes >= 8) {
        memcpy(&prefix, key, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        prefix = __builtin_bswap64(prefix);
#endif
        return prefix;
    }
    for (size_t i = 0; i < key_bytes; i++)
        prefix |= (uint64_t)key[i] << (56 - 8 * i);
    return prefix;
}

static int compare_keys(const uint8_t *a, const uint8_t *b)
{
    uint32_t a_bytes = spsh__load_u32le(a);
    uint32_t b_bytes = spsh__load_u32le(b);
    uint32_t shared_bytes = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = memcmp(a + ENTRY_HEAD_BYTES, b + ENTRY_HEAD_BYTES, shared_bytes);
    if (order != 0)
        return order;
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static bool tie_before(const uint8_t *arena, item a, item b)
{
    int order = compare_keys(arena + a.offset_bytes, arena + b.offset_bytes);
    return order != 0 ? order < 0 : a.offset_bytes < b.offset_bytes;
}

static inline bool item_before(const uint8_t *arena, item a, item b)
{
    return a.prefix != b.prefix ? a.prefix < b.prefix : tie_before(arena, a, b);
}

static void sift_item(const uint8_t *arena, item *items, size_t at, size_t count)
{
    item moving = items[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && item_before(arena, items[child], items[child + 1]))
            child++;
        if (!item_before(arena, moving, items[child]))
            break;
        items[at] = items[child];
        at = child;
    }
    items[at] = moving;
}

static void heap_sort(const uint8_t *arena, item *items, size_t count)
{
    for (size_t i = count / 2; i > 0; i--)
        sift_item(arena, items, i - 1, count);
    for (size_t i = count - 1; i > 0; i--) {
        item last = items[i];
        items[i] = items[0];
        items[0] = last;
        sift_item(arena, items, 0, i);
    }
}

static void insertion_sort(const uint8_t *arena, item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        item moving = items[i];
        size_t at = i;
        for (; at > 0 && item_before(arena, moving, items[at - 1]); at--)
            items[at] = items[at - 1];
        items[at] = moving;
    }
}

static item median(const uint8_t *arena, item a, item b, item c)
{
    if (item_before(arena, b, a)) {
        item swap = a;
        a = b;
        b = swap;
    }
    if (!item_before(arena, c, b))
        return b;
    return item_before(arena, c, a) ? a : c;
}

/* Hoare's partition: return p with 0 < p < count, and no item before p greater than one from p on.
 */
static size_t partition(const uint8_t *arena, item *items, size_t count)
{
    item pivot = median(arena, items[0], items[count / 2], items[count - 1]);
    size_t low = 0;
    size_t high = count - 1;
    for (;; low++, high--) {
        while (item_before(arena, items[low], pivot))
            low++;
        while (item_before(arena, pivot, items[high]))
            high--;
        if (low >= high)
            return low == high ? low + (low == 0) : low;
        item swap = items[low];
        items[low] = items[high];
        items[high] = swap;
    }
}

/* Quicksort that falls back to heapsort, so that no input makes it quadratic. */
static void sort_items(const uint8_t *arena, item *items, size_t count, uint32_t depth_left)
{
    while (count > INSERTION_MAX) {
        if (depth_left-- == 0) {
            heap_sort(arena, items, count);
            return;
        }
        size_t split = partition(arena, items, count);
        if (split < count - split) {
            sort_items(arena, items, split, depth_left);
            items += split;
            count -= split;
        } else {
            sort_items(arena, items + split, count - split, depth_left);
            count = split;
        }
    }
    insertion_sort(arena, items, count);
}

static item *sorter_items(const spsh_sorter *sorter)
{
    return (item *)(void *)(sorter->arena + sorter->arena_bytes) - sorter->item_count;
}

static void sort_arena(spsh_sorter *sorter)
{
    uint32_t depth = 2;
    for (size_t n = sorter->item_count; n > 0; n /= 2)
        depth += 2;
    sort_items(sorter->arena, sorter_items(sorter), sorter->item_count, depth);
}

/* ---- writing runs ---- */

/* A new file that has no name any more when this returns. */
static spsh_status open_temporary(spsh_sorter *sorter, int *ret_fd, spsh_error *err)
{
    char path[4096];
    const spsh_io *io = sorter->io;
    if (sorter->directory == NULL)
        return SPSH_FAIL(
            err, SPSH_E_LIMIT,
            "sorter: the data exceeds %zu bytes, but no directory for temporary files is set",
            sorter->arena_bytes);
    int fd = -EEXIST;
    for (uint32_t n = 0; fd == -EEXIST && n < 10000; n++) {
        int length = snprintf(path, sizeof(path), "%s/.sort.tmp-%ld-%u", sorter->directory,
                              (long)getpid(), n);
        if (length < 0 || (size_t)length >= sizeof(path))
            return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the path is too long", sorter->directory);
        fd = io->open_fn(io->user, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: cannot create a temporary file: %s",
                            sorter->directory, spsh__os_text(-fd));
    int unlinked = io->unlink_fn(io->user, path);
    if (unlinked < 0) {
        (void)io->close_fn(io->user, fd);
        (void)io->unlink_fn(io->user, path); /* retry once: no other code would unlink it */
        return SPSH_FAIL_OS(err, spsh_io_status(-unlinked), -unlinked, "%s: cannot remove: %s",
                            path, spsh__os_text(-unlinked));
    }
    *ret_fd = fd;
    return SPSH_OK;
}

static spsh_status write_through(spsh_sorter *sorter, output *out, const uint8_t *data,
                                 size_t size_bytes, spsh_error *err)
{
    const spsh_io *io = sorter->io;
    spsh__hasher_update(sorter->hasher, data, size_bytes);
    while (size_bytes > 0) {
        int64_t written = io->pwrite_fn(io->user, out->fd, data, size_bytes, out->size_bytes);
        if (written == -EINTR)
            continue;
        if (written <= 0 || (uint64_t)written > size_bytes) {
            int code = written < 0 ? (int)-written : EIO;
            return SPSH_FAIL_OS(err, spsh_io_status(code), code,
                                "%s: cannot write a temporary file: %s", sorter->directory,
                                spsh__os_text(code));
        }
        data += written;
        size_bytes -= (size_t)written;
        out->size_bytes += (uint64_t)written;
    }
    return SPSH_OK;
}

static spsh_status flush(spsh_sorter *sorter, output *out, spsh_error *err)
{
    size_t buffered_bytes = out->buffered_bytes;
    out->buffered_bytes = 0;
    return write_through(sorter, out, sorter->write_buffer, buffered_bytes, err);
}

static spsh_status put(spsh_sorter *sorter, output *out, const uint8_t *data, size_t size_bytes,
                       spsh_error *err)
{
    if (size_bytes > sorter->write_bytes - out->buffered_bytes) {
        spsh_status rc = flush(sorter, out, err);
        if (rc != SPSH_OK)
            return rc;
        if (size_bytes > sorter->write_bytes)
            return write_through(sorter, out, data, size_bytes, err);
    }
    memcpy(sorter->write_buffer + out->buffered_bytes, data, size_bytes);
    out->buffered_bytes += size_bytes;
    return SPSH_OK;
}

static void begin_run_checksum(spsh__hasher *hasher, uint64_t begin_bytes)
{
    static const uint8_t no_id[16] = {0};
    spsh__hasher_reset_checksum(hasher, no_id, begin_bytes);
}

static spsh_status begin_run(spsh_sorter *sorter, output *out, spsh_error *err)
{
    if (out->fd < 0) {
        spsh_status rc = open_temporary(sorter, &out->fd, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (out->run_count == out->run_capacity) {
        size_t capacity = out->run_capacity == 0 ? 64 : 2 * out->run_capacity;
        run *grown = (run *)spsh__alloc_array(&sorter->allocator, capacity, sizeof(*grown));
        if (grown == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter: %zu runs", capacity);
        if (out->run_count > 0)
            memcpy(grown, out->runs, out->run_count * sizeof(*grown));
        spsh__free(&sorter->allocator, out->runs);
        out->runs = grown;
        out->run_capacity = capacity;
    }
    out->runs[out->run_count++] = (run){.begin_bytes = out->size_bytes};
    begin_run_checksum(sorter->hasher, out->size_bytes);
    return SPSH_OK;
}

static spsh_status end_run(spsh_sorter *sorter, output *out, spsh_error *err)
{
    spsh_status rc = flush(sorter, out, err);
    run *last = &out->runs[out->run_count - 1];
    last->end_bytes = out->size_bytes;
    last->checksum = spsh__hasher_digest_checksum(sorter->hasher);
    return rc;
}

static size_t entry_bytes(const uint8_t *entry)
{
    return ENTRY_HEAD_BYTES + (size_t)spsh__load_u32le(entry) + spsh__load_u32le(entry + 4);
}

static spsh_status spill(spsh_sorter *sorter, spsh_error *err)
{
    if (sorter->item_count == 0)
        return SPSH_OK;
    sort_arena(sorter);
    const item *items = sorter_items(sorter);
    spsh_status rc = begin_run(sorter, &sorter->out, err);
    for (size_t i = 0; rc == SPSH_OK && i < sorter->item_count; i++) {
        const uint8_t *entry = sorter->arena + items[i].offset_bytes;
        rc = put(sorter, &sorter->out, entry, entry_bytes(entry), err);
    }
    if (rc == SPSH_OK)
        rc = end_run(sorter, &sorter->out, err);
    sorter->used_bytes = 0;
    sorter->item_count = 0;
    return rc;
}

/* An entry that the empty arena cannot hold becomes a separate run. */
static spsh_status spill_one(spsh_sorter *sorter, const uint8_t *head, spsh_bytes key,
                             spsh_bytes value, spsh_error *err)
{
    output *out = &sorter->out;
    spsh_status rc = begin_run(sorter, out, err);
    if (rc == SPSH_OK)
        rc = put(sorter, out, head, ENTRY_HEAD_BYTES, err);
    if (rc == SPSH_OK && key.size_bytes > 0)
        rc = put(sorter, out, key.data, key.size_bytes, err);
    if (rc == SPSH_OK && value.size_bytes > 0)
        rc = put(sorter, out, value.data, value.size_bytes, err);
    if (rc == SPSH_OK)
        rc = end_run(sorter, out, err);
    return rc;
}

/* ---- merging runs ---- */

static spsh_status grow_cursor(spsh_sorter *sorter, cursor *at, size_t want_bytes, spsh_error *err)
{
    uint8_t *grown = (uint8_t *)spsh__alloc(&sorter->allocator, want_bytes);
    if (grown == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter: entry of %zu bytes", want_bytes);
    memcpy(grown, at->data + at->begin, at->end - at->begin);
    if (at->owns_data)
        spsh__free(&sorter->allocator, at->data);
    at->data = grown;
    at->capacity_bytes = want_bytes;
    at->end -= at->begin;
    at->begin = 0;
    at->owns_data = true;
    return SPSH_OK;
}

/* Make at least want_bytes available at begin; the run is known to have them. */
static spsh_status fill(spsh_sorter *sorter, cursor *at, size_t want_bytes, spsh_error *err)
{
    if (at->end - at->begin >= want_bytes)
        return SPSH_OK;
    if (want_bytes > at->end - at->begin + (at->source->end_bytes - at->next_bytes))
        return SPSH_FAIL_AT(err, SPSH_E_IO, at->next_bytes,
                            "%s: a temporary file was changed after it was written",
                            sorter->directory);
    if (want_bytes > at->capacity_bytes) {
        spsh_status rc = grow_cursor(sorter, at, want_bytes, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (at->begin > 0) {
        memmove(at->data, at->data + at->begin, at->end - at->begin);
        at->end -= at->begin;
        at->begin = 0;
    }
    size_t space_bytes = at->capacity_bytes - at->end;
    uint64_t left_bytes = at->source->end_bytes - at->next_bytes;
    size_t read_bytes = left_bytes < space_bytes ? (size_t)left_bytes : space_bytes;
    spsh_status rc = spsh_io_read_exact(sorter->io, sorter->out.fd, at->data + at->end, read_bytes,
                                        at->next_bytes, sorter->directory, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__hasher_update(at->hasher, at->data + at->end, read_bytes);
    at->end += read_bytes;
    at->next_bytes += read_bytes;
    if (at->next_bytes == at->source->end_bytes &&
        spsh__hasher_digest_checksum(at->hasher) != at->source->checksum)
        return SPSH_FAIL_AT(err, SPSH_E_IO, at->source->begin_bytes,
                            "%s: a temporary file was changed after it was written",
                            sorter->directory);
    return SPSH_OK;
}

/* Bring the entry at begin into memory. *ret_end: the run has no more entries. */
static spsh_status load_entry(spsh_sorter *sorter, cursor *at, bool *ret_end, spsh_error *err)
{
    *ret_end = at->begin == at->end && at->next_bytes == at->source->end_bytes;
    if (*ret_end)
        return SPSH_OK;
    spsh_status rc = fill(sorter, at, ENTRY_HEAD_BYTES, err);
    if (rc == SPSH_OK)
        rc = fill(sorter, at, entry_bytes(at->data + at->begin), err);
    if (rc != SPSH_OK)
        return rc;
    const uint8_t *entry = at->data + at->begin;
    at->prefix = key_prefix(entry + ENTRY_HEAD_BYTES, spsh__load_u32le(entry));
    return SPSH_OK;
}

static bool cursor_before(const spsh_sorter *sorter, uint32_t a, uint32_t b)
{
    const cursor *x = &sorter->cursors[a];
    const cursor *y = &sorter->cursors[b];
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix;
    int order = compare_keys(x->data + x->begin, y->data + y->begin);
    return order != 0 ? order < 0 : a < b;
}

static void sift_cursor(spsh_sorter *sorter, size_t at)
{
    uint32_t *heap = sorter->heap;
    uint32_t moving = heap[at];
    for (size_t child = 2 * at + 1; child < sorter->heap_count; child = 2 * at + 1) {
        if (child + 1 < sorter->heap_count && cursor_before(sorter, heap[child + 1], heap[child]))
            child++;
        if (!cursor_before(sorter, heap[child], moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void close_merge(spsh_sorter *sorter)
{
    for (size_t i = 0; i < sorter->cursor_count; i++) {
        if (sorter->cursors[i].owns_data)
            spsh__free(&sorter->allocator, sorter->cursors[i].data);
        spsh__hasher_free(sorter->cursors[i].hasher);
    }
    spsh__free(&sorter->allocator, sorter->cursors);
    spsh__free(&sorter->allocator, sorter->heap);
    sorter->cursors = NULL;
    sorter->heap = NULL;
    sorter->cursor_count = 0;
    sorter->heap_count = 0;
}

/* Start reading runs [first, first + count) in order; the arena must be empty. */
static spsh_status open_merge(spsh_sorter *sorter, size_t first, size_t count, spsh_error *err)
{
    size_t share_bytes = sorter->arena_bytes / count;
    sorter->cursors = (cursor *)spsh__alloc_array(&sorter->allocator, count, sizeof(cursor));
    sorter->heap = (uint32_t *)spsh__alloc_array(&sorter->allocator, count, sizeof(uint32_t));
    if (sorter->cursors == NULL || sorter->heap == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter: merge of %zu runs", count);
    for (size_t i = 0; i < count; i++) {
        const run *source = &sorter->out.runs[first + i];
        cursor *at = &sorter->cursors[i];
        bool end = false;
        *at = (cursor){.data = sorter->arena + i * share_bytes,
                       .capacity_bytes = share_bytes,
                       .next_bytes = source->begin_bytes,
                       .source = source,
                       .hasher = spsh__hasher_new(&sorter->allocator)};
        sorter->cursor_count = i + 1;
        if (at->hasher == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter: merge of %zu runs", count);
        begin_run_checksum(at->hasher, source->begin_bytes);
        spsh_status rc = load_entry(sorter, at, &end, err);
        if (rc != SPSH_OK)
            return rc;
        sorter->heap[i] = (uint32_t)i;
    }
    sorter->heap_count = count; /* no run is empty */
    for (size_t i = count / 2; i > 0; i--)
        sift_cursor(sorter, i - 1);
    return SPSH_OK;
}

/* Advance past the smallest entry. */
static spsh_status advance(spsh_sorter *sorter, spsh_error *err)
{
    cursor *at = &sorter->cursors[sorter->heap[0]];
    bool end = false;
    at->begin += entry_bytes(at->data + at->begin);
    spsh_status rc = load_entry(sorter, at, &end, err);
    if (rc != SPSH_OK)
        return rc;
    if (end)
        sorter->heap[0] = sorter->heap[--sorter->heap_count];
    if (sorter->heap_count > 0)
        sift_cursor(sorter, 0);
    return SPSH_OK;
}

static spsh_status merge_group(spsh_sorter *sorter, output *into, size_t first, size_t count,
                               spsh_error *err)
{
    spsh_status rc = begin_run(sorter, into, err);
    if (rc == SPSH_OK)
        rc = open_merge(sorter, first, count, err);
    while (rc == SPSH_OK && sorter->heap_count > 0) {
        const cursor *at = &sorter->cursors[sorter->heap[0]];
        const uint8_t *entry = at->data + at->begin;
        rc = put(sorter, into, entry, entry_bytes(entry), err);
        if (rc == SPSH_OK)
            rc = advance(sorter, err);
    }
    if (rc == SPSH_OK)
        rc = end_run(sorter, into, err);
    close_merge(sorter);
    return rc;
}

static void close_output(spsh_sorter *sorter, output *out)
{
    if (out->fd >= 0)
        (void)sorter->io->close_fn(sorter->io->user, out->fd);
    spsh__free(&sorter->allocator, out->runs);
    *out = (output){.fd = -1};
}

/* Merge groups of runs until one merge can take them all. */
static spsh_status reduce_runs(spsh_sorter *sorter, spsh_error *err)
{
    size_t group_max = sorter->arena_bytes / READ_BYTES_MIN;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && sorter->out.run_count > group_max) {
        output into = {.fd = -1};
        size_t run_count = sorter->out.run_count;
        for (size_t first = 0; rc == SPSH_OK && first < run_count; first += group_max) {
            size_t left = run_count - first;
            rc = merge_group(sorter, &into, first, left < group_max ? left : group_max, err);
        }
        if (rc != SPSH_OK) {
            close_output(sorter, &into);
            return rc;
        }
        close_output(sorter, &sorter->out);
        sorter->out = into;
    }
    return rc;
}

static spsh_status end_adding(spsh_sorter *sorter, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    sorter->done_adding = true;
    if (sorter->out.run_count == 0) {
        sort_arena(sorter);
        return SPSH_OK;
    }
    rc = spill(sorter, err);
    if (rc == SPSH_OK)
        rc = reduce_runs(sorter, err);
    if (rc == SPSH_OK)
        rc = open_merge(sorter, 0, sorter->out.run_count, err);
    return rc;
}

static const uint8_t *next_from_arena(spsh_sorter *sorter)
{
    if (sorter->next_item == sorter->item_count)
        return NULL;
    return sorter->arena + sorter_items(sorter)[sorter->next_item++].offset_bytes;
}

static spsh_status next_entry(spsh_sorter *sorter, const uint8_t **ret_entry, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    *ret_entry = NULL;
    if (!sorter->done_adding)
        rc = end_adding(sorter, err);
    if (rc == SPSH_OK && sorter->cursors == NULL)
        *ret_entry = next_from_arena(sorter);
    if (rc != SPSH_OK || sorter->cursors == NULL)
        return rc;
    if (sorter->have_current && sorter->heap_count > 0)
        rc = advance(sorter, err);
    if (rc != SPSH_OK || sorter->heap_count == 0)
        return rc;
    sorter->have_current = true;
    const cursor *at = &sorter->cursors[sorter->heap[0]];
    *ret_entry = at->data + at->begin;
    return SPSH_OK;
}

/* ---- the interface ---- */

spsh_status spsh_sorter_open(const spsh_sorter_options *options, spsh_sorter **ret_sorter,
                             spsh_error *err)
{
    spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &opt, sizeof(opt), err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t memory_bytes = opt.memory_bytes == 0 ? MEMORY_BYTES_DEFAULT : opt.memory_bytes;
    if (memory_bytes < MEMORY_BYTES_MIN || memory_bytes > SIZE_MAX / 2)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "sorter: %llu bytes of memory are too few; at least %llu are needed",
                         (unsigned long long)memory_bytes, (unsigned long long)MEMORY_BYTES_MIN);
    const spsh_allocator allocator =
        opt.allocator == NULL ? *spsh_allocator_default() : *opt.allocator;
    spsh_sorter *sorter = (spsh_sorter *)spsh__new(&allocator, 1, sizeof(*sorter));
    if (sorter == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter");
    sorter->allocator = allocator;
    sorter->io = opt.io == NULL ? spsh_io_default() : opt.io;
    sorter->out.fd = -1;
    size_t write_bytes = (size_t)memory_bytes / 16;
    sorter->write_bytes = write_bytes < WRITE_BYTES_MAX ? write_bytes : WRITE_BYTES_MAX;
    sorter->arena_bytes = ((size_t)memory_bytes - sorter->write_bytes) & ~(size_t)63;
    sorter->arena = (uint8_t *)spsh__alloc(&allocator, sorter->arena_bytes);
    sorter->write_buffer = (uint8_t *)spsh__alloc(&allocator, sorter->write_bytes);
    sorter->hasher = spsh__hasher_new(&allocator);
    bool complete = sorter->arena != NULL && sorter->write_buffer != NULL && sorter->hasher != NULL;
    if (complete && opt.directory != NULL) {
        sorter->directory = spsh__string_copy(&allocator, opt.directory);
        complete = sorter->directory != NULL;
    }
    if (!complete) {
        spsh_sorter_free(sorter);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorter: %llu bytes",
                         (unsigned long long)memory_bytes);
    }
    *ret_sorter = sorter;
    return SPSH_OK;
}

static spsh_status add_entry(spsh_sorter *sorter, spsh_bytes key, spsh_bytes value, spsh_error *err)
{
    uint8_t head[ENTRY_HEAD_BYTES];
    size_t size_bytes = ENTRY_HEAD_BYTES + key.size_bytes + value.size_bytes;
    size_t taken_bytes = sorter->used_bytes + sorter->item_count * sizeof(item);
    spsh__store_u32le(head, (uint32_t)key.size_bytes);
    spsh__store_u32le(head + 4, (uint32_t)value.size_bytes);
    if (sorter->arena_bytes - taken_bytes < size_bytes + sizeof(item)) {
        spsh_status rc = spill(sorter, err);
        if (rc == SPSH_OK && sorter->arena_bytes < size_bytes + sizeof(item))
            return spill_one(sorter, head, key, value, err);
        if (rc != SPSH_OK)
            return rc;
    }
    uint8_t *entry = sorter->arena + sorter->used_bytes;
    memcpy(entry, head, sizeof(head));
    if (key.size_bytes > 0)
        memcpy(entry + ENTRY_HEAD_BYTES, key.data, key.size_bytes);
    if (value.size_bytes > 0)
        memcpy(entry + ENTRY_HEAD_BYTES + key.size_bytes, value.data, value.size_bytes);
    sorter->item_count++;
    *sorter_items(sorter) = (item){.prefix = key_prefix(entry + ENTRY_HEAD_BYTES, key.size_bytes),
                                   .offset_bytes = sorter->used_bytes};
    sorter->used_bytes += size_bytes;
    return SPSH_OK;
}

static spsh_status check_usable(const spsh_sorter *sorter, spsh_error *err)
{
    if (sorter->failed)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "sorter: an earlier call failed");
    return SPSH_OK;
}

spsh_status spsh_sorter_add(spsh_sorter *sorter, spsh_bytes key, spsh_bytes value, spsh_error *err)
{
    spsh_status rc = check_usable(sorter, err);
    if (rc != SPSH_OK)
        return rc;
    if (sorter->done_adding)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "sorter: entries cannot be added after the first call of next");
    if (key.size_bytes > KEY_BYTES_MAX || value.size_bytes > VALUE_BYTES_MAX)
        return SPSH_FAIL(
            err, SPSH_E_LIMIT,
            "sorter: a key of %zu bytes and a value of %zu bytes exceed the limits, %d and %d",
            key.size_bytes, value.size_bytes, (int)KEY_BYTES_MAX, (int)VALUE_BYTES_MAX);
    rc = add_entry(sorter, key, value, err);
    if (rc != SPSH_OK)
        sorter->failed = true;
    else
        sorter->entry_count++;
    return rc;
}

spsh_status spsh_sorter_next(spsh_sorter *sorter, spsh_bytes *ret_key, spsh_bytes *ret_value,
                             spsh_error *err)
{
    const uint8_t *entry = NULL;
    spsh_status rc = check_usable(sorter, err);
    if (rc != SPSH_OK)
        return rc;
    rc = next_entry(sorter, &entry, err);
    if (rc != SPSH_OK) {
        sorter->failed = true;
        return rc;
    }
    if (entry == NULL)
        return SPSH_E_END;
    size_t key_bytes = spsh__load_u32le(entry);
    *ret_key = (spsh_bytes){entry + ENTRY_HEAD_BYTES, key_bytes};
    *ret_value = (spsh_bytes){entry + ENTRY_HEAD_BYTES + key_bytes, spsh__load_u32le(entry + 4)};
    return SPSH_OK;
}

uint64_t spsh_sorter_count(const spsh_sorter *sorter)
{
    return sorter->entry_count;
}

void spsh_sorter_free(spsh_sorter *sorter)
{
    if (sorter == NULL)
        return;
    const spsh_allocator allocator = sorter->allocator;
    close_merge(sorter);
    close_output(sorter, &sorter->out);
    spsh__hasher_free(sorter->hasher);
    spsh__free(&allocator, sorter->write_buffer);
    spsh__free(&allocator, sorter->arena);
    spsh__free(&allocator, sorter->directory);
    spsh__free(&allocator, sorter);
}

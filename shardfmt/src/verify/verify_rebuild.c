/* verify_rebuild.c: rebuild the index from the blocks and compare it byte for byte with the stored
 * one.
 *
 * Page checksums find a damaged index, but not an index that was written wrong. So the tail of the
 * shard (sections, page table, footers) is written again, by the same code, into an I/O table that
 * stores nothing: the bytes are compared with the file. The root hash in the footers covers header
 * and block checksums, so all sealed bytes are compared.
 */
#include "verify_shard.h"

#define ULL(value_) ((unsigned long long)(value_))

enum { DIRECTORY_ENTRY_BYTES = 40 };

typedef struct compare_sink {
    const uint8_t *area;
    uint64_t area_offset, area_end;
    uint64_t first_difference; /* in the file; SPSH_OFFSET_NONE */
} compare_sink;

bool spsh__verify_section(const spsh__verify_file *file, uint32_t id, uint32_t element_bytes,
                          const uint8_t **ret_elements, uint64_t *ret_count)
{
    const spsh__footer *footer = &file->footer;
    for (uint32_t n = 0; file->area != NULL && n < footer->section_count; n++) {
        const uint8_t *entry = file->area + (size_t)n * DIRECTORY_ENTRY_BYTES;
        uint64_t offset = spsh__load_u64le(entry + 8);
        uint64_t count = spsh__load_u64le(entry + 16);
        if (spsh__load_u32le(entry) != id)
            continue;
        if (spsh__load_u32le(entry + 4) != element_bytes || offset < footer->section_area_offset)
            return false;
        offset -= footer->section_area_offset;
        if (offset > footer->section_area_bytes ||
            count > (footer->section_area_bytes - offset) / element_bytes)
            return false;
        *ret_elements = file->area + (size_t)offset;
        *ret_count = count;
        return true;
    }
    return false;
}

/* Which section holds a byte of the area, for people; 0: the directory, or padding. */
static uint32_t section_at(const spsh__verify_file *file, uint64_t offset_bytes)
{
    uint32_t id = 0;
    for (uint32_t n = 0; n < file->footer.section_count; n++) {
        const uint8_t *entry = file->area + (size_t)n * DIRECTORY_ENTRY_BYTES;
        if (spsh__load_u64le(entry + 8) <= offset_bytes)
            id = spsh__load_u32le(entry);
    }
    return id;
}

/* ---- the I/O table ---- */

static int sink_open(void *user, const char *path, int flags, mode_t mode)
{
    (void)user, (void)path, (void)flags, (void)mode;
    return 0;
}

static int sink_close(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static int sink_unlink(void *user, const char *path)
{
    (void)user, (void)path;
    return 0;
}

static void compare(compare_sink *sink, const uint8_t *data, size_t size, uint64_t offset)
{
    const uint8_t *stored = sink->area + (size_t)(offset - sink->area_offset);
    if (memcmp(stored, data, size) == 0)
        return;
    size_t at = 0;
    while (stored[at] == data[at])
        at++;
    if (offset + at < sink->first_difference)
        sink->first_difference = offset + at;
}

/* Sections are compared; the page table is bound by its checksum in the footer, and the footer by
 * spsh__footer in memory. */
static int64_t sink_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                           uint64_t offset_bytes)
{
    (void)fd;
    compare_sink *sink = (compare_sink *)user;
    const uint8_t *bytes = (const uint8_t *)src;
    uint64_t begin = offset_bytes > sink->area_offset ? offset_bytes : sink->area_offset;
    uint64_t end = offset_bytes + size_bytes;
    if (end > sink->area_end)
        end = sink->area_end;
    if (begin < end)
        compare(sink, bytes + (size_t)(begin - offset_bytes), (size_t)(end - begin), begin);
    return (int64_t)size_bytes;
}

/* The writer reads back the pages that sections share. Until the first difference, the file
 * contains the bytes that the writer wrote. After it the result does not matter. */
static int64_t sink_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    (void)fd;
    const compare_sink *sink = (const compare_sink *)user;
    if (offset_bytes < sink->area_offset || offset_bytes >= sink->area_end) {
        memset(dst, 0, size_bytes);
        return (int64_t)size_bytes;
    }
    uint64_t left = sink->area_end - offset_bytes;
    size_t size = left < size_bytes ? (size_t)left : size_bytes;
    memcpy(dst, sink->area + (size_t)(offset_bytes - sink->area_offset), size);
    return (int64_t)size;
}

/* ---- the comparison ---- */

static bool same_footer(const spsh__footer *a, const spsh__footer *b)
{
    uint8_t pages[2][SPSH__PAGE_BYTES];
    spsh__footer_encode(a, 0, pages[0]);
    spsh__footer_encode(b, 0, pages[1]);
    return memcmp(pages[0], pages[1], SPSH__PAGE_BYTES) == 0;
}

/* Return the offset of the first non-zero byte between sections or after the last one: the writer
 * never writes there. The directory is the rebuilt one by now. */
static uint64_t find_bad_gap(const spsh__verify_file *file)
{
    const spsh__footer *f = &file->footer;
    uint64_t used = (uint64_t)f->section_count * DIRECTORY_ENTRY_BYTES;
    for (uint32_t n = 0; n <= f->section_count; n++) {
        const uint8_t *entry = file->area + (size_t)n * DIRECTORY_ENTRY_BYTES;
        const bool last = n == f->section_count;
        uint64_t next =
            last ? f->section_area_bytes : spsh__load_u64le(entry + 8) - f->section_area_offset;
        for (uint64_t at = used; at < next && at < f->section_area_bytes; at++)
            if (file->area[at] != 0)
                return f->section_area_offset + at;
        if (!last)
            used = next + spsh__load_u64le(entry + 16) * spsh__load_u32le(entry + 4);
    }
    return SPSH_OFFSET_NONE;
}

static spsh_status report(spsh__shard_check *check, const compare_sink *sink,
                          const spsh__footer *footer, spsh_error *err)
{
    const spsh__verify_file *file = check->file;
    spsh_error why = SPSH_ERROR_INIT;
    if (sink->first_difference != SPSH_OFFSET_NONE) {
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, sink->first_difference,
                       "%s: the index at %llu (section %u) does not match the blocks", file->name,
                       ULL(sink->first_difference), section_at(file, sink->first_difference));
        return spsh__verify_refused(check->v, file, "index", 0, &why, err);
    }
    uint64_t offset = file->sealed_bytes - SPSH__FOOTERS_BYTES;
    if (memcmp(footer->root_hash, file->footer.root_hash, 16) != 0)
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, offset,
                       "%s: the root hash does not match header, blocks, and index", file->name);
    else
        spsh_error_set(&why, SPSH_E_CORRUPT, 0, offset, "%s: the footers do not match the blocks",
                       file->name);
    return spsh__verify_refused(check->v, file, "root hash", 16, &why, err);
}

spsh_status spsh__verify_rebuilt(spsh__shard_check *check, spsh_error *err)
{
    const spsh__verify_file *file = check->file;
    static const uint8_t zero = 0;
    compare_sink sink = {
        .area = file->area,
        .area_offset = file->footer.section_area_offset,
        .area_end = file->footer.page_table_offset,
        .first_difference = SPSH_OFFSET_NONE,
    };
    const spsh_io io = {
        .user = &sink,
        .open_fn = sink_open,
        .close_fn = sink_close,
        .pread_fn = sink_pread,
        .pwrite_fn = sink_pwrite,
        .unlink_fn = sink_unlink,
    };
    spsh_file_writer *writer = NULL;
    spsh__footer footer;
    spsh__header header = file->header;
    if (!file->header_ok) { /* reported; the sections can be compared without it */
        header = (spsh__header){.kind = SPSH__KIND_SHARD};
        memcpy(header.file_id, file->file_id, 16);
    }
    spsh_status rc = spsh_file_writer_open(&io, "", "index", 0, check->v->allocator, &writer, err);
    if (rc != SPSH_OK)
        return rc;
    /* The writer appends: as if header and blocks had been written. */
    rc = spsh_file_writer_write_at(writer, &zero, 1, sink.area_offset - 1, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_write(check->rebuilt, writer, &header, &footer, err);
    spsh_file_writer_free(writer);
    if (rc == SPSH_OK && sink.first_difference == SPSH_OFFSET_NONE)
        sink.first_difference = find_bad_gap(file);
    if (rc == SPSH_OK && (sink.first_difference != SPSH_OFFSET_NONE ||
                          (file->header_ok && !same_footer(&footer, &file->footer))))
        rc = report(check, &sink, &footer, err);
    return rc;
}

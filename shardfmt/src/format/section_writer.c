/* section_writer.c: directory, sections, page table, and footers, after the data that a file writer
 * already holds.
 *
 * All counts are known at open, so every section has its position from the start and all can grow
 * side by side. A section's buffer holds its part of one 64 KiB page, aligned to the page grid.
 * When the buffer is full and the section owns the whole page, the page's checksum is computed from
 * the buffer. Pages that sections share, at most one per section and border, are read back at the
 * end.
 */
#include "base/checksum.h"
#include "container.h"

enum {
    DIRECTORY_ENTRY_BYTES = 40,
    SECTION_ALIGNMENT = 64,
};

#define ULL(value_) ((unsigned long long)(value_))

typedef struct column {
    spsh__section section;
    uint64_t begin;  /* in the section area */
    uint64_t end;    /* begin + count * element_bytes */
    uint64_t next;   /* where the next element goes; the buffer's end */
    uint8_t *buffer; /* bytes [next - buffered, next), of one page */
    size_t buffered;
} column;

struct spsh__section_writer {
    spsh_file_writer *file;
    spsh__header header;
    spsh_allocator allocator;
    column *columns;
    uint32_t column_count;
    uint64_t area_offset;
    uint64_t area_bytes;
    uint64_t page_count;
    uint8_t *page_table; /* little-endian, with its padding */
    size_t page_table_bytes;
    uint8_t *page_done; /* a flag a page */
    uint8_t *page;      /* 64 KiB, for pages that are read back */
};

static void checksum_page(spsh__section_writer *w, uint64_t page, const uint8_t *data, size_t size)
{
    uint64_t offset = w->area_offset + page * SPSH__SECTION_PAGE;
    spsh__store_u64le(w->page_table + 8 * page,
                      spsh__checksum(w->header.file_id, offset, data, size));
    w->page_done[page] = 1;
}

static spsh_status flush(spsh__section_writer *w, column *c, spsh_error *err)
{
    uint64_t from = c->next - c->buffered;
    if (c->buffered == SPSH__SECTION_PAGE) /* never crosses a page border, so this is one page */
        checksum_page(w, from / SPSH__SECTION_PAGE, c->buffer, c->buffered);
    size_t size = c->buffered;
    c->buffered = 0;
    return spsh_file_writer_write_at(w->file, c->buffer, size, w->area_offset + from, err);
}

static spsh_status check_sections(const spsh__section *sections, uint32_t count, spsh_error *err)
{
    for (uint32_t n = 0; n < count; n++) {
        uint32_t width = sections[n].element_bytes;
        bool ascends = n == 0 || sections[n].id > sections[n - 1].id;
        if (!ascends || width == 0 || width > 16 || (width & (width - 1)) != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "section %u: ids must ascend, and widths must be 1, 2, 4, 8, or 16",
                             sections[n].id);
        if (sections[n].count > (UINT64_C(1) << 44) / width)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "section %u: %llu elements", sections[n].id,
                             ULL(sections[n].count));
    }
    return SPSH_OK;
}

static spsh_status place_columns(spsh__section_writer *w, const spsh__section *sections,
                                 spsh_error *err)
{
    uint64_t next = (uint64_t)w->column_count * DIRECTORY_ENTRY_BYTES;
    w->columns = (column *)spsh__new(&w->allocator, 1, (w->column_count + 1) * sizeof(*w->columns));
    if (w->columns == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "section writer");
    for (uint32_t n = 0; n < w->column_count; n++) {
        column *c = &w->columns[n];
        uint64_t size = sections[n].count * sections[n].element_bytes;
        next = spsh__align_up(next, SECTION_ALIGNMENT);
        c->section = sections[n];
        c->begin = next;
        c->next = next;
        next += size;
        c->end = next;
        if (size == 0)
            continue;
        c->buffer = (uint8_t *)spsh__alloc(
            &w->allocator, size < SPSH__SECTION_PAGE ? (size_t)size : SPSH__SECTION_PAGE);
        if (c->buffer == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "section writer");
    }
    w->area_bytes = spsh__align_up(next, SPSH__PAGE_BYTES);
    return SPSH_OK;
}

static spsh_status allocate_pages(spsh__section_writer *w, spsh_error *err)
{
    w->page_count = (w->area_bytes + SPSH__SECTION_PAGE - 1) / SPSH__SECTION_PAGE;
    w->page_table_bytes = (size_t)spsh__align_up(w->page_count * 8, SPSH__PAGE_BYTES);
    w->page_table = (uint8_t *)spsh__new(&w->allocator, 1, w->page_table_bytes + 1);
    w->page_done = (uint8_t *)spsh__new(&w->allocator, 1, (size_t)w->page_count + 1);
    w->page = (uint8_t *)spsh__alloc(&w->allocator, SPSH__SECTION_PAGE);
    if (w->page_table == NULL || w->page_done == NULL || w->page == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "section writer: %llu pages", ULL(w->page_count));
    return SPSH_OK;
}

static spsh_status write_directory(spsh__section_writer *w, spsh_error *err)
{
    size_t size = (size_t)w->column_count * DIRECTORY_ENTRY_BYTES; /* fits in one page of 64 KiB */
    memset(w->page, 0, size);
    for (uint32_t n = 0; n < w->column_count; n++) {
        uint8_t *entry = w->page + (size_t)n * DIRECTORY_ENTRY_BYTES;
        spsh__store_u32le(entry, w->columns[n].section.id);
        spsh__store_u32le(entry + 4, w->columns[n].section.element_bytes);
        spsh__store_u64le(entry + 8, w->area_offset + w->columns[n].begin);
        spsh__store_u64le(entry + 16, w->columns[n].section.count);
    }
    return spsh_file_writer_write_at(w->file, w->page, size, w->area_offset, err);
}

/* NOLINTNEXTLINE(readability-function-size): an array and its size belong side by side */
spsh_status spsh__section_writer_open(spsh_file_writer *file, const spsh__header *header,
                                      const spsh__section *sections, uint32_t section_count,
                                      const spsh_allocator *allocator,
                                      spsh__section_writer **ret_writer, spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    if (section_count > SPSH__SECTIONS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%u sections", section_count);
    spsh_status rc = check_sections(sections, section_count, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__section_writer *w = (spsh__section_writer *)spsh__new(allocator, 1, sizeof(*w));
    if (w == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "section writer");
    w->file = file;
    w->header = *header;
    w->allocator = *allocator;
    w->column_count = section_count;
    w->area_offset = spsh_file_writer_size(file);
    rc = place_columns(w, sections, err);
    if (rc == SPSH_OK)
        rc = allocate_pages(w, err);
    if (rc == SPSH_OK)
        rc = write_directory(w, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_writer = w;
    w = NULL;
out:
    spsh__section_writer_free(w);
    return rc;
}

static column *find_column(spsh__section_writer *w, uint32_t id)
{
    uint32_t low = 0;
    uint32_t high = w->column_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->columns[middle].section.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->column_count && w->columns[low].section.id == id ? &w->columns[low] : NULL;
}

spsh_status spsh__section_append(spsh__section_writer *writer, uint32_t id, const void *elements,
                                 uint64_t count, spsh_error *err)
{
    column *c = find_column(writer, id);
    if (c == NULL || count > (c->end - c->next) / c->section.element_bytes)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "section %u: %llu elements exceed the announced number", id, ULL(count));
    const uint8_t *from = (const uint8_t *)elements;
    uint64_t left = count * c->section.element_bytes;
    while (left > 0) {
        size_t space_bytes = SPSH__SECTION_PAGE - (size_t)(c->next % SPSH__SECTION_PAGE);
        size_t size = left < space_bytes ? (size_t)left : space_bytes;
        memcpy(c->buffer + c->buffered, from, size);
        c->buffered += size;
        c->next += size;
        from += size;
        left -= size;
        if (c->next % SPSH__SECTION_PAGE != 0 && c->next != c->end)
            continue;
        spsh_status rc = flush(writer, c, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Write the area's tail too, so that no byte depends on the content of a hole. The tail begins
 * after the last section that has bytes: an empty one may begin at the area's end. */
static spsh_status finish_area(spsh__section_writer *w, spsh_error *err)
{
    uint64_t end = (uint64_t)w->column_count * DIRECTORY_ENTRY_BYTES;
    for (uint32_t n = 0; n < w->column_count; n++) {
        if (w->columns[n].next != w->columns[n].end)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "section %u: fewer elements were written than announced",
                             w->columns[n].section.id);
        if (w->columns[n].end != w->columns[n].begin)
            end = w->columns[n].end;
    }
    memset(w->page, 0, (size_t)(w->area_bytes - end)); /* below a page and a section's alignment */
    spsh_status rc = spsh_file_writer_write_at(w->file, w->page, (size_t)(w->area_bytes - end),
                                               w->area_offset + end, err);
    for (uint64_t page = 0; page < w->page_count && rc == SPSH_OK; page++) {
        if (w->page_done[page])
            continue;
        uint64_t begin = page * SPSH__SECTION_PAGE;
        uint64_t left = w->area_bytes - begin;
        size_t size = left < SPSH__SECTION_PAGE ? (size_t)left : SPSH__SECTION_PAGE;
        rc = spsh_file_writer_read_at(w->file, w->page, size, w->area_offset + begin, err);
        if (rc == SPSH_OK)
            checksum_page(w, page, w->page, size);
    }
    return rc;
}

/* NOLINTNEXTLINE(readability-function-size): an array and its size belong side by side */
spsh_status spsh__section_writer_finish(spsh__section_writer *writer,
                                        const uint64_t *block_checksums, uint64_t block_count,
                                        uint64_t record_count, uint64_t utterance_count,
                                        spsh__footer *ret_footer, spsh_error *err)
{
    spsh__section_writer *w = writer;
    spsh_status rc = finish_area(w, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__footer footer = {
        .kind = w->header.kind,
        .section_count = w->column_count,
        .section_area_offset = w->area_offset,
        .section_area_bytes = w->area_bytes,
        .page_table_offset = w->area_offset + w->area_bytes,
        .page_table_bytes = w->page_table_bytes,
        .page_count = w->page_count,
        .block_count = block_count,
        .record_count = record_count,
        .utterance_count = utterance_count,
    };
    memcpy(footer.file_id, w->header.file_id, 16);
    footer.file_bytes = footer.page_table_offset + footer.page_table_bytes + SPSH__FOOTERS_BYTES;
    footer.page_table_checksum = spsh__checksum(footer.file_id, footer.page_table_offset,
                                                w->page_table, w->page_table_bytes);
    rc = spsh_file_writer_write_at(w->file, w->page_table, w->page_table_bytes,
                                   footer.page_table_offset, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__header_encode(&w->header, w->page);
    rc = spsh__root_hash(spsh__load_u64le(w->page + 8), block_checksums, block_count,
                         footer.page_table_checksum, &w->allocator, footer.root_hash, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__footer_encode(&footer, 0, w->page);
    spsh__footer_encode(&footer, 1, w->page + SPSH__PAGE_BYTES);
    rc = spsh_file_writer_write(w->file, w->page, SPSH__FOOTERS_BYTES, err);
    if (rc == SPSH_OK)
        *ret_footer = footer;
    return rc;
}

void spsh__section_writer_free(spsh__section_writer *writer)
{
    if (writer == NULL)
        return;
    const spsh_allocator allocator = writer->allocator;
    for (uint32_t n = 0; writer->columns != NULL && n < writer->column_count; n++)
        spsh__free(&allocator, writer->columns[n].buffer);
    spsh__free(&allocator, writer->columns);
    spsh__free(&allocator, writer->page_table);
    spsh__free(&allocator, writer->page_done);
    spsh__free(&allocator, writer->page);
    spsh__free(&allocator, writer);
}

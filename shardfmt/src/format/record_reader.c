/* record_reader.c: one record by parts. The head is read and checked at open; a payload page of 64
 * KiB is checked whenever bytes of it are handed out. Complete pages are read directly into the
 * caller's memory. Partial pages, and the last page with its padding, pass through a buffer that
 * keeps one page, because decoders read in small steps.
 */
#include "io/io_internal.h"
#include "record.h"
#include "shard_internal.h"

#define ULL(value_) ((unsigned long long)(value_))

struct spsh_record_reader {
    const spsh_shard *shard;
    spsh_allocator allocator;
    spsh__record_head head; /* points into head_data */
    uint64_t offset_bytes;
    uint8_t *head_data;
    spsh_seek_point *seek_points;
    uint8_t *page;        /* 64 KiB */
    uint32_t cached_page; /* UINT32_MAX: none */
};

/* Return whether index and head have the same values. */
static bool same_record(const spsh_record *a, const spsh_record *b)
{
    return a->payload_bytes == b->payload_bytes && a->samples == b->samples &&
           a->sample_rate_hz == b->sample_rate_hz && a->nominal_rate_hz == b->nominal_rate_hz &&
           a->channels == b->channels && a->codec == b->codec && a->format == b->format &&
           a->bits_per_sample == b->bits_per_sample && a->flags == b->flags &&
           memcmp(a->pcm_hash, b->pcm_hash, 16) == 0 &&
           memcmp(a->payload_hash, b->payload_hash, 16) == 0;
}

static spsh_status fail_disagree(const char *path, uint64_t record, uint64_t offset_bytes,
                                 spsh_error *err)
{
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                        "%s: record %llu at %llu: the index and the record header differ", path,
                        ULL(record), ULL(offset_bytes));
}

static spsh_status read_head(spsh_record_reader *r, uint64_t record, spsh_error *err)
{
    const spsh__container *c = spsh__shard_container(r->shard);
    const char *path = spsh__container_path(c);
    spsh_record index;
    spsh_record_place place;
    spsh_status rc = spsh_shard_record(r->shard, record, &index, &place, err);
    if (rc != SPSH_OK)
        return rc;
    r->offset_bytes = place.offset_bytes;
    r->head_data = (uint8_t *)spsh__alloc(&r->allocator, (size_t)place.head_bytes);
    if (r->head_data == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "record head of %llu bytes", ULL(place.head_bytes));
    rc = spsh_io_read_exact(spsh__shard_io(r->shard), spsh__container_fd(c), r->head_data,
                            (size_t)place.head_bytes, place.offset_bytes, path, err);
    uint32_t head_bytes = 0;
    if (rc == SPSH_OK)
        rc = spsh__record_head_size(r->head_data, place.offset_bytes, path, &head_bytes, err);
    if (rc == SPSH_OK && head_bytes != place.head_bytes)
        return fail_disagree(path, record, place.offset_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__record_head_decode(spsh_shard_info(r->shard)->file_id, place.offset_bytes,
                                      (spsh_bytes){r->head_data, (size_t)place.head_bytes}, path,
                                      &r->head, err);
    if (rc != SPSH_OK)
        return rc;
    if (r->head.ordinal != record || !same_record(&r->head.record, &index))
        return fail_disagree(path, record, place.offset_bytes, err);
    return SPSH_OK;
}

static spsh_status allocate(spsh_record_reader *r, spsh_error *err)
{
    size_t points = (size_t)r->head.record.seek_point_count;
    r->page = (uint8_t *)spsh__alloc(&r->allocator, SPSH__PAYLOAD_PAGE);
    if (points != 0)
        r->seek_points =
            (spsh_seek_point *)spsh__alloc_array(&r->allocator, points, sizeof(*r->seek_points));
    if (r->page == NULL || (points != 0 && r->seek_points == NULL))
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "record reader");
    spsh__record_seek_points(&r->head, r->seek_points);
    r->head.record.seek_points = r->seek_points;
    return SPSH_OK;
}

spsh_status spsh_record_reader_open(const spsh_shard *shard, uint64_t record,
                                    spsh_record_reader **ret_reader, spsh_error *err)
{
    const spsh_allocator *allocator = spsh__shard_allocator(shard);
    spsh_record_reader *r = (spsh_record_reader *)spsh__new(allocator, 1, sizeof(*r));
    if (r == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "record reader");
    r->shard = shard;
    r->allocator = *allocator;
    r->cached_page = UINT32_MAX;
    spsh_status rc = read_head(r, record, err);
    if (rc == SPSH_OK)
        rc = allocate(r, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_reader = r;
    r = NULL;
out:
    spsh_record_reader_close(r);
    return rc;
}

const spsh_record *spsh_record_reader_info(const spsh_record_reader *reader)
{
    return &reader->head.record;
}

/* Read pages [first, first + count) into dst and check each. dst has capacity for the padding of
 * the last page. */
static spsh_status read_pages(spsh_record_reader *r, uint32_t first, uint32_t count, uint8_t *dst,
                              spsh_error *err)
{
    const spsh__container *c = spsh__shard_container(r->shard);
    const char *path = spsh__container_path(c);
    uint64_t offset = r->offset_bytes + r->head.head_bytes + (uint64_t)first * SPSH__PAYLOAD_PAGE;
    size_t size = (size_t)(count - 1) * SPSH__PAYLOAD_PAGE +
                  spsh__record_page_bytes(&r->head, first + count - 1);
    spsh_status rc = spsh_io_read_exact(spsh__shard_io(r->shard), spsh__container_fd(c), dst, size,
                                        offset, path, err);
    for (uint32_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = spsh__record_page_check(spsh_shard_info(r->shard)->file_id, r->offset_bytes, &r->head,
                                     first + i, dst + (size_t)i * SPSH__PAYLOAD_PAGE, path, err);
    return rc;
}

static spsh_status load_page(spsh_record_reader *r, uint32_t page, spsh_error *err)
{
    if (r->cached_page == page)
        return SPSH_OK;
    r->cached_page = UINT32_MAX;
    spsh_status rc = read_pages(r, page, 1, r->page, err);
    if (rc == SPSH_OK)
        r->cached_page = page;
    return rc;
}

spsh_status spsh_record_reader_read(spsh_record_reader *reader, uint64_t offset_bytes, void *dst,
                                    size_t size_bytes, spsh_error *err)
{
    uint64_t payload_bytes = reader->head.record.payload_bytes;
    uint8_t *to = (uint8_t *)dst;
    if (offset_bytes > payload_bytes || size_bytes > payload_bytes - offset_bytes)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "payload bytes from %llu, %zu of them, are out of range: the record has %llu",
            ULL(offset_bytes), size_bytes, ULL(payload_bytes));
    while (size_bytes > 0) {
        uint32_t page = (uint32_t)(offset_bytes / SPSH__PAYLOAD_PAGE);
        size_t inside = (size_t)(offset_bytes % SPSH__PAYLOAD_PAGE);
        size_t size = SPSH__PAYLOAD_PAGE - inside;
        spsh_status rc = SPSH_OK;
        if (inside == 0 && size_bytes >= SPSH__PAYLOAD_PAGE) {
            uint32_t count = (uint32_t)(size_bytes / SPSH__PAYLOAD_PAGE);
            size = (size_t)count * SPSH__PAYLOAD_PAGE;
            rc = read_pages(reader, page, count, to, err);
        } else {
            size = size < size_bytes ? size : size_bytes;
            rc = load_page(reader, page, err);
            if (rc == SPSH_OK)
                memcpy(to, reader->page + inside, size);
        }
        if (rc != SPSH_OK)
            return rc;
        to += size;
        offset_bytes += size;
        size_bytes -= size;
    }
    return SPSH_OK;
}

static spsh_status source_read(void *user, uint64_t offset_bytes, void *dst, size_t size_bytes,
                               size_t *ret_bytes, spsh_error *err)
{
    spsh_record_reader *reader = (spsh_record_reader *)user;
    uint64_t payload_bytes = reader->head.record.payload_bytes;
    uint64_t left = offset_bytes < payload_bytes ? payload_bytes - offset_bytes : 0;
    size_t size = size_bytes < left ? size_bytes : (size_t)left;
    spsh_status rc = SPSH_OK;
    if (size != 0)
        rc = spsh_record_reader_read(reader, offset_bytes, dst, size, err);
    if (rc == SPSH_OK)
        *ret_bytes = size;
    return rc;
}

spsh_audio_source spsh_record_reader_source(spsh_record_reader *reader)
{
    return (spsh_audio_source){source_read, reader, reader->head.record.payload_bytes};
}

void spsh_record_reader_close(spsh_record_reader *reader)
{
    if (reader == NULL)
        return;
    const spsh_allocator allocator = reader->allocator;
    spsh__free(&allocator, reader->head_data);
    spsh__free(&allocator, reader->seek_points);
    spsh__free(&allocator, reader->page);
    spsh__free(&allocator, reader);
}

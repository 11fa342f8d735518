/* audio_vorbis.c: the three headers of an Ogg Vorbis stream, checked by libvorbis, and the head
 * that libsndfile reads instead of them. The only source that includes libogg and libvorbis.
 *
 *     identification, alone on its page | comments | setup | audio, from the start of a page
 *
 * If libsndfile (1.2.0 to 1.2.2 at least) cannot read these headers, it leaks some kilobytes per
 * file: it does not free the memory of vorbis_info_init and vorbis_comment_init. So libsndfile sees
 * no header that libvorbis rejects and no incomplete one, and reads them from memory, where no read
 * can fail.
 *
 * The head is composed anew: identification and setup unchanged, the comments empty, the pages
 * numbered so that the first page of audio follows. Any other data on the header pages is omitted:
 * audio must begin on a new page, and libsndfile skips such data too.
 */
#include "audio_internal.h"
#include "base/buffer.h"

#include <ogg/ogg.h>
#include <vorbis/codec.h>

/* Comments may hold pictures. */
#define HEADERS_BYTES_MAX (UINT64_C(16) << 20)

#define HEADERS 3

typedef struct headers {
    ogg_sync_state sync;
    ogg_stream_state from, to; /* packets of the source, pages of the head */
    vorbis_info info;
    vorbis_comment comment;
    uint64_t fed_bytes;  /* bytes of the source fed to libogg */
    uint64_t used_bytes; /* offset after the last page taken */
    uint32_t sequence;   /* sequence number of that page */
    uint32_t count;      /* headers found */
    uint32_t pages;      /* page count of the head */
    spsh__buffer *head;
    const spsh_allocator *allocator;
} headers;

static spsh_status fail_memory(spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "Vorbis: headers");
}

/* The next page; headers->fed_bytes moves on. The pages up to end_bytes are known to be intact. */
static spsh_status next_page(headers *h, spsh__audio_window *window, uint64_t end_bytes,
                             ogg_page *ret_page, spsh_error *err)
{
    while (ogg_sync_pageout(&h->sync, ret_page) != 1) {
        spsh_bytes bytes = {NULL, 0};
        const uint64_t left = end_bytes - h->fed_bytes;
        if (left == 0)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, h->used_bytes,
                                "Vorbis: the stream ends after %u of %d headers", h->count,
                                HEADERS);
        if (h->fed_bytes >= HEADERS_BYTES_MAX)
            return SPSH_FAIL_AT(err, SPSH_E_LIMIT, h->used_bytes,
                                "Vorbis: more than %llu bytes of headers",
                                (unsigned long long)HEADERS_BYTES_MAX);
        spsh_status rc = spsh__window_get(
            window, h->fed_bytes, left < SPSH__WINDOW_BYTES ? (size_t)left : SPSH__WINDOW_BYTES,
            &bytes, err);
        if (rc != SPSH_OK)
            return rc;
        if (bytes.size_bytes == 0)
            return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, h->fed_bytes,
                                "Vorbis: the source has become shorter");
        char *buffer = ogg_sync_buffer(&h->sync, (long)bytes.size_bytes);
        if (buffer == NULL)
            return fail_memory(err);
        memcpy(buffer, bytes.data, bytes.size_bytes);
        (void)ogg_sync_wrote(&h->sync, (long)bytes.size_bytes);
        h->fed_bytes += bytes.size_bytes;
    }
    h->used_bytes += (uint64_t)ret_page->header_len + (uint64_t)ret_page->body_len;
    h->sequence = (uint32_t)ogg_page_pageno(ret_page);
    return SPSH_OK;
}

/* Packets wait in headers->to until a page ends with the last of them. */
static spsh_status write_pages(headers *h, spsh_error *err)
{
    ogg_page page;
    while (ogg_stream_flush(&h->to, &page) != 0) {
        spsh_status rc =
            spsh__buffer_append(h->head, h->allocator, page.header, (size_t)page.header_len, err);
        if (rc == SPSH_OK)
            rc = spsh__buffer_append(h->head, h->allocator, page.body, (size_t)page.body_len, err);
        if (rc != SPSH_OK)
            return rc;
        h->pages++;
    }
    return SPSH_OK;
}

static spsh_status take_header(headers *h, ogg_packet *packet, spsh_error *err)
{
    /* No vendor, no comments, the framing bit. */
    static unsigned char no_comments[16] = {3, 'v', 'o', 'r', 'b', 'i', 's', 0,
                                            0, 0,   0,   0,   0,   0,   0,   1};
    errno = 0;
    const int refused = vorbis_synthesis_headerin(&h->info, &h->comment, packet);
    if (refused != 0 && spsh__library_lacks_memory())
        return fail_memory(err);
    if (refused != 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Vorbis: libvorbis refuses header %u: code %d",
                            h->count + 1, refused);
    ogg_packet copy = {.packet = packet->packet, .bytes = packet->bytes, .b_o_s = h->count == 0};
    if (h->count == 1) {
        copy.packet = no_comments;
        copy.bytes = sizeof(no_comments);
    }
    if (ogg_stream_packetin(&h->to, &copy) != 0)
        return fail_memory(err);
    h->count++;
    return h->count == 2 ? SPSH_OK : write_pages(h, err);
}

static spsh_status read_headers(headers *h, spsh__audio_window *window, uint64_t end_bytes,
                                spsh_error *err)
{
    while (h->count < HEADERS) {
        ogg_page page;
        ogg_packet packet;
        const bool first = h->used_bytes == 0;
        spsh_status rc = next_page(h, window, end_bytes, &page, err);
        if (rc != SPSH_OK)
            return rc;
        if (first && (ogg_stream_reset_serialno(&h->from, ogg_page_serialno(&page)) != 0 ||
                      ogg_stream_reset_serialno(&h->to, ogg_page_serialno(&page)) != 0))
            return fail_memory(err);
        errno = 0;
        if (ogg_stream_pagein(&h->from, &page) != 0)
            return spsh__library_lacks_memory() ? fail_memory(err)
                                                : SPSH_FAIL_AT(err, SPSH_E_AUDIO, h->used_bytes,
                                                               "Vorbis: libogg refuses a page");
        int found = 1;
        while (rc == SPSH_OK && h->count < HEADERS && found != 0) {
            found = ogg_stream_packetout(&h->from, &packet);
            if (found < 0)
                return SPSH_FAIL_AT(err, SPSH_E_AUDIO, h->used_bytes,
                                    "Vorbis: a hole in the headers");
            if (found > 0)
                rc = take_header(h, &packet, err);
        }
        if (rc != SPSH_OK)
            return rc;
        if (first && h->count != 1)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0,
                                "Vorbis: the first page holds %u headers, one is expected",
                                h->count);
    }
    return SPSH_OK;
}

/* The page after the head has the number after headers->sequence. */
static void number_pages(const headers *h)
{
    uint8_t *page = h->head->data;
    for (uint32_t number = h->sequence + 1 - h->pages; number != h->sequence + 1; number++) {
        size_t size_bytes = 27 + (size_t)page[26];
        for (uint32_t i = 0; i < page[26]; i++)
            size_bytes += page[27 + i];
        spsh__store_u32le(page + 18, number);
        spsh__ogg_store_crc(page, size_bytes);
        page += size_bytes;
    }
}

spsh_status spsh__vorbis_compose(spsh__audio_window *window, const spsh_allocator *allocator,
                                 spsh__stream_extent *extent, spsh__buffer *head, spsh_error *err)
{
    headers h = {.head = head, .allocator = allocator};
    (void)ogg_sync_init(&h.sync);
    vorbis_info_init(&h.info);
    vorbis_comment_init(&h.comment);
    spsh_status rc = SPSH_OK;
    if (ogg_stream_init(&h.from, 0) != 0 || ogg_stream_init(&h.to, 0) != 0)
        rc = fail_memory(err);
    if (rc == SPSH_OK)
        rc = read_headers(&h, window, extent->end_bytes, err);
    if (rc == SPSH_OK) {
        number_pages(&h);
        extent->begin_bytes = h.used_bytes;
    }
    (void)ogg_stream_clear(&h.to);
    (void)ogg_stream_clear(&h.from);
    (void)ogg_sync_clear(&h.sync);
    vorbis_comment_clear(&h.comment);
    vorbis_info_clear(&h.info);
    return rc;
}

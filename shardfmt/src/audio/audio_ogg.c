/* audio_ogg.c: Ogg pages: the kind of a stream, its stated length, and whether it is complete.
 *
 *     "OggS" u8 0, u8 flags (1 continued, 2 first, 4 last), i64 granule, u32 serial, u32 sequence,
 *     u32 CRC-32, u8 n, n bytes of segment lengths, then the segments
 *
 * A file is one logical stream whose pages follow each other without a gap, each with its CRC. The
 * last page has flag 4, or ends with a complete packet: recorders that write as they go never set
 * the flag. The granule position of the last page is the length: for Opus in samples of 48 kHz with
 * the pre-skip in front, for Vorbis in samples. All pages are checked before a library sees the
 * file, and the library gets only the intact pages.
 *
 * Opus streams that were cut out of longer ones, or that began late, do not begin at position 0.
 * The first page with audio states the position of its end, so its packets give the position of its
 * begin (RFC 7845, section 4.5). The pre-skip comes after it. libsndfile loses samples of streams
 * with odd positions, so it sees corrected ones.
 */
#include "audio_internal.h"

#include <stdio.h>

#define PAGE_HEAD_BYTES 27
#define FLAGS_AT        5
#define GRANULE_AT      6
#define CRC_AT          22
#define PAGE_BYTES_MAX  (PAGE_HEAD_BYTES + 255 + 255 * 255)
#define FLAG_FIRST      2
#define FLAG_LAST       4
#define GRANULE_NONE    UINT64_MAX
#define OPUS_RATE_HZ    48000
#define OPUS_PACKET_MAX 5760 /* samples of 48 kHz */

typedef struct ogg_page {
    uint8_t flags;
    uint64_t granule;
    uint32_t serial;
    uint32_t sequence;
    uint64_t offset_bytes;
    uint32_t size_bytes; /* head, lacing and body */
    uint32_t head_bytes; /* head and lacing */
    uint32_t crc;
    bool ends_packet;  /* at least one */
    bool has_segments; /* else no packet begins or ends here */
    bool is_open;      /* the last packet continues on the next page */
} ogg_page;

typedef struct ogg_crc_table {
    uint32_t values[256];
} ogg_crc_table;

/* CRC-32 with polynomial 0x04c11db7, most significant bit first, no inversion. */
static void crc_make(ogg_crc_table *table)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & UINT32_C(0x80000000)) != 0 ? crc << 1 ^ UINT32_C(0x04c11db7) : crc << 1;
        table->values[i] = crc;
    }
}

static uint32_t crc_update(const ogg_crc_table *table, uint32_t crc, const uint8_t *data,
                           size_t size)
{
    for (size_t i = 0; i < size; i++)
        crc = crc << 8 ^ table->values[crc >> 24 ^ data[i]];
    return crc;
}

/* Read one page and check its CRC. *ret_is_page is false if no page is there or it is damaged. */
static spsh_status read_page(spsh__audio_window *window, const ogg_crc_table *table,
                             uint64_t offset, ogg_page *ret_page, bool *ret_is_page,
                             spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    *ret_is_page = false;
    spsh_status rc = spsh__window_get(window, offset, PAGE_HEAD_BYTES + 255, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes < PAGE_HEAD_BYTES || memcmp(bytes.data, "OggS", 5) != 0)
        return SPSH_OK;
    ogg_page page = {.offset_bytes = offset,
                     .flags = bytes.data[FLAGS_AT],
                     .granule = spsh__load_u64le(bytes.data + 6),
                     .serial = spsh__load_u32le(bytes.data + 14),
                     .sequence = spsh__load_u32le(bytes.data + 18),
                     .crc = spsh__load_u32le(bytes.data + CRC_AT)};
    uint32_t lacing = bytes.data[26];
    page.head_bytes = PAGE_HEAD_BYTES + lacing;
    page.size_bytes = page.head_bytes;
    if (bytes.size_bytes < page.head_bytes)
        return SPSH_OK;
    page.has_segments = lacing > 0;
    for (uint32_t i = 0; i < lacing; i++) {
        page.size_bytes += bytes.data[PAGE_HEAD_BYTES + i];
        page.is_open = bytes.data[PAGE_HEAD_BYTES + i] == 255;
        page.ends_packet = page.ends_packet || !page.is_open;
    }
    static const uint8_t no_crc[4] = {0};
    uint32_t crc = crc_update(table, 0, bytes.data, CRC_AT);
    crc = crc_update(table, crc, no_crc, 4);
    crc = crc_update(table, crc, bytes.data + 26, page.head_bytes - 26);
    for (uint32_t done = page.head_bytes; done < page.size_bytes;) {
        rc = spsh__window_get(window, offset + done, page.size_bytes - done, &bytes, err);
        if (rc != SPSH_OK)
            return rc;
        if (bytes.size_bytes == 0)
            return SPSH_OK;
        crc = crc_update(table, crc, bytes.data, bytes.size_bytes);
        done += (uint32_t)bytes.size_bytes;
    }
    *ret_is_page = crc == page.crc;
    *ret_page = page;
    return SPSH_OK;
}

void spsh__ogg_store_crc(uint8_t *page, size_t size_bytes)
{
    ogg_crc_table table;
    crc_make(&table);
    memset(page + CRC_AT, 0, 4);
    spsh__store_u32le(page + CRC_AT, crc_update(&table, 0, page, size_bytes));
}

void spsh__ogg_patch(const spsh__stream_extent *extent, uint64_t offset_bytes, uint8_t *bytes,
                     size_t size_bytes)
{
    for (size_t k = 0; k < SPSH__OGG_PATCHES; k++) {
        const spsh__ogg_page_patch *patch = &extent->patches[k];
        for (uint64_t i = FLAGS_AT; patch->is_used && i < CRC_AT + 4; i++) {
            const uint64_t at = patch->offset_bytes + i - offset_bytes;
            if (at < size_bytes) /* an offset before the copy wraps to a large one */
                bytes[at] = patch->head[i];
        }
    }
}

/* Change the flags and the position of a page. The CRC is linear: a change adds the CRC of a page of
 * zeros with only that change. */
static void patch_page(spsh__ogg_page_patch *patch, const ogg_crc_table *table,
                       const ogg_page *page, uint8_t flags, uint64_t granule)
{
    uint8_t change[GRANULE_AT + 8] = {0};
    static const uint8_t zero = 0;
    change[FLAGS_AT] = flags ^ page->flags;
    spsh__store_u64le(change + GRANULE_AT, granule ^ page->granule);
    uint32_t crc = crc_update(table, 0, change, sizeof(change));
    for (uint32_t i = sizeof(change); i < page->size_bytes; i++)
        crc = crc_update(table, crc, &zero, 1);
    *patch = (spsh__ogg_page_patch){.is_used = true, .offset_bytes = page->offset_bytes};
    patch->head[FLAGS_AT] = flags;
    spsh__store_u64le(patch->head + GRANULE_AT, granule);
    spsh__store_u32le(patch->head + GRANULE_AT + 8, page->serial);
    spsh__store_u32le(patch->head + GRANULE_AT + 12, page->sequence);
    spsh__store_u32le(patch->head + CRC_AT, page->crc ^ crc);
}

static spsh_status take_opus(spsh_bytes packet, spsh_audio_info *info, uint32_t *ret_pre_skip,
                             spsh_error *err)
{
    if (packet.size_bytes < 19 || (packet.data[8] & 0xf0) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Opus: head of %zu bytes, version %u",
                            packet.size_bytes, packet.size_bytes > 8 ? packet.data[8] : 0u);
    info->codec = SPSH_CODEC_OPUS;
    info->channels = packet.data[9];
    *ret_pre_skip = spsh__load_u16le(packet.data + 10);
    info->nominal_rate_hz = spsh__load_u32le(packet.data + 12);
    if (info->nominal_rate_hz == 0)
        info->nominal_rate_hz = OPUS_RATE_HZ;
    info->sample_rate_hz = OPUS_RATE_HZ;
    return SPSH_OK;
}

static spsh_status take_vorbis(spsh_bytes packet, spsh_audio_info *info, spsh_error *err)
{
    if (packet.size_bytes < 30 || spsh__load_u32le(packet.data + 7) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Vorbis: identification header of %zu bytes",
                            packet.size_bytes);
    info->codec = SPSH_CODEC_VORBIS;
    info->channels = packet.data[11];
    info->sample_rate_hz = spsh__load_u32le(packet.data + 12);
    info->nominal_rate_hz = info->sample_rate_hz;
    return SPSH_OK;
}

/* Check the first page: one stream of a supported kind. */
static spsh_status take_head(spsh__audio_window *window, const ogg_crc_table *table,
                             ogg_page *ret_page, spsh_audio_info *info, uint32_t *ret_pre_skip,
                             spsh_error *err)
{
    spsh_bytes bytes = {NULL, 0};
    bool is_page = false;
    *ret_pre_skip = 0;
    spsh_status rc = read_page(window, table, 0, ret_page, &is_page, err);
    if (rc != SPSH_OK)
        return rc;
    if (!is_page || (ret_page->flags & FLAG_FIRST) == 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Ogg: the first page is damaged");
    rc = spsh__window_get(window, ret_page->head_bytes, ret_page->size_bytes - ret_page->head_bytes,
                          &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    *info = (spsh_audio_info){.format = SPSH_SAMPLE_I16, .samples = SPSH_SAMPLES_UNKNOWN};
    if (bytes.size_bytes >= 8 && memcmp(bytes.data, "OpusHead", 8) == 0)
        rc = take_opus(bytes, info, ret_pre_skip, err);
    else if (bytes.size_bytes >= 7 && memcmp(bytes.data, "\x01vorbis", 7) == 0)
        rc = take_vorbis(bytes, info, err);
    else
        rc = SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, 0, "Ogg: neither Opus nor Vorbis");
    return rc == SPSH_OK ? spsh__audio_check_info(info, err) : rc;
}

/* Samples of an Opus packet, from its first two bytes (RFC 6716, section 3.1). */
static uint32_t opus_samples(spsh_bytes packet)
{
    static const uint16_t silk[] = {480, 960, 1920, 2880};
    static const uint16_t celt[] = {120, 240, 480, 960};
    if (packet.size_bytes == 0)
        return 0;
    const uint32_t kind = packet.data[0] >> 3;
    uint32_t frames = (packet.data[0] & 3) == 0 ? 1 : 2;
    if ((packet.data[0] & 3) == 3)
        frames = packet.size_bytes < 2 ? 0 : packet.data[1] & 63u;
    const uint32_t samples = kind < 12   ? silk[kind & 3]
                             : kind < 16 ? silk[kind & 1]
                                         : celt[kind & 3];
    return frames * samples <= OPUS_PACKET_MAX ? frames * samples : 0;
}

/* The sum of samples of packets, the last of which may continue on the next page. */
typedef struct opus_sum {
    uint64_t samples;
    uint32_t last_samples; /* samples of the last packet that has ended */
    uint32_t open_samples; /* samples of the packet that has not ended */
    bool is_open;
    bool is_audio; /* the comments have ended */
} opus_sum;

/* Add the packets that end on a page. */
static spsh_status add_page(spsh__audio_window *window, const ogg_page *page, opus_sum *sum,
                            spsh_error *err)
{
    uint8_t lacing[255] = {0};
    spsh_bytes bytes = {NULL, 0};
    const uint32_t count = page->head_bytes - PAGE_HEAD_BYTES;
    uint64_t offset = page->offset_bytes + PAGE_HEAD_BYTES;
    spsh_status rc = spsh__window_get(window, offset, count, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(lacing, bytes.data, bytes.size_bytes);
    offset += count;
    for (uint32_t i = 0; sum->is_audio && i < count; offset += lacing[i++]) {
        if (!sum->is_open) {
            rc = spsh__window_get(window, offset, lacing[i] < 2 ? lacing[i] : 2, &bytes, err);
            if (rc != SPSH_OK)
                return rc;
            sum->open_samples = opus_samples(bytes);
        }
        sum->is_open = lacing[i] == 255;
        sum->samples += sum->is_open ? 0 : sum->open_samples;
        sum->last_samples = sum->is_open ? sum->last_samples : sum->open_samples;
    }
    sum->is_audio = sum->is_audio || page->ends_packet;
    return SPSH_OK;
}

/* Find the next page on which audio ends. page: the page before. */
static spsh_status next_audio(spsh__audio_window *window, const ogg_crc_table *table,
                              ogg_page *page, opus_sum *sum, bool *ret_is_page, spsh_error *err)
{
    bool was_audio = false;
    spsh_status rc = SPSH_OK;
    do {
        rc =
            read_page(window, table, page->offset_bytes + page->size_bytes, page, ret_is_page, err);
        was_audio = sum->is_audio;
        if (rc == SPSH_OK && *ret_is_page)
            rc = add_page(window, page, sum, err);
    } while (rc == SPSH_OK && *ret_is_page && !(was_audio && page->ends_packet));
    return rc;
}

/* Find the position at which the stream begins. first: the first page of the file. The walk reports
 * damaged pages. ffmpeg may write a late position on the first page with audio only: no page may
 * state fewer samples than its packets have, unless it is the last one. */
static spsh_status find_begin(spsh__audio_window *window, const ogg_crc_table *table,
                              const ogg_page *first, spsh__stream_extent *extent, spsh_error *err)
{
    ogg_page page = *first;
    opus_sum sum = {.samples = 0};
    bool is_page = false;
    spsh_status rc = next_audio(window, table, &page, &sum, &is_page, err);
    if (rc != SPSH_OK || !is_page || page.granule > INT64_MAX || page.granule <= sum.samples)
        return rc;
    extent->begin_sample = page.granule - sum.samples;
    const ogg_page begin = page;
    const uint64_t begin_samples = sum.samples;
    if ((page.flags & FLAG_LAST) == 0)
        rc = next_audio(window, table, &page, &sum, &is_page, err);
    if (rc != SPSH_OK)
        return rc;
    const bool is_only = page.offset_bytes == begin.offset_bytes;
    const bool is_off = is_page && !is_only && (page.flags & FLAG_LAST) == 0 &&
                        page.granule <= INT64_MAX && page.granule >= sum.samples &&
                        page.granule - sum.samples < extent->begin_sample;
    if (is_off)
        extent->begin_sample = page.granule - sum.samples;
    if (is_only || is_off)
        patch_page(&extent->patches[0], table, &begin, begin.flags,
                   begin_samples + (is_off ? extent->begin_sample : 0));
    return SPSH_OK;
}

static void explain(spsh__stream_extent *extent, const char *what, uint64_t offset)
{
    extent->is_clean = false;
    (void)snprintf(extent->detail, sizeof(extent->detail), "Ogg: %s at byte %llu", what,
                   (unsigned long long)offset);
}

/* Offset at which the search of the tail begins: the tail contains the last page. */
static spsh_status find_tail(spsh__audio_window *window, const ogg_crc_table *table,
                             uint64_t *offset, spsh_error *err)
{
    uint64_t size = window->source->size_bytes;
    if (size <= *offset + PAGE_BYTES_MAX)
        return SPSH_OK;
    uint64_t begin = size - PAGE_BYTES_MAX;
    for (uint64_t at = begin; at < size;) {
        spsh_bytes bytes = {NULL, 0};
        ogg_page page = {.flags = 0};
        bool is_page = false;
        spsh_status rc = spsh__window_get(window, at, SPSH__WINDOW_BYTES, &bytes, err);
        if (rc != SPSH_OK)
            return rc;
        const uint8_t *found = (const uint8_t *)memmem(bytes.data, bytes.size_bytes, "OggS", 4);
        if (found == NULL) {
            at += bytes.size_bytes > 3 ? bytes.size_bytes - 3 : SPSH__WINDOW_BYTES;
            continue;
        }
        at += (uint64_t)(found - bytes.data);
        rc = read_page(window, table, at, &page, &is_page, err);
        if (rc != SPSH_OK)
            return rc;
        if (is_page) {
            *offset = at;
            return SPSH_OK;
        }
        at++;
    }
    *offset = size;
    return SPSH_OK;
}

/* Judge a stream whose intact pages end at offset without an end-of-stream flag. libsndfile rejects
 * an Opus stream without it if the last page trims the last packet. */
static void judge_end(const ogg_crc_table *table, const ogg_page *last, bool is_open,
                      uint64_t offset, spsh__stream_extent *extent)
{
    if (is_open) {
        explain(extent, "the file ends inside a packet", offset);
    } else if (extent->samples == 0) {
        explain(extent, "the stream ends before its audio", offset);
    } else {
        extent->lacks_end_flag = true;
    }
    if (extent->lacks_end_flag && extent->patches[0].offset_bytes != last->offset_bytes)
        patch_page(&extent->patches[1], table, last, last->flags | FLAG_LAST, last->granule);
}

/* Correct the position of the last page if it is past the end by less than a packet. So no packet is
 * missing: ffmpeg writes such positions. */
static void judge_surplus(const opus_sum *sum, spsh__stream_extent *extent)
{
    const uint64_t end = extent->begin_sample + sum->samples;
    if (extent->samples > end && extent->samples - end < sum->last_samples)
        extent->samples = end;
}

/* Follows the pages from offset to the end of the stream. */
static spsh_status walk(spsh__audio_window *window, const ogg_crc_table *table, uint64_t offset,
                        const ogg_page *first, spsh__stream_extent *extent, spsh_error *err)
{
    ogg_page page = *first;
    uint64_t granule = GRANULE_NONE;
    uint32_t sequence = first->sequence + 1;
    bool is_first = true;
    bool is_open = false;
    opus_sum sum = {.samples = 0};
    extent->is_clean = true;
    while (offset < window->source->size_bytes) {
        ogg_page next = {.flags = 0};
        bool is_page = false;
        spsh_status rc = read_page(window, table, offset, &next, &is_page, err);
        if (rc != SPSH_OK)
            return rc;
        if (is_page && (next.serial != first->serial || (next.flags & FLAG_FIRST) != 0))
            return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, offset,
                                "Ogg: more than one stream in the file");
        if ((page.flags & FLAG_LAST) != 0) {
            explain(extent, "something after the last page", offset);
            break;
        }
        if (!is_page) {
            explain(extent, "a page that is cut or damaged", offset);
            break;
        }
        if (!is_first && next.sequence != sequence) {
            explain(extent, "a page is missing", offset);
            break;
        }
        is_first = false;
        page = next;
        sequence = next.sequence + 1;
        is_open = next.has_segments ? next.is_open : is_open;
        if (extent->counts_packets)
            rc = add_page(window, &next, &sum, err);
        if (rc != SPSH_OK)
            return rc;
        if (next.ends_packet && next.granule != GRANULE_NONE)
            granule = next.granule;
        offset += next.size_bytes;
    }
    extent->end_bytes = offset;
    extent->samples = granule == GRANULE_NONE ? 0 : granule;
    if (extent->is_clean && extent->counts_packets && (page.flags & FLAG_LAST) != 0)
        judge_surplus(&sum, extent);
    if (extent->is_clean && (page.flags & FLAG_LAST) == 0)
        judge_end(table, &page, is_open, offset, extent);
    return SPSH_OK;
}

spsh_status spsh__ogg_parse(spsh__audio_window *window, bool head_only, spsh_audio_info *ret_info,
                            spsh__stream_extent *ret_extent, spsh_error *err)
{
    ogg_crc_table table;
    ogg_page first = {.flags = 0};
    spsh__stream_extent extent = {.is_clean = true};
    crc_make(&table);
    spsh_status rc = take_head(window, &table, &first, ret_info, &extent.pre_skip, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t offset = first.size_bytes;
    extent.head_bytes = first.size_bytes;
    if (ret_info->codec == SPSH_CODEC_OPUS) {
        rc = find_begin(window, &table, &first, &extent, err);
        extent.counts_packets = !head_only;
        if (rc != SPSH_OK)
            return rc;
    }
    if (head_only) {
        rc = find_tail(window, &table, &offset, err);
        if (rc != SPSH_OK)
            return rc;
    }
    rc = walk(window, &table, offset, &first, &extent, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t skipped = extent.begin_sample + extent.pre_skip;
    if (extent.samples > INT64_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset, "Ogg: the last page's position is negative");
    extent.samples = extent.samples > skipped ? extent.samples - skipped : 0;
    ret_info->samples = extent.samples;
    *ret_extent = extent;
    return SPSH_OK;
}

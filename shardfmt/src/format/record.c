/* record.c: one function derives sizes from id, seek table, and payload. A head must have exactly
 * the size that its own fields give, so that no data can hide between its parts.
 */
#include "record.h"

#include "base/checksum.h"
#include "block.h"

#define ULL(value_) ((unsigned long long)(value_))

static const uint8_t record_magic[4] = {'S', 'R', 'E', 'C'};
static const uint8_t no_hash[16] = {0};

enum { FLAGS_KNOWN = 31 };

static bool is_lossy(uint32_t codec)
{
    return codec == SPSH_CODEC_MP3 || codec == SPSH_CODEC_VORBIS || codec == SPSH_CODEC_OPUS ||
           codec == SPSH_CODEC_GSM;
}

static bool is_codec(uint32_t codec)
{
    return (codec >= SPSH_CODEC_WAV && codec <= SPSH_CODEC_GSM) || codec == SPSH_CODEC_PCM ||
           codec == SPSH_CODEC_FEATURES;
}

const char *spsh__record_find_bad(const spsh_record *record)
{
    const spsh_record *r = record;
    uint32_t codec = (uint32_t)r->codec;
    uint32_t format = (uint32_t)r->format;
    bool hashed = (r->flags & SPSH_RECORD_PCM_HASH) != 0;
    if (r->sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || r->sample_rate_hz > SPSH_SAMPLE_RATE_HZ_MAX)
        return "sample_rate_hz";
    if (codec != SPSH_CODEC_OPUS && (r->flags & SPSH_RECORD_TRANSCODED) == 0 &&
        r->nominal_rate_hz != r->sample_rate_hz)
        return "nominal_rate_hz";
    if (r->channels == 0 || r->channels > SPSH_CHANNELS_MAX)
        return "channels";
    if (!is_codec(codec))
        return "codec";
    if (format < SPSH_SAMPLE_I16 || format > SPSH_SAMPLE_F32)
        return "sample_format";
    if (codec == SPSH_CODEC_FEATURES &&
        (format != SPSH_SAMPLE_F32 || (r->bits_per_sample != 16 && r->bits_per_sample != 32)))
        return "sample_format or bits_per_sample of features";
    if (r->bits_per_sample > 64 || (r->bits_per_sample != 0 && is_lossy(codec)))
        return "bits_per_sample";
    if ((r->flags & ~(uint32_t)FLAGS_KNOWN) != 0 ||
        (hashed && (r->flags & (SPSH_RECORD_UNDECODABLE | SPSH_RECORD_TRUSTED)) != 0))
        return "flags";
    if (!hashed && memcmp(r->pcm_hash, no_hash, 16) != 0)
        return "pcm_hash";
    return NULL;
}

spsh_status spsh__record_check_audio(const spsh_record *record, const spsh_audio_info *audio,
                                     spsh_error *err)
{
    if (audio->sample_rate_hz == record->sample_rate_hz && audio->channels == record->channels &&
        audio->format == record->format)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_AUDIO,
                     "decodes to %u Hz, %u channels, format %d, but the shard states %u Hz, %u "
                     "channels, format %d",
                     audio->sample_rate_hz, audio->channels, (int)audio->format,
                     record->sample_rate_hz, record->channels, (int)record->format);
}

/* The name of a field that breaks FORMAT.md 3.2, or NULL. Shared by writer and reader. */
static const char *find_bad_field(const spsh_record *r)
{
    if (r->id.size_bytes == 0 || r->id.size_bytes > SPSH_ID_BYTES_MAX)
        return "id_bytes";
    if (!spsh__utf8_valid(r->id))
        return "the id is not valid UTF-8";
    return spsh__record_find_bad(r);
}

static bool is_bad_seek_point(const spsh_record *r, uint64_t n, spsh_seek_point point,
                              spsh_seek_point before)
{
    if (point.sample >= r->samples || point.offset_bytes >= r->payload_bytes)
        return true;
    if (n == 0)
        return point.sample != 0;
    return point.sample <= before.sample || point.offset_bytes <= before.offset_bytes;
}

static uint64_t padded_payload(uint64_t payload_bytes)
{
    return spsh__align_up(payload_bytes, SPSH__RECORD_ALIGNMENT);
}

/* false: the record is larger than FORMAT.md allows. */
static bool find_size(const spsh_record *r, spsh__record_size *ret_size)
{
    if (r->payload_bytes > SPSH_RECORD_BYTES_MAX ||
        r->seek_point_count > SPSH__RECORD_HEAD_MAX / sizeof(spsh_seek_point))
        return false;
    uint64_t padded = padded_payload(r->payload_bytes);
    uint64_t pages = (padded + SPSH__PAYLOAD_PAGE - 1) / SPSH__PAYLOAD_PAGE;
    uint64_t head = SPSH__RECORD_FIXED_BYTES + spsh__align_up(r->id.size_bytes, 8) +
                    16 * r->seek_point_count + 8 * pages;
    head = spsh__align_up(head, SPSH__RECORD_ALIGNMENT);
    if (head > SPSH__RECORD_HEAD_MAX || head + padded > SPSH_RECORD_BYTES_MAX)
        return false;
    *ret_size = (spsh__record_size){(uint32_t)head, (uint32_t)pages, head + padded};
    return true;
}

spsh_status spsh__record_check_fields(const spsh_record *record, spsh__record_size *ret_size,
                                      spsh_error *err)
{
    const char *bad = find_bad_field(record);
    if (bad == NULL && record->seek_point_count != 0 && record->seek_points == NULL)
        bad = "seek_points";
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "invalid record \"%.*s\": %s",
                         (int)(record->id.size_bytes > 200 ? 200 : record->id.size_bytes),
                         (const char *)record->id.data, bad);
    spsh_seek_point before = {0, 0};
    for (uint64_t n = 0; n < record->seek_point_count; n++) {
        if (is_bad_seek_point(record, n, record->seek_points[n], before))
            return SPSH_FAIL(
                err, SPSH_E_INVALID_ARG,
                "record: seek point %llu is not after the one before it and inside the record",
                ULL(n));
        before = record->seek_points[n];
    }
    if (!find_size(record, ret_size))
        return SPSH_FAIL(
            err, SPSH_E_LIMIT,
            "record: %llu payload bytes and %llu seek points exceed the limits of a record",
            ULL(record->payload_bytes), ULL(record->seek_point_count));
    return SPSH_OK;
}

static void encode_fixed(const spsh_record *r, const spsh__record_size *size, uint64_t ordinal,
                         uint8_t *head)
{
    memcpy(head + 8, record_magic, 4);
    spsh__store_u32le(head + 12, size->head_bytes);
    spsh__store_u64le(head + 16, r->payload_bytes);
    spsh__store_u64le(head + 24, ordinal);
    spsh__store_u64le(head + 32, r->samples);
    spsh__store_u32le(head + 40, r->sample_rate_hz);
    spsh__store_u32le(head + 44, r->nominal_rate_hz);
    spsh__store_u16le(head + 48, (uint16_t)r->channels);
    spsh__store_u16le(head + 50, (uint16_t)r->codec);
    spsh__store_u16le(head + 52, (uint16_t)r->format);
    spsh__store_u16le(head + 54, (uint16_t)r->bits_per_sample);
    spsh__store_u32le(head + 56, r->flags);
    spsh__store_u32le(head + 60, (uint32_t)r->id.size_bytes);
    memcpy(head + 64, r->pcm_hash, 16);
    spsh__store_u32le(head + 96, (uint32_t)r->seek_point_count);
    spsh__store_u32le(head + 100, size->page_count);
}

/* NOLINTNEXTLINE(readability-function-size): what is stored, where, and the two results */
void spsh__record_head_encode(const uint8_t file_id[16], uint64_t offset_bytes, uint64_t ordinal,
                              const spsh_record *record, const void *payload, uint8_t *head,
                              uint8_t ret_payload_hash[16])
{
    const uint8_t *bytes = (const uint8_t *)payload;
    spsh__record_size size = {0, 0, 0};
    (void)find_size(record, &size);
    memset(head, 0, size.head_bytes);
    encode_fixed(record, &size, ordinal, head);
    memcpy(head + SPSH__RECORD_FIXED_BYTES, record->id.data, record->id.size_bytes);
    uint8_t *at = head + SPSH__RECORD_FIXED_BYTES + spsh__align_up(record->id.size_bytes, 8);
    for (uint64_t n = 0; n < record->seek_point_count; n++, at += 16) {
        spsh__store_u64le(at, record->seek_points[n].sample);
        spsh__store_u64le(at + 8, record->seek_points[n].offset_bytes);
    }
    for (uint64_t begin = 0; begin < record->payload_bytes; begin += SPSH__PAYLOAD_PAGE, at += 8) {
        uint64_t left = record->payload_bytes - begin;
        size_t page = left < SPSH__PAYLOAD_PAGE ? (size_t)left : SPSH__PAYLOAD_PAGE;
        size_t zeros = (size_t)(padded_payload(page) - page);
        spsh__store_u64le(at, spsh__checksum_padded(file_id, offset_bytes + size.head_bytes + begin,
                                                    bytes + begin, page, zeros));
    }
    spsh__hash128(payload, (size_t)record->payload_bytes, ret_payload_hash);
    memcpy(head + 80, ret_payload_hash, 16);
    spsh__store_u64le(head, spsh__checksum(file_id, offset_bytes, head + 8, size.head_bytes - 8));
}

spsh_status spsh__record_head_size(const uint8_t *start, uint64_t offset_bytes, const char *path,
                                   uint32_t *ret_head_bytes, spsh_error *err)
{
    uint32_t head_bytes = spsh__load_u32le(start + 12);
    if (memcmp(start + 8, record_magic, 4) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                            "%s: no record begins at %llu: the magic is wrong", path,
                            ULL(offset_bytes));
    if (head_bytes <= SPSH__RECORD_FIXED_BYTES || head_bytes > SPSH__RECORD_HEAD_MAX ||
        head_bytes % SPSH__RECORD_ALIGNMENT != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes + 12,
                            "%s: record at %llu: head_bytes is %u, which is impossible", path,
                            ULL(offset_bytes), head_bytes);
    *ret_head_bytes = head_bytes;
    return SPSH_OK;
}

static void decode_fixed(const uint8_t *data, spsh_record *r)
{
    r->payload_bytes = spsh__load_u64le(data + 16);
    r->samples = spsh__load_u64le(data + 32);
    r->sample_rate_hz = spsh__load_u32le(data + 40);
    r->nominal_rate_hz = spsh__load_u32le(data + 44);
    r->channels = spsh__load_u16le(data + 48);
    r->codec = (spsh_codec)spsh__load_u16le(data + 50);
    r->format = (spsh_sample_format)spsh__load_u16le(data + 52);
    r->bits_per_sample = spsh__load_u16le(data + 54);
    r->flags = spsh__load_u32le(data + 56);
    memcpy(r->pcm_hash, data + 64, 16);
    memcpy(r->payload_hash, data + 80, 16);
    r->seek_points = NULL;
    r->seek_point_count = spsh__load_u32le(data + 96);
}

static spsh_seek_point load_seek_point(const uint8_t *table, uint64_t n)
{
    return (spsh_seek_point){spsh__load_u64le(table + 16 * n),
                             spsh__load_u64le(table + 16 * n + 8)};
}

/* Return the defect of the parts after the fixed one, or NULL. The head's size is right. */
static const char *find_bad_part(const uint8_t *data, spsh__record_head *h)
{
    const spsh_record *r = &h->record;
    const uint8_t *id_end = data + SPSH__RECORD_FIXED_BYTES + r->id.size_bytes;
    h->seek_table = data + SPSH__RECORD_FIXED_BYTES + (size_t)spsh__align_up(r->id.size_bytes, 8);
    h->page_checksums = h->seek_table + (size_t)r->seek_point_count * 16;
    const uint8_t *parts_end = h->page_checksums + (size_t)h->page_count * 8;
    if (!spsh__all_zero(data + 104, SPSH__RECORD_FIXED_BYTES - 104))
        return "reserved bytes are not 0";
    if (!spsh__all_zero(id_end, (size_t)(h->seek_table - id_end)) ||
        !spsh__all_zero(parts_end, (size_t)(data + h->head_bytes - parts_end)))
        return "padding is not 0";
    spsh_seek_point before = {0, 0};
    for (uint64_t n = 0; n < r->seek_point_count; n++) {
        spsh_seek_point point = load_seek_point(h->seek_table, n);
        if (is_bad_seek_point(r, n, point, before))
            return "the seek table does not ascend inside the record";
        before = point;
    }
    return NULL;
}

spsh_status spsh__record_head_decode(const uint8_t file_id[16], uint64_t offset_bytes,
                                     spsh_bytes data, const char *path, spsh__record_head *ret_head,
                                     spsh_error *err)
{
    spsh__record_head h;
    memset(&h, 0, sizeof(h));
    if (data.size_bytes < SPSH__RECORD_FIXED_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, offset_bytes, "%s: record at %llu: %zu bytes",
                            path, ULL(offset_bytes), data.size_bytes);
    spsh_status rc = spsh__record_head_size(data.data, offset_bytes, path, &h.head_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (data.size_bytes < h.head_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, offset_bytes,
                            "%s: record at %llu: the header has %u bytes, but only %zu remain",
                            path, ULL(offset_bytes), h.head_bytes, data.size_bytes);
    uint64_t expected = spsh__load_u64le(data.data);
    uint64_t found = spsh__checksum(file_id, offset_bytes, data.data + 8, h.head_bytes - 8);
    if (expected != found)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                            "%s: record head at %llu: checksum 0x%016llx, expected 0x%016llx", path,
                            ULL(offset_bytes), ULL(found), ULL(expected));

    spsh__record_size size = {0, 0, 0};
    const char *bad = NULL;
    decode_fixed(data.data, &h.record);
    h.ordinal = spsh__load_u64le(data.data + 24);
    h.page_count = spsh__load_u32le(data.data + 100);
    uint32_t id_bytes = spsh__load_u32le(data.data + 60);
    if (id_bytes > h.head_bytes - SPSH__RECORD_FIXED_BYTES)
        bad = "id_bytes";
    h.record.id = (spsh_bytes){data.data + SPSH__RECORD_FIXED_BYTES, id_bytes};
    if (bad == NULL)
        bad = find_bad_field(&h.record);
    if (bad == NULL && (!find_size(&h.record, &size) || size.head_bytes != h.head_bytes ||
                        size.page_count != h.page_count))
        bad = "head_bytes, page_count, seek_count and payload_bytes do not agree";
    if (bad == NULL)
        bad = find_bad_part(data.data, &h);
    if (bad != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes, "%s: invalid record at %llu: %s",
                            path, ULL(offset_bytes), bad);
    h.record_bytes = size.record_bytes;
    *ret_head = h;
    return SPSH_OK;
}

size_t spsh__record_page_bytes(const spsh__record_head *head, uint32_t page)
{
    uint64_t left =
        padded_payload(head->record.payload_bytes) - (uint64_t)page * SPSH__PAYLOAD_PAGE;
    return left < SPSH__PAYLOAD_PAGE ? (size_t)left : SPSH__PAYLOAD_PAGE;
}

/* NOLINTNEXTLINE(readability-function-size): a place, a page, and its name for messages */
spsh_status spsh__record_page_check(const uint8_t file_id[16], uint64_t offset_bytes,
                                    const spsh__record_head *head, uint32_t page,
                                    const uint8_t *data, const char *path, spsh_error *err)
{
    uint64_t begin = (uint64_t)page * SPSH__PAYLOAD_PAGE;
    uint64_t offset = offset_bytes + head->head_bytes + begin;
    size_t size = spsh__record_page_bytes(head, page);
    uint64_t expected = spsh__load_u64le(head->page_checksums + (size_t)page * 8);
    uint64_t found = spsh__checksum(file_id, offset, data, size);
    int id_bytes = (int)(head->record.id.size_bytes > 200 ? 200 : head->record.id.size_bytes);
    if (found != expected)
        return SPSH_FAIL_AT(
            err, SPSH_E_CORRUPT, offset,
            "%s: record %llu \"%.*s\": payload page %u at %llu: checksum 0x%016llx, "
            "expected 0x%016llx",
            path, ULL(head->ordinal), id_bytes, (const char *)head->record.id.data, page,
            ULL(offset), ULL(found), ULL(expected));
    uint64_t payload_left = head->record.payload_bytes - begin;
    if (payload_left < size &&
        !spsh__all_zero(data + (size_t)payload_left, size - (size_t)payload_left))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset + payload_left,
                            "%s: record %llu \"%.*s\": padding of the payload at %llu is not 0",
                            path, ULL(head->ordinal), id_bytes, (const char *)head->record.id.data,
                            ULL(offset + payload_left));
    return SPSH_OK;
}

void spsh__record_seek_points(const spsh__record_head *head, spsh_seek_point *points)
{
    for (uint64_t n = 0; n < head->record.seek_point_count; n++)
        points[n] = load_seek_point(head->seek_table, n);
}

/* NOLINTNEXTLINE(readability-function-size): a buffer and its size belong side by side */
spsh_status spsh_record_check(const uint8_t file_id[16], uint64_t offset_bytes, const uint8_t *data,
                              size_t size_bytes, spsh_record *ret_record, spsh_bytes *ret_payload,
                              spsh_error *err)
{
    spsh__record_head head;
    spsh_status rc = spsh__record_head_decode(file_id, offset_bytes, (spsh_bytes){data, size_bytes},
                                              "shard", &head, err);
    if (rc != SPSH_OK)
        return rc;
    if (head.record_bytes > size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, offset_bytes,
                            "record at %llu: it has %llu bytes, but only %zu remain",
                            ULL(offset_bytes), ULL(head.record_bytes), size_bytes);
    const uint8_t *payload = data + head.head_bytes;
    for (uint32_t page = 0; page < head.page_count && rc == SPSH_OK; page++)
        rc = spsh__record_page_check(file_id, offset_bytes, &head, page,
                                     payload + (size_t)page * SPSH__PAYLOAD_PAGE, "shard", err);
    if (rc != SPSH_OK)
        return rc;
    *ret_record = head.record;
    *ret_payload = (spsh_bytes){payload, (size_t)head.record.payload_bytes};
    return SPSH_OK;
}

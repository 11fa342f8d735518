/* shard_reader.c: a sealed shard: its index by columns, its metadata by blocks.
 *
 * The reader trusts the index only as far as its page checksums go. Every offset, number, and
 * length is checked against the file before use, and a metadata row must match its index row.
 */
#include "base/buffer.h"
#include "base/checksum.h"
#include "block.h"
#include "io/io_internal.h"
#include "metadata_block.h"
#include "record.h"
#include "shard_index.h"
#include "shard_internal.h"
#include "speechshard/options.h"

#define ULL(value_) ((unsigned long long)(value_))

struct spsh_shard {
    spsh_allocator allocator;
    const spsh_io *io;
    spsh__container *container;
    spsh_shard_seal seal;
    uint64_t first_record;
    uint64_t first_utterance;
    uint64_t metadata_blocks;
    uint64_t name_counts[SPSH_NAME_KINDS];
};

struct spsh_metadata_reader {
    const spsh_shard *shard;
    spsh__buffer block;
    spsh__metadata *metadata;
    uint64_t first_row; /* first row of the loaded block */
    uint64_t end_row;   /* first_row: no block is loaded */
};

/* ---- opening ---- */

static spsh_status require_columns(const spsh_shard *s, const spsh__shard_column *columns,
                                   size_t column_count, uint64_t elements, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < column_count && rc == SPSH_OK; i++)
        rc = spsh__container_require(s->container, columns[i].id, columns[i].element_bytes,
                                     elements, err);
    return rc;
}

static spsh_status require_sections(spsh_shard *s, spsh_error *err)
{
    const spsh__container *c = s->container;
    spsh_status rc = require_columns(s, spsh__shard_record_columns, SPSH__SHARD_RECORD_COLUMNS,
                                     s->seal.record_count, err);
    if (rc == SPSH_OK)
        rc = require_columns(s, spsh__shard_row_columns, SPSH__SHARD_ROW_COLUMNS,
                             s->seal.utterance_count, err);
    s->metadata_blocks = spsh__container_count(c, SPSH__SHARD_METADATA_OFFSET);
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, SPSH__SHARD_METADATA_OFFSET, 8, UINT64_MAX, err);
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, SPSH__SHARD_METADATA_FIRST_ROW, 4, s->metadata_blocks, err);
    for (uint32_t kind = 0; kind < SPSH_NAME_KINDS && rc == SPSH_OK; kind++) {
        uint32_t id = SPSH__SHARD_NAMES + 2 * kind;
        s->name_counts[kind] = spsh__container_count(c, id);
        rc = spsh__container_require_strings(c, id, UINT64_MAX, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__container_require(c, SPSH__SHARD_BLOCK_OFFSET, 8,
                                     spsh__container_footer(c)->block_count, err);
    return rc;
}

static spsh_status check_expected(const spsh_shard *s, const spsh_shard_seal *want, spsh_error *err)
{
    const char *path = spsh__container_path(s->container);
    if (memcmp(want->file_id, s->seal.file_id, 16) != 0)
        return SPSH_FAIL_AT(
            err, SPSH_E_MISMATCH, 16,
            "%s: the file_id differs from the expected one: the file belongs to another dataset",
            path);
    if (want->file_bytes != s->seal.file_bytes ||
        memcmp(want->root_hash, s->seal.root_hash, 16) != 0)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "%s: the size or the root hash differs from the expected one (%llu bytes, "
                         "expected %llu): another run wrote the file",
                         path, ULL(s->seal.file_bytes), ULL(want->file_bytes));
    return SPSH_OK;
}

static spsh_status check_identity(spsh_shard *s, spsh_error *err)
{
    const char *path = spsh__container_path(s->container);
    const spsh__header *header = spsh__container_header(s->container);
    const spsh__footer *footer = spsh__container_footer(s->container);
    uint8_t file_id[16];
    spsh__shard_file_id(header->dataset_id, header->ordinal, header->sub_ordinal, file_id);
    if (memcmp(file_id, header->file_id, 16) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 16,
                            "%s: header: the file_id does not match dataset, unit, and number",
                            path);
    if (footer->record_count > SPSH_SHARD_RECORDS_MAX ||
        footer->utterance_count > SPSH_SHARD_UTTERANCES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%s: %llu records and %llu utterances exceed the limit of 2^31", path,
                         ULL(footer->record_count), ULL(footer->utterance_count));
    memcpy(s->seal.file_id, footer->file_id, 16);
    memcpy(s->seal.root_hash, footer->root_hash, 16);
    s->seal.file_bytes = footer->file_bytes;
    s->seal.unit = header->ordinal;
    s->seal.number = header->sub_ordinal;
    s->seal.record_count = footer->record_count;
    s->seal.utterance_count = footer->utterance_count;
    s->first_record = header->first_record;
    s->first_utterance = header->first_utterance;
    return SPSH_OK;
}

spsh_status spsh_shard_open(const char *path, const spsh_shard_options *options,
                            spsh_shard **ret_shard, spsh_error *err)
{
    spsh_shard_options known = SPSH_SHARD_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_allocator *allocator =
        known.allocator != NULL ? known.allocator : spsh_allocator_default();
    spsh_shard *s = (spsh_shard *)spsh__new(allocator, 1, sizeof(*s));
    if (s == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: shard", path);
    s->allocator = *allocator;
    s->io = known.io != NULL ? known.io : spsh_io_default();
    rc = spsh__container_open(s->io, path, SPSH__KIND_SHARD, allocator, &s->container, err);
    if (rc == SPSH_OK)
        rc = check_identity(s, err);
    if (rc == SPSH_OK && known.expected != NULL)
        rc = check_expected(s, known.expected, err);
    if (rc == SPSH_OK)
        rc = require_sections(s, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_shard = s;
    s = NULL;
out:
    spsh_shard_close(s);
    return rc;
}

void spsh_shard_close(spsh_shard *shard)
{
    if (shard == NULL)
        return;
    const spsh_allocator allocator = shard->allocator;
    spsh__container_close(shard->container);
    spsh__free(&allocator, shard);
}

const spsh_shard_seal *spsh_shard_info(const spsh_shard *shard)
{
    return &shard->seal;
}

uint64_t spsh_shard_first_record(const spsh_shard *shard)
{
    return shard->first_record;
}

uint64_t spsh_shard_first_utterance(const spsh_shard *shard)
{
    return shard->first_utterance;
}

const spsh__container *spsh__shard_container(const spsh_shard *shard)
{
    return shard->container;
}

const spsh_io *spsh__shard_io(const spsh_shard *shard)
{
    return shard->io;
}

const spsh_allocator *spsh__shard_allocator(const spsh_shard *shard)
{
    return &shard->allocator;
}

/* ---- the index ---- */

/* One element of each column. All have the same count, so the caller's bounds check serves for all.
 */
static spsh_status load_elements(const spsh_shard *s, const spsh__shard_column *columns,
                                 size_t column_count, uint64_t at, const uint8_t **elements,
                                 spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < column_count && rc == SPSH_OK; i++)
        rc = spsh__container_column(s->container, columns[i].id, at, 1, &elements[i], err);
    return rc;
}

static spsh_status load_record(const spsh_shard *s, uint64_t at, spsh_record *r,
                               spsh_record_place *place, spsh_error *err)
{
    const uint8_t *e[SPSH__SHARD_RECORD_COLUMNS];
    spsh_status rc =
        load_elements(s, spsh__shard_record_columns, SPSH__SHARD_RECORD_COLUMNS, at, e, err);
    if (rc != SPSH_OK)
        return rc;
    memset(r, 0, sizeof(*r));
    place->offset_bytes = spsh__load_u64le(e[0]);
    place->head_bytes = spsh__load_u32le(e[1]);
    r->payload_bytes = spsh__load_u64le(e[2]);
    r->samples = spsh__load_u64le(e[3]);
    r->sample_rate_hz = spsh__load_u32le(e[4]);
    r->nominal_rate_hz = spsh__load_u32le(e[5]);
    r->channels = spsh__load_u16le(e[6]);
    r->codec = (spsh_codec)spsh__load_u16le(e[7]);
    r->format = (spsh_sample_format)spsh__load_u16le(e[8]);
    r->bits_per_sample = spsh__load_u16le(e[9]);
    r->flags = spsh__load_u32le(e[10]);
    memcpy(r->pcm_hash, e[11], 16);
    memcpy(r->payload_hash, e[12], 16);
    return SPSH_OK;
}

/* Check that the record is inside the block area. */
static const char *find_bad_place(const spsh_shard *s, const spsh_record *r,
                                  spsh_record_place *place)
{
    uint64_t blocks_end = spsh__container_footer(s->container)->section_area_offset;
    if (place->head_bytes <= SPSH__RECORD_FIXED_BYTES ||
        place->head_bytes > SPSH__RECORD_HEAD_MAX ||
        place->head_bytes % SPSH__RECORD_ALIGNMENT != 0)
        return "record_head_bytes";
    if (r->payload_bytes > SPSH_RECORD_BYTES_MAX)
        return "record_payload_bytes";
    place->payload_bytes = r->payload_bytes;
    place->record_bytes =
        place->head_bytes + spsh__align_up(r->payload_bytes, SPSH__RECORD_ALIGNMENT);
    if (place->offset_bytes < SPSH__PAGE_BYTES + SPSH__BLOCK_HEADER_BYTES ||
        place->offset_bytes % SPSH__RECORD_ALIGNMENT != 0 || place->offset_bytes > blocks_end ||
        place->record_bytes > blocks_end - place->offset_bytes)
        return "record_offset";
    return spsh__record_find_bad(r);
}

spsh_status spsh_shard_record(const spsh_shard *shard, uint64_t record, spsh_record *ret_record,
                              spsh_record_place *ret_place, spsh_error *err)
{
    spsh_record r;
    spsh_record_place place = {0, 0, 0, 0};
    const char *path = spsh__container_path(shard->container);
    if (record >= shard->seal.record_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: record %llu does not exist: the shard has %llu records", path,
                         ULL(record), ULL(shard->seal.record_count));
    spsh_status rc = load_record(shard, record, &r, &place, err);
    if (rc != SPSH_OK)
        return rc;
    const char *bad = find_bad_place(shard, &r, &place);
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: index: invalid record %llu: %s", path,
                         ULL(record), bad);
    *ret_record = r;
    *ret_place = place;
    return SPSH_OK;
}

static spsh_status load_row(const spsh_shard *s, uint64_t at, spsh_shard_row *row, spsh_error *err)
{
    const uint8_t *e[SPSH__SHARD_ROW_COLUMNS];
    spsh_status rc = load_elements(s, spsh__shard_row_columns, SPSH__SHARD_ROW_COLUMNS, at, e, err);
    if (rc != SPSH_OK)
        return rc;
    *row = (spsh_shard_row){
        .id_hash = spsh__load_u64le(e[0]),
        .record = spsh__load_u64le(e[1]),
        .start_sample = spsh__load_u64le(e[2]),
        .samples = spsh__load_u64le(e[3]),
        .flags = spsh__load_u32le(e[4]),
        .domain = spsh__load_u32le(e[5]),
        .split = spsh__load_u32le(e[6]),
        .speaker = spsh__load_u32le(e[7]),
        .language = spsh__load_u32le(e[8]),
        .document = spsh__load_u32le(e[9]),
        .text_bytes = spsh__load_u32le(e[10]),
    };
    return SPSH_OK;
}

/* A row against its record, where that is in this shard. */
static spsh_status find_bad_row(const spsh_shard *s, const spsh_shard_row *row,
                                const char **ret_bad, spsh_error *err)
{
    const uint32_t names[SPSH_NAME_KINDS] = {row->domain, row->split, row->speaker, row->language,
                                             row->document};
    uint64_t samples = UINT64_MAX;
    for (unsigned kind = 0; kind < SPSH_NAME_KINDS; kind++)
        if (names[kind] != SPSH_NONE_U32 && names[kind] >= s->name_counts[kind])
            *ret_bad = "number of a name";
    if ((row->flags & ~SPSH_UTTERANCE_HAS_TEXT) != 0)
        *ret_bad = "flags";
    if (row->text_bytes != 0 && (row->flags & SPSH_UTTERANCE_HAS_TEXT) == 0)
        *ret_bad = "text_bytes without a transcript";
    if (row->record >= s->first_record) {
        uint64_t record = row->record - s->first_record;
        if (record >= s->seal.record_count) {
            *ret_bad = "record";
            return SPSH_OK;
        }
        spsh_status rc =
            spsh__container_u64(s->container, SPSH__SHARD_RECORD_SAMPLES, record, &samples, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (row->start_sample > samples || row->samples > samples - row->start_sample)
        *ret_bad = "the segment extends past the end of its record";
    return SPSH_OK;
}

spsh_status spsh_shard_row_get(const spsh_shard *shard, uint64_t row, spsh_shard_row *ret_row,
                               spsh_error *err)
{
    spsh_shard_row r;
    const char *bad = NULL;
    const char *path = spsh__container_path(shard->container);
    if (row >= shard->seal.utterance_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: row %llu does not exist: the shard has %llu rows", path, ULL(row),
                         ULL(shard->seal.utterance_count));
    spsh_status rc = load_row(shard, row, &r, err);
    if (rc == SPSH_OK)
        rc = find_bad_row(shard, &r, &bad, err);
    if (rc != SPSH_OK)
        return rc;
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: index: invalid row %llu: %s", path, ULL(row),
                         bad);
    *ret_row = r;
    return SPSH_OK;
}

spsh_status spsh_shard_name(const spsh_shard *shard, spsh_name_kind kind, uint32_t number,
                            spsh_bytes *ret_name, spsh_error *err)
{
    if ((uint32_t)kind >= SPSH_NAME_KINDS || number >= shard->name_counts[kind])
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: name %u of kind %u does not exist",
                         spsh__container_path(shard->container), number, (uint32_t)kind);
    return spsh__container_string(shard->container, SPSH__SHARD_NAMES + 2 * (uint32_t)kind, number,
                                  ret_name, err);
}

uint64_t spsh_shard_name_count(const spsh_shard *shard, spsh_name_kind kind)
{
    return (uint32_t)kind < SPSH_NAME_KINDS ? shard->name_counts[kind] : 0;
}

/* ---- metadata ---- */

spsh_status spsh_metadata_reader_open(const spsh_shard *shard, spsh_metadata_reader **ret_reader,
                                      spsh_error *err)
{
    spsh_metadata_reader *reader =
        (spsh_metadata_reader *)spsh__new(&shard->allocator, 1, sizeof(*reader));
    if (reader != NULL) {
        reader->shard = shard;
        reader->metadata = spsh__metadata_new(&shard->allocator);
    }
    if (reader == NULL || reader->metadata == NULL) {
        spsh_metadata_reader_close(reader);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "metadata reader");
    }
    *ret_reader = reader;
    return SPSH_OK;
}

void spsh_metadata_reader_close(spsh_metadata_reader *reader)
{
    if (reader == NULL)
        return;
    const spsh_allocator allocator = reader->shard->allocator;
    spsh__metadata_free(reader->metadata);
    spsh__buffer_free(&reader->block, &allocator);
    spsh__free(&allocator, reader);
}

/* Find the last block whose first row is at most `row`; its rows are [*ret_first, *ret_end). */
static spsh_status find_block(const spsh_shard *s, uint64_t row, uint64_t *ret_block,
                              uint64_t *ret_first, uint64_t *ret_end, spsh_error *err)
{
    uint64_t low = 0;
    uint64_t high = s->metadata_blocks;
    uint32_t first = UINT32_MAX;
    uint32_t next = (uint32_t)s->seal.utterance_count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t value = 0;
        spsh_status rc =
            spsh__container_u32(s->container, SPSH__SHARD_METADATA_FIRST_ROW, middle, &value, err);
        if (rc != SPSH_OK)
            return rc;
        if (value <= row)
            low = middle;
        else
            high = middle;
    }
    spsh_status rc =
        spsh__container_u32(s->container, SPSH__SHARD_METADATA_FIRST_ROW, low, &first, err);
    if (rc == SPSH_OK && low + 1 < s->metadata_blocks)
        rc = spsh__container_u32(s->container, SPSH__SHARD_METADATA_FIRST_ROW, low + 1, &next, err);
    if (rc != SPSH_OK)
        return rc;
    if (first > row || next <= row || (low == 0 && first != 0))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: index: row %llu is in no metadata block",
                         spsh__container_path(s->container), ULL(row));
    *ret_block = low;
    *ret_first = first;
    *ret_end = next;
    return SPSH_OK;
}

/* Read the block's header and then all of it into reader->block. */
static spsh_status read_block(spsh_metadata_reader *reader, uint64_t offset, spsh__block *ret_block,
                              spsh_error *err)
{
    const spsh_shard *s = reader->shard;
    const char *path = spsh__container_path(s->container);
    int fd = spsh__container_fd(s->container);
    uint64_t blocks_end = spsh__container_footer(s->container)->section_area_offset;
    uint8_t header[SPSH__BLOCK_HEADER_BYTES];
    if (offset < SPSH__PAGE_BYTES || offset % SPSH__PAGE_BYTES != 0 || offset >= blocks_end)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: index: no metadata block can be at %llu", path,
                         ULL(offset));
    spsh_status rc = spsh_io_read_exact(s->io, fd, header, sizeof(header), offset, path, err);
    if (rc == SPSH_OK)
        rc = spsh__block_header_decode(header, offset, path, ret_block, err);
    if (rc != SPSH_OK)
        return rc;
    if (ret_block->kind != SPSH__BLOCK_METADATA || ret_block->block_bytes > blocks_end - offset)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset, "%s: no metadata block at %llu", path,
                            ULL(offset));
    reader->block.size_bytes = 0;
    size_t size = (size_t)ret_block->block_bytes;
    rc = spsh__buffer_reserve(&reader->block, &s->allocator, size, err);
    if (rc == SPSH_OK)
        rc = spsh_io_read_exact(s->io, fd, reader->block.data, size, offset, path, err);
    /* The header once more: the file may have changed between the two reads. */
    if (rc == SPSH_OK && memcmp(reader->block.data, header, sizeof(header)) != 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                          "%s: the block header at %llu changed during reading", path, ULL(offset));
    if (rc == SPSH_OK)
        rc = spsh__block_check(s->seal.file_id, offset, reader->block.data, ret_block, path, err);
    return rc;
}

static spsh_status load_block(spsh_metadata_reader *reader, uint64_t row, spsh_error *err)
{
    const spsh_shard *s = reader->shard;
    const char *path = spsh__container_path(s->container);
    uint64_t number = 0;
    uint64_t first = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    spsh__block block;
    reader->end_row = reader->first_row;
    spsh_status rc = find_block(s, row, &number, &first, &end, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(s->container, SPSH__SHARD_METADATA_OFFSET, number, &offset, err);
    if (rc == SPSH_OK)
        rc = read_block(reader, offset, &block, err);
    if (rc != SPSH_OK)
        return rc;
    if (block.first != first || block.count != end - first)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset,
                            "%s: metadata block at %llu: it has rows from %llu, %u of them, but "
                            "the index states rows from %llu, %llu of them",
                            path, ULL(offset), ULL(block.first), block.count, ULL(first),
                            ULL(end - first));
    rc = spsh__metadata_unpack(reader->metadata, reader->block.data, block.used_bytes, block.count,
                               offset, path, err);
    if (rc != SPSH_OK)
        return rc;
    reader->first_row = first;
    reader->end_row = end;
    return SPSH_OK;
}

spsh_status spsh__metadata_reader_row(spsh_metadata_reader *reader, uint64_t row,
                                      spsh_utterance *ret_utterance, spsh_error *err)
{
    const spsh_shard *s = reader->shard;
    spsh_utterance u;
    if (row >= s->seal.utterance_count)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG, "%s: row %llu does not exist: there are %llu rows",
            spsh__container_path(s->container), ULL(row), ULL(s->seal.utterance_count));
    if (row < reader->first_row || row >= reader->end_row) {
        spsh_status rc = load_block(reader, row, err);
        if (rc != SPSH_OK)
            return rc;
    }
    spsh__metadata_row(reader->metadata, (uint32_t)(row - reader->first_row), &u);
    const char *bad = spsh__metadata_find_bad_field(&u);
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: row %llu: invalid value or not UTF-8: %s",
                         spsh__container_path(s->container), ULL(row), bad);
    *ret_utterance = u;
    return SPSH_OK;
}

spsh_status spsh_metadata_reader_get(spsh_metadata_reader *reader, uint64_t row,
                                     spsh_utterance *ret_utterance, spsh_error *err)
{
    spsh_shard_row index;
    spsh_utterance u;
    spsh_status rc = spsh_shard_row_get(reader->shard, row, &index, err);
    if (rc == SPSH_OK)
        rc = spsh__metadata_reader_row(reader, row, &u, err);
    if (rc != SPSH_OK)
        return rc;
    if (u.record != index.record || u.start_sample != index.start_sample ||
        u.samples != index.samples || u.flags != index.flags ||
        u.text.size_bytes != index.text_bytes ||
        spsh__hash64(u.id.data, u.id.size_bytes) != index.id_hash)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: row %llu: the index and the metadata differ",
                         spsh__container_path(reader->shard->container), ULL(row));
    *ret_utterance = u;
    return SPSH_OK;
}

/* First place in by_id whose row's hash is not below hash; the row there, if any. */
static spsh_status lower_bound(const spsh_shard *s, uint64_t hash, uint64_t *ret_at,
                               spsh_error *err)
{
    uint64_t low = 0;
    uint64_t high = s->seal.utterance_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint32_t row = 0;
        uint64_t value = 0;
        spsh_status rc = spsh__container_u32(s->container, SPSH__SHARD_BY_ID, middle, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__container_u64(s->container, SPSH__SHARD_ID_HASH, row, &value, err);
        if (rc != SPSH_OK)
            return rc;
        if (value < hash)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_at = low;
    return SPSH_OK;
}

spsh_status spsh_shard_find(const spsh_shard *shard, spsh_metadata_reader *reader, spsh_bytes id,
                            uint64_t *ret_row, spsh_error *err)
{
    uint64_t hash = spsh__hash64(id.data, id.size_bytes);
    uint64_t at = 0;
    spsh_status rc = lower_bound(shard, hash, &at, err);
    for (; rc == SPSH_OK && at < shard->seal.utterance_count; at++) {
        uint32_t row = 0;
        uint64_t value = 0;
        spsh_utterance u;
        rc = spsh__container_u32(shard->container, SPSH__SHARD_BY_ID, at, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__container_u64(shard->container, SPSH__SHARD_ID_HASH, row, &value, err);
        if (rc != SPSH_OK || value != hash)
            break;
        rc = spsh_metadata_reader_get(reader, row, &u, err);
        if (rc == SPSH_OK && u.id.size_bytes == id.size_bytes &&
            memcmp(u.id.data, id.data, id.size_bytes) == 0) {
            *ret_row = row;
            return SPSH_OK;
        }
    }
    if (rc != SPSH_OK)
        return rc;
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: no utterance \"%.*s\"",
                     spsh__container_path(shard->container),
                     (int)(id.size_bytes > 200 ? 200 : id.size_bytes), (const char *)id.data);
}

/* shard_index.c: each section is a buffer of little-endian elements that grows with its rows. Only
 * by_id is made at the end, by a stable radix sort, so that equal hashes stay in row order.
 */
#include "shard_index.h"

#include "base/buffer.h"
#include "base/checksum.h"
#include "base/string_table.h"
#include "speechshard/limits.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    RECORD_COLUMNS = SPSH__SHARD_RECORD_COLUMNS,
    ROW_COLUMNS = SPSH__SHARD_ROW_COLUMNS - 1, /* without by_id */
    ROW_BYTES = 60,                            /* bytes per utterance in these columns */
    RECORD_BYTES = 80,
    BLOCK_COLUMNS = 3,
    NAME_KINDS = SPSH_NAME_KINDS,
    SECTIONS = RECORD_COLUMNS + ROW_COLUMNS + 1 + BLOCK_COLUMNS + 2 * NAME_KINDS,
    RADIX_BITS = 8,
};

const spsh__shard_column spsh__shard_record_columns[RECORD_COLUMNS] = {
    {SPSH__SHARD_RECORD_OFFSET,          8 },
    {SPSH__SHARD_RECORD_HEAD_BYTES,      4 },
    {SPSH__SHARD_RECORD_PAYLOAD_BYTES,   8 },
    {SPSH__SHARD_RECORD_SAMPLES,         8 },
    {SPSH__SHARD_RECORD_SAMPLE_RATE_HZ,  4 },
    {SPSH__SHARD_RECORD_NOMINAL_RATE_HZ, 4 },
    {SPSH__SHARD_RECORD_CHANNELS,        2 },
    {SPSH__SHARD_RECORD_CODEC,           2 },
    {SPSH__SHARD_RECORD_SAMPLE_FORMAT,   2 },
    {SPSH__SHARD_RECORD_BITS_PER_SAMPLE, 2 },
    {SPSH__SHARD_RECORD_FLAGS,           4 },
    {SPSH__SHARD_RECORD_PCM_HASH,        16},
    {SPSH__SHARD_RECORD_PAYLOAD_HASH,    16},
};
enum { SAMPLES_COLUMN = 3 };

const spsh__shard_column spsh__shard_row_columns[ROW_COLUMNS + 1] = {
    {SPSH__SHARD_ID_HASH,      8},
    {SPSH__SHARD_RECORD,       8},
    {SPSH__SHARD_START_SAMPLE, 8},
    {SPSH__SHARD_SAMPLES,      8},
    {SPSH__SHARD_FLAGS,        4},
    {SPSH__SHARD_DOMAIN,       4},
    {SPSH__SHARD_SPLIT,        4},
    {SPSH__SHARD_SPEAKER,      4},
    {SPSH__SHARD_LANGUAGE,     4},
    {SPSH__SHARD_DOCUMENT,     4},
    {SPSH__SHARD_TEXT_BYTES,   4},
    {SPSH__SHARD_BY_ID,        4},
};

struct spsh__shard_index {
    spsh_allocator allocator;
    spsh__buffer records[RECORD_COLUMNS];
    spsh__buffer rows[ROW_COLUMNS];
    spsh__buffer metadata_offsets;
    spsh__buffer metadata_first_rows;
    spsh__buffer block_offsets;
    spsh__buffer block_checksums; /* u64, host order; only the root hash needs them */
    spsh__names *names[NAME_KINDS];
};

void spsh__shard_file_id(const uint8_t dataset_id[16], uint64_t unit, uint64_t number,
                         uint8_t ret_file_id[16])
{
    uint8_t name[32];
    memcpy(name, dataset_id, 16);
    spsh__store_u64le(name + 16, unit);
    spsh__store_u64le(name + 24, number);
    spsh__hash128(name, sizeof(name), ret_file_id);
}

spsh__shard_index *spsh__shard_index_new(const spsh_allocator *allocator)
{
    spsh__shard_index *index = (spsh__shard_index *)spsh__new(allocator, 1, sizeof(*index));
    if (index == NULL)
        return NULL;
    index->allocator = *allocator;
    for (unsigned kind = 0; kind < NAME_KINDS; kind++) {
        index->names[kind] = spsh__names_new(allocator);
        if (index->names[kind] == NULL) {
            spsh__shard_index_free(index);
            return NULL;
        }
    }
    return index;
}

void spsh__shard_index_free(spsh__shard_index *index)
{
    if (index == NULL)
        return;
    const spsh_allocator allocator = index->allocator;
    for (unsigned c = 0; c < RECORD_COLUMNS; c++)
        spsh__buffer_free(&index->records[c], &allocator);
    for (unsigned c = 0; c < ROW_COLUMNS; c++)
        spsh__buffer_free(&index->rows[c], &allocator);
    spsh__buffer_free(&index->metadata_offsets, &allocator);
    spsh__buffer_free(&index->metadata_first_rows, &allocator);
    spsh__buffer_free(&index->block_offsets, &allocator);
    spsh__buffer_free(&index->block_checksums, &allocator);
    for (unsigned kind = 0; kind < NAME_KINDS; kind++)
        spsh__names_free(index->names[kind]);
    spsh__free(&allocator, index);
}

uint64_t spsh__shard_index_records(const spsh__shard_index *index)
{
    return index->records[0].size_bytes / spsh__shard_record_columns[0].element_bytes;
}

uint64_t spsh__shard_index_rows(const spsh__shard_index *index)
{
    return index->rows[0].size_bytes / spsh__shard_row_columns[0].element_bytes;
}

uint64_t spsh__shard_index_blocks(const spsh__shard_index *index)
{
    return index->block_offsets.size_bytes / 8;
}

uint64_t spsh__shard_index_record_samples(const spsh__shard_index *index, uint64_t record)
{
    return spsh__load_u64le(index->records[SAMPLES_COLUMN].data + (size_t)record * 8);
}

uint64_t spsh__shard_index_bytes(const spsh__shard_index *index)
{
    uint64_t size = spsh__shard_index_records(index) * RECORD_BYTES +
                    spsh__shard_index_rows(index) * (ROW_BYTES + 4) +
                    spsh__shard_index_blocks(index) * 8 + index->metadata_offsets.size_bytes * 2 +
                    UINT64_C(104) * SECTIONS; /* directory entries and alignment */
    for (unsigned kind = 0; kind < NAME_KINDS; kind++)
        size += (uint64_t)spsh__names_count(index->names[kind]) * 8 +
                spsh__names_bytes(index->names[kind]).size_bytes;
    size = spsh__align_up(size, SPSH__PAGE_BYTES);
    return size + spsh__align_up(size / SPSH__SECTION_PAGE * 8 + 8, SPSH__PAGE_BYTES) +
           SPSH__FOOTERS_BYTES;
}

static spsh_status append_u64(spsh__shard_index *index, spsh__buffer *buffer, uint64_t value,
                              spsh_error *err)
{
    uint8_t bytes[8];
    spsh__store_u64le(bytes, value);
    return spsh__buffer_append(buffer, &index->allocator, bytes, sizeof(bytes), err);
}

spsh_status spsh__shard_index_add_block(spsh__shard_index *index, uint64_t offset_bytes,
                                        uint64_t checksum, spsh_error *err)
{
    spsh_status rc = append_u64(index, &index->block_offsets, offset_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__buffer_append(&index->block_checksums, &index->allocator, &checksum,
                                 sizeof(checksum), err);
    return rc;
}

spsh_status spsh__shard_index_add_metadata_block(spsh__shard_index *index, uint64_t offset_bytes,
                                                 uint32_t first_row, spsh_error *err)
{
    uint8_t bytes[4];
    spsh__store_u32le(bytes, first_row);
    spsh_status rc = append_u64(index, &index->metadata_offsets, offset_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__buffer_append(&index->metadata_first_rows, &index->allocator, bytes,
                                 sizeof(bytes), err);
    return rc;
}

/* Append a row of elements, one of each column; the input holds them one after another. */
static spsh_status append_row(spsh__shard_index *index, spsh__buffer *buffers,
                              const spsh__shard_column *columns, unsigned count, const uint8_t *row,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (unsigned c = 0; c < count && rc == SPSH_OK; c++) {
        rc =
            spsh__buffer_append(&buffers[c], &index->allocator, row, columns[c].element_bytes, err);
        row += columns[c].element_bytes;
    }
    return rc;
}

spsh_status spsh__shard_index_add_record(spsh__shard_index *index, uint64_t offset_bytes,
                                         uint32_t head_bytes, const spsh_record *record,
                                         spsh_error *err)
{
    uint8_t row[RECORD_BYTES];
    if (spsh__shard_index_records(index) >= SPSH_SHARD_RECORDS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a shard cannot hold more than 2^31 records");
    spsh__store_u64le(row, offset_bytes);
    spsh__store_u32le(row + 8, head_bytes);
    spsh__store_u64le(row + 12, record->payload_bytes);
    spsh__store_u64le(row + 20, record->samples);
    spsh__store_u32le(row + 28, record->sample_rate_hz);
    spsh__store_u32le(row + 32, record->nominal_rate_hz);
    spsh__store_u16le(row + 36, (uint16_t)record->channels);
    spsh__store_u16le(row + 38, (uint16_t)record->codec);
    spsh__store_u16le(row + 40, (uint16_t)record->format);
    spsh__store_u16le(row + 42, (uint16_t)record->bits_per_sample);
    spsh__store_u32le(row + 44, record->flags);
    memcpy(row + 48, record->pcm_hash, 16);
    memcpy(row + 64, record->payload_hash, 16);
    return append_row(index, index->records, spsh__shard_record_columns, RECORD_COLUMNS, row, err);
}

static spsh_status name_number(spsh__shard_index *index, unsigned kind, spsh_bytes name,
                               uint8_t *ret_bytes, spsh_error *err)
{
    uint32_t number = SPSH_NONE_U32;
    spsh_status rc = SPSH_OK;
    if (name.size_bytes != 0)
        rc = spsh__names_add(index->names[kind], name, &number, err);
    spsh__store_u32le(ret_bytes, number);
    return rc;
}

spsh_status spsh__shard_index_add_row(spsh__shard_index *index, const spsh_utterance *utterance,
                                      spsh_error *err)
{
    uint8_t row[ROW_BYTES];
    const spsh_utterance *u = utterance;
    const spsh_bytes names[NAME_KINDS] = {u->domain, u->split, u->speaker, u->language,
                                          u->document};
    spsh_status rc = SPSH_OK;
    if (spsh__shard_index_rows(index) >= SPSH_SHARD_UTTERANCES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a shard cannot hold more than 2^31 utterances");
    spsh__store_u64le(row, spsh__hash64(u->id.data, u->id.size_bytes));
    spsh__store_u64le(row + 8, u->record);
    spsh__store_u64le(row + 16, u->start_sample);
    spsh__store_u64le(row + 24, u->samples);
    spsh__store_u32le(row + 32, u->flags);
    for (unsigned kind = 0; kind < NAME_KINDS && rc == SPSH_OK; kind++)
        rc = name_number(index, kind, names[kind], row + 36 + (size_t)kind * 4, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__store_u32le(row + 56, (uint32_t)u->text.size_bytes);
    return append_row(index, index->rows, spsh__shard_row_columns, ROW_COLUMNS, row, err);
}

/* ---- writing ---- */

/* Rows in ascending (id_hash, row): least significant byte first, each pass stable. *ret_rows holds
 * little-endian u32. */
static spsh_status sort_by_id(const spsh__shard_index *index, uint8_t **ret_rows, spsh_error *err)
{
    size_t count = (size_t)spsh__shard_index_rows(index);
    const uint8_t *hashes = index->rows[0].data;
    uint32_t *from = (uint32_t *)spsh__alloc_array(&index->allocator, count + 1, sizeof(*from));
    uint32_t *to = (uint32_t *)spsh__alloc_array(&index->allocator, count + 1, sizeof(*to));
    if (from == NULL || to == NULL) {
        spsh__free(&index->allocator, from);
        spsh__free(&index->allocator, to);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "sorting %zu ids", count);
    }
    for (size_t i = 0; i < count; i++)
        from[i] = (uint32_t)i;
    for (unsigned digit = 0; digit < 8; digit++) {
        size_t starts[(1u << RADIX_BITS) + 1] = {0};
        for (size_t i = 0; i < count; i++)
            starts[hashes[i * 8 + digit] + 1]++;
        for (unsigned d = 0; d < (1u << RADIX_BITS); d++)
            starts[d + 1] += starts[d];
        for (size_t i = 0; i < count; i++)
            to[starts[hashes[(size_t)from[i] * 8 + digit]]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    uint8_t *rows = (uint8_t *)to;
    for (size_t i = 0; i < count; i++)
        spsh__store_u32le(rows + i * 4, from[i]);
    spsh__free(&index->allocator, from);
    *ret_rows = rows;
    return SPSH_OK;
}

typedef struct section_data {
    spsh__section section;
    const uint8_t *elements;
} section_data;

static void put(section_data *data, unsigned *count, uint32_t id, uint32_t element_bytes,
                spsh_bytes elements)
{
    data[*count] = (section_data){
        {id, element_bytes, elements.size_bytes / element_bytes},
        elements.data
    };
    ++*count;
}

static spsh_bytes bytes_of(const spsh__buffer *buffer)
{
    return (spsh_bytes){buffer->data, buffer->size_bytes};
}

/* All sections in ascending order of their ids. */
static void list_sections(const spsh__shard_index *index, const uint8_t *by_id, section_data *data)
{
    unsigned n = 0;
    size_t rows = (size_t)spsh__shard_index_rows(index);
    for (unsigned c = 0; c < RECORD_COLUMNS; c++)
        put(data, &n, spsh__shard_record_columns[c].id, spsh__shard_record_columns[c].element_bytes,
            bytes_of(&index->records[c]));
    put(data, &n, spsh__shard_row_columns[0].id, spsh__shard_row_columns[0].element_bytes,
        bytes_of(&index->rows[0]));
    put(data, &n, SPSH__SHARD_BY_ID, 4, (spsh_bytes){by_id, rows * 4});
    for (unsigned c = 1; c < ROW_COLUMNS; c++)
        put(data, &n, spsh__shard_row_columns[c].id, spsh__shard_row_columns[c].element_bytes,
            bytes_of(&index->rows[c]));
    put(data, &n, SPSH__SHARD_METADATA_OFFSET, 8, bytes_of(&index->metadata_offsets));
    put(data, &n, SPSH__SHARD_METADATA_FIRST_ROW, 4, bytes_of(&index->metadata_first_rows));
    for (unsigned kind = 0; kind < NAME_KINDS; kind++) {
        const spsh__names *names = index->names[kind];
        spsh_bytes ends = {spsh__names_ends(names), (size_t)spsh__names_count(names) * 8};
        put(data, &n, SPSH__SHARD_NAMES + 2 * kind, 8, ends);
        put(data, &n, SPSH__SHARD_NAMES + 2 * kind + 1, 1, spsh__names_bytes(names));
    }
    put(data, &n, SPSH__SHARD_BLOCK_OFFSET, 8, bytes_of(&index->block_offsets));
}

spsh_status spsh__shard_index_write(const spsh__shard_index *index, spsh_file_writer *file,
                                    const spsh__header *header, spsh__footer *ret_footer,
                                    spsh_error *err)
{
    section_data data[SECTIONS];
    spsh__section sections[SECTIONS];
    spsh__section_writer *writer = NULL;
    uint8_t *by_id = NULL;
    spsh_status rc = sort_by_id(index, &by_id, err);
    if (rc != SPSH_OK)
        goto out;
    list_sections(index, by_id, data);
    for (unsigned n = 0; n < SECTIONS; n++)
        sections[n] = data[n].section;
    rc = spsh__section_writer_open(file, header, sections, SECTIONS, &index->allocator, &writer,
                                   err);
    for (unsigned n = 0; n < SECTIONS && rc == SPSH_OK; n++)
        rc = spsh__section_append(writer, sections[n].id, data[n].elements, sections[n].count, err);
    if (rc != SPSH_OK)
        goto out;
    const uint64_t *checksums = (const uint64_t *)(const void *)index->block_checksums.data;
    rc = spsh__section_writer_finish(writer, checksums, spsh__shard_index_blocks(index),
                                     spsh__shard_index_records(index),
                                     spsh__shard_index_rows(index), ret_footer, err);
out:
    spsh__section_writer_free(writer);
    spsh__free(&index->allocator, by_id);
    return rc;
}

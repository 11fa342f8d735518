/* metadata_block.c: rows to columns and back. Only this file and features.c use LZ4.
 *
 *     64   column_count, 0 | directory, 32 bytes per column | columns, each at a multiple of 8
 *
 * A fixed-width column is its values; a string column is one u32 length per row, then all bytes.
 * Each is stored as an LZ4 block if that is smaller. When a block is loaded, lengths become ends in
 * place, so a row is found without a search.
 */
#include "metadata_block.h"

#include <lz4.h>

#include "base/buffer.h"
#include "block.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    COLUMNS = 13,
    REQUIRED = 5, /* columns 1 to 5 must be there */
    COLUMNS_MAX = 64,
    DIRECTORY_AT = 72,
    DIRECTORY_ENTRY_BYTES = 32,
    COLUMN_ALIGNMENT = 8,
    RAW_RATIO_MAX = 256,
    RAW_BYTES_MAX = 1 << 30,
};

/* Columns, indexed by id - 1. width 0: a string. */
static const struct {
    const char *name;
    uint32_t width;
    size_t field;
    uint32_t size_max;
} columns[COLUMNS] = {
    {"id",           0, offsetof(spsh_utterance, id),           SPSH_ID_BYTES_MAX  },
    {"record",       8, offsetof(spsh_utterance, record),       0                  },
    {"start_sample", 8, offsetof(spsh_utterance, start_sample), 0                  },
    {"samples",      8, offsetof(spsh_utterance, samples),      0                  },
    {"flags",        4, offsetof(spsh_utterance, flags),        0                  },
    {"domain",       0, offsetof(spsh_utterance, domain),       SPSH_NAME_BYTES_MAX},
    {"split",        0, offsetof(spsh_utterance, split),        SPSH_NAME_BYTES_MAX},
    {"speaker",      0, offsetof(spsh_utterance, speaker),      SPSH_NAME_BYTES_MAX},
    {"language",     0, offsetof(spsh_utterance, language),     SPSH_NAME_BYTES_MAX},
    {"document",     0, offsetof(spsh_utterance, document),     SPSH_NAME_BYTES_MAX},
    {"text",         0, offsetof(spsh_utterance, text),         SPSH_TEXT_BYTES_MAX},
    {"source",       0, offsetof(spsh_utterance, source),       SPSH_ID_BYTES_MAX  },
    {"extras",       0, offsetof(spsh_utterance, extras),       SPSH_TEXT_BYTES_MAX},
};

static spsh_bytes get_string(const spsh_utterance *u, unsigned column)
{
    spsh_bytes string;
    memcpy(&string, (const uint8_t *)u + columns[column].field, sizeof(string));
    return string;
}

/* Shared by writer and reader. */
const char *spsh__metadata_find_bad_field(const spsh_utterance *u)
{
    if (u->id.size_bytes == 0 || u->id.size_bytes > SPSH_ID_BYTES_MAX)
        return "the id is empty or longer than 4096 bytes";
    if ((u->flags & ~SPSH_UTTERANCE_HAS_TEXT) != 0)
        return "flags";
    if ((u->flags & SPSH_UTTERANCE_HAS_TEXT) == 0 && u->text.size_bytes != 0)
        return "text is given without its flag";
    if (u->start_sample + u->samples < u->samples)
        return "start_sample + samples overflows";
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (columns[c].width != 0)
            continue;
        spsh_bytes string = get_string(u, c);
        if (!spsh__utf8_valid(string))
            return columns[c].name;
    }
    return NULL;
}

spsh_status spsh__utterance_check_fields(const spsh_utterance *utterance, spsh_error *err)
{
    int id_bytes = (int)(utterance->id.size_bytes > 200 ? 200 : utterance->id.size_bytes);
    const char *id = (const char *)utterance->id.data;
    for (unsigned c = 1; c < COLUMNS; c++) {
        size_t size = columns[c].width == 0 ? get_string(utterance, c).size_bytes : 0;
        if (size > columns[c].size_max)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "utterance \"%.*s\": %s has %zu bytes, but the limit is %u", id_bytes,
                             id, columns[c].name, size, columns[c].size_max);
    }
    const char *bad = spsh__metadata_find_bad_field(utterance);
    if (bad != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "utterance \"%.*s\": invalid value or not UTF-8: %s", id_bytes, id, bad);
    return SPSH_OK;
}

/* ---- writing ---- */

struct spsh__metadata_builder {
    spsh_allocator allocator;
    spsh__buffer values[COLUMNS]; /* string columns: lengths */
    spsh__buffer bytes[COLUMNS];
    uint64_t raw_bytes;
    uint32_t rows;
};

spsh__metadata_builder *spsh__metadata_builder_new(const spsh_allocator *allocator)
{
    spsh__metadata_builder *b = (spsh__metadata_builder *)spsh__new(allocator, 1, sizeof(*b));
    if (b != NULL)
        b->allocator = *allocator;
    return b;
}

void spsh__metadata_builder_free(spsh__metadata_builder *builder)
{
    if (builder == NULL)
        return;
    const spsh_allocator allocator = builder->allocator;
    for (unsigned c = 0; c < COLUMNS; c++) {
        spsh__buffer_free(&builder->values[c], &allocator);
        spsh__buffer_free(&builder->bytes[c], &allocator);
    }
    spsh__free(&allocator, builder);
}

spsh_status spsh__metadata_builder_add(spsh__metadata_builder *builder,
                                       const spsh_utterance *utterance, spsh_error *err)
{
    const uint8_t *fields = (const uint8_t *)utterance;
    spsh_status rc = SPSH_OK;
    for (unsigned c = 0; c < COLUMNS && rc == SPSH_OK; c++) {
        uint8_t value[8];
        uint32_t width = columns[c].width;
        spsh_bytes string = {NULL, 0};
        if (width == 8) {
            uint64_t number = 0;
            memcpy(&number, fields + columns[c].field, sizeof(number));
            spsh__store_u64le(value, number);
        } else if (width == 4) {
            uint32_t number = 0;
            memcpy(&number, fields + columns[c].field, sizeof(number));
            spsh__store_u32le(value, number);
        } else {
            string = get_string(utterance, c);
            spsh__store_u32le(value, (uint32_t)string.size_bytes);
            width = 4;
        }
        rc = spsh__buffer_append(&builder->values[c], &builder->allocator, value, width, err);
        if (rc == SPSH_OK)
            rc = spsh__buffer_append(&builder->bytes[c], &builder->allocator, string.data,
                                     string.size_bytes, err);
        builder->raw_bytes += width + string.size_bytes;
    }
    builder->rows++;
    return rc;
}

uint32_t spsh__metadata_builder_rows(const spsh__metadata_builder *builder)
{
    return builder->rows;
}

uint64_t spsh__metadata_builder_raw_bytes(const spsh__metadata_builder *builder)
{
    return builder->raw_bytes;
}

uint64_t spsh__metadata_builder_bound(const spsh__metadata_builder *builder)
{
    return DIRECTORY_AT + COLUMNS * (DIRECTORY_ENTRY_BYTES + COLUMN_ALIGNMENT) + builder->raw_bytes;
}

/* Store raw at dst, compressed if that is smaller. dst has the capacity for the uncompressed
 * column. */
static size_t store_column(const spsh__buffer *raw, uint8_t *dst, uint32_t *ret_encoding)
{
    int packed = LZ4_compress_default((const char *)raw->data, (char *)dst, (int)raw->size_bytes,
                                      (int)raw->size_bytes - 1);
    if (packed > 0 && raw->size_bytes <= (size_t)packed * RAW_RATIO_MAX + 64) {
        *ret_encoding = 1;
        return (size_t)packed;
    }
    memcpy(dst, raw->data, raw->size_bytes);
    *ret_encoding = 0;
    return raw->size_bytes;
}

static bool is_stored(const spsh__metadata_builder *b, unsigned column)
{
    return column < REQUIRED || b->bytes[column].size_bytes != 0;
}

spsh_status spsh__metadata_builder_encode(spsh__metadata_builder *builder, uint8_t *block,
                                          size_t capacity_bytes, size_t *ret_used_bytes,
                                          spsh_error *err)
{
    if (spsh__metadata_builder_bound(builder) > capacity_bytes)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the metadata needs %llu bytes, but the buffer has %zu",
                         ULL(builder->raw_bytes), capacity_bytes);
    uint32_t stored_columns = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        stored_columns += is_stored(builder, c) ? 1 : 0;
    spsh__store_u32le(block + 64, stored_columns);
    spsh__store_u32le(block + 68, 0);
    uint8_t *entry = block + DIRECTORY_AT;
    size_t used = DIRECTORY_AT + (size_t)stored_columns * DIRECTORY_ENTRY_BYTES;
    for (unsigned c = 0; c < COLUMNS; c++) {
        spsh__buffer *raw = &builder->values[c];
        if (is_stored(builder, c)) {
            uint32_t encoding = 0;
            spsh_status rc = spsh__buffer_append(raw, &builder->allocator, builder->bytes[c].data,
                                                 builder->bytes[c].size_bytes, err);
            if (rc != SPSH_OK)
                return rc;
            size_t at = (size_t)spsh__align_up(used, COLUMN_ALIGNMENT);
            memset(block + used, 0, at - used);
            size_t size = store_column(raw, block + at, &encoding);
            spsh__store_u32le(entry, c + 1);
            spsh__store_u32le(entry + 4, encoding);
            spsh__store_u64le(entry + 8, at);
            spsh__store_u64le(entry + 16, size);
            spsh__store_u64le(entry + 24, raw->size_bytes);
            entry += DIRECTORY_ENTRY_BYTES;
            used = at + size;
        }
        raw->size_bytes = 0;
        builder->bytes[c].size_bytes = 0;
    }
    builder->rows = 0;
    builder->raw_bytes = 0;
    *ret_used_bytes = used;
    return SPSH_OK;
}

/* ---- reading ---- */

struct spsh__metadata {
    spsh_allocator allocator;
    spsh__buffer data;           /* all known columns, decompressed */
    size_t column_at[COLUMNS];   /* in data */
    uint64_t raw_bytes[COLUMNS]; /* 0: the column is not there */
    uint32_t count;              /* rows in data */
    uint32_t rows;               /* count once the data is whole */
};

typedef struct column_entry {
    uint32_t id;
    uint32_t encoding;
    uint64_t at;
    uint64_t stored_bytes;
    uint64_t raw_bytes;
} column_entry;

spsh__metadata *spsh__metadata_new(const spsh_allocator *allocator)
{
    spsh__metadata *metadata = (spsh__metadata *)spsh__new(allocator, 1, sizeof(*metadata));
    if (metadata != NULL)
        metadata->allocator = *allocator;
    return metadata;
}

void spsh__metadata_free(spsh__metadata *metadata)
{
    if (metadata == NULL)
        return;
    const spsh_allocator allocator = metadata->allocator;
    spsh__buffer_free(&metadata->data, &allocator);
    spsh__free(&allocator, metadata);
}

uint32_t spsh__metadata_rows(const spsh__metadata *metadata)
{
    return metadata->rows;
}

static column_entry load_entry(const uint8_t *block, uint32_t n)
{
    const uint8_t *entry = block + DIRECTORY_AT + (size_t)n * DIRECTORY_ENTRY_BYTES;
    return (column_entry){
        .id = spsh__load_u32le(entry),
        .encoding = spsh__load_u32le(entry + 4),
        .at = spsh__load_u64le(entry + 8),
        .stored_bytes = spsh__load_u64le(entry + 16),
        .raw_bytes = spsh__load_u64le(entry + 24),
    };
}

/* Read the offset and sizes of a column. *end: on entry the end of the previous column, on return
 * the end of this one. */
static const char *find_bad_place(const uint8_t *block, uint64_t used_bytes,
                                  const column_entry *entry, uint64_t *end)
{
    uint64_t at = spsh__align_up(*end, COLUMN_ALIGNMENT);
    if (entry->at != at || at > used_bytes)
        return "a column does not begin where the column before it ends";
    if (!spsh__all_zero(block + *end, (size_t)(at - *end)))
        return "the gap between columns is not 0";
    if (entry->stored_bytes > used_bytes - at)
        return "a column extends past the end of the block";
    if (entry->raw_bytes > RAW_BYTES_MAX ||
        entry->raw_bytes > entry->stored_bytes * RAW_RATIO_MAX + 64)
        return "raw_bytes is too large";
    if (entry->encoding == 0 && entry->stored_bytes != entry->raw_bytes)
        return "a raw column has two different sizes";
    *end = at + entry->stored_bytes;
    return NULL;
}

/* Size of a known column against the row count. */
static const char *find_bad_size(const column_entry *entry, uint32_t count)
{
    uint32_t width = columns[entry->id - 1].width;
    if (entry->encoding > 1)
        return "encoding";
    if (width != 0 && entry->raw_bytes != (uint64_t)count * width)
        return "raw_bytes of a fixed-width column is wrong";
    if (width == 0 && entry->raw_bytes < (uint64_t)count * 4)
        return "raw_bytes of a string column is wrong";
    return NULL;
}

/* Checks the directory and finds where each known column goes in data. */
static const char *load_directory(spsh__metadata *m, const uint8_t *block, uint64_t used_bytes,
                                  uint32_t count, size_t *ret_data_bytes)
{
    uint32_t column_count = spsh__load_u32le(block + 64);
    uint32_t last_id = 0;
    size_t data_bytes = 0;
    if (column_count > COLUMNS_MAX || spsh__load_u32le(block + 68) != 0)
        return "column_count or the reserved bytes are wrong";
    uint64_t end = DIRECTORY_AT + (uint64_t)column_count * DIRECTORY_ENTRY_BYTES;
    if (end > used_bytes)
        return "the column directory extends past the end of the block";
    for (uint32_t n = 0; n < column_count; n++) {
        column_entry entry = load_entry(block, n);
        const char *bad = find_bad_place(block, used_bytes, &entry, &end);
        if (entry.id <= last_id)
            return "column ids do not ascend";
        last_id = entry.id;
        if (bad == NULL && entry.id <= COLUMNS) {
            bad = find_bad_size(&entry, count);
            m->column_at[entry.id - 1] = data_bytes;
            m->raw_bytes[entry.id - 1] = entry.raw_bytes;
            data_bytes += (size_t)spsh__align_up(entry.raw_bytes, COLUMN_ALIGNMENT);
        }
        if (bad != NULL)
            return bad;
    }
    if (end != used_bytes)
        return "the last column does not end at used_bytes";
    for (unsigned c = 0; c < REQUIRED; c++)
        if (m->raw_bytes[c] == 0)
            return "a column of 1 to 5 is missing";
    *ret_data_bytes = data_bytes;
    return NULL;
}

/* Lengths to ends; false when they do not fill the column. */
static bool sum_lengths(uint8_t *column, uint64_t raw_bytes, uint32_t count)
{
    uint64_t end = 0;
    uint64_t bytes = raw_bytes - (uint64_t)count * 4;
    for (uint32_t row = 0; row < count; row++) {
        end += spsh__load_u32le(column + (size_t)row * 4);
        if (end > bytes)
            return false;
        spsh__store_u32le(column + (size_t)row * 4, (uint32_t)end);
    }
    return end == bytes;
}

static const char *load_columns(spsh__metadata *m, const uint8_t *block, uint32_t count)
{
    uint32_t column_count = spsh__load_u32le(block + 64);
    for (uint32_t n = 0; n < column_count; n++) {
        column_entry entry = load_entry(block, n);
        if (entry.id > COLUMNS)
            continue;
        uint8_t *to = m->data.data + m->column_at[entry.id - 1];
        const uint8_t *from = block + entry.at;
        if (entry.encoding == 0) {
            memcpy(to, from, (size_t)entry.raw_bytes);
        } else {
            int got = LZ4_decompress_safe((const char *)from, (char *)to, (int)entry.stored_bytes,
                                          (int)entry.raw_bytes);
            if (got < 0 || (uint64_t)got != entry.raw_bytes)
                return "an LZ4 block does not decompress to raw_bytes";
        }
        if (columns[entry.id - 1].width == 0 && !sum_lengths(to, entry.raw_bytes, count))
            return "string lengths do not fill the column";
    }
    return NULL;
}

/* NOLINTBEGIN(readability-function-size): a block, its counts, and its name for messages */
spsh_status spsh__metadata_unpack(spsh__metadata *metadata, const uint8_t *block,
                                  uint64_t used_bytes, uint32_t count, uint64_t offset_bytes,
                                  const char *path, spsh_error *err)
{
    size_t data_bytes = 0;
    const char *bad = NULL;
    metadata->rows = 0;
    metadata->count = count;
    memset(metadata->raw_bytes, 0, sizeof(metadata->raw_bytes));
    if (used_bytes < DIRECTORY_AT)
        bad = "used_bytes";
    if (bad == NULL)
        bad = load_directory(metadata, block, used_bytes, count, &data_bytes);
    if (bad == NULL) {
        metadata->data.size_bytes = 0;
        spsh_status rc =
            spsh__buffer_reserve(&metadata->data, &metadata->allocator, data_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        bad = load_columns(metadata, block, count);
    }
    if (bad != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                            "%s: invalid metadata block at %llu: %s", path, ULL(offset_bytes), bad);
    metadata->rows = count;
    return SPSH_OK;
}

spsh_status spsh__metadata_load(spsh__metadata *metadata, const uint8_t *block, uint64_t used_bytes,
                                uint32_t count, uint64_t offset_bytes, const char *path,
                                spsh_error *err)
{
    spsh_status rc =
        spsh__metadata_unpack(metadata, block, used_bytes, count, offset_bytes, path, err);
    for (uint32_t row = 0; rc == SPSH_OK && row < count; row++) {
        spsh_utterance utterance;
        spsh__metadata_row(metadata, row, &utterance);
        const char *bad = spsh__metadata_find_bad_field(&utterance);
        if (bad != NULL)
            rc = SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes,
                              "%s: metadata block at %llu: row %u: invalid value or not UTF-8: %s",
                              path, ULL(offset_bytes), row, bad);
    }
    if (rc != SPSH_OK)
        metadata->rows = 0;
    return rc;
}
/* NOLINTEND(readability-function-size) */

void spsh__metadata_row(const spsh__metadata *metadata, uint32_t row, spsh_utterance *ret_utterance)
{
    uint8_t *fields = (uint8_t *)ret_utterance;
    memset(ret_utterance, 0, sizeof(*ret_utterance));
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (metadata->raw_bytes[c] == 0)
            continue;
        const uint8_t *column = metadata->data.data + metadata->column_at[c];
        if (columns[c].width == 8) {
            uint64_t number = spsh__load_u64le(column + (size_t)row * 8);
            memcpy(fields + columns[c].field, &number, sizeof(number));
        } else if (columns[c].width == 4) {
            uint32_t number = spsh__load_u32le(column + (size_t)row * 4);
            memcpy(fields + columns[c].field, &number, sizeof(number));
        } else {
            uint32_t end = spsh__load_u32le(column + (size_t)row * 4);
            uint32_t begin = row == 0 ? 0 : spsh__load_u32le(column + (size_t)row * 4 - 4);
            spsh_bytes string = {NULL, end - begin};
            if (string.size_bytes != 0)
                string.data = column + (size_t)metadata->count * 4 + begin;
            memcpy(fields + columns[c].field, &string, sizeof(string));
        }
    }
}

/* segment_writer.c: the columns of a segment in memory, and their file.
 *
 * Each column grows separately. Ranges are stored by their ends. Two writers are joined by
 * concatenating their columns and adding an offset to the indices of the second. Threads collect
 * parts of a shard, and the publishing thread joins them in order.
 *
 * After an allocation failure nothing more is added, and the call that detects it returns the
 * error.
 */
#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "common/hash.h"
#include "segment_columns.h"
#include "speechshard/inside.h"

#define CHUNK_SAMPLES_MAX ((UINT64_C(1) << SPSH__SEGMENT_CHUNK_BITS) - 1)
#define CHUNK_FIRST_MAX   ((UINT64_C(1) << (64 - SPSH__SEGMENT_CHUNK_BITS)) - 1)
#define FRAME_MAX         ((UINT64_C(1) << (64 - SPSH__SEGMENT_FRAME_SHIFT)) - 1)

typedef struct column {
    uint8_t *bytes;
    size_t size, capacity;
} column;

struct spsh__segment_writer {
    column columns[SPSH__SEGMENT_COLUMN_COUNT];
    bool out_of_memory;
};

const spsh__segment_column_info spsh__segment_columns[SPSH__SEGMENT_COLUMN_COUNT] = {
#define SPSH_X(name_, id_, bytes_, per_) {id_, bytes_, SPSH__PER_##per_},
    SPSH__SEGMENT_COLUMN_MAP(SPSH_X)
#undef SPSH_X
};

void spsh__segment_file_id(const spsh_dataset *dataset, const spsh_shard_seal *seal,
                           uint8_t ret_file_id[16])
{
    static const char what[] = "fingerprint";
    uint8_t bytes[16 + 8 + 8 + 16 + 8 + sizeof(what) - 1];
    memcpy(bytes, spsh_dataset_info_get(dataset)->dataset_id, 16);
    spsh__store_le(bytes + 16, seal->unit, 8);
    spsh__store_le(bytes + 24, seal->number, 8);
    memcpy(bytes + 32, seal->root_hash, 16);
    spsh__store_le(bytes + 48, SPSH__SEGMENT_VERSION, 8);
    memcpy(bytes + 56, what, sizeof(what) - 1);
    spsh__pack_hash128((spsh_bytes){bytes, sizeof(bytes)}, ret_file_id);
}

/* ---- columns ---- */

/* Extend a column by size bytes and return them; NULL if out of memory. */
static uint8_t *extend(spsh__segment_writer *writer, spsh__segment_column number, size_t size)
{
    column *c = &writer->columns[number];
    if (!SPSH_GROW(c->bytes, c->capacity, c->size + size)) {
        writer->out_of_memory = true;
        return NULL;
    }
    c->size += size;
    return c->bytes + (c->size - size);
}

static void put(spsh__segment_writer *writer, spsh__segment_column number, uint64_t value)
{
    const size_t size = spsh__segment_columns[number].element_bytes;
    uint8_t *bytes = extend(writer, number, size);
    if (bytes != NULL)
        spsh__store_le(bytes, value, size);
}

/* Append a member: a hash, or a number of 32 or 64 bits. */
static void put_member(spsh__segment_writer *writer, spsh__segment_column number,
                       const void *member, size_t member_bytes)
{
    if (member_bytes == 16) {
        uint8_t *bytes = extend(writer, number, 16);
        if (bytes != NULL)
            memcpy(bytes, member, 16);
    } else {
        put(writer, number,
            member_bytes == sizeof(uint32_t) ? *(const uint32_t *)member
                                             : *(const uint64_t *)member);
    }
}

static uint64_t count_of(const spsh__segment_writer *writer, spsh__segment_column number)
{
    return writer->columns[number].size / spsh__segment_columns[number].element_bytes;
}

/* ---- life cycle ---- */

static bool has_end(spsh__segment_per per)
{
    return per == SPSH__PER_ROW_END || per == SPSH__PER_PRINT_END;
}

spsh_status spsh__segment_writer_reset(spsh__segment_writer *writer, spsh_error *err)
{
    writer->out_of_memory = false;
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++) {
        writer->columns[i].size = 0;
        if (has_end(spsh__segment_columns[i].per))
            put(writer, (spsh__segment_column)i, 0);
    }
    return writer->out_of_memory ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

spsh_status spsh__segment_writer_open(spsh__segment_writer **ret_writer, spsh_error *err)
{
    spsh__segment_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh__segment_writer_reset(writer, err);
    if (rc != SPSH_OK) {
        spsh__segment_writer_free(writer);
        return rc;
    }
    *ret_writer = writer;
    return SPSH_OK;
}

void spsh__segment_writer_free(spsh__segment_writer *writer)
{
    if (writer == NULL)
        return;
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++)
        free(writer->columns[i].bytes);
    free(writer);
}

uint64_t spsh__segment_writer_data_bytes(const spsh__segment_writer *writer)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++)
        bytes += writer->columns[i].size;
    return bytes;
}

uint64_t spsh__segment_writer_row_count(const spsh__segment_writer *writer)
{
    return count_of(writer, SPSH__SEGMENT_FLAGS);
}

/* ---- adding ---- */

static void add_frames(spsh__segment_writer *writer, const spsh__print *print)
{
    uint8_t *words = extend(writer, SPSH__SEGMENT_WORDS, 4 * print->frame_count);
    uint8_t *levels = extend(writer, SPSH__SEGMENT_LEVELS, print->frame_count);
    if (words == NULL || levels == NULL)
        return;
    for (size_t i = 0; i < print->frame_count; i++) {
        const spsh__print_frame *frame = &print->frames[i];
        spsh__store_le(words + 4 * i, frame->word, 4);
        levels[i] = (uint8_t)(frame->level | (frame->is_active ? SPSH__SEGMENT_ACTIVE_BIT : 0));
    }
}

static spsh_status add_keys(spsh__segment_writer *writer, const spsh__print *print, spsh_error *err)
{
    uint8_t *bytes = extend(writer, SPSH__SEGMENT_KEYS, 16 * print->key_count);
    for (size_t i = 0; bytes != NULL && i < print->key_count; i++) {
        const spsh__print_key *key = &print->keys[i];
        if (key->frame > FRAME_MAX)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "a recording of %llu frames",
                             (unsigned long long)key->frame);
        spsh__store_le(bytes + 16 * i,
                       key->bits | (uint64_t)key->weak[0] << SPSH__KEY_BITS |
                           (uint64_t)key->weak[1] << (SPSH__KEY_BITS + SPSH__SEGMENT_WEAK_BITS),
                       8);
        spsh__store_le(bytes + 16 * i + 8, key->weak[2] | key->frame << SPSH__SEGMENT_FRAME_SHIFT,
                       8);
    }
    return SPSH_OK;
}

static spsh_status add_chunks(spsh__segment_writer *writer, const spsh__segment_entry *entry,
                              spsh_error *err)
{
    uint8_t *bytes = extend(writer, SPSH__SEGMENT_CHUNKS, 16 * entry->chunk_count);
    for (size_t i = 0; bytes != NULL && i < entry->chunk_count; i++) {
        const spsh__chunk *chunk = &entry->chunks[i];
        if (chunk->samples > CHUNK_SAMPLES_MAX || chunk->first_sample > CHUNK_FIRST_MAX)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "a chunk of %u samples at %llu", chunk->samples,
                             (unsigned long long)chunk->first_sample);
        spsh__store_le(bytes + 16 * i, chunk->hash, 8);
        spsh__store_le(bytes + 16 * i + 8,
                       chunk->samples | chunk->first_sample << SPSH__SEGMENT_CHUNK_BITS, 8);
    }
    put(writer, SPSH__SEGMENT_CHUNK_BEGIN, count_of(writer, SPSH__SEGMENT_CHUNKS));
    return SPSH_OK;
}

spsh_status spsh__segment_writer_add(spsh__segment_writer *writer, const spsh__segment_entry *entry,
                                     spsh_error *err)
{
    const uint64_t row = count_of(writer, SPSH__SEGMENT_FLAGS);
    spsh_status rc = SPSH_OK;
#define SPSH_X(name_, member_)                                                                     \
    put_member(writer, SPSH__SEGMENT_##name_, &entry->row.member_, sizeof(entry->row.member_));
    SPSH__SEGMENT_MEMBER_MAP(SPSH_X)
#undef SPSH_X
    for (size_t i = 0; i < entry->print_count && rc == SPSH_OK; i++) {
        put(writer, SPSH__SEGMENT_PRINT_ROW, row);
        put(writer, SPSH__SEGMENT_PRINT_CHANNEL, entry->channels[i]);
        add_frames(writer, &entry->prints[i]);
        rc = add_keys(writer, &entry->prints[i], err);
        put(writer, SPSH__SEGMENT_FRAME_BEGIN, count_of(writer, SPSH__SEGMENT_LEVELS));
        put(writer, SPSH__SEGMENT_KEY_BEGIN, count_of(writer, SPSH__SEGMENT_KEYS));
    }
    put(writer, SPSH__SEGMENT_PRINT_BEGIN, count_of(writer, SPSH__SEGMENT_PRINT_ROW));
    if (rc == SPSH_OK)
        rc = add_chunks(writer, entry, err);
    if (rc == SPSH_OK && writer->out_of_memory)
        rc = SPSH_NO_MEMORY(err);
    return rc;
}

/* Return the column whose elements the values of column `number` count, so that a join adds its
 * length to them. COLUMN_COUNT: the values are not indices. */
static spsh__segment_column counted_by(spsh__segment_column number)
{
    switch (number) {
    case SPSH__SEGMENT_PRINT_BEGIN: return SPSH__SEGMENT_PRINT_ROW;
    case SPSH__SEGMENT_CHUNK_BEGIN: return SPSH__SEGMENT_CHUNKS;
    case SPSH__SEGMENT_PRINT_ROW: return SPSH__SEGMENT_FLAGS;
    case SPSH__SEGMENT_FRAME_BEGIN: return SPSH__SEGMENT_LEVELS;
    case SPSH__SEGMENT_KEY_BEGIN: return SPSH__SEGMENT_KEYS;
    default: return SPSH__SEGMENT_COLUMN_COUNT;
    }
}

spsh_status spsh__segment_writer_append(spsh__segment_writer *writer,
                                        const spsh__segment_writer *part, spsh_error *err)
{
    uint64_t counts[SPSH__SEGMENT_COLUMN_COUNT]; /* elements in writer before the append */
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++)
        counts[i] = count_of(writer, (spsh__segment_column)i);
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++) {
        const spsh__segment_column number = (spsh__segment_column)i;
        const spsh__segment_column counted = counted_by(number);
        const size_t width = spsh__segment_columns[i].element_bytes;
        const size_t skip = has_end(spsh__segment_columns[i].per) ? width : 0;
        const size_t size = part->columns[i].size - skip;
        uint8_t *bytes = size > 0 ? extend(writer, number, size) : NULL;
        if (bytes == NULL)
            continue;
        memcpy(bytes, part->columns[i].bytes + skip, size);
        for (size_t at = 0; counted != SPSH__SEGMENT_COLUMN_COUNT && at < size; at += width)
            spsh__store_le(bytes + at, spsh__load_le(bytes + at, width) + counts[counted], width);
    }
    return writer->out_of_memory ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* ---- publishing ---- */

spsh_status spsh__segment_writer_publish(spsh__segment_writer *writer, const spsh_dataset *dataset,
                                         const spsh_shard_seal *seal, const spsh_io *io,
                                         spsh_error *err)
{
    uint8_t shard[32];
    uint8_t versions[4 * SPSH__SEGMENT_VERSIONS_COUNT];
    spsh_table_column columns[SPSH__SEGMENT_COLUMN_COUNT];
    char name[32];
    char *directory = spsh__segment_path(dataset, "");
    spsh_table_file_content content = {
        .directory = directory,
        .name = name,
        .info = {.unit = seal->unit,
                 .number = seal->number,
                 .row_count = spsh__segment_writer_row_count(writer)},
        .columns = columns,
        .column_count = SPSH__SEGMENT_COLUMN_COUNT,
        .mode = SPSH_PUBLISH_REPLACE,
    };
    if (directory == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_shard_file_name(seal->unit, seal->number, name);
    memcpy(shard, seal->file_id, 16);
    memcpy(shard + 16, seal->root_hash, 16);
    spsh__store_le(versions, SPSH__SEGMENT_VERSION, 4);
    spsh__store_le(versions + 4, SPSH__FINGERPRINT_VERSION, 4);
    memcpy(content.info.dataset_id, spsh_dataset_info_get(dataset)->dataset_id, 16);
    spsh__segment_file_id(dataset, seal, content.info.file_id);
    for (unsigned i = 0; i < SPSH__SEGMENT_COLUMN_COUNT; i++)
        columns[i] = (spsh_table_column){
            spsh__segment_columns[i].id, spsh__segment_columns[i].element_bytes,
            count_of(writer, (spsh__segment_column)i), writer->columns[i].bytes};
    columns[SPSH__SEGMENT_SHARD].count = 2;
    columns[SPSH__SEGMENT_SHARD].elements = shard;
    columns[SPSH__SEGMENT_VERSIONS].count = SPSH__SEGMENT_VERSIONS_COUNT;
    columns[SPSH__SEGMENT_VERSIONS].elements = versions;
    spsh_status rc = spsh_io_make_directory(io != NULL ? io : spsh_io_default(), directory, err);
    if (rc == SPSH_OK)
        rc = spsh_table_file_publish(&content, io, err);
    free(directory);
    return rc;
}

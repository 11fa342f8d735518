/* shard_writer.c: blocks as they fill, then the index, then the seal (FORMAT.md 3).
 *
 *     records    -> block buffer     -> file     one block at a time, 1 to 4 MiB
 *     utterances -> metadata builder -> file     after the records that they refer to
 *     both       -> shard index      -> file     at the seal
 *
 * The bytes written depend only on the sequence of calls. A record that does not fit in a block
 * goes from the caller's memory to the file.
 */
#include <stdio.h>

#include "base/checksum.h"
#include "block.h"
#include "metadata_block.h"
#include "record.h"
#include "shard_index.h"
#include "speechshard/options.h"

#define ULL(value_) ((unsigned long long)(value_))

enum {
    RECORD_BLOCK_CLOSE = 1 << 20, /* used_bytes at which a record block is closed */
    UNIT_MAX = 999999,            /* largest number that file names can hold */
    NUMBER_MAX = 999,
};

struct spsh_shard_writer {
    spsh_allocator allocator;
    spsh_shard_writer_options options; /* pointers in it are not used after open */
    spsh__header header;
    spsh_file_writer *file;
    spsh__shard_index *index;
    spsh__metadata_builder *metadata;
    uint8_t *block;    /* SPSH_BLOCK_BYTES_MAX: the open record block */
    size_t block_used; /* 0: no block is open */
    uint32_t block_records;
    uint8_t *metadata_block; /* SPSH_BLOCK_BYTES_MAX: where a metadata block is put together */
    uint64_t written_rows;   /* in metadata blocks that are written */
    bool dead;
};

void spsh_shard_file_name(uint64_t unit, uint32_t number, char dst[32])
{
    (void)snprintf(dst, 32, "%06llu-%03u.spsh", ULL(unit), number);
}

static spsh_status check_options(const spsh_shard_writer_options *options, spsh_error *err)
{
    if (options->directory == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "shard: directory is NULL");
    if (options->unit > UNIT_MAX || options->number > NUMBER_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "shard: unit %llu and number %u exceed the limits, %d and %d",
                         ULL(options->unit), options->number, UNIT_MAX, NUMBER_MAX);
    if (options->first_record > UINT64_MAX / 2 || options->first_utterance > UINT64_MAX / 2)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "shard: first_record or first_utterance is too large");
    return SPSH_OK;
}

static spsh_status start(spsh_shard_writer *w, spsh_error *err)
{
    const spsh_shard_writer_options *o = &w->options;
    const spsh_io *io = o->io != NULL ? o->io : spsh_io_default();
    uint8_t page[SPSH__PAGE_BYTES];
    char name[32];
    w->index = spsh__shard_index_new(&w->allocator);
    w->metadata = spsh__metadata_builder_new(&w->allocator);
    w->block = (uint8_t *)spsh__alloc(&w->allocator, SPSH_BLOCK_BYTES_MAX);
    w->metadata_block = (uint8_t *)spsh__alloc(&w->allocator, SPSH_BLOCK_BYTES_MAX);
    if (w->index == NULL || w->metadata == NULL || w->block == NULL || w->metadata_block == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "shard writer");
    w->header = (spsh__header){
        .kind = SPSH__KIND_SHARD,
        .ordinal = o->unit,
        .sub_ordinal = o->number,
        .first_record = o->first_record,
        .first_utterance = o->first_utterance,
    };
    memcpy(w->header.dataset_id, o->dataset_id, 16);
    spsh__shard_file_id(o->dataset_id, o->unit, o->number, w->header.file_id);
    spsh__header_encode(&w->header, page);
    spsh_shard_file_name(o->unit, o->number, name);
    spsh_status rc = spsh_file_writer_open(io, o->directory, name, o->reserve_bytes, &w->allocator,
                                           &w->file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(w->file, page, sizeof(page), err);
    return rc;
}

spsh_status spsh_shard_writer_open(const spsh_shard_writer_options *options,
                                   spsh_shard_writer **ret_writer, spsh_error *err)
{
    spsh_shard_writer_options known = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *w = NULL;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc == SPSH_OK)
        rc = check_options(&known, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_allocator *allocator =
        known.allocator != NULL ? known.allocator : spsh_allocator_default();
    w = (spsh_shard_writer *)spsh__new(allocator, 1, sizeof(*w));
    if (w == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "shard writer");
    w->allocator = *allocator;
    w->options = known;
    rc = start(w, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_writer = w;
    w = NULL;
out:
    spsh_shard_writer_free(w);
    return rc;
}

/* ---- blocks ---- */

/* Seal and write a block whose content is data up to block->used_bytes. */
static spsh_status write_block(spsh_shard_writer *w, spsh__block *block, uint8_t *data,
                               spsh_error *err)
{
    uint64_t offset = spsh_file_writer_size(w->file);
    block->block_bytes = spsh__align_up(block->used_bytes, SPSH__PAGE_BYTES);
    block->ordinal = spsh__shard_index_blocks(w->index);
    memset(data + block->used_bytes, 0, (size_t)(block->block_bytes - block->used_bytes));
    spsh__block_header_encode(block, data);
    uint64_t checksum =
        spsh__block_seal(w->header.file_id, offset, data, (size_t)block->block_bytes);
    spsh_status rc = spsh_file_writer_write(w->file, data, (size_t)block->block_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_block(w->index, offset, checksum, err);
    return rc;
}

static spsh_status flush_records(spsh_shard_writer *w, spsh_error *err)
{
    if (w->block_used == 0)
        return SPSH_OK;
    spsh__block block = {
        .kind = SPSH__BLOCK_RECORDS,
        .used_bytes = w->block_used,
        .first = spsh__shard_index_records(w->index) - w->block_records,
        .count = w->block_records,
    };
    w->block_used = 0;
    w->block_records = 0;
    return write_block(w, &block, w->block, err);
}

/* Flush records first: a row must follow its record in the file. */
static spsh_status flush_metadata(spsh_shard_writer *w, spsh_error *err)
{
    size_t used = 0;
    uint32_t rows = spsh__metadata_builder_rows(w->metadata);
    if (rows == 0)
        return SPSH_OK;
    spsh_status rc = flush_records(w, err);
    if (rc == SPSH_OK)
        rc = spsh__metadata_builder_encode(w->metadata, w->metadata_block, SPSH_BLOCK_BYTES_MAX,
                                           &used, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_metadata_block(w->index, spsh_file_writer_size(w->file),
                                                  (uint32_t)w->written_rows, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__block block = {
        .kind = SPSH__BLOCK_METADATA,
        .used_bytes = used,
        .first = w->written_rows,
        .count = rows,
    };
    w->written_rows += rows;
    return write_block(w, &block, w->metadata_block, err);
}

/* ---- records ---- */

static spsh_status add_to_block(spsh_shard_writer *w, const spsh__record_size *size,
                                spsh_record *record, const void *payload, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (w->block_used + size->record_bytes > SPSH_BLOCK_BYTES_MAX)
        rc = flush_records(w, err);
    if (rc != SPSH_OK)
        return rc;
    if (w->block_used == 0)
        w->block_used = SPSH__BLOCK_HEADER_BYTES;
    uint8_t *at = w->block + w->block_used;
    uint64_t offset = spsh_file_writer_size(w->file) + w->block_used;
    size_t payload_bytes = (size_t)record->payload_bytes;
    size_t content = size->head_bytes + payload_bytes;
    spsh__record_head_encode(w->header.file_id, offset, spsh__shard_index_records(w->index), record,
                             payload, at, record->payload_hash);
    if (payload_bytes != 0)
        memcpy(at + size->head_bytes, payload, payload_bytes);
    memset(at + content, 0, (size_t)size->record_bytes - content);
    rc = spsh__shard_index_add_record(w->index, offset, size->head_bytes, record, err);
    if (rc != SPSH_OK)
        return rc;
    w->block_used += (size_t)size->record_bytes;
    w->block_records++;
    return w->block_used >= RECORD_BLOCK_CLOSE ? flush_records(w, err) : SPSH_OK;
}

/* start: block header and record head; then comes the payload, then zero_bytes. */
static spsh_status write_oversize(spsh_shard_writer *w, uint8_t *front, size_t front_bytes,
                                  spsh_bytes payload, size_t zero_bytes, spsh_error *err)
{
    uint64_t offset = spsh_file_writer_size(w->file);
    spsh__hasher *hasher = spsh__hasher_new(&w->allocator);
    if (hasher == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "shard writer");
    memset(w->block, 0, zero_bytes);
    spsh__hasher_reset_checksum(hasher, w->header.file_id, offset);
    spsh__hasher_update(hasher, front + 8, front_bytes - 8);
    spsh__hasher_update(hasher, payload.data, payload.size_bytes);
    spsh__hasher_update(hasher, w->block, zero_bytes);
    uint64_t checksum = spsh__hasher_digest_checksum(hasher);
    spsh__hasher_free(hasher);
    spsh__store_u64le(front, checksum);
    spsh_status rc = spsh_file_writer_write(w->file, front, front_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(w->file, payload.data, payload.size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(w->file, w->block, zero_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_block(w->index, offset, checksum, err);
    return rc;
}

static spsh_status add_oversize(spsh_shard_writer *w, const spsh__record_size *size,
                                spsh_record *record, const void *payload, spsh_error *err)
{
    spsh_status rc = flush_records(w, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t record_offset = spsh_file_writer_size(w->file) + SPSH__BLOCK_HEADER_BYTES;
    size_t front_bytes = SPSH__BLOCK_HEADER_BYTES + (size_t)size->head_bytes;
    uint8_t *front = (uint8_t *)spsh__alloc(&w->allocator, front_bytes);
    if (front == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "record head of %u bytes", size->head_bytes);
    spsh__block block = {
        .kind = SPSH__BLOCK_RECORDS,
        .used_bytes = SPSH__BLOCK_HEADER_BYTES + size->record_bytes,
        .first = spsh__shard_index_records(w->index),
        .count = 1,
        .flags = SPSH__BLOCK_OVERSIZE,
        .ordinal = spsh__shard_index_blocks(w->index),
    };
    block.block_bytes = spsh__align_up(block.used_bytes, SPSH__PAGE_BYTES);
    spsh__block_header_encode(&block, front);
    spsh__record_head_encode(w->header.file_id, record_offset, block.first, record, payload,
                             front + SPSH__BLOCK_HEADER_BYTES, record->payload_hash);
    spsh_bytes bytes = {(const uint8_t *)payload, (size_t)record->payload_bytes};
    size_t zero_bytes = (size_t)(block.block_bytes - front_bytes - record->payload_bytes);
    rc = write_oversize(w, front, front_bytes, bytes, zero_bytes, err);
    spsh__free(&w->allocator, front);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_record(w->index, record_offset, size->head_bytes, record, err);
    return rc;
}

static spsh_status check_alive(const spsh_shard_writer *w, spsh_error *err)
{
    if (w->dead)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "shard writer: no call is possible after a failure or after the seal");
    return SPSH_OK;
}

spsh_status spsh_shard_writer_add_record(spsh_shard_writer *writer, const spsh_record *record,
                                         const void *payload, uint64_t *ret_record, spsh_error *err)
{
    spsh__record_size size = {0, 0, 0};
    spsh_status rc = check_alive(writer, err);
    if (rc == SPSH_OK)
        rc = spsh__record_check_fields(record, &size, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t number = spsh__shard_index_records(writer->index);
    if (number >= SPSH_SHARD_RECORDS_MAX ||
        spsh_shard_writer_size(writer) + size.record_bytes + SPSH_BLOCK_BYTES_MAX >
            SPSH_FILE_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the shard is full: it has %llu records", ULL(number));
    spsh_record stored = *record;
    if (SPSH__BLOCK_HEADER_BYTES + size.record_bytes > SPSH_BLOCK_BYTES_MAX)
        rc = add_oversize(writer, &size, &stored, payload, err);
    else
        rc = add_to_block(writer, &size, &stored, payload, err);
    if (rc != SPSH_OK)
        writer->dead = true;
    else
        *ret_record = writer->header.first_record + number;
    return rc;
}

/* ---- utterances ---- */

static spsh_status check_segment(const spsh_shard_writer *w, const spsh_utterance *u,
                                 spsh_error *err)
{
    uint64_t first = w->header.first_record;
    uint64_t next = first + spsh__shard_index_records(w->index);
    int id_bytes = (int)(u->id.size_bytes > 200 ? 200 : u->id.size_bytes);
    if (u->record >= next)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "utterance \"%.*s\": record %llu does not exist: the unit has %llu records so far",
            id_bytes, (const char *)u->id.data, ULL(u->record), ULL(next));
    if (u->record < first)
        return SPSH_OK; /* in an earlier shard: not checked here */
    uint64_t samples = spsh__shard_index_record_samples(w->index, u->record - first);
    if (u->start_sample + u->samples > samples)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "utterance \"%.*s\": samples from %llu, %llu of them, are out of range: "
                         "its record has %llu",
                         id_bytes, (const char *)u->id.data, ULL(u->start_sample), ULL(u->samples),
                         ULL(samples));
    return SPSH_OK;
}

spsh_status spsh_shard_writer_add_utterance(spsh_shard_writer *writer,
                                            const spsh_utterance *utterance, spsh_error *err)
{
    spsh_status rc = check_alive(writer, err);
    if (rc == SPSH_OK)
        rc = spsh__utterance_check_fields(utterance, err);
    if (rc == SPSH_OK)
        rc = check_segment(writer, utterance, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh__shard_index_rows(writer->index) >= SPSH_SHARD_UTTERANCES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the shard has the maximum number of utterances");
    rc = spsh__metadata_builder_add(writer->metadata, utterance, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_row(writer->index, utterance, err);
    if (rc == SPSH_OK &&
        (spsh__metadata_builder_rows(writer->metadata) >= SPSH__METADATA_ROWS ||
         spsh__metadata_builder_raw_bytes(writer->metadata) >= SPSH__METADATA_BYTES))
        rc = flush_metadata(writer, err);
    if (rc != SPSH_OK)
        writer->dead = true;
    return rc;
}

uint64_t spsh_shard_writer_size(const spsh_shard_writer *writer)
{
    return spsh_file_writer_size(writer->file) + writer->block_used +
           spsh__metadata_builder_raw_bytes(writer->metadata) +
           spsh__shard_index_bytes(writer->index);
}

spsh_status spsh_shard_writer_seal(spsh_shard_writer *writer, spsh_shard_seal *ret_seal,
                                   spsh_error *err)
{
    spsh__footer footer;
    spsh_status rc = check_alive(writer, err);
    if (rc != SPSH_OK)
        return rc;
    writer->dead = true;
    rc = flush_records(writer, err);
    if (rc == SPSH_OK)
        rc = flush_metadata(writer, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_write(writer->index, writer->file, &writer->header, &footer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer->file, SPSH_PUBLISH_NEW, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_shard_seal seal = {
        .file_bytes = footer.file_bytes,
        .unit = writer->header.ordinal,
        .number = writer->header.sub_ordinal,
        .record_count = footer.record_count,
        .utterance_count = footer.utterance_count,
    };
    memcpy(seal.file_id, footer.file_id, 16);
    memcpy(seal.root_hash, footer.root_hash, 16);
    *ret_seal = seal;
    return SPSH_OK;
}

void spsh_shard_writer_free(spsh_shard_writer *writer)
{
    if (writer == NULL)
        return;
    const spsh_allocator allocator = writer->allocator;
    spsh_file_writer_free(writer->file);
    spsh__shard_index_free(writer->index);
    spsh__metadata_builder_free(writer->metadata);
    spsh__free(&allocator, writer->block);
    spsh__free(&allocator, writer->metadata_block);
    spsh__free(&allocator, writer);
}

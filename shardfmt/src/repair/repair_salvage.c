/* repair_salvage.c: copy the intact parts of a damaged shard to a new one with the same unit and
 * number.
 *
 * The file is read once, in order. Intact blocks give all their content. Between them the code
 * looks for every intact head on its grid of 64 bytes. A head counts if all its payload pages are
 * right. Records keep their order and lose the gaps between their numbers, so rows are written with
 * new record numbers. `map` translates the numbers of this shard's records, and the unit's map
 * translates numbers of earlier shards. A row of a lost record is reported, not written. A damaged
 * metadata block is reported as a whole, since its rows have no separate checksums.
 */
#include "repair_internal.h"

#include "io/io_internal.h"

#include <stdio.h>

#define ULL(value_) ((unsigned long long)(value_))

/* Damaged regions are searched in windows. A head that begins in a window is inside it as a whole:
 * windows overlap by the largest head. */
#define WINDOW_BYTES  ((size_t)64 << 20)
#define OVERLAP_BYTES ((size_t)SPSH__RECORD_HEAD_MAX)

typedef struct old_record {
    uint64_t number;       /* new, inside the unit; SPSH_NONE_U64: lost */
    uint64_t offset_bytes; /* offset of its head in the damaged file */
    bool used;             /* referenced by a row that was kept */
} old_record;

typedef struct salvage {
    spsh__repair *r;
    spsh_shard_writer *writer;
    spsh__metadata *metadata;
    spsh__buffer records;           /* old_record, by old number */
    spsh__buffer points;            /* spsh_seek_point, of one record */
    uint64_t old_records, old_rows; /* numbers that are accounted for */
    bool rows_lost;                 /* whole metadata blocks */
} salvage;

static old_record *record_at(const salvage *s, uint64_t n)
{
    return (old_record *)(void *)s->records.data + (size_t)n;
}

static spsh_status push_record(salvage *s, uint64_t number, uint64_t offset_bytes, spsh_error *err)
{
    const old_record record = {number, offset_bytes, false};
    s->old_records++;
    s->r->result.records_lost += number == SPSH_NONE_U64;
    s->r->result.records_kept += number != SPSH_NONE_U64;
    return spsh__buffer_append(&s->records, s->r->allocator, &record, sizeof(record), err);
}

/* Report records up to number `end`, of which nothing was found. */
static spsh_status lose_records(salvage *s, uint64_t end, uint64_t offset_bytes, spsh_error *err)
{
    char message[160];
    spsh_status rc = SPSH_OK;
    if (end <= s->old_records)
        return SPSH_OK;
    if (end > SPSH_SHARD_RECORDS_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, offset_bytes, "%s: record number %llu", s->r->name,
                            ULL(end));
    (void)snprintf(message, sizeof(message), "records %llu to %llu of the shard are lost",
                   ULL(s->old_records), ULL(end - 1));
    rc = spsh__repair_lost(s->r, "record", offset_bytes, (spsh_bytes){NULL, 0}, 0, message, err);
    while (rc == SPSH_OK && s->old_records < end)
        rc = push_record(s, SPSH_NONE_U64, SPSH_OFFSET_NONE, err);
    return rc;
}

static spsh_status lose_rows(salvage *s, uint64_t end, uint64_t offset_bytes, spsh_error *err)
{
    char message[160];
    if (end <= s->old_rows)
        return SPSH_OK;
    uint64_t rows = end - s->old_rows;
    (void)snprintf(message, sizeof(message), "rows %llu to %llu of the shard are lost",
                   ULL(s->old_rows), ULL(end - 1));
    s->r->result.utterances_lost += rows;
    s->old_rows = end;
    s->rows_lost = true;
    return spsh__repair_lost(s->r, "metadata", offset_bytes, (spsh_bytes){NULL, 0}, rows, message,
                             err);
}

/* ---- records ---- */

/* data: the whole record. */
static spsh_status keep_record(salvage *s, uint64_t offset_bytes, const spsh__record_head *head,
                               const uint8_t *data, spsh_error *err)
{
    spsh_record record = head->record;
    uint64_t number = 0;
    s->points.size_bytes = 0;
    spsh_status rc =
        spsh__buffer_reserve(&s->points, s->r->allocator,
                             (size_t)record.seek_point_count * sizeof(spsh_seek_point) + 1, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_seek_point *points = (spsh_seek_point *)(void *)s->points.data;
    spsh__record_seek_points(head, points);
    record.seek_points = points;
    rc = spsh_shard_writer_add_record(s->writer, &record, data + head->head_bytes, &number, err);
    if (rc == SPSH_OK)
        rc = push_record(s, number, offset_bytes, err);
    return rc;
}

/* A head that is intact; the record may not be. data: as much of the record as there is. */
static spsh_status take_record(salvage *s, uint64_t offset_bytes, const spsh__record_head *head,
                               spsh_bytes data, spsh_error *err)
{
    spsh_record record;
    spsh_bytes payload;
    spsh_error why = SPSH_ERROR_INIT;
    if (head->ordinal < s->old_records) /* out of order: a writer's mistake; the first one counts */
        return SPSH_OK;
    spsh_status rc = lose_records(s, head->ordinal, offset_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh_record_check(s->r->header.file_id, offset_bytes, data.data, data.size_bytes, &record,
                          &payload, &why) == SPSH_OK)
        return keep_record(s, offset_bytes, head, data.data, err);
    rc = spsh__repair_lost(s->r, "record", offset_bytes, head->record.id, 0, why.message, err);
    if (rc == SPSH_OK)
        rc = push_record(s, SPSH_NONE_U64, offset_bytes, err);
    return rc;
}

static spsh_status take_records(salvage *s, const spsh__repair_block *at, const uint8_t *data,
                                spsh_error *err)
{
    size_t offset = SPSH__BLOCK_HEADER_BYTES;
    const spsh_bytes all = {data, (size_t)at->block.used_bytes};
    spsh__record_head head;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && spsh__salvage_head(s->r->header.file_id, at->offset_bytes, all, offset,
                                               &offset, &head)) {
        size_t left = all.size_bytes - offset;
        size_t size = head.record_bytes < left ? (size_t)head.record_bytes : left;
        rc = take_record(s, at->offset_bytes + offset, &head, (spsh_bytes){data + offset, size},
                         err);
        offset += size;
    }
    return rc;
}

/* ---- rows ---- */

/* false: its record is lost. */
static bool map_record(salvage *s, uint64_t *record)
{
    const spsh__repair *r = s->r;
    const spsh_repair_unit *unit = r->opt.unit;
    uint64_t first = r->header.first_record;
    if (*record >= first) {
        if (*record - first >= s->old_records)
            return false;
        old_record *own = record_at(s, *record - first);
        own->used = true;
        *record = own->number;
        return own->number != SPSH_NONE_U64;
    }
    if (unit == NULL) /* single shard: the others are unchanged */
        return true;
    if (*record >= unit->map.size_bytes / 8)
        return false;
    memcpy(record, unit->map.data + (size_t)*record * 8, 8);
    return *record != SPSH_NONE_U64;
}

static spsh_status take_row(salvage *s, const spsh__repair_block *at, spsh_utterance *row,
                            spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    char message[200];
    uint64_t record = row->record;
    (void)snprintf(message, sizeof(message), "record %llu of the unit is lost", ULL(record));
    if (map_record(s, &row->record)) {
        spsh_status rc = spsh_shard_writer_add_utterance(s->writer, row, &why);
        if (rc == SPSH_OK) {
            s->r->result.utterances_kept++;
            return SPSH_OK;
        }
        if (rc != SPSH_E_INVALID_ARG && rc != SPSH_E_LIMIT) {
            if (err != NULL)
                *err = why;
            return rc;
        }
        (void)snprintf(message, sizeof(message), "%.180s", why.message);
    }
    s->r->result.utterances_lost++;
    return spsh__repair_lost(s->r, "utterance", at->offset_bytes, row->id, 1, message, err);
}

static spsh_status take_rows(salvage *s, const spsh__repair_block *at, const uint8_t *data,
                             spsh_error *err)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = lose_rows(s, at->block.first, at->offset_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__metadata_load(s->metadata, data, at->block.used_bytes, at->block.count,
                             at->offset_bytes, s->r->name, &why);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_FAIL_AT(err, rc, at->offset_bytes, "%s", why.message);
    if (rc != SPSH_OK)
        return lose_rows(s, at->block.first + at->block.count, at->offset_bytes, err);
    for (uint32_t n = 0; n < at->block.count && rc == SPSH_OK; n++) {
        spsh_utterance row;
        spsh__metadata_row(s->metadata, n, &row);
        s->old_rows++;
        rc = take_row(s, at, &row, err);
    }
    return rc;
}

/* ---- damaged places ---- */

/* Take a record of which only the beginning is in the window. */
static spsh_status take_long_record(salvage *s, uint64_t offset_bytes, uint64_t end_bytes,
                                    const spsh__record_head *head, spsh_error *err)
{
    const spsh__salvage *file = &s->r->file;
    uint64_t size = head->record_bytes;
    uint8_t *data = NULL;
    spsh__record_head again;
    if (size > end_bytes - offset_bytes)
        size = end_bytes - offset_bytes;
    spsh_status rc = spsh__salvage_bytes(file, offset_bytes, (size_t)size, &data, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes all = {data, (size_t)size};
    if (spsh__record_head_decode(file->file_id, offset_bytes, all, s->r->name, &again, NULL) ==
        SPSH_OK)
        rc = take_record(s, offset_bytes, &again, all, err);
    spsh__free(file->allocator, data);
    return rc;
}

/* Search one window. *ret_next: offset where the search resumes. */
static spsh_status search_window(salvage *s, uint64_t begin, spsh_bytes window, uint64_t end_bytes,
                                 uint64_t *ret_next, spsh_error *err)
{
    const bool last = begin + window.size_bytes >= end_bytes;
    const size_t stop = last ? window.size_bytes : window.size_bytes - OVERLAP_BYTES;
    spsh__record_head head;
    size_t at = 0;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && at < stop &&
           spsh__salvage_head(s->r->header.file_id, begin, window, at, &at, &head) && at < stop) {
        size_t left = window.size_bytes - at;
        if (head.record_bytes <= left) {
            rc = take_record(s, begin + at, &head,
                             (spsh_bytes){window.data + at, (size_t)head.record_bytes}, err);
            at += (size_t)head.record_bytes;
            continue;
        }
        rc = take_long_record(s, begin + at, end_bytes, &head, err);
        *ret_next = begin + at + head.record_bytes;
        return rc;
    }
    *ret_next = begin + (at > stop ? at : stop);
    return rc;
}

static spsh_status search_gap(salvage *s, uint64_t begin, uint64_t end, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && begin < end) {
        size_t size = end - begin < WINDOW_BYTES ? (size_t)(end - begin) : WINDOW_BYTES;
        uint8_t *data = NULL;
        rc = spsh__salvage_bytes(&s->r->file, begin, size, &data, err);
        if (rc == SPSH_OK)
            rc = search_window(s, begin, (spsh_bytes){data, size}, end, &begin, err);
        spsh__free(s->r->allocator, data);
    }
    return rc;
}

/* ---- the whole ---- */

static spsh_status take_all(salvage *s, spsh_error *err)
{
    const spsh__repair *r = s->r;
    uint64_t offset = SPSH__PAGE_BYTES;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; n < r->block_count && rc == SPSH_OK; n++) {
        const spsh__repair_block at = spsh__repair_block_at(r, n);
        uint8_t *data = NULL;
        rc = search_gap(s, offset, at.offset_bytes, err);
        if (rc == SPSH_OK)
            rc = spsh__repair_block_load(r, &at, &data, err);
        if (rc == SPSH_OK)
            rc = at.block.kind == SPSH__BLOCK_RECORDS ? take_records(s, &at, data, err)
                                                      : take_rows(s, &at, data, err);
        spsh__free(r->allocator, data);
        offset = at.offset_bytes + at.block.block_bytes;
    }
    if (rc == SPSH_OK && r->file.fd >= 0)
        rc = search_gap(s, offset, r->file.end_bytes, err);
    /* Find the records and rows lost after the last intact block. */
    uint64_t records = 0, rows = 0;
    if (r->footer_found) {
        records = r->footer.record_count;
        rows = r->footer.utterance_count;
    } else if (r->opt.expected != NULL) {
        records = r->opt.expected->record_count;
        rows = r->opt.expected->utterance_count;
    }
    if (rc == SPSH_OK)
        rc = lose_records(s, records, SPSH_OFFSET_NONE, err);
    if (rc == SPSH_OK)
        rc = lose_rows(s, rows, SPSH_OFFSET_NONE, err);
    return rc;
}

/* Report kept records to which no row of this shard refers. Call only after rows were lost. */
static spsh_status report_orphans(salvage *s, spsh_error *err)
{
    const spsh__salvage *file = &s->r->file;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; n < s->old_records && rc == SPSH_OK; n++) {
        const old_record *record = record_at(s, n);
        uint8_t *data = NULL;
        spsh__record_head head;
        uint32_t head_bytes = 0;
        uint8_t start[16];
        if (record->used || record->number == SPSH_NONE_U64)
            continue;
        rc = spsh_io_read_exact(file->io, file->fd, start, sizeof(start), record->offset_bytes,
                                file->path, err);
        if (rc == SPSH_OK)
            rc = spsh__record_head_size(start, record->offset_bytes, s->r->name, &head_bytes, err);
        if (rc == SPSH_OK)
            rc = spsh__salvage_bytes(file, record->offset_bytes, head_bytes, &data, err);
        if (rc == SPSH_OK)
            rc = spsh__record_head_decode(file->file_id, record->offset_bytes,
                                          (spsh_bytes){data, head_bytes}, s->r->name, &head, err);
        if (rc == SPSH_OK)
            rc = spsh__repair_lost(s->r, "recording", record->offset_bytes, head.record.id, 0,
                                   "kept, but the rows of its utterances are lost", err);
        spsh__free(file->allocator, data);
    }
    return rc;
}

/* Add the new numbers of this shard's records to the unit's map. */
static spsh_status number_unit(salvage *s, spsh_error *err)
{
    spsh_repair_unit *unit = s->r->opt.unit;
    spsh_status rc = SPSH_OK;
    const uint64_t lost = SPSH_NONE_U64;
    if (unit == NULL)
        return SPSH_OK;
    for (uint64_t n = 0; n < s->old_records && rc == SPSH_OK; n++)
        rc = spsh__buffer_append(&unit->map, &unit->allocator, &record_at(s, n)->number,
                                 sizeof(lost), err);
    unit->new_records += s->r->result.records_kept;
    unit->new_utterances += s->r->result.utterances_kept;
    unit->utterances += s->old_rows;
    return rc;
}

/* Records of earlier shards that were not repaired first count as lost for this shard. */
static spsh_status fill_unit(spsh__repair *r, spsh_error *err)
{
    spsh_repair_unit *unit = r->opt.unit;
    const uint64_t lost = SPSH_NONE_U64;
    spsh_status rc = SPSH_OK;
    if (unit == NULL)
        return SPSH_OK;
    if (r->header.first_record > SPSH_SHARD_RECORDS_MAX * UINT64_C(1000))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 96, "%s: first_record", r->name);
    while (unit->map.size_bytes / 8 < r->header.first_record && rc == SPSH_OK)
        rc = spsh__buffer_append(&unit->map, &unit->allocator, &lost, sizeof(lost), err);
    if (unit->utterances < r->header.first_utterance)
        unit->utterances = r->header.first_utterance;
    return rc;
}

static spsh_status open_writer(salvage *s, spsh_error *err)
{
    const spsh__repair *r = s->r;
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    opt.allocator = r->allocator;
    opt.io = r->io;
    opt.directory = r->directory;
    memcpy(opt.dataset_id, r->header.dataset_id, 16);
    opt.unit = r->header.ordinal;
    opt.number = r->header.sub_ordinal;
    opt.first_record = r->opt.unit != NULL ? r->opt.unit->new_records : r->header.first_record;
    opt.first_utterance =
        r->opt.unit != NULL ? r->opt.unit->new_utterances : r->header.first_utterance;
    s->metadata = spsh__metadata_new(r->allocator);
    if (s->metadata == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: metadata", r->name);
    return spsh_shard_writer_open(&opt, &s->writer, err);
}

spsh_status spsh__repair_salvage(spsh__repair *r, spsh_error *err)
{
    salvage s = {.r = r};
    spsh_status rc = fill_unit(r, err);
    if (rc == SPSH_OK)
        rc = open_writer(&s, err);
    if (rc == SPSH_OK)
        rc = take_all(&s, err);
    if (rc == SPSH_OK && s.rows_lost && r->file.fd >= 0)
        rc = report_orphans(&s, err);
    if (rc == SPSH_OK)
        rc = spsh_shard_writer_seal(s.writer, &r->result.seal, err);
    if (rc == SPSH_OK)
        rc = number_unit(&s, err);
    spsh_shard_writer_free(s.writer);
    spsh__metadata_free(s.metadata);
    spsh__buffer_free(&s.points, r->allocator);
    spsh__buffer_free(&s.records, r->allocator);
    return rc;
}

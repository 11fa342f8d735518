/* verify_damage.c: find the records and rows that a damaged region costs.
 *
 * A block's checksum only shows that something in it is wrong. Each record in it has separate
 * checksums, for its head and for every 64 KiB of payload, which distinguish damaged records from
 * intact ones. The index gives the offsets of the records. If the index is lost too, their heads
 * do. The rows of a metadata block are lost or intact together. If all content is intact, the
 * damage is in the block's own header or padding, and costs nothing.
 */
#include "io/io_internal.h"
#include "verify_shard.h"

#include <stdio.h>

#define ULL(value_) ((unsigned long long)(value_))

#define ROWS_AT_ONCE UINT64_C(65536)

static uint64_t section_count(const spsh__verify_file *file, uint32_t id, uint32_t element_bytes)
{
    const uint8_t *elements = NULL;
    uint64_t count = 0;
    (void)spsh__verify_section(file, id, element_bytes, &elements, &count);
    return count;
}

/* The first of count ascending u64 that is at least value. */
static uint64_t lower_bound(const uint8_t *elements, uint64_t count, uint64_t value)
{
    uint64_t low = 0;
    while (count > 0) {
        uint64_t half = count / 2;
        if (spsh__load_u64le(elements + 8 * (low + half)) < value) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* ---- which utterances need a record ---- */

static void count_own_uses(spsh__shard_check *check)
{
    const uint8_t *records = NULL;
    uint64_t rows = 0;
    uint64_t first = check->file->header_ok ? check->file->header.first_record : 0;
    (void)spsh__verify_section(check->file, SPSH__SHARD_RECORD, 8, &records, &rows);
    for (uint64_t row = 0; row < rows && check->file->header_ok; row++) {
        uint64_t record = spsh__load_u64le(records + 8 * row) - first;
        if (record >= check->use_count)
            continue;
        spsh__record_uses *uses = &check->uses[record];
        uses->utterances += check->v->index == NULL;
        if (uses->first_row == SPSH_NONE_U32)
            uses->first_row = (uint32_t)row;
    }
}

/* Utterances of other shards use records, too: later ones of the unit, and copies of all units. */
static void count_dataset_uses(spsh__shard_check *check)
{
    const spsh__container *index = check->v->index;
    uint64_t total = index == NULL ? 0 : spsh__container_count(index, SPSH__INDEX_PAYLOAD_SHARD);
    for (uint64_t at = 0; at < total; at += ROWS_AT_ONCE) {
        uint64_t count = total - at < ROWS_AT_ONCE ? total - at : ROWS_AT_ONCE;
        const uint8_t *shards = NULL, *records = NULL;
        if (spsh__container_column(index, SPSH__INDEX_PAYLOAD_SHARD, at, count, &shards, NULL) !=
                SPSH_OK ||
            spsh__container_column(index, SPSH__INDEX_PAYLOAD_RECORD, at, count, &records, NULL) !=
                SPSH_OK)
            return;
        for (uint64_t n = 0; n < count; n++) {
            uint32_t record = spsh__load_u32le(records + 4 * n);
            if (spsh__load_u32le(shards + 4 * n) == check->file->shard && record < check->use_count)
                check->uses[record].utterances++;
        }
    }
}

static spsh_status count_uses(spsh__shard_check *check, spsh_error *err)
{
    if (check->uses != NULL)
        return SPSH_OK;
    check->use_count = section_count(check->file, SPSH__SHARD_RECORD_OFFSET, 8);
    check->uses =
        spsh__alloc_array(check->v->allocator, (size_t)check->use_count + 1, sizeof(*check->uses));
    if (check->uses == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %llu records", check->file->name,
                         ULL(check->use_count));
    for (uint64_t record = 0; record < check->use_count; record++)
        check->uses[record] = (spsh__record_uses){0, SPSH_NONE_U32};
    count_own_uses(check);
    count_dataset_uses(check);
    return SPSH_OK;
}

static spsh_status open_scan(spsh__shard_check *check)
{
    if (check->scan.fd >= 0)
        return SPSH_OK;
    return spsh__io_open_read(check->scan.io, check->file->path, &check->scan.fd, NULL);
}

/* The id of an utterance, from its metadata block, if that is intact; borrowed until the next load.
 */
static spsh_bytes utterance_id(spsh__shard_check *check, uint32_t row)
{
    const uint8_t *offsets = NULL, *first_rows = NULL;
    uint64_t blocks = 0, firsts = 0;
    spsh_utterance utterance = {
        .id = {NULL, 0}
    };
    spsh__salvaged_block found;
    if (!spsh__verify_section(check->file, SPSH__SHARD_METADATA_OFFSET, 8, &offsets, &blocks) ||
        !spsh__verify_section(check->file, SPSH__SHARD_METADATA_FIRST_ROW, 4, &first_rows,
                              &firsts) ||
        open_scan(check) != SPSH_OK)
        return utterance.id;
    uint64_t at = 0;
    while (at + 1 < firsts && at + 1 < blocks && spsh__load_u32le(first_rows + 4 * (at + 1)) <= row)
        at++;
    if (at >= blocks)
        return utterance.id;
    spsh__salvage only = check->scan;
    uint64_t offset = spsh__load_u64le(offsets + 8 * at);
    if (offset % SPSH__PAGE_BYTES != 0 ||
        spsh__salvage_block(&only, offset, &found, NULL) != SPSH_OK)
        return utterance.id;
    if (found.block.kind == SPSH__BLOCK_METADATA && found.block.first <= row &&
        row - found.block.first < found.block.count &&
        spsh__metadata_load(check->metadata, found.data, found.block.used_bytes, found.block.count,
                            found.offset_bytes, check->file->name, NULL) == SPSH_OK)
        spsh__metadata_row(check->metadata, (uint32_t)(row - found.block.first), &utterance);
    spsh__free(check->scan.allocator, found.data);
    return utterance.id;
}

spsh_status spsh__verify_record_damage(spsh__shard_check *check, const spsh__audio_finding *finding,
                                       spsh_error *err)
{
    char message[900];
    spsh_bytes utterance = {NULL, 0};
    spsh__record_uses uses = {0, SPSH_NONE_U32};
    spsh_status rc = count_uses(check, err);
    if (rc != SPSH_OK)
        return rc;
    if (finding->ordinal < check->use_count)
        uses = check->uses[finding->ordinal];
    if (uses.first_row != SPSH_NONE_U32)
        utterance = utterance_id(check, uses.first_row);
    const spsh_bytes id = finding->id.size_bytes != 0 ? finding->id : utterance;
    (void)snprintf(message, sizeof(message), "%s%s%.*s%s", finding->why.message,
                   utterance.size_bytes != 0 ? "; used by \"" : "",
                   (int)(utterance.size_bytes > 200 ? 200 : utterance.size_bytes),
                   utterance.size_bytes != 0 ? (const char *)utterance.data : "",
                   utterance.size_bytes == 0 ? ""
                   : uses.utterances > 1     ? "\" and others"
                                             : "\"");
    const spsh_damage damage = {
        .file = check->file->name,
        .part = finding->part,
        .offset_bytes = finding->offset_bytes,
        .size_bytes = finding->size_bytes,
        .id = id,
        .utterances = uses.utterances,
        .message = message,
    };
    return spsh__verify_damage(check->v, &damage, err);
}

/* ---- what in a damaged block is damaged ---- */

static spsh_status report_record(spsh__shard_check *check, spsh__audio_finding *finding,
                                 const char *part, uint64_t size_bytes, spsh_error *err)
{
    finding->part = part;
    finding->size_bytes = size_bytes;
    if (finding->why.offset_bytes != SPSH_OFFSET_NONE)
        finding->offset_bytes = finding->why.offset_bytes;
    return spsh__verify_record_damage(check, finding, err);
}

/* Return the head size from the index, for a head that cannot be read; 0 if the index lacks it. */
static uint64_t head_bytes(const spsh__verify_file *file, uint64_t record)
{
    const uint8_t *sizes = NULL;
    uint64_t count = 0;
    if (!spsh__verify_section(file, SPSH__SHARD_RECORD_HEAD_BYTES, 4, &sizes, &count) ||
        record >= count)
        return 0;
    return spsh__load_u32le(sizes + 4 * record);
}

/* Report the damage of the record at position `at` of the damaged bytes. */
static spsh_status check_record(spsh__shard_check *check, uint64_t offset_bytes, spsh_bytes data,
                                size_t at, uint64_t ordinal, spsh_error *err)
{
    const spsh_bytes rest = {data.data + at, data.size_bytes - at};
    const uint8_t *file_id = check->file->file_id;
    const char *name = check->file->name;
    spsh__audio_finding finding = {
        .ordinal = ordinal, .offset_bytes = offset_bytes + at, .why = SPSH_ERROR_INIT};
    spsh__record_head head;
    if (spsh__record_head_decode(file_id, offset_bytes + at, rest, name, &head, &finding.why) !=
        SPSH_OK)
        return report_record(check, &finding, "record head", head_bytes(check->file, ordinal), err);
    finding.ordinal = head.ordinal;
    finding.id = head.record.id;
    if (head.record_bytes > rest.size_bytes) {
        spsh_error_set(&finding.why, SPSH_E_CORRUPT, 0, offset_bytes + at,
                       "%s: record at %llu: its %llu bytes extend past the end of its block", name,
                       ULL(offset_bytes + at), ULL(head.record_bytes));
        return report_record(check, &finding, "record head", head.head_bytes, err);
    }
    spsh_status rc = SPSH_OK;
    for (uint32_t page = 0; page < head.page_count && rc == SPSH_OK; page++) {
        const uint8_t *bytes = rest.data + head.head_bytes + (size_t)page * SPSH__PAYLOAD_PAGE;
        if (spsh__record_page_check(file_id, offset_bytes + at, &head, page, bytes, name,
                                    &finding.why) == SPSH_OK)
            continue;
        return report_record(check, &finding, "record", spsh__record_page_bytes(&head, page), err);
    }
    return rc;
}

static spsh_status check_indexed(spsh__shard_check *check, uint64_t offset_bytes, spsh_bytes data,
                                 const uint8_t *offsets, uint64_t count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    uint64_t record = lower_bound(offsets, count, offset_bytes);
    for (; record < count && rc == SPSH_OK; record++) {
        uint64_t at = spsh__load_u64le(offsets + 8 * record) - offset_bytes;
        if (at >= data.size_bytes)
            break;
        rc = check_record(check, offset_bytes, data, (size_t)at, record, err);
    }
    return rc;
}

/* Heads of which nothing was found, by the block's own header. */
static spsh_status report_missing_heads(spsh__shard_check *check, uint64_t offset_bytes,
                                        spsh_bytes data, uint32_t found, spsh_error *err)
{
    spsh__block block;
    spsh_error why = SPSH_ERROR_INIT;
    if (data.size_bytes < SPSH__BLOCK_HEADER_BYTES ||
        spsh__block_header_decode(data.data, offset_bytes, check->file->name, &block, NULL) !=
            SPSH_OK ||
        block.kind != SPSH__BLOCK_RECORDS || found >= block.count)
        return SPSH_OK;
    spsh_error_set(&why, SPSH_E_CORRUPT, 0, offset_bytes,
                   "block at %llu: %u record heads of %u are damaged", ULL(offset_bytes),
                   block.count - found, block.count);
    return spsh__verify_refused(check->v, check->file, "record head", data.size_bytes, &why, err);
}

/* Without the index: as long as heads are intact, each gives the position of the next one. */
static spsh_status check_found(spsh__shard_check *check, uint64_t offset_bytes, spsh_bytes data,
                               spsh_error *err)
{
    spsh__record_head head;
    size_t at = 0;
    uint32_t found = 0;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK &&
           spsh__salvage_head(check->file->file_id, offset_bytes, data, at, &at, &head)) {
        rc = check_record(check, offset_bytes, data, at, head.ordinal, err);
        uint64_t left = data.size_bytes - at;
        at += head.record_bytes < left ? (size_t)head.record_bytes : (size_t)left;
        found++;
    }
    if (rc == SPSH_OK)
        rc = report_missing_heads(check, offset_bytes, data, found, err);
    return rc;
}

static spsh_status report_rows(spsh__shard_check *check, uint64_t offset_bytes, size_t size_bytes,
                               uint64_t first_row, uint64_t rows, spsh_error *err)
{
    char message[200];
    (void)snprintf(message, sizeof(message),
                   "%s: metadata block at %llu is damaged: rows %llu to %llu of the shard",
                   check->file->name, ULL(offset_bytes), ULL(first_row),
                   ULL(first_row + rows - (rows != 0)));
    const spsh_damage damage = {
        .file = check->file->name,
        .part = "metadata",
        .offset_bytes = offset_bytes,
        .size_bytes = size_bytes,
        .utterances = rows,
        .message = message,
    };
    return spsh__verify_damage(check->v, &damage, err);
}

static spsh_status check_metadata(spsh__shard_check *check, uint64_t offset_bytes, spsh_bytes data,
                                  spsh_error *err)
{
    const uint8_t *offsets = NULL, *firsts = NULL;
    uint64_t blocks = 0, first_count = 0;
    spsh__block block;
    spsh_status rc = SPSH_OK;
    if (!spsh__verify_section(check->file, SPSH__SHARD_METADATA_OFFSET, 8, &offsets, &blocks) ||
        !spsh__verify_section(check->file, SPSH__SHARD_METADATA_FIRST_ROW, 4, &firsts,
                              &first_count) ||
        blocks != first_count) {
        if (data.size_bytes >= SPSH__BLOCK_HEADER_BYTES &&
            spsh__block_header_decode(data.data, offset_bytes, check->file->name, &block, NULL) ==
                SPSH_OK &&
            block.kind == SPSH__BLOCK_METADATA)
            return report_rows(check, offset_bytes, data.size_bytes, block.first, block.count, err);
        return SPSH_OK;
    }
    uint64_t rows = section_count(check->file, SPSH__SHARD_ID_HASH, 8);
    for (uint64_t at = lower_bound(offsets, blocks, offset_bytes); at < blocks && rc == SPSH_OK;
         at++) {
        uint64_t offset = spsh__load_u64le(offsets + 8 * at);
        uint64_t first = spsh__load_u32le(firsts + 4 * at);
        uint64_t next = at + 1 < blocks ? spsh__load_u32le(firsts + 4 * (at + 1)) : rows;
        if (offset - offset_bytes >= data.size_bytes)
            break;
        rc = report_rows(check, offset, data.size_bytes, first, next > first ? next - first : 0,
                         err);
    }
    return rc;
}

/* Where the last record of [offset, offset + size) ends, by its intact head; 0: not known. */
static uint64_t find_used_bytes(const spsh__shard_check *check, uint64_t offset_bytes,
                                spsh_bytes data)
{
    const uint8_t *offsets = NULL;
    uint64_t count = 0;
    spsh__record_head head;
    if (!spsh__verify_section(check->file, SPSH__SHARD_RECORD_OFFSET, 8, &offsets, &count))
        return 0;
    uint64_t next = lower_bound(offsets, count, offset_bytes + data.size_bytes);
    if (next == 0)
        return 0;
    uint64_t record = spsh__load_u64le(offsets + 8 * (next - 1));
    if (record < offset_bytes)
        return 0;
    size_t at = (size_t)(record - offset_bytes);
    const spsh_bytes rest = {data.data + at, data.size_bytes - at};
    if (spsh__record_head_decode(check->file->file_id, record, rest, check->file->name, &head,
                                 NULL) != SPSH_OK ||
        head.record_bytes > rest.size_bytes)
        return 0;
    return at + head.record_bytes;
}

/* Report a block whose content is intact or unknown. */
static spsh_status report_block(spsh__shard_check *check, uint64_t offset_bytes, spsh_bytes data,
                                const spsh_error *why, spsh_error *err)
{
    const char *part = "block header";
    uint64_t size_bytes = SPSH__BLOCK_HEADER_BYTES;
    spsh_error named = *why;
    named.offset_bytes = offset_bytes;
    if (check->file->area == NULL && why->status == SPSH_E_TRUNCATED) {
        part = "block";
        size_bytes = data.size_bytes;
    } else {
        uint64_t used = find_used_bytes(check, offset_bytes, data);
        size_t at = used != 0 ? (size_t)used : data.size_bytes;
        while (at < data.size_bytes && data.data[at] == 0)
            at++;
        if (at < data.size_bytes) {
            part = "block padding";
            named.offset_bytes = offset_bytes + at;
            size_bytes = data.size_bytes - at;
        }
    }
    return spsh__verify_refused(check->v, check->file, part, size_bytes, &named, err);
}

spsh_status spsh__verify_block_damage(spsh__shard_check *check, uint64_t offset_bytes,
                                      spsh_bytes data, const spsh_error *why, spsh_error *err)
{
    const uint64_t before = check->v->result.damage_count;
    const uint8_t *offsets = NULL;
    uint64_t count = 0;
    check->whole = false;
    spsh_status rc =
        spsh__verify_section(check->file, SPSH__SHARD_RECORD_OFFSET, 8, &offsets, &count)
            ? check_indexed(check, offset_bytes, data, offsets, count, err)
            : check_found(check, offset_bytes, data, err);
    if (rc == SPSH_OK)
        rc = check_metadata(check, offset_bytes, data, err);
    if (rc == SPSH_OK && check->v->result.damage_count == before)
        rc = report_block(check, offset_bytes, data, why, err);
    return rc;
}

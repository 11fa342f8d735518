/* verify_block.c: one block: its checksum, its audio on request, its position among the others, and
 * its part of the index.
 *
 * A right block checksum proves that the writer of this file wrote these bytes at this offset. A
 * writer that wrote wrong data remains to be found, so structure is checked and the index derived
 * again. Each record is also checked with the function that readers use, page checksums and padding
 * included: a record that verify accepts must not be rejected when it is read. Payload hashes,
 * which no reader compares, are only compared if records are decoded as well.
 */
#include "audio/flac_frames.h"
#include "base/checksum.h"
#include "speechshard/features.h"
#include "verify_shard.h"

#define ULL(value_) ((unsigned long long)(value_))

/* ---- audio, on a worker ---- */

static const char *verdict_text(spsh_decode_verdict verdict)
{
    switch (verdict) {
    case SPSH_DECODE_EXACT: return "exact";
    case SPSH_DECODE_UNVERIFIED: return "ends cleanly";
    case SPSH_DECODE_SHORT: return "short";
    case SPSH_DECODE_LONG: return "long";
    case SPSH_DECODE_MD5_MISMATCH: return "MD5 mismatch";
    case SPSH_DECODE_DECODER_LIMIT: return "beyond the decoder library";
    case SPSH_DECODE_NO_END_FLAG: return "no end-of-stream flag";
    }
    return "?";
}

/* Check features likewise: every block must decompress, and the rows must match their hash. */
static spsh_status check_features(const spsh_allocator *allocator, const spsh_record *record,
                                  spsh_bytes payload, spsh_error *err)
{
    spsh_features_info info;
    uint8_t hash[16];
    spsh_status rc = spsh_features_inspect(payload.data, payload.size_bytes, &info, err);
    if (rc != SPSH_OK)
        return rc;
    if (info.value_bytes * 8 != record->bits_per_sample)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "the features have %u bits, but the header states %u",
                         info.value_bytes * 8, record->bits_per_sample);
    const size_t rows_bytes = (size_t)info.frame_count * info.dim * info.value_bytes;
    uint8_t *memory = (uint8_t *)spsh__alloc(allocator, rows_bytes + SPSH_FEATURES_BLOCK_BYTES);
    if (memory == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "features: %zu bytes", rows_bytes);
    rc = spsh_features_decode(payload, 0, info.frame_count, memory, memory + rows_bytes, err);
    spsh_features_hash(&info, memory, hash);
    if (rc == SPSH_OK && (record->flags & SPSH_RECORD_PCM_HASH) != 0 &&
        memcmp(hash, record->pcm_hash, 16) != 0)
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "decodes to different features than stored");
    spsh__free(allocator, memory);
    return rc;
}

/* SPSH_E_AUDIO: the payload is not the audio that the head describes. */
static spsh_status check_audio(const spsh_allocator *allocator, const spsh_record *record,
                               spsh_bytes payload, spsh_error *err)
{
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    opt.allocator = allocator;
    opt.sample_rate_hz = record->sample_rate_hz;
    spsh_status rc =
        spsh_audio_decode_memory(payload, record->codec, &opt, NULL, NULL, &result, err);
    if (rc != SPSH_OK)
        return rc;
    if (result.verdict == SPSH_DECODE_DECODER_LIMIT &&
        (record->flags & SPSH_RECORD_UNDECODABLE) != 0)
        return SPSH_OK;
    rc = spsh__record_check_audio(record, &result.info, err);
    if (rc != SPSH_OK)
        return rc;
    if (result.samples != record->samples)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "decodes to %llu samples, but %llu were stored (%s)",
                         ULL(result.samples), ULL(record->samples), verdict_text(result.verdict));
    if ((record->flags & SPSH_RECORD_PCM_HASH) != 0 &&
        memcmp(result.pcm_hash, record->pcm_hash, 16) != 0)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "decodes to different samples than stored (%s)",
                         verdict_text(result.verdict));
    return SPSH_OK;
}

static spsh_status decode_one(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    float pcm[SPSH_CHANNELS_MAX];
    uint64_t samples = 0;
    spsh_status rc = spsh_decoder_seek(decoder, sample, err);
    if (rc == SPSH_OK)
        rc = spsh_decoder_read_f32(decoder, pcm, 1, &samples, err);
    if (rc == SPSH_OK && samples != 1)
        rc = SPSH_FAIL(err, SPSH_E_AUDIO, "decoding ends before sample %llu", ULL(sample));
    return rc;
}

/* A frame begins at the point's offset, and a decoder that jumps there finds the point's sample. */
static spsh_status check_seek_point(spsh_decoder *decoder, spsh_bytes payload,
                                    spsh_seek_point point, spsh_error *err)
{
    const size_t offset = (size_t)point.offset_bytes; /* inside the payload: the head was checked */
    const spsh_bytes rest = {payload.data + offset, payload.size_bytes - offset};
    spsh__flac_frame frame;
    spsh_error why = SPSH_ERROR_INIT;
    if (!spsh__flac_parse_frame(rest, &frame))
        return SPSH_FAIL(err, SPSH_E_AUDIO,
                         "seek point of sample %llu: no frame begins at byte %llu of the payload",
                         ULL(point.sample), ULL(point.offset_bytes));
    spsh_status rc = decode_one(decoder, point.sample, &why);
    if (rc == SPSH_OK || rc == SPSH_E_NO_MEMORY)
        return rc;
    return SPSH_FAIL(err, rc, "seek point of sample %llu at byte %llu: %s", ULL(point.sample),
                     ULL(point.offset_bytes), why.message);
}

/* Go to each seek point and decode the frame there, as a reader does. From the end backward: a
 * decoder jumps only when the sample is not just ahead. */
static spsh_status check_seek_points(const spsh_allocator *allocator, const spsh_record *record,
                                     spsh_bytes payload, spsh_error *err)
{
    spsh_memory_source memory = {payload};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decoder *decoder = NULL;
    spsh_status rc = SPSH_OK;
    opt.allocator = allocator;
    opt.sample_rate_hz = record->sample_rate_hz;
    opt.seek_points = record->seek_points;
    opt.seek_point_count = record->seek_point_count;
    opt.skip_md5 = true;
    rc = spsh_decoder_open(&source, record->codec, &opt, &decoder, err);
    if (rc == SPSH_OK)
        rc = decode_one(decoder, record->samples - 1, err);
    for (uint64_t left = record->seek_point_count; rc == SPSH_OK && left > 0; left--) {
        rc = check_seek_point(decoder, payload, record->seek_points[left - 1], err);
    }
    spsh_decoder_free(decoder);
    return rc;
}

/* Seek points are those of head, which is in the block. */
static spsh_status check_seek_table(const spsh_allocator *allocator, const spsh__record_head *head,
                                    spsh_bytes payload, spsh_error *err)
{
    const size_t count = (size_t)head->record.seek_point_count;
    spsh_record record = head->record;
    if (record.codec != SPSH_CODEC_FLAC || count == 0 ||
        (record.flags & SPSH_RECORD_UNDECODABLE) != 0)
        return SPSH_OK; /* other codecs do not use a seek table */
    spsh_seek_point *points = spsh__alloc_array(allocator, count, sizeof(*points));
    if (points == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%zu seek points", count);
    spsh__record_seek_points(head, points);
    record.seek_points = points;
    spsh_status rc = check_seek_points(allocator, &record, payload, err);
    spsh__free(allocator, points);
    return rc;
}

/* With SPSH_VERIFY_DECODE: payload hash, samples, and seek points, which no checksum proves. */
static spsh_status check_decoded(const spsh__shard_check *check, const spsh__record_head *head,
                                 spsh_bytes payload, const char **ret_part, spsh_error *err)
{
    uint8_t hash[16];
    spsh__hash128(payload.data, payload.size_bytes, hash);
    if (memcmp(hash, head->record.payload_hash, 16) != 0)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "the payload hash differs from the header");
    if (head->record.codec == SPSH_CODEC_FEATURES) {
        *ret_part = "features";
        return check_features(check->v->allocator, &head->record, payload, err);
    }
    *ret_part = "audio";
    spsh_status rc = check_audio(check->v->allocator, &head->record, payload, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_part = "seek table";
    return check_seek_table(check->v->allocator, head, payload, err);
}

static void check_records(const spsh__shard_check *check, spsh__block_task *task)
{
    const bool decodes = (check->v->opt.flags & SPSH_VERIFY_DECODE) != 0;
    size_t at = SPSH__BLOCK_HEADER_BYTES;
    size_t end = (size_t)task->block.used_bytes;
    while (at < end && task->status == SPSH_OK) {
        const spsh_bytes rest = {task->data + at, end - at};
        uint64_t offset = task->offset_bytes + at;
        spsh__record_head head;
        spsh_record record;
        spsh_bytes payload;
        spsh__audio_finding finding = {.part = "record", .why = SPSH_ERROR_INIT};
        /* A head that is wrong under a right checksum is reported when the block is taken. */
        if (spsh__record_head_decode(check->file->file_id, offset, rest, check->file->name, &head,
                                     NULL) != SPSH_OK ||
            head.record_bytes > rest.size_bytes)
            return;
        spsh_status rc = spsh_record_check(check->file->file_id, offset, rest.data, rest.size_bytes,
                                           &record, &payload, &finding.why);
        if (rc == SPSH_OK && decodes)
            rc = check_decoded(check, &head, payload, &finding.part, &finding.why);
        if (rc == SPSH_E_NO_MEMORY) {
            task->status = rc;
            task->why = finding.why;
        } else if (rc != SPSH_OK) {
            finding.ordinal = head.ordinal;
            finding.offset_bytes = offset;
            finding.size_bytes = head.record_bytes;
            finding.id = head.record.id;
            task->status = spsh__buffer_append(&task->findings, check->v->allocator, &finding,
                                               sizeof(finding), &task->why);
        }
        at += (size_t)head.record_bytes;
    }
}

void spsh__verify_block_work(void *check_opaque, uint32_t worker, void *task_opaque)
{
    (void)worker;
    const spsh__shard_check *check = (const spsh__shard_check *)check_opaque;
    spsh__block_task *task = (spsh__block_task *)task_opaque;
    const char *name = check->file->name;
    task->status =
        spsh__block_header_decode(task->data, task->offset_bytes, name, &task->block, &task->why);
    if (task->status == SPSH_OK && task->block.block_bytes != task->block_bytes)
        task->status = SPSH_FAIL_AT(
            &task->why, SPSH_E_CORRUPT, task->offset_bytes + 16,
            "%s: block at %llu: it has %llu bytes, but the next one begins after %zu", name,
            ULL(task->offset_bytes), ULL(task->block.block_bytes), task->block_bytes);
    if (task->status == SPSH_OK)
        task->status = spsh__block_check(check->file->file_id, task->offset_bytes, task->data,
                                         &task->block, name, &task->why);
    if (task->status == SPSH_OK && task->block.kind == SPSH__BLOCK_RECORDS)
        check_records(check, task);
}

/* ---- in order ---- */

/* An intact block with content that no writer may write. */
static spsh_status report_rule(spsh__shard_check *check, const char *part, uint64_t size_bytes,
                               const spsh_error *why, spsh_error *err)
{
    check->whole = false;
    return spsh__verify_refused(check->v, check->file, part, size_bytes, why, err);
}

static spsh_status check_place(spsh__shard_check *check, const spsh__block_task *task,
                               spsh_error *err)
{
    const spsh__block *block = &task->block;
    uint64_t first = block->kind == SPSH__BLOCK_RECORDS ? check->records : check->rows;
    if (block->ordinal != check->ordinal)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, task->offset_bytes + 48,
                            "%s: block at %llu: ordinal %llu, expected %llu", check->file->name,
                            ULL(task->offset_bytes), ULL(block->ordinal), ULL(check->ordinal));
    if (block->first != first)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, task->offset_bytes + 32,
                            "%s: block at %llu: first %llu, expected %llu", check->file->name,
                            ULL(task->offset_bytes), ULL(block->first), ULL(first));
    return SPSH_OK;
}

static spsh_status take_records(spsh__shard_check *check, const spsh__block_task *task,
                                spsh_error *err)
{
    const char *name = check->file->name;
    size_t at = SPSH__BLOCK_HEADER_BYTES;
    size_t end = (size_t)task->block.used_bytes;
    for (uint32_t n = 0; n < task->block.count; n++) {
        const spsh_bytes rest = {task->data + at, end - at};
        uint64_t offset = task->offset_bytes + at;
        spsh__record_head head;
        spsh_status rc =
            spsh__record_head_decode(check->file->file_id, offset, rest, name, &head, err);
        if (rc != SPSH_OK)
            return rc;
        if (head.ordinal != check->records + n || head.record_bytes > rest.size_bytes)
            return SPSH_FAIL_AT(
                err, SPSH_E_CORRUPT, offset,
                "%s: record at %llu: ordinal %llu of %llu bytes, expected %llu of at "
                "most %zu",
                name, ULL(offset), ULL(head.ordinal), ULL(head.record_bytes),
                ULL(check->records + n), rest.size_bytes);
        rc = spsh__shard_index_add_record(check->rebuilt, offset, head.head_bytes, &head.record,
                                          err);
        if (rc != SPSH_OK)
            return rc;
        at += (size_t)head.record_bytes;
    }
    if (at != end)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, task->offset_bytes + at,
                            "%s: block at %llu: %zu bytes after its last record", name,
                            ULL(task->offset_bytes), end - at);
    return SPSH_OK;
}

/* Check rows that refer to records of this shard. Rows that refer to records of earlier shards are
 * checked with the dataset. */
static spsh_status check_row(const spsh__shard_check *check, const spsh__block_task *task,
                             const spsh_utterance *row, spsh_error *err)
{
    uint64_t first = check->file->header_ok ? check->file->header.first_record : 0;
    uint64_t record = row->record - first;
    if (!check->file->header_ok || row->record < first)
        return SPSH_OK;
    int id_bytes = (int)(row->id.size_bytes > 200 ? 200 : row->id.size_bytes);
    if (record >= spsh__shard_index_records(check->rebuilt))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, task->offset_bytes,
                            "%s: utterance \"%.*s\" comes before its record %llu",
                            check->file->name, id_bytes, (const char *)row->id.data,
                            ULL(row->record));
    uint64_t samples = spsh__shard_index_record_samples(check->rebuilt, record);
    if (row->start_sample > samples || row->samples > samples - row->start_sample)
        return SPSH_FAIL_AT(
            err, SPSH_E_CORRUPT, task->offset_bytes,
            "%s: utterance \"%.*s\": samples %llu and %llu more, its record has %llu",
            check->file->name, id_bytes, (const char *)row->id.data, ULL(row->start_sample),
            ULL(row->samples), ULL(samples));
    return SPSH_OK;
}

static spsh_status take_rows(spsh__shard_check *check, const spsh__block_task *task,
                             spsh_error *err)
{
    spsh_status rc =
        spsh__metadata_load(check->metadata, task->data, task->block.used_bytes, task->block.count,
                            task->offset_bytes, check->file->name, err);
    if (rc == SPSH_OK)
        rc = spsh__shard_index_add_metadata_block(check->rebuilt, task->offset_bytes,
                                                  (uint32_t)task->block.first, err);
    for (uint32_t n = 0; n < task->block.count && rc == SPSH_OK; n++) {
        spsh_utterance row;
        spsh__metadata_row(check->metadata, n, &row);
        rc = check_row(check, task, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__shard_index_add_row(check->rebuilt, &row, err);
    }
    return rc;
}

/* After damage, continue the counts from the header of the next intact block. */
static void resume_after_damage(spsh__shard_check *check, const spsh__block *block)
{
    check->ordinal = block->ordinal;
    if (block->kind == SPSH__BLOCK_RECORDS)
        check->records = block->first;
    else
        check->rows = block->first;
}

spsh_status spsh__verify_block_take(spsh__shard_check *check, spsh__block_task *task,
                                    spsh_error *err)
{
    const spsh__block *block = &task->block;
    const bool records = block->kind == SPSH__BLOCK_RECORDS;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;

    check->v->result.blocks++;
    *(records ? &check->v->result.records : &check->v->result.utterances) += block->count;
    for (size_t at = 0; at < task->findings.size_bytes && rc == SPSH_OK;
         at += sizeof(spsh__audio_finding)) {
        spsh__audio_finding finding;
        memcpy(&finding, task->findings.data + at, sizeof(finding));
        rc = spsh__verify_record_damage(check, &finding, err);
    }
    if (rc != SPSH_OK)
        return rc;
    if (!check->whole) {
        /* The index cannot be derived any more; only the block itself can be checked. */
        resume_after_damage(check, block);
    } else if (check_place(check, task, &why) != SPSH_OK) {
        rc = report_rule(check, "block", SPSH__BLOCK_HEADER_BYTES, &why, err);
    } else {
        rc = spsh__shard_index_add_block(check->rebuilt, task->offset_bytes, block->checksum, &why);
        if (rc == SPSH_OK)
            rc = records ? take_records(check, task, &why) : take_rows(check, task, &why);
        if (rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT)
            return SPSH_FAIL_AT(err, rc, why.offset_bytes, "%s", why.message);
        if (rc != SPSH_OK)
            rc = report_rule(check, records ? "record head" : "metadata", task->block_bytes, &why,
                             err);
    }
    check->ordinal++;
    *(records ? &check->records : &check->rows) += block->count;
    return rc;
}

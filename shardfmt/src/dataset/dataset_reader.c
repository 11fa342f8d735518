/* dataset_reader.c: text, payloads, and PCM of utterances, for one thread.
 *
 *     position -> row of the index -> shard and row: metadata    one metadata reader, for the last
 *                                                                shard
 *                                  -> shard and record: audio    one record reader and decoder, for
 *                                                                the last record
 *
 * The decoder keeps its position after a call, so that sequential reads cost no seek, and adjacent
 * segments of one recording share it. When a call reaches the end of the record, the decoder must
 * end there too: a record that decodes to another length than stored is an error, never a shorter
 * or longer result.
 *
 * The index's data of an utterance is compared with the shard's before it is used.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/checksum.h"
#include "dataset_internal.h"
#include "format/record.h"
#include "format/shard_internal.h"
#include "speechshard/limits.h"

struct spsh_reader {
    const spsh_dataset *dataset;

    const spsh_shard *text_shard; /* NULL: none; else text_shard_number is in use */
    uint64_t text_shard_number;
    spsh_metadata_reader *text;

    const spsh_shard *audio_shard; /* likewise */
    uint64_t audio_shard_number;
    uint64_t audio_record;
    spsh_record_reader *record;
    spsh_decoder *decoder;
    uint64_t decoder_sample; /* position of the decoder in the record */
};

/* ---- life cycle ---- */

static void close_text(spsh_reader *reader)
{
    spsh_metadata_reader_close(reader->text);
    reader->text = NULL;
    if (reader->text_shard != NULL)
        spsh__shard_cache_release(reader->dataset->cache, reader->text_shard_number);
    reader->text_shard = NULL;
}

static void close_audio(spsh_reader *reader)
{
    spsh_decoder_free(reader->decoder);
    reader->decoder = NULL;
    spsh_record_reader_close(reader->record);
    reader->record = NULL;
    if (reader->audio_shard != NULL)
        spsh__shard_cache_release(reader->dataset->cache, reader->audio_shard_number);
    reader->audio_shard = NULL;
}

spsh_status spsh_reader_open(const spsh_dataset *dataset, spsh_reader **ret_reader, spsh_error *err)
{
    spsh_reader *reader = (spsh_reader *)spsh__new(&dataset->allocator, 1, sizeof(*reader));
    if (reader == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: reader", dataset->path);
    reader->dataset = dataset;
    *ret_reader = reader;
    return SPSH_OK;
}

void spsh_reader_close(spsh_reader *reader)
{
    if (reader == NULL)
        return;
    close_text(reader);
    close_audio(reader);
    spsh__free(&reader->dataset->allocator, reader);
}

/* ---- metadata ---- */

static spsh_status open_text(spsh_reader *reader, uint64_t shard, spsh_error *err)
{
    const spsh_shard *opened = NULL;
    if (reader->text != NULL && reader->text_shard_number == shard)
        return SPSH_OK;
    close_text(reader);
    spsh_status rc = spsh__shard_cache_acquire(reader->dataset->cache, shard, &opened, err);
    if (rc != SPSH_OK)
        return rc;
    reader->text_shard = opened;
    reader->text_shard_number = shard;
    rc = spsh_metadata_reader_open(opened, &reader->text, err);
    if (rc != SPSH_OK) {
        reader->text = NULL;
        close_text(reader);
    }
    return rc;
}

/* Read an utterance as packed. The row and the metadata must describe the same utterance. */
static spsh_status read_utterance(spsh_reader *reader, const spsh_row *row,
                                  spsh_utterance *ret_utterance, spsh_error *err)
{
    spsh_utterance utterance;
    spsh_status rc = open_text(reader, row->shard, err);
    if (rc == SPSH_OK)
        rc = spsh__metadata_reader_row(reader->text, row->shard_row, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t found = spsh__hash64(utterance.id.data, utterance.id.size_bytes);
    if (found != row->id_hash || utterance.start_sample != row->start_sample ||
        utterance.samples != row->samples || utterance.text.size_bytes != row->text_bytes ||
        utterance.flags != (row->flags & SPSH_UTTERANCE_HAS_TEXT))
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "row %" PRIu64 " of shard %u: id hash 0x%016" PRIx64 ", %" PRIu64
                         " samples from sample %" PRIu64
                         ", %zu bytes of text; the dataset index states 0x%016" PRIx64 ", %" PRIu64
                         " samples from sample %" PRIu64 ", %u bytes",
                         row->shard_row, row->shard, found, utterance.samples,
                         utterance.start_sample, utterance.text.size_bytes, row->id_hash,
                         row->samples, row->start_sample, row->text_bytes);
    *ret_utterance = utterance;
    return SPSH_OK;
}

static spsh_status apply_transcripts(const spsh_dataset *dataset, spsh_utterance *utterance,
                                     spsh_error *err)
{
    uint8_t key[16];
    bool found = false;
    if (dataset->manifest.info.overlay_count == 0)
        return SPSH_OK;
    spsh__overlay_key(utterance->id, key);
    for (uint64_t i = dataset->manifest.info.overlay_count; i > 0 && !found; i--) {
        const spsh__overlay *overlay = &dataset->overlays[i - 1];
        if (overlay->type != SPSH_OVERLAY_TRANSCRIPT)
            continue;
        spsh_status rc = spsh__overlay_find(overlay, key, &found, &utterance->text, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (found)
        utterance->flags |= SPSH_UTTERANCE_HAS_TEXT;
    return SPSH_OK;
}

/* Prefix a message with the dataset, the position, and, if it is available, the id. */
static void name_utterance(spsh_reader *reader, uint64_t position, const spsh_row *row,
                           spsh_error *err)
{
    spsh_utterance utterance;
    int id_bytes = 0;
    if (err == NULL)
        return;
    const spsh_error why = *err;
    memset(&utterance, 0, sizeof(utterance));
    if (row != NULL && read_utterance(reader, row, &utterance, NULL) == SPSH_OK)
        id_bytes = utterance.id.size_bytes < 100 ? (int)utterance.id.size_bytes : 100;
    if (id_bytes == 0)
        spsh_error_set(err, why.status, why.os_errno, why.offset_bytes,
                       "%.120s: utterance number %" PRIu64 ": %.300s", reader->dataset->path,
                       position, why.message);
    else
        spsh_error_set(err, why.status, why.os_errno, why.offset_bytes,
                       "%.120s: utterance \"%.*s\" (number %" PRIu64 "): %.200s",
                       reader->dataset->path, id_bytes, (const char *)utterance.id.data, position,
                       why.message);
}

spsh_status spsh_reader_metadata(spsh_reader *reader, uint64_t position,
                                 spsh_utterance *ret_utterance, spsh_error *err)
{
    spsh_row row;
    spsh_utterance utterance;
    spsh_status rc = spsh__dataset_row(reader->dataset, position, &row, err);
    if (rc != SPSH_OK)
        return rc;
    rc = read_utterance(reader, &row, &utterance, err);
    if (rc == SPSH_OK)
        rc = apply_transcripts(reader->dataset, &utterance, err);
    if (rc == SPSH_OK)
        *ret_utterance = utterance;
    else
        name_utterance(reader, position, NULL, err);
    return rc;
}

/* ---- look-up by id ---- */

spsh_status spsh__dataset_by_id(const spsh_dataset *dataset, uint64_t at, uint64_t *ret_position,
                                uint64_t *ret_hash, spsh_error *err)
{
    spsh_status rc = spsh__container_u64(dataset->index, SPSH__INDEX_BY_ID, at, ret_position, err);
    if (rc == SPSH_OK)
        rc = spsh__container_u64(dataset->index, SPSH__INDEX_ID_HASH, *ret_position, ret_hash, err);
    return rc;
}

/* Hashes are spread evenly, so the distance between two hashes gives the number n of entries
 * between them, with an error of about sqrt(n). Each probe aims sqrt(n) past the expected position,
 * seen from the last probe. So each probe shrinks the range to about 2 sqrt(n), while halving would
 * touch a page of the index for each bit. Every eighth probe halves the range, in case hashes are
 * not spread evenly. */
spsh_status spsh__dataset_find_hash(const spsh_dataset *dataset, uint64_t wanted, uint64_t *ret_at,
                                    spsh_error *err)
{
    const uint64_t count = dataset->manifest.info.utterance_count;
    const double density = (double)count / 18446744073709551616.0;
    uint64_t low = 0; /* the first entry with the wanted hash or a greater one is in [low, high] */
    uint64_t high = count;
    uint64_t at = (uint64_t)((double)wanted * density);
    for (uint32_t probes = 1; low < high; probes++) {
        uint64_t position = 0;
        uint64_t hash = 0;
        if (probes % 8 == 0)
            at = low + (high - low) / 2;
        else if (at >= high)
            at = high - 1;
        spsh_status rc = spsh__dataset_by_id(dataset, at, &position, &hash, err);
        if (rc != SPSH_OK)
            return rc;
        const bool below = hash < wanted;
        const double between = (double)(below ? wanted - hash : hash - wanted) * density;
        const uint64_t stride = (uint64_t)(between + sqrt(between));
        if (below)
            low = at + 1;
        else
            high = at;
        if (stride >= high - low)
            at = below ? high - 1 : low;
        else
            at = below ? low + stride : high - 1 - stride;
    }
    *ret_at = low;
    return SPSH_OK;
}

static spsh_status fail_not_found(const spsh_dataset *dataset, spsh_bytes id, spsh_error *err)
{
    int shown = id.size_bytes < 200 ? (int)id.size_bytes : 200;
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%.200s: no utterance \"%.*s\"", dataset->path, shown,
                     (const char *)id.data);
}

spsh_status spsh_reader_find(spsh_reader *reader, spsh_bytes id, uint64_t *ret_position,
                             spsh_error *err)
{
    const spsh_dataset *dataset = reader->dataset;
    uint64_t count = dataset->manifest.info.utterance_count;
    uint64_t at = 0;
    if (id.size_bytes == 0 || id.size_bytes > SPSH_ID_BYTES_MAX)
        return fail_not_found(dataset, id, err);
    uint64_t wanted = spsh__hash64(id.data, id.size_bytes);
    spsh_status rc = spsh__dataset_find_hash(dataset, wanted, &at, err);
    for (; rc == SPSH_OK && at < count; at++) {
        uint64_t position = 0;
        uint64_t hash = 0;
        spsh_row row;
        spsh_utterance utterance;
        rc = spsh__dataset_by_id(dataset, at, &position, &hash, err);
        if (rc == SPSH_OK && hash != wanted)
            break;
        if (rc == SPSH_OK)
            rc = spsh__dataset_row(dataset, position, &row, err);
        if (rc == SPSH_OK)
            rc = read_utterance(reader, &row, &utterance, err);
        if (rc == SPSH_OK && utterance.id.size_bytes == id.size_bytes &&
            memcmp(utterance.id.data, id.data, id.size_bytes) == 0) {
            *ret_position = position;
            return SPSH_OK;
        }
    }
    return rc == SPSH_OK ? fail_not_found(dataset, id, err) : rc;
}

/* ---- audio ---- */

/* Check that the record is the one that the row names, and that the utterance is inside it. */
static spsh_status check_record(const spsh_reader *reader, const spsh_row *row, spsh_error *err)
{
    const spsh_record *info = spsh_record_reader_info(reader->record);
    spsh_record from_index;
    spsh_record_place place;
    const char *what = NULL;
    spsh_status rc =
        spsh_shard_record(reader->audio_shard, row->payload_record, &from_index, &place, err);
    if (rc != SPSH_OK)
        return rc;
    if (place.offset_bytes != row->record_offset_bytes || place.record_bytes != row->record_bytes)
        what = "place";
    else if (info->sample_rate_hz != row->sample_rate_hz)
        what = "sample rate";
    else if (info->channels != row->channels)
        what = "channels";
    else if (info->codec != row->codec)
        what = "codec";
    else if (row->start_sample > info->samples || row->samples > info->samples - row->start_sample)
        what = "length";
    if (what == NULL)
        return SPSH_OK;
    return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, place.offset_bytes,
                        "record %u of shard %u: %s differs from the dataset index (%" PRIu64
                        " bytes at %" PRIu64 ", %u Hz, %u channels, %" PRIu64 " samples)",
                        row->payload_record, row->payload_shard, what, place.record_bytes,
                        place.offset_bytes, info->sample_rate_hz, info->channels, info->samples);
}

static spsh_status open_record(spsh_reader *reader, const spsh_row *row, spsh_error *err)
{
    const spsh_shard *opened = NULL;
    bool same = reader->record != NULL && reader->audio_shard_number == row->payload_shard &&
                reader->audio_record == row->payload_record;
    spsh_status rc = SPSH_OK;
    if (!same) {
        close_audio(reader);
        rc = spsh__shard_cache_acquire(reader->dataset->cache, row->payload_shard, &opened, err);
        if (rc != SPSH_OK)
            return rc;
        reader->audio_shard = opened;
        reader->audio_shard_number = row->payload_shard;
        reader->audio_record = row->payload_record;
        rc = spsh_record_reader_open(opened, row->payload_record, &reader->record, err);
        if (rc != SPSH_OK)
            reader->record = NULL;
    }
    if (rc == SPSH_OK)
        rc = check_record(reader, row, err);
    if (rc != SPSH_OK)
        close_audio(reader);
    return rc;
}

spsh_status spsh_reader_record(spsh_reader *reader, uint64_t position,
                               const spsh_record **ret_record, spsh_error *err)
{
    spsh_row row;
    spsh_status rc = spsh__dataset_row(reader->dataset, position, &row, err);
    if (rc != SPSH_OK)
        return rc;
    rc = open_record(reader, &row, err);
    if (rc == SPSH_OK)
        *ret_record = spsh_record_reader_info(reader->record);
    else
        name_utterance(reader, position, &row, err);
    return rc;
}

spsh_status spsh_reader_payload(spsh_reader *reader, uint64_t position, uint64_t offset_bytes,
                                void *dst, size_t size_bytes, spsh_error *err)
{
    spsh_row row;
    spsh_status rc = spsh__dataset_row(reader->dataset, position, &row, err);
    if (rc != SPSH_OK)
        return rc;
    rc = open_record(reader, &row, err);
    if (rc == SPSH_OK)
        rc = spsh_record_reader_read(reader->record, offset_bytes, dst, size_bytes, err);
    if (rc != SPSH_OK)
        name_utterance(reader, position, &row, err);
    return rc;
}

static spsh_status open_decoder(spsh_reader *reader, spsh_error *err)
{
    const spsh_record *info = spsh_record_reader_info(reader->record);
    const spsh_audio_source source = spsh_record_reader_source(reader->record);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decoder *decoder = NULL;
    if (reader->decoder != NULL)
        return SPSH_OK;
    if ((info->flags & SPSH_RECORD_UNDECODABLE) != 0)
        return SPSH_FAIL(err, SPSH_E_AUDIO,
                         "the payload is intact, but the decoder library cannot decode it");
    opt.allocator = &reader->dataset->allocator;
    opt.seek_points = info->seek_points;
    opt.seek_point_count = info->seek_point_count;
    opt.sample_rate_hz = info->sample_rate_hz;
    opt.skip_md5 = true; /* the payload is under checksums already */
    spsh_status rc = spsh_decoder_open(&source, info->codec, &opt, &decoder, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__record_check_audio(info, spsh_decoder_info(decoder), err);
    if (rc != SPSH_OK) {
        spsh_decoder_free(decoder);
        return rc;
    }
    reader->decoder = decoder;
    reader->decoder_sample = 0;
    return SPSH_OK;
}

/* At most capacity samples, in the caller's format. */
static spsh_status decode(spsh_reader *reader, spsh_sample_format format, uint8_t *pcm,
                          uint64_t capacity, uint64_t *ret_samples, spsh_error *err)
{
    switch (format) {
    case SPSH_SAMPLE_I16:
        return spsh_decoder_read_i16(reader->decoder, (int16_t *)(void *)pcm, capacity, ret_samples,
                                     err);
    case SPSH_SAMPLE_I32:
        return spsh_decoder_read_i32(reader->decoder, (int32_t *)(void *)pcm, capacity, ret_samples,
                                     err);
    case SPSH_SAMPLE_F32: break;
    }
    return spsh_decoder_read_f32(reader->decoder, (float *)(void *)pcm, capacity, ret_samples, err);
}

/* The record has been decoded up to its stored length: there must be no more. */
static spsh_status check_end(spsh_reader *reader, spsh_error *err)
{
    uint64_t more = 0;
    int32_t sample[SPSH_CHANNELS_MAX];
    spsh_status rc = spsh_decoder_read_i32(reader->decoder, sample, 1, &more, err);
    if (rc == SPSH_OK && more != 0)
        rc = SPSH_FAIL(err, SPSH_E_AUDIO,
                       "decodes to more than the %" PRIu64 " samples that the shard states",
                       spsh_record_reader_info(reader->record)->samples);
    return rc;
}

typedef struct read_request {
    spsh_sample_format format;
    uint64_t first_sample; /* in the record */
    uint64_t samples;
    void *pcm;
} read_request;

static spsh_status read_samples(spsh_reader *reader, const read_request *request, spsh_error *err)
{
    const spsh_record *info = spsh_record_reader_info(reader->record);
    size_t stride_bytes = (request->format == SPSH_SAMPLE_I16 ? 2 : 4) * (size_t)info->channels;
    uint64_t done = 0;
    uint64_t got = 1;
    spsh_status rc = SPSH_OK;
    if (reader->decoder_sample != request->first_sample)
        rc = spsh_decoder_seek(reader->decoder, request->first_sample, err);
    while (rc == SPSH_OK && done < request->samples && got > 0) {
        rc = decode(reader, request->format, (uint8_t *)request->pcm + done * stride_bytes,
                    request->samples - done, &got, err);
        done += rc == SPSH_OK ? got : 0;
    }
    if (rc == SPSH_OK && done < request->samples)
        rc = SPSH_FAIL(err, SPSH_E_AUDIO,
                       "decodes to %" PRIu64 " samples, but the shard states %" PRIu64,
                       request->first_sample + done, info->samples);
    reader->decoder_sample = request->first_sample + done;
    if (rc == SPSH_OK && reader->decoder_sample == info->samples)
        rc = check_end(reader, err);
    return rc;
}

static spsh_status read_pcm(spsh_reader *reader, uint64_t position, read_request *request,
                            uint64_t *ret_samples, spsh_error *err)
{
    spsh_row row;
    uint64_t capacity = request->samples;
    uint64_t first_sample = request->first_sample;
    spsh_status rc = spsh__dataset_row(reader->dataset, position, &row, err);
    if (rc != SPSH_OK)
        return rc;
    if (first_sample > row.samples)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: utterance %" PRIu64 ": sample %" PRIu64
                         " does not exist: it has %" PRIu64 " samples",
                         reader->dataset->path, position, first_sample, row.samples);
    request->first_sample = row.start_sample + first_sample;
    request->samples =
        row.samples - first_sample < capacity ? row.samples - first_sample : capacity;
    rc = open_record(reader, &row, err);
    if (rc == SPSH_OK)
        rc = open_decoder(reader, err);
    if (rc == SPSH_OK && request->samples > 0)
        rc = read_samples(reader, request, err);
    if (rc != SPSH_OK) {
        close_audio(reader);
        name_utterance(reader, position, &row, err);
        return rc;
    }
    *ret_samples = request->samples;
    return SPSH_OK;
}

/* NOLINTBEGIN(readability-non-const-parameter): pcm is written, through the request */
spsh_status spsh_reader_read_i16(spsh_reader *reader, uint64_t position, uint64_t first_sample,
                                 int16_t *pcm, uint64_t capacity, uint64_t *ret_samples,
                                 spsh_error *err)
{
    read_request request = {SPSH_SAMPLE_I16, first_sample, capacity, pcm};
    return read_pcm(reader, position, &request, ret_samples, err);
}

spsh_status spsh_reader_read_i32(spsh_reader *reader, uint64_t position, uint64_t first_sample,
                                 int32_t *pcm, uint64_t capacity, uint64_t *ret_samples,
                                 spsh_error *err)
{
    read_request request = {SPSH_SAMPLE_I32, first_sample, capacity, pcm};
    return read_pcm(reader, position, &request, ret_samples, err);
}

spsh_status spsh_reader_read_f32(spsh_reader *reader, uint64_t position, uint64_t first_sample,
                                 float *pcm, uint64_t capacity, uint64_t *ret_samples,
                                 spsh_error *err)
{
    read_request request = {SPSH_SAMPLE_F32, first_sample, capacity, pcm};
    return read_pcm(reader, position, &request, ret_samples, err);
}
/* NOLINTEND(readability-non-const-parameter) */

/* render.c: decode, choose channels, resample, and convert, with as few copies as the options
 * allow:
 *
 *     same channels and rate       decode ----------------------------------> slot
 *     other channels               decode -> chunk -> choose ---------------> slot
 *     other rate                   decode -> scratch ------------> resample -> slot
 *     both                         decode -> chunk -> choose -> scratch -> resample -> slot
 *
 * All values have the batch's type, int16 or float32. So a 24-bit source keeps its precision in a
 * float32 batch. The samples equal those of spsh_reader_read_i16 or _f32.
 *
 * If the maker processes the samples (recipe.h), they are written to its buffer as int16 instead of
 * to the slot, and the maker fills the slot. If a device decodes, a payload of codec pcm that needs
 * no other step is checked and copied to the slot unchanged.
 */
#include "render.h"

#include "speechshard/pcm.h"
#include "speechshard/pcm_cuda.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

enum { WIDEN_SAMPLES = 1024, PACKED_ALIGN = 16 };

/* A source of samples, which are pulled in order: a payload, else a decoder, else a reader. */
typedef struct source {
    spsh__renderer *renderer;
    spsh_bytes payload;    /* a payload of codec pcm */
    spsh_decoder *decoder; /* another codec */
    spsh_reader *reader;   /* a reader of the dataset, which reads the utterance itself */
    uint64_t position;
    uint64_t at; /* next sample, in the record, or for a reader in the utterance */
    uint32_t channels;
    bool floats;
    bool *ret_named;
} source;

spsh_status spsh__renderer_open(spsh__renderer *renderer, spsh_error *err)
{
    renderer->readers = (spsh_reader **)spsh__new(renderer->allocator, renderer->dataset_count,
                                                  sizeof(spsh_reader *));
    renderer->chunk = (uint8_t *)spsh__budget_take(renderer->budget, SPSH__CHUNK_BYTES);
    if (renderer->readers == NULL || renderer->chunk == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: memory of a decode thread");
    return SPSH_OK;
}

void spsh__renderer_close(spsh__renderer *renderer)
{
    for (uint32_t n = 0; renderer->readers != NULL && n < renderer->dataset_count; n++)
        spsh_reader_close(renderer->readers[n]);
    spsh_decoder_free(renderer->decoder);
    spsh__free(renderer->allocator, (void *)renderer->readers);
    spsh__budget_give(renderer->budget, renderer->chunk, SPSH__CHUNK_BYTES);
    spsh__budget_give(renderer->budget, renderer->scratch, renderer->scratch_bytes);
}

/* ---- pulling ---- */

/* Convert count int16 values to floats in place. The int16 values are in the upper half of the
 * floats' memory, so a float never overwrites a value that has not been read. */
static void widen(float *values, uint64_t count)
{
    const uint8_t *from = (const uint8_t *)values + 2 * count;
    int16_t some[WIDEN_SAMPLES];
    for (uint64_t done = 0; done < count;) {
        const uint64_t left = count - done;
        const size_t now = left < WIDEN_SAMPLES ? (size_t)left : WIDEN_SAMPLES;
        memcpy(some, from + 2 * done, now * sizeof(*some));
        for (size_t n = 0; n < now; n++)
            values[done + n] = (float)some[n] * 0x1p-15f;
        done += now;
    }
}

static spsh_status pull_pcm(source *s, void *dst, uint64_t samples, spsh_error *err)
{
    uint8_t *to = (uint8_t *)dst;
    if (s->floats)
        to += 2 * samples * s->channels;
    spsh_status rc = spsh_pcm_decode(s->payload.data, s->payload.size_bytes, s->at, samples,
                                     (int16_t *)(void *)to, err);
    if (rc == SPSH_OK && s->floats)
        widen((float *)dst, samples * s->channels);
    return rc;
}

/* Pull up to `samples` samples; *ret_got is 0 at the end. */
static spsh_status pull_some(source *s, void *dst, uint64_t samples, uint64_t *ret_got,
                             spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (s->decoder != NULL)
        return s->floats ? spsh_decoder_read_f32(s->decoder, (float *)dst, samples, ret_got, err)
                         : spsh_decoder_read_i16(s->decoder, (int16_t *)dst, samples, ret_got, err);
    rc = s->floats ? spsh_reader_read_f32(s->reader, s->position, s->at, (float *)dst, samples,
                                          ret_got, err)
                   : spsh_reader_read_i16(s->reader, s->position, s->at, (int16_t *)dst, samples,
                                          ret_got, err);
    *s->ret_named = rc != SPSH_OK;
    return rc;
}

/* Pull exactly `samples` samples. */
static spsh_status pull(source *s, void *dst, uint64_t samples, spsh_error *err)
{
    const size_t sample_bytes = (s->floats ? 4 : 2) * (size_t)s->channels;
    uint64_t done = 0;
    uint64_t got = 1;
    spsh_status rc = SPSH_OK;
    if (s->payload.data != NULL) {
        rc = pull_pcm(s, dst, samples, err);
        s->at += samples;
        return rc;
    }
    while (rc == SPSH_OK && done < samples && got > 0) {
        rc = pull_some(s, (uint8_t *)dst + done * sample_bytes, samples - done, &got, err);
        done += rc == SPSH_OK ? got : 0;
        s->at += rc == SPSH_OK ? got : 0;
    }
    if (rc == SPSH_OK && done < samples)
        rc = SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE,
                          "decodes to %llu samples, which is %llu fewer than stated", ULL(s->at),
                          ULL(samples - done));
    return rc;
}

/* ---- channels ---- */

static void choose_i16(const int16_t *from, uint64_t samples, uint32_t channels, int32_t channel,
                       int16_t *to)
{
    if (channel > 0) {
        for (uint64_t n = 0; n < samples; n++)
            to[n] = from[n * channels + (uint32_t)channel - 1];
        return;
    }
    spsh_mix_i16(from, samples, channels, to);
}

static void choose_f32(const float *from, uint64_t samples, uint32_t channels, int32_t channel,
                       float *to)
{
    if (channel > 0) {
        for (uint64_t n = 0; n < samples; n++)
            to[n] = from[n * channels + (uint32_t)channel - 1];
        return;
    }
    for (uint64_t n = 0; n < samples; n++) {
        double sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += (double)from[n * channels + c];
        to[n] = (float)(sum / (double)channels);
    }
}

/* Pull the whole utterance, with the channels of the batch. */
static spsh_status pull_chosen(source *s, const spsh__job *job, void *dst, spsh_error *err)
{
    const int32_t channel = s->renderer->channel;
    const uint32_t out_channels = job->slot->batch.channels;
    const size_t value_bytes = s->floats ? 4 : 2;
    if (channel == SPSH_CHANNEL_ALL || (s->channels == 1 && out_channels == 1))
        return pull(s, dst, job->item.samples, err);
    const uint64_t fit = SPSH__CHUNK_BYTES / (value_bytes * s->channels);
    spsh_status rc = SPSH_OK;
    for (uint64_t done = 0; done < job->item.samples && rc == SPSH_OK;) {
        const uint64_t left = job->item.samples - done;
        const uint64_t now = left < fit ? left : fit;
        uint8_t *to = (uint8_t *)dst + done * value_bytes;
        rc = pull(s, s->renderer->chunk, now, err);
        if (rc == SPSH_OK && s->floats)
            choose_f32((const float *)(const void *)s->renderer->chunk, now, s->channels, channel,
                       (float *)(void *)to);
        else if (rc == SPSH_OK)
            choose_i16((const int16_t *)(const void *)s->renderer->chunk, now, s->channels, channel,
                       (int16_t *)(void *)to);
        done += now;
    }
    return rc;
}

/* ---- into the slot ---- */

static spsh_status reserve_scratch(spsh__renderer *r, uint64_t size_bytes, spsh_error *err)
{
    if (size_bytes <= r->scratch_bytes)
        return SPSH_OK;
    spsh__budget_give(r->budget, r->scratch, r->scratch_bytes);
    r->scratch_bytes = 0;
    r->scratch = (uint8_t *)spsh__budget_take(r->budget, (size_t)size_bytes);
    if (r->scratch == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE,
                            "loader: %llu bytes for an utterance, but %llu of %llu bytes are in "
                            "use; increase memory_bytes",
                            ULL(size_bytes), ULL(atomic_load(&r->budget->used_bytes)),
                            ULL(r->budget->limit_bytes));
    r->scratch_bytes = (size_t)size_bytes;
    return SPSH_OK;
}

static spsh_status resample(const source *s, const spsh__job *job, void *dst, spsh_error *err)
{
    const spsh__renderer *r = s->renderer;
    const spsh_batch *batch = &job->slot->batch;
    uint64_t got = 0;
    spsh_status rc = SPSH_OK;
    if (s->floats)
        rc = spsh_resample_f32((const float *)(const void *)r->scratch, job->item.samples,
                               batch->channels, job->item.sample_rate_hz, batch->sample_rate_hz,
                               (float *)dst, job->rate_samples, &got, err);
    else
        rc = spsh_resample_i16((const int16_t *)(const void *)r->scratch, job->item.samples,
                               batch->channels, job->item.sample_rate_hz, batch->sample_rate_hz,
                               (int16_t *)dst, job->rate_samples, &got, err);
    if (rc == SPSH_OK && got != job->rate_samples)
        rc = SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE, "resampled to %llu samples, expected %llu",
                          ULL(got), ULL(job->rate_samples));
    return rc;
}

static spsh_status render(source *s, spsh__job *job, spsh_error *err)
{
    const spsh__slot *slot = job->slot;
    const spsh_batch *batch = &slot->batch;
    const size_t value_bytes = s->floats ? 4 : 2;
    const spsh__maker *maker = s->renderer->maker;
    job->is_packed = false; /* an earlier attempt may have set it */
    uint8_t *dst = slot->audio + job->place * slot->value_bytes;
    spsh_status rc = SPSH_OK;
    if (maker->recipe != NULL)
        dst = (uint8_t *)maker->pcm;
    if (job->item.sample_rate_hz == batch->sample_rate_hz) {
        rc = pull_chosen(s, job, dst, err);
    } else {
        rc = reserve_scratch(s->renderer, job->item.samples * batch->channels * value_bytes, err);
        if (rc == SPSH_OK)
            rc = pull_chosen(s, job, s->renderer->scratch, err);
        if (rc == SPSH_OK)
            rc = resample(s, job, dst, err);
    }
    return rc;
}

/* Let the maker process the samples. Without a maker, write zeros after a float32 utterance, to the
 * end of its row. */
static spsh_status finish(const spsh__renderer *r, spsh__job *job, spsh_error *err)
{
    const spsh__slot *slot = job->slot;
    if (job->is_packed)
        return spsh__maker_norm(r->maker, job, err);
    if (r->maker->recipe != NULL)
        return spsh__maker_run(r->maker, job, err);
    const uint64_t values = job->out_samples * slot->batch.channels;
    if (slot->stride > values)
        memset(slot->audio + 4 * (job->place + values), 0, (size_t)(4 * (slot->stride - values)));
    return SPSH_OK;
}

static bool wants_floats(const spsh__renderer *r, const spsh__job *job)
{
    return r->maker->recipe == NULL && job->slot->batch.output == SPSH_OUTPUT_FLOAT32;
}

/* The maker's buffers have the size of the longest utterance of the plan. */
static spsh_status check_length(const spsh__renderer *r, const spsh__job *job, spsh_error *err)
{
    if (r->maker->recipe != NULL && job->rate_samples > r->maker->samples_max)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                            "%llu samples, but the longest utterance of the plan has %llu",
                            ULL(job->rate_samples), ULL(r->maker->samples_max));
    return SPSH_OK;
}

/* ---- a record in memory ---- */

/* Check that the record is the one that the index describes. */
static spsh_status check_record(const spsh__job *job, const spsh_record *record, spsh_error *err)
{
    const spsh_row *row = &job->row;
    if ((record->flags & SPSH_RECORD_UNDECODABLE) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, row->record_offset_bytes,
                            "the payload is intact, but the decoder library cannot decode it");
    if (record->sample_rate_hz != row->sample_rate_hz || record->channels != row->channels ||
        record->codec != row->codec || row->start_sample > record->samples ||
        row->samples > record->samples - row->start_sample)
        return SPSH_FAIL_AT(
            err, SPSH_E_CORRUPT, row->record_offset_bytes,
            "the record states %u Hz, %u channels, codec %s, %llu samples, but the index states %u "
            "Hz, %u channels, codec %s, %llu samples from sample %llu",
            record->sample_rate_hz, record->channels, spsh_codec_name(record->codec),
            ULL(record->samples), row->sample_rate_hz, row->channels, spsh_codec_name(row->codec),
            ULL(row->samples), ULL(row->start_sample));
    return SPSH_OK;
}

/* ---- packing, for a device to decode ---- */

/* Are the samples served without any other step than decoding? */
static bool may_pack(const spsh__renderer *r, const spsh__job *job)
{
    const bool has_channels = r->channel == SPSH_CHANNEL_ALL || job->row.channels == 1;
    return r->recipe->packs && has_channels && job->number < r->utterances_max &&
           job->item.sample_rate_hz == job->slot->batch.sample_rate_hz && job->item.samples > 0;
}

/* Reserve space for a payload's head and piece; NULL: there is not enough. */
static uint8_t *take_packed(const spsh__renderer *r, const spsh__job *job, size_t size_bytes)
{
    spsh__slot *slot = job->slot;
    const size_t whole = (size_bytes + PACKED_ALIGN - 1) & ~(size_t)(PACKED_ALIGN - 1);
    const uint64_t blocks =
        spsh_cuda_pcm_block_count(job->packed_first, job->item.samples, job->row.channels);
    if (atomic_fetch_add(&slot->packed_blocks, blocks) + blocks > r->blocks_max)
        return NULL;
    const size_t at = atomic_fetch_add(&slot->packed_bytes, whole);
    return at + whole > slot->layout.packed_bytes ? NULL
                                                  : slot->audio + slot->layout.packed_at + at;
}

/* Copy the payload's head, and after it the piece that has the samples, unless there is no space.
 * Checks everything first, because the device cannot report damage. */
static spsh_status pack(const source *s, spsh__job *job, uint64_t samples, spsh_error *err)
{
    const spsh_bytes payload = s->payload;
    spsh_pcm_part part = {.head = payload};
    uint64_t size_bytes = 0;
    part.head.size_bytes = spsh_pcm_head_bytes(samples, s->channels);
    spsh_status rc =
        spsh_pcm_range(payload, s->at, job->item.samples, &part.offset_bytes, &size_bytes, err);
    part.piece = (spsh_bytes){payload.data + part.offset_bytes, (size_t)size_bytes};
    if (rc == SPSH_OK)
        rc = spsh_pcm_check_part(&part, s->at, job->item.samples, err);
    if (rc != SPSH_OK)
        return rc;
    job->packed_first = s->at;
    uint8_t *to = take_packed(s->renderer, job, part.head.size_bytes + part.piece.size_bytes);
    if (to == NULL)
        return SPSH_OK;
    memcpy(to, part.head.data, part.head.size_bytes);
    memcpy(to + part.head.size_bytes, part.piece.data, part.piece.size_bytes);
    part.head.data = to;
    part.piece.data = to + part.head.size_bytes;
    job->packed = part;
    job->is_packed = true;
    return SPSH_OK;
}

static spsh_status render_pcm(source *s, spsh__job *job, const spsh_record *record, spsh_error *err)
{
    spsh_pcm_info info;
    spsh_status rc = spsh_pcm_inspect(s->payload.data, s->payload.size_bytes, &info, err);
    if (rc != SPSH_OK)
        return rc;
    if (info.samples != record->samples || info.channels != record->channels)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE,
                            "the payload holds %llu samples of %u channels, but the record states "
                            "%llu samples of %u channels",
                            ULL(info.samples), info.channels, ULL(record->samples),
                            record->channels);
    job->is_packed = false;
    if (may_pack(s->renderer, job))
        rc = pack(s, job, info.samples, err);
    return rc == SPSH_OK && !job->is_packed ? render(s, job, err) : rc;
}

/* After all stated samples, check that the decoder has no more. */
static spsh_status check_end(source *s, const spsh_record *record, spsh_error *err)
{
    float sample[SPSH_CHANNELS_MAX];
    uint64_t more = 0;
    if (s->at != record->samples)
        return SPSH_OK;
    spsh_status rc = spsh_decoder_read_f32(s->decoder, sample, 1, &more, err);
    if (rc == SPSH_OK && more != 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE, "decodes to more than the %llu samples stated",
                          ULL(record->samples));
    return rc;
}

static spsh_status render_decoded(source *s, spsh__job *job, const spsh_record *record,
                                  spsh_bytes payload, spsh_error *err)
{
    spsh__renderer *r = s->renderer;
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    opt.allocator = r->allocator;
    opt.sample_rate_hz = record->sample_rate_hz;
    opt.skip_md5 = true; /* the record's checksums cover the payload */
    r->memory.data = payload;
    const spsh_audio_source audio = spsh_audio_source_memory(&r->memory);
    spsh_status rc = r->decoder == NULL
                         ? spsh_decoder_open(&audio, record->codec, &opt, &r->decoder, err)
                         : spsh_decoder_reopen(r->decoder, &audio, record->codec, &opt, err);
    if (rc != SPSH_OK)
        return rc;
    s->decoder = r->decoder;
    const spsh_audio_info *info = spsh_decoder_info(s->decoder);
    if (info->sample_rate_hz != record->sample_rate_hz || info->channels != record->channels ||
        info->format != record->format)
        rc = SPSH_FAIL_AT(err, SPSH_E_AUDIO, NONE,
                          "decodes to %u Hz, %u channels, format %d, but the record states %u Hz, "
                          "%u channels, format %d",
                          info->sample_rate_hz, info->channels, (int)info->format,
                          record->sample_rate_hz, record->channels, (int)record->format);
    if (rc == SPSH_OK && s->at > 0)
        rc = spsh_decoder_seek(s->decoder, s->at, err);
    if (rc == SPSH_OK)
        rc = render(s, job, err);
    if (rc == SPSH_OK)
        rc = check_end(s, record, err);
    return rc;
}

/* Does the utterance have stored features, which need neither channels nor resampling? */
static bool is_stored(const spsh__renderer *r, const spsh__job *job)
{
    return r->maker->recipe != NULL && r->maker->recipe->stored[job->item.dataset] != 0;
}

spsh_status spsh__render_record(spsh__renderer *renderer, spsh__job *job, const uint8_t file_id[16],
                                spsh_error *err)
{
    const spsh_row *row = &job->row;
    spsh_record record;
    spsh_bytes payload = {NULL, 0};
    spsh_status rc = spsh_record_check(file_id, row->record_offset_bytes, job->record,
                                       row->record_bytes, &record, &payload, err);
    if (rc == SPSH_OK)
        rc = check_record(job, &record, err);
    if (rc == SPSH_OK)
        rc = check_length(renderer, job, err);
    if (rc != SPSH_OK)
        return rc;
    if (is_stored(renderer, job))
        return spsh__maker_run_stored(renderer->maker, job, payload, err);
    source s = {.renderer = renderer,
                .at = row->start_sample + job->item.start_sample,
                .channels = row->channels,
                .floats = wants_floats(renderer, job)};
    if (record.codec == SPSH_CODEC_PCM) {
        s.payload = payload;
        rc = render_pcm(&s, job, &record, err);
    } else {
        rc = render_decoded(&s, job, &record, payload, err);
    }
    return rc == SPSH_OK ? finish(renderer, job, err) : rc;
}

/* Read a whole record of stored features with a reader. */
static spsh_status render_stored(spsh__renderer *r, spsh__job *job, bool *ret_named,
                                 spsh_error *err)
{
    spsh_reader **reader = &r->readers[job->item.dataset];
    const spsh_record *record = NULL;
    spsh_status rc = SPSH_OK;
    if (*reader == NULL)
        rc = spsh_reader_open(r->datasets[job->item.dataset], reader, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_record(*reader, job->item.position, &record, err);
    *ret_named = rc != SPSH_OK;
    if (rc == SPSH_OK)
        rc = check_record(job, record, err);
    const size_t size_bytes = rc == SPSH_OK ? (size_t)record->payload_bytes : 0;
    if (rc == SPSH_OK)
        rc = reserve_scratch(r, size_bytes, err);
    if (rc == SPSH_OK) {
        rc = spsh_reader_payload(*reader, job->item.position, 0, r->scratch, size_bytes, err);
        *ret_named = rc != SPSH_OK;
    }
    if (rc == SPSH_OK)
        rc = spsh__maker_run_stored(r->maker, job, (spsh_bytes){r->scratch, size_bytes}, err);
    return rc;
}

spsh_status spsh__render_self(spsh__renderer *renderer, spsh__job *job, bool *ret_named,
                              spsh_error *err)
{
    spsh_reader **reader = &renderer->readers[job->item.dataset];
    spsh_status rc = check_length(renderer, job, err);
    *ret_named = false;
    if (rc == SPSH_OK && is_stored(renderer, job))
        return render_stored(renderer, job, ret_named, err);
    if (rc == SPSH_OK && job->item.samples > 0 && *reader == NULL)
        rc = spsh_reader_open(renderer->datasets[job->item.dataset], reader, err);
    if (rc == SPSH_OK && job->item.samples > 0) {
        source s = {.renderer = renderer,
                    .reader = *reader,
                    .position = job->item.position,
                    .at = job->item.start_sample,
                    .channels = job->row.channels,
                    .floats = wants_floats(renderer, job),
                    .ret_named = ret_named};
        rc = render(&s, job, err);
    }
    return rc == SPSH_OK ? finish(renderer, job, err) : rc;
}

bool spsh__render_is_undecodable(spsh__renderer *renderer, const spsh__job *job)
{
    spsh_reader **reader = &renderer->readers[job->item.dataset];
    const spsh_record *record = NULL;
    if (*reader == NULL &&
        spsh_reader_open(renderer->datasets[job->item.dataset], reader, NULL) != SPSH_OK)
        return false;
    return spsh_reader_record(*reader, job->item.position, &record, NULL) == SPSH_OK &&
           (record->flags & SPSH_RECORD_UNDECODABLE) != 0;
}

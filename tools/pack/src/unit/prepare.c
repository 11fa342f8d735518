/* prepare.c: turn the bytes of a file into a record.
 *
 *     keep   The payload is the file. The file is still decoded (unless headers are trusted), to
 *            find its exact length, the hash of its PCM, and damage.
 *     flac   Integer PCM of up to 24 bits that is not FLAC yet is encoded. Other sources are kept.
 *     pcm    int16 audio (lossy sources included) is encoded with the codec of pcm.h. Wider
 *            sources are kept, because only the user may decide to drop bits. With rate_hz,
 *            everything becomes int16.
 *
 * Encoded audio is decoded again and compared before it is used.
 */
#include "prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "corpus_file.h"
#include "ffmpeg_wav.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "speechshard/pcm.h"
#include "sphere.h"

#define TINY_FILE_BYTES                                                                            \
    256U                       /* a file of at most this size that is not audio gets its own reason
                                   code */
#define SEEK_TABLE_SECONDS 60U /* shorter recordings need no seek table */
#define SEEK_POINT_SECONDS 1U

static void reject(spsh__prepared *prepared, spsh_reject_reason reason, const char *detail)
{
    prepared->rejected = true;
    prepared->reason = reason;
    (void)snprintf(prepared->detail, sizeof(prepared->detail), "%.*s",
                   (int)sizeof(prepared->detail) - 1, detail);
}

static size_t sample_bytes(spsh_sample_format format)
{
    return format == SPSH_SAMPLE_I16 ? sizeof(int16_t) : sizeof(int32_t);
}

/* Return the audio in a form that the decoders read. */
static spsh_bytes file_of(const spsh__prepared *prepared)
{
    if (prepared->wrapped != NULL)
        return (spsh_bytes){prepared->wrapped, prepared->wrapped_bytes};
    return (spsh_bytes){prepared->file, (size_t)prepared->source_bytes};
}

static spsh_bytes payload_of(const spsh__prepared *prepared)
{
    return (spsh_bytes){prepared->payload, (size_t)prepared->record.payload_bytes};
}

/* Destination of decoded audio. */
typedef struct pcm_sink {
    spsh__builder *pcm; /* receives audio that is encoded again; NULL: not needed */
    spsh__level *level; /* NULL: levels are not measured */
} pcm_sink;

static spsh_status take_pcm(void *user, const spsh_audio_info *info, const void *pcm,
                            uint64_t samples, spsh_error *err)
{
    const pcm_sink *sink = user;
    const size_t values = (size_t)samples * info->channels;

    if (sink->level != NULL)
        spsh__level_add(sink->level, info->format, pcm, values);
    if (sink->pcm == NULL)
        return SPSH_OK;
    spsh__builder_append(sink->pcm, pcm, values * sample_bytes(info->format));
    return sink->pcm->failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* If the option to decode with FFmpeg would help, mention it in the message. */
static void add_hint(const spsh_pack_options *options, const char *name, spsh__prepared *prepared)
{
    const spsh_bytes file = file_of(prepared);
    const size_t used = strlen(prepared->detail);
    if (options->ffmpeg == NULL && prepared->reason == SPSH_REJECT_UNSUPPORTED_CODEC &&
        spsh_ffmpeg_sniff(file.data, file.size_bytes, name))
        (void)snprintf(prepared->detail + used, sizeof(prepared->detail) - used,
                       "; pack --decoder ffmpeg decodes it");
}

static void judge_error(spsh__prepared *prepared, spsh_codec codec, const spsh_error *cause)
{
    spsh_reject_reason reason = SPSH_REJECT_BAD_CONTAINER;

    if (cause->status == SPSH_E_UNSUPPORTED)
        reason = SPSH_REJECT_UNSUPPORTED_CODEC;
    else if (cause->status == SPSH_E_LIMIT)
        reason = SPSH_REJECT_TOO_LONG;
    else if (prepared->source_bytes <= TINY_FILE_BYTES)
        reason = SPSH_REJECT_TINY_FILE;
    else if (codec == SPSH_CODEC_UNKNOWN)
        reason = SPSH_REJECT_NOT_AUDIO;
    else if (cause->status == SPSH_E_TRUNCATED)
        reason = SPSH_REJECT_TRUNCATED;
    reject(prepared, reason, cause->message);
}

/* Judge a decode by its sample count and MD5. */
static void judge_decode(spsh__prepared *prepared, const spsh_decode_result *result)
{
    switch (result->verdict) {
    case SPSH_DECODE_EXACT: break;
    case SPSH_DECODE_UNVERIFIED: prepared->unverified = true; break;
    case SPSH_DECODE_SHORT: reject(prepared, SPSH_REJECT_TRUNCATED, result->detail); return;
    case SPSH_DECODE_LONG:
    case SPSH_DECODE_MD5_MISMATCH:
        reject(prepared, SPSH_REJECT_HEADER_MISMATCH, result->detail);
        return;
    case SPSH_DECODE_DECODER_LIMIT:
        prepared->record.flags |= SPSH_RECORD_UNDECODABLE;
        (void)snprintf(prepared->detail, sizeof(prepared->detail), "%s", result->detail);
        break;
    case SPSH_DECODE_NO_END_FLAG:
        prepared->no_end_flag = true;
        (void)snprintf(prepared->detail, sizeof(prepared->detail), "%s", result->detail);
        break;
    }
    if (result->samples == 0)
        reject(prepared, SPSH_REJECT_ZERO_DURATION, "no samples");
}

static void fill_record(spsh__prepared *prepared, const spsh_audio_info *info, uint64_t samples,
                        uint32_t nominal_rate_hz)
{
    spsh_record *record = &prepared->record;

    record->samples = samples;
    record->sample_rate_hz = info->sample_rate_hz;
    record->nominal_rate_hz = nominal_rate_hz != 0 ? nominal_rate_hz : info->nominal_rate_hz;
    record->channels = info->channels;
    record->codec = info->codec;
    record->format = info->format;
    record->bits_per_sample = prepared->is_lossy ? 0 : info->bits_per_sample;
    prepared->pcm_bytes = samples * info->channels * sample_bytes(info->format);
}

static void use_file_as_payload(spsh__prepared *prepared)
{
    /* Only an Opus file may have been made from audio of another rate (FORMAT.md 3.2). */
    if (prepared->record.codec != SPSH_CODEC_OPUS)
        prepared->record.nominal_rate_hz = prepared->record.sample_rate_hz;
    prepared->payload = file_of(prepared).data;
    prepared->record.payload_bytes = file_of(prepared).size_bytes;
    if (prepared->wrapped != NULL)
        prepared->record.flags |= SPSH_RECORD_TRANSCODED;
}

static bool is_codec_wanted(const spsh_pack_options *options, const spsh_audio_info *info)
{
    if (options->rate_hz != 0 && options->rate_hz != info->sample_rate_hz)
        return true;
    if (options->codec == SPSH_PACK_PCM)
        return options->rate_hz != 0 || info->format == SPSH_SAMPLE_I16;
    return options->codec == SPSH_PACK_FLAC && info->codec != SPSH_CODEC_FLAC &&
           info->format != SPSH_SAMPLE_F32 && info->bits_per_sample <= 24;
}

/* Convert wider samples to int16 in place, because the resampler takes int16. */
static spsh_status to_i16(spsh__prepared *prepared, spsh_codec codec, spsh__builder *pcm,
                          spsh_error *err)
{
    spsh_record *record = &prepared->record;
    spsh_decoder *decoder = NULL;
    uint64_t done = 0;
    spsh_status rc = SPSH_OK;

    if (record->format == SPSH_SAMPLE_I16)
        return SPSH_OK;
    spsh_memory_source memory = {.data = file_of(prepared)};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    rc = spsh_decoder_open(&source, codec, NULL, &decoder, err);
    while (rc == SPSH_OK && done < record->samples) {
        uint64_t got = 0;
        int16_t *to = (int16_t *)(void *)pcm->data + done * record->channels;
        rc = spsh_decoder_read_i16(decoder, to, record->samples - done, &got, err);
        if (rc == SPSH_OK && got == 0)
            rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "the second decode is shorter than the first");
        done += got;
    }
    spsh_decoder_free(decoder);
    record->format = SPSH_SAMPLE_I16;
    return rc;
}

static spsh_status resample(const spsh_pack_options *options, spsh__prepared *prepared,
                            spsh__builder *pcm, spsh_error *err)
{
    spsh_record *record = &prepared->record;
    uint64_t capacity = 0;
    uint64_t samples = 0;

    if (__builtin_mul_overflow(record->samples, (uint64_t)options->rate_hz, &capacity))
        return SPSH_FAIL(err, SPSH_E_LIMIT, "too long to resample");
    capacity = capacity / record->sample_rate_hz + 1;
    if (capacity > SPSH_PCM_BYTES_MAX / sizeof(int16_t) / record->channels)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "too long to resample");
    int16_t *out = malloc((size_t)(capacity * record->channels) * sizeof(int16_t));
    if (out == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh_resample_i16((const int16_t *)(const void *)pcm->data, record->samples,
                                       record->channels, record->sample_rate_hz, options->rate_hz,
                                       out, capacity, &samples, err);
    spsh__builder_free(pcm);
    pcm->data = (uint8_t *)out;
    record->samples = samples;
    record->sample_rate_hz = options->rate_hz;
    record->nominal_rate_hz = options->rate_hz;
    record->flags |= SPSH_RECORD_RESAMPLED;
    return rc;
}

static spsh_status encode(const spsh_pack_options *options, spsh__prepared *prepared,
                          const spsh__builder *pcm, spsh_error *err)
{
    spsh_record *record = &prepared->record;
    bool flac = options->codec == SPSH_PACK_FLAC;
    uint32_t bits = record->format == SPSH_SAMPLE_I16 ? 16 : 24;
    size_t capacity = flac ? spsh_flac_bound(record->samples, record->channels, bits)
                           : spsh_pcm_bound(record->samples, record->channels);
    size_t size_bytes = 0;
    spsh_status rc = SPSH_OK;

    if (capacity == SIZE_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "too long to encode");
    prepared->encoded = malloc(capacity);
    if (prepared->encoded == NULL)
        return SPSH_NO_MEMORY(err);
    if (flac)
        rc =
            spsh_flac_encode(pcm->data, record->format, bits, record->samples, record->channels,
                             record->sample_rate_hz, prepared->encoded, capacity, &size_bytes, err);
    else
        rc = spsh_pcm_encode((const int16_t *)(const void *)pcm->data, record->samples,
                             record->channels, prepared->encoded, capacity, &size_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    uint8_t *fitting = size_bytes > 0 ? realloc(prepared->encoded, size_bytes) : NULL;
    if (fitting != NULL)
        prepared->encoded = fitting;
    prepared->payload = prepared->encoded;
    record->payload_bytes = size_bytes;
    record->codec = flac ? SPSH_CODEC_FLAC : SPSH_CODEC_PCM;
    record->flags |= SPSH_RECORD_TRANSCODED;
    return SPSH_OK;
}

static uint64_t thread_time_ns(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Decode the encoded payload and require the same PCM. After resampling, store the hash of this
 * PCM. */
static spsh_status check_encoded(spsh__prepared *prepared, spsh_error *err)
{
    spsh_record *record = &prepared->record;
    spsh_decoder_options decoding = SPSH_DECODER_OPTIONS_INIT;
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;

    decoding.sample_rate_hz = record->sample_rate_hz;
    spsh_status rc = spsh_audio_decode_memory(payload_of(prepared), record->codec, &decoding, NULL,
                                              NULL, &result, err);
    if (rc != SPSH_OK)
        return rc;
    bool same = (record->flags & SPSH_RECORD_RESAMPLED) != 0 ||
                memcmp(result.pcm_hash, record->pcm_hash, sizeof(result.pcm_hash)) == 0;
    if (result.samples != record->samples || !same)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "encoding with %s is not lossless: %" PRIu64 " samples became %" PRIu64,
                         spsh_codec_name(record->codec), record->samples, result.samples);
    memcpy(record->pcm_hash, result.pcm_hash, sizeof(record->pcm_hash));
    record->flags |= SPSH_RECORD_PCM_HASH;
    return SPSH_OK;
}

static spsh_status transcode(const spsh_pack_options *options, spsh__prepared *prepared,
                             spsh_codec codec, spsh__builder *pcm, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    bool resampled = options->rate_hz != 0 && options->rate_hz != prepared->record.sample_rate_hz;

    if (options->rate_hz != 0) {
        bool narrowed = prepared->record.format != SPSH_SAMPLE_I16;
        rc = to_i16(prepared, codec, pcm, err);
        if (narrowed) /* the known hash is of the wider PCM */
            prepared->record.flags |= SPSH_RECORD_RESAMPLED;
    }
    if (rc == SPSH_OK && resampled)
        rc = resample(options, prepared, pcm, err);
    if (rc == SPSH_OK)
        rc = encode(options, prepared, pcm, err);
    if (rc == SPSH_OK)
        rc = check_encoded(prepared, err);
    if (rc == SPSH_E_LIMIT) {
        reject(prepared, SPSH_REJECT_TOO_LONG, err == NULL ? "too long" : err->message);
        rc = SPSH_OK;
    }
    return rc;
}

static spsh_status decode_file(const spsh_pack_options *given, spsh__prepared *prepared,
                               spsh_codec codec, uint32_t nominal_rate_hz, spsh_error *err)
{
    spsh_pack_options effective = *given;
    const spsh_pack_options *options = &effective;
    if (prepared->is_expanded && given->codec == SPSH_PACK_KEEP)
        effective.codec = SPSH_PACK_FLAC;
    bool collect = options->codec != SPSH_PACK_KEEP;
    spsh__builder pcm = {0};
    pcm_sink sink = {collect ? &pcm : NULL, options->trusts_headers ? NULL : &prepared->level};
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_error cause = SPSH_ERROR_INIT;

    uint64_t begin_ns = thread_time_ns();
    spsh_status rc =
        spsh_audio_decode_memory(file_of(prepared), codec, NULL, take_pcm, &sink, &result, &cause);
    prepared->decode_ns = thread_time_ns() - begin_ns;
    if (rc == SPSH_E_NO_MEMORY) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    if (rc != SPSH_OK) {
        judge_error(prepared, codec, &cause);
        rc = SPSH_OK;
        goto out;
    }
    judge_decode(prepared, &result);
    if (prepared->rejected)
        goto out;
    fill_record(prepared, &result.info, result.samples, nominal_rate_hz);
    bool undecodable = (prepared->record.flags & SPSH_RECORD_UNDECODABLE) != 0;
    if (undecodable)
        prepared->level = (spsh__level){0};
    if (!undecodable) {
        memcpy(prepared->record.pcm_hash, result.pcm_hash, sizeof(result.pcm_hash));
        prepared->record.flags |= SPSH_RECORD_PCM_HASH;
    }
    if (collect && !undecodable && is_codec_wanted(options, &result.info)) {
        rc = transcode(options, prepared, codec, &pcm, err);
        goto out;
    }
    prepared->kept_as_is = collect;
    use_file_as_payload(prepared);
out:
    spsh__builder_free(&pcm);
    return rc;
}

static spsh_status trust_headers(const spsh_pack_options *options, spsh__prepared *prepared,
                                 spsh_codec codec, uint32_t nominal_rate_hz, spsh_error *err)
{
    spsh_memory_source memory = {.data = file_of(prepared)};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_audio_info info;
    spsh_error cause = SPSH_ERROR_INIT;

    spsh_status rc = spsh_audio_inspect(&source, codec, &info, &cause);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK) {
        judge_error(prepared, codec, &cause);
        return SPSH_OK;
    }
    if (info.samples == SPSH_SAMPLES_UNKNOWN)
        return decode_file(options, prepared, codec, nominal_rate_hz, err);
    if (info.samples == 0) {
        reject(prepared, SPSH_REJECT_ZERO_DURATION, "no samples");
        return SPSH_OK;
    }
    if (info.samples > SPSH_PCM_BYTES_MAX / info.channels / sample_bytes(info.format)) {
        reject(prepared, SPSH_REJECT_TOO_LONG, "the PCM is too large to be read again");
        return SPSH_OK;
    }
    fill_record(prepared, &info, info.samples, nominal_rate_hz);
    prepared->record.flags |= SPSH_RECORD_TRUSTED;
    use_file_as_payload(prepared);
    if (options->dedupe == SPSH_PACK_DEDUPE_PCM && info.has_md5)
        memcpy(prepared->key, info.md5, sizeof(prepared->key));
    return SPSH_OK;
}

/* Add a seek table to long FLAC. Without the table, reading five seconds out of an hour would
 * decode the audio before them. */
static spsh_status add_seek_points(spsh__prepared *prepared, spsh_error *err)
{
    spsh_record *record = &prepared->record;
    uint64_t interval = (uint64_t)SEEK_POINT_SECONDS * record->sample_rate_hz;
    uint64_t count = 0;

    if (record->codec != SPSH_CODEC_FLAC ||
        record->samples < (uint64_t)SEEK_TABLE_SECONDS * record->sample_rate_hz)
        return SPSH_OK;
    /* The points are at least an interval apart, so this capacity is sufficient. Damaged frames
     * were found before. */
    uint64_t capacity = record->samples / interval + 1;
    prepared->seek_points = malloc((size_t)capacity * sizeof(*prepared->seek_points));
    if (prepared->seek_points == NULL)
        return SPSH_NO_MEMORY(err);
    if (spsh_audio_seek_points(payload_of(prepared), record->codec, interval, prepared->seek_points,
                               capacity, &count, NULL) != SPSH_OK)
        return SPSH_OK; /* trusts_headers: a damaged file is decoded from its start */
    record->seek_points = prepared->seek_points;
    record->seek_point_count = count < capacity ? count : capacity;
    return SPSH_OK;
}

static void choose_key(const spsh_pack_options *options, spsh__prepared *prepared)
{
    static const uint8_t none[16] = {0};
    const spsh_record *record = &prepared->record;

    if (options->dedupe == SPSH_PACK_DEDUPE_NONE || memcmp(prepared->key, none, sizeof(none)) != 0)
        return;
    if (options->dedupe == SPSH_PACK_DEDUPE_PCM && (record->flags & SPSH_RECORD_PCM_HASH) != 0)
        memcpy(prepared->key, record->pcm_hash, sizeof(prepared->key));
    else
        spsh__pack_hash128(payload_of(prepared), prepared->key);
}

/* Return the stored name of the item. It is the same for a file in a folder and in an archive.
 * Strings of a plan item are NUL-terminated. */
static const char *name_of(const spsh_ingest_item *item)
{
    return (const char *)item->source.data;
}

static spsh_status wrap_with_ffmpeg(const spsh_pack_options *options, const char *name,
                                    spsh__prepared *prepared, spsh_error *err)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh__ffmpeg_wav wav = {NULL, 0};
    const spsh_status rc =
        spsh__ffmpeg_to_wav(options->ffmpeg, file_of(prepared), name, &wav, &result, err);
    if (rc != SPSH_OK)
        return rc;
    judge_decode(prepared, &result);
    prepared->wrapped = wav.data;
    prepared->wrapped_bytes = wav.size_bytes;
    prepared->is_expanded = true;
    prepared->is_lossy = result.info.bits_per_sample == 0;
    return SPSH_OK;
}

/* Convert a source in a container that only packing reads to a WAV file. Of the source, only the
 * hash is kept. */
static spsh_status wrap(const spsh_pack_options *options, const char *name,
                        spsh__prepared *prepared, spsh_codec *codec, spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    const spsh_bytes file = file_of(prepared);
    spsh_status rc = SPSH_OK;
    if (*codec != SPSH_CODEC_UNKNOWN)
        return SPSH_OK;
    if (options->ffmpeg != NULL && spsh_ffmpeg_sniff(file.data, file.size_bytes, name))
        rc = wrap_with_ffmpeg(options, name, prepared, &cause);
    else if (spsh__is_sphere(file))
        rc = spsh__sphere_to_wav(file, &prepared->wrapped, &prepared->wrapped_bytes, &cause);
    else
        return SPSH_OK;
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    *codec = SPSH_CODEC_WAV;
    if (rc != SPSH_OK)
        judge_error(prepared, *codec, &cause);
    else
        spsh__pack_hash128(file, prepared->source_hash);
    return SPSH_OK;
}

spsh_status spsh__prepare(const spsh_pack_options *options, const spsh_ingest_item *item,
                          spsh__prepared *ret_prepared, spsh_error *err)
{
    spsh__prepared prepared = {0};
    spsh__pack_source source = {0};
    spsh_status rc = spsh__pack_source_read(
        options->io, &item->audio, SPSH_RECORD_BYTES_MAX - (UINT64_C(1) << 24), &source, err);
    if (rc != SPSH_OK)
        return rc;
    prepared.file = source.data;
    prepared.source_bytes = source.size_bytes;
    if (source.rejected) {
        reject(&prepared, source.reason, source.detail);
        *ret_prepared = prepared;
        return SPSH_OK;
    }
    spsh_codec codec = spsh_audio_sniff(prepared.file, source.size_bytes, name_of(item));
    rc = wrap(options, name_of(item), &prepared, &codec, err);
    if (rc != SPSH_OK || prepared.rejected)
        goto out;
    if (options->trusts_headers && options->codec == SPSH_PACK_KEEP && !prepared.is_expanded)
        rc = trust_headers(options, &prepared, codec, item->nominal_rate_hz, err);
    else
        rc = decode_file(options, &prepared, codec, item->nominal_rate_hz, err);
    if (rc == SPSH_OK && !prepared.rejected) {
        rc = add_seek_points(&prepared, err);
        choose_key(options, &prepared);
    }
out:
    if (prepared.rejected)
        add_hint(options, name_of(item), &prepared);
    if (rc != SPSH_OK) {
        spsh__prepared_free(&prepared);
        return rc;
    }
    *ret_prepared = prepared;
    return SPSH_OK;
}

static spsh_status open_payload(const spsh__prepared *prepared, spsh_memory_source *memory,
                                spsh_decoder **ret_decoder, spsh_error *err)
{
    const spsh_record *record = &prepared->record;
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    options.sample_rate_hz = record->sample_rate_hz;
    memory->data = payload_of(prepared);
    const spsh_audio_source source = spsh_audio_source_memory(memory);
    return spsh_decoder_open(&source, record->codec, &options, ret_decoder, err);
}

/* Whether the error is caused by the audio. Such an error occurs in every run, on any machine. */
static bool is_of_audio(spsh_status status)
{
    return status == SPSH_E_AUDIO || status == SPSH_E_UNSUPPORTED || status == SPSH_E_TRUNCATED ||
           status == SPSH_E_CORRUPT || status == SPSH_E_LIMIT;
}

/* Compare two records by their decoded audio. Audio that cannot be decoded, which is possible with
 * trusts_headers, equals only its own bytes. Any other failure leaves the question open and ends
 * the pack. */
static spsh_status compare_decoded(const spsh__prepared *a, const spsh__prepared *b,
                                   bool *ret_equal, spsh_error *err)
{
    spsh_decoder *decoders[2] = {NULL, NULL};
    spsh_memory_source memory[2];
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = open_payload(a, &memory[0], &decoders[0], &cause);

    if (rc == SPSH_OK)
        rc = open_payload(b, &memory[1], &decoders[1], &cause);
    if (rc == SPSH_OK)
        rc = spsh_decoder_compare(decoders[0], decoders[1], ret_equal, &cause);
    spsh_decoder_free(decoders[0]);
    spsh_decoder_free(decoders[1]);
    if (rc == SPSH_OK || is_of_audio(rc))
        return SPSH_OK; /* the caller has set *ret_equal to false */
    return spsh__fail_again(rc, &cause, err);
}

spsh_status spsh__prepared_equal(const spsh__prepared *a, const spsh__prepared *b,
                                 spsh_pack_dedupe level, bool *ret_equal, spsh_error *err)
{
    const spsh_record *x = &a->record;
    const spsh_record *y = &b->record;

    *ret_equal = false;
    if (a->rejected || b->rejected)
        return SPSH_OK;
    if (x->codec == y->codec && x->payload_bytes == y->payload_bytes &&
        memcmp(a->payload, b->payload, (size_t)x->payload_bytes) == 0) {
        *ret_equal = true;
        return SPSH_OK;
    }
    if (level != SPSH_PACK_DEDUPE_PCM || x->samples != y->samples || x->channels != y->channels ||
        x->sample_rate_hz != y->sample_rate_hz || x->format != y->format)
        return SPSH_OK;
    return compare_decoded(a, b, ret_equal, err);
}

void spsh__prepared_free(spsh__prepared *prepared)
{
    free(prepared->file);
    free(prepared->wrapped);
    free(prepared->encoded);
    free(prepared->seek_points);
    *prepared = (spsh__prepared){0};
}

spsh_status spsh__prepare_text(const spsh_io *io, const spsh__piece *sidecar, spsh__builder *text,
                               spsh_reject_reason *ret_reason, const char **ret_detail,
                               spsh_error *err)
{
    spsh__pack_source source = {0};
    uint64_t line_ends = 0;

    *ret_detail = NULL;
    spsh_status rc = spsh__pack_source_read(io, sidecar, SPSH_TEXT_BYTES_MAX, &source, err);
    if (rc != SPSH_OK)
        return rc;
    if (source.rejected && source.reason == SPSH_REJECT_EMPTY_FILE)
        return SPSH_OK; /* the transcript is empty */
    if (source.rejected) {
        *ret_reason = source.reason == SPSH_REJECT_TOO_LONG ? SPSH_REJECT_TEXT_TOO_LONG
                                                            : SPSH_REJECT_UNREADABLE;
        *ret_detail = "its transcript file cannot be read";
        return SPSH_OK;
    }
    size_t size_bytes = spsh__sidecar_text(source.data, source.size_bytes, &line_ends);
    spsh__builder_append(text, source.data, size_bytes);
    free(source.data);
    if (text->failed)
        return SPSH_NO_MEMORY(err);
    if (!spsh__utf8_valid(spsh__builder_bytes(text))) {
        *ret_reason = SPSH_REJECT_TEXT_INVALID_UTF8;
        *ret_detail = "its transcript is not UTF-8";
    }
    return SPSH_OK;
}

/* audio.c: the public functions of audio.h: options, dispatch, conversion, and whole decodes.
 *
 * A decoder holds a codec's function table, the position, and a limit. All codecs deliver their
 * native format. This file converts samples, tracks the position and the limit, and turns an early
 * end into an error. A whole decode (spsh_audio_decode_memory) continues past damage if it can,
 * hashes the decoded samples, and asks the codec for a verdict:
 *
 *     pcm_hash = XXH3-128 of  u32 format, u32 channels, u32 sample rate, u32 0,  samples...
 *
 * all little-endian, samples interleaved in the native format.
 */
#include "audio_internal.h"
#include "base/checksum.h"
#include "speechshard/options.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#define HASH_PREFIX_BYTES 16

const char *spsh_codec_name(spsh_codec codec)
{
    switch (codec) {
    case SPSH_CODEC_UNKNOWN: break;
    case SPSH_CODEC_WAV: return "wav";
    case SPSH_CODEC_FLAC: return "flac";
    case SPSH_CODEC_MP3: return "mp3";
    case SPSH_CODEC_VORBIS: return "vorbis";
    case SPSH_CODEC_OPUS: return "opus";
    case SPSH_CODEC_GSM: return "gsm";
    case SPSH_CODEC_PCM: return "pcm";
    case SPSH_CODEC_FEATURES: return "features";
    }
    return "unknown";
}

static char versions[128];

static void compose_versions(void)
{
    (void)snprintf(versions, sizeof(versions), "%s libFLAC-%s %s %s pcm-1", spsh__sndfile_version(),
                   spsh__flac_version(), spsh__mpg123_version(), spsh__soxr_version());
}

const char *spsh_audio_versions(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, compose_versions);
    return versions;
}

size_t spsh__sample_bytes(spsh_sample_format format)
{
    return format == SPSH_SAMPLE_I16 ? 2 : 4;
}

spsh_status spsh__audio_check_info(const spsh_audio_info *info, spsh_error *err)
{
    if (info->channels == 0 || info->sample_rate_hz == 0)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "%s: %u channels at %u Hz",
                         spsh_codec_name(info->codec), info->channels, info->sample_rate_hz);
    if (info->channels > SPSH_CHANNELS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: %u channels, at most %u",
                         spsh_codec_name(info->codec), info->channels, SPSH_CHANNELS_MAX);
    if (info->sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN ||
        info->sample_rate_hz > SPSH_SAMPLE_RATE_HZ_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: %u Hz, want %u to %u",
                         spsh_codec_name(info->codec), info->sample_rate_hz,
                         SPSH_SAMPLE_RATE_HZ_MIN, SPSH_SAMPLE_RATE_HZ_MAX);
    return SPSH_OK;
}

/* ---- verdicts ---- */

void spsh__audio_judge_set(spsh_decode_result *result, spsh_decode_verdict verdict,
                           const char *format, ...)
{
    va_list args;
    result->verdict = verdict;
    va_start(args, format);
    (void)vsnprintf(result->detail, sizeof(result->detail), format, args);
    va_end(args);
}

void spsh__audio_judge_count(spsh_decode_result *result)
{
    uint64_t claim = result->info.samples;
    result->verdict = SPSH_DECODE_EXACT;
    result->detail[0] = '\0';
    if (claim == SPSH_SAMPLES_UNKNOWN)
        result->verdict = SPSH_DECODE_UNVERIFIED;
    else if (claim != result->samples)
        spsh__audio_judge_set(result,
                              result->samples < claim ? SPSH_DECODE_SHORT : SPSH_DECODE_LONG,
                              "%s: the headers state %llu samples, %llu were decoded",
                              spsh_codec_name(result->info.codec), (unsigned long long)claim,
                              (unsigned long long)result->samples);
}

void spsh__audio_judge_extent(spsh_decode_result *result, const spsh__stream_extent *extent)
{
    if (!extent->is_clean) {
        spsh__audio_judge_set(result, SPSH_DECODE_SHORT, "%s", extent->detail);
        return;
    }
    spsh__audio_judge_count(result);
    /* No claim, but the frames were counted: the library must have decoded them all. */
    if (result->verdict == SPSH_DECODE_UNVERIFIED && extent->samples != result->samples)
        spsh__audio_judge_set(
            result, result->samples < extent->samples ? SPSH_DECODE_SHORT : SPSH_DECODE_LONG,
            "%s: %llu samples in the frames, %llu decoded", spsh_codec_name(result->info.codec),
            (unsigned long long)extent->samples, (unsigned long long)result->samples);
    if (extent->lacks_end_flag && result->verdict <= SPSH_DECODE_UNVERIFIED)
        spsh__audio_judge_set(result, SPSH_DECODE_NO_END_FLAG,
                              "Ogg: no end-of-stream flag; all pages up to byte %llu are intact",
                              (unsigned long long)extent->end_bytes);
}

spsh_status spsh__audio_check_reached(const spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    if (decoder->position == sample)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "seek to %llu of %llu samples",
                     (unsigned long long)sample, (unsigned long long)decoder->position);
}

/* ---- conversion ---- */

/* Adding and taking away 1.5 * 2^23 rounds half to even, as the format's rounding mode does, and
 * compilers make vectors of it. */
void spsh__f32_to_i16(const float *src, int16_t *dst, size_t count)
{
    const float magic = 12582912.0f;
    for (size_t i = 0; i < count; i++) {
        float value = src[i] * 32768.0f;
        value = value == value ? value : 0.0f;
        value = value < -32768.0f ? -32768.0f : value;
        value = value > 32767.0f ? 32767.0f : value;
        float shifted = value + magic;
        int32_t bits = 0;
        memcpy(&bits, &shifted, sizeof(bits));
        dst[i] = (int16_t)(bits - 0x4b400000);
    }
}

static void f32_to_i32(const float *src, int32_t *dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value = (double)src[i] * 2147483648.0;
        value = value == value ? value : 0.0;
        value = value < -2147483648.0 ? -2147483648.0 : value;
        value = value > 2147483647.0 ? 2147483647.0 : value;
        dst[i] = (int32_t)rint(value);
    }
}

static void i32_to_i16(const int32_t *src, int16_t *dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = ((int64_t)src[i] + 0x8000) >> 16;
        dst[i] = (int16_t)(value > INT16_MAX ? INT16_MAX : value);
    }
}

static void convert(spsh_sample_format from, const void *src, spsh_sample_format to, void *dst,
                    size_t count)
{
    const int16_t *src16 = (const int16_t *)src;
    const int32_t *src32 = (const int32_t *)src;
    const float *src_float = (const float *)src;
    float *dst_float = (float *)dst;
    if (from == SPSH_SAMPLE_I16 && to == SPSH_SAMPLE_I32) {
        for (size_t i = 0; i < count; i++)
            ((int32_t *)dst)[i] = src16[i] * 65536;
    } else if (from == SPSH_SAMPLE_I16) {
        for (size_t i = 0; i < count; i++)
            dst_float[i] = (float)src16[i] * 0x1p-15f;
    } else if (from == SPSH_SAMPLE_I32 && to == SPSH_SAMPLE_I16) {
        i32_to_i16(src32, (int16_t *)dst, count);
    } else if (from == SPSH_SAMPLE_I32) {
        for (size_t i = 0; i < count; i++)
            dst_float[i] = (float)src32[i] * 0x1p-31f;
    } else if (to == SPSH_SAMPLE_I16) {
        spsh__f32_to_i16(src_float, (int16_t *)dst, count);
    } else {
        f32_to_i32(src_float, (int32_t *)dst, count);
    }
}

/* ---- decoder ---- */

static const spsh__audio_backend *find_backend(spsh_codec codec)
{
    switch (codec) {
    case SPSH_CODEC_WAV: return &spsh__audio_wav;
    case SPSH_CODEC_FLAC: return &spsh__audio_flac;
    case SPSH_CODEC_MP3: return &spsh__audio_mpg123;
    case SPSH_CODEC_VORBIS:
    case SPSH_CODEC_OPUS:
    case SPSH_CODEC_GSM: return &spsh__audio_sndfile;
    case SPSH_CODEC_PCM: return &spsh__audio_pcm;
    case SPSH_CODEC_FEATURES:
    case SPSH_CODEC_UNKNOWN: break;
    }
    return NULL;
}

static spsh_status choose(spsh__audio_window *window, spsh_codec codec, spsh_codec *ret_codec,
                          const spsh__audio_backend **ret_backend, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    /* A name or a stored number can be wrong: what a sniffed codec is must come from the bytes. */
    if (codec == SPSH_CODEC_UNKNOWN)
        rc = spsh__audio_detect(window, &codec, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_codec = codec;
    *ret_backend = find_backend(codec);
    if (codec == SPSH_CODEC_FEATURES)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "these are features, not audio: there is nothing to decode");
    if (*ret_backend == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "codec %d is not known", (int)codec);
    return SPSH_OK;
}

spsh_status spsh_audio_inspect(const spsh_audio_source *source, spsh_codec codec,
                               spsh_audio_info *ret_info, spsh_error *err)
{
    spsh__audio_window window;
    const spsh__audio_backend *backend = NULL;
    if (source == NULL || source->read_fn == NULL || ret_info == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "inspect: NULL argument");
    spsh__window_init(&window, source);
    spsh_audio_info info = {.codec = codec};
    spsh_status rc = choose(&window, codec, &info.codec, &backend, err);
    if (rc == SPSH_OK)
        rc = backend->inspect(&window, &info, err);
    if (rc == SPSH_OK)
        *ret_info = info;
    return rc;
}

/* A WAV with GSM inside is decoded by the library that decodes GSM. */
static spsh_status choose_for_decode(spsh_decoder *decoder, spsh__audio_window *window,
                                     spsh_codec codec, spsh_error *err)
{
    spsh_audio_info info = {.codec = codec};
    spsh__wav_layout layout = {.block_bytes = 0};
    spsh_status rc = choose(window, codec, &decoder->info.codec, &decoder->backend, err);
    if (rc != SPSH_OK || decoder->info.codec != SPSH_CODEC_WAV)
        return rc;
    rc = spsh__wav_parse(window, &info, &layout, err);
    if (rc == SPSH_OK && layout.coding == SPSH__WAV_GSM)
        decoder->backend = &spsh__audio_sndfile;
    return rc;
}

static spsh_status take_options(const spsh_decoder_options *options,
                                spsh_decoder_options *ret_options, spsh_error *err)
{
    *ret_options = (spsh_decoder_options)SPSH_DECODER_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, ret_options, sizeof(*ret_options), err);
    if (rc == SPSH_OK && ret_options->seek_points == NULL && ret_options->seek_point_count > 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%llu seek points at NULL",
                         (unsigned long long)ret_options->seek_point_count);
    return rc;
}

/* Nothing of the stream is left but what the codec keeps. */
static void close_stream(spsh_decoder *decoder)
{
    if (decoder->state != NULL)
        decoder->backend->close(decoder);
    decoder->state = NULL;
    decoder->backend = NULL;
}

/* Open a stream at sample 0, after another one or the first. */
static spsh_status open_stream(spsh_decoder *decoder, const spsh_audio_source *source,
                               spsh_codec codec, const spsh_decoder_options *opt, spsh_error *err)
{
    const spsh__audio_backend *last = decoder->backend;
    spsh__audio_window window;
    decoder->source = *source;
    decoder->seek_points = opt->seek_points;
    decoder->seek_point_count = opt->seek_point_count;
    decoder->pcm_bytes_max = opt->pcm_bytes_max == 0 ? SPSH_PCM_BYTES_MAX : opt->pcm_bytes_max;
    decoder->sample_rate_hz = opt->sample_rate_hz;
    decoder->skips_md5 = opt->skip_md5;
    decoder->position = 0;
    memset(&decoder->info, 0, sizeof(decoder->info));
    spsh__window_init(&window, &decoder->source);
    spsh_status rc = choose_for_decode(decoder, &window, codec, err);
    if (decoder->state != NULL &&
        (rc != SPSH_OK || decoder->backend != last || !last->keeps_state)) {
        last->close(decoder);
        decoder->state = NULL;
    }
    if (rc == SPSH_OK)
        rc = decoder->backend->open(decoder, &window, err);
    if (rc != SPSH_OK)
        close_stream(decoder);
    return rc;
}

static spsh_status decoder_open(const spsh_audio_source *source, spsh_codec codec,
                                const spsh_decoder_options *options, bool keep_going,
                                spsh_decoder **ret_decoder, spsh_error *err)
{
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decoder *decoder = NULL;
    spsh_status rc = take_options(options, &opt, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_allocator allocator = opt.allocator == NULL ? *spsh_allocator_default() : *opt.allocator;
    decoder = (spsh_decoder *)spsh__new(&allocator, 1, sizeof(*decoder));
    if (decoder == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "decoder: %zu bytes", sizeof(*decoder));
    decoder->allocator = allocator;
    decoder->keep_going = keep_going;
    decoder->scratch = (uint8_t *)spsh__alloc(&allocator, SPSH__SCRATCH_BYTES);
    if (decoder->scratch == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "decoder: %d bytes", SPSH__SCRATCH_BYTES);
        goto out;
    }
    rc = open_stream(decoder, source, codec, &opt, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_decoder = decoder;
    decoder = NULL;
out:
    spsh_decoder_free(decoder);
    return rc;
}

spsh_status spsh_decoder_open(const spsh_audio_source *source, spsh_codec codec,
                              const spsh_decoder_options *options, spsh_decoder **ret_decoder,
                              spsh_error *err)
{
    if (source == NULL || source->read_fn == NULL || ret_decoder == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "decoder: NULL argument");
    return decoder_open(source, codec, options, false, ret_decoder, err);
}

spsh_status spsh_decoder_reopen(spsh_decoder *decoder, const spsh_audio_source *source,
                                spsh_codec codec, const spsh_decoder_options *options,
                                spsh_error *err)
{
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    if (decoder == NULL || source == NULL || source->read_fn == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "decoder: NULL argument");
    spsh_status rc = take_options(options, &opt, err);
    if (rc == SPSH_OK)
        rc = open_stream(decoder, source, codec, &opt, err);
    else
        close_stream(decoder);
    return rc;
}

const spsh_audio_info *spsh_decoder_info(const spsh_decoder *decoder)
{
    return &decoder->info;
}

void spsh_decoder_free(spsh_decoder *decoder)
{
    if (decoder == NULL)
        return;
    spsh_allocator allocator = decoder->allocator;
    close_stream(decoder);
    spsh__free(&allocator, decoder->scratch);
    spsh__free(&allocator, decoder);
}

spsh_status spsh_decoder_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    if (decoder == NULL || decoder->backend == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "seek: nothing is open");
    if (sample > decoder->info.samples)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "seek to %llu of %llu samples",
                         (unsigned long long)sample, (unsigned long long)decoder->info.samples);
    if (sample == decoder->position)
        return SPSH_OK;
    return decoder->backend->seek(decoder, sample, err);
}

/* Read native samples. To meet the limit exactly, read one sample more, which shows whether the
 * audio exceeds it. */
static spsh_status read_native(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                               uint64_t *ret_samples, spsh_error *err)
{
    uint64_t block = spsh__sample_bytes(decoder->info.format) * decoder->info.channels;
    uint64_t samples_max = decoder->pcm_bytes_max / block;
    uint64_t left = samples_max > decoder->position ? samples_max - decoder->position : 0;
    uint64_t wanted = capacity <= left ? capacity : left + 1;
    uint64_t got = 0;
    spsh_status rc = decoder->backend->read(decoder, pcm, wanted, &got, err);
    if (rc != SPSH_OK)
        return rc;
    if (got > left)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: more than %llu bytes of PCM",
                         spsh_codec_name(decoder->info.codec),
                         (unsigned long long)decoder->pcm_bytes_max);
    decoder->position += got;
    if (got < capacity && !decoder->keep_going && decoder->info.samples != SPSH_SAMPLES_UNKNOWN &&
        decoder->position < decoder->info.samples)
        return SPSH_FAIL(err, SPSH_E_TRUNCATED, "%s: the audio ends at sample %llu of %llu",
                         spsh_codec_name(decoder->info.codec),
                         (unsigned long long)decoder->position,
                         (unsigned long long)decoder->info.samples);
    *ret_samples = got;
    return SPSH_OK;
}

static spsh_status decoder_read(spsh_decoder *decoder, spsh_sample_format format, void *pcm,
                                uint64_t capacity, uint64_t *ret_samples, spsh_error *err)
{
    if (decoder == NULL || decoder->backend == NULL || (pcm == NULL && capacity > 0) ||
        ret_samples == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "read: NULL argument, or nothing is open");
    uint64_t done = 0;
    if (capacity == 0) {
        *ret_samples = 0;
        return SPSH_OK;
    }
    if (format == decoder->info.format)
        return read_native(decoder, pcm, capacity, ret_samples, err);
    uint32_t channels = decoder->info.channels;
    size_t out_bytes = spsh__sample_bytes(format) * channels;
    uint64_t fit = SPSH__SCRATCH_BYTES / (spsh__sample_bytes(decoder->info.format) * channels);
    while (done < capacity) {
        uint64_t wanted = capacity - done < fit ? capacity - done : fit;
        uint64_t got = 0;
        spsh_status rc = read_native(decoder, decoder->scratch, wanted, &got, err);
        if (rc != SPSH_OK)
            return rc;
        convert(decoder->info.format, decoder->scratch, format, (uint8_t *)pcm + done * out_bytes,
                (size_t)got * channels);
        done += got;
        if (got < wanted)
            break;
    }
    *ret_samples = done;
    return SPSH_OK;
}

spsh_status spsh_decoder_read_i16(spsh_decoder *decoder, int16_t *pcm, uint64_t capacity,
                                  uint64_t *ret_samples, spsh_error *err)
{
    return decoder_read(decoder, SPSH_SAMPLE_I16, pcm, capacity, ret_samples, err);
}

spsh_status spsh_decoder_read_i32(spsh_decoder *decoder, int32_t *pcm, uint64_t capacity,
                                  uint64_t *ret_samples, spsh_error *err)
{
    return decoder_read(decoder, SPSH_SAMPLE_I32, pcm, capacity, ret_samples, err);
}

spsh_status spsh_decoder_read_f32(spsh_decoder *decoder, float *pcm, uint64_t capacity,
                                  uint64_t *ret_samples, spsh_error *err)
{
    return decoder_read(decoder, SPSH_SAMPLE_F32, pcm, capacity, ret_samples, err);
}

spsh_status spsh_decoder_compare(spsh_decoder *a, spsh_decoder *b, bool *ret_equal, spsh_error *err)
{
    if (a == NULL || b == NULL || a == b || a->backend == NULL || b->backend == NULL ||
        ret_equal == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "compare: NULL argument, one decoder twice, or nothing is open");
    const spsh_audio_info *x = &a->info;
    const spsh_audio_info *y = &b->info;
    bool equal = x->format == y->format && x->channels == y->channels &&
                 x->sample_rate_hz == y->sample_rate_hz;
    const size_t block = spsh__sample_bytes(x->format) * x->channels;
    const uint64_t fit = SPSH__SCRATCH_BYTES / block;
    uint64_t got = fit;
    while (equal && got > 0) {
        uint64_t other = 0;
        spsh_status rc = read_native(a, a->scratch, fit, &got, err);
        if (rc == SPSH_OK)
            rc = read_native(b, b->scratch, fit, &other, err);
        if (rc != SPSH_OK)
            return rc;
        equal = got == other && memcmp(a->scratch, b->scratch, (size_t)got * block) == 0;
    }
    *ret_equal = equal;
    return SPSH_OK;
}

/* ---- whole decodes ---- */

static void hash_samples(spsh__hasher *hasher, const uint8_t *pcm, size_t size_bytes,
                         size_t sample_bytes)
{
    uint8_t swapped[256];
    if (spsh__host_is_little_endian()) {
        spsh__hasher_update(hasher, pcm, size_bytes);
        return;
    }
    for (size_t done = 0; done < size_bytes;) {
        size_t count = size_bytes - done < sizeof(swapped) ? size_bytes - done : sizeof(swapped);
        for (size_t i = 0; i < count; i++)
            swapped[i] =
                pcm[done + i / sample_bytes * sample_bytes + sample_bytes - 1 - i % sample_bytes];
        spsh__hasher_update(hasher, swapped, count);
        done += count;
    }
}

static spsh_status decode_all(spsh_decoder *decoder, spsh__hasher *hasher, spsh_pcm_sink_fn sink,
                              void *user, uint64_t *ret_samples, spsh_error *err)
{
    const spsh_audio_info *info = &decoder->info;
    size_t sample_bytes = spsh__sample_bytes(info->format);
    uint64_t fit = SPSH__SCRATCH_BYTES / (sample_bytes * info->channels);
    uint64_t got = 0;
    do {
        spsh_status rc = read_native(decoder, decoder->scratch, fit, &got, err);
        if (rc == SPSH_OK && got > 0) {
            hash_samples(hasher, decoder->scratch, (size_t)got * sample_bytes * info->channels,
                         sample_bytes);
            if (sink != NULL)
                rc = sink(user, info, decoder->scratch, got, err);
        }
        if (rc != SPSH_OK)
            return rc;
    } while (got == fit);
    *ret_samples = decoder->position;
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): a sink and its user belong side by side */
spsh_status spsh_audio_decode_memory(spsh_bytes file, spsh_codec codec,
                                     const spsh_decoder_options *options, spsh_pcm_sink_fn sink,
                                     void *user, spsh_decode_result *ret_result, spsh_error *err)
{
    spsh_memory_source memory = {file};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_decoder *decoder = NULL;
    spsh__hasher *hasher = NULL;
    uint8_t prefix[HASH_PREFIX_BYTES] = {0};
    if (file.data == NULL && file.size_bytes > 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "decode: NULL argument");
    spsh_status rc = spsh_result_check(ret_result, sizeof(result), err);
    if (rc == SPSH_OK)
        rc = decoder_open(&source, codec, options, true, &decoder, err);
    if (rc != SPSH_OK)
        goto out;
    hasher = spsh__hasher_new(&decoder->allocator);
    if (hasher == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "PCM hash");
        goto out;
    }
    spsh__store_u32le(prefix, (uint32_t)decoder->info.format);
    spsh__store_u32le(prefix + 4, decoder->info.channels);
    spsh__store_u32le(prefix + 8, decoder->info.sample_rate_hz);
    spsh__hasher_reset128(hasher);
    spsh__hasher_update(hasher, prefix, sizeof(prefix));
    rc = decode_all(decoder, hasher, sink, user, &result.samples, err);
    if (rc != SPSH_OK)
        goto out;
    result.info = decoder->info;
    spsh__hasher_digest128(hasher, result.pcm_hash);
    decoder->backend->judge(decoder, file, &result);
    spsh_result_give(ret_result, &result, sizeof(result));
out:
    spsh__hasher_free(hasher);
    spsh_decoder_free(decoder);
    return rc;
}

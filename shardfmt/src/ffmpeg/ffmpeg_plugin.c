/* ffmpeg_plugin.c: decode one audio stream of a file in memory with FFmpeg's libraries. Only the
 * plug-in contains this file.
 *
 * Files are hostile. The demuxer is given, streams and packets are limited, the largest allocation
 * is limited, nothing but the file's bytes can be opened, and only codecs of a list decode.
 *
 * The samples must depend on nothing but the file and the version of the libraries. Code for
 * special processors is off, because its float results differ; each file decodes on one thread.
 *
 * Containers state a length that may include the encoder's delay. So the decoder leaves skipping to
 * us, and both counts, with and without the skipped samples, are compared with the claim.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/cpu.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ffmpeg_claim.h"
#include "speechshard/ffmpeg_plugin.h"
#include "speechshard/limits.h"

enum {
    IO_BYTES = 1 << 15,
    STREAMS_MAX = 16,
    PROBE_BYTES = 1 << 22,
    PACKETS_BASE = 1024,
    SCRATCH_VALUES = 1 << 14,
};

#define ALLOC_BYTES_MAX ((size_t)512 << 20)

/* Decoders that may run, also while the headers are read. */
static const char codecs[] =
    "aac,alac,opus,vorbis,mp3,mp3float,flac,wmav1,wmav2,wmapro,wmalossless,wmavoice,amrnb,amrwb,"
    "g722,adpcm_g722,pcm_s8,pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,"
    "pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_alaw,pcm_mulaw,shorten";

typedef union scratch {
    int16_t i16[SCRATCH_VALUES];
    int32_t i32[SCRATCH_VALUES];
    float f32[SCRATCH_VALUES];
} scratch;

typedef struct decode {
    const spsh__ffmpeg_job *job;
    uint64_t at; /* position in the file */
    AVFormatContext *format;
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    scratch *values;
    int stream;
    spsh__claim claim;
    spsh_audio_info info; /* set by the first frame */
    enum AVSampleFormat sample_format;
    uint64_t decoded;   /* samples that the decoder returned */
    uint64_t kept;      /* decoded samples that the sink received */
    uint64_t at_front;  /* skipped at the start: the encoder's delay */
    uint64_t frame_max; /* samples of the longest frame */
    const char *damage; /* NULL: none */
} decode;

static spsh_status fail(spsh_error *err, spsh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static spsh_status fail(spsh_error *err, spsh_status status, const char *format, ...)
{
    va_list args;
    if (err == NULL)
        return status;
    err->status = status;
    err->os_errno = 0;
    err->offset_bytes = SPSH_OFFSET_NONE;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return status;
}

/* ---- the file ---- */

static int on_read(void *user, uint8_t *dst, int size)
{
    decode *d = (decode *)user;
    const uint64_t left = d->job->file.size_bytes - d->at;
    const size_t bytes = left < (uint64_t)size ? (size_t)left : (size_t)size;
    if (bytes == 0)
        return AVERROR_EOF;
    memcpy(dst, d->job->file.data + d->at, bytes);
    d->at += bytes;
    return (int)bytes;
}

static int64_t on_seek(void *user, int64_t offset, int whence)
{
    decode *d = (decode *)user;
    const int64_t size = (int64_t)d->job->file.size_bytes;
    int64_t base = 0;
    if (whence == AVSEEK_SIZE)
        return size;
    if (whence == SEEK_CUR)
        base = (int64_t)d->at;
    else if (whence == SEEK_END)
        base = size;
    if (offset < -base || offset > size - base)
        return AVERROR(EINVAL);
    d->at = (uint64_t)(base + offset);
    return base + offset;
}

/* Files may name other files: none is opened. */
static int refuse_open(AVFormatContext *format, AVIOContext **pb, const char *url, int flags,
                       AVDictionary **options)
{
    (void)format, (void)pb, (void)url, (void)flags, (void)options;
    return AVERROR(EPERM);
}

static spsh_status open_io(decode *d, spsh_error *err)
{
    d->format = avformat_alloc_context();
    uint8_t *buffer = av_malloc(IO_BYTES);
    if (d->format != NULL && buffer != NULL)
        d->format->pb = avio_alloc_context(buffer, IO_BYTES, 0, d, on_read, NULL, on_seek);
    if (d->format == NULL || d->format->pb == NULL) {
        av_free(buffer);
        return fail(err, SPSH_E_NO_MEMORY, "out of memory");
    }
    d->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    d->format->io_open = refuse_open;
    d->format->max_streams = STREAMS_MAX;
    d->format->probesize = PROBE_BYTES;
    d->format->codec_whitelist = av_strdup(codecs);
    return d->format->codec_whitelist != NULL ? SPSH_OK
                                              : fail(err, SPSH_E_NO_MEMORY, "out of memory");
}

static void close_all(decode *d)
{
    av_frame_free(&d->frame);
    av_packet_free(&d->packet);
    avcodec_free_context(&d->codec);
    AVIOContext *pb = d->format == NULL ? NULL : d->format->pb;
    avformat_close_input(&d->format);
    if (pb != NULL)
        av_freep(&pb->buffer);
    avio_context_free(&pb);
    av_freep(&d->values);
}

/* ---- opening ---- */

static bool is_listed(const char *name)
{
    const size_t size = strlen(name);
    for (const char *at = codecs; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, name, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
    }
    return false;
}

static spsh_status status_of(int code)
{
    return code == AVERROR(ENOMEM) ? SPSH_E_NO_MEMORY : SPSH_E_AUDIO;
}

static spsh_status open_format(decode *d, spsh_error *err)
{
    const AVInputFormat *demuxer = av_find_input_format(d->job->demuxer);
    AVIOContext *pb = d->format->pb;
    if (demuxer == NULL)
        return fail(err, SPSH_E_UNSUPPORTED, "these libraries of FFmpeg have no demuxer %s",
                    d->job->demuxer);
    int code = avformat_open_input(&d->format, "", demuxer, NULL);
    if (code < 0) { /* which has freed the format, but not what we made */
        av_freep(&pb->buffer);
        avio_context_free(&pb);
        return fail(err, status_of(code), "FFmpeg's %s demuxer: %s", d->job->demuxer,
                    av_err2str(code));
    }
    code = avformat_find_stream_info(d->format, NULL);
    if (code < 0)
        return fail(err, status_of(code), "FFmpeg's %s demuxer: %s", d->job->demuxer,
                    av_err2str(code));
    return SPSH_OK;
}

static spsh_status choose_stream(decode *d, spsh_error *err)
{
    unsigned count = 0;
    for (unsigned i = 0; i < d->format->nb_streams; i++) {
        AVStream *stream = d->format->streams[i];
        if (stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) {
            d->stream = (int)i;
            count++;
        } else {
            stream->discard = AVDISCARD_ALL;
        }
    }
    if (count == 1)
        return SPSH_OK;
    return fail(err, count == 0 ? SPSH_E_AUDIO : SPSH_E_UNSUPPORTED,
                count == 0 ? "no audio stream" : "%u audio streams, of which none is preferred",
                count);
}

static spsh_status open_codec(decode *d, spsh_error *err)
{
    const AVCodecParameters *parameters = d->format->streams[d->stream]->codecpar;
    const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
    const char *name = avcodec_get_name(parameters->codec_id);
    if (codec == NULL || !is_listed(codec->name))
        return fail(err, SPSH_E_UNSUPPORTED, "%s in %s is not among the codecs that are read", name,
                    d->job->demuxer);
    d->codec = avcodec_alloc_context3(codec);
    if (d->codec == NULL)
        return fail(err, SPSH_E_NO_MEMORY, "out of memory");
    int code = avcodec_parameters_to_context(d->codec, parameters);
    d->codec->thread_count = 1;
    d->codec->flags |= AV_CODEC_FLAG_BITEXACT;
    d->codec->flags2 |= AV_CODEC_FLAG2_SKIP_MANUAL;
    d->codec->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
    d->codec->pkt_timebase = d->format->streams[d->stream]->time_base;
    if (code >= 0)
        code = avcodec_open2(d->codec, codec, NULL);
    if (code < 0)
        return fail(err, status_of(code), "%s: %s", name, av_err2str(code));
    d->packet = av_packet_alloc();
    d->frame = av_frame_alloc();
    d->values = av_malloc(sizeof(*d->values));
    return d->packet != NULL && d->frame != NULL && d->values != NULL
               ? SPSH_OK
               : fail(err, SPSH_E_NO_MEMORY, "out of memory");
}

/* ---- samples ---- */

static bool is_lossy(enum AVCodecID id)
{
    const AVCodecDescriptor *descriptor = avcodec_descriptor_get(id);
    return descriptor != NULL && (descriptor->props & AV_CODEC_PROP_LOSSLESS) == 0;
}

/* The native format: int16 for lossy codecs, as for those that are read without FFmpeg. */
static spsh_status take_form(decode *d, spsh_error *err)
{
    const AVFrame *f = d->frame;
    const bool lossy = is_lossy(d->codec->codec_id);
    const int raw = d->codec->bits_per_raw_sample;
    const enum AVSampleFormat packed = av_get_packed_sample_fmt((enum AVSampleFormat)f->format);
    if (f->sample_rate < (int)SPSH_SAMPLE_RATE_HZ_MIN ||
        f->sample_rate > (int)SPSH_SAMPLE_RATE_HZ_MAX || f->ch_layout.nb_channels < 1 ||
        f->ch_layout.nb_channels > (int)SPSH_CHANNELS_MAX)
        return fail(err, SPSH_E_LIMIT, "%d channels at %d Hz", f->ch_layout.nb_channels,
                    f->sample_rate);
    d->sample_format = (enum AVSampleFormat)f->format;
    d->info = (spsh_audio_info){.format = SPSH_SAMPLE_I16,
                                .sample_rate_hz = (uint32_t)f->sample_rate,
                                .nominal_rate_hz = (uint32_t)f->sample_rate,
                                .channels = (uint32_t)f->ch_layout.nb_channels};
    if (packed == AV_SAMPLE_FMT_S32) {
        d->info.format = SPSH_SAMPLE_I32;
        d->info.bits_per_sample = raw > 16 && raw <= 24 ? (uint32_t)raw : 32;
    } else if (!lossy && (packed == AV_SAMPLE_FMT_FLT || packed == AV_SAMPLE_FMT_DBL)) {
        d->info.format = SPSH_SAMPLE_F32;
        d->info.bits_per_sample = packed == AV_SAMPLE_FMT_FLT ? 32 : 64;
    } else if (!lossy) {
        d->info.bits_per_sample = packed == AV_SAMPLE_FMT_U8 ? 8 : 16;
    }
    return packed == AV_SAMPLE_FMT_S64 || packed == AV_SAMPLE_FMT_NONE
               ? fail(err, SPSH_E_UNSUPPORTED, "samples of 64 bits")
               : SPSH_OK;
}

static bool has_form(const decode *d)
{
    return d->frame->format == (int)d->sample_format &&
           (uint32_t)d->frame->sample_rate == d->info.sample_rate_hz &&
           (uint32_t)d->frame->ch_layout.nb_channels == d->info.channels;
}

static int16_t i16_of(double value)
{
    const double scaled = isnan(value) ? 0 : nearbyint(value * 32768);
    return (int16_t)(scaled < -32768 ? -32768 : scaled > 32767 ? 32767 : scaled);
}

/* Store value number `at` of the frame's plane as value `to` of the scratch. */
static void take_value(decode *d, const uint8_t *plane, size_t at, size_t to)
{
    const bool is_float = d->info.format == SPSH_SAMPLE_F32;
    switch (av_get_packed_sample_fmt(d->sample_format)) {
    case AV_SAMPLE_FMT_U8: d->values->i16[to] = (int16_t)((plane[at] - 128) * 256); break;
    case AV_SAMPLE_FMT_S16: d->values->i16[to] = ((const int16_t *)(const void *)plane)[at]; break;
    case AV_SAMPLE_FMT_S32: d->values->i32[to] = ((const int32_t *)(const void *)plane)[at]; break;
    case AV_SAMPLE_FMT_FLT:
        if (is_float)
            d->values->f32[to] = ((const float *)(const void *)plane)[at];
        else
            d->values->i16[to] = i16_of((double)((const float *)(const void *)plane)[at]);
        break;
    default:
        if (is_float)
            d->values->f32[to] = (float)((const double *)(const void *)plane)[at];
        else
            d->values->i16[to] = i16_of(((const double *)(const void *)plane)[at]);
        break;
    }
}

/* Pass samples [from, to) of the frame to the sink. */
static spsh_status give(decode *d, uint64_t from, uint64_t to, spsh_error *err)
{
    const size_t channels = d->info.channels;
    const bool planar = av_sample_fmt_is_planar(d->sample_format) != 0;
    const uint64_t value_bytes = d->info.format == SPSH_SAMPLE_I16 ? 2 : 4;
    spsh_status rc = SPSH_OK;
    if ((d->kept + (to - from)) * channels * value_bytes > d->job->pcm_bytes_max)
        return fail(err, SPSH_E_LIMIT, "more than %llu bytes of PCM",
                    (unsigned long long)d->job->pcm_bytes_max);
    while (from < to && rc == SPSH_OK) {
        const uint64_t fit = SCRATCH_VALUES / channels;
        const size_t count = (size_t)(to - from < fit ? to - from : fit);
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < count; i++)
                take_value(d, d->frame->extended_data[planar ? c : 0],
                           planar ? (size_t)from + i : ((size_t)from + i) * channels + c,
                           i * channels + c);
        if (d->job->sink != NULL)
            rc = d->job->sink(d->job->user, &d->info, d->values, count, err);
        d->kept += count;
        from += count;
    }
    return rc;
}

/* Containers of lossy codecs count in samples, and the last frame is longer than the rest of the
 * audio. */
static uint64_t capacity_of(const decode *d)
{
    if (!d->claim.is_exact || d->claim.samples == SPSH_SAMPLES_UNKNOWN)
        return UINT64_MAX;
    return d->claim.samples > d->kept ? d->claim.samples - d->kept : 0;
}

static spsh_status take_frame(decode *d, spsh_error *err)
{
    const AVFrameSideData *skip = av_frame_get_side_data(d->frame, AV_FRAME_DATA_SKIP_SAMPLES);
    const uint64_t samples = (uint64_t)d->frame->nb_samples;
    uint64_t from = 0;
    uint64_t to = samples;
    spsh_status rc = SPSH_OK;
    if (d->info.channels == 0)
        rc = take_form(d, err);
    else if (!has_form(d))
        rc = fail(err, SPSH_E_UNSUPPORTED, "rate, channels, or format change at sample %llu",
                  (unsigned long long)d->decoded);
    if (rc != SPSH_OK)
        return rc;
    if (d->decoded == 0)
        spsh__claim_scale(&d->claim, d->info.sample_rate_hz);
    if (d->frame->decode_error_flags != 0 || (d->frame->flags & AV_FRAME_FLAG_CORRUPT) != 0)
        d->damage = "a frame is damaged";
    if (skip != NULL && skip->size >= 8) {
        const uint64_t front = spsh__load_le(skip->data, 4);
        const uint64_t end = spsh__load_le(skip->data + 4, 4);
        from = front < samples ? front : samples;
        to = end < samples - from ? samples - end : from;
        d->at_front += from;
    }
    d->frame_max = samples > d->frame_max ? samples : d->frame_max;
    d->decoded += to - from;
    const uint64_t capacity = capacity_of(d);
    return give(d, from, to - from > capacity ? from + capacity : to, err);
}

/* Take all frames that the decoder has. */
static spsh_status drain(decode *d, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (;;) {
        const int code = avcodec_receive_frame(d->codec, d->frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            return SPSH_OK;
        if (code == AVERROR(ENOMEM))
            return fail(err, SPSH_E_NO_MEMORY, "out of memory");
        if (code < 0) {
            d->damage = "a packet cannot be decoded";
            return SPSH_OK;
        }
        rc = take_frame(d, err);
        av_frame_unref(d->frame);
        if (rc != SPSH_OK)
            return rc;
    }
}

static spsh_status decode_packet(decode *d, const AVPacket *packet, spsh_error *err)
{
    const int code = avcodec_send_packet(d->codec, packet);
    if (code == AVERROR(ENOMEM))
        return fail(err, SPSH_E_NO_MEMORY, "out of memory");
    if (code < 0 && code != AVERROR_EOF)
        d->damage = "a packet cannot be decoded";
    return drain(d, err);
}

static spsh_status decode_all(decode *d, spsh_error *err)
{
    const uint64_t packets_max = d->job->file.size_bytes + PACKETS_BASE;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK && d->damage == NULL; n++) {
        const int code = av_read_frame(d->format, d->packet);
        if (code == AVERROR(ENOMEM))
            return fail(err, SPSH_E_NO_MEMORY, "out of memory");
        if (code == AVERROR_EOF)
            return decode_packet(d, NULL, err);
        if (code < 0 || n == packets_max) {
            d->damage = code < 0 ? "a packet cannot be read" : "more packets than bytes";
            return SPSH_OK;
        }
        if ((d->packet->flags & AV_PKT_FLAG_CORRUPT) != 0)
            d->damage = "a packet is cut or damaged";
        else if (d->packet->stream_index == d->stream)
            rc = decode_packet(d, d->packet, err);
        av_packet_unref(d->packet);
    }
    return rc;
}

/* ---- the verdict ---- */

static void judge(const decode *d, spsh_decode_result *result)
{
    const spsh__claim *c = &d->claim;
    const uint64_t whole = d->decoded + d->at_front;
    const uint64_t tolerance = c->tolerance + d->frame_max;
    result->info = d->info;
    result->info.samples = c->samples;
    result->samples = d->kept;
    result->verdict = SPSH_DECODE_SHORT;
    if (d->damage != NULL || c->cut != NULL) {
        (void)snprintf(result->detail, sizeof(result->detail), "%s: %s, after %llu samples",
                       d->job->demuxer, c->cut != NULL ? c->cut : d->damage,
                       (unsigned long long)d->kept);
        return;
    }
    if (c->samples == SPSH_SAMPLES_UNKNOWN) {
        result->verdict = SPSH_DECODE_UNVERIFIED;
        return;
    }
    /* The claim may be of all samples, or of those that are not skipped. */
    const bool is_short = c->is_exact ? whole < c->samples : whole + tolerance < c->samples;
    const bool is_long = d->decoded > c->samples + tolerance;
    if (!is_short && !is_long) {
        result->verdict = c->is_exact ? SPSH_DECODE_EXACT : SPSH_DECODE_UNVERIFIED;
        return;
    }
    result->verdict = is_short ? SPSH_DECODE_SHORT : SPSH_DECODE_LONG;
    (void)snprintf(result->detail, sizeof(result->detail),
                   "%s: the headers state %llu samples, %llu were decoded", d->job->demuxer,
                   (unsigned long long)c->samples, (unsigned long long)d->decoded);
}

static void find_claim(decode *d)
{
    const AVStream *stream = d->format->streams[d->stream];
    const uint32_t rate = (uint32_t)stream->codecpar->sample_rate;
    spsh__claim *c = &d->claim;
    if (spsh__claim_find(d->job->demuxer, d->job->file, c))
        return;
    const bool is_own = stream->duration != AV_NOPTS_VALUE && stream->duration > 0;
    const bool is_real = d->format->duration != AV_NOPTS_VALUE &&
                         d->format->duration_estimation_method != AVFMT_DURATION_FROM_BITRATE;
    c->rate_hz = rate;
    if (is_own && stream->time_base.num == 1 && (uint32_t)stream->time_base.den == rate) {
        /* In CAF it is a number of whole packets, except for PCM. */
        c->samples = (uint64_t)stream->duration;
        c->is_exact = strcmp(d->job->demuxer, "caf") != 0 ||
                      av_get_exact_bits_per_sample(stream->codecpar->codec_id) > 0;
    } else if (is_own || is_real) {
        const AVRational base = is_own ? stream->time_base : AV_TIME_BASE_Q;
        const int64_t duration = is_own ? stream->duration : d->format->duration;
        c->samples = (uint64_t)av_rescale_q(duration, base, (AVRational){1, (int)rate});
        c->tolerance = rate / 20;
    }
}

static spsh_status run(const spsh__ffmpeg_job *job, spsh_decode_result *result, spsh_error *err)
{
    decode d = {.job = job, .claim = SPSH__CLAIM_INIT};
    spsh_status rc = open_io(&d, err);
    if (rc == SPSH_OK)
        rc = open_format(&d, err);
    if (rc == SPSH_OK)
        rc = choose_stream(&d, err);
    if (rc == SPSH_OK)
        rc = open_codec(&d, err);
    if (rc == SPSH_OK) {
        find_claim(&d);
        rc = decode_all(&d, err);
    }
    if (rc == SPSH_OK && d.info.channels == 0)
        rc = fail(err, SPSH_E_AUDIO, "%s: %s", job->demuxer,
                  d.damage != NULL ? d.damage : "no samples");
    if (rc == SPSH_OK)
        judge(&d, result);
    close_all(&d);
    return rc;
}

/* ---- the plug-in ---- */

static char libraries[96];

/* The settings of the libraries apply to the whole process, in which only this plug-in uses them.
 */
static void set_up(void)
{
    const unsigned format = avformat_version();
    const unsigned codec = avcodec_version();
    av_log_set_level(AV_LOG_QUIET);
    av_max_alloc(ALLOC_BYTES_MAX);
    av_force_cpu_flags(0);
    (void)snprintf(libraries, sizeof(libraries), "libavformat-%u.%u.%u libavcodec-%u.%u.%u",
                   AV_VERSION_MAJOR(format), AV_VERSION_MINOR(format), AV_VERSION_MICRO(format),
                   AV_VERSION_MAJOR(codec), AV_VERSION_MINOR(codec), AV_VERSION_MICRO(codec));
}

static const spsh__ffmpeg_plugin plugin = {SPSH__FFMPEG_ABI, SPSH_VERSION_STRING, libraries, run};

SPSH_API spsh__ffmpeg_plugin_fn spsh_ffmpeg_plugin;

const spsh__ffmpeg_plugin *spsh_ffmpeg_plugin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_up);
    return &plugin;
}

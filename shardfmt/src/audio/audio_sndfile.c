/* audio_sndfile.c: Ogg Vorbis, Ogg Opus and GSM 06.10 through libsndfile. Only this file includes
 * it.
 *
 * libsndfile reads a file that we compose: our own head, then the part of the source that our
 * parsers found intact. It sees no tags, no foreign chunks, and nothing after the first damage:
 *
 *     Vorbis      the headers, composed anew         | the pages after them
 *     Opus        first page, with other fields      | the other pages
 *     GSM in WAV  a WAV header of 60 bytes           | blocks
 *     GSM         - (opened as raw)                  | frames
 *
 * Opus streams state the original rate of their material, for information only. libsndfile would
 * decode at the next rate above it (at 8 kHz if the field is 0), so that the samples would depend
 * on that field. Here Opus is always decoded at 48 kHz, as the codec defines its lengths. libsndfile
 * skips too few samples at the start if a stream does not begin at position 0. So it is given a
 * pre-skip of 0, and the samples are skipped here.
 *
 * Samples are read as float and converted by our own rule. GSM samples are integers.
 */
#include "audio_internal.h"
#include "base/buffer.h"

#include <sndfile.h>

#define GSM_FRAME_BYTES   33
#define GSM_FRAME_SAMPLES 160
#define GSM_RATE_HZ       8000
#define WAV_HEAD_BYTES    60
#define HEAD_BYTES_MAX    1024
#define OPUS_RATE_HZ      48000

typedef struct sndfile_state {
    SNDFILE *library;
    const spsh_audio_source *source;
    spsh__stream_extent extent; /* begin and end of the source's part */
    const uint8_t *head;        /* one of the two below */
    size_t head_bytes;
    uint8_t small_head[HEAD_BYTES_MAX];
    spsh__buffer vorbis_head;
    uint64_t offset; /* offset in the composed file */
    bool is_float;
    bool has_ended;
    uint64_t decoded; /* the library's position in samples */
    spsh_status io_status;
    spsh_error io_error;
    float *floats; /* SPSH__SCRATCH_BYTES */
} sndfile_state;

const char *spsh__sndfile_version(void)
{
    return sf_version_string();
}

/* ---- the composed file ---- */

static sf_count_t on_length(void *user)
{
    const sndfile_state *state = (const sndfile_state *)user;
    return (sf_count_t)(state->head_bytes + (state->extent.end_bytes - state->extent.begin_bytes));
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user)
{
    sndfile_state *state = (sndfile_state *)user;
    sf_count_t length = on_length(user);
    sf_count_t base = whence == SEEK_SET   ? 0
                      : whence == SEEK_CUR ? (sf_count_t)state->offset
                                           : length;
    if (offset < -base || offset > length - base)
        return -1;
    state->offset = (uint64_t)(base + offset);
    return base + offset;
}

static sf_count_t on_read(void *dst, sf_count_t count, void *user)
{
    sndfile_state *state = (sndfile_state *)user;
    uint8_t *out = (uint8_t *)dst;
    uint64_t length = (uint64_t)on_length(user);
    sf_count_t done = 0;
    if (count <= 0 || state->offset >= length || state->io_status != SPSH_OK)
        return 0;
    uint64_t wanted = (uint64_t)count;
    if (wanted > length - state->offset)
        wanted = length - state->offset;
    if (state->offset < state->head_bytes) {
        uint64_t left = state->head_bytes - state->offset;
        uint64_t now = wanted < left ? wanted : left;
        memcpy(out, state->head + state->offset, (size_t)now);
        done += (sf_count_t)now;
    }
    if ((uint64_t)done < wanted) {
        size_t got = 0;
        uint64_t at =
            state->extent.begin_bytes + (state->offset + (uint64_t)done - state->head_bytes);
        state->io_status =
            spsh__source_read(state->source, at, out + done, (size_t)(wanted - (uint64_t)done),
                              &got, &state->io_error);
        if (state->extent.patches[0].is_used || state->extent.patches[1].is_used)
            spsh__ogg_patch(&state->extent, at, out + done, got);
        done += (sf_count_t)got;
    }
    state->offset += (uint64_t)done;
    return done;
}

static sf_count_t on_write(const void *src, sf_count_t count, void *user)
{
    (void)src, (void)count, (void)user;
    return 0;
}

static sf_count_t on_tell(void *user)
{
    return (sf_count_t)((const sndfile_state *)user)->offset;
}

/* ---- headers ---- */

static spsh_status parse_gsm(spsh__audio_window *window, spsh_audio_info *ret_info,
                             spsh__stream_extent *ret_extent, spsh_error *err)
{
    uint64_t size = window->source->size_bytes;
    spsh_bytes bytes = {NULL, 0};
    spsh_status rc = spsh__window_get(window, 0, 1, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes == 0 || (bytes.data[0] & 0xf0) != 0xd0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "GSM: the file does not start with a frame");
    *ret_info = (spsh_audio_info){
        .codec = SPSH_CODEC_GSM,
        .format = SPSH_SAMPLE_I16,
        .sample_rate_hz = GSM_RATE_HZ,
        .nominal_rate_hz = GSM_RATE_HZ,
        .channels = 1,
        .samples = size / GSM_FRAME_BYTES * GSM_FRAME_SAMPLES,
    };
    *ret_extent = (spsh__stream_extent){
        .end_bytes = size - size % GSM_FRAME_BYTES,
        .samples = ret_info->samples,
        .is_clean = size % GSM_FRAME_BYTES == 0,
        .detail = "GSM: the file ends inside a frame",
    };
    return SPSH_OK;
}

/* WAV with GSM: extent is the data chunk, and head is a header for only that chunk. */
static spsh_status parse_wav_gsm(spsh__audio_window *window, sndfile_state *state,
                                 spsh_audio_info *ret_info, spsh_error *err)
{
    spsh__wav_layout layout = {.block_bytes = 0};
    spsh_status rc = spsh__wav_parse(window, ret_info, &layout, err);
    if (rc != SPSH_OK)
        return rc;
    if (layout.data_bytes > UINT32_MAX - WAV_HEAD_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, layout.data_offset_bytes,
                            "WAV: %llu bytes of GSM are too many",
                            (unsigned long long)layout.data_bytes);
    uint32_t data_bytes = (uint32_t)layout.data_bytes;
    uint32_t samples = data_bytes / layout.block_bytes * 320;
    uint8_t *h = state->small_head;
    memcpy(h, "RIFF....WAVEfmt ", 16);
    spsh__store_u32le(h + 4, WAV_HEAD_BYTES - 8 + data_bytes);
    spsh__store_u32le(h + 16, 20);
    spsh__store_u16le(h + 20, 0x31);
    spsh__store_u16le(h + 22, 1);
    spsh__store_u32le(h + 24, ret_info->sample_rate_hz);
    spsh__store_u32le(h + 28, ret_info->sample_rate_hz * 65 / 320);
    spsh__store_u16le(h + 32, 65);
    spsh__store_u16le(h + 34, 0);
    spsh__store_u16le(h + 36, 2);
    spsh__store_u16le(h + 38, 320);
    memcpy(h + 40, "fact", 4);
    spsh__store_u32le(h + 44, 4);
    spsh__store_u32le(h + 48, samples);
    memcpy(h + 52, "data", 4);
    spsh__store_u32le(h + 56, data_bytes);
    state->head_bytes = WAV_HEAD_BYTES;
    state->extent.begin_bytes = layout.data_offset_bytes;
    state->extent.end_bytes = layout.data_offset_bytes + data_bytes;
    state->extent.samples = samples;
    state->extent.is_clean = true;
    return SPSH_OK;
}

/* Opus: the first page becomes part of the head, with the fields for the rate and the pre-skip set. */
static spsh_status compose_opus(sndfile_state *state, spsh_error *err)
{
    const uint32_t pre_skip_at = 10; /* in the packet "OpusHead" */
    const uint32_t rate_at = 12;
    size_t got = 0;
    uint32_t size = state->extent.head_bytes;
    if (size > HEAD_BYTES_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Opus: a first page of %u bytes", size);
    uint8_t *head = state->small_head;
    spsh_status rc = spsh__source_read(state->source, 0, head, size, &got, err);
    if (rc != SPSH_OK)
        return rc;
    uint32_t packet = 27 + (uint32_t)head[26];
    if (got < size || packet + rate_at + 4 > size)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "Opus: the first page is damaged");
    spsh__store_u16le(head + packet + pre_skip_at, 0);
    spsh__store_u32le(head + packet + rate_at, OPUS_RATE_HZ);
    spsh__ogg_store_crc(head, size);
    state->head_bytes = size;
    state->extent.begin_bytes = size;
    return SPSH_OK;
}

static spsh_status parse(spsh_decoder *decoder, spsh__audio_window *window, sndfile_state *state,
                         spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    state->is_float = true;
    switch (decoder->info.codec) {
    case SPSH_CODEC_VORBIS:
        return spsh__ogg_parse(window, false, &decoder->info, &state->extent, err);
    case SPSH_CODEC_OPUS:
        rc = spsh__ogg_parse(window, false, &decoder->info, &state->extent, err);
        return rc == SPSH_OK ? compose_opus(state, err) : rc;
    case SPSH_CODEC_GSM:
        state->is_float = false;
        return parse_gsm(window, &decoder->info, &state->extent, err);
    default: state->is_float = false; return parse_wav_gsm(window, state, &decoder->info, err);
    }
}

static spsh_status cut(const spsh__stream_extent *extent, spsh_error *err)
{
    return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, extent->end_bytes, "%s", extent->detail);
}

/* The codec to be read is passed in ret_info->codec. */
static spsh_status sndfile_inspect(spsh__audio_window *window, spsh_audio_info *ret_info,
                                   spsh_error *err)
{
    spsh_audio_info info = *ret_info;
    spsh__stream_extent extent = {.is_clean = true};
    spsh_codec codec = info.codec;
    spsh_status rc = SPSH_OK;
    if (codec == SPSH_CODEC_GSM)
        rc = parse_gsm(window, &info, &extent, err);
    else
        rc = spsh__ogg_parse(window, true, &info, &extent, err);
    if (rc != SPSH_OK)
        return rc;
    if (!extent.is_clean)
        return cut(&extent, err);
    if (info.codec != codec)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "%s where %s was expected",
                            spsh_codec_name(info.codec), spsh_codec_name(codec));
    *ret_info = info;
    return SPSH_OK;
}

/* ---- decoder ---- */

static bool is_expected_format(spsh_codec codec, int format)
{
    int kind = format & SF_FORMAT_TYPEMASK;
    int coding = format & SF_FORMAT_SUBMASK;
    switch (codec) {
    case SPSH_CODEC_VORBIS: return kind == SF_FORMAT_OGG && coding == SF_FORMAT_VORBIS;
    case SPSH_CODEC_OPUS: return kind == SF_FORMAT_OGG && coding == SF_FORMAT_OPUS;
    case SPSH_CODEC_GSM: return kind == SF_FORMAT_RAW && coding == SF_FORMAT_GSM610;
    default: return kind == SF_FORMAT_WAV && coding == SF_FORMAT_GSM610;
    }
}

/* After a failure of the library: the stream is not to blame if memory is lacking. */
static void note_memory(sndfile_state *state)
{
    if (state->io_status == SPSH_OK && spsh__library_lacks_memory())
        state->io_status = SPSH_FAIL(&state->io_error, SPSH_E_NO_MEMORY, "libsndfile");
}

/* Discard the samples before sample 0. */
static void skip_start(spsh_decoder *decoder, sndfile_state *state)
{
    const sf_count_t fit = SPSH__SCRATCH_BYTES / sizeof(float) / decoder->info.channels;
    sf_count_t left = state->extent.pre_skip;
    while (left > 0 && !state->has_ended) {
        const sf_count_t count = left < fit ? left : fit;
        errno = 0;
        const sf_count_t got = sf_readf_float(state->library, state->floats, count);
        if (got < count)
            note_memory(state);
        state->has_ended = got < count;
        left -= count;
    }
}

/* Opens the library at sample 0. */
static spsh_status open_library(spsh_decoder *decoder, sndfile_state *state, spsh_error *err)
{
    SF_VIRTUAL_IO io = {on_length, on_seek, on_read, on_write, on_tell};
    SF_INFO info = {0};
    if (decoder->info.codec == SPSH_CODEC_GSM)
        info = (SF_INFO){
            .samplerate = GSM_RATE_HZ, .channels = 1, .format = SF_FORMAT_RAW | SF_FORMAT_GSM610};
    state->offset = 0;
    state->decoded = 0;
    state->has_ended = false;
    errno = 0;
    state->library = sf_open_virtual(&io, SFM_READ, &info, state);
    if (state->library == NULL)
        note_memory(state);
    if (state->io_status != SPSH_OK) {
        if (err != NULL)
            *err = state->io_error;
        return state->io_status;
    }
    if (state->library == NULL)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "%s: libsndfile refuses the stream",
                         spsh_codec_name(decoder->info.codec));
    if (!is_expected_format(decoder->info.codec, info.format) ||
        info.samplerate != (int)decoder->info.sample_rate_hz ||
        info.channels != (int)decoder->info.channels)
        return SPSH_FAIL(err, SPSH_E_AUDIO,
                         "%s: libsndfile finds format 0x%x, %d Hz, %d channels; the header says %u "
                         "Hz, %u channels",
                         spsh_codec_name(decoder->info.codec), (unsigned)info.format,
                         info.samplerate, info.channels, decoder->info.sample_rate_hz,
                         decoder->info.channels);
    skip_start(decoder, state);
    return SPSH_OK;
}

static spsh_status sndfile_open(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err)
{
    spsh_codec codec = decoder->info.codec;
    sndfile_state *state = (sndfile_state *)spsh__new(&decoder->allocator, 1, sizeof(*state));
    decoder->state = state;
    if (state != NULL)
        state->floats = (float *)spsh__alloc(&decoder->allocator, SPSH__SCRATCH_BYTES);
    if (state == NULL || state->floats == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "decoder: %d bytes", SPSH__SCRATCH_BYTES);
    state->source = &decoder->source;
    state->head = state->small_head;
    spsh_status rc = parse(decoder, window, state, err);
    if (rc != SPSH_OK)
        return rc;
    if (decoder->info.codec != codec)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "%s where %s was expected",
                            spsh_codec_name(decoder->info.codec), spsh_codec_name(codec));
    /* Nothing to decode: the verdict compares 0 with the claim. */
    if (state->extent.samples == 0) {
        state->has_ended = true;
        return SPSH_OK;
    }
    if (codec == SPSH_CODEC_VORBIS) {
        rc = spsh__vorbis_compose(window, &decoder->allocator, &state->extent, &state->vorbis_head,
                                  err);
        state->head = state->vorbis_head.data;
        state->head_bytes = state->vorbis_head.size_bytes;
    }
    return rc == SPSH_OK ? open_library(decoder, state, err) : rc;
}

/* Make one call into the library, for at most a scratch buffer of floats. Fewer samples than
 * requested mean the end. */
static uint64_t read_some(spsh_decoder *decoder, int16_t *dst, uint64_t wanted)
{
    sndfile_state *state = (sndfile_state *)decoder->state;
    uint64_t fit = SPSH__SCRATCH_BYTES / sizeof(float) / decoder->info.channels;
    /* libsndfile counts the pad byte of an odd data chunk, and then decodes a block that does not
     * exist. */
    if (!state->is_float && wanted > state->extent.samples - state->decoded)
        wanted = state->extent.samples - state->decoded;
    sf_count_t count = (sf_count_t)(wanted < fit ? wanted : fit);
    sf_count_t got = 0;
    errno = 0;
    if (state->is_float) {
        got = sf_readf_float(state->library, state->floats, count);
        if (got > 0)
            spsh__f32_to_i16(state->floats, dst, (size_t)got * decoder->info.channels);
    } else {
        got = count == 0 ? 0 : sf_readf_short(state->library, dst, count);
    }
    if (got < count)
        note_memory(state);
    if (got <= 0) {
        state->has_ended = true;
        return 0;
    }
    state->decoded += (uint64_t)got;
    return (uint64_t)got;
}

static spsh_status sndfile_read(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                                uint64_t *ret_samples, spsh_error *err)
{
    sndfile_state *state = (sndfile_state *)decoder->state;
    uint64_t done = 0;
    while (done < capacity && !state->has_ended)
        done += read_some(decoder, (int16_t *)pcm + done * decoder->info.channels, capacity - done);
    if (state->io_status != SPSH_OK) {
        if (err != NULL)
            *err = state->io_error;
        return state->io_status;
    }
    if (state->has_ended && !decoder->keep_going && done < capacity && !state->extent.is_clean)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, state->extent.end_bytes, "%s", state->extent.detail);
    *ret_samples = done;
    return SPSH_OK;
}

static spsh_status sndfile_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    sndfile_state *state = (sndfile_state *)decoder->state;
    if (state->library != NULL && sample < decoder->position) {
        (void)sf_close(state->library);
        state->library = NULL;
        spsh_status rc = open_library(decoder, state, err);
        if (rc != SPSH_OK) {
            state->has_ended = true;
            return rc;
        }
    }
    while (state->decoded < sample && !state->has_ended)
        (void)read_some(decoder, (int16_t *)(void *)decoder->scratch,
                        sample - state->decoded < 1024 / decoder->info.channels + 1
                            ? sample - state->decoded
                            : 1024 / decoder->info.channels + 1);
    if (state->io_status != SPSH_OK) {
        if (err != NULL)
            *err = state->io_error;
        return state->io_status;
    }
    decoder->position = state->decoded;
    return spsh__audio_check_reached(decoder, sample, err);
}

static void sndfile_judge(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result)
{
    (void)file;
    spsh__audio_judge_extent(result, &((const sndfile_state *)decoder->state)->extent);
}

static void sndfile_close(spsh_decoder *decoder)
{
    sndfile_state *state = (sndfile_state *)decoder->state;
    if (state == NULL)
        return;
    if (state->library != NULL)
        (void)sf_close(state->library);
    spsh__buffer_free(&state->vorbis_head, &decoder->allocator);
    spsh__free(&decoder->allocator, state->floats);
    spsh__free(&decoder->allocator, state);
}

const spsh__audio_backend spsh__audio_sndfile = {
    false, sndfile_inspect, sndfile_open, sndfile_read, sndfile_seek, sndfile_judge, sndfile_close,
};

/* audio_flac.c: FLAC: decoding with MD5, encoding, and the verdict.
 *
 * libFLAC never sees the metadata of a file. It gets "fLaC", STREAMINFO, and the frames, so that
 * neither a 16 MiB picture nor a false seek table costs anything:
 *
 *     fed:   "fLaC" 0x80 0 0 34 STREAMINFO[34] | frames ...
 *     file:  [ID3v2] "fLaC" STREAMINFO blocks ... | frames ...
 *
 * libFLAC replaces frames that it cannot decode with silence, and reports an error for some intact
 * files too: since 1.4 it rejects samples outside their range, which clipped audio from old
 * encoders contains. If STREAMINFO has an MD5, our own decoder continues at the first frame that
 * libFLAC rejects, and lets samples wrap. A whole decode is judged by its sample count and MD5. If
 * they do not match, the frames are walked (flac_frames.c) to distinguish damage from a stream that
 * neither decoder supports. A stream without an MD5 is decoded only by libFLAC.
 *
 * flac_decode.c decodes a file in memory if the caller does not need its MD5, several times as
 * fast. libFLAC waits at the start of that run: the first frame, or the target of a seek. When a
 * frame is not plain, libFLAC takes over from there, and its output is dropped up to the samples
 * that the reader already has. So only libFLAC produces errors and verdicts.
 */
#include "audio_internal.h"
#include "flac_decode.h"
#include "flac_frames.h"

#include <FLAC/stream_decoder.h>
#include <FLAC/stream_encoder.h>

#define BLOCK_MAX            65535
#define FED_HEAD_BYTES       42
#define METADATA_BLOCKS_MAX  4096
#define NEAR_SAMPLES         16384 /* decoding this far is cheaper than a search */
#define FRAME_OVERHEAD_BYTES 1024  /* headers of a frame and of its subframes, and its CRC-16 */
#define ID3V1_BYTES          128
#define ENCODE_CHANNELS_MAX  8
#define ENCODE_CHUNK         1024

typedef struct flac_state {
    FLAC__StreamDecoder *library;
    const spsh_audio_source *source;
    const spsh_audio_info *info;
    spsh__flac_head head;
    uint8_t fed_head[FED_HEAD_BYTES];
    uint64_t feed_offset; /* next byte of the fed stream */

    uint8_t *pending; /* decoded samples, native format, beyond the caller's capacity */
    size_t pending_bytes;
    uint64_t pending_begin;
    uint64_t pending_count;
    uint8_t *dst; /* the running read's destination */
    uint64_t dst_capacity;
    uint64_t skip; /* samples to drop, after a jump to a seek point */

    uint64_t decoded;       /* samples that came out of the library */
    uint64_t error_count;   /* the library's complaints */
    uint64_t error_decoded; /* value of decoded at the first one */
    bool check_position;    /* the next frame must start at sample expected */
    uint64_t expected;
    bool keep_going; /* the decoder's */
    bool has_ended;

    bool runs_own;        /* our own decoder does the work */
    spsh_bytes own_file;  /* all of the source; empty: our own decoder is not for this stream */
    uint64_t own_offset;  /* offset of the next frame */
    uint64_t own_sample;  /* its first */
    uint64_t own_decoded; /* samples that our decoder returned since libFLAC waits */
    int32_t *own_planes;
    size_t own_planes_bytes;

    bool wraps;           /* libFLAC rejected a frame: our own decoder does the rest */
    bool md5_matches;     /* under wraps, after a whole decode */
    uint64_t next_offset; /* offset of the frame after those that libFLAC has decoded */
    uint64_t next_sample; /* its first */
    uint8_t *frame_bytes; /* under wraps, if the source is not in memory */
    size_t frame_bytes_size;
    bool has_changed; /* channels, bits or rate differ from STREAMINFO's, or a jump missed */
    spsh_status io_status;
    spsh_error io_error;
} flac_state;

const char *spsh__flac_version(void)
{
    return FLAC__VERSION_STRING;
}

/* ---- headers ---- */

static spsh_status take_streaminfo(spsh__flac_head *head, spsh_audio_info *info, spsh_error *err)
{
    const uint8_t *s = head->streaminfo;
    uint64_t samples = (uint64_t)(s[13] & 15) << 32 | (uint64_t)s[14] << 24 |
                       (uint64_t)s[15] << 16 | (uint64_t)s[16] << 8 | s[17];
    head->block_samples_min = (uint32_t)s[0] << 8 | s[1];
    head->block_samples_max = (uint32_t)s[2] << 8 | s[3];
    info->codec = SPSH_CODEC_FLAC;
    info->sample_rate_hz = (uint32_t)s[10] << 12 | (uint32_t)s[11] << 4 | s[12] >> 4;
    info->nominal_rate_hz = info->sample_rate_hz;
    info->channels = (s[12] >> 1 & 7u) + 1;
    info->bits_per_sample = ((s[12] & 1u) << 4 | s[13] >> 4) + 1;
    info->format = info->bits_per_sample > 16 ? SPSH_SAMPLE_I32 : SPSH_SAMPLE_I16;
    info->samples = samples == 0 ? SPSH_SAMPLES_UNKNOWN : samples;
    info->has_md5 = false;
    memcpy(info->md5, s + 18, 16);
    for (int i = 0; i < 16; i++)
        info->has_md5 = info->has_md5 || info->md5[i] != 0;
    if (info->bits_per_sample < 4)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, head->marker_offset_bytes,
                            "FLAC: STREAMINFO states %u bits per sample", info->bits_per_sample);
    return spsh__audio_check_info(info, err);
}

spsh_status spsh__flac_parse_head(spsh__audio_window *window, spsh_audio_info *ret_info,
                                  spsh__flac_head *ret_head, spsh_error *err)
{
    spsh_audio_info info = {.codec = SPSH_CODEC_FLAC};
    spsh__flac_head head = {.first_frame_offset_bytes = 0};
    spsh_bytes bytes = {NULL, 0};
    spsh_status rc = spsh__id3_skip(window, &head.marker_offset_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__window_get(window, head.marker_offset_bytes, FED_HEAD_BYTES, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes < 4 || memcmp(bytes.data, "fLaC", 4) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, head.marker_offset_bytes, "not a FLAC file");
    if (bytes.size_bytes < FED_HEAD_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, window->source->size_bytes,
                            "FLAC: the file ends inside STREAMINFO");
    if ((bytes.data[4] & 0x7f) != 0 || bytes.data[5] != 0 || bytes.data[6] != 0 ||
        bytes.data[7] != 34)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, head.marker_offset_bytes + 4,
                            "FLAC: the first metadata block is not STREAMINFO");
    memcpy(head.streaminfo, bytes.data + 8, sizeof(head.streaminfo));
    rc = take_streaminfo(&head, &info, err);
    if (rc != SPSH_OK)
        return rc;

    bool is_last = (bytes.data[4] & 0x80) != 0;
    uint64_t offset = head.marker_offset_bytes + FED_HEAD_BYTES;
    for (int i = 0; !is_last; i++) {
        rc = spsh__window_get(window, offset, 4, &bytes, err);
        if (rc != SPSH_OK)
            return rc;
        if (bytes.size_bytes < 4)
            return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, window->source->size_bytes,
                                "FLAC: the file ends inside its metadata");
        if (i == METADATA_BLOCKS_MAX || (bytes.data[0] & 0x7f) == 0x7f)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset, "FLAC: metadata block %d is not one", i);
        is_last = (bytes.data[0] & 0x80) != 0;
        offset +=
            4 + ((uint64_t)bytes.data[1] << 16 | (uint64_t)bytes.data[2] << 8 | bytes.data[3]);
    }
    if (offset > window->source->size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, window->source->size_bytes,
                            "FLAC: the file ends inside its metadata");
    head.first_frame_offset_bytes = offset;
    *ret_info = info;
    *ret_head = head;
    return SPSH_OK;
}

static spsh_status flac_inspect(spsh__audio_window *window, spsh_audio_info *ret_info,
                                spsh_error *err)
{
    spsh__flac_head head = {.first_frame_offset_bytes = 0};
    return spsh__flac_parse_head(window, ret_info, &head, err);
}

/* ---- what libFLAC calls ---- */

static uint64_t fed_size(const flac_state *state)
{
    return FED_HEAD_BYTES + (state->source->size_bytes - state->head.first_frame_offset_bytes);
}

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *library,
                                             FLAC__byte buffer[], size_t *bytes, void *user)
{
    (void)library;
    flac_state *state = (flac_state *)user;
    size_t got = 0;
    if (state->feed_offset < FED_HEAD_BYTES) {
        size_t left = FED_HEAD_BYTES - (size_t)state->feed_offset;
        got = *bytes < left ? *bytes : left;
        memcpy(buffer, state->fed_head + state->feed_offset, got);
    } else {
        uint64_t offset =
            state->head.first_frame_offset_bytes + (state->feed_offset - FED_HEAD_BYTES);
        state->io_status =
            spsh__source_read(state->source, offset, buffer, *bytes, &got, &state->io_error);
        if (state->io_status != SPSH_OK)
            return FLAC__STREAM_DECODER_READ_STATUS_ABORT;
    }
    *bytes = got;
    state->feed_offset += got;
    return got == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                    : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

static FLAC__StreamDecoderSeekStatus on_seek(const FLAC__StreamDecoder *library,
                                             FLAC__uint64 offset, void *user)
{
    (void)library;
    flac_state *state = (flac_state *)user;
    if (offset > fed_size(state))
        return FLAC__STREAM_DECODER_SEEK_STATUS_ERROR;
    state->feed_offset = offset;
    return FLAC__STREAM_DECODER_SEEK_STATUS_OK;
}

static FLAC__StreamDecoderTellStatus on_tell(const FLAC__StreamDecoder *library,
                                             FLAC__uint64 *offset, void *user)
{
    (void)library;
    *offset = ((const flac_state *)user)->feed_offset;
    return FLAC__STREAM_DECODER_TELL_STATUS_OK;
}

static FLAC__StreamDecoderLengthStatus on_length(const FLAC__StreamDecoder *library,
                                                 FLAC__uint64 *length, void *user)
{
    (void)library;
    *length = fed_size((const flac_state *)user);
    return FLAC__STREAM_DECODER_LENGTH_STATUS_OK;
}

static FLAC__bool on_eof(const FLAC__StreamDecoder *library, void *user)
{
    (void)library;
    const flac_state *state = (const flac_state *)user;
    return state->feed_offset >= fed_size(state);
}

static void on_error(const FLAC__StreamDecoder *library, FLAC__StreamDecoderErrorStatus status,
                     void *user)
{
    (void)library, (void)status;
    flac_state *state = (flac_state *)user;
    if (state->error_count == 0)
        state->error_decoded = state->decoded;
    state->error_count++;
}

/* 16 bits, one channel: most of all speech. Steps of a constant length become vectors. */
static void narrow(const FLAC__int32 *restrict plane, uint64_t count, int16_t *restrict out)
{
    enum { STEP = 16 };
    uint64_t i = 0;
    for (; i + STEP <= count; i += STEP)
        for (uint64_t k = 0; k < STEP; k++)
            out[i + k] = (int16_t)plane[i + k];
    for (; i < count; i++)
        out[i] = (int16_t)plane[i];
}

/* Samples [begin, begin + count) of all channels, interleaved, left-justified in 16 or 32 bits. */
static void interleave(const flac_state *state, const FLAC__int32 *const planes[], uint64_t begin,
                       uint64_t count, uint8_t *dst)
{
    uint32_t channels = state->info->channels;
    if (state->info->format == SPSH_SAMPLE_I16) {
        int16_t *out = (int16_t *)(void *)dst;
        uint32_t shift = 16 - state->info->bits_per_sample;
        if (channels == 1 && shift == 0) {
            narrow(planes[0] + begin, count, out);
            return;
        }
        for (uint32_t c = 0; c < channels; c++)
            for (uint64_t i = 0; i < count; i++)
                out[i * channels + c] = (int16_t)((uint32_t)planes[c][begin + i] << shift);
    } else {
        uint32_t *out = (uint32_t *)(void *)dst;
        uint32_t shift = 32 - state->info->bits_per_sample;
        for (uint32_t c = 0; c < channels; c++)
            for (uint64_t i = 0; i < count; i++)
                out[i * channels + c] = (uint32_t)planes[c][begin + i] << shift;
    }
}

/* Take a decoded block: drop the samples that are to be skipped, keep those that exceed the
 * reader's capacity. */
static void deliver(flac_state *state, const FLAC__int32 *const planes[], uint64_t count)
{
    uint64_t begin = 0;
    if (state->skip > 0) {
        begin = state->skip < count ? state->skip : count;
        state->skip -= begin;
        count -= begin;
    }
    size_t sample_bytes = spsh__sample_bytes(state->info->format) * state->info->channels;
    uint64_t now = count < state->dst_capacity ? count : state->dst_capacity;
    if (now > 0) {
        interleave(state, planes, begin, now, state->dst);
        state->dst += now * sample_bytes;
        state->dst_capacity -= now;
    }
    if (now < count) {
        interleave(state, planes, begin + now, count - now, state->pending);
        state->pending_begin = 0;
        state->pending_count = count - now;
    }
}

/* Return whether our own decoder may continue after libFLAC has failed. */
static bool may_wrap(const flac_state *state)
{
    bool is_known = state->info->samples != SPSH_SAMPLES_UNKNOWN;
    return state->info->has_md5 && state->info->bits_per_sample <= SPSH__FLAC_WRAPPED_BITS_MAX &&
           state->head.block_samples_max > 0 && !state->has_changed &&
           (!is_known || state->next_sample < state->info->samples);
}

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *library,
                                               const FLAC__Frame *frame,
                                               const FLAC__int32 *const planes[], void *user)
{
    (void)library;
    flac_state *state = (flac_state *)user;
    uint64_t count = frame->header.blocksize;
    if (frame->header.channels != state->info->channels ||
        frame->header.bits_per_sample != state->info->bits_per_sample ||
        frame->header.sample_rate != state->info->sample_rate_hz || count > BLOCK_MAX ||
        (state->check_position && frame->header.number.sample_number != state->expected)) {
        state->has_changed = true;
        return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
    }
    if (state->error_count > 0 && (!state->keep_going || may_wrap(state)))
        return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
    state->check_position = false;
    state->decoded += count;
    state->next_sample = frame->header.number.sample_number + count;
    deliver(state, planes, count);
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

/* ---- decoder ---- */

static spsh_status library_failed(const flac_state *state, spsh_error *err)
{
    FLAC__StreamDecoderState library_state = FLAC__stream_decoder_get_state(state->library);
    if (state->io_status != SPSH_OK) {
        if (err != NULL)
            *err = state->io_error;
        return state->io_status;
    }
    if (library_state == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR ||
        spsh__library_lacks_memory())
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: libFLAC has no memory");
    if (state->has_changed)
        return SPSH_FAIL(err, SPSH_E_AUDIO,
                         "FLAC: the frame after sample %llu does not fit STREAMINFO",
                         (unsigned long long)state->decoded);
    return SPSH_FAIL(err, SPSH_E_AUDIO, "FLAC: damaged, or beyond libFLAC, after sample %llu",
                     (unsigned long long)state->decoded);
}

static bool checks_md5(const spsh_decoder *decoder)
{
    return decoder->keep_going && decoder->info.has_md5 && !decoder->skips_md5;
}

/* Create the state, or reset the state of the last stream and keep its allocations. */
static spsh_status take_state(spsh_decoder *decoder, spsh_error *err)
{
    flac_state *state = (flac_state *)decoder->state;
    if (state == NULL)
        state = (flac_state *)spsh__new(&decoder->allocator, 1, sizeof(*state));
    else
        *state = (flac_state){.library = state->library,
                              .pending = state->pending,
                              .pending_bytes = state->pending_bytes,
                              .own_planes = state->own_planes,
                              .own_planes_bytes = state->own_planes_bytes,
                              .frame_bytes = state->frame_bytes,
                              .frame_bytes_size = state->frame_bytes_size};
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC decoder: %zu bytes", sizeof(*state));
    decoder->state = state;
    state->source = &decoder->source;
    state->info = &decoder->info;
    state->keep_going = decoder->keep_going;
    return SPSH_OK;
}

static spsh_status take_pending_memory(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    const size_t wanted =
        spsh__sample_bytes(decoder->info.format) * decoder->info.channels * BLOCK_MAX;
    if (wanted <= state->pending_bytes)
        return SPSH_OK;
    spsh__free(&decoder->allocator, state->pending);
    state->pending_bytes = 0;
    state->pending = (uint8_t *)spsh__alloc(&decoder->allocator, wanted);
    if (state->pending == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC decoder: %zu bytes", wanted);
    state->pending_bytes = wanted;
    return SPSH_OK;
}

/* ---- our own decoder ---- */

static spsh__flac_shape own_shape(const flac_state *state)
{
    return (spsh__flac_shape){state->info->channels, state->info->sample_rate_hz,
                              state->info->bits_per_sample, state->head.block_samples_max};
}

/* Start at the frame at that offset of the file, where libFLAC waits, too. */
static void own_begin(flac_state *state, uint64_t offset, uint64_t sample)
{
    state->runs_own = state->own_file.size_bytes > 0;
    state->own_offset = offset;
    state->own_sample = sample;
    state->own_decoded = 0;
    state->next_offset = offset;
    state->next_sample = sample;
    state->wraps = false;
}

static spsh_status take_planes(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    const size_t wanted =
        sizeof(int32_t) * decoder->info.channels * (size_t)state->head.block_samples_max;
    if (wanted <= state->own_planes_bytes)
        return SPSH_OK;
    spsh__free(&decoder->allocator, state->own_planes);
    state->own_planes_bytes = 0;
    state->own_planes = (int32_t *)spsh__alloc(&decoder->allocator, wanted);
    if (state->own_planes == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC decoder: %zu bytes", wanted);
    state->own_planes_bytes = wanted;
    return SPSH_OK;
}

static spsh_status own_open(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    const spsh_audio_info *info = &decoder->info;
    spsh_bytes file = {NULL, 0};
    if (checks_md5(decoder) || info->bits_per_sample > SPSH__FLAC_BITS_MAX ||
        state->head.block_samples_max == 0 || !spsh__flac_decode_is_fast() ||
        decoder->source.size_bytes > SIZE_MAX ||
        !spsh__source_view(&decoder->source, 0, (size_t)decoder->source.size_bytes, &file))
        return SPSH_OK;
    spsh_status rc = take_planes(decoder, state, err);
    if (rc != SPSH_OK)
        return rc;
    state->own_file = file;
    state->runs_own = true;
    return SPSH_OK;
}

/* Return whether the frame is the next one. Blocks of one size, except the last, are numbered from
 * 0, so no frame matches after a shorter block. */
static bool own_is_next(const flac_state *state, const spsh__flac_frame *frame)
{
    const spsh__flac_head *head = &state->head;
    bool is_known = state->info->samples != SPSH_SAMPLES_UNKNOWN;
    if (is_known && frame->block_samples > state->info->samples - state->own_sample)
        return false;
    if (frame->number_is_sample)
        return frame->number == state->own_sample;
    return head->block_samples_min == head->block_samples_max &&
           frame->number * head->block_samples_max == state->own_sample;
}

/* Decode the next frame, at the start of rest. Returns its samples, or 0 if the decoder rejects it.
 */
static uint32_t own_frame(flac_state *state, spsh_bytes rest, const FLAC__int32 *ret_planes[])
{
    const spsh__flac_shape shape = own_shape(state);
    spsh__flac_frame frame = {.size_bytes = 0};
    bool is_good = state->wraps ? spsh__flac_decode_wrapped(rest, &shape, state->own_planes, &frame)
                                : spsh__flac_decode_frame(rest, &shape, state->own_planes, &frame);
    if (!is_good || !own_is_next(state, &frame))
        return 0;
    for (uint32_t c = 0; c < shape.channels; c++)
        ret_planes[c] = state->own_planes + (size_t)c * shape.block_samples_max;
    state->own_offset += frame.size_bytes;
    state->own_sample += frame.block_samples;
    state->own_decoded += frame.block_samples;
    return frame.block_samples;
}

/* Decode the next frame. false: the frame is not plain, or is missing although more samples are
 * stated. */
static bool own_step(flac_state *state)
{
    const FLAC__int32 *planes[FLAC__MAX_CHANNELS] = {NULL};
    bool is_known = state->info->samples != SPSH_SAMPLES_UNKNOWN;
    spsh_bytes rest = {state->own_file.data + state->own_offset,
                       state->own_file.size_bytes - (size_t)state->own_offset};
    if (is_known ? state->own_sample >= state->info->samples : rest.size_bytes == 0) {
        state->has_ended = true;
        return true;
    }
    uint32_t count = own_frame(state, rest, planes);
    if (count > 0)
        deliver(state, planes, count);
    return count > 0;
}

/* Decode until the reader has enough, or libFLAC must take over. */
static void own_run(flac_state *state)
{
    while (state->runs_own && state->dst_capacity > 0 && !state->has_ended) {
        if (!own_step(state)) {
            state->runs_own = false;
            state->skip += state->own_decoded;
        }
    }
}

/* ---- frames that libFLAC rejects ---- */

static spsh_status wrap_begin(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    state->wraps = true;
    state->own_offset = state->next_offset;
    state->own_sample = state->next_sample;
    state->error_count = 0;
    return take_planes(decoder, state, err);
}

/* Get the source from the next frame on, up to its end or to the maximum size of a frame. */
static spsh_status wrap_view(spsh_decoder *decoder, flac_state *state, spsh_bytes *ret_rest,
                             spsh_error *err)
{
    const uint64_t size = decoder->source.size_bytes;
    const uint64_t left = state->own_offset < size ? size - state->own_offset : 0;
    if (spsh__source_view(&decoder->source, state->own_offset, (size_t)left, ret_rest))
        return SPSH_OK;
    /* A frame of verbatim samples is smaller, and no encoder writes a larger frame. */
    const size_t wanted = FRAME_OVERHEAD_BYTES + state->own_planes_bytes;
    if (wanted > state->frame_bytes_size) {
        spsh__free(&decoder->allocator, state->frame_bytes);
        state->frame_bytes_size = 0;
        state->frame_bytes = (uint8_t *)spsh__alloc(&decoder->allocator, wanted);
        if (state->frame_bytes == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC decoder: %zu bytes", wanted);
        state->frame_bytes_size = wanted;
    }
    ret_rest->data = state->frame_bytes;
    return spsh__source_read(&decoder->source, state->own_offset, state->frame_bytes,
                             left < wanted ? (size_t)left : wanted, &ret_rest->size_bytes, err);
}

static bool wrap_is_end(const flac_state *state, spsh_bytes rest)
{
    if (state->info->samples != SPSH_SAMPLES_UNKNOWN)
        return state->own_sample >= state->info->samples;
    return rest.size_bytes == 0 ||
           (rest.size_bytes == ID3V1_BYTES && memcmp(rest.data, "TAG", 3) == 0);
}

static FLAC__StreamEncoderWriteStatus on_md5_encoded(const FLAC__StreamEncoder *library,
                                                     const FLAC__byte buffer[], size_t bytes,
                                                     uint32_t samples, uint32_t current_frame,
                                                     void *user)
{
    (void)library, (void)buffer, (void)bytes, (void)samples, (void)current_frame, (void)user;
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static void on_md5_metadata(const FLAC__StreamEncoder *library,
                            const FLAC__StreamMetadata *metadata, void *user)
{
    (void)library;
    memcpy(user, metadata->data.stream_info.md5sum, 16);
}

/* Decode everything again and compare the MD5. libFLAC's encoder computes the MD5 as a by-product.
 */
static spsh_status wrap_check_md5(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    const FLAC__int32 *planes[FLAC__MAX_CHANNELS] = {NULL};
    spsh_bytes rest = {NULL, 0};
    uint8_t md5[16] = {0};
    spsh_status rc = SPSH_OK;
    FLAC__StreamEncoder *library = FLAC__stream_encoder_new();
    bool is_good =
        library != NULL && FLAC__stream_encoder_set_compression_level(library, 0) &&
        FLAC__stream_encoder_set_streamable_subset(library, false) &&
        FLAC__stream_encoder_set_channels(library, decoder->info.channels) &&
        FLAC__stream_encoder_set_bits_per_sample(library, decoder->info.bits_per_sample) &&
        FLAC__stream_encoder_set_sample_rate(library, decoder->info.sample_rate_hz) &&
        FLAC__stream_encoder_init_stream(library, on_md5_encoded, NULL, NULL, on_md5_metadata,
                                         md5) == FLAC__STREAM_ENCODER_INIT_STATUS_OK;
    state->own_offset = state->head.first_frame_offset_bytes;
    state->own_sample = 0;
    while (is_good) {
        rc = wrap_view(decoder, state, &rest, err);
        if (rc != SPSH_OK || wrap_is_end(state, rest))
            break;
        uint32_t count = own_frame(state, rest, planes);
        if (count == 0) /* libFLAC takes a frame that our own decoder rejects */
            break;
        is_good = FLAC__stream_encoder_process(library, planes, count);
    }
    is_good = is_good && FLAC__stream_encoder_finish(library);
    if (rc == SPSH_OK && !is_good)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: no memory for the MD5");
    state->md5_matches = rc == SPSH_OK && memcmp(md5, decoder->info.md5, sizeof(md5)) == 0;
    if (library != NULL)
        FLAC__stream_encoder_delete(library);
    return rc;
}

/* The next frame, or the end. */
static spsh_status wrap_step(spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    const FLAC__int32 *planes[FLAC__MAX_CHANNELS] = {NULL};
    spsh_bytes rest = {NULL, 0};
    errno = 0; /* library_failed checks it */
    spsh_status rc = wrap_view(decoder, state, &rest, err);
    if (rc != SPSH_OK)
        return rc;
    if (wrap_is_end(state, rest)) {
        state->has_ended = true;
        return checks_md5(decoder) ? wrap_check_md5(decoder, state, err) : SPSH_OK;
    }
    uint32_t count = own_frame(state, rest, planes);
    if (count > 0) {
        state->decoded += count;
        deliver(state, planes, count);
        return SPSH_OK;
    }
    state->has_ended = true;
    state->error_count = 1;
    state->error_decoded = state->decoded;
    return decoder->keep_going ? SPSH_OK : library_failed(state, err);
}

/* ---- decoder ---- */

/* A library that has run is set back, which keeps its buffers. MD5 is checked in whole decodes
 * only, whose decoders are never opened again: libFLAC takes that setting once. */
static spsh_status start_library(const spsh_decoder *decoder, flac_state *state, spsh_error *err)
{
    if (state->library != NULL) {
        if (!FLAC__stream_decoder_reset(state->library))
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: libFLAC does not start again");
        return SPSH_OK;
    }
    state->library = FLAC__stream_decoder_new();
    if (state->library == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: libFLAC has no memory");
    (void)FLAC__stream_decoder_set_md5_checking(state->library, checks_md5(decoder));
    (void)FLAC__stream_decoder_set_metadata_ignore_all(state->library);
    if (FLAC__stream_decoder_init_stream(state->library, on_read, on_seek, on_tell, on_length,
                                         on_eof, on_write, NULL, on_error,
                                         state) != FLAC__STREAM_DECODER_INIT_STATUS_OK)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: libFLAC does not start");
    return SPSH_OK;
}

static spsh_status flac_open(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err)
{
    spsh_status rc = take_state(decoder, err);
    if (rc != SPSH_OK)
        return rc;
    flac_state *state = (flac_state *)decoder->state;
    rc = spsh__flac_parse_head(window, &decoder->info, &state->head, err);
    if (rc != SPSH_OK)
        return rc;
    static const uint8_t marker[8] = {'f', 'L', 'a', 'C', 0x80, 0, 0, 34};
    memcpy(state->fed_head, marker, sizeof(marker));
    memcpy(state->fed_head + sizeof(marker), state->head.streaminfo, 34);
    own_begin(state, state->head.first_frame_offset_bytes, 0);
    rc = take_pending_memory(decoder, state, err);
    if (rc == SPSH_OK)
        rc = own_open(decoder, state, err);
    if (rc == SPSH_OK)
        rc = start_library(decoder, state, err);
    if (rc != SPSH_OK)
        return rc;
    errno = 0;
    if (!FLAC__stream_decoder_process_until_end_of_metadata(state->library))
        return library_failed(state, err);
    return SPSH_OK;
}

static uint64_t take_pending(flac_state *state, uint8_t *dst, uint64_t capacity)
{
    size_t sample_bytes = spsh__sample_bytes(state->info->format) * state->info->channels;
    uint64_t count = state->pending_count < capacity ? state->pending_count : capacity;
    memcpy(dst, state->pending + state->pending_begin * sample_bytes, (size_t)count * sample_bytes);
    state->pending_begin += count;
    state->pending_count -= count;
    return count;
}

/* After frames without an error. */
static void note_place(flac_state *state)
{
    FLAC__uint64 fed = 0;
    if (state->error_count == 0 && FLAC__stream_decoder_get_decode_position(state->library, &fed) &&
        fed >= FED_HEAD_BYTES)
        state->next_offset = state->head.first_frame_offset_bytes + (fed - FED_HEAD_BYTES);
}

/* A frame, the end, or the place where our own decoder takes over. */
static spsh_status library_step(spsh_decoder *decoder, flac_state *state, uint64_t capacity,
                                spsh_error *err)
{
    errno = 0;
    bool ok = FLAC__stream_decoder_process_single(state->library);
    FLAC__StreamDecoderState now = FLAC__stream_decoder_get_state(state->library);
    state->has_ended = !ok || now == FLAC__STREAM_DECODER_END_OF_STREAM;
    if (state->io_status != SPSH_OK || now == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR ||
        (!ok && spsh__library_lacks_memory()))
        return library_failed(state, err);
    note_place(state);
    if (state->error_count > 0 && may_wrap(state)) {
        state->has_ended = false;
        return wrap_begin(decoder, state, err);
    }
    /* Samples after an error may be silence that libFLAC inserted: the reader gets none of them. */
    if (!decoder->keep_going && (state->error_count > 0 || !ok)) {
        state->has_ended = true;
        state->pending_count = 0;
        uint64_t reached = decoder->position + (capacity - state->dst_capacity);
        if (decoder->info.samples == SPSH_SAMPLES_UNKNOWN || reached < decoder->info.samples)
            return library_failed(state, err);
    }
    return SPSH_OK;
}

static spsh_status flac_read(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                             uint64_t *ret_samples, spsh_error *err)
{
    flac_state *state = (flac_state *)decoder->state;
    size_t sample_bytes = spsh__sample_bytes(state->info->format) * state->info->channels;
    uint64_t done = take_pending(state, (uint8_t *)pcm, capacity);
    state->dst = (uint8_t *)pcm + done * sample_bytes;
    state->dst_capacity = capacity - done;
    own_run(state);
    while (state->dst_capacity > 0 && !state->has_ended) {
        spsh_status rc = state->wraps ? wrap_step(decoder, state, err)
                                      : library_step(decoder, state, capacity, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (state->skip > 0 && decoder->info.samples == SPSH_SAMPLES_UNKNOWN)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "FLAC: the seek went %llu samples past the end",
                         (unsigned long long)state->skip);
    *ret_samples = capacity - state->dst_capacity;
    state->dst_capacity = 0;
    return SPSH_OK;
}

/* The last point at or before sample; NULL without one. */
static const spsh_seek_point *find_point(const spsh_decoder *decoder, uint64_t sample)
{
    uint64_t begin = 0;
    uint64_t end = decoder->seek_point_count;
    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;
        if (decoder->seek_points[middle].sample <= sample)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin == 0 ? NULL : &decoder->seek_points[begin - 1];
}

/* Feeds the library from a frame whose first sample is known. */
static spsh_status jump(spsh_decoder *decoder, uint64_t feed_offset, uint64_t frame_sample,
                        uint64_t sample, spsh_error *err)
{
    flac_state *state = (flac_state *)decoder->state;
    if (!FLAC__stream_decoder_flush(state->library))
        return SPSH_FAIL(err, SPSH_E_AUDIO, "FLAC: libFLAC does not seek");
    state->feed_offset = feed_offset;
    state->skip = sample - frame_sample;
    state->expected = frame_sample;
    state->check_position = frame_sample != 0;
    state->pending_count = 0;
    state->dst_capacity = 0;
    state->error_count = 0;
    state->has_ended = false;
    state->has_changed = false;
    own_begin(state, state->head.first_frame_offset_bytes + (feed_offset - FED_HEAD_BYTES),
              frame_sample);
    decoder->position = sample;
    return SPSH_OK;
}

static spsh_status flac_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    flac_state *state = (flac_state *)decoder->state;
    uint64_t forward = sample - decoder->position;
    const spsh_seek_point *point = find_point(decoder, sample);
    bool is_near = sample >= decoder->position && state->error_count == 0 &&
                   (forward <= NEAR_SAMPLES || forward <= state->pending_count ||
                    (point != NULL && point->sample <= decoder->position));
    if (is_near) {
        uint64_t now = forward < state->pending_count ? forward : state->pending_count;
        state->pending_begin += now;
        state->pending_count -= now;
        state->skip += forward - now;
        decoder->position = sample;
        return SPSH_OK;
    }
    if (point != NULL) {
        uint64_t first = state->head.first_frame_offset_bytes;
        if (point->offset_bytes < first || point->offset_bytes >= decoder->source.size_bytes)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, point->offset_bytes,
                                "FLAC: a seek point lies outside of the frames");
        return jump(decoder, FED_HEAD_BYTES + (point->offset_bytes - first), point->sample, sample,
                    err);
    }
    if (sample > 0 && decoder->info.samples != SPSH_SAMPLES_UNKNOWN &&
        sample < decoder->info.samples) {
        spsh_status rc = jump(decoder, FED_HEAD_BYTES, 0, 0, err);
        if (rc != SPSH_OK)
            return rc;
        state->runs_own = false;
        state->check_position = true;
        state->expected = sample;
        if (FLAC__stream_decoder_seek_absolute(state->library, sample) && state->error_count == 0) {
            decoder->position = sample;
            note_place(state);
            return SPSH_OK;
        }
        if (state->io_status != SPSH_OK)
            return library_failed(state, err);
    }
    /* No count to search by, or the search failed: decode from the start. */
    return jump(decoder, FED_HEAD_BYTES, 0, sample, err);
}

static void flac_close(spsh_decoder *decoder)
{
    flac_state *state = (flac_state *)decoder->state;
    if (state == NULL)
        return;
    if (state->library != NULL)
        FLAC__stream_decoder_delete(state->library);
    spsh__free(&decoder->allocator, state->pending);
    spsh__free(&decoder->allocator, state->own_planes);
    spsh__free(&decoder->allocator, state->frame_bytes);
    spsh__free(&decoder->allocator, state);
}

/* ---- verdict ---- */

/* Walk all frames. Returns true if all are intact; *ret_samples is then the sum of their samples.
 */
static bool frames_are_intact(const flac_state *state, spsh_bytes file, uint64_t *ret_samples,
                              spsh_error *err)
{
    spsh__flac_walker walker;
    spsh__flac_frame frame = {.size_bytes = 0};
    spsh_status rc = SPSH_OK;
    spsh__flac_walk_begin(&walker, file, state->head.first_frame_offset_bytes,
                          state->head.streaminfo);
    while (rc == SPSH_OK)
        rc = spsh__flac_walk_next(&walker, &frame, err);
    *ret_samples = walker.sample;
    return rc == SPSH_E_END;
}

static void flac_judge(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result)
{
    flac_state *state = (flac_state *)decoder->state;
    bool has_md5 = checks_md5(decoder);
    bool md5_matches = FLAC__stream_decoder_finish(state->library);
    if (state->wraps)
        md5_matches = state->md5_matches;
    bool is_known = decoder->info.samples != SPSH_SAMPLES_UNKNOWN;
    bool is_count_right = is_known && result->samples == decoder->info.samples;
    bool had_trouble = state->error_count > 0 || state->has_changed || (has_md5 && state->wraps);
    spsh_error damage = SPSH_ERROR_INIT;
    uint64_t walked = 0;

    if (has_md5 && md5_matches && (is_count_right || !is_known)) {
        spsh__audio_judge_count(result);
        result->verdict = SPSH_DECODE_EXACT;
        return;
    }
    if (!had_trouble && has_md5 && (is_count_right || !is_known)) {
        spsh__audio_judge_set(result, SPSH_DECODE_MD5_MISMATCH,
                              "FLAC: the PCM has another MD5 than STREAMINFO states");
        return;
    }
    /* Without an MD5: the library has checked each frame's CRC, and complained about none of them.
     */
    bool is_trouble_behind = !state->has_changed && state->error_decoded == result->samples;
    if (!has_md5 && is_count_right && (!had_trouble || is_trouble_behind)) {
        spsh__audio_judge_count(result);
        return;
    }
    if (!frames_are_intact(state, file, &walked, &damage)) {
        spsh__audio_judge_set(result, SPSH_DECODE_SHORT, "%s", damage.message);
    } else if (is_known && walked != decoder->info.samples) {
        spsh__audio_judge_set(
            result, walked < decoder->info.samples ? SPSH_DECODE_SHORT : SPSH_DECODE_LONG,
            "FLAC: the header states %llu samples, the frames hold %llu",
            (unsigned long long)decoder->info.samples, (unsigned long long)walked);
    } else if (!had_trouble && walked == result->samples) {
        spsh__audio_judge_count(result);
    } else {
        spsh__audio_judge_set(result, SPSH_DECODE_DECODER_LIMIT,
                              "FLAC: all frames are intact, but their samples cannot be decoded");
        result->samples = walked;
        memset(result->pcm_hash, 0, sizeof(result->pcm_hash));
    }
}

const spsh__audio_backend spsh__audio_flac = {
    true, flac_inspect, flac_open, flac_read, flac_seek, flac_judge, flac_close,
};

/* ---- seek points ---- */

static spsh_status flac_seek_points(spsh_bytes file, uint64_t interval_samples,
                                    spsh_seek_point *points, uint64_t capacity, uint64_t *ret_count,
                                    spsh_error *err)
{
    spsh_memory_source memory = {file};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh__audio_window window;
    spsh__flac_walker walker;
    spsh__flac_frame frame = {.size_bytes = 0};
    spsh__flac_head head = {.first_frame_offset_bytes = 0};
    spsh_audio_info info = {.codec = SPSH_CODEC_FLAC};
    uint64_t count = 0;
    uint64_t next = 0;
    spsh__window_init(&window, &source);
    spsh_status rc = spsh__flac_parse_head(&window, &info, &head, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__flac_walk_begin(&walker, file, head.first_frame_offset_bytes, head.streaminfo);
    for (;;) {
        rc = spsh__flac_walk_next(&walker, &frame, err);
        if (rc == SPSH_E_END)
            break;
        if (rc != SPSH_OK)
            return rc;
        if (frame.sample < next)
            continue;
        if (count < capacity)
            points[count] = (spsh_seek_point){frame.sample, frame.offset_bytes};
        count++;
        next = frame.sample + interval_samples;
    }
    *ret_count = count;
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): an array and its size belong side by side */
spsh_status spsh_audio_seek_points(spsh_bytes file, spsh_codec codec, uint64_t interval_samples,
                                   spsh_seek_point *points, uint64_t capacity, uint64_t *ret_count,
                                   spsh_error *err)
{
    if (ret_count == NULL || (points == NULL && capacity > 0) ||
        (file.data == NULL && file.size_bytes > 0) || interval_samples > INT64_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "seek points: bad arguments");
    if (codec == SPSH_CODEC_UNKNOWN)
        codec = spsh_audio_sniff(file.data, file.size_bytes, NULL);
    if (codec == SPSH_CODEC_FLAC)
        return flac_seek_points(file, interval_samples, points, capacity, ret_count, err);
    *ret_count = 0;
    return SPSH_OK;
}

/* ---- encoder ---- */

typedef struct flac_sink {
    uint8_t *dst;
    size_t capacity_bytes;
    size_t size_bytes;
    size_t position;
    bool is_full;
} flac_sink;

static FLAC__StreamEncoderWriteStatus on_encoded(const FLAC__StreamEncoder *library,
                                                 const FLAC__byte buffer[], size_t bytes,
                                                 uint32_t samples, uint32_t current_frame,
                                                 void *user)
{
    (void)library, (void)samples, (void)current_frame;
    flac_sink *sink = (flac_sink *)user;
    if (bytes > sink->capacity_bytes - sink->position) {
        sink->is_full = true;
        return FLAC__STREAM_ENCODER_WRITE_STATUS_FATAL_ERROR;
    }
    memcpy(sink->dst + sink->position, buffer, bytes);
    sink->position += bytes;
    if (sink->position > sink->size_bytes)
        sink->size_bytes = sink->position;
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static FLAC__StreamEncoderSeekStatus on_encoder_seek(const FLAC__StreamEncoder *library,
                                                     FLAC__uint64 offset, void *user)
{
    (void)library;
    flac_sink *sink = (flac_sink *)user;
    if (offset > sink->size_bytes)
        return FLAC__STREAM_ENCODER_SEEK_STATUS_ERROR;
    sink->position = (size_t)offset;
    return FLAC__STREAM_ENCODER_SEEK_STATUS_OK;
}

static FLAC__StreamEncoderTellStatus on_encoder_tell(const FLAC__StreamEncoder *library,
                                                     FLAC__uint64 *offset, void *user)
{
    (void)library;
    *offset = ((const flac_sink *)user)->position;
    return FLAC__STREAM_ENCODER_TELL_STATUS_OK;
}

/* Right-justifies count values; false when low bits that FLAC would drop are not zero. */
static bool right_justify(const void *pcm, spsh_sample_format format, uint32_t bits, uint64_t begin,
                          size_t count, FLAC__int32 *dst)
{
    int32_t lost = 0;
    if (format == SPSH_SAMPLE_I16) {
        const int16_t *src = (const int16_t *)pcm + begin;
        int32_t scale = 1 << (16 - bits);
        for (size_t i = 0; i < count; i++) {
            dst[i] = src[i] / scale;
            lost |= src[i] % scale;
        }
    } else {
        const int32_t *src = (const int32_t *)pcm + begin;
        int64_t scale = INT64_C(1) << (32 - bits);
        for (size_t i = 0; i < count; i++) {
            dst[i] = (int32_t)(src[i] / scale);
            lost |= (int32_t)(src[i] % scale);
        }
    }
    return lost == 0;
}

static spsh_status encode_samples(FLAC__StreamEncoder *library, const void *pcm,
                                  spsh_sample_format format, uint64_t samples,
                                  const flac_sink *sink, spsh_error *err)
{
    FLAC__int32 chunk[ENCODE_CHUNK * ENCODE_CHANNELS_MAX];
    uint32_t channels = FLAC__stream_encoder_get_channels(library);
    uint32_t bits = FLAC__stream_encoder_get_bits_per_sample(library);
    for (uint64_t done = 0; done < samples;) {
        uint32_t count = samples - done < ENCODE_CHUNK ? (uint32_t)(samples - done) : ENCODE_CHUNK;
        if (!right_justify(pcm, format, bits, done * channels, (size_t)count * channels, chunk))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "FLAC: samples from %llu on need more than %u bits",
                             (unsigned long long)done, bits);
        if (!FLAC__stream_encoder_process_interleaved(library, chunk, count))
            return sink->is_full
                       ? SPSH_FAIL(err, SPSH_E_LIMIT, "FLAC: %zu bytes are too few",
                                   sink->capacity_bytes)
                       : SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: encoder stopped at sample %llu",
                                   (unsigned long long)done);
        done += count;
    }
    return SPSH_OK;
}

static bool can_encode(const void *pcm, spsh_sample_format format, uint32_t bits, uint64_t samples,
                       uint32_t channels)
{
    bool is_known = (format == SPSH_SAMPLE_I16 && bits >= 4 && bits <= 16) ||
                    (format == SPSH_SAMPLE_I32 && bits > 16 && bits <= 32);
    return is_known && (pcm != NULL || samples == 0) && channels >= 1 &&
           channels <= ENCODE_CHANNELS_MAX && samples < UINT64_C(1) << 36;
}

/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): what PCM is, and dst,
 * which is written through the sink */
spsh_status spsh_flac_encode(const void *pcm, spsh_sample_format format, uint32_t bits_per_sample,
                             uint64_t samples, uint32_t channels, uint32_t sample_rate_hz,
                             uint8_t *dst, size_t capacity_bytes, size_t *ret_bytes,
                             spsh_error *err)
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
{
    flac_sink sink = {dst, capacity_bytes, 0, 0, false};
    FLAC__StreamEncoder *library = NULL;
    spsh_status rc = SPSH_OK;
    if (dst == NULL || ret_bytes == NULL ||
        !can_encode(pcm, format, bits_per_sample, samples, channels))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "FLAC: cannot hold %u channels of %u bits, format %d", channels,
                         bits_per_sample, (int)format);
    library = FLAC__stream_encoder_new();
    if (library == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC encoder");
    errno = 0;
    bool ok = FLAC__stream_encoder_set_streamable_subset(library, false) &&
              FLAC__stream_encoder_set_channels(library, channels) &&
              FLAC__stream_encoder_set_bits_per_sample(library, bits_per_sample) &&
              FLAC__stream_encoder_set_sample_rate(library, sample_rate_hz) &&
              FLAC__stream_encoder_set_total_samples_estimate(library, samples) &&
              FLAC__stream_encoder_set_compression_level(library, 5);
    if (!ok ||
        FLAC__stream_encoder_init_stream(library, on_encoded, on_encoder_seek, on_encoder_tell,
                                         NULL, &sink) != FLAC__STREAM_ENCODER_INIT_STATUS_OK) {
        rc = sink.is_full
                 ? SPSH_FAIL(err, SPSH_E_LIMIT, "FLAC: %zu bytes are too few", capacity_bytes)
             : spsh__library_lacks_memory()
                 ? SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC encoder")
                 : SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                             "FLAC: libFLAC refuses %u channels of %u bits at %u Hz", channels,
                             bits_per_sample, sample_rate_hz);
        goto out;
    }
    rc = encode_samples(library, pcm, format, samples, &sink, err);
    if (rc != SPSH_OK)
        goto out;
    if (!FLAC__stream_encoder_finish(library)) {
        rc = sink.is_full
                 ? SPSH_FAIL(err, SPSH_E_LIMIT, "FLAC: %zu bytes are too few", capacity_bytes)
                 : SPSH_FAIL(err, SPSH_E_NO_MEMORY, "FLAC: encoder did not finish");
        goto out;
    }
    *ret_bytes = sink.size_bytes;
out:
    FLAC__stream_encoder_delete(library);
    return rc;
}

/* Verbatim subframes are the worst case: level 5 has blocks of 4096 samples, a header of at most 16
 * bytes and a CRC-16 a frame, a byte a subframe, and rounding to whole bytes. */
size_t spsh_flac_bound(uint64_t samples, uint32_t channels, uint32_t bits_per_sample)
{
    uint64_t per_frame = 18 + UINT64_C(3) * channels;
    uint64_t sample_bytes = (uint64_t)channels * ((bits_per_sample + 7) / 8);
    uint64_t audio = 0;
    uint64_t total = 0;
    if (!spsh__mul_u64(samples, sample_bytes, &audio) ||
        !spsh__add_u64(audio, (samples / 4096 + 1) * per_frame, &total) ||
        !spsh__add_u64(total, 1024, &total) || total > SIZE_MAX)
        return SIZE_MAX;
    return (size_t)total;
}

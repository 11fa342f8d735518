/* audio_mp3.c: MPEG layer III frames: the begin, end, and stated length of a stream.
 *
 *     11 bits sync, 2 version, 2 layer, 1 no-CRC | 4 bit rate, 2 rate, 1 padding, 1 private
 *     2 channel mode, 2 extension, 4 others      | [CRC-16] side information, main data
 *
 * A frame's length follows from its header, so a stream is a chain of headers that agree in
 * version, layer, rate, and mono or stereo. The chain is walked before a library sees the file.
 * Data after its end is a tag, or the file is cut or damaged. The first frame may hold no audio but
 * a Xing or Info header with the number of frames, followed by LAME's count of samples to drop at
 * both ends. Then the exact length is known.
 */
#include "audio_internal.h"

#include <stdarg.h>
#include <stdio.h>

#define FRAME_HEAD_BYTES 4
#define XING_FRAMES      1
#define XING_BYTES       2
#define XING_SEEK        4
#define XING_QUALITY     8
#define LEADING_ZERO_MAX 4096

typedef struct mp3_frame {
    uint32_t sample_rate_hz;
    uint32_t channels;
    uint32_t samples;
    uint32_t size_bytes;
    uint32_t side_bytes; /* side information, after the head and the CRC */
    uint32_t version;    /* 3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5 */
    uint32_t layer;      /* 1, 2, 3 */
    bool has_crc;
} mp3_frame;

/* Parse a header of any layer. Returns false unless bytes are a frame header with a stated length.
 */
static bool parse_frame(const uint8_t *bytes, mp3_frame *ret_frame)
{
    static const uint16_t kbps[2][15] = {
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
        {0, 8,  16, 24, 32, 40, 48, 56, 64,  80,  96,  112, 128, 144, 160},
    };
    static const uint32_t rates[3] = {44100, 48000, 32000};
    if (bytes[0] != 0xff || (bytes[1] & 0xe0) != 0xe0)
        return false;
    uint32_t version = bytes[1] >> 3 & 3;
    uint32_t layer_code = bytes[1] >> 1 & 3;
    uint32_t bit_rate = bytes[2] >> 4;
    uint32_t rate = bytes[2] >> 2 & 3;
    if (version == 1 || layer_code == 0 || bit_rate == 0 || bit_rate == 15 || rate == 3 ||
        (bytes[3] & 3) == 2)
        return false;
    bool is_mpeg1 = version == 3;
    bool is_mono = bytes[3] >> 6 == 3;
    mp3_frame frame = {.version = version, .layer = 4 - layer_code};
    frame.sample_rate_hz = rates[rate] >> (is_mpeg1 ? 0 : version == 2 ? 1 : 2);
    frame.channels = is_mono ? 1 : 2;
    frame.samples = is_mpeg1 ? 1152 : 576;
    frame.has_crc = (bytes[1] & 1) == 0;
    frame.side_bytes = is_mpeg1 ? (is_mono ? 17 : 32) : (is_mono ? 9 : 17);
    frame.size_bytes =
        frame.samples / 8 * kbps[is_mpeg1 ? 0 : 1][bit_rate] * 1000 / frame.sample_rate_hz +
        (bytes[2] >> 1 & 1);
    *ret_frame = frame;
    return true;
}

static bool agree(const mp3_frame *a, const mp3_frame *b)
{
    return a->version == b->version && a->layer == b->layer &&
           a->sample_rate_hz == b->sample_rate_hz && a->channels == b->channels;
}

static size_t leading_zeros(spsh_bytes bytes)
{
    size_t count = 0;
    while (count < bytes.size_bytes && count < LEADING_ZERO_MAX && bytes.data[count] == 0)
        count++;
    return count;
}

bool spsh__mp3_is_frame_pair(spsh_bytes bytes, bool is_whole_file)
{
    mp3_frame first = {.size_bytes = 0};
    mp3_frame second = {.size_bytes = 0};
    size_t begin = leading_zeros(bytes);
    if (bytes.size_bytes - begin < FRAME_HEAD_BYTES || !parse_frame(bytes.data + begin, &first) ||
        first.layer != 3)
        return false;
    size_t left = bytes.size_bytes - begin;
    if (left == first.size_bytes && is_whole_file)
        return true;
    /* The end of the file cuts this frame, so the second header is missing. The verdict reports
     * that. */
    if (left < first.size_bytes + FRAME_HEAD_BYTES)
        return false;
    return parse_frame(bytes.data + begin + first.size_bytes, &second) && agree(&first, &second);
}

const char *spsh__mpeg_other_layer(spsh_bytes bytes)
{
    mp3_frame frame = {.size_bytes = 0};
    if (bytes.size_bytes >= 4 && bytes.data[0] == 0xff && (bytes.data[1] & 0xf6) == 0xf0)
        return "AAC (ADTS)";
    if (bytes.size_bytes < FRAME_HEAD_BYTES)
        return NULL;
    if (bytes.data[0] == 0xff && (bytes.data[1] & 0xe6) == 0xe2 && (bytes.data[2] & 0xf0) == 0 &&
        (bytes.data[1] & 0x18) != 0x08)
        return "free-format MP3";
    if (!parse_frame(bytes.data, &frame) || frame.layer == 3)
        return NULL;
    return frame.layer == 2 ? "MPEG layer II" : "MPEG layer I";
}

static uint32_t load_u32be(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The Xing or Info header in a first frame. */
typedef struct xing {
    bool is_there;
    bool has_frames;
    uint32_t frames;
    uint32_t delay; /* samples that LAME added in front; 0 without its tag */
    uint32_t padding;
} xing;

static xing parse_xing(spsh_bytes bytes, const mp3_frame *frame)
{
    xing found = {.is_there = false};
    size_t size = bytes.size_bytes < frame->size_bytes ? bytes.size_bytes : frame->size_bytes;
    size_t offset = FRAME_HEAD_BYTES + frame->side_bytes;
    if (offset + 8 > size || (memcmp(bytes.data + offset, "Xing", 4) != 0 &&
                              memcmp(bytes.data + offset, "Info", 4) != 0))
        return found;
    found.is_there = true;
    uint32_t flags = load_u32be(bytes.data + offset + 4);
    offset += 8;
    if ((flags & XING_FRAMES) != 0) {
        if (offset + 4 > size)
            return found;
        found.frames = load_u32be(bytes.data + offset);
        found.has_frames = found.frames != 0;
        offset += 4;
    }
    offset += (flags & XING_BYTES) != 0 ? 4 : 0;
    offset += (flags & XING_SEEK) != 0 ? 100 : 0;
    offset += (flags & XING_QUALITY) != 0 ? 4 : 0;
    /* LAME's tag: 9 bytes of version, 12 others, then 12 bits of delay and 12 of padding. */
    if (offset + 24 <= size && bytes.data[offset] != 0) {
        const uint8_t *gap = bytes.data + offset + 21;
        found.delay = (uint32_t)gap[0] << 4 | gap[1] >> 4;
        found.padding = (uint32_t)(gap[1] & 15) << 8 | gap[2];
    }
    return found;
}

static void explain(spsh__stream_extent *extent, const char *format, unsigned long long offset)
{
    extent->is_clean = false;
    (void)snprintf(extent->detail, sizeof(extent->detail), "MP3: %s at byte %llu", format, offset);
}

/* Judge the bytes after the last frame: tags and zeros are clean; anything else is described. */
static spsh_status judge_tail(spsh__audio_window *window, const mp3_frame *first,
                              spsh__stream_extent *extent, spsh_error *err)
{
    static const char *const tags[] = {"TAG", "APETAGEX", "LYRICSBEGIN", "ID3", "3DI"};
    uint64_t offset = extent->end_bytes;
    spsh_bytes tail = {NULL, 0};
    spsh_status rc = spsh__window_get(window, offset, SPSH__WINDOW_BYTES, &tail, err);
    if (rc != SPSH_OK)
        return rc;
    extent->is_clean = true;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
        if (tail.size_bytes >= strlen(tags[i]) && memcmp(tail.data, tags[i], strlen(tags[i])) == 0)
            return SPSH_OK;
    if (leading_zeros(tail) == tail.size_bytes)
        return SPSH_OK;
    mp3_frame frame = {.size_bytes = 0};
    if (tail.size_bytes < FRAME_HEAD_BYTES ||
        (parse_frame(tail.data, &frame) && agree(&frame, first)))
        explain(extent, "the file ends inside the frame", offset);
    else
        explain(extent, "something that is not a frame", offset);
    return SPSH_OK;
}

/* Follows the chain of frames from *extent's begin. */
static spsh_status walk(spsh__audio_window *window, const mp3_frame *first,
                        spsh__stream_extent *extent, uint64_t *ret_frames, spsh_error *err)
{
    uint64_t offset = extent->begin_bytes;
    uint64_t count = 0;
    for (;;) {
        spsh_bytes head = {NULL, 0};
        mp3_frame frame = {.size_bytes = 0};
        spsh_status rc = spsh__window_get(window, offset, FRAME_HEAD_BYTES, &head, err);
        if (rc != SPSH_OK)
            return rc;
        if (head.size_bytes < FRAME_HEAD_BYTES || !parse_frame(head.data, &frame) ||
            !agree(&frame, first) || frame.size_bytes > window->source->size_bytes - offset)
            break;
        offset += frame.size_bytes;
        count++;
    }
    extent->end_bytes = offset;
    *ret_frames = count;
    return judge_tail(window, first, extent, err);
}

static uint64_t without_gaps(uint64_t samples, const xing *tag)
{
    uint64_t gaps = (uint64_t)tag->delay + tag->padding;
    return samples > gaps ? samples - gaps : 0;
}

spsh_status spsh__mp3_parse(spsh__audio_window *window, bool head_only, spsh_audio_info *ret_info,
                            spsh__stream_extent *ret_extent, spsh_error *err)
{
    spsh__stream_extent extent = {.is_clean = true};
    spsh_bytes bytes = {NULL, 0};
    mp3_frame first = {.size_bytes = 0};
    spsh_status rc = spsh__id3_skip(window, &extent.begin_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__window_get(window, extent.begin_bytes, SPSH__WINDOW_BYTES, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    extent.begin_bytes += leading_zeros(bytes);
    rc = spsh__window_get(window, extent.begin_bytes, SPSH__WINDOW_BYTES, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes < FRAME_HEAD_BYTES || !parse_frame(bytes.data, &first) || first.layer != 3)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, extent.begin_bytes, "MP3: no layer III frame");
    xing tag = parse_xing(bytes, &first);
    *ret_info = (spsh_audio_info){
        .codec = SPSH_CODEC_MP3,
        .format = SPSH_SAMPLE_I16,
        .sample_rate_hz = first.sample_rate_hz,
        .nominal_rate_hz = first.sample_rate_hz,
        .channels = first.channels,
        .samples = SPSH_SAMPLES_UNKNOWN,
    };
    if (tag.has_frames)
        ret_info->samples = without_gaps((uint64_t)tag.frames * first.samples, &tag);
    if (!head_only) {
        uint64_t frames = 0;
        rc = walk(window, &first, &extent, &frames, err);
        if (rc != SPSH_OK)
            return rc;
        if (tag.is_there && frames > 0)
            frames--;
        extent.samples = without_gaps(frames * first.samples, &tag);
    }
    *ret_extent = extent;
    return SPSH_OK;
}

/* audio_wav.c: WAV files: chunk parsing, and decoding of everything but GSM.
 *
 *     "RIFF" u32 size "WAVE"   then chunks: id[4] u32 size, payload, one pad byte when size is odd
 *     "RF64" 0xffffffff "WAVE" "ds64" with 64-bit sizes, then as above
 *
 * The data chunk's size is a claim, which holds if the file is long enough for it. A size of
 * 0xffffffff, or one from 0x7ffff000 on that the file does not reach, comes from a writer that
 * could not seek back: the data then lasts to the end of the file and nothing is claimed. The same
 * holds for a size of 0 if the RIFF size covers no more data either. Any other size that the file
 * does not reach means that the file is cut. The size in the RIFF header is otherwise ignored: in
 * real files it is wrong by one (odd sizes).
 *
 * Samples of 8 to 32 bits are fixed offsets into the file, so that a seek is arithmetic.
 */
#include "audio_internal.h"

#define CHUNK_HEAD_BYTES  8
#define CHUNKS_MAX        4096
#define FORMAT_PCM        0x0001
#define FORMAT_FLOAT      0x0003
#define FORMAT_ALAW       0x0006
#define FORMAT_MULAW      0x0007
#define FORMAT_GSM        0x0031
#define FORMAT_EXTENDED   0xfffe
#define STREAMING_MIN     UINT32_C(0x7ffff000)
#define GSM_BLOCK_BYTES   65
#define GSM_BLOCK_SAMPLES 320

typedef struct wav_state {
    spsh__wav_layout layout;
    uint64_t sample_count; /* whole samples in the file */
    uint8_t raw[16384];    /* file bytes, before conversion to a wider type */
} wav_state;

/* Content of the chunks read so far. */
typedef struct wav_chunks {
    bool has_format;
    bool has_data;
    uint64_t riff_bytes;
    uint64_t data64_bytes; /* RF64: from ds64 */
    bool is_rf64;
    uint64_t data_offset_bytes;
    uint32_t data_bytes; /* as the chunk states it */
} wav_chunks;

static const char *format_name(uint32_t tag)
{
    switch (tag) {
    case 0x0002: return "Microsoft ADPCM";
    case 0x0011: return "IMA ADPCM";
    case 0x0016:
    case 0x0064:
    case 0x0065: return "G.726 ADPCM";
    case 0x0040: return "G.721 ADPCM";
    case 0x0050: return "MPEG layer I or II";
    case 0x0055: return "MPEG layer III";
    case 0x0092:
    case 0x2000: return "AC-3";
    case 0x00ff: return "AAC";
    case 0x0161: return "WMA";
    case 0x674f: return "Vorbis";
    case 0x704f: return "Opus";
    case 0xf1ac: return "FLAC";
    default: return "coding";
    }
}

static spsh_status take_coding(uint32_t tag, uint32_t bits, uint64_t offset, spsh_audio_info *info,
                               spsh__wav_layout *layout, spsh_error *err)
{
    bool is_known = true;
    info->bits_per_sample = bits;
    info->format = SPSH_SAMPLE_I16;
    switch (tag) {
    case FORMAT_PCM:
        layout->coding = SPSH__WAV_INTEGER;
        info->format = bits > 16 ? SPSH_SAMPLE_I32 : SPSH_SAMPLE_I16;
        is_known = bits == 8 || bits == 16 || bits == 24 || bits == 32;
        break;
    case FORMAT_FLOAT:
        layout->coding = SPSH__WAV_FLOAT;
        info->format = SPSH_SAMPLE_F32;
        is_known = bits == 32 || bits == 64;
        break;
    case FORMAT_ALAW:
    case FORMAT_MULAW:
        layout->coding = tag == FORMAT_ALAW ? SPSH__WAV_ALAW : SPSH__WAV_MULAW;
        is_known = bits == 8;
        break;
    case FORMAT_GSM:
        layout->coding = SPSH__WAV_GSM;
        info->bits_per_sample = 0;
        if (info->channels != 1 || layout->block_bytes != GSM_BLOCK_BYTES)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset,
                                "WAV: GSM with %u channels, blocks of %u", info->channels,
                                layout->block_bytes);
        return SPSH_OK;
    default:
        return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, offset,
                            "WAV with %s (format tag 0x%04x) is not among the codecs that are read",
                            format_name(tag), tag);
    }
    if (!is_known)
        return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, offset,
                            "WAV with format tag 0x%04x and %u bits per sample", tag, bits);
    return SPSH_OK;
}

static spsh_status parse_format(spsh_bytes chunk, uint64_t offset, spsh_audio_info *info,
                                spsh__wav_layout *layout, spsh_error *err)
{
    static const uint8_t guid_tail[14] = {0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80,
                                          0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71};
    if (chunk.size_bytes < 16)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset, "WAV: format chunk of %zu bytes",
                            chunk.size_bytes);
    uint32_t tag = spsh__load_u16le(chunk.data);
    uint32_t bits = spsh__load_u16le(chunk.data + 14);
    info->channels = spsh__load_u16le(chunk.data + 2);
    info->sample_rate_hz = spsh__load_u32le(chunk.data + 4);
    info->nominal_rate_hz = info->sample_rate_hz;
    layout->block_bytes = spsh__load_u16le(chunk.data + 12);
    spsh_status rc = spsh__audio_check_info(info, err);
    if (rc != SPSH_OK)
        return rc;
    if (tag == FORMAT_EXTENDED) {
        if (chunk.size_bytes < 40 || memcmp(chunk.data + 26, guid_tail, sizeof(guid_tail)) != 0)
            return SPSH_FAIL_AT(err, SPSH_E_UNSUPPORTED, offset,
                                "WAV: extensible format without a known subformat");
        tag = spsh__load_u16le(chunk.data + 24);
    }
    /* Writers state 20-bit samples in 3 bytes as 20 or as 24 bits. Use the size of the container:
     * the low bits are zero. */
    if (tag == FORMAT_PCM && bits != 0 && layout->block_bytes % info->channels == 0 &&
        layout->block_bytes / info->channels == (bits + 7) / 8)
        bits = layout->block_bytes / info->channels * 8;
    rc = take_coding(tag, bits, offset, info, layout, err);
    if (rc != SPSH_OK)
        return rc;
    if (layout->coding != SPSH__WAV_GSM && layout->block_bytes != info->channels * bits / 8)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset,
                            "WAV: %u channels of %u bits do not make blocks of %u bytes",
                            info->channels, bits, layout->block_bytes);
    return SPSH_OK;
}

/* Check whether only well-formed chunks follow an empty data chunk. */
static spsh_status chunks_follow(spsh__audio_window *window, uint64_t offset, bool *ret_follow,
                                 spsh_error *err)
{
    uint64_t end = window->source->size_bytes;
    for (int i = 0; i < CHUNKS_MAX && offset < end; i++) {
        spsh_bytes head = {NULL, 0};
        spsh_status rc = spsh__window_get(window, offset, CHUNK_HEAD_BYTES, &head, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_follow = false;
        if (head.size_bytes < CHUNK_HEAD_BYTES)
            return SPSH_OK;
        for (int j = 0; j < 4; j++)
            if (head.data[j] < 0x20 || head.data[j] > 0x7e)
                return SPSH_OK;
        uint64_t size = spsh__load_u32le(head.data + 4);
        offset += CHUNK_HEAD_BYTES + size + (size & 1);
    }
    *ret_follow = offset == end || offset == end + 1;
    return SPSH_OK;
}

static spsh_status take_data(spsh__audio_window *window, const wav_chunks *chunks,
                             spsh_audio_info *info, spsh__wav_layout *layout, spsh_error *err)
{
    uint64_t offset = chunks->data_offset_bytes;
    uint32_t size32 = chunks->data_bytes;
    uint64_t there = window->source->size_bytes - offset;
    uint64_t claim = size32;
    bool is_claimed = true;
    if (chunks->is_rf64 && size32 == UINT32_MAX)
        claim = chunks->data64_bytes;
    else if (size32 == UINT32_MAX || (size32 >= STREAMING_MIN && size32 > there))
        is_claimed = false;
    if (claim == 0 && there > 0 && chunks->riff_bytes != offset - CHUNK_HEAD_BYTES) {
        bool follow = false;
        spsh_status rc = chunks_follow(window, offset, &follow, err);
        if (rc != SPSH_OK)
            return rc;
        is_claimed = follow;
    }
    uint32_t block_samples = layout->coding == SPSH__WAV_GSM ? GSM_BLOCK_SAMPLES : 1;
    layout->data_offset_bytes = offset;
    layout->data_bytes = is_claimed && claim < there ? claim : there;
    layout->data_bytes -= layout->data_bytes % layout->block_bytes;
    layout->is_cut = is_claimed && claim > there;
    info->samples = is_claimed ? claim / layout->block_bytes * block_samples : SPSH_SAMPLES_UNKNOWN;
    return SPSH_OK;
}

static spsh_status take_chunk(spsh__audio_window *window, wav_chunks *chunks, uint64_t offset,
                              spsh_audio_info *info, spsh__wav_layout *layout, spsh_error *err)
{
    spsh_bytes chunk = {NULL, 0};
    spsh_status rc = spsh__window_get(window, offset, CHUNK_HEAD_BYTES + 64, &chunk, err);
    if (rc != SPSH_OK)
        return rc;
    if (chunk.size_bytes < CHUNK_HEAD_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, offset,
                            "WAV: the file ends before its data chunk");
    uint32_t size = spsh__load_u32le(chunk.data + 4);
    spsh_bytes body = {chunk.data + CHUNK_HEAD_BYTES, chunk.size_bytes - CHUNK_HEAD_BYTES};
    if (size < body.size_bytes)
        body.size_bytes = size;
    if (memcmp(chunk.data, "ds64", 4) == 0 && body.size_bytes >= 16) {
        chunks->riff_bytes = spsh__load_u64le(body.data);
        chunks->data64_bytes = spsh__load_u64le(body.data + 8);
    } else if (memcmp(chunk.data, "fmt ", 4) == 0 && !chunks->has_format) {
        chunks->has_format = true;
        return parse_format(body, offset, info, layout, err);
    } else if (memcmp(chunk.data, "data", 4) == 0) {
        if (!chunks->has_format)
            return SPSH_FAIL_AT(err, SPSH_E_AUDIO, offset, "WAV: data chunk before a format chunk");
        chunks->has_data = true;
        chunks->data_offset_bytes = offset + CHUNK_HEAD_BYTES;
        chunks->data_bytes = size;
        return take_data(window, chunks, info, layout, err);
    }
    return SPSH_OK;
}

spsh_status spsh__wav_parse(spsh__audio_window *window, spsh_audio_info *ret_info,
                            spsh__wav_layout *ret_layout, spsh_error *err)
{
    spsh_audio_info info = {.codec = SPSH_CODEC_WAV, .samples = SPSH_SAMPLES_UNKNOWN};
    spsh__wav_layout layout = {.coding = SPSH__WAV_INTEGER};
    wav_chunks chunks = {.has_format = false};
    spsh_bytes head = {NULL, 0};
    spsh_status rc = spsh__window_get(window, 0, 12, &head, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh_audio_sniff(head.data, head.size_bytes, NULL) != SPSH_CODEC_WAV)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, 0, "not a WAV file");
    chunks.is_rf64 = memcmp(head.data, "RIFF", 4) != 0;
    chunks.riff_bytes = spsh__load_u32le(head.data + 4);

    uint64_t offset = 12;
    for (int i = 0; !chunks.has_data; i++) {
        if (i == CHUNKS_MAX)
            return SPSH_FAIL_AT(err, SPSH_E_LIMIT, offset, "WAV: no data within %d chunks",
                                CHUNKS_MAX);
        rc = take_chunk(window, &chunks, offset, &info, &layout, err);
        if (rc != SPSH_OK)
            return rc;
        rc = spsh__window_get(window, offset, CHUNK_HEAD_BYTES, &head, err);
        if (rc != SPSH_OK)
            return rc;
        uint64_t size = head.size_bytes == CHUNK_HEAD_BYTES ? spsh__load_u32le(head.data + 4) : 0;
        offset += CHUNK_HEAD_BYTES + size + (size & 1);
    }
    *ret_info = info;
    *ret_layout = layout;
    return SPSH_OK;
}

static spsh_status wav_inspect(spsh__audio_window *window, spsh_audio_info *ret_info,
                               spsh_error *err)
{
    spsh_audio_info info = {.codec = SPSH_CODEC_WAV};
    spsh__wav_layout layout = {.coding = SPSH__WAV_INTEGER};
    spsh_status rc = spsh__wav_parse(window, &info, &layout, err);
    if (rc != SPSH_OK)
        return rc;
    if (layout.is_cut)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, window->source->size_bytes,
            "WAV: the header states %llu samples, the file holds %llu bytes of audio",
            (unsigned long long)info.samples, (unsigned long long)layout.data_bytes);
    *ret_info = info;
    return SPSH_OK;
}

/* G.711, both laws: sign, three bits of exponent, four of mantissa; expanded to 16 bits. */
static int16_t expand_mulaw(uint8_t code)
{
    int inverted = ~code & 0xff;
    int magnitude = (((inverted & 0x0f) << 3) + 0x84) << ((inverted & 0x70) >> 4);
    return (int16_t)((inverted & 0x80) != 0 ? 0x84 - magnitude : magnitude - 0x84);
}

static int16_t expand_alaw(uint8_t code)
{
    int toggled = code ^ 0x55;
    int exponent = (toggled & 0x70) >> 4;
    int magnitude = ((toggled & 0x0f) << 4) + 8;
    if (exponent > 0)
        magnitude = (magnitude + 0x100) << (exponent - 1);
    return (int16_t)((toggled & 0x80) != 0 ? magnitude : -magnitude);
}

static float load_f64_as_f32(const uint8_t *bytes)
{
    uint64_t bits = spsh__load_u64le(bytes);
    double value = 0;
    memcpy(&value, &bits, sizeof(value));
    if (value != value) { /* NaNs depend on the processor: fix one */
        const uint32_t quiet_nan = UINT32_C(0x7fc00000);
        float nan = 0;
        memcpy(&nan, &quiet_nan, sizeof(nan));
        return nan;
    }
    return (float)value;
}

static void convert(const wav_state *state, uint32_t bits, const uint8_t *src, void *dst,
                    size_t count)
{
    int16_t *dst16 = (int16_t *)dst;
    uint32_t *dst32 = (uint32_t *)dst;
    float *dst_float = (float *)dst;
    if (state->layout.coding == SPSH__WAV_ALAW) {
        for (size_t i = 0; i < count; i++)
            dst16[i] = expand_alaw(src[i]);
    } else if (state->layout.coding == SPSH__WAV_MULAW) {
        for (size_t i = 0; i < count; i++)
            dst16[i] = expand_mulaw(src[i]);
    } else if (bits == 8) {
        for (size_t i = 0; i < count; i++)
            dst16[i] = (int16_t)((src[i] - 128) * 256);
    } else if (bits == 16) {
        for (size_t i = 0; i < count; i++)
            dst16[i] = (int16_t)spsh__load_u16le(src + 2 * i);
    } else if (bits == 24) {
        for (size_t i = 0; i < count; i++)
            dst32[i] = (uint32_t)src[3 * i] << 8 | (uint32_t)src[3 * i + 1] << 16 |
                       (uint32_t)src[3 * i + 2] << 24;
    } else if (bits == 32) {
        for (size_t i = 0; i < count; i++)
            dst32[i] = spsh__load_u32le(src + 4 * i); /* int32 and float alike: bits are copied */
    } else {
        for (size_t i = 0; i < count; i++)
            dst_float[i] = load_f64_as_f32(src + 8 * i);
    }
}

static spsh_status wav_open(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err)
{
    wav_state *state = (wav_state *)decoder->state;
    if (state == NULL)
        state = (wav_state *)spsh__alloc(&decoder->allocator, sizeof(*state));
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "WAV decoder: %zu bytes", sizeof(*state));
    decoder->state = state;
    spsh_status rc = spsh__wav_parse(window, &decoder->info, &state->layout, err);
    if (rc != SPSH_OK)
        return rc;
    state->sample_count = state->layout.data_bytes / state->layout.block_bytes;
    return SPSH_OK;
}

static spsh_status wav_read(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                            uint64_t *ret_samples, spsh_error *err)
{
    wav_state *state = (wav_state *)decoder->state;
    uint64_t block = state->layout.block_bytes;
    uint64_t left = state->sample_count - decoder->position;
    uint64_t wanted = capacity < left ? capacity : left;
    size_t out_bytes = spsh__sample_bytes(decoder->info.format) * decoder->info.channels;
    uint64_t done = 0;
    while (done < wanted) {
        uint64_t fit = sizeof(state->raw) / block;
        uint64_t count = wanted - done < fit ? wanted - done : fit;
        uint64_t offset = state->layout.data_offset_bytes + (decoder->position + done) * block;
        size_t got = 0;
        spsh_status rc = spsh__source_read(&decoder->source, offset, state->raw,
                                           (size_t)(count * block), &got, err);
        if (rc != SPSH_OK)
            return rc;
        if (got / block < count) /* the source is shorter than its stated size */
            return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, offset + got, "WAV: the data ends early");
        convert(state, decoder->info.bits_per_sample, state->raw, (uint8_t *)pcm + done * out_bytes,
                (size_t)count * decoder->info.channels);
        done += count;
    }
    *ret_samples = done;
    return SPSH_OK;
}

static spsh_status wav_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    const wav_state *state = (const wav_state *)decoder->state;
    if (sample > state->sample_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "seek to %llu of %llu samples",
                         (unsigned long long)sample, (unsigned long long)state->sample_count);
    decoder->position = sample;
    return SPSH_OK;
}

static void wav_judge(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result)
{
    (void)decoder, (void)file;
    spsh__audio_judge_count(result);
}

static void wav_close(spsh_decoder *decoder)
{
    spsh__free(&decoder->allocator, decoder->state);
}

const spsh__audio_backend spsh__audio_wav = {
    true, wav_inspect, wav_open, wav_read, wav_seek, wav_judge, wav_close,
};

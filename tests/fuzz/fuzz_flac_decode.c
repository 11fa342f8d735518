/* fuzz_flac_decode.c: arbitrary bytes as the subframes of a FLAC frame. Both forms of our decoder
 * must agree. libFLAC must decode the same from the accepted inputs, with the correct checksum. The
 * decoder that lets samples wrap must be safe on all inputs at up to 24 bits, and agree with both.
 *
 *     byte 0: channels and stereo mode   byte 1: bits per sample - 4   bytes 2, 3: samples
 *     then subframes
 */
#include <FLAC/stream_decoder.h>
#include <stdlib.h>

#include "audio/flac_decode.h"

#define INPUT_MAX    4096
#define INPUT_HEAD   4
#define BLOCK_MAX    512
#define CHANNELS_MAX 8
#define HEAD_BYTES   42
#define FRAME_HEAD   8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

typedef struct library_run {
    spsh_bytes bytes;
    size_t position;
    uint32_t channels;
    bool is_same;
} library_run;

static int32_t planes[2][CHANNELS_MAX * BLOCK_MAX];

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *library,
                                             FLAC__byte buffer[], size_t *bytes, void *user)
{
    library_run *run = (library_run *)user;
    size_t left = run->bytes.size_bytes - run->position;
    (void)library;
    *bytes = *bytes < left ? *bytes : left;
    memcpy(buffer, run->bytes.data + run->position, *bytes);
    run->position += *bytes;
    return *bytes == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                       : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *library,
                                               const FLAC__Frame *frame,
                                               const FLAC__int32 *const channels[], void *user)
{
    library_run *run = (library_run *)user;
    (void)library;
    run->is_same = frame->header.channels == run->channels;
    for (uint32_t c = 0; run->is_same && c < run->channels; c++)
        run->is_same = memcmp(channels[c], planes[0] + (size_t)c * BLOCK_MAX,
                              frame->header.blocksize * sizeof(int32_t)) == 0;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void on_error(const FLAC__StreamDecoder *library, FLAC__StreamDecoderErrorStatus status,
                     void *user)
{
    (void)library, (void)status, (void)user;
}

/* STREAMINFO without a count. */
static void make_head(uint8_t head[HEAD_BYTES], const spsh__flac_shape *shape)
{
    static const uint8_t marker[8] = {'f', 'L', 'a', 'C', 0x80, 0, 0, 34};
    memset(head, 0, HEAD_BYTES);
    memcpy(head, marker, sizeof(marker));
    head[9] = 16;
    head[10] = (uint8_t)(BLOCK_MAX >> 8);
    head[18] = (uint8_t)(shape->sample_rate_hz >> 12);
    head[19] = (uint8_t)(shape->sample_rate_hz >> 4);
    head[20] = (uint8_t)(shape->sample_rate_hz << 4 | (shape->channels - 1) << 1 |
                         (shape->bits_per_sample - 1) >> 4);
    head[21] = (uint8_t)((shape->bits_per_sample - 1) << 4);
}

static uint8_t crc8(const uint8_t *data, size_t size)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < size * 8; i++) {
        uint32_t bit = (uint32_t)data[i / 8] >> (7 - i % 8) & 1u;
        crc = (crc << 1 & 0xff) ^ ((crc >> 7) != bit ? 0x07u : 0u);
    }
    return (uint8_t)crc;
}

static void make_frame_head(uint8_t head[FRAME_HEAD], uint32_t channel_code, uint32_t samples)
{
    head[0] = 0xff;
    head[1] = 0xf8;
    head[2] = 0x70; /* 16 bits of block size; the rate is STREAMINFO's */
    head[3] = (uint8_t)(channel_code << 4);
    head[4] = 0;
    head[5] = (uint8_t)((samples - 1) >> 8);
    head[6] = (uint8_t)(samples - 1);
    head[7] = crc8(head, FRAME_HEAD - 1);
}

/* planes[0] must equal the samples that libFLAC decodes from the file. */
static void compare(const uint8_t *file, size_t size, const spsh__flac_shape *shape)
{
    library_run run = {
        {file, size},
        0, shape->channels, false
    };
    FLAC__StreamDecoder *library = FLAC__stream_decoder_new();
    if (library == NULL)
        return;
    if (FLAC__stream_decoder_init_stream(library, on_read, NULL, NULL, NULL, NULL, on_write, NULL,
                                         on_error, &run) == FLAC__STREAM_DECODER_INIT_STATUS_OK)
        (void)FLAC__stream_decoder_process_until_end_of_stream(library);
    FLAC__stream_decoder_delete(library);
    if (!run.is_same)
        abort();
}

/* Decode with both forms, which must agree. Return whether they accept the frame. */
static bool decode_both(spsh_bytes bytes, const spsh__flac_shape *shape, spsh__flac_frame *frame)
{
    spsh__flac_frame frames[2] = {{.size_bytes = 0}, {.size_bytes = 0}};
    bool is_plain[2];
    for (int form = 0; form < 2; form++) {
        spsh__flac_force_plain_c(form == 1);
        is_plain[form] = spsh__flac_decode_unchecked(bytes, shape, planes[form], &frames[form]);
    }
    if (is_plain[0] != is_plain[1] || (is_plain[0] && frames[0].size_bytes != frames[1].size_bytes))
        abort();
    for (uint32_t c = 0; is_plain[0] && c < shape->channels; c++)
        if (memcmp(planes[0] + (size_t)c * BLOCK_MAX, planes[1] + (size_t)c * BLOCK_MAX,
                   frames[0].block_samples * sizeof(int32_t)) != 0)
            abort();
    *frame = frames[0];
    return is_plain[0];
}

/* Samples may leave every range here: sums must wrap, which UBSan checks. */
static void decode_wrapped(spsh_bytes bytes, const spsh__flac_shape *shape, uint32_t bits)
{
    spsh__flac_shape other = *shape;
    spsh__flac_frame frame = {.size_bytes = 0};
    other.bits_per_sample = bits;
    (void)spsh__flac_decode_wrapped(bytes, &other, planes[1], &frame);
}

/* planes[0] holds the samples that the strict decoder returned. */
static void compare_wrapped(spsh_bytes bytes, const spsh__flac_shape *shape, uint32_t samples)
{
    spsh__flac_frame frame = {.size_bytes = 0};
    if (!spsh__flac_decode_wrapped(bytes, shape, planes[1], &frame))
        abort();
    for (uint32_t c = 0; c < shape->channels; c++)
        if (memcmp(planes[0] + (size_t)c * BLOCK_MAX, planes[1] + (size_t)c * BLOCK_MAX,
                   samples * sizeof(int32_t)) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes <= INPUT_HEAD || size_bytes > INPUT_MAX)
        return 0;
    const uint32_t code = data[0] % 11u;
    const spsh__flac_shape shape = {code < 8 ? code + 1 : 2, 16000, 4 + data[1] % 13u, BLOCK_MAX};
    const size_t body = size_bytes - INPUT_HEAD;
    const size_t size = FRAME_HEAD + body;
    spsh__flac_frame frame = {.size_bytes = 0};
    uint8_t *exact = (uint8_t *)malloc(size); /* exact size: an over-read is noticed */
    uint8_t *file = (uint8_t *)malloc(HEAD_BYTES + size + 2);
    if (exact == NULL || file == NULL)
        goto out;
    make_head(file, &shape);
    make_frame_head(exact, code, 1 + (uint32_t)(data[2] << 8 | data[3]) % BLOCK_MAX);
    memcpy(exact + FRAME_HEAD, data + INPUT_HEAD, body);
    decode_wrapped((spsh_bytes){exact, size}, &shape, 4 + data[1] % 21u);
    if (!decode_both((spsh_bytes){exact, size}, &shape, &frame))
        goto out;
    memcpy(file + HEAD_BYTES, exact, size);
    uint8_t *end = file + HEAD_BYTES + frame.size_bytes - 2;
    uint32_t crc = spsh__flac_crc16(0, file + HEAD_BYTES, (size_t)frame.size_bytes - 2);
    end[0] = (uint8_t)(crc >> 8);
    end[1] = (uint8_t)crc;
    spsh__flac_force_plain_c(false);
    if (!spsh__flac_decode_frame((spsh_bytes){file + HEAD_BYTES, (size_t)frame.size_bytes}, &shape,
                                 planes[0], &frame))
        abort();
    compare_wrapped((spsh_bytes){file + HEAD_BYTES, (size_t)frame.size_bytes}, &shape,
                    frame.block_samples);
    compare(file, HEAD_BYTES + (size_t)frame.size_bytes, &shape);
out:
    free(exact);
    free(file);
    return 0;
}

/* unit_flac_decode.c: our FLAC decoder, in both implementations, compared with libFLAC. The streams
 * come from libFLAC's encoder at every level and shape. Others are streams that no encoder writes,
 * and every truncation and bit flip of a small stream. Each frame is decoded as in libFLAC, or
 * rejected. Each stream is in a block of its exact size, so that ASan detects reads outside it. */
#include <FLAC/stream_decoder.h>
#include <FLAC/stream_encoder.h>

#include "audio/flac_bits.h"
#include "audio/flac_decode.h"
#include "flac_writer.h"
#include "speechshard/audio.h"
#include "spsh_test.h"

#define FIRST_FRAME    42
#define SAMPLES_MAX    20000
#define CHANNELS_MAX   8
#define FILE_BYTES_MAX (4 << 20)

/* Interleaved, not justified. */
typedef struct pcm_signal {
    int32_t values[SAMPLES_MAX * CHANNELS_MAX];
    uint32_t samples;
    uint32_t channels;
    uint32_t bits_per_sample;
} pcm_signal;

typedef struct flac_file {
    uint8_t *data; /* a block of the exact size, see exact_copy */
    size_t size;
    size_t position;
} flac_file;

static const flac_prediction fixed; /* a prediction of order 1 */

static pcm_signal noise;
static pcm_signal decoded;
static uint8_t buffer[FILE_BYTES_MAX];
static int32_t planes[65535 * CHANNELS_MAX];

static uint8_t *exact_copy(const uint8_t *data, size_t size)
{
    REQUIRE(size > 10); /* the decoder reads STREAMINFO */
    uint8_t *copy = (uint8_t *)malloc(size);
    REQUIRE(copy != NULL);
    memcpy(copy, data, size);
    return copy;
}

static spsh__flac_shape shape_of(const uint8_t streaminfo[34])
{
    spsh__flac_walker walker;
    spsh__flac_walk_begin(&walker, (spsh_bytes){NULL, 0}, 0, streaminfo);
    return walker.shape;
}

/* Decode frame by frame from first_frame on, into decoded. Return the number of bytes that were
 * plain. */
static size_t decode(const uint8_t *data, size_t size, size_t first_frame,
                     const spsh__flac_shape *shape)
{
    size_t offset = first_frame;
    decoded.samples = 0;
    decoded.channels = shape->channels;
    while (offset < size) {
        spsh__flac_frame frame = {.size_bytes = 0};
        spsh_bytes rest = {data + offset, size - offset};
        if (!spsh__flac_decode_frame(rest, shape, planes, &frame))
            break;
        REQUIRE(frame.size_bytes <= rest.size_bytes && frame.channels == shape->channels);
        REQUIRE(decoded.samples + frame.block_samples <= SAMPLES_MAX);
        for (uint32_t c = 0; c < frame.channels; c++)
            for (uint32_t i = 0; i < frame.block_samples; i++)
                decoded.values[(decoded.samples + i) * frame.channels + c] =
                    planes[(size_t)c * shape->block_samples_max + i];
        decoded.samples += frame.block_samples;
        offset += frame.size_bytes;
    }
    return offset;
}

static void check_same(const pcm_signal *want)
{
    size_t different = 0;
    CHECK_U64(decoded.samples, want->samples);
    if (decoded.samples == want->samples)
        for (size_t i = 0; i < (size_t)want->samples * want->channels; i++)
            different += decoded.values[i] != want->values[i];
    CHECK_U64(different, 0);
}

/* ---- libFLAC's encoder ---- */

static FLAC__StreamEncoderWriteStatus on_encoded(const FLAC__StreamEncoder *encoder,
                                                 const FLAC__byte bytes[], size_t size,
                                                 uint32_t samples, uint32_t frame, void *user)
{
    flac_file *file = (flac_file *)user;
    (void)encoder, (void)samples, (void)frame;
    REQUIRE(size <= FILE_BYTES_MAX - file->position);
    memcpy(file->data + file->position, bytes, size);
    file->position += size;
    if (file->position > file->size)
        file->size = file->position;
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static FLAC__StreamEncoderSeekStatus on_seek(const FLAC__StreamEncoder *encoder,
                                             FLAC__uint64 offset, void *user)
{
    (void)encoder;
    ((flac_file *)user)->position = (size_t)offset;
    return FLAC__STREAM_ENCODER_SEEK_STATUS_OK;
}

static FLAC__StreamEncoderTellStatus on_tell(const FLAC__StreamEncoder *encoder,
                                             FLAC__uint64 *offset, void *user)
{
    (void)encoder;
    *offset = ((const flac_file *)user)->position;
    return FLAC__STREAM_ENCODER_TELL_STATUS_OK;
}

typedef struct encoding {
    uint32_t level;
    uint32_t block_samples;  /* 0: the level decides */
    uint32_t order;          /* predictor order; 0: the order of the level */
    uint32_t precision_bits; /* 0: the level decides */
    bool escapes;
} encoding;

/* Encode into buffer. Return the size. */
static size_t encode(const pcm_signal *signal, const encoding *how)
{
    flac_file file = {buffer, 0, 0};
    FLAC__StreamEncoder *encoder = FLAC__stream_encoder_new();
    REQUIRE(encoder != NULL);
    bool ok = FLAC__stream_encoder_set_streamable_subset(encoder, false) &&
              FLAC__stream_encoder_set_channels(encoder, signal->channels) &&
              FLAC__stream_encoder_set_bits_per_sample(encoder, signal->bits_per_sample) &&
              FLAC__stream_encoder_set_sample_rate(encoder, 16000) &&
              FLAC__stream_encoder_set_compression_level(encoder, how->level) &&
              FLAC__stream_encoder_set_do_escape_coding(encoder, how->escapes) &&
              FLAC__stream_encoder_set_blocksize(encoder, how->block_samples);
    if (how->order != 0)
        ok = ok && FLAC__stream_encoder_set_max_lpc_order(encoder, how->order);
    if (how->precision_bits != 0)
        ok = ok && FLAC__stream_encoder_set_qlp_coeff_precision(encoder, how->precision_bits);
    REQUIRE(ok);
    REQUIRE(FLAC__stream_encoder_init_stream(encoder, on_encoded, on_seek, on_tell, NULL, &file) ==
            FLAC__STREAM_ENCODER_INIT_STATUS_OK);
    REQUIRE(FLAC__stream_encoder_process_interleaved(encoder, signal->values, signal->samples));
    REQUIRE(FLAC__stream_encoder_finish(encoder));
    FLAC__stream_encoder_delete(encoder);
    return file.size;
}

static size_t first_frame_of(const uint8_t *data)
{
    size_t offset = 4;
    bool is_last = false;
    while (!is_last) {
        is_last = (data[offset] & 0x80) != 0;
        offset +=
            4 + ((size_t)data[offset + 1] << 16 | (size_t)data[offset + 2] << 8 | data[offset + 3]);
    }
    return offset;
}

/* Both implementations decode the encoder's whole output for the signal. */
static void check_encoding(const pcm_signal *signal, const encoding *how)
{
    size_t size = encode(signal, how);
    uint8_t *data = exact_copy(buffer, size);
    spsh__flac_shape shape = shape_of(data + 8);
    for (int form = 0; form < 2; form++) {
        spsh__flac_force_plain_c(form == 1);
        CHECK_U64(decode(data, size, first_frame_of(data), &shape), size);
        check_same(signal);
    }
    spsh__flac_force_plain_c(false);
    free(data);
}

/* ---- signals ---- */

typedef enum signal_kind { SILENCE, FULL_NOISE, EXTREMES, TONE, SPIKES, WASTED, KINDS } signal_kind;

static int32_t value_of(signal_kind kind, uint32_t bits, size_t t, uint64_t *state)
{
    int32_t top = (1 << (bits - 1)) - 1;
    int32_t any = (int32_t)(test_random(state) >> (64 - bits)) - top - 1;
    int32_t phase = (int32_t)(t * 37 % 1000);
    switch (kind) {
    case FULL_NOISE: return any;
    case EXTREMES: return t / 7 % 2 == 0 ? top : -top - 1;
    case TONE:
        return (int32_t)((int64_t)top * (phase < 500 ? phase - 250 : 750 - phase) / 256) + any / 64;
    case SPIKES: return t % 997 == 5 ? any : 0;
    case WASTED: return any / 8 * 8 / 4 * 4;
    default: return 0;
    }
}

static void make_signal(pcm_signal *signal, signal_kind kind, uint64_t *state)
{
    for (size_t i = 0; i < signal->samples; i++) {
        for (uint32_t c = 0; c < signal->channels; c++) {
            int32_t value = value_of(kind, signal->bits_per_sample, i + c, state);
            if (c > 0 && kind == TONE) /* equal channels */
                value = signal->values[i * signal->channels] / 2 + value / 2;
            signal->values[i * signal->channels + c] = value;
        }
    }
}

static void check_every_level(signal_kind kind, uint32_t channels, uint32_t bits, uint64_t *state)
{
    for (uint32_t level = 0; level <= 8; level++) {
        encoding how = {.level = level};
        noise.samples = 4500 + (uint32_t)(test_random(state) % 700);
        noise.channels = channels;
        noise.bits_per_sample = bits;
        make_signal(&noise, kind, state);
        check_encoding(&noise, &how);
    }
}

static void test_every_level_and_shape(void)
{
    static const uint32_t bits[] = {8, 12, 16};
    static const uint32_t channels[] = {1, 2, 3, 8};
    uint64_t state = test_seed(97);
    for (signal_kind kind = SILENCE; kind < KINDS; kind++)
        for (size_t b = 0; b < 3; b++)
            for (size_t c = 0; c < 4; c++)
                check_every_level(kind, channels[c], bits[b], &state);
}

static void test_orders_blocks_and_escapes(void)
{
    static const uint32_t blocks[] = {16, 17, 192, 255, 1000, 4097, 16384};
    uint64_t state = test_seed(98);
    for (uint32_t order = 1; order <= 32; order++) {
        for (uint32_t channels = 1; channels <= 2; channels++) {
            encoding how = {.level = 5,
                            .block_samples = order <= 16 ? blocks[order % 7] : 2000 + order,
                            .order = order,
                            .precision_bits = 5 + order % 11,
                            .escapes = order % 2 == 0};
            if (how.block_samples <= order)
                how.block_samples = 192;
            noise.samples = 9001;
            noise.channels = channels;
            noise.bits_per_sample = 16;
            make_signal(&noise, order % 3 == 0 ? SPIKES : TONE, &state);
            check_encoding(&noise, &how);
        }
    }
}

static void test_short_streams(void)
{
    uint64_t state = test_seed(99);
    for (uint32_t samples = 1; samples <= 40; samples++) {
        encoding how = {.level = samples % 9, .block_samples = 16};
        noise.samples = samples;
        noise.channels = 1 + samples % 2;
        noise.bits_per_sample = 16;
        make_signal(&noise, TONE, &state);
        check_encoding(&noise, &how);
    }
}

/* ---- streams that no encoder writes ---- */

static flac_writer writer_of(uint32_t channels, uint32_t bits)
{
    return (flac_writer){.channels = channels, .bits_per_sample = bits, .sample_rate_hz = 16000};
}

static void test_verbatim_and_raw_residuals(void)
{
    uint64_t state = test_seed(100);
    for (uint32_t bits = 4; bits <= 16; bits++) {
        for (uint32_t channels = 1; channels <= CHANNELS_MAX; channels++) {
            flac_writer writer = writer_of(channels, bits);
            noise.samples = 300;
            noise.channels = channels;
            noise.bits_per_sample = bits;
            make_signal(&noise, FULL_NOISE, &state);
            flac_writer_begin(&writer, buffer, sizeof(buffer));
            if (channels == 1)
                (void)flac_writer_predicted_frame(&writer, noise.values, 299, &fixed);
            else
                (void)flac_writer_frame(&writer, noise.values, 299);
            (void)flac_writer_frame(&writer, noise.values + (size_t)299 * channels, 1);
            size_t size = flac_writer_end(&writer);
            uint8_t *data = exact_copy(buffer, size);
            spsh__flac_shape shape = shape_of(data + 8);
            CHECK_U64(decode(data, size, FIRST_FRAME, &shape), size);
            check_same(&noise);
            free(data);
        }
    }
}

static void test_samples_out_of_range_are_refused(void)
{
    static const int32_t pcm[4] = {32767, 32768, 32767, 0};
    flac_writer writer = writer_of(1, 16);
    flac_writer_begin(&writer, buffer, sizeof(buffer));
    (void)flac_writer_predicted_frame(&writer, pcm, 4, &fixed);
    size_t size = flac_writer_end(&writer);
    spsh__flac_shape shape = shape_of(buffer + 8);
    for (int form = 0; form < 2; form++) {
        spsh__flac_force_plain_c(form == 1);
        CHECK_U64(decode(buffer, size, FIRST_FRAME, &shape), FIRST_FRAME);
    }
    spsh__flac_force_plain_c(false);
}

/* As in libFLAC, a frame that holds only warm-up samples is rejected. */
static void test_an_order_of_the_whole_block_is_refused(void)
{
    static const int32_t pcm[2] = {5, 7};
    for (uint32_t samples = 1; samples <= 2; samples++) {
        flac_writer writer = writer_of(1, 16);
        flac_writer_begin(&writer, buffer, sizeof(buffer));
        (void)flac_writer_predicted_frame(&writer, pcm, samples, &fixed); /* order 1 */
        size_t size = flac_writer_end(&writer);
        spsh__flac_shape shape = shape_of(buffer + 8);
        for (int form = 0; form < 2; form++) {
            spsh__flac_force_plain_c(form == 1);
            CHECK_U64(decode(buffer, size, FIRST_FRAME, &shape), samples == 1 ? FIRST_FRAME : size);
            CHECK_U64(decoded.samples, samples == 1 ? 0 : samples);
        }
        spsh__flac_force_plain_c(false);
    }
}

static void test_other_shapes_are_refused(void)
{
    flac_writer writer = writer_of(2, 16);
    noise.samples = 40;
    flac_writer_begin(&writer, buffer, sizeof(buffer));
    (void)flac_writer_frame(&writer, noise.values, 20);
    size_t size = flac_writer_end(&writer);
    spsh__flac_shape good = shape_of(buffer + 8);
    spsh__flac_shape mono = good;
    spsh__flac_shape small = good;
    mono.channels = 1;
    small.block_samples_max = 19;
    CHECK_U64(decode(buffer, size, FIRST_FRAME, &good), size);
    CHECK_U64(decode(buffer, size, FIRST_FRAME, &mono), FIRST_FRAME);
    CHECK_U64(decode(buffer, size, FIRST_FRAME, &small), FIRST_FRAME);
}

/* ---- damage ---- */

static size_t small_stream(uint32_t channels)
{
    uint64_t state = 5;
    encoding how = {.level = 5, .block_samples = 64};
    noise.samples = 200;
    noise.channels = channels;
    noise.bits_per_sample = 16;
    make_signal(&noise, TONE, &state);
    return encode(&noise, &how);
}

/* Check that the decoded samples are the beginning of the signal. */
static void check_beginning(void)
{
    size_t different = 0;
    REQUIRE(decoded.samples <= noise.samples);
    for (size_t i = 0; i < (size_t)decoded.samples * noise.channels; i++)
        different += decoded.values[i] != noise.values[i];
    CHECK_U64(different, 0);
}

static void test_every_truncation_and_bit_flip(void)
{
    for (uint32_t channels = 1; channels <= 2; channels++) {
        size_t size = small_stream(channels);
        size_t first = first_frame_of(buffer);
        spsh__flac_shape shape = shape_of(buffer + 8);
        for (int form = 0; form < 2; form++) {
            spsh__flac_force_plain_c(form == 1);
            for (size_t cut = first; cut < size; cut++) {
                uint8_t *data = exact_copy(buffer, cut);
                (void)decode(data, cut, first, &shape);
                CHECK(decoded.samples < noise.samples);
                check_beginning();
                free(data);
            }
            for (size_t bit = first * 8; bit < size * 8; bit++) {
                uint8_t *data = exact_copy(buffer, size);
                data[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
                CHECK(decode(data, size, first, &shape) <= bit / 8);
                check_beginning();
                free(data);
            }
        }
        spsh__flac_force_plain_c(false);
    }
}

static void test_vector_crc_is_the_plain_one(void)
{
#if defined(__x86_64__)
    if (!spsh__flac_decode_is_fast())
        return;
    uint64_t state = test_seed(101);
    for (size_t i = 0; i < 400; i++)
        buffer[i] = (uint8_t)test_random(&state);
    for (size_t size = 11; size <= 400; size++) {
        uint8_t *data = exact_copy(buffer, size);
        CHECK_U64(spsh__flac_crc16_pclmul(data, size), spsh__flac_crc16(0, data, size));
        free(data);
    }
#endif
}

/* ---- the public decoder: falling back to libFLAC ---- */

/* Read in odd steps into out. Return the number of samples, and the final status. */
static uint64_t read_all(const uint8_t *data, size_t size, int16_t *out, spsh_status *ret_status)
{
    spsh_memory_source memory = {
        {data, size}
    };
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    uint64_t done = 0;
    uint64_t got = 1;
    *ret_status = spsh_decoder_open(&source, SPSH_CODEC_FLAC, NULL, &decoder, NULL);
    while (*ret_status == SPSH_OK && got > 0) {
        *ret_status = spsh_decoder_read_i16(decoder, out + done, 37, &got, NULL);
        done += *ret_status == SPSH_OK ? got : 0;
    }
    spsh_decoder_free(decoder);
    return done;
}

static void test_damage_ends_reads_alike(void)
{
    static int16_t with[SAMPLES_MAX];
    static int16_t without[SAMPLES_MAX];
    size_t size = small_stream(1);
    size_t first = first_frame_of(buffer);
    for (size_t byte = first; byte < size; byte++) {
        uint8_t *data = exact_copy(buffer, size);
        spsh_status status = SPSH_OK;
        spsh_status want_status = SPSH_OK;
        data[byte] ^= 0x10;
        uint64_t got = read_all(data, size, with, &status);
        spsh__flac_force_plain_c(true); /* then libFLAC decodes everything */
        uint64_t want = read_all(data, size, without, &want_status);
        spsh__flac_force_plain_c(false);
        CHECK_I64(status, want_status);
        CHECK_U64(got, want);
        CHECK(memcmp(with, without, (size_t)want * sizeof(with[0])) == 0);
        free(data);
    }
}

TEST_MAIN(unit_flac_decode)
{
    RUN(test_every_level_and_shape);
    RUN(test_orders_blocks_and_escapes);
    RUN(test_short_streams);
    RUN(test_verbatim_and_raw_residuals);
    RUN(test_samples_out_of_range_are_refused);
    RUN(test_an_order_of_the_whole_block_is_refused);
    RUN(test_other_shapes_are_refused);
    RUN(test_every_truncation_and_bit_flip);
    RUN(test_vector_crc_is_the_plain_one);
    RUN(test_damage_ends_reads_alike);
    return TEST_RESULT();
}

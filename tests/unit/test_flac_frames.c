/* test_flac_frames.c: the frame walker on files that are written bit by bit: every frame is found,
 * every damaged one is named, and an intact file that libFLAC gives up on is told from both. */
#include "flac_frames.h"
#include "flac_writer.h"
#include "speechshard/audio.h"
#include "spsh_test.h"

#define FIRST_FRAME 42
#define FRAMES      5
#define BLOCK       37

static uint8_t file[1 << 20];
static int32_t noise[1 << 16];

static void make_noise(void)
{
    uint64_t state = test_seed(20240611);
    for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
        noise[i] = (int32_t)(test_random(&state) % 65536) - 32768;
}

static flac_writer mono(void)
{
    return (flac_writer){.channels = 1, .bits_per_sample = 16, .sample_rate_hz = 16000};
}

/* FRAMES frames of BLOCK samples; their offsets, and the file's size behind them. */
static size_t write_file(flac_writer *writer, size_t offsets[FRAMES + 1])
{
    flac_writer_begin(writer, file, sizeof(file));
    for (uint32_t i = 0; i < FRAMES; i++)
        offsets[i] = flac_writer_frame(writer, noise + (size_t)i * BLOCK * writer->channels,
                                       writer->variable ? BLOCK - i : BLOCK);
    size_t size = flac_writer_end(writer);
    offsets[FRAMES] = size;
    return size;
}

/* Walks data; returns the number of frames and how the walk ended. */
static uint32_t walk(const uint8_t *data, size_t size, spsh_status *ret_status, spsh_error *err)
{
    spsh__flac_walker walker;
    spsh__flac_frame frame;
    uint32_t count = 0;
    spsh__flac_walk_begin(&walker, (spsh_bytes){data, size}, FIRST_FRAME, file + 8);
    for (;;) {
        *ret_status = spsh__flac_walk_next(&walker, &frame, err);
        if (*ret_status != SPSH_OK)
            return count;
        count++;
    }
}

static void test_every_frame_is_found(void)
{
    for (uint32_t channels = 1; channels <= 8; channels++) {
        for (int variable = 0; variable < 2; variable++) {
            flac_writer writer = mono();
            size_t offsets[FRAMES + 1];
            spsh__flac_walker walker;
            spsh__flac_frame frame;
            uint64_t sample = 0;
            writer.channels = channels;
            writer.variable = variable == 1;
            size_t size = write_file(&writer, offsets);
            spsh__flac_walk_begin(&walker, (spsh_bytes){file, size}, FIRST_FRAME, file + 8);
            for (uint32_t i = 0; i < FRAMES; i++) {
                REQUIRE(spsh__flac_walk_next(&walker, &frame, NULL) == SPSH_OK);
                CHECK_U64(frame.offset_bytes, offsets[i]);
                CHECK_U64(frame.size_bytes, offsets[i + 1] - offsets[i]);
                CHECK_U64(frame.sample, sample);
                CHECK_U64(frame.block_samples, writer.variable ? BLOCK - i : BLOCK);
                CHECK_U64(frame.number, writer.variable ? sample : i);
                CHECK_U64(frame.channels, channels);
                sample += frame.block_samples;
            }
            CHECK_I64(spsh__flac_walk_next(&walker, &frame, NULL), SPSH_E_END);
            CHECK_U64(walker.sample_count, writer.samples);
        }
    }
}

static void test_numbers_of_every_length(void)
{
    static const uint64_t numbers[] = {0,
                                       0x7f,
                                       0x80,
                                       0x7ff,
                                       0x800,
                                       0xffff,
                                       0x10000,
                                       0x1fffff,
                                       0x200000,
                                       0x3ffffff,
                                       0x4000000,
                                       0x7fffffff,
                                       UINT64_C(0x80000000),
                                       UINT64_C(0xffffffff0)};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        flac_writer writer = mono();
        size_t offsets[FRAMES + 1];
        spsh_status status = SPSH_OK;
        writer.first_number = numbers[i];
        writer.variable = numbers[i] > 0x7fffffff - FRAMES;
        if (numbers[i] > UINT64_C(0xfffffffff) - (uint64_t)FRAMES * BLOCK)
            writer.first_number -= (uint64_t)FRAMES * BLOCK;
        size_t size = write_file(&writer, offsets);
        CHECK_U64(walk(file, size, &status, NULL), FRAMES);
        CHECK_I64(status, SPSH_E_END);
    }
}

/* Sets a byte of a frame header and its CRC-8; the header must then be refused for what it says. */
static void test_reserved_values_are_refused(void)
{
    static const struct {
        size_t offset;
        uint8_t value;
    } rules[] = {
        {0, 0xfe},
        {1, 0xfa},
        {1, 0xf0},
        {2, 0x00},
        {2, 0x7f},
        {3, 0xb0},
        {3, 0xf0},
        {3, 0x06},
        {3, 0x01},
        {4, 0x80},
        {4, 0xbf},
        {4, 0xff},
    };
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    spsh__flac_frame frame;
    write_file(&writer, offsets);
    CHECK(spsh__flac_parse_frame((spsh_bytes){file + FIRST_FRAME, 16}, &frame));
    CHECK_U64(frame.header_bytes, 8);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        uint8_t header[16];
        memcpy(header, file + FIRST_FRAME, sizeof(header));
        header[rules[i].offset] = rules[i].value;
        bool is_refused = true;
        for (uint32_t crc = 0; crc < 256; crc++) { /* one of them is right */
            header[7] = (uint8_t)crc;
            is_refused = is_refused && !spsh__flac_parse_frame((spsh_bytes){header, 8}, &frame);
        }
        CHECK(is_refused);
    }
    for (size_t size = 0; size < 8; size++)
        CHECK(!spsh__flac_parse_frame((spsh_bytes){file + FIRST_FRAME, size}, &frame));
}

static void test_every_bit_flip_names_its_frame(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    size_t size = write_file(&writer, offsets);
    uint8_t *copy = (uint8_t *)malloc(size);
    REQUIRE(copy != NULL);
    for (size_t bit = 8 * (size_t)FIRST_FRAME; bit < size * 8; bit++) {
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status status = SPSH_OK;
        size_t place = 0;
        memcpy(copy, file, size);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        while (offsets[place + 1] <= bit / 8)
            place++;
        uint32_t count = walk(copy, size, &status, &err);
        CHECK_I64(status, SPSH_E_CORRUPT);
        /* Without its sync code a frame is a tail of the one before. */
        bool is_sync = bit / 8 == offsets[place] && place > 0;
        CHECK_U64(err.offset_bytes, offsets[is_sync ? place - 1 : place]);
        CHECK_U64(count, is_sync ? place - 1 : place);
    }
    free(copy);
}

static void test_every_truncation(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    size_t size = write_file(&writer, offsets);
    for (size_t cut = FIRST_FRAME; cut < size; cut++) {
        uint8_t *copy = (uint8_t *)malloc(cut);
        spsh_status status = SPSH_OK;
        size_t whole = 0;
        REQUIRE(copy != NULL);
        memcpy(copy, file, cut);
        while (offsets[whole + 1] <= cut)
            whole++;
        CHECK_U64(walk(copy, cut, &status, NULL), whole);
        CHECK_I64(status, offsets[whole] == cut ? SPSH_E_END : SPSH_E_CORRUPT);
        free(copy);
    }
}

static void test_missing_and_doubled_frames(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    size_t size = write_file(&writer, offsets);
    uint8_t *copy = (uint8_t *)malloc(2 * size);
    spsh_status status = SPSH_OK;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(copy != NULL);
    memcpy(copy, file, offsets[2]);
    memcpy(copy + offsets[2], file + offsets[3], size - offsets[3]);
    CHECK_U64(walk(copy, size - (offsets[3] - offsets[2]), &status, &err), 2);
    CHECK_I64(status, SPSH_E_CORRUPT);
    CHECK_U64(err.offset_bytes, offsets[2]);
    memcpy(copy, file, offsets[3]);
    memcpy(copy + offsets[3], file + offsets[2], size - offsets[2]);
    CHECK_U64(walk(copy, size + (offsets[3] - offsets[2]), &status, &err), 3);
    CHECK_I64(status, SPSH_E_CORRUPT);
    free(copy);
}

static void test_a_tag_behind_the_frames(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    size_t size = write_file(&writer, offsets);
    spsh_status status = SPSH_OK;
    memset(file + size, 0, 128);
    memcpy(file + size, "TAG", 3);
    CHECK_U64(walk(file, size + 128, &status, NULL), FRAMES);
    CHECK_I64(status, SPSH_E_END);
    CHECK_U64(walk(file, size + 127, &status, NULL), FRAMES - 1);
    CHECK_I64(status, SPSH_E_CORRUPT);
}

static spsh_decode_result decode(size_t size)
{
    spsh_decode_result result = {.samples = 0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_audio_decode_memory((spsh_bytes){file, size}, SPSH_CODEC_UNKNOWN, NULL,
                                              NULL, NULL, &result, &err);
    CHECK_I64(rc, SPSH_OK);
    return result;
}

/* The MD5 that STREAMINFO must state for one channel of int16. */
static void find_md5(const int32_t *pcm, uint32_t samples, uint8_t ret_md5[16])
{
    size_t capacity = spsh_flac_bound(samples, 1, 16);
    uint8_t *encoded = (uint8_t *)malloc(capacity);
    int16_t *values = (int16_t *)malloc(samples * sizeof(int16_t));
    size_t size = 0;
    REQUIRE(encoded != NULL && values != NULL);
    for (uint32_t i = 0; i < samples; i++)
        values[i] = (int16_t)(uint16_t)((uint32_t)pcm[i] & 0xffff);
    REQUIRE(spsh_flac_encode(values, SPSH_SAMPLE_I16, 16, samples, 1, 16000, encoded, capacity,
                             &size, NULL) == SPSH_OK);
    memcpy(ret_md5, encoded + 8 + 18, 16);
    free(values);
    free(encoded);
}

/* Samples that leave 16 bits by one, as old encoders wrote them for clipped audio. A decoder that
 * wraps gets the PCM that the MD5 is of; libFLAC refuses the frame. */
static void test_an_intact_file_beyond_the_decoder(void)
{
    enum { BLOCKS = 3, SAMPLES = 256 };
    int32_t pcm[BLOCKS * SAMPLES];
    flac_writer writer = mono();
    for (int bad = -1; bad < BLOCKS; bad++) {
        for (int i = 0; i < BLOCKS * SAMPLES; i++)
            pcm[i] = i % 64 < 32 ? 32767 : -32768;
        if (bad >= 0)
            pcm[bad * SAMPLES + 10] = 32768;
        for (int with_md5 = 0; with_md5 < 2; with_md5++) {
            memset(writer.md5, 0, sizeof(writer.md5));
            if (with_md5 == 1)
                find_md5(pcm, BLOCKS * SAMPLES, writer.md5);
            flac_writer_begin(&writer, file, sizeof(file));
            for (int i = 0; i < BLOCKS; i++)
                flac_writer_delta_frame(&writer, pcm + (ptrdiff_t)i * SAMPLES, SAMPLES);
            size_t size = flac_writer_end(&writer);
            spsh_decode_result result = decode(size);
            CHECK_I64(result.verdict, bad < 0 ? SPSH_DECODE_EXACT : SPSH_DECODE_DECODER_LIMIT);
            CHECK_U64(result.samples, BLOCKS * SAMPLES);
            CHECK((result.detail[0] == '\0') == (bad < 0));
            if (bad < 0)
                continue;
            /* The same file with one flipped bit is damaged, not beyond the decoder. */
            file[size - 20] ^= 4;
            CHECK_I64(decode(size).verdict, SPSH_DECODE_SHORT);
        }
    }
}

/* The end is not known, but it is found. */
static void check_seeks_without_count(size_t size)
{
    spsh_memory_source memory = {
        {file, size}
    };
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    int16_t pcm[10];
    uint64_t got = 0;
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_FLAC, NULL, &decoder, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_seek(decoder, FRAMES * BLOCK - 3, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i16(decoder, pcm, 10, &got, NULL) == SPSH_OK);
    CHECK_U64(got, 3);
    CHECK_I64(pcm[0], noise[FRAMES * BLOCK - 3]);
    REQUIRE(spsh_decoder_seek(decoder, 5, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i16(decoder, pcm, 10, &got, NULL) == SPSH_OK);
    CHECK_I64(pcm[9], noise[14]);
    spsh_status rc = spsh_decoder_seek(decoder, FRAMES * BLOCK + 1, NULL);
    if (rc == SPSH_OK)
        rc = spsh_decoder_read_i16(decoder, pcm, 10, &got, NULL);
    CHECK_I64(rc, SPSH_E_INVALID_ARG);
    spsh_decoder_free(decoder);
}

static void test_verdicts_without_count_and_md5(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    size_t size = write_file(&writer, offsets);
    CHECK_I64(decode(size).verdict, SPSH_DECODE_EXACT);
    CHECK_I64(decode(offsets[3]).verdict, SPSH_DECODE_SHORT);
    CHECK_I64(decode(size - 1).verdict, SPSH_DECODE_SHORT);
    writer.hides_count = true;
    size = write_file(&writer, offsets);
    spsh_decode_result result = decode(size);
    CHECK_I64(result.verdict, SPSH_DECODE_UNVERIFIED);
    CHECK_U64(result.samples, FRAMES * BLOCK);
    CHECK(result.info.samples == SPSH_SAMPLES_UNKNOWN);
    CHECK_I64(decode(size - 1).verdict, SPSH_DECODE_SHORT);
    check_seeks_without_count(size);
    file[offsets[2] + 12] ^= 1;
    CHECK_I64(decode(size).verdict, SPSH_DECODE_SHORT);
    file[offsets[2] + 12] ^= 1;
    memset(writer.md5, 1, sizeof(writer.md5));
    size = write_file(&writer, offsets);
    CHECK_I64(decode(size).verdict, SPSH_DECODE_MD5_MISMATCH);
    writer.hides_count = false;
    size = write_file(&writer, offsets);
    CHECK_I64(decode(size).verdict, SPSH_DECODE_MD5_MISMATCH);
    file[25]++; /* the count's low byte */
    CHECK_I64(decode(size).verdict, SPSH_DECODE_SHORT);
    file[25] = (uint8_t)(file[25] - 2);
    CHECK_I64(decode(size).verdict, SPSH_DECODE_LONG);
}

static void test_seek_points(void)
{
    flac_writer writer = mono();
    size_t offsets[FRAMES + 1];
    spsh_seek_point points[FRAMES];
    uint64_t count = 0;
    spsh_error err = SPSH_ERROR_INIT;
    size_t size = write_file(&writer, offsets);
    spsh_bytes bytes = {file, size};
    REQUIRE(spsh_audio_seek_points(bytes, SPSH_CODEC_FLAC, 1, points, FRAMES, &count, NULL) ==
            SPSH_OK);
    CHECK_U64(count, FRAMES);
    for (uint64_t i = 0; i < FRAMES; i++) {
        CHECK_U64(points[i].sample, i * BLOCK);
        CHECK_U64(points[i].offset_bytes, offsets[i]);
    }
    REQUIRE(spsh_audio_seek_points(bytes, SPSH_CODEC_UNKNOWN, BLOCK + 1, points, 2, &count, NULL) ==
            SPSH_OK);
    CHECK_U64(count, 3); /* more than there was room for: counted, not written */
    CHECK_U64(points[1].sample, 2 * BLOCK);
    REQUIRE(spsh_audio_seek_points(bytes, SPSH_CODEC_FLAC, 1000000, NULL, 0, &count, NULL) ==
            SPSH_OK);
    CHECK_U64(count, 1);
    file[offsets[3] + 20] ^= 0x10;
    CHECK_I64(spsh_audio_seek_points(bytes, SPSH_CODEC_FLAC, 1, points, FRAMES, &count, &err),
              SPSH_E_CORRUPT);
    CHECK_U64(err.offset_bytes, offsets[3]);
    CHECK_I64(spsh_audio_seek_points(bytes, SPSH_CODEC_MP3, 1, points, FRAMES, &count, NULL),
              SPSH_OK);
    CHECK_U64(count, 0);
}

int main(void)
{
    make_noise();
    RUN(test_every_frame_is_found);
    RUN(test_numbers_of_every_length);
    RUN(test_reserved_values_are_refused);
    RUN(test_every_bit_flip_names_its_frame);
    RUN(test_every_truncation);
    RUN(test_missing_and_doubled_frames);
    RUN(test_a_tag_behind_the_frames);
    RUN(test_an_intact_file_beyond_the_decoder);
    RUN(test_verdicts_without_count_and_md5);
    RUN(test_seek_points);
    return TEST_RESULT();
}

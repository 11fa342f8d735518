/* unit_flac_frames.c: the frame walker on files that are written bit by bit. It finds every frame
 * and names every damaged one. It recognizes an intact file that libFLAC gives up on. */
#include "audio/flac_frames.h"
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

/* Write FRAMES frames of BLOCK samples. offsets: their offsets, then the file size. */
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

/* Walk data. Return the number of frames, and the final status. */
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

/* Set a byte of a frame header and correct its CRC-8. The header must be rejected for the reserved
 * value. */
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
        for (uint32_t crc = 0; crc < 256; crc++) { /* one CRC is right */
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
        /* Without its sync code, a frame is a tail of the previous frame. */
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
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_audio_decode_memory((spsh_bytes){file, size}, SPSH_CODEC_UNKNOWN, NULL,
                                              NULL, NULL, &result, &err);
    CHECK_I64(rc, SPSH_OK);
    return result;
}

/* ---- samples that exceed their range ---- */

enum { WRAP_BLOCKS = 3, WRAP_BLOCK = 256, WRAP_SAMPLES = WRAP_BLOCKS * WRAP_BLOCK };

typedef struct wrap_case {
    uint32_t channels;
    uint32_t bits_per_sample;
    flac_prediction prediction;
} wrap_case;

/* Fixed and linear prediction, sums of 32 and of 64 bits, each stereo mode, 16 and 24 bits. */
static const wrap_case wrap_cases[] = {
    {1, 16, {0, 0, 0, {0}}                },
    {1, 8,  {0, 0, 0, {0}}                },
    {1, 16, {0, 2, 0, {2, -1}}            },
    {1, 16, {0, 4, 9, {800, -411, 97, 3}} },
    {2, 16, {0, 2, 10, {1900, -899}}      },
    {2, 16, {8, 0, 0, {0}}                },
    {2, 16, {9, 3, 10, {1500, -700, 201}} },
    {2, 16, {10, 3, 10, {1500, -700, 201}}},
    {1, 24, {0, 4, 9, {800, -411, 97, 3}} },
    {2, 24, {10, 2, 10, {1900, -899}}     },
};

/* Clipped audio that rounding has carried past full scale: interleaved, all channels differ. In the
 * block `bad` only, or in all of them if it is negative. */
static void make_clipped(const wrap_case *c, int bad, int32_t *pcm)
{
    const int32_t most = (int32_t)(1u << (c->bits_per_sample - 1)) - 1;
    for (int i = 0; i < WRAP_SAMPLES; i++) {
        for (uint32_t ch = 0; ch < c->channels; ch++) {
            int32_t *value = &pcm[(uint32_t)i * c->channels + ch];
            *value = i % 64 < 32 + (int)ch ? most - (int32_t)ch : -most - 1;
            if (bad < 0 || i / WRAP_BLOCK == bad)
                *value += i % 32 != 10 + (int)ch ? 0 : *value > 0 ? 2 : -2;
        }
    }
}

/* The low bits of the samples, as the decoder returns them. Returns their size. */
static size_t wrap(const wrap_case *c, const int32_t *pcm, void *ret_values)
{
    const size_t count = (size_t)WRAP_SAMPLES * c->channels;
    for (size_t i = 0; i < count; i++) {
        int32_t low = (int32_t)((uint32_t)pcm[i] << (32 - c->bits_per_sample));
        if (c->bits_per_sample > 16)
            ((int32_t *)ret_values)[i] = low;
        else
            ((int16_t *)ret_values)[i] = (int16_t)(low >> 16);
    }
    return count * (c->bits_per_sample > 16 ? sizeof(int32_t) : sizeof(int16_t));
}

/* The MD5 that STREAMINFO must state. */
static void find_md5(const wrap_case *c, const void *values, uint8_t ret_md5[16])
{
    size_t capacity = spsh_flac_bound(WRAP_SAMPLES, c->channels, c->bits_per_sample);
    uint8_t *encoded = (uint8_t *)malloc(capacity);
    size_t size = 0;
    REQUIRE(encoded != NULL);
    REQUIRE(spsh_flac_encode(values, c->bits_per_sample > 16 ? SPSH_SAMPLE_I32 : SPSH_SAMPLE_I16,
                             c->bits_per_sample, WRAP_SAMPLES, c->channels, 16000, encoded,
                             capacity, &size, NULL) == SPSH_OK);
    memcpy(ret_md5, encoded + 8 + 18, 16);
    free(encoded);
}

static size_t write_wrapped(const wrap_case *c, const int32_t *pcm, const uint8_t md5[16])
{
    flac_writer writer = mono();
    writer.channels = c->channels;
    writer.bits_per_sample = c->bits_per_sample;
    memcpy(writer.md5, md5, 16);
    flac_writer_begin(&writer, file, sizeof(file));
    for (size_t i = 0; i < WRAP_BLOCKS; i++)
        (void)flac_writer_predicted_frame(&writer, pcm + i * WRAP_BLOCK * c->channels, WRAP_BLOCK,
                                          &c->prediction);
    return flac_writer_end(&writer);
}

typedef struct pcm_check {
    const uint8_t *want;
    size_t size;
    size_t done;
} pcm_check;

static spsh_status check_pcm(void *user, const spsh_audio_info *info, const void *pcm,
                             uint64_t samples, spsh_error *err)
{
    pcm_check *check = (pcm_check *)user;
    size_t size = (size_t)samples * info->channels * (info->format == SPSH_SAMPLE_I16 ? 2 : 4);
    (void)err;
    REQUIRE(size <= check->size - check->done);
    CHECK(memcmp(pcm, check->want + check->done, size) == 0);
    check->done += size;
    return SPSH_OK;
}

static spsh_status read_file(void *user, uint64_t offset_bytes, void *dst, size_t size_bytes,
                             size_t *ret_bytes, spsh_error *err)
{
    const size_t size = *(const size_t *)user;
    (void)err;
    *ret_bytes = offset_bytes >= size               ? 0
                 : size_bytes < size - offset_bytes ? size_bytes
                                                    : size - (size_t)offset_bytes;
    memcpy(dst, file + offset_bytes, *ret_bytes);
    return SPSH_OK;
}

/* Reads in pieces from several places, of a source in memory and of another one. Returns the first
 * failure. */
static spsh_status read_wrapped(const wrap_case *c, size_t size, const uint8_t *want)
{
    static const uint64_t places[] = {0, 5, 300, 299, 700, 260, 0};
    const size_t sample_bytes = (c->bits_per_sample > 16 ? 4 : 2) * (size_t)c->channels;
    spsh_memory_source memory = {
        {file, size}
    };
    for (int is_memory = 0; is_memory < 2; is_memory++) {
        spsh_audio_source source = is_memory == 1 ? spsh_audio_source_memory(&memory)
                                                  : (spsh_audio_source){read_file, &size, size};
        spsh_decoder *decoder = NULL;
        REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_FLAC, NULL, &decoder, NULL) == SPSH_OK);
        spsh_status rc = SPSH_OK;
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && rc == SPSH_OK; i++) {
            uint64_t at = places[i];
            uint64_t got = 1;
            rc = spsh_decoder_seek(decoder, at, NULL);
            while (rc == SPSH_OK && got > 0) {
                int32_t pcm[100 * 2];
                rc = c->bits_per_sample > 16
                         ? spsh_decoder_read_i32(decoder, pcm, 100, &got, NULL)
                         : spsh_decoder_read_i16(decoder, (int16_t *)pcm, 100, &got, NULL);
                REQUIRE(rc != SPSH_OK || at + got <= WRAP_SAMPLES);
                if (rc == SPSH_OK)
                    CHECK(memcmp(pcm, want + at * sample_bytes, (size_t)got * sample_bytes) == 0);
                at += rc == SPSH_OK ? got : 0;
            }
            CHECK(rc != SPSH_OK || at == WRAP_SAMPLES);
        }
        spsh_decoder_free(decoder);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* libFLAC refuses these frames since 1.4. A stream is right if its wrapped samples have the MD5. */
static void test_samples_that_wrap(void)
{
    static const uint8_t other_md5[16] = {1};
    static const uint8_t no_md5[16] = {0};
    static int32_t pcm[WRAP_SAMPLES * 2];
    static int32_t values[WRAP_SAMPLES * 2];
    for (size_t n = 0; n < sizeof(wrap_cases) / sizeof(wrap_cases[0]); n++) {
        const wrap_case *c = &wrap_cases[n];
        for (int bad = -1; bad < WRAP_BLOCKS; bad++) {
            spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
            uint8_t md5[16];
            make_clipped(c, bad, pcm);
            pcm_check check = {(const uint8_t *)values, wrap(c, pcm, values), 0};
            find_md5(c, values, md5);
            size_t size = write_wrapped(c, pcm, md5);
            REQUIRE(spsh_audio_decode_memory((spsh_bytes){file, size}, SPSH_CODEC_UNKNOWN, NULL,
                                             check_pcm, &check, &result, NULL) == SPSH_OK);
            CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
            CHECK_U64(result.samples, WRAP_SAMPLES);
            CHECK_U64(check.done, check.size);
            CHECK_STR(result.detail, "");
            CHECK_I64(read_wrapped(c, size, check.want), SPSH_OK);
            /* The same file with one flipped bit is damaged. */
            file[size - 20] ^= 4;
            CHECK_I64(decode(size).verdict, SPSH_DECODE_SHORT);
            CHECK_I64(read_wrapped(c, size, check.want), SPSH_E_AUDIO);

            size = write_wrapped(c, pcm, other_md5);
            result = decode(size);
            CHECK_I64(result.verdict, SPSH_DECODE_DECODER_LIMIT);
            CHECK_U64(result.samples, WRAP_SAMPLES);
            CHECK(result.detail[0] != '\0');

            /* Without an MD5, the samples must not wrap. */
            size = write_wrapped(c, pcm, no_md5);
            result = decode(size);
            CHECK_I64(result.verdict, SPSH_DECODE_DECODER_LIMIT);
            CHECK_U64(result.samples, WRAP_SAMPLES);
            CHECK_I64(read_wrapped(c, size, check.want), SPSH_E_AUDIO);
            file[size - 20] ^= 4;
            CHECK_I64(decode(size).verdict, SPSH_DECODE_SHORT);
        }
    }
}

/* The end is unknown, but a search finds it. */
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
    CHECK_U64(count, 3); /* more than the capacity: counted, not written */
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

TEST_MAIN(unit_flac_frames)
{
    make_noise();
    RUN(test_every_frame_is_found);
    RUN(test_numbers_of_every_length);
    RUN(test_reserved_values_are_refused);
    RUN(test_every_bit_flip_names_its_frame);
    RUN(test_every_truncation);
    RUN(test_missing_and_doubled_frames);
    RUN(test_a_tag_behind_the_frames);
    RUN(test_samples_that_wrap);
    RUN(test_verdicts_without_count_and_md5);
    RUN(test_seek_points);
    return TEST_RESULT();
}

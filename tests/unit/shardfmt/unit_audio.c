/* unit_audio.c: WAV rules, rejected files, verdicts, conversions, seeks, and decoder failures. The
 * test uses files that it makes and the chirps of golden/audio (our own frequency sweeps of 0.2 to
 * 0.3 s). */
#include <math.h>

#include "audio/audio_internal.h"
#include "base/checksum.h"
#include "fault_alloc.h"
#include "speechshard/pcm.h"
#include "spsh_test.h"

#define FILE_MAX 65536

typedef struct test_file {
    uint8_t data[FILE_MAX];
    size_t size;
} test_file;

static test_file scratch;

static const struct {
    const char *name;
    spsh_codec codec;
    uint32_t rate_hz;
    uint32_t channels;
    uint64_t samples;
    spsh_decode_verdict verdict;
} chirps[] = {
    {"chirp.mp3",     SPSH_CODEC_MP3,    16000, 1, 4800,  SPSH_DECODE_EXACT     },
    {"chirp-id3.mp3", SPSH_CODEC_MP3,    16000, 1, 6336,  SPSH_DECODE_UNVERIFIED},
    {"chirp.ogg",     SPSH_CODEC_VORBIS, 16000, 2, 3200,  SPSH_DECODE_EXACT     },
    {"chirp.opus",    SPSH_CODEC_OPUS,   48000, 1, 14400, SPSH_DECODE_EXACT     },
    {"chirp.gsm",     SPSH_CODEC_GSM,    8000,  1, 2080,  SPSH_DECODE_EXACT     },
    {"chirp-gsm.wav", SPSH_CODEC_WAV,    8000,  1, 2240,  SPSH_DECODE_EXACT     },
};
#define CHIRP_COUNT (sizeof(chirps) / sizeof(chirps[0]))

static void load(const char *name, test_file *file)
{
    char relative[256];
    char path[4096];
    REQUIRE(snprintf(relative, sizeof(relative), "tests/golden/audio/%s", name) > 0);
    test_source_path(path, sizeof(path), relative);
    FILE *stream = fopen(path, "rb");
    REQUIRE(stream != NULL);
    file->size = fread(file->data, 1, FILE_MAX, stream);
    REQUIRE(file->size > 0 && file->size < FILE_MAX);
    (void)fclose(stream);
}

static void put(test_file *file, const void *bytes, size_t size)
{
    REQUIRE(file->size + size <= FILE_MAX);
    if (size > 0)
        memcpy(file->data + file->size, bytes, size);
    file->size += size;
}

static void put_u32(test_file *file, uint32_t value)
{
    uint8_t bytes[4];
    spsh__store_u32le(bytes, value);
    put(file, bytes, 4);
}

static void put_chunk(test_file *file, const char *id, const void *body, uint32_t size)
{
    static const uint8_t pad = 0;
    put(file, id, 4);
    put_u32(file, size);
    put(file, body, size);
    if (size % 2 == 1)
        put(file, &pad, 1);
}

typedef struct wav_format {
    uint16_t tag;
    uint16_t channels;
    uint32_t rate_hz;
    uint16_t bits;
} wav_format;

static void put_riff(test_file *file, wav_format format)
{
    uint8_t body[16];
    uint32_t block = format.channels * format.bits / 8u;
    file->size = 0;
    put(file, "RIFF\0\0\0\0WAVE", 12);
    spsh__store_u16le(body, format.tag);
    spsh__store_u16le(body + 2, format.channels);
    spsh__store_u32le(body + 4, format.rate_hz);
    spsh__store_u32le(body + 8, format.rate_hz * block);
    spsh__store_u16le(body + 12, (uint16_t)block);
    spsh__store_u16le(body + 14, format.bits);
    put_chunk(file, "fmt ", body, sizeof(body));
}

static void finish_riff(test_file *file)
{
    spsh__store_u32le(file->data + 4, (uint32_t)file->size - 8);
}

static void make_wav(test_file *file, wav_format format, const void *data, uint32_t size)
{
    put_riff(file, format);
    put_chunk(file, "data", data, size);
    finish_riff(file);
}

/* Collect PCM. Fail at the byte that exceeds the capacity. */
typedef struct collector {
    uint8_t *pcm;
    size_t capacity;
    size_t size;
} collector;

static spsh_status collect(void *user, const spsh_audio_info *info, const void *pcm,
                           uint64_t samples, spsh_error *err)
{
    collector *all = (collector *)user;
    size_t size = (size_t)samples * info->channels * spsh__sample_bytes(info->format);
    if (size > all->capacity - all->size)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "full");
    memcpy(all->pcm + all->size, pcm, size);
    all->size += size;
    return SPSH_OK;
}

static spsh_status decode(const test_file *file, spsh_decode_result *result, spsh_error *err)
{
    return spsh_audio_decode_memory((spsh_bytes){file->data, file->size}, SPSH_CODEC_UNKNOWN, NULL,
                                    NULL, NULL, result, err);
}

static spsh_status inspect(const test_file *file, spsh_codec codec, spsh_audio_info *info,
                           spsh_error *err)
{
    spsh_memory_source memory = {
        {file->data, file->size}
    };
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    return spsh_audio_inspect(&source, codec, info, err);
}

/* ---- WAV ---- */

static void test_every_sample_type(void)
{
    static const uint8_t bytes[8] = {0x00, 0x80, 0xff, 0x7f, 0x01, 0x02, 0x03, 0x04};
    static const float floats[2] = {-1.5f, 0.25f};
    static const double doubles[2] = {1.0 / 3, -0.0};
    static const struct {
        wav_format format;
        spsh_sample_format native;
        uint64_t samples;
        int32_t first; /* as bits */
        int32_t second;
    } cases[] = {
        {{1, 1, 8000, 8},  SPSH_SAMPLE_I16, 8, -32768,     0         },
        {{1, 1, 8000, 16}, SPSH_SAMPLE_I16, 4, -32768,     32767     },
        {{1, 1, 8000, 24}, SPSH_SAMPLE_I32, 2, -0x800000,  0x02017f00},
        {{1, 1, 8000, 32}, SPSH_SAMPLE_I32, 2, 0x7fff8000, 0x04030201},
        {{1, 2, 8000, 16}, SPSH_SAMPLE_I16, 2, -32768,     32767     },
        {{6, 1, 8000, 8},  SPSH_SAMPLE_I16, 8, -5504,      5504      },
        {{7, 1, 8000, 8},  SPSH_SAMPLE_I16, 8, -32124,     32124     },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        uint8_t pcm[64] = {0};
        collector all = {pcm, sizeof(pcm), 0};
        int32_t got[2];
        make_wav(&scratch, cases[i].format, bytes, sizeof(bytes));
        REQUIRE(spsh_audio_decode_memory((spsh_bytes){scratch.data, scratch.size},
                                         SPSH_CODEC_UNKNOWN, NULL, collect, &all, &result,
                                         NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
        CHECK_I64(result.info.format, cases[i].native);
        CHECK_U64(result.info.bits_per_sample, cases[i].format.bits);
        CHECK_U64(result.samples, cases[i].samples);
        for (size_t k = 0; k < 2; k++)
            got[k] = cases[i].native == SPSH_SAMPLE_I16 ? (int16_t)spsh__load_u16le(pcm + 2 * k)
                                                        : (int32_t)spsh__load_u32le(pcm + 4 * k);
        CHECK_I64(got[0], cases[i].first);
        CHECK_I64(got[1], cases[i].second);
    }
    for (int is_double = 0; is_double < 2; is_double++) {
        float pcm[2];
        collector all = {(uint8_t *)pcm, sizeof(pcm), 0};
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        make_wav(&scratch, (wav_format){3, 1, 16000, is_double == 1 ? 64 : 32},
                 is_double == 1 ? (const void *)doubles : (const void *)floats,
                 is_double == 1 ? 16 : 8);
        REQUIRE(spsh_audio_decode_memory((spsh_bytes){scratch.data, scratch.size}, SPSH_CODEC_WAV,
                                         NULL, collect, &all, &result, NULL) == SPSH_OK);
        CHECK_I64(result.info.format, SPSH_SAMPLE_F32);
        CHECK(pcm[0] == (is_double == 1 ? (float)(1.0 / 3) : -1.5f));
        CHECK(pcm[1] == (is_double == 1 ? -0.0f : 0.25f));
    }
}

/* Properties of G.711. Tests here and above check the ends and the middle by value. */
static void test_companding_laws(void)
{
    uint8_t codes[256];
    int16_t pcm[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    for (uint16_t tag = 6; tag <= 7; tag++) {
        collector all = {(uint8_t *)pcm, sizeof(pcm), 0};
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        make_wav(&scratch, (wav_format){tag, 1, 8000, 8}, codes, 256);
        REQUIRE(spsh_audio_decode_memory((spsh_bytes){scratch.data, scratch.size},
                                         SPSH_CODEC_UNKNOWN, NULL, collect, &all, &result,
                                         NULL) == SPSH_OK);
        for (int i = 0; i < 128; i++)
            CHECK_I64(pcm[i], -pcm[i + 128]);
        /* Codes rise with the magnitude: mu-law inverted, A-law with every second bit toggled. */
        int toggle = tag == 6 ? 0xd5 : 0xff;
        for (int i = 0; i < 127; i++)
            CHECK(pcm[i ^ toggle] < pcm[(i + 1) ^ toggle]);
    }
    CHECK_I64(pcm[0xff], 0);
    CHECK_I64(pcm[0xfe], 8);
}

static void test_pcm_hash_is_the_documented_one(void)
{
    static const int16_t pcm[8] = {0, 1, -1, 32767, -32768, 256, -256, 12345};
    static const uint8_t want[16] = {0x73, 0xa7, 0x44, 0x5b, 0x21, 0xa0, 0xc4, 0xd8,
                                     0xc7, 0x78, 0x62, 0x50, 0x62, 0xde, 0x1b, 0xdc};
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    uint8_t data[16];
    for (size_t i = 0; i < 8; i++)
        spsh__store_u16le(data + 2 * i, (uint16_t)pcm[i]);
    make_wav(&scratch, (wav_format){1, 2, 16000, 16}, data, sizeof(data));
    REQUIRE(decode(&scratch, &result, NULL) == SPSH_OK);
    CHECK(memcmp(result.pcm_hash, want, sizeof(want)) == 0); /* from xxhsum -H2 */
}

/* Stated sizes of the data chunk, and the outcome for each. The chunk holds 100 bytes. */
static void test_sizes_that_lie(void)
{
    static const struct {
        uint32_t stated;
        bool riff_is_right;
        bool chunk_follows; /* a LIST chunk follows the data */
        uint64_t claim;
        uint64_t samples;
        spsh_decode_verdict verdict;
        spsh_status inspected;
    } cases[] = {
        {100,        true,  false, 50,                   50, SPSH_DECODE_EXACT,      SPSH_OK         },
        {100,        true,  true,  50,                   50, SPSH_DECODE_EXACT,      SPSH_OK         },
        {99,         true,  false, 49,                   49, SPSH_DECODE_EXACT,      SPSH_OK         },
        {60,         true,  false, 30,                   30, SPSH_DECODE_EXACT,      SPSH_OK         },
        {102,        true,  false, 51,                   50, SPSH_DECODE_SHORT,      SPSH_E_TRUNCATED},
        {101,        true,  false, 50,                   50, SPSH_DECODE_EXACT,      SPSH_E_TRUNCATED},
        {1 << 30,    true,  false, 1 << 29,              50, SPSH_DECODE_SHORT,      SPSH_E_TRUNCATED},
        {UINT32_MAX, false, false, SPSH_SAMPLES_UNKNOWN, 50, SPSH_DECODE_UNVERIFIED, SPSH_OK         },
        {0x7ffff000, false, false, SPSH_SAMPLES_UNKNOWN, 50, SPSH_DECODE_UNVERIFIED, SPSH_OK         },
        {0,          false, false, SPSH_SAMPLES_UNKNOWN, 50, SPSH_DECODE_UNVERIFIED, SPSH_OK         },
    };
    uint8_t data[100];
    memset(data, 0xfe, sizeof(data));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_audio_info info;
        make_wav(&scratch, (wav_format){1, 1, 8000, 16}, data, sizeof(data));
        if (cases[i].chunk_follows)
            put_chunk(&scratch, "LIST", "odd", 3);
        finish_riff(&scratch);
        if (!cases[i].riff_is_right)
            spsh__store_u32le(scratch.data + 4, cases[i].stated);
        spsh__store_u32le(scratch.data + 40, cases[i].stated);
        CHECK_I64(inspect(&scratch, SPSH_CODEC_UNKNOWN, &info, NULL), cases[i].inspected);
        REQUIRE(decode(&scratch, &result, NULL) == SPSH_OK);
        CHECK_U64(result.info.samples, cases[i].claim);
        CHECK_U64(result.samples, cases[i].samples);
        CHECK_I64(result.verdict, cases[i].verdict);
    }
    /* An empty data chunk is empty, even if other chunks follow it. */
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    make_wav(&scratch, (wav_format){1, 1, 8000, 16}, data, 0);
    put_chunk(&scratch, "LIST", "info", 4);
    finish_riff(&scratch);
    REQUIRE(decode(&scratch, &result, NULL) == SPSH_OK);
    CHECK_U64(result.samples, 0);
    CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
}

static void test_chunk_order_and_rf64(void)
{
    static const uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t ds64[28] = {0};
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    put_riff(&scratch, (wav_format){1, 1, 8000, 16});
    put_chunk(&scratch, "junk", "abc", 3); /* odd: padded */
    put_chunk(&scratch, "data", data, 8);
    REQUIRE(decode(&scratch, &result, NULL) == SPSH_OK);
    CHECK_U64(result.samples, 4);

    scratch.size = 0;
    put(&scratch, "RIFF\0\0\0\0WAVE", 12);
    put_chunk(&scratch, "data", data, 8);
    CHECK_I64(decode(&scratch, &result, &err), SPSH_E_AUDIO);
    put_riff(&scratch, (wav_format){1, 1, 8000, 16});
    CHECK_I64(decode(&scratch, &result, &err), SPSH_E_TRUNCATED);

    spsh__store_u64le(ds64 + 8, 8);
    scratch.size = 0;
    put(&scratch, "RF64\xff\xff\xff\xffWAVE", 12);
    put_chunk(&scratch, "ds64", ds64, sizeof(ds64));
    test_file riff;
    make_wav(&riff, (wav_format){1, 1, 8000, 16}, data, 8);
    put(&scratch, riff.data + 12, riff.size - 12);
    put_chunk(&scratch, "LIST", "info", 4);
    memset(scratch.data + 12 + 36 + 24 + 4, 0xff, 4);
    REQUIRE(decode(&scratch, &result, NULL) == SPSH_OK);
    CHECK_U64(result.samples, 4);
    CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
}

static void test_bad_formats(void)
{
    static const struct {
        wav_format format;
        spsh_status want;
    } cases[] = {
        {{2, 1, 8000, 4},       SPSH_E_UNSUPPORTED},
        {{17, 1, 8000, 4},      SPSH_E_UNSUPPORTED},
        {{85, 1, 8000, 16},     SPSH_E_UNSUPPORTED},
        {{1, 0, 8000, 16},      SPSH_E_AUDIO      },
        {{1, 1, 0, 16},         SPSH_E_AUDIO      },
        {{1, 65, 8000, 16},     SPSH_E_LIMIT      },
        {{1, 1, 999, 16},       SPSH_E_LIMIT      },
        {{1, 1, 768001, 16},    SPSH_E_LIMIT      },
        {{1, 1, 8000, 0},       SPSH_E_UNSUPPORTED},
        {{1, 1, 8000, 64},      SPSH_E_UNSUPPORTED},
        {{3, 1, 8000, 16},      SPSH_E_UNSUPPORTED},
        {{6, 1, 8000, 16},      SPSH_E_UNSUPPORTED},
        {{49, 2, 8000, 0},      SPSH_E_AUDIO      },
        {{0xfffe, 1, 8000, 16}, SPSH_E_UNSUPPORTED},
    };
    uint8_t data[64] = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        make_wav(&scratch, cases[i].format, data, sizeof(data));
        CHECK_I64(decode(&scratch, &result, &err), cases[i].want);
        CHECK_I64(err.status, cases[i].want);
        CHECK(err.message[0] != '\0');
    }
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    make_wav(&scratch, (wav_format){1, 1, 8000, 16}, data, sizeof(data));
    scratch.data[32] = 3; /* blocks of 3 bytes */
    CHECK_I64(decode(&scratch, &result, NULL), SPSH_E_AUDIO);
}

/* ---- rejected files ---- */

static void test_refusals_say_what_was_found(void)
{
    static const struct {
        const char *bytes;
        size_t size;
        spsh_status status;
        const char *word;
    } cases[] = {
        {"FORM\0\0\0\0AIFF",                           12, SPSH_E_UNSUPPORTED, "AIFF"       },
        {".snd\0\0\0\x18",                             8,  SPSH_E_UNSUPPORTED, "AU"         },
        {"caff\0\1\0\0",                               8,  SPSH_E_UNSUPPORTED, "CAF"        },
        {"NIST_1A\n   1024\n",                         16, SPSH_E_UNSUPPORTED, "SPHERE"     },
        {"\0\0\0\x20"
         "ftypM4A ",                          12, SPSH_E_UNSUPPORTED, "MP4"        },
        {"\xff\xf1\x50\x80\x02\x1f",                   6,  SPSH_E_UNSUPPORTED, "AAC"        },
        {"\xff\xfd\x84\x04\0\0\0\0",                   8,  SPSH_E_UNSUPPORTED, "layer II"   },
        {"\xff\xfb\x04\x04\0\0\0\0",                   8,  SPSH_E_UNSUPPORTED, "free-format"},
        {"<!DOCTYPE html><html>",                      21, SPSH_E_AUDIO,       "HTML"       },
        {"\n <HTML>404</HTML>",                        18, SPSH_E_AUDIO,       "HTML"       },
        {"<?xml version='1.0'?><Error/>",              29, SPSH_E_AUDIO,       "XML"        },
        {"{\"error\": 1}",                             12, SPSH_E_AUDIO,       "JSON"       },
        {"404 not found",                              13, SPSH_E_AUDIO,       "text"       },
        {"version https://git-lfs.github.com/spec/v1", 42, SPSH_E_AUDIO,       "LFS"        },
        {"\x1f\x8b\x08\0\0\0",                         6,  SPSH_E_AUDIO,       "gzip"       },
        {"PK\3\4....",                                 8,  SPSH_E_AUDIO,       "zip"        },
        {"RIFF\x10\0\0\0AVI LIST",                     16, SPSH_E_AUDIO,       "not WAVE"   },
        {"\0\0\0\0\0\0\0\0",                           8,  SPSH_E_AUDIO,       "zero bytes" },
        {"\x80\x81\x82\x83",                           4,  SPSH_E_AUDIO,       "80 81 82"   },
        {"",                                           0,  SPSH_E_AUDIO,       "empty"      },
        {"fLaC",                                       4,  SPSH_E_TRUNCATED,   "STREAMINFO" },
        {"ID3\4\0\0\0\0\7\x7f....",                    14, SPSH_E_TRUNCATED,   "ID3"        },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_audio_info info;
        spsh_error err = SPSH_ERROR_INIT;
        scratch.size = 0;
        put(&scratch, cases[i].bytes, cases[i].size);
        CHECK_I64(decode(&scratch, &result, &err), cases[i].status);
        if (strstr(err.message, cases[i].word) == NULL)
            CHECK_STR(err.message, cases[i].word);
        CHECK_I64(inspect(&scratch, SPSH_CODEC_UNKNOWN, &info, NULL), cases[i].status);
    }
    scratch.size = 0;
    memset(scratch.data, 0, 1024);
    memcpy(scratch.data, "some/file.mp3", 13);
    memcpy(scratch.data + 257, "ustar", 5);
    scratch.size = 1024;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    CHECK_I64(decode(&scratch, &result, &err), SPSH_E_AUDIO);
    CHECK(strstr(err.message, "tar archive") != NULL);
}

static void test_names(void)
{
    static const struct {
        spsh_codec codec;
        const char *name;
    } names[] = {
        {SPSH_CODEC_WAV,    "wav"    },
        {SPSH_CODEC_FLAC,   "flac"   },
        {SPSH_CODEC_MP3,    "mp3"    },
        {SPSH_CODEC_VORBIS, "vorbis" },
        {SPSH_CODEC_OPUS,   "opus"   },
        {SPSH_CODEC_GSM,    "gsm"    },
        {SPSH_CODEC_PCM,    "pcm"    },
        {(spsh_codec)99,    "unknown"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK_STR(spsh_codec_name(names[i].codec), names[i].name);
    CHECK(strncmp(spsh_audio_versions(), "libsndfile-", 11) == 0);
    CHECK(strstr(spsh_audio_versions(), " libFLAC-1.") != NULL);
    CHECK(strstr(spsh_audio_versions(), " libsoxr-0.1") != NULL);
}

/* ---- chirps: every library codec ---- */

static spsh_codec sniff(const test_file *file, const char *name)
{
    return spsh_audio_sniff(file->data, file->size < 4096 ? file->size : 4096, name);
}

/* GSM is recognized by name: the caller passes the result of the sniffer. */
static spsh_status decode_as(const test_file *file, size_t size, spsh_codec codec,
                             spsh_decode_result *result)
{
    uint8_t *copy = (uint8_t *)malloc(size == 0 ? 1 : size); /* exact size, for the sanitizer */
    REQUIRE(copy != NULL);
    memcpy(copy, file->data, size);
    spsh_status rc =
        spsh_audio_decode_memory((spsh_bytes){copy, size}, codec, NULL, NULL, NULL, result, NULL);
    free(copy);
    return rc;
}

/* Field by field, because padding bytes are undefined. */
static bool same_info(const spsh_audio_info *a, const spsh_audio_info *b)
{
    return a->codec == b->codec && a->format == b->format &&
           a->sample_rate_hz == b->sample_rate_hz && a->nominal_rate_hz == b->nominal_rate_hz &&
           a->channels == b->channels && a->bits_per_sample == b->bits_per_sample &&
           a->samples == b->samples && a->has_md5 == b->has_md5 &&
           memcmp(a->md5, b->md5, sizeof(a->md5)) == 0;
}

static void test_chirps(void)
{
    for (size_t i = 0; i < CHIRP_COUNT; i++) {
        test_file file;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_audio_info info;
        load(chirps[i].name, &file);
        CHECK_I64(sniff(&file, chirps[i].name), chirps[i].codec);
        REQUIRE(decode_as(&file, file.size, chirps[i].codec, &result) == SPSH_OK);
        CHECK_I64(result.verdict, chirps[i].verdict);
        CHECK_U64(result.samples, chirps[i].samples);
        CHECK_U64(result.info.sample_rate_hz, chirps[i].rate_hz);
        CHECK_U64(result.info.channels, chirps[i].channels);
        CHECK_I64(result.info.format, SPSH_SAMPLE_I16);
        CHECK_U64(result.info.bits_per_sample, 0);
        REQUIRE(inspect(&file, chirps[i].codec, &info, NULL) == SPSH_OK);
        CHECK(same_info(&info, &result.info));
    }
    test_file opus;
    spsh_audio_info info;
    load("chirp.opus", &opus);
    REQUIRE(inspect(&opus, SPSH_CODEC_OPUS, &info, NULL) == SPSH_OK);
    CHECK_U64(info.nominal_rate_hz, 16000);
    /* A codec other than the codec of the file. */
    CHECK_I64(inspect(&opus, SPSH_CODEC_VORBIS, &info, NULL), SPSH_E_AUDIO);
    CHECK_I64(inspect(&opus, SPSH_CODEC_FLAC, &info, NULL), SPSH_E_AUDIO);
    CHECK_I64(inspect(&opus, SPSH_CODEC_WAV, &info, NULL), SPSH_E_AUDIO);
    CHECK_I64(inspect(&opus, SPSH_CODEC_MP3, &info, NULL), SPSH_E_AUDIO);
    CHECK_I64(inspect(&opus, SPSH_CODEC_GSM, &info, NULL), SPSH_E_AUDIO);
    CHECK_I64(inspect(&opus, (spsh_codec)9, &info, NULL), SPSH_E_INVALID_ARG);
}

/* The rate in an Opus head is for information only: samples must not depend on it. */
static void test_opus_does_not_depend_on_the_stated_rate(void)
{
    test_file file;
    spsh_decode_result first = SPSH_DECODE_RESULT_INIT;
    load("chirp.opus", &file);
    REQUIRE(decode(&file, &first, NULL) == SPSH_OK);
    static const uint32_t rates[] = {0, 8000, 44100, 48000, 192000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh__store_u32le(file.data + 28 + 12, rates[i]);
        spsh__ogg_store_crc(file.data, 47);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK(memcmp(result.pcm_hash, first.pcm_hash, 16) == 0);
        CHECK_U64(result.info.nominal_rate_hz, rates[i] == 0 ? 48000 : rates[i]);
    }
}

/* Page number of an Ogg file: its offset and size. */
static size_t find_page(const test_file *file, uint32_t number, size_t *ret_size)
{
    size_t at = 0;
    for (;; number--) {
        size_t size = 27 + (size_t)file->data[at + 26];
        for (size_t i = 0; i < file->data[at + 26]; i++)
            size += file->data[at + 27 + i];
        *ret_size = size;
        if (number == 0)
            return at;
        at += size;
    }
}

/* Return the offset of the last page. */
static size_t find_last_page(const test_file *file)
{
    size_t size = 0;
    uint32_t number = 0;
    size_t at = 0;
    while (at + size < file->size)
        at = find_page(file, number++, &size);
    return at;
}

/* A recording browser does not set the end-of-stream flag. Whole pages and a complete last packet
 * make a whole recording, with the same samples. Anything less is cut. */
static void test_ogg_without_an_end_flag(void)
{
    static const char *const names[] = {"chirp.opus", "chirp.ogg"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        test_file file;
        spsh_decode_result whole = SPSH_DECODE_RESULT_INIT, result = SPSH_DECODE_RESULT_INIT;
        spsh_audio_info info;
        char place[32];
        load(names[i], &file);
        REQUIRE(decode(&file, &whole, NULL) == SPSH_OK);
        const size_t at = find_last_page(&file);
        (void)snprintf(place, sizeof(place), " at byte %zu", at);
        CHECK_U64(file.data[at + 5], 4);
        file.data[at + 5] = 0;
        spsh__ogg_store_crc(file.data + at, file.size - at);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_NO_END_FLAG);
        CHECK_U64(result.samples, whole.samples);
        CHECK(memcmp(result.pcm_hash, whole.pcm_hash, 16) == 0);
        CHECK_I64(inspect(&file, SPSH_CODEC_UNKNOWN, &info, NULL), SPSH_OK);
        CHECK_U64(info.samples, whole.samples);

        /* The message names a cut page by its offset. */
        file.size--;
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        CHECK(strstr(result.detail, place) != NULL);
        CHECK_I64(inspect(&file, SPSH_CODEC_UNKNOWN, &info, NULL), SPSH_E_TRUNCATED);
        file.size++;

        /* The last packet continues on a missing page. */
        const size_t last = at + 26 + file.data[at + 26];
        REQUIRE(file.size + 255 - file.data[last] <= FILE_MAX);
        memset(file.data + file.size, 0, 255u - file.data[last]);
        file.size += 255u - file.data[last];
        file.data[last] = 255;
        spsh__ogg_store_crc(file.data + at, file.size - at);
        (void)snprintf(place, sizeof(place), " at byte %zu", file.size);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        CHECK(strstr(result.detail, place) != NULL);
        CHECK_I64(inspect(&file, SPSH_CODEC_UNKNOWN, &info, NULL), SPSH_E_TRUNCATED);

        /* Headers without audio. */
        file.size = at;
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
    }
}

/* If libvorbis rejects a header inside libsndfile, libsndfile leaks memory. So the decoder checks
 * the headers with libvorbis before it calls libsndfile. */
static void test_vorbis_headers(void)
{
    static const struct {
        const char *after; /* the test changes a byte after this string */
        size_t distance;
        const char *want;
    } changes[] = {
        {"\x01vorbis", 21, "header 1"}, /* block sizes */
        {"\x03vorbis", 0,  "header 2"}, /* length of the vendor's name */
        {"\x05vorbis", 1,  "header 3"}, /* the first codebook's magic */
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        test_file file;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        size_t size = 0;
        load("chirp.ogg", &file);
        uint8_t *found = memmem(file.data, file.size, changes[i].after, 7);
        REQUIRE(found != NULL);
        found[7 + changes[i].distance] ^= 0xff;
        for (uint32_t page = 0; page < 2; page++) {
            size_t at = find_page(&file, page, &size);
            spsh__ogg_store_crc(file.data + at, size);
        }
        CHECK_I64(decode(&file, &result, &err), SPSH_E_AUDIO);
        CHECK(strstr(err.message, changes[i].want) != NULL);
    }
}

static void put_page(test_file *file, uint32_t sequence, const uint8_t *body, const uint8_t *lacing,
                     uint8_t lacing_count)
{
    uint8_t head[27] = "OggS";
    const size_t at = file->size;
    size_t body_bytes = 0;
    for (uint8_t i = 0; i < lacing_count; i++)
        body_bytes += lacing[i];
    head[18] = (uint8_t)sequence;
    head[26] = lacing_count;
    put(file, head, sizeof(head));
    put(file, lacing, lacing_count);
    put(file, body, body_bytes);
    spsh__ogg_store_crc(file->data + at, file->size - at);
}

/* A page of Opus with a position in samples. */
static void put_opus_page(test_file *file, uint8_t flags, uint64_t position, spsh_bytes body,
                          spsh_bytes lacing)
{
    const size_t at = file->size;
    const uint8_t sequence = at == 0 ? 0 : (uint8_t)(file->data[find_last_page(file) + 18] + 1);
    put_page(file, sequence, body.data, lacing.data, (uint8_t)lacing.size_bytes);
    file->data[at + 5] = flags;
    spsh__store_u64le(file->data + at + 6, position);
    spsh__ogg_store_crc(file->data + at, file->size - at);
}

/* Copy the heads of chirp.opus, and get its 16 packets of 960 samples. */
static void begin_opus(test_file *file, spsh_bytes *ret_body, spsh_bytes *ret_lacing)
{
    static test_file chirp;
    load("chirp.opus", &chirp);
    const size_t at = find_last_page(&chirp);
    file->size = 0;
    put_opus_page(file, 2, 0, (spsh_bytes){chirp.data + 28, 19}, (spsh_bytes){chirp.data + 27, 1});
    put_opus_page(file, 0, 0, (spsh_bytes){chirp.data + 75, 46}, (spsh_bytes){chirp.data + 74, 1});
    *ret_lacing = (spsh_bytes){chirp.data + at + 27, 16};
    *ret_body = (spsh_bytes){chirp.data + at + 43, chirp.size - at - 43};
    CHECK_U64(chirp.data[at + 26], 16);
}

/* chirp.opus in four pages: the first one ends in a packet, which is padded for that. late, gap:
 * samples that the first position, and the last one, count in addition. */
static void make_opus_pages(test_file *file, uint64_t begin, uint64_t late, uint64_t gap)
{
    spsh_bytes body = {NULL, 0};
    spsh_bytes lacing = {NULL, 0};
    uint8_t padded[400] = {0};
    uint8_t other[16];
    begin_opus(file, &body, &lacing);
    const size_t first = lacing.data[0];
    padded[0] = body.data[0] | 3; /* one frame, and 254 + 40 bytes of padding */
    memcpy(padded + 1, (const uint8_t[]){0x41, 255, 40}, 3);
    memcpy(padded + 4, body.data + 1, first - 1);
    const size_t rest = 4 + first - 1 + 254 + 40 - 255;
    size_t half = 0;
    for (size_t i = 1; i < 8; i++)
        half += lacing.data[i];
    REQUIRE((body.data[0] & 3) == 0 && rest < sizeof(padded) - 255);
    put_opus_page(file, 0, UINT64_MAX, (spsh_bytes){padded, 255},
                  (spsh_bytes){(const uint8_t[]){255}, 1});
    static uint8_t second[2048];
    memcpy(second, padded + 255, rest);
    memcpy(second + rest, body.data + first, half);
    other[0] = (uint8_t)rest;
    memcpy(other + 1, lacing.data + 1, 7);
    put_opus_page(file, 1, begin + late + 8 * UINT64_C(960), (spsh_bytes){second, rest + half},
                  (spsh_bytes){other, 8});
    size_t third = first + half;
    for (size_t i = 8; i < 12; i++)
        third += lacing.data[i];
    put_opus_page(file, 0, begin + 12 * UINT64_C(960),
                  (spsh_bytes){body.data + first + half, third - first - half},
                  (spsh_bytes){lacing.data + 8, 4});
    put_opus_page(file, 4, begin + 14712 + gap,
                  (spsh_bytes){body.data + third, body.size_bytes - third},
                  (spsh_bytes){lacing.data + 12, 4});
}

/* Streams that were cut out of longer ones do not begin at position 0. The samples are the same, and
 * the pre-skip is skipped. The first position may be too late, and the last one, too, if that is less
 * than a packet. */
static void test_opus_that_begins_late(void)
{
    static const uint64_t begins[] = {0, 1, 311, 312, 960, UINT64_C(1) << 40};
    static test_file file;
    spsh_decode_result whole = SPSH_DECODE_RESULT_INIT, result = SPSH_DECODE_RESULT_INIT;
    spsh_audio_info info;
    spsh_bytes body = {NULL, 0};
    spsh_bytes lacing = {NULL, 0};
    load("chirp.opus", &file);
    REQUIRE(decode(&file, &whole, NULL) == SPSH_OK);
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        make_opus_pages(&file, begins[i], 489 * (i % 2), 0);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
        CHECK_U64(result.samples, whole.samples);
        CHECK(memcmp(result.pcm_hash, whole.pcm_hash, 16) == 0);
        file.data[find_last_page(&file) + 5] = 0;
        const size_t last = find_last_page(&file);
        spsh__ogg_store_crc(file.data + last, file.size - last);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_NO_END_FLAG);
        CHECK(memcmp(result.pcm_hash, whole.pcm_hash, 16) == 0);
        REQUIRE(inspect(&file, SPSH_CODEC_OPUS, &info, NULL) == SPSH_OK);
        CHECK_U64(info.samples, whole.samples);

        file.size--;
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        make_opus_pages(&file, begins[i], 0, 648 + 960); /* a packet is missing */
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        make_opus_pages(&file, begins[i], 0, 648 + 959); /* no packet is missing */
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
        CHECK_U64(result.samples, 15360 - 312);
    }
    /* One page with audio, which does not trim its last packet. */
    for (size_t i = 0; i < 2 * sizeof(begins) / sizeof(begins[0]); i++) {
        const bool has_flag = i % 2 == 0;
        begin_opus(&file, &body, &lacing);
        put_opus_page(&file, has_flag ? 4 : 0, begins[i / 2] + 15360, body, lacing);
        REQUIRE(decode(&file, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, has_flag ? SPSH_DECODE_EXACT : SPSH_DECODE_NO_END_FLAG);
        CHECK_U64(result.samples, 15360 - 312);
        if (i == 0)
            whole = result;
        CHECK(memcmp(result.pcm_hash, whole.pcm_hash, 16) == 0);
    }
}

/* The length of the tags, and the positions of page ends, do not change the samples. */
static void test_vorbis_with_long_comments(void)
{
    enum { COMMENT_BYTES = 20000, PAGE_SEGMENTS = 20 };
    static test_file file, other;
    static uint8_t packets[COMMENT_BYTES + 8000];
    uint8_t lacing[200];
    spsh_decode_result want = SPSH_DECODE_RESULT_INIT;
    spsh_decode_result got = SPSH_DECODE_RESULT_INIT;
    size_t size = 0;
    load("chirp.ogg", &file);
    REQUIRE(decode(&file, &want, NULL) == SPSH_OK);
    const size_t second = find_page(&file, 1, &size);
    const size_t audio = second + size;
    const uint8_t *setup = memmem(file.data, file.size, "\x05vorbis", 7);
    REQUIRE(setup != NULL);
    const size_t setup_bytes = (size_t)(file.data + audio - setup);
    const size_t comments_bytes = 19 + COMMENT_BYTES + 1;
    memcpy(packets, "\x03vorbis\0\0\0\0\1\0\0\0", 15);
    spsh__store_u32le(packets + 15, COMMENT_BYTES);
    memset(packets + 19, 'A', COMMENT_BYTES);
    packets[comments_bytes - 1] = 1;
    memcpy(packets + comments_bytes, setup, setup_bytes);
    size_t segments = 0;
    for (size_t left = comments_bytes; left >= 255; left -= 255)
        lacing[segments++] = 255;
    lacing[segments++] = (uint8_t)(comments_bytes % 255);
    for (size_t left = setup_bytes; left >= 255; left -= 255)
        lacing[segments++] = 255;
    lacing[segments++] = (uint8_t)(setup_bytes % 255);
    other.size = 0;
    put(&other, file.data, second);
    uint32_t sequence = 1;
    const uint8_t *body = packets;
    for (size_t at = 0; at < segments; at += PAGE_SEGMENTS) {
        const size_t now = segments - at < PAGE_SEGMENTS ? segments - at : PAGE_SEGMENTS;
        put_page(&other, sequence++, body, lacing + at, (uint8_t)now);
        for (size_t i = 0; i < now; i++)
            body += lacing[at + i];
    }
    size = 0;
    for (size_t at = audio; at < file.size; at += size, sequence++) {
        const uint32_t page = file.data[at + 18];
        REQUIRE(find_page(&file, page, &size) == at);
        const size_t to = other.size;
        put(&other, file.data + at, size);
        other.data[to + 18] = (uint8_t)sequence;
        spsh__ogg_store_crc(other.data + to, size);
    }
    REQUIRE(decode(&other, &got, NULL) == SPSH_OK);
    CHECK_I64(got.verdict, SPSH_DECODE_EXACT);
    CHECK_U64(got.samples, want.samples);
    CHECK(memcmp(got.pcm_hash, want.pcm_hash, 16) == 0);
}

enum { REOPEN_SAMPLES = 16000 };

static spsh_status read_first(spsh_decoder *decoder, int16_t *pcm, uint64_t *ret_samples)
{
    *ret_samples = 0;
    memset(pcm, 0, 2 * REOPEN_SAMPLES * sizeof(*pcm));
    return spsh_decoder_read_i16(decoder, pcm, REOPEN_SAMPLES, ret_samples, NULL);
}

/* A chirp by its name, or a codec that we write. */
static spsh_codec make_any(const char *name, test_file *file)
{
    static int16_t tone[2 * 9000];
    for (int k = 0; k < 2 * 9000; k++)
        tone[k] = (int16_t)(k * (k % 997) % 3001 - 1500);
    file->size = FILE_MAX;
    if (strcmp(name, "pcm") == 0) {
        REQUIRE(spsh_pcm_encode(tone, 9000, 2, file->data, FILE_MAX, &file->size, NULL) == SPSH_OK);
        return SPSH_CODEC_PCM;
    }
    if (strncmp(name, "flac", 4) == 0) {
        REQUIRE(spsh_flac_encode(tone, SPSH_SAMPLE_I16, 16, 9000, strcmp(name, "flac") == 0 ? 1 : 2,
                                 16000, file->data, FILE_MAX, &file->size, NULL) == SPSH_OK);
        return SPSH_CODEC_FLAC;
    }
    if (strcmp(name, "wav") == 0)
        make_wav(file, (wav_format){.tag = 1, .channels = 2, .rate_hz = 16000, .bits = 16}, tone,
                 16000);
    else
        load(name, file);
    return strcmp(name, "chirp.gsm") == 0 ? SPSH_CODEC_GSM : SPSH_CODEC_UNKNOWN;
}

/* A decoder that is opened, or opened again, gives the same results as a new one. */
static void check_like_new(spsh_decoder **decoder, spsh_bytes file, spsh_codec codec)
{
    static int16_t want[2 * REOPEN_SAMPLES], got[2 * REOPEN_SAMPLES];
    spsh_memory_source memory = {file};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decoder *fresh = NULL;
    uint64_t want_samples = 0, got_samples = 0;
    opt.sample_rate_hz = 16000;
    const spsh_status want_rc = spsh_decoder_open(&source, codec, &opt, &fresh, NULL);
    const spsh_status rc = *decoder == NULL
                               ? spsh_decoder_open(&source, codec, &opt, decoder, NULL)
                               : spsh_decoder_reopen(*decoder, &source, codec, &opt, NULL);
    CHECK_I64(rc, want_rc);
    if (rc == SPSH_OK) {
        CHECK(same_info(spsh_decoder_info(fresh), spsh_decoder_info(*decoder)));
        CHECK_I64(read_first(*decoder, got, &got_samples), read_first(fresh, want, &want_samples));
        CHECK_U64(got_samples, want_samples);
        CHECK(memcmp(got, want, sizeof(got)) == 0);
    } else if (*decoder != NULL) {
        CHECK_I64(read_first(*decoder, got, &got_samples), SPSH_E_INVALID_ARG);
        CHECK_I64(spsh_decoder_seek(*decoder, 0, NULL), SPSH_E_INVALID_ARG);
    }
    spsh_decoder_free(fresh);
}

static void test_one_decoder_for_many_files(void)
{
    static const char *const names[] = {"chirp.mp3", "chirp-id3.mp3", "chirp.ogg", "chirp.opus",
                                        "chirp.gsm", "chirp-gsm.wav", "pcm",       "wav",
                                        "flac",      "flac stereo"};
    static test_file file;
    uint64_t random = test_seed(20261121);
    spsh_decoder *decoder = NULL;
    for (int round = 0; round < 300; round++) {
        const char *name = names[test_random(&random) % (sizeof(names) / sizeof(names[0]))];
        const spsh_codec codec = make_any(name, &file);
        const size_t cut = (size_t)(test_random(&random) % file.size);
        if (test_random(&random) % 4 == 0)
            file.size = cut;
        check_like_new(&decoder, (spsh_bytes){file.data, file.size}, codec);
    }
    spsh_decoder_free(decoder);
    CHECK_I64(spsh_decoder_reopen(NULL, NULL, SPSH_CODEC_FLAC, NULL, NULL), SPSH_E_INVALID_ARG);
}

static void test_opening_again_allocates_nothing(void)
{
    static const char *const names[] = {"flac", "flac stereo", "pcm", "wav", "chirp.mp3"};
    static int16_t pcm[2 * REOPEN_SAMPLES];
    static test_file file;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const spsh_codec codec = make_any(names[i], &file);
        spsh_memory_source memory = {
            {file.data, file.size}
        };
        const spsh_audio_source source = spsh_audio_source_memory(&memory);
        fault_alloc fault = {.fail_at = UINT64_MAX};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
        spsh_decoder *decoder = NULL;
        uint64_t got = 0;
        opt.allocator = &allocator;
        opt.sample_rate_hz = 16000;
        REQUIRE(spsh_decoder_open(&source, codec, &opt, &decoder, NULL) == SPSH_OK);
        const uint64_t calls = fault.call_count;
        for (int again = 0; again < 3; again++) {
            REQUIRE(read_first(decoder, pcm, &got) == SPSH_OK);
            REQUIRE(spsh_decoder_reopen(decoder, &source, codec, &opt, NULL) == SPSH_OK);
        }
        CHECK_U64(fault.call_count, calls);
        spsh_decoder_free(decoder);
        CHECK_I64(fault.live_count, 0);
    }
}

static void test_every_truncation_of_every_codec(void)
{
    for (size_t i = 0; i < CHIRP_COUNT; i++) {
        test_file file;
        load(chirps[i].name, &file);
        for (size_t size = 0; size < file.size; size++) {
            spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
            spsh_status rc = decode_as(&file, size, chirps[i].codec, &result);
            CHECK(rc == SPSH_OK || rc == SPSH_E_AUDIO || rc == SPSH_E_TRUNCATED);
            if (rc != SPSH_OK)
                continue;
            CHECK(result.samples <= chirps[i].samples);
            /* GSM, and MP3 without a frame count, give no sign of missing frames if the file ends
             * at a frame boundary. */
            bool is_whole_frames = chirps[i].verdict == SPSH_DECODE_UNVERIFIED ||
                                   (chirps[i].codec == SPSH_CODEC_GSM && size % 33 == 0) ||
                                   (chirps[i].codec == SPSH_CODEC_WAV && size >= 515);
            if (!is_whole_frames)
                CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        }
    }
}

static void test_every_bit_flip_of_every_codec(void)
{
    for (size_t i = 0; i < CHIRP_COUNT; i++) {
        test_file file;
        spsh_decode_result whole = SPSH_DECODE_RESULT_INIT;
        load(chirps[i].name, &file);
        REQUIRE(decode_as(&file, file.size, chirps[i].codec, &whole) == SPSH_OK);
        bool is_ogg = chirps[i].codec == SPSH_CODEC_OPUS || chirps[i].codec == SPSH_CODEC_VORBIS;
        for (size_t bit = 0; bit < file.size * 8; bit += is_ogg ? 1 : 3) {
            spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
            file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            spsh_status rc = decode_as(&file, file.size, SPSH_CODEC_UNKNOWN, &result);
            file.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            /* Each page has a CRC: any damage is an error or a short result. */
            if (is_ogg && rc == SPSH_OK)
                CHECK_I64(result.verdict, SPSH_DECODE_SHORT);
        }
    }
}

/* ---- FLAC ---- */

static void fill_random(uint8_t *bytes, size_t size, uint64_t *state)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)test_random(state);
}

static void test_flac_round_trips(void)
{
    static const struct {
        spsh_sample_format format;
        uint32_t bits;
        uint32_t channels;
        uint64_t samples;
    } cases[] = {
        {SPSH_SAMPLE_I16, 16, 1, 5000},
        {SPSH_SAMPLE_I16, 16, 2, 4096},
        {SPSH_SAMPLE_I16, 8,  1, 1000},
        {SPSH_SAMPLE_I16, 12, 3, 100 },
        {SPSH_SAMPLE_I32, 24, 1, 4097},
        {SPSH_SAMPLE_I32, 20, 2, 600 },
        {SPSH_SAMPLE_I16, 16, 8, 512 },
        {SPSH_SAMPLE_I16, 16, 1, 1   },
        {SPSH_SAMPLE_I16, 16, 1, 0   },
    };
    uint64_t state = test_seed(7);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t channels = cases[i].channels;
        size_t count = (size_t)cases[i].samples * channels;
        size_t sample_bytes = spsh__sample_bytes(cases[i].format);
        size_t capacity = spsh_flac_bound(cases[i].samples, channels, cases[i].bits);
        uint8_t *pcm = (uint8_t *)calloc(1, count * sample_bytes + 1);
        uint8_t *back = (uint8_t *)malloc(count * sample_bytes + 1);
        uint8_t *encoded = (uint8_t *)malloc(capacity);
        uint8_t *again = (uint8_t *)malloc(capacity);
        size_t size = 0;
        size_t size_again = 0;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        REQUIRE(pcm != NULL && back != NULL && encoded != NULL && again != NULL);
        fill_random(pcm, count * sample_bytes, &state); /* noise: verbatim, the largest frame */
        uint32_t unused = (uint32_t)(8 * sample_bytes) - cases[i].bits;
        for (size_t k = 0; k < count && cases[i].format == SPSH_SAMPLE_I16; k++)
            spsh__store_u16le(pcm + 2 * k,
                              (uint16_t)(spsh__load_u16le(pcm + 2 * k) >> unused << unused));
        for (size_t k = 0; k < count && cases[i].format == SPSH_SAMPLE_I32; k++)
            spsh__store_u32le(pcm + 4 * k, spsh__load_u32le(pcm + 4 * k) >> unused << unused);
        REQUIRE(spsh_flac_encode(pcm, cases[i].format, cases[i].bits, cases[i].samples, channels,
                                 16000, encoded, capacity, &size, NULL) == SPSH_OK);
        REQUIRE(spsh_flac_encode(pcm, cases[i].format, cases[i].bits, cases[i].samples, channels,
                                 16000, again, capacity, &size_again, NULL) == SPSH_OK);
        CHECK(size == size_again && memcmp(encoded, again, size) == 0);
        collector all = {back, count * sample_bytes, 0};
        REQUIRE(spsh_audio_decode_memory((spsh_bytes){encoded, size}, SPSH_CODEC_FLAC, NULL,
                                         collect, &all, &result, NULL) == SPSH_OK);
        CHECK_I64(result.verdict, SPSH_DECODE_EXACT);
        CHECK_U64(result.samples, cases[i].samples);
        CHECK_U64(result.info.bits_per_sample, cases[i].bits);
        CHECK(memcmp(pcm, back, count * sample_bytes) == 0);
        CHECK_I64(spsh_flac_encode(pcm, cases[i].format, cases[i].bits, cases[i].samples, channels,
                                   16000, again, size - 1, &size_again, NULL),
                  SPSH_E_LIMIT);
        free(pcm);
        free(back);
        free(encoded);
        free(again);
    }
}

static void test_flac_encoder_refuses_to_lose(void)
{
    static const int32_t pcm[2] = {0x100, 1};
    uint8_t dst[4096];
    size_t size = 77;
    CHECK_I64(
        spsh_flac_encode(pcm, SPSH_SAMPLE_I32, 24, 2, 1, 16000, dst, sizeof(dst), &size, NULL),
        SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_flac_encode(pcm, SPSH_SAMPLE_F32, 32, 2, 1, 16000, dst, sizeof(dst), &size, NULL),
        SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_flac_encode(pcm, SPSH_SAMPLE_I32, 16, 2, 1, 16000, dst, sizeof(dst), &size, NULL),
        SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, 0, 9, 16000, dst, sizeof(dst), &size, NULL),
        SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, 2, 1, 2000000, dst, sizeof(dst), &size, NULL),
        SPSH_E_UNSUPPORTED);
    CHECK_U64(size, 77);
    CHECK(spsh_flac_bound(UINT64_MAX, 8, 32) == SIZE_MAX);
}

/* ---- decoder: ranges, seeks, conversions ---- */

typedef struct counting_source {
    const uint8_t *data;
    size_t size;
    uint64_t bytes_read;
    bool fails;
} counting_source;

static spsh_status counting_read(void *user, uint64_t offset, void *dst, size_t size,
                                 size_t *ret_bytes, spsh_error *err)
{
    counting_source *source = (counting_source *)user;
    if (source->fails)
        return SPSH_FAIL_AT(err, SPSH_E_IO, offset, "the disk is gone");
    REQUIRE(offset <= source->size);
    *ret_bytes = size < source->size - offset ? size : (size_t)(source->size - offset);
    memcpy(dst, source->data + offset, *ret_bytes);
    source->bytes_read += *ret_bytes;
    return SPSH_OK;
}

enum { LONG_SAMPLES = 1 << 20 };
static int16_t speech[LONG_SAMPLES]; /* a signal between a tone and noise */
static uint8_t encoded[4 << 20];

static void make_speech(void)
{
    uint64_t state = 3;
    double level = 0;
    for (int i = 0; i < LONG_SAMPLES; i++) {
        level = 0.97 * level + (double)(int64_t)(test_random(&state) % 2001) - 1000;
        speech[i] = (int16_t)level;
    }
}

/* Read random short ranges. Each must be the slice of the whole, and read little of the source. */
static void check_ranges(spsh_codec codec, size_t size, const spsh_decoder_options *options,
                         uint64_t bytes_per_range_max)
{
    counting_source counter = {encoded, size, 0, false};
    spsh_audio_source source = {counting_read, &counter, size};
    spsh_decoder *decoder = NULL;
    uint64_t state = 5;
    int16_t pcm[1000];
    REQUIRE(spsh_decoder_open(&source, codec, options, &decoder, NULL) == SPSH_OK);
    CHECK_U64(spsh_decoder_info(decoder)->samples, LONG_SAMPLES);
    CHECK(counter.bytes_read <= 20000);
    for (int i = 0; i < 60; i++) {
        uint64_t begin = test_random(&state) % (LONG_SAMPLES + 1);
        uint64_t got = 0;
        counter.bytes_read = 0;
        REQUIRE(spsh_decoder_seek(decoder, begin, NULL) == SPSH_OK);
        REQUIRE(spsh_decoder_read_i16(decoder, pcm, 1000, &got, NULL) == SPSH_OK);
        CHECK_U64(got, LONG_SAMPLES - begin < 1000 ? LONG_SAMPLES - begin : 1000);
        CHECK(memcmp(pcm, speech + begin, got * sizeof(pcm[0])) == 0);
        if (counter.bytes_read > bytes_per_range_max)
            CHECK_U64(counter.bytes_read, bytes_per_range_max);
    }
    CHECK_I64(spsh_decoder_seek(decoder, LONG_SAMPLES + 1, NULL), SPSH_E_INVALID_ARG);
    counter.fails = true;
    uint64_t got = 0;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_decoder_seek(decoder, 100, &err); /* may read during the search */
    if (rc == SPSH_OK)
        rc = spsh_decoder_read_i16(decoder, pcm, 1000, &got, &err);
    CHECK_I64(rc, SPSH_E_IO);
    CHECK_STR(err.message, "the disk is gone");
    counter.fails = false;
    CHECK_I64(spsh_decoder_open(&source, codec, options, NULL, NULL), SPSH_E_INVALID_ARG);
    spsh_decoder_free(decoder);
}

static void test_ranges_touch_what_they_need(void)
{
    static spsh_seek_point points[1024];
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    size_t size = 0;
    test_file head;
    make_speech();
    make_wav(&head, (wav_format){1, 1, 16000, 16}, NULL, 0);
    spsh__store_u32le(head.data + 40, sizeof(speech));
    memcpy(encoded, head.data, 44);
    for (size_t i = 0; i < LONG_SAMPLES; i++)
        spsh__store_u16le(encoded + 44 + 2 * i, (uint16_t)speech[i]);
    check_ranges(SPSH_CODEC_WAV, 44 + sizeof(speech), NULL, 2000);

    REQUIRE(spsh_pcm_encode(speech, LONG_SAMPLES, 1, encoded, sizeof(encoded), &size, NULL) ==
            SPSH_OK);
    options.sample_rate_hz = 16000;
    check_ranges(SPSH_CODEC_PCM, size, &options, 40000);

    REQUIRE(spsh_flac_encode(speech, SPSH_SAMPLE_I16, 16, LONG_SAMPLES, 1, 16000, encoded,
                             sizeof(encoded), &size, NULL) == SPSH_OK);
    check_ranges(SPSH_CODEC_FLAC, size, NULL, 1000000);
    REQUIRE(spsh_audio_seek_points((spsh_bytes){encoded, size}, SPSH_CODEC_FLAC, 16000, points,
                                   1024, &options.seek_point_count, NULL) == SPSH_OK);
    CHECK(options.seek_point_count > 50 && options.seek_point_count < 70);
    options.seek_points = points;
    check_ranges(SPSH_CODEC_FLAC, size, &options, 60000);

    /* A seek point that names a wrong sample is detected. */
    spsh_memory_source memory = {
        {encoded, size}
    };
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    int16_t pcm[10];
    uint64_t got = 0;
    for (uint64_t i = 1; i < options.seek_point_count; i++)
        points[i].sample += 16;
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_FLAC, &options, &decoder, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_seek(decoder, 500000, NULL) == SPSH_OK);
    CHECK_I64(spsh_decoder_read_i16(decoder, pcm, 10, &got, NULL), SPSH_E_AUDIO);
    spsh_decoder_free(decoder);
}

/* For codecs that decode from the start: any range equals the slice of the whole. */
static void test_ranges_of_chirps(void)
{
    uint64_t state = test_seed(11);
    for (size_t i = 0; i < CHIRP_COUNT; i++) {
        test_file file;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        spsh_decoder *decoder = NULL;
        int16_t whole[20000];
        int16_t part[20000];
        uint32_t channels = chirps[i].channels;
        collector all = {(uint8_t *)whole, sizeof(whole), 0};
        load(chirps[i].name, &file);
        spsh_memory_source memory = {
            {file.data, file.size}
        };
        spsh_audio_source source = spsh_audio_source_memory(&memory);
        REQUIRE(spsh_audio_decode_memory(memory.data, chirps[i].codec, NULL, collect, &all, &result,
                                         NULL) == SPSH_OK);
        REQUIRE(spsh_decoder_open(&source, chirps[i].codec, NULL, &decoder, NULL) == SPSH_OK);
        for (int k = 0; k < 40; k++) {
            uint64_t begin = test_random(&state) % (chirps[i].samples + 1);
            uint64_t wanted = test_random(&state) % 3000;
            uint64_t left = chirps[i].samples - begin;
            uint64_t got = 0;
            REQUIRE(spsh_decoder_seek(decoder, begin, NULL) == SPSH_OK);
            REQUIRE(spsh_decoder_read_i16(decoder, part, wanted, &got, NULL) == SPSH_OK);
            CHECK_U64(got, wanted < left ? wanted : left);
            CHECK(memcmp(part, whole + begin * channels, got * channels * 2) == 0);
        }
        CHECK(spsh_decoder_seek(decoder, chirps[i].samples + 1, NULL) == SPSH_E_INVALID_ARG);
        spsh_decoder_free(decoder);
    }
}

static void open_samples(const int16_t *samples, uint16_t channels, test_file *file,
                         spsh_memory_source *memory, spsh_decoder **ret_decoder)
{
    file->size = 0;
    make_wav(file, (wav_format){1, channels, 16000, 16}, samples, 4 * sizeof(*samples));
    memory->data = (spsh_bytes){file->data, file->size};
    const spsh_audio_source source = spsh_audio_source_memory(memory);
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_WAV, NULL, ret_decoder, NULL) == SPSH_OK);
}

static void test_compare(void)
{
    static const int16_t samples[3][4] = {
        {1, 2, 3, 4},
        {1, 2, 3, 4},
        {1, 2, 3, 5}
    };
    static test_file files[4];
    spsh_memory_source memory[4];
    spsh_decoder *decoders[4] = {NULL};
    bool equal = false;
    for (size_t i = 0; i < 4; i++)
        open_samples(samples[i % 3], i == 3 ? 2 : 1, &files[i], &memory[i], &decoders[i]);
    CHECK(spsh_decoder_compare(decoders[0], decoders[1], &equal, NULL) == SPSH_OK && equal);
    REQUIRE(spsh_decoder_seek(decoders[0], 0, NULL) == SPSH_OK);
    CHECK(spsh_decoder_compare(decoders[0], decoders[2], &equal, NULL) == SPSH_OK && !equal);
    REQUIRE(spsh_decoder_seek(decoders[0], 0, NULL) == SPSH_OK);
    CHECK(spsh_decoder_compare(decoders[0], decoders[3], &equal, NULL) == SPSH_OK && !equal);
    CHECK_I64(spsh_decoder_compare(decoders[0], decoders[0], &equal, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_decoder_compare(decoders[0], NULL, &equal, NULL), SPSH_E_INVALID_ARG);
    for (size_t i = 0; i < 4; i++)
        spsh_decoder_free(decoders[i]);
}

static void test_conversions(void)
{
    static const float floats[] = {0.0f,          1.0f,         -1.0f,        2.0f,
                                   -2.0f,         0.5f / 32768, 1.5f / 32768, -0.5f / 32768,
                                   -1.5f / 32768, NAN,          INFINITY,     -INFINITY};
    static const int16_t want16[] = {0, 32767, -32768, 32767, -32768, 0,
                                     2, 0,     -2,     0,     32767,  -32768};
    static const int32_t want32[] = {0,     INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 32768,
                                     98304, -32768,    -98304,    0,         INT32_MAX, INT32_MIN};
    static const int32_t ints[] = {0,      INT32_MAX, INT32_MIN, 0x7fff,
                                   0x8000, -0x8000,   -0x8001,   65536};
    static const int16_t rounded[] = {0, 32767, -32768, 0, 1, 0, -1, 1};
    enum { FLOATS = sizeof(floats) / sizeof(floats[0]), INTS = sizeof(ints) / sizeof(ints[0]) };
    spsh_memory_source memory;
    spsh_audio_source source;
    spsh_decoder *decoder = NULL;
    uint64_t got = 0;
    int16_t out16[FLOATS];
    int32_t out32[FLOATS];
    float out_float[FLOATS];

    make_wav(&scratch, (wav_format){3, 1, 16000, 32}, floats, sizeof(floats));
    memory.data = (spsh_bytes){scratch.data, scratch.size};
    source = spsh_audio_source_memory(&memory);
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_WAV, NULL, &decoder, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i16(decoder, out16, FLOATS, &got, NULL) == SPSH_OK);
    CHECK_U64(got, FLOATS);
    REQUIRE(spsh_decoder_seek(decoder, 0, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i32(decoder, out32, FLOATS, &got, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_seek(decoder, 0, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_f32(decoder, out_float, FLOATS, &got, NULL) == SPSH_OK);
    for (int i = 0; i < FLOATS; i++) {
        CHECK(out_float[i] == floats[i] || (isnan(out_float[i]) && isnan(floats[i])));
        CHECK_I64(out16[i], want16[i]);
        CHECK_I64(out32[i], want32[i]);
    }
    spsh_decoder_free(decoder);

    make_wav(&scratch, (wav_format){1, 1, 16000, 32}, ints, sizeof(ints));
    memory.data = (spsh_bytes){scratch.data, scratch.size};
    source = spsh_audio_source_memory(&memory);
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_WAV, NULL, &decoder, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i16(decoder, out16, FLOATS, &got, NULL) == SPSH_OK);
    CHECK_U64(got, INTS);
    for (int i = 0; i < INTS; i++)
        CHECK_I64(out16[i], rounded[i]);
    REQUIRE(spsh_decoder_seek(decoder, 0, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_f32(decoder, out_float, 3, &got, NULL) == SPSH_OK);
    CHECK(out_float[1] == 1.0f && out_float[2] == -1.0f);
    spsh_decoder_free(decoder);

    make_wav(&scratch, (wav_format){1, 1, 16000, 16}, want16, sizeof(want16));
    memory.data = (spsh_bytes){scratch.data, scratch.size};
    source = spsh_audio_source_memory(&memory);
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_WAV, NULL, &decoder, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_i32(decoder, out32, 3, &got, NULL) == SPSH_OK);
    CHECK_I64(out32[1], 0x7fff0000);
    CHECK_I64(out32[2], INT32_MIN);
    REQUIRE(spsh_decoder_seek(decoder, 2, NULL) == SPSH_OK);
    REQUIRE(spsh_decoder_read_f32(decoder, out_float, 1, &got, NULL) == SPSH_OK);
    CHECK(out_float[0] == -1.0f);
    spsh_decoder_free(decoder);
}

/* ---- limits, failures ---- */

static void test_pcm_limit_is_exact(void)
{
    static const uint8_t data[1000] = {0};
    for (uint64_t limit = 998; limit <= 1001; limit++) {
        spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
        spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
        make_wav(&scratch, (wav_format){1, 1, 16000, 16}, data, sizeof(data));
        options.pcm_bytes_max = limit;
        CHECK_I64(spsh_audio_decode_memory((spsh_bytes){scratch.data, scratch.size}, SPSH_CODEC_WAV,
                                           &options, NULL, NULL, &result, NULL),
                  limit >= 1000 ? SPSH_OK : SPSH_E_LIMIT);
    }
}

static void test_a_cut_file_is_not_read_silently(void)
{
    uint8_t data[1000] = {0};
    int16_t pcm[1000];
    uint64_t got = 0;
    spsh_decoder *decoder = NULL;
    make_wav(&scratch, (wav_format){1, 1, 16000, 16}, data, sizeof(data));
    spsh_memory_source memory = {
        {scratch.data, scratch.size - 100}
    };
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    REQUIRE(spsh_decoder_open(&source, SPSH_CODEC_UNKNOWN, NULL, &decoder, NULL) == SPSH_OK);
    CHECK_I64(spsh_decoder_read_i16(decoder, pcm, 450, &got, NULL), SPSH_OK);
    CHECK_U64(got, 450);
    CHECK_I64(spsh_decoder_read_i16(decoder, pcm, 1, &got, NULL), SPSH_E_TRUNCATED);
    spsh_decoder_free(decoder);
}

static spsh_status cancel(void *user, const spsh_audio_info *info, const void *pcm,
                          uint64_t samples, spsh_error *err)
{
    (void)user, (void)info, (void)pcm, (void)samples;
    return SPSH_FAIL(err, SPSH_E_CANCELED, "enough");
}

static void test_arguments(void)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    test_file file;
    load("chirp.mp3", &file);
    spsh_bytes bytes = {file.data, file.size};
    CHECK_I64(
        spsh_audio_decode_memory(bytes, SPSH_CODEC_UNKNOWN, NULL, cancel, NULL, &result, NULL),
        SPSH_E_CANCELED);
    CHECK_I64(spsh_audio_decode_memory(bytes, SPSH_CODEC_UNKNOWN, NULL, NULL, NULL, NULL, NULL),
              SPSH_E_INVALID_ARG);
    options.struct_size = 3;
    CHECK_I64(
        spsh_audio_decode_memory(bytes, SPSH_CODEC_UNKNOWN, &options, NULL, NULL, &result, NULL),
        SPSH_E_INVALID_ARG);
    options.struct_size = sizeof(options);
    options.seek_point_count = 1;
    CHECK_I64(
        spsh_audio_decode_memory(bytes, SPSH_CODEC_UNKNOWN, &options, NULL, NULL, &result, NULL),
        SPSH_E_INVALID_ARG);
    spsh_decoder_free(NULL);
    CHECK(spsh_audio_sniff(NULL, 0, "x.gsm") == SPSH_CODEC_UNKNOWN);
}

static void test_every_allocation_failure(void)
{
    uint8_t data[100] = {0};
    int16_t pcm[50] = {0};
    size_t size = 0;
    for (size_t i = 0; i < CHIRP_COUNT + 3; i++) {
        spsh_codec codec = i < CHIRP_COUNT        ? chirps[i].codec
                           : i == CHIRP_COUNT     ? SPSH_CODEC_WAV
                           : i == CHIRP_COUNT + 1 ? SPSH_CODEC_FLAC
                                                  : SPSH_CODEC_PCM;
        if (i < CHIRP_COUNT)
            load(chirps[i].name, &scratch);
        else if (codec == SPSH_CODEC_WAV)
            make_wav(&scratch, (wav_format){1, 1, 8000, 16}, data, sizeof(data));
        else if (codec == SPSH_CODEC_FLAC)
            REQUIRE(spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, 50, 1, 8000, scratch.data, FILE_MAX,
                                     &size, NULL) == SPSH_OK);
        else
            REQUIRE(spsh_pcm_encode(pcm, 50, 1, scratch.data, FILE_MAX, &size, NULL) == SPSH_OK);
        if (i > CHIRP_COUNT)
            scratch.size = size;
        spsh_status rc = SPSH_E_NO_MEMORY;
        for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
            fault_alloc fault = {.fail_at = fail_at};
            spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
            spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
            spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
            options.allocator = &allocator;
            options.sample_rate_hz = 8000;
            REQUIRE(fail_at < 20);
            rc = spsh_audio_decode_memory((spsh_bytes){scratch.data, scratch.size}, codec, &options,
                                          NULL, NULL, &result, NULL);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
            CHECK(fault.live_count == 0);
        }
    }
}

/* ---- resampling ---- */

static void test_resampling(void)
{
    static const uint32_t rates[][2] = {
        {8000,  16000},
        {16000, 8000 },
        {44100, 16000},
        {16000, 44100},
        {48000, 16000},
        {22050, 16000},
        {16000, 16000},
        {8000,  7999 }
    };
    enum { SAMPLES = 3001, OUT = 40000 };
    static int16_t in[2 * SAMPLES];
    static int16_t out[2 * OUT];
    static int16_t again[2 * OUT];
    static float float_in[2 * SAMPLES];
    static float float_out[2 * OUT];
    const double pi = 3.14159265358979;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        uint64_t want = ((uint64_t)SAMPLES * rates[i][1] + rates[i][0] - 1) / rates[i][0];
        uint64_t got = 0;
        for (size_t k = 0; k < SAMPLES; k++) { /* 500 Hz left, 700 Hz right */
            double t = (double)k / rates[i][0];
            in[2 * k] = (int16_t)lrint(10000 * sin(2 * pi * 500 * t));
            in[2 * k + 1] = (int16_t)lrint(10000 * sin(2 * pi * 700 * t));
        }
        REQUIRE(spsh_resample_i16(in, SAMPLES, 2, rates[i][0], rates[i][1], out, OUT, &got, NULL) ==
                SPSH_OK);
        CHECK_U64(got, want);
        REQUIRE(spsh_resample_i16(in, SAMPLES, 2, rates[i][0], rates[i][1], again, want, &got,
                                  NULL) == SPSH_OK);
        CHECK(memcmp(out, again, want * 2 * sizeof(out[0])) == 0);
        CHECK_I64(
            spsh_resample_i16(in, SAMPLES, 2, rates[i][0], rates[i][1], out, want - 1, &got, NULL),
            SPSH_E_LIMIT);
        /* Float in, float out: equal except for rounding, and values above full scale. */
        for (size_t k = 0; k < 2 * SAMPLES; k++)
            float_in[k] = (float)in[k] / 5000;
        REQUIRE(spsh_resample_f32(float_in, SAMPLES, 2, rates[i][0], rates[i][1], float_out, want,
                                  &got, NULL) == SPSH_OK);
        CHECK_U64(got, want);
        for (uint64_t k = 0; k < 2 * want; k++)
            CHECK(fabs((double)float_out[k] * 5000 - out[k]) < 0.6);
        CHECK_I64(spsh_resample_f32(float_in, SAMPLES, 2, rates[i][0], rates[i][1], float_out,
                                    want - 1, &got, NULL),
                  SPSH_E_LIMIT);
        /* Away from the ends, the output is the same tone, in phase. */
        for (uint64_t k = want / 4; k < want * 3 / 4; k++) {
            double t = (double)k / rates[i][1];
            CHECK(fabs(out[2 * k] - 10000 * sin(2 * pi * 500 * t)) < 3);
            CHECK(fabs(out[2 * k + 1] - 10000 * sin(2 * pi * 700 * t)) < 3);
        }
    }
    uint64_t got = 1;
    CHECK_I64(spsh_resample_i16(NULL, 0, 1, 8000, 16000, NULL, 0, &got, NULL), SPSH_OK);
    CHECK_U64(got, 0);
    CHECK_I64(spsh_resample_i16(in, 1, 0, 8000, 16000, out, OUT, &got, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_resample_i16(in, 1, 1, 10, 16000, out, OUT, &got, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_resample_i16(in, UINT64_MAX, 1, 8000, 16000, out, OUT, &got, NULL),
              SPSH_E_LIMIT);
}

/* Means are rounded to nearest, and halves up, for both signs. The output may be the input. */
static void test_mix(void)
{
    static const int16_t three[] = {1,      1,      2,      -1,    -1,    -2,
                                    -32768, -32768, -32768, 32767, 32767, 32767};
    static const int16_t four[] = {1, 0, 0, 1, -1, 0, 0, -1, 0, -1, -1, -1};
    int16_t two[] = {3, 4, -3, -4, 32767, 32767};
    int16_t mixed[4];
    spsh_mix_i16(three, 4, 3, mixed);
    CHECK(mixed[0] == 1 && mixed[1] == -1 && mixed[2] == -32768 && mixed[3] == 32767);
    spsh_mix_i16(four, 3, 4, mixed);
    CHECK(mixed[0] == 1 && mixed[1] == 0 && mixed[2] == -1);
    spsh_mix_i16(two, 3, 2, two);
    CHECK(two[0] == 4 && two[1] == -3 && two[2] == 32767);
    spsh_mix_i16(three, 3, 1, mixed);
    CHECK(mixed[0] == 1 && mixed[1] == 1 && mixed[2] == 2);
}

TEST_MAIN(unit_audio)
{
    RUN(test_every_sample_type);
    RUN(test_companding_laws);
    RUN(test_pcm_hash_is_the_documented_one);
    RUN(test_sizes_that_lie);
    RUN(test_chunk_order_and_rf64);
    RUN(test_bad_formats);
    RUN(test_refusals_say_what_was_found);
    RUN(test_names);
    RUN(test_chirps);
    RUN(test_opus_does_not_depend_on_the_stated_rate);
    RUN(test_ogg_without_an_end_flag);
    RUN(test_opus_that_begins_late);
    RUN(test_vorbis_headers);
    RUN(test_vorbis_with_long_comments);
    RUN(test_one_decoder_for_many_files);
    RUN(test_opening_again_allocates_nothing);
    RUN(test_every_truncation_of_every_codec);
    RUN(test_every_bit_flip_of_every_codec);
    RUN(test_flac_round_trips);
    RUN(test_flac_encoder_refuses_to_lose);
    RUN(test_ranges_touch_what_they_need);
    RUN(test_ranges_of_chirps);
    RUN(test_conversions);
    RUN(test_compare);
    RUN(test_pcm_limit_is_exact);
    RUN(test_a_cut_file_is_not_read_silently);
    RUN(test_arguments);
    RUN(test_every_allocation_failure);
    RUN(test_resampling);
    RUN(test_mix);
    return TEST_RESULT();
}

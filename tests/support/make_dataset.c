/* make_dataset.c: a small dataset for the tests of ls, info, cat, export, and overlay, made only
 * with the library.
 *
 *     make_dataset DATASET EXPECTED
 *
 * Two shards: every sample format, codecs wav, flac, and pcm, segments, a duplicate, names and
 * texts that are hard to print or to turn into files. EXPECTED/<utterance number>.wav is the
 * expected output of `cat`, byte for byte, and EXPECTED/<recording>.bin each stored payload, made
 * here without the command's writer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "speechshard/pcm.h"
#include "speechshard/publish.h"

enum { SAMPLES_MAX = 48000, CHANNELS_MAX = 2, FILE_BYTES_MAX = 1 << 20 };

/* A source audio file: synthetic samples in one format and codec. */
typedef struct recording {
    const char *id;
    spsh_codec codec;
    spsh_sample_format format;
    uint32_t bits, channels, rate_hz, samples;
    uint32_t unit;
} recording;

typedef struct utterance {
    const char *id;
    uint32_t recording;
    uint32_t start, samples;
    const char *text; /* NULL: unlabelled */
    const char *domain, *split, *speaker, *language, *document, *extras;
} utterance;

static const recording recordings[] = {
    {"en/hello-world", SPSH_CODEC_WAV,  SPSH_SAMPLE_I16, 16, 1, 8000,  1000,  0},
    {"en/stereo",      SPSH_CODEC_WAV,  SPSH_SAMPLE_I32, 24, 2, 44100, 441,   0},
    {"en/float",       SPSH_CODEC_WAV,  SPSH_SAMPLE_F32, 32, 1, 16000, 777,   0},
    {"long/session",   SPSH_CODEC_FLAC, SPSH_SAMPLE_I16, 16, 1, 16000, 48000, 0},
    {"../../escape",   SPSH_CODEC_PCM,  SPSH_SAMPLE_I16, 16, 1, 16000, 5000,  1},
    {"a",              SPSH_CODEC_WAV,  SPSH_SAMPLE_I16, 16, 2, 8000,  123,   1},
    {"a.wav/b",        SPSH_CODEC_WAV,  SPSH_SAMPLE_I32, 32, 1, 8000,  124,   1},
    {"\xc3\xbc"
     "ber uns",   SPSH_CODEC_FLAC, SPSH_SAMPLE_I32, 24, 1, 48000, 333,   1},
};
enum { RECORDINGS = sizeof(recordings) / sizeof(recordings[0]) };

static const utterance utterances[] = {
    {"en/hello-world", 0, 0,     1000,  "Hello, world",                  "en",    "train", "Allison", "en", "prompts",
     "{\"accent\":\"us\",\"age\":\"30s\"}"                                                                               },
    {"en/stereo",      1, 0,     441,   "He said \"yes\",\nthen\tleft.", "en",    "test",  "Allison", "en", "",
     ""                                                                                                                  },
    {"en/float",       2, 0,     777,   NULL,                            "en",    "",      "",        "",   "",        ""},
    {"session-1",      3, 0,     16000, "one",                           "talks", "train", "B",       "en", "session", ""},
    {"session-2",      3, 16000, 24001, "two",                           "talks", "train", "C",       "en", "session", ""},
    {"session/3",      3, 40001, 7999,  "",                              "talks", "train", "B",       "en", "session", ""},
    {"copy-of-hello",  0, 0,     1000,  "Bonjour",                       "fr",    "train", "",        "fr", "",        ""},
    {"../../escape",   4, 0,     5000,  "\033[31mred",                   "talks", "test",  "",        "",   "",        ""},
    {"a",              5, 0,     123,   "a",                             "fr",    "train", "",        "fr", "",        ""},
    {"a.wav/b",        6, 0,     124,   "b",                             "fr",    "train", "",        "fr", "",        ""},
    {"\xc3\xbc"
     "ber uns",   7, 0,     333,
     "Stra\xc3\x9f"
     "e",                                                                "de",    "test",  "",        "de", "",        ""},
};
enum { UTTERANCES = sizeof(utterances) / sizeof(utterances[0]) };

static spsh_error err = SPSH_ERROR_INIT;

static void stop(const char *what)
{
    fprintf(stderr, "make_dataset: %s: %s\n", what, err.message);
    exit(1);
}

/* ---- samples and files ---- */

typedef union pcm {
    int16_t i16[SAMPLES_MAX * CHANNELS_MAX];
    int32_t i32[SAMPLES_MAX * CHANNELS_MAX];
    float f32[SAMPLES_MAX * CHANNELS_MAX];
} pcm;

static void make_pcm(const recording *r, uint32_t seed, pcm *ret_pcm)
{
    uint64_t state = seed + 1;
    for (uint32_t i = 0; i < r->samples * r->channels; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int32_t noise = (int32_t)(state >> 40) - (1 << 23); /* 24 bits */
        int32_t tone = ((int32_t)(i % 97) - 48) * (1 << 16);
        int32_t value = tone + noise / 64;
        if (r->format == SPSH_SAMPLE_I16)
            ret_pcm->i16[i] = (int16_t)(value / 256);
        else if (r->format == SPSH_SAMPLE_F32)
            ret_pcm->f32[i] = (float)value / 8388608.0F;
        else
            ret_pcm->i32[i] = value * 256 + (r->bits == 32 ? (int32_t)(i % 256) : 0);
    }
}

static uint8_t *put(uint8_t *at, uint32_t value, int size_bytes)
{
    for (int i = 0; i < size_bytes; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

/* Samples [start, start + samples) as a WAV file; returns its size. */
static size_t make_wav(const recording *r, const pcm *p, uint32_t start, uint32_t samples,
                       uint8_t *file)
{
    bool is_float = r->format == SPSH_SAMPLE_F32;
    uint32_t value_bytes = r->bits / 8;
    uint32_t data_bytes = samples * r->channels * value_bytes;
    uint32_t head_bytes = is_float ? 58 : 44;
    uint8_t *at = put_text(file, "RIFF");
    at = put(at, head_bytes - 8 + data_bytes + data_bytes % 2, 4);
    at = put_text(at, "WAVEfmt ");
    at = put(at, is_float ? 18 : 16, 4);
    at = put(at, is_float ? 3 : 1, 2);
    at = put(at, r->channels, 2);
    at = put(at, r->rate_hz, 4);
    at = put(at, r->rate_hz * r->channels * value_bytes, 4);
    at = put(at, r->channels * value_bytes, 2);
    at = put(at, r->bits, 2);
    if (is_float) {
        at = put(at, 0, 2);
        at = put_text(at, "fact");
        at = put(at, 4, 4);
        at = put(at, samples, 4);
    }
    at = put_text(at, "data");
    at = put(at, data_bytes, 4);
    for (uint32_t i = start * r->channels; i < (start + samples) * r->channels; i++) {
        uint32_t bits = 0;
        if (is_float)
            memcpy(&bits, &p->f32[i], 4);
        else if (r->format == SPSH_SAMPLE_I16)
            bits = (uint32_t)p->i16[i];
        else
            bits = (uint32_t)p->i32[i] >> (32 - r->bits);
        at = put(at, bits, (int)value_bytes);
    }
    if (data_bytes % 2 != 0)
        *at++ = 0;
    return (size_t)(at - file);
}

static void write_expected(const char *directory, const char *kind, size_t number,
                           const uint8_t *data, size_t size_bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%zu.%s", directory, number, kind);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size_bytes, file) != size_bytes || fclose(file) != 0)
        stop(path);
}

static size_t make_payload(const recording *r, const pcm *p, uint8_t *payload)
{
    size_t bytes = 0;
    spsh_status rc = SPSH_OK;
    if (r->codec == SPSH_CODEC_WAV)
        return make_wav(r, p, 0, r->samples, payload);
    if (r->codec == SPSH_CODEC_FLAC)
        rc = spsh_flac_encode(p, r->format, r->bits, r->samples, r->channels, r->rate_hz, payload,
                              FILE_BYTES_MAX, &bytes, &err);
    else
        rc =
            spsh_pcm_encode(p->i16, r->samples, r->channels, payload, FILE_BYTES_MAX, &bytes, &err);
    if (rc != SPSH_OK)
        stop(r->id);
    return bytes;
}

/* ---- shards ---- */

static spsh_bytes bytes_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static void add_recording(spsh_shard_writer *writer, size_t number, const char *expected,
                          uint64_t *ret_record)
{
    static pcm p;
    static uint8_t payload[FILE_BYTES_MAX], wav[FILE_BYTES_MAX];
    const recording *r = &recordings[number];
    spsh_decode_result decoded = SPSH_DECODE_RESULT_INIT;
    make_pcm(r, (uint32_t)number, &p);
    size_t payload_bytes = make_payload(r, &p, payload);
    write_expected(expected, "bin", number, payload, payload_bytes);
    for (size_t i = 0; i < UTTERANCES; i++) {
        const utterance *u = &utterances[i];
        if (u->recording == number)
            write_expected(expected, "wav", i, wav, make_wav(r, &p, u->start, u->samples, wav));
    }
    /* A pcm payload does not state its rate. A WAV file of the same samples has the same hash. */
    spsh_bytes file = {payload, payload_bytes};
    if (r->codec == SPSH_CODEC_PCM)
        file = (spsh_bytes){wav, make_wav(r, &p, 0, r->samples, wav)};
    if (spsh_audio_decode_memory(file, SPSH_CODEC_UNKNOWN, NULL, NULL, NULL, &decoded, &err) !=
        SPSH_OK)
        stop(r->id);
    spsh_record record = {.id = bytes_of(r->id),
                          .payload_bytes = payload_bytes,
                          .samples = r->samples,
                          .sample_rate_hz = r->rate_hz,
                          .nominal_rate_hz = r->rate_hz,
                          .channels = r->channels,
                          .codec = r->codec,
                          .format = r->format,
                          .bits_per_sample = r->bits,
                          .flags = SPSH_RECORD_PCM_HASH};
    if (decoded.samples != r->samples)
        stop("decodes to another length");
    memcpy(record.pcm_hash, decoded.pcm_hash, sizeof(record.pcm_hash));
    if (spsh_shard_writer_add_record(writer, &record, payload, ret_record, &err) != SPSH_OK)
        stop(r->id);
}

static void add_utterance(spsh_shard_writer *writer, const utterance *u, uint64_t record)
{
    char source[256];
    snprintf(source, sizeof(source), "audio/%s", recordings[u->recording].id);
    spsh_utterance row = {.id = bytes_of(u->id),
                          .record = record,
                          .start_sample = u->start,
                          .samples = u->samples,
                          .flags = u->text == NULL ? 0 : SPSH_UTTERANCE_HAS_TEXT,
                          .domain = bytes_of(u->domain),
                          .split = bytes_of(u->split),
                          .speaker = bytes_of(u->speaker),
                          .language = bytes_of(u->language),
                          .document = bytes_of(u->document),
                          .text = bytes_of(u->text == NULL ? "" : u->text),
                          .source = bytes_of(source),
                          .extras = bytes_of(u->extras)};
    if (spsh_shard_writer_add_utterance(writer, &row, &err) != SPSH_OK)
        stop(u->id);
}

static void write_unit(const char *shards, uint32_t unit, const char *expected,
                       spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    uint64_t records[RECORDINGS] = {0};
    bool written[RECORDINGS] = {false};
    options.directory = shards;
    memset(options.dataset_id, 0x5a, sizeof(options.dataset_id));
    options.unit = unit;
    if (spsh_shard_writer_open(&options, &writer, &err) != SPSH_OK)
        stop(shards);
    for (size_t i = 0; i < UTTERANCES; i++) {
        const utterance *u = &utterances[i];
        if (recordings[u->recording].unit != unit)
            continue;
        if (!written[u->recording])
            add_recording(writer, u->recording, expected, &records[u->recording]);
        written[u->recording] = true;
        add_utterance(writer, u, records[u->recording]);
    }
    if (spsh_shard_writer_seal(writer, ret_seal, &err) != SPSH_OK)
        stop(shards);
    spsh_shard_writer_free(writer);
}

int main(int argc, char **argv)
{
    char shards[4096];
    spsh_shard_seal seals[2];
    spsh_publish_options options = SPSH_PUBLISH_OPTIONS_INIT;
    if (argc != 3) {
        fprintf(stderr, "usage: make_dataset DATASET EXPECTED\n");
        return 2;
    }
    snprintf(shards, sizeof(shards), "%s/shards", argv[1]);
    if (mkdir(argv[1], 0777) != 0 || mkdir(shards, 0777) != 0 || mkdir(argv[2], 0777) != 0)
        stop("mkdir");
    for (uint32_t unit = 0; unit < 2; unit++)
        write_unit(shards, unit, argv[2], &seals[unit]);
    options.path = argv[1];
    memset(options.dataset_id, 0x5a, sizeof(options.dataset_id));
    options.seals = seals;
    options.seal_count = 2;
    options.dedupe = SPSH_DEDUPE_PCM;
    options.options_json = bytes_of("{\"codec\":\"keep\"}");
    options.reject_count = 2;
    options.source_row_count = UTTERANCES + 2;
    if (spsh_dataset_publish(&options, NULL, &err) != SPSH_OK)
        stop("publish");
    return 0;
}

/* noise_dataset.h: a dataset of three small shards of noise, for tests of damage and repair:
 * segments, references to an earlier shard, copies over units, long payloads, seek points, empty
 * texts, an overlay.
 *
 *     spsh_shard_seal seals[NOISE_SHARDS];
 *     noise_dataset_make(directory, seals);
 *
 * Audio is WAV, so that payloads decode. The same bytes at every call.
 */
#ifndef NOISE_DATASET_H
#define NOISE_DATASET_H

#include "speechshard/publish.h"
#include "spsh_test.h"

enum {
    NOISE_SHARDS = 3,           /* two in unit 0, one in unit 1 */
    NOISE_RECORDS = 4,          /* per shard */
    NOISE_UTTERANCES = 6,       /* per shard */
    NOISE_LONG_SAMPLES = 40000, /* two payload pages */
    NOISE_WAV_HEAD = 44,
};

static const uint8_t noise_dataset_id[16] = {'n', 'o', 'i', 's', 'e', 1, 2, 3, 4, 5};

static inline void noise_put(uint8_t *at, uint32_t value, int size_bytes)
{
    for (int i = 0; i < size_bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* A mono 16 kHz WAV file of 16 bits; returns its size. */
static inline size_t noise_wav(uint8_t *file, uint32_t samples, uint64_t seed)
{
    memset(file, 0, NOISE_WAV_HEAD);
    memcpy(file, "RIFF", 4);
    memcpy(file + 8, "WAVEfmt ", 8);
    memcpy(file + 36, "data", 4);
    noise_put(file + 4, 36 + 2 * samples, 4);
    noise_put(file + 16, 16, 4);
    noise_put(file + 20, 1, 2);
    noise_put(file + 22, 1, 2);
    noise_put(file + 24, 16000, 4);
    noise_put(file + 28, 32000, 4);
    noise_put(file + 32, 2, 2);
    noise_put(file + 34, 16, 2);
    noise_put(file + 40, 2 * samples, 4);
    uint64_t random = seed;
    for (uint32_t i = 0; i < samples; i++)
        noise_put(file + NOISE_WAV_HEAD + (size_t)2 * i, (uint32_t)test_random(&random) & 0xFFFF,
                  2);
    return NOISE_WAV_HEAD + (size_t)2 * samples;
}

static inline spsh_bytes noise_text(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

/* Record n of a shard. Record 1 of each unit's first shard is the same audio; record 2 is long. */
static inline bool noise_is_copied(uint32_t shard, uint32_t n)
{
    return n == 1 && shard != 1;
}

static inline uint32_t noise_samples(uint32_t shard, uint32_t n)
{
    if (n == 2)
        return NOISE_LONG_SAMPLES;
    return 100 + 50 * n + (noise_is_copied(shard, n) ? 0 : shard);
}

static inline void noise_add_record(spsh_shard_writer *writer, uint32_t shard, uint32_t n,
                                    uint64_t *ret_number)
{
    static uint8_t file[NOISE_WAV_HEAD + 2 * NOISE_LONG_SAMPLES];
    static const spsh_seek_point points[] = {
        {0,     NOISE_WAV_HEAD        },
        {16000, NOISE_WAV_HEAD + 32000}
    };
    spsh_error err = SPSH_ERROR_INIT;
    spsh_decode_result decoded = SPSH_DECODE_RESULT_INIT;
    char id[64];
    size_t size = noise_wav(file, noise_samples(shard, n),
                            noise_is_copied(shard, n) ? 77 : (uint64_t)1000 * shard + n);
    (void)snprintf(id, sizeof(id), "recording-%u-%u", shard, n);
    REQUIRE(spsh_audio_decode_memory((spsh_bytes){file, size}, SPSH_CODEC_WAV, NULL, NULL, NULL,
                                     &decoded, &err) == SPSH_OK);
    spsh_record record = {.id = noise_text(id),
                          .payload_bytes = size,
                          .samples = decoded.samples,
                          .sample_rate_hz = 16000,
                          .nominal_rate_hz = 16000,
                          .channels = 1,
                          .codec = SPSH_CODEC_WAV,
                          .format = SPSH_SAMPLE_I16,
                          .bits_per_sample = 16,
                          .flags = SPSH_RECORD_PCM_HASH,
                          .seek_points = n == 2 ? points : NULL,
                          .seek_point_count = n == 2 ? 2 : 0};
    memcpy(record.pcm_hash, decoded.pcm_hash, 16);
    CHECK_U64(decoded.samples, noise_samples(shard, n));
    REQUIRE(spsh_shard_writer_add_record(writer, &record, file, ret_number, &err) == SPSH_OK);
}

/* Utterance n of a shard: 0 to 3 are whole records, 4 a segment of the long one, 5 a segment of
 * record 0 of the unit, which for shard 1 is in shard 0. */
static inline void noise_add_utterance(spsh_shard_writer *writer, uint32_t shard, uint32_t n,
                                       uint64_t first_record)
{
    spsh_error err = SPSH_ERROR_INIT;
    char id[64], text[64];
    (void)snprintf(id, sizeof(id), "utterance-%u-%u", shard, n);
    (void)snprintf(text, sizeof(text), "words of %u in %u", n, shard);
    spsh_utterance row = {.id = noise_text(id),
                          .record = first_record + n,
                          .samples = noise_samples(shard, n),
                          .flags = n == 3 ? 0 : SPSH_UTTERANCE_HAS_TEXT,
                          .domain = noise_text(n < 3 ? "read" : "spoken"),
                          .split = noise_text(n == 0 ? "test" : "train"),
                          .speaker = noise_text(n % 2 == 0 ? "alice" : "bob"),
                          .language = noise_text("en"),
                          .text = noise_text(n == 3 ? "" : text),
                          .source = noise_text("audio/file.wav")};
    if (n == 4) {
        row.record = first_record + 2;
        row.start_sample = 10000;
        row.samples = 20000;
        row.extras = noise_text("{\"age\":\"30s\"}");
    } else if (n == 5) {
        row.record = 0;
        row.start_sample = 10;
        row.samples = 50;
    }
    REQUIRE(spsh_shard_writer_add_utterance(writer, &row, &err) == SPSH_OK);
}

/* shard: number of the shard, counted through all units. */
static inline void noise_shard_make(const char *directory, uint32_t shard,
                                    spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    opt.directory = directory;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    opt.unit = shard / 2;
    opt.number = shard % 2;
    opt.first_record = (uint64_t)NOISE_RECORDS * opt.number;
    opt.first_utterance = (uint64_t)NOISE_UTTERANCES * opt.number;
    REQUIRE(spsh_shard_writer_open(&opt, &writer, &err) == SPSH_OK);
    for (uint32_t n = 0; n < NOISE_RECORDS; n++) {
        uint64_t number = 0;
        noise_add_record(writer, shard, n, &number);
        CHECK_U64(number, opt.first_record + n);
    }
    for (uint32_t n = 0; n < NOISE_UTTERANCES; n++)
        noise_add_utterance(writer, shard, n, opt.first_record);
    REQUIRE(spsh_shard_writer_seal(writer, ret_seal, &err) == SPSH_OK);
    spsh_shard_writer_free(writer);
}

enum { NOISE_BIG_RECORDS = 14, NOISE_BIG_UTTERANCES = 2000 };

/* Payload bytes of a record of the big shard: 4 and 9 have separate blocks. */
static inline size_t noise_big_bytes(uint32_t n)
{
    return n == 4 ? (size_t)5 << 20 : n == 9 ? ((size_t)9 << 20) + 1234 : 300000 + n;
}

/* A shard of several blocks, two of them oversize, and two metadata blocks: unit 7. Its payloads
 * are noise that nothing decodes. */
static inline void noise_big_shard_make(const char *directory, spsh_shard_seal *ret_seal)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t random = 7;
    size_t words = noise_big_bytes(9) / 8 + 1;
    uint64_t *payload = malloc(words * 8);
    REQUIRE(payload != NULL);
    opt.directory = directory;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    opt.unit = 7;
    REQUIRE(spsh_shard_writer_open(&opt, &writer, &err) == SPSH_OK);
    for (uint32_t n = 0; n < NOISE_BIG_RECORDS; n++) {
        char id[64];
        uint64_t number = 0;
        (void)snprintf(id, sizeof(id), "big-%u", n);
        for (size_t i = 0; i < noise_big_bytes(n) / 8 + 1; i++)
            payload[i] = test_random(&random);
        const spsh_record record = {.id = noise_text(id),
                                    .payload_bytes = noise_big_bytes(n),
                                    .samples = 1000000,
                                    .sample_rate_hz = 16000,
                                    .nominal_rate_hz = 16000,
                                    .channels = 1,
                                    .codec = SPSH_CODEC_MP3,
                                    .format = SPSH_SAMPLE_I16,
                                    .flags = SPSH_RECORD_TRUSTED};
        REQUIRE(spsh_shard_writer_add_record(writer, &record, payload, &number, &err) == SPSH_OK);
    }
    for (uint32_t n = 0; n < NOISE_BIG_UTTERANCES; n++) {
        char id[64];
        (void)snprintf(id, sizeof(id), "segment-%u", n);
        const spsh_utterance row = {.id = noise_text(id),
                                    .record = n % NOISE_BIG_RECORDS,
                                    .start_sample = n,
                                    .samples = 100};
        REQUIRE(spsh_shard_writer_add_utterance(writer, &row, &err) == SPSH_OK);
    }
    REQUIRE(spsh_shard_writer_seal(writer, ret_seal, &err) == SPSH_OK);
    spsh_shard_writer_free(writer);
    free(payload);
}

/* path must not exist. */
static inline void noise_dataset_make(const char *path, spsh_shard_seal seals[NOISE_SHARDS])
{
    char shards[600];
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_info info = SPSH_DATASET_INFO_INIT;
    (void)snprintf(shards, sizeof(shards), "%s/shards", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(shards, 0700) == 0);
    for (uint32_t shard = 0; shard < NOISE_SHARDS; shard++)
        noise_shard_make(shards, shard, &seals[shard]);
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    opt.path = path;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    opt.seals = seals;
    opt.seal_count = NOISE_SHARDS;
    opt.dedupe = SPSH_DEDUPE_BYTES;
    opt.options_json = noise_text("{}");
    REQUIRE(spsh_dataset_publish(&opt, &info, &err) == SPSH_OK);
    CHECK_U64(info.utterance_count, NOISE_SHARDS * NOISE_UTTERANCES);
    const spsh_overlay_entry skipped = {noise_text("utterance-0-3"), noise_text("noise")};
    REQUIRE(spsh_overlay_add(path, "skips", SPSH_OVERLAY_SKIP, &skipped, 1, NULL, &err) == SPSH_OK);
}

#endif

/* unit_feature_record.c: a record of features: what the writer takes, what verify finds by decoding
 * it when all checksums are right, and that no decoder takes it for audio. */
#include "speechshard/features.h"
#include "speechshard/verify.h"
#include "spsh_test.h"

enum { FRAMES = 700, DIM = 40 };

static char folder[256];
static uint16_t rows[FRAMES * DIM];
static uint8_t payload[FRAMES * DIM * 2 + SPSH_FEATURES_BLOCK_BYTES + 1024];
static size_t payload_bytes;

static spsh_record make_record(void)
{
    spsh_features_info info = {.dim = DIM, .value_bytes = 2, .frame_count = FRAMES};
    for (size_t i = 0; i < FRAMES * DIM; i++)
        rows[i] = (uint16_t)(0x4800 + i * 37 % 256);
    REQUIRE(spsh_features_encode(&info, rows, payload, sizeof(payload), &payload_bytes, NULL) ==
            SPSH_OK);
    REQUIRE(payload_bytes < sizeof(rows) * 7 / 8); /* LZ4 compresses a part of it */
    spsh_record record = {
        .id = {(const uint8_t *)"a", 1},
        .payload_bytes = payload_bytes,
        .samples = 112400,
        .sample_rate_hz = 16000,
        .nominal_rate_hz = 16000,
        .channels = 1,
        .codec = SPSH_CODEC_FEATURES,
        .format = SPSH_SAMPLE_F32,
        .bits_per_sample = 16,
        .flags = SPSH_RECORD_PCM_HASH | SPSH_RECORD_TRANSCODED
    };
    spsh_features_hash(&info, rows, record.pcm_hash);
    return record;
}

/* Write a shard of this record. Return the status of adding it. */
static spsh_status write_shard(const spsh_record *record)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_shard_seal seal;
    uint64_t number = 0;
    opt.directory = folder;
    REQUIRE(spsh_shard_writer_open(&opt, &writer, NULL) == SPSH_OK);
    const spsh_status rc = spsh_shard_writer_add_record(writer, record, payload, &number, NULL);
    if (rc == SPSH_OK) {
        const spsh_utterance utterance = {
            .id = {(const uint8_t *)"a", 1},
              .record = number, .samples = record->samples
        };
        REQUIRE(spsh_shard_writer_add_utterance(writer, &utterance, NULL) == SPSH_OK);
        REQUIRE(spsh_shard_writer_seal(writer, &seal, NULL) == SPSH_OK);
    }
    spsh_shard_writer_free(writer);
    return rc;
}

static char found[256];

static int take_damage(void *user, const spsh_damage *damage)
{
    (void)user;
    (void)snprintf(found, sizeof(found), "%s: %s", damage->part, damage->message);
    return 0;
}

/* Return the damage that verify finds in a shard of one record with correct checksums, or "". */
static const char *verify(const spsh_record *record)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/000000-000.spsh", folder);
    (void)unlink(path);
    REQUIRE(write_shard(record) == SPSH_OK);
    found[0] = '\0';
    opt.damage_fn = take_damage;
    opt.flags = SPSH_VERIFY_DECODE | SPSH_VERIFY_CACHED;
    opt.jobs = 1;
    REQUIRE(spsh_verify(path, &opt, &result, NULL) == SPSH_OK);
    CHECK_U64(result.damage_count, found[0] != '\0');
    return found;
}

static void test_verify_reads_the_rows(void)
{
    spsh_record record = make_record();
    CHECK_STR(verify(&record), "");
    record.pcm_hash[3] ^= 1;
    CHECK(strstr(verify(&record), "features: ") == found);
    CHECK(strstr(found, "different features than stored") != NULL);
    record = make_record();
    record.bits_per_sample = 32;
    CHECK(strstr(verify(&record), "the features have 16 bits, but the header states 32") != NULL);
    record = make_record();
    payload[0] = 2;
    CHECK(strstr(verify(&record), "version 2") != NULL);
    record = make_record();
    record.payload_bytes--;
    CHECK(strstr(verify(&record), "ends at") != NULL);
    record = make_record();
    payload[44] ^= 0xf0; /* the first byte of the block: LZ4 */
    CHECK(strstr(verify(&record), "does not decompress") != NULL);
}

static void test_fields(void)
{
    spsh_record record = make_record();
    record.format = SPSH_SAMPLE_I16;
    CHECK_I64(write_shard(&record), SPSH_E_INVALID_ARG);
    record = make_record();
    record.bits_per_sample = 0;
    CHECK_I64(write_shard(&record), SPSH_E_INVALID_ARG);
    record = make_record();
    record.codec = (spsh_codec)18;
    CHECK_I64(write_shard(&record), SPSH_E_INVALID_ARG);
}

static void test_no_decoder_takes_it(void)
{
    const spsh_record record = make_record();
    const spsh_bytes file = {payload, (size_t)record.payload_bytes};
    spsh_memory_source memory = {file};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    spsh_audio_info info;
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_STR(spsh_codec_name(SPSH_CODEC_FEATURES), "features");
    CHECK_I64(spsh_audio_inspect(&source, SPSH_CODEC_FEATURES, &info, NULL), SPSH_E_UNSUPPORTED);
    CHECK_I64(spsh_decoder_open(&source, SPSH_CODEC_FEATURES, NULL, &decoder, &err),
              SPSH_E_UNSUPPORTED);
    CHECK(decoder == NULL && strstr(err.message, "features, not audio") != NULL);
    CHECK_I64(spsh_audio_decode_memory(file, SPSH_CODEC_FEATURES, NULL, NULL, NULL, &result, NULL),
              SPSH_E_UNSUPPORTED);
    CHECK(spsh_audio_sniff(payload, payload_bytes, "a.sfea") == SPSH_CODEC_UNKNOWN);
}

TEST_MAIN(unit_feature_record)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_verify_reads_the_rows);
    RUN(test_fields);
    RUN(test_no_decoder_takes_it);
    test_remove_tree(folder);
    return TEST_RESULT();
}

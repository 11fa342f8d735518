/* unit_shard.c: the records that the writer accepts, where it cuts blocks, and that a reader
 * returns the data that was written. */
#include <lz4.h>
#include <pthread.h>

#include "base/checksum.h"
#include "format/block.h"
#include "format/container.h"
#include "format/metadata_block.h"
#include "format/record.h"
#include "format/shard_index.h"
#include "format/shard_internal.h"
#include "speechshard/shard.h"
#include "spsh_test.h"
#include "tiny_shard.h"

enum { THREADS = 4 };

static char folder[256];
static char path[300];

static spsh_bytes text(const char *string)
{
    return (spsh_bytes){(const uint8_t *)string, strlen(string)};
}

static spsh_shard_writer *open_writer(uint64_t first_record)
{
    spsh_shard_writer *writer = NULL;
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;
    options.directory = folder;
    options.first_record = first_record;
    (void)snprintf(path, sizeof(path), "%s/000000-000.spsh", folder);
    (void)unlink(path);
    REQUIRE(spsh_shard_writer_open(&options, &writer, NULL) == SPSH_OK);
    return writer;
}

static spsh_record good_record(void)
{
    return (spsh_record){
        .id = {(const uint8_t *)"r", 1},
        .payload_bytes = 100,
        .samples = 1000,
        .sample_rate_hz = 16000,
        .nominal_rate_hz = 16000,
        .channels = 1,
        .codec = SPSH_CODEC_FLAC,
        .format = SPSH_SAMPLE_I16,
        .bits_per_sample = 16,
    };
}

static void test_file_name(void)
{
    char name[32];
    spsh_shard_file_name(12, 3, name);
    CHECK_STR(name, "000012-003.spsh");
    spsh_shard_file_name(999999, 999, name);
    CHECK_STR(name, "999999-999.spsh");
}

static void test_options(void)
{
    spsh_shard_writer *writer = NULL;
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;
    CHECK_I64(spsh_shard_writer_open(NULL, &writer, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_writer_open(&options, &writer, NULL), SPSH_E_INVALID_ARG);
    options.directory = folder;
    options.unit = 1000000;
    CHECK_I64(spsh_shard_writer_open(&options, &writer, NULL), SPSH_E_INVALID_ARG);
    options.unit = 0;
    options.number = 1000;
    CHECK_I64(spsh_shard_writer_open(&options, &writer, NULL), SPSH_E_INVALID_ARG);
    options.number = 0;
    options.directory = "/nonexistent/x";
    CHECK_I64(spsh_shard_writer_open(&options, &writer, NULL), SPSH_E_NOT_FOUND);
    CHECK(writer == NULL);
    spsh_shard_writer_free(NULL);
    spsh_shard_close(NULL);
    spsh_record_reader_close(NULL);
    spsh_metadata_reader_close(NULL);
}

/* Each row breaks one field. The writer can still be used. */
static void test_refused_records(void)
{
    static const spsh_seek_point late[1] = {
        {1, 0}
    };
    static const spsh_seek_point equal[2] = {
        {0, 0},
        {5, 0}
    };
    static const spsh_seek_point outside[2] = {
        {0,    0},
        {1000, 5}
    };
    static const uint8_t payload[100] = {0};
    spsh_record r[24];
    for (size_t i = 0; i < 24; i++)
        r[i] = good_record();
    r[0].id.size_bytes = 0;
    r[1].id = text("\xff");
    r[2].sample_rate_hz = r[2].nominal_rate_hz = 999;
    r[3].sample_rate_hz = r[3].nominal_rate_hz = 768001;
    r[4].nominal_rate_hz = 8000;
    r[5].channels = 0;
    r[6].channels = 65;
    r[7].codec = SPSH_CODEC_UNKNOWN;
    r[8].codec = (spsh_codec)7;
    r[9].format = (spsh_sample_format)0;
    r[10].format = (spsh_sample_format)4;
    r[11].bits_per_sample = 65;
    r[12].codec = SPSH_CODEC_MP3; /* with bits per sample */
    r[13].flags = 32;
    r[14].flags = SPSH_RECORD_PCM_HASH | SPSH_RECORD_UNDECODABLE;
    r[15].flags = SPSH_RECORD_PCM_HASH | SPSH_RECORD_TRUSTED;
    r[16].pcm_hash[15] = 1;
    r[17].seek_points = late;
    r[17].seek_point_count = 1;
    r[18].seek_points = equal;
    r[18].seek_point_count = 2;
    r[19].seek_points = outside;
    r[19].seek_point_count = 2;
    r[20].seek_point_count = 1; /* without points */
    r[21].channels = 65536 + 1;
    r[22].codec = (spsh_codec)(65536 + 1);
    r[23].sample_rate_hz = 0;
    spsh_shard_writer *writer = open_writer(0);
    uint64_t number = 99;
    for (size_t i = 0; i < 24; i++)
        CHECK_I64(spsh_shard_writer_add_record(writer, &r[i], payload, &number, NULL),
                  SPSH_E_INVALID_ARG);
    spsh_record large = good_record();
    large.payload_bytes = (UINT64_C(2) << 30) + 1;
    CHECK_I64(spsh_shard_writer_add_record(writer, &large, payload, &number, NULL), SPSH_E_LIMIT);
    large.payload_bytes = UINT64_C(2) << 30; /* the head exceeds its limit */
    CHECK_I64(spsh_shard_writer_add_record(writer, &large, payload, &number, NULL), SPSH_E_LIMIT);
    large.payload_bytes = UINT64_MAX;
    CHECK_I64(spsh_shard_writer_add_record(writer, &large, payload, &number, NULL), SPSH_E_LIMIT);
    CHECK_U64(number, 99);
    spsh_record good = good_record();
    CHECK_I64(spsh_shard_writer_add_record(writer, &good, payload, &number, NULL), SPSH_OK);
    CHECK_U64(number, 0);
    spsh_shard_writer_free(writer);
    CHECK(access(path, F_OK) != 0);
}

static void test_refused_segments(void)
{
    static const uint8_t payload[100] = {0};
    spsh_shard_writer *writer = open_writer(7);
    spsh_record record = good_record();
    uint64_t number = 0;
    spsh_shard_seal seal;
    spsh_utterance u = {
        .id = {(const uint8_t *)"u", 1},
          .record = 7
    };
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL),
              SPSH_E_INVALID_ARG); /* not written yet */
    CHECK_I64(spsh_shard_writer_add_record(writer, &record, payload, &number, NULL), SPSH_OK);
    CHECK_U64(number, 7);
    u.start_sample = 1;
    u.samples = 1000;
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_E_INVALID_ARG);
    u.samples = 999;
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_OK);
    u.record = 8;
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_E_INVALID_ARG);
    u.record = 6; /* a record of an earlier shard */
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_OK);
    CHECK_I64(spsh_shard_writer_seal(writer, &seal, NULL), SPSH_OK);
    CHECK_U64(seal.record_count, 1);
    CHECK_U64(seal.utterance_count, 2);
    CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_writer_add_record(writer, &record, payload, &number, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_writer_seal(writer, &seal, NULL), SPSH_E_INVALID_ARG);
    spsh_shard_writer_free(writer);
}

static void test_empty_shard(void)
{
    spsh_shard_seal seal;
    spsh_shard *shard = NULL;
    spsh_shard_writer *writer = open_writer(0);
    CHECK_I64(spsh_shard_writer_seal(writer, &seal, NULL), SPSH_OK);
    spsh_shard_writer_free(writer);
    uint8_t digest[16];
    CHECK_I64(tiny_shard_read(path, NULL, NULL, digest, NULL), SPSH_OK);
    CHECK_I64(spsh_shard_open(path, NULL, &shard, NULL), SPSH_OK);
    spsh_shard_row row;
    spsh_record record;
    spsh_record_place place;
    spsh_bytes name;
    CHECK_I64(spsh_shard_row_get(shard, 0, &row, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_record(shard, 0, &record, &place, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_name(shard, SPSH_NAME_DOMAIN, 0, &name, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_shard_name(shard, SPSH_NAME_KINDS, 0, &name, NULL), SPSH_E_INVALID_ARG);
    spsh_shard_close(shard);
}

static void test_expected_seal(void)
{
    spsh_shard_seal seal;
    spsh_shard *shard = NULL;
    char tiny_path[300];
    spsh_shard_options options = SPSH_SHARD_OPTIONS_INIT;
    (void)snprintf(tiny_path, sizeof(tiny_path), "%s/000007-002.spsh", folder);
    CHECK_I64(tiny_shard_write(folder, TINY_SMALL, NULL, NULL, &seal, NULL), SPSH_OK);
    options.expected = &seal;
    CHECK_I64(spsh_shard_open(tiny_path, &options, &shard, NULL), SPSH_OK);
    const spsh_shard_seal *info = spsh_shard_info(shard);
    CHECK(memcmp(info->file_id, seal.file_id, 16) == 0);
    CHECK(memcmp(info->root_hash, seal.root_hash, 16) == 0);
    CHECK_U64(info->file_bytes, seal.file_bytes);
    CHECK_U64(info->unit, TINY_UNIT);
    CHECK_U64(info->number, TINY_NUMBER);
    CHECK_U64(info->record_count, seal.record_count);
    CHECK_U64(info->utterance_count, seal.utterance_count);
    CHECK_U64(spsh_shard_first_record(shard), TINY_FIRST_RECORD);
    CHECK_U64(spsh_shard_first_utterance(shard), TINY_FIRST_UTTERANCE);
    spsh_shard_close(shard);
    seal.root_hash[0] ^= 1;
    CHECK_I64(spsh_shard_open(tiny_path, &options, &shard, NULL), SPSH_E_MISMATCH);
    seal.root_hash[0] ^= 1;
    seal.file_id[0] ^= 1;
    CHECK_I64(spsh_shard_open(tiny_path, &options, &shard, NULL), SPSH_E_MISMATCH);
    seal.file_id[0] ^= 1;
    seal.file_bytes++;
    CHECK_I64(spsh_shard_open(tiny_path, &options, &shard, NULL), SPSH_E_MISMATCH);
    (void)unlink(tiny_path);
}

/* Walk the blocks of a file as repair does, and check every rule of writing and every record. */
static void check_blocks(const uint8_t *data, const spsh__footer *footer, uint64_t *ret_rows)
{
    uint64_t records = 0;
    uint64_t rows = 0;
    uint64_t ordinal = 0;
    uint64_t closed_early = 0; /* used bytes of the previous record block, if below 1 MiB */
    for (uint64_t at = 4096; at < footer->section_area_offset; ordinal++) {
        spsh__block block;
        REQUIRE(spsh__block_header_decode(data + at, at, "x", &block, NULL) == SPSH_OK);
        CHECK_I64(spsh__block_check(footer->file_id, at, data + at, &block, "x", NULL), SPSH_OK);
        CHECK_U64(block.ordinal, ordinal);
        if (block.kind == SPSH__BLOCK_RECORDS) {
            uint64_t inside = 64;
            CHECK_U64(block.first, records);
            for (uint32_t i = 0; i < block.count; i++) {
                spsh_record record;
                spsh_bytes payload;
                size_t left = (size_t)(block.used_bytes - inside);
                REQUIRE(spsh_record_check(footer->file_id, at + inside, data + at + inside, left,
                                          &record, &payload, NULL) == SPSH_OK);
                uint64_t record_bytes = (uint64_t)(payload.data - (data + at + inside)) +
                                        spsh__align_up(payload.size_bytes, 64);
                inside += record_bytes;
                CHECK(i > 0 || closed_early == 0 ||
                      closed_early + record_bytes > SPSH_BLOCK_BYTES_MAX);
                CHECK(i + 1 == block.count || inside < 1 << 20); /* else it is closed late */
            }
            CHECK_U64(inside, block.used_bytes);
            records += block.count;
            closed_early = inside < 1 << 20 ? inside : 0;
        } else {
            CHECK_U64(block.first, rows);
            CHECK(block.count <= SPSH__METADATA_ROWS);
            rows += block.count;
            closed_early = 0;
        }
        at += block.block_bytes;
    }
    CHECK_U64(records, footer->record_count);
    CHECK_U64(rows, footer->utterance_count);
    CHECK_U64(ordinal, footer->block_count);
    *ret_rows = rows;
}

static size_t random_size(uint64_t *seed)
{
    switch (test_random(seed) % 40) {
    case 0: return (size_t)(test_random(seed) % 6000000); /* now and then oversize */
    case 1: return 65536 * (size_t)(1 + test_random(seed) % 4);
    case 2: return 0;
    case 3: return 4194304 - 64 - 64 * (size_t)(test_random(seed) % 20); /* about a whole block */
    default: return (size_t)(test_random(seed) % 100000);
    }
}

/* A few hundred records of all sizes. The same calls give the same bytes. */
static void test_random_shards(void)
{
    uint64_t seed = test_seed(11);
    static uint8_t payload[6000000];
    for (size_t i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)test_random(&seed);
    uint64_t start = seed;
    uint8_t root[2][16];
    for (unsigned pass = 0; pass < 2; pass++) {
        spsh_shard_writer *writer = open_writer(0);
        spsh_shard_seal seal;
        uint64_t rows = 0;
        seed = start;
        for (unsigned i = 0; i < 200; i++) {
            char id[32];
            uint64_t number = 0;
            spsh_record record = good_record();
            (void)snprintf(id, sizeof(id), "record %u", i);
            record.id = text(id);
            record.payload_bytes = random_size(&seed);
            REQUIRE(spsh_shard_writer_add_record(writer, &record, payload + test_random(&seed) % 7,
                                                 &number, NULL) == SPSH_OK);
            CHECK_U64(number, i);
            for (uint64_t k = test_random(&seed) % 40; k > 0; k--, rows++) {
                char utt[32];
                (void)snprintf(utt, sizeof(utt), "%u/%llu", i, (unsigned long long)k);
                spsh_utterance u = {.id = text(utt), .record = test_random(&seed) % (i + 1)};
                u.samples = test_random(&seed) % 1000;
                CHECK_I64(spsh_shard_writer_add_utterance(writer, &u, NULL), SPSH_OK);
            }
        }
        uint64_t estimate = spsh_shard_writer_size(writer);
        REQUIRE(spsh_shard_writer_seal(writer, &seal, NULL) == SPSH_OK);
        spsh_shard_writer_free(writer);
        uint64_t error =
            estimate > seal.file_bytes ? estimate - seal.file_bytes : seal.file_bytes - estimate;
        CHECK(error < SPSH_BLOCK_BYTES_MAX);
        memcpy(root[pass], seal.root_hash, 16);
        uint8_t *data = NULL;
        size_t size = 0;
        uint64_t found_rows = 0;
        spsh__footer footer;
        REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size, NULL) ==
                SPSH_OK);
        REQUIRE(spsh__footer_decode(data + size - 4096, 1, size, "x", &footer, NULL) == SPSH_OK);
        check_blocks(data, &footer, &found_rows);
        CHECK_U64(found_rows, rows);
        free(data);
        uint8_t digest[16];
        CHECK_I64(tiny_shard_read(path, NULL, NULL, digest, NULL), SPSH_OK);
    }
    CHECK(memcmp(root[0], root[1], 16) == 0);
}

static void test_ranges_of_a_payload(void)
{
    uint64_t seed = test_seed(5);
    enum { SIZE = 300000 };
    static uint8_t payload[SIZE];
    static uint8_t part[SIZE];
    uint64_t number = 0;
    spsh_shard_seal seal;
    spsh_shard *shard = NULL;
    spsh_record_reader *reader = NULL;
    for (size_t i = 0; i < SIZE; i++)
        payload[i] = (uint8_t)test_random(&seed);
    spsh_shard_writer *writer = open_writer(0);
    spsh_record record = good_record();
    record.payload_bytes = SIZE;
    REQUIRE(spsh_shard_writer_add_record(writer, &record, payload, &number, NULL) == SPSH_OK);
    REQUIRE(spsh_shard_writer_seal(writer, &seal, NULL) == SPSH_OK);
    spsh_shard_writer_free(writer);
    REQUIRE(spsh_shard_open(path, NULL, &shard, NULL) == SPSH_OK);
    REQUIRE(spsh_record_reader_open(shard, 0, &reader, NULL) == SPSH_OK);
    uint8_t hash[16];
    spsh__hash128(payload, SIZE, hash);
    CHECK(memcmp(hash, spsh_record_reader_info(reader)->payload_hash, 16) == 0);
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t at = test_random(&seed) % (SIZE + 1);
        size_t size = (size_t)(test_random(&seed) % (SIZE + 1 - at));
        CHECK_I64(spsh_record_reader_read(reader, at, part, size, NULL), SPSH_OK);
        CHECK(memcmp(part, payload + at, size) == 0);
    }
    CHECK_I64(spsh_record_reader_read(reader, SIZE, part, 1, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_record_reader_read(reader, UINT64_MAX, part, 1, NULL), SPSH_E_INVALID_ARG);
    spsh_audio_source source = spsh_record_reader_source(reader);
    size_t got = 0;
    CHECK_U64(source.size_bytes, SIZE);
    CHECK_I64(source.read_fn(source.user, SIZE - 10, part, 100, &got, NULL), SPSH_OK);
    CHECK_U64(got, 10);
    CHECK_I64(source.read_fn(source.user, UINT64_MAX, part, 100, &got, NULL), SPSH_OK);
    CHECK_U64(got, 0);
    spsh_record_reader_close(reader);
    spsh_shard_close(shard);
}

static void test_oversize(void)
{
    spsh_shard_seal seal;
    uint8_t digest[16];
    char tiny_path[300];
    spsh_shard *shard = NULL;
    spsh_record record;
    spsh_record_place place;
    (void)snprintf(tiny_path, sizeof(tiny_path), "%s/000007-002.spsh", folder);
    REQUIRE(tiny_shard_write(folder, TINY_OVERSIZE, NULL, NULL, &seal, NULL) == SPSH_OK);
    CHECK_I64(tiny_shard_read(tiny_path, NULL, NULL, digest, NULL), SPSH_OK);
    REQUIRE(spsh_shard_open(tiny_path, NULL, &shard, NULL) == SPSH_OK);
    CHECK_I64(spsh_shard_record(shard, 4, &record, &place, NULL), SPSH_OK);
    CHECK_U64(place.offset_bytes % 4096, 64); /* first in a separate block */
    CHECK_U64(place.payload_bytes, 5000000);
    uint8_t *data = (uint8_t *)malloc((size_t)place.record_bytes);
    spsh_bytes payload;
    REQUIRE(data != NULL);
    REQUIRE(spsh_io_read_exact(spsh_io_default(), spsh__container_fd(spsh__shard_container(shard)),
                               data, (size_t)place.record_bytes, place.offset_bytes, "x",
                               NULL) == SPSH_OK);
    CHECK_I64(spsh_record_check(seal.file_id, place.offset_bytes, data, (size_t)place.record_bytes,
                                &record, &payload, NULL),
              SPSH_OK);
    CHECK_U64(payload.size_bytes, 5000000);
    CHECK_I64(spsh_record_check(seal.file_id, place.offset_bytes + 64, data,
                                (size_t)place.record_bytes, &record, &payload, NULL),
              SPSH_E_CORRUPT); /* the right bytes at a wrong position */
    CHECK_I64(spsh_record_check(seal.file_id, place.offset_bytes, data,
                                (size_t)place.record_bytes - 64, &record, &payload, NULL),
              SPSH_E_TRUNCATED);
    CHECK_I64(
        spsh_record_check(seal.file_id, place.offset_bytes, data, 100, &record, &payload, NULL),
        SPSH_E_TRUNCATED);
    data[place.record_bytes - 1] ^= 1;
    CHECK_I64(spsh_record_check(seal.file_id, place.offset_bytes, data, (size_t)place.record_bytes,
                                &record, &payload, NULL),
              SPSH_E_CORRUPT);
    free(data);
    spsh_shard_close(shard);
}

static void test_find(void)
{
    spsh_shard_seal seal;
    char tiny_path[300];
    spsh_shard *shard = NULL;
    spsh_metadata_reader *reader = NULL;
    uint64_t row = 77;
    (void)snprintf(tiny_path, sizeof(tiny_path), "%s/000007-002.spsh", folder);
    (void)unlink(tiny_path);
    REQUIRE(tiny_shard_write(folder, TINY_TWO, NULL, NULL, &seal, NULL) == SPSH_OK);
    REQUIRE(spsh_shard_open(tiny_path, NULL, &shard, NULL) == SPSH_OK);
    REQUIRE(spsh_metadata_reader_open(shard, &reader, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 1100; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "utt-%llu", (unsigned long long)(i * 7919 % 10007));
        CHECK_I64(spsh_shard_find(shard, reader, text(id), &row, NULL), SPSH_OK);
        CHECK_U64(row, i);
    }
    CHECK_I64(spsh_shard_find(shard, reader, text("utt"), &row, NULL), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh_shard_find(shard, reader, text(""), &row, NULL), SPSH_E_NOT_FOUND);
    spsh_utterance u;
    CHECK_I64(spsh_metadata_reader_get(reader, 1100, &u, NULL), SPSH_E_INVALID_ARG);
    spsh_metadata_reader_close(reader);
    spsh_shard_close(shard);
}

static void *read_in_thread(void *user)
{
    const spsh_shard *shard = (const spsh_shard *)user;
    spsh_metadata_reader *reader = NULL;
    bool good = spsh_metadata_reader_open(shard, &reader, NULL) == SPSH_OK;
    for (uint64_t i = 0; i < 1100 && good; i++) {
        spsh_utterance u;
        spsh_record_reader *record = NULL;
        uint8_t byte = 0;
        good = spsh_metadata_reader_get(reader, i, &u, NULL) == SPSH_OK;
        if (i % 50 != 0)
            continue;
        good = good && spsh_record_reader_open(shard, i / 50 % 3, &record, NULL) == SPSH_OK &&
               spsh_record_reader_read(record, 0, &byte, 1, NULL) == SPSH_OK;
        spsh_record_reader_close(record);
    }
    spsh_metadata_reader_close(reader);
    return good ? user : NULL;
}

static void test_threads_share_a_shard(void)
{
    char tiny_path[300];
    spsh_shard *shard = NULL;
    pthread_t threads[THREADS];
    (void)snprintf(tiny_path, sizeof(tiny_path), "%s/000007-002.spsh", folder);
    REQUIRE(spsh_shard_open(tiny_path, NULL, &shard, NULL) == SPSH_OK);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, read_in_thread, shard) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result = NULL;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        CHECK(result != NULL);
    }
    spsh_shard_close(shard);
}

/* The golden file was written by version 1.0. Reading and writing it must give the same bytes in
 * all later versions. */
static void test_golden(void)
{
    char golden_path[600];
    char tiny_path[300];
    uint8_t *golden = NULL;
    uint8_t *now = NULL;
    size_t golden_bytes = 0;
    size_t now_bytes = 0;
    uint8_t digest[16];
    spsh_shard_seal seal;
    test_source_path(golden_path, sizeof(golden_path), "tests/golden/000007-002.spsh");
    CHECK_I64(tiny_shard_read(golden_path, NULL, NULL, digest, NULL), SPSH_OK);
    (void)snprintf(tiny_path, sizeof(tiny_path), "%s/000007-002.spsh", folder);
    (void)unlink(tiny_path);
    REQUIRE(tiny_shard_write(folder, TINY_SMALL, NULL, NULL, &seal, NULL) == SPSH_OK);
    REQUIRE(spsh_io_read_file(spsh_io_default(), golden_path, SIZE_MAX, NULL, &golden,
                              &golden_bytes, NULL) == SPSH_OK);
    REQUIRE(spsh_io_read_file(spsh_io_default(), tiny_path, SIZE_MAX, NULL, &now, &now_bytes,
                              NULL) == SPSH_OK);
    /* Another version of LZ4 may compress differently. Header and records do not depend on it. */
    CHECK(memcmp(golden, now, 8192) == 0);
    if (LZ4_versionNumber() == 10904)
        CHECK(golden_bytes == now_bytes && memcmp(golden, now, now_bytes) == 0);
    free(golden);
    free(now);
}

TEST_MAIN(unit_shard)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_file_name);
    RUN(test_options);
    RUN(test_refused_records);
    RUN(test_refused_segments);
    RUN(test_empty_shard);
    RUN(test_expected_seal);
    RUN(test_random_shards);
    RUN(test_ranges_of_a_payload);
    RUN(test_oversize);
    RUN(test_find);
    RUN(test_threads_share_a_shard);
    RUN(test_golden);
    test_remove_tree(folder);
    return TEST_RESULT();
}

/* fault_verify_rules.c: files with correct checksums and wrong contents. Verify must find an index
 * that does not match the blocks. Invalid contents must neither crash verify and repair nor pass as
 * a sealed file. */
#include "noise_dataset.h"
#include "reseal.h"
#include "speechshard/verify.h"

#include <fcntl.h>

static char root[512], path[600], out[600];
static uint8_t *good;
static size_t size;
static uint64_t seed;
static uint64_t stride; /* distance between changed bytes */

static uint64_t load(size_t at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | good[at + (size_t)i];
    return value;
}

static void write_file(const uint8_t *data, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    REQUIRE(close(fd) == 0);
}

typedef struct found {
    uint64_t count;
    char part[32];
} found;

static int take_damage(void *user, const spsh_damage *damage)
{
    found *f = (found *)user;
    if (f->count++ == 0)
        (void)snprintf(f->part, sizeof(f->part), "%s", damage->part);
    return 0;
}

static spsh_status verify(uint32_t flags, found *ret_found)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    memset(ret_found, 0, sizeof(*ret_found));
    opt.jobs = 1;
    opt.flags = flags | SPSH_VERIFY_CACHED | SPSH_VERIFY_NO_URING;
    opt.damage_fn = take_damage;
    opt.user = ret_found;
    return spsh_verify(path, &opt, &result, NULL);
}

static void test_resealing_a_good_shard_changes_nothing(void)
{
    found f;
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL);
    memcpy(copy, good, size);
    reseal(copy, size);
    CHECK(memcmp(copy, good, size) == 0);
    write_file(copy, size);
    CHECK_I64(verify(SPSH_VERIFY_DECODE, &f), SPSH_OK);
    CHECK_U64(f.count, 0);
    free(copy);
}

static void test_an_index_that_does_not_follow_from_the_blocks(void)
{
    size_t begin = (size_t)load(size - 4096 + 32, 8), end = (size_t)load(size - 4096 + 48, 8);
    uint64_t random = seed;
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL);
    for (size_t at = begin; at < end && test_failures < 10; at += stride) {
        found f;
        memcpy(copy, good, size);
        copy[at] ^= (uint8_t)(1U << (test_random(&random) % 8));
        reseal(copy, size);
        write_file(copy, size);
        spsh_status rc = verify(0, &f);
        if (rc != SPSH_OK || f.count == 0)
            fprintf(stderr, "byte %zu of the sections: status %d\n", at - begin, rc);
        CHECK(rc == SPSH_OK && f.count > 0);
    }
    free(copy);
}

/* Counts and offsets in header and footers. */
static void test_header_and_footers_that_do_not_fit(void)
{
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL);
    for (size_t at = 16; at < 112; at++) {
        found f;
        memcpy(copy, good, size);
        copy[at] ^= 1;
        reseal(copy, size);
        write_file(copy, size);
        CHECK_I64(verify(0, &f), SPSH_OK);
        /* only the dataset reveals first_record and first_utterance */
        CHECK(f.count > 0 || (at >= 38 && at < 56) || at >= 96);
        memcpy(copy, good, size);
        copy[size - 8192 + at] ^= 1;
        copy[size - 4096 + at] ^= 1;
        reseal(copy, size);
        write_file(copy, size);
        CHECK_I64(verify(0, &f), SPSH_OK);
        CHECK(f.count > 0 || memcmp(copy, good, size) == 0);
    }
    free(copy);
}

static size_t find_record(const uint8_t *data)
{
    size_t at = 4096;
    while (memcmp(data + at + 8, "SREC", 4) != 0)
        at += 64;
    return at;
}

static void test_payloads_are_what_their_heads_say(void)
{
    size_t at = find_record(good);
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL);
    at += (size_t)load(at + 12, 4) + 100;
    memcpy(copy, good, size);
    copy[at] ^= 1;
    reseal(copy, size);
    write_file(copy, size);
    found f;
    CHECK_I64(verify(SPSH_VERIFY_DECODE, &f), SPSH_OK);
    CHECK_U64(f.count, 1);
    CHECK_STR(f.part, "record");
    free(copy);
}

/* The head has its own checksum. So a faulty writer can give a valid head to wrong page
 * checksums or to a padding that is not zero. Readers reject such records, with or without
 * decoding. */
static void test_pages_are_what_readers_accept(void)
{
    const size_t at = find_record(good);
    const size_t head_bytes = (size_t)load(at + 12, 4), payload_bytes = (size_t)load(at + 16, 8);
    const size_t id_end = at + 128 + (size_t)(load(at + 60, 4) + 7) / 8 * 8;
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL && payload_bytes % 64 != 0);
    for (uint32_t n = 0; n < 4; n++) {
        found f;
        memcpy(copy, good, size);
        if (n < 2)
            copy[id_end + (size_t)load(at + 96, 4) * 16] ^= 1; /* the checksum of page 0 */
        else
            copy[at + head_bytes + payload_bytes] = 1;
        (n < 2 ? reseal_but_pages : reseal)(copy, size);
        write_file(copy, size);
        CHECK_I64(verify(n % 2 == 0 ? 0 : SPSH_VERIFY_DECODE, &f), SPSH_OK);
        CHECK_U64(f.count, 1);
        CHECK_STR(f.part, "record");
    }
    free(copy);
}

enum { FLAC_SAMPLES = 20000, FLAC_FRAME = 4096 };

/* A shard with one FLAC recording and two seek points: the frame of sample 0, and that of sample
 * 8192 at another frame's offset and some bytes on. */
static void write_flac_shard(const char *directory, int frame, int bytes, spsh_shard_seal *seal)
{
    static uint8_t payload[4 * FLAC_SAMPLES];
    static int16_t pcm[FLAC_SAMPLES];
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    spsh_shard_writer *writer = NULL;
    spsh_decode_result decoded = SPSH_DECODE_RESULT_INIT;
    spsh_seek_point frames[8], points[2];
    uint64_t count = 0, number = 0, random = 5;
    size_t payload_bytes = 0;
    for (size_t n = 0; n < FLAC_SAMPLES; n++)
        pcm[n] = (int16_t)test_random(&random);
    REQUIRE(spsh_flac_encode(pcm, SPSH_SAMPLE_I16, 16, FLAC_SAMPLES, 1, 16000, payload,
                             sizeof(payload), &payload_bytes, NULL) == SPSH_OK);
    const spsh_bytes file = {payload, payload_bytes};
    REQUIRE(spsh_audio_seek_points(file, SPSH_CODEC_FLAC, 1, frames, 8, &count, NULL) == SPSH_OK);
    REQUIRE(count == 5 && frames[2].sample == (uint64_t)2 * FLAC_FRAME);
    REQUIRE(spsh_audio_decode_memory(file, SPSH_CODEC_FLAC, NULL, NULL, NULL, &decoded, NULL) ==
            SPSH_OK);
    points[0] = frames[0];
    points[1] = (spsh_seek_point){frames[2].sample,
                                  frames[2 + frame].offset_bytes + (uint64_t)(int64_t)bytes};
    spsh_record record = {.id = noise_text("flac"),
                          .payload_bytes = payload_bytes,
                          .samples = FLAC_SAMPLES,
                          .sample_rate_hz = 16000,
                          .nominal_rate_hz = 16000,
                          .channels = 1,
                          .codec = SPSH_CODEC_FLAC,
                          .format = SPSH_SAMPLE_I16,
                          .bits_per_sample = 16,
                          .flags = SPSH_RECORD_PCM_HASH,
                          .seek_points = points,
                          .seek_point_count = 2};
    memcpy(record.pcm_hash, decoded.pcm_hash, 16);
    opt.directory = directory;
    memcpy(opt.dataset_id, noise_dataset_id, 16);
    REQUIRE(spsh_shard_writer_open(&opt, &writer, NULL) == SPSH_OK);
    REQUIRE(spsh_shard_writer_add_record(writer, &record, payload, &number, NULL) == SPSH_OK);
    REQUIRE(spsh_shard_writer_seal(writer, seal, NULL) == SPSH_OK);
    spsh_shard_writer_free(writer);
}

static void test_seek_points_are_frames(void)
{
    static const struct {
        int frame, bytes;
        uint64_t wrong;
    } cases[] = {
        {0,  0,  0},
        {0,  1,  1},
        {0,  -1, 1},
        {-1, 0,  1},
        {1,  0,  1},
        {2,  7,  1}
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        spsh_shard_seal seal;
        found f;
        REQUIRE(unlink(path) == 0);
        write_flac_shard(root, cases[n].frame, cases[n].bytes, &seal);
        CHECK_I64(verify(0, &f), SPSH_OK);
        CHECK_U64(f.count, 0);
        CHECK_I64(verify(SPSH_VERIFY_DECODE, &f), SPSH_OK);
        CHECK_U64(f.count, cases[n].wrong);
        CHECK_STR(f.part, cases[n].wrong != 0 ? "seek table" : "");
    }
}

static void mutate(uint8_t *copy, uint64_t *random)
{
    static const uint8_t bytes[] = {0, 1, 0x7F, 0x80, 0xFF};
    uint64_t changes = 1 + test_random(random) % 6;
    for (uint64_t n = 0; n < changes; n++) {
        /* Most of a shard is payload: half of the changes go where structures are. */
        size_t at = (size_t)(test_random(random) % size);
        if (n % 2 == 0)
            at = at / 4096 * 4096 + (size_t)(test_random(random) % 160);
        uint64_t dice = test_random(random);
        copy[at] = dice % 2 == 0 ? bytes[dice / 2 % 5] : (uint8_t)(dice >> 8);
    }
}

static void test_nonsense_neither_crashes_nor_passes(void)
{
    const uint64_t rounds = 1500 / stride;
    uint64_t random = seed;
    uint8_t *copy = malloc(size);
    REQUIRE(copy != NULL);
    for (uint64_t round = 0; round < rounds; round++) {
        found f;
        spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
        spsh_repair_result result = SPSH_REPAIR_RESULT_INIT;
        memcpy(copy, good, size);
        mutate(copy, &random);
        size_t bytes = round % 5 == 0 ? size - 4096 * (size_t)(test_random(&random) % 6) : size;
        if (round % 4 != 0)
            reseal(copy, bytes);
        write_file(copy, bytes);
        spsh_status rc = verify(round % 8 == 0 ? SPSH_VERIFY_DECODE : 0, &f);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_LIMIT);
        if (round % 3 != 0)
            continue;
        REQUIRE(mkdir(out, 0700) == 0);
        rc = spsh_repair_shard(path, noise_dataset_id, out, &opt, &result, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CORRUPT || rc == SPSH_E_MISMATCH ||
              rc == SPSH_E_LIMIT || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_INVALID_ARG);
        test_remove_tree(out);
    }
    free(copy);
}

TEST_MAIN(fault_verify_rules)
{
    spsh_shard_seal seal;
    seed = test_seed(31337);
    stride = test_stride(argc, argv, 5);
    test_temp_memory(root, sizeof(root));
    (void)snprintf(path, sizeof(path), "%s/000000-000.spsh", root);
    (void)snprintf(out, sizeof(out), "%s/out", root);
    noise_shard_make(root, 0, &seal);
    size = (size_t)seal.file_bytes;
    good = malloc(size);
    int fd = open(path, O_RDONLY);
    REQUIRE(good != NULL && fd >= 0 && read(fd, good, size) == (ssize_t)size);
    REQUIRE(close(fd) == 0);
    RUN(test_resealing_a_good_shard_changes_nothing);
    RUN(test_an_index_that_does_not_follow_from_the_blocks);
    RUN(test_header_and_footers_that_do_not_fit);
    RUN(test_payloads_are_what_their_heads_say);
    RUN(test_pages_are_what_readers_accept);
    RUN(test_seek_points_are_frames);
    RUN(test_nonsense_neither_crashes_nor_passes);
    free(good);
    test_remove_tree(root);
    return TEST_RESULT();
}

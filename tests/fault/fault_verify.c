/* fault_verify.c: damage anywhere is found. Its file, its part, and the lost utterances are
 * reported.
 *
 *     fault_verify            every bit of the structures, a bit of every few bytes of the rest
 *     fault_verify --all      a bit of every byte of every file
 *     fault_verify --fewer    a quarter of the bits, larger steps through other sweeps
 *     fault_verify --races    only the multithreaded checks
 */
#include "fault_alloc.h"
#include "fault_io.h"
#include "noise_dataset.h"
#include "speechshard/verify.h"

#include <fcntl.h>

static char root[512], dataset[560];
static spsh_shard_seal seals[NOISE_SHARDS];
static uint64_t seed;

enum { FOUND_MAX = 64 };

typedef struct finding {
    char file[64], part[32], id[64], message[700];
    uint64_t offset_bytes, size_bytes, utterances;
} finding;

typedef struct findings {
    finding list[FOUND_MAX];
    uint32_t count;
    uint32_t stop_after; /* 0: never */
} findings;

static int take_damage(void *user, const spsh_damage *damage)
{
    findings *found = (findings *)user;
    REQUIRE(damage->file != NULL && damage->part != NULL && damage->message != NULL);
    CHECK(strchr(damage->message, '\n') == NULL);
    if (found->count < FOUND_MAX) {
        finding *f = &found->list[found->count];
        (void)snprintf(f->file, sizeof(f->file), "%s", damage->file);
        (void)snprintf(f->part, sizeof(f->part), "%s", damage->part);
        (void)snprintf(f->id, sizeof(f->id), "%.*s", (int)damage->id.size_bytes,
                       damage->id.size_bytes == 0 ? "" : (const char *)damage->id.data);
        (void)snprintf(f->message, sizeof(f->message), "%s", damage->message);
        f->offset_bytes = damage->offset_bytes;
        f->size_bytes = damage->size_bytes;
        f->utterances = damage->utterances;
    }
    found->count++;
    return found->stop_after != 0 && found->count >= found->stop_after;
}

static void print_findings(const findings *found)
{
    for (uint32_t n = 0; n < found->count && n < FOUND_MAX; n++)
        fprintf(stderr, "    %s: %s at %" PRIu64 ": %s\n", found->list[n].file, found->list[n].part,
                found->list[n].offset_bytes, found->list[n].message);
}

static int compare_findings(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(finding));
}

/* Both parts together must report what one call has reported. */
static void check_parts(const char *path, const spsh_verify_options *whole, const findings *found,
                        const spsh_verify_result *result)
{
    static findings want, got;
    const int before = test_failures;
    spsh_verify_result sum = SPSH_VERIFY_RESULT_INIT;
    want = *found;
    memset(&got, 0, sizeof(got));
    for (uint64_t part = 0; part < 2; part++) {
        spsh_verify_options opt = *whole;
        spsh_verify_result one = SPSH_VERIFY_RESULT_INIT;
        opt.user = &got;
        opt.part = part;
        opt.part_count = 2;
        CHECK_I64(spsh_verify(path, &opt, &one, NULL), SPSH_OK);
        sum.files += one.files;
        sum.bytes += one.bytes;
        sum.blocks += one.blocks;
        sum.records += one.records;
        sum.utterances += one.utterances;
        sum.damage_count += one.damage_count;
    }
    CHECK_U64(sum.files, result->files);
    CHECK_U64(sum.bytes, result->bytes);
    CHECK_U64(sum.blocks, result->blocks);
    CHECK_U64(sum.records, result->records);
    CHECK_U64(sum.utterances, result->utterances);
    CHECK_U64(sum.damage_count, result->damage_count);
    CHECK_U64(got.count, want.count);
    if (got.count == want.count && want.count <= FOUND_MAX) {
        qsort(want.list, want.count, sizeof(finding), compare_findings);
        qsort(got.list, got.count, sizeof(finding), compare_findings);
        CHECK(memcmp(want.list, got.list, want.count * sizeof(finding)) == 0);
    }
    if (test_failures != before) {
        fprintf(stderr, "    in one call:\n");
        print_findings(&want);
        fprintf(stderr, "    in two parts:\n");
        print_findings(&got);
    }
}

static spsh_status verify(const char *path, uint32_t jobs, uint32_t flags, findings *ret_found,
                          spsh_verify_result *ret_result)
{
    static unsigned calls;
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    memset(ret_found, 0, sizeof(*ret_found));
    *ret_result = (spsh_verify_result)SPSH_VERIFY_RESULT_INIT;
    opt.damage_fn = take_damage;
    opt.user = ret_found;
    opt.jobs = jobs;
    opt.flags = flags;
    spsh_status rc = spsh_verify(path, &opt, ret_result, &err);
    if (rc == SPSH_OK) {
        CHECK_U64(ret_result->damage_count, ret_found->count);
        if (calls++ % 4 == 0)
            check_parts(path, &opt, ret_found, ret_result);
    }
    return rc;
}

/* ---- files of the dataset under test ---- */

static const char *const files[] = {
    "manifest.spsh",          "manifest-00000001.spsh", "index-00000001.spsh",
    "shards/000000-000.spsh", "shards/000000-001.spsh", "shards/000001-000.spsh",
    "overlays/skips.spsh",
};
enum { FILES = sizeof(files) / sizeof(files[0]) };

static int open_part(const char *name, uint64_t *ret_bytes)
{
    char path[700];
    struct stat info;
    (void)snprintf(path, sizeof(path), "%s/%s", dataset, name);
    int fd = open(path, O_RDWR);
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    *ret_bytes = (uint64_t)info.st_size;
    return fd;
}

static void flip(int fd, uint64_t offset, unsigned bit)
{
    uint8_t byte = 0;
    REQUIRE(pread(fd, &byte, 1, (off_t)offset) == 1);
    byte ^= (uint8_t)(1U << bit);
    REQUIRE(pwrite(fd, &byte, 1, (off_t)offset) == 1);
}

/* ---- tests ---- */

static void test_nothing_is_found_in_a_good_dataset(void)
{
    static const uint32_t flags[] = {
        0, SPSH_VERIFY_CACHED, SPSH_VERIFY_NO_URING, SPSH_VERIFY_DECODE,
        SPSH_VERIFY_DECODE | SPSH_VERIFY_NO_URING | SPSH_VERIFY_CACHED};
    for (size_t n = 0; n < sizeof(flags) / sizeof(flags[0]); n++) {
        for (uint32_t jobs = 0; jobs < 4; jobs++) {
            findings found;
            spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
            CHECK_I64(verify(dataset, jobs, flags[n], &found, &result), SPSH_OK);
            print_findings(&found);
            CHECK_U64(result.damage_count, 0);
            CHECK_U64(result.files, FILES);
            CHECK_U64(result.records, NOISE_SHARDS * NOISE_RECORDS);
            CHECK_U64(result.utterances, NOISE_SHARDS * NOISE_UTTERANCES);
            CHECK(result.blocks >= 2 * NOISE_SHARDS);
            uint64_t bytes = 0;
            for (size_t file = 0; file < FILES; file++) {
                uint64_t size = 0;
                REQUIRE(close(open_part(files[file], &size)) == 0);
                bytes += size;
            }
            CHECK_U64(result.bytes, bytes); /* every byte, once */
            if ((flags[n] & SPSH_VERIFY_NO_URING) != 0)
                CHECK_STR(result.engine, "pread");
            if ((flags[n] & SPSH_VERIFY_CACHED) != 0)
                CHECK(!result.direct);
        }
    }
}

static void test_a_single_file(void)
{
    for (size_t n = 0; n < FILES; n++) {
        char path[700];
        findings found;
        spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
        (void)snprintf(path, sizeof(path), "%s/%s", dataset, files[n]);
        CHECK_I64(verify(path, 1, 0, &found, &result), SPSH_OK);
        print_findings(&found);
        CHECK_U64(result.damage_count, 0);
        CHECK_U64(result.files, 1);
    }
}

/* Distance between flipped bits; larger under sanitizers, which are ten times slower. */
static uint64_t dense_stride = 3;
static uint64_t sparse_step = 601;
static uint64_t cut_step = 2000;   /* at most, from one truncation to the next */
static uint64_t memory_stride = 1; /* from one allocation that fails to the next */

/* Flip one bit. The damage must be in this file; `part` lists the permitted names of the part. */
static void check_flip(const char *name, int fd, uint64_t offset, unsigned bit)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    flip(fd, offset, bit);
    spsh_status rc = verify(dataset, 1, SPSH_VERIFY_CACHED | SPSH_VERIFY_NO_URING, &found, &result);
    flip(fd, offset, bit);
    bool named = rc == SPSH_OK && found.count >= 1;
    for (uint32_t n = 0; n < found.count && n < FOUND_MAX; n++) {
        const finding *f = &found.list[n];
        named = named && strcmp(f->file, name) == 0 && f->offset_bytes != SPSH_OFFSET_NONE &&
                f->offset_bytes <= offset;
    }
    if (named && found.list[0].size_bytes != 0)
        named = offset < found.list[0].offset_bytes + found.list[0].size_bytes;
    if (!named) {
        fprintf(stderr, "%s: bit %u of byte %" PRIu64 ": status %d, %u findings\n", name, bit,
                offset, rc, found.count);
        print_findings(&found);
    }
    CHECK(named);
}

/* The places where every bit is tried: around each structure's beginning and end. */
static bool is_dense(uint64_t offset, uint64_t size, uint64_t step)
{
    return offset % 4096 < 128 ? step == 1 || offset % 4096 < 24 || offset < 112
                               : offset + 8 >= size;
}

static void sweep(uint64_t step)
{
    uint64_t random = seed;
    for (size_t file = 0; file < FILES; file++) {
        uint64_t size = 0, flips = 0;
        int fd = open_part(files[file], &size);
        for (uint64_t offset = 0; offset < size && test_failures < 20; offset++) {
            if (step > 1 && is_dense(offset, size, step) &&
                (offset + 3 * file) % dense_stride == 0) {
                for (unsigned bit = 0; bit < 8; bit++, flips++)
                    check_flip(files[file], fd, offset, bit);
            } else if (test_random(&random) % step == 0) {
                check_flip(files[file], fd, offset, (unsigned)(test_random(&random) % 8));
                flips++;
            }
        }
        REQUIRE(close(fd) == 0);
        printf("    %s: %" PRIu64 " flips in %" PRIu64 " bytes\n", files[file], flips, size);
    }
}

static void test_a_flipped_bit_is_found(void)
{
    sweep(sparse_step);
}

static void test_a_flipped_bit_of_every_byte_is_found(void)
{
    sweep(1);
}

/* Find the offset of record n of a shard by its magic number. */
static uint64_t find_record(int fd, uint32_t n)
{
    for (uint64_t offset = 4096;; offset += 64) {
        uint8_t head[32];
        REQUIRE(pread(fd, head, sizeof(head), (off_t)offset) == (ssize_t)sizeof(head));
        if (memcmp(head + 8, "SREC", 4) == 0 && head[24] == n)
            return offset;
    }
}

static void test_a_damaged_record_is_named_with_what_it_costs(void)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    uint64_t size = 0;
    int fd = open_part(files[3], &size);
    uint64_t at = find_record(fd, 2) + 70000; /* its second payload page */
    for (uint32_t flags = 0; flags < 2; flags++) {
        flip(fd, at, 3);
        CHECK_I64(verify(dataset, 2, flags == 0 ? 0 : SPSH_VERIFY_NO_URING, &found, &result),
                  SPSH_OK);
        flip(fd, at, 3);
        print_findings(&found);
        CHECK_U64(found.count, 1);
        CHECK_STR(found.list[0].file, files[3]);
        CHECK_STR(found.list[0].part, "record");
        CHECK_STR(found.list[0].id, "recording-0-2");
        CHECK_U64(found.list[0].utterances, 2); /* the whole and a segment */
        CHECK(strstr(found.list[0].message, "utterance-0-2") != NULL);
    }
    /* Record 0 of the unit: its own, a segment, and one of the second shard. */
    at = find_record(fd, 0);
    flip(fd, at + 33, 0);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    flip(fd, at + 33, 0);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].part, "record head");
    CHECK_STR(found.list[0].id, "utterance-0-0");
    CHECK_U64(found.list[0].utterances, 3);
    /* Two of them, and the head of a third. */
    flip(fd, at + 33, 0);
    flip(fd, find_record(fd, 1) + 300, 0);
    flip(fd, find_record(fd, 3) + 300, 0);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 3);
    flip(fd, at + 33, 0);
    flip(fd, find_record(fd, 1) + 300, 0);
    flip(fd, find_record(fd, 3) + 300, 0);
    REQUIRE(close(fd) == 0);
}

static void test_a_copy_in_another_unit_counts(void)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    uint64_t size = 0;
    int fd = open_part(files[3], &size);
    uint64_t at = find_record(fd, 1) + 300;
    flip(fd, at, 0);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].id, "recording-0-1");
    CHECK_U64(found.list[0].utterances, 2); /* its own, and that of unit 1 */
    flip(fd, at, 0);
    REQUIRE(close(fd) == 0);
}

static void test_damaged_index_and_damaged_record(void)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    uint64_t size = 0;
    int fd = open_part(files[3], &size);
    uint64_t index = size - 16384, record = find_record(fd, 1) + 300;
    flip(fd, index, 0);
    flip(fd, record, 0);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    print_findings(&found);
    CHECK_U64(found.count, 2);
    CHECK_STR(found.list[0].part, "index page");
    CHECK_STR(found.list[1].part, "record");
    CHECK_STR(found.list[1].id, "recording-0-1");
    flip(fd, index, 0);
    flip(fd, record, 0);
    REQUIRE(close(fd) == 0);
}

static void test_metadata_says_how_many_rows_it_costs(void)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    uint64_t size = 0;
    int fd = open_part(files[5], &size);
    uint8_t head[16];
    uint64_t offset = 4096;
    do {
        REQUIRE(pread(fd, head, sizeof(head), (off_t)offset) == (ssize_t)sizeof(head));
        offset += 4096;
    } while (memcmp(head + 8, "SPBK\2\0\0\0", 8) != 0);
    flip(fd, offset - 4096 + 200, 5);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].part, "metadata");
    CHECK_U64(found.list[0].utterances, NOISE_UTTERANCES);
    flip(fd, offset - 4096 + 200, 5);
    REQUIRE(close(fd) == 0);
}

static void expect_one(const char *file, const char *part)
{
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK(found.count >= 1);
    CHECK_STR(found.list[0].file, file);
    CHECK_STR(found.list[0].part, part);
    for (uint32_t n = 0; n < found.count; n++)
        CHECK_STR(found.list[n].file, file);
}

static void test_files_that_are_missing_or_others(void)
{
    for (size_t n = 2; n < FILES; n++) {
        char path[700], aside[720], other[700];
        if (n == 3)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", dataset, files[n]);
        (void)snprintf(aside, sizeof(aside), "%s.aside", path);
        (void)snprintf(other, sizeof(other), "%s/%s", dataset, files[3]);
        REQUIRE(rename(path, aside) == 0);
        expect_one(files[n], "missing");
        REQUIRE(symlink(other, path) == 0); /* the first shard in its place */
        findings found;
        spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
        CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
        CHECK(found.count >= 1);
        bool identity = false;
        for (uint32_t at = 0; at < found.count; at++)
            identity = identity || strcmp(found.list[at].part, "identity") == 0;
        CHECK(identity);
        REQUIRE(unlink(path) == 0);
        REQUIRE(mkdir(path, 0700) == 0);
        expect_one(files[n], "unreadable");
        REQUIRE(rmdir(path) == 0);
        REQUIRE(rename(aside, path) == 0);
    }
}

/* After the removal only generation 2 lists the overlay, and a reader of generation 2 needs it. */
static void test_what_only_an_older_generation_lists(void)
{
    char path[700], aside[720];
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/overlays/skips.spsh", dataset);
    (void)snprintf(aside, sizeof(aside), "%s.aside", path);
    REQUIRE(spsh_overlay_remove(dataset, "skips", NULL, &err) == SPSH_OK);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(result.damage_count, 0);
    CHECK_U64(result.files, FILES + 1);
    int fd = open_part("overlays/skips.spsh", &size);
    flip(fd, 5000, 3);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].file, "overlays/skips.spsh");
    flip(fd, 5000, 3);
    REQUIRE(close(fd) == 0 && rename(path, aside) == 0);
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].file, "overlays/skips.spsh");
    CHECK_STR(found.list[0].part, "missing");
    REQUIRE(rename(aside, path) == 0);
    /* Back to generation 2. */
    (void)snprintf(path, sizeof(path), "%s/manifest.spsh", dataset);
    (void)snprintf(aside, sizeof(aside), "%s/manifest-00000002.spsh", dataset);
    REQUIRE(rename(aside, path) == 0);
}

static void test_every_truncation_of_a_shard(void)
{
    char path[700];
    uint64_t size = 0, random = seed;
    int fd = open_part(files[4], &size);
    (void)snprintf(path, sizeof(path), "%s/%s", dataset, files[4]);
    uint8_t *bytes = malloc((size_t)size);
    REQUIRE(bytes != NULL && pread(fd, bytes, (size_t)size, 0) == (ssize_t)size);
    for (uint64_t cut = 0; cut < size; cut += 1 + test_random(&random) % cut_step) {
        findings found;
        spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
        REQUIRE(ftruncate(fd, (off_t)cut) == 0);
        CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
        CHECK(found.count >= 1);
        CHECK_STR(found.list[0].file, files[4]);
        CHECK_STR(found.list[0].part, "size");
        CHECK_I64(verify(path, 1, 0, &found, &result), SPSH_OK);
        CHECK(found.count >= 1);
        REQUIRE(pwrite(fd, bytes, (size_t)size, 0) == (ssize_t)size);
    }
    /* A file that is too long: the sealed bytes are intact, and other bytes follow. */
    REQUIRE(ftruncate(fd, (off_t)size + 4096) == 0);
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    CHECK_I64(verify(dataset, 1, 0, &found, &result), SPSH_OK);
    CHECK_U64(found.count, 1);
    CHECK_STR(found.list[0].part, "size");
    REQUIRE(ftruncate(fd, (off_t)size) == 0);
    free(bytes);
    REQUIRE(close(fd) == 0);
}

/* Blocks that are read in parts, many blocks in flight, and the search for blocks without an index.
 */
static void test_a_shard_of_many_blocks(void)
{
    char path[700];
    spsh_shard_seal seal;
    findings found;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    noise_big_shard_make(root, &seal);
    (void)snprintf(path, sizeof(path), "%s/000007-000.spsh", root);
    int fd = open(path, O_RDWR);
    REQUIRE(fd >= 0);
    for (uint32_t jobs = 1; jobs < 5; jobs += 3) {
        for (uint32_t flags = 0; flags < 8; flags += SPSH_VERIFY_CACHED) {
            CHECK_I64(verify(path, jobs, flags, &found, &result), SPSH_OK);
            print_findings(&found);
            CHECK_U64(result.damage_count, 0);
            CHECK_U64(result.bytes, seal.file_bytes);
            CHECK_U64(result.records, NOISE_BIG_RECORDS);
            CHECK_U64(result.utterances, NOISE_BIG_UTTERANCES);
        }
        const uint64_t at[] = {find_record(fd, 2) + 200000, find_record(fd, 4) + 4000000,
                               find_record(fd, 9) + 9000000, find_record(fd, 13) + 20};
        static const char *const ids[] = {"big-2", "big-4", "big-9", "segment-13"};
        for (size_t n = 0; n < 4; n++)
            flip(fd, at[n], 3);
        CHECK_I64(verify(path, jobs, 0, &found, &result), SPSH_OK);
        CHECK_U64(found.count, 4);
        for (uint32_t n = 0; n < found.count && n < 4; n++) {
            CHECK_STR(found.list[n].id, ids[n]);
            CHECK_U64(found.list[n].utterances, n == 3 ? 142 : 143);
        }
        /* Damage to the index as well: the record heads identify the damaged records, except for a
         * damaged head. */
        flip(fd, seal.file_bytes - 16384, 0);
        CHECK_I64(verify(path, jobs, 0, &found, &result), SPSH_OK);
        print_findings(&found);
        CHECK_U64(found.count, 5);
        CHECK_STR(found.list[0].part, "index page");
        CHECK_STR(found.list[4].part, "record head");
        for (uint32_t n = 0; n < 3; n++)
            CHECK_STR(found.list[n + 1].id, ids[n]);
        flip(fd, seal.file_bytes - 16384, 0);
        for (size_t n = 0; n < 4; n++)
            flip(fd, at[n], 3);
    }
    REQUIRE(close(fd) == 0);
    REQUIRE(unlink(path) == 0);
}

static void test_stopping(void)
{
    findings found;
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    uint64_t size = 0;
    int fd = open_part(files[3], &size);
    flip(fd, 20, 0);
    flip(fd, size - 5000, 0);
    memset(&found, 0, sizeof(found));
    found.stop_after = 1;
    opt.damage_fn = take_damage;
    opt.user = &found;
    CHECK_I64(spsh_verify(dataset, &opt, &result, NULL), SPSH_E_CANCELED);
    CHECK_U64(found.count, 1);
    flip(fd, 20, 0);
    flip(fd, size - 5000, 0);
    REQUIRE(close(fd) == 0);
}

static int stop_at_once(void *user, const char *phase, uint64_t done_bytes, uint64_t total_bytes)
{
    uint64_t *left = (uint64_t *)user;
    CHECK_STR(phase, "verify");
    CHECK(done_bytes <= total_bytes);
    return (*left)-- == 0;
}

static void test_stopping_at_any_progress(void)
{
    spsh_status rc = SPSH_E_CANCELED;
    for (uint64_t calls = 0; rc == SPSH_E_CANCELED; calls++) {
        uint64_t left = calls;
        spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
        spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
        REQUIRE(calls < 1000);
        opt.progress_fn = stop_at_once;
        opt.user = &left;
        opt.jobs = 1 + (uint32_t)(calls % 3);
        rc = spsh_verify(dataset, &opt, &result, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CANCELED);
    }
}

static void test_wrong_arguments(void)
{
    spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
    spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    opt.flags = 8;
    CHECK_I64(spsh_verify(dataset, &opt, &result, &err), SPSH_E_INVALID_ARG);
    opt.flags = 0;
    opt.part = opt.part_count = 2;
    CHECK_I64(spsh_verify(dataset, &opt, &result, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_verify("/nonexistent/x", NULL, &result, &err), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh_verify(root, NULL, &result, &err), SPSH_E_NOT_FOUND); /* not a dataset */
    CHECK(strstr(err.message, "not a dataset") != NULL);
}

/* A failed allocation must not be reported as damage of the data. */
static void test_every_allocation_failure(void)
{
    for (uint32_t jobs = 1; jobs < 3; jobs++) {
        spsh_status rc = SPSH_E_NO_MEMORY;
        for (uint64_t fail_at = 0; rc == SPSH_E_NO_MEMORY; fail_at += memory_stride) {
            fault_alloc fault = {.fail_at = fail_at};
            spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
            findings found;
            spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
            spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
            memset(&found, 0, sizeof(found));
            REQUIRE(fail_at < 5000);
            opt.allocator = &allocator;
            opt.flags = SPSH_VERIFY_CACHED; /* smaller buffers to fill with garbage */
            opt.jobs = jobs;
            opt.damage_fn = take_damage;
            opt.user = &found;
            rc = spsh_verify(dataset, &opt, &result, NULL);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
            CHECK_U64(found.count, 0);
            CHECK_I64(fault.live_count, 0);
        }
    }
}

/* The n-th read fails: the error is reported as unreadable data or returned, never ignored. */
static void test_every_read_error(void)
{
    fault_io never = {.fail_at = UINT64_MAX};
    spsh_io counting = fault_io_table(&never);
    spsh_verify_options plain = SPSH_VERIFY_OPTIONS_INIT;
    findings none;
    spsh_verify_result all = SPSH_VERIFY_RESULT_INIT;
    CHECK_I64(verify(dataset, 1, 0, &none, &all), SPSH_OK);
    const uint64_t total = all.bytes;
    plain.io = &counting;
    plain.jobs = 1;
    plain.flags = SPSH_VERIFY_NO_URING;
    CHECK_I64(spsh_verify(dataset, &plain, &all, NULL), SPSH_OK);
    const uint64_t calls = never.call_count;
    for (uint64_t fail_at = 0; fail_at < calls; fail_at++) {
        fault_io fault = {.fail_at = fail_at, .fail_count = 3, .fail_errno = EIO};
        spsh_io io = fault_io_table(&fault);
        findings found;
        spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
        spsh_verify_result result = SPSH_VERIFY_RESULT_INIT;
        spsh_error err = SPSH_ERROR_INIT;
        memset(&found, 0, sizeof(found));
        opt.io = &io;
        opt.jobs = 1;
        opt.flags = SPSH_VERIFY_NO_URING;
        opt.damage_fn = take_damage;
        opt.user = &found;
        spsh_status rc = spsh_verify(dataset, &opt, &result, &err);
        CHECK_I64(fault.open_count, 0);
        CHECK(rc != SPSH_OK || found.count != 0 || result.bytes == total);
    }
    printf("    %" PRIu64 " calls\n", calls);
    CHECK(calls > 50);
}

TEST_MAIN(fault_verify)
{
    seed = test_seed(4711);
    test_temp_dir(root, sizeof(root));
    (void)snprintf(dataset, sizeof(dataset), "%s/noise.spsh", root);
    noise_dataset_make(dataset, seals);
    if (test_wants_fewer(argc, argv)) {
        dense_stride = 13; /* odd, so that every byte position in a field is reached */
        sparse_step *= 4;
        cut_step *= 4;
        memory_stride = 5;
    }
    RUN(test_nothing_is_found_in_a_good_dataset);
    if (argc > 1 && strcmp(argv[1], "--all") == 0) {
        RUN(test_a_flipped_bit_of_every_byte_is_found);
    } else if (test_wants_races(argc, argv)) {
        RUN(test_a_damaged_record_is_named_with_what_it_costs);
        RUN(test_a_shard_of_many_blocks);
        RUN(test_stopping);
        RUN(test_stopping_at_any_progress);
        RUN(test_every_allocation_failure);
    } else {
        RUN(test_a_single_file);
        RUN(test_a_damaged_record_is_named_with_what_it_costs);
        RUN(test_a_copy_in_another_unit_counts);
        RUN(test_damaged_index_and_damaged_record);
        RUN(test_metadata_says_how_many_rows_it_costs);
        RUN(test_files_that_are_missing_or_others);
        RUN(test_what_only_an_older_generation_lists);
        RUN(test_every_truncation_of_a_shard);
        RUN(test_a_shard_of_many_blocks);
        RUN(test_stopping);
        RUN(test_stopping_at_any_progress);
        RUN(test_wrong_arguments);
        RUN(test_every_allocation_failure);
        RUN(test_every_read_error);
        RUN(test_a_flipped_bit_is_found);
    }
    RUN(test_nothing_is_found_in_a_good_dataset); /* every flip was undone */
    test_remove_tree(root);
    return TEST_RESULT();
}

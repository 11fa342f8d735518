/* unit_work_file.c: records are read back; damaged or cut files, and files of another run, are
 * rejected. */
#include <fcntl.h>

#include "records/work_file.h"
#include "spsh_test.h"

enum { RECORD_BYTES = 24 };

static char folder[256];
static char path[300];
static const uint8_t run_hash[16] = {1, 2, 3};

static void make_record(uint64_t number, uint8_t record[RECORD_BYTES])
{
    uint64_t state = number;
    for (size_t i = 0; i < RECORD_BYTES; i++)
        record[i] = (uint8_t)test_random(&state);
}

static void write_file(uint64_t count)
{
    const uint64_t facts[] = {7, count};
    spsh__work_writer *writer = NULL;
    uint8_t record[RECORD_BYTES];
    REQUIRE(spsh__work_writer_open(spsh_io_default(), folder, "work", run_hash, RECORD_BYTES,
                                   &writer, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < count; i++) {
        make_record(i, record);
        REQUIRE(spsh__work_writer_add(writer, record, NULL) == SPSH_OK);
    }
    REQUIRE(spsh__work_writer_publish(writer, facts, 2, NULL) == SPSH_OK);
    spsh__work_writer_free(writer);
}

/* Contents of the file's header, or the first failure. */
static spsh_status read_file(uint64_t *ret_count, spsh_error *err)
{
    static uint8_t block[SPSH__WORK_BLOCK_RECORDS * RECORD_BYTES];
    spsh__work_file file;
    uint8_t record[RECORD_BYTES];
    uint64_t number = 0;
    spsh_status rc =
        spsh__work_file_open(spsh_io_default(), path, run_hash, RECORD_BYTES, &file, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t i = 0; i < file.block_count && rc == SPSH_OK; i++) {
        size_t count = 0;
        rc = spsh__work_file_read(&file, i, block, &count, err);
        for (size_t k = 0; rc == SPSH_OK && k < count; k++) {
            make_record(number++, record);
            CHECK(memcmp(record, block + k * RECORD_BYTES, RECORD_BYTES) == 0);
        }
    }
    CHECK(rc != SPSH_OK || number == file.record_count);
    CHECK(rc != SPSH_OK || (file.facts[0] == 7 && file.facts[1] == number && file.facts[2] == 0));
    *ret_count = number;
    spsh__work_file_close(&file);
    return rc;
}

static void test_round_trip(void)
{
    static const uint64_t counts[] = {0, 1, 4095, 4096, 4097, 9000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t count = 0;
        write_file(counts[i]);
        CHECK_I64(read_file(&count, NULL), SPSH_OK);
        CHECK_U64(count, counts[i]);
    }
}

static void test_other(void)
{
    static const uint8_t other[16] = {4};
    spsh__work_file file;
    spsh_error err = SPSH_ERROR_INIT;
    write_file(5);
    CHECK_I64(spsh__work_file_open(spsh_io_default(), path, other, RECORD_BYTES, &file, &err),
              SPSH_E_MISMATCH);
    CHECK_I64(spsh__work_file_open(spsh_io_default(), path, run_hash, 32, &file, &err),
              SPSH_E_MISMATCH);
    REQUIRE(unlink(path) == 0);
    CHECK_I64(spsh__work_file_open(spsh_io_default(), path, run_hash, RECORD_BYTES, &file, &err),
              SPSH_E_NOT_FOUND);
}

/* Every flipped bit and every cut is detected. */
static void test_damage(void)
{
    uint64_t count = 0;
    write_file(3);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat info;
    REQUIRE(fd >= 0 && fstat(fd, &info) == 0);
    for (off_t at = 0; at < info.st_size; at++) {
        uint8_t byte = 0;
        REQUIRE(pread(fd, &byte, 1, at) == 1);
        for (unsigned bit = 0; bit < 8; bit += 3) {
            spsh_error err = SPSH_ERROR_INIT;
            const uint8_t turned = (uint8_t)(byte ^ (1U << bit));
            REQUIRE(pwrite(fd, &turned, 1, at) == 1);
            CHECK_I64(read_file(&count, &err), SPSH_E_CORRUPT);
            CHECK(strstr(err.message, path) != NULL);
        }
        REQUIRE(pwrite(fd, &byte, 1, at) == 1);
    }
    CHECK_I64(read_file(&count, NULL), SPSH_OK);
    for (off_t size = info.st_size - 1; size >= 0; size--) {
        REQUIRE(ftruncate(fd, size) == 0);
        const spsh_status rc = read_file(&count, NULL);
        CHECK(rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED);
    }
    REQUIRE(close(fd) == 0);
}

TEST_MAIN(unit_work_file)
{
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/work", folder);
    RUN(test_round_trip);
    RUN(test_other);
    RUN(test_damage);
    test_remove_tree(folder);
    return TEST_RESULT();
}

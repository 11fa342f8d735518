/* unit_sorter.c: order, ties, runs, groups of runs, entries larger than memory, every failure. */
#include "fault_alloc.h"
#include "fault_io.h"
#include "speechshard/sorter.h"
#include "spsh_test.h"

enum { MEMORY_BYTES = 1 << 20 };

static char directory[512];

static spsh_bytes bytes_of(const void *data, size_t size_bytes)
{
    return (spsh_bytes){(const uint8_t *)data, size_bytes};
}

static spsh_sorter *open_sorter(uint64_t memory_bytes, const char *where)
{
    spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
    spsh_sorter *sorter = NULL;
    opt.memory_bytes = memory_bytes;
    opt.directory = where;
    REQUIRE(spsh_sorter_open(&opt, &sorter, NULL) == SPSH_OK);
    return sorter;
}

static void test_order_of_short_keys(void)
{
    static const char *const keys[] = {"b", "", "abcdefghi", "abcdefgh", "a", "abcdefghi", "\xff"};
    static const size_t want[] = {1, 4, 3, 2, 5, 0, 6};
    spsh_sorter *sorter = open_sorter(0, NULL);
    for (size_t i = 0; i < 7; i++)
        REQUIRE(spsh_sorter_add(sorter, bytes_of(keys[i], strlen(keys[i])), bytes_of(&i, sizeof(i)),
                                NULL) == SPSH_OK);
    /* A zero byte is not the end of a key: "a" < "a\0" < "a\0\0". */
    REQUIRE(spsh_sorter_add(sorter, bytes_of("a\0", 3), bytes_of("", 0), NULL) == SPSH_OK);
    REQUIRE(spsh_sorter_add(sorter, bytes_of("a\0", 2), bytes_of("", 0), NULL) == SPSH_OK);
    CHECK_U64(spsh_sorter_count(sorter), 9);
    for (size_t i = 0; i < 9; i++) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        REQUIRE(spsh_sorter_next(sorter, &key, &value, NULL) == SPSH_OK);
        if (i == 2 || i == 3) {
            CHECK(value.size_bytes == 0 && key.size_bytes == i && memcmp(key.data, "a\0", i) == 0);
            continue;
        }
        size_t number = 0;
        REQUIRE(value.size_bytes == sizeof(number));
        memcpy(&number, value.data, sizeof(number));
        CHECK_U64(number, want[i > 3 ? i - 2 : i]);
        CHECK(key.size_bytes == strlen(keys[number]));
    }
    spsh_error err = SPSH_ERROR_INIT;
    spsh_bytes none = {NULL, 0};
    CHECK_I64(spsh_sorter_next(sorter, &none, &none, &err), SPSH_E_END);
    CHECK_I64(spsh_sorter_next(sorter, &none, &none, &err), SPSH_E_END);
    CHECK_I64(spsh_sorter_add(sorter, none, none, &err), SPSH_E_INVALID_ARG);
    spsh_sorter_free(sorter);
}

static void test_nothing_added(void)
{
    spsh_sorter *sorter = open_sorter(MEMORY_BYTES, NULL);
    spsh_bytes none = {NULL, 0};
    CHECK_I64(spsh_sorter_next(sorter, &none, &none, NULL), SPSH_E_END);
    spsh_sorter_free(sorter);
}

/* An entry's content is computed from its number, so the test need not store it for the comparison.
 */
typedef struct shape {
    uint64_t seed;
    uint64_t count;
    uint64_t key_values; /* number of different keys: the fewer, the more ties */
    size_t value_bytes_max;
} shape;

static size_t make_entry(const shape *want, uint64_t number, uint8_t *key, size_t *ret_key_bytes,
                         uint8_t *value)
{
    uint64_t state = want->seed + number * UINT64_C(0x2545f4914f6cdd1d);
    uint64_t chosen = test_random(&state) % want->key_values;
    uint64_t key_state = chosen;
    *ret_key_bytes = (size_t)(test_random(&key_state) % 24);
    for (size_t i = 0; i < *ret_key_bytes; i++)
        key[i] = (uint8_t)(test_random(&key_state) % 3); /* long common prefixes */
    size_t value_bytes = 8 + (size_t)(test_random(&state) % (want->value_bytes_max + 1));
    memcpy(value, &number, 8);
    memset(value + 8, (int)(number & 0xff), value_bytes - 8);
    return value_bytes;
}

static spsh_status add_all(spsh_sorter *sorter, const shape *want, spsh_error *err)
{
    uint8_t key[32];
    size_t key_bytes = 0;
    uint8_t *value = (uint8_t *)malloc(want->value_bytes_max + 8);
    spsh_status rc = SPSH_OK;
    REQUIRE(value != NULL);
    for (uint64_t i = 0; rc == SPSH_OK && i < want->count; i++) {
        size_t value_bytes = make_entry(want, i, key, &key_bytes, value);
        rc = spsh_sorter_add(sorter, bytes_of(key, key_bytes), bytes_of(value, value_bytes), err);
    }
    free(value);
    return rc;
}

static int compare(spsh_bytes a, spsh_bytes b)
{
    size_t shared = a.size_bytes < b.size_bytes ? a.size_bytes : b.size_bytes;
    int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
    return order != 0 ? order : (a.size_bytes > b.size_bytes) - (a.size_bytes < b.size_bytes);
}

/* Check that every entry occurs once, unchanged, with ascending keys, and equal keys in the order
 * of adding. */
static spsh_status check_all(spsh_sorter *sorter, const shape *want, spsh_error *err)
{
    uint8_t last_key[32];
    spsh_bytes last = {last_key, 0};
    uint64_t last_number = 0;
    uint64_t sum = 0;
    spsh_status rc = SPSH_OK;
    uint8_t *expected = (uint8_t *)malloc(want->value_bytes_max + 8);
    REQUIRE(expected != NULL);
    for (uint64_t i = 0; i < want->count; i++) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        uint8_t expected_key[32];
        uint64_t number = 0;
        size_t key_bytes = 0;
        rc = spsh_sorter_next(sorter, &key, &value, err);
        if (rc != SPSH_OK)
            break;
        REQUIRE(value.size_bytes >= 8 && key.size_bytes <= sizeof(last_key));
        memcpy(&number, value.data, 8);
        REQUIRE(number < want->count);
        size_t value_bytes = make_entry(want, number, expected_key, &key_bytes, expected);
        REQUIRE(value_bytes == value.size_bytes && key_bytes == key.size_bytes);
        REQUIRE(memcmp(value.data, expected, value_bytes) == 0);
        REQUIRE(memcmp(key.data, expected_key, key_bytes) == 0);
        int order = compare(last, key);
        REQUIRE(i == 0 || order < 0 || (order == 0 && last_number < number));
        memcpy(last_key, key.data, key.size_bytes);
        last.size_bytes = key.size_bytes;
        last_number = number;
        sum += number;
    }
    free(expected);
    if (rc != SPSH_OK)
        return rc;
    CHECK_U64(sum, want->count * (want->count - 1) / 2);
    spsh_bytes none = {NULL, 0};
    CHECK_I64(spsh_sorter_next(sorter, &none, &none, NULL), SPSH_E_END);
    return SPSH_OK;
}

static void run_shape(shape want, uint64_t memory_bytes)
{
    spsh_sorter *sorter = open_sorter(memory_bytes, directory);
    CHECK_I64(add_all(sorter, &want, NULL), SPSH_OK);
    CHECK_I64(check_all(sorter, &want, NULL), SPSH_OK);
    spsh_sorter_free(sorter);
}

static void test_in_memory(void)
{
    uint64_t seed = test_seed(1);
    run_shape((shape){seed, 50000, UINT64_MAX, 16}, 0);
    run_shape((shape){seed, 50000, 3, 16}, 0);
    run_shape((shape){seed, 50000, 1, 0}, 0);
}

static void test_runs(void)
{
    uint64_t seed = test_seed(2);
    run_shape((shape){seed, 100000, UINT64_MAX, 16}, MEMORY_BYTES);
    run_shape((shape){seed, 100000, 2, 16}, MEMORY_BYTES);
    run_shape((shape){seed, 200, 5, 300000}, MEMORY_BYTES);
}

static void test_groups_of_runs(void)
{
    uint64_t seed = test_seed(3);
    run_shape((shape){seed, 900000, UINT64_MAX, 8}, MEMORY_BYTES);
    run_shape((shape){seed, 20000, 7, 3000}, MEMORY_BYTES);
}

static void test_entries_larger_than_memory(void)
{
    run_shape((shape){test_seed(4), 20, 4, 3 << 20}, MEMORY_BYTES);
}

static void test_sorted_and_reversed_input(void)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        spsh_sorter *sorter = open_sorter(0, NULL);
        for (uint32_t i = 0; i < 200000; i++) {
            uint32_t number = __builtin_bswap32(reversed ? 200000 - i : i);
            REQUIRE(spsh_sorter_add(sorter, bytes_of(&number, 4), bytes_of("", 0), NULL) ==
                    SPSH_OK);
        }
        for (uint32_t i = 0; i < 200000; i++) {
            spsh_bytes key = {NULL, 0};
            spsh_bytes value = {NULL, 0};
            uint32_t number = 0;
            REQUIRE(spsh_sorter_next(sorter, &key, &value, NULL) == SPSH_OK);
            memcpy(&number, key.data, 4);
            REQUIRE(__builtin_bswap32(number) == i + (uint32_t)reversed);
        }
        spsh_sorter_free(sorter);
    }
}

static void test_limits(void)
{
    spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
    spsh_sorter *sorter = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    opt.memory_bytes = MEMORY_BYTES - 1;
    CHECK_I64(spsh_sorter_open(&opt, &sorter, &err), SPSH_E_INVALID_ARG);
    CHECK(sorter == NULL);

    sorter = open_sorter(MEMORY_BYTES, NULL);
    uint8_t *large = (uint8_t *)calloc(1, (64 << 20) + 1);
    REQUIRE(large != NULL);
    CHECK_I64(spsh_sorter_add(sorter, bytes_of(large, (1 << 20) + 1), bytes_of("", 0), &err),
              SPSH_E_LIMIT);
    CHECK_I64(spsh_sorter_add(sorter, bytes_of("", 0), bytes_of(large, (64 << 20) + 1), &err),
              SPSH_E_LIMIT);
    CHECK_I64(spsh_sorter_add(sorter, bytes_of("k", 1), bytes_of("", 0), &err), SPSH_OK);
    /* Memory is full, and there is no directory. */
    CHECK_I64(spsh_sorter_add(sorter, bytes_of("", 0), bytes_of(large, 1 << 20), &err),
              SPSH_E_LIMIT);
    CHECK_I64(spsh_sorter_add(sorter, bytes_of("", 0), bytes_of("", 0), &err), SPSH_E_INVALID_ARG);
    free(large);
    spsh_sorter_free(sorter);
}

static spsh_status sort_with(const spsh_allocator *allocator, const spsh_io *io, const shape *want,
                             spsh_error *err)
{
    spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
    spsh_sorter *sorter = NULL;
    opt.allocator = allocator;
    opt.io = io;
    opt.directory = directory;
    opt.memory_bytes = MEMORY_BYTES;
    spsh_status rc = spsh_sorter_open(&opt, &sorter, err);
    if (rc == SPSH_OK)
        rc = add_all(sorter, want, err);
    if (rc == SPSH_OK)
        rc = check_all(sorter, want, err);
    spsh_sorter_free(sorter);
    return rc;
}

static void test_every_allocation_failure(void)
{
    const shape want = {5, 900, 9, 40000}; /* 19 runs: a group and a final merge */
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        REQUIRE(fail_at < 200);
        rc = sort_with(&allocator, NULL, &want, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_I64(fault.live_count, 0);
        if (rc == SPSH_OK)
            CHECK(fault.live_bytes_max < 2 * MEMORY_BYTES);
    }
}

static void test_every_io_failure(void)
{
    const shape want = {6, 400, 9, 90000};
    fault_io plain = {.fail_at = UINT64_MAX};
    spsh_io plain_io = fault_io_table(&plain);
    CHECK_I64(sort_with(NULL, &plain_io, &want, NULL), SPSH_OK);
    CHECK_I64(plain.open_count, 0);
    for (uint64_t fail_at = 0; fail_at < plain.call_count; fail_at += 1 + fail_at / 40) {
        fault_io fault = {.fail_at = fail_at, .fail_count = 1, .fail_errno = ENOSPC};
        spsh_io io = fault_io_table(&fault);
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = sort_with(NULL, &io, &want, &err);
        /* Only a failure of close is harmless, because the file has already been unlinked. */
        CHECK(rc == SPSH_E_NO_SPACE || rc == SPSH_OK);
        CHECK(rc == SPSH_OK || err.os_errno == ENOSPC);
        CHECK_I64(fault.open_count, 0);
    }
}

static void test_short_transfers_and_interrupts(void)
{
    const shape want = {7, 300, 9, 50000};
    fault_io fault = {.fail_at = 2, .fail_count = 3, .fail_errno = EINTR}; /* open, unlink, write */
    fault.transfer_bytes_max = 4097;
    spsh_io io = fault_io_table(&fault);
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(sort_with(NULL, &io, &want, &err), SPSH_OK);
    CHECK_STR(err.message, "");
}

static int64_t flipping_pread(void *user, int fd, void *dst, size_t size_bytes,
                              uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    int64_t count = io->pread_fn(io->user, fd, dst, size_bytes, offset_bytes);
    const uint64_t *at = (const uint64_t *)user;
    if (count > 0 && *at >= offset_bytes && *at - offset_bytes < (uint64_t)count)
        ((uint8_t *)dst)[*at - offset_bytes] ^= 0x10;
    return count;
}

/* A disk that returns other bytes than were written causes an error, at the latest at the end of
 * the run. */
static void test_damaged_temporary_file(void)
{
    spsh_bytes key = {NULL, 0};
    spsh_bytes value = {NULL, 0};
    for (uint64_t at = 0; at < 2000000; at += 99991) {
        const shape want = {8, 100, 9, 50000};
        spsh_io io = *spsh_io_default();
        spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
        spsh_sorter *sorter = NULL;
        io.user = &at;
        io.pread_fn = flipping_pread;
        opt.io = &io;
        opt.directory = directory;
        opt.memory_bytes = MEMORY_BYTES;
        REQUIRE(spsh_sorter_open(&opt, &sorter, NULL) == SPSH_OK);
        REQUIRE(add_all(sorter, &want, NULL) == SPSH_OK);
        spsh_status rc = SPSH_OK;
        while (rc == SPSH_OK)
            rc = spsh_sorter_next(sorter, &key, &value, NULL);
        CHECK_I64(rc, SPSH_E_IO);
        spsh_sorter_free(sorter);
    }
}

TEST_MAIN(unit_sorter)
{
    test_temp_dir(directory, sizeof(directory));
    RUN(test_order_of_short_keys);
    RUN(test_nothing_added);
    RUN(test_in_memory);
    RUN(test_runs);
    RUN(test_groups_of_runs);
    RUN(test_entries_larger_than_memory);
    RUN(test_sorted_and_reversed_input);
    RUN(test_limits);
    RUN(test_every_allocation_failure);
    RUN(test_every_io_failure);
    RUN(test_short_transfers_and_interrupts);
    RUN(test_damaged_temporary_file);
    CHECK(rmdir(directory) == 0); /* nothing was left behind */
    return TEST_RESULT();
}

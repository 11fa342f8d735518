/* unit_base.c: status texts, the error record, the allocator's helpers, byte order. */
#include <sched.h>
#include <stdatomic.h>

#include "base/base_internal.h"
#include "fault_alloc.h"
#include "speechshard/cores.h"
#include "speechshard/nearest_word.h"
#include "spsh_test.h"

static void test_every_status_has_its_own_name_and_text(void)
{
    static const struct {
        spsh_status status;
        int number;
        const char *name;
    } pinned[] = {
#define SPSH_X(name_, value_, text_) {SPSH_##name_, (value_), "SPSH_" #name_},
        SPSH_STATUS_MAP(SPSH_X)
#undef SPSH_X
    };
    size_t count = sizeof(pinned) / sizeof(pinned[0]);
    for (size_t i = 0; i < count; i++) {
        CHECK_I64(pinned[i].status, pinned[i].number);
        CHECK_STR(spsh_status_name(pinned[i].status), pinned[i].name);
        for (size_t j = 0; j < i; j++) {
            CHECK(pinned[i].number != pinned[j].number);
            CHECK(strcmp(spsh_status_text(pinned[i].status), spsh_status_text(pinned[j].status)));
        }
    }
    CHECK_STR(spsh_status_name((spsh_status)-999), "SPSH_E_?");
    CHECK_STR(spsh_status_text((spsh_status)-999), "unknown status");
}

static void test_numbers_that_others_rely_on(void)
{
    CHECK_I64(SPSH_OK, 0);
    CHECK_I64(SPSH_E_INVALID_ARG, -1);
    CHECK_I64(SPSH_E_NOT_SPEECHSHARD, -10);
    CHECK_I64(SPSH_E_CORRUPT, -12);
    CHECK_I64(SPSH_E_END, -20);
    CHECK_STR(spsh_version(), SPSH_VERSION_STRING);
}

static void test_error_is_filled_and_cut(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    CHECK(err.status == SPSH_OK && err.offset_bytes == SPSH_OFFSET_NONE && err.message[0] == '\0');
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_CORRUPT, 7, "want %d, found %d", 1, 2) == SPSH_E_CORRUPT);
    CHECK(err.status == SPSH_E_CORRUPT && err.os_errno == 0);
    CHECK_U64(err.offset_bytes, 7);
    CHECK_STR(err.message, "want 1, found 2");
    CHECK(SPSH_FAIL_OS(&err, SPSH_E_IO, EIO, "%01000d", 5) == SPSH_E_IO);
    CHECK_I64(err.os_errno, EIO);
    CHECK_U64(strlen(err.message), sizeof(err.message) - 1);
    CHECK(SPSH_FAIL_AT(NULL, SPSH_E_END, 0, "nobody listens") == SPSH_E_END);
}

static void test_out_of_memory_is_named(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_NO_MEMORY, 0, "sorter") == SPSH_E_NO_MEMORY);
    CHECK_STR(err.message, "sorter: out of memory");
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_NO_MEMORY, 0, "a: out of memory: b") == SPSH_E_NO_MEMORY);
    CHECK_STR(err.message, "a: out of memory: b");
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_NO_MEMORY, 0, "%0600d", 1) == SPSH_E_NO_MEMORY);
    CHECK_U64(strlen(err.message), sizeof(err.message) - 1);
    CHECK(strstr(err.message, "0: out of memory") != NULL);
#ifndef TEST_HAS_OWN_MALLOC
    CHECK(spsh__alloc(spsh_allocator_default(), SIZE_MAX / 4) == NULL);
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_NO_MEMORY, 0, "sorter") == SPSH_E_NO_MEMORY);
    CHECK_STR(err.message, "sorter: out of memory (4611686018427387903 bytes were requested)");
    CHECK(SPSH_FAIL_AT(&err, SPSH_E_NO_MEMORY, 0, "later") == SPSH_E_NO_MEMORY);
    CHECK_STR(err.message, "later: out of memory");
#endif
}

static void test_allocation(void)
{
    fault_alloc fault = {.fail_at = 3};
    spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
    uint8_t *zeroed = (uint8_t *)spsh__new(&allocator, 1, 100);
    uint8_t *array = (uint8_t *)spsh__alloc_array(&allocator, 10, 10);
    void *empty = spsh__alloc(&allocator, 0);
    REQUIRE(zeroed != NULL && array != NULL && empty != NULL);
    for (int i = 0; i < 100; i++) {
        CHECK(zeroed[i] == 0);
        CHECK(array[i] == 0x5a);
    }
    CHECK(spsh__alloc_array(&allocator, SIZE_MAX / 2, 3) == NULL);
    CHECK_U64(fault.call_count, 3); /* an overflow does not reach the allocator */
    CHECK(spsh__alloc(&allocator, 1) == NULL);
    CHECK(spsh__new(&allocator, 1, 1) == NULL);
    CHECK_I64(fault.live_bytes_max, 200);
    spsh__free(&allocator, zeroed);
    spsh__free(&allocator, array);
    spsh__free(&allocator, empty);
    spsh__free(&allocator, NULL);
    CHECK_I64(fault.live_count, 0);
    CHECK_I64(fault.live_bytes, 0);
}

static void test_default_allocator(void)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    void *memory = spsh__alloc(allocator, 0);
    CHECK(memory != NULL);
    spsh__free(allocator, memory);
    allocator->free_fn(allocator->user, NULL);
}

static void test_checked_arithmetic(void)
{
    uint64_t result = 1;
    CHECK(spsh__add_u64(UINT64_MAX - 1, 1, &result) && result == UINT64_MAX);
    CHECK(!spsh__add_u64(UINT64_MAX, 1, &result));
    CHECK(spsh__mul_u64(UINT32_MAX, UINT32_MAX, &result));
    CHECK(!spsh__mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &result));
    CHECK_U64(spsh__align_up(0, 64), 0);
    CHECK_U64(spsh__align_up(1, 64), 64);
    CHECK_U64(spsh__align_up(64, 64), 64);
    CHECK_U64(spsh__align_up(4097, 4096), 8192);
}

static void test_digits(void)
{
    static const struct {
        const char *text;
        uint64_t max;
        bool good;
        uint64_t number;
        size_t bytes;
    } cases[] = {
        {"0",                    0,          true,  0,          1 },
        {"007x",                 7,          true,  7,          3 },
        {"12/4",                 UINT32_MAX, true,  12,         2 },
        {"18446744073709551615", UINT64_MAX, true,  UINT64_MAX, 20},
        {"18446744073709551616", UINT64_MAX, false, 0,          0 },
        {"8",                    7,          false, 0,          0 },
        {"10",                   9,          false, 0,          0 },
        {"",                     9,          false, 0,          0 },
        {"-1",                   9,          false, 0,          0 },
        {" 1",                   9,          false, 0,          0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *at = cases[i].text;
        uint64_t number = 0;
        CHECK(spsh__take_digits(&at, cases[i].max, &number) == cases[i].good);
        CHECK_U64(number, cases[i].number);
        CHECK_U64((uint64_t)(at - cases[i].text), cases[i].bytes);
    }
}

static void test_little_endian(void)
{
    uint8_t bytes[9] = {0};
    spsh__store_u16le(bytes + 1, 0x0201);
    CHECK(bytes[1] == 1 && bytes[2] == 2);
    CHECK_U64(spsh__load_u16le(bytes + 1), 0x0201);
    spsh__store_u32le(bytes + 1, UINT32_C(0x84030201));
    CHECK(bytes[1] == 1 && bytes[4] == 0x84);
    CHECK_U64(spsh__load_u32le(bytes + 1), UINT32_C(0x84030201));
    spsh__store_u64le(bytes + 1, UINT64_C(0x8877665544332211));
    CHECK(bytes[1] == 0x11 && bytes[8] == 0x88);
    CHECK_U64(spsh__load_u64le(bytes + 1), UINT64_C(0x8877665544332211));
}

static const char *nearest(const char *text)
{
    static const char *const words[] = {"pack",   "info",         "ls", "verify",
                                        "export", "utterance_id", NULL};
    return spsh_nearest_word(text, strlen(text), words);
}

static void test_nearest_word(void)
{
    static const char *const equals[] = {"axb", "ayb", NULL};
    char long_text[200];
    CHECK_STR(nearest("pak"), "pack");
    CHECK_STR(nearest("exprot"), "export"); /* swapped neighbors */
    CHECK_STR(nearest("veri"), "verify");   /* a prefix */
    CHECK_STR(nearest("sl"), "ls");
    CHECK_STR(nearest("uterence_ip"), "utterance_id"); /* a long word may differ more */
    CHECK_STR(spsh_nearest_word("packet", 3, (const char *const[]){"pak", NULL}), "pak");
    CHECK_STR(spsh_nearest_word("azb", 3, equals), "axb");
    CHECK(nearest("train") == NULL);
    CHECK(nearest("l") == NULL);
    CHECK(nearest("") == NULL);
    memset(long_text, 'a', sizeof(long_text));
    CHECK(spsh_nearest_word(long_text, 97, equals) == NULL);
    long_text[199] = '\0';
    CHECK(spsh_nearest_word("aaa", 3, (const char *const[]){long_text, NULL}) == NULL);
}

static void test_core_count(void)
{
    cpu_set_t before;
    cpu_set_t one;
    REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
    CHECK_I64(spsh_core_count(UINT32_MAX), CPU_COUNT(&before));
    CHECK_U64(spsh_core_count(1), 1);
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0); /* as taskset does */
    CHECK_U64(spsh_core_count(64), 1);
    REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
}

enum { PIECES = 500, THREADS = 4, BAD_PIECE = 123 };

typedef struct piece_work {
    atomic_int done[PIECES];
    atomic_int busy[THREADS]; /* threads that have this number */
    uint64_t bad_from;
} piece_work;

static spsh_status do_piece(void *user, uint32_t worker, uint64_t piece, spsh_error *err)
{
    piece_work *work = (piece_work *)user;
    REQUIRE(worker < THREADS && piece < PIECES);
    CHECK_I64(atomic_fetch_add(&work->busy[worker], 1), 0);
    atomic_fetch_add(&work->done[piece], 1);
    atomic_fetch_sub(&work->busy[worker], 1);
    if (piece < work->bad_from)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_CORRUPT, "piece %u", (unsigned)piece);
}

static void test_pieces_of_work(void)
{
    for (uint32_t threads = 0; threads <= THREADS; threads++) {
        piece_work all = {.bad_from = PIECES};
        piece_work bad = {.bad_from = BAD_PIECE};
        spsh_error err = SPSH_ERROR_INIT;
        CHECK_I64(spsh_cores_run(threads, 0, do_piece, &all, &err), SPSH_OK);
        CHECK_I64(spsh_cores_run(threads, PIECES, do_piece, &all, &err), SPSH_OK);
        CHECK_I64(err.status, SPSH_OK);
        CHECK_I64(spsh_cores_run(threads, PIECES, do_piece, &bad, &err), SPSH_E_CORRUPT);
        CHECK_STR(err.message, "piece 123");
        for (int i = 0; i < PIECES; i++) {
            CHECK_I64(all.done[i], 1);
            CHECK(bad.done[i] <= 1 && (i > BAD_PIECE || bad.done[i] == 1));
        }
        CHECK_I64(bad.done[PIECES - 1], 0);
    }
}

TEST_MAIN(unit_base)
{
    RUN(test_every_status_has_its_own_name_and_text);
    RUN(test_numbers_that_others_rely_on);
    RUN(test_error_is_filled_and_cut);
    RUN(test_out_of_memory_is_named);
    RUN(test_allocation);
    RUN(test_default_allocator);
    RUN(test_checked_arithmetic);
    RUN(test_digits);
    RUN(test_little_endian);
    RUN(test_nearest_word);
    RUN(test_core_count);
    RUN(test_pieces_of_work);
    return TEST_RESULT();
}

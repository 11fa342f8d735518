/* unit_sort128.c: order and completeness in memory, in runs, and in groups of runs, with any number
 * of threads. Also a bit that the disk flipped.
 */
#include "records/sort128.h"
#include "spsh_test.h"

enum { MEMORY_BYTES = 1 << 20 };

static char directory[512];
static uint64_t seed;

static int compare(const void *left, const void *right)
{
    const spsh__u128 *a = left;
    const spsh__u128 *b = right;
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    return (a->low > b->low) - (a->low < b->low);
}

/* Numbers of each shape: random in all bits, in some bits, few different ones, sorted, reverse, all
 * equal. */
enum { SHAPES = 7 };
static spsh__u128 number(size_t i, int shape, uint64_t *state)
{
    const uint64_t a = test_random(state);
    const uint64_t b = test_random(state);
    switch (shape) {
    case 0: return (spsh__u128){a, b};
    case 1: return (spsh__u128){a & UINT64_C(0x0000ff0000ff0000), b & UINT64_C(0xff000000000000f0)};
    case 2: return (spsh__u128){a % 3, b % 5};
    case 3: return (spsh__u128){0, i};
    case 4: return (spsh__u128){UINT64_MAX - i, b};
    case 5: return (spsh__u128){7, 7};
    default: return (spsh__u128){a % 100 == 0 ? a : 1, a % 7 == 0 ? b : 0};
    }
}

static spsh__u128 *make(size_t count, int shape)
{
    spsh__u128 *records = calloc(count + 1, sizeof(*records));
    uint64_t state = seed + (uint64_t)shape;
    REQUIRE(records != NULL);
    for (size_t i = 0; i < count; i++)
        records[i] = number(i, shape, &state);
    return records;
}

static void test_in_memory(void)
{
    static const size_t counts[] = {0, 1, 2, 3, 24, 25, 26, 1000, 70000};
    for (int shape = 0; shape < SHAPES; shape++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            const size_t bytes = counts[c] * sizeof(spsh__u128);
            spsh__u128 *want = make(counts[c], shape);
            spsh__u128 *scratch = make(counts[c], shape);
            for (uint32_t threads = 1; threads <= 3; threads += 2) {
                spsh__u128 *got = make(counts[c], shape);
                qsort(want, counts[c], sizeof(*want), compare);
                CHECK_I64(spsh__radix_sort128(got, scratch, counts[c], threads, NULL), SPSH_OK);
                CHECK(memcmp(got, want, bytes) == 0);
                free(got);
            }
            free(want);
            free(scratch);
        }
    }
}

static spsh__sort128 *open_sort(const spsh_io *io, uint32_t threads)
{
    const spsh__sort128_options options = {io, directory, MEMORY_BYTES, threads};
    spsh__sort128 *sort = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__sort128_open(&options, &sort, &err) == SPSH_OK);
    return sort;
}

static void add_in_pieces(spsh__sort128 *sort, const spsh__u128 *records, size_t count)
{
    uint64_t state = seed;
    spsh_error err = SPSH_ERROR_INIT;
    for (size_t at = 0; at < count;) {
        size_t piece = 1 + (size_t)(test_random(&state) % 5000);
        if (piece > count - at)
            piece = count - at;
        REQUIRE(spsh__sort128_add(sort, records + at, piece, &err) == SPSH_OK);
        at += piece;
    }
    CHECK_U64(spsh__sort128_count(sort), count);
}

/* Check that all records come back in order. Return the number of bytes written to disk. */
static uint64_t check_sorted(size_t count, int shape, uint32_t threads)
{
    spsh__u128 *want = make(count, shape);
    spsh__sort128 *sort = open_sort(NULL, threads);
    const spsh__u128 *records = NULL;
    size_t got = 0;
    size_t piece = 0;
    spsh_status rc = SPSH_OK;

    add_in_pieces(sort, want, count);
    qsort(want, count, sizeof(*want), compare);
    while ((rc = spsh__sort128_next(sort, &records, &piece, NULL)) == SPSH_OK) {
        REQUIRE(piece > 0 && got + piece <= count);
        CHECK(memcmp(records, want + got, piece * sizeof(*records)) == 0);
        got += piece;
    }
    CHECK_I64(rc, SPSH_E_END);
    CHECK_I64(spsh__sort128_next(sort, &records, &piece, NULL), SPSH_E_END);
    CHECK_U64(got, count);
    CHECK_I64(spsh__sort128_add(sort, want, 1, NULL), SPSH_E_INVALID_ARG);
    const uint64_t spilled = spsh__sort128_spilled_bytes(sort);
    spsh__sort128_free(sort);
    free(want);
    return spilled;
}

static void test_without_runs(void)
{
    for (int shape = 0; shape < SHAPES; shape++)
        CHECK_U64(check_sorted(20000, shape, 1), 0);
    CHECK_U64(check_sorted(0, 0, 1), 0);
}

/* A cleared sort has no records left, and its buffers serve more records and fewer. */
static void test_cleared(void)
{
    static const size_t counts[] = {3000, 20000, 0, 500};
    spsh__sort128 *sort = open_sort(NULL, 1);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const size_t count = counts[i];
        spsh__u128 *want = make(count, 0);
        spsh__sort128_cursor cursor = {0};
        const spsh__u128 *record = NULL;
        size_t got = 0;
        add_in_pieces(sort, want, count);
        qsort(want, count, sizeof(*want), compare);
        for (; spsh__sort128_take(sort, &cursor, &record, NULL) == SPSH_OK; got++)
            CHECK(got < count && memcmp(record, &want[got], sizeof(*record)) == 0);
        CHECK_U64(got, count);
        CHECK(spsh__sort128_clear(sort));
        free(want);
    }
    spsh__u128 *many = make(150001, 0);
    add_in_pieces(sort, many, 150001);
    CHECK(!spsh__sort128_clear(sort)); /* it spilled */
    free(many);
    spsh__sort128_free(sort);
}

static void test_runs(void)
{
    for (int shape = 0; shape < SHAPES; shape++) {
        const uint64_t spilled = check_sorted(150001, shape, 2);
        CHECK(spilled >= 150001 * sizeof(spsh__u128) && spilled < 150001 * 17);
    }
    /* Sizes at which the last block and the last run are full, or one record long. */
    for (size_t count = 2 * 31 * 1023; count <= 2 * 32 * 1023 + 1; count += 1023)
        (void)check_sorted(count, 0, 1);
}

static void test_groups_of_runs(void)
{
    const size_t count = 3000000; /* 92 runs; 61 are merged at a time */
    const uint64_t spilled = check_sorted(count, 0, 2);
    CHECK(spilled > count * sizeof(spsh__u128) * 5 / 4); /* some were written twice */
    CHECK(spilled < count * sizeof(spsh__u128) * 7 / 4); /* but not all */
}

/* An I/O table that flips one bit in a given read. */
static int64_t flip_at = -1;
static uint64_t flip_bit;
static int64_t reads;

static int64_t flipping_pread(void *user, int fd, void *dst, size_t size_bytes,
                              uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    const int64_t done = io->pread_fn(user, fd, dst, size_bytes, offset_bytes);
    if (reads++ == flip_at && done > 0)
        ((uint8_t *)dst)[flip_bit / 8 % (uint64_t)done] ^= (uint8_t)(1 << flip_bit % 8);
    return done;
}

static void test_a_bit_on_disk(void)
{
    spsh_io io = *spsh_io_default();
    const size_t count = 100000;
    spsh__u128 *records = make(count, 0);
    uint64_t state = seed;

    io.pread_fn = flipping_pread;
    for (flip_at = 0; flip_at < 97; flip_at += 8) {
        spsh__sort128 *sort = open_sort(&io, 1);
        const spsh__u128 *got = NULL;
        size_t piece = 0;
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = SPSH_OK;
        reads = 0;
        flip_bit = test_random(&state) % (UINT64_C(16) << 10 << 3);
        add_in_pieces(sort, records, count);
        while ((rc = spsh__sort128_next(sort, &got, &piece, &err)) == SPSH_OK) {
        }
        CHECK_I64(rc, SPSH_E_CORRUPT);
        CHECK(strstr(err.message, directory) != NULL);
        CHECK_I64(spsh__sort128_next(sort, &got, &piece, &err), SPSH_E_CORRUPT);
        spsh__sort128_free(sort);
    }
    free(records);
}

static void test_refusals(void)
{
    spsh__sort128 *sort = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__sort128_options options = {NULL, directory, MEMORY_BYTES - 1, 1};
    CHECK_I64(spsh__sort128_open(&options, &sort, &err), SPSH_E_INVALID_ARG);
    options = (spsh__sort128_options){NULL, directory, MEMORY_BYTES, 0};
    CHECK_I64(spsh__sort128_open(&options, &sort, &err), SPSH_E_INVALID_ARG);
    CHECK(sort == NULL);
    spsh__sort128_free(NULL);

    /* A missing directory is reported only when a run must be written to it. */
    options = (spsh__sort128_options){NULL, "/nonexistent/place", MEMORY_BYTES, 1};
    spsh__u128 *records = make(40000, 0);
    REQUIRE(spsh__sort128_open(&options, &sort, &err) == SPSH_OK);
    CHECK_I64(spsh__sort128_add(sort, records, 40000, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "/nonexistent/place") != NULL);
    CHECK_I64(spsh__sort128_add(sort, records, 1, &err), SPSH_E_NOT_FOUND);
    spsh__sort128_free(sort);
    free(records);
}

TEST_MAIN(unit_sort128)
{
    test_temp_dir(directory, sizeof(directory));
    seed = test_seed(1);
    RUN(test_in_memory);
    RUN(test_without_runs);
    RUN(test_cleared);
    RUN(test_runs);
    RUN(test_groups_of_runs);
    RUN(test_a_bit_on_disk);
    RUN(test_refusals);
    CHECK(rmdir(directory) == 0); /* nothing is left */
    return TEST_RESULT();
}

/* unit_metadata_block.c: rows to columns and back; columns that do not compress; columns of a later
 * version. */
#include "base/string_table.h"
#include "fault_alloc.h"
#include "format/block.h"
#include "format/metadata_block.h"
#include "speechshard/inside.h"
#include "spsh_test.h"

enum { ROWS = 300, CAPACITY = 4 << 20 };

static uint8_t block[CAPACITY];
static char storage[ROWS][9][40];

static void make_row(uint64_t *seed, unsigned row, spsh_utterance *u)
{
    memset(u, 0, sizeof(*u));
    spsh_bytes *const strings[9] = {&u->id,       &u->domain, &u->split,  &u->speaker, &u->language,
                                    &u->document, &u->text,   &u->source, &u->extras};
    for (unsigned s = 0; s < 9; s++) {
        size_t size = s == 0 ? 1 + test_random(seed) % 39 : test_random(seed) % 40;
        if (s == 5 || (s == 4 && row % 2 == 0))
            size = 0;                     /* no document at all, a language now and then */
        for (size_t i = 0; i < size; i++) /* row parity decides if the column compresses */
            storage[row][s][i] = (char)(s % 2 == 0 ? 'a' : 33 + test_random(seed) % 90);
        *strings[s] = (spsh_bytes){(const uint8_t *)storage[row][s], size};
    }
    u->record = test_random(seed);
    u->start_sample = test_random(seed) >> 1;
    u->samples = test_random(seed) % 100000;
    u->flags = u->text.size_bytes != 0 ? SPSH_UTTERANCE_HAS_TEXT : (uint32_t)(row % 2);
}

static bool same(spsh_bytes a, spsh_bytes b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

static bool same_row(const spsh_utterance *a, const spsh_utterance *b)
{
    return a->record == b->record && a->start_sample == b->start_sample &&
           a->samples == b->samples && a->flags == b->flags && same(a->id, b->id) &&
           same(a->domain, b->domain) && same(a->split, b->split) && same(a->speaker, b->speaker) &&
           same(a->language, b->language) && same(a->document, b->document) &&
           same(a->text, b->text) && same(a->source, b->source) && same(a->extras, b->extras);
}

static size_t build(const spsh_utterance *rows, unsigned count)
{
    size_t used = 0;
    spsh__metadata_builder *builder = spsh__metadata_builder_new(spsh_allocator_default());
    REQUIRE(builder != NULL);
    for (unsigned i = 0; i < count; i++)
        REQUIRE(spsh__metadata_builder_add(builder, &rows[i], NULL) == SPSH_OK);
    uint64_t bound = spsh__metadata_builder_bound(builder);
    REQUIRE(spsh__metadata_builder_encode(builder, block, CAPACITY, &used, NULL) == SPSH_OK);
    CHECK(used <= bound);
    CHECK_U64(spsh__metadata_builder_rows(builder), 0);
    spsh__metadata_builder_free(builder);
    return used;
}

static void test_round_trip(void)
{
    uint64_t seed = test_seed(1);
    static spsh_utterance rows[ROWS];
    spsh__metadata *metadata = spsh__metadata_new(spsh_allocator_default());
    REQUIRE(metadata != NULL);
    for (unsigned round = 0; round < 50; round++) {
        unsigned count = 1 + (unsigned)(test_random(&seed) % ROWS);
        unsigned raw_columns = 0;
        for (unsigned i = 0; i < count; i++)
            make_row(&seed, i, &rows[i]);
        size_t used = build(rows, count);
        for (uint32_t c = 0; c < spsh__load_u32le(block + 64); c++)
            raw_columns += spsh__load_u32le(block + 72 + 32 * (size_t)c + 4) == 0 ? 1 : 0;
        CHECK(count < 10 || raw_columns > 0); /* record numbers are random */
        CHECK_U64(spsh__load_u32le(block + 64), count == 1 ? spsh__load_u32le(block + 64) : 12);
        CHECK_I64(spsh__metadata_load(metadata, block, used, count, 0, "x", NULL), SPSH_OK);
        CHECK_U64(spsh__metadata_rows(metadata), count);
        for (unsigned i = 0; i < count; i++) {
            spsh_utterance u;
            spsh__metadata_row(metadata, i, &u);
            CHECK(same_row(&u, &rows[i]));
        }
        /* A wrong row count is always detected. */
        CHECK_I64(spsh__metadata_load(metadata, block, used, count + 1, 0, "x", NULL),
                  SPSH_E_CORRUPT);
        CHECK_U64(spsh__metadata_rows(metadata), 0);
    }
    spsh__metadata_free(metadata);
}

/* An additional directory entry with an unknown id and encoding is skipped. */
static void test_unknown_column(void)
{
    static const char extra[8] = {"unknown"};
    uint64_t seed = 3;
    spsh_utterance row;
    spsh_utterance u;
    make_row(&seed, 0, &row);
    size_t used = build(&row, 1);
    uint32_t count = spsh__load_u32le(block + 64);
    size_t end = 72 + 32 * (size_t)count;
    memmove(block + end + 32, block + end, used - end);
    for (uint32_t c = 0; c < count; c++) {
        uint8_t *at = block + 72 + 32 * (size_t)c + 8;
        spsh__store_u64le(at, spsh__load_u64le(at) + 32);
    }
    used += 32;
    size_t place = (size_t)spsh__align_up(used, 8);
    memset(block + used, 0, place - used);
    memcpy(block + place, extra, sizeof(extra));
    spsh__store_u32le(block + 64, count + 1);
    spsh__store_u32le(block + end, 1000);
    spsh__store_u32le(block + end + 4, 9);
    spsh__store_u64le(block + end + 8, place);
    spsh__store_u64le(block + end + 16, sizeof(extra));
    spsh__store_u64le(block + end + 24, 100);
    spsh__metadata *metadata = spsh__metadata_new(spsh_allocator_default());
    REQUIRE(metadata != NULL);
    CHECK_I64(spsh__metadata_load(metadata, block, place + sizeof(extra), 1, 0, "x", NULL),
              SPSH_OK);
    spsh__metadata_row(metadata, 0, &u);
    CHECK(same_row(&u, &row));
    /* The offset of a column must be valid, even if its meaning is unknown. */
    spsh__store_u64le(block + end + 8, place + 8);
    CHECK_I64(spsh__metadata_load(metadata, block, place + sizeof(extra), 1, 0, "x", NULL),
              SPSH_E_CORRUPT);
    spsh__metadata_free(metadata);
}

/* Change every byte of a block and skip checksums: an error or some rows, but never a crash or a
 * read outside (the block has its exact size). */
static void test_any_bytes(void)
{
    uint64_t seed = test_seed(2);
    static spsh_utterance rows[ROWS];
    for (unsigned i = 0; i < 20; i++)
        make_row(&seed, i, &rows[i]);
    size_t used = build(rows, 20);
    uint8_t *exact = (uint8_t *)malloc(used);
    spsh__metadata *metadata = spsh__metadata_new(spsh_allocator_default());
    REQUIRE(exact != NULL && metadata != NULL);
    for (size_t at = 64; at < used; at++) {
        memcpy(exact, block, used);
        exact[at] = (uint8_t)test_random(&seed);
        if (spsh__metadata_load(metadata, exact, used, 20, 0, "x", NULL) != SPSH_OK)
            continue;
        for (uint32_t row = 0; row < 20; row++) {
            spsh_utterance u;
            spsh__metadata_row(metadata, row, &u);
            CHECK(spsh__utf8_valid(u.id));
        }
    }
    spsh__metadata_free(metadata);
    free(exact);
}

static void test_refused_utterances(void)
{
    static char big[(1 << 20) + 1];
    memset(big, 'a', sizeof(big));
    spsh_bytes a = {(const uint8_t *)"a", 1};
    spsh_bytes bad = {(const uint8_t *)"\xc0\xaf", 2};
    spsh_bytes huge = {(const uint8_t *)big, sizeof(big)};
    const struct {
        spsh_utterance u;
        spsh_status want;
    } cases[] = {
        {{.id = a},                                           SPSH_OK           },
        {{.id = {NULL, 0}},                                   SPSH_E_INVALID_ARG},
        {{.id = bad},                                         SPSH_E_INVALID_ARG},
        {{.id = {(const uint8_t *)big, 4097}},                SPSH_E_INVALID_ARG},
        {{.id = a, .flags = 2},                               SPSH_E_INVALID_ARG},
        {{.id = a, .text = a},                                SPSH_E_INVALID_ARG},
        {{.id = a, .flags = 1, .text = a},                    SPSH_OK           },
        {{.id = a, .flags = 1},                               SPSH_OK           },
        {{.id = a, .flags = 1, .text = bad},                  SPSH_E_INVALID_ARG},
        {{.id = a, .flags = 1, .text = huge},                 SPSH_E_LIMIT      },
        {{.id = a, .extras = huge},                           SPSH_E_LIMIT      },
        {{.id = a, .domain = {(const uint8_t *)big, 1025}},   SPSH_E_LIMIT      },
        {{.id = a, .source = {(const uint8_t *)big, 4097}},   SPSH_E_LIMIT      },
        {{.id = a, .speaker = bad},                           SPSH_E_INVALID_ARG},
        {{.id = a, .start_sample = UINT64_MAX, .samples = 1}, SPSH_E_INVALID_ARG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_I64(spsh__utterance_check_fields(&cases[i].u, NULL), cases[i].want);
}

static void test_utf8(void)
{
    static const char *const good[] = {"",
                                       "abc",
                                       "abcdefgh\xc3\xa9xyz",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc1\xbf",
                                      "abcdefg\xff",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82",
                                      "abcdefghijklmno\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK(spsh__utf8_valid((spsh_bytes){(const uint8_t *)good[i], strlen(good[i])}));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!spsh__utf8_valid((spsh_bytes){(const uint8_t *)bad[i], strlen(bad[i])}));
}

static void test_names(void)
{
    spsh__names *names = spsh__names_new(spsh_allocator_default());
    REQUIRE(names != NULL);
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < 5000; i++) {
            char text[32];
            uint32_t number = 0;
            int size = snprintf(text, sizeof(text), "%s%u", i == 17 ? "" : "name ", i);
            spsh_bytes name = {(const uint8_t *)text, i == 17 ? 0 : (size_t)size};
            CHECK(spsh__names_find(names, name, &number) == (pass == 1));
            CHECK_I64(spsh__names_add(names, name, &number, NULL), SPSH_OK);
            CHECK_U64(number, i);
            CHECK(same(spsh__names_get(names, i), name));
        }
    CHECK_U64(spsh__names_count(names), 5000);
    CHECK_U64(spsh__load_u64le(spsh__names_ends(names) + 8 * (size_t)4999),
              spsh__names_bytes(names).size_bytes);
    spsh__names_free(names);
    for (uint64_t fail_at = 0, done = 0; done == 0; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        names = spsh__names_new(&allocator);
        spsh_status rc = names == NULL ? SPSH_E_NO_MEMORY : SPSH_OK;
        for (uint32_t i = 0; i < 100 && rc == SPSH_OK; i++) {
            uint32_t number = 0;
            rc =
                spsh__names_add(names, (spsh_bytes){(const uint8_t *)&i, sizeof(i)}, &number, NULL);
        }
        done = rc == SPSH_OK ? 1 : 0;
        spsh__names_free(names);
        CHECK_I64(fault.live_count, 0);
    }
}

TEST_MAIN(unit_metadata_block)
{
    RUN(test_round_trip);
    RUN(test_unknown_column);
    RUN(test_any_bytes);
    RUN(test_refused_utterances);
    RUN(test_utf8);
    RUN(test_names);
    return TEST_RESULT();
}

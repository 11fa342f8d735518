/* unit_decoder.c: decoding of small probability tables and counting of errors, compared with
 * results computed by hand. */
#include <math.h>

#include "decoding/decoder.h"
#include "fail_malloc.h"
#include "fault_alloc.h"
#include "spsh_test.h"

enum { CAPACITY = 16 };

static uint32_t labels[CAPACITY];

/* ---- decoding ---- */

static spsh__beam *open_beam(uint32_t width, uint32_t frames)
{
    spsh__beam *beam = NULL;
    REQUIRE(spsh__beam_open(width, frames, spsh_allocator_default(), &beam, NULL) == SPSH_OK);
    return beam;
}

static void test_greedy_merges_and_drops(void)
{
    static const uint32_t symbols[] = {0, 9, 1, 9, 1, 9, 0, 9, 1, 9, 2, 9, 2};
    spsh__best_symbols best = {symbols, 7, 2, 0}; /* every second number */
    CHECK_U64(spsh__decode_greedy(&best, labels, CAPACITY), 3);
    CHECK(labels[0] == 1 && labels[1] == 1 && labels[2] == 2);
    CHECK_U64(spsh__decode_greedy(&best, labels, 2), 2);
    CHECK_U64(spsh__decode_greedy(&best, labels, 0), 0);
    best.blank = 2;
    CHECK_U64(spsh__decode_greedy(&best, labels, CAPACITY), 4);
    CHECK(labels[0] == 0 && labels[1] == 1 && labels[2] == 0 && labels[3] == 1);
    best.frames = 0;
    CHECK_U64(spsh__decode_greedy(&best, labels, CAPACITY), 0);
}

/* The blank twice, at 0.6 each, is less probable than all paths of "1": 0.36 and 0.64. */
static void test_the_beam_adds_paths(void)
{
    const float log6 = logf(0.6F);
    const float log4 = logf(0.4F);
    const float rows[] = {log6, log4, 77, log6, log4, 77};
    const spsh__score_rows r = {rows, 2, 2, 3, 0};
    double score = 0;
    spsh__beam *beam = open_beam(4, 2);
    CHECK_U64(spsh__decode_beam(beam, &r, labels, CAPACITY, &score), 1);
    CHECK_U64(labels[0], 1);
    CHECK(fabs(score - log(0.64)) < 1e-6);
    spsh__beam_close(beam);
}

static void test_the_beam_needs_a_blank_between_equals(void)
{
    const float low = -20;
    const float rows[] = {low, 0, 0, low, low, 0}; /* 1, blank, 1 */
    const spsh__score_rows with = {rows, 3, 2, 2, 0};
    const float repeated[] = {low, 0, low, 0, low, 0};
    const spsh__score_rows without = {repeated, 3, 2, 2, 0};
    double score = 0;
    spsh__beam *beam = open_beam(3, 3);
    CHECK_U64(spsh__decode_beam(beam, &with, labels, CAPACITY, &score), 2);
    CHECK_U64(spsh__decode_beam(beam, &without, labels, CAPACITY, &score), 1);
    spsh__beam_close(beam);
}

static void test_the_beam_of_nothing_and_of_less_capacity(void)
{
    const float rows[] = {-9, 0, -9, -9, -9, 0, 0, -9, -9, -9, 0, -9}; /* 1 2 - 1 */
    spsh__score_rows r = {rows, 4, 3, 3, 0};
    double score = 1;
    spsh__beam *beam = open_beam(2, 4);
    CHECK_U64(spsh__decode_beam(beam, &r, labels, CAPACITY, &score), 3);
    CHECK(labels[0] == 1 && labels[1] == 2 && labels[2] == 1);
    labels[2] = 99;
    CHECK_U64(spsh__decode_beam(beam, &r, labels, 2, &score), 2);
    CHECK(labels[0] == 1 && labels[1] == 2 && labels[2] == 99);
    r.frames = 0;
    CHECK_U64(spsh__decode_beam(beam, &r, labels, CAPACITY, &score), 0);
    CHECK(score == 0);
    spsh__beam_close(beam);
}

/* Among equal prefixes, the beam prefers those that it already had. Then it prefers the extensions
 * of better prefixes, then lower symbols. */
static void test_the_beam_takes_the_first_of_equals(void)
{
    const float rows[] = {-1, -1, -1, -1, -1, -1, -9, -1};
    spsh__score_rows r = {rows, 1, 4, 4, 2};
    double score = 0;
    spsh__beam *beam = open_beam(4, 2);
    CHECK_U64(spsh__decode_beam(beam, &r, labels, CAPACITY, &score), 0);
    r.values = rows + 4; /* no longer the blank */
    CHECK_U64(spsh__decode_beam(beam, &r, labels, CAPACITY, &score), 1);
    CHECK_U64(labels[0], 0);
    spsh__beam_close(beam);
}

/* Scores that are NaN or infinite must not crash the decoder. It returns some labels. */
static void test_the_beam_of_no_numbers(void)
{
    const float nan = NAN;
    const float none = -INFINITY;
    const float rows[] = {nan, nan, nan, none, none, none, 0, nan, none, none, 0, 0};
    double score = 0;
    spsh__beam *beam = open_beam(5, 4);
    for (uint32_t first = 0; first < 4; first++) {
        const spsh__score_rows r = {rows + first * 3, 4 - first, 3, 3, 1};
        CHECK(spsh__decode_beam(beam, &r, labels, CAPACITY, &score) <= 4 - first);
    }
    spsh__beam_close(beam);
}

static void test_beams_that_cannot_be(void)
{
    spsh__beam *beam = NULL;
    const spsh_allocator *allocator = spsh_allocator_default();
    CHECK_I64(spsh__beam_open(0, 5, allocator, &beam, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__beam_open(1U << 20, 1U << 20, allocator, &beam, NULL), SPSH_E_LIMIT);
    CHECK(beam == NULL);
    spsh__beam_close(NULL);
}

static void test_every_allocation_failure(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh__beam *beam = NULL;
        REQUIRE(fail_at < 20);
        rc = spsh__beam_open(8, 10, &allocator, &beam, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (beam != NULL));
        spsh__beam_close(beam);
        CHECK_U64(fault.live_count, 0);
    }
}

/* ---- errors ---- */

static spsh_bytes bytes(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

typedef struct error_row {
    const char *reference, *found;
    unsigned substitutions, insertions, deletions, count;
} error_row;

static void check_errors(const error_row *row, const spsh__errors *e)
{
    if (e->substitutions != row->substitutions || e->insertions != row->insertions ||
        e->deletions != row->deletions || e->reference_count != row->count)
        fprintf(stderr, "of \"%s\" and \"%s\":\n", row->reference, row->found);
    CHECK_U64(e->substitutions, row->substitutions);
    CHECK_U64(e->insertions, row->insertions);
    CHECK_U64(e->deletions, row->deletions);
    CHECK_U64(e->reference_count, row->count);
    CHECK_U64(e->utterances, 1);
    CHECK_U64(e->wrong_utterances, row->substitutions + row->insertions + row->deletions > 0);
}

static void test_words(void)
{
    static const error_row rows[] = {
        {"",                      "",                   0, 0, 0, 0},
        {"one two three",         "one two three",      0, 0, 0, 3},
        {"one two three",         " one  two\tthree\n", 0, 0, 0, 3},
        {"one two three",         "one tow three",      1, 0, 0, 3},
        {"one two three",         "",                   0, 0, 3, 3},
        {"",                      "one two",            0, 2, 0, 0},
        {"one two three",         "two three four",     0, 1, 1, 3},
        {"a b c d",               "b x d",              1, 0, 1, 4},
        {"a",                     "b c",                1, 1, 0, 1},
        {"nine",                  "Nine",               1, 0, 0, 1},
        {"\xc3\xa9t\xc3\xa9 ici", "\xc3\xa9te ici",     1, 0, 0, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh__errors e = {0};
        CHECK(spsh__errors_add_words(&e, bytes(rows[i].reference), bytes(rows[i].found), NULL) ==
              SPSH_OK);
        check_errors(&rows[i], &e);
    }
}

static void test_letters(void)
{
    static const error_row with[] = {
        {"kitten",                   "sitting",      2, 1, 0, 6},
        {"to day",                   "today",        0, 0, 1, 6},
        {"\xc3\xa9t\xc3\xa9",        "ete",          2, 0, 0, 3}, /* code points, not bytes */
        {"\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0", 0, 0, 1, 2},
        {"",                         "a b",          0, 3, 0, 0},
    };
    static const error_row without[] = {
        {"to day", "today",    0, 0, 0, 5},
        {"to day", " t o d a", 0, 0, 1, 5},
        {" ",      "",         0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
        spsh__errors e = {0};
        CHECK(spsh__errors_add_letters(&e, bytes(with[i].reference), bytes(with[i].found), true,
                                       NULL) == SPSH_OK);
        check_errors(&with[i], &e);
    }
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        spsh__errors e = {0};
        CHECK(spsh__errors_add_letters(&e, bytes(without[i].reference), bytes(without[i].found),
                                       false, NULL) == SPSH_OK);
        check_errors(&without[i], &e);
    }
}

static void test_rates_are_of_all_together(void)
{
    spsh__errors e = {0};
    CHECK(spsh__errors_rate(&e) == 0);
    CHECK(spsh__errors_add_words(&e, bytes(""), bytes("one"), NULL) == SPSH_OK);
    CHECK(isinf(spsh__errors_rate(&e)));
    CHECK(spsh__errors_add_words(&e, bytes("one two three"), bytes("one"), NULL) == SPSH_OK);
    CHECK(spsh__errors_add_words(&e, bytes("four"), bytes("four"), NULL) == SPSH_OK);
    CHECK(e.utterances == 3 && e.wrong_utterances == 2 && e.reference_count == 4);
    CHECK(spsh__errors_rate(&e) == 0.75);
}

static void test_what_is_not_utf8_is_refused(void)
{
    static const char *const bad[] = {"\xff", "a\xc3", "one \xed\xa0\x80", "\xc0\xaf"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        spsh__errors e = {0};
        CHECK_I64(spsh__errors_add_words(&e, bytes(bad[i]), bytes("a"), NULL), SPSH_E_SYNTAX);
        CHECK_I64(spsh__errors_add_words(&e, bytes("a"), bytes(bad[i]), NULL), SPSH_E_SYNTAX);
        CHECK_I64(spsh__errors_add_letters(&e, bytes("a"), bytes(bad[i]), true, NULL),
                  SPSH_E_SYNTAX);
        CHECK(e.utterances == 0 && e.reference_count == 0);
    }
}

static void test_errors_without_memory(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t at = 0; rc != SPSH_OK; at++) {
        spsh__errors e = {0};
        REQUIRE(at < 10);
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        rc = spsh__errors_add_words(&e, bytes("one two"), bytes("one"), NULL);
        fail_malloc.at = UINT64_MAX;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK_U64(e.utterances, rc == SPSH_OK);
    }
}

TEST_MAIN(unit_decoder)
{
    RUN(test_greedy_merges_and_drops);
    RUN(test_the_beam_adds_paths);
    RUN(test_the_beam_needs_a_blank_between_equals);
    RUN(test_the_beam_of_nothing_and_of_less_capacity);
    RUN(test_the_beam_takes_the_first_of_equals);
    RUN(test_the_beam_of_no_numbers);
    RUN(test_beams_that_cannot_be);
    RUN(test_every_allocation_failure);
    RUN(test_words);
    RUN(test_letters);
    RUN(test_rates_are_of_all_together);
    RUN(test_what_is_not_utf8_is_refused);
    RUN(test_errors_without_memory);
    return TEST_RESULT();
}

/* prop_decoder.c: a wide beam finds the most probable of all transcripts. A narrow beam equals a
 * search over a plain list of prefixes. Edit distances equal the distances of the full table. */
#include <math.h>

#include "backend/ctc.h"
#include "decoding/decoder.h"
#include "spsh_test.h"

enum { FRAMES_MAX = 24, WIDTH_MAX = 6, BEAM_MAX = 364 };

static uint64_t seed;

typedef struct table {
    float values[FRAMES_MAX * WIDTH_MAX]; /* log probabilities */
    double logits[FRAMES_MAX * WIDTH_MAX];
    spsh__score_rows rows;
} table;

static void make_table(uint64_t *random, uint32_t frames, uint32_t width, double spread, table *t)
{
    t->rows = (spsh__score_rows){t->values, frames, width, width,
                                 (uint32_t)(test_random(random) % width)};
    for (size_t i = 0; i < frames; i++) {
        double sum = 0;
        for (size_t k = 0; k < width; k++) {
            const double unit = (double)(test_random(random) >> 11) / 9007199254740992.0;
            t->logits[i * width + k] = spread * unit;
            sum += exp(spread * unit);
        }
        for (size_t k = 0; k < width; k++)
            t->values[i * width + k] = (float)(t->logits[i * width + k] - log(sum));
    }
}

static double log_add(double a, double b)
{
    const double greatest = a > b ? a : b;
    return isinf(greatest) ? greatest : greatest + log(exp(a - greatest) + exp(b - greatest));
}

/* ---- all transcripts ---- */

static double probability(const table *t, const uint32_t *labels, uint32_t count)
{
    static double scratch[1 << 16];
    const spsh__ctc_utterance u = {.frames = t->rows.frames,
                                   .symbols = t->rows.width,
                                   .blank = t->rows.blank,
                                   .stride = t->rows.width,
                                   .labels = labels,
                                   .label_count = count};
    REQUIRE(spsh__ctc_scratch(u.frames, count, u.symbols) <= sizeof(scratch) / sizeof(scratch[0]));
    return -spsh__ctc_f64(&u, t->logits, NULL, scratch).loss;
}

/* Next labels in order of length, then of symbols; false after the last of length_max. */
static bool next_labels(const table *t, uint32_t *labels, uint32_t *count, uint32_t length_max)
{
    const uint32_t first = t->rows.blank == 0 ? 1 : 0;
    uint32_t at = *count;
    while (at > 0) {
        uint32_t *symbol = &labels[at - 1];
        *symbol += *symbol + 1 == t->rows.blank ? 2 : 1;
        if (*symbol < t->rows.width)
            return true;
        *symbol = first;
        at--;
    }
    for (uint32_t i = 0; i <= *count && i < FRAMES_MAX; i++)
        labels[i] = first;
    return ++*count <= length_max;
}

static void test_a_wide_beam_finds_the_best_of_all(void)
{
    uint64_t random = seed;
    spsh__beam *beam = NULL;
    REQUIRE(spsh__beam_open(BEAM_MAX, 5, spsh_allocator_default(), &beam, NULL) == SPSH_OK);
    for (unsigned round = 0; round < 300; round++) {
        table t;
        uint32_t got[FRAMES_MAX], labels[FRAMES_MAX], best[FRAMES_MAX];
        uint32_t count = 0, best_count = 0;
        double best_score = -(double)INFINITY, score = 0;
        make_table(&random, 1 + round % 5, 2 + round % 3, round % 2 == 0 ? 1 : 4, &t);
        do {
            const double p = probability(&t, labels, count);
            if (p > best_score) {
                best_score = p;
                best_count = count;
                memcpy(best, labels, count * sizeof(*labels));
            }
        } while (next_labels(&t, labels, &count, t.rows.frames));
        const uint32_t got_count = spsh__decode_beam(beam, &t.rows, got, FRAMES_MAX, &score);
        CHECK_U64(got_count, best_count);
        CHECK(got_count == best_count && memcmp(got, best, best_count * sizeof(*best)) == 0);
        CHECK(fabs(score - best_score) < 1e-5);
    }
    spsh__beam_close(beam);
}

/* ---- a list of prefixes ---- */

typedef struct prefix {
    uint32_t labels[FRAMES_MAX];
    uint32_t count;
    double blank, other, total;
} prefix;

enum { LIST_MAX = 64 * (WIDTH_MAX + 1) };

static prefix *find_or_add(prefix *list, uint32_t *list_count, const uint32_t *labels,
                           uint32_t count)
{
    for (uint32_t i = 0; i < *list_count; i++)
        if (list[i].count == count && memcmp(list[i].labels, labels, count * sizeof(*labels)) == 0)
            return &list[i];
    REQUIRE(*list_count < LIST_MAX);
    prefix *p = &list[(*list_count)++];
    memcpy(p->labels, labels, count * sizeof(*labels));
    p->count = count;
    p->blank = p->other = -(double)INFINITY;
    return p;
}

static int better_first(const void *a, const void *b)
{
    const double left = ((const prefix *)a)->total;
    const double right = ((const prefix *)b)->total;
    return (left < right) - (left > right);
}

/* A child that is not in the list is one candidate per frame, from its only parent. A child that is
 * in the list also receives its parent's paths. */
static void grow(const table *t, const float *row, const prefix *p, prefix *list, uint32_t *count)
{
    uint32_t labels[FRAMES_MAX + 1];
    const uint32_t last = p->count == 0 ? UINT32_MAX : p->labels[p->count - 1];
    prefix *same = find_or_add(list, count, p->labels, p->count);
    same->blank = log_add(same->blank, p->total + (double)row[t->rows.blank]);
    if (p->count > 0)
        same->other = log_add(same->other, p->other + (double)row[last]);
    memcpy(labels, p->labels, p->count * sizeof(*labels));
    for (uint32_t k = 0; k < t->rows.width; k++) {
        if (k == t->rows.blank)
            continue;
        labels[p->count] = k;
        prefix *longer = find_or_add(list, count, labels, p->count + 1);
        longer->other = log_add(longer->other, (k == last ? p->blank : p->total) + (double)row[k]);
    }
}

static void search_lists(const table *t, uint32_t width, prefix *ret)
{
    static prefix now[LIST_MAX], next[LIST_MAX];
    uint32_t count = 1;
    now[0] = (prefix){.other = -(double)INFINITY};
    for (uint32_t i = 0; i < t->rows.frames; i++) {
        uint32_t next_count = 0;
        for (uint32_t j = 0; j < count; j++)
            grow(t, t->values + i * t->rows.width, &now[j], next, &next_count);
        for (uint32_t j = 0; j < next_count; j++)
            next[j].total = log_add(next[j].blank, next[j].other);
        qsort(next, next_count, sizeof(*next), better_first);
        count = next_count < width ? next_count : width;
        memcpy(now, next, count * sizeof(*next));
    }
    *ret = now[0];
}

/* Narrow beams forget prefixes and find them again. */
static void test_a_narrow_beam_is_the_plain_search(void)
{
    static const uint32_t widths[] = {1, 2, 3, 5, 9, 64};
    uint64_t random = seed + 1;
    for (unsigned round = 0; round < 240; round++) {
        table t;
        prefix want;
        uint32_t got[FRAMES_MAX];
        double score = 0;
        spsh__beam *beam = NULL;
        const uint32_t width = widths[round % 6];
        make_table(&random, FRAMES_MAX - round % 7, 2 + round % (WIDTH_MAX - 1),
                   round % 4 == 0 ? 8 : 1.5, &t);
        search_lists(&t, width, &want);
        REQUIRE(spsh__beam_open(width, FRAMES_MAX, spsh_allocator_default(), &beam, NULL) ==
                SPSH_OK);
        for (unsigned again = 0; again < 2; again++) {
            CHECK_U64(spsh__decode_beam(beam, &t.rows, got, FRAMES_MAX, &score), want.count);
            CHECK(memcmp(got, want.labels, want.count * sizeof(*got)) == 0);
            CHECK(fabs(score - want.total) < 1e-9);
            CHECK(score <= probability(&t, want.labels, want.count) + 1e-5);
        }
        spsh__beam_close(beam);
    }
}

/* ---- edits ---- */

enum { TEXT_MAX = 40 };

static size_t random_text(uint64_t *random, char *text)
{
    const size_t count = test_random(random) % (TEXT_MAX + 1);
    for (size_t i = 0; i < count; i++)
        text[i] = "ab cd"[test_random(random) % 5];
    return count;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t full_distance(const char *a, size_t a_count, const char *b, size_t b_count)
{
    static size_t full[TEXT_MAX + 1][TEXT_MAX + 1];
    for (size_t i = 0; i <= a_count; i++)
        for (size_t j = 0; j <= b_count; j++) {
            if (i == 0 || j == 0)
                full[i][j] = i + j;
            else
                full[i][j] = least(full[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                                   1 + least(full[i - 1][j], full[i][j - 1]));
        }
    return full[a_count][b_count];
}

static void test_edits_are_those_of_the_full_table(void)
{
    uint64_t random = seed + 2;
    for (unsigned round = 0; round < 3000; round++) {
        char a[TEXT_MAX], b[TEXT_MAX];
        const size_t a_count = random_text(&random, a);
        const size_t b_count = random_text(&random, b);
        spsh__errors e = {0};
        REQUIRE(spsh__errors_add_letters(&e, (spsh_bytes){(const uint8_t *)a, a_count},
                                         (spsh_bytes){(const uint8_t *)b, b_count}, true,
                                         NULL) == SPSH_OK);
        CHECK_U64(e.substitutions + e.insertions + e.deletions,
                  full_distance(a, a_count, b, b_count));
        CHECK_U64(e.reference_count, a_count);
        CHECK_U64(e.reference_count + e.insertions - e.deletions, b_count);
    }
}

TEST_MAIN(prop_decoder)
{
    seed = test_seed(7);
    RUN(test_a_wide_beam_finds_the_best_of_all);
    RUN(test_a_narrow_beam_is_the_plain_search);
    RUN(test_edits_are_those_of_the_full_table);
    return TEST_RESULT();
}

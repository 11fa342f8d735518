/* prop_text.c: the parts of the text join compared with plain algorithms: distances with the full
 * table, MinHash with the sets, runs of words with a search for them, near texts with the distances
 * of all pairs. Results must not depend on the number of threads.
 */
#include <pthread.h>

#include "common/edit_distance.h"
#include "common/file_names.h"
#include "spsh_test.h"
#include "text/minhash.h"
#include "text/text_cover.h"
#include "text/text_index.h"
#include "text/text_near.h"

static uint64_t seed;

/* ---- edit distance ---- */

enum { LENGTH_MAX = 60 };

static size_t full_distance(spsh__points a, spsh__points b)
{
    static size_t table[LENGTH_MAX + 1][LENGTH_MAX + 1];
    for (size_t i = 0; i <= a.count; i++) {
        for (size_t j = 0; j <= b.count; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            size_t best = table[i - 1][j - 1] + (a.at[i - 1] != b.at[j - 1]);
            best = table[i - 1][j] + 1 < best ? table[i - 1][j] + 1 : best;
            table[i][j] = table[i][j - 1] + 1 < best ? table[i][j - 1] + 1 : best;
        }
    }
    return table[a.count][b.count];
}

/* Copy a part of a with a few changes, so that small distances are common. */
static size_t change(uint64_t *random, const uint32_t *a, size_t count, uint32_t letters,
                     uint32_t *b)
{
    const uint64_t rate = test_random(random) % 12 + 2;
    size_t to = 0;
    for (size_t i = 0; i < count && to + 2 < LENGTH_MAX; i++) {
        const uint64_t draw = test_random(random);
        const uint32_t other = (uint32_t)(draw >> 40) % letters;
        if (draw % rate != 0 || draw >> 32 & 1)
            b[to++] = draw % rate == 0 ? other : a[i];
        if (draw % rate == 1 && (draw >> 33 & 3) == 0)
            b[to++] = other;
    }
    return to;
}

static void test_distances_are_those_of_the_full_table(void)
{
    uint64_t random = seed;
    uint32_t a[LENGTH_MAX], b[LENGTH_MAX], row[2 * LENGTH_MAX + 3];
    unsigned within = 0;
    for (unsigned round = 0; round < 40000; round++) {
        const size_t count = test_random(&random) % LENGTH_MAX;
        const uint32_t letters = 2 + (uint32_t)(test_random(&random) % 8);
        for (size_t i = 0; i < count; i++)
            a[i] = (uint32_t)(test_random(&random) % letters);
        const spsh__points left = {a, count};
        const spsh__points right = {b, change(&random, a, count, letters, b)};
        const size_t limit = test_random(&random) % (LENGTH_MAX / 2);
        const size_t want = full_distance(left, right);
        const size_t got = spsh__edit_distance(left, right, limit, row);
        CHECK_U64(got, want <= limit ? want : limit + 1);
        CHECK_U64(spsh__edit_distance(right, left, limit, row), got);
        within += want <= limit;
    }
    CHECK(within > 4000 && within < 36000);
}

/* ---- MinHash ---- */

enum { GRAMS_MAX = 400 };

/* Two sequences of code points whose 5-grams are all different, except in a shared part. */
static double two_texts(uint64_t *random, size_t shared, size_t own, uint32_t *a, uint32_t *b)
{
    for (size_t i = 0; i < shared + own; i++) {
        a[i] = (uint32_t)(test_random(random) % 0x10ffff);
        b[i] = i < shared ? a[i] : (uint32_t)(test_random(random) % 0x10ffff);
    }
    const double common = (double)shared - 4;
    return common / (2 * ((double)(shared + own) - 4) - common);
}

/* Fraction of equal MinHash values. */
static double alike(const spsh__minhash *a, const spsh__minhash *b)
{
    unsigned equal = 0;
    for (unsigned i = 0; i < SPSH__MINHASH_VALUES; i++)
        equal += a->values[i] == b->values[i];
    return equal / (double)SPSH__MINHASH_VALUES;
}

static void test_minhash_estimates_jaccard(void)
{
    uint64_t random = seed + 1;
    uint32_t a[GRAMS_MAX], b[GRAMS_MAX];
    for (size_t shared = 20; shared <= 160; shared += 35) {
        double sum = 0, truth = 0;
        for (unsigned round = 0; round < 400; round++) {
            spsh__minhash left, right;
            truth = two_texts(&random, shared, 40, a, b);
            spsh__minhash_of(a, shared + 40, &left);
            spsh__minhash_of(b, shared + 40, &right);
            sum += alike(&left, &right);
        }
        CHECK(sum / 400 > truth - 0.02 && sum / 400 < truth + 0.02);
    }
}

/* ---- texts ---- */

enum { TEXTS = 600, TEXT_BYTES = 800 };

/* Draw `count` words from a small vocabulary. */
static void make_words(uint64_t *random, unsigned count, char *text)
{
    char *at = text;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t draw = test_random(random) % 700;
        at += snprintf(at, 12, "%s%c%c%u", i == 0 ? "" : " ", (char)('a' + draw % 26),
                       (char)('a' + draw / 26), (unsigned)(draw % 7));
    }
    *at = '\0';
}

/* Change about one of `rate` characters. */
static void spoil(uint64_t *random, unsigned rate, char *text)
{
    for (; *text != '\0'; text++) {
        if (*text != ' ' && test_random(random) % rate == 0)
            *text = (char)('a' + test_random(random) % 26);
    }
}

static size_t as_points(const char *text, uint32_t *points)
{
    const size_t count = strlen(text);
    for (size_t i = 0; i < count; i++)
        points[i] = (uint8_t)text[i];
    return count;
}

static spsh__text_near *near_of(char (*texts)[TEXT_BYTES], uint64_t *random)
{
    spsh__text_near *near = spsh__text_near_new(SPSH_TEXT_PROFILE_DEFAULT);
    REQUIRE(near != NULL);
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_words(random, 4 + (unsigned)(test_random(random) % 20), texts[i]);
        REQUIRE(spsh__text_near_add(near, i, spsh__bytes_of(texts[i]), NULL) == SPSH_OK);
    }
    REQUIRE(spsh__text_near_finish(near, NULL) == SPSH_OK);
    return near;
}

static bool is_found(const spsh__near_text *found, size_t count, uint32_t number)
{
    for (size_t i = 0; i < count; i++) {
        if (found[i].number == number)
            return true;
    }
    return false;
}

/* All found pairs are within the distance. Most pairs within it are found: changed characters
 * spread over a text are the worst case for 5-grams; at 15 % they destroy four of five. */
static void test_near_texts_against_all_pairs(void)
{
    enum { PERCENT = 16 };
    static char texts[TEXTS][TEXT_BYTES];
    static uint32_t a[TEXT_BYTES], b[TEXT_BYTES], row[2 * TEXT_BYTES + 3];
    uint64_t random = seed + 2;
    spsh__text_near *near = near_of(texts, &random);
    unsigned want[PERCENT] = {0}, got[PERCENT] = {0};
    spsh__near_probe *probe = spsh__near_probe_new(near);
    REQUIRE(probe != NULL);
    for (uint32_t i = 0; i < 4 * TEXTS; i++) {
        char text[TEXT_BYTES];
        const spsh__near_text *found = NULL;
        bool crowded = false;
        memcpy(text, texts[i % TEXTS], sizeof(text));
        spoil(&random, 6 + i % 30, text);
        const size_t count = spsh__near_probe_text(probe, spsh__bytes_of(text), &found, &crowded);
        const spsh__points left = {a, as_points(text, a)};
        for (uint32_t k = 0; k < TEXTS; k++) {
            const spsh__points right = {b, as_points(texts[k], b)};
            const size_t longer = left.count > right.count ? left.count : right.count;
            const size_t limit = (size_t)(0.15 * (double)longer);
            const size_t distance = spsh__edit_distance(left, right, limit, row);
            const bool is = is_found(found, count, k);
            CHECK(!is || distance <= limit);
            const size_t percent = distance * 100 / (longer + (longer == 0)) % PERCENT;
            want[percent] += distance <= limit;
            got[percent] += is;
        }
        CHECK(!crowded);
    }
    for (unsigned i = 0; i < PERCENT; i++) {
        printf("distance %2u %%: %u of %u found\n", i, got[i], want[i]);
        CHECK(got[i] * 100 >= want[i] * (i <= 3 ? 99 : i <= 5 ? 94 : i <= 7 ? 75 : 0));
    }
    spsh__near_probe_free(probe);
    spsh__text_near_free(near);
}

/* Search for each run of words of a text in the other text, with blanks around both. */
static double share_by_search(const char *text, const char *in)
{
    const char *starts[TEXT_BYTES];
    char padded[TEXT_BYTES + 2], run[TEXT_BYTES + 2];
    size_t words = 0;
    const char *blank = text;
    do {
        starts[words] = words == 0 ? text : blank + 1;
        blank = strchr(starts[words++], ' ');
    } while (blank != NULL);
    starts[words] = text + strlen(text) + 1;
    const size_t length = words >= 20 ? 13 : 8;
    if (words < 8)
        return 0;
    (void)snprintf(padded, sizeof(padded), " %s ", in);
    unsigned found = 0;
    for (size_t i = 0; i + length <= words; i++) {
        const int bytes = (int)(starts[i + length] - starts[i]) - 1;
        (void)snprintf(run, sizeof(run), " %.*s ", bytes, starts[i]);
        found += strstr(padded, run) != NULL;
    }
    return found / (double)(words - length + 1);
}

static void test_runs_of_words_against_search(void)
{
    static char texts[TEXTS][TEXT_BYTES];
    uint64_t random = seed + 3;
    unsigned matches = 0;
    double seen[TEXTS] = {0};
    spsh__text_cover *cover = spsh__text_cover_new();
    REQUIRE(cover != NULL);
    for (uint32_t i = 0; i < TEXTS; i++) {
        make_words(&random, 5 + (unsigned)(test_random(&random) % 30), texts[i]);
        REQUIRE(spsh__text_cover_add(cover, i, spsh__bytes_of(texts[i]), NULL) == SPSH_OK);
    }
    REQUIRE(spsh__text_cover_finish(cover, NULL) == SPSH_OK);
    spsh__cover_probe *probe = spsh__cover_probe_new(cover);
    REQUIRE(probe != NULL);
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[TEXT_BYTES];
        char before[200], middle[400];
        const spsh__covered *covered = NULL;
        size_t count = 0, next = 0;
        make_words(&random, (unsigned)(test_random(&random) % 20), before);
        (void)snprintf(middle, sizeof(middle), "%.399s", texts[i]);
        spoil(&random, 20 + i % 200, middle);
        (void)snprintf(text, sizeof(text), "%s%s%s", before, before[0] == '\0' ? "" : " ", middle);
        REQUIRE(spsh__cover_probe_text(probe, spsh__bytes_of(text), 0.5, &covered, &count, NULL) ==
                SPSH_OK);
        for (uint32_t k = 0; k < TEXTS; k++) {
            const double want = share_by_search(texts[k], text);
            const bool is_found = next < count && covered[next].number == k;
            CHECK(is_found == (want >= 0.5));
            if (is_found)
                CHECK(covered[next].test > want - 1e-9 && covered[next].test < want + 1e-9 &&
                      covered[next].train > 0 && covered[next].train <= 1);
            next += is_found;
            seen[k] = want > seen[k] ? want : seen[k];
        }
        matches += (unsigned)count;
    }
    for (uint32_t k = 0; k < TEXTS; k++)
        CHECK(spsh__text_cover_share(cover, k) >= seen[k] - 1e-9);
    CHECK(matches > TEXTS / 5 && matches < TEXTS);
    spsh__cover_probe_free(probe);
    spsh__text_cover_free(cover);
}

/* A text that precedes every other text makes no pair by itself, and remains a part of existing
 * pairs. */
static void test_what_all_share_makes_no_pair(void)
{
    enum { COUNT = SPSH__COVER_CROWD + 10, CHOSEN = 77 };
    char opening[TEXT_BYTES / 2], own[TEXT_BYTES / 4], text[TEXT_BYTES], chosen[TEXT_BYTES];
    uint64_t random = seed + 4;
    const spsh__covered *covered = NULL;
    size_t count = 9;
    spsh__text_cover *cover = spsh__text_cover_new();
    REQUIRE(cover != NULL);
    make_words(&random, 30, opening);
    for (uint32_t i = 0; i < COUNT; i++) {
        make_words(&random, 13, own);
        (void)snprintf(text, sizeof(text), "%s own%u %s", opening, i, own);
        REQUIRE(spsh__text_cover_add(cover, i, spsh__bytes_of(text), NULL) == SPSH_OK);
        if (i == CHOSEN)
            memcpy(chosen, text, sizeof(chosen));
    }
    REQUIRE(spsh__text_cover_finish(cover, NULL) == SPSH_OK);
    spsh__cover_probe *probe = spsh__cover_probe_new(cover);
    REQUIRE(probe != NULL);
    REQUIRE(spsh__cover_probe_text(probe, spsh__bytes_of(opening), 0.5, &covered, &count, NULL) ==
            SPSH_OK);
    CHECK_U64(count, 0);
    CHECK(spsh__text_cover_share(cover, 0) > 0.5 && spsh__text_cover_share(cover, 0) < 1);
    REQUIRE(spsh__cover_probe_text(probe, spsh__bytes_of(chosen), 0.5, &covered, &count, NULL) ==
            SPSH_OK);
    REQUIRE(count == 1);
    CHECK(covered[0].number == CHOSEN && covered[0].test == 1 && covered[0].train == 1);
    CHECK(spsh__text_cover_share(cover, CHOSEN) == 1);
    spsh__cover_probe_free(probe);
    spsh__text_cover_free(cover);
}

/* ---- the index ---- */

enum { TRAIN = 20000, TESTS = 300, KEEP = 4, THREADS_MAX = 8 };

/* The same texts four times: unchanged, changed, and twice after other words. */
static void train_text(uint64_t ordinal, char *text)
{
    const uint64_t copy = ordinal / (TRAIN / 4);
    uint64_t random = seed * 1000 + ordinal % (TRAIN / 4);
    char words[TEXT_BYTES];
    char before[TEXT_BYTES / 2];
    make_words(&random, 3 + (unsigned)(ordinal % 25), words);
    make_words(&random, 12, before);
    if (copy == 1)
        spoil(&random, 30, words);
    (void)snprintf(text, TEXT_BYTES, "%s%s%.350s", copy < 2 ? "" : before, copy < 2 ? "" : " ",
                   words);
}

typedef struct crew {
    spsh__text_index *index;
    uint64_t first, step;
} crew;

static void *probe_some(void *user)
{
    const crew *c = user;
    char text[TEXT_BYTES];
    spsh__text_probe *probe = NULL;
    REQUIRE(spsh__text_probe_open(c->index, &probe, NULL) == SPSH_OK);
    for (uint64_t i = TRAIN - 1 - c->first; i < TRAIN; i -= c->step) {
        bool is_empty = false;
        train_text(i, text);
        REQUIRE(spsh__text_probe_text(probe, i, spsh__bytes_of(text), &is_empty, NULL) == SPSH_OK);
    }
    spsh__text_probe_free(probe);
    return NULL;
}

static spsh__text_index *run_index(unsigned threads)
{
    pthread_t ids[THREADS_MAX];
    crew crews[THREADS_MAX];
    char text[TEXT_BYTES];
    spsh__text_index *index = NULL;
    REQUIRE(spsh__text_index_open(SPSH_TEXT_PROFILE_DEFAULT, (spsh__hit_rule){KEEP, NULL},
                                  UINT64_C(1) << 30, &index, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < TESTS; i++) {
        uint32_t number = 0;
        train_text(i * 31, text);
        REQUIRE(spsh__text_index_add(index, spsh__bytes_of(text), &number, NULL) == SPSH_OK);
    }
    REQUIRE(spsh__text_index_finish(index, NULL) == SPSH_OK);
    for (unsigned t = 0; t < threads; t++) {
        crews[t] = (crew){index, t, threads};
        REQUIRE(pthread_create(&ids[t], NULL, probe_some, &crews[t]) == 0);
    }
    for (unsigned t = 0; t < threads; t++)
        REQUIRE(pthread_join(ids[t], NULL) == 0);
    return index;
}

static void test_threads_do_not_matter(void)
{
    uint64_t counts[SPSH__TEXT_TIERS] = {0};
    spsh__text_index *one = run_index(1);
    for (unsigned threads = 2; threads <= THREADS_MAX; threads *= 2) {
        spsh__text_index *many = run_index(threads);
        REQUIRE(spsh__text_index_count(one) == spsh__text_index_count(many));
        for (uint32_t i = 0; i < spsh__text_index_count(one); i++) {
            for (unsigned tier = 0; tier < SPSH__TEXT_TIERS; tier++) {
                const spsh__hit *a = NULL, *b = NULL;
                uint32_t a_kept = 0, b_kept = 0;
                const uint64_t count =
                    spsh__text_index_hits(one, (spsh__text_tier)tier, i, &a, &a_kept);
                CHECK_U64(spsh__text_index_hits(many, (spsh__text_tier)tier, i, &b, &b_kept),
                          count);
                REQUIRE(a_kept == b_kept && a_kept == (count < KEEP ? count : KEEP));
                CHECK(a_kept == 0 || memcmp(a, b, a_kept * sizeof(*a)) == 0);
                for (uint32_t k = 1; k < a_kept; k++)
                    CHECK(a[k].ordinal > a[k - 1].ordinal);
                counts[tier] += count;
            }
            CHECK(spsh__text_index_share(one, i) == spsh__text_index_share(many, i));
        }
        spsh__text_index_free(many);
    }
    for (unsigned tier = 0; tier < SPSH__TEXT_TIERS; tier++)
        CHECK(counts[tier] > 0);
    spsh__text_index_free(one);
}

/* One sentence a hundred thousand times on the train side, and as often on the test side. */
static void test_one_sentence_is_one_text(void)
{
    enum { TIMES = 100000 };
    const spsh_bytes text = spsh__bytes_of("The same sentence, read by very many people again.");
    spsh__text_index *index = NULL;
    spsh__text_probe *probe = NULL;
    const spsh__hit *hits = NULL;
    uint32_t number = 7, kept = 0;
    bool is_empty = true;
    REQUIRE(spsh__text_index_open(SPSH_TEXT_PROFILE_DEFAULT, (spsh__hit_rule){KEEP, NULL}, 1 << 20,
                                  &index, NULL) == SPSH_OK);
    for (unsigned i = 0; i < TIMES; i++) {
        REQUIRE(spsh__text_index_add(index, text, &number, NULL) == SPSH_OK);
        CHECK_U64(number, 0);
    }
    REQUIRE(spsh__text_index_finish(index, NULL) == SPSH_OK);
    CHECK_U64(spsh__text_index_count(index), 1);
    REQUIRE(spsh__text_probe_open(index, &probe, NULL) == SPSH_OK);
    for (unsigned i = 0; i < TIMES; i++)
        REQUIRE(spsh__text_probe_text(probe, TIMES - i, text, &is_empty, NULL) == SPSH_OK);
    CHECK(!is_empty);
    CHECK_U64(spsh__text_index_hits(index, SPSH__TEXT_EXACT, 0, &hits, &kept), TIMES);
    CHECK(kept == KEEP && hits[0].ordinal == 1 && hits[3].ordinal == 4);
    CHECK_U64(spsh__text_index_hits(index, SPSH__TEXT_NEAR, 0, &hits, &kept), 0);
    CHECK_U64(spsh__text_index_hits(index, SPSH__TEXT_COVERED, 0, &hits, &kept), 0);
    CHECK(spsh__text_index_share(index, 0) == 1);
    spsh__text_probe_free(probe);
    spsh__text_index_free(index);
}

/* A template yields more than a thousand near texts. Only some of them are compared, and this is
 * reported. */
static void test_crowds_are_told(void)
{
    char text[100];
    uint32_t number = 0;
    bool is_empty = false;
    spsh__text_index *index = NULL;
    spsh__text_probe *probe = NULL;
    REQUIRE(spsh__text_index_open(SPSH_TEXT_PROFILE_DEFAULT, (spsh__hit_rule){KEEP, NULL},
                                  UINT64_C(1) << 30, &index, NULL) == SPSH_OK);
    for (unsigned i = 0; i < 2 * SPSH__NEAR_CANDIDATES_MAX; i++) {
        (void)snprintf(text, sizeof(text),
                       "please call us back at the following number which is %u", 10000 + i);
        REQUIRE(spsh__text_index_add(index, spsh__bytes_of(text), &number, NULL) == SPSH_OK);
    }
    REQUIRE(spsh__text_index_finish(index, NULL) == SPSH_OK);
    REQUIRE(spsh__text_probe_open(index, &probe, NULL) == SPSH_OK);
    REQUIRE(spsh__text_probe_text(probe, 1, spsh__bytes_of(text), &is_empty, NULL) == SPSH_OK);
    CHECK_U64(spsh__text_probe_crowded(probe), 1);
    spsh__text_probe_free(probe);
    spsh__text_index_free(index);
}

/* The test side exceeds the memory limit: the error states the required size. */
static void test_memory_is_kept(void)
{
    char text[100];
    uint32_t number = 0;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    spsh__text_index *index = NULL;
    unsigned i = 0;
    REQUIRE(spsh__text_index_open(SPSH_TEXT_PROFILE_DEFAULT, (spsh__hit_rule){KEEP, NULL}, 1 << 20,
                                  &index, NULL) == SPSH_OK);
    for (; rc == SPSH_OK && i < 10000; i++) {
        (void)snprintf(text, sizeof(text), "a text that is number %u of many", i);
        rc = spsh__text_index_add(index, spsh__bytes_of(text), &number, &err);
    }
    CHECK(rc == SPSH_E_LIMIT && i > 100);
    CHECK(strstr(err.message, "memory") != NULL);
    spsh__text_index_free(index);
}

TEST_MAIN(prop_text)
{
    seed = test_seed(31);
    if (test_wants_races(argc, argv)) {
        RUN(test_threads_do_not_matter);
        return TEST_RESULT();
    }
    RUN(test_distances_are_those_of_the_full_table);
    RUN(test_minhash_estimates_jaccard);
    RUN(test_near_texts_against_all_pairs);
    RUN(test_runs_of_words_against_search);
    RUN(test_what_all_share_makes_no_pair);
    RUN(test_threads_do_not_matter);
    RUN(test_one_sentence_is_one_text);
    RUN(test_crowds_are_told);
    RUN(test_memory_is_kept);
    return TEST_RESULT();
}

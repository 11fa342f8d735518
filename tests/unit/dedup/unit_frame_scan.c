/* unit_frame_scan.c: clips are found in long prints at their positions, in any pieces and any
 * order. Words that occur everywhere do not count. Weak words belong to their frames. Frequent
 * words are counted exactly.
 */
#include <stdlib.h>

#include "fail_malloc.h"
#include "join/frame_scan.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 8000, LONG = 120 * RATE, CLIP = RATE, LONGS = 4, CLIPS = 12, WORDS_MAX = 20000 };

static int16_t signals[LONGS][LONG];
static spsh__print prints[LONGS];

typedef struct word_list {
    spsh__weak_word words[WORDS_MAX];
    size_t count;
} word_list;
static word_list clips[CLIPS];
static size_t clip_start[CLIPS]; /* in samples */

static spsh_status take_word(void *user, const spsh__weak_word *word, spsh_error *err)
{
    word_list *list = user;
    (void)err;
    REQUIRE(list->count < WORDS_MAX);
    list->words[list->count++] = *word;
    return SPSH_OK;
}

static void make_words(const int16_t *samples, size_t count, word_list *list)
{
    const spsh__print_sink sink = {.word_fn = take_word, .user = list};
    spsh__fingerprint *maker = NULL;
    list->count = 0;
    REQUIRE(spsh__fingerprint_new(RATE, sink, &maker, NULL) == SPSH_OK);
    REQUIRE(spsh__fingerprint_push(maker, samples, count, NULL) == SPSH_OK);
    REQUIRE(spsh__fingerprint_finish(maker, NULL) == SPSH_OK);
    spsh__fingerprint_free(maker);
}

/* Make long prints 0 to 3. Clip k is cut from print k % 4 at any sample, with a little noise. */
static void make_all(uint64_t seed)
{
    static int16_t clip[CLIP];
    uint64_t state = seed;
    for (size_t i = 0; i < LONGS; i++) {
        make_signal(SIGNAL_SPEECH, RATE, 100 + i, signals[i], LONG);
        REQUIRE(spsh__print_make(RATE, signals[i], LONG, &prints[i], NULL) == SPSH_OK);
    }
    for (size_t k = 0; k < CLIPS; k++) {
        clip_start[k] = (size_t)(test_random(&state) % (LONG - CLIP));
        for (size_t i = 0; i < CLIP; i++)
            clip[i] = (int16_t)(signals[k % LONGS][clip_start[k] + i] / 2 +
                                (int)(test_random(&state) % 64) - 32);
        make_words(clip, CLIP, &clips[k]);
    }
}

static void test_words(void)
{
    static word_list list;
    make_words(signals[0], LONG, &list);
    size_t at = 0;
    for (size_t i = 0; i < prints[0].frame_count; i++) {
        if (!prints[0].frames[i].is_active)
            continue;
        REQUIRE(at < list.count);
        CHECK_U64(list.words[at].frame, i);
        CHECK_U64(list.words[at].word, prints[0].frames[i].word);
        for (size_t w = 0; w < SPSH__WORD_WEAK; w++)
            for (size_t v = 0; v <= w; v++)
                CHECK(list.words[at].weak[w] < 32 &&
                      (v == w || list.words[at].weak[w] != list.words[at].weak[v]));
        at++;
    }
    CHECK_U64(at, list.count);
}

/* Add the clips, numbered from 1,000. */
static spsh__frame_scan *make_scan(bool is_reverse)
{
    spsh__frame_scan *scan = NULL;
    REQUIRE(spsh__frame_scan_open(&scan, NULL) == SPSH_OK);
    for (size_t i = 0; i < CLIPS; i++) {
        const size_t k = is_reverse ? CLIPS - 1 - i : i;
        REQUIRE(spsh__frame_scan_add(scan, 1000 + k, clips[k].words, clips[k].count, NULL) ==
                SPSH_OK);
    }
    REQUIRE(spsh__frame_scan_ready(scan, NULL, NULL) == SPSH_OK);
    return scan;
}

static bool is_in_place(const spsh__candidate *found, uint64_t first)
{
    const size_t k = (size_t)(found->b - 1000);
    const double want = -(double)clip_start[k] / SPSH__PRINT_HOP - (double)first;
    return (double)found->offset > want - 3 && (double)found->offset < want + 3;
}

/* The best candidate of each clip of the print has the right offset. A few more may be chance. */
static void check_found(const spsh__candidate *found, size_t count, size_t print)
{
    const spsh__candidate *best[CLIPS] = {NULL};
    for (size_t i = 0; i < count; i++) {
        const size_t k = (size_t)(found[i].b - 1000);
        CHECK_U64(found[i].a, print);
        REQUIRE(k < CLIPS);
        CHECK(found[i].votes >= 1);
        CHECK(i == 0 || found[i].b > found[i - 1].b ||
              (found[i].b == found[i - 1].b && found[i].offset > found[i - 1].offset));
        if (best[k] == NULL || found[i].votes > best[k]->votes)
            best[k] = &found[i];
    }
    CHECK(count <= 3 * CLIPS / LONGS);
    for (size_t k = print; k < CLIPS; k += LONGS)
        CHECK(best[k] != NULL && best[k]->votes > 10 && is_in_place(best[k], 0));
}

static void test_found(void)
{
    for (int is_reverse = 0; is_reverse < 2; is_reverse++) {
        spsh__frame_scan *scan = make_scan(is_reverse != 0);
        spsh__frame_finder *finder = NULL;
        REQUIRE(spsh__frame_finder_new(scan, &finder, NULL) == SPSH_OK);
        for (size_t i = 0; i < LONGS; i++) {
            const spsh__frame_stretch whole = {i, 0, prints[i].frames, prints[i].frame_count};
            const spsh__candidate *found = NULL;
            size_t count = 0;
            REQUIRE(spsh__frame_finder_run(finder, &whole, &found, &count, NULL) == SPSH_OK);
            check_found(found, count, i);
        }
        spsh__frame_finder_free(finder);
        spsh__frame_scan_free(scan);
    }
}

/* Overlapping stretches, also far into a recording, give the same result. */
static void test_stretches(void)
{
    enum { PIECE = 1000, FAR = 1 << 29 };
    spsh__frame_scan *scan = make_scan(false);
    spsh__frame_finder *finder = NULL;
    bool is_seen[CLIPS] = {false};
    REQUIRE(spsh__frame_finder_new(scan, &finder, NULL) == SPSH_OK);
    for (size_t first = 0; first < prints[1].frame_count; first += PIECE - SPSH__SCAN_OVERLAP) {
        const size_t left = prints[1].frame_count - first;
        const spsh__frame_stretch piece = {1, FAR + first, prints[1].frames + first,
                                           left < PIECE ? left : PIECE};
        const spsh__candidate *found = NULL;
        size_t count = 0;
        REQUIRE(spsh__frame_finder_run(finder, &piece, &found, &count, NULL) == SPSH_OK);
        for (size_t i = 0; i < count; i++) {
            const size_t k = (size_t)(found[i].b - 1000);
            REQUIRE(k < CLIPS);
            is_seen[k] |= found[i].votes > 10 && is_in_place(&found[i], FAR);
        }
    }
    for (size_t k = 1; k < CLIPS; k += LONGS)
        CHECK(is_seen[k]);
    spsh__frame_finder_free(finder);
    spsh__frame_scan_free(scan);
}

/* A thousand clips of one tone, and two minutes of the tone: results are bounded, and fast. */
static void test_tone(void)
{
    static int16_t tone[LONG];
    static word_list words;
    spsh__print print = {0};
    spsh__frame_scan *scan = NULL;
    spsh__frame_finder *finder = NULL;
    const spsh__candidate *found = NULL;
    size_t count = 0;

    make_signal(SIGNAL_TONE, RATE, 1, tone, LONG);
    REQUIRE(spsh__print_make(RATE, tone, LONG, &print, NULL) == SPSH_OK);
    make_words(tone, CLIP, &words);
    CHECK(words.count > 20);
    REQUIRE(spsh__frame_scan_open(&scan, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 1000; i++)
        REQUIRE(spsh__frame_scan_add(scan, i, words.words, words.count, NULL) == SPSH_OK);
    REQUIRE(spsh__frame_scan_ready(scan, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh__frame_finder_new(scan, &finder, NULL) == SPSH_OK);
    const spsh__frame_stretch whole = {5000, 0, print.frames, print.frame_count};
    CHECK_I64(spsh__frame_finder_run(finder, &whole, &found, &count, NULL), SPSH_OK);
    CHECK_U64(count, 0);
    spsh__frame_finder_free(finder);
    spsh__frame_scan_free(scan);
    spsh__print_free(&print);
}

/* Each set of positions, counted from 1, with a sum of at most 14 occurs once. */
static void test_ways(void)
{
    size_t at = 0;
    for (uint32_t set = 0; set < UINT32_C(1) << SPSH__WORD_WEAK; set++) {
        unsigned sum = 0;
        for (unsigned place = 0; place < SPSH__WORD_WEAK; place++)
            sum += (set >> place & 1) * (place + 1);
        if (sum > 14)
            continue;
        REQUIRE(at < SPSH__SCAN_WAYS);
        CHECK_U64(spsh__scan_ways[at++], set);
    }
    CHECK_U64(at, SPSH__SCAN_WAYS);
}

static int compare_mixed(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Count by sorting all entries. Each entry counts `times` times. */
static size_t list_frequent(const spsh__weak_word *words, size_t count, size_t times,
                            uint32_t *list)
{
    const size_t total = count * SPSH__SCAN_WAYS;
    uint32_t *entries = malloc(total * sizeof(*entries));
    size_t found = 0;
    REQUIRE(entries != NULL);
    for (size_t i = 0; i < total; i++) {
        const spsh__weak_word *word = &words[i / SPSH__SCAN_WAYS];
        entries[i] = spsh__mixed_way(word->word, word->weak, (unsigned)(i % SPSH__SCAN_WAYS));
    }
    qsort(entries, total, sizeof(*entries), compare_mixed);
    for (size_t i = 0, first = 0; i < total; i++) {
        if (i + 1 < total && entries[i + 1] == entries[i])
            continue;
        if ((i + 1 - first) * times > 512 &&
            (i + 1 - first) * times > total * times / SPSH__FREQUENT_SHARE)
            list[found++] = entries[i];
        first = i + 1;
    }
    free(entries);
    return found;
}

/* One word is just too frequent, and one is just not. Then all words are repeated 40 times. */
static void test_frequent(void)
{
    enum { FRAMES = 4000, NOT_QUITE = 512, TOO_OFTEN = 513 };
    static spsh__weak_word words[FRAMES];
    static uint32_t want[SPSH__FREQUENT_SHARE];
    uint64_t state = test_seed(2);
    for (size_t i = 0; i < FRAMES; i++) {
        words[i] = (spsh__weak_word){.frame = i, .word = (uint32_t)test_random(&state)};
        for (uint8_t w = 0; w < SPSH__WORD_WEAK; w++)
            words[i].weak[w] = (uint8_t)(2 * w + test_random(&state) % 2);
    }
    for (size_t i = 0; i < TOO_OFTEN; i++)
        words[3 * i] = words[0];
    for (size_t i = 0; i < NOT_QUITE; i++)
        words[3 * i + 1] = words[1];
    for (size_t times = 1; times <= 40; times += 39) {
        spsh__word_counts *counts = NULL;
        spsh__frequent_words got = {NULL, 0};
        const size_t count = list_frequent(words, FRAMES, times, want);
        REQUIRE(spsh__word_counts_new(&counts, NULL) == SPSH_OK);
        for (size_t i = 0; i < times; i++)
            spsh__word_counts_add(counts, words, FRAMES);
        REQUIRE(spsh__word_counts_narrow(counts, NULL) == SPSH_OK);
        for (size_t i = 0; i < times; i++)
            spsh__word_counts_add(counts, words, FRAMES);
        REQUIRE(spsh__word_counts_finish(counts, &got, NULL) == SPSH_OK);
        CHECK_U64(count, times == 1 ? SPSH__SCAN_WAYS : 2 * SPSH__SCAN_WAYS);
        CHECK_U64(got.count, count);
        for (size_t i = 0; i < got.count && i < count; i++)
            CHECK_U64(got.mixed[i], want[i]);
        CHECK(spsh__frequent_words_has(&got, spsh__mix_word(words[0].word)));
        CHECK(spsh__frequent_words_has(&got, spsh__mix_word(words[1].word)) == (times > 1));
        CHECK(!spsh__frequent_words_has(&got, spsh__mix_word(words[2].word)));
        free(got.mixed);
        spsh__word_counts_free(counts);
    }
}

/* Count words, and search the clips without frequent words, as for one part. */
static spsh_status find_in_part(spsh_error *err)
{
    const spsh__frame_stretch whole = {0, 0, prints[0].frames, prints[0].frame_count};
    spsh__word_counts *counts = NULL;
    spsh__frequent_words frequent = {NULL, 0};
    spsh__frame_scan *scan = NULL;
    spsh__frame_finder *finder = NULL;
    const spsh__candidate *found = NULL;
    size_t found_count = 0;
    spsh_status rc = spsh__word_counts_new(&counts, err);
    for (size_t k = 0; rc == SPSH_OK && k < CLIPS; k++)
        spsh__word_counts_add(counts, clips[k].words, clips[k].count);
    if (rc == SPSH_OK)
        rc = spsh__word_counts_narrow(counts, err);
    if (rc == SPSH_OK)
        rc = spsh__word_counts_finish(counts, &frequent, err);
    if (rc == SPSH_OK)
        rc = spsh__frame_scan_open(&scan, err);
    for (size_t k = 0; rc == SPSH_OK && k < CLIPS; k++)
        rc = spsh__frame_scan_add(scan, 1000 + k, clips[k].words, clips[k].count, err);
    if (rc == SPSH_OK)
        rc = spsh__frame_scan_ready(scan, &frequent, err);
    if (rc == SPSH_OK)
        rc = spsh__frame_finder_new(scan, &finder, err);
    if (rc == SPSH_OK)
        rc = spsh__frame_finder_run(finder, &whole, &found, &found_count, err);
    if (rc == SPSH_OK)
        check_found(found, found_count, 0);
    spsh__frame_finder_free(finder);
    spsh__frame_scan_free(scan);
    free(frequent.mixed);
    spsh__word_counts_free(counts);
    return rc;
}

static void test_no_memory(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t at = 0; rc != SPSH_OK; at++) {
        spsh_error err = SPSH_ERROR_INIT;
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        rc = find_in_part(&err);
        const bool was_reached = fail_malloc.calls > at;
        fail_malloc.at = UINT64_MAX;
        CHECK_I64(rc, was_reached ? SPSH_E_NO_MEMORY : SPSH_OK);
        REQUIRE(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        REQUIRE(at < 200);
    }
}

static void test_limits(void)
{
    spsh__frame_scan *scan = NULL;
    spsh__frame_finder *finder = NULL;
    const spsh__candidate *found = NULL;
    size_t count = 0;
    spsh__weak_word word = {
        .frame = SPSH__JOIN_FRAMES_MAX,
        .word = 1,
        .weak = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
    };
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__frame_scan_open(&scan, NULL) == SPSH_OK);
    CHECK_I64(spsh__frame_scan_add(scan, 0, &word, 1, &err), SPSH_E_LIMIT);
    CHECK_I64(spsh__frame_scan_add(scan, 0, NULL, 0, &err), SPSH_OK);
    word.frame--;
    for (uint64_t i = 0; i < 3; i++)
        CHECK_I64(spsh__frame_scan_add(scan, i, &word, 1, &err), SPSH_OK);
    CHECK_I64(spsh__frame_scan_add(scan, 3, &word, 1, &err), SPSH_E_LIMIT); /* 2^32 in all */
    REQUIRE(spsh__frame_scan_ready(scan, NULL, NULL) == SPSH_OK);
    REQUIRE(spsh__frame_finder_new(scan, &finder, NULL) == SPSH_OK);
    const spsh__print_frame frame = {1, 60, true};
    spsh__frame_stretch far = {9, SPSH__JOIN_FRAMES_MAX, &frame, 1};
    CHECK_I64(spsh__frame_finder_run(finder, &far, &found, &count, &err), SPSH_E_LIMIT);
    far.first--;
    CHECK_I64(spsh__frame_finder_run(finder, &far, &found, &count, &err), SPSH_OK);
    CHECK_U64(count, 0);
    far.count = 0;
    CHECK_I64(spsh__frame_finder_run(finder, &far, &found, &count, &err), SPSH_OK);
    spsh__frame_finder_free(finder);
    spsh__frame_scan_free(scan);
}

TEST_MAIN(unit_frame_scan)
{
    make_all(test_seed(1));
    RUN(test_words);
    RUN(test_found);
    RUN(test_stretches);
    RUN(test_tone);
    RUN(test_ways);
    RUN(test_frequent);
    RUN(test_no_memory);
    RUN(test_limits);
    for (size_t i = 0; i < LONGS; i++)
        spsh__print_free(&prints[i]);
    return TEST_RESULT();
}

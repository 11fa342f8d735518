/* unit_judge.c: verdicts on pairs whose audio is in a dataset: with any number of threads, for an
 * hour of audio, for one channel, at another speed; and pairs that are not copies.
 */
#include <math.h>

#include "copies/candidate_groups.h"
#include "copies/judge.h"
#include "copy_dataset.h"
#include "join/pair_offsets.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "set/scaled_keys.h"
#include "spsh_test.h"

enum { RATE = 8000, SECOND = RATE };
/* main() changes these values under sanitizers. */
static size_t long_count = 3600 * SECOND; /* samples */
static size_t first_way;                  /* first combination of threads and memory that is
                                             tried */
static size_t candidate_stride = 1;

typedef enum clip_number {
    VOICE,       /* 6 s */
    VOICE_LATER, /* the same from 0.3 s on, half as loud, inverted */
    LONG,        /* an hour with 5 s of the voice in it */
    NEWS_1,      /* a jingle of 2 s, and other speech */
    NEWS_2,
    MIXED, /* the voice with 2 s of other speech in its middle */
    STEREO,
    FASTER, /* the voice at 1.1 times the speed */
    SHORT,  /* 0.4 s of the voice */
    TONE_1,
    TONE_2,
    DTMF_1,
    DTMF_2,
    SILENCE_1,
    SILENCE_2,
    CLIP_COUNT
} clip_number;

static char root[400];
static char path[600];
static spsh__print_set *set;

/* Position of the voice, without its first half second, in LONG. */
static size_t long_place(void)
{
    return long_count / 2 + 417;
}

static int16_t *sound(signal_kind kind, uint64_t seed, size_t count)
{
    int16_t *samples = calloc(count + 1, sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(kind, RATE, seed, samples, count);
    return samples;
}

static copy_audio mono(const int16_t *pcm, size_t count)
{
    return (copy_audio){SPSH_CODEC_WAV, 16, RATE, 1, pcm, (uint32_t)count};
}

static int16_t *copy_of(const int16_t *pcm, size_t count)
{
    int16_t *copy = calloc(count + 1, sizeof(*copy));
    REQUIRE(copy != NULL);
    memcpy(copy, pcm, count * sizeof(*copy));
    return copy;
}

static int16_t *faster_of(const int16_t *pcm, size_t count, double speed, size_t *ret_count)
{
    *ret_count = (size_t)((double)(count - 2) / speed);
    int16_t *fast = calloc(*ret_count, sizeof(*fast));
    REQUIRE(fast != NULL);
    for (size_t n = 0; n < *ret_count; n++) {
        const double place = (double)n * speed;
        const size_t at = (size_t)place;
        const double part = place - floor(place);
        fast[n] = (int16_t)lrint(pcm[at] * (1 - part) + pcm[at + 1] * part);
    }
    return fast;
}

static void make(void)
{
    copy_audio clips[CLIP_COUNT];
    int16_t *voice = sound(SIGNAL_SPEECH, 1, 6 * SECOND);
    int16_t *later = copy_of(voice + 2400, 6 * SECOND - 2400);
    int16_t *hour = sound(SIGNAL_SPEECH, 2, long_count);
    int16_t *news[2] = {sound(SIGNAL_SPEECH, 3, 8 * SECOND), sound(SIGNAL_SPEECH, 4, 8 * SECOND)};
    int16_t *mixed = copy_of(voice, 6 * SECOND);
    int16_t *other = sound(SIGNAL_SPEECH, 5, 6 * SECOND);
    int16_t *stereo = calloc(12 * SECOND, sizeof(*stereo));
    size_t fast_count = 0;
    int16_t *fast = faster_of(voice, 6 * SECOND, 1.1, &fast_count);
    int16_t *still[6];
    REQUIRE(stereo != NULL);
    for (size_t n = 0; n < 6 * SECOND - 2400; n++)
        later[n] = (int16_t)(-later[n] / 2);
    memcpy(hour + long_place(), voice + SECOND / 2, 5 * SECOND * sizeof(*hour));
    memcpy(news[1] + SECOND, news[0] + 3 * SECOND, 2 * SECOND * sizeof(*hour));
    memcpy(mixed + 2 * SECOND, other, 2 * SECOND * sizeof(*mixed));
    for (size_t n = 0; n < 6 * SECOND; n++) {
        stereo[2 * n] = other[n];
        stereo[2 * n + 1] = voice[n];
    }
    for (size_t i = 0; i < 6; i++)
        still[i] = sound(i < 2   ? SIGNAL_TONE
                         : i < 4 ? SIGNAL_DTMF
                                 : SIGNAL_SILENCE,
                         i, (3 + i % 2) * SECOND);
    clips[VOICE] = mono(voice, 6 * SECOND);
    clips[VOICE_LATER] = mono(later, 6 * SECOND - 2400);
    clips[LONG] = mono(hour, long_count);
    clips[NEWS_1] = mono(news[0], 8 * SECOND);
    clips[NEWS_2] = mono(news[1], 8 * SECOND);
    clips[MIXED] = mono(mixed, 6 * SECOND);
    clips[STEREO] = (copy_audio){SPSH_CODEC_WAV, 16, RATE, 2, stereo, 6 * SECOND};
    clips[FASTER] = mono(fast, fast_count);
    clips[SHORT] = mono(voice + 2 * SECOND, SECOND * 2 / 5);
    for (size_t i = 0; i < 6; i++)
        clips[TONE_1 + i] = mono(still[i], (3 + i % 2) * SECOND);
    (void)snprintf(path, sizeof(path), "%s/clips", root);
    copy_dataset_make(path, 1, clips, CLIP_COUNT);
    make_segments(path);
    set = open_print_set(path);
    int16_t *const all[] = {voice,    later,    hour,     news[0],  news[1],
                            mixed,    other,    stereo,   fast,     still[0],
                            still[1], still[2], still[3], still[4], still[5]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* ---- matches ---- */

enum { MATCHES_MAX = 512 };

typedef struct match_array {
    spsh__match items[MATCHES_MAX];
    size_t count;
} match_array;

static spsh_status collect(void *user, const spsh__match *match, spsh_error *err)
{
    match_array *found = user;
    (void)err;
    REQUIRE(found->count < MATCHES_MAX);
    found->items[found->count++] = *match;
    return SPSH_OK;
}

static spsh__judge *open_judge(uint32_t threads, uint64_t memory_bytes, bool speed_grid)
{
    const spsh__judge_options opt = {
        .threads = threads, .memory_bytes = memory_bytes, .speed_grid = speed_grid};
    spsh__judge *judge = NULL;
    REQUIRE(spsh__judge_open(set, &opt, &judge, NULL) == SPSH_OK);
    return judge;
}

static match_array pair(uint64_t a, uint64_t b, bool speed_grid)
{
    match_array found = {.count = 0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh__judge *judge = open_judge(1, 0, speed_grid);
    spsh_status rc = spsh__judge_pair(judge, a, b, (spsh__match_sink){collect, &found}, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK_I64(rc, SPSH_OK);
    spsh__judge_close(judge);
    return found;
}

/* The class of the strongest match; NONE for none. */
static spsh_copy_class strongest(const match_array *found)
{
    spsh_copy_class kind = SPSH_COPY_NONE;
    for (size_t i = 0; i < found->count; i++)
        if (kind == SPSH_COPY_NONE || found->items[i].kind < kind)
            kind = found->items[i].kind;
    return kind;
}

static void check_kind(spsh_copy_class got, spsh_copy_class want)
{
    CHECK_STR(spsh_copy_class_text(got), spsh_copy_class_text(want));
}

static void test_same_recording(void)
{
    match_array found = pair(VOICE_LATER, VOICE, false);
    REQUIRE(found.count == 1);
    const spsh__match *match = &found.items[0];
    check_kind(match->kind, SPSH_COPY_SAME_RECORDING);
    CHECK_STR(spsh_copy_tier_text(match->tier), "acoustic");
    CHECK(match->a == VOICE && match->b == VOICE_LATER);
    CHECK(match->is_inverted && match->ncc < -0.99 && match->rate_hz == 8000);
    CHECK(fabs(match->lag + 2400) < 0.1 && match->votes > 4);
    CHECK(fabs(match->scale - 1) < 1e-9 && match->coverage_b > 0.9);
}

static void test_a_clip_in_an_hour(void)
{
    match_array found = pair(VOICE, LONG, false);
    REQUIRE(found.count >= 1);
    const spsh__match *match = &found.items[0];
    check_kind(match->kind, SPSH_COPY_CONTAINED);
    const int64_t place = (int64_t)long_place() - SECOND / 2;
    CHECK(fabs(match->lag - (double)place) < 0.8);
    CHECK(match->coverage_a > 0.75 && match->coverage_b < 0.01);
    CHECK(fabs((double)match->count / SECOND - 5) < 0.4);
}

/* A jingle glued to different speech. */
static void test_jingle(void)
{
    match_array found = pair(NEWS_1, NEWS_2, false);
    REQUIRE(found.count == 1);
    const spsh__match *match = &found.items[0];
    check_kind(match->kind, SPSH_COPY_SHARED_SEGMENT);
    CHECK(fabs(match->lag + 2 * SECOND) < 0.8);
    CHECK(fabs((double)match->a_first / SECOND - 3) < 0.2);
    CHECK(fabs((double)match->count / SECOND - 2) < 0.35);
}

/* Two matching runs at one offset, with other sound between them. */
static void test_two_runs(void)
{
    match_array found = pair(VOICE, MIXED, false);
    REQUIRE(found.count == 2);
    for (size_t i = 0; i < 2; i++) {
        check_kind(found.items[i].kind, SPSH_COPY_SHARED_SEGMENT);
        CHECK(fabs(found.items[i].lag) < 0.1);
    }
    const spsh__match *first =
        &found.items[found.items[0].a_first < found.items[1].a_first ? 0 : 1];
    const spsh__match *second = &found.items[first == &found.items[0] ? 1 : 0];
    CHECK(first->a_first < SECOND / 5 && first->a_first + first->count < SECOND * 23 / 10);
    CHECK(second->a_first > SECOND * 37 / 10);
}

static void test_one_channel(void)
{
    match_array found = pair(VOICE, STEREO, false);
    REQUIRE(found.count >= 1);
    size_t right = 0;
    for (size_t i = 0; i < found.count; i++) {
        const spsh__match *match = &found.items[i];
        CHECK_U64(match->a_channel, 0);
        CHECK(match->b_channel != 1 || match->kind == SPSH_COPY_REREAD);
        right +=
            match->b_channel == 2 && match->kind == SPSH_COPY_SAME_RECORDING && match->ncc > 0.999;
    }
    CHECK_U64(right, 1);
}

static void test_what_is_no_copy(void)
{
    static const clip_number still[] = {TONE_1,    TONE_2,    DTMF_1, DTMF_2,
                                        SILENCE_1, SILENCE_2, SHORT};
    for (size_t i = 0; i < sizeof(still) / sizeof(still[0]); i++) {
        for (uint64_t other = 0; other < CLIP_COUNT; other++) {
            if (other == still[i] || other == LONG)
                continue;
            const match_array found = pair(still[i], other, false);
            check_kind(strongest(&found), SPSH_COPY_NONE);
        }
    }
    const match_array found = pair(NEWS_1, VOICE, false);
    const spsh_copy_class kind = strongest(&found);
    CHECK(kind == SPSH_COPY_NONE || kind == SPSH_COPY_REREAD);
    CHECK_U64(pair(VOICE, VOICE, false).count, 0);
}

static void test_other_speed(void)
{
    match_array found = pair(VOICE, FASTER, false);
    CHECK(strongest(&found) == SPSH_COPY_NONE || strongest(&found) >= SPSH_COPY_PROBABLE_COPY);
    found = pair(VOICE, FASTER, true);
    check_kind(strongest(&found), SPSH_COPY_TIME_SCALED);
    REQUIRE(found.count == 1);
    CHECK_STR(spsh_copy_tier_text(found.items[0].tier), "acoustic_scaled");
    CHECK(!spsh__tier_may_drop(found.items[0].tier));
    CHECK(fabs(found.items[0].scale - 1.1) < 0.0005);
    CHECK(fabs(found.items[0].ncc) > 0.95 && found.items[0].coverage_a > 0.9);
    CHECK((double)found.items[0].count > 5.5 * SECOND && found.items[0].a_first < SECOND / 10);
}

/* ---- many candidates ---- */

enum { CANDIDATES_MAX = 4096 };
static spsh__candidate candidates[CANDIDATES_MAX];
static size_t candidate_count;

static spsh__print_key *keys_of(uint64_t number, size_t *ret_count)
{
    spsh__set_print print;
    REQUIRE(spsh__print_set_print(set, number, &print, NULL) == SPSH_OK);
    spsh__print_key *keys = calloc((size_t)print.key_count + 1, sizeof(*keys));
    REQUIRE(keys != NULL);
    REQUIRE(spsh__segment_keys(print.segment, print.first_key, print.key_count, keys, NULL) ==
            SPSH_OK);
    *ret_count = (size_t)print.key_count;
    return keys;
}

static void add_candidate(uint64_t a, uint64_t b, int64_t offset, uint32_t votes)
{
    REQUIRE(candidate_count < CANDIDATES_MAX);
    candidates[candidate_count++] = (spsh__candidate){a, b, offset, votes};
}

/* Add candidates at positions where keys agree, up to a frame from them, and at random positions.
 * Also add pairs with a print that is played at 1.1 times its speed. */
static void make_candidates(void)
{
    const uint64_t prints = spsh__print_set_print_count(set);
    uint64_t random = test_seed(9);
    for (uint64_t a = 0; a < prints; a++) {
        for (uint64_t b = a + 1; b < prints; b++) {
            spsh__pair_offset offsets[SPSH__PAIR_OFFSETS_MAX];
            size_t counts[2];
            size_t count = 0;
            spsh__print_key *keys[2] = {keys_of(a, &counts[0]), keys_of(b, &counts[1])};
            REQUIRE(spsh__pair_offsets_find(keys[0], counts[0], keys[1], counts[1], offsets, &count,
                                            NULL) == SPSH_OK);
            for (size_t i = 0; i < count; i++)
                add_candidate(a, b, offsets[i].offset + (int64_t)(test_random(&random) % 3) - 1,
                              offsets[i].votes);
            add_candidate(a, b, (int64_t)(test_random(&random) % 500) - 250, 1);
            free(keys[0]);
            free(keys[1]);
        }
    }
    add_candidate(0, spsh__scaled_number(prints, 0, 1), 0, 1);
    for (uint64_t b = 0; b < 5; b++)
        add_candidate(b, spsh__scaled_number(prints, FASTER, 7), 0, 1);
}

static spsh__judge_facts run_all(uint32_t threads, uint64_t memory_bytes, match_array *found)
{
    spsh__judge_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__judge *judge = open_judge(threads, memory_bytes, false);
    found->count = 0;
    spsh_status rc = spsh__judge_run(judge, candidates, candidate_count,
                                     (spsh__match_sink){collect, found}, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    spsh__judge_facts_get(judge, &facts);
    spsh__judge_close(judge);
    return facts;
}

static bool are_equal(const match_array *x, const match_array *y)
{
    if (x->count != y->count)
        return false;
    for (size_t i = 0; i < x->count; i++) {
        uint8_t bytes[2][SPSH__MATCH_BYTES];
        spsh__match_encode(&x->items[i], bytes[0]);
        spsh__match_encode(&y->items[i], bytes[1]);
        if (memcmp(bytes[0], bytes[1], sizeof(bytes[0])) != 0)
            return false;
    }
    return true;
}

static void test_any_number_of_threads(void)
{
    static match_array want;
    static match_array got;
    static const uint32_t threads[] = {2, 8, 3};
    static const uint64_t memories[] = {0, 1, UINT64_C(3) << 20};
    const spsh__judge_facts facts = run_all(1, 0, &want);
    CHECK(want.count >= 6 / candidate_stride);
    CHECK(facts.judged_count > 50 / candidate_stride && facts.judged_count < candidate_count);
    CHECK(facts.decoded_count > 5 / candidate_stride && facts.decoded_count < facts.judged_count);
    CHECK(facts.frame_pairs > 100000 / candidate_stride);
    uint64_t classes = 0;
    for (size_t i = 0; i < SPSH_COPY_CLASS_COUNT; i++)
        classes += facts.by_class[i];
    CHECK_U64(classes, want.count);
    for (size_t i = first_way; i < 3; i++) {
        const spsh__judge_facts again = run_all(threads[i], memories[i], &got);
        CHECK(are_equal(&want, &got));
        CHECK(memcmp(&facts, &again, sizeof(facts)) == 0);
    }
    /* A match is reported once per pair, even if several candidates lead to it. */
    for (size_t i = 0; i < want.count; i++) {
        const spsh__match *match = &want.items[i];
        CHECK(match->a < match->b);
        for (size_t k = i + 1; k < want.count; k++)
            CHECK(match->a != want.items[k].a || match->b != want.items[k].b ||
                  match->a_channel != want.items[k].a_channel ||
                  match->b_channel != want.items[k].b_channel ||
                  match->a_first != want.items[k].a_first ||
                  match->b_first != want.items[k].b_first);
    }
}

static void test_wrong_number(void)
{
    match_array found = {.count = 0};
    spsh_error err = SPSH_ERROR_INIT;
    const uint64_t prints = spsh__print_set_print_count(set);
    const spsh__candidate wrong = {0, prints * SPSH__SCALE_COUNT, 0, 1};
    spsh__judge *judge = open_judge(2, 0, false);
    CHECK_I64(spsh__judge_run(judge, &wrong, 1, (spsh__match_sink){collect, &found}, &err),
              SPSH_E_INVALID_ARG);
    CHECK(found.count == 0 && err.message[0] != '\0');
    spsh__judge_close(judge);
}

static spsh_status refuse(void *user, const spsh__match *match, spsh_error *err)
{
    (void)user, (void)match, (void)err;
    return SPSH_E_CANCELED;
}

static void test_sink_that_stops(void)
{
    spsh__judge *judge = open_judge(2, 0, false);
    CHECK_I64(
        spsh__judge_run(judge, candidates, candidate_count, (spsh__match_sink){refuse, NULL}, NULL),
        SPSH_E_CANCELED);
    spsh__judge_close(judge);
}

/* Must be the last test: it damages the shard, whose segments were made before. */
static void test_damaged_audio_is_named(void)
{
    char shard[700];
    char name[32];
    uint8_t noise[4096];
    static match_array found;
    spsh_shard_file_name(0, 0, name);
    (void)snprintf(shard, sizeof(shard), "%s/shards/%s", path, name);
    REQUIRE(chmod(shard, 0600) == 0);
    FILE *file = fopen(shard, "r+b");
    REQUIRE(file != NULL);
    memset(noise, 0x5a, sizeof(noise));
    /* The voice is the first record. */
    REQUIRE(fseek(file, 65536, SEEK_SET) == 0 && fwrite(noise, sizeof(noise), 1, file) == 1);
    REQUIRE(fclose(file) == 0);
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        spsh_error err = SPSH_ERROR_INIT;
        spsh__judge *judge = open_judge(threads, 0, false);
        found.count = 0;
        spsh_status rc = spsh__judge_run(judge, candidates, candidate_count,
                                         (spsh__match_sink){collect, &found}, &err);
        CHECK_I64(rc, SPSH_E_CORRUPT);
        CHECK(strstr(err.message, "\"u0\"") != NULL);
        CHECK_U64(found.count, 0);
        spsh__judge_close(judge);
    }
}

/* A turned match has the stretch of b, so its count is divided by the scale. */
static void test_turned(void)
{
    const spsh__match match = {.a = 3,
                               .b = 5,
                               .rate_hz = 8000,
                               .a_first = 100,
                               .b_first = 200,
                               .count = 11000,
                               .lag = 12.5,
                               .coverage_a = 0.9,
                               .coverage_b = 0.4,
                               .b_channel = 2,
                               .slope_ppm = 40,
                               .scale = 1.1};
    const spsh__match turned = spsh__match_turned(&match);
    CHECK(turned.a == 5 && turned.b == 3);
    CHECK(turned.a_first == 200 && turned.b_first == 100 && turned.count == 10000);
    CHECK(turned.coverage_a == 0.4 && turned.coverage_b == 0.9);
    CHECK(turned.a_channel == 2 && turned.b_channel == 0);
    CHECK(turned.lag == -12.5 && turned.slope_ppm == -40);
    const spsh__match again = spsh__match_turned(&turned);
    CHECK(again.a == 3 && again.a_first == 100 && again.count == 11000);
    CHECK(again.scale > 1.0999 && again.scale < 1.1001);
    const spsh__match text = {.a = 3, .b = 5};
    CHECK(spsh__match_turned(&text).scale == 0 && spsh__match_turned(&text).a == 5);
}

/* Texts do not decide the class; a reread may precede a contained part, by its tier. */
static void test_the_strongest_match(void)
{
    const spsh__match matches[] = {
        {.tier = SPSH_TIER_ACOUSTIC, .kind = SPSH_COPY_REREAD     },
        {.tier = SPSH_TIER_SCALED,   .kind = SPSH_COPY_TIME_SCALED},
        {.tier = SPSH_TIER_SCALED,   .kind = SPSH_COPY_TIME_SCALED, .count = 5},
        {.tier = SPSH_TIER_TEXT_EXACT,                          .kind = SPSH_COPY_NONE                           },
        {.tier = SPSH_TIER_SPEAKER,                          .kind = SPSH_COPY_NONE   },
    };
    CHECK(spsh__match_strongest(matches, 5) == &matches[1]);
    CHECK(spsh__match_strongest(matches, 1) == &matches[0]);
    CHECK(spsh__match_strongest(matches + 3, 2) == &matches[3]);
}

/* Connected candidates become adjacent and keep their order, also if a later candidate connects two
 * earlier groups. */
static void test_groups_are_adjacent(void)
{
    static const uint64_t pairs[][2] = {
        {1, 9 },
        {2, 20},
        {3, 30},
        {4, 9 },
        {5, 30},
        {6, 60},
        {9, 30},
        {9, 30}
    };
    static const uint64_t want[][2] = {
        {1, 9 },
        {3, 30},
        {4, 9 },
        {5, 30},
        {9, 30},
        {9, 30},
        {2, 20},
        {6, 60}
    };
    enum { COUNT = sizeof(pairs) / sizeof(pairs[0]) };
    spsh__candidate list[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        list[i] = (spsh__candidate){pairs[i][0], pairs[i][1], (int64_t)i, 1};
    CHECK(spsh__candidate_groups_sort(list, 0, NULL) == SPSH_OK);
    CHECK(spsh__candidate_groups_sort(list, COUNT, NULL) == SPSH_OK);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(list[i].a == want[i][0] && list[i].b == want[i][1]);
    CHECK(list[4].offset == 6 && list[5].offset == 7);
}

TEST_MAIN(unit_judge)
{
    if (test_wants_fewer(argc, argv)) {
        long_count /= 6;
        first_way = 1;
    }
    if (test_wants_races(argc, argv)) {
        long_count /= 3;
        candidate_stride = 3;
    }
    test_temp_dir(root, sizeof(root));
    make();
    if (!test_wants_races(argc, argv)) { /* a judge of one candidate has one thread */
        RUN(test_same_recording);
        RUN(test_a_clip_in_an_hour);
        RUN(test_jingle);
        RUN(test_two_runs);
        RUN(test_one_channel);
        RUN(test_what_is_no_copy);
        RUN(test_other_speed);
    }
    make_candidates();
    candidate_count = (candidate_count + candidate_stride - 1) / candidate_stride;
    for (size_t i = 0; i < candidate_count; i++)
        candidates[i] = candidates[i * candidate_stride];
    RUN(test_any_number_of_threads);
    RUN(test_wrong_number);
    RUN(test_sink_that_stops);
    RUN(test_damaged_audio_is_named);
    RUN(test_turned);
    spsh__print_set_close(set);
    test_remove_tree(root);
    RUN(test_the_strongest_match);
    RUN(test_groups_are_adjacent);
    return TEST_RESULT();
}

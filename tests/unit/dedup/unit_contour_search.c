/* unit_contour_search.c: copies of clips that are too short for stored keys, through noise, on any
 * number of threads. Keys of contours: order, weak bits, and no keys for silence.
 */
#include "copies/search_choice.h"
#include "copy_dataset.h"
#include "join/contour_search.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 16000, CLIP = RATE * 7 / 10, CLIPS = 12, FOUND_MAX = 256 };
#define ENOUGH (UINT64_C(64) << 20)

static char directory[512];
static char path[600];

typedef struct result {
    spsh__candidate found[FOUND_MAX];
    size_t count;
} result;

/* Utterances 0 to 11 are different. Utterance 12 + i is utterance i at half the level, with noise.
 */
static void make_dataset(uint64_t seed)
{
    static int16_t clips[CLIPS][CLIP];
    static int16_t copy[CLIP];
    uint64_t state = seed;
    copy_dataset *set = copy_dataset_open(path, 1);
    for (size_t i = 0; i < (size_t)2 * CLIPS; i++) {
        int16_t *clip = clips[i % CLIPS];
        if (i < CLIPS)
            make_signal(SIGNAL_SPEECH, RATE, 500 + i, clip, CLIP);
        for (size_t k = 0; k < CLIP; k++)
            copy[k] = (int16_t)(clip[k] / 2 + (int)(test_random(&state) % 512) - 256);
        const copy_audio audio = {.codec = SPSH_CODEC_FLAC,
                                  .bits = 16,
                                  .rate_hz = RATE,
                                  .channels = 1,
                                  .pcm = i < CLIPS ? clip : copy,
                                  .samples = CLIP};
        copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, CLIP, "train");
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
}

/* user: an utterance to exclude. */
static spsh_status takes_part(const void *user, uint64_t ordinal, bool *ret_takes_part,
                              spsh_error *err)
{
    const uint64_t *left_out = user;
    (void)err;
    *ret_takes_part = ordinal != *left_out;
    return SPSH_OK;
}

static spsh_status start(const spsh__print_set *set, uint64_t left_out, uint32_t threads,
                         spsh__call_watch *watch, spsh__key_join **ret_join)
{
    const spsh__key_join_options join_options = {.mode = SPSH__JOIN_DEEP,
                                                 .temporary_path = directory,
                                                 .memory_bytes = ENOUGH,
                                                 .threads = threads};
    const spsh__contour_search options = {.set = set,
                                          .io = spsh_io_default(),
                                          .temporary_path = directory,
                                          .memory_bytes = ENOUGH,
                                          .threads = threads,
                                          .weak = SPSH__CONTOUR_WEAK,
                                          .takes_part_fn = takes_part,
                                          .user = &left_out,
                                          .watch = watch};
    REQUIRE(spsh__key_join_open(&join_options, ret_join, NULL) == SPSH_OK);
    return spsh__contour_search_run(&options, *ret_join, NULL);
}

static result search(const spsh__print_set *set, uint64_t left_out, uint32_t threads)
{
    result found = {.count = 0};
    spsh__key_join *join = NULL;
    spsh_status rc = start(set, left_out, threads, NULL, &join);
    while (rc == SPSH_OK) {
        REQUIRE(found.count < FOUND_MAX);
        rc = spsh__key_join_next(join, &found.found[found.count], NULL);
        found.count += rc == SPSH_OK;
    }
    CHECK(rc == SPSH_E_END);
    spsh__key_join_free(join);
    return found;
}

static bool has_pair(const result *found, uint64_t a, uint64_t b)
{
    for (size_t i = 0; i < found->count; i++) {
        const spsh__candidate *one = &found->found[i];
        if (one->a == a && one->b == b && one->offset >= -2 && one->offset <= 2)
            return true;
    }
    return false;
}

static void test_finds_copies(void)
{
    spsh__print_set *set = open_print_set(path);
    const result found = search(set, SPSH_NONE_U64, 1);
    const result threads = search(set, SPSH_NONE_U64, 3);
    const result fewer = search(set, 4, 2);
    for (uint64_t i = 0; i < CLIPS; i++) {
        spsh__set_print print;
        REQUIRE(spsh__print_set_print(set, i, &print, NULL) == SPSH_OK);
        CHECK_U64(print.key_count, 0); /* too short: no stored key could propose the pair */
        CHECK(has_pair(&found, i, i + CLIPS));
        CHECK(has_pair(&fewer, i, i + CLIPS) == (i != 4));
    }
    CHECK_U64(found.count, CLIPS); /* pairs of different clips do not pass the comparison of bits */
    REQUIRE(threads.count == found.count);
    CHECK(memcmp(threads.found, found.found, found.count * sizeof(found.found[0])) == 0);
    spsh__print_set_close(set);
}

static int stop_at(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return strcmp(stage, (const char *)user) == 0;
}

static void test_cancel(void)
{
    static char stages[][16] = {"contours", "contour pairs"};
    spsh__print_set *set = open_print_set(path);
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        spsh__call_watch watch = {.progress_fn = stop_at, .user = stages[i]};
        spsh__key_join *join = NULL;
        CHECK_I64(start(set, SPSH_NONE_U64, 1, &watch, &join), SPSH_E_CANCELED);
        spsh__key_join_free(join);
    }
    spsh__print_set_close(set);
}

static void test_keys(void)
{
    spsh__print_set *set = open_print_set(path);
    static spsh__print_frame frames[SPSH__CONTOUR_FRAMES_MAX];
    spsh__contour_key keys[SPSH__CONTOUR_KEYS_MAX];
    spsh__set_print print;
    REQUIRE(spsh__print_set_print(set, 0, &print, NULL) == SPSH_OK);
    REQUIRE(spsh__segment_frames(print.segment, print.first_frame, print.frame_count, frames,
                                 NULL) == SPSH_OK);
    const size_t count = spsh__contour_keys_make(frames, (size_t)print.frame_count, keys);
    CHECK(count > 0);
    for (size_t i = 0; i < count; i++) {
        uint64_t weak = 0;
        CHECK(i == 0 || keys[i].frame > keys[i - 1].frame);
        CHECK(keys[i].bits >> SPSH__CONTOUR_BITS == 0);
        for (size_t k = 0; k < SPSH__CONTOUR_WEAK; k++) {
            REQUIRE(keys[i].weak[k] < SPSH__CONTOUR_BITS);
            weak |= UINT64_C(1) << keys[i].weak[k];
        }
        CHECK_U64((uint64_t)__builtin_popcountll(weak), SPSH__CONTOUR_WEAK);
    }
    CHECK_U64(spsh__contour_keys_make(frames, 16, keys), 0); /* too short to be judged */
    memset(frames, 0, sizeof(frames));
    CHECK_U64(spsh__contour_keys_make(frames, 100, keys), 0);
    for (size_t i = 0; i < SPSH__CONTOUR_FRAMES_MAX; i++) /* a maximum every 16 frames */
        frames[i] = (spsh__print_frame){(uint32_t)i, (uint8_t)(60 + 20 * (i / 8 % 2)), true};
    CHECK_U64(spsh__contour_keys_make(frames, SPSH__CONTOUR_FRAMES_MAX, keys),
              SPSH__CONTOUR_KEYS_MAX);
    spsh__print_set_close(set);
}

static void test_choice(void)
{
    const uint64_t few = 1000;
    const uint64_t many = UINT64_C(1) << 40;
    spsh__search_choice choice = spsh__search_choice_of(SPSH_SEARCH_AUTO, few, few, 0);
    CHECK(choice.mode == SPSH__JOIN_MILD && choice.contour_weak == SPSH__CONTOUR_WEAK);
    CHECK(!choice.is_limited); /* no telephone material */
    choice = spsh__search_choice_of(SPSH_SEARCH_AUTO, few, few, 1);
    CHECK(choice.mode == SPSH__JOIN_DEEP && !choice.is_limited);
    choice = spsh__search_choice_of(SPSH_SEARCH_AUTO, many, many, 1);
    CHECK(choice.mode == SPSH__JOIN_MILD && choice.contour_weak == 0 && choice.is_limited);
    choice = spsh__search_choice_of(SPSH_SEARCH_MILD, few, few, 1);
    CHECK(choice.contour_weak == 0 && choice.is_limited);
    choice = spsh__search_choice_of(SPSH_SEARCH_DEEP, many, many, 1);
    CHECK(choice.contour_weak == SPSH__CONTOUR_WEAK && !choice.is_limited);
}

static void test_large_sets(void)
{
    CHECK_U64(spsh__contour_weak_for(1), SPSH__CONTOUR_WEAK);
    CHECK_U64(spsh__contour_weak_for(100000), SPSH__CONTOUR_WEAK - 1);
    CHECK_U64(spsh__contour_weak_for(UINT64_C(1) << 32), 0);
    /* (7e4)^2 / 2 / 2^11 hits of 16 bytes; with two weak bits fewer, a sixteenth, which fits */
    CHECK_U64(spsh__contour_search_space(10000, SPSH__CONTOUR_WEAK, ENOUGH), 19140624);
    CHECK_U64(spsh__contour_search_space(10000, SPSH__CONTOUR_WEAK - 2, ENOUGH), 0);
    CHECK_U64(spsh__contour_search_space(10000, 0, ENOUGH), 0);
}

TEST_MAIN(unit_contour_search)
{
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(path, sizeof(path), "%s/set", directory);
    make_dataset(test_seed(1));
    RUN(test_finds_copies);
    RUN(test_cancel);
    RUN(test_keys);
    RUN(test_large_sets);
    RUN(test_choice);
    test_remove_tree(directory);
    return TEST_RESULT();
}

/* unit_frame_search.c: clips of a test split in a train split, on any number of threads, in one
 * part or many. Words that are too frequent in test are ignored, for any number of parts.
 */
#include "copy_dataset.h"
#include "join/frame_scan.h"
#include "join/frame_search.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 16000, LONG = 15 * RATE, CLIP = RATE, LONGS = 4, CLIPS = 6, FOUND_MAX = 4096 };
enum { TONE = 4 * RATE, TONES = 4 };
#define ENOUGH (UINT64_C(64) << 20)

static char directory[512];
static char path[600];
static char tone_path[600]; /* dataset with tones in both splits */
static int16_t signals[LONGS][LONG];
static size_t clip_start[CLIPS];

typedef struct result {
    spsh__candidate found[FOUND_MAX];
    size_t count;
} result;

static void add(copy_dataset *set, const int16_t *pcm, uint32_t samples, const char *split)
{
    const copy_audio audio = {.codec = SPSH_CODEC_FLAC,
                              .bits = 16,
                              .rate_hz = RATE,
                              .channels = 1,
                              .pcm = pcm,
                              .samples = samples};
    copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, samples, split);
}

static void close_dataset(copy_dataset *set, const char *where)
{
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(where);
}

/* Utterances 0 to 3 are train. Clip k of test is cut from k % 4, with a little noise. The second
 * dataset also has a tone in train, and several tones in test. */
static void make_datasets(uint64_t seed)
{
    static int16_t clip[CLIP];
    static int16_t tone[LONG];
    uint64_t state = seed;
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_dataset *tones = copy_dataset_open(tone_path, 2);
    for (size_t i = 0; i < LONGS; i++) {
        make_signal(SIGNAL_SPEECH, RATE, 300 + i, signals[i], LONG);
        add(set, signals[i], LONG, "train");
        add(tones, signals[i], LONG, "train");
    }
    for (size_t k = 0; k < CLIPS; k++) {
        clip_start[k] = (size_t)(test_random(&state) % (LONG - CLIP));
        for (size_t i = 0; i < CLIP; i++)
            clip[i] = (int16_t)(signals[k % LONGS][clip_start[k] + i] / 2 +
                                (int)(test_random(&state) % 64) - 32);
        add(set, clip, CLIP, "test");
        add(tones, clip, CLIP, "test");
    }
    make_signal(SIGNAL_TONE, RATE, 1, tone, LONG);
    add(tones, tone, LONG, "train");
    for (size_t k = 0; k < TONES; k++)
        add(tones, tone, TONE, "test");
    close_dataset(set, path);
    close_dataset(tones, tone_path);
}

static spsh__print_set *open_set(const char *where)
{
    const spsh_dedup_source sources[] = {
        {where, "train", SPSH_SIDE_TRAIN},
        {where, "test",  SPSH_SIDE_TEST }
    };
    spsh__print_set *set = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__print_set_open(sources, 2, NULL, &set, &err) == SPSH_OK);
    return set;
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

static spsh_status search(const spsh__frame_search *options, result *ret, spsh_error *err)
{
    const spsh__key_join_options join_options = {.mode = SPSH__JOIN_AUDIT,
                                                 .temporary_path = directory,
                                                 .memory_bytes = ENOUGH,
                                                 .threads = options->threads};
    spsh__key_join *join = NULL;
    REQUIRE(spsh__key_join_open(&join_options, &join, err) == SPSH_OK);
    spsh_status rc = spsh__frame_search_run(options, join, err);
    ret->count = 0;
    while (rc == SPSH_OK) {
        REQUIRE(ret->count < FOUND_MAX);
        rc = spsh__key_join_next(join, &ret->found[ret->count], err);
        ret->count += rc == SPSH_OK;
    }
    spsh__key_join_free(join);
    return rc;
}

static void test_found(void)
{
    static const uint64_t memories[] = {ENOUGH, 90000}; /* the second gives one part per clip */
    spsh__print_set *set = open_set(path);
    spsh_error err = SPSH_ERROR_INIT;
    const uint64_t none = UINT64_MAX;
    for (size_t m = 0; m < 2; m++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            const spsh__frame_search options = {.set = set,
                                                .memory_bytes = memories[m],
                                                .threads = threads,
                                                .takes_part_fn = takes_part,
                                                .user = &none};
            static result got;
            CHECK_I64(search(&options, &got, &err), SPSH_E_END);
            CHECK_U64(got.count, CLIPS);
            for (size_t i = 0; i < got.count; i++) {
                /* Each utterance has one print, so their numbers are equal. */
                const size_t k = (size_t)(got.found[i].b - LONGS);
                REQUIRE(k < CLIPS);
                const double want = -(double)clip_start[k] * 8000 / RATE / SPSH__PRINT_HOP;
                CHECK_U64(got.found[i].a, k % LONGS);
                CHECK((double)got.found[i].offset > want - 3 &&
                      (double)got.found[i].offset < want + 3);
                CHECK(got.found[i].votes > 3);
            }
        }
    }
    CHECK(spsh__frame_scan_bytes(2 * 47) > memories[1]); /* else there was only one part */
    spsh__print_set_close(set);
}

/* The tones are too frequent in the whole of test, but not in each part. */
static void test_frequent(void)
{
    static const uint64_t memories[] = {ENOUGH, 500000, 334000};
    static result whole;
    static result got;
    spsh__print_set *set = open_set(tone_path);
    spsh_error err = SPSH_ERROR_INIT;
    const uint64_t none = UINT64_MAX;
    spsh__set_print tone;
    REQUIRE(spsh__print_set_print(set, LONGS + CLIPS + 1, &tone, &err) == SPSH_OK);
    CHECK(spsh__frame_scan_bytes(tone.frame_count) <= memories[2]);
    CHECK(spsh__frame_scan_bytes(2 * tone.frame_count) > memories[1]); /* one part per tone */
    for (size_t m = 0; m < 3; m++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            const spsh__frame_search options = {.set = set,
                                                .memory_bytes = memories[m],
                                                .threads = threads,
                                                .takes_part_fn = takes_part,
                                                .user = &none};
            const bool is_first = m == 0 && threads == 1;
            CHECK_I64(search(&options, is_first ? &whole : &got, &err), SPSH_E_END);
            if (is_first)
                continue;
            CHECK_U64(got.count, whole.count);
            for (size_t i = 0; i < got.count && i < whole.count; i++) {
                CHECK_U64(got.found[i].a, whole.found[i].a);
                CHECK_U64(got.found[i].b, whole.found[i].b);
                CHECK_I64(got.found[i].offset, whole.found[i].offset);
                CHECK_U64(got.found[i].votes, whole.found[i].votes);
            }
        }
    }
    CHECK_U64(whole.count, CLIPS);
    for (size_t i = 0; i < whole.count; i++)
        CHECK(whole.found[i].a < LONGS && whole.found[i].b < LONGS + CLIPS);
    spsh__print_set_close(set);
}

static void test_left_out(void)
{
    spsh__print_set *set = open_set(path);
    spsh_error err = SPSH_ERROR_INIT;
    for (uint64_t left_out = 0; left_out < LONGS + CLIPS; left_out += 5) {
        const spsh__frame_search options = {.set = set,
                                            .memory_bytes = ENOUGH,
                                            .threads = 2,
                                            .takes_part_fn = takes_part,
                                            .user = &left_out};
        static result got;
        CHECK_I64(search(&options, &got, &err), SPSH_E_END);
        CHECK(got.count == CLIPS - (left_out == 0 ? 2 : 1));
        for (size_t i = 0; i < got.count; i++)
            CHECK(got.found[i].a != left_out && got.found[i].b != left_out);
    }
    spsh__print_set_close(set);
}

static void test_refused(void)
{
    spsh__print_set *set = open_set(path);
    spsh_error err = SPSH_ERROR_INIT;
    const uint64_t none = UINT64_MAX;
    spsh__call_watch watch = {.is_canceled = true};
    static result got;
    spsh__frame_search options = {.set = set,
                                  .memory_bytes = 10000,
                                  .threads = 2,
                                  .takes_part_fn = takes_part,
                                  .user = &none};
    CHECK_I64(search(&options, &got, &err), SPSH_E_LIMIT);
    CHECK(strstr(err.message, "MiB") != NULL);
    options.memory_bytes = ENOUGH;
    options.watch = &watch;
    CHECK_I64(search(&options, &got, &err), SPSH_E_CANCELED);
    spsh__print_set_close(set);
}

TEST_MAIN(unit_frame_search)
{
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(path, sizeof(path), "%s/set", directory);
    (void)snprintf(tone_path, sizeof(tone_path), "%s/tones", directory);
    make_datasets(test_seed(1));
    RUN(test_found);
    RUN(test_frequent);
    RUN(test_left_out);
    RUN(test_refused);
    test_remove_tree(directory);
    return TEST_RESULT();
}

/* unit_exact.c: copies that are found without comparing sound, in datasets with known copies. */
#include <math.h>

#include "copy_dataset.h"
#include "exact_kit.h"

enum { RATE = 16000 };

static char folder[512];
static bool is_small; /* fewer clips */

static void dataset_path(char *path, size_t capacity_bytes, const char *name)
{
    (void)snprintf(path, capacity_bytes, "%s/%s", folder, name);
}

static int16_t *speech(uint64_t seed, uint32_t samples)
{
    int16_t *pcm = calloc((size_t)samples + 1, sizeof(*pcm));
    REQUIRE(pcm != NULL);
    make_signal(SIGNAL_SPEECH, RATE, seed, pcm, samples);
    return pcm;
}

static copy_audio audio_of(const int16_t *pcm, uint32_t samples)
{
    return (copy_audio){SPSH_CODEC_PCM, 16, RATE, 1, pcm, samples};
}

static void check_whole(const exact_found *found, uint64_t a, uint64_t b, spsh_copy_tier tier)
{
    const spsh__match *match = exact_match(found, a, b);
    CHECK_I64(match->tier, tier);
    CHECK_I64(match->kind, SPSH_COPY_SAME_RECORDING);
    CHECK(match->coverage_a == 1 && match->coverage_b == 1);
    CHECK(match->active_s > 1);
    CHECK(match->scale == 1);
    CHECK_U64(match->rate_hz, RATE);
}

enum { FORM_SAMPLES = 40000, PAD = 1234 };

/* Eight forms of one recording, then three recordings that only resemble it. */
static void make_forms(const char *path)
{
    int16_t *pcm = speech(1, FORM_SAMPLES);
    int16_t *dual = calloc(2 * FORM_SAMPLES, sizeof(*dual));
    int16_t *padded = calloc(FORM_SAMPLES + 3 * PAD, sizeof(*padded));
    REQUIRE(dual != NULL && padded != NULL);
    pcm[0] = pcm[FORM_SAMPLES - 1] = 1; /* so that padding is recognized */
    for (size_t i = 0; i < FORM_SAMPLES; i++)
        dual[2 * i] = dual[2 * i + 1] = pcm[i];
    memcpy(padded + PAD, pcm, FORM_SAMPLES * sizeof(*pcm));
    copy_dataset *set = copy_dataset_open(path, 2);
    const copy_audio plain = {SPSH_CODEC_WAV, 16, RATE, 1, pcm, FORM_SAMPLES};
    copy_audio form = plain;
    copy_dataset_add(set, &plain); /* 0 */
    copy_dataset_add(set, &plain); /* 1: the same bytes */
    form.codec = SPSH_CODEC_FLAC;
    copy_dataset_add(set, &form); /* 2 */
    form.codec = SPSH_CODEC_PCM;
    copy_dataset_add(set, &form); /* 3 */
    form = plain;
    form.bits = 24;
    copy_dataset_add(set, &form);                                                           /* 4 */
    copy_dataset_add(set, &(copy_audio){SPSH_CODEC_FLAC, 16, RATE, 2, dual, FORM_SAMPLES}); /* 5 */
    form = audio_of(padded, FORM_SAMPLES + 3 * PAD);
    copy_dataset_add(set, &form); /* 6: padded on both sides */
    form.codec = SPSH_CODEC_WAV;
    copy_dataset_add(set, &form); /* 7 */
    form = plain;
    form.rate_hz = 22050;
    copy_dataset_add(set, &form); /* 8: at another rate */
    for (size_t i = 0; i < FORM_SAMPLES; i++)
        padded[i] = (int16_t)(pcm[i] + (i % 3 == 0)); /* like a lossy codec */
    form = audio_of(padded, FORM_SAMPLES);
    copy_dataset_add(set, &form); /* 9 */
    dual[2 * (FORM_SAMPLES / 2)] ^= 1;
    copy_dataset_add(set, &(copy_audio){SPSH_CODEC_WAV, 16, RATE, 2, dual, FORM_SAMPLES}); /* 10 */
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    free(padded);
    free(dual);
    free(pcm);
}

static void check_forms(const exact_found *found)
{
    check_whole(found, 0, 1, SPSH_TIER_BYTES);
    for (uint64_t i = 2; i < 8; i++)
        check_whole(found, 0, i, SPSH_TIER_PCM);
    for (uint64_t i = 0; i < 11; i++)
        CHECK_U64(spsh__exact_representative(found->groups, i), i < 8 ? 0 : i);
    for (uint64_t i = 6; i < 8; i++) {
        const spsh__match *match = exact_match(found, 0, i);
        CHECK_U64(match->a_first, 0);
        CHECK_U64(match->b_first, PAD);
        CHECK_U64(match->count, FORM_SAMPLES);
        CHECK(match->lag == PAD);
    }
    CHECK_U64(exact_match(found, 0, 2)->count, FORM_SAMPLES);
}

static void test_forms_of_one_recording(void)
{
    char path[600];
    dataset_path(path, sizeof(path), "forms");
    make_forms(path);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    check_forms(&found);
    /* Two channels that differ in one sample still share audio with the dual mono, but not in
     * separate chunks: only first members take part. */
    CHECK_U64(found.count, 7);
    exact_free(&found);
    found = exact_find_in(path, &(exact_settings){(uint64_t)64 << 20, 3, true});
    check_forms(&found);
    CHECK_U64(found.count, 7);
    exact_free(&found);
}

/* Silence is reported and never matched; sounds below 0.1 s are compared completely. */
static void test_silence_and_short_sounds(void)
{
    static int16_t silence[20000];
    static int16_t blip[20000];
    static int16_t moved[20000];
    char path[600];
    for (size_t i = 0; i < 1500; i++)
        blip[8000 + i] = moved[8100 + i] = (int16_t)(1000 + i * 7 % 300);
    dataset_path(path, sizeof(path), "silence");
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = audio_of(silence, 20000);
    copy_dataset_add(set, &audio); /* 0 */
    audio.codec = SPSH_CODEC_FLAC;
    copy_dataset_add(set, &audio); /* 1: equal */
    audio.samples = 19999;
    copy_dataset_add(set, &audio); /* 2: shorter, another recording */
    audio = audio_of(blip, 20000);
    copy_dataset_add(set, &audio); /* 3 */
    audio.codec = SPSH_CODEC_WAV;
    copy_dataset_add(set, &audio); /* 4: equal */
    audio.pcm = moved;
    copy_dataset_add(set, &audio); /* 5: the same sound, but 0.09 s are not a proof */
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    CHECK_U64(found.count, 2);
    const spsh__match *match = exact_match(&found, 0, 1);
    CHECK_I64(match->tier, SPSH_TIER_PCM);
    CHECK_I64(match->kind, SPSH_COPY_NONE);
    CHECK(match->coverage_a == 0 && match->coverage_b == 0 && match->active_s == 0);
    match = exact_match(&found, 3, 4);
    CHECK_I64(match->kind, SPSH_COPY_SAME_RECORDING);
    exact_free(&found);
}

/* A recording whole, in five pieces, and in five others. */
static void test_segments_of_a_long_recording(void)
{
    enum { LONG = 60 * RATE, CUTS = 6 };
    static const uint32_t one[] = {0, 100001, 233333, 400003, 640007, 960000};
    static const uint32_t two[] = {777, 150011, 300017, 500009, 700001, 959999};
    int16_t *pcm = speech(2, LONG);
    char path[600];
    dataset_path(path, sizeof(path), "segments");
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = audio_of(pcm, LONG);
    copy_dataset_add(set, &audio); /* 0 */
    for (size_t i = 0; i + 1 < CUTS; i++) {
        audio = audio_of(pcm + one[i], one[i + 1] - one[i]);
        audio.codec = SPSH_CODEC_FLAC;
        copy_dataset_add(set, &audio); /* 1 to 5 */
    }
    for (size_t i = 0; i + 1 < CUTS; i++) {
        audio = audio_of(pcm + two[i], two[i + 1] - two[i]);
        copy_dataset_add(set, &audio); /* 6 to 10 */
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    size_t want = 0;
    for (uint64_t b = 1; b <= 10; b++) {
        const uint32_t *cuts = b <= 5 ? &one[b - 1] : &two[b - 6];
        const spsh__match *match = exact_match(&found, 0, b);
        CHECK_I64(match->tier, SPSH_TIER_CHUNKS);
        CHECK_I64(match->kind, SPSH_COPY_CONTAINED);
        CHECK_U64(match->a_first, cuts[0]);
        CHECK_U64(match->b_first, 0);
        CHECK_U64(match->count, cuts[1] - cuts[0]);
        CHECK(match->lag == -(double)cuts[0]);
        CHECK(match->coverage_b > 0.999 && match->coverage_a < 0.5);
        CHECK(match->votes > 2);
        want++;
    }
    for (uint64_t a = 1; a <= 5; a++)
        for (uint64_t b = 6; b <= 10; b++) {
            const uint32_t begin = one[a - 1] > two[b - 6] ? one[a - 1] : two[b - 6];
            const uint32_t end = one[a] < two[b - 5] ? one[a] : two[b - 5];
            if (end <= begin + RATE) {
                CHECK(end <= begin); /* the cuts give no short overlaps */
                CHECK_U64(exact_count(&found, a, b), 0);
                continue;
            }
            const spsh__match *match = exact_match(&found, a, b);
            CHECK_U64(match->a_first, begin - one[a - 1]);
            CHECK_U64(match->b_first, begin - two[b - 6]);
            CHECK_U64(match->count, end - begin);
            want++;
        }
    CHECK_U64(found.count, want);
    exact_free(&found);
    free(pcm);
}

/* One stretch occurs twice in each of two clips: four matches, one per pair of positions. */
static void test_several_stretches_of_a_pair(void)
{
    enum { STRETCH = 30000, REST = 20000, ALL = 2 * (STRETCH + REST) };
    int16_t *pcm = speech(3, ALL);
    int16_t *other = speech(4, ALL);
    char path[600];
    memcpy(pcm + STRETCH + REST, pcm, STRETCH * sizeof(*pcm));
    memcpy(other + 100, pcm, STRETCH * sizeof(*pcm));
    memcpy(other + 100 + STRETCH + REST, pcm, STRETCH * sizeof(*pcm));
    dataset_path(path, sizeof(path), "several");
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = audio_of(pcm, ALL);
    copy_dataset_add(set, &audio);
    audio.pcm = other;
    copy_dataset_add(set, &audio);
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    CHECK_U64(exact_count(&found, 0, 1), 4);
    for (size_t i = 0; i < found.count; i++) {
        const spsh__match *match = &found.matches[i];
        CHECK(match->count >= STRETCH && match->count < STRETCH + 20); /* equal by chance */
        CHECK_I64(match->kind, SPSH_COPY_SHARED_SEGMENT);
        CHECK(fabs(match->coverage_a - 0.3) < 0.01);
    }
    exact_free(&found);
    free(other);
    free(pcm);
}

static void test_many_identical_clips(void)
{
    enum { SAMPLES = 12000 };
    const size_t clips = is_small ? 200 : 1000;
    int16_t *pcm = speech(5, SAMPLES);
    char path[600];
    dataset_path(path, sizeof(path), "clips");
    copy_dataset *set = copy_dataset_open(path, 1);
    const copy_audio audio = audio_of(pcm, SAMPLES);
    for (size_t i = 0; i < clips; i++)
        copy_dataset_add(set, &audio);
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    CHECK_U64(found.count, clips - 1);
    for (size_t i = 0; i < found.count; i++) {
        CHECK_U64(found.matches[i].a, 0);
        CHECK_U64(found.matches[i].b, i + 1);
        CHECK_U64(spsh__exact_representative(found.groups, i), 0);
    }
    exact_free(&found);
    free(pcm);
}

/* A jingle in many recordings: each is matched with some of the others, and none with all. */
static void test_a_crowd_stays_linear(void)
{
    enum { CROWD_MAX = 300, JINGLE = 2 * RATE, REST = RATE };
    const size_t crowd = is_small ? 50 : CROWD_MAX;
    int16_t *jingle = speech(6, JINGLE);
    size_t met[CROWD_MAX] = {0};
    char path[600];
    dataset_path(path, sizeof(path), "crowd");
    copy_dataset *set = copy_dataset_open(path, 1);
    for (uint64_t i = 0; i < crowd; i++) {
        int16_t *pcm = speech(100 + i, JINGLE + REST);
        memcpy(pcm + i, jingle, JINGLE * sizeof(*pcm));
        const copy_audio audio = audio_of(pcm, JINGLE + REST);
        copy_dataset_add(set, &audio);
        free(pcm);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    for (size_t i = 0; i < found.count; i++) {
        const spsh__match *match = &found.matches[i];
        met[match->b]++;
        CHECK_I64((int64_t)match->lag, (int64_t)(match->b - match->a));
        CHECK(match->count >= JINGLE);
    }
    for (size_t i = 1; i < crowd; i++)
        CHECK_U64(met[i], i < 32 ? i : 32); /* the first 16, and the previous 16 */
    for (size_t i = 1; i < crowd; i++)
        CHECK_U64(exact_count(&found, i - 1, i), 1);
    exact_free(&found);
    free(jingle);
}

/* Views of one stored record need no samples: also when nothing decodes them alike. */
static void test_views_of_one_record(void)
{
    enum { LONG = 20 * RATE };
    int16_t *pcm = speech(7, LONG);
    char path[600];
    dataset_path(path, sizeof(path), "views");
    copy_dataset *set = copy_dataset_open(path, 1);
    const copy_audio audio = audio_of(pcm, LONG);
    const uint64_t record = copy_dataset_record(set, &audio);
    copy_dataset_utterance(set, record, 0, LONG, "train");        /* 0 */
    copy_dataset_utterance(set, record, 10001, 50000, "train");   /* 1: inside 0 */
    copy_dataset_utterance(set, record, 40001, 60000, "train");   /* 2: overlaps 1 */
    copy_dataset_utterance(set, record, 40001, 60000, "train");   /* 3: like 2 */
    copy_dataset_utterance(set, record, 100001, 30000, "train");  /* 4: touches 2 */
    copy_dataset_utterance(set, record, 129000, 100000, "train"); /* 5: overlaps 4 by 0.06 s */
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    for (size_t i = 0; i < found.count; i++)
        CHECK_I64(found.matches[i].tier, SPSH_TIER_BYTES);
    const spsh__match *match = exact_match(&found, 1, 2);
    CHECK_U64(match->a_first, 30000);
    CHECK_U64(match->b_first, 0);
    CHECK_U64(match->count, 20000);
    CHECK_I64(match->kind, SPSH_COPY_SHARED_SEGMENT);
    match = exact_match(&found, 0, 1);
    CHECK_U64(match->a_first, 10001);
    CHECK_U64(match->count, 50000);
    CHECK_I64(match->kind, SPSH_COPY_CONTAINED);
    check_whole(&found, 2, 3, SPSH_TIER_BYTES);
    CHECK_U64(exact_count(&found, 4, 5), 0);
    CHECK_U64(exact_count(&found, 2, 4), 0);
    CHECK_U64(found.count, 6); /* 0 with 1, 2, 4, 5; 1 with 2; 2 with 3 */
    exact_free(&found);
    free(pcm);
}

/* Records that publishing found to be equal are one record with aliases. */
static void test_aliases_are_of_their_group(void)
{
    int16_t *pcm = speech(8, 3 * RATE);
    char path[600];
    dataset_path(path, sizeof(path), "aliases");
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = audio_of(pcm, 3 * RATE);
    audio.codec = SPSH_CODEC_WAV;
    for (size_t i = 0; i < 3; i++) {
        const uint64_t record = copy_dataset_record(set, &audio);
        copy_dataset_utterance(set, record, 0, 3 * RATE, i == 0 ? "dev" : "train");
        if (i < 2)
            copy_dataset_next_unit(set);
    }
    audio.codec = SPSH_CODEC_FLAC;
    copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, 3 * RATE, "train"); /* 3 */
    copy_dataset_close(set, SPSH_DEDUPE_BYTES);
    make_segments(path);
    exact_found found = exact_find_in(path, &exact_plain);
    uint64_t alias_of = 0;
    spsh__segment_row row;
    CHECK(spsh__print_set_row(found.set, 2, &row, &alias_of, NULL) == SPSH_OK);
    CHECK_U64(alias_of, 0); /* else the test is pointless */
    check_whole(&found, 0, 1, SPSH_TIER_BYTES);
    check_whole(&found, 0, 2, SPSH_TIER_BYTES);
    check_whole(&found, 0, 3, SPSH_TIER_PCM);
    CHECK_U64(found.count, 3);
    exact_free(&found);
    /* Without the primary, the aliases match each other. */
    const spsh_dedup_source train = {path, "train", SPSH_SIDE_TRAIN};
    found = exact_find(&train, 1, &exact_plain);
    check_whole(&found, 1, 2, SPSH_TIER_BYTES);
    check_whole(&found, 1, 3, SPSH_TIER_PCM);
    CHECK_U64(found.count, 2);
    CHECK_U64(spsh__exact_representative(found.groups, 0), 0);
    CHECK_U64(spsh__exact_representative(found.groups, 3), 1);
    exact_free(&found);
    free(pcm);
}

/* Each test utterance has a train partner; shared segments are reported across sides only. */
static void test_two_sides(void)
{
    enum { SAMPLES = 3 * RATE };
    static const char *const splits[] = {"test", "train", "test", "train", "test"};
    int16_t *pcm = speech(9, 3 * SAMPLES);
    char path[600];
    dataset_path(path, sizeof(path), "sides");
    copy_dataset *set = copy_dataset_open(path, 1);
    copy_audio audio = audio_of(pcm, SAMPLES);
    for (size_t i = 0; i < 5; i++)
        copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, SAMPLES, splits[i]);
    audio = audio_of(pcm + SAMPLES, 2 * SAMPLES);
    copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, 2 * SAMPLES, "train"); /* 5 */
    audio = audio_of(pcm + SAMPLES + 501, SAMPLES);
    copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, SAMPLES, "test"); /* 6 */
    audio = audio_of(pcm + SAMPLES + 777, SAMPLES + 3);
    copy_dataset_utterance(set, copy_dataset_record(set, &audio), 0, SAMPLES + 3, "test"); /* 7 */
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    make_segments(path);
    const spsh_dedup_source sources[] = {
        {path, "train", SPSH_SIDE_TRAIN},
        {path, "test",  SPSH_SIDE_TEST },
    };
    exact_found found = exact_find(sources, 2, &exact_plain);
    check_whole(&found, 0, 1, SPSH_TIER_BYTES); /* test, first of train */
    check_whole(&found, 1, 2, SPSH_TIER_BYTES);
    check_whole(&found, 1, 4, SPSH_TIER_BYTES);
    check_whole(&found, 1, 3, SPSH_TIER_BYTES); /* within train */
    check_whole(&found, 0, 2, SPSH_TIER_BYTES); /* within test */
    check_whole(&found, 0, 4, SPSH_TIER_BYTES);
    CHECK_U64(exact_match(&found, 5, 6)->a_first, 501);
    CHECK_U64(exact_match(&found, 5, 7)->a_first, 777);
    CHECK_U64(exact_count(&found, 6, 7), 0);
    CHECK_U64(found.count, 8);
    for (uint64_t i = 0; i < 5; i++)
        CHECK_U64(spsh__exact_representative(found.groups, i), i % 2);
    exact_free(&found);
    free(pcm);
}

/* Segments have equal digests for different samples: --confirm detects the difference. */
static void test_confirm_compares_samples(void)
{
    enum { SAMPLES = 2 * RATE };
    spsh_dataset *dataset = NULL;
    spsh_shard_seal seal;
    spsh__segment_writer *writer = NULL;
    char path[600];
    dataset_path(path, sizeof(path), "forged");
    copy_dataset *set = copy_dataset_open(path, 1);
    for (uint64_t i = 0; i < 3; i++) {
        int16_t *pcm = speech(20 + i / 2, SAMPLES); /* 0 and 1 are equal, 2 is not */
        copy_audio audio = audio_of(pcm, SAMPLES);
        audio.codec = i == 0 ? SPSH_CODEC_WAV : SPSH_CODEC_PCM;
        copy_dataset_add(set, &audio);
        free(pcm);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, NULL) == SPSH_OK);
    REQUIRE(spsh_dataset_shard(dataset, 0, &seal, NULL) == SPSH_OK);
    REQUIRE(spsh__segment_writer_open(&writer, NULL) == SPSH_OK);
    for (uint8_t i = 0; i < 3; i++) {
        const spsh__segment_entry entry = {
            .row = {.id_key = {i},
                    .flags = SPSH__ROW_DECODED,
                    .sample_rate_hz = RATE,
                    .channels = 1,
                    .samples = SAMPLES,
                    .pcm_full = {1, 2, 3},
                    .pcm_trim = {1, 2, 3},
                    .pcm_mono = {1, 2, 3},
                    .trim_count = SAMPLES,
                    .active_ms = 1500}
        };
        REQUIRE(spsh__segment_writer_add(writer, &entry, NULL) == SPSH_OK);
    }
    REQUIRE(spsh__segment_writer_publish(writer, dataset, &seal, NULL, NULL) == SPSH_OK);
    spsh__segment_writer_free(writer);
    spsh_dataset_close(dataset);
    exact_found found = exact_find_in(path, &exact_plain);
    CHECK_U64(found.count, 2);
    CHECK_U64(spsh__exact_representative(found.groups, 2), 0);
    exact_free(&found);
    found = exact_find_in(path, &(exact_settings){(uint64_t)64 << 20, 2, true});
    CHECK_U64(found.count, 1);
    check_whole(&found, 0, 1, SPSH_TIER_PCM);
    CHECK_U64(spsh__exact_representative(found.groups, 1), 0);
    CHECK_U64(spsh__exact_representative(found.groups, 2), 2);
    exact_free(&found);
}

/* Results are equal for any memory and threads, and for two datasets in any order. */
static void test_memory_threads_and_order_do_not_matter(void)
{
    static const exact_settings others[] = {
        {1,                  1, false},
        {(uint64_t)6 << 20,  7, false},
        {(uint64_t)1 << 30,  3, true },
        {(uint64_t)64 << 20, 1, true },
    };
    char one[600], two[600];
    dataset_path(one, sizeof(one), "segments");
    dataset_path(two, sizeof(two), "forms");
    const spsh_dedup_source sources[] = {
        {one, NULL, SPSH_SIDE_TRAIN},
        {two, NULL, SPSH_SIDE_TRAIN},
    };
    const spsh_dedup_source turned[] = {sources[1], sources[0]};
    exact_found want = exact_find(sources, 2, &exact_plain);
    CHECK(want.count > 20);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        exact_found got = exact_find(i % 2 == 0 ? turned : sources, 2, &others[i]);
        CHECK(exact_is_same(&want, &got));
        exact_free(&got);
    }
    exact_free(&want);
}

TEST_MAIN(unit_exact)
{
    is_small = test_wants_fewer(argc, argv);
    test_temp_dir(folder, sizeof(folder));
    RUN(test_forms_of_one_recording);
    RUN(test_silence_and_short_sounds);
    RUN(test_segments_of_a_long_recording);
    RUN(test_several_stretches_of_a_pair);
    if (!test_wants_races(argc, argv)) { /* the same threads over more clips */
        RUN(test_many_identical_clips);
        RUN(test_a_crowd_stays_linear);
    }
    RUN(test_views_of_one_record);
    RUN(test_aliases_are_of_their_group);
    RUN(test_two_sides);
    RUN(test_confirm_compares_samples);
    RUN(test_memory_threads_and_order_do_not_matter);
    test_remove_tree(folder);
    return TEST_RESULT();
}

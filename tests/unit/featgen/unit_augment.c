/* unit_augment.c: options of augmentation as text, draws, masks, and draws as JSON. */
#include <math.h>

#include "speechshard/augment.h"
#include "spsh_test.h"

static spsh_augment_options parsed(const char *text)
{
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_augment_options_parse(text, &options, &err) != SPSH_OK)
        fprintf(stderr, "%s: %s\n", text, err.message);
    REQUIRE(err.status == SPSH_OK);
    return options;
}

/* ---- options ---- */

static void check_same(const spsh_augment_options *a, const spsh_augment_options *b)
{
    char text[SPSH_AUGMENT_TEXT_BYTES_MAX];
    char other[SPSH_AUGMENT_TEXT_BYTES_MAX];
    (void)spsh_augment_options_text(a, text, sizeof(text));
    (void)spsh_augment_options_text(b, other, sizeof(other));
    CHECK_STR(text, other);
}

static void test_presets(void)
{
    uint32_t count = 0;
    for (; spsh_augment_preset_name(count) != NULL; count++) {
        char text[SPSH_AUGMENT_TEXT_BYTES_MAX];
        char again[SPSH_AUGMENT_TEXT_BYTES_MAX];
        const spsh_augment_options options = parsed(spsh_augment_preset_name(count));
        const size_t size = spsh_augment_options_text(&options, text, sizeof(text));
        CHECK(size < sizeof(text) && size == strlen(text));
        const spsh_augment_options back = parsed(text);
        CHECK_U64(spsh_augment_options_text(&back, again, sizeof(again)), size);
        CHECK_STR(again, text);
    }
    CHECK_U64(count, 5);
    const spsh_augment_options none = SPSH_AUGMENT_OPTIONS_INIT;
    const spsh_augment_options empty = parsed("");
    check_same(&none, &empty);
    const spsh_augment_options named = parsed("none");
    check_same(&none, &named);
    const spsh_augment_options ld = parsed("specaugment-ld");
    CHECK_U64(ld.time_masks, 2);
    CHECK_U64(ld.time_mask_frames_max, 100);
    CHECK_U64(ld.frequency_masks, 2);
    CHECK_U64(ld.frequency_mask_bins_max, 27);
    CHECK(ld.time_mask_share_max == 1.0F && ld.speed_count == 0);
    CHECK_U64(parsed("specaugment-lb").time_masks, 1);
}

static void test_text(void)
{
    const spsh_augment_options o =
        parsed("speed-perturb, gain_db_min = -3.5,gain_db_max=2,gain_probability=0.25");
    CHECK_U64(o.speed_count, 3);
    CHECK(o.speeds[0] == 90 && o.speeds[1] == 100 && o.speeds[2] == 110 && o.speeds[3] == 0);
    CHECK(o.gain_db_min == -3.5F && o.gain_db_max == 2.0F && o.gain_probability == 0.25F);
    char text[SPSH_AUGMENT_TEXT_BYTES_MAX];
    (void)spsh_augment_options_text(&o, text, sizeof(text));
    CHECK_STR(text, "speeds=0.9:1:1.1,noise_probability=0,noise_snr_db_min=0,noise_snr_db_max=0,"
                    "room_probability=0,gain_probability=0.25,gain_db_min=-3.5,gain_db_max=2,"
                    "time_masks=0,time_mask_frames_max=0,time_mask_share_max=0,frequency_masks=0,"
                    "frequency_mask_bins_max=0");
    char cut[11];
    CHECK_U64(spsh_augment_options_text(&o, cut, sizeof(cut)), strlen(text));
    CHECK_STR(cut, "speeds=0.9");
}

static void check_refused(const char *text, spsh_status status, const char *part)
{
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    options.time_masks = 7;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh_augment_options_parse(text, &options, &err), status);
    CHECK_I64(err.status, status);
    CHECK_U64(options.time_masks, 7);
    if (strstr(err.message, part) == NULL)
        fprintf(stderr, "    %s: '%s' has no '%s'\n", text, err.message, part);
    CHECK(strstr(err.message, part) != NULL);
}

static void test_refused(void)
{
    check_refused("specaugment-ls", SPSH_E_NOT_FOUND, "did you mean 'specaugment-l");
    check_refused("time_mask=2", SPSH_E_NOT_FOUND, "did you mean 'time_masks'");
    check_refused("none,time_masks", SPSH_E_SYNTAX, "FIELD=VALUE");
    check_refused("time_masks=two", SPSH_E_SYNTAX, "time_masks");
    check_refused("speeds=0.9;1.1", SPSH_E_SYNTAX, "speeds");
    check_refused("speeds=1:1:1:1:1:1:1:1:1", SPSH_E_LIMIT, "speeds");
    check_refused("speeds=0.49", SPSH_E_INVALID_ARG, "speeds");
    check_refused("speeds=2.01", SPSH_E_INVALID_ARG, "speeds");
    check_refused("speeds=0.955", SPSH_E_INVALID_ARG, "speeds");
    check_refused("noise_snr_db_min=3,noise_snr_db_max=2", SPSH_E_INVALID_ARG, "noise_snr_db_min");
    check_refused("gain_db_min=1", SPSH_E_INVALID_ARG, "gain_db_min");
    static const char *const out_of_range[] = {"noise_probability=1.1",
                                               "noise_probability=-0.1",
                                               "noise_snr_db_min=-61",
                                               "noise_snr_db_max=101",
                                               "room_probability=2",
                                               "gain_probability=-1",
                                               "gain_db_min=-61",
                                               "gain_db_max=61",
                                               "time_masks=17",
                                               "time_mask_frames_max=-1",
                                               "time_mask_share_max=2",
                                               "frequency_masks=17",
                                               "frequency_mask_bins_max=32769"};
    for (size_t i = 0; i < sizeof(out_of_range) / sizeof(out_of_range[0]); i++) {
        char name[32] = {0};
        memcpy(name, out_of_range[i], strcspn(out_of_range[i], "="));
        check_refused(out_of_range[i], SPSH_E_INVALID_ARG, name);
    }
}

/* A text that is cut, or has changed bytes, is rejected or gives valid options. */
static void test_damaged_text(void)
{
    uint64_t state = test_seed(7);
    uint64_t taken = 0;
    for (int round = 0; round < 20000; round++) {
        char text[SPSH_AUGMENT_TEXT_BYTES_MAX] = {0};
        spsh_augment_options options = parsed(spsh_augment_preset_name((uint32_t)round % 5));
        size_t size = spsh_augment_options_text(&options, text, sizeof(text));
        for (uint64_t change = test_random(&state) % 4; change > 0; change--) {
            const size_t at = test_random(&state) % size;
            text[at] = ",=:.-e0129 aspn"[test_random(&state) % 16];
            size = strlen(text) > 0 ? strlen(text) : 1;
        }
        if (spsh_augment_options_parse(text, &options, NULL) != SPSH_OK)
            continue;
        taken++;
        CHECK_I64(spsh_augment_options_check(&options, NULL), SPSH_OK);
        char again[SPSH_AUGMENT_TEXT_BYTES_MAX];
        (void)spsh_augment_options_text(&options, again, sizeof(again));
        const spsh_augment_options back = parsed(again);
        check_same(&options, &back);
    }
    CHECK(taken > 5000 && taken < 20000);
}

/* Option structs that were not parsed from a text. */
static void test_check(void)
{
    const spsh_augment_options good = parsed("deepspeech,room_probability=1");
    CHECK_I64(spsh_augment_options_check(&good, NULL), SPSH_OK);
    spsh_augment_options bad[9];
    for (size_t i = 0; i < 9; i++)
        bad[i] = good;
    bad[0].struct_size = 7;
    bad[1].speed_count = SPSH_AUGMENT_SPEEDS_MAX + 1;
    bad[2].speeds[3] = 49;
    bad[3].noise_probability = (float)NAN;
    bad[4].noise_snr_db_min = (float)NAN;
    bad[5].gain_db_max = (float)INFINITY;
    bad[6].time_masks = SPSH_AUGMENT_MASKS_MAX + 1;
    bad[7].frequency_masks = UINT32_MAX;
    bad[8].gain_db_min = 9;
    for (size_t i = 0; i < 9; i++)
        CHECK_I64(spsh_augment_options_check(&bad[i], NULL), SPSH_E_INVALID_ARG);
}

/* ---- draws ---- */

static void test_fractions(void)
{
    CHECK_U64(spsh_fraction_of(0, 10), 0);
    CHECK_U64(spsh_fraction_of(UINT64_MAX, 10), 9);
    CHECK_U64(spsh_fraction_of(UINT64_C(1) << 63, 10), 5);
    CHECK_U64(spsh_fraction_of(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    CHECK_U64(spsh_fraction_of(UINT64_MAX, 0), 0);
}

static bool are_masks_same(const spsh_augment_mask_draw *a, const spsh_augment_mask_draw *b)
{
    return memcmp(a, b, SPSH_AUGMENT_MASKS_MAX * sizeof(*a)) == 0;
}

/* If options of one kind change, the draws of all other kinds stay the same. */
static void test_kinds_are_apart(void)
{
    static const char *const changes[] = {"speeds=1.3",          "noise_probability=0",
                                          "noise_snr_db_max=90", "room_probability=0",
                                          "gain_probability=0",  "gain_db_min=-50",
                                          "time_masks=0",        "frequency_masks=16",
                                          "time_masks=16",       "frequency_mask_bins_max=3"};
    const char *const all =
        "speeds=0.7:0.8:0.9:1:1.1,noise_probability=0.8,noise_snr_db_max=20,room_probability=0.8,"
        "gain_probability=0.8,gain_db_max=9,time_masks=3,time_mask_frames_max=50,frequency_masks=3,"
        "frequency_mask_bins_max=20";
    const spsh_augment_options base = parsed(all);
    for (size_t c = 0; c < sizeof(changes) / sizeof(changes[0]); c++) {
        char text[600];
        (void)snprintf(text, sizeof(text), "%s,%s", all, changes[c]);
        const spsh_augment_options other = parsed(text);
        const char *name = changes[c];
        for (uint64_t key = 0; key < 200; key++) {
            spsh_augment_draw a, b;
            spsh_augment_draw_make(&base, 5, 6, key, &a);
            spsh_augment_draw_make(&other, 5, 6, key, &b);
            CHECK(strncmp(name, "speeds", 6) == 0 || a.speed_percent == b.speed_percent);
            CHECK(strncmp(name, "noise", 5) == 0 ||
                  (a.has_noise == b.has_noise && a.noise == b.noise &&
                   a.noise_start == b.noise_start && a.snr_db == b.snr_db));
            CHECK(strncmp(name, "room", 4) == 0 || (a.has_room == b.has_room && a.room == b.room));
            CHECK(strncmp(name, "gain", 4) == 0 ||
                  (a.has_gain == b.has_gain && a.gain_db == b.gain_db));
            CHECK(strncmp(name, "time", 4) == 0 || are_masks_same(a.time, b.time));
            CHECK(strncmp(name, "freq", 4) == 0 || are_masks_same(a.frequency, b.frequency));
        }
    }
}

/* A draw depends on seed, epoch, and key, and on nothing else. */
static void test_what_a_draw_depends_on(void)
{
    const spsh_augment_options options = parsed("gain_probability=1,gain_db_max=60");
    spsh_augment_draw a, b;
    spsh_augment_draw_make(&options, 1, 2, 3, &a);
    spsh_augment_draw_make(&options, 1, 2, 3, &b);
    CHECK(a.gain_db == b.gain_db);
    spsh_augment_draw_make(&options, 2, 2, 3, &b);
    CHECK(a.gain_db != b.gain_db);
    spsh_augment_draw_make(&options, 1, 3, 3, &b);
    CHECK(a.gain_db != b.gain_db);
    spsh_augment_draw_make(&options, 1, 2, 2, &b);
    CHECK(a.gain_db != b.gain_db);
}

/* The numbers equal the loader's: spsh__draw(1, 2, 3, 3 << 16 | 1) of
 * loader/src/plan/permutation.h. */
static void test_draw_of_loader(void)
{
    const spsh_augment_options options = parsed("room_probability=1");
    spsh_augment_draw draw;
    spsh_augment_draw_make(&options, 1, 2, 3, &draw);
    CHECK_U64(draw.room, UINT64_C(2891428612760691322));
}

static void test_nothing(void)
{
    const spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    for (uint64_t key = 0; key < 1000; key++) {
        spsh_augment_draw draw;
        spsh_augment_draw_make(&options, 1, 1, key, &draw);
        CHECK(draw.speed_percent == 100 && !draw.has_room && !draw.has_noise && !draw.has_gain &&
              draw.time_masks == 0 && draw.frequency_masks == 0);
        CHECK_U64(spsh_augment_sample_count(&draw, key), key);
    }
}

enum { DRAWS = 100000 };

/* A count of DRAWS with a chance of p is within five deviations. */
static void check_share(uint64_t count, double p)
{
    const double deviation = sqrt(DRAWS * p * (1 - p));
    CHECK(fabs((double)count - DRAWS * p) < 5 * deviation);
}

static void test_shares(void)
{
    const spsh_augment_options options =
        parsed("speeds=0.5:1:2,noise_probability=0.4,noise_snr_db_min=5,noise_snr_db_max=25,"
               "room_probability=0.1,gain_probability=0.9,gain_db_min=-6,gain_db_max=8");
    uint64_t speeds[201] = {0}, noises = 0, rooms = 0, gains = 0, loud = 0, both = 0, late = 0;
    double snr = 0;
    for (uint64_t key = 0; key < DRAWS; key++) {
        spsh_augment_draw draw;
        spsh_augment_draw_make(&options, 77, 3, key, &draw);
        speeds[draw.speed_percent]++;
        rooms += draw.has_room;
        both += draw.has_noise && draw.has_gain;
        if (draw.has_noise) {
            noises++;
            snr += (double)draw.snr_db;
            CHECK(draw.snr_db >= 5 && draw.snr_db <= 25);
            late += spsh_fraction_of(draw.noise_start, 4) == 3;
        }
        if (draw.has_gain) {
            gains++;
            CHECK(draw.gain_db >= -6 && draw.gain_db <= 8);
            loud += draw.gain_db > 1;
        }
    }
    check_share(speeds[50], 1 / 3.0);
    check_share(speeds[100], 1 / 3.0);
    check_share(speeds[200], 1 / 3.0);
    check_share(noises, 0.4);
    check_share(rooms, 0.1);
    check_share(gains, 0.9);
    check_share(loud, 0.45);
    check_share(both, 0.36);
    check_share(late, 0.1);
    CHECK(fabs(snr / (double)noises - 15) < 5 * (20 / sqrt(12.0)) / sqrt(0.4 * DRAWS));
}

static void test_sample_counts(void)
{
    spsh_augment_draw draw = {.speed_percent = 90};
    CHECK_U64(spsh_augment_sample_count(&draw, 0), 0);
    CHECK_U64(spsh_augment_sample_count(&draw, 1), 2);
    CHECK_U64(spsh_augment_sample_count(&draw, 9), 10);
    CHECK_U64(spsh_augment_sample_count(&draw, 16000), 17778);
    for (draw.speed_percent = 50; draw.speed_percent <= 200; draw.speed_percent++)
        for (uint64_t n = 0; n < 500; n++)
            CHECK_U64(spsh_augment_sample_count(&draw, n),
                      (n * 100 + draw.speed_percent - 1) / draw.speed_percent);
    draw.speed_percent = 200;
    CHECK_U64(spsh_augment_sample_count(&draw, UINT64_MAX), UINT64_C(1) << 63);
}

/* ---- masks ---- */

/* Lengths and positions are uniform. Masks are inside, and no longer than the share allows. */
static void test_time_masks(void)
{
    const spsh_augment_options options =
        parsed("time_masks=2,time_mask_frames_max=9,time_mask_share_max=0.7");
    uint64_t lengths[10] = {0}, at_start = 0, at_end = 0, empties = 0;
    for (uint64_t key = 0; key < DRAWS; key++) {
        spsh_augment_draw draw;
        uint64_t first = 0, count = 0;
        spsh_augment_draw_make(&options, 1, 0, key, &draw);
        spsh_augment_time_mask(&draw, 1, 100, &first, &count);
        REQUIRE(count <= 9 && first + count <= 100);
        lengths[count]++;
        at_start += first == 0 && count == 9;
        at_end += first == 91 && count == 9;
        spsh_augment_time_mask(&draw, 0, 10, &first, &count); /* 0.7 of 10 is 7 */
        REQUIRE(count <= 7 && first + count <= 10);
        empties += count == 7;
        spsh_augment_time_mask(&draw, 0, 0, &first, &count);
        REQUIRE(count == 0 && first == 0);
        spsh_augment_time_mask(&draw, 0, 1, &first, &count);
        REQUIRE(count == 0 && first <= 1);
    }
    for (size_t i = 0; i < 10; i++)
        check_share(lengths[i], 0.1);
    check_share(at_start, 0.1 / 92);
    check_share(at_end, 0.1 / 92);
    check_share(empties, 1 / 8.0);
}

static void test_frequency_masks(void)
{
    const spsh_augment_options options = parsed("frequency_masks=1,frequency_mask_bins_max=27");
    uint64_t highest = 0, all = 0;
    for (uint64_t key = 0; key < DRAWS; key++) {
        spsh_augment_draw draw;
        uint32_t first = 0, count = 0;
        spsh_augment_draw_make(&options, 1, 0, key, &draw);
        spsh_augment_frequency_mask(&draw, 0, 80, &first, &count);
        REQUIRE(count <= 27 && first + count <= 80);
        highest += count == 27;
        spsh_augment_frequency_mask(&draw, 0, 4, &first, &count);
        REQUIRE(count <= 4 && first + count <= 4);
        all += count == 4;
    }
    check_share(highest, 1 / 28.0);
    check_share(all, 1 / 5.0);
}

enum { FRAMES = 50, DIM = 20 };

static bool is_masked(const spsh_augment_draw *draw, uint64_t frame, uint32_t bin)
{
    for (uint32_t m = 0; m < 2; m++) {
        uint64_t first = 0, count = 0;
        uint32_t low = 0, bins = 0;
        spsh_augment_time_mask(draw, m, FRAMES, &first, &count);
        spsh_augment_frequency_mask(draw, m, DIM, &low, &bins);
        if (frame - first < count || bin - low < bins)
            return true;
    }
    return false;
}

/* Exactly the values inside the masks are masked. */
static void test_mask(void)
{
    const spsh_augment_options options = parsed("specaugment-ld,time_mask_frames_max=10,"
                                                "frequency_mask_bins_max=5");
    spsh_augment_draw draw;
    for (uint64_t key = 0; key < 100; key++) {
        float rows[FRAMES * DIM];
        spsh_augment_draw_make(&options, 9, 9, key, &draw);
        for (uint32_t i = 0; i < FRAMES * DIM; i++)
            rows[i] = (float)i;
        spsh_augment_mask(&draw, rows, FRAMES, DIM, -1.5F);
        for (uint32_t i = 0; i < FRAMES * DIM; i++)
            CHECK(rows[i] == (is_masked(&draw, i / DIM, i % DIM) ? -1.5F : (float)i));
    }
    spsh_augment_mask(&draw, NULL, 0, DIM, 0);
}

/* ---- JSON ---- */

static void test_json(void)
{
    char text[600];
    spsh_augment_draw draw = {.speed_percent = 100};
    spsh_augment_subject subject = {.sample_count = 16000, .frame_count = 100, .dim = 80};
    CHECK_U64(spsh_augment_draw_json(&draw, &subject, text, sizeof(text)), 2);
    CHECK_STR(text, "{}");
    draw = (spsh_augment_draw){
        .speed_percent = 90,
        .has_room = true,
        .has_noise = true,
        .has_gain = true,
        .snr_db = 12.5F,
        .gain_db = -3.25F,
        .time_masks = 3,
        .frequency_masks = 1,
        .time_mask_frames_max = 99,
        .frequency_mask_bins_max = 9,
        .time = {{UINT64_C(1) << 62, UINT64_C(1) << 63}, {0, 0}, {UINT64_C(3) << 62, 0}},
        .frequency = {{UINT64_MAX, UINT64_MAX}               },
    };
    const size_t full = spsh_augment_draw_json(&draw, &subject, text, sizeof(text));
    CHECK_U64(full, strlen(text));
    CHECK_STR(text,
              "{\"speed\": 0.9, \"samples\": 17778, \"room\": {}, \"noise\": {\"snr_db\": 12.5}, "
              "\"gain_db\": -3.25, \"time_masks\": [[38, 25], [0, 75]], "
              "\"frequency_masks\": [[71, 9]]}");
    draw.time_masks = draw.frequency_masks = 0;
    draw.has_gain = false;
    draw.speed_percent = 100;
    subject.room_id = "a \"b\" \\ \n";
    subject.noise_id = "caf\xc3\xa9";
    subject.noise_start = 77;
    const size_t size = spsh_augment_draw_json(&draw, &subject, text, sizeof(text));
    CHECK_STR(text, "{\"room\": {\"id\": \"a \\\"b\\\" \\\\ \\u000a\"}, \"noise\": {\"id\": "
                    "\"caf\xc3\xa9\", \"start\": 77, \"snr_db\": 12.5}}");
    char cut[9] = "xxxxxxxx";
    CHECK_U64(spsh_augment_draw_json(&draw, &subject, cut, sizeof(cut)), size);
    CHECK_STR(cut, "{\"room\":");
    CHECK_U64(spsh_augment_draw_json(&draw, &subject, NULL, 0), size);
}

TEST_MAIN(unit_augment)
{
    RUN(test_presets);
    RUN(test_text);
    RUN(test_refused);
    RUN(test_damaged_text);
    RUN(test_check);
    RUN(test_fractions);
    RUN(test_kinds_are_apart);
    RUN(test_what_a_draw_depends_on);
    RUN(test_draw_of_loader);
    RUN(test_nothing);
    RUN(test_shares);
    RUN(test_sample_counts);
    RUN(test_time_masks);
    RUN(test_frequency_masks);
    RUN(test_mask);
    RUN(test_json);
    return TEST_RESULT();
}

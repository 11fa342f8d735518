/* unit_augment_samples.c: the effect of a draw on samples: speed, room, noise, gain; and rejected
 * inputs.
 */
#include <math.h>

#include "augment/augmenter.h"
#include "spsh_test.h"

#define TURN 6.283185307179586

enum { COUNT_MAX = 40000, ROOM_MAX = 3000 };

static spsh_augmenter *opened(const char *text)
{
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augmenter *augmenter = NULL;
    REQUIRE(spsh_augment_options_parse(text, &options, NULL) == SPSH_OK);
    REQUIRE(spsh_augmenter_open(&options, COUNT_MAX, ROOM_MAX, NULL, &augmenter, NULL) == SPSH_OK);
    return augmenter;
}

static int16_t clipped(double value)
{
    return (int16_t)fmin(fmax(nearbyint(value), -32768), 32767);
}

static void make_tone(int16_t *samples, size_t count, double turns_per_sample, double amplitude)
{
    for (size_t i = 0; i < count; i++)
        samples[i] = clipped(amplitude * sin(TURN * turns_per_sample * (double)i));
}

static void make_noise(int16_t *samples, size_t count, uint64_t seed, uint32_t peak)
{
    for (size_t i = 0; i < count; i++)
        samples[i] = (int16_t)((int64_t)(test_random(&seed) % (2 * peak + 1)) - (int64_t)peak);
}

static double mean_power(const int16_t *samples, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)samples[i] * samples[i];
    return sum / (double)count;
}

/* ---- speed ---- */

/* Amplitude of a sine in samples[from ... to) with this many turns per sample that begins at sample
 * 0, and the residual without it, as root mean squares. */
static void measure_tone(const int16_t *samples, size_t from, size_t to, double turns_per_sample,
                         double *amplitude, double *rest)
{
    double ss = 0, sc = 0, cc = 0, ys = 0, yc = 0;
    for (size_t i = from; i < to; i++) {
        const double s = sin(TURN * turns_per_sample * (double)i);
        const double c = cos(TURN * turns_per_sample * (double)i);
        ss += s * s, sc += s * c, cc += c * c, ys += samples[i] * s, yc += samples[i] * c;
    }
    const double a = (ys * cc - yc * sc) / (ss * cc - sc * sc);
    const double b = (yc * ss - ys * sc) / (ss * cc - sc * sc);
    double sum = 0;
    for (size_t i = from; i < to; i++) {
        const double left = samples[i] - a * sin(TURN * turns_per_sample * (double)i) -
                            b * cos(TURN * turns_per_sample * (double)i);
        sum += left * left;
    }
    *amplitude = hypot(a, b);
    *rest = sqrt(sum / (double)(to - from));
    CHECK(fabs(b) < a * 0.001); /* the phase is kept, so there is no delay */
}

static int16_t tone[COUNT_MAX], changed[2 * COUNT_MAX];

static uint64_t change_speed(spsh_augmenter *augmenter, uint32_t percent, uint64_t count)
{
    const spsh_augment_draw draw = {.speed_percent = percent};
    const spsh_augment_input input = {.samples = tone, .sample_count = count};
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, changed, NULL) == SPSH_OK);
    return spsh_augment_sample_count(&draw, count);
}

/* Tones up to 0.9 of the lower Nyquist frequency keep their amplitude. There are no images or
 * aliases: 80 dB below 10,000 is 1, and half of that is rounding. */
static void test_tones(void)
{
    static const double places[] = {0.01, 0.2, 0.5, 0.8, 0.9}; /* fractions of the lower Nyquist
                                                                  frequency */
    static const uint32_t speeds[] = {50, 90, 97, 110, 151, 199, 200};
    spsh_augmenter *augmenter = opened("speeds=0.5:0.9:0.97:1.1:1.51:1.99:2");
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        const double speed = speeds[i] / 100.0;
        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            const double turns = places[p] * 0.5 * fmin(1, 1 / speed);
            double amplitude = 0, rest = 0;
            make_tone(tone, 8000, turns, 10000);
            const uint64_t count = change_speed(augmenter, speeds[i], 8000);
            measure_tone(changed, 300, count - 300, turns * speed, &amplitude, &rest);
            CHECK(fabs(20 * log10(amplitude / 10000)) < 0.002);
            CHECK(rest < 0.6);
        }
    }
    spsh_augmenter_close(augmenter);
}

/* Frequencies above the new Nyquist frequency are removed. */
static void test_nothing_folds_back(void)
{
    static const uint32_t speeds[] = {110, 151, 200};
    spsh_augmenter *augmenter = opened("speeds=1.1:1.51:2");
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        for (int step = 0; step < 98; step++) {
            const double place = 1.005 + step * 0.01; /* fraction of the new Nyquist frequency */
            if (place * 100 / speeds[i] > 0.99)
                break;
            make_tone(tone, 8000, place * 50 / speeds[i], 30000);
            const uint64_t count = change_speed(augmenter, speeds[i], 8000);
            for (uint64_t k = 300; k < count - 300; k++)
                CHECK(abs(changed[k]) <= 1); /* 30,000 at -85 dB is 1.7: more would be seen */
        }
    }
    spsh_augmenter_close(augmenter);
}

static void test_lengths(void)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 119, 120, 121, 1001};
    spsh_augmenter *augmenter = opened("speeds=0.5:0.9:1:1.1:2");
    for (uint32_t s = 0; s < 5; s++) {
        const uint32_t percent = (uint32_t[]){50, 90, 100, 110, 200}[s];
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            for (size_t k = 0; k < 2 * COUNT_MAX; k++)
                changed[k] = 12345;
            for (size_t k = 0; k < counts[i]; k++)
                tone[k] = -1000;
            const uint64_t count = change_speed(augmenter, percent, counts[i]);
            CHECK_U64(count, (counts[i] * 100 + percent - 1) / percent);
            for (uint64_t k = 0; k < count; k++)
                CHECK(changed[k] < 0 && changed[k] > -1300); /* all written, with little ringing */
            CHECK_I64(changed[count], 12345);
        }
        for (size_t k = 0; k < 1000; k++)
            tone[k] = -1000;
        const uint64_t count = change_speed(augmenter, percent, 1000);
        for (uint64_t k = 150; k + 150 < count; k++)
            CHECK_I64(changed[k], -1000);
    }
    spsh_augmenter_close(augmenter);
}

/* ---- noise ---- */

static int16_t speech[COUNT_MAX], noise[COUNT_MAX], room[ROOM_MAX], out[2 * COUNT_MAX];

static spsh_augment_input all_sounds(uint64_t count, uint64_t noise_count, uint64_t room_count)
{
    return (spsh_augment_input){.samples = speech,
                                .sample_count = count,
                                .noise = noise,
                                .noise_count = noise_count,
                                .room = room,
                                .room_count = room_count};
}

static void test_noise(void)
{
    spsh_augmenter *augmenter = opened("none");
    make_tone(speech, 20000, 0.0371, 4000);
    make_noise(noise, 20000, 5, 300);
    for (int i = 0; i < 200; i++)
        noise[i] = 3000; /* loud at its start: the level depends on noise_start */
    for (int step = 0; step <= 10; step++) {
        const float snr = (float)step * 2.5F - 5;
        for (uint64_t start = 0; start < 7000; start += 2333) {
            spsh_augment_draw draw = {.speed_percent = 100, .has_noise = true, .snr_db = snr};
            spsh_augment_input input = all_sounds(20000, 7000, 0);
            input.noise_start = start;
            REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
            CHECK_U64(spsh_augmenter_clipped_count(augmenter), 0);
            double added = 0, product = 0, used = 0;
            for (size_t k = 0; k < 20000; k++) {
                const double difference = out[k] - speech[k];
                const double n = noise[(start + k) % 7000];
                added += difference * difference, product += difference * n, used += n * n;
            }
            const double measured = 10 * log10(mean_power(speech, 20000) / (added / 20000));
            CHECK(fabs(measured - (double)snr) < 0.01);
            CHECK(product / sqrt(added * used) > 0.99999); /* the noise from `start` on */
        }
    }
    spsh_augmenter_close(augmenter);
}

/* Without speech or noise there is no ratio: nothing is added, and nothing is divided by 0. */
static void test_silence(void)
{
    spsh_augmenter *augmenter = opened("speeds=0.9:1");
    for (int kind = 0; kind < 3; kind++) {
        spsh_augment_draw draw = {.speed_percent = 100,
                                  .has_noise = true,
                                  .has_room = true,
                                  .has_gain = true,
                                  .snr_db = -60};
        spsh_augment_input input = all_sounds(5000, 100, 50);
        make_noise(speech, 5000, 1, kind == 0 ? 0 : 9000);
        make_noise(noise, 100, 2, kind == 1 ? 0 : 9000);
        make_noise(room, 50, 3, 0);
        draw.has_noise = kind != 2;
        REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
        CHECK(memcmp(out, speech, 5000 * sizeof(*out)) == 0);
    }
    spsh_augmenter_close(augmenter);
}

/* ---- rooms ---- */

static void test_delta_is_identity(void)
{
    spsh_augmenter *augmenter = opened("none");
    const spsh_augment_draw draw = {.speed_percent = 100, .has_room = true};
    make_noise(speech, COUNT_MAX, 4, 32767);
    static const uint64_t places[] = {0, 1, 5, 999};
    for (size_t i = 0; i < 4; i++) {
        for (uint64_t count = 1; count <= COUNT_MAX; count = count * 7 + 1) {
            const spsh_augment_input input = all_sounds(count, 0, places[i] + 1 + i * 100);
            memset(room, 0, sizeof(room));
            room[places[i]] = (int16_t)(i % 2 == 0 ? 30000 : 1);
            REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
            CHECK(memcmp(out, speech, count * sizeof(*out)) == 0);
        }
    }
    spsh_augmenter_close(augmenter);
}

/* One loud sample produces the response, with its strongest sample at that position. */
static void test_impulse_gives_response(void)
{
    enum { RESPONSE = 700, STRONGEST = 33, AT = 2000, ALL = 5000 };
    spsh_augmenter *augmenter = opened("none");
    const spsh_augment_draw draw = {.speed_percent = 100, .has_room = true};
    const spsh_augment_input input = all_sounds(ALL, 0, RESPONSE);
    make_noise(room, RESPONSE, 8, 9000);
    room[STRONGEST] = -20000;
    memset(speech, 0, sizeof(speech));
    speech[AT] = 32767;
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
    double sum = 0;
    for (int k = 0; k < RESPONSE; k++)
        sum += (double)room[k] * room[k];
    const double level = 32767 / sqrt(sum);
    for (int n = 0; n < ALL; n++) {
        const int k = n - AT + STRONGEST;
        const double wanted = k >= 0 && k < RESPONSE ? room[k] * level : 0;
        CHECK(fabs(out[n] - wanted) < 0.51);
    }
    spsh_augmenter_close(augmenter);
}

/* Speech and responses of all sizes, compared with a direct sum. The level is preserved. */
static void check_convolution(spsh_augmenter *augmenter, int count, int response, uint64_t seed)
{
    static double wet[6000];
    const spsh_augment_draw draw = {.speed_percent = 100, .has_room = true};
    const spsh_augment_input input = all_sounds((uint64_t)count, 0, (uint64_t)response);
    make_noise(speech, (size_t)count, seed, 3000);
    make_noise(room, (size_t)response, seed + 1, 9000);
    const int strongest = (int)(seed % (uint64_t)response);
    room[strongest] = -9001;
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
    double before = 0, after = 0;
    for (int n = 0; n < count; n++) {
        wet[n] = 0;
        for (int k = 0; k < response; k++)
            if (n + strongest - k >= 0 && n + strongest - k < count)
                wet[n] += (double)room[k] * speech[n + strongest - k];
        before += (double)speech[n] * speech[n];
        after += wet[n] * wet[n];
    }
    const double level = sqrt(before / after);
    for (int n = 0; n < count; n++)
        CHECK(fabs(out[n] - fmin(fmax(wet[n] * level, -32768), 32767)) < 0.51);
    CHECK(before < 100 || fabs(mean_power(out, (size_t)count) * count / before - 1) < 0.001);
}

static void test_convolution(void)
{
    spsh_augmenter *augmenter = opened("none");
    static const int counts[] = {1, 2, 3, 100, 1000, 5999};
    static const int responses[] = {1, 2, 7, 64, 65, 500, 2047, 3000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (size_t k = 0; k < sizeof(responses) / sizeof(responses[0]); k++)
            check_convolution(augmenter, counts[i], responses[k], 100 * i + k + 17);
    spsh_augmenter_close(augmenter);
}

/* ---- gain ---- */

static void test_gain(void)
{
    spsh_augmenter *augmenter = opened("none");
    const spsh_augment_input input = all_sounds(4, 0, 0);
    memcpy(speech, ((int16_t[]){1000, -20000, 16384, -1}), 4 * sizeof(int16_t));
    spsh_augment_draw draw = {.speed_percent = 100, .has_gain = true, .gain_db = 6.0205999F};
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
    CHECK(out[0] == 2000 && out[1] == -32768 && out[2] == 32767 && out[3] == -2);
    CHECK_U64(spsh_augmenter_clipped_count(augmenter), 2); /* 16384 * 2 is 32768 */
    for (int step = -160; step <= 160; step++) {
        const float db = (float)step * 0.37F;
        speech[0] = db < 0 ? 32000 : 30;
        draw.gain_db = db;
        REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
        const double wanted = fmin(32767, speech[0] * pow(10, (double)db / 20));
        CHECK(fabs(out[0] - wanted) < 0.502);
    }
    draw.has_gain = false;
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
    CHECK(memcmp(out, speech, 4 * sizeof(*out)) == 0);
    CHECK_U64(spsh_augmenter_clipped_count(augmenter), 0);
    spsh_augmenter_close(augmenter);
}

/* ---- instruction sets ---- */

static const char *const isa_names[] = {"scalar", "sse2", "neon", "avx2"};

/* To nearest, ties to even; larger values are clipped and counted. */
static void test_rounding(void)
{
    static const float x[] = {0.5F,      1.5F,      2.5F,      -0.5F,     -1.5F, -2.5F,
                              32767.4F,  32767.5F,  -32768.5F, -32768.6F, 1e30F, -1e30F,
                              0.499999F, -0.50001F, 0,         -0.0F,     7,     -7};
    static const int16_t wanted[] = {0,      2,     2,      0, -2, -2, 32767, 32767, -32768,
                                     -32768, 32767, -32768, 0, -1, 0,  0,     7,     -7};
    enum { ALL = sizeof(x) / sizeof(x[0]) };
    for (size_t i = 0; i < 4; i++) {
        const spsh__augment_isa *isa = spsh__augment_isa_named(isa_names[i]);
        int16_t got[ALL];
        if (isa == NULL)
            continue;
        CHECK_U64(isa->to_i16_fn(x, ALL, 1, got), 4); /* -32768.5 is -32768 */
        for (size_t k = 0; k < ALL; k++)
            CHECK_I64(got[k], wanted[k]);
    }
    CHECK(spsh__augment_isa_named("none") == NULL);
}

/* All augmentations at once, at random: every instruction set gives identical bits, and no input
 * exceeds the range of int16. */
static void test_same_bits(void)
{
    static int16_t plain[2 * COUNT_MAX];
    uint64_t state = test_seed(20);
    const char *const text =
        "speeds=0.5:0.83:0.9:1:1.1:1.27:2,noise_probability=0.6,noise_snr_db_min=-60,"
        "noise_snr_db_max=40,room_probability=0.6,gain_probability=0.5,gain_db_min=-20,"
        "gain_db_max=60";
    spsh_augmenter *augmenter = opened(text);
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    REQUIRE(spsh_augment_options_parse(text, &options, NULL) == SPSH_OK);
    make_noise(speech, 5000, 1, 32767);
    make_noise(noise, 5000, 2, 20000);
    make_noise(room, ROOM_MAX, 3, 32767);
    for (int round = 0; round < 60; round++) {
        spsh_augment_draw draw;
        spsh_augment_input input =
            all_sounds(test_random(&state) % 5000, 1 + test_random(&state) % 5000,
                       1 + test_random(&state) % ROOM_MAX);
        input.noise_start = test_random(&state) % input.noise_count;
        spsh_augment_draw_make(&options, 1, 2, (uint64_t)round, &draw);
        const uint64_t count = spsh_augment_sample_count(&draw, input.sample_count);
        augmenter->isa = spsh__augment_scalar();
        REQUIRE(spsh_augment_samples(augmenter, &draw, &input, plain, NULL) == SPSH_OK);
        const uint64_t clipped_count = spsh_augmenter_clipped_count(augmenter);
        for (size_t i = 1; i < 4; i++) {
            augmenter->isa = spsh__augment_isa_named(isa_names[i]);
            if (augmenter->isa == NULL)
                continue;
            memset(out, 0x5a, sizeof(out));
            REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
            CHECK(memcmp(out, plain, count * sizeof(*out)) == 0);
            CHECK_I64(out[count], 0x5a5a);
            CHECK_U64(spsh_augmenter_clipped_count(augmenter), clipped_count);
        }
    }
    spsh_augmenter_close(augmenter);
}

/* Neither earlier calls nor the augmenter's maximum sizes change a bit. */
static void test_no_memory_of_the_past(void)
{
    static int16_t first[2 * COUNT_MAX];
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augmenter *small = NULL;
    spsh_augmenter *large = opened("speeds=1.1:0.9:0.5");
    REQUIRE(spsh_augment_options_parse("speeds=0.9", &options, NULL) == SPSH_OK);
    REQUIRE(spsh_augmenter_open(&options, 1000, 77, NULL, &small, NULL) == SPSH_OK);
    make_noise(speech, COUNT_MAX, 1, 20000);
    make_noise(room, ROOM_MAX, 2, 20000);
    const spsh_augment_draw draw = {.speed_percent = 90, .has_room = true};
    const spsh_augment_draw other = {.speed_percent = 110, .has_room = true};
    const spsh_augment_input input = all_sounds(1000, 0, 77);
    const spsh_augment_input long_input = all_sounds(COUNT_MAX, 0, ROOM_MAX);
    REQUIRE(spsh_augment_samples(small, &draw, &input, first, NULL) == SPSH_OK);
    REQUIRE(spsh_augment_samples(large, &other, &long_input, out, NULL) == SPSH_OK);
    REQUIRE(spsh_augment_samples(large, &draw, &input, out, NULL) == SPSH_OK);
    CHECK(memcmp(first, out, 1112 * sizeof(*out)) == 0);
    spsh_augmenter_close(small);
    spsh_augmenter_close(large);
}

/* ---- rejected inputs ---- */

static void check_refused(const spsh_augment_draw *draw, const spsh_augment_input *input,
                          const char *part)
{
    spsh_augmenter *augmenter = opened("speeds=0.9:1");
    spsh_error err = SPSH_ERROR_INIT;
    out[0] = 4711;
    CHECK_I64(spsh_augment_samples(augmenter, draw, input, out, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, part) != NULL);
    CHECK_I64(out[0], 4711);
    spsh_augmenter_close(augmenter);
}

static void test_refused(void)
{
    const spsh_augment_input good = all_sounds(100, 10, 10);
    spsh_augment_draw draw = {.speed_percent = 110};
    spsh_augment_input input = good;
    check_refused(&draw, &input, "speed of 110 %");
    draw.speed_percent = 100;
    input.sample_count = COUNT_MAX + 1;
    check_refused(&draw, &input, "samples");
    input = good;
    draw.has_noise = true;
    input.noise_start = 10;
    check_refused(&draw, &input, "noise");
    input.noise_start = 0;
    input.noise = NULL;
    check_refused(&draw, &input, "noise");
    input = good;
    input.noise_count = 0;
    check_refused(&draw, &input, "noise");
    draw.has_noise = false;
    draw.has_room = true;
    input.room_count = 0;
    check_refused(&draw, &input, "room");
    input.room_count = ROOM_MAX + 1;
    check_refused(&draw, &input, "room");
    input = good;
    input.room = NULL;
    check_refused(&draw, &input, "room");
}

static void test_open_refused(void)
{
    spsh_augmenter *augmenter = NULL;
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    CHECK_I64(spsh_augmenter_open(&options, UINT64_MAX, 0, NULL, &augmenter, NULL),
              SPSH_E_INVALID_ARG);
    CHECK_I64(
        spsh_augmenter_open(&options, 1, SPSH_AUGMENT_ROOM_SAMPLES_MAX + 1, NULL, &augmenter, NULL),
        SPSH_E_INVALID_ARG);
    options.gain_probability = 2;
    CHECK_I64(spsh_augmenter_open(&options, 1, 0, NULL, &augmenter, NULL), SPSH_E_INVALID_ARG);
    CHECK(augmenter == NULL);
    spsh_augmenter_close(NULL);
}

TEST_MAIN(unit_augment_samples)
{
    RUN(test_tones);
    RUN(test_nothing_folds_back);
    RUN(test_lengths);
    RUN(test_noise);
    RUN(test_silence);
    RUN(test_delta_is_identity);
    RUN(test_impulse_gives_response);
    RUN(test_convolution);
    RUN(test_gain);
    RUN(test_rounding);
    RUN(test_same_bits);
    RUN(test_no_memory_of_the_past);
    RUN(test_refused);
    RUN(test_open_refused);
    return TEST_RESULT();
}

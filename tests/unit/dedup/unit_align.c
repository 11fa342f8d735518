/* unit_align.c: copies, parts, drifts, and pairs that only resemble copies, of generated speech.
 * unit_align_data.c has real takes of the same words by the same voice. */
#include <math.h>

#include "fingerprint/align.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 16000, SECOND = RATE };
static const spsh__align_limits *const limits = &spsh__align_limits_default;

static int16_t *speech(uint64_t seed, size_t count)
{
    int16_t *samples = calloc(count + 1, sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(SIGNAL_SPEECH, RATE, seed, samples, count);
    return samples;
}

static spsh__print listen(const int16_t *samples, size_t count)
{
    spsh__print print = {0};
    REQUIRE(spsh__print_make(RATE, samples, count, &print, NULL) == SPSH_OK);
    return print;
}

static spsh__alignment compare(const int16_t *a, size_t a_count, const int16_t *b, size_t b_count)
{
    spsh__print left = listen(a, a_count);
    spsh__print right = listen(b, b_count);
    spsh__alignment found = {0};
    int64_t offset = 0;
    if (spsh__align_search(&left, &right, limits, &offset))
        REQUIRE(spsh__align(&left, &right, offset, limits, &found, NULL) == SPSH_OK);
    spsh__print_free(&left);
    spsh__print_free(&right);
    return found;
}

static void check_kind(spsh_copy_class got, spsh_copy_class want)
{
    CHECK_STR(spsh_copy_class_text(got), spsh_copy_class_text(want));
}

static void test_identical(void)
{
    int16_t *a = speech(1, 4 * SECOND);
    spsh__alignment found = compare(a, 4 * SECOND, a, 4 * SECOND);
    check_kind(found.kind, SPSH_COPY_SAME_RECORDING);
    CHECK(found.ber == 0 && found.ncc > 0.999 && found.ncc < 1.001);
    CHECK(fabs(found.lag) < 0.01 && !found.is_inverted);
    CHECK(found.coverage_a > 0.999 && found.coverage_b > 0.999);
    CHECK_U64(found.a_first + found.b_first, 0);
    free(a);
}

/* Copies cut at odd positions. Gain, polarity, and noise may differ. Lags are within 0.1 ms. */
static void test_contained_with_offset(void)
{
    static const size_t starts[] = {0, 1, 777, 12345, 31999, 40007};
    uint64_t seed = test_seed(3);
    int16_t *a = speech(2, 6 * SECOND);
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        const size_t count = SECOND * 3 / 2;
        int16_t *b = calloc(count, sizeof(*b));
        REQUIRE(b != NULL);
        for (size_t k = 0; k < count; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            b[k] = (int16_t)(-a[starts[i] + k] / 3 + (int32_t)(seed >> 60) - 8);
        }
        spsh__alignment found = compare(b, count, a, 6 * SECOND);
        check_kind(found.kind, SPSH_COPY_CONTAINED);
        CHECK(fabs(found.lag / 8000 - (double)starts[i] / RATE) < 1e-4);
        CHECK(found.is_inverted && found.ncc < -0.98 && found.coverage_a > 0.99);
        found = compare(a, 6 * SECOND, b, count);
        check_kind(found.kind, SPSH_COPY_CONTAINED);
        CHECK(fabs(found.lag / 8000 + (double)starts[i] / RATE) < 1e-4);
        free(b);
    }
    free(a);
}

/* Two clips share only the jingle before their speech. The match has its times. */
static void test_jingle_is_shared(void)
{
    const size_t jingle = 2 * SECOND;
    const size_t count = 7 * SECOND;
    int16_t *a = speech(4, count);
    int16_t *b = speech(5, count);
    memcpy(b + SECOND, a + 3 * SECOND, jingle * sizeof(*a));
    spsh__alignment found = compare(a, count, b, count);
    check_kind(found.kind, SPSH_COPY_SHARED_SEGMENT);
    CHECK(fabs(found.lag / 8000 + 2) < 1e-4);
    CHECK(fabs((double)found.a_first / 8000 - 3) < 0.2);
    CHECK(fabs((double)found.count / 8000 - 2) < 0.35);
    free(a);
    free(b);
}

static void test_different_speech(void)
{
    for (uint64_t seed = 10; seed < 40; seed++) {
        int16_t *a = speech(seed, 3 * SECOND);
        int16_t *b = speech(seed + 100, 3 * SECOND);
        spsh__alignment found = compare(a, 3 * SECOND, b, 3 * SECOND);
        CHECK(found.kind == SPSH_COPY_NONE || found.kind == SPSH_COPY_REREAD);
        free(a);
        free(b);
    }
}

/* b is a at another speed, made by interpolation. */
static void test_speed_is_undone(void)
{
    static const double speeds[] = {0.99, 0.998, 1.002, 1.01};
    const size_t count = 5 * SECOND;
    int16_t *a = speech(6, count);
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        const size_t b_count = (size_t)((double)(count - 2) / speeds[i]);
        int16_t *b = calloc(b_count, sizeof(*b));
        REQUIRE(b != NULL);
        for (size_t k = 0; k < b_count; k++) {
            const double place = (double)k * speeds[i];
            const double part = place - floor(place);
            const size_t at = (size_t)place;
            b[k] = (int16_t)lrint(a[at] * (1 - part) + a[at + 1] * part);
        }
        spsh__alignment found = compare(a, count, b, b_count);
        check_kind(found.kind, SPSH_COPY_TIME_SCALED);
        CHECK(fabs(found.unscaled.ncc) > 0.9);
        CHECK(fabs(found.drift.slope_ppm - (1 / speeds[i] - 1) * 1e6) < 300);
        free(b);
    }
    free(a);
}

/* Audio that is not speech is not a copy, not even of itself; the comparison ends quickly. */
static void test_not_speech(void)
{
    static const signal_kind kinds[] = {SIGNAL_SILENCE, SIGNAL_TONE, SIGNAL_DTMF, SIGNAL_HISS};
    const size_t count = 3 * SECOND;
    int16_t *a = calloc(count, sizeof(*a));
    int16_t *b = calloc(count, sizeof(*b));
    REQUIRE(a != NULL && b != NULL);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            make_signal(kinds[i], RATE, 1, a, count);
            make_signal(kinds[k], RATE, 2, b, count);
            check_kind(compare(a, count, b, count).kind, SPSH_COPY_NONE);
            for (size_t n = 0; n < count; n++) /* nor with a click at its start */
                b[n] = (int16_t)(n < 50 ? 20000 : b[n] / 2);
            check_kind(compare(a, count, b, count).kind, SPSH_COPY_NONE);
        }
    }
    free(a);
    free(b);
}

/* From nothing to half a second of speech: no verdict. */
static void test_too_short(void)
{
    static const size_t counts[] = {0, 1, 100, 4000, 7000};
    int16_t *a = speech(7, 2 * SECOND);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_kind(compare(a, counts[i], a, 2 * SECOND).kind, SPSH_COPY_NONE);
        check_kind(compare(a, counts[i], a, counts[i]).kind, SPSH_COPY_NONE);
    }
    /* Also with offsets that no key would propose. */
    spsh__print print = listen(a, 2 * SECOND);
    spsh__print empty = {0};
    static const int64_t offsets[] = {0, 5, -5, 100000, -100000};
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        spsh__alignment found = {0};
        REQUIRE(spsh__align(&print, &empty, offsets[i], limits, &found, NULL) == SPSH_OK);
        check_kind(found.kind, SPSH_COPY_NONE);
        REQUIRE(spsh__align(&empty, &print, offsets[i], limits, &found, NULL) == SPSH_OK);
        check_kind(found.kind, SPSH_COPY_NONE);
    }
    spsh__print_free(&print);
    free(a);
}

/* Two minutes: waveforms are compared in the middle, the rest by bits. */
static void test_long(void)
{
    const size_t count = 120 * SECOND;
    int16_t *a = speech(8, count);
    spsh__alignment found = compare(a, count, a + 12345, count - 12345);
    check_kind(found.kind, SPSH_COPY_SAME_RECORDING);
    CHECK(fabs(found.lag / 8000 + 12345.0 / RATE) < 1e-4);
    free(a);
}

TEST_MAIN(unit_align)
{
    RUN(test_identical);
    RUN(test_contained_with_offset);
    RUN(test_jingle_is_shared);
    RUN(test_different_speech);
    RUN(test_speed_is_undone);
    RUN(test_not_speech);
    RUN(test_too_short);
    RUN(test_long);
    return TEST_RESULT();
}

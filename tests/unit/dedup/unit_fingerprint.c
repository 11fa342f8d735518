/* unit_fingerprint.c: lengths, rates, pieces, and signals that are not speech. golden_fingerprint
 * checks the bits themselves. */
#include <math.h>

#include "fingerprint/fingerprint.h"
#include "fingerprint/resample8k.h"
#include "print_signals.h"
#include "spsh_test.h"

static const uint32_t rates[] = {8000,  8001,  9600,  11025, 12000, 12345, 16000, 22050,
                                 24000, 32000, 44100, 47999, 48000, 88200, 192000};
enum { RATE_COUNT = sizeof(rates) / sizeof(rates[0]) };

static spsh__print make_print(uint32_t rate_hz, const int16_t *samples, size_t count)
{
    spsh__print print = {0};
    spsh__fingerprint *maker = NULL;
    REQUIRE(spsh__fingerprint_new(rate_hz, spsh__print_collect(&print), &maker, NULL) == SPSH_OK);
    REQUIRE(spsh__fingerprint_push(maker, samples, count, NULL) == SPSH_OK);
    REQUIRE(spsh__fingerprint_finish(maker, NULL) == SPSH_OK);
    spsh__fingerprint_free(maker);
    return print;
}

static spsh__print print_of(signal_kind kind, uint32_t rate_hz, uint64_t seed, size_t count)
{
    int16_t *samples = malloc((count + 1) * sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(kind, rate_hz, seed, samples, count);
    spsh__print print = make_print(rate_hz, samples, count);
    free(samples);
    return print;
}

static bool is_same(const spsh__print *a, const spsh__print *b)
{
    bool is_good = a->frame_count == b->frame_count && a->key_count == b->key_count;
    for (size_t i = 0; is_good && i < a->frame_count; i++)
        is_good = a->frames[i].word == b->frames[i].word &&
                  a->frames[i].level == b->frames[i].level &&
                  a->frames[i].is_active == b->frames[i].is_active;
    for (size_t i = 0; is_good && i < a->key_count; i++)
        is_good = a->keys[i].bits == b->keys[i].bits && a->keys[i].frame == b->keys[i].frame &&
                  memcmp(a->keys[i].weak, b->keys[i].weak, SPSH__KEY_WEAK_MAX) == 0;
    return is_good;
}

static size_t active_count(const spsh__print *print)
{
    size_t count = 0;
    for (size_t i = 0; i < print->frame_count; i++)
        count += print->frames[i].is_active;
    return count;
}

static void test_rates_outside_are_refused(void)
{
    static const uint32_t bad[] = {0, 1, 7999, 192001, UINT32_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        spsh__fingerprint *maker = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        CHECK_I64(spsh__fingerprint_new(bad[i], (spsh__print_sink){0}, &maker, &err),
                  SPSH_E_INVALID_ARG);
        CHECK(maker == NULL && err.status == SPSH_E_INVALID_ARG);
    }
}

/* A frame is returned once its last sample has arrived, not before. */
static void test_lengths(void)
{
    static const struct {
        size_t samples, frames;
    } rows[] = {
        {0,    0 },
        {1,    0 },
        {1023, 0 },
        {1024, 0 },
        {2047, 0 },
        {2048, 1 },
        {2175, 1 },
        {2176, 2 },
        {4096, 17},
        {8000, 47},
        {9000, 55}
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh__print print = print_of(SIGNAL_SPEECH, 8000, 1, rows[i].samples);
        CHECK_U64(print.frame_count, rows[i].frames);
        spsh__print_free(&print);
    }
    for (size_t i = 0; i < RATE_COUNT; i++) {
        for (size_t count = 0; count < 3; count++) {
            spsh__print print = print_of(SIGNAL_NOISE, rates[i], 1, count);
            CHECK_U64(print.frame_count + print.key_count, 0);
            spsh__print_free(&print);
        }
    }
}

/* The sizes of the pieces do not matter. After an end, the object is like a new one. */
static void test_pieces(void)
{
    uint64_t seed = test_seed(5);
    for (size_t i = 0; i < RATE_COUNT; i++) {
        const size_t count = rates[i] * 5 / 2 + 77;
        int16_t *samples = malloc(count * sizeof(*samples));
        REQUIRE(samples != NULL);
        make_signal(SIGNAL_SPEECH, rates[i], 3, samples, count);
        spsh__print whole = make_print(rates[i], samples, count);
        spsh__print pieces = {0};
        spsh__fingerprint *maker = NULL;
        REQUIRE(spsh__fingerprint_new(rates[i], spsh__print_collect(&pieces), &maker, NULL) ==
                SPSH_OK);
        for (int round = 0; round < 2; round++) {
            for (size_t done = 0; done < count;) {
                seed = seed * UINT64_C(6364136223846793005) + 1;
                size_t piece = round == 0 ? (seed >> 33) % 5000 : (seed >> 33) % 40;
                piece = piece > count - done ? count - done : piece;
                REQUIRE(spsh__fingerprint_push(maker, samples + done, piece, NULL) == SPSH_OK);
                done += piece;
            }
            REQUIRE(spsh__fingerprint_finish(maker, NULL) == SPSH_OK);
            CHECK(whole.key_count > 0 && is_same(&whole, &pieces));
            pieces.frame_count = 0;
            pieces.key_count = 0;
        }
        spsh__fingerprint_free(maker);
        spsh__print_free(&whole);
        spsh__print_free(&pieces);
        free(samples);
    }
}

/* The frames and dense keys of a signal. */
typedef struct dense_list {
    spsh__print print;
    spsh__dense_key keys[4096];
    size_t count;
} dense_list;

static spsh_status take_frames(void *user, uint64_t first, const spsh__print_frame *frames,
                               size_t count, spsh_error *err)
{
    dense_list *list = user;
    const spsh__print_sink sink = spsh__print_collect(&list->print);
    return sink.frames_fn(sink.user, first, frames, count, err);
}

static spsh_status take_dense(void *user, const spsh__dense_key *key, spsh_error *err)
{
    dense_list *list = user;
    (void)err;
    REQUIRE(list->count < 4096);
    list->keys[list->count++] = *key;
    return SPSH_OK;
}

/* One key at each active frame with a complete key, including the stored keys. The weak positions
 * of the upper 32 bits continue after the weak positions of the stored key. */
static void test_dense_keys(void)
{
    enum { RATE = 16000, COUNT = 30 * RATE, GAP = 20 };
    static int16_t samples[COUNT];
    static dense_list list;
    const spsh__print_sink sink = {.frames_fn = take_frames, .dense_fn = take_dense, .user = &list};
    spsh__fingerprint *maker = NULL;
    size_t at = 0;

    make_signal(SIGNAL_SPEECH, RATE, 5, samples, COUNT);
    spsh__print want = make_print(RATE, samples, COUNT);
    REQUIRE(spsh__fingerprint_new(RATE, sink, &maker, NULL) == SPSH_OK);
    for (size_t done = 0; done < COUNT; done += 1000)
        REQUIRE(spsh__fingerprint_push(maker, samples + done, 1000, NULL) == SPSH_OK);
    REQUIRE(spsh__fingerprint_finish(maker, NULL) == SPSH_OK);
    spsh__fingerprint_free(maker);

    for (uint64_t frame = 4; frame + GAP + 4 < want.frame_count; frame++) {
        if (!want.frames[frame].is_active)
            continue;
        REQUIRE(at < list.count);
        CHECK_U64(list.keys[at].frame, frame);
        for (size_t i = 0; i < SPSH__DENSE_WEAK; i++)
            CHECK(list.keys[at].weak[i] >= 16 && list.keys[at].weak[i] < SPSH__KEY_BITS);
        at++;
    }
    CHECK(at > 800 && list.count - at <= 8); /* near the end of the wide frames */
    CHECK(want.key_count > 50);
    for (size_t k = 0; k < want.key_count; k++) {
        size_t i = 0;
        while (i < list.count && list.keys[i].frame != want.keys[k].frame)
            i++;
        REQUIRE(i < list.count);
        CHECK_U64(list.keys[i].bits, want.keys[k].bits);
        size_t upper = 0;
        for (size_t w = 0; w < SPSH__KEY_WEAK_MAX; w++)
            if (want.keys[k].weak[w] >= 16)
                CHECK_U64(list.keys[i].weak[upper++], want.keys[k].weak[w]);
    }
    spsh__print_free(&list.print);
    spsh__print_free(&want);
}

/* Equal neighbors give bit 0. Silence is not active, and has no keys. */
static void test_silence(void)
{
    for (size_t i = 0; i < RATE_COUNT; i++) {
        spsh__print print = print_of(SIGNAL_SILENCE, rates[i], 1, rates[i] * 2);
        CHECK(print.frame_count > 100);
        for (size_t k = 0; k < print.frame_count; k++)
            CHECK(print.frames[k].word == 0 && print.frames[k].level == 0);
        CHECK_U64(active_count(&print) + print.key_count, 0);
        spsh__print_free(&print);
    }
    spsh__print hiss = print_of(SIGNAL_HISS, 16000, 1, 48000);
    CHECK_U64(active_count(&hiss) + hiss.key_count, 0);
    spsh__print_free(&hiss);
}

/* Keys cannot be closer than four frames, whatever is played. */
static void test_key_rate_is_bounded(void)
{
    for (signal_kind kind = SIGNAL_SILENCE; kind <= SIGNAL_CLIPPED; kind++) {
        spsh__print print = print_of(kind, 8000, 1, 160000);
        for (size_t i = 1; i < print.key_count; i++)
            CHECK(print.keys[i].frame >= print.keys[i - 1].frame + 4);
        spsh__print_free(&print);
    }
}

/* A loud click does not hide speech ten seconds away. */
static void test_activity_is_local(void)
{
    enum { COUNT = 8000 * 60 };
    int16_t *samples = malloc(COUNT * sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(SIGNAL_SPEECH, 8000, 1, samples, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        samples[i] = (int16_t)(samples[i] / 128);
    make_signal(SIGNAL_NOISE, 8000, 1, samples, 4000);
    spsh__print print = make_print(8000, samples, COUNT);
    size_t near = 0;
    size_t far = 0;
    for (size_t i = 64; i < 512; i++)
        near += print.frames[i].is_active;
    for (size_t i = 640; i < 1088; i++)
        far += print.frames[i].is_active;
    CHECK_U64(near, 0);
    CHECK(far > 200);
    spsh__print_free(&print);
    free(samples);
}

/* Speech at any rate gives nearly the same bits: fewer than 8 % differ. */
static void test_rates_agree(void)
{
    enum { SECONDS = 4, HIGH_HZ = 192000 };
    static const uint32_t parts[] = {2, 3, 4, 6, 8, 12, 24};
    int16_t *samples = malloc(SECONDS * HIGH_HZ * sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(SIGNAL_SPEECH, HIGH_HZ, 9, samples, SECONDS * HIGH_HZ);
    /* A running mean removes frequencies that decimation would alias into the bands. */
    for (size_t i = 0; i + 24 < SECONDS * HIGH_HZ; i++) {
        int32_t sum = 0;
        for (size_t k = 0; k < 24; k++)
            sum += samples[i + k];
        samples[i] = (int16_t)(sum / 24);
    }
    spsh__print want = make_print(HIGH_HZ, samples, SECONDS * HIGH_HZ);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const size_t count = SECONDS * HIGH_HZ / parts[i];
        int16_t *lower = malloc(count * sizeof(*lower));
        REQUIRE(lower != NULL);
        for (size_t k = 0; k < count; k++)
            lower[k] = samples[k * parts[i]];
        spsh__print print = make_print(HIGH_HZ / parts[i], lower, count);
        uint64_t wrong = 0;
        CHECK_U64(print.frame_count, want.frame_count);
        for (size_t k = 0; k < print.frame_count; k++)
            wrong += (uint64_t)__builtin_popcount(print.frames[k].word ^ want.frames[k].word);
        CHECK(wrong * 100 < 32 * print.frame_count * 8);
        spsh__print_free(&print);
        free(lower);
    }
    spsh__print_free(&want);
    free(samples);
}

typedef struct tally {
    uint64_t frames;
    uint64_t fail_at;
} tally;

static spsh_status count_frames(void *user, uint64_t first, const spsh__print_frame *frames,
                                size_t count, spsh_error *err)
{
    tally *sum = user;
    (void)frames;
    CHECK_U64(first, sum->frames);
    sum->frames += count;
    if (sum->frames < sum->fail_at)
        return SPSH_OK;
    spsh_error_set(err, SPSH_E_IO, 0, SPSH_OFFSET_NONE, "full");
    return SPSH_E_IO;
}

/* Half an hour is processed without being kept. An error from the sink ends the push. */
static void test_stream(void)
{
    enum { COUNT = 8000 * 60 };
    int16_t *samples = malloc(COUNT * sizeof(*samples));
    REQUIRE(samples != NULL);
    make_signal(SIGNAL_SPEECH, 8000, 1, samples, COUNT);
    for (int failing = 0; failing < 2; failing++) {
        tally sum = {.fail_at = failing ? 10000 : UINT64_MAX};
        spsh__fingerprint *maker = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = spsh__fingerprint_new(
            8000, (spsh__print_sink){.frames_fn = count_frames, .user = &sum}, &maker, &err);
        for (int minute = 0; rc == SPSH_OK && minute < 30; minute++)
            rc = spsh__fingerprint_push(maker, samples, COUNT, &err);
        if (rc == SPSH_OK)
            rc = spsh__fingerprint_finish(maker, &err);
        CHECK_I64(rc, failing ? SPSH_E_IO : SPSH_OK);
        CHECK_U64(failing ? 0 : sum.frames, failing ? 0 : (30 * COUNT - 2048) / 128 + 1);
        spsh__fingerprint_free(maker);
    }
    free(samples);
}

/* Resample, and return the number of output samples. */
static size_t resample(uint32_t rate_hz, const int16_t *samples, size_t count, int32_t *out)
{
    spsh__resample8k *resampler = NULL;
    size_t made = 0;
    REQUIRE(spsh__resample8k_new(rate_hz, &resampler, NULL) == SPSH_OK);
    for (size_t done = 0; done < count;) {
        size_t piece = count - done < SPSH__RESAMPLE_IN_MAX ? count - done : SPSH__RESAMPLE_IN_MAX;
        made += spsh__resample8k_push(resampler, samples + done, piece, out + made);
        done += piece;
    }
    made += spsh__resample8k_finish(resampler, out + made);
    spsh__resample8k_free(resampler);
    return made;
}

/* A constant stays constant. Full-scale swings at any phase stay within the range of 32 bits. */
static void test_resampled_constant(void)
{
    for (size_t i = 0; i < RATE_COUNT; i++) {
        const size_t count = rates[i] / 2;
        int16_t *samples = malloc(count * sizeof(*samples));
        int32_t *out = malloc((count + SPSH__RESAMPLE_OUT_MAX) * sizeof(*out));
        REQUIRE(samples != NULL && out != NULL);
        for (size_t k = 0; k < count; k++)
            samples[k] = INT16_MIN;
        const size_t made = resample(rates[i], samples, count, out);
        CHECK_U64(made, ((uint64_t)count * 8000 + rates[i] - 1) / rates[i]);
        for (size_t k = 20; k + 20 < made; k++)
            CHECK_I64(out[k], INT16_MIN * 16);
        for (size_t k = 0; k < count; k++) /* near the worst case: swings at 4 kHz */
            samples[k] = (k * 8000 / rates[i]) % 2 == 0 ? INT16_MAX : INT16_MIN;
        const size_t again = resample(rates[i], samples, count, out);
        for (size_t k = 0; k < again; k++)
            CHECK(out[k] < 65536 * 16 && out[k] > -65536 * 16);
        free(samples);
        free(out);
    }
}

/* Gain of a sine, in dB. */
static double gain_db(uint32_t rate_hz, double hertz)
{
    const size_t count = rate_hz;
    int16_t *samples = malloc(count * sizeof(*samples));
    int32_t *out = malloc((8000 + SPSH__RESAMPLE_OUT_MAX) * sizeof(*out));
    REQUIRE(samples != NULL && out != NULL);
    for (size_t k = 0; k < count; k++)
        samples[k] = (int16_t)lrint(16000 * sin(6.283185307179586 * hertz * (double)k / rate_hz));
    const size_t made = resample(rate_hz, samples, count, out);
    double sum = 0;
    for (size_t k = 100; k < made - 100; k++)
        sum += (double)out[k] * out[k];
    sum /= (double)(made - 200);
    free(samples);
    free(out);
    return 10 * log10(sum / (16000.0 * 16 * 16000 * 16 / 2));
}

static void test_resampled_band(void)
{
    for (size_t i = 1; i < RATE_COUNT; i++) {
        CHECK(fabs(gain_db(rates[i], 300.7)) < 0.05);
        CHECK(fabs(gain_db(rates[i], 2000.3)) < 0.05);
        CHECK(gain_db(rates[i], 3400.1) > -1);
        if (rates[i] >= 11025)
            CHECK(gain_db(rates[i], 4800.9) < -50);
        if (rates[i] >= 16000)
            CHECK(gain_db(rates[i], 7000.9) < -60);
    }
}

TEST_MAIN(unit_fingerprint)
{
    RUN(test_rates_outside_are_refused);
    RUN(test_lengths);
    RUN(test_pieces);
    RUN(test_dense_keys);
    RUN(test_silence);
    RUN(test_key_rate_is_bounded);
    RUN(test_activity_is_local);
    RUN(test_rates_agree);
    RUN(test_stream);
    RUN(test_resampled_constant);
    RUN(test_resampled_band);
    return TEST_RESULT();
}

/* prop_frames.c: random features of random signals have the same bits with every instruction set,
 * and are finite. */
#include <math.h>

#include "features/featgen_state.h"
#include "spsh_test.h"

enum { ROUNDS = 2000, SAMPLES_MAX = 12000, VALUES_MAX = 1 << 22, ISA_COUNT = 4 };
static const char *const isa_names[ISA_COUNT] = {"sse2", "neon", "avx2", "avx512"};

static int16_t pcm[SAMPLES_MAX];
static float values[SAMPLES_MAX];

static uint32_t below(uint64_t *state, uint32_t end)
{
    return (uint32_t)(test_random(state) % end);
}

static float uniform(uint64_t *state)
{
    return (float)(test_random(state) >> 40) * 0x1p-24F;
}

static bool coin(uint64_t *state)
{
    return (test_random(state) >> 20 & 1) != 0;
}

static spsh_feature_options random_features(uint64_t *state)
{
    static const uint32_t rates[] = {8000, 11025, 16000, 22050, 44100, 48000};
    spsh_feature_options f = {
        .struct_size = sizeof(f),
        .kind = (spsh_feature_kind)below(state, 3),
        .sample_rate_hz = rates[below(state, 6)],
        .window_us = coin(state) ? 25000 : 300 + below(state, 50000),
        .hop_us = coin(state) ? 10000 : 200 + below(state, 60000),
        .power_of_two = coin(state),
        .window = (spsh_feature_window)below(state, 7),
        .edges = (spsh_feature_edges)below(state, 4),
        .drop_last_frame = coin(state),
        .pad_us = coin(state) ? 0 : below(state, 500000),
        .full_scale_one = coin(state),
        .remove_dc = coin(state),
        .preemphasis = coin(state) ? 0.97F : uniform(state),
        .power = (spsh_feature_power)below(state, 2),
        .mel_scale = (spsh_mel_scale)below(state, 3),
        .mel_count = 1 + below(state, 130),
        .low_hz = 100 * uniform(state),
        .high_hz = coin(state) ? -200 * uniform(state) : 1000 + 2500 * uniform(state),
        .log = (spsh_feature_log)below(state, 4),
        .log_floor = coin(state) ? 0x1p-23F : 1e-10F,
        .cepstrum_lifter = coin(state) ? 22 : 0,
        .energy = (spsh_feature_energy)below(state, 3),
        .energy_floor = coin(state) ? 0 : uniform(state),
    };
    f.cepstrum_count = 1 + below(state, f.mel_count);
    return f;
}

/* Noise of any loudness, silence, clicks, full scale; floats with everything that is not a
 * number. */
static void random_signal(uint64_t *state)
{
    uint32_t kind = 0;
    uint32_t quiet = 0;
    for (size_t i = 0; i < SAMPLES_MAX; i++) {
        if (i % 3000 == 0) {
            kind = below(state, 5);
            quiet = below(state, 12);
        }
        const uint64_t random = test_random(state);
        const int16_t noise = (int16_t)(((int32_t)(random >> 48) - 32768) / (1 << quiet));
        const uint32_t bits = (uint32_t)random;
        pcm[i] = noise;
        if (kind == 0)
            pcm[i] = 0;
        if (kind == 1)
            pcm[i] = i % 100 == 0 ? 1 : 0;
        if (kind == 2)
            pcm[i] = i / 40 % 2 == 0 ? INT16_MAX : INT16_MIN;
        values[i] = (float)pcm[i] / 32768.0F;
        if (kind == 3)
            memcpy(&values[i], &bits, sizeof(bits));
    }
}

static void compute(spsh_featgen *featgen, const char *isa_name, const spsh_feature_input *input,
                    float *rows)
{
    spsh_featgen_worker *worker = NULL;
    featgen->isa = spsh__frames_isa_named(isa_name);
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, NULL) == SPSH_OK);
    REQUIRE(spsh_featgen_compute(worker, input, rows, NULL) == SPSH_OK);
    spsh_featgen_worker_close(worker);
}

static void check_one(const spsh_feature_options *features, const spsh_feature_input *input)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_featgen *featgen = NULL;
    if (spsh_featgen_open(features, NULL, &featgen, &err) != SPSH_OK) {
        CHECK_STR(err.message, ""); /* all drawn options are valid */
        return;
    }
    const uint64_t frames = spsh_featgen_frame_count(featgen, input->sample_count);
    const uint64_t count = frames * spsh_featgen_dim(featgen);
    float *want = malloc((count + 1) * sizeof(float));
    float *got = malloc((count + 1) * sizeof(float));
    REQUIRE(count < VALUES_MAX * UINT64_C(4) && want != NULL && got != NULL);
    compute(featgen, "scalar", input, want);
    for (uint64_t i = 0; i < count; i++)
        CHECK(isfinite(want[i]));
    for (size_t i = 0; i < ISA_COUNT; i++) {
        if (spsh__frames_isa_named(isa_names[i]) == NULL)
            continue;
        memset(got, 0xff, count * sizeof(float));
        got[count] = 1;
        compute(featgen, isa_names[i], input, got);
        CHECK(memcmp(got, want, count * sizeof(float)) == 0);
        CHECK(got[count] == 1);
    }
    free(want), free(got);
    spsh_featgen_close(featgen);
}

static void test_random_features(void)
{
    uint64_t state = test_seed(71);
    for (int round = 0; round < ROUNDS && test_failures == 0; round++) {
        if (round % 20 == 0)
            random_signal(&state);
        const spsh_feature_options features = random_features(&state);
        const uint32_t first = below(&state, SAMPLES_MAX);
        const uint32_t longest = coin(&state) ? 100 : SAMPLES_MAX;
        uint32_t count = below(&state, SAMPLES_MAX - first);
        count = count < longest ? count : longest;
        spsh_feature_input input = {.i16 = pcm + first, .sample_count = count};
        if (coin(&state))
            input = (spsh_feature_input){.f32 = values + first, .sample_count = count};
        check_one(&features, &input);
        if (test_failures != 0)
            fprintf(stderr, "round %d\n", round);
    }
}

TEST_MAIN(prop_frames)
{
    RUN(test_random_features);
    return TEST_RESULT();
}

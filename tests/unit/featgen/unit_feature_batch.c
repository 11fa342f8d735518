/* unit_feature_batch.c: norms compared with plain sums, every float16 value, and batches compared
 * with single utterances.
 */
#include <float.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "features/norm.h"
#include "spsh_test.h"

enum { SAMPLES_MAX = 24000, UTTERANCES = 37, DIM = 70, FRAMES = 41 };

static int16_t speech[SAMPLES_MAX];

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static void make_speech(void)
{
    uint32_t state = 7;
    for (int i = 0; i < SAMPLES_MAX; i++)
        speech[i] = (int16_t)(8000 * sin(i * 0.05 + 1e-5 * i * i) + noise(&state) % 2000 - 1000.0);
}

/* ---- norms ---- */

static float rows[FRAMES * DIM], normed[FRAMES * DIM];

static void make_rows(void)
{
    uint32_t state = 1;
    for (int i = 0; i < FRAMES * DIM; i++)
        rows[i] = (float)(noise(&state) % 10000) * 1e-3F + (float)(i % DIM);
}

static void apply(spsh_feature_norm norm, uint64_t frames, const spsh_feature_input *input)
{
    const spsh_feature_options options = {.norm = norm};
    memcpy(normed, rows, sizeof rows);
    spsh__norm_apply(&options, input, normed, frames, DIM);
    for (int i = (int)frames * DIM; i < FRAMES * DIM; i++)
        CHECK(normed[i] == rows[i]); /* unchanged past the end */
}

/* Mean and variance (n - lost in the denominator) of every step-th value. */
static void moments(const float *values, size_t count, size_t step, double lost, double *mean,
                    double *variance)
{
    *mean = 0;
    *variance = 0;
    for (size_t i = 0; i < count; i++)
        *mean += (double)values[i * step] / (double)count;
    for (size_t i = 0; i < count; i++)
        *variance += pow((double)values[i * step] - *mean, 2) / ((double)count - lost);
}

static void test_norms(void)
{
    double mean = 0;
    double variance = 0;
    make_rows();
    apply(SPSH_NORM_NONE, FRAMES, NULL);
    for (int i = 0; i < FRAMES * DIM; i++)
        CHECK(normed[i] == rows[i]);

    apply(SPSH_NORM_UTTERANCE, FRAMES, NULL);
    moments(rows, FRAMES * DIM, 1, 1, &mean, &variance);
    for (int i = 0; i < FRAMES * DIM; i++)
        CHECK(fabs((double)normed[i] - ((double)rows[i] - mean) / sqrt(variance)) < 1e-5);

    apply(SPSH_NORM_MEAN, FRAMES, NULL);
    for (int d = 0; d < DIM; d++) {
        moments(normed + d, FRAMES, DIM, 0, &mean, &variance);
        CHECK(fabs(mean) < 1e-5 && variance > 1);
    }
    apply(SPSH_NORM_MEAN_VARIANCE, FRAMES, NULL);
    for (int d = 0; d < DIM; d++) {
        moments(normed + d, FRAMES, DIM, 0, &mean, &variance);
        CHECK(fabs(mean) < 1e-5 && fabs(variance - 1) < 1e-4);
    }
}

static void test_norm_of_whisper(void)
{
    make_rows();
    rows[5 * DIM + 3] = 90; /* the maximum: values below 82 become 82 */
    apply(SPSH_NORM_WHISPER, FRAMES, NULL);
    for (int i = 0; i < FRAMES * DIM; i++)
        CHECK(normed[i] == ((rows[i] > 82 ? rows[i] : 82) + 4) / 4);
}

static void test_given_norm(void)
{
    float mean[DIM];
    float scale[DIM];
    make_rows();
    for (int d = 0; d < DIM; d++) {
        mean[d] = (float)d;
        scale[d] = 1.0F / (float)(d + 1);
    }
    const spsh_feature_input input = {.mean = mean, .scale = scale};
    apply(SPSH_NORM_SPEAKER, FRAMES, &input);
    for (int i = 0; i < FRAMES * DIM; i++)
        CHECK(normed[i] == (rows[i] - mean[i % DIM]) * scale[i % DIM]);
    apply(SPSH_NORM_DATASET, FRAMES - 1, &input);
}

/* With one frame, or equal frames, the deviation is 0. */
static void test_norm_without_deviation(void)
{
    static const spsh_feature_norm norms[] = {SPSH_NORM_UTTERANCE, SPSH_NORM_MEAN,
                                              SPSH_NORM_MEAN_VARIANCE};
    for (int i = 0; i < FRAMES * DIM; i++)
        rows[i] = -15.9424F;
    for (size_t n = 0; n < sizeof norms / sizeof norms[0]; n++)
        for (uint64_t frames = 0; frames < 4; frames++) {
            apply(norms[n], frames, NULL);
            for (int i = 0; i < (int)frames * DIM; i++)
                CHECK(fabsf(normed[i]) < 1e-1F);
        }
}

static void test_sums(void)
{
    double sum[DIM] = {0};
    double square_sum[DIM] = {0};
    float mean[DIM];
    float scale[DIM];
    spsh_feature_sums sums = {0, DIM, sum, square_sum};
    make_rows();
    spsh_feature_sums_norm(&sums, true, mean, scale); /* sums without frames */
    CHECK(mean[0] == 0 && isfinite(scale[0]));
    spsh_feature_sums_add(&sums, rows, 11);
    spsh_feature_sums_add(&sums, rows + 11 * DIM, FRAMES - 11);
    CHECK_U64(sums.frame_count, FRAMES);
    spsh_feature_sums_norm(&sums, true, mean, scale);
    for (int d = 0; d < DIM; d++) {
        double want = 0;
        double variance = 0;
        moments(rows + d, FRAMES, DIM, 0, &want, &variance);
        CHECK(fabs((double)mean[d] - want) < 1e-5 * fabs(want) + 1e-6);
        CHECK(fabs((double)scale[d] * sqrt(variance) - 1) < 1e-5);
    }
    spsh_feature_sums_norm(&sums, false, mean, scale);
    CHECK(scale[3] == 1);
}

/* ---- float16 values ---- */

/* Every float16 value, and values between adjacent ones. */
static void test_halves(void)
{
    for (uint32_t bits = 0; bits <= 0x7c00; bits++) {
        const uint16_t half = (uint16_t)bits;
        const uint16_t next = (uint16_t)(bits + 1);
        const uint16_t even = bits % 2 == 0 ? half : next;
        float value = 0;
        float above = 0;
        uint16_t back = 0;
        spsh_float_from_half(&value, &half, 1);
        CHECK(bits == 0x7c00 ? isinf(value)
                             : value == ldexpf((float)(bits < 0x400 ? bits : bits % 0x400 + 0x400),
                                               (int)(bits < 0x400 ? 1 : bits >> 10) - 25));
        if (bits >= 0x7bff)
            continue;
        spsh_half_from_float(&back, &value, 1);
        CHECK_U64(back, half);
        spsh_float_from_half(&above, &next, 1);
        const float middle = value + (above - value) / 2;
        const float around[] = {nextafterf(middle, 0), middle, nextafterf(middle, FLT_MAX),
                                -nextafterf(middle, FLT_MAX)};
        const uint16_t want[] = {half, even, next, (uint16_t)(next | 0x8000)};
        uint16_t got[4];
        spsh_half_from_float(got, around, 4);
        for (int i = 0; i < 4; i++)
            CHECK_U64(got[i], want[i]);
    }
    static const float extreme[] = {65519, 65520, 1e30F, -INFINITY, 1e-30F, -0.0F, NAN};
    static const uint16_t want[] = {0x7bff, 0x7bff, 0x7bff, 0xfbff, 0, 0x8000, 0x7e00};
    uint16_t got[7];
    spsh_half_from_float(got, extreme, 7);
    for (int i = 0; i < 7; i++)
        CHECK_U64(got[i], want[i]);
}

/* ---- batches ---- */

static spsh_featgen *opened(const char *text, uint32_t threads)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    spsh_featgen_options options = SPSH_FEATGEN_OPTIONS_INIT;
    options.threads = threads;
    REQUIRE(spsh_feature_options_parse(text, &features, NULL) == SPSH_OK);
    REQUIRE(spsh_featgen_open(&features, &options, &featgen, NULL) == SPSH_OK);
    return featgen;
}

static void make_inputs(spsh_feature_input *inputs)
{
    uint32_t state = 3;
    for (int u = 0; u < UTTERANCES; u++)
        inputs[u] = (spsh_feature_input){.i16 = speech + u,
                                         .sample_count = u == 5 ? 0 : noise(&state) % 16000};
}

/* Compare a batch with its utterances, computed one by one. */
static void check_batch(const char *text, uint32_t threads, bool padded, spsh_feature_dtype dtype)
{
    spsh_feature_input inputs[UTTERANCES];
    uint64_t counts[UTTERANCES];
    spsh_featgen_worker *worker = NULL;
    spsh_featgen *featgen = opened(text, threads);
    const uint32_t dim = spsh_featgen_dim(featgen);
    const size_t frames_max = padded ? 101 : 0;
    const size_t capacity = (size_t)UTTERANCES * 101 * dim;
    const size_t value_bytes = dtype == SPSH_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    uint8_t *got = malloc(capacity * value_bytes);
    uint8_t *want = malloc(101 * (size_t)dim * value_bytes);
    float *one = malloc(101 * (size_t)dim * sizeof *one);
    REQUIRE(got != NULL && want != NULL && one != NULL);
    REQUIRE(spsh_featgen_worker_open(featgen, &worker, NULL) == SPSH_OK);
    make_inputs(inputs);
    const spsh_feature_batch batch = {got, capacity, dtype, frames_max, -1.5F};
    for (int round = 0; round < 2; round++) {
        memset(got, 0xee, capacity * value_bytes);
        REQUIRE(spsh_featgen_batch(featgen, inputs, UTTERANCES, &batch, counts, NULL) == SPSH_OK);
        size_t offset = 0;
        for (int u = 0; u < UTTERANCES; u++) {
            const size_t frames = spsh_featgen_frame_count(featgen, inputs[u].sample_count);
            const size_t taken = padded ? frames_max : frames;
            CHECK_U64(counts[u], frames);
            REQUIRE(spsh_featgen_compute(worker, &inputs[u], one, NULL) == SPSH_OK);
            for (size_t i = frames * dim; i < taken * dim; i++)
                one[i] = -1.5F;
            if (dtype == SPSH_FLOAT32)
                memcpy(want, one, taken * dim * value_bytes);
            else
                spsh_half_from_float((uint16_t *)(void *)want, one, taken * dim);
            CHECK(memcmp(got + offset * value_bytes, want, taken * dim * value_bytes) == 0);
            offset += taken * dim;
        }
        CHECK(offset == capacity || got[offset * value_bytes] == 0xee);
    }
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);
    free(one);
    free(want);
    free(got);
}

static void test_batches(void)
{
    for (uint32_t threads = 1; threads <= 3; threads++)
        for (int form = 0; form < 4; form++)
            check_batch(threads == 2 ? "whisper-logmel" : "kaldi-fbank,norm=mean", threads,
                        form % 2 == 0, form < 2 ? SPSH_FLOAT32 : SPSH_FLOAT16);
}

/* A child process lacks the parent's threads: it computes the same without them, and can close. */
static void test_in_a_child(void)
{
    enum { CHILD_SECONDS = 60, COUNT = 12, VALUES = COUNT * 80 };
    static float want[VALUES], got[VALUES];
    spsh_featgen *featgen = opened("kaldi-fbank", 3);
    spsh_feature_input inputs[COUNT];
    spsh_feature_batch batch = {want, VALUES, SPSH_FLOAT32, 0, 0};
    int status = 0;
    for (size_t i = 0; i < COUNT; i++)
        inputs[i] = (spsh_feature_input){.i16 = speech + i, .sample_count = 400};
    CHECK_I64(spsh_featgen_batch(featgen, inputs, COUNT, &batch, NULL, NULL), SPSH_OK);
    (void)fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)alarm(CHILD_SECONDS);
        batch.values = got;
        CHECK_I64(spsh_featgen_batch(featgen, inputs, COUNT, &batch, NULL, NULL), SPSH_OK);
        for (size_t i = 0; i < VALUES; i++)
            CHECK(got[i] == want[i]);
        spsh_featgen_close(featgen);
        _exit(TEST_RESULT());
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_I64(spsh_featgen_batch(featgen, inputs, COUNT, &batch, NULL, NULL), SPSH_OK);
    spsh_featgen_close(featgen);
}

static void test_refused_batches(void)
{
    spsh_featgen *featgen = opened("kaldi-fbank,norm=speaker", 2);
    const float mean[80] = {0};
    float values[3 * 80];
    spsh_feature_input inputs[] = {
        {.i16 = speech, .sample_count = 560, .mean = mean, .scale = mean},
        {.i16 = speech, .sample_count = 400, .mean = mean, .scale = mean}
    };
    spsh_feature_batch batch = {values, 3 * 80, SPSH_FLOAT32, 0, 0};
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, NULL), SPSH_OK);
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 0, &batch, NULL, NULL), SPSH_OK);
    values[0] = 77;
    batch.capacity--;
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, NULL), SPSH_E_LIMIT);
    batch.capacity++;
    batch.padded_frames = 1;
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, NULL), SPSH_E_LIMIT);
    batch.padded_frames = 2; /* 4 rows */
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, NULL), SPSH_E_LIMIT);
    batch.padded_frames = 0;
    batch.dtype = (spsh_feature_dtype)2;
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, NULL), SPSH_E_INVALID_ARG);
    batch.dtype = SPSH_FLOAT32;
    CHECK(values[0] == 77);
    inputs[1].mean = NULL;
    CHECK_I64(spsh_featgen_batch(featgen, inputs, 2, &batch, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "mean") != NULL);
    spsh_featgen_close(featgen);
}

TEST_MAIN(unit_feature_batch)
{
    make_speech();
    RUN(test_norms);
    RUN(test_norm_of_whisper);
    RUN(test_given_norm);
    RUN(test_norm_without_deviation);
    RUN(test_sums);
    RUN(test_halves);
    RUN(test_batches);
    RUN(test_in_a_child);
    RUN(test_refused_batches);
    return TEST_RESULT();
}

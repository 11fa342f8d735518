/* unit_features_device.c PLUGIN: features through a plug-in, compared with the features of the CPU.
 *
 * With the host emulation (tests/support/twin_plugin.c), which runs the kernel source without a
 * GPU, in several orders of threads and with several numbers of frames per block, the bits must be
 * equal. With the real plug-in values must be close (FEATURES.md); the test prints how close.
 * Without a device the program prints the reason and is skipped.
 */
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>

#include "device_test.h"
#include "fake_cudart.h"
#include "fault_alloc.h"
#include "features/featgen_state.h"
#include "speechshard/augment.h"
#include "speechshard/featgen_cuda.h"
#include "spsh_test.h"

/* Bounds of FEATURES.md for logarithms; for other values, relative to the largest value. */
#define LOG_TOLERANCE    1e-4
#define LINEAR_TOLERANCE 1e-5
/* Half precision adds one rounding step at the size of the value. */
#define HALF_STEP 0x1p-10

enum { SAMPLES_MAX = 200000, UTTERANCES_MAX = 64, GUARD = 64, GAP = 7 };

static const char *plugin_path;
static spsh_cuda *cuda;
static twin_controls *twin; /* NULL: the real plug-in */
static spsh_error err;
static uint64_t seed;

/* The signals are in one array of samples, with gaps and out of order. */
static int16_t samples[SAMPLES_MAX];
static uint64_t offsets[UTTERANCES_MAX], sample_counts[UTTERANCES_MAX];
static size_t utterance_count;
static size_t sample_count;
static int16_t *device_samples;

static void must(spsh_status rc)
{
    if (rc != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_name(rc), err.message);
    REQUIRE(rc == SPSH_OK);
}

/* ---- signals ---- */

static int16_t clip(double value)
{
    return (int16_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
}

/* Voice-like: a gliding pitch with harmonics, louder and softer, over noise. */
static double voiced(size_t i, uint64_t *state)
{
    const double t = (double)i / 16000;
    const double phase = 6.283185307179586 * (120 * t + 15 * sin(3 * t));
    const double loud = 4000 * (0.5 + 0.5 * sin(9 * t));
    double sum = 0;
    for (int h = 1; h < 20; h++)
        sum += sin(h * phase) / h;
    return loud * sum + (double)(test_random(state) % 201) - 100;
}

static void add_signal(size_t count, int kind, uint64_t *state)
{
    REQUIRE(utterance_count < UTTERANCES_MAX && sample_count + count + GAP <= SAMPLES_MAX);
    int16_t *x = samples + sample_count;
    for (size_t i = 0; i < count; i++) {
        switch (kind) {
        case 0: x[i] = (int16_t)(test_random(state) % 65536 - 32768); break;
        case 1: x[i] = clip(voiced(i, state)); break;
        case 2: x[i] = 0; break;
        case 3: x[i] = i / 37 % 2 == 0 ? 32767 : -32768; break;
        default: x[i] = clip(20 * sin((double)i)); break;
        }
    }
    offsets[utterance_count] = sample_count;
    sample_counts[utterance_count++] = count;
    sample_count += count;
    for (size_t i = 0; i < GAP; i++) /* samples that must not be read */
        samples[sample_count++] = 32767;
}

static void make_signals(void)
{
    static const size_t lengths[] = {0,   1,   2,   3,   79,  80,  81,  160,
                                     199, 201, 399, 400, 401, 560, 1201};
    uint64_t state = seed;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        add_signal(lengths[i], i % 2 == 0 ? 0 : 1, &state);
    for (int kind = 0; kind < 5; kind++)
        add_signal(2000 + test_random(&state) % 4000, kind, &state);
    add_signal(9000, 1, &state);
    /* Shuffle the signals, so that offsets are out of order. */
    for (size_t i = utterance_count - 1; i > 0; i--) {
        const size_t other = test_random(&state) % (i + 1);
        const uint64_t offset = offsets[i], count = sample_counts[i];
        offsets[i] = offsets[other], sample_counts[i] = sample_counts[other];
        offsets[other] = offset, sample_counts[other] = count;
    }
}

/* ---- one batch, on both ---- */

typedef enum masking {
    MASKING_NEVER,
    MASKING_LATER, /* masks are configured, but this batch has no masks */
    MASKING_NOW,
} masking;

typedef struct layout {
    spsh_feature_dtype dtype;
    uint64_t padding_frames; /* after the longest utterance; UINT64_MAX: ragged layout */
    masking masking;
} layout;

typedef struct batch_result {
    void *values;
    size_t bytes;
    uint64_t frame_counts[UTTERANCES_MAX];
} batch_result;

static size_t value_bytes(spsh_feature_dtype dtype)
{
    return dtype == SPSH_FLOAT16 ? sizeof(uint16_t) : sizeof(float);
}

static uint64_t longest_frames(const spsh_featgen *featgen)
{
    uint64_t longest = 0;
    for (size_t u = 0; u < utterance_count; u++) {
        const uint64_t frames = spsh_featgen_frame_count(featgen, sample_counts[u]);
        longest = frames > longest ? frames : longest;
    }
    return longest;
}

static uint64_t all_frames(const spsh_featgen *featgen)
{
    uint64_t frames = 0;
    for (size_t u = 0; u < utterance_count; u++)
        frames += spsh_featgen_frame_count(featgen, sample_counts[u]);
    return frames;
}

static uint64_t padded_frames(const spsh_featgen *featgen, const layout *of)
{
    return of->padding_frames == UINT64_MAX ? 0 : longest_frames(featgen) + of->padding_frames;
}

static size_t value_count(const spsh_featgen *featgen, const layout *of)
{
    const uint64_t padded = padded_frames(featgen, of);
    const uint64_t frames = padded != 0 ? padded * utterance_count : all_frames(featgen);
    return frames * spsh_featgen_dim(featgen);
}

/* Means and scales for each utterance, or the first ones for all. */
static float means[UTTERANCES_MAX * 1024], scales[UTTERANCES_MAX * 1024];

enum { TIME_MASKS = 3, FREQUENCY_MASKS = 2, MASKS = TIME_MASKS + FREQUENCY_MASKS };
static spsh_cuda_mask masks[UTTERANCES_MAX * MASKS];

/* Make empty masks, masks of the first, some, or the last frames, masks past the end, and masks of
 * all frames. */
static void make_masks(void)
{
    uint64_t state = seed + 2;
    for (size_t i = 0; i < UTTERANCES_MAX * MASKS; i++) {
        const uint32_t first = (uint32_t)(test_random(&state) % 40);
        const uint32_t count = (uint32_t)(test_random(&state) % 10);
        const spsh_cuda_mask some[] = {
            {first, 0         },
            {0,     count     },
            {first, count     },
            {first, UINT32_MAX},
            {0,     UINT32_MAX},
        };
        const uint64_t kind = test_random(&state) % 16;
        masks[i] = some[kind < 5 ? kind : 2];
        if (i / MASKS % 5 == 4) /* an utterance without masks */
            masks[i].count = 0;
    }
}

static bool is_masked(size_t utterance, uint64_t frame, uint32_t d)
{
    for (size_t i = 0; i < MASKS; i++) {
        const spsh_cuda_mask *mask = &masks[utterance * MASKS + i];
        const uint64_t at = i < TIME_MASKS ? frame : d;
        if (at >= mask->first && at < (uint64_t)mask->first + mask->count)
            return true;
    }
    return false;
}

/* Sum each dimension over the frames, then sum over the dimensions. */
static float mean_of(const float *rows, uint64_t frame_count, uint32_t dim)
{
    double sum = 0;
    for (uint32_t d = 0; d < dim; d++) {
        double of_dimension = 0;
        for (uint64_t frame = 0; frame < frame_count; frame++)
            of_dimension += (double)rows[frame * dim + d];
        sum += of_dimension;
    }
    return (float)(sum / (double)(frame_count * dim));
}

static void mask_rows(const spsh_featgen *featgen, const layout *of, float *values)
{
    const uint32_t dim = spsh_featgen_dim(featgen);
    const uint64_t padded = padded_frames(featgen, of);
    for (size_t u = 0; u < utterance_count; u++) {
        const uint64_t frame_count = spsh_featgen_frame_count(featgen, sample_counts[u]);
        const float value = mean_of(values, frame_count, dim);
        for (uint64_t frame = 0; frame < frame_count; frame++)
            for (uint32_t d = 0; d < dim; d++)
                if (is_masked(u, frame, d))
                    values[frame * dim + d] = value;
        values += (padded != 0 ? padded : frame_count) * dim;
    }
}

/* Expected values: floats with masks applied, in the precision of the layout. */
static void finish_on_cpu(const spsh_featgen *featgen, const layout *of, float *floats,
                          size_t count, batch_result *result)
{
    result->bytes = count * value_bytes(of->dtype);
    result->values = floats;
    if (of->masking == MASKING_NOW)
        mask_rows(featgen, of, floats);
    if (of->dtype != SPSH_FLOAT16)
        return;
    result->values = calloc(count + 1, sizeof(uint16_t));
    REQUIRE(result->values != NULL);
    spsh_half_from_float(result->values, floats, count);
    free(floats);
}

static void on_cpu(spsh_featgen *featgen, const layout *of, batch_result *result)
{
    spsh_feature_input inputs[UTTERANCES_MAX];
    const size_t count = value_count(featgen, of);
    const uint32_t dim = spsh_featgen_dim(featgen);
    const bool has_stats = dim <= 1024;
    float *floats = calloc(count + 1, sizeof(*floats));
    REQUIRE(floats != NULL);
    for (size_t u = 0; u < utterance_count; u++)
        inputs[u] = (spsh_feature_input){
            .i16 = samples + offsets[u],
            .sample_count = sample_counts[u],
            .mean = has_stats ? means + u * dim : NULL,
            .scale = has_stats ? scales + u * dim : NULL,
        };
    const spsh_feature_batch out = {
        .values = floats,
        .capacity = count,
        .dtype = SPSH_FLOAT32,
        .padded_frames = padded_frames(featgen, of),
        .padding_value = -3.5F,
    };
    must(spsh_featgen_batch(featgen, inputs, utterance_count, &out, result->frame_counts, &err));
    finish_on_cpu(featgen, of, floats, count, result);
}

/* Device memory with a copy of host memory. */
static void *on_device(const void *memory, size_t bytes)
{
    void *device = NULL;
    must(spsh_cuda_alloc(cuda, 0, bytes + 1, &device, &err));
    must(spsh_cuda_copy(cuda, device, memory, bytes, NULL, &err));
    return device;
}

static void on_gpu(const spsh_featgen *featgen, const layout *of, batch_result *result)
{
    spsh_cuda_features *features = NULL;
    const size_t count = value_count(featgen, of);
    const uint32_t dim = spsh_featgen_dim(featgen);
    const size_t guarded = count * value_bytes(of->dtype) + GUARD;
    spsh_cuda_features_options options = SPSH_CUDA_FEATURES_OPTIONS_INIT;
    options.dtype = of->dtype;
    options.utterance_count_max = (uint32_t)utterance_count;
    options.frame_count_max = all_frames(featgen);
    options.time_masks = of->masking != MASKING_NEVER ? TIME_MASKS : 0;
    options.frequency_masks = of->masking != MASKING_NEVER ? FREQUENCY_MASKS : 0;
    must(spsh_cuda_features_open(cuda, featgen, &options, &features, &err));
    result->bytes = count * value_bytes(of->dtype);
    result->values = malloc(guarded);
    REQUIRE(result->values != NULL);
    memset(result->values, 0xff, guarded); /* NaN in either precision */
    void *values = on_device(result->values, guarded);
    float *mean = on_device(means, sizeof(means));
    float *scale = on_device(scales, sizeof(scales));
    const spsh_cuda_feature_batch batch = {
        .samples = device_samples,
        .offsets = offsets,
        .sample_counts = sample_counts,
        .count = utterance_count,
        .values = values,
        .capacity = count,
        .padded_frames = padded_frames(featgen, of),
        .padding_value = -3.5F,
        .mean = mean,
        .scale = scale,
        .stats_stride = dim,
        .masks = of->masking == MASKING_NOW ? masks : NULL,
    };
    must(spsh_cuda_features_compute(features, NULL, &batch, result->frame_counts, &err));
    must(spsh_cuda_copy(cuda, result->values, values, guarded, NULL, &err));
    must(spsh_cuda_synchronize(cuda, NULL, &err));
    for (size_t i = 0; i < GUARD; i++)
        CHECK(((uint8_t *)result->values)[result->bytes + i] == 0xff);
    spsh_cuda_features_close(features);
    spsh_cuda_free(cuda, values);
    spsh_cuda_free(cuda, mean);
    spsh_cuda_free(cuda, scale);
}

/* ---- comparing ---- */

static float value_at(const batch_result *result, spsh_feature_dtype dtype, size_t at)
{
    float value = 0;
    if (dtype == SPSH_FLOAT16)
        spsh_float_from_half(&value, (const uint16_t *)result->values + at, 1);
    else
        value = ((const float *)result->values)[at];
    return value;
}

static void compare_near(const char *text, const spsh_featgen *featgen, const layout *of,
                         const batch_result *want, const batch_result *got)
{
    const bool is_log = spsh_featgen_features(featgen)->log != SPSH_LOG_NONE;
    const size_t count = want->bytes / value_bytes(of->dtype);
    double largest = 0, worst = 0;
    size_t bad = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)value_at(want, of->dtype, i)));
    for (size_t i = 0; i < count; i++) {
        const double a = (double)value_at(want, of->dtype, i);
        const double difference = fabs(a - (double)value_at(got, of->dtype, i));
        const double step = of->dtype == SPSH_FLOAT16 ? fabs(a) * HALF_STEP : 0;
        const double allowed = (is_log ? LOG_TOLERANCE : LINEAR_TOLERANCE * largest) + step;
        worst = fmax(worst, difference);
        bad += difference <= allowed ? 0 : 1; /* a NaN is a difference */
    }
    printf("    %s: at most %.2g apart, largest value %.3g\n", text, worst, largest);
    CHECK_U64(bad, 0);
}

static void compare(const char *text, const spsh_featgen *featgen, const layout *of,
                    const batch_result *want, const batch_result *got)
{
    const int before = test_failures;
    CHECK_U64(got->bytes, want->bytes);
    for (size_t u = 0; u < utterance_count; u++)
        CHECK_U64(got->frame_counts[u], want->frame_counts[u]);
    if (twin != NULL)
        CHECK(memcmp(got->values, want->values, want->bytes) == 0);
    else
        compare_near(text, featgen, of, want, got);
    if (test_failures != before)
        fprintf(stderr, "    with %s\n", text);
}

/* ---- all of it ---- */

/* Presets; all edges, norms, energies, logarithms; transforms of every radix, even and odd. */
static const char *const texts[] = {
    "kaldi-fbank",
    "kaldi-mfcc",
    "whisper-logmel",
    "deepspeech",
    "spectrogram",
    "whisper-logmel,mel_count=128,pad_us=100000",
    "whisper-logmel,edges=mirror,norm=none",
    "kaldi-fbank,edges=mirror,energy=raw,norm=mean",
    "kaldi-fbank,edges=mirror,hop_us=3000,norm=speaker",
    "kaldi-fbank,edges=center-zeros,energy=windowed,norm=mean-variance",
    "kaldi-fbank,edges=center-reflect,pad_us=61000,norm=dataset,mel_scale=htk",
    "kaldi-mfcc,energy=windowed,mel_count=40,cepstrum_count=40,cepstrum_lifter=0",
    "kaldi-mfcc,energy=none,norm=utterance,edges=mirror,power_of_two=off",
    "spectrogram,power_of_two=off,log=natural,energy=raw",
    "spectrogram,power_of_two=off,window_us=22500,power=magnitude", /* 360: 2 4 9 5 */
    "deepspeech,window_us=23438",                                   /* 375: odd, 3 5 5 5 */
    "deepspeech,window_us=21875,norm=none",                         /* 350: 5 5 7 */
    "deepspeech,window_us=20688,norm=mean",                         /* 331: prime */
    "deepspeech,window_us=41375",                                   /* 662: 331 of pairs */
    "deepspeech,window_us=126,hop_us=1000,remove_dc=on,norm=none",  /* 2 */
    "deepspeech,window_us=188,hop_us=900,energy=raw,norm=none",     /* 3 */
    "kaldi-fbank,sample_rate_hz=8000,mel_count=23",
    "kaldi-mfcc,window_us=2000,hop_us=1000,mel_count=100,cepstrum_count=60", /* 32 points */
    "kaldi-fbank,sample_rate_hz=48000,low_hz=0,energy=raw,preemphasis=0,remove_dc=off",
    "whisper-logmel,window_us=128000,hop_us=7000",
    "kaldi-fbank,hop_us=40000,window=hamming",
};

enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static void check_text(const char *text, const layout *of)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    batch_result want = {0}, got = {0};
    must(spsh_feature_options_parse(text, &features, &err));
    must(spsh_featgen_open(&features, NULL, &featgen, &err));
    on_cpu(featgen, of, &want);
    on_gpu(featgen, of, &got);
    compare(text, featgen, of, &want, &got);
    free(want.values);
    free(got.values);
    spsh_featgen_close(featgen);
}

static void test_ragged_floats(void)
{
    const layout of = {SPSH_FLOAT32, UINT64_MAX, MASKING_NEVER};
    for (size_t i = 0; i < TEXTS; i++)
        check_text(texts[i], &of);
}

static void test_padded_floats(void)
{
    const layout of = {SPSH_FLOAT32, 3, MASKING_NEVER};
    for (size_t i = 0; i < TEXTS; i++)
        check_text(texts[i], &of);
}

static void test_halves(void)
{
    const layout ragged = {SPSH_FLOAT16, UINT64_MAX, MASKING_NEVER};
    const layout padded = {SPSH_FLOAT16, 0, MASKING_NEVER};
    for (size_t i = 0; i < TEXTS; i++)
        check_text(texts[i], i % 2 == 0 ? &ragged : &padded);
}

/* Test masks without a norm, with every norm, and with rows in the output memory or in separate
 * memory. */
static void test_masks(void)
{
    static const layout layouts[] = {
        {SPSH_FLOAT32, UINT64_MAX, MASKING_NOW  },
        {SPSH_FLOAT16, UINT64_MAX, MASKING_NOW  },
        {SPSH_FLOAT32, 2,          MASKING_NOW  },
        {SPSH_FLOAT16, 0,          MASKING_NOW  },
        {SPSH_FLOAT16, UINT64_MAX, MASKING_LATER},
        {SPSH_FLOAT32, UINT64_MAX, MASKING_LATER},
    };
    static const size_t which[] = {0, 2, 3, 7, 8, 9, 10}; /* indexes of option texts: every norm */
    for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++)
        for (size_t n = 0; n < sizeof(layouts) / sizeof(layouts[0]); n++)
            if (twin == NULL || !twin->has_threads || n == i % 4)
                check_text(texts[which[i]], &layouts[n]);
}

/* No phase depends on the order of its threads or on the number of frames per block. */
static void test_orders_and_lanes(void)
{
    static const uint32_t orders[] = {1, 77, 1001};
    static const size_t memory_bytes[] = {6000, 14000, 30000, 200000};
    const layout of = {SPSH_FLOAT32, UINT64_MAX, MASKING_NEVER};
    const layout masked = {SPSH_FLOAT32, UINT64_MAX, MASKING_NOW};
    const twin_controls usual = *twin;
    for (size_t i = 0; i < 4; i++) {
        twin->order = orders[i % 3];
        twin->memory_bytes = memory_bytes[i];
        for (size_t t = 0; t < 5; t++)
            check_text(texts[t], t % 2 == 0 ? &of : &masked);
    }
    for (size_t i = 0; i < 3; i++) {
        twin->order = orders[i];
        twin->memory_bytes = usual.memory_bytes;
        for (size_t t = 5; t < TEXTS; t++)
            check_text(texts[t], &of);
    }
    twin->order = usual.order;
}

/* ---- refusals ---- */

static spsh_cuda_features *open_fbank(spsh_featgen **ret_featgen)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_cuda_features *opened = NULL;
    spsh_cuda_features_options options = SPSH_CUDA_FEATURES_OPTIONS_INIT;
    options.utterance_count_max = 3;
    options.frame_count_max = 100;
    must(spsh_feature_options_parse("kaldi-fbank", &features, &err));
    must(spsh_featgen_open(&features, NULL, ret_featgen, &err));
    must(spsh_cuda_features_open(cuda, *ret_featgen, &options, &opened, &err));
    return opened;
}

static void test_limits(void)
{
    static const uint64_t zeros[4];
    uint64_t counts[4] = {400, 16000, 0, 0};
    uint64_t frames[4] = {9, 9, 9, 9};
    spsh_featgen *featgen = NULL;
    spsh_cuda_features *features = open_fbank(&featgen);
    void *values = on_device(samples, 80 * 100 * sizeof(float));
    spsh_cuda_feature_batch batch = {
        .samples = device_samples,
        .offsets = zeros,
        .sample_counts = counts,
        .count = 3,
        .values = values,
        .capacity = (size_t)80 * 99,
    };
#define COMPUTE() spsh_cuda_features_compute(features, NULL, &batch, frames, &err)
    CHECK_I64(COMPUTE(), SPSH_OK); /* 1 + 98 frames */
    CHECK(frames[0] == 1 && frames[1] == 98 && frames[2] == 0 && frames[3] == 9);
    batch.capacity--;
    CHECK_I64(COMPUTE(), SPSH_E_LIMIT);
    batch.capacity++;
    batch.count = 4;
    CHECK_I64(COMPUTE(), SPSH_E_LIMIT);
    batch.count = 3;
    counts[2] = 800; /* 1 + 98 + 3 frames */
    CHECK_I64(COMPUTE(), SPSH_E_LIMIT);
    counts[2] = 0;
    batch.padded_frames = 97;
    CHECK_I64(COMPUTE(), SPSH_E_LIMIT);
    CHECK(strstr(err.message, "98 frames") != NULL);
    batch.padded_frames = 0;
    batch.samples = NULL;
    CHECK_I64(COMPUTE(), SPSH_E_INVALID_ARG);
    counts[0] = counts[1] = 0; /* no samples, no frames: nothing to do */
    CHECK_I64(COMPUTE(), SPSH_OK);
    counts[0] = UINT64_MAX;
    batch.samples = device_samples;
    CHECK_I64(COMPUTE(), SPSH_E_INVALID_ARG);
    counts[0] = 400;
    batch.values = NULL;
    CHECK_I64(COMPUTE(), SPSH_E_INVALID_ARG);
    batch.values = values;
    batch.offsets = NULL;
    CHECK_I64(COMPUTE(), SPSH_E_INVALID_ARG);
    batch.count = 0;
    CHECK_I64(COMPUTE(), SPSH_OK);
    CHECK_I64(spsh_cuda_features_compute(NULL, NULL, &batch, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_features_compute(features, NULL, NULL, NULL, &err), SPSH_E_INVALID_ARG);
#undef COMPUTE
    must(spsh_cuda_synchronize(cuda, NULL, &err));
    spsh_cuda_free(cuda, values);
    spsh_cuda_features_close(features);
    spsh_featgen_close(featgen);
}

static void test_options(void)
{
    spsh_featgen *featgen = NULL;
    spsh_cuda_features *features = open_fbank(&featgen);
    spsh_cuda_features *other = NULL;
    struct {
        spsh_cuda_features_options known;
        uint64_t more;
    } larger = {SPSH_CUDA_FEATURES_OPTIONS_INIT, 0};
    spsh_cuda_features_options *options = &larger.known;
    spsh_cuda_features_close(features);
#define OPEN() spsh_cuda_features_open(cuda, featgen, options, &other, &err)
    options->utterance_count_max = 65536;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->utterance_count_max = 0;
    options->frame_count_max = UINT64_MAX;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->frame_count_max = 0;
    options->dtype = (spsh_feature_dtype)2;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->dtype = SPSH_FLOAT32;
    options->time_masks = SPSH_AUGMENT_MASKS_MAX + 1;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->time_masks = 0;
    options->frequency_masks = UINT32_MAX;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->frequency_masks = 0;
    options->device = 1000;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    options->device = 0;
    options->struct_size = sizeof(larger);
    larger.more = 1;
    CHECK_I64(OPEN(), SPSH_E_INVALID_ARG);
    CHECK(other == NULL);
    larger.more = 0;
    CHECK_I64(OPEN(), SPSH_OK);
#undef OPEN
    spsh_cuda_features_close(other);
    spsh_cuda_features_close(NULL);
    other = NULL;
    CHECK_I64(spsh_cuda_features_open(NULL, featgen, NULL, &other, NULL), SPSH_E_INVALID_ARG);
    spsh_featgen_close(featgen);
}

/* Host memory runs out. */
static void test_no_memory(void)
{
    fault_alloc fault = {.fail_at = UINT64_MAX};
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
    const spsh_featgen_options options = {sizeof(options), &allocator, 1};
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    spsh_cuda_features *opened = NULL;
    must(spsh_feature_options_preset("kaldi-fbank", &features, &err));
    must(spsh_featgen_open(&features, &options, &featgen, &err));
    fault.fail_at = fault.call_count;
    CHECK_I64(spsh_cuda_features_open(cuda, featgen, NULL, &opened, &err), SPSH_E_NO_MEMORY);
    CHECK(opened == NULL);
    fault.fail_at = UINT64_MAX;
    must(spsh_cuda_features_open(cuda, featgen, NULL, &opened, &err));
    spsh_cuda_features_close(opened);
    spsh_featgen_close(featgen);
    CHECK_I64(fault.live_count, 0);
}

/* Use two objects on one device in turn, with a large and a small transform. Neither changes the
 * other. */
static void test_two_at_once(void)
{
    static const char *const both[] = {"whisper-logmel,window_us=500000,norm=none", "kaldi-fbank"};
    enum { TURNS = 4, VALUES = 80 * 60 };
    spsh_featgen *featgens[2] = {NULL, NULL};
    spsh_cuda_features *opened[2] = {NULL, NULL};
    static float want[VALUES], got[VALUES];
    const uint64_t offset = 0, count = 9000;
    float *values = on_device(want, sizeof(want));
    for (size_t i = 0; i < 2; i++) {
        spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
        must(spsh_feature_options_parse(both[i], &features, &err));
        must(spsh_featgen_open(&features, NULL, &featgens[i], &err));
        must(spsh_cuda_features_open(cuda, featgens[i], NULL, &opened[i], &err));
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        const size_t i = turn % 2;
        const spsh_feature_input input = {.i16 = samples, .sample_count = count};
        const spsh_feature_batch out = {.values = want, .capacity = VALUES};
        const spsh_cuda_feature_batch batch = {
            .samples = device_samples,
            .offsets = &offset,
            .sample_counts = &count,
            .count = 1,
            .values = values,
            .capacity = VALUES,
        };
        const size_t value_total =
            spsh_featgen_frame_count(featgens[i], count) * spsh_featgen_dim(featgens[i]);
        must(spsh_featgen_batch(featgens[i], &input, 1, &out, NULL, &err));
        must(spsh_cuda_features_compute(opened[i], NULL, &batch, NULL, &err));
        must(spsh_cuda_copy(cuda, got, values, sizeof(got), NULL, &err));
        must(spsh_cuda_synchronize(cuda, NULL, &err));
        for (size_t v = 0; v < value_total; v++)
            if (!((double)fabsf(want[v] - got[v]) <= LOG_TOLERANCE))
                test_fail(__FILE__, __LINE__, both[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        spsh_cuda_features_close(opened[i]);
        spsh_featgen_close(featgens[i]);
    }
    spsh_cuda_free(cuda, values);
}

/* A transform that needs more memory than any block has. */
static void test_too_large(void)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    spsh_cuda_features *opened = NULL;
    must(spsh_feature_options_parse("spectrogram,sample_rate_hz=48000,window_us=680000", &features,
                                    &err));
    must(spsh_featgen_open(&features, NULL, &featgen, &err)); /* 32768 points: 256 KiB */
    CHECK_I64(spsh_cuda_features_open(cuda, featgen, NULL, &opened, &err), SPSH_E_UNSUPPORTED);
    CHECK(opened == NULL);
    spsh_featgen_close(featgen);
}

/* More consecutive batches than there are buffers for their tables. */
static void test_many_batches(void)
{
    enum { BATCHES = 11, VALUES = 80 * 100 };
    static float want[BATCHES][VALUES], got[BATCHES][VALUES];
    spsh_featgen *featgen = NULL;
    spsh_featgen_worker *worker = NULL;
    spsh_cuda_features *features = open_fbank(&featgen);
    uint64_t state = seed + 1;
    memset(want, 0xff, sizeof(want));
    float *values = on_device(want, sizeof(want));
    must(spsh_featgen_worker_open(featgen, &worker, &err));
    for (size_t b = 0; b < BATCHES; b++) {
        const uint64_t offset = test_random(&state) % 1000;
        const uint64_t count = 400 + test_random(&state) % 15000;
        const spsh_feature_input input = {.i16 = samples + offset, .sample_count = count};
        const spsh_cuda_feature_batch batch = {
            .samples = device_samples,
            .offsets = &offset,
            .sample_counts = &count,
            .count = 1,
            .values = values + b * VALUES,
            .capacity = VALUES,
        };
        must(spsh_featgen_compute(worker, &input, want[b], &err));
        must(spsh_cuda_features_compute(features, NULL, &batch, NULL, &err));
    }
    must(spsh_cuda_copy(cuda, got, values, sizeof(got), NULL, &err));
    must(spsh_cuda_synchronize(cuda, NULL, &err));
    for (size_t b = 0; b < BATCHES; b++)
        for (size_t i = 0; i < VALUES; i++)
            if (isnan(want[b][i]) != isnan(got[b][i]) ||
                (double)fabsf(want[b][i] - got[b][i]) > LOG_TOLERANCE)
                test_fail(__FILE__, __LINE__, "a batch of many");
    spsh_cuda_features_close(features);
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);
    spsh_cuda_free(cuda, values);
}

/* ---- the device of a thread ---- */

typedef struct features_call {
    spsh_cuda_features *features;
    void *stream;
    spsh_cuda_feature_batch batch;
} features_call;

static void *compute_elsewhere(void *opaque)
{
    const features_call *call = opaque;
    must(spsh_cuda_features_compute(call->features, call->stream, &call->batch, NULL, &err));
    return NULL;
}

/* A thread that never had a device waits for a batch of device 1: no context on device 0. */
static void use_one_device(fake_contexts_fn *contexts_fn)
{
    enum { COUNT = 2000, CAPACITY = 4096, BATCHES = 4 };
    static const uint64_t offset, count = COUNT;
    spsh_cuda_features_options options = SPSH_CUDA_FEATURES_OPTIONS_INIT;
    features_call call = {
        .batch = {.offsets = &offset, .sample_counts = &count, .count = 1, .capacity = CAPACITY}
    };
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen *featgen = NULL;
    void *in = NULL;
    pthread_t thread;
    must(spsh_feature_options_parse("kaldi-fbank", &features, &err));
    must(spsh_featgen_open(&features, NULL, &featgen, &err));
    options.device = 1;
    must(spsh_cuda_alloc(cuda, 1, COUNT * sizeof(int16_t), &in, &err));
    must(spsh_cuda_alloc(cuda, 1, CAPACITY * sizeof(float), &call.batch.values, &err));
    must(spsh_cuda_stream_open(cuda, 1, 0, &call.stream, &err));
    must(spsh_cuda_fill(cuda, in, 0, COUNT * sizeof(int16_t), call.stream, &err));
    must(spsh_cuda_features_open(cuda, featgen, &options, &call.features, &err));
    call.batch.samples = in;
    for (int batch = 0; batch < BATCHES; batch++)
        (void)compute_elsewhere(&call);
    REQUIRE(pthread_create(&thread, NULL, compute_elsewhere, &call) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_U64(contexts_fn(), 1 << 1);
}

/* In a separate process, because contexts persist. */
static void test_one_device(void)
{
    fake_contexts_fn *contexts_fn = NULL;
    int status = 0;
    void *symbol = spsh_cuda_symbol(cuda, FAKE_CONTEXTS_SYMBOL);
    memcpy(&contexts_fn, &symbol, sizeof(contexts_fn));
    if (contexts_fn == NULL)
        return;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        use_one_device(contexts_fn);
        _exit(TEST_RESULT());
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_MAIN(unit_features_device)
{
    REQUIRE(argc == 2);
    plugin_path = argv[1];
    seed = test_seed(20261121);
    const int refused = device_test_open(plugin_path, &cuda, &twin);
    if (refused != 0)
        return refused;
    RUN(test_one_device); /* before this process has a context */
    make_signals();
    make_masks();
    device_samples = on_device(samples, sizeof(samples));
    uint64_t state = seed;
    for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
        means[i] = (float)(test_random(&state) % 1000) * 0.01F;
        scales[i] = (float)(1 + test_random(&state) % 1000) * 0.001F;
    }
    RUN(test_ragged_floats);
    RUN(test_masks);
    if (twin == NULL || !twin->has_threads) {
        RUN(test_padded_floats);
        RUN(test_halves);
    }
    if (twin != NULL && !twin->has_threads)
        RUN(test_orders_and_lanes);
    RUN(test_limits);
    RUN(test_options);
    RUN(test_no_memory);
    RUN(test_two_at_once);
    RUN(test_too_large);
    RUN(test_many_batches);
    spsh_cuda_free(cuda, device_samples);
    if (twin != NULL)
        CHECK_U64(twin->open_memory, 0);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

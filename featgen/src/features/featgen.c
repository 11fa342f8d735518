/* featgen.c: the life of a featgen and its workers, and an utterance's features block by block.
 *
 * A block's windows overlap: its samples are read once, as values, and the windows point into them.
 */
#include <float.h>
#include <math.h>

#include "featgen_batch.h"
#include "featgen_state.h"
#include "frame_samples.h"
#include "norm.h"
#include "speechshard/options.h"
#include "window_function.h"

#define PI               3.14159265358979323846
#define SAMPLE_COUNT_MAX (UINT64_C(1) << 62)

enum { SCRATCH_ALIGNMENT = 64 };

struct spsh_featgen_worker {
    const spsh_featgen *featgen;
    void *memory;
    void *scratch; /* points into memory, aligned */
    float *values; /* the samples of a block's windows */
};

/* Distance of the windows of a block within values: the hop, but at most a window. */
static size_t window_stride(const spsh__frame_tables *tables)
{
    return tables->hop_samples < tables->window_samples ? tables->hop_samples
                                                        : tables->window_samples;
}

/* -------------------------------------------------------------------------------------- tables */

static uint32_t dim_of(const spsh__frame_tables *tables)
{
    const spsh_feature_options *features = &tables->features;
    const uint32_t front = features->energy != SPSH_ENERGY_NONE;
    switch (features->kind) {
    case SPSH_FEATURE_SPECTRUM: return tables->bin_count + front;
    case SPSH_FEATURE_MEL: return features->mel_count + front;
    case SPSH_FEATURE_MFCC: break;
    }
    return features->cepstrum_count;
}

static uint32_t samples_in(const spsh_feature_options *features, uint32_t time_us)
{
    return (uint32_t)((uint64_t)features->sample_rate_hz * time_us / 1000000);
}

/* The DCT-II with orthonormal rows, times Kaldi's lifter: 1 + Q / 2 sin(pi c / Q). */
static void fill_dct(const spsh_feature_options *features, float *dct)
{
    const double count = features->mel_count;
    const double lifter = (double)features->cepstrum_lifter;
    for (uint32_t c = 0; c < features->cepstrum_count; c++) {
        const double norm = sqrt((c == 0 ? 1 : 2) / count);
        const double lift = lifter > 0 ? 1 + 0.5 * lifter * sin(PI * c / lifter) : 1;
        for (uint32_t i = 0; i < features->mel_count; i++)
            *dct++ = (float)(lift * norm * cos(PI / count * (i + 0.5) * c));
    }
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static spsh_status fill_tables(const spsh_allocator *allocator, spsh__frame_tables *tables,
                               spsh_error *err)
{
    const spsh_feature_options *features = &tables->features;
    const bool has_mels = features->kind != SPSH_FEATURE_SPECTRUM;
    tables->window_samples = samples_in(features, features->window_us);
    tables->hop_samples = samples_in(features, features->hop_us);
    tables->fft_size = tables->window_samples;
    if (features->power_of_two)
        for (tables->fft_size = 1; tables->fft_size < tables->window_samples;)
            tables->fft_size *= 2;
    tables->bin_count = tables->fft_size / 2 + 1;
    tables->dim = dim_of(tables);
    tables->log_floor = larger(features->log_floor, FLT_MIN);
    tables->energy_floor = larger(features->energy_floor, tables->log_floor);

    tables->window = spsh__new(allocator, (size_t)tables->window_samples + 1, sizeof(float));
    if (tables->window == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a window of %u samples", tables->window_samples);
    spsh__window_fill(features->window, tables->window_samples, tables->window);
    spsh_status rc = spsh__fft_plan_open(allocator, tables->fft_size, &tables->fft, err);
    if (rc == SPSH_OK && has_mels)
        rc = spsh__mel_bank_open(allocator, features, tables->fft_size, &tables->mels, err);
    if (rc != SPSH_OK || features->kind != SPSH_FEATURE_MFCC)
        return rc;
    const size_t weights = (size_t)features->cepstrum_count * features->mel_count;
    tables->dct = spsh__new(allocator, weights, sizeof(float));
    if (tables->dct == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a cosine transform of %zu numbers", weights);
    fill_dct(features, tables->dct);
    return SPSH_OK;
}

/* ------------------------------------------------------------------------------------- featgen */

static spsh_status take_options(const spsh_featgen_options *options, spsh_featgen_options *taken,
                                spsh_error *err)
{
    *taken = (spsh_featgen_options)SPSH_FEATGEN_OPTIONS_INIT;
    const spsh_status rc = spsh_options_take(options, taken, sizeof(*taken), err);
    if (rc != SPSH_OK)
        return rc;
    if (taken->threads > SPSH_FEATGEN_THREADS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "options: threads is %u, must be at most %u",
                         taken->threads, SPSH_FEATGEN_THREADS_MAX);
    if (taken->allocator == NULL)
        taken->allocator = spsh_allocator_default();
    return SPSH_OK;
}

spsh_status spsh_featgen_open(const spsh_feature_options *features,
                              const spsh_featgen_options *options, spsh_featgen **ret_featgen,
                              spsh_error *err)
{
    spsh_feature_options known = SPSH_FEATURE_OPTIONS_INIT;
    spsh_featgen_options taken;
    spsh_featgen *featgen = NULL;
    spsh_status rc;

    if (features == NULL || ret_featgen == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "features or ret_featgen is NULL");
    rc = spsh_options_take(features, &known, sizeof(known), err);
    if (rc == SPSH_OK)
        rc = spsh_feature_options_check(&known, err);
    if (rc != SPSH_OK)
        goto out;
    rc = take_options(options, &taken, err);
    if (rc != SPSH_OK)
        goto out;
    featgen = spsh__new(taken.allocator, 1, sizeof(*featgen));
    if (featgen == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: %zu bytes", sizeof(*featgen));
        goto out;
    }
    featgen->allocator = *taken.allocator;
    featgen->options = taken;
    featgen->options.allocator = &featgen->allocator;
    featgen->tables.features = known;
    featgen->isa = spsh__frames_isa_best();
    featgen->pad_samples = samples_in(&known, known.pad_us);
    rc = fill_tables(&featgen->allocator, &featgen->tables, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_featgen = featgen;
    featgen = NULL;
out:
    spsh_featgen_close(featgen);
    return rc;
}

void spsh_featgen_close(spsh_featgen *featgen)
{
    if (featgen == NULL)
        return;
    const spsh_allocator allocator = featgen->allocator;
    spsh__frame_tables *tables = &featgen->tables;
    spsh__batch_close(featgen->batch);
    spsh__fft_plan_close(&allocator, &tables->fft);
    spsh__mel_bank_close(&allocator, &tables->mels);
    spsh__free(&allocator, tables->window);
    spsh__free(&allocator, tables->dct);
    spsh__free(&allocator, featgen);
}

const spsh_feature_options *spsh_featgen_features(const spsh_featgen *featgen)
{
    return &featgen->tables.features;
}

uint32_t spsh_featgen_dim(const spsh_featgen *featgen)
{
    return featgen->tables.dim;
}

uint64_t spsh_featgen_frame_count(const spsh_featgen *featgen, uint64_t sample_count)
{
    const uint64_t count = featgen->pad_samples != 0 ? featgen->pad_samples : sample_count;
    return spsh__signal_frame_count(&featgen->tables, count);
}

const char *spsh_featgen_isa(const spsh_featgen *featgen)
{
    return featgen->isa->name;
}

/* -------------------------------------------------------------------------------------- worker */

spsh_status spsh_featgen_worker_open(const spsh_featgen *featgen, spsh_featgen_worker **ret_worker,
                                     spsh_error *err)
{
    const spsh_allocator *allocator = &featgen->allocator;
    const spsh__frame_tables *tables = &featgen->tables;
    const size_t lanes = featgen->isa->lanes;
    const size_t scratch_bytes = spsh__frames_scratch_bytes(tables, featgen->isa->lanes);
    const size_t value_count =
        (lanes - 1) * window_stride(tables) + tables->window_samples + SPSH__WINDOW_SLACK;
    const size_t bytes = scratch_bytes + value_count * sizeof(float) + SCRATCH_ALIGNMENT;
    spsh_featgen_worker *worker = spsh__new(allocator, 1, sizeof(*worker));
    void *memory = spsh__new(allocator, bytes, 1);
    if (worker == NULL || memory == NULL) {
        spsh__free(allocator, worker);
        spsh__free(allocator, memory);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "featgen: a worker of %zu bytes", bytes);
    }
    const size_t past = (uintptr_t)memory % SCRATCH_ALIGNMENT;
    worker->featgen = featgen;
    worker->memory = memory;
    worker->scratch = (char *)memory + (SCRATCH_ALIGNMENT - past);
    worker->values = (void *)((char *)worker->scratch + scratch_bytes);
    *ret_worker = worker;
    return SPSH_OK;
}

void spsh_featgen_worker_close(spsh_featgen_worker *worker)
{
    if (worker == NULL)
        return;
    const spsh_allocator *allocator = &worker->featgen->allocator;
    spsh__free(allocator, worker->memory);
    spsh__free(allocator, worker);
}

static spsh_status check_input(const spsh_featgen *featgen, const spsh_feature_input *input,
                               spsh_error *err)
{
    const spsh_feature_norm norm = featgen->tables.features.norm;
    if (input->i16 != NULL && input->f32 != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "both i16 and f32 are set; set only one");
    if (input->sample_count != 0 && input->i16 == NULL && input->f32 == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "i16 and f32 are NULL, but sample_count is not 0");
    if (input->sample_count >= SAMPLE_COUNT_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "sample_count is too large, %llu",
                         (unsigned long long)input->sample_count);
    if ((norm == SPSH_NORM_SPEAKER || norm == SPSH_NORM_DATASET) &&
        (input->mean == NULL || input->scale == NULL))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "mean or scale is NULL, but this norm needs both");
    return SPSH_OK;
}

static spsh__signal signal_of(const spsh_featgen *featgen, const spsh_feature_input *input)
{
    const spsh_feature_options *features = &featgen->tables.features;
    const uint64_t pad = featgen->pad_samples;
    const uint64_t given = input->sample_count;
    const float i16_scale = features->full_scale_one ? 1 / 32768.0F : 1;
    const float f32_scale = features->full_scale_one ? 1 : 32768.0F;
    return (spsh__signal){
        .i16 = input->i16,
        .f32 = input->f32,
        .given_count = pad != 0 && pad < given ? pad : given,
        .sample_count = pad != 0 ? pad : given,
        .edges = features->edges,
        .scale = input->i16 != NULL ? i16_scale : f32_scale,
        .isa = featgen->isa,
    };
}

/* The samples of count windows from frame first on; all lanes get a window. */
static void read_windows(const spsh_featgen_worker *worker, const spsh__signal *signal,
                         uint64_t first, uint32_t count, const float **windows)
{
    const spsh__frame_tables *tables = &worker->featgen->tables;
    const size_t stride = window_stride(tables);
    const size_t size = tables->window_samples;
    for (uint32_t lane = 0; lane < worker->featgen->isa->lanes; lane++)
        windows[lane] = worker->values + (lane < count ? lane * stride : 0);
    if (tables->hop_samples == stride) {
        spsh__signal_read(signal, spsh__signal_frame_start(tables, first),
                          (count - 1) * stride + size, worker->values);
        return;
    }
    for (uint32_t lane = 0; lane < count; lane++)
        spsh__signal_read(signal, spsh__signal_frame_start(tables, first + lane), size,
                          worker->values + lane * stride);
}

spsh_status spsh_featgen_compute(spsh_featgen_worker *worker, const spsh_feature_input *input,
                                 float *rows, spsh_error *err)
{
    const spsh_featgen *featgen = worker->featgen;
    const spsh__frame_tables *tables = &featgen->tables;
    const uint32_t lanes = featgen->isa->lanes;
    const spsh_status rc = check_input(featgen, input, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__signal signal = signal_of(featgen, input);
    const uint64_t frame_count = spsh__signal_frame_count(tables, signal.sample_count);
    for (uint64_t first = 0; first < frame_count; first += lanes) {
        const float *windows[SPSH__LANES_MAX];
        const uint64_t left = frame_count - first;
        const uint32_t count = left < lanes ? (uint32_t)left : lanes;
        read_windows(worker, &signal, first, count, windows);
        featgen->isa->frames_fn(tables, windows, count, worker->scratch,
                                rows + first * tables->dim);
    }
    spsh__norm_apply(&tables->features, input, rows, frame_count, tables->dim);
    return SPSH_OK;
}

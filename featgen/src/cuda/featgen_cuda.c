/* featgen_cuda.c: batches for the plug-in: checked, laid out, handed over. Nothing here needs
 * CUDA.
 */
#include "speechshard/featgen_cuda.h"

#include "device_entry.h"
#include "features/featgen_state.h"
#include "features/frame_samples.h"
#include "speechshard/augment.h"

#define UTTERANCE_COUNT_DEFAULT UINT32_C(1024)
#define FRAME_COUNT_DEFAULT     UINT64_C(262144)
#define SAMPLE_COUNT_MAX        (UINT64_C(1) << 62)
/* Keeps the grid of blocks, and the offsets in rows, within their types. */
#define FRAME_COUNT_MAX (UINT64_C(1) << 31)

struct spsh_cuda_features {
    const spsh_featgen *featgen;
    const spsh__device_features_entry *entry;
    spsh_cuda_features_options options; /* without zeros */
    void *state;                        /* state of the plug-in */
};

/* Accept a smaller struct from an older caller. In a larger struct, the unknown fields must be
 * zero. */
static spsh_status take_options(const spsh_cuda_features_options *options,
                                spsh_cuda_features_options *taken, spsh_error *err)
{
    *taken = (spsh_cuda_features_options)SPSH_CUDA_FEATURES_OPTIONS_INIT;
    if (options != NULL) {
        const size_t known = sizeof(*taken);
        const size_t size = options->struct_size;
        const uint8_t *bytes = (const uint8_t *)options;
        if (size < sizeof(size))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "options: struct_size is %zu, expected %zu",
                             size, known);
        for (size_t i = known; i < size; i++)
            if (bytes[i] != 0)
                return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                                 "options: byte %zu is set, but this library knows only %zu bytes; "
                                 "use a newer library",
                                 i, known);
        memcpy(taken, options, size < known ? size : known);
    }
    if (taken->utterance_count_max == 0)
        taken->utterance_count_max = UTTERANCE_COUNT_DEFAULT;
    if (taken->frame_count_max == 0)
        taken->frame_count_max = FRAME_COUNT_DEFAULT;
    if (taken->utterance_count_max > SPSH_CUDA_UTTERANCE_COUNT_MAX ||
        taken->frame_count_max > FRAME_COUNT_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "options: the limits are %u utterances and %llu frames, not %u and %llu",
                         SPSH_CUDA_UTTERANCE_COUNT_MAX, (unsigned long long)FRAME_COUNT_MAX,
                         taken->utterance_count_max, (unsigned long long)taken->frame_count_max);
    if (taken->dtype != SPSH_FLOAT32 && taken->dtype != SPSH_FLOAT16)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "options: unknown dtype %u",
                         (unsigned)taken->dtype);
    if (taken->time_masks > SPSH_AUGMENT_MASKS_MAX ||
        taken->frequency_masks > SPSH_AUGMENT_MASKS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "options: the limits are %u masks of time and of frequency, not %u and %u",
                         (unsigned)SPSH_AUGMENT_MASKS_MAX, taken->time_masks,
                         taken->frequency_masks);
    return SPSH_OK;
}

static spsh_status take_entry(const spsh_cuda *cuda, const spsh__device_features_entry **ret_entry,
                              spsh_error *err)
{
    spsh__device_features_entry_fn *entry_fn = NULL;
    void *symbol = spsh_cuda_symbol(cuda, SPSH__DEVICE_FEATURES_SYMBOL);
    if (symbol == NULL)
        return SPSH_FAIL(err, SPSH_E_VERSION, "the CUDA plug-in was built without features");
    memcpy(&entry_fn, &symbol, sizeof(entry_fn));
    const spsh__device_features_entry *entry = entry_fn();
    if (entry->tables_bytes != sizeof(spsh__frame_tables) ||
        entry->job_bytes != sizeof(spsh__device_job))
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the CUDA plug-in and this library are from different builds; install "
                         "both from the same build");
    *ret_entry = entry;
    return SPSH_OK;
}

spsh_status spsh_cuda_features_open(const spsh_cuda *cuda, const spsh_featgen *featgen,
                                    const spsh_cuda_features_options *options,
                                    spsh_cuda_features **ret_features, spsh_error *err)
{
    spsh_cuda_features_options taken;
    const spsh__device_features_entry *entry = NULL;
    spsh_cuda_features *features = NULL;
    spsh_status rc;

    if (cuda == NULL || featgen == NULL || ret_features == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "cuda, featgen, or ret_features is NULL");
    rc = take_options(options, &taken, err);
    if (rc != SPSH_OK)
        return rc;
    if (taken.device >= spsh_cuda_device_count(cuda))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "device %u does not exist", taken.device);
    rc = take_entry(cuda, &entry, err);
    if (rc != SPSH_OK)
        return rc;
    features = spsh__new(&featgen->allocator, 1, sizeof(*features));
    if (features == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "features: %zu bytes", sizeof(*features));
    features->featgen = featgen;
    features->entry = entry;
    features->options = taken;
    const uint32_t mask_count = taken.time_masks + taken.frequency_masks;
    const bool needs_rows = taken.dtype == SPSH_FLOAT16 &&
                            (featgen->tables.features.norm != SPSH_NORM_NONE || mask_count > 0);
    const spsh__device_features_plan plan = {
        .tables = &featgen->tables,
        .device = taken.device,
        .utterance_count_max = taken.utterance_count_max,
        .mask_count = mask_count,
        .row_count_max = needs_rows ? taken.frame_count_max : 0,
    };
    rc = entry->open_fn(&plan, &features->state, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_features = features;
    features = NULL;
out:
    spsh_cuda_features_close(features);
    return rc;
}

void spsh_cuda_features_close(spsh_cuda_features *features)
{
    if (features == NULL)
        return;
    if (features->state != NULL)
        features->entry->close_fn(features->state);
    spsh__free(&features->featgen->allocator, features);
}

/* ---- a batch ---- */

static spsh_status check_batch(const spsh_cuda_features *features,
                               const spsh_cuda_feature_batch *batch, spsh_error *err)
{
    const spsh_feature_norm norm = features->featgen->tables.features.norm;
    if (batch->count == 0)
        return SPSH_OK;
    if (batch->count > features->options.utterance_count_max)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a batch of %zu utterances exceeds the limit, %u",
                         batch->count, features->options.utterance_count_max);
    if (batch->offsets == NULL || batch->sample_counts == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "offsets or sample_counts is NULL");
    if ((norm == SPSH_NORM_SPEAKER || norm == SPSH_NORM_DATASET) &&
        (batch->mean == NULL || batch->scale == NULL))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "mean or scale is NULL, but this norm needs both");
    return SPSH_OK;
}

/* Frames of a batch. */
typedef struct extent {
    uint64_t frames, longest;
} extent;

/* Check that the batch fits. Writes nothing but *ret_extent. */
static spsh_status measure(const spsh_cuda_features *features, const spsh_cuda_feature_batch *batch,
                           extent *ret_extent, spsh_error *err)
{
    const uint32_t dim = features->featgen->tables.dim;
    uint64_t needed = 0;
    extent all = {0, 0};
    for (size_t u = 0; u < batch->count; u++) {
        if (batch->sample_counts[u] >= SAMPLE_COUNT_MAX ||
            batch->offsets[u] >= SAMPLE_COUNT_MAX - batch->sample_counts[u])
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "utterance %zu has too many samples, %llu", u,
                             (unsigned long long)batch->sample_counts[u]);
        if (batch->sample_counts[u] > 0 && batch->samples == NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "samples is NULL, but an utterance has samples");
        const uint64_t frames =
            spsh_featgen_frame_count(features->featgen, batch->sample_counts[u]);
        const uint64_t taken = batch->padded_frames != 0 ? batch->padded_frames : frames;
        uint64_t values = 0;
        all.longest = frames > all.longest ? frames : all.longest;
        if (frames > features->options.frame_count_max - all.frames)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "the batch exceeds the limit of %llu frames at utterance %zu of %zu",
                             (unsigned long long)features->options.frame_count_max, u,
                             batch->count);
        all.frames += frames;
        if (frames > taken)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "utterance %zu has %llu frames, but the batch has %llu", u,
                             (unsigned long long)frames, (unsigned long long)taken);
        if (__builtin_mul_overflow(taken, (uint64_t)dim, &values) ||
            __builtin_add_overflow(needed, values, &needed) || needed > batch->capacity)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "the buffer of %zu values is full at utterance %zu of %zu",
                             batch->capacity, u, batch->count);
    }
    if (needed > 0 && batch->values == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "values is NULL");
    *ret_extent = all;
    return SPSH_OK;
}

static void lay_out(const spsh_cuda_features *features, const spsh_cuda_feature_batch *batch,
                    spsh__device_utterance *utterances, uint64_t *frame_counts)
{
    const uint64_t pad = features->featgen->pad_samples;
    const uint32_t dim = features->featgen->tables.dim;
    uint64_t row = 0;
    uint64_t value = 0;
    for (size_t u = 0; u < batch->count; u++) {
        const uint64_t given = batch->sample_counts[u];
        const uint64_t frames = spsh_featgen_frame_count(features->featgen, given);
        utterances[u] = (spsh__device_utterance){
            .first_sample = batch->offsets[u],
            .given_count = pad != 0 && pad < given ? pad : given,
            .sample_count = pad != 0 ? pad : given,
            .frame_count = frames,
            .first_row = row,
            .first_value = value,
        };
        row += frames;
        value += (batch->padded_frames != 0 ? batch->padded_frames : frames) * dim;
        if (frame_counts != NULL)
            frame_counts[u] = frames;
    }
}

spsh_status spsh_cuda_features_compute(spsh_cuda_features *features, void *stream,
                                       const spsh_cuda_feature_batch *batch, uint64_t *frame_counts,
                                       spsh_error *err)
{
    spsh__device_utterance *utterances = NULL;
    extent all = {0, 0};
    if (features == NULL || batch == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "features or batch is NULL");
    spsh_status rc = check_batch(features, batch, err);
    if (rc == SPSH_OK)
        rc = measure(features, batch, &all, err);
    if (rc != SPSH_OK || batch->count == 0)
        return rc;
    const spsh__device_features_entry *entry = features->entry;
    const spsh__frame_tables *tables = &features->featgen->tables;
    rc = entry->begin_fn(features->state, &utterances, err);
    if (rc != SPSH_OK)
        return rc;
    lay_out(features, batch, utterances, frame_counts);
    const bool has_masks = batch->masks != NULL;
    const uint32_t time_masks = has_masks ? features->options.time_masks : 0;
    const uint32_t frequency_masks = has_masks ? features->options.frequency_masks : 0;
    if (time_masks + frequency_masks > 0)
        memcpy(spsh__device_table_masks(utterances, batch->count), batch->masks,
               batch->count * (time_masks + frequency_masks) * sizeof(*batch->masks));
    const spsh__device_job job = {
        .scale = tables->features.full_scale_one ? 1 / 32768.0F : 1,
        .first_start = spsh__signal_frame_start(tables, 0),
        .samples = batch->samples,
        .utterance_count = (uint32_t)batch->count,
        .values = batch->values,
        .dtype = features->options.dtype,
        .padded_frames = batch->padded_frames,
        .padding_value = batch->padding_value,
        .mean = batch->mean,
        .scales = batch->scale,
        .stats_stride = batch->stats_stride,
        .time_masks = time_masks,
        .frequency_masks = frequency_masks,
    };
    return entry->run_fn(features->state, stream, &job, all.longest, err);
}

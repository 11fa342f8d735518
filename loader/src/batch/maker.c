/* maker.c: convert an utterance's samples to its part of a batch.
 *
 *     int16                 pcm ---augment---> slot
 *     float32               pcm ---augment---> sound ---> slot
 *     features              pcm --(augment---> sound)---> rows --mask--> slot, float32 or float16
 *     stored features       payload --decode-> (halves -> rows) --mask--> slot
 *     features by a device  pcm --(augment)--> slot, with means and scales in it
 *
 * float32 rows are computed directly in the slot. Stored float16 values that stay unchanged are
 * decoded there. Buffers have the size of the longest utterance of the plan. They are allocated at
 * open, and nothing grows later.
 */
#include "maker.h"

#include "speechshard/features.h"
#include "stats.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

enum { PADDING_VALUES = 256, ALIGNMENT = 64 };

/* ---- memory ---- */

/* Offsets of the buffers in a maker's memory. */
typedef struct buffers {
    size_t pcm, sound, rows, halves, block, sums, means, end;
} buffers;

static size_t put(size_t *at, uint64_t size_bytes)
{
    const size_t here = *at;
    *at += (size_t)(size_bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    return here;
}

static buffers buffers_of(const spsh__recipe *recipe, const spsh_plan_info *info)
{
    const uint64_t out = spsh__recipe_out_samples_max(recipe, info);
    uint64_t values = 0;
    buffers b = {.end = 0};
    b.pcm = put(&b.end, spsh__recipe_rate_samples_max(info) * sizeof(int16_t));
    const bool is_last = recipe->output == SPSH_OUTPUT_INT16 || recipe->hands_samples;
    b.sound = put(&b.end, recipe->has_sound && !is_last ? out * sizeof(int16_t) : 0);
    if (recipe->featgen != NULL && !recipe->hands_samples)
        values = spsh_featgen_frame_count(recipe->featgen, out) * recipe->dim;
    b.rows = put(&b.end, recipe->dtype == SPSH_FLOAT16 ? values * sizeof(float) : 0);
    b.halves = put(&b.end, recipe->has_halves ? values * sizeof(uint16_t) : 0);
    b.block = put(&b.end, recipe->has_stored ? SPSH_FEATURES_BLOCK_BYTES : 0);
    b.sums = put(&b.end, 2 * sizeof(double) * recipe->dim);
    b.means = put(&b.end, 2 * sizeof(float) * recipe->dim);
    return b;
}

static spsh_status take_buffers(spsh__maker *maker, const spsh_plan_info *info, spsh_error *err)
{
    const buffers b = buffers_of(maker->recipe, info);
    maker->memory = (uint8_t *)spsh__budget_take(maker->budget, b.end);
    if (maker->memory == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE,
                            "loader: %zu bytes for the buffers of a decode thread", b.end);
    maker->memory_bytes = b.end;
    maker->samples_max = spsh__recipe_rate_samples_max(info);
    maker->pcm = (int16_t *)(void *)(maker->memory + b.pcm);
    maker->sound = (int16_t *)(void *)(maker->memory + b.sound);
    maker->rows = (float *)(void *)(maker->memory + b.rows);
    maker->halves = maker->memory + b.halves;
    maker->block = maker->memory + b.block;
    maker->sums = (double *)(void *)(maker->memory + b.sums);
    maker->means = (float *)(void *)(maker->memory + b.means);
    return SPSH_OK;
}

static spsh_status open_augmenter(spsh__maker *maker, const spsh_plan_info *info, spsh_error *err)
{
    const spsh__recipe *recipe = maker->recipe;
    const spsh_allocator allocator = spsh__budget_allocator(maker->budget);
    const uint32_t rate_hz = info->sample_rate_hz_max;
    const uint64_t room_max = spsh__room_samples_max(rate_hz);
    /* Rounding may add samples to an utterance at any rate. */
    const double seconds = (double)info->longest_microseconds / 1e6 * recipe->stretch +
                           4.0 / (double)SPSH_SAMPLE_RATE_HZ_MIN;
    spsh_status rc = spsh__sound_reader_open(&maker->noises, &recipe->noises, seconds, rate_hz,
                                             maker->budget, err);
    if (rc == SPSH_OK)
        rc = spsh__sound_reader_open(&maker->rooms, &recipe->rooms, SPSH_LOADER_ROOM_SECONDS,
                                     rate_hz, maker->budget, err);
    if (rc == SPSH_OK)
        rc = spsh_augmenter_open(&recipe->augment, maker->samples_max,
                                 recipe->rooms.utterance_count > 0 ? room_max : 0, &allocator,
                                 &maker->augmenter, err);
    return rc;
}

spsh_status spsh__maker_open(spsh__maker *maker, const spsh__recipe *recipe,
                             const spsh_plan_info *info, spsh__budget *budget, spsh_error *err)
{
    if (!spsh__recipe_makes(recipe))
        return SPSH_OK;
    maker->recipe = recipe;
    maker->budget = budget;
    spsh_status rc = take_buffers(maker, info, err);
    if (rc == SPSH_OK && recipe->has_sound)
        rc = open_augmenter(maker, info, err);
    if (rc == SPSH_OK && recipe->featgen != NULL && !recipe->hands_samples)
        rc = spsh_featgen_worker_open(recipe->featgen, &maker->worker, err);
    return rc;
}

void spsh__maker_close(spsh__maker *maker)
{
    if (maker->recipe == NULL)
        return;
    spsh_featgen_worker_close(maker->worker);
    spsh_augmenter_close(maker->augmenter);
    spsh__sound_reader_close(&maker->noises);
    spsh__sound_reader_close(&maker->rooms);
    spsh__budget_give(maker->budget, maker->memory, maker->memory_bytes);
    maker->recipe = NULL;
}

/* ---- sounds ---- */

/* Ask the policy whether to omit a noise or RIR. err names its utterance; add `what`, its
 * purpose. */
static bool may_omit(const spsh__maker *maker, const char *what, spsh_status rc, spsh_error *err)
{
    const spsh_error why = *err;
    if (rc == SPSH_E_NO_MEMORY)
        return false;
    spsh_error_set(err, why.status, why.os_errno, NONE, "%s: %.400s", what, why.message);
    return maker->policy.may_omit_fn(maker->policy.user, err);
}

/* A noise that cannot be read is read a second time, like a record. */
static spsh_status add_noise(spsh__maker *maker, const spsh__job *job, spsh_augment_draw *draw,
                             spsh_augment_input *input, spsh_error *err)
{
    const uint32_t rate_hz = job->slot->batch.sample_rate_hz;
    spsh__sound sound = {.sample_count = 0};
    spsh_status rc =
        spsh__sound_read_noise(&maker->noises, draw, rate_hz, job->out_samples, &sound, err);
    if (rc != SPSH_OK)
        rc = spsh__sound_read_noise(&maker->noises, draw, rate_hz, job->out_samples, &sound, err);
    if (rc != SPSH_OK && !may_omit(maker, "noise", rc, err))
        return rc;
    draw->has_noise = rc == SPSH_OK && sound.sample_count > 0;
    input->noise = sound.pcm;
    input->noise_count = sound.sample_count;
    input->noise_start = sound.start;
    return SPSH_OK;
}

static spsh_status add_room(spsh__maker *maker, const spsh__job *job, spsh_augment_draw *draw,
                            spsh_augment_input *input, spsh_error *err)
{
    const uint32_t rate_hz = job->slot->batch.sample_rate_hz;
    spsh__sound sound = {.sample_count = 0};
    spsh_status rc = spsh__sound_read_room(&maker->rooms, draw, rate_hz, &sound, err);
    if (rc != SPSH_OK)
        rc = spsh__sound_read_room(&maker->rooms, draw, rate_hz, &sound, err);
    if (rc != SPSH_OK && !may_omit(maker, "room", rc, err))
        return rc;
    draw->has_room = rc == SPSH_OK && sound.sample_count > 0;
    input->room = sound.pcm;
    input->room_count = sound.sample_count;
    return SPSH_OK;
}

static spsh_status augment(spsh__maker *maker, const spsh__job *job, int16_t *out, spsh_error *err)
{
    spsh_augment_draw draw;
    spsh_augment_input input = {.samples = maker->pcm, .sample_count = job->rate_samples};
    spsh_status rc = SPSH_OK;
    if (job->rate_samples == 0)
        return SPSH_OK;
    spsh__recipe_draw(maker->recipe, job, &draw);
    if (draw.has_noise)
        rc = add_noise(maker, job, &draw, &input, err);
    if (rc == SPSH_OK && draw.has_room)
        rc = add_room(maker, job, &draw, &input, err);
    return rc == SPSH_OK ? spsh_augment_samples(maker->augmenter, &draw, &input, out, err) : rc;
}

/* ---- features ---- */

static uint8_t *place_of(const spsh__job *job)
{
    return job->slot->audio + job->place * job->slot->value_bytes;
}

/* The buffer in which float32 rows are computed. */
static float *rows_of(const spsh__maker *maker, const spsh__job *job)
{
    return maker->recipe->dtype == SPSH_FLOAT16 ? maker->rows : (float *)(void *)place_of(job);
}

/* Write the padding value after the last frame, to the end of the utterance's row in the batch. */
static void pad_features(const spsh__maker *maker, const spsh__job *job)
{
    const spsh__recipe *recipe = maker->recipe;
    const uint64_t values = job->frames * recipe->dim;
    uint8_t *to = place_of(job) + values * recipe->value_bytes;
    float some[PADDING_VALUES];
    uint16_t halves[PADDING_VALUES];
    const void *from = some;
    for (uint32_t n = 0; n < PADDING_VALUES; n++)
        some[n] = recipe->padding;
    if (recipe->dtype == SPSH_FLOAT16) {
        spsh_half_from_float(halves, some, PADDING_VALUES);
        from = halves;
    }
    for (uint64_t left = job->slot->stride - values; left > 0;) {
        const uint64_t now = left < PADDING_VALUES ? left : PADDING_VALUES;
        memcpy(to, from, now * recipe->value_bytes);
        to += now * recipe->value_bytes;
        left -= now;
    }
}

/* The mean of all values: sum each dimension over the frames, then sum over dimensions. */
static float mean_of(const spsh__maker *maker, const float *rows, uint64_t frame_count)
{
    const uint32_t dim = maker->recipe->dim;
    spsh_feature_sums sums = {.dim = dim, .sum = maker->sums, .square_sum = maker->sums + dim};
    double sum = 0;
    memset(maker->sums, 0, 2 * sizeof(*maker->sums) * dim);
    spsh_feature_sums_add(&sums, rows, frame_count);
    for (uint32_t d = 0; d < dim; d++)
        sum += sums.sum[d];
    return (float)(sum / (double)(frame_count * dim));
}

/* Mask the rows, write them to the slot, and pad them. */
static void deliver_rows(const spsh__maker *maker, const spsh__job *job, float *rows)
{
    const spsh__recipe *recipe = maker->recipe;
    spsh_augment_draw draw;
    if (recipe->has_masks && job->frames > 0) {
        spsh__recipe_draw(recipe, job, &draw);
        spsh_augment_mask(&draw, rows, job->frames, recipe->dim, mean_of(maker, rows, job->frames));
    }
    if (recipe->dtype == SPSH_FLOAT16)
        spsh_half_from_float((uint16_t *)(void *)place_of(job), rows, job->frames * recipe->dim);
    pad_features(maker, job);
}

/* Compute dim means followed by dim scales, of the dataset or of the speaker. A speaker without
 * frames gets means of 0 and scales of 1. */
static spsh_status read_norm(const spsh__maker *maker, const spsh__job *job, float *means,
                             spsh_error *err)
{
    const spsh__recipe *recipe = maker->recipe;
    const uint32_t dim = recipe->dim;
    spsh_statistics_sums sums = {.sum = maker->sums, .square_sum = maker->sums + dim};
    const uint64_t group = recipe->norm == SPSH_NORM_DATASET
                               ? SPSH_STATISTICS_DATASET
                               : spsh_statistics_speaker(job->row.speaker);
    spsh_status rc = spsh_statistics_get(recipe->statistics[job->item.dataset], group, &sums, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_feature_sums all = {sums.frame_count, dim, sums.sum, sums.square_sum};
    spsh_feature_sums_norm(&all, sums.frame_count > 0, means, means + dim);
    return SPSH_OK;
}

static spsh_status make_features(spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    spsh_feature_input input = {.i16 = maker->pcm, .sample_count = job->out_samples};
    float *rows = rows_of(maker, job);
    spsh_status rc = SPSH_OK;
    if (maker->recipe->has_sound) {
        input.i16 = maker->sound;
        rc = augment(maker, job, maker->sound, err);
    }
    if (rc == SPSH_OK && maker->recipe->statistics != NULL) {
        input.mean = maker->means;
        input.scale = maker->means + maker->recipe->dim;
        rc = read_norm(maker, job, maker->means, err);
    }
    if (rc == SPSH_OK)
        rc = spsh_featgen_compute(maker->worker, &input, rows, err);
    if (rc == SPSH_OK)
        deliver_rows(maker, job, rows);
    return rc;
}

/* ---- audio ---- */

static spsh_status make_f32(spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    float *to = (float *)(void *)place_of(job);
    spsh_status rc = augment(maker, job, maker->sound, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint64_t n = 0; n < job->out_samples; n++)
        to[n] = (float)maker->sound[n] * 0x1p-15F;
    for (uint64_t n = job->out_samples; n < job->slot->stride; n++)
        to[n] = 0;
    return SPSH_OK;
}

static spsh_status make_i16(spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    int16_t *to = (int16_t *)(void *)place_of(job);
    if (maker->recipe->has_sound)
        return augment(maker, job, to, err);
    memcpy(to, maker->pcm, (size_t)job->out_samples * sizeof(*to));
    return SPSH_OK;
}

/* Write samples, means, and scales for a device that computes features. */
static spsh_status hand_samples(spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    const spsh_status rc = make_i16(maker, job, err);
    return rc == SPSH_OK ? spsh__maker_norm(maker, job, err) : rc;
}

/* ---- the job ---- */

spsh_status spsh__maker_norm(const spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    const spsh__recipe *recipe = maker->recipe;
    if (recipe == NULL || recipe->statistics == NULL)
        return SPSH_OK;
    float *norms = (float *)(void *)(job->slot->audio + job->slot->layout.norms_at);
    return read_norm(maker, job, norms + (size_t)job->number * 2 * recipe->dim, err);
}

spsh_status spsh__maker_run(spsh__maker *maker, spsh__job *job, spsh_error *err)
{
    const uint64_t begin_ns = spsh__thread_cpu_ns(pthread_self());
    spsh_status rc = SPSH_OK;
    switch (maker->recipe->output) {
    case SPSH_OUTPUT_INT16: rc = make_i16(maker, job, err); break;
    case SPSH_OUTPUT_FLOAT32: rc = make_f32(maker, job, err); break;
    case SPSH_OUTPUT_FEATURES:
        rc = maker->recipe->hands_samples ? hand_samples(maker, job, err)
                                          : make_features(maker, job, err);
        break;
    }
    atomic_fetch_add_explicit(&maker->cpu_ns, spsh__thread_cpu_ns(pthread_self()) - begin_ns,
                              memory_order_relaxed);
    return rc;
}

spsh_status spsh__maker_run_stored(spsh__maker *maker, spsh__job *job, spsh_bytes payload,
                                   spsh_error *err)
{
    const spsh__recipe *recipe = maker->recipe;
    const uint32_t value_bytes = recipe->stored[job->item.dataset];
    float *rows = rows_of(maker, job);
    spsh_features_info info;
    spsh_status rc = spsh_features_inspect(payload.data, payload.size_bytes, &info, err);
    if (rc != SPSH_OK)
        return rc;
    if (info.frame_count != job->frames || info.dim != recipe->dim ||
        info.value_bytes != value_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, NONE,
                            "the payload holds %llu frames of %u values of %u bytes, but the "
                            "dataset's features are %llu frames of %u values of %u bytes",
                            ULL(info.frame_count), info.dim, info.value_bytes, ULL(job->frames),
                            recipe->dim, value_bytes);
    const bool is_half = recipe->dtype == SPSH_FLOAT16;
    if (value_bytes == 2 && is_half && !recipe->has_masks) {
        rc = spsh_features_decode(payload, 0, job->frames, place_of(job), maker->block, err);
        if (rc == SPSH_OK)
            pad_features(maker, job);
        return rc;
    }
    rc = spsh_features_decode(payload, 0, job->frames,
                              value_bytes == 2 ? maker->halves : (uint8_t *)(void *)rows,
                              maker->block, err);
    if (rc != SPSH_OK)
        return rc;
    if (value_bytes == 2)
        spsh_float_from_half(rows, (const uint16_t *)(const void *)maker->halves,
                             job->frames * recipe->dim);
    deliver_rows(maker, job, rows);
    return SPSH_OK;
}

/* hear.c: a batch of one utterance, without a plan. It uses recipe, maker, and renderer as a loader
 * does. The slot has only a buffer for the result.
 */
#include "speechshard/hear.h"

#include <math.h>

#include "render.h"
#include "speechshard/features.h"
#include "speechshard/options.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

struct spsh_hearing {
    spsh_allocator allocator;
    spsh__budget budget; /* for all memory below */
    spsh_allocator budget_allocator;
    const spsh_dataset *dataset;
    spsh_feature_options features;
    spsh__recipe recipe;
    spsh__maker maker;
    spsh__renderer renderer;
    spsh__slot slot;
    spsh__job job;
    char *noise_id, *room_id; /* ids of the last draw */
};

/* ---- opening ---- */

/* The facts that a loader takes from its plan. */
static spsh_plan_info plan_of(const spsh_hearing *h)
{
    const spsh_row *row = &h->job.row;
    const double seconds = (double)row->samples / (double)row->sample_rate_hz;
    return (spsh_plan_info){.longest_microseconds = (uint64_t)ceil(seconds * 1e6) + 1,
                            .sample_rate_hz_max = h->slot.batch.sample_rate_hz,
                            .channels_max = row->channels};
}

static spsh_status take_row(spsh_hearing *h, uint64_t position, int32_t channel, spsh_error *err)
{
    spsh_row *row = &h->job.row;
    spsh_status rc = spsh_dataset_rows(h->dataset, position, 1, row, err);
    if (rc != SPSH_OK)
        return rc;
    if (row->channels == 0 || row->sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN ||
        row->channels > SPSH_CHANNELS_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, NONE,
                            "%.200s: utterance number %llu: the index states %u channels at %u Hz, "
                            "which is impossible",
                            spsh_dataset_path(h->dataset), ULL(position), row->channels,
                            row->sample_rate_hz);
    if (channel > 0 && (uint32_t)channel > row->channels)
        return SPSH_FAIL_AT(err, SPSH_E_NOT_FOUND, NONE,
                            "channel %d was requested, but the audio has %u channels", (int)channel,
                            row->channels);
    h->job.slot = &h->slot;
    h->job.way = SPSH__WAY_SELF;
    h->job.item = (spsh_item){
        .position = position, .samples = row->samples, .sample_rate_hz = row->sample_rate_hz};
    return SPSH_OK;
}

/* Choose the feature options: the caller's, else the dataset's if it stores features, else
 * kaldi-fbank. */
static spsh_status choose_features(spsh_hearing *h, spsh_loader_options *opt, spsh_error *err)
{
    spsh_features_description described = SPSH_FEATURES_DESCRIPTION_INIT;
    spsh_status rc = SPSH_OK;
    h->features = (spsh_feature_options)SPSH_FEATURE_OPTIONS_INIT;
    if (opt->features != NULL) {
        rc = spsh_options_take(opt->features, &h->features, sizeof(h->features), err);
    } else {
        rc = spsh_features_dataset(h->dataset, &described, err);
        if (rc == SPSH_OK) {
            rc = spsh_feature_options_parse(described.text, &h->features, err);
        } else if (rc == SPSH_E_NOT_FOUND) {
            rc = spsh_feature_options_preset("kaldi-fbank", &h->features, err);
            h->features.sample_rate_hz = opt->plan->sample_rate_hz != 0 ? opt->plan->sample_rate_hz
                                                                        : h->job.row.sample_rate_hz;
        }
    }
    opt->features = &h->features;
    opt->output = SPSH_OUTPUT_FEATURES;
    opt->feature_dtype = SPSH_FLOAT32;
    return rc;
}

/* The sample count that spsh_resample gives. */
static uint64_t resampled(uint64_t samples, uint32_t from_hz, uint32_t to_hz)
{
    return from_hz == to_hz ? samples : (samples * to_hz + from_hz - 1) / from_hz;
}

static spsh_status open_parts(spsh_hearing *h, spsh_loader_options *opt, spsh_error *err)
{
    spsh_status rc = choose_features(h, opt, err);
    if (rc == SPSH_OK)
        rc = spsh__recipe_open(&h->recipe, opt, &h->dataset, 1, &h->budget_allocator, err);
    if (rc != SPSH_OK)
        return rc;
    if (h->job.row.samples > UINT64_MAX / h->features.sample_rate_hz / 4)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, NONE,
                            "an utterance of %llu samples is too long to compute features",
                            ULL(h->job.row.samples));
    h->slot.batch.sample_rate_hz = h->features.sample_rate_hz;
    h->slot.batch.channels = 1;
    h->slot.batch.output = SPSH_OUTPUT_FEATURES;
    h->slot.value_bytes = h->recipe.value_bytes;
    h->job.rate_samples =
        resampled(h->job.row.samples, h->job.row.sample_rate_hz, h->slot.batch.sample_rate_hz);
    return SPSH_OK;
}

spsh_status spsh_hearing_open(const spsh_dataset *dataset, uint64_t position,
                              const spsh_loader_options *options, spsh_hearing **ret_hearing,
                              spsh_error *err)
{
    spsh_loader_options opt;
    spsh_plan_options plan;
    spsh_status rc = spsh__recipe_take_options(options, &opt, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_allocator *allocator =
        plan.allocator != NULL ? plan.allocator : spsh_allocator_default();
    spsh_hearing *h = (spsh_hearing *)spsh__new(allocator, 1, sizeof(*h));
    if (h == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "hearing: %zu bytes", sizeof(*h));
    h->allocator = *allocator;
    h->dataset = dataset;
    h->budget.allocator = h->allocator;
    h->budget.limit_bytes = opt.memory_bytes != 0 ? opt.memory_bytes : SPSH_LOADER_MEMORY_DEFAULT;
    h->budget_allocator = spsh__budget_allocator(&h->budget);
    rc = take_row(h, position, opt.channel, err);
    if (rc == SPSH_OK)
        rc = open_parts(h, &opt, err);
    h->renderer = (spsh__renderer){.allocator = &h->budget_allocator,
                                   .datasets = &h->dataset,
                                   .dataset_count = 1,
                                   .budget = &h->budget,
                                   .channel = opt.channel,
                                   .recipe = &h->recipe,
                                   .maker = &h->maker};
    if (rc == SPSH_OK)
        rc = spsh__renderer_open(&h->renderer, err);
    if (rc != SPSH_OK) {
        spsh_hearing_close(h);
        return rc;
    }
    *ret_hearing = h;
    return SPSH_OK;
}

void spsh_hearing_close(spsh_hearing *hearing)
{
    if (hearing == NULL)
        return;
    const spsh_allocator allocator = hearing->allocator;
    spsh__renderer_close(&hearing->renderer);
    spsh__maker_close(&hearing->maker);
    spsh__recipe_close(&hearing->recipe);
    spsh__budget_give(&hearing->budget, hearing->slot.audio, hearing->slot.layout.audio_bytes);
    spsh__free(&allocator, hearing->noise_id);
    spsh__free(&allocator, hearing->room_id);
    spsh__free(&allocator, hearing);
}

const spsh_feature_options *spsh_hearing_features(const spsh_hearing *hearing)
{
    return &hearing->features;
}

/* ---- drawing ---- */

static spsh_status copy_id(const spsh_hearing *h, spsh_bytes id, char **ret_copy, spsh_error *err)
{
    char *copy = (char *)spsh__new(&h->allocator, 1, id.size_bytes + 1);
    if (copy == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "hearing: an id of %zu bytes",
                            id.size_bytes);
    memcpy(copy, id.data, id.size_bytes);
    spsh__free(&h->allocator, *ret_copy);
    *ret_copy = copy;
    return SPSH_OK;
}

/* Return the id of the sound that a fraction selects, and its stored length. */
static spsh_status name_sound(const spsh_hearing *h, const spsh__sounds *sounds,
                              spsh_fraction which, char **ret_id, uint64_t *ret_samples,
                              spsh_error *err)
{
    const spsh_dataset *dataset = NULL;
    uint64_t position = 0;
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_row row;
    spsh__sounds_find(sounds, which, &dataset, &position);
    spsh_status rc = spsh_dataset_rows(dataset, position, 1, &row, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_open(dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, position, &utterance, err);
    if (rc == SPSH_OK)
        rc = copy_id(h, utterance.id, ret_id, err);
    if (rc == SPSH_OK)
        *ret_samples = row.samples;
    spsh_reader_close(reader);
    return rc;
}

/* Add the ids of the drawn sounds. An empty sound is not mixed in, and an empty utterance is not
 * augmented. */
static spsh_status name_sounds(spsh_hearing *h, spsh_augment_draw *draw,
                               spsh_augment_subject *subject, spsh_error *err)
{
    uint64_t samples = 0;
    spsh_status rc = SPSH_OK;
    if (h->job.rate_samples == 0)
        draw->has_noise = draw->has_room = draw->has_gain = false;
    if (draw->has_noise) {
        rc = name_sound(h, &h->recipe.noises, draw->noise, &h->noise_id, &samples, err);
        draw->has_noise = samples > 0;
        subject->noise_id = h->noise_id;
        subject->noise_start = spsh_fraction_of(draw->noise_start, samples);
    }
    samples = 0;
    if (rc == SPSH_OK && draw->has_room) {
        rc = name_sound(h, &h->recipe.rooms, draw->room, &h->room_id, &samples, err);
        draw->has_room = samples > 0;
        subject->room_id = h->room_id;
    }
    return rc;
}

spsh_status spsh_hearing_draw(spsh_hearing *hearing, uint64_t epoch, spsh_augment_draw *ret_draw,
                              spsh_augment_subject *ret_subject, spsh_error *err)
{
    spsh_hearing *h = hearing;
    spsh_augment_draw draw;
    h->slot.batch.epoch = epoch;
    spsh__recipe_measure(&h->recipe, &h->job);
    spsh__recipe_draw(&h->recipe, &h->job, &draw);
    spsh_augment_subject subject = {
        .sample_count = h->job.rate_samples, .frame_count = h->job.frames, .dim = h->recipe.dim};
    spsh_status rc = name_sounds(h, &draw, &subject, err);
    if (rc == SPSH_OK) {
        *ret_draw = draw;
        *ret_subject = subject;
    }
    return rc;
}

/* ---- listening ---- */

static bool never(void *user, const spsh_error *why)
{
    (void)user;
    (void)why;
    return false;
}

/* Allocate the rows for this epoch, and at the first call the maker's memory. */
static spsh_status reserve(spsh_hearing *h, spsh_error *err)
{
    const uint64_t values = h->job.frames * h->recipe.dim;
    const uint64_t bytes = values * sizeof(float);
    const spsh_plan_info plan = plan_of(h);
    spsh_status rc = SPSH_OK;
    if (h->maker.recipe == NULL) {
        h->maker.policy = (spsh__sound_policy){never, NULL};
        rc = spsh__maker_open(&h->maker, &h->recipe, &plan, &h->budget, err);
    }
    h->slot.stride = values;
    if (rc != SPSH_OK || bytes < h->slot.layout.audio_bytes)
        return rc;
    spsh__budget_give(&h->budget, h->slot.audio, h->slot.layout.audio_bytes);
    h->slot.layout.audio_bytes = 0;
    h->slot.audio = (uint8_t *)spsh__budget_take(&h->budget, (size_t)bytes + sizeof(float));
    if (h->slot.audio == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "hearing: %llu bytes for %llu frames",
                            ULL(bytes), ULL(h->job.frames));
    h->slot.layout.audio_bytes = (size_t)bytes + sizeof(float);
    return SPSH_OK;
}

spsh_status spsh_hearing_listen(spsh_hearing *hearing, uint64_t epoch, spsh_heard *ret_heard,
                                spsh_error *err)
{
    spsh_hearing *h = hearing;
    const spsh__recipe *recipe = &h->recipe;
    bool named = false;
    spsh_error why = SPSH_ERROR_INIT;
    h->slot.batch.epoch = epoch;
    spsh__recipe_measure(recipe, &h->job);
    spsh_status rc = spsh_result_check(ret_heard, sizeof(*ret_heard), err);
    if (rc == SPSH_OK)
        rc = reserve(h, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__render_self(&h->renderer, &h->job, &named, &why);
    if (rc != SPSH_OK) {
        spsh_error_set(err, rc, why.os_errno, why.offset_bytes, "%s%.100s%s%s", named ? "" : "in ",
                       named ? "" : spsh_dataset_path(h->dataset), named ? "" : ": ", why.message);
        return rc;
    }
    spsh_heard heard = {.sample_rate_hz = h->features.sample_rate_hz,
                        .samples = recipe->has_sound ? h->maker.sound : h->maker.pcm,
                        .sample_count = h->job.out_samples,
                        .rows = (const float *)(const void *)h->slot.audio,
                        .frame_count = h->job.frames,
                        .dim = recipe->dim};
    if (recipe->has_stored) {
        heard.samples = NULL;
        heard.sample_count = 0;
    }
    spsh_result_give(ret_heard, &heard, sizeof(heard));
    return SPSH_OK;
}

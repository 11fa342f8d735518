/* recipe.c: options, lengths, and memory sizes.
 *
 * A slot can hold the largest batch that the options allow. int16 is ragged, so its size is the sum
 * of the samples. The size of padded output is the longest utterance times the number of
 * utterances. That number is limited by the window, which contains the whole batch. Resampling may
 * round each utterance up by one sample. Features: n samples give at most n / hop + 1 frames, or
 * n / hop if only whole windows count and a window is not shorter than the hop.
 */
#include "recipe.h"

#include <math.h>

#include "speechshard/features.h"
#include "speechshard/options.h"

#define NONE SPSH_OFFSET_NONE

/* ---- options ---- */

spsh_status spsh__recipe_take_options(const spsh_loader_options *options,
                                      spsh_loader_options *ret_opt, spsh_plan_options *ret_plan,
                                      spsh_error *err)
{
    *ret_opt = (spsh_loader_options)SPSH_LOADER_OPTIONS_INIT;
    *ret_plan = (spsh_plan_options)SPSH_PLAN_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, ret_opt, sizeof(*ret_opt), err);
    if (rc == SPSH_OK)
        rc = spsh_options_take(ret_opt->plan, ret_plan, sizeof(*ret_plan), err);
    ret_opt->plan = ret_plan;
    return rc;
}

static spsh_status check_features(const spsh_loader_options *opt, spsh_error *err)
{
    const uint32_t rate_hz = opt->plan->sample_rate_hz;
    if (opt->features == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: the output is features, but features is NULL");
    if ((unsigned)opt->feature_dtype > SPSH_FLOAT16)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: feature_dtype is out of range");
    if (!isfinite(opt->feature_padding))
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: feature_padding is not finite");
    if (opt->channel == SPSH_CHANNEL_ALL)
        return SPSH_FAIL_AT(
            err, SPSH_E_INVALID_ARG, NONE,
            "loader options: channel is SPSH_CHANNEL_ALL, but features need one channel");
    if (rate_hz != 0 && rate_hz != opt->features->sample_rate_hz)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: sample_rate_hz is %u in features, but %u in plan",
                            opt->features->sample_rate_hz, rate_hz);
    return SPSH_OK;
}

static spsh_status open_features(spsh__recipe *recipe, spsh_loader_options *opt, spsh_error *err)
{
    spsh_featgen_options how = SPSH_FEATGEN_OPTIONS_INIT;
    spsh_status rc = check_features(opt, err);
    if (rc != SPSH_OK)
        return rc;
    how.allocator = recipe->allocator;
    rc = spsh_featgen_open(opt->features, &how, &recipe->featgen, err);
    if (rc != SPSH_OK)
        return rc;
    recipe->dim = spsh_featgen_dim(recipe->featgen);
    recipe->value_bytes = recipe->dtype == SPSH_FLOAT16 ? 2 : 4;
    return SPSH_OK;
}

/* ---- augmentation ---- */

static spsh_status check_sounds(const spsh__sounds *sounds, float probability, spsh_error *err)
{
    if (probability > 0 && sounds->utterance_count == 0)
        return SPSH_FAIL_AT(
            err, SPSH_E_INVALID_ARG, NONE,
            "loader options: %s_probability is %g, but no datasets of %ss are given", sounds->what,
            (double)probability, sounds->what);
    if (probability <= 0 && sounds->utterance_count > 0)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: datasets of %ss are given, but %s_probability is 0",
                            sounds->what, sounds->what);
    return SPSH_OK;
}

static spsh_status check_augment(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 spsh_error *err)
{
    const spsh_augment_options *augment = &recipe->augment;
    spsh_status rc = check_sounds(&recipe->noises, augment->noise_probability, err);
    if (rc == SPSH_OK)
        rc = check_sounds(&recipe->rooms, augment->room_probability, err);
    if (rc != SPSH_OK)
        return rc;
    if (recipe->has_masks && recipe->output != SPSH_OUTPUT_FEATURES)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: masks need features, but the output is audio");
    if (recipe->has_sound && opt->channel == SPSH_CHANNEL_ALL)
        return SPSH_FAIL_AT(
            err, SPSH_E_INVALID_ARG, NONE,
            "loader options: channel is SPSH_CHANNEL_ALL, but augment needs one channel");
    return SPSH_OK;
}

static spsh_status open_augment(spsh__recipe *recipe, const spsh_loader_options *opt,
                                spsh_error *err)
{
    spsh_augment_options *augment = &recipe->augment;
    spsh_status rc = SPSH_OK;
    if (opt->augment != NULL) {
        rc = spsh_options_take(opt->augment, augment, sizeof(*augment), err);
        if (rc == SPSH_OK)
            rc = spsh_augment_options_check(augment, err);
        if (rc != SPSH_OK)
            return rc;
    }
    recipe->seed = opt->plan->seed;
    recipe->has_masks = augment->time_masks > 0 || augment->frequency_masks > 0;
    recipe->has_sound = augment->speed_count > 0 || augment->noise_probability > 0 ||
                        augment->room_probability > 0 || augment->gain_probability > 0;
    recipe->stretch = 1;
    for (uint32_t n = 0; n < augment->speed_count; n++)
        recipe->stretch = fmax(recipe->stretch, 100.0 / augment->speeds[n]);
    rc = spsh__sounds_open(&recipe->noises, "noise", opt->noises, opt->noise_count,
                           recipe->allocator, err);
    if (rc == SPSH_OK)
        rc = spsh__sounds_open(&recipe->rooms, "room", opt->rooms, opt->room_count,
                               recipe->allocator, err);
    return rc == SPSH_OK ? check_augment(recipe, opt, err) : rc;
}

/* ---- stored features ---- */

static spsh_status check_stored(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                const char *path, spsh_error *err)
{
    const char *why = NULL;
    if (recipe->output != SPSH_OUTPUT_FEATURES)
        why = "the output must be features; for audio, open the dataset they were computed from";
    else if (recipe->has_sound)
        why = "speed, rooms, noise, and gain need audio; stored features can only be masked";
    else if (opt->channel != SPSH_CHANNEL_MIX)
        why = "a channel cannot be chosen in stored features";
    else if (opt->plan->long_utterances == SPSH_LONG_SPLIT)
        why = "stored features cannot be split";
    if (why != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE, "%.400s holds features: %s", path, why);
    return SPSH_OK;
}

/* Return the first field in which two canonical texts differ. */
static const char *first_difference(const char *text, const char *other, int *ret_length)
{
    size_t field = 0;
    for (size_t n = 0; text[n] != '\0' && text[n] == other[n]; n++)
        if (text[n] == ',')
            field = n + 1;
    *ret_length = (int)strcspn(text + field, ",");
    return text + field;
}

/* Without given options, the first feature dataset sets them. All others must have the same. */
static spsh_status take_stored(spsh_feature_options *features, bool *has_features,
                               const spsh_features_description *described, const char *path,
                               spsh_error *err)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    int has_length = 0;
    int wants_length = 0;
    if (!*has_features) {
        const spsh_status rc = spsh_feature_options_parse(described->text, features, err);
        *has_features = rc == SPSH_OK;
        return rc;
    }
    (void)spsh_feature_options_text(features, text, sizeof(text));
    if (strcmp(text, described->text) == 0)
        return SPSH_OK;
    const char *has = first_difference(described->text, text, &has_length);
    const char *wants = first_difference(text, described->text, &wants_length);
    return SPSH_FAIL_AT(err, SPSH_E_MISMATCH, NONE,
                        "%.300s stores different features, %.*s; requested: %.*s", path, has_length,
                        has, wants_length, wants);
}

/* Find the datasets that store features, and check that their features are the same. */
static spsh_status open_stored(spsh__recipe *recipe, const spsh_loader_options *opt,
                               const spsh_dataset *const *datasets, uint32_t dataset_count,
                               spsh_feature_options *features, spsh_error *err)
{
    bool has_features = opt->features != NULL;
    recipe->stored = (uint8_t *)spsh__new(recipe->allocator, dataset_count, 1);
    if (recipe->stored == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u datasets", dataset_count);
    for (uint32_t n = 0; n < dataset_count; n++) {
        const char *path = spsh_dataset_path(datasets[n]);
        spsh_features_description described = SPSH_FEATURES_DESCRIPTION_INIT;
        spsh_status rc = spsh_features_dataset(datasets[n], &described, err);
        if (rc == SPSH_E_NOT_FOUND)
            continue;
        if (rc == SPSH_OK)
            rc = check_stored(recipe, opt, path, err);
        if (rc == SPSH_OK)
            rc = take_stored(features, &has_features, &described, path, err);
        if (rc != SPSH_OK)
            return rc;
        recipe->stored[n] = (uint8_t)described.value_bytes;
        recipe->has_stored = true;
        recipe->has_halves = recipe->has_halves || described.value_bytes == 2;
    }
    return SPSH_OK;
}

/* ---- statistics ---- */

/* Open the statistics, which describe features before normalization. */
static spsh_status open_statistics(spsh__recipe *recipe, const spsh_loader_options *opt,
                                   const spsh_dataset *const *datasets, spsh_error *err)
{
    spsh_feature_options features = *opt->features;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    spsh_status rc = SPSH_OK;
    recipe->norm = features.norm;
    if (features.norm != SPSH_NORM_SPEAKER && features.norm != SPSH_NORM_DATASET)
        return SPSH_OK;
    features.norm = SPSH_NORM_NONE;
    (void)spsh_feature_options_text(&features, text, sizeof(text));
    recipe->statistics = (spsh_statistics **)spsh__new(recipe->allocator, recipe->dataset_count,
                                                       sizeof(spsh_statistics *));
    if (recipe->statistics == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %u datasets",
                            recipe->dataset_count);
    for (uint32_t n = 0; n < recipe->dataset_count && rc == SPSH_OK; n++) {
        if (recipe->stored[n] != 0)
            continue;
        rc = spsh_statistics_open(datasets[n], text, SPSH_STATISTICS_WHOLE, opt->io,
                                  &recipe->statistics[n], err);
        if (rc == SPSH_OK && spsh_statistics_dim(recipe->statistics[n]) != recipe->dim)
            rc = SPSH_FAIL_AT(
                err, SPSH_E_CORRUPT, NONE,
                "%.200s: the statistics have %u values per frame, but the features have %u",
                spsh_dataset_path(datasets[n]), spsh_statistics_dim(recipe->statistics[n]),
                recipe->dim);
        if (rc == SPSH_OK && recipe->norm == SPSH_NORM_SPEAKER &&
            spsh_statistics_group_count(recipe->statistics[n]) <= SPSH_STATISTICS_NO_SPEAKER)
            rc =
                SPSH_FAIL_AT(err, SPSH_E_NOT_FOUND, NONE,
                             "%.200s: the dataset has statistics, but none per speaker; run "
                             "speechshard featgen DATASET --stats --by speaker --features '%.300s'",
                             spsh_dataset_path(datasets[n]), text);
    }
    return rc;
}

spsh_status spsh__recipe_open(spsh__recipe *recipe, spsh_loader_options *opt,
                              const spsh_dataset *const *datasets, uint32_t dataset_count,
                              const spsh_allocator *allocator, spsh_error *err)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    *recipe = (spsh__recipe){.allocator = allocator,
                             .dataset_count = dataset_count,
                             .output = opt->output,
                             .dtype = opt->feature_dtype,
                             .padding = opt->feature_padding,
                             .value_bytes = opt->output == SPSH_OUTPUT_INT16 ? 2 : 4,
                             .augment = SPSH_AUGMENT_OPTIONS_INIT};
    if (opt->output != SPSH_OUTPUT_FEATURES && opt->features != NULL)
        return SPSH_FAIL_AT(err, SPSH_E_INVALID_ARG, NONE,
                            "loader options: features are given, but the output is audio");
    spsh_status rc = spsh_options_take(opt->features, &features, sizeof(features), err);
    if (rc == SPSH_OK)
        rc = open_augment(recipe, opt, err);
    if (rc == SPSH_OK)
        rc = open_stored(recipe, opt, datasets, dataset_count, &features, err);
    if (recipe->has_stored || opt->features != NULL)
        opt->features = &features;
    if (rc == SPSH_OK && opt->output == SPSH_OUTPUT_FEATURES)
        rc = open_features(recipe, opt, err);
    if (rc == SPSH_OK && opt->output == SPSH_OUTPUT_FEATURES)
        rc = open_statistics(recipe, opt, datasets, err);
    opt->features = NULL; /* the caller may free these options after open */
    opt->augment = NULL;
    opt->noises = opt->rooms = NULL;
    return rc;
}

void spsh__recipe_close(spsh__recipe *recipe)
{
    spsh_featgen_close(recipe->featgen);
    recipe->featgen = NULL;
    spsh__sounds_close(&recipe->noises);
    spsh__sounds_close(&recipe->rooms);
    if (recipe->allocator == NULL)
        return;
    for (uint32_t n = 0; recipe->statistics != NULL && n < recipe->dataset_count; n++)
        spsh_statistics_close(recipe->statistics[n]);
    spsh__free(recipe->allocator, (void *)recipe->statistics);
    spsh__free(recipe->allocator, recipe->stored);
    recipe->statistics = NULL;
    recipe->stored = NULL;
}

bool spsh__recipe_makes(const spsh__recipe *recipe)
{
    return recipe->has_sound || recipe->statistics != NULL ||
           (recipe->featgen != NULL && !recipe->hands_samples);
}

/* ---- sizes ---- */

/* Samples of one channel in `seconds`, plus one per utterance for rounding. */
static double samples_in(double seconds, uint32_t rate_hz, double utterances)
{
    return ceil(seconds * (double)rate_hz) + utterances;
}

uint64_t spsh__recipe_rate_samples_max(const spsh_plan_info *info)
{
    return (uint64_t)samples_in((double)info->longest_microseconds / 1e6, info->sample_rate_hz_max,
                                1);
}

uint64_t spsh__recipe_out_samples_max(const spsh__recipe *recipe, const spsh_plan_info *info)
{
    const double before = (double)spsh__recipe_rate_samples_max(info);
    return (uint64_t)ceil(before * recipe->stretch) + (recipe->stretch > 1);
}

/* Maximum frames of a batch. samples: in all `count` utterances, including padding. */
static double frames_in(const spsh__recipe *recipe, double samples, double count, uint64_t longest)
{
    const spsh_feature_options *f = spsh_featgen_features(recipe->featgen);
    const double all = count * (double)spsh_featgen_frame_count(recipe->featgen, longest);
    const bool is_whole = f->edges == SPSH_EDGES_SNIP && f->window_us >= f->hop_us;
    const uint64_t hop = (uint64_t)f->sample_rate_hz * f->hop_us / 1000000;
    if (f->pad_us != 0)
        return all;
    return fmin(all, ceil(samples / (double)(hop == 0 ? 1 : hop)) + (is_whole ? 0 : count));
}

/* Maximum utterances of a batch. */
static double count_in(const spsh_plan_options *plan)
{
    const double window = plan->window_utterances != 0 ? (double)plan->window_utterances
                                                       : (double)SPSH_PLAN_WINDOW_DEFAULT;
    double count = plan->batch_utterances_max != 0 ? (double)plan->batch_utterances_max : window;
    const double least = plan->utterance_seconds_min;
    if (least > 0 && plan->batch_padded_seconds_max > 0)
        count = fmin(count, ceil(plan->batch_padded_seconds_max / least));
    if (least > 0 && plan->batch_seconds_max > 0)
        count = fmin(count, ceil(plan->batch_seconds_max / least));
    return count;
}

uint64_t spsh__recipe_utterances_max(const spsh_loader_options *opt)
{
    return (uint64_t)count_in(opt->plan);
}

/* Maximum samples of one channel in a batch, including padding for padded outputs. */
static double samples_of(const spsh__recipe *recipe, const spsh_loader_options *opt,
                         const spsh_plan_info *info)
{
    const spsh_plan_options *plan = opt->plan;
    const bool padded = recipe->output != SPSH_OUTPUT_INT16;
    const uint32_t rate = info->sample_rate_hz_max;
    const double count = count_in(plan);
    const double samples = count * (double)spsh__recipe_out_samples_max(recipe, info);
    double seconds = HUGE_VAL; /* limit before a change of speed */
    if (plan->batch_padded_seconds_max > 0)
        seconds = plan->batch_padded_seconds_max;
    if (plan->batch_seconds_max > 0 && !padded)
        seconds = fmin(seconds, plan->batch_seconds_max);
    if (!isfinite(seconds))
        return samples;
    return fmin(samples, ceil(samples_in(seconds, rate, count) * recipe->stretch) +
                             (recipe->stretch > 1 ? count : 0));
}

static double frames_of(const spsh__recipe *recipe, const spsh_loader_options *opt,
                        const spsh_plan_info *info)
{
    return frames_in(recipe, samples_of(recipe, opt, info), count_in(opt->plan),
                     spsh__recipe_out_samples_max(recipe, info));
}

uint64_t spsh__recipe_frames_max(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 const spsh_plan_info *info)
{
    return (uint64_t)fmin(frames_of(recipe, opt, info), 0x1p31);
}

/* Round up, with a maximum of 64 TiB: two slots of this size exceed the address space. */
static size_t aligned_bytes(double bytes)
{
    const uint64_t whole = (uint64_t)fmin(bytes, 0x1p46);
    return (size_t)((whole + SPSH__ARENA_ALIGN - 1) & ~(uint64_t)(SPSH__ARENA_ALIGN - 1));
}

void spsh__recipe_slot_layout(const spsh__recipe *recipe, const spsh_loader_options *opt,
                              const spsh_plan_info *info, spsh__slot_layout *ret_layout)
{
    const double channels = opt->channel == SPSH_CHANNEL_ALL ? (double)info->channels_max : 1;
    const double count = count_in(opt->plan);
    const double row_bytes = (double)recipe->dim * (recipe->dtype == SPSH_FLOAT16 ? 2 : 4);
    spsh__slot_layout layout = {.audio_bytes = 0};
    double values = samples_of(recipe, opt, info) * channels;
    if (recipe->hands_samples) {
        values += SPSH__SAMPLES_ALIGN * count;
        layout.rows_bytes = aligned_bytes(frames_of(recipe, opt, info) * row_bytes);
    } else if (recipe->featgen != NULL) {
        values = frames_of(recipe, opt, info) * (double)recipe->dim;
    }
    layout.audio_bytes = aligned_bytes(fmax(1, values * (double)recipe->value_bytes));
    layout.packed_at = layout.audio_bytes;
    if (recipe->packs) /* incompressible payloads may not fit: the host decodes them */
        layout.packed_bytes = layout.audio_bytes;
    layout.norms_at = layout.packed_at + layout.packed_bytes;
    layout.host_bytes = layout.norms_at;
    if (recipe->hands_samples && recipe->statistics != NULL)
        layout.host_bytes += aligned_bytes(fmin(count, SPSH__DEVICE_UTTERANCES_MAX) * 2 *
                                           sizeof(float) * (double)recipe->dim);
    *ret_layout = layout;
}

/* ---- lengths ---- */

void spsh__recipe_draw(const spsh__recipe *recipe, const spsh__job *job,
                       spsh_augment_draw *ret_draw)
{
    spsh_augment_draw_make(&recipe->augment, recipe->seed, job->slot->batch.epoch, job->row.id_hash,
                           ret_draw);
}

void spsh__recipe_measure(const spsh__recipe *recipe, spsh__job *job)
{
    spsh_augment_draw draw;
    job->out_samples = job->rate_samples;
    job->frames = 0;
    if (recipe->augment.speed_count > 0) {
        spsh__recipe_draw(recipe, job, &draw);
        job->out_samples = spsh_augment_sample_count(&draw, job->rate_samples);
    }
    if (recipe->featgen != NULL)
        job->frames = spsh_featgen_frame_count(recipe->featgen, job->out_samples);
}

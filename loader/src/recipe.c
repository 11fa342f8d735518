/* recipe.c: lengths and sizes of what is made of samples.
 *
 * A slot holds the largest batch that the options allow. int16 is ragged, so the sum of samples
 * counts; what is padded counts as the longest times the number. A batch lies inside one window:
 * that bounds the number of its utterances, each of which may be rounded up to one sample more when
 * it is resampled. Features: n samples give at most n / hop + 1 frames; whole windows alone that
 * are no shorter than the hop, n / hop.
 */
#include "recipe.h"

#include <math.h>

#define NONE SPSH_OFFSET_NONE

/* ---- options ---- */

static spsh_status check_features(const spsh_loader_options *opt, spsh_error *err)
{
    const uint32_t rate_hz = opt->plan.sample_rate_hz;
    if (opt->features == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                         "loader options: the output is features, and features are not given");
    if ((unsigned)opt->feature_dtype > SPSH_FLOAT16)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                         "loader options: feature_dtype is out of range");
    if (!isfinite(opt->feature_padding))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                         "loader options: feature_padding is not finite");
    if (opt->channel == SPSH_CHANNEL_ALL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                         "loader options: features are of one channel: the mean of all, or one by "
                         "its number");
    if (rate_hz != 0 && rate_hz != opt->features->sample_rate_hz)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                         "loader options: features of %u Hz of batches that are resampled to %u Hz",
                         opt->features->sample_rate_hz, rate_hz);
    return SPSH_OK;
}

spsh_status spsh__recipe_open(spsh__recipe *recipe, spsh_loader_options *opt,
                              const spsh_allocator *allocator, spsh_error *err)
{
    spsh_featgen_options how = SPSH_FEATGEN_OPTIONS_INIT;
    spsh_status rc = SPSH_OK;
    *recipe = (spsh__recipe){.output = opt->output,
                             .dtype = opt->feature_dtype,
                             .padding = opt->feature_padding,
                             .value_bytes = opt->output == SPSH_OUTPUT_INT16 ? 2 : 4};
    if (opt->output != SPSH_OUTPUT_FEATURES) {
        if (opt->features != NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, NONE,
                             "loader options: features are given, and the output is audio");
        return SPSH_OK;
    }
    rc = check_features(opt, err);
    if (rc != SPSH_OK)
        return rc;
    how.allocator = allocator;
    rc = spsh_featgen_open(opt->features, &how, &recipe->featgen, err);
    if (rc != SPSH_OK)
        return rc;
    opt->plan.sample_rate_hz = opt->features->sample_rate_hz;
    opt->features = NULL; /* the caller's may end */
    recipe->dim = spsh_featgen_dim(recipe->featgen);
    recipe->value_bytes = recipe->dtype == SPSH_FLOAT16 ? 2 : 4;
    return SPSH_OK;
}

void spsh__recipe_close(spsh__recipe *recipe)
{
    spsh_featgen_close(recipe->featgen);
    recipe->featgen = NULL;
}

bool spsh__recipe_makes(const spsh__recipe *recipe)
{
    return recipe->featgen != NULL;
}

/* ---- sizes ---- */

/* Samples of one channel in so many seconds, and one more for each utterance. */
static double samples_in(double seconds, uint32_t rate_hz, double utterances)
{
    return ceil(seconds * (double)rate_hz) + utterances;
}

uint64_t spsh__recipe_samples_max(const spsh_plan_info *info)
{
    return (uint64_t)samples_in((double)info->longest_microseconds / 1e6, info->sample_rate_hz_max,
                                1);
}

/* Frames of a batch: of so many samples in all, padding included, in so many utterances. */
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

/* Utterances of a batch. */
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

uint64_t spsh__recipe_slot_bytes(const spsh__recipe *recipe, const spsh_loader_options *opt,
                                 const spsh_plan_info *info)
{
    const spsh_plan_options *plan = &opt->plan;
    const bool padded = recipe->output != SPSH_OUTPUT_INT16;
    const uint32_t rate = info->sample_rate_hz_max;
    const double count = count_in(plan);
    const uint64_t longest = spsh__recipe_samples_max(info);
    double samples = count * (double)longest;
    if (plan->batch_padded_seconds_max > 0)
        samples = fmin(samples, samples_in(plan->batch_padded_seconds_max, rate, count));
    if (plan->batch_seconds_max > 0 && !padded)
        samples = fmin(samples, samples_in(plan->batch_seconds_max, rate, count));
    const double channels = opt->channel == SPSH_CHANNEL_ALL ? (double)info->channels_max : 1;
    double values = samples * channels;
    if (recipe->featgen != NULL)
        values = frames_in(recipe, samples, count, longest) * (double)recipe->dim;
    /* Two of 64 TiB are more than there are addresses. */
    const uint64_t bytes = (uint64_t)fmin(values * (double)recipe->value_bytes, 0x1p46);
    return (bytes + SPSH__ARENA_ALIGN - 1) & ~(uint64_t)(SPSH__ARENA_ALIGN - 1);
}

/* ---- lengths ---- */

void spsh__recipe_measure(const spsh__recipe *recipe, spsh__job *job)
{
    job->out_samples = job->rate_samples;
    job->frames = 0;
    if (recipe->featgen != NULL)
        job->frames = spsh_featgen_frame_count(recipe->featgen, job->out_samples);
}

/* hear.c: a batch of one utterance that no plan made: recipe, maker and renderer are the loader's,
 * the slot holds nothing but its place.
 */
#include "speechshard/hear.h"

#include <math.h>

#include "render.h"
#include "speechshard/features.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

struct spsh_hearing {
    spsh_allocator allocator;
    spsh__budget budget; /* of everything below */
    spsh_allocator budget_allocator;
    const spsh_dataset *dataset;
    spsh_feature_options features;
    spsh__recipe recipe;
    spsh__maker maker;
    spsh__renderer renderer;
    spsh__slot slot;
    spsh__job job;
    char *noise_id, *room_id; /* of the last draw */
};

/* ---- opening ---- */

/* What the loader would be told by its plan. */
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
        return SPSH_FAIL(err, SPSH_E_CORRUPT, NONE,
                         "%.200s: utterance number %llu: the index states %u channels at %u Hz, "
                         "which cannot be",
                         spsh_dataset_path(h->dataset), ULL(position), row->channels,
                         row->sample_rate_hz);
    if (channel > 0 && (uint32_t)channel > row->channels)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, NONE, "channel %d is asked for, there are %u",
                         (int)channel, row->channels);
    h->job.slot = &h->slot;
    h->job.way = SPSH__WAY_SELF;
    h->job.item = (spsh_item){.position = position,
                              .samples = row->samples,
                              .sample_rate_hz = row->sample_rate_hz};
    return SPSH_OK;
}

/* Of a dataset of features, theirs. */
static spsh_status choose_features(spsh_hearing *h, spsh_loader_options *opt, spsh_error *err)
{
    spsh_features_description described;
    spsh_status rc = SPSH_OK;
    if (opt->features != NULL) {
        h->features = *opt->features;
    } else {
        rc = spsh_features_dataset(h->dataset, &described, err);
        if (rc == SPSH_OK) {
            rc = spsh_feature_options_parse(described.text, &h->features, err);
        } else if (rc == SPSH_E_NOT_FOUND) {
            rc = spsh_feature_options_preset("kaldi-fbank", &h->features, err);
            h->features.sample_rate_hz = h->job.row.sample_rate_hz;
        }
    }
    opt->features = &h->features;
    opt->output = SPSH_OUTPUT_FEATURES;
    opt->feature_dtype = SPSH_FLOAT32;
    opt->plan.sample_rate_hz = 0;
    return rc;
}

/* As spsh_resample says. */
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
        return SPSH_FAIL(err, SPSH_E_LIMIT, NONE, "%llu samples", ULL(h->job.row.samples));
    h->slot.batch.sample_rate_hz = h->features.sample_rate_hz;
    h->slot.batch.channels = 1;
    h->slot.batch.output = SPSH_OUTPUT_FEATURES;
    h->slot.value_bytes = h->recipe.value_bytes;
    h->job.rate_samples = resampled(h->job.row.samples, h->job.row.sample_rate_hz,
                                    h->slot.batch.sample_rate_hz);
    return SPSH_OK;
}

spsh_status spsh_hearing_open(const spsh_dataset *dataset, uint64_t position,
                              const spsh_loader_options *options, spsh_hearing **ret_hearing,
                              spsh_error *err)
{
    spsh_loader_options opt = *options;
    const spsh_allocator *allocator =
        opt.plan.allocator != NULL ? opt.plan.allocator : spsh_allocator_default();
    spsh_hearing *h = (spsh_hearing *)spsh__new(allocator, sizeof(*h));
    if (h == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "hearing: %zu bytes", sizeof(*h));
    h->allocator = *allocator;
    h->dataset = dataset;
    h->budget.allocator = h->allocator;
    h->budget.limit_bytes =
        opt.memory_bytes != 0 ? opt.memory_bytes : SPSH_LOADER_MEMORY_DEFAULT;
    h->budget_allocator = spsh__budget_allocator(&h->budget);
    spsh_status rc = take_row(h, position, opt.channel, err);
    if (rc == SPSH_OK)
        rc = open_parts(h, &opt, err);
    h->renderer = (spsh__renderer){.allocator = &h->budget_allocator,
                                   .datasets = &h->dataset,
                                   .dataset_count = 1,
                                   .budget = &h->budget,
                                   .channel = opt.channel,
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
    spsh__budget_give(&hearing->budget, hearing->slot.audio, hearing->slot.audio_bytes);
    spsh__delete(&allocator, hearing->noise_id);
    spsh__delete(&allocator, hearing->room_id);
    spsh__delete(&allocator, hearing);
}

const spsh_feature_options *spsh_hearing_features(const spsh_hearing *hearing)
{
    return &hearing->features;
}

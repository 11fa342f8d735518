/* layout.c: all positions in a batch follow from the lengths in the index:
 *
 *     int16:    | utterance 0 | utterance 1 | ...            without gaps
 *     float32:  | utterance 0, zeros | utterance 1, zeros |  rows as long as the longest utterance
 *     features: | frames, padding | frames, padding |        the same, in frames
 *     features by a device: samples | samples | ...          lengths are multiples of 8; all are as
 *                                                            long as the longest if one may be
 *                                                            replaced
 */
#include "layout.h"

#include "device_slots.h"
#include "policy.h"

#define ULL(value_) ((unsigned long long)(value_))

/* Larger records are read in parts, by the decode thread. */
#define WHOLE_BYTES_MAX (UINT64_C(4) << 20)

/* Smaller records are always read whole, even if only a small part is needed. */
#define WHOLE_BYTES_ALWAYS (UINT64_C(256) << 10)

/* Samples per channel after spsh_resample; UINT64_MAX: too many. */
static uint64_t resampled(uint64_t samples, uint32_t from_hz, uint32_t to_hz)
{
    uint64_t scaled = 0;
    if (to_hz == from_hz)
        return samples;
    if (__builtin_mul_overflow(samples, (uint64_t)to_hz, &scaled) ||
        __builtin_add_overflow(scaled, (uint64_t)from_hz - 1, &scaled))
        return UINT64_MAX;
    return scaled / from_hz;
}

static uint32_t rate_of(const spsh_loader *loader, const spsh_item *item)
{
    return loader->plan_opt.sample_rate_hz != 0 ? loader->plan_opt.sample_rate_hz
                                                : item->sample_rate_hz;
}

static uint32_t channels_of(const spsh_loader *loader, const spsh_row *row)
{
    return loader->opt.channel == SPSH_CHANNEL_ALL ? row->channels : 1;
}

/* Choose how to read a record. Reading 5 s of one hour should cost 5 s: a record much larger than
 * the needed part would be without compression is not read whole. */
static spsh__way way_of(const spsh_loader *loader, const spsh__job *job)
{
    const uint64_t size = job->row.record_bytes;
    const uint64_t wanted = job->item.samples * job->row.channels * 2;
    const uint64_t limit_bytes = loader->staging_bytes / 4;
    if (job->item.samples == 0 || size > WHOLE_BYTES_MAX || size > limit_bytes)
        return SPSH__WAY_SELF;
    if (loader->recipe.stored[job->item.dataset] != 0)
        return SPSH__WAY_WHOLE; /* stored features cannot be read in parts */
    if (size > WHOLE_BYTES_ALWAYS && size / 4 > wanted)
        return SPSH__WAY_SELF;
    return SPSH__WAY_WHOLE;
}

static spsh_status take_row(const spsh_loader *loader, spsh__job *job, const spsh_item *item,
                            spsh_error *err)
{
    spsh_row row;
    spsh_status rc =
        spsh_dataset_rows(loader->datasets[item->dataset], item->position, 1, &row, err);
    if (rc != SPSH_OK)
        return rc;
    if (item->sample_rate_hz != row.sample_rate_hz || item->start_sample > row.samples ||
        item->samples > row.samples - item->start_sample || row.channels == 0 ||
        row.sample_rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || row.channels > SPSH_CHANNELS_MAX)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%.200s: utterance number %llu: the index states %llu samples, %u "
                         "channels at %u Hz, which is impossible",
                         spsh_dataset_path(loader->datasets[item->dataset]), ULL(item->position),
                         ULL(row.samples), row.channels, row.sample_rate_hz);
    job->item = *item;
    job->row = row;
    job->rate_samples = resampled(item->samples, item->sample_rate_hz, rate_of(loader, item));
    spsh__recipe_measure(&loader->recipe, job);
    return SPSH_OK;
}

bool spsh__layout_is_servable(spsh_loader *loader, const spsh__job *job, spsh_error *ret_why)
{
    const int32_t channel = loader->opt.channel;
    if (spsh__is_known_bad(loader, &job->item, ret_why))
        return false;
    if (channel <= 0 || (uint32_t)channel <= job->row.channels)
        return true;
    spsh_error_set(ret_why, SPSH_E_NOT_FOUND, 0, SPSH_OFFSET_NONE,
                   "channel %d was requested, but the audio has %u channels", (int)channel,
                   job->row.channels);
    spsh__job_name(loader, job, ret_why);
    return false;
}

static spsh_status prepare(spsh_loader *loader, spsh__slot *slot, uint32_t number,
                           const spsh_item *item, spsh_error *err)
{
    spsh__job *job = &slot->jobs[number];
    spsh_error why = SPSH_ERROR_INIT;
    *job = (spsh__job){.slot = slot, .number = number, .planned = *item};
    spsh_status rc = take_row(loader, job, item, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_batch *batch = &slot->batch;
    const uint32_t rate = rate_of(loader, item);
    const uint32_t channels = channels_of(loader, &job->row);
    if (number == 0) {
        batch->sample_rate_hz = rate;
        batch->channels = channels;
    }
    if (rate != batch->sample_rate_hz || channels != batch->channels)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "loader: a batch has utterances of %u Hz and %u channels, and of %u Hz "
                         "and %u channels; set sample_rate_hz and channel",
                         batch->sample_rate_hz, batch->channels, rate, channels);
    if (job->out_samples > batch->padded_samples)
        batch->padded_samples = job->out_samples;
    if (job->frames > batch->padded_frames)
        batch->padded_frames = job->frames;
    job->way = spsh__layout_is_servable(loader, job, &why) ? way_of(loader, job) : SPSH__WAY_BAD;
    slot->utterances[number] = (spsh_batch_utterance){.samples = 0};
    return SPSH_OK;
}

/* Assign positions to the jobs. false: the slot is too small. */
static bool place_jobs(const spsh_loader *loader, spsh__slot *slot)
{
    spsh_batch *batch = &slot->batch;
    const bool padded = batch->output != SPSH_OUTPUT_INT16;
    const bool framed = batch->output == SPSH_OUTPUT_FEATURES && !slot->hands_samples;
    const bool in_rows =
        slot->hands_samples ? loader->opt.on_error == SPSH_ON_ERROR_SUBSTITUTE : padded;
    const uint64_t capacity = slot->layout.audio_bytes / slot->value_bytes;
    const uint64_t longest = framed ? batch->padded_frames : batch->padded_samples;
    const uint64_t width = framed ? batch->feature_dim : batch->channels;
    uint64_t at = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        spsh__job *job = &slot->jobs[n];
        uint64_t length = in_rows ? longest : job->out_samples;
        uint64_t values = 0;
        if (slot->hands_samples)
            length = (length + SPSH__SAMPLES_ALIGN - 1) / SPSH__SAMPLES_ALIGN * SPSH__SAMPLES_ALIGN;
        if (__builtin_mul_overflow(length, width, &values) || values > capacity - at)
            return false;
        job->place = at;
        job->out_samples_max = padded ? batch->padded_samples : job->out_samples;
        at += values;
    }
    slot->stride = padded && !slot->hands_samples ? longest * width : 0;
    batch->value_count = at;
    return true;
}

spsh_status spsh__layout(spsh_loader *loader, spsh__slot *slot, const spsh_planned_batch *planned,
                         spsh_error *err)
{
    slot->batch = (spsh_batch){.epoch = planned->epoch,
                               .step = planned->step,
                               .number = planned->number,
                               .flags = planned->flags,
                               .output = loader->opt.output,
                               .feature_dtype = loader->recipe.dtype,
                               .feature_dim = loader->recipe.dim};
    slot->value_bytes = loader->recipe.value_bytes;
    slot->hands_samples = loader->recipe.hands_samples;
    slot->place = planned->at;
    slot->next = planned->next;
    spsh_status rc = spsh__slot_reset(slot, planned->item_count, err);
    for (uint32_t n = 0; n < planned->item_count && rc == SPSH_OK; n++)
        rc = prepare(loader, slot, n, &planned->items[n], err);
    if (rc == SPSH_OK && slot->hands_samples &&
        planned->item_count > spsh__device_utterances_max(loader->device))
        rc = SPSH_FAIL(err, SPSH_E_LIMIT,
                       "loader: batch %llu of epoch %llu has %u utterances, but a device computes "
                       "features of at most %u at once; set batch_utterances_max",
                       ULL(planned->number), ULL(planned->epoch), planned->item_count,
                       spsh__device_utterances_max(loader->device));
    if (rc == SPSH_OK && !place_jobs(loader, slot))
        rc = SPSH_FAIL(err, SPSH_E_LIMIT,
                       "loader: batch %llu of epoch %llu has %u utterances, the longest of %llu "
                       "samples, and does not fit into a slot of %zu bytes",
                       ULL(planned->number), ULL(planned->epoch), planned->item_count,
                       ULL(slot->batch.padded_samples), slot->layout.audio_bytes);
    return rc;
}

static bool is_in_batch(const spsh__slot *slot, const spsh_item *item)
{
    for (uint32_t n = 0; n < slot->job_count; n++) {
        const spsh_item *other = &slot->jobs[n].planned;
        if (other->position == item->position && other->dataset == item->dataset)
            return true;
    }
    return false;
}

bool spsh__layout_substitute(const spsh_loader *loader, spsh__job *job, const spsh_item *item)
{
    const spsh_batch *batch = &job->slot->batch;
    spsh__job other = *job;
    if (item->dataset >= loader->dataset_count || is_in_batch(job->slot, item) ||
        take_row(loader, &other, item, NULL) != SPSH_OK)
        return false;
    if (rate_of(loader, item) != batch->sample_rate_hz ||
        channels_of(loader, &other.row) != batch->channels ||
        other.out_samples > job->out_samples_max)
        return false;
    job->item = other.item;
    job->row = other.row;
    job->rate_samples = other.rate_samples;
    job->out_samples = other.out_samples;
    job->frames = other.frames;
    job->substitute = true;
    job->retry = false;
    job->way = SPSH__WAY_SELF;
    return true;
}

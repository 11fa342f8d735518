/* device_norm.h: norm.c, masks, float16 conversion, and padding for the kernels that run after
 * device_frames.h.
 *
 * A block of threads computes an utterance's statistics. Each thread sums one dimension, from the
 * first frame to the last, in double precision, as norm.c does. With masks it sums once more, over
 * the normed values, for the mean of all values. The code that later makes the values norms the
 * same rows to identical bits, so normed floats need no memory even if float16 values are served.
 * Then any number of threads compute values from rows, each value independently.
 */
#ifndef SPSH_DEVICE_NORM_H
#define SPSH_DEVICE_NORM_H

#include "device_frames.h"

/* Same as in norm.c. */
#define DEVICE_VARIANCE_MIN 1e-10

/* One utterance. Its maximum values are shared by the threads of a block. */
typedef struct spsh__device_stats {
    const spsh__device_job *job;
    const spsh__device_utterance *utterance;
    uint32_t number; /* number of the utterance */
    float *tops;     /* SPSH__DEVICE_THREADS */
    uint32_t order;  /* same as in spsh__device_block */
} spsh__device_stats;

/* The utterance's rows before the norm. */
DEVICE const float *device_rows(const spsh__device_job *job,
                                const spsh__device_utterance *utterance)
{
    if (job->rows != NULL)
        return job->rows + utterance->first_row * job->tables.dim;
    return (const float *)job->values + utterance->first_value;
}

DEVICE double device_scale_of(double variance)
{
    return 1 / sqrt(variance > DEVICE_VARIANCE_MIN ? variance : DEVICE_VARIANCE_MIN);
}

DEVICE void device_sum_dimensions(const spsh__device_stats *stats, uint32_t thread)
{
    const spsh__device_job *job = stats->job;
    const uint32_t dim = job->tables.dim;
    const uint64_t frame_count = stats->utterance->frame_count;
    const float *rows = device_rows(job, stats->utterance);
    double *sums = job->sums + (size_t)stats->number * 2 * dim;
    for (uint32_t d = thread; d < dim; d += SPSH__DEVICE_THREADS) {
        double sum = 0;
        double square_sum = 0;
        for (uint64_t t = 0; t < frame_count; t++) {
            const double value = (double)rows[t * dim + d];
            sum += value;
            square_sum += value * value;
        }
        sums[d] = sum;
        sums[dim + d] = square_sum;
    }
}

/* norm_dimensions */
DEVICE void device_dimension_stats(const spsh__device_stats *stats, uint32_t thread)
{
    const spsh__device_job *job = stats->job;
    const uint32_t dim = job->tables.dim;
    const uint64_t frame_count = stats->utterance->frame_count;
    const double *sums = job->sums + (size_t)stats->number * 2 * dim;
    const double n = frame_count > 0 ? (double)frame_count : 1;
    for (uint32_t d = thread; d < dim; d += SPSH__DEVICE_THREADS) {
        const double average = sums[d] / n;
        const double variance = sums[dim + d] / n - average * average;
        const size_t at = (size_t)stats->number * job->stats_stride + d;
        job->own_mean[at] = (float)average;
        job->own_scales[at] = job->tables.features.norm == SPSH_NORM_MEAN_VARIANCE
                                  ? (float)device_scale_of(variance)
                                  : 1.0F;
    }
}

/* norm_utterance */
DEVICE void device_utterance_stats(const spsh__device_stats *stats, uint32_t thread)
{
    const spsh__device_job *job = stats->job;
    const uint32_t dim = job->tables.dim;
    const double *sums = job->sums + (size_t)stats->number * 2 * dim;
    const uint64_t value_count = stats->utterance->frame_count * dim;
    const double n = (double)value_count;
    double sum = 0;
    double square_sum = 0;
    if (thread != 0)
        return;
    for (uint32_t d = 0; d < dim; d++) {
        sum += sums[d];
        square_sum += sums[dim + d];
    }
    const double mean = sum / n;
    const double variance = value_count > 1 ? (square_sum - sum * mean) / (n - 1) : 0;
    job->own_mean[stats->number] = (float)mean;
    job->own_scales[stats->number] = (float)device_scale_of(variance);
}

/* norm_whisper: the maximum of each thread's values, then the maximum of those maxima. */
DEVICE void device_tops(const spsh__device_stats *stats, uint32_t thread)
{
    const float *rows = device_rows(stats->job, stats->utterance);
    const uint64_t value_count = stats->utterance->frame_count * stats->job->tables.dim;
    float top = rows[0];
    for (uint64_t i = thread; i < value_count; i += SPSH__DEVICE_THREADS)
        top = rows[i] > top ? rows[i] : top;
    stats->tops[thread] = top;
}

DEVICE void device_least(const spsh__device_stats *stats, uint32_t thread)
{
    float top = stats->tops[0];
    if (thread != 0)
        return;
    for (uint32_t i = 1; i < SPSH__DEVICE_THREADS; i++)
        top = stats->tops[i] > top ? stats->tops[i] : top;
    stats->job->own_mean[stats->number] = top - 8.0F;
}

DEVICE float device_normed(const spsh__device_job *job, uint32_t number, uint32_t d, float value)
{
    const size_t at = (size_t)number * job->stats_stride + (size_t)d * job->stats_step;
    switch (job->tables.features.norm) {
    case SPSH_NORM_NONE: break;
    case SPSH_NORM_WHISPER: return ((value > job->mean[at] ? value : job->mean[at]) + 4.0F) * 0.25F;
    case SPSH_NORM_UTTERANCE:
    case SPSH_NORM_MEAN:
    case SPSH_NORM_MEAN_VARIANCE:
    case SPSH_NORM_SPEAKER:
    case SPSH_NORM_DATASET: return (value - job->mean[at]) * job->scales[at];
    }
    return value;
}

DEVICE void device_sum_normed(const spsh__device_stats *stats, uint32_t thread)
{
    const spsh__device_job *job = stats->job;
    const uint32_t dim = job->tables.dim;
    const uint64_t frame_count = stats->utterance->frame_count;
    const float *rows = device_rows(job, stats->utterance);
    double *sums = job->sums + (size_t)stats->number * 2 * dim;
    for (uint32_t d = thread; d < dim; d += SPSH__DEVICE_THREADS) {
        double sum = 0;
        for (uint64_t t = 0; t < frame_count; t++)
            sum += (double)device_normed(job, stats->number, d, rows[t * dim + d]);
        sums[d] = sum;
    }
}

/* Compute the mean of all values, in the order that the loader uses on the host. */
DEVICE void device_mask_value(const spsh__device_stats *stats, uint32_t thread)
{
    const spsh__device_job *job = stats->job;
    const uint32_t dim = job->tables.dim;
    const double *sums = job->sums + (size_t)stats->number * 2 * dim;
    double sum = 0;
    if (thread != 0)
        return;
    for (uint32_t d = 0; d < dim; d++)
        sum += sums[d];
    job->mask_values[stats->number] = (float)(sum / (double)(stats->utterance->frame_count * dim));
}

SPSH__INLINE bool spsh__device_has_masks(const spsh__device_job *job)
{
    return job->time_masks + job->frequency_masks > 0;
}

/* Compute the statistics of an utterance that norm and masks need, by one block. */
DEVICE void spsh__device_statistics(const spsh__device_stats *stats)
{
    if (stats->utterance->frame_count == 0)
        return;
    switch (stats->job->tables.features.norm) {
    case SPSH_NORM_NONE:
    case SPSH_NORM_SPEAKER:
    case SPSH_NORM_DATASET: break;
    case SPSH_NORM_WHISPER:
        EACH_THREAD(stats, device_tops(stats, thread));
        EACH_THREAD(stats, device_least(stats, thread));
        break;
    case SPSH_NORM_UTTERANCE:
        EACH_THREAD(stats, device_sum_dimensions(stats, thread));
        EACH_THREAD(stats, device_utterance_stats(stats, thread));
        break;
    case SPSH_NORM_MEAN:
    case SPSH_NORM_MEAN_VARIANCE:
        EACH_THREAD(stats, device_sum_dimensions(stats, thread));
        EACH_THREAD(stats, device_dimension_stats(stats, thread));
        break;
    }
    if (spsh__device_has_masks(stats->job)) {
        EACH_THREAD(stats, device_sum_normed(stats, thread));
        EACH_THREAD(stats, device_mask_value(stats, thread));
    }
}

DEVICE bool device_is_covered(const spsh_cuda_mask *masks, uint32_t count, uint64_t place)
{
    for (uint32_t i = 0; i < count; i++)
        if (place >= masks[i].first && place - masks[i].first < masks[i].count)
            return true;
    return false;
}

/* Return whether the frames kernel writes the final values. */
SPSH__INLINE bool spsh__device_is_final(const spsh__device_job *job)
{
    return job->tables.features.norm == SPSH_NORM_NONE && job->rows == NULL &&
           !spsh__device_has_masks(job);
}

/* Return the number of values of an utterance's output that spsh__device_finish processes. */
DEVICE uint64_t spsh__device_finish_count(const spsh__device_job *job, uint32_t number)
{
    const uint64_t frame_count = job->utterances[number].frame_count;
    return (job->padded_frames != 0 ? job->padded_frames : frame_count) * job->tables.dim;
}

/* Finish value `at` of an utterance's output: from the row, or padding. */
DEVICE void spsh__device_finish(const spsh__device_job *job, uint32_t number, uint64_t at)
{
    const spsh__device_utterance *utterance = &job->utterances[number];
    const uint32_t dim = job->tables.dim;
    float value = job->padding_value;
    if (at < utterance->frame_count * dim) {
        if (spsh__device_is_final(job))
            return;
        const uint32_t mask_count = job->time_masks + job->frequency_masks;
        const spsh_cuda_mask *masks = job->masks + (size_t)number * mask_count;
        const uint32_t d = (uint32_t)(at % dim);
        if (device_is_covered(masks, job->time_masks, at / dim) ||
            device_is_covered(masks + job->time_masks, job->frequency_masks, d))
            value = job->mask_values[number];
        else
            value = device_normed(job, number, d, device_rows(job, utterance)[at]);
    }
    device_write(job, utterance->first_value + at, value);
}

#endif

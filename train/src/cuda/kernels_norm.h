/* kernels_norm.h: batch normalization by threads of a device, as defined in reference_norm.c.
 *
 *     sums    grid (channels, parts)  x, dy --> two sums of each channel, in parts
 *     learn   grid (channels)         parts --> statistics, gradients --> four numbers of a channel
 *     apply   grid (lines or rows)    x, dy --> y, dx
 *
 * Forward, the sums are of d and of d * d, where d = x - shift and shift is the first element of
 * the channel that counts. The shift is typically as far from the mean as any other element, so
 * little precision is lost if the mean is large, and x is read once. Backward they are of dy and of
 * dy * (x - mean). Four elements are added as floats, then in double, in an order that only the
 * shape determines. With them
 *
 *     y = (x - mean) * a + c                  a = weight * scale, c = bias
 *     dx = ((dy + c) + (x - mean) * p) * a    p = -scale^2 * sum(dy * (x - mean)) / n,
 *                                             c = -sum(dy) / n
 *
 * The bias, the masks, and the clip of a convolution need no separate passes:
 *
 *   - The convolution's bias would move x and the mean alike. So x and batch_mean are without it,
 *     and only the running mean is with it. Padding that counts is 0 with the bias, hence -bias
 *     here. `learn` adds it to the sums, and the kernels read no padding.
 *   - The bias's gradient is the sum of dx without padding. The sum over all that counts is 0, so
 *     it is minus the sum over padding, which is (c + (-bias - mean) * p) * a in each element.
 *   - dy is 0 where y was clipped. Backward computes y from x again, with the bits of forward: both
 *     use the scale as batch_scale keeps it.
 */
#ifndef SPSH_TRAIN_KERNELS_NORM_H
#define SPSH_TRAIN_KERNELS_NORM_H

#include <math.h>

#include "device_values.h"

/* X(NUMBER, name, type of the job) */
#define SPSH__KERNELS_NORM(X)                                                                      \
    X(NORM_CONV_SUMS, norm_conv_sums, spsh__norm_job)                                              \
    X(NORM_ROWS_SUMS, norm_rows_sums, spsh__norm_job)                                              \
    X(NORM_LEARN, norm_learn, spsh__norm_job)                                                      \
    X(NORM_LEARN_BACK, norm_learn_back, spsh__norm_job)                                            \
    X(NORM_CONV_APPLY, norm_conv_apply, spsh__norm_job)                                            \
    X(NORM_ROWS_APPLY, norm_rows_apply, spsh__norm_job)

#define SPSH__NORM_MOMENTUM 0.1
#define SPSH__NORM_EPSILON  1e-5
#define SPSH__NORM_SHARED   (2U * SPSH__DEVICE_THREADS * 8U) /* bytes: two doubles of each thread */

typedef struct spsh__norm_job {
    uint32_t is_conv, batch, channels, bins, frames; /* for rows, bins is 1 */
    uint32_t padded; /* for rows: utterances with padding, by which the rows of parts are counted */
    uint32_t is_training, is_wide;
    uint32_t counts_padding;      /* for a convolution; rows have no lengths then */
    float clip;                   /* for a convolution: limit of y; 0: none */
    uint32_t parts, part_size;    /* for a convolution: bins of an utterance; else rows */
    const uint32_t *lengths;      /* NULL: there is no padding */
    spsh__device_array x, dy, to; /* dy: backward, NULL forward; to: y or dx */
    double *partial;              /* [parts][2][channels] */
    float *lines;                 /* [channels][4]: mean, a, p, c */
    const float *weight, *bias;
    const float *conv_bias; /* or NULL */
    float *running_mean, *running_variance, *batch_mean, *batch_scale;
    float *dweight, *dbias, *dconv_bias; /* dconv_bias: or NULL */
} spsh__norm_job;

DEVICE uint32_t device_norm_length(const spsh__norm_job *job, uint32_t n)
{
    return job->lengths != NULL && job->lengths[n] < job->frames ? job->lengths[n] : job->frames;
}

/* dy, or 0 if y was clipped. d: x - mean. */
DEVICE float device_norm_unclipped(const spsh__norm_job *job, float d, float a, float bias,
                                   float dy)
{
    const float y = d * a + bias;
    return job->clip == 0 || (y > 0 && y < job->clip) ? dy : 0;
}

/* ---- sums */

/* Value that is subtracted from the x of a channel. */
DEVICE float device_norm_shift(const spsh__norm_job *job, uint32_t channel)
{
    const uint64_t plane = job->is_conv != 0 ? (uint64_t)job->bins * job->frames : 1;
    uint32_t n = 0;
    if (job->dy.data != NULL)
        return job->batch_mean[channel];
    while (n < job->batch && device_norm_length(job, n) == 0)
        n++;
    return n == job->batch
               ? 0
               : spsh__device_get(&job->x, ((uint64_t)n * job->channels + channel) * plane);
}

typedef struct device_norm_sums {
    double first, second;
} device_norm_sums;

/* d: x - shift. Elements past the end are 0 in both d and dy. */
DEVICE void device_norm_add(device_norm_sums *sums, const float d[4], const float dy[4],
                            bool is_backward)
{
    float of[4];
    for (uint32_t k = 0; k < 4; k++)
        of[k] = is_backward ? dy[k] : d[k];
    sums->first += (double)((of[0] + of[1]) + (of[2] + of[3]));
    sums->second += (double)((of[0] * d[0] + of[1] * d[1]) + (of[2] * d[2] + of[3] * d[3]));
}

/* Values of a channel. a and bias are only for the gradient of a clip. */
typedef struct device_norm_channel {
    float shift, a, bias;
} device_norm_channel;

DEVICE device_norm_channel device_norm_channel_of(const spsh__norm_job *job, uint32_t number)
{
    device_norm_channel c = {device_norm_shift(job, number), 0, 0};
    if (job->dy.data != NULL && job->clip > 0) {
        c.a = (float)((double)job->weight[number] * (double)job->batch_scale[number]);
        c.bias = job->bias[number];
    }
    return c;
}

/* Add one thread's share of a line of frames. */
DEVICE void device_norm_line(const spsh__norm_job *job, device_norm_sums *sums,
                             const device_norm_channel *c, uint64_t first, uint64_t end,
                             uint32_t lane)
{
    const bool is_backward = job->dy.data != NULL;
    for (uint64_t at = first; at < end; at += DEVICE_LINE_STEP) {
        const device_run r = device_run_of(at, end, lane, DEVICE_LANES, job->is_wide != 0);
        float d[4], dy[4] = {0, 0, 0, 0};
        device_load_run(&job->x, &r, d);
        if (is_backward)
            device_load_run(&job->dy, &r, dy);
        for (uint32_t k = 0; k < 4; k++) {
            d[k] = k < r.count ? d[k] - c->shift : 0;
            dy[k] = device_norm_unclipped(job, d[k], c->a, c->bias, dy[k]);
        }
        device_norm_add(sums, d, dy, is_backward);
    }
}

DEVICE void device_norm_keep(const spsh__kernel_block *block, const device_norm_sums *sums,
                             uint32_t thread)
{
    ((double *)block->shared)[thread] = sums->first;
    ((double *)block->shared)[SPSH__DEVICE_THREADS + thread] = sums->second;
}

/* block x is a channel, block y a part: an utterance, and a group of its bins. */
DEVICE void device_norm_conv_part(const spsh__norm_job *job, const spsh__kernel_block *block,
                                  uint32_t thread)
{
    const uint32_t groups = (job->bins + job->part_size - 1) / job->part_size;
    const uint32_t n = block->y / groups, first = block->y % groups * job->part_size;
    const uint32_t end = first + job->part_size < job->bins ? first + job->part_size : job->bins;
    const uint32_t length = device_norm_length(job, n);
    const uint64_t plane = ((uint64_t)n * job->channels + block->x) * job->bins;
    const device_norm_channel c = device_norm_channel_of(job, block->x);
    device_norm_sums sums = {0, 0};
    for (uint32_t f = first + thread / DEVICE_LANES; f < end; f += DEVICE_WARPS) {
        const uint64_t at = (plane + f) * job->frames;
        device_norm_line(job, &sums, &c, at, at + length, thread % DEVICE_LANES);
    }
    device_norm_keep(block, &sums, thread);
}

DEVICE void device_norm_fold(const spsh__kernel_block *block, uint32_t half, uint32_t thread)
{
    device_fold((double *)block->shared, half, thread);
    device_fold((double *)block->shared + SPSH__DEVICE_THREADS, half, thread);
}

DEVICE void device_norm_conv_put(const spsh__norm_job *job, const spsh__kernel_block *block,
                                 uint32_t thread)
{
    if (thread < 2)
        job->partial[((uint64_t)block->y * 2 + thread) * job->channels + block->x] =
            ((const double *)block->shared)[(size_t)thread * SPSH__DEVICE_THREADS];
}

DEVICE void spsh__kernel_norm_conv_sums(const spsh__norm_job *job, const spsh__kernel_block *block)
{
    EACH_THREAD(block, device_norm_conv_part(job, block, thread));
    for (uint32_t half = SPSH__DEVICE_THREADS / 2; half > 0; half /= 2)
        EACH_THREAD(block, device_norm_fold(block, half, thread));
    EACH_THREAD(block, device_norm_conv_put(job, block, thread));
}

typedef struct device_row { /* t * N + n */
    uint64_t number;
    uint32_t t, n;
} device_row;

DEVICE device_row device_row_of(uint64_t number, uint32_t batch)
{
    device_row row;
    row.number = number;
    row.t = (uint32_t)(number / batch);
    row.n = (uint32_t)(number % batch);
    return row;
}

/* Advance by step. step->n is below batch, because step is a row itself. */
DEVICE void device_row_add(device_row *row, const device_row *step, uint32_t batch)
{
    row->number += step->number;
    row->t += step->t;
    row->n += step->n;
    if (row->n >= batch) {
        row->n -= batch;
        row->t++;
    }
}

/* Get x - shift and dy of one element of a row; 0 if it does not count. */
DEVICE void device_norm_element(const spsh__norm_job *job, const device_row *row, uint32_t channel,
                                float shift, float *d, float *dy)
{
    const uint64_t at = ((uint64_t)row->t * job->batch + row->n) * job->channels + channel;
    *d = 0;
    *dy = 0;
    if (row->n >= job->batch || row->t >= device_norm_length(job, row->n))
        return;
    *d = spsh__device_get(&job->x, at) - shift;
    if (job->dy.data != NULL)
        *dy = spsh__device_get(&job->dy, at);
}

DEVICE void device_norm_column(const spsh__norm_job *job, device_norm_sums *sums, device_row row,
                               uint64_t end, uint32_t channel)
{
    const device_row step = device_row_of(DEVICE_WARPS, job->padded);
    const float shift = device_norm_shift(job, channel);
    while (row.number < end) {
        float d[4] = {0, 0, 0, 0}, dy[4] = {0, 0, 0, 0};
        DEVICE_UNROLL for (uint32_t k = 0; k < 4; k++)
        {
            if (row.number < end)
                device_norm_element(job, &row, channel, shift, &d[k], &dy[k]);
            device_row_add(&row, &step, job->padded);
        }
        device_norm_add(sums, d, dy, job->dy.data != NULL);
    }
}

/* block x is a group of channels, block y a part. */
DEVICE void device_norm_rows_part(const spsh__norm_job *job, const spsh__kernel_block *block,
                                  uint32_t thread)
{
    const uint32_t channel = block->x * DEVICE_LANES + thread % DEVICE_LANES;
    const uint64_t rows = (uint64_t)job->frames * job->padded;
    const uint64_t first = (uint64_t)block->y * job->part_size;
    const uint64_t end = first + job->part_size < rows ? first + job->part_size : rows;
    device_norm_sums sums = {0, 0};
    if (channel < job->channels)
        device_norm_column(job, &sums, device_row_of(first + thread / DEVICE_LANES, job->padded),
                           end, channel);
    device_norm_keep(block, &sums, thread);
}

DEVICE void device_norm_rows_put(const spsh__norm_job *job, const spsh__kernel_block *block,
                                 uint32_t thread)
{
    const uint32_t i = thread / DEVICE_LANES, lane = thread % DEVICE_LANES;
    const uint32_t channel = block->x * DEVICE_LANES + lane;
    if (i < 2 && channel < job->channels)
        job->partial[((uint64_t)block->y * 2 + i) * job->channels + channel] =
            device_lane_sum((const double *)block->shared + (size_t)i * SPSH__DEVICE_THREADS, lane);
}

DEVICE_KERNEL_OF_TWO(norm_rows_sums, spsh__norm_job, device_norm_rows_part, device_norm_rows_put)

/* ---- statistics: block x is a group of channels */

DEVICE double device_norm_count(const spsh__norm_job *job)
{
    uint64_t frames = 0;
    for (uint32_t n = 0; n < job->batch; n++)
        frames += device_norm_length(job, n);
    return (double)(frames * job->bins);
}

/* Number of elements of padding that count. */
DEVICE double device_norm_padding(const spsh__norm_job *job)
{
    const double all = (double)((uint64_t)job->batch * job->frames * job->bins);
    return job->counts_padding != 0 ? all - device_norm_count(job) : 0;
}

DEVICE double device_norm_conv_bias(const spsh__norm_job *job, uint32_t channel)
{
    return job->conv_bias != NULL ? (double)job->conv_bias[channel] : 0;
}

DEVICE void device_norm_gather(const spsh__norm_job *job, const spsh__kernel_block *block,
                               uint32_t thread)
{
    const uint32_t channel = block->x * DEVICE_LANES + thread % DEVICE_LANES;
    for (uint32_t i = 0; i < 2; i++) {
        double sum = 0;
        if (channel < job->channels)
            sum = device_parts_sum(job->partial + (uint64_t)i * job->channels + channel, job->parts,
                                   2 * (uint64_t)job->channels, thread / DEVICE_LANES);
        ((double *)block->shared)[(size_t)i * SPSH__DEVICE_THREADS + thread] = sum;
    }
}

DEVICE device_norm_sums device_norm_gathered(const spsh__kernel_block *block, uint32_t lane)
{
    const double *of = (const double *)block->shared;
    device_norm_sums sums;
    sums.first = device_lane_sum(of, lane);
    sums.second = device_lane_sum(of + SPSH__DEVICE_THREADS, lane);
    return sums;
}

DEVICE void device_norm_line_put(const spsh__norm_job *job, uint32_t channel, double a, double p,
                                 double c)
{
    float *line = job->lines + 4 * (uint64_t)channel;
    line[1] = (float)a;
    line[2] = (float)p;
    line[3] = (float)c;
}

/* Update the running statistics. A batch whose statistics are not finite does not change them. */
DEVICE void device_norm_run(const spsh__norm_job *job, uint32_t channel, double mean,
                            double unbiased)
{
    float *running_mean = &job->running_mean[channel];
    float *running_variance = &job->running_variance[channel];
    if (!spsh__is_finite((float)mean) || !spsh__is_finite((float)unbiased))
        return;
    *running_mean += (float)(SPSH__NORM_MOMENTUM * (mean - (double)*running_mean));
    *running_variance += (float)(SPSH__NORM_MOMENTUM * (unbiased - (double)*running_variance));
}

typedef struct device_norm_moments {
    double count, mean, variance;
} device_norm_moments;

DEVICE device_norm_moments device_norm_batch(const spsh__norm_job *job,
                                             const spsh__kernel_block *block, uint32_t channel)
{
    const double padding = job->parts > 0 ? device_norm_padding(job) : 0;
    device_norm_sums sums = device_norm_gathered(block, channel % DEVICE_LANES);
    device_norm_moments m = {0, 0, 0};
    m.count = job->parts > 0 ? device_norm_count(job) + padding : 0;
    if (m.count > 0) {
        const double shift = (double)device_norm_shift(job, channel);
        if (padding > 0) {
            const double d = -device_norm_conv_bias(job, channel) - shift;
            sums.first += padding * d;
            sums.second += padding * d * d;
        }
        m.mean = sums.first / m.count;
        m.variance = (sums.second - sums.first * m.mean) / m.count;
        m.variance = m.variance < 0 ? 0 : m.variance;
        m.mean += shift;
    }
    return m;
}

DEVICE void device_norm_learn(const spsh__norm_job *job, const spsh__kernel_block *block,
                              uint32_t thread)
{
    const uint32_t channel = block->x * DEVICE_LANES + thread;
    if (thread >= DEVICE_LANES || channel >= job->channels)
        return;
    const double conv_bias = device_norm_conv_bias(job, channel);
    double mean = (double)job->running_mean[channel] - conv_bias;
    double scale = 1 / sqrt((double)job->running_variance[channel] + SPSH__NORM_EPSILON);
    if (job->is_training != 0) {
        const device_norm_moments m = device_norm_batch(job, block, channel);
        mean = m.mean;
        job->batch_mean[channel] = (float)mean;
        job->batch_scale[channel] = (float)(1 / sqrt(m.variance + SPSH__NORM_EPSILON));
        scale = (double)job->batch_scale[channel];
        if (m.count > 0)
            device_norm_run(job, channel, mean + conv_bias,
                            m.count > 1 ? m.variance * m.count / (m.count - 1) : m.variance);
    }
    job->lines[4 * (uint64_t)channel] = (float)mean;
    device_norm_line_put(job, channel, (double)job->weight[channel] * scale, 0,
                         (double)job->bias[channel]);
}

DEVICE_KERNEL_OF_TWO(norm_learn, spsh__norm_job, device_norm_gather, device_norm_learn)

DEVICE void device_norm_learn_back(const spsh__norm_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    const uint32_t channel = block->x * DEVICE_LANES + thread;
    if (thread >= DEVICE_LANES || channel >= job->channels)
        return;
    const device_norm_sums sums = device_norm_gathered(block, thread);
    const double padding = device_norm_padding(job), count = device_norm_count(job) + padding;
    const double scale = (double)job->batch_scale[channel];
    const double a = (double)job->weight[channel] * scale;
    const double p = count > 0 ? -scale * scale * sums.second / count : 0;
    const double c = count > 0 ? -sums.first / count : 0;
    job->dbias[channel] += (float)sums.first;
    job->dweight[channel] += (float)(sums.second * scale);
    if (job->dconv_bias != NULL) {
        const double d = -device_norm_conv_bias(job, channel) - (double)job->batch_mean[channel];
        job->dconv_bias[channel] += (float)(-padding * (c + d * p) * a);
    }
    job->lines[4 * (uint64_t)channel] = job->batch_mean[channel];
    device_norm_line_put(job, channel, a, p, c);
}

DEVICE_KERNEL_OF_TWO(norm_learn_back, spsh__norm_job, device_norm_gather, device_norm_learn_back)

/* ---- y and dx */

/* A channel's mean, a, p, c. */
DEVICE void device_norm_line_get(const spsh__norm_job *job, uint32_t channel, float line[4])
{
#ifdef __CUDACC__
    const float4 four = ((const float4 *)job->lines)[channel];
    line[0] = four.x, line[1] = four.y, line[2] = four.z, line[3] = four.w;
#else
    memcpy(line, job->lines + 4 * (uint64_t)channel, 4 * sizeof(*line));
#endif
}

DEVICE float device_norm_value(const float line[4], float x, float dy, bool is_backward)
{
    const float d = x - line[0];
    return is_backward ? ((dy + line[3]) + d * line[2]) * line[1] : d * line[1] + line[3];
}

DEVICE float device_norm_conv_value(const spsh__norm_job *job, const float line[4], float bias,
                                    float x, float dy)
{
    if (job->dy.data != NULL)
        return device_norm_value(line, x,
                                 device_norm_unclipped(job, x - line[0], line[1], bias, dy), true);
    const float y = device_norm_value(line, x, 0, false);
    return job->clip > 0 ? device_clip(y, job->clip) : y;
}

/* Line (n, c, f) of a convolution. */
DEVICE void device_norm_apply_line(const spsh__norm_job *job, uint32_t number, uint32_t lane)
{
    const uint32_t plane = number / job->bins, channel = plane % job->channels;
    const uint32_t length = device_norm_length(job, plane / job->channels);
    const uint64_t first = (uint64_t)number * job->frames;
    const bool is_backward = job->dy.data != NULL;
    const float bias = is_backward && job->clip > 0 ? job->bias[channel] : 0;
    float line[4];
    device_norm_line_get(job, channel, line);
    for (uint64_t at = 0; at < job->frames; at += DEVICE_LINE_STEP) {
        const device_run of = device_run_of(at, job->frames, lane, DEVICE_LANES, job->is_wide != 0);
        const device_run r = device_run_at(&of, first + of.at);
        float v[4], dy[4] = {0, 0, 0, 0};
        device_load_run(&job->x, &r, v);
        if (is_backward)
            device_load_run(&job->dy, &r, dy);
        for (uint32_t k = 0; k < 4; k++)
            v[k] = of.at + (uint64_t)k * of.step < length
                       ? device_norm_conv_value(job, line, bias, v[k], dy[k])
                       : 0;
        device_store_run(&job->to, &r, v);
    }
}

DEVICE void device_norm_conv_apply(const spsh__norm_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    const uint64_t lines = (uint64_t)job->batch * job->channels * job->bins; /* below 2^32 */
    for (uint64_t line = (uint64_t)block->x * DEVICE_WARPS + thread / DEVICE_LANES; line < lines;
         line += (uint64_t)block->blocks_x * DEVICE_WARPS)
        device_norm_apply_line(job, (uint32_t)line, thread % DEVICE_LANES);
}

DEVICE_KERNEL(norm_conv_apply, spsh__norm_job, device_norm_conv_apply)

typedef struct device_norm_lines { /* values of the four channels of a run */
    float of[4][4];
} device_norm_lines;

DEVICE void device_norm_apply_row(const spsh__norm_job *job, const device_row *row,
                                  const device_run *columns, const device_norm_lines *lines)
{
    const bool is_backward = job->dy.data != NULL;
    const device_run r = device_run_at(columns, row->number * job->channels + columns->at);
    float v[4] = {0, 0, 0, 0}, dy[4] = {0, 0, 0, 0};
    if (row->t < device_norm_length(job, row->n)) {
        device_load_run(&job->x, &r, v);
        if (is_backward)
            device_load_run(&job->dy, &r, dy);
        for (uint32_t k = 0; k < 4; k++)
            v[k] = device_norm_value(lines->of[k], v[k], dy[k], is_backward);
    }
    device_store_run(&job->to, &r, v);
}

/* Dimension x of the grid divides the columns, whose values stay in registers of a thread, and
 * dimension y divides the rows. A block processes eight rows at a time. */
DEVICE void device_norm_rows_apply(const spsh__norm_job *job, const spsh__kernel_block *block,
                                   uint32_t thread)
{
    const uint64_t rows = (uint64_t)job->frames * job->batch;
    const device_run columns =
        device_run_of((uint64_t)block->x * DEVICE_LINE_STEP, job->channels, thread % DEVICE_LANES,
                      DEVICE_LANES, job->is_wide != 0);
    const device_row step = device_row_of((uint64_t)block->blocks_y * DEVICE_WARPS, job->batch);
    device_row row =
        device_row_of((uint64_t)block->y * DEVICE_WARPS + thread / DEVICE_LANES, job->batch);
    device_norm_lines lines = {{{0}}};
    for (uint32_t k = 0; k < 4; k++) {
        if (k < columns.count)
            device_norm_line_get(job, (uint32_t)columns.at + k * columns.step, lines.of[k]);
    }
    for (; row.number < rows; device_row_add(&row, &step, job->batch))
        device_norm_apply_row(job, &row, &columns, &lines);
}

DEVICE_KERNEL(norm_rows_apply, spsh__norm_job, device_norm_rows_apply)

#endif

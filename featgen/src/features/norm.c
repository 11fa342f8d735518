/* norm.c: means and deviations, in double precision, in one order.
 *
 * Dimensions are summed side by side, each from its first frame to its last, in strips that fit
 * registers and the first cache. So the compiler may use vectors of any width and no sum changes.
 */
#include "norm.h"

#include <math.h>

enum { STRIP = 32 };

/* Minimum variance: for silence, or for a single frame. */
#define VARIANCE_MIN 1e-10

typedef struct strip_sums {
    double sum[STRIP], square_sum[STRIP];
} strip_sums;

static inline void add_row(strip_sums *sums, const float *row, uint32_t count)
{
    for (uint32_t d = 0; d < count; d++) {
        const double value = (double)row[d];
        sums->sum[d] += value;
        sums->square_sum[d] += value * value;
    }
}

static void sum_strip(const float *rows, uint64_t frame_count, uint32_t dim, uint32_t count,
                      strip_sums *ret_sums)
{
    strip_sums sums = {{0}, {0}};
    if (count == STRIP)
        for (uint64_t t = 0; t < frame_count; t++)
            add_row(&sums, rows + t * dim, STRIP);
    else
        for (uint64_t t = 0; t < frame_count; t++)
            add_row(&sums, rows + t * dim, count);
    *ret_sums = sums;
}

static uint32_t strip_size(uint32_t first, uint32_t dim)
{
    return dim - first < STRIP ? dim - first : STRIP;
}

static double scale_of(double variance)
{
    return 1 / sqrt(variance > VARIANCE_MIN ? variance : VARIANCE_MIN);
}

/* max(x, top - 8), (x + 4) / 4: log_mel_spectrogram of Whisper. */
static void norm_whisper(float *rows, uint64_t value_count)
{
    float top = value_count > 0 ? rows[0] : 0;
    for (uint64_t i = 0; i < value_count; i++)
        top = rows[i] > top ? rows[i] : top;
    const float least = top - 8.0F;
    for (uint64_t i = 0; i < value_count; i++)
        rows[i] = ((rows[i] > least ? rows[i] : least) + 4.0F) * 0.25F;
}

static void norm_utterance(float *rows, uint64_t frame_count, uint32_t dim)
{
    double sum = 0;
    double square_sum = 0;
    for (uint32_t first = 0; first < dim; first += STRIP) {
        strip_sums sums;
        const uint32_t count = strip_size(first, dim);
        sum_strip(rows + first, frame_count, dim, count, &sums);
        for (uint32_t d = 0; d < count; d++) {
            sum += sums.sum[d];
            square_sum += sums.square_sum[d];
        }
    }
    const uint64_t value_count = frame_count * dim;
    const double n = (double)value_count;
    const double mean = sum / n;
    const double variance = value_count > 1 ? (square_sum - sum * mean) / (n - 1) : 0;
    const float float_mean = (float)mean;
    const float scale = (float)scale_of(variance);
    for (uint64_t i = 0; i < value_count; i++)
        rows[i] = (rows[i] - float_mean) * scale;
}

static void apply_strip(float *rows, uint64_t frame_count, uint32_t dim, uint32_t count,
                        const float *mean, const float *scale)
{
    for (uint64_t t = 0; t < frame_count; t++)
        for (uint32_t d = 0; d < count; d++)
            rows[t * dim + d] = (rows[t * dim + d] - mean[d]) * scale[d];
}

static void norm_dimensions(float *rows, uint64_t frame_count, uint32_t dim, bool with_variance)
{
    for (uint32_t first = 0; first < dim; first += STRIP) {
        strip_sums strip;
        float mean[STRIP];
        float scale[STRIP];
        const uint32_t count = strip_size(first, dim);
        sum_strip(rows + first, frame_count, dim, count, &strip);
        const spsh_feature_sums sums = {frame_count, count, strip.sum, strip.square_sum};
        spsh_feature_sums_norm(&sums, with_variance, mean, scale);
        apply_strip(rows + first, frame_count, dim, count, mean, scale);
    }
}

void spsh__norm_apply(const spsh_feature_options *features, const spsh_feature_input *input,
                      float *rows, uint64_t frame_count, uint32_t dim)
{
    if (frame_count == 0)
        return;
    switch (features->norm) {
    case SPSH_NORM_NONE: break;
    case SPSH_NORM_WHISPER: norm_whisper(rows, frame_count * dim); break;
    case SPSH_NORM_UTTERANCE: norm_utterance(rows, frame_count, dim); break;
    case SPSH_NORM_MEAN: norm_dimensions(rows, frame_count, dim, false); break;
    case SPSH_NORM_MEAN_VARIANCE: norm_dimensions(rows, frame_count, dim, true); break;
    case SPSH_NORM_SPEAKER:
    case SPSH_NORM_DATASET:
        apply_strip(rows, frame_count, dim, dim, input->mean, input->scale);
        break;
    }
}

/* ---- sums over utterances ---- */

void spsh_feature_sums_add(spsh_feature_sums *sums, const float *rows, uint64_t frame_count)
{
    for (uint32_t first = 0; first < sums->dim; first += STRIP) {
        strip_sums strip;
        const uint32_t count = strip_size(first, sums->dim);
        sum_strip(rows + first, frame_count, sums->dim, count, &strip);
        for (uint32_t d = 0; d < count; d++) {
            sums->sum[first + d] += strip.sum[d];
            sums->square_sum[first + d] += strip.square_sum[d];
        }
    }
    sums->frame_count += frame_count;
}

void spsh_feature_sums_norm(const spsh_feature_sums *sums, bool with_variance, float *mean,
                            float *scale)
{
    const double n = sums->frame_count > 0 ? (double)sums->frame_count : 1;
    for (uint32_t d = 0; d < sums->dim; d++) {
        const double average = sums->sum[d] / n;
        const double variance = sums->square_sum[d] / n - average * average;
        mean[d] = (float)average;
        scale[d] = with_variance ? (float)scale_of(variance) : 1.0F;
    }
}

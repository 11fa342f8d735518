/* cpu_norm.c: batch normalization over the elements that count, as defined in reference_norm.c. A
 * channel of a convolution consists of lines, and the first frames of each line count. Channels of
 * rows are columns, and a piece has several. Sums add floats within a stretch, and stretches in
 * double. The variance is computed from x - mean.
 *
 * With s = weight * scale, y = s * x + (bias - s * mean), and
 *     dx = s * dy - p * (x - mean) - s * sum(dy) / n,  p = s * scale^2 * sum(dy * (x - mean)) / n
 */
#include <math.h>
#include <string.h>

#include "cpu.h"

enum { COLUMNS = 64 };
#define MOMENTUM 0.1
#define EPSILON  1e-5

typedef struct norm_work {
    const spsh__cpu_kernels *kernels;
    const spsh__norm_shape *s;
    const uint32_t *lengths;
    bool is_training;
    const spsh__norm_state *state;
    float *x;
    const float *dy;
    float *to; /* y or dx */
    const spsh__norm_grad *g;
} norm_work;

/* Frames of utterance n without padding. */
static size_t frames_of(const norm_work *w, size_t n)
{
    return w->lengths == NULL ? w->s->frames : spsh__least(w->lengths[n], w->s->frames);
}

/* Frames of utterance n that count. */
static size_t length_of(const norm_work *w, size_t n)
{
    return w->s->counts_padding ? w->s->frames : frames_of(w, n);
}

static size_t count_of(const norm_work *w)
{
    size_t frames = 0;
    for (size_t n = 0; n < w->s->batch; n++)
        frames += length_of(w, n);
    return frames * (w->s->is_conv ? w->s->bins : 1);
}

/* y = a * x + c */
typedef struct line {
    double a, c;
} line;

/* Compute the statistics of a channel from these sums, and keep the values that backward and
 * inference need. */
static line learn(const norm_work *w, size_t channel, double count, double mean, double squares)
{
    const spsh__norm_state *state = w->state;
    float *running_mean = &spsh__f32(state->running_mean)[channel];
    float *running_variance = &spsh__f32(state->running_variance)[channel];
    double scale = 0;
    if (w->is_training) {
        const double variance = count > 0 ? squares / count : 0;
        const double unbiased = count > 1 ? squares / (count - 1) : variance;
        scale = 1 / sqrt(variance + EPSILON);
        if (count > 0 && isfinite(mean) && isfinite(unbiased)) {
            *running_mean += (float)(MOMENTUM * (mean - (double)*running_mean));
            *running_variance += (float)(MOMENTUM * (unbiased - (double)*running_variance));
        }
        spsh__f32(state->batch_mean)[channel] = (float)mean;
        spsh__f32(state->batch_scale)[channel] = (float)scale;
    } else {
        mean = (double)*running_mean;
        scale = 1 / sqrt((double)*running_variance + EPSILON);
    }
    const double a = (double)spsh__f32(state->weight)[channel] * scale;
    return (line){a, (double)spsh__f32(state->bias)[channel] - a * mean};
}

/* dx = a * dy + p * x + c, with coefficients from the sums of dy and of dy * (x - mean). */
static void learn_back(const norm_work *w, size_t channel, const double sums[2], float abc[3])
{
    const double scale = (double)spsh__f32(w->state->batch_scale)[channel];
    const double mean = (double)spsh__f32(w->state->batch_mean)[channel];
    const double a = (double)spsh__f32(w->state->weight)[channel] * scale;
    const double count = (double)count_of(w);
    spsh__f32(w->g->dbias)[channel] += (float)sums[0];
    spsh__f32(w->g->dweight)[channel] += (float)(sums[1] * scale);
    const double p = count > 0 ? -a * scale * scale * sums[1] / count : 0;
    abc[0] = (float)a;
    abc[1] = (float)p;
    abc[2] = count > 0 ? (float)(-a * sums[0] / count - p * mean) : 0;
}

/* --- convolutions: a piece is a channel --- */

static size_t line_at(const norm_work *w, size_t n, size_t channel, size_t bin)
{
    return ((n * w->s->channels + channel) * w->s->bins + bin) * w->s->frames;
}

/* Sum over all lines of a channel: of x, or of dy. Padding adds nothing, because x is 0 there, and
 * dy is ignored. channel_products sums (x - mean)^2, also over padding that counts, or
 * dy * (x - mean). */
static double channel_sum(const norm_work *w, size_t channel, const float *of)
{
    double sum = 0;
    for (size_t n = 0; n < w->s->batch; n++) {
        for (size_t f = 0; f < w->s->bins; f++)
            sum += w->kernels->sum_fn(of + line_at(w, n, channel, f), frames_of(w, n));
    }
    return sum;
}

static double channel_products(const norm_work *w, size_t channel, float mean)
{
    double sum = 0;
    for (size_t n = 0; n < w->s->batch; n++) {
        for (size_t f = 0; f < w->s->bins; f++) {
            const size_t at = line_at(w, n, channel, f);
            sum += w->dy == NULL ? w->kernels->square_sum_fn(w->x + at, mean, length_of(w, n))
                                 : w->kernels->dot_fn(w->x + at, mean, w->dy + at, frames_of(w, n));
        }
    }
    return sum;
}

static void clear_channel_padding(const norm_work *w, size_t channel, float *of)
{
    for (size_t n = 0; n < w->s->batch; n++) {
        const size_t frames = frames_of(w, n);
        for (size_t f = 0; f < w->s->bins; f++)
            memset(of + line_at(w, n, channel, f) + frames, 0,
                   (w->s->frames - frames) * sizeof(float));
    }
}

static void conv_piece(void *work, size_t channel)
{
    const norm_work *w = (const norm_work *)work;
    double mean = 0, squares = 0;
    const double count = (double)count_of(w);
    if (w->s->counts_padding)
        clear_channel_padding(w, channel, w->x);
    if (w->is_training && count > 0) {
        mean = channel_sum(w, channel, w->x) / count;
        squares = channel_products(w, channel, (float)mean);
    }
    const line l = learn(w, channel, count, mean, squares);
    for (size_t n = 0; n < w->s->batch; n++) {
        for (size_t f = 0; f < w->s->bins; f++) {
            const size_t at = line_at(w, n, channel, f);
            w->kernels->affine_fn((float)l.a, w->x + at, (float)l.c, w->to + at, frames_of(w, n));
        }
    }
    clear_channel_padding(w, channel, w->to);
}

static void conv_grad_piece(void *work, size_t channel)
{
    const norm_work *w = (const norm_work *)work;
    const double sums[2] = {channel_sum(w, channel, w->dy),
                            channel_products(w, channel, spsh__f32(w->state->batch_mean)[channel])};
    float abc[3];
    learn_back(w, channel, sums, abc);
    if (w->to == NULL)
        return;
    for (size_t n = 0; n < w->s->batch; n++) {
        for (size_t f = 0; f < w->s->bins; f++) {
            const size_t at = line_at(w, n, channel, f);
            w->kernels->blend_fn(abc, w->dy + at, w->x + at, w->to + at, frames_of(w, n));
        }
    }
    clear_channel_padding(w, channel, w->to);
}

/* --- rows: a piece is some columns --- */

typedef struct columns {
    size_t first, count;
    double sums[COLUMNS], products[COLUMNS];
    float a[COLUMNS], p[COLUMNS], c[COLUMNS], mean[COLUMNS];
} columns;

static columns columns_of(const norm_work *w, size_t piece)
{
    columns k = {.first = piece * COLUMNS};
    k.count = spsh__least(COLUMNS, w->s->channels - k.first);
    return k;
}

typedef void (*row_fn)(const norm_work *w, columns *k, size_t at);

/* Call fn for every row that counts. at: index of the first column of the piece in that row. */
static void each_row(const norm_work *w, columns *k, row_fn fn)
{
    for (size_t t = 0; t < w->s->frames; t++) {
        for (size_t n = 0; n < w->s->batch; n++) {
            if (t < length_of(w, n))
                fn(w, k, (t * w->s->batch + n) * w->s->channels + k->first);
        }
    }
}

static void clear_padding(const norm_work *w, const columns *k)
{
    for (size_t t = 0; t < w->s->frames; t++) {
        for (size_t n = 0; n < w->s->batch; n++) {
            if (t >= length_of(w, n))
                memset(w->to + (t * w->s->batch + n) * w->s->channels + k->first, 0,
                       k->count * sizeof(float));
        }
    }
}

static void add_sums(const norm_work *w, columns *k, size_t at)
{
    for (size_t i = 0; i < k->count; i++)
        k->sums[i] += (double)w->x[at + i];
}

static void add_squares(const norm_work *w, columns *k, size_t at)
{
    for (size_t i = 0; i < k->count; i++) {
        const float d = w->x[at + i] - k->mean[i];
        k->products[i] += (double)(d * d);
    }
}

static void add_gradients(const norm_work *w, columns *k, size_t at)
{
    for (size_t i = 0; i < k->count; i++) {
        k->sums[i] += (double)w->dy[at + i];
        k->products[i] += (double)(w->dy[at + i] * (w->x[at + i] - k->mean[i]));
    }
}

static void put_y(const norm_work *w, columns *k, size_t at)
{
    for (size_t i = 0; i < k->count; i++)
        w->to[at + i] = k->a[i] * w->x[at + i] + k->c[i];
}

static void put_dx(const norm_work *w, columns *k, size_t at)
{
    for (size_t i = 0; i < k->count; i++)
        w->to[at + i] = k->a[i] * w->dy[at + i] + k->p[i] * w->x[at + i] + k->c[i];
}

static void rows_piece(void *work, size_t piece)
{
    const norm_work *w = (const norm_work *)work;
    columns k = columns_of(w, piece);
    const double count = (double)count_of(w);
    if (w->is_training && count > 0) {
        each_row(w, &k, add_sums);
        for (size_t i = 0; i < k.count; i++) {
            k.sums[i] /= count;
            k.mean[i] = (float)k.sums[i];
        }
        each_row(w, &k, add_squares);
    }
    for (size_t i = 0; i < k.count; i++) {
        const line l = learn(w, k.first + i, count, k.sums[i], k.products[i]);
        k.a[i] = (float)l.a;
        k.c[i] = (float)l.c;
    }
    each_row(w, &k, put_y);
    clear_padding(w, &k);
}

static void rows_grad_piece(void *work, size_t piece)
{
    const norm_work *w = (const norm_work *)work;
    columns k = columns_of(w, piece);
    memcpy(k.mean, spsh__f32(w->state->batch_mean) + k.first, k.count * sizeof(float));
    each_row(w, &k, add_gradients);
    for (size_t i = 0; i < k.count; i++) {
        const double sums[2] = {k.sums[i], k.products[i]};
        float abc[3];
        learn_back(w, k.first + i, sums, abc);
        k.a[i] = abc[0];
        k.p[i] = abc[1];
        k.c[i] = abc[2];
    }
    if (w->to == NULL)
        return;
    each_row(w, &k, put_dx);
    clear_padding(w, &k);
}

static size_t elements_of(const spsh__norm_shape *s)
{
    return (size_t)s->batch * s->channels * s->frames * (s->is_conv ? s->bins : 1);
}

static size_t pieces_of(const spsh__norm_shape *s)
{
    return s->is_conv ? s->channels : ((size_t)s->channels + COLUMNS - 1) / COLUMNS;
}

void spsh__cpu_norm_forward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                            bool is_training, const spsh__norm_state *state,
                            const spsh__norm_io *io)
{
    norm_work w = {.kernels = spsh__cpu_of(b)->kernels,
                   .s = s,
                   .lengths = lengths,
                   .is_training = is_training,
                   .state = state,
                   .x = spsh__f32(io->x),
                   .to = spsh__f32(io->y)};
    spsh__cpu_run(b, s->is_conv ? conv_piece : rows_piece, &w, pieces_of(s));
    if (s->clip > 0)
        spsh__cpu_clip_forward(b, s->clip, elements_of(s), io->y, io->y);
}

void spsh__cpu_norm_backward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                             const spsh__norm_state *state, const spsh__norm_grad *g)
{
    norm_work w = {.kernels = spsh__cpu_of(b)->kernels,
                   .s = s,
                   .lengths = lengths,
                   .state = state,
                   .x = spsh__f32(g->x),
                   .dy = spsh__f32(g->dy),
                   .to = spsh__f32(g->dx),
                   .g = g};
    if (s->clip > 0) {
        spsh__cpu_clip_backward(b, s->clip, elements_of(s), g->y, g->dy, g->dx);
        w.dy = w.to;
    }
    spsh__cpu_run(b, s->is_conv ? conv_grad_piece : rows_grad_piece, &w, pieces_of(s));
}

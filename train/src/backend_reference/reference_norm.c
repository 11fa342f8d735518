/* reference_norm.c: batch normalization over the elements that count (Ioffe and Szegedy 2015), for
 * convolutions and for rows.
 *
 * With n values that count, xhat = (x - mean) * scale and s = weight * scale:
 *     dx = s * (dy - sum(dy) / n - xhat * sum(dy * xhat) / n)
 * if x counts. Padding that does not count has y = 0, so its dy is ignored and its dx is 0. So is
 * all padding of a convolution.
 */
#include <math.h>

#include "reference.h"

#define MOMENTUM 0.1
#define EPSILON  1e-5

/* A channel's elements are numbered: utterance, bin, frame. */
typedef struct channel {
    const spsh__norm_shape *s;
    const uint32_t *lengths;
    uint32_t number;
} channel;

static size_t element_count(const spsh__norm_shape *s)
{
    return (size_t)s->batch * s->frames * (s->is_conv ? s->bins : 1);
}

static size_t element_index(const channel *c, size_t element)
{
    const spsh__norm_shape *s = c->s;
    const size_t t = element % s->frames;
    const size_t bins = s->is_conv ? s->bins : 1;
    const size_t f = element / s->frames % bins;
    const size_t n = element / s->frames / bins;
    return s->is_conv ? ((n * s->channels + c->number) * bins + f) * s->frames + t
                      : (t * s->batch + n) * s->channels + c->number;
}

static bool is_padding(const channel *c, size_t element)
{
    const size_t n = element / c->s->frames / (c->s->is_conv ? c->s->bins : 1);
    return c->lengths != NULL && element % c->s->frames >= c->lengths[n];
}

static bool counts(const channel *c, size_t element)
{
    return c->s->counts_padding || !is_padding(c, element);
}

/* Whether y and dx are 0. */
static bool is_masked(const channel *c, size_t element)
{
    return c->s->is_conv ? is_padding(c, element) : !counts(c, element);
}

static void clear_masked(const channel *c, double *x)
{
    for (size_t i = 0; i < element_count(c->s); i++) {
        if (is_masked(c, i))
            x[element_index(c, i)] = 0;
    }
}

typedef struct moments {
    size_t count;
    double mean, variance;
} moments;

static moments moments_of(const channel *c, const double *x)
{
    const size_t elements = element_count(c->s);
    moments m = {0, 0, 0};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < elements; i++) {
        if (counts(c, i)) {
            sum += x[element_index(c, i)];
            m.count++;
        }
    }
    if (m.count == 0)
        return m;
    m.mean = sum / (double)m.count;
    for (size_t i = 0; i < elements; i++) {
        const double d = x[element_index(c, i)] - m.mean;
        if (counts(c, i))
            squares += d * d;
    }
    m.variance = squares / (double)m.count;
    return m;
}

static void learn(const moments *m, double *mean, double *variance)
{
    if (m->count == 0 || !isfinite(m->mean) || !isfinite(m->variance))
        return;
    const double n = (double)m->count;
    const double unbiased = m->count == 1 ? m->variance : m->variance * n / (n - 1);
    *mean += MOMENTUM * (m->mean - *mean);
    *variance += MOMENTUM * (unbiased - *variance);
}

void spsh__reference_norm_forward(spsh__backend *b, const spsh__norm_shape *s,
                                  const uint32_t *lengths, bool is_training,
                                  const spsh__norm_state *state, const spsh__norm_io *io)
{
    const size_t elements = element_count(s);
    for (uint32_t k = 0; k < s->channels; k++) {
        const channel c = {s, lengths, k};
        double mean = spsh__f64(state->running_mean)[k];
        double scale = 1 / sqrt(spsh__f64(state->running_variance)[k] + EPSILON);
        if (s->is_conv)
            clear_masked(&c, spsh__f64(io->x));
        if (is_training) {
            const moments m = moments_of(&c, spsh__f64(io->x));
            learn(&m, &spsh__f64(state->running_mean)[k], &spsh__f64(state->running_variance)[k]);
            mean = m.mean;
            scale = 1 / sqrt(m.variance + EPSILON);
            spsh__f64(state->batch_mean)[k] = mean;
            spsh__f64(state->batch_scale)[k] = scale;
        }
        for (size_t i = 0; i < elements; i++) {
            const size_t at = element_index(&c, i);
            const double xhat = (spsh__f64(io->x)[at] - mean) * scale;
            const double y = xhat * spsh__f64(state->weight)[k] + spsh__f64(state->bias)[k];
            spsh__f64(io->y)[at] = is_masked(&c, i) ? 0 : y;
        }
    }
    if (s->clip > 0)
        spsh__reference_clip_forward(b, s->clip, elements * s->channels, io->y, io->y);
}

typedef struct sums { /* over the elements that count: n, dy, dy * xhat */
    double count, dy, dy_xhat;
} sums;

static sums sums_of(const channel *c, const spsh__norm_grad *g, const double *dys, double mean,
                    double scale)
{
    const size_t elements = element_count(c->s);
    sums sum = {0, 0, 0};
    for (size_t i = 0; i < elements; i++) {
        const size_t at = element_index(c, i);
        if (!counts(c, i))
            continue;
        const double dy = is_masked(c, i) ? 0 : dys[at];
        sum.count += 1;
        sum.dy += dy;
        sum.dy_xhat += dy * (spsh__f64(g->x)[at] - mean) * scale;
    }
    return sum;
}

void spsh__reference_norm_backward(spsh__backend *b, const spsh__norm_shape *s,
                                   const uint32_t *lengths, const spsh__norm_state *state,
                                   const spsh__norm_grad *g)
{
    const size_t elements = element_count(s);
    const double *dy = spsh__f64(g->dy);
    if (s->clip > 0) {
        spsh__reference_clip_backward(b, s->clip, elements * s->channels, g->y, g->dy, g->dx);
        dy = spsh__f64(g->dx);
    }
    for (uint32_t k = 0; k < s->channels; k++) {
        const channel c = {s, lengths, k};
        const double mean = spsh__f64(state->batch_mean)[k];
        const double scale = spsh__f64(state->batch_scale)[k];
        const sums sum = sums_of(&c, g, dy, mean, scale);
        spsh__f64(g->dbias)[k] += sum.dy;
        spsh__f64(g->dweight)[k] += sum.dy_xhat;
        for (size_t i = 0; g->dx.data != NULL && i < elements; i++) {
            const size_t at = element_index(&c, i);
            const double xhat = (spsh__f64(g->x)[at] - mean) * scale;
            double dx = 0;
            if (!is_masked(&c, i))
                dx = spsh__f64(state->weight)[k] * scale *
                     (dy[at] - sum.dy / sum.count - xhat * sum.dy_xhat / sum.count);
            spsh__f64(g->dx)[at] = dx;
        }
    }
}

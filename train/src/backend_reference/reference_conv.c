/* reference_conv.c: convolutions of [N][C][F][T], and the conversion of their results to rows. The
 * weight is [out channel][in channel][kernel bin][kernel frame]. */
#include "reference.h"

/* True if a tap of an output reads an input, along one axis. Outside the input there are zeros. */
static bool meets(uint32_t out, uint32_t tap, uint32_t stride, uint32_t pad, uint32_t in)
{
    uint64_t at = (uint64_t)out * stride + tap;
    return at >= pad && at - pad < in;
}

typedef struct place { /* position of an output: utterance, channel, bin, frame */
    uint32_t n, c, f, t;
} place;

static size_t out_index(const spsh__conv_shape *s, const place *p)
{
    return (((size_t)p->n * s->out_channels + p->c) * s->out_bins + p->f) * s->out_frames + p->t;
}

static size_t in_row(const spsh__conv_shape *s, const place *p, uint32_t channel, uint32_t kf)
{
    const size_t f = (size_t)p->f * s->stride_bins + kf - s->pad_bins;
    return (((size_t)p->n * s->in_channels + channel) * s->in_bins + f) * s->in_frames;
}

static size_t weight_row(const spsh__conv_shape *s, const place *p, uint32_t channel, uint32_t kf)
{
    return (((size_t)p->c * s->in_channels + channel) * s->kernel_bins + kf) * s->kernel_frames;
}

/* Position of the output with this index. */
static place place_of(const spsh__conv_shape *s, size_t index)
{
    place p;
    p.t = (uint32_t)(index % s->out_frames);
    index /= s->out_frames;
    p.f = (uint32_t)(index % s->out_bins);
    index /= s->out_bins;
    p.c = (uint32_t)(index % s->out_channels);
    p.n = (uint32_t)(index / s->out_channels);
    return p;
}

static size_t out_count(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->out_channels * s->out_bins * s->out_frames;
}

/* One row of the kernel: sum over its frames of weight * x. */
static double row_product(const spsh__conv_shape *s, uint32_t t, const double *x,
                          const double *weight)
{
    double sum = 0;
    for (uint32_t kt = 0; kt < s->kernel_frames; kt++) {
        if (meets(t, kt, s->stride_frames, s->pad_frames, s->in_frames))
            sum += weight[kt] * x[(size_t)t * s->stride_frames + kt - s->pad_frames];
    }
    return sum;
}

void spsh__reference_conv_forward(spsh__backend *b, const spsh__conv_shape *s,
                                  spsh__backend_buffer x, spsh__backend_buffer weight,
                                  spsh__backend_buffer bias, spsh__backend_buffer y)
{
    (void)b;
    const size_t count = out_count(s);
    for (size_t i = 0; i < count; i++) {
        const place p = place_of(s, i);
        double sum = bias.data == NULL ? 0 : spsh__f64(bias)[p.c];
        for (uint32_t c = 0; c < s->in_channels; c++) {
            for (uint32_t kf = 0; kf < s->kernel_bins; kf++) {
                if (meets(p.f, kf, s->stride_bins, s->pad_bins, s->in_bins))
                    sum += row_product(s, p.t, spsh__f64(x) + in_row(s, &p, c, kf),
                                       spsh__f64(weight) + weight_row(s, &p, c, kf));
            }
        }
        spsh__f64(y)[i] = sum;
    }
}

/* Gradients for one row of the kernel: add the effect of dy of one output to weights and inputs. */
static void row_gradient(const spsh__conv_shape *s, const spsh__conv_grad *g, const place *p,
                         size_t x_row, size_t w_row)
{
    const double dy = spsh__f64(g->dy)[out_index(s, p)];
    for (uint32_t kt = 0; kt < s->kernel_frames; kt++) {
        if (!meets(p->t, kt, s->stride_frames, s->pad_frames, s->in_frames))
            continue;
        const size_t x = x_row + (size_t)p->t * s->stride_frames + kt - s->pad_frames;
        spsh__f64(g->dweight)[w_row + kt] += dy * spsh__f64(g->x)[x];
        if (g->dx.data != NULL)
            spsh__f64(g->dx)[x] += dy * spsh__f64(g->weight)[w_row + kt];
    }
}

void spsh__reference_conv_backward(spsh__backend *b, const spsh__conv_shape *s,
                                   const spsh__conv_grad *g)
{
    (void)b;
    const size_t in_count = (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames;
    if (g->dx.data != NULL) {
        for (size_t i = 0; i < in_count; i++)
            spsh__f64(g->dx)[i] = 0;
    }
    const size_t count = out_count(s);
    for (size_t i = 0; i < count; i++) {
        const place p = place_of(s, i);
        if (g->dbias.data != NULL)
            spsh__f64(g->dbias)[p.c] += spsh__f64(g->dy)[i];
        for (uint32_t c = 0; c < s->in_channels; c++) {
            for (uint32_t kf = 0; kf < s->kernel_bins; kf++) {
                if (meets(p.f, kf, s->stride_bins, s->pad_bins, s->in_bins))
                    row_gradient(s, g, &p, in_row(s, &p, c, kf), weight_row(s, &p, c, kf));
            }
        }
    }
}

/* Index in rows [T][N][C * F] of element i of a convolution, [N][C][F][T]. */
static size_t row_index(const spsh__conv_shape *s, size_t i)
{
    const place p = place_of(s, i);
    return (((size_t)p.t * s->batch + p.n) * s->out_channels + p.c) * s->out_bins + p.f;
}

void spsh__reference_rows_from_conv(spsh__backend *b, const spsh__conv_shape *s,
                                    spsh__backend_buffer conv, spsh__backend_buffer rows)
{
    (void)b;
    for (size_t i = 0; i < out_count(s); i++)
        spsh__f64(rows)[row_index(s, i)] = spsh__f64(conv)[i];
}

void spsh__reference_conv_from_rows(spsh__backend *b, const spsh__conv_shape *s,
                                    spsh__backend_buffer rows, spsh__backend_buffer conv)
{
    (void)b;
    for (size_t i = 0; i < out_count(s); i++)
        spsh__f64(conv)[i] = spsh__f64(rows)[row_index(s, i)];
}

/* model_ds2.c: DeepSpeech2 (Amodei and others 2016) as deepspeech.pytorch implements it.
 *
 *     [N][1][F][T] -> conv 41 x 11 / 2 x 2 -> BN -> clip 0..20
 *     -> conv 21 x 11 / 2 x 1 -> BN -> clip
 *     -> rows [T'][N][C * F'] -> rnn1 -> BN -> rnn2 -> ... (-> look-ahead -> clip) -> BN -> product
 *
 * After every step, frames past an utterance's length are zero, as in deepspeech.pytorch. With BN
 * `compat` those zeros are part of its statistics, and its gradients reach them. The gradients end
 * at the next mask. T' is half of T, rounded up, for one utterance as for the batch.
 */
#include <math.h>
#include <stdio.h>

#include "model_internal.h"

#define CLIP 20.0

enum { STRIDE_FRAMES = 2 };

static const struct {
    uint32_t kernel_bins, stride_frames;
} conv_kernels[2] = {
    {41, STRIDE_FRAMES},
    {21, 1            }
};
enum { KERNEL_FRAMES = 11, STRIDE_BINS = 2 };

static uint32_t out_frames(uint32_t frames)
{
    return spsh__conv_out(frames, KERNEL_FRAMES, STRIDE_FRAMES, KERNEL_FRAMES / 2);
}

/* ---- declarations ---- */

static void shape_conv(spsh__model *m, uint32_t number, uint32_t in_channels, uint32_t in_bins)
{
    uint32_t kernel_bins = conv_kernels[number].kernel_bins;
    m->conv[number].shape = (spsh__conv_shape){
        .in_channels = in_channels,
        .out_channels = m->shape.conv_channels,
        .in_bins = in_bins,
        .out_bins = spsh__conv_out(in_bins, kernel_bins, STRIDE_BINS, kernel_bins / 2),
        .kernel_bins = kernel_bins,
        .kernel_frames = KERNEL_FRAMES,
        .stride_bins = STRIDE_BINS,
        .stride_frames = conv_kernels[number].stride_frames,
        .pad_bins = kernel_bins / 2,
        .pad_frames = KERNEL_FRAMES / 2};
}

static void declare_conv(spsh__model *m, uint32_t number)
{
    spsh__conv_stage *stage = &m->conv[number];
    const spsh__conv_shape *s = &stage->shape;
    const uint32_t of_weight[4] = {s->out_channels, s->in_channels, s->kernel_bins,
                                   s->kernel_frames};
    const uint32_t of_bias[4] = {s->out_channels};
    double fan_in = (double)s->in_channels * s->kernel_bins * s->kernel_frames;
    spsh__slice_start start = {1 / sqrt(fan_in), 0};
    const char *const names[2] = {"conv1", "conv2"};

    stage->norm = spsh__model_norm(m, names[number], s->out_channels, s->out_bins);
    stage->weight = spsh__model_slice(m, of_weight, true, start, "%s.weight", names[number]);
    stage->norm->conv_bias = spsh__model_slice(m, of_bias, false, start, "%s.bias", names[number]);
    stage->norm->clip = CLIP;
}

static void declare_rnn(spsh__model *m, uint32_t number)
{
    const spsh__rnn_layer *layer = &m->rnn[number];
    char name[16] = "rnnN";
    if (layer->directions == 2) {
        spsh__rnn_declare(m, number, 1);
        spsh__model_unit_end(m);
    }
    spsh__rnn_declare(m, number, 0);
    if (number > 0) {
        (void)snprintf(name, sizeof(name), "rnn%u", number + 1);
        m->rnn_norm[number] = spsh__model_norm(m, name, layer->shape.inputs, 0);
    }
    spsh__model_unit_end(m);
}

static void declare_output(spsh__model *m)
{
    const spsh__model_shape *s = &m->shape;
    const uint32_t of_output[4] = {s->outputs, s->hidden},
                   of_lookahead[4] = {s->hidden, s->lookahead};
    m->output = spsh__model_slice(
        m, of_output, true, (spsh__slice_start){1 / sqrt((double)s->hidden), 0}, "output.weight");
    m->output_norm = spsh__model_norm(m, "output", s->hidden, 0);
    if (s->lookahead > 0)
        m->lookahead_slice = spsh__model_slice(
            m, of_lookahead, true, (spsh__slice_start){1 / sqrt((double)s->lookahead), 0},
            "lookahead.weight");
    spsh__model_unit_end(m);
}

static void declare(spsh__model *m)
{
    const spsh__model_shape *s = &m->shape;
    shape_conv(m, 0, 1, s->inputs);
    shape_conv(m, 1, s->conv_channels, m->conv[0].shape.out_bins);
    for (uint32_t i = 0; i < s->layers; i++) {
        m->rnn[i].shape.cell = s->cell;
        m->rnn[i].shape.inputs = i > 0 ? s->hidden : s->conv_channels * m->conv[1].shape.out_bins;
        m->rnn[i].shape.hidden = s->hidden;
        m->rnn[i].directions = s->is_bidirectional ? 2 : 1;
        m->rnn[i].has_two_biases = true;
    }

    if (spsh__model_has(m, s->layers + 1))
        declare_output(m);
    for (uint32_t i = s->layers; i-- > 0;) {
        if (spsh__model_has(m, i + 1))
            declare_rnn(m, i);
    }
    if (!spsh__model_has(m, 0))
        return;
    declare_conv(m, 1);
    spsh__model_unit_end(m);
    declare_conv(m, 0);
    spsh__model_unit_end(m);
}

static uint64_t conv_elements(const spsh__model *m, uint32_t number)
{
    const spsh__conv_shape *s = &m->conv[number].shape;
    return m->out_rows_max * s->out_channels * s->out_bins;
}

/* Return the input of the last norm. */
static spsh__backend_buffer last_rows(const spsh__model *m)
{
    return m->shape.lookahead > 0 ? m->lookahead_out : m->rnn[m->shape.layers - 1].out;
}

/* Share memory in a model without backward. The norm and the clip of a convolution run in place.
 * After the second convolution, the first one's memory holds rows. After the rows are made, the
 * second one's memory holds reversed input. Norms run in place of their input. */
static void share_activations(spsh__model *m)
{
    for (uint32_t i = 0; i < 2; i++)
        m->conv[i].y = m->conv[i].out = spsh__model_take_values(m, conv_elements(m, i));
    m->rows = m->conv[0].out;
    if (m->shape.hidden <= m->rnn[0].shape.inputs) /* reversed input of the other layers */
        m->reversed_x = m->conv[1].out;
    for (uint32_t i = 1; i < m->shape.layers; i++)
        m->rnn_normed[i] = m->rnn[i - 1].out;
    if (m->shape.lookahead > 0)
        m->lookahead_out = spsh__model_take_values(m, m->out_rows_max * m->shape.hidden);
    m->output_normed = last_rows(m);
    spsh__model_take_scratch(m, 0);
}

static void take_activations(spsh__model *m)
{
    if (m->is_forward_only) {
        share_activations(m);
        return;
    }
    const uint64_t hidden = m->out_rows_max * m->shape.hidden;
    const bool has_conv = spsh__model_has(m, 0), has_output = m->output_norm != NULL;

    for (uint32_t i = 0; has_conv && i < 2; i++) {
        m->conv[i].out = spsh__model_take_values(m, conv_elements(m, i));
        m->conv[i].y = spsh__model_take_values(m, conv_elements(m, i));
    }
    if (has_conv)
        m->rows = spsh__model_take_values(m, conv_elements(m, 1));
    for (uint32_t i = 1; i < m->shape.layers; i++) {
        if (m->rnn_norm[i] != NULL)
            m->rnn_normed[i] = spsh__model_take_values(m, hidden);
    }
    if (has_output && m->shape.lookahead > 0)
        m->lookahead_out = spsh__model_take_values(m, hidden);
    if (has_output)
        m->output_normed = spsh__model_take_values(m, hidden);
    spsh__model_take_scratch(m, has_conv ? conv_elements(m, 0) : 0);
}

/* ---- a batch */

/* [N][T][F] to [N][F][T]. */
static void arrange(const spsh__model *m, const float *features, const uint32_t *lengths)
{
    size_t frames = m->frames, bins = m->shape.inputs;
    for (uint32_t n = 0; n < m->batch; n++) {
        const float *from = features + n * frames * bins;
        float *to = m->staging + n * frames * bins;
        memset(to, 0, frames * bins * sizeof(*to));
        for (size_t t = 0; t < lengths[n]; t++) {
            for (size_t f = 0; f < bins; f++)
                to[f * frames + t] = from[t * bins + f];
        }
    }
}

static void conv_forward(spsh__model *m, uint32_t number, bool is_training, spsh__backend_buffer x)
{
    const spsh__backend_buffer none = {NULL, false};
    spsh__conv_stage *stage = &m->conv[number];
    stage->shape.batch = m->batch;
    stage->shape.in_frames = number == 0 ? m->frames : m->out_frames;
    stage->shape.out_frames = m->out_frames;
    m->b->conv_forward_fn(m->backend, &stage->shape, x, spsh__model_factor(m, stage->weight),
                          m->b->norm_adds_bias ? none : spsh__model_weight(m, stage->weight + 1),
                          stage->out);
    spsh__norm_forward(m, stage->norm, is_training, stage->out, stage->y);
}

/* Overwrites dy. */
static void conv_backward(spsh__model *m, uint32_t number, spsh__backend_buffer x,
                          spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    spsh__conv_stage *stage = &m->conv[number];
    spsh__conv_grad g = {.x = x,
                         .weight = spsh__model_factor(m, stage->weight),
                         .dy = dy,
                         .dx = dx,
                         .dweight = spsh__model_gradient(m, stage->weight)};
    if (!m->b->norm_adds_bias)
        g.dbias = spsh__model_gradient(m, stage->weight + 1);
    spsh__norm_backward(m, stage->norm, stage->out, stage->y, dy);
    m->b->conv_backward_fn(m->backend, &stage->shape, &g);
}

static spsh__lookahead lookahead(const spsh__model *m)
{
    return (spsh__lookahead){m->out_frames, m->batch, m->shape.hidden, m->shape.lookahead,
                             spsh__model_weight(m, m->lookahead_slice)};
}

static void output_forward(spsh__model *m, bool is_training)
{
    const size_t count = spsh__model_out_rows(m) * m->shape.hidden;
    if (m->shape.lookahead > 0) {
        spsh__lookahead l = lookahead(m);
        m->b->lookahead_forward_fn(m->backend, &l, m->rnn[m->shape.layers - 1].out,
                                   m->lookahead_out);
        m->b->clip_forward_fn(m->backend, CLIP, count, m->lookahead_out, m->lookahead_out);
    }
    spsh__norm_forward(m, m->output_norm, is_training, last_rows(m), m->output_normed);
    spsh__linear_forward(m, m->output, m->output_normed, m->logits);
}

static void forward(spsh__model *m, bool is_training)
{
    if (spsh__model_has(m, 0)) {
        conv_forward(m, 0, is_training, m->input);
        conv_forward(m, 1, is_training, m->conv[0].y);
        m->b->rows_from_conv_fn(m->backend, &m->conv[1].shape, m->conv[1].y, m->rows);
    }
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        spsh__backend_buffer x = m->rows;
        if (!spsh__model_has(m, i + 1))
            continue;
        if (m->rnn_norm[i] != NULL) {
            x = m->rnn_normed[i];
            spsh__norm_forward(m, m->rnn_norm[i], is_training, m->rnn[i - 1].out, x);
        }
        spsh__rnn_forward(m, &m->rnn[i], x);
    }
    if (m->output_norm != NULL)
        output_forward(m, is_training);
}

/* *dy: gradients for the next step of backward; *dx: the other buffer. */
static void output_backward(spsh__model *m, spsh__backend_buffer logit_gradients,
                            spsh__backend_buffer *ret_dy, spsh__backend_buffer *ret_dx)
{
    const spsh__backend_buffer dy = *ret_dy, dx = *ret_dx;
    spsh__linear_backward(m, m->output, m->output_normed, logit_gradients, dy);
    spsh__norm_backward(m, m->output_norm, last_rows(m), m->output_normed, dy);
    if (m->shape.lookahead > 0) {
        spsh__lookahead l = lookahead(m);
        spsh__lookahead_grad g = {m->rnn[m->shape.layers - 1].out, dy, dx,
                                  spsh__model_gradient(m, m->lookahead_slice)};
        m->b->clip_backward_fn(m->backend, CLIP, spsh__model_out_rows(m) * m->shape.hidden,
                               m->lookahead_out, dy, dy);
        m->b->lookahead_backward_fn(m->backend, &l, &g);
        spsh__model_swap(ret_dy, ret_dx);
    }
    spsh__model_unit_done(m);
}

static void backward(spsh__model *m, spsh__backend_buffer logit_gradients)
{
    spsh__backend_buffer dy = m->gradient[0], dx = m->gradient[1];
    if (m->output_norm != NULL)
        output_backward(m, logit_gradients, &dy, &dx);
    for (uint32_t i = m->shape.layers; i-- > 0;) {
        if (!spsh__model_has(m, i + 1))
            continue;
        spsh__rnn_backward(m, &m->rnn[i], dy, dx);
        if (m->rnn_norm[i] != NULL)
            spsh__norm_backward(m, m->rnn_norm[i], m->rnn[i - 1].out, m->rnn_normed[i], dx);
        spsh__model_unit_done(m);
        spsh__model_swap(&dy, &dx);
    }
    m->in_gradients = dy;
    if (!spsh__model_has(m, 0))
        return;
    m->b->conv_from_rows_fn(m->backend, &m->conv[1].shape, dy, dx);
    conv_backward(m, 1, m->conv[0].y, dx, dy);
    spsh__model_unit_done(m);
    conv_backward(m, 0, m->input, dy, (spsh__backend_buffer){NULL, false});
    spsh__model_unit_done(m);
}

static spsh__backend_buffer *border(spsh__model *m, uint32_t block, uint32_t *ret_width)
{
    *ret_width = block == 0 ? m->rnn[0].shape.inputs : m->shape.hidden;
    return block == 0 ? &m->rows : &m->rnn[block - 1].out;
}

const spsh__model_ops spsh__model_ds2 = {.out_frames_fn = out_frames,
                                         .declare_fn = declare,
                                         .activations_fn = take_activations,
                                         .arrange_fn = arrange,
                                         .forward_fn = forward,
                                         .backward_fn = backward,
                                         .border_fn = border};

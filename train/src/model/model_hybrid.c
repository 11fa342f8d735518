/* model_hybrid.c: the acoustic model of hybrid recognizers, as IBM trained it on Switchboard.
 *
 *     rows [T][N][D] -> 6 bidirectional layers of 512, concatenated -> product to 256 -> product to
 *     the HMM's 32,000 states
 *
 * Training uses chunks of 21 frames, a state per frame, and cross-entropy. There is no norm, and
 * one bias per gate, which matches the published 43.13 million parameters.
 */
#include <math.h>

#include "model_internal.h"

static uint32_t out_frames(uint32_t frames)
{
    return frames;
}

/* Declare a product: its weights, then its bias. */
static uint32_t declare_linear(spsh__model *m, const char *name, uint32_t outputs, uint32_t inputs)
{
    const uint32_t of_weight[4] = {outputs, inputs}, of_bias[4] = {outputs};
    spsh__slice_start start = {1 / sqrt((double)inputs), 0};
    uint32_t slice = spsh__model_slice(m, of_weight, true, start, "%s.weight", name);
    (void)spsh__model_slice(m, of_bias, false, start, "%s.bias", name);
    return slice;
}

static void declare(spsh__model *m)
{
    const spsh__model_shape *s = &m->shape;
    uint32_t width = s->inputs;
    for (uint32_t i = 0; i < s->layers; i++) {
        spsh__rnn_layer *layer = &m->rnn[i];
        layer->shape.cell = s->cell;
        layer->shape.inputs = width;
        layer->shape.hidden = s->hidden;
        layer->directions = s->is_bidirectional ? 2 : 1;
        layer->is_concatenated = s->is_bidirectional;
        width = spsh__rnn_width(layer);
    }

    if (spsh__model_has(m, s->layers + 1)) {
        m->output = declare_linear(m, "output", s->outputs, s->bottleneck);
        spsh__model_unit_end(m);
    }
    if (spsh__model_has(m, s->layers)) {
        m->bottleneck_slice = declare_linear(m, "bottleneck", s->bottleneck, width);
        spsh__model_unit_end(m);
    }
    for (uint32_t i = s->layers; i-- > 0;) {
        for (uint32_t d = m->rnn[i].directions; d-- > 0 && spsh__model_has(m, i);) {
            spsh__rnn_declare(m, i, d);
            spsh__model_unit_end(m);
        }
    }
}

static void take_activations(spsh__model *m)
{
    const uint64_t elements = m->out_rows_max * m->shape.bottleneck;
    if (spsh__model_has(m, m->shape.layers))
        m->bottleneck_out = spsh__model_take_values(m, elements);
    spsh__model_take_scratch(m, elements);
}

/* [N][T][D] to [T][N][D]. */
static void arrange(const spsh__model *m, const float *features, const uint32_t *lengths)
{
    size_t width = m->shape.inputs, row_bytes = width * sizeof(float);
    for (size_t n = 0; n < m->batch; n++) {
        for (size_t t = 0; t < m->frames; t++) {
            float *to = m->staging + (t * m->batch + n) * width;
            if (t < lengths[n])
                memcpy(to, features + (n * m->frames + t) * width, row_bytes);
            else
                memset(to, 0, row_bytes);
        }
    }
}

static void linear_forward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                           spsh__backend_buffer y)
{
    spsh__linear_forward(m, slice, x, y);
    m->b->bias_forward_fn(m->backend, spsh__model_out_rows(m), m->slices[slice].shape[0],
                          spsh__model_weight(m, slice + 1), y);
}

static void linear_backward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                            spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    spsh__linear_backward(m, slice, x, dy, dx);
    m->b->bias_backward_fn(m->backend, spsh__model_out_rows(m), m->slices[slice].shape[0], dy,
                           spsh__model_gradient(m, slice + 1));
    spsh__model_unit_done(m);
}

static void forward(spsh__model *m, bool is_training)
{
    (void)is_training; /* forward is the same in training */
    spsh__backend_buffer x = m->input;
    const uint32_t layers = m->shape.layers;
    for (uint32_t i = 0; i < layers; i++) {
        if (spsh__model_has(m, i))
            spsh__rnn_forward(m, &m->rnn[i], x);
        x = m->rnn[i].out;
    }
    if (spsh__model_has(m, layers))
        linear_forward(m, m->bottleneck_slice, x, m->bottleneck_out);
    if (spsh__model_has(m, layers + 1))
        linear_forward(m, m->output, m->bottleneck_out, m->logits);
}

static void backward(spsh__model *m, spsh__backend_buffer logit_gradients)
{
    const uint32_t layers = m->shape.layers;
    spsh__backend_buffer dy = m->gradient[0], dx = m->gradient[1];
    if (spsh__model_has(m, layers + 1)) {
        linear_backward(m, m->output, m->bottleneck_out, logit_gradients, dx);
        spsh__model_swap(&dy, &dx);
    }
    if (spsh__model_has(m, layers)) {
        linear_backward(m, m->bottleneck_slice, m->rnn[layers - 1].out, dy, dx);
        spsh__model_swap(&dy, &dx);
    }
    for (uint32_t i = layers; i-- > 0;) {
        if (!spsh__model_has(m, i))
            continue;
        if (i == 0)
            dx.data = NULL; /* gradients of features are not needed */
        spsh__rnn_backward(m, &m->rnn[i], dy, dx);
        spsh__model_unit_done(m);
        spsh__model_swap(&dy, &dx);
    }
    m->in_gradients = dy;
}

static spsh__backend_buffer *border(spsh__model *m, uint32_t block, uint32_t *ret_width)
{
    const bool is_recurrent = block < m->shape.layers;
    *ret_width = is_recurrent ? spsh__rnn_width(&m->rnn[block]) : m->shape.bottleneck;
    return is_recurrent ? &m->rnn[block].out : &m->bottleneck_out;
}

const spsh__model_ops spsh__model_hybrid = {.out_frames_fn = out_frames,
                                            .declare_fn = declare,
                                            .activations_fn = take_activations,
                                            .arrange_fn = arrange,
                                            .forward_fn = forward,
                                            .backward_fn = backward,
                                            .border_fn = border};

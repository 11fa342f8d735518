/* model_layers.c: the layers that models share: recurrent layers, norms, products.
 *
 * A bidirectional layer is two passes in one direction. The second pass runs on utterances that are
 * each reversed within their own length. Padding follows the real frames in both, so it cannot
 * affect them, and its gradients are zero. The numbers equal those of packed sequences, without
 * sorting. Backward recomputes reversed inputs instead of keeping them.
 */
#include <math.h>

#include "backend/layer_products.h"
#include "model_internal.h"

uint32_t spsh__rnn_width(const spsh__rnn_layer *layer)
{
    return layer->is_concatenated ? layer->directions * layer->shape.hidden : layer->shape.hidden;
}

static spsh__rnn_weights rnn_weights(const spsh__model *m, const spsh__rnn_layer *layer,
                                     uint32_t direction, bool are_gradients)
{
    spsh__backend_buffer views[4] = {
        {NULL, false},
        {NULL, false},
        {NULL, false},
        {NULL, false}
    };
    uint32_t count = layer->has_two_biases ? 4 : 3;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slice = layer->slices[direction] + i;
        if (are_gradients)
            views[i] = spsh__model_gradient(m, slice);
        else /* the first two are matrices */
            views[i] = i < 2 ? spsh__model_factor(m, slice) : spsh__model_weight(m, slice);
    }
    return (spsh__rnn_weights){views[0], views[1], views[2], views[3]};
}

static void set_extent(const spsh__model *m, spsh__rnn_layer *layer)
{
    layer->shape.frames = m->out_frames;
    layer->shape.batch = m->batch;
}

static void reverse(spsh__model *m, uint32_t width, spsh__backend_buffer from,
                    spsh__backend_buffer to)
{
    spsh__rows rows = {m->out_frames, m->batch, width};
    m->b->reverse_fn(m->backend, &rows, m->lengths, from, to);
}

static void mask(spsh__model *m, uint32_t width, spsh__backend_buffer x)
{
    spsh__rows rows = {m->out_frames, m->batch, width};
    m->b->mask_rows_fn(m->backend, &rows, m->lengths, x);
}

/* Copy the columns of one direction of the output to or from a separate matrix. */
static void split(spsh__model *m, const spsh__rnn_layer *layer, uint32_t direction,
                  spsh__backend_buffer y, spsh__backend_buffer out, bool is_joining)
{
    uint32_t hidden = layer->shape.hidden;
    spsh__backend_buffer columns = spsh__at(m->b, out, (size_t)direction * hidden);
    spsh__columns c = {spsh__model_out_rows(m), hidden, columns, y, spsh__rnn_width(layer), hidden};
    if (is_joining) {
        c.from = y;
        c.from_stride = hidden;
        c.to = columns;
        c.to_stride = spsh__rnn_width(layer);
    }
    m->b->copy_columns_fn(m->backend, &c);
}

/* Combine the outputs of both directions, y[0] and y[1]. */
static void join_directions(spsh__model *m, const spsh__rnn_layer *layer)
{
    uint32_t hidden = layer->shape.hidden;
    if (layer->is_concatenated) {
        reverse(m, hidden, layer->y[1], m->reversed_dy);
        split(m, layer, 0, layer->y[0], layer->out, true);
        split(m, layer, 1, m->reversed_dy, layer->out, true);
    } else {
        reverse(m, hidden, layer->y[1], layer->out);
        m->b->axpy_fn(m->backend, 1, layer->y[0], layer->out, spsh__model_out_rows(m) * hidden);
    }
}

static void both_forward(spsh__model *m, const spsh__rnn_layer *layer)
{
    const spsh__rnn_weights weights[2] = {rnn_weights(m, layer, 0, false),
                                          rnn_weights(m, layer, 1, false)};
    const spsh__rnn_pass passes[2] = {
        {&weights[0], layer->x,      layer->y[0], layer->reserve[0]},
        {&weights[1], m->reversed_x, layer->y[1], layer->reserve[1]},
    };
    if (m->has_lanes) {
        m->b->rnn_both_forward_fn(m->backend, &layer->shape, passes);
        return;
    }
    for (int d = 0; d < 2; d++)
        m->b->rnn_forward_fn(m->backend, &layer->shape, &weights[d], passes[d].x, passes[d].y,
                             passes[d].reserve);
}

void spsh__rnn_forward(spsh__model *m, spsh__rnn_layer *layer, spsh__backend_buffer x)
{
    layer->x = x;
    set_extent(m, layer);
    if (layer->directions == 2) {
        reverse(m, layer->shape.inputs, x, m->reversed_x);
        both_forward(m, layer);
        join_directions(m, layer);
    } else {
        const spsh__rnn_weights weights = rnn_weights(m, layer, 0, false);
        m->b->rnn_forward_fn(m->backend, &layer->shape, &weights, x, layer->y[0],
                             layer->reserve[0]);
    }
    mask(m, spsh__rnn_width(layer), layer->out);
}

/* The weights of a direction, and their gradients. */
typedef struct direction_weights {
    spsh__rnn_weights weights, gradients;
} direction_weights;

static void set_direction(const spsh__model *m, const spsh__rnn_layer *layer, uint32_t direction,
                          direction_weights *of, spsh__rnn_grad *g)
{
    of->weights = rnn_weights(m, layer, direction, false);
    of->gradients = rnn_weights(m, layer, direction, true);
    g->weights = &of->weights;
    g->gradients = &of->gradients;
    g->y = layer->y[direction];
    g->reserve = layer->reserve[direction];
}

/* Make the output gradients of direction 1. Call before direction 0, which overwrites dy. */
static void reverse_gradients(spsh__model *m, const spsh__rnn_layer *layer, spsh__backend_buffer dy)
{
    spsh__backend_buffer own = dy;
    if (layer->is_concatenated) { /* reversed_dx is not needed yet */
        split(m, layer, 1, m->reversed_dx, dy, false);
        own = m->reversed_dx;
    }
    reverse(m, layer->shape.hidden, own, m->reversed_dy);
    reverse(m, layer->shape.inputs, layer->x, m->reversed_x);
}

/* Run both directions one after the other, or at once. One after the other, direction 1 comes
 * first, and its bucket is then complete. */
static void both_backward(spsh__model *m, const spsh__rnn_layer *layer, spsh__backend_buffer dy,
                          spsh__backend_buffer dx)
{
    const spsh__backend_buffer of_forward = m->has_lanes ? m->forward_dy : m->reversed_dy;
    direction_weights of[2];
    spsh__rnn_grad g[2] = {
        {.x = layer->x,      .dy = dy,             .dx = dx},
        {.x = m->reversed_x, .dy = m->reversed_dy, .dx = dx},
    };
    if (dx.data != NULL)
        g[1].dx = m->reversed_dx;
    for (uint32_t d = 0; d < 2; d++)
        set_direction(m, layer, d, &of[d], &g[d]);
    reverse_gradients(m, layer, dy);
    if (!m->has_lanes) {
        m->b->rnn_backward_fn(m->backend, &layer->shape, &g[1]);
        spsh__model_unit_done(m);
    }
    if (layer->is_concatenated) {
        split(m, layer, 0, of_forward, dy, false);
        g[0].dy = of_forward;
    }
    if (m->has_lanes) {
        m->b->rnn_both_backward_fn(m->backend, &layer->shape, g);
        spsh__model_unit_done(m);
    } else {
        m->b->rnn_backward_fn(m->backend, &layer->shape, &g[0]);
    }
}

void spsh__rnn_backward(spsh__model *m, spsh__rnn_layer *layer, spsh__backend_buffer dy,
                        spsh__backend_buffer dx)
{
    const uint32_t inputs = layer->shape.inputs;
    set_extent(m, layer);
    mask(m, spsh__rnn_width(layer), dy);
    if (layer->directions == 2) {
        both_backward(m, layer, dy, dx);
    } else {
        direction_weights of;
        spsh__rnn_grad g = {.x = layer->x, .dy = dy, .dx = dx};
        set_direction(m, layer, 0, &of, &g);
        m->b->rnn_backward_fn(m->backend, &layer->shape, &g);
    }
    if (layer->directions == 2 && dx.data != NULL) {
        reverse(m, inputs, m->reversed_dx, m->reversed_x);
        m->b->axpy_fn(m->backend, 1, m->reversed_x, dx, spsh__model_out_rows(m) * inputs);
    }
}

static spsh__norm_shape norm_shape(const spsh__model *m, const spsh__norm_layer *layer)
{
    bool is_conv = layer->bins > 0;
    return (spsh__norm_shape){.is_conv = is_conv,
                              .batch = m->batch,
                              .channels = layer->channels,
                              .bins = is_conv ? layer->bins : 1,
                              .frames = m->out_frames,
                              .counts_padding = m->shape.counts_padding,
                              .clip = layer->clip};
}

static bool adds_conv_bias(const spsh__model *m, const spsh__norm_layer *layer)
{
    return layer->bins > 0 && m->b->norm_adds_bias;
}

static spsh__norm_state norm_state(const spsh__model *m, const spsh__norm_layer *layer)
{
    spsh__norm_state state = {.weight = spsh__model_weight(m, layer->slice),
                              .bias = spsh__model_weight(m, layer->slice + 1),
                              .running_mean = spsh__at(m->b, m->statistics, layer->running_mean),
                              .running_variance =
                                  spsh__at(m->b, m->statistics, layer->running_variance),
                              .batch_mean = layer->batch_mean,
                              .batch_scale = layer->batch_scale};
    if (adds_conv_bias(m, layer))
        state.conv_bias = spsh__model_weight(m, layer->conv_bias);
    return state;
}

void spsh__norm_forward(spsh__model *m, const spsh__norm_layer *layer, bool is_training,
                        spsh__backend_buffer x, spsh__backend_buffer y)
{
    spsh__norm_shape shape = norm_shape(m, layer);
    spsh__norm_state state = norm_state(m, layer);
    spsh__norm_io io = {x, y};
    if (is_training && m->diverted.data != NULL) {
        state.running_mean = spsh__at(m->b, m->diverted, layer->running_mean);
        state.running_variance = spsh__at(m->b, m->diverted, layer->running_variance);
    }
    m->b->norm_forward_fn(m->backend, &shape, m->lengths, is_training, &state, &io);
}

void spsh__norm_backward(spsh__model *m, const spsh__norm_layer *layer, spsh__backend_buffer x,
                         spsh__backend_buffer y, spsh__backend_buffer dy)
{
    spsh__norm_shape shape = norm_shape(m, layer);
    spsh__norm_state state = norm_state(m, layer);
    spsh__norm_grad g = {.x = x,
                         .dy = dy,
                         .dx = dy,
                         .dweight = spsh__model_gradient(m, layer->slice),
                         .dbias = spsh__model_gradient(m, layer->slice + 1),
                         .y = y};
    if (adds_conv_bias(m, layer))
        g.dconv_bias = spsh__model_gradient(m, layer->conv_bias);
    m->b->norm_backward_fn(m->backend, &shape, m->lengths, &state, &g);
}

static spsh__dense dense_of(const spsh__model *m, uint32_t slice)
{
    const uint32_t *shape = m->slices[slice].shape;
    return (spsh__dense){(uint32_t)spsh__model_out_rows(m), shape[0], shape[1]};
}

void spsh__linear_forward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                          spsh__backend_buffer y)
{
    const spsh__dense d = dense_of(m, slice);
    spsh__dense_forward(m->backend, &d, x, spsh__model_factor(m, slice), y);
}

void spsh__linear_backward(spsh__model *m, uint32_t slice, spsh__backend_buffer x,
                           spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    const spsh__dense d = dense_of(m, slice);
    const spsh__gemm of_weight = spsh__dense_gradient(&d, dy, x, spsh__model_gradient(m, slice));
    m->b->gemm_fn(m->backend, &of_weight);
    spsh__dense_backward(m->backend, &d, dy, spsh__model_factor(m, slice), dx);
}

void spsh__rnn_declare(spsh__model *m, uint32_t number, uint32_t direction)
{
    static const char *const names[2] = {"forward", "backward"};
    spsh__rnn_layer *layer = &m->rnn[number];
    uint32_t gates = spsh__rnn_gates(&layer->shape) * layer->shape.hidden;
    spsh__slice_start start = {1 / sqrt((double)layer->shape.hidden), 0};
    const uint32_t of_input[4] = {gates, layer->shape.inputs},
                   of_hidden[4] = {gates, layer->shape.hidden};
    const uint32_t of_bias[4] = {gates};
    const char *name = names[direction];

    number++;
    layer->slices[direction] =
        spsh__model_slice(m, of_input, true, start, "rnn%u.%s.w_ih", number, name);
    (void)spsh__model_slice(m, of_hidden, true, start, "rnn%u.%s.w_hh", number, name);
    (void)spsh__model_slice(m, of_bias, false, start, "rnn%u.%s.b_ih", number, name);
    if (layer->has_two_biases)
        (void)spsh__model_slice(m, of_bias, false, start, "rnn%u.%s.b_hh", number, name);
}

/* Return the largest reserve of all batches that the limits allow. */
static size_t reserve_elements(const spsh__model *m, const spsh__rnn_layer *layer)
{
    size_t most = 0;
    for (uint32_t frames = 1; frames <= m->limits.frames_max; frames++) {
        spsh__rnn_shape shape = layer->shape;
        shape.frames = spsh__model_out_frames(m, frames);
        shape.batch = spsh__model_batch_max(m, frames);
        if (shape.batch == 0)
            break;
        size_t elements = m->b->rnn_reserve_fn(&shape);
        most = elements > most ? elements : most;
    }
    return most;
}

/* In a forward-only model all layers share memory: the input of a layer is no longer needed when
 * the layer writes the sum of its directions. With one direction a layer writes while it reads, so
 * layers alternate between two buffers. */
static bool is_lent(const spsh__model *m, const spsh__rnn_layer *layer, const spsh__rnn_layer **ret)
{
    const ptrdiff_t number = layer - m->rnn;
    const ptrdiff_t turns = layer->directions == 2 ? 1 : 2;
    if (!m->is_forward_only || number < turns)
        return false;
    *ret = layer - turns;
    return true;
}

static void take_reserve(spsh__model *m, spsh__rnn_layer *layer, uint32_t direction)
{
    const uint32_t shared = m->has_lanes ? direction : 0; /* one per concurrent direction */
    const bool is_first = layer == &m->rnn[0] && direction == shared;
    if (m->is_forward_only && !is_first) {
        layer->reserve[direction] = m->rnn[0].reserve[shared];
        return;
    }
    size_t most = reserve_elements(m, layer);
    for (uint32_t i = 1; m->is_forward_only && i < m->shape.layers; i++) {
        const size_t elements = reserve_elements(m, &m->rnn[i]);
        most = elements > most ? elements : most;
    }
    layer->reserve[direction] = spsh__model_take_values(m, most);
}

void spsh__rnn_take(spsh__model *m, spsh__rnn_layer *layer)
{
    const spsh__rnn_layer *lender = NULL;

    for (uint32_t d = 0; d < layer->directions; d++)
        take_reserve(m, layer, d);
    if (is_lent(m, layer, &lender)) {
        layer->y[0] = lender->y[0];
        layer->y[1] = lender->y[1];
        layer->out = lender->out;
        return;
    }
    for (uint32_t d = 0; d < layer->directions; d++)
        layer->y[d] = spsh__model_take_values(m, m->out_rows_max * layer->shape.hidden);
    layer->out = layer->y[0]; /* one direction: its padding is masked in place */
    if (layer->directions == 2)
        layer->out = spsh__model_take_values(m, m->out_rows_max * spsh__rnn_width(layer));
}

static void borrow_scratch(spsh__model *m)
{
    const spsh__model *from = m->lender;
    m->gradient[0] = from->gradient[0];
    m->gradient[1] = from->gradient[1];
    m->reversed_x = from->reversed_x;
    m->reversed_dy = from->reversed_dy;
    m->reversed_dx = from->reversed_dx;
    m->forward_dy = from->forward_dy;
}

void spsh__model_take_scratch(spsh__model *m, uint64_t elements)
{
    uint64_t inputs = 0, width = 0;
    const uint32_t first_rnn = m->shape.kind == SPSH__MODEL_DS2 ? 1 : 0; /* block of rnn1 */
    if (m->lender != NULL && !m->is_forward_only) {
        borrow_scratch(m);
        return;
    }
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        const spsh__rnn_layer *layer = &m->rnn[i];
        if (!spsh__model_has(m, i + first_rnn))
            continue;
        inputs = layer->shape.inputs > inputs ? layer->shape.inputs : inputs;
        width = spsh__rnn_width(layer) > width ? spsh__rnn_width(layer) : width;
    }
    uint64_t widest = inputs > width ? inputs : width;
    const uint64_t out_width = spsh__model_has_output(m) ? 0 : m->out_width;
    if (out_width > widest) /* a stage without recurrent layers may have wider borders */
        widest = out_width;
    if (m->in_width > widest)
        widest = m->in_width;
    elements = m->out_rows_max * widest > elements ? m->out_rows_max * widest : elements;
    for (int i = 0; i < 2 && !m->is_forward_only; i++)
        m->gradient[i] = spsh__model_take_values(m, elements);
    if (!m->shape.is_bidirectional)
        return;
    if (m->reversed_x.data == NULL)
        m->reversed_x = spsh__model_take_values(m, m->out_rows_max * inputs);
    if (!m->is_forward_only || m->rnn[0].is_concatenated)
        m->reversed_dy = spsh__model_take_values(m, m->out_rows_max * width);
    if (!m->is_forward_only)
        m->reversed_dx = spsh__model_take_values(m, m->out_rows_max * widest);
    if (!m->is_forward_only && m->has_lanes && m->rnn[0].is_concatenated)
        m->forward_dy = spsh__model_take_values(m, m->out_rows_max * m->shape.hidden);
}

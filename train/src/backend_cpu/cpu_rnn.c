/* cpu_rnn.c: LSTM and GRU. One product of matrices before the recurrence computes the input's part
 * of all steps. Products after it compute the gradients of weights and of the input. Each step of
 * the recurrence has only the product with the state.
 *
 * Utterances are independent there, so a piece is 8 utterances from the first step to the last.
 * Threads therefore never wait for each other at a step. The states are transposed,
 * [hidden][utterance], and the recurrent weights are packed once for all steps, in panels of the
 * columns of a tile (cpu_kernels.h). The product of a step is tile after tile, without copies.
 *
 * reserve = gates [T][N][gates * H], inner [T][N][H] (LSTM: c; GRU: the reset gate's factor)
 *
 * backward replaces the gates by the gradients of their inputs, in place.
 */
#include <string.h>

#include "backend/layer_products.h"
#include "cpu.h"

enum { PIECE_UTTERANCES = SPSH__TILE_ROWS_MAX };

size_t spsh__cpu_rnn_reserve(const spsh__rnn_shape *s)
{
    return spsh__rnn_rows(s) * s->hidden * (spsh__rnn_gates(s) + 1);
}

/* --- recurrent weights in panels --- */

typedef struct panels {
    const spsh__cpu_kernels *kernels;
    const float *weight; /* [columns][depth], or transposed if is_turned: [depth][columns] */
    bool is_turned;
    size_t depth, columns;
    float *to; /* panel p begins at p * depth * panel_columns; the last is narrower */
} panels;

static size_t panel_columns(const spsh__cpu_kernels *kernels)
{
    return (size_t)SPSH__TILE_VECTORS * kernels->lanes;
}

static size_t panel_width(const panels *p, size_t panel)
{
    const size_t left = p->columns - panel * panel_columns(p->kernels);
    return spsh__round_up(spsh__least(left, panel_columns(p->kernels)), p->kernels->lanes);
}

static size_t panel_count(const panels *p)
{
    return (p->columns + panel_columns(p->kernels) - 1) / panel_columns(p->kernels);
}

static size_t panels_floats(const spsh__cpu_kernels *kernels, size_t depth, size_t columns)
{
    return depth * spsh__round_up(columns, kernels->lanes);
}

static void panel_piece(void *work, size_t panel)
{
    const panels *p = (const panels *)work;
    const size_t width = panel_width(p, panel);
    const size_t first = panel * panel_columns(p->kernels);
    const size_t count = spsh__least(width, p->columns - first);
    float *to = p->to + first * p->depth;
    for (size_t k = 0; k < p->depth; k++, to += width) {
        for (size_t c = 0; c < count; c++)
            to[c] = p->is_turned ? p->weight[k * p->columns + first + c]
                                 : p->weight[(first + c) * p->depth + k];
        memset(to + count, 0, (width - count) * sizeof(*to));
    }
}

/* --- the recurrence of some utterances --- */

typedef struct recurrence {
    const spsh__rnn_shape *s;
    panels panels;
    float *bias; /* [4 * hidden] */
    float *gates, *inner;
    float *y;
    const float *dy;
    float *scratch; /* memory of all pieces */
    size_t floats_per_piece;
    size_t stride; /* stride of product */
} recurrence;

/* Memory of one piece. */
typedef struct piece_state {
    size_t first, count; /* range of utterances */
    float *turned;       /* [group of tile_rows][depth][tile_rows] */
    float *product;      /* [PIECE_UTTERANCES][stride] */
    float *carry;        /* [PIECE_UTTERANCES][hidden] */
    float *zeros;        /* [hidden] */
} piece_state;

static size_t piece_floats(const spsh__rnn_shape *s, size_t depth, size_t stride)
{
    return spsh__round_up(PIECE_UTTERANCES * (depth + stride + s->hidden) + s->hidden, 64);
}

static piece_state piece_open(const recurrence *w, size_t piece)
{
    piece_state p;
    p.first = piece * PIECE_UTTERANCES;
    p.count = spsh__least(PIECE_UTTERANCES, w->s->batch - p.first);
    p.turned = w->scratch + piece * w->floats_per_piece;
    p.product = p.turned + PIECE_UTTERANCES * w->panels.depth;
    p.carry = p.product + PIECE_UTTERANCES * w->stride;
    p.zeros = p.carry + PIECE_UTTERANCES * (size_t)w->s->hidden;
    memset(p.turned, 0, w->floats_per_piece * sizeof(float));
    return p;
}

static void multiply(const recurrence *w, const piece_state *p)
{
    const spsh__cpu_kernels *kernels = w->panels.kernels;
    for (size_t panel = 0; panel < panel_count(&w->panels); panel++) {
        const size_t width = panel_width(&w->panels, panel);
        const size_t first = panel * panel_columns(kernels);
        for (size_t row = 0; row < p->count; row += kernels->tile_rows) {
            const spsh__cpu_tile tile = {
                .rows = p->turned + row * w->panels.depth,
                .columns = w->panels.to + first * w->panels.depth,
                .step = width,
                .depth = w->panels.depth,
                .vectors = (uint32_t)(width / kernels->lanes),
                .out = p->product + row * w->stride + first,
                .out_stride = w->stride,
            };
            kernels->tile_fn(&tile);
        }
    }
}

/* Copy `count` values of utterance u, from index `at` along the depth, to the transposed states. */
static void turn(const recurrence *w, const piece_state *p, size_t u, size_t at, const float *from,
                 size_t count)
{
    const size_t rows = w->panels.kernels->tile_rows;
    float *to = p->turned + u / rows * rows * w->panels.depth + at * rows + u % rows;
    for (size_t k = 0; k < count; k++)
        to[k * rows] = from[k];
}

static void forward_piece(void *work, size_t piece)
{
    const recurrence *w = (const recurrence *)work;
    const spsh__rnn_shape *s = w->s;
    const piece_state p = piece_open(w, piece);
    const size_t hidden = s->hidden, gates = spsh__rnn_gates(s);
    const float *state = s->cell == SPSH__CELL_LSTM ? w->inner : w->y;
    for (size_t t = 0; t < s->frames; t++) {
        if (t > 0)
            multiply(w, &p);
        for (size_t u = 0; u < p.count; u++) {
            const size_t row = t * s->batch + p.first + u;
            const spsh__cpu_cell cell = {
                .hidden = s->hidden,
                .gates = w->gates + row * gates * hidden,
                .product = p.product + u * w->stride,
                .bias = w->bias,
                .before = t > 0 ? state + (row - s->batch) * hidden : p.zeros,
                .inner = w->inner + row * hidden,
                .h = w->y + row * hidden,
            };
            if (s->cell == SPSH__CELL_LSTM)
                w->panels.kernels->lstm_fn(&cell);
            else
                w->panels.kernels->gru_fn(&cell);
            turn(w, &p, u, 0, cell.h, hidden);
        }
    }
}

static void backward_piece(void *work, size_t piece)
{
    const recurrence *w = (const recurrence *)work;
    const spsh__rnn_shape *s = w->s;
    const piece_state p = piece_open(w, piece);
    const size_t hidden = s->hidden, gates = spsh__rnn_gates(s);
    const float *state = s->cell == SPSH__CELL_LSTM ? w->inner : w->y;
    for (size_t t = s->frames; t-- > 0;) {
        for (size_t u = 0; u < p.count; u++) {
            const size_t row = t * s->batch + p.first + u;
            const spsh__cpu_cell_grad cell = {
                .hidden = s->hidden,
                .gates = w->gates + row * gates * hidden,
                .before = t > 0 ? state + (row - s->batch) * hidden : p.zeros,
                .inner = w->inner + row * hidden,
                .dh = w->dy + row * hidden,
                .product = p.product + u * w->stride,
                .carry = p.carry + u * hidden,
            };
            if (s->cell == SPSH__CELL_LSTM) {
                w->panels.kernels->lstm_grad_fn(&cell);
                turn(w, &p, u, 0, cell.gates, 4 * hidden);
            } else {
                w->panels.kernels->gru_grad_fn(&cell);
                turn(w, &p, u, 0, cell.gates, 2 * hidden);
                turn(w, &p, u, 2 * hidden, cell.inner, hidden);
            }
        }
        if (t > 0)
            multiply(w, &p);
    }
}

/* Scratch: panels, biases, pieces. */
static bool recurrence_open(spsh__backend *b, recurrence *w, const spsh__rnn_shape *s, size_t depth,
                            size_t columns)
{
    const spsh__cpu_kernels *kernels = spsh__cpu_of(b)->kernels;
    const size_t pieces = (s->batch + PIECE_UTTERANCES - 1) / PIECE_UTTERANCES;
    const size_t panel_floats = spsh__round_up(panels_floats(kernels, depth, columns), 64);
    const size_t bias_floats = spsh__round_up(4 * (size_t)s->hidden, 64);
    w->s = s;
    w->panels.kernels = kernels;
    w->panels.depth = depth;
    w->panels.columns = columns;
    w->stride = spsh__round_up(columns, kernels->lanes);
    w->floats_per_piece = piece_floats(s, depth, w->stride);
    float *scratch =
        spsh__cpu_scratch(b, panel_floats + bias_floats + pieces * w->floats_per_piece);
    if (scratch == NULL)
        return false;
    w->panels.to = scratch;
    w->bias = scratch + panel_floats;
    w->scratch = scratch + panel_floats + bias_floats;
    return true;
}

static void recurrence_run(spsh__backend *b, recurrence *w, spsh__piece_fn fn)
{
    spsh__cpu_run(b, panel_piece, &w->panels, panel_count(&w->panels));
    spsh__cpu_run(b, fn, w, (w->s->batch + PIECE_UTTERANCES - 1) / PIECE_UTTERANCES);
}

/* LSTM: the sum of both biases. GRU: the sums for r and z, and both biases of n separately. */
static void join_biases(const spsh__rnn_shape *s, const spsh__rnn_weights *w, float *to)
{
    const size_t hidden = s->hidden;
    const size_t both = (s->cell == SPSH__CELL_LSTM ? 4 : 2) * hidden;
    const float *input = spsh__f32(w->input_bias), *recurrent = spsh__f32(w->recurrent_bias);
    for (size_t i = 0; i < both; i++)
        to[i] = input[i] + (recurrent == NULL ? 0 : recurrent[i]);
    for (size_t i = both; i < 4 * hidden; i++) {
        if (i < 3 * hidden)
            to[i] = input[i];
        else
            to[i] = recurrent == NULL ? 0 : recurrent[i - hidden];
    }
}

void spsh__cpu_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                           spsh__backend_buffer x, spsh__backend_buffer y,
                           spsh__backend_buffer reserve)
{
    if (spsh__rnn_is_empty(s))
        return;
    const uint32_t width = spsh__rnn_gates(s) * s->hidden;
    recurrence r = {.gates = spsh__f32(reserve), .y = spsh__f32(y)};
    if (!recurrence_open(b, &r, s, s->hidden, width))
        return;
    r.inner = r.gates + spsh__rnn_rows(s) * width;
    r.panels.weight = spsh__f32(w->recurrent);
    join_biases(s, w, r.bias);
    spsh__rnn_input_product(b, s, w, x, reserve);
    recurrence_run(b, &r, forward_piece);
}

static spsh__backend_buffer at(spsh__backend_buffer buffer, size_t i)
{
    return (spsh__backend_buffer){.data = spsh__f32(buffer) + i};
}

static void bias_gradients(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g,
                           spsh__backend_buffer inner)
{
    const uint32_t hidden = s->hidden, width = spsh__rnn_gates(s) * hidden;
    const spsh__backend_buffer sums = {.data = spsh__cpu_scratch(b, (size_t)width + hidden)};
    float *sum = spsh__f32(sums);
    if (sum == NULL)
        return;
    memset(sum, 0, ((size_t)width + hidden) * sizeof(*sum));
    spsh__cpu_bias_backward(b, spsh__rnn_rows(s), width, g->reserve, sums);
    const float *last = sum + 3 * (size_t)hidden; /* LSTM: sums of the gradients of o */
    if (s->cell == SPSH__CELL_GRU)
        spsh__cpu_bias_backward(b, spsh__rnn_rows(s), hidden, inner, at(sums, width));
    for (size_t i = 0; i < width; i++)
        spsh__f32(g->gradients->input_bias)[i] += sum[i];
    float *recurrent = spsh__f32(g->gradients->recurrent_bias);
    if (recurrent == NULL)
        return;
    const size_t same = s->cell == SPSH__CELL_GRU ? 2 * (size_t)hidden : width;
    for (size_t i = 0; i < same; i++)
        recurrent[i] += sum[i];
    for (size_t i = same; i < width; i++) /* the term of a GRU's n that r multiplies */
        recurrent[i] += last[i - same];
}

void spsh__cpu_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g)
{
    if (spsh__rnn_is_empty(s))
        return;
    const uint32_t width = spsh__rnn_gates(s) * s->hidden;
    recurrence r = {.gates = spsh__f32(g->reserve), .y = spsh__f32(g->y), .dy = spsh__f32(g->dy)};
    if (!recurrence_open(b, &r, s, width, s->hidden))
        return;
    r.inner = r.gates + spsh__rnn_rows(s) * width;
    r.panels.weight = spsh__f32(g->weights->recurrent);
    r.panels.is_turned = true;
    recurrence_run(b, &r, backward_piece);
    const spsh__backend_buffer inner = {.data = r.inner};
    spsh__rnn_gradient_products(b, s, g, g->reserve, inner);
    bias_gradients(b, s, g, inner);
}

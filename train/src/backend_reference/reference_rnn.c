/* reference_rnn.c: one direction of a recurrent layer, as in PyTorch and cuDNN. With x the row's
 * input, h and c the state (0 before the first frame):
 *
 *     LSTM  a = W x + b + R h + e;  i, f, o = sigmoid, g = tanh of their quarter of a
 *           c' = f c + i g;  h' = o tanh c'
 *     GRU   r, z = sigmoid of their third of W x + b + R h + e
 *           q = R h + e of the last third;  n = tanh(W x + b + r q);  h' = (1 - z) n + z h
 *
 * reserve: [T][N][gates H] the gates after their functions, [T][N][H] c' (LSTM) or q (GRU), and
 * [N][H] the gradient of c, passed back between frames. Backward replaces the gates of a row by
 * gradients with respect to their inputs W x + b. For the last third of a GRU, the gradient with
 * respect to R h + e replaces q.
 *
 * The gradient of h' has two parts: dy of the row, and the gradient from the next frame, which is
 * added to dy before its row is processed.
 */
#include <math.h>

#include "reference.h"

typedef struct layer {
    const spsh__rnn_shape *s;
    const spsh__rnn_weights *w;
    size_t width; /* gates * hidden */
    double *x, *y, *gates, *kept, *carry;
} layer;

/* A row of the layer: frame t of utterance n, and the state before it. */
typedef struct row {
    const double *x, *h_before, *kept_before; /* the last two NULL at the first frame */
    double *y, *gates, *kept, *carry;
} row;

static layer layer_of(const spsh__rnn_shape *s, const spsh__rnn_weights *w, spsh__backend_buffer x,
                      spsh__backend_buffer y, spsh__backend_buffer reserve)
{
    layer l = {s, w, 0, spsh__f64(x), spsh__f64(y), spsh__f64(reserve), NULL, NULL};
    l.width = (size_t)spsh__rnn_gates(s) * s->hidden;
    l.kept = l.gates + spsh__rnn_rows(s) * l.width;
    l.carry = l.kept + spsh__rnn_rows(s) * s->hidden;
    return l;
}

size_t spsh__reference_rnn_reserve(const spsh__rnn_shape *s)
{
    const size_t hidden = s->hidden;
    return (spsh__rnn_rows(s) * (spsh__rnn_gates(s) + 1) + s->batch) * hidden;
}

static row row_of(const layer *l, uint32_t t, uint32_t n)
{
    const size_t hidden = l->s->hidden;
    const size_t at = (size_t)t * l->s->batch + n;
    row r = {.x = l->x + at * l->s->inputs,
             .y = l->y + at * hidden,
             .gates = l->gates + at * l->width,
             .kept = l->kept + at * hidden,
             .carry = l->carry + n * hidden};
    if (t > 0) {
        r.h_before = r.y - l->s->batch * hidden;
        r.kept_before = r.kept - l->s->batch * hidden;
    }
    return r;
}

static double sigmoid(double a)
{
    return 1 / (1 + exp(-a));
}

/* One output of W x + b. */
static double from_input(const layer *l, const row *r, size_t gate)
{
    const double *weights = spsh__f64(l->w->input) + gate * l->s->inputs;
    double sum = spsh__f64(l->w->input_bias)[gate];
    for (size_t i = 0; i < l->s->inputs; i++)
        sum += weights[i] * r->x[i];
    return sum;
}

/* One output of R h + e. */
static double from_state(const layer *l, const row *r, size_t gate)
{
    const double *weights = spsh__f64(l->w->recurrent) + gate * l->s->hidden;
    const double *bias = spsh__f64(l->w->recurrent_bias);
    double sum = bias == NULL ? 0 : bias[gate];
    for (size_t i = 0; r->h_before != NULL && i < l->s->hidden; i++)
        sum += weights[i] * r->h_before[i];
    return sum;
}

static void lstm_forward(const layer *l, const row *r)
{
    const size_t hidden = l->s->hidden;
    for (size_t k = 0; k < l->width; k++) {
        const double a = from_input(l, r, k) + from_state(l, r, k);
        r->gates[k] = k / hidden == 2 ? tanh(a) : sigmoid(a);
    }
    for (size_t u = 0; u < hidden; u++) {
        const double i = r->gates[u], f = r->gates[hidden + u];
        const double g = r->gates[2 * hidden + u], o = r->gates[3 * hidden + u];
        const double before = r->kept_before == NULL ? 0 : r->kept_before[u];
        r->kept[u] = f * before + i * g;
        r->y[u] = o * tanh(r->kept[u]);
    }
}

static void gru_forward(const layer *l, const row *r)
{
    const size_t hidden = l->s->hidden;
    for (size_t k = 0; k < 2 * hidden; k++)
        r->gates[k] = sigmoid(from_input(l, r, k) + from_state(l, r, k));
    for (size_t u = 0; u < hidden; u++) {
        const size_t k = 2 * hidden + u;
        r->kept[u] = from_state(l, r, k);
        r->gates[k] = tanh(from_input(l, r, k) + r->gates[u] * r->kept[u]);
    }
    for (size_t u = 0; u < hidden; u++) {
        const double z = r->gates[hidden + u], n = r->gates[2 * hidden + u];
        const double before = r->h_before == NULL ? 0 : r->h_before[u];
        r->y[u] = (1 - z) * n + z * before;
    }
}

void spsh__reference_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s,
                                 const spsh__rnn_weights *w, spsh__backend_buffer x,
                                 spsh__backend_buffer y, spsh__backend_buffer reserve)
{
    (void)b;
    const layer l = layer_of(s, w, x, y, reserve);
    for (uint32_t t = 0; t < s->frames; t++) {
        for (uint32_t n = 0; n < s->batch; n++) {
            const row r = row_of(&l, t, n);
            if (s->cell == SPSH__CELL_LSTM)
                lstm_forward(&l, &r);
            else
                gru_forward(&l, &r);
        }
    }
}

/* Replace the gates by their gradients, and carry the gradient of c to the previous frame. */
static void lstm_gates_backward(const layer *l, const row *r, const double *dh)
{
    const size_t hidden = l->s->hidden;
    for (size_t u = 0; u < hidden; u++) {
        double *gate = r->gates + u;
        const double i = gate[0], f = gate[hidden], g = gate[2 * hidden], o = gate[3 * hidden];
        const double c = tanh(r->kept[u]);
        const double before = r->kept_before == NULL ? 0 : r->kept_before[u];
        const double dc = dh[u] * o * (1 - c * c) + r->carry[u];
        gate[0] = dc * g * i * (1 - i);
        gate[hidden] = dc * before * f * (1 - f);
        gate[2 * hidden] = dc * i * (1 - g * g);
        gate[3 * hidden] = dh[u] * c * o * (1 - o);
        r->carry[u] = dc * f;
    }
}

/* dh_before gets the gradient of the term z h, which bypasses the gates. */
static void gru_gates_backward(const layer *l, const row *r, const double *dh, double *dh_before)
{
    const size_t hidden = l->s->hidden;
    for (size_t u = 0; u < hidden; u++) {
        double *gate = r->gates + u;
        const double reset = gate[0], z = gate[hidden], n = gate[2 * hidden];
        const double before = r->h_before == NULL ? 0 : r->h_before[u];
        const double dn = dh[u] * (1 - z) * (1 - n * n);
        gate[0] = dn * r->kept[u] * reset * (1 - reset);
        gate[hidden] = dh[u] * (before - n) * z * (1 - z);
        gate[2 * hidden] = dn;
        r->kept[u] = dn * reset;
        if (dh_before != NULL)
            dh_before[u] += dh[u] * z;
    }
}

/* The gradient of R h + e at an output. */
static double state_gradient(const layer *l, const row *r, size_t gate)
{
    const size_t hidden = l->s->hidden;
    const bool is_last_third = l->s->cell == SPSH__CELL_GRU && gate >= 2 * hidden;
    return is_last_third ? r->kept[gate - 2 * hidden] : r->gates[gate];
}

static void state_backward(const layer *l, const row *r, const spsh__rnn_weights *sums,
                           double *dh_before)
{
    const size_t hidden = l->s->hidden;
    for (size_t k = 0; k < l->width; k++) {
        const double d = state_gradient(l, r, k);
        if (sums->recurrent_bias.data != NULL)
            spsh__f64(sums->recurrent_bias)[k] += d;
        for (size_t u = 0; r->h_before != NULL && u < hidden; u++) {
            spsh__f64(sums->recurrent)[k * hidden + u] += d * r->h_before[u];
            dh_before[u] += d * spsh__f64(l->w->recurrent)[k * hidden + u];
        }
    }
}

static void input_backward(const layer *l, const row *r, const spsh__rnn_weights *sums, double *dx)
{
    const size_t inputs = l->s->inputs;
    for (size_t i = 0; dx != NULL && i < inputs; i++)
        dx[i] = 0;
    for (size_t k = 0; k < l->width; k++) {
        const double d = r->gates[k];
        spsh__f64(sums->input_bias)[k] += d;
        for (size_t i = 0; i < inputs; i++) {
            spsh__f64(sums->input)[k * inputs + i] += d * r->x[i];
            if (dx != NULL)
                dx[i] += d * spsh__f64(l->w->input)[k * inputs + i];
        }
    }
}

void spsh__reference_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s,
                                  const spsh__rnn_grad *g)
{
    (void)b;
    const layer l = layer_of(s, g->weights, g->x, g->y, g->reserve);
    for (size_t i = 0; i < (size_t)s->batch * s->hidden; i++)
        l.carry[i] = 0;
    for (uint32_t t = s->frames; t-- > 0;) {
        for (uint32_t n = 0; n < s->batch; n++) {
            const row r = row_of(&l, t, n);
            const size_t at = (size_t)t * s->batch + n;
            double *dh = spsh__f64(g->dy) + at * s->hidden;
            double *dh_before = t == 0 ? NULL : dh - (size_t)s->batch * s->hidden;
            double *dx = g->dx.data == NULL ? NULL : spsh__f64(g->dx) + at * s->inputs;
            if (s->cell == SPSH__CELL_LSTM)
                lstm_gates_backward(&l, &r, dh);
            else
                gru_gates_backward(&l, &r, dh, dh_before);
            state_backward(&l, &r, g->gradients, dh_before);
            input_backward(&l, &r, g->gradients, dx);
        }
    }
}

/* backend_cuda_rnn_own.c: our two algorithms, persistent and stepwise.
 *
 * One product computes the input's part of the gates of all frames. The recurrence follows (one
 * cooperative kernel, or a product and a kernel per frame). In backward it leaves the gradients of
 * the gates. Products and sums over all frames then give the weight gradients, dx, and biases.
 *
 *     reserve = inner [T][N][H], to 256 bytes | rows [T][N][gates][H]
 *
 * rows: gates, then their gradients: elements of x's kind; inner: LSTM c, floats; GRU q, elements,
 * then its gradient.
 */
#include "backend_cuda_rnn_state.h"

#include <stdio.h>

/* ------------------------------------------------------------------------------------- a pass */

/* Arguments that the forward and backward passes of our algorithms share. */
typedef struct pass {
    const spsh__rnn_shape *s;
    const spsh__rnn_choice *c;
    const spsh__rnn_weights *w;
    spsh__backend_buffer y, rows, inner;
    spsh__backend_buffer dy; /* backward */
    size_t width;            /* gates * hidden */
    spsh__device_kind kind;
} pass;

static pass pass_of(const spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_weights *w,
                    spsh__backend_buffer reserve)
{
    const spsh__rnn_shape *s = &c->shape;
    pass p = {.s = s, .c = c, .w = w, .width = (size_t)spsh__rnn_gates(s) * s->hidden};
    const bool is_half = w->recurrent.is_half;
    p.inner = (spsh__backend_buffer){reserve.data, is_half};
    p.rows =
        (spsh__backend_buffer){(char *)reserve.data + spsh__rnn_inner_bytes(s, is_half), is_half};
    p.kind = spsh__cuda_array(b, p.rows).kind;
    return p;
}

static void start_job(const pass *p, spsh__rnn_work *w)
{
    const spsh__rnn_shape *s = p->s;
    const size_t count = spsh__rnn_rows(s) * s->hidden;
    memset(w, 0, sizeof(*w));
    w->l.kind = p->kind;
    w->l.blocks_y = 1;
    w->job.recurrence = (spsh__rnn_job){
        .gates = spsh__rnn_gates(s),
        .frames = s->frames,
        .batch = s->batch,
        .hidden = s->hidden,
        .recurrent = p->w->recurrent.data,
        .input_bias = p->w->input_bias.data,
        .recurrent_bias = p->w->recurrent_bias.data,
        .rows = p->rows.data,
        .inner = p->inner.data,
        .y = p->y.data,
        .dy = p->dy.data,
    };
    spsh__rnn_use(w, p->rows.data, spsh__cuda_bytes(p->rows, spsh__rnn_rows(s) * p->width), true);
    spsh__rnn_use(w, p->inner.data, spsh__rnn_inner_bytes(s, p->inner.is_half), true);
    spsh__rnn_use(w, p->y.data, spsh__cuda_bytes(p->y, count), p->dy.data == NULL);
    spsh__rnn_use(w, p->dy.data, spsh__cuda_bytes(p->dy, count), false);
    spsh__rnn_use(w, p->w->input_bias.data, p->width * sizeof(float), false);
    spsh__rnn_use(w, p->w->recurrent_bias.data, p->width * sizeof(float), false);
}

/* ------------------------------------------------------------------------------------ persistent
 */

/* Allocate the exchange, followed by the counter of blocks, both zero; and the values that cells
 * pass between frames. */
static bool take_exchange(spsh__backend *b, const pass *p, spsh__rnn_work *w)
{
    spsh__rnn_job *job = &w->job.recurrence;
    const size_t exchange_bytes = spsh__round_up(2 * (size_t)job->exchange_rows * job->depth *
                                                     spsh__rnn_element_bytes(p->rows.is_half),
                                                 256);
    const size_t carry_bytes = (size_t)p->s->batch * p->s->hidden * sizeof(float);
    char *memory = spsh__cuda_scratch(b, 2, exchange_bytes + SPSH__RNN_ALIGNMENT);
    if (memory == NULL)
        return false;
    spsh__rnn_zero(b, memory, exchange_bytes + SPSH__RNN_ALIGNMENT);
    job->exchange = memory;
    job->arrived = (uint32_t *)(void *)(memory + exchange_bytes);
    spsh__rnn_use(w, memory, exchange_bytes + SPSH__RNN_ALIGNMENT, true);
    if (p->dy.data == NULL)
        return true;
    job->carry = spsh__cuda_scratch(b, 3, carry_bytes);
    spsh__rnn_use(w, job->carry, carry_bytes, true);
    return job->carry != NULL;
}

static void persistent(spsh__backend *b, const pass *p)
{
    const uint32_t way = p->dy.data == NULL ? 0 : 1;
    spsh__rnn_work w;
    start_job(p, &w);
    spsh__rnn_job *job = &w.job.recurrence;
    job->units = p->c->units;
    job->depth = p->c->depth[way];
    job->stride = spsh__rnn_stride(job->depth, (uint32_t)spsh__rnn_element_bytes(p->rows.is_half));
    job->exchange_rows = spsh__rnn_round_up(p->s->batch, SPSH__RNN_ROWS);
    w.l.blocks_x = p->c->blocks;
    w.l.shared_bytes = p->c->shared_bytes[way];
    spsh__rnn_use(&w, p->w->recurrent.data,
                  spsh__cuda_bytes(p->w->recurrent, p->width * p->s->hidden), false);
    if (take_exchange(b, p, &w))
        spsh__rnn_put(b, &w, way == 0 ? SPSH__RNN_FORWARD : SPSH__RNN_BACKWARD, sizeof(*job));
}

/* Compute depth and shared memory per block for one pass (way 0: forward, 1: backward). */
static spsh_status fit_way(const spsh__rnn_state *self, spsh__rnn_choice *c, uint32_t way,
                           spsh__device_kind kind, spsh_error *err)
{
    const uint32_t bytes = kind == SPSH__DEVICE_F32 ? 4 : 2, gates = spsh__rnn_gates(&c->shape);
    const uint32_t columns = way == 0 ? gates * c->units : c->units;
    const uint32_t room = self->entry->limits_fn(self->device).shared_bytes;
    const spsh__rnn_kernel kernel = way == 0 ? SPSH__RNN_FORWARD : SPSH__RNN_BACKWARD;
    const uint64_t depth = way == 0 ? c->shape.hidden : (uint64_t)gates * c->shape.hidden;
    uint64_t shared_bytes = columns * depth * bytes; /* lower bound */
    if (shared_bytes <= room) {
        c->depth[way] = spsh__rnn_round_up(depth, SPSH__RNN_DEPTH);
        shared_bytes =
            spsh__rnn_shared_bytes(columns, spsh__rnn_stride(c->depth[way], bytes), bytes);
    }
    if (shared_bytes > room)
        return SPSH_FAIL(
            err, SPSH_E_UNSUPPORTED,
            "the weights of one block take %u KiB of shared memory, but a block has %u",
            (uint32_t)(shared_bytes / 1024), room / 1024);
    c->shared_bytes[way] = (uint32_t)shared_bytes;
    if (self->entry->resident_fn(self->device, kernel, kind, c->shared_bytes[way]) < c->blocks)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "%u blocks do not fit on the device at once",
                         c->blocks);
    return SPSH_OK;
}

/* A block computes the same units in the forward and the backward pass. */
spsh_status spsh__rnn_fit_persistent(const spsh__rnn_state *self, spsh__rnn_choice *c,
                                     spsh__device_kind kind, spsh_error *err)
{
    const spsh__rnn_shape *s = &c->shape;
    const uint32_t most = self->entry->limits_fn(self->device).blocks;
    if (most == 0)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "the device cannot launch cooperative grids");
    c->units = spsh__rnn_round_up(((uint64_t)s->hidden + most - 1) / most, 8);
    c->blocks = (s->hidden + c->units - 1) / c->units;
    if ((uint64_t)s->frames * c->blocks > UINT32_MAX) /* the barrier's counter has 32 bits */
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "the batch has too many frames");
    spsh_status rc = fit_way(self, c, 0, kind, err);
    if (rc == SPSH_OK)
        rc = fit_way(self, c, 1, kind, err);
    if (rc == SPSH_OK)
        (void)snprintf(
            c->text, sizeof(c->text), "persistent: %u blocks of %u units, %u KiB", c->blocks,
            c->units,
            (c->shared_bytes[0] > c->shared_bytes[1] ? c->shared_bytes[0] : c->shared_bytes[1]) /
                1024);
    return rc;
}

/* -------------------------------------------------------------------------------------- stepwise
 */

static spsh__backend_buffer at(const spsh__backend *b, spsh__backend_buffer buffer, size_t i)
{
    return spsh__at(b->ops, buffer, i);
}

static void step(spsh__backend *b, const pass *p, uint32_t frame, const float *product,
                 float *carry)
{
    const size_t count = (size_t)p->s->batch * p->s->hidden;
    const bool is_backward = p->dy.data != NULL;
    spsh__rnn_work w;
    start_job(p, &w);
    w.job.recurrence.frame = frame;
    w.job.recurrence.product = product;
    w.job.recurrence.carry = carry;
    w.l.blocks_x = spsh__cuda_blocks(b, count);
    spsh__rnn_use(&w, product, (is_backward ? count : p->s->batch * p->width) * sizeof(float),
                  false);
    spsh__rnn_use(&w, carry, count * sizeof(float), true);
    spsh__rnn_put(b, &w, is_backward ? SPSH__RNN_BACKWARD_STEP : SPSH__RNN_FORWARD_STEP,
                  sizeof(spsh__rnn_job));
}

static void stepwise_forward(spsh__backend *b, const pass *p)
{
    const spsh__dense state = {p->s->batch, (uint32_t)p->width, p->s->hidden};
    const size_t frame = (size_t)state.rows * state.inputs;
    float *product = spsh__cuda_scratch(b, 2, state.rows * p->width * sizeof(float));
    if (product == NULL)
        return;
    for (uint32_t t = 0; t < p->s->frames; t++) {
        if (t > 0)
            spsh__dense_forward(b, &state, at(b, p->y, (t - 1) * frame), p->w->recurrent,
                                (spsh__backend_buffer){product, false});
        step(b, p, t, t > 0 ? product : NULL, NULL);
    }
}

/* Compute the gradient of h of frame t - 1 from the gradient of R h of frame t. */
static void step_back(spsh__backend *b, const pass *p, uint32_t t, spsh__backend_buffer product)
{
    const uint32_t hidden = p->s->hidden;
    const size_t first = (size_t)t * p->s->batch;
    const bool is_gru = p->s->cell == SPSH__CELL_GRU;
    spsh__gemm g = {.m = p->s->batch,
                    .n = hidden,
                    .k = is_gru ? 2 * hidden : (uint32_t)p->width,
                    .a = at(b, p->rows, first * p->width),
                    .b = p->w->recurrent,
                    .c = product,
                    .a_stride = p->width,
                    .b_stride = hidden,
                    .c_stride = hidden};
    b->ops->gemm_fn(b, &g);
    if (!is_gru)
        return;
    g.k = hidden;
    g.a = at(b, p->inner, first * hidden);
    g.a_stride = hidden;
    g.b = at(b, p->w->recurrent, 2 * (size_t)hidden * hidden);
    g.keep = 1;
    b->ops->gemm_fn(b, &g);
}

static void stepwise_backward(spsh__backend *b, const pass *p)
{
    const size_t bytes = (size_t)p->s->batch * p->s->hidden * sizeof(float);
    float *product = spsh__cuda_scratch(b, 2, bytes);
    float *carry = spsh__cuda_scratch(b, 3, bytes);
    if (product == NULL || carry == NULL)
        return;
    for (uint32_t t = p->s->frames; t-- > 0;) {
        const bool is_last = t + 1 == p->s->frames;
        if (!is_last)
            step_back(b, p, t + 1, (spsh__backend_buffer){product, false});
        step(b, p, t, is_last ? NULL : product, carry);
    }
}

/* ------------------------------------------------------------------------------ shared by both */

void spsh__rnn_own_forward(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_weights *w,
                           spsh__backend_buffer x, spsh__backend_buffer y,
                           spsh__backend_buffer reserve)
{
    pass all = pass_of(b, c, w, reserve);
    const pass *p = &all;
    all.y = y;
    spsh__rnn_input_product(b, p->s, w, x, p->rows);
    if (p->c->algorithm == SPSH__RNN_PERSISTENT)
        persistent(b, p);
    else
        stepwise_forward(b, p);
}

/* Both biases have the gates' gradients, except for the last gate of a GRU: its recurrent bias has
 * the gradient of q.
 */
static void bias_gradients(spsh__backend *b, const pass *p, const spsh__rnn_weights *dw)
{
    const spsh__rnn_shape *s = p->s;
    const bool is_gru = s->cell == SPSH__CELL_GRU;
    spsh__cuda_sums sums = {.rows = spsh__rnn_rows(s),
                            .width = (uint32_t)p->width,
                            .also_width = is_gru ? 2 * s->hidden : (uint32_t)p->width,
                            .x = p->rows,
                            .to = dw->input_bias,
                            .also = dw->recurrent_bias};
    spsh__cuda_add_sums(b, &sums);
    if (!is_gru || dw->recurrent_bias.data == NULL)
        return;
    sums = (spsh__cuda_sums){.rows = spsh__rnn_rows(s),
                             .width = s->hidden,
                             .x = p->inner,
                             .to = spsh__at(b->ops, dw->recurrent_bias, 2 * (size_t)s->hidden)};
    spsh__cuda_add_sums(b, &sums);
}

void spsh__rnn_own_backward(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_grad *g)
{
    pass all = pass_of(b, c, g->weights, g->reserve);
    const pass *p = &all;
    all.y = g->y;
    all.dy = g->dy;
    if (p->c->algorithm == SPSH__RNN_PERSISTENT)
        persistent(b, p);
    else
        stepwise_backward(b, p);
    spsh__rnn_gradient_products(b, p->s, g, p->rows, p->inner);
    bias_gradients(b, p, g->gradients);
}

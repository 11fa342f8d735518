/* backend_cuda_rnn_own.c: our two algorithms, persistent and stepwise.
 *
 * One product computes the input's part of the gates of all frames. The recurrence follows (one
 * cooperative kernel for both directions, or a product and a kernel per frame and direction). In
 * backward it leaves the gradients of the gates. Products and sums over all frames then give the
 * weight gradients, dx, and biases.
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
    pass p = {.s = s, .w = w, .width = (size_t)spsh__rnn_gates(s) * s->hidden};
    const bool is_half = w->recurrent.is_half;
    p.inner = (spsh__backend_buffer){reserve.data, is_half};
    p.rows =
        (spsh__backend_buffer){(char *)reserve.data + spsh__rnn_inner_bytes(s, is_half), is_half};
    p.kind = spsh__cuda_array(b, p.rows).kind;
    return p;
}

/* Set the members that both algorithms use. */
static void set_job(const pass *p, spsh__rnn_work *w, spsh__rnn_job *job)
{
    const spsh__rnn_shape *s = p->s;
    const size_t count = spsh__rnn_rows(s) * s->hidden;
    job->gates = spsh__rnn_gates(s);
    job->frames = s->frames;
    job->batch = s->batch;
    job->hidden = s->hidden;
    job->recurrent = p->w->recurrent.data;
    job->input_bias = p->w->input_bias.data;
    job->recurrent_bias = p->w->recurrent_bias.data;
    job->rows = p->rows.data;
    job->inner = p->inner.data;
    job->y = p->y.data;
    job->dy = p->dy.data;
    spsh__rnn_use(w, p->rows.data, spsh__cuda_bytes(p->rows, spsh__rnn_rows(s) * p->width), true);
    spsh__rnn_use(w, p->inner.data, spsh__rnn_inner_bytes(s, p->inner.is_half), true);
    spsh__rnn_use(w, p->y.data, spsh__cuda_bytes(p->y, count), p->dy.data == NULL);
    spsh__rnn_use(w, p->dy.data, spsh__cuda_bytes(p->dy, count), false);
    spsh__rnn_use(w, p->w->input_bias.data, p->width * sizeof(float), false);
    spsh__rnn_use(w, p->w->recurrent_bias.data, p->width * sizeof(float), false);
}

/* ------------------------------------------------------------------------------------ persistent
 */

/* Allocate the memory that the blocks of a launch share: per pass, the exchange and the counters,
 * all zero, and in backward the parts of sums. */
static bool take_shared(spsh__backend *b, const spsh__rnn_choice *c, spsh__rnn_work *w)
{
    const spsh__rnn_job *sizes = &c->job;
    const bool is_backward = w->job.recurrence.dy != NULL;
    const size_t planes = 2 * (size_t)(is_backward ? sizes->gates : 1);
    const size_t exchange_bytes =
        spsh__round_up(planes * sizes->exchange_rows * sizes->depth *
                           spsh__rnn_element_bytes(w->l.kind != SPSH__DEVICE_F32),
                       SPSH__RNN_ALIGNMENT);
    const size_t counter_bytes =
        spsh__rnn_counters(sizes, c->blocks) * (size_t)SPSH__RNN_COUNTER * sizeof(uint32_t);
    const size_t pass_bytes = spsh__round_up(exchange_bytes + counter_bytes, SPSH__RNN_ALIGNMENT);
    const size_t part_count = (size_t)sizes->gates * sizes->batch * sizes->hidden;
    const size_t parts_bytes = is_backward ? c->at_once * part_count * sizeof(float) : 0;
    char *memory = spsh__cuda_scratch(b, 2, c->at_once * pass_bytes);
    float *parts = is_backward ? spsh__cuda_scratch(b, 3, parts_bytes) : NULL;
    if (memory == NULL || (is_backward && parts == NULL))
        return false;
    spsh__rnn_zero(b, memory, c->at_once * pass_bytes);
    spsh__rnn_use(w, memory, c->at_once * pass_bytes, true);
    spsh__rnn_use(w, parts, parts_bytes, true);
    for (uint32_t i = 0; i < c->at_once; i++) {
        spsh__rnn_job *job = &w->job.persistent.passes[i];
        job->exchange = memory + i * pass_bytes;
        job->arrived = (uint32_t *)(void *)(memory + i * pass_bytes + exchange_bytes);
        job->parts = is_backward ? parts + i * part_count : NULL;
    }
    return true;
}

/* Run at_once passes in one launch. */
static void persistent(spsh__backend *b, const spsh__rnn_choice *c, const pass *p)
{
    const bool is_backward = p->dy.data != NULL;
    spsh__rnn_work w;
    memset(&w, 0, sizeof(w));
    w.l.kind = p->kind;
    w.l.blocks_x = c->blocks;
    w.l.blocks_y = c->at_once;
    w.l.shared_bytes = c->job.layout.bytes;
    for (uint32_t i = 0; i < c->at_once; i++) {
        spsh__rnn_job *job = &w.job.persistent.passes[i];
        *job = c->job;
        set_job(&p[i], &w, job);
        spsh__rnn_use(&w, job->recurrent,
                      spsh__cuda_bytes(p[i].w->recurrent, p[i].width * c->shape.hidden), false);
    }
    if (take_shared(b, c, &w))
        spsh__rnn_put(b, &w, is_backward ? SPSH__RNN_BACKWARD : SPSH__RNN_FORWARD,
                      sizeof(w.job.persistent));
}

/* Both directions share the device if their blocks fit. Else each of them has all of it. */
static spsh_status fit_at_once(const spsh__rnn_state *self, spsh__rnn_choice *c,
                               spsh__device_kind kind, spsh_error *err)
{
    const spsh__rnn_limits limits = self->entry->limits_fn(self->device);
    const spsh__rnn_shape *s = &c->shape;
    c->job = (spsh__rnn_job){
        .gates = spsh__rnn_gates(s), .frames = s->frames, .batch = s->batch, .hidden = s->hidden};
    const uint32_t blocks = limits.blocks > c->spared ? limits.blocks - c->spared : 0;
    c->blocks = spsh__rnn_divide(&c->job, blocks / c->at_once);
    if (c->blocks == 0)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "it needs at least %u multiprocessors, and %u of %u are available",
                         c->job.gates * c->at_once, blocks, limits.blocks);
    if ((uint64_t)s->frames * c->blocks > UINT32_MAX) /* a counter has 32 bits */
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "the batch has too many frames");
    const uint64_t bytes = spsh__rnn_lay_out(&c->job, kind == SPSH__DEVICE_F32 ? 4 : 2);
    if (bytes > limits.shared_bytes)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "one block takes %llu KiB of shared memory, but it has %u",
                         (unsigned long long)(bytes / 1024), limits.shared_bytes / 1024);
    for (int kernel = SPSH__RNN_FORWARD; kernel <= SPSH__RNN_BACKWARD; kernel++)
        if (self->entry->resident_fn(self->device, (spsh__rnn_kernel)kernel, kind,
                                     c->job.layout.bytes) < c->blocks * c->at_once)
            return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "%u blocks do not fit on the device at once",
                             c->blocks * c->at_once);
    return SPSH_OK;
}

spsh_status spsh__rnn_fit_persistent(const spsh__rnn_state *self, spsh__rnn_choice *c,
                                     spsh__device_kind kind, spsh_error *err)
{
    if (self->entry->limits_fn(self->device).blocks == 0)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "the device cannot launch cooperative grids");
    spsh_status rc = SPSH_E_UNSUPPORTED;
    for (c->at_once = c->passes; rc == SPSH_E_UNSUPPORTED && c->at_once > 0; c->at_once--) {
        rc = fit_at_once(self, c, kind, err);
        if (rc == SPSH_OK)
            break;
    }
    if (rc == SPSH_OK)
        (void)snprintf(c->text, sizeof(c->text), "persistent: %s%u blocks of %u units, %u KiB%s",
                       c->at_once == 2 ? "2 x " : "", c->blocks, c->job.units,
                       c->job.layout.bytes / 1024,
                       c->at_once < c->passes ? ", one direction after the other" : "");
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
    memset(&w, 0, sizeof(w));
    w.l.kind = p->kind;
    w.l.blocks_y = 1;
    set_job(p, &w, &w.job.recurrence);
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

/* Launch a kernel for each group of passes that fits at once. */
static void persistent_passes(spsh__backend *b, const spsh__rnn_choice *c, const pass *all)
{
    for (uint32_t i = 0; i < c->passes; i += c->at_once)
        persistent(b, c, &all[i]);
}

void spsh__rnn_own_forward(spsh__backend *b, const spsh__rnn_choice *c, const spsh__rnn_pass *p)
{
    const bool is_persistent = c->algorithm == SPSH__RNN_PERSISTENT;
    pass all[SPSH__RNN_PASSES];
    for (uint32_t i = 0; i < c->passes; i++) {
        all[i] = pass_of(b, c, p[i].weights, p[i].reserve);
        all[i].y = p[i].y;
        spsh__rnn_begin_pass(b, c, i);
        spsh__rnn_input_product(b, &c->shape, p[i].weights, p[i].x, all[i].rows);
        if (!is_persistent)
            stepwise_forward(b, &all[i]);
    }
    spsh__rnn_join_passes(b, c);
    if (is_persistent)
        persistent_passes(b, c, all);
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
    const bool is_persistent = c->algorithm == SPSH__RNN_PERSISTENT;
    pass all[SPSH__RNN_PASSES];
    for (uint32_t i = 0; i < c->passes; i++) {
        all[i] = pass_of(b, c, g[i].weights, g[i].reserve);
        all[i].y = g[i].y;
        all[i].dy = g[i].dy;
    }
    if (is_persistent)
        persistent_passes(b, c, all);
    for (uint32_t i = 0; i < c->passes; i++) {
        spsh__rnn_begin_pass(b, c, i);
        if (!is_persistent)
            stepwise_backward(b, &all[i]);
        spsh__rnn_gradient_products(b, &c->shape, &g[i], all[i].rows, all[i].inner);
        bias_gradients(b, &all[i], g[i].gradients);
    }
    spsh__rnn_join_passes(b, c);
}

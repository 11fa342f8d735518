/* backend_cuda_rnn.c: recurrent layers of the backend `cuda`: which rung of the ladder
 * (backend_cuda_rnn.h) a shape is done by, and what each puts onto the stream.
 *
 * Ours. The input's part of all frames' gates is one product, then the recurrence (one cooperative
 * kernel, or a product and a kernel a frame), which leaves gates' gradients in backward; weight
 * gradients, dx and biases are products and sums over all frames behind it.
 *
 *     reserve = inner [T][N][H], to 256 bytes | rows [T][N][gates][H]
 *
 * rows: gates, then their gradients: elements of x's kind; inner: LSTM c, floats; GRU q, elements,
 * then its gradient. So of 16 bits an LSTM needs 4 + 2 elements a unit and row, which with floats
 * leaves one over: the function that says so knows no kind.
 *
 * cuDNN's. Weights are packed into its weight space before each call (16 MB of 1024 units are read
 * and written in some ten microseconds) and gradients added back to the arena's floats. Where it
 * wants more reserve than there is, a piece of our own goes with the reserve's address: one is
 * never given back before close, because what is kept in graphs refers to it; the first that is
 * large enough is taken, so that forward and backward of a shape agree. PERSIST_STATIC is asked by
 * a real call with zeros; where inputs are no multiple of 128 it is asked again with columns of
 * zeros.
 */
#include "backend_cuda_rnn.h"

#include <stddef.h>
#include <stdio.h>

#include "backend_cuda.h"
#include "cuda/device_rnn.h"

enum { USES = 10, PADDED_INPUTS = 128, BLOCK_ALIGNMENT = 256 };

/* Of a shape; made when it is first seen, until close. */
typedef struct choice {
    struct choice *next;
    spsh__rnn_shape shape;
    bool has_two_biases;
    spsh__rnn_rung asked, rung;
    /* persistent; [0] forward, [1] backward */
    uint32_t units, blocks, depth[2], shared_bytes[2];
    /* cuDNN */
    void *layer;
    spsh__cudnn_sizes sizes;
    uint32_t inputs; /* that the layer has: more than the shape's where they are padded */
    char text[96];
} choice;

typedef struct own_reserve {
    struct own_reserve *next;
    const void *key; /* the layer's reserve */
    void *memory;
    size_t size_bytes;
} own_reserve;

typedef struct rnn_state {
    const spsh__device_rnn_entry *entry;
    void *device; /* the entry's */
    spsh__rnn_rung rung;
    choice *choices;
    own_reserve *reserves;
} rnn_state;

const char *spsh__rnn_rung_name(spsh__rnn_rung rung)
{
    static const char *const names[SPSH__RNN_RUNGS] = {"auto", "persistent", "cudnn-persistent",
                                                       "cudnn", "stepwise"};
    return names[rung];
}

static rnn_state *rnn_of(const spsh__backend *b)
{
    return spsh__cuda_rnn_state(b);
}

static uint32_t gates_of(const spsh__rnn_shape *s)
{
    return s->cell == SPSH__CELL_LSTM ? 4 : 3;
}

static size_t rows_of(const spsh__rnn_shape *s)
{
    return (size_t)s->frames * s->batch;
}

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

static size_t element_bytes(bool is_half)
{
    return is_half ? sizeof(uint16_t) : sizeof(float);
}

static size_t inner_bytes(const spsh__rnn_shape *s, bool is_half)
{
    const size_t each = s->cell == SPSH__CELL_LSTM ? sizeof(float) : element_bytes(is_half);
    return round_up(rows_of(s) * s->hidden * each, BLOCK_ALIGNMENT);
}

size_t spsh__cuda_rnn_reserve(const spsh__rnn_shape *s)
{
    const size_t rows = rows_of(s) * s->hidden * gates_of(s);
    return inner_bytes(s, true) / sizeof(uint16_t) + rows;
}

/* ------------------------------------------------------------------------------- onto the stream
 */

typedef struct launch_work { /* only as much of job as the kernel's has goes with it */
    spsh__rnn_launch l;
    spsh__device_use uses[USES];
    union {
        spsh__rnn_job recurrence;
        spsh__rnn_bias_job bias;
        spsh__rnn_pack_job pack;
    } job;
} launch_work;

static spsh_status put_launch(spsh__backend *b, void *stream, const void *arguments,
                              spsh_error *err)
{
    const rnn_state *self = rnn_of(b);
    const launch_work *w = arguments;
    spsh__rnn_launch l = w->l;
    l.job = (const char *)arguments + offsetof(launch_work, job);
    l.uses = w->uses;
    return self->entry->launch_fn(self->device, stream, &l, err);
}

static void launch(spsh__backend *b, launch_work *w, spsh__rnn_kernel kernel, size_t job_bytes)
{
    w->l.kernel = kernel;
    w->l.job_bytes = job_bytes;
    spsh__cuda_put(b, put_launch, w, offsetof(launch_work, job) + job_bytes);
}

static void use(launch_work *w, const void *begin, size_t size_bytes, bool is_write)
{
    if (begin != NULL && size_bytes != 0)
        w->uses[w->l.use_count++] = (spsh__device_use){begin, size_bytes, is_write};
}

typedef struct zero_work {
    void *memory;
    size_t size_bytes;
} zero_work;

static spsh_status put_zero(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const zero_work *w = arguments;
    return spsh_cuda_fill(b->cuda, w->memory, 0, w->size_bytes, stream, err);
}

static void zero(spsh__backend *b, void *memory, size_t size_bytes)
{
    const zero_work w = {memory, size_bytes};
    spsh__cuda_put(b, put_zero, &w, sizeof(w));
}

/* ------------------------------------------------------------------------------------- a pass */

/* What forward and backward of our own rungs share. */
typedef struct pass {
    const spsh__rnn_shape *s;
    const choice *c;
    const spsh__rnn_weights *w;
    spsh__buffer y, rows, inner;
    spsh__buffer dy; /* backward */
    size_t width;    /* gates * hidden */
    spsh__device_kind kind;
} pass;

static pass pass_of(const spsh__backend *b, const spsh__rnn_shape *s, const choice *c,
                    const spsh__rnn_weights *w, spsh__buffer reserve)
{
    pass p = {.s = s, .c = c, .w = w, .width = (size_t)gates_of(s) * s->hidden};
    const bool is_half = w->recurrent.is_half;
    p.inner = (spsh__buffer){reserve.data, is_half};
    p.rows = (spsh__buffer){(char *)reserve.data + inner_bytes(s, is_half), is_half};
    p.kind = spsh__cuda_array(b, p.rows).kind;
    return p;
}

static void start_job(const pass *p, launch_work *w)
{
    const spsh__rnn_shape *s = p->s;
    const size_t count = rows_of(s) * s->hidden;
    memset(w, 0, sizeof(*w));
    w->l.kind = p->kind;
    w->l.blocks_y = 1;
    w->job.recurrence = (spsh__rnn_job){
        .gates = gates_of(s),
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
    use(w, p->rows.data, spsh__cuda_bytes(p->rows, rows_of(s) * p->width), true);
    use(w, p->inner.data, inner_bytes(s, p->inner.is_half), true);
    use(w, p->y.data, spsh__cuda_bytes(p->y, count), p->dy.data == NULL);
    use(w, p->dy.data, spsh__cuda_bytes(p->dy, count), false);
    use(w, p->w->input_bias.data, p->width * sizeof(float), false);
    use(w, p->w->recurrent_bias.data, p->width * sizeof(float), false);
}

/* ------------------------------------------------------------------------------------ persistent
 */

/* The exchange and, behind it, the counter of blocks, both zero; and what cells hand on. */
static bool take_exchange(spsh__backend *b, const pass *p, launch_work *w)
{
    spsh__rnn_job *job = &w->job.recurrence;
    const size_t exchange_bytes =
        round_up(2 * (size_t)job->exchange_rows * job->depth * element_bytes(p->rows.is_half), 256);
    const size_t carry_bytes = (size_t)p->s->batch * p->s->hidden * sizeof(float);
    char *memory = spsh__cuda_scratch(b, 2, exchange_bytes + BLOCK_ALIGNMENT);
    if (memory == NULL)
        return false;
    zero(b, memory, exchange_bytes + BLOCK_ALIGNMENT);
    job->exchange = memory;
    job->arrived = (uint32_t *)(void *)(memory + exchange_bytes);
    use(w, memory, exchange_bytes + BLOCK_ALIGNMENT, true);
    if (p->dy.data == NULL)
        return true;
    job->carry = spsh__cuda_scratch(b, 3, carry_bytes);
    use(w, job->carry, carry_bytes, true);
    return job->carry != NULL;
}

static void persistent(spsh__backend *b, const pass *p)
{
    const uint32_t way = p->dy.data == NULL ? 0 : 1;
    launch_work w;
    start_job(p, &w);
    spsh__rnn_job *job = &w.job.recurrence;
    job->units = p->c->units;
    job->depth = p->c->depth[way];
    job->stride = spsh__rnn_stride(job->depth, (uint32_t)element_bytes(p->rows.is_half));
    job->exchange_rows = spsh__rnn_round_up(p->s->batch, SPSH__RNN_ROWS);
    w.l.blocks_x = p->c->blocks;
    w.l.shared_bytes = p->c->shared_bytes[way];
    use(&w, p->w->recurrent.data, spsh__cuda_bytes(p->w->recurrent, p->width * p->s->hidden),
        false);
    if (take_exchange(b, p, &w))
        launch(b, &w, way == 0 ? SPSH__RNN_FORWARD : SPSH__RNN_BACKWARD, sizeof(*job));
}

/* Does it fit? A block has the same units in both ways. */
static bool fit_persistent(const rnn_state *self, choice *c, spsh__device_kind kind)
{
    const spsh__rnn_shape *s = &c->shape;
    const spsh__rnn_limits limits = self->entry->limits_fn(self->device);
    const uint32_t bytes = kind == SPSH__DEVICE_F32 ? 4 : 2, gates = gates_of(s);
    if (limits.blocks == 0)
        return false;
    c->units = spsh__rnn_round_up(((uint64_t)s->hidden + limits.blocks - 1) / limits.blocks, 8);
    c->blocks = (s->hidden + c->units - 1) / c->units;
    if ((uint64_t)s->frames * c->blocks > UINT32_MAX) /* the counter */
        return false;
    for (uint32_t way = 0; way < 2; way++) {
        const uint32_t columns = way == 0 ? gates * c->units : c->units;
        const uint64_t depth = way == 0 ? s->hidden : (uint64_t)gates * s->hidden;
        if (depth > limits.shared_bytes)
            return false;
        c->depth[way] = spsh__rnn_round_up(depth, SPSH__RNN_DEPTH);
        const uint64_t shared_bytes =
            spsh__rnn_shared_bytes(columns, spsh__rnn_stride(c->depth[way], bytes), bytes);
        if (shared_bytes > limits.shared_bytes)
            return false;
        c->shared_bytes[way] = (uint32_t)shared_bytes;
        if (self->entry->resident_fn(self->device,
                                     way == 0 ? SPSH__RNN_FORWARD : SPSH__RNN_BACKWARD, kind,
                                     c->shared_bytes[way]) < c->blocks)
            return false;
    }
    (void)snprintf(
        c->text, sizeof(c->text), "persistent: %u blocks of %u units, %u KiB", c->blocks, c->units,
        (c->shared_bytes[0] > c->shared_bytes[1] ? c->shared_bytes[0] : c->shared_bytes[1]) / 1024);
    return true;
}

/* -------------------------------------------------------------------------------------- stepwise
 */

static spsh__buffer at(const spsh__backend *b, spsh__buffer buffer, size_t i)
{
    return spsh__at(b->ops, buffer, i);
}

static void step(spsh__backend *b, const pass *p, uint32_t frame, float *product, float *carry)
{
    const size_t count = (size_t)p->s->batch * p->s->hidden;
    const bool is_backward = p->dy.data != NULL;
    launch_work w;
    start_job(p, &w);
    w.job.recurrence.frame = frame;
    w.job.recurrence.product = product;
    w.job.recurrence.carry = carry;
    w.l.blocks_x = spsh__cuda_blocks(b, count);
    use(&w, product, (is_backward ? count : p->s->batch * p->width) * sizeof(float), false);
    use(&w, carry, count * sizeof(float), true);
    launch(b, &w, is_backward ? SPSH__RNN_BACKWARD_STEP : SPSH__RNN_FORWARD_STEP,
           sizeof(spsh__rnn_job));
}

static void stepwise_forward(spsh__backend *b, const pass *p)
{
    const uint32_t hidden = p->s->hidden, batch = p->s->batch;
    float *product = spsh__cuda_scratch(b, 2, batch * p->width * sizeof(float));
    if (product == NULL)
        return;
    for (uint32_t t = 0; t < p->s->frames; t++) {
        spsh__gemm g = {
            .b_transposed = true,
            .m = batch,
            .n = (uint32_t)p->width,
            .k = hidden,
            .b = p->w->recurrent,
            .c = {product, false},
            .a_stride = hidden,
            .b_stride = hidden,
            .c_stride = p->width
        };
        if (t > 0) {
            g.a = at(b, p->y, (size_t)(t - 1) * batch * hidden);
            b->ops->gemm_fn(b, &g);
        }
        step(b, p, t, t > 0 ? product : NULL, NULL);
    }
}

/* The gradient of h of frame t - 1, from that of R h of frame t. */
static void step_back(spsh__backend *b, const pass *p, uint32_t t, float *product)
{
    const uint32_t hidden = p->s->hidden;
    const size_t first = (size_t)t * p->s->batch;
    const bool is_gru = p->s->cell == SPSH__CELL_GRU;
    spsh__gemm g = {
        .m = p->s->batch,
        .n = hidden,
        .k = is_gru ? 2 * hidden : (uint32_t)p->width,
        .a = at(b, p->rows, first * p->width),
        .b = p->w->recurrent,
        .c = {product, false},
        .a_stride = p->width,
        .b_stride = hidden,
        .c_stride = hidden
    };
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
            step_back(b, p, t + 1, product);
        step(b, p, t, is_last ? NULL : product, carry);
    }
}

/* ------------------------------------------------------------------------- what ours share, behind
 */

static void own_forward(spsh__backend *b, const pass *p, spsh__buffer x)
{
    const spsh__gemm input = {.b_transposed = true,
                              .m = (uint32_t)rows_of(p->s),
                              .n = (uint32_t)p->width,
                              .k = p->s->inputs,
                              .a = x,
                              .b = p->w->input,
                              .c = p->rows,
                              .a_stride = p->s->inputs,
                              .b_stride = p->s->inputs,
                              .c_stride = p->width};
    b->ops->gemm_fn(b, &input);
    if (p->c->rung == SPSH__RNN_PERSISTENT)
        persistent(b, p);
    else
        stepwise_forward(b, p);
}

/* dweight[gates][inputs] += sum over rows of dgates[row][gate] * in[row][input]. */
static void recurrent_gradients(spsh__backend *b, const pass *p, spsh__buffer dw)
{
    const uint32_t hidden = p->s->hidden, batch = p->s->batch;
    const bool is_gru = p->s->cell == SPSH__CELL_GRU;
    spsh__gemm g = {.a_transposed = true,
                    .m = is_gru ? 2 * hidden : (uint32_t)p->width,
                    .n = hidden,
                    .k = (uint32_t)rows_of(p->s) - batch, /* the first frame meets no state */
                    .a = at(b, p->rows, batch * p->width),
                    .b = p->y,
                    .c = dw,
                    .a_stride = p->width,
                    .b_stride = hidden,
                    .c_stride = hidden,
                    .keep = 1};
    if (g.k == 0)
        return;
    b->ops->gemm_fn(b, &g);
    if (!is_gru)
        return;
    g.m = hidden;
    g.a = at(b, p->inner, (size_t)batch * hidden);
    g.a_stride = hidden;
    g.c = at(b, dw, 2 * (size_t)hidden * hidden);
    b->ops->gemm_fn(b, &g);
}

static void bias_gradients(spsh__backend *b, const pass *p, const spsh__rnn_weights *dw)
{
    const spsh__rnn_shape *s = p->s;
    const size_t columns = s->cell == SPSH__CELL_GRU ? p->width + s->hidden : p->width;
    launch_work w;
    memset(&w, 0, sizeof(w));
    w.l.kind = p->kind;
    w.l.blocks_x = (uint32_t)((columns + SPSH__RNN_COLUMNS - 1) / SPSH__RNN_COLUMNS);
    w.l.blocks_y = 1;
    w.l.shared_bytes = SPSH__DEVICE_THREADS * sizeof(float);
    w.job.bias = (spsh__rnn_bias_job){gates_of(s),
                                      s->hidden,
                                      rows_of(s),
                                      p->rows.data,
                                      p->inner.data,
                                      dw->input_bias.data,
                                      dw->recurrent_bias.data};
    use(&w, p->rows.data, spsh__cuda_bytes(p->rows, rows_of(s) * p->width), false);
    use(&w, p->inner.data, inner_bytes(s, p->inner.is_half), false);
    use(&w, dw->input_bias.data, p->width * sizeof(float), true);
    use(&w, dw->recurrent_bias.data, p->width * sizeof(float), true);
    launch(b, &w, SPSH__RNN_BIAS, sizeof(w.job.bias));
}

static void own_backward(spsh__backend *b, const pass *p, const spsh__rnn_grad *g)
{
    const uint32_t inputs = p->s->inputs, rows = (uint32_t)rows_of(p->s);
    const uint32_t width = (uint32_t)p->width;
    const spsh__gemm dx = {.m = rows,
                           .n = inputs,
                           .k = width,
                           .a = p->rows,
                           .b = p->w->input,
                           .c = g->dx,
                           .a_stride = width,
                           .b_stride = inputs,
                           .c_stride = inputs};
    const spsh__gemm dw = {.a_transposed = true,
                           .m = width,
                           .n = inputs,
                           .k = rows,
                           .a = p->rows,
                           .b = g->x,
                           .c = g->gradients->input,
                           .a_stride = width,
                           .b_stride = inputs,
                           .c_stride = inputs,
                           .keep = 1};
    if (p->c->rung == SPSH__RNN_PERSISTENT)
        persistent(b, p);
    else
        stepwise_backward(b, p);
    if (g->dx.data != NULL)
        b->ops->gemm_fn(b, &dx);
    b->ops->gemm_fn(b, &dw);
    recurrent_gradients(b, p, g->gradients->recurrent);
    bias_gradients(b, p, g->gradients);
}

/* ----------------------------------------------------------------------------------------- cuDNN
 */

enum { CALL_FORWARD, CALL_BACKWARD_DATA, CALL_BACKWARD_WEIGHTS };

typedef struct layer_work {
    uint32_t what;
    void *layer;
    spsh__cudnn_call call;
} layer_work;

static spsh_status put_layer(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const spsh__device_rnn_entry *entry = rnn_of(b)->entry;
    const layer_work *w = arguments;
    if (w->what == CALL_FORWARD)
        return entry->forward_fn(w->layer, stream, &w->call, err);
    if (w->what == CALL_BACKWARD_DATA)
        return entry->backward_data_fn(w->layer, stream, &w->call, err);
    return entry->backward_weights_fn(w->layer, stream, &w->call, err);
}

static void call_layer(spsh__backend *b, const choice *c, uint32_t what,
                       const spsh__cudnn_call *call)
{
    const layer_work w = {what, c->layer, *call};
    spsh__cuda_put(b, put_layer, &w, sizeof(w));
}

/* One matrix or bias between our arena and the weight space. */
static void add_part(launch_work *w, spsh__device_array ours, spsh__device_array theirs,
                     const spsh__rnn_part *extent, bool is_back)
{
    spsh__rnn_part *part = &w->job.pack.parts[w->l.blocks_y++];
    *part = *extent;
    part->from = is_back ? theirs : ours;
    part->to = is_back ? ours : theirs;
    if (is_back) {
        part->from_stride = extent->to_stride;
        part->to_stride = extent->from_stride;
        part->adds = 1;
    }
}

/* is_back: gradients, added to ours. */
static void pack_weights(spsh__backend *b, const choice *c, const spsh__rnn_weights *ours,
                         void *theirs, bool is_back)
{
    const spsh__rnn_shape *s = &c->shape;
    const uint32_t gates = gates_of(s);
    const size_t hidden = s->hidden, wider = s->inputs > hidden ? s->inputs : hidden;
    const spsh__buffer space = {theirs, b->has_half};
    spsh__device_array to = spsh__cuda_array(b, space);
    launch_work w;
    memset(&w, 0, sizeof(w));
    for (uint32_t i = 0; i < 2 * gates; i++) {
        const bool is_input = i < gates;
        const size_t columns = is_input ? s->inputs : hidden, gate = i % gates;
        const spsh__buffer matrix = is_input ? ours->input : ours->recurrent;
        const spsh__buffer bias = is_input ? ours->input_bias : ours->recurrent_bias;
        const spsh__rnn_part matrix_extent = {.row_count = hidden,
                                              .columns = (uint32_t)columns,
                                              .from_stride = columns,
                                              .to_stride = is_input ? c->inputs : hidden};
        const spsh__rnn_part bias_extent = {.row_count = 1, .columns = s->hidden};
        to.data = (char *)theirs + c->sizes.parts[i].matrix;
        add_part(&w, spsh__cuda_array(b, at(b, matrix, gate * hidden * columns)), to,
                 &matrix_extent, is_back);
        if (bias.data == NULL)
            continue;
        to.data = (char *)theirs + c->sizes.parts[i].bias;
        add_part(&w, spsh__cuda_array(b, at(b, bias, gate * hidden)), to, &bias_extent, is_back);
    }
    use(&w, ours->input.data, spsh__cuda_bytes(ours->input, gates * hidden * s->inputs), is_back);
    use(&w, ours->recurrent.data, spsh__cuda_bytes(ours->recurrent, gates * hidden * hidden),
        is_back);
    use(&w, ours->input_bias.data, gates * hidden * sizeof(float), is_back);
    use(&w, ours->recurrent_bias.data, gates * hidden * sizeof(float), is_back);
    use(&w, theirs, c->sizes.weights, !is_back);
    w.l.blocks_x = spsh__cuda_blocks(b, hidden * wider);
    launch(b, &w, SPSH__RNN_PACK, sizeof(w.job.pack));
}

/* Rows of `columns`, some between strides. */
static void copy_rows(spsh__backend *b, const spsh__rnn_part *part)
{
    const spsh__buffer from = {part->from.data, part->from.kind != SPSH__DEVICE_F32};
    const spsh__buffer to = {part->to.data, part->to.kind != SPSH__DEVICE_F32};
    launch_work w;
    memset(&w, 0, sizeof(w));
    w.job.pack.parts[0] = *part;
    w.l.blocks_y = 1;
    w.l.blocks_x = spsh__cuda_blocks(b, part->row_count * part->columns);
    use(&w, from.data, spsh__cuda_bytes(from, part->row_count * part->from_stride), false);
    use(&w, to.data, spsh__cuda_bytes(to, part->row_count * part->to_stride), true);
    launch(b, &w, SPSH__RNN_PACK, sizeof(w.job.pack));
}

static size_t wide_rows_bytes(const choice *c, bool is_half)
{
    return round_up(rows_of(&c->shape) * c->inputs * element_bytes(is_half), BLOCK_ALIGNMENT);
}

/* x as the layer wants it. NULL: no memory, kept as the failure. */
static const void *wide_x(spsh__backend *b, const choice *c, spsh__buffer x)
{
    const spsh__rnn_shape *s = &c->shape;
    if (c->inputs == s->inputs)
        return x.data;
    void *wide = spsh__cuda_scratch(b, 2, wide_rows_bytes(c, x.is_half));
    if (wide == NULL)
        return NULL;
    const spsh__rnn_part part = {.from = spsh__cuda_array(b, x),
                                 .to = spsh__cuda_array(b, (spsh__buffer){wide, x.is_half}),
                                 .row_count = rows_of(s),
                                 .columns = s->inputs,
                                 .from_stride = s->inputs,
                                 .to_stride = c->inputs};
    zero(b, wide, wide_rows_bytes(c, x.is_half));
    copy_rows(b, &part);
    return wide;
}

/* NULL: no memory, kept as the failure. */
static void *reserve_of(spsh__backend *b, const choice *c, spsh__buffer reserve)
{
    rnn_state *self = rnn_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    own_reserve **end = &self->reserves;
    if (c->sizes.reserve <= spsh__cuda_bytes(reserve, spsh__cuda_rnn_reserve(&c->shape)))
        return reserve.data;
    for (; *end != NULL; end = &(*end)->next) {
        if ((*end)->key == reserve.data && (*end)->size_bytes >= c->sizes.reserve)
            return (*end)->memory;
    }
    own_reserve *own = spsh__train_new(&b->allocator, 1, sizeof(*own));
    spsh_status rc =
        own == NULL ? spsh__fail_memory(&err)
                    : spsh_cuda_alloc(b->cuda, b->device, c->sizes.reserve, &own->memory, &err);
    spsh__cuda_failed(b, rc, &err);
    if (rc != SPSH_OK) {
        spsh__train_delete(&b->allocator, own);
        return NULL;
    }
    own->key = reserve.data;
    own->size_bytes = c->sizes.reserve;
    *end = own; /* at the end: the first that is large enough stays the first */
    return own->memory;
}

/* Weights, work, reserve and x of a call. */
static bool start_call(spsh__backend *b, const choice *c, const spsh__rnn_weights *w,
                       spsh__buffer x, spsh__cudnn_call *call)
{
    void *weights = spsh__cuda_scratch(b, 0, c->sizes.weights);
    call->lane = spsh__cuda_lane(b);
    call->weights = weights;
    call->work = spsh__cuda_scratch(b, 1, c->sizes.work);
    call->x = wide_x(b, c, x);
    if (weights == NULL || call->work == NULL || call->x == NULL)
        return false;
    if (c->inputs != c->shape.inputs)
        zero(b, weights, c->sizes.weights);
    pack_weights(b, c, w, weights, false);
    return true;
}

static void cudnn_forward(spsh__backend *b, const choice *c, const spsh__rnn_weights *w,
                          spsh__buffer x, spsh__buffer y, spsh__buffer reserve)
{
    spsh__cudnn_call call = {.y = y.data, .reserve = reserve_of(b, c, reserve)};
    if (call.reserve != NULL && start_call(b, c, w, x, &call))
        call_layer(b, c, CALL_FORWARD, &call);
}

static void cudnn_backward(spsh__backend *b, const choice *c, const spsh__rnn_grad *g)
{
    const spsh__rnn_shape *s = &c->shape;
    const bool is_half = g->x.is_half, is_wide = c->inputs != s->inputs;
    const size_t gradient_bytes = round_up(c->sizes.weights, BLOCK_ALIGNMENT);
    spsh__cudnn_call call = {.dy = g->dy.data, .y = g->y.data};
    char *memory = spsh__cuda_scratch(b, 3, gradient_bytes + wide_rows_bytes(c, is_half));
    call.reserve = reserve_of(b, c, g->reserve);
    if (memory == NULL || call.reserve == NULL || !start_call(b, c, g->weights, g->x, &call))
        return;
    call.dweights = memory;
    call.dx = is_wide || g->dx.data == NULL ? memory + gradient_bytes : g->dx.data;
    zero(b, call.dweights, gradient_bytes);
    call_layer(b, c, CALL_BACKWARD_DATA, &call);
    call_layer(b, c, CALL_BACKWARD_WEIGHTS, &call);
    pack_weights(b, c, g->gradients, call.dweights, true);
    if (!is_wide || g->dx.data == NULL)
        return;
    const spsh__rnn_part part = {.from = spsh__cuda_array(b, (spsh__buffer){call.dx, is_half}),
                                 .to = spsh__cuda_array(b, g->dx),
                                 .row_count = rows_of(s),
                                 .columns = s->inputs,
                                 .from_stride = c->inputs,
                                 .to_stride = s->inputs};
    copy_rows(b, &part);
}

/* --------------------------------------------------------------------------------- what is chosen
 */

static void close_layer(const rnn_state *self, choice *c)
{
    if (c->layer != NULL)
        self->entry->layer_close_fn(c->layer);
    c->layer = NULL;
}

/* Its three calls, with memory of zeros of the shape's size. */
static spsh_status try_layer(spsh__backend *b, const choice *c, char *memory, void *stream,
                             const size_t *sizes)
{
    const spsh__device_rnn_entry *entry = rnn_of(b)->entry;
    char *at_part[8];
    for (uint32_t i = 0; i < 8; i++) {
        at_part[i] = memory;
        memory += sizes[i];
    }
    const spsh__cudnn_call call = {spsh__cuda_lane(b), at_part[0], at_part[1],
                                   at_part[2],         at_part[3], at_part[4],
                                   at_part[5],         at_part[6], at_part[7]};
    spsh_status rc = entry->forward_fn(c->layer, stream, &call, NULL);
    if (rc == SPSH_OK)
        rc = entry->backward_data_fn(c->layer, stream, &call, NULL);
    if (rc == SPSH_OK)
        rc = entry->backward_weights_fn(c->layer, stream, &call, NULL);
    return rc == SPSH_OK ? spsh_cuda_synchronize(b->cuda, stream, NULL) : rc;
}

static bool probe(spsh__backend *b, const choice *c)
{
    const size_t x = wide_rows_bytes(c, b->has_half);
    const size_t y = round_up(rows_of(&c->shape) * c->shape.hidden * element_bytes(b->has_half),
                              BLOCK_ALIGNMENT);
    const size_t weights = round_up(c->sizes.weights, BLOCK_ALIGNMENT);
    const size_t sizes[8] = {x,
                             weights,
                             y,
                             y,
                             x,
                             weights,
                             round_up(c->sizes.work, BLOCK_ALIGNMENT),
                             round_up(c->sizes.reserve, BLOCK_ALIGNMENT)};
    void *stream = spsh__cuda_stream(b), *memory = NULL;
    size_t all = BLOCK_ALIGNMENT;
    for (uint32_t i = 0; i < 8; i++)
        all += sizes[i];
    spsh_status rc = spsh_cuda_alloc(b->cuda, b->device, all, &memory, NULL);
    if (rc != SPSH_OK)
        return false;
    rc = spsh_cuda_fill(b->cuda, memory, 0, all, stream, NULL);
    if (rc == SPSH_OK)
        rc = try_layer(b, c, memory, stream, sizes);
    spsh_cuda_free(b->cuda, memory);
    return rc == SPSH_OK;
}

static bool open_layer(spsh__backend *b, choice *c, spsh__rnn_rung rung, uint32_t inputs)
{
    const rnn_state *self = rnn_of(b);
    spsh__cudnn_plan plan = {c->shape, c->has_two_biases, rung == SPSH__RNN_CUDNN_PERSISTENT,
                             spsh__cuda_array(b, (spsh__buffer){NULL, b->has_half}).kind};
    plan.shape.inputs = inputs;
    c->inputs = inputs;
    return self->entry->layer_open_fn(self->device, &plan, &c->layer, &c->sizes, NULL) == SPSH_OK;
}

/* Another length of the same layer, that was asked for in the same way. */
static const choice *find_alike(const rnn_state *self, const choice *c)
{
    for (const choice *one = self->choices; one != NULL; one = one->next) {
        if (one->shape.cell == c->shape.cell && one->shape.batch == c->shape.batch &&
            one->shape.inputs == c->shape.inputs && one->shape.hidden == c->shape.hidden &&
            one->has_two_biases == c->has_two_biases && one->asked == c->asked)
            return one;
    }
    return NULL;
}

static bool fit_cudnn_persistent(spsh__backend *b, choice *c)
{
    const rnn_state *self = rnn_of(b);
    const choice *alike = find_alike(self, c);
    const uint32_t wide = spsh__rnn_round_up(c->shape.inputs, PADDED_INPUTS);
    if (alike != NULL)
        return alike->rung == SPSH__RNN_CUDNN_PERSISTENT &&
               open_layer(b, c, SPSH__RNN_CUDNN_PERSISTENT, alike->inputs);
    for (uint32_t inputs = c->shape.inputs;; inputs = wide) {
        if (open_layer(b, c, SPSH__RNN_CUDNN_PERSISTENT, inputs) && probe(b, c))
            return true;
        close_layer(self, c);
        if (inputs == wide)
            return false;
    }
}

static bool fit(spsh__backend *b, choice *c, spsh__rnn_rung rung)
{
    const bool is_auto_f32 = c->asked == SPSH__RNN_AUTO && !b->has_half;
    const spsh__device_kind kind = spsh__cuda_array(b, (spsh__buffer){NULL, b->has_half}).kind;
    const bool is_cudnn = rung == SPSH__RNN_CUDNN || rung == SPSH__RNN_CUDNN_PERSISTENT;
    if (is_cudnn && b->is_deterministic)
        return false;
    switch (rung) {
    case SPSH__RNN_PERSISTENT: return !is_auto_f32 && fit_persistent(rnn_of(b), c, kind);
    case SPSH__RNN_CUDNN_PERSISTENT: return fit_cudnn_persistent(b, c);
    case SPSH__RNN_CUDNN: return open_layer(b, c, rung, c->shape.inputs);
    default: return true;
    }
}

static choice *choose(spsh__backend *b, choice *c)
{
    rnn_state *self = rnn_of(b);
    for (uint32_t rung = c->asked == SPSH__RNN_AUTO ? SPSH__RNN_PERSISTENT : (uint32_t)c->asked;
         rung < SPSH__RNN_RUNGS; rung++) {
        c->rung = (spsh__rnn_rung)rung;
        if (fit(b, c, c->rung))
            break;
    }
    if (c->rung != SPSH__RNN_PERSISTENT)
        (void)snprintf(c->text, sizeof(c->text), "%s%s", spsh__rnn_rung_name(c->rung),
                       c->layer != NULL && c->inputs != c->shape.inputs ? ", inputs padded" : "");
    c->next = self->choices;
    self->choices = c;
    return c;
}

static choice *find_choice(const rnn_state *self, const spsh__rnn_shape *s, bool has_two_biases)
{
    for (choice *c = self->choices; c != NULL; c = c->next) {
        if (c->shape.frames == s->frames && c->shape.batch == s->batch &&
            c->shape.cell == s->cell && c->shape.inputs == s->inputs &&
            c->shape.hidden == s->hidden && c->has_two_biases == has_two_biases &&
            c->asked == self->rung)
            return c;
    }
    return NULL;
}

/* NULL: a failure that is kept. */
static const choice *choice_of(spsh__backend *b, const spsh__rnn_shape *s,
                               const spsh__rnn_weights *w, spsh__buffer x)
{
    const rnn_state *self = rnn_of(b);
    const bool has_two_biases = w->recurrent_bias.data != NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b))
        return NULL;
    if (x.is_half != b->has_half || w->input.is_half != b->has_half ||
        w->recurrent.is_half != b->has_half || w->input_bias.is_half || w->recurrent_bias.is_half) {
        spsh__cuda_failed(b,
                          SPSH_FAIL(&err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                                    "backend cuda: a recurrent layer's buffers are of other kinds"),
                          &err);
        return NULL;
    }
    choice *c = find_choice(self, s, has_two_biases);
    if (c != NULL)
        return c;
    c = spsh__train_new(&b->allocator, 1, sizeof(*c));
    if (c == NULL) {
        spsh__cuda_failed(b, spsh__fail_memory(&err), &err);
        return NULL;
    }
    c->shape = *s;
    c->has_two_biases = has_two_biases;
    c->asked = self->rung;
    return choose(b, c);
}

void spsh__cuda_rnn_choose(spsh__backend *b, spsh__rnn_rung rung)
{
    rnn_of(b)->rung = rung;
}

const char *spsh__cuda_rnn_text(const spsh__backend *b, const spsh__rnn_shape *s,
                                bool has_two_biases)
{
    const choice *c = find_choice(rnn_of(b), s, has_two_biases);
    return c == NULL ? "" : c->text;
}

/* ------------------------------------------------------------------------------------- operators
 */

static bool is_nothing(const spsh__rnn_shape *s)
{
    return s->frames == 0 || s->batch == 0 || s->hidden == 0;
}

static bool is_own(const choice *c)
{
    return c->rung == SPSH__RNN_PERSISTENT || c->rung == SPSH__RNN_STEPWISE;
}

void spsh__cuda_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                            spsh__buffer x, spsh__buffer y, spsh__buffer reserve)
{
    const choice *c = is_nothing(s) ? NULL : choice_of(b, s, w, x);
    if (c == NULL)
        return;
    if (!is_own(c)) {
        cudnn_forward(b, c, w, x, y, reserve);
        return;
    }
    pass p = pass_of(b, s, c, w, reserve);
    p.y = y;
    own_forward(b, &p, x);
}

void spsh__cuda_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g)
{
    const choice *c = is_nothing(s) ? NULL : choice_of(b, s, g->weights, g->x);
    if (c == NULL)
        return;
    if (!is_own(c)) {
        cudnn_backward(b, c, g);
        return;
    }
    pass p = pass_of(b, s, c, g->weights, g->reserve);
    p.y = g->y;
    p.dy = g->dy;
    own_backward(b, &p, g);
}

spsh_status spsh__cuda_rnn_open(spsh__backend *b, void **ret_state, spsh_error *err)
{
    const spsh__device_train_plan plan = {b->device, b->precision, b->is_deterministic};
    union {
        void *symbol;
        spsh__device_rnn_entry_fn *entry_fn;
    } found = {.symbol = spsh_cuda_symbol(b->cuda, SPSH__DEVICE_RNN_SYMBOL)};
    if (found.symbol == NULL || found.entry_fn()->jobs_bytes != SPSH__RNN_JOBS_BYTES)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE,
                         "backend cuda: the plug-in has other recurrent layers than this library");
    rnn_state *self = spsh__train_new(&b->allocator, 1, sizeof(*self));
    if (self == NULL)
        return spsh__fail_memory(err);
    self->entry = found.entry_fn();
    const spsh_status rc = self->entry->open_fn(&plan, &self->device, err);
    if (rc != SPSH_OK) {
        spsh__train_delete(&b->allocator, self);
        return rc;
    }
    *ret_state = self;
    return SPSH_OK;
}

void spsh__cuda_rnn_close(spsh__backend *b, void *state)
{
    rnn_state *self = state;
    if (self == NULL)
        return;
    for (choice *c = self->choices, *next = NULL; c != NULL; c = next) {
        next = c->next;
        close_layer(self, c);
        spsh__train_delete(&b->allocator, c);
    }
    for (own_reserve *own = self->reserves, *next = NULL; own != NULL; own = next) {
        next = own->next;
        spsh_cuda_free(b->cuda, own->memory);
        spsh__train_delete(&b->allocator, own);
    }
    self->entry->close_fn(self->device);
    spsh__train_delete(&b->allocator, self);
}

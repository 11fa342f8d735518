/* twin_rnn.c: recurrent layers of the host emulation. The kernel source (kernels_rnn.h,
 * kernels_rnn_persistent.h) runs as C. The blocks of a cooperative grid run step by step, in any
 * order that their barriers permit. Barriers that never let a block pass stop the test.
 *
 * cuDNN's layers are implemented here with its rules. Callers must query offsets in the weight
 * space (biases first, gates in reverse order, with gaps). Forward fills the reserve, backward_data
 * converts it, and backward_weights consumes it. In any other order, all outputs are NaN. Gradients
 * of weights are added. PERSIST_STATIC accepts few shapes at open, and rejects odd batches at the
 * call. Its calls use one byte of the device: two unordered calls are a hazard that stops the test,
 * because they would wait for each other's blocks.
 *
 * TWIN_CUDNN: use the layers of rnn_layers.cu instead, over fake_rnn.c, which calls these layers.
 */
#include "twin_rnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/device_rnn.h"
#include "twin_internal.h"
#include "twin_layers.h"
#ifdef TWIN_CUDNN
#include "cuda/rnn_layers.h"
#endif

enum { GAP = 64, PERSISTENT_HIDDEN = 32, PERSISTENT_INPUTS = 128 };

SPSH_API twin_rnn_controls *twin_rnn_controls_get(void);
SPSH_API const spsh__device_rnn_entry *spsh_cuda_rnn_entry(void);

static twin_rnn_controls controls = {.blocks = 16, .shared_bytes = 232448, .has_cudnn = 1};

SPSH_API twin_rnn_controls *twin_rnn_controls_get(void)
{
    return &controls;
}

/* --------------------------------------------------------------------------------------- kernels
 */

typedef struct launch_arguments {
    spsh__rnn_launch l;
    union {
        spsh__rnn_grid_job persistent;
        spsh__rnn_job recurrence;
        spsh__rnn_pack_job pack;
    } job;
} launch_arguments;

/* The blocks of a cooperative grid, and how many of its steps each block has done. */
typedef struct grid {
    const launch_arguments *a;
    uint32_t count;
    void **shared; /* allocated with exact sizes, for sanitizers */
    uint32_t *steps;
} grid;

/* Run the next step of a block if its barrier lets the block pass. */
static bool run_step(const grid *g, uint32_t number)
{
    const spsh__rnn_launch *l = &g->a->l;
    const spsh__kernel_block block = {number % l->blocks_x, number / l->blocks_x,
                                      l->blocks_x,          l->blocks_y,
                                      g->shared[number],    twin_order() + g->steps[number]};
    const rnn_block b =
        spsh__rnn_block_of(&g->a->job.persistent, &block, l->kind, l->kernel == SPSH__RNN_BACKWARD);
    const uint32_t step = g->steps[number];
    if (step == spsh__rnn_steps(&b))
        return false;
    const spsh__rnn_barrier before = spsh__rnn_before(&b, step);
    if (*before.counter < before.count)
        return false;
    if (step == 0)
        spsh__rnn_open(&b);
    spsh__rnn_step(&b, step);
    ++*spsh__rnn_after(&b, step);
    g->steps[number]++;
    return true;
}

/* Each block advances as far as barriers let it pass. The next block is the first or the last one
 * that can run, or any of them. */
static void run_steps(const grid *g)
{
    const uint32_t way = twin_order() % 3;
    for (bool has_run = true; has_run;) {
        has_run = false;
        const uint32_t first = way == 2 ? (uint32_t)twin_random(g->count) : 0;
        for (uint32_t i = 0; i < g->count && !has_run; i++) {
            const uint32_t number = (first + i) % g->count;
            has_run = run_step(g, way == 1 ? g->count - 1 - number : number);
        }
    }
}

static void check_done(const grid *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const spsh__rnn_job *job = &g->a->job.persistent.passes[i / g->a->l.blocks_x];
        if (g->steps[i] != job->frames * (g->a->l.kernel == SPSH__RNN_BACKWARD ? 2 : 1))
            twin_stop("block %u of a persistent recurrence waits forever in step %u", i,
                      g->steps[i]);
    }
}

static void run_grid(void *arguments)
{
    const launch_arguments *a = arguments;
    const spsh__rnn_launch *l = &a->l;
    grid g = {a, l->blocks_x * l->blocks_y, NULL, NULL};
    g.shared = twin_new(g.count * sizeof(*g.shared));
    g.steps = twin_new(g.count * sizeof(*g.steps));
    for (uint32_t i = 0; i < g.count; i++) {
        if (posix_memalign(&g.shared[i], 16, l->shared_bytes) != 0)
            twin_stop("no memory");
        memset(g.shared[i], TWIN_POISON, l->shared_bytes);
    }
    for (uint32_t y = 0; y < l->blocks_y; y++) {
        const spsh__rnn_job *job = &a->job.persistent.passes[y];
        for (uint32_t i = 0; i < spsh__rnn_counters(job, l->blocks_x); i++)
            if (job->arrived[i * SPSH__RNN_COUNTER] != 0) /* a real grid would not wait */
                twin_stop("a counter of a persistent recurrence is not 0");
    }
    run_steps(&g);
    check_done(&g);
    controls.grids++;
    for (uint32_t i = 0; i < g.count; i++)
        free(g.shared[i]);
    free(g.shared);
    free(g.steps);
}

static void run_block(const launch_arguments *a, const spsh__kernel_block *block)
{
    switch (a->l.kernel) {
    case SPSH__RNN_FORWARD_STEP:
        spsh__kernel_rnn_forward_step(&a->job.recurrence, block, a->l.kind);
        break;
    case SPSH__RNN_BACKWARD_STEP:
        spsh__kernel_rnn_backward_step(&a->job.recurrence, block, a->l.kind);
        break;
    default: spsh__kernel_rnn_pack(&a->job.pack, block, a->l.kind); break;
    }
}

static void run_blocks(void *arguments)
{
    const launch_arguments *a = arguments;
    for (uint32_t y = 0; y < a->l.blocks_y; y++) {
        for (uint32_t x = 0; x < a->l.blocks_x; x++) {
            spsh__kernel_block block = {x, y, a->l.blocks_x, a->l.blocks_y, NULL, twin_order()};
            if (a->l.shared_bytes != 0)
                block.shared = twin_shared(a->l.shared_bytes);
            run_block(a, &block);
        }
    }
}

static bool is_cooperative(const spsh__rnn_launch *l)
{
    return l->kernel == SPSH__RNN_FORWARD || l->kernel == SPSH__RNN_BACKWARD;
}

static spsh_status launch(void *of, void *stream, const spsh__rnn_launch *l, spsh_error *err)
{
    static const char *const names[SPSH__RNN_KERNELS] = {
        "rnn_forward", "rnn_backward", "rnn_forward_step", "rnn_backward_step", "rnn_pack"};
    launch_arguments a = {.l = *l};
    (void)of;
    if (l->job_bytes > sizeof(a.job) || l->blocks_x == 0 || l->blocks_y == 0)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "twin: %s: its job or grid",
                               names[l->kernel]);
    if (is_cooperative(l) &&
        (l->blocks_x * l->blocks_y > controls.blocks || l->shared_bytes > controls.shared_bytes))
        return spsh__cuda_fail(err, SPSH_E_IO, "twin: a cooperative grid does not fit");
    memcpy(&a.job, l->job, l->job_bytes);
    const twin_work work = {.name = names[l->kernel],
                            .run_fn = is_cooperative(l) ? run_grid : run_blocks,
                            .arguments = &a,
                            .argument_bytes = sizeof(a),
                            .uses = l->uses,
                            .use_count = l->use_count};
    return twin_enqueue(stream, &work, err);
}

static spsh__rnn_limits limits(void *of)
{
    (void)of;
    return (spsh__rnn_limits){controls.blocks, controls.shared_bytes};
}

static uint32_t resident(void *of, spsh__rnn_kernel kernel, spsh__device_kind kind,
                         uint32_t shared_bytes)
{
    (void)of, (void)kernel, (void)kind;
    return shared_bytes <= controls.shared_bytes ? controls.blocks : 0;
}

/* ---------------------------------------------------------------------------- cuDNN's layers
 */

typedef struct layer {
    void *turn;
    spsh__cudnn_plan plan;
    spsh__cudnn_sizes sizes;
} layer;

typedef struct call_arguments {
    layer of;
    spsh__cudnn_call c;
} call_arguments;

static uint32_t gates_of(const layer *l)
{
    return l->plan.shape.cell == SPSH__CELL_LSTM ? 4 : 3;
}

static size_t rows_of(const layer *l)
{
    return (size_t)l->plan.shape.frames * l->plan.shape.batch;
}

static size_t element_bytes(const layer *l)
{
    return l->plan.kind == SPSH__DEVICE_F32 ? 4 : 2;
}

static size_t take(size_t *end, size_t bytes)
{
    const size_t at = (*end + GAP - 1) / GAP * GAP + GAP;
    *end = at + bytes;
    return at;
}

spsh_status twin_layer_open(void *turn, const spsh__cudnn_plan *plan, void **ret_layer,
                            spsh__cudnn_sizes *ret_sizes, spsh_error *err)
{
    const spsh__rnn_shape *s = &plan->shape;
    if (!controls.has_cudnn)
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "twin: no cuDNN");
    if (plan->is_persistent &&
        (s->hidden % PERSISTENT_HIDDEN != 0 || s->inputs % PERSISTENT_INPUTS != 0 ||
         plan->kind == SPSH__DEVICE_BF16))
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED, "twin: cuDNN: not supported");
    layer *l = twin_new(sizeof(*l));
    l->turn = turn;
    l->plan = *plan;
    const uint32_t gates = gates_of(l);
    size_t end = 0;
    for (uint32_t i = 2 * gates; i-- > 0;) {
        l->sizes.parts[i].bias =
            i < gates || plan->has_two_biases ? take(&end, s->hidden * element_bytes(l)) : SIZE_MAX;
    }
    for (uint32_t i = 2 * gates; i-- > 0;)
        l->sizes.parts[i].matrix =
            take(&end, (size_t)s->hidden * (i < gates ? s->inputs : s->hidden) * element_bytes(l));
    l->sizes.weights = end;
    l->sizes.work = ((size_t)s->batch * s->hidden * 2 + 1) * sizeof(float);
    l->sizes.reserve = (rows_of(l) * s->hidden * (gates + 1) + 1) * sizeof(float);
    controls.layers++;
    *ret_layer = l;
    *ret_sizes = l->sizes;
    return SPSH_OK;
}

void twin_layer_close(void *opaque)
{
    controls.layers--;
    free(opaque);
}

/* One frame of one utterance in a layer. */
typedef struct row {
    const layer *l;
    const spsh__cudnn_call *c;
    size_t at; /* frame * batch + utterance */
    float *gates, *kept;
} row;

static row row_of(const call_arguments *a, uint32_t t, uint32_t n)
{
    const spsh__rnn_shape *s = &a->of.plan.shape;
    const size_t width = (size_t)gates_of(&a->of) * s->hidden;
    row r = {&a->of, &a->c, (size_t)t * s->batch + n, NULL, NULL};
    float *reserve = a->c.reserve;
    r.gates = reserve + r.at * width;
    r.kept = reserve + rows_of(&a->of) * width + r.at * s->hidden;
    return r;
}

/* Use of the reserve: 1 backward_data, 2 backward_weights, other values: none. */
static float *turn_of(const call_arguments *a)
{
    return (float *)a->c.reserve + (a->of.sizes.reserve / sizeof(float) - 1);
}

static float get(const row *r, const void *from, size_t i)
{
    return rnn_get(from, i, r->l->plan.kind);
}

static float weight(const row *r, const void *space, size_t offset, size_t i)
{
    return offset == SIZE_MAX ? 0.0F : get(r, (const char *)space + offset, i);
}

static bool is_first(const row *r)
{
    return r->at < r->l->plan.shape.batch;
}

/* Gate k of unit u: of the input, and of the state. */
static float from_input(const row *r, uint32_t k, size_t u)
{
    const size_t inputs = r->l->plan.shape.inputs;
    const spsh__cudnn_part *part = &r->l->sizes.parts[k];
    float sum = weight(r, r->c->weights, part->bias, u);
    for (size_t i = 0; i < inputs; i++)
        sum += weight(r, r->c->weights, part->matrix, u * inputs + i) *
               get(r, r->c->x, r->at * inputs + i);
    return sum;
}

static float from_state(const row *r, uint32_t k, size_t u)
{
    const size_t hidden = r->l->plan.shape.hidden;
    const spsh__cudnn_part *part = &r->l->sizes.parts[gates_of(r->l) + k];
    const size_t before = (r->at - r->l->plan.shape.batch) * hidden;
    float sum = weight(r, r->c->weights, part->bias, u);
    for (size_t i = 0; i < hidden && !is_first(r); i++)
        sum += weight(r, r->c->weights, part->matrix, u * hidden + i) * get(r, r->c->y, before + i);
    return sum;
}

static float sigmoid(float a)
{
    return 1.0F / (1.0F + expf(-a));
}

static float h_before(const row *r, size_t u)
{
    const spsh__rnn_shape *s = &r->l->plan.shape;
    return is_first(r) ? 0.0F : get(r, r->c->y, (r->at - s->batch) * s->hidden + u);
}

static float c_before(const row *r, size_t u)
{
    const spsh__rnn_shape *s = &r->l->plan.shape;
    return is_first(r) ? 0.0F : *(r->kept + u - (size_t)s->batch * s->hidden);
}

static float unit_forward(const row *r, size_t u)
{
    const size_t hidden = r->l->plan.shape.hidden;
    float *g = r->gates + u;
    if (gates_of(r->l) == 3) {
        g[0] = sigmoid(from_input(r, 0, u) + from_state(r, 0, u));
        g[hidden] = sigmoid(from_input(r, 1, u) + from_state(r, 1, u));
        r->kept[u] = from_state(r, 2, u);
        g[2 * hidden] = tanhf(from_input(r, 2, u) + g[0] * r->kept[u]);
        return (1 - g[hidden]) * g[2 * hidden] + g[hidden] * h_before(r, u);
    }
    for (uint32_t k = 0; k < 4; k++) {
        const float sum = from_input(r, k, u) + from_state(r, k, u);
        g[k * hidden] = k == 2 ? tanhf(sum) : sigmoid(sum);
    }
    r->kept[u] = g[hidden] * (is_first(r) ? 0.0F : c_before(r, u)) + g[0] * g[2 * hidden];
    return g[3 * hidden] * tanhf(r->kept[u]);
}

static void run_forward(void *arguments)
{
    const call_arguments *a = arguments;
    const spsh__rnn_shape *s = &a->of.plan.shape;
    for (uint32_t t = 0; t < s->frames; t++) {
        for (uint32_t n = 0; n < s->batch; n++) {
            const row r = row_of(a, t, n);
            for (uint32_t u = 0; u < s->hidden; u++)
                rnn_set(a->c.y, r.at * s->hidden + u, a->of.plan.kind, unit_forward(&r, u));
        }
    }
    *turn_of(a) = 1;
    controls.calls++;
}

/* Backward of one unit with dh; leaves the part of dh that bypasses the gates in place. carry:
 * gradient of c. */
static void unit_backward(const row *r, size_t u, float *dh, float *carry)
{
    const size_t hidden = r->l->plan.shape.hidden;
    float *g = r->gates + u;
    if (gates_of(r->l) == 3) {
        const float reset = g[0], z = g[hidden], n = g[2 * hidden];
        const float dn = *dh * (1 - z) * (1 - n * n);
        g[0] = dn * r->kept[u] * reset * (1 - reset);
        g[hidden] = *dh * (h_before(r, u) - n) * z * (1 - z);
        g[2 * hidden] = dn;
        r->kept[u] = dn * reset;
        *dh *= z;
        return;
    }
    const float i = g[0], f = g[hidden], gate = g[2 * hidden], o = g[3 * hidden];
    const float c = tanhf(r->kept[u]);
    const float dc = *dh * o * (1 - c * c) + *carry;
    g[0] = dc * gate * i * (1 - i);
    g[hidden] = dc * c_before(r, u) * f * (1 - f);
    g[2 * hidden] = dc * i * (1 - gate * gate);
    g[3 * hidden] = *dh * c * o * (1 - o);
    *carry = dc * f;
    *dh = 0;
}

/* Gradient of the previous state's contribution to gate k. */
static float state_gradient(const row *r, uint32_t k, size_t u)
{
    return gates_of(r->l) == 3 && k == 2 ? r->kept[u] : r->gates[k * r->l->plan.shape.hidden + u];
}

static float input_gradient(const row *r, size_t j)
{
    const spsh__rnn_shape *s = &r->l->plan.shape;
    float sum = 0;
    for (uint32_t k = 0; k < gates_of(r->l); k++) {
        const size_t matrix = r->l->sizes.parts[k].matrix;
        for (size_t u = 0; u < s->hidden; u++)
            sum +=
                r->gates[k * s->hidden + u] * weight(r, r->c->weights, matrix, u * s->inputs + j);
    }
    return sum;
}

static void row_backward(const row *r, float *dh, float *carry)
{
    const spsh__rnn_shape *s = &r->l->plan.shape;
    const uint32_t gates = gates_of(r->l);
    for (size_t u = 0; u < s->hidden; u++) {
        dh[u] += get(r, r->c->dy, r->at * s->hidden + u);
        unit_backward(r, u, &dh[u], &carry[u]);
    }
    for (uint32_t k = 0; k < gates; k++) {
        const size_t matrix = r->l->sizes.parts[gates + k].matrix;
        for (size_t u = 0; u < s->hidden; u++) {
            const float d = state_gradient(r, k, u);
            for (size_t j = 0; j < s->hidden; j++)
                dh[j] += d * weight(r, r->c->weights, matrix, u * s->hidden + j);
        }
    }
    for (size_t j = 0; j < s->inputs; j++)
        rnn_set(r->c->dx, r->at * s->inputs + j, r->l->plan.kind, input_gradient(r, j));
}

static void run_backward_data(void *arguments)
{
    const call_arguments *a = arguments;
    const spsh__rnn_shape *s = &a->of.plan.shape;
    const size_t count = (size_t)s->batch * s->hidden;
    float *dh = a->c.work;
    memset(dh, 0, 2 * count * sizeof(float));
    for (uint32_t t = s->frames; t-- > 0;) {
        for (uint32_t n = 0; n < s->batch; n++) {
            const row r = row_of(a, t, n);
            row_backward(&r, dh + n * s->hidden, dh + count + n * s->hidden);
        }
    }
    if (*turn_of(a) != 1)
        memset(a->c.dx, TWIN_POISON, rows_of(&a->of) * s->inputs * element_bytes(&a->of));
    *turn_of(a) = 2;
    controls.calls++;
}

static void add(const layer *l, void *space, size_t offset, size_t i, float value)
{
    if (offset == SIZE_MAX)
        return;
    char *to = (char *)space + offset;
    rnn_set(to, i, l->plan.kind, rnn_get(to, i, l->plan.kind) + value);
}

/* Row u of gate k's two matrices and biases: sums over all rows, added once. */
static void weights_of(const call_arguments *a, uint32_t k, size_t u)
{
    const layer *l = &a->of;
    const spsh__rnn_shape *s = &l->plan.shape;
    const uint32_t gates = gates_of(l);
    const spsh__cudnn_part *input = &l->sizes.parts[k], *state = &l->sizes.parts[gates + k];
    for (size_t j = 0; j <= s->inputs + s->hidden; j++) {
        float sum = 0, state_sum = 0;
        for (size_t at = 0; at < rows_of(l); at++) {
            const row r = row_of(a, (uint32_t)(at / s->batch), (uint32_t)(at % s->batch));
            const float d = r.gates[k * s->hidden + u], e = state_gradient(&r, k, u);
            if (j < s->inputs)
                sum += d * get(&r, a->c.x, at * s->inputs + j);
            else if (j < s->inputs + s->hidden)
                state_sum += e * h_before(&r, j - s->inputs);
            else
                sum += d, state_sum += e;
        }
        if (j < s->inputs)
            add(l, a->c.dweights, input->matrix, u * s->inputs + j, sum);
        else if (j < s->inputs + s->hidden)
            add(l, a->c.dweights, state->matrix, u * s->hidden + j - s->inputs, state_sum);
        else {
            add(l, a->c.dweights, input->bias, u, sum);
            add(l, a->c.dweights, state->bias, u, state_sum);
        }
    }
}

static void run_backward_weights(void *arguments)
{
    const call_arguments *a = arguments;
    const spsh__rnn_shape *s = &a->of.plan.shape;
    for (uint32_t k = 0; k < gates_of(&a->of); k++)
        for (size_t u = 0; u < s->hidden; u++)
            weights_of(a, k, u);
    if (*turn_of(a) != 2)
        memset(a->c.dweights, TWIN_POISON, a->of.sizes.weights);
    *turn_of(a) = 3;
    controls.calls++;
}

spsh_status twin_layer_call(void *opaque, void *stream, const spsh__cudnn_call *c, spsh_error *err)
{
    static const char *const names[SPSH__CUDNN_STEPS] = {"cudnn_forward", "cudnn_backward_data",
                                                         "cudnn_backward_weights"};
    static void (*const run_fns[SPSH__CUDNN_STEPS])(void *) = {run_forward, run_backward_data,
                                                               run_backward_weights};
    const layer *l = opaque;
    const spsh__rnn_shape *s = &l->plan.shape;
    const call_arguments a = {*l, *c};
    const size_t x = rows_of(l) * s->inputs * element_bytes(l);
    const size_t y = rows_of(l) * s->hidden * element_bytes(l);
    const bool is_forward = c->step == SPSH__CUDNN_FORWARD;
    const bool is_weights = c->step == SPSH__CUDNN_BACKWARD_WEIGHTS;
    const spsh__device_use all[] = {
        {l->turn,     l->plan.is_persistent && l->turn != NULL, 1          },
        {c->x,        x,                                        0          },
        {c->y,        y,                                        is_forward },
        {c->weights,  l->sizes.weights,                         0          },
        {c->work,     l->sizes.work,                            1          },
        {c->reserve,  l->sizes.reserve,                         1          },
        {c->dy,       y,                                        0          },
        {c->dx,       x,                                        !is_weights},
        {c->dweights, l->sizes.weights,                         is_weights },
    };
    const twin_work work = {.name = names[c->step],
                            .run_fn = run_fns[c->step],
                            .arguments = &a,
                            .argument_bytes = sizeof(a),
                            .uses = all,
                            .use_count = is_forward ? 6 : 9};
    if (l->plan.is_persistent && s->batch % 2 != 0)
        return spsh__cuda_fail(err, SPSH_E_UNSUPPORTED,
                               "twin: cuDNN: not supported, on second thoughts");
    return twin_enqueue(stream, &work, err);
}

/* ---------------------------------------------------------------------------- the table
 */

typedef struct twin_rnn {
    void *turn; /* a byte of the device that each persistent cuDNN layer uses */
#ifdef TWIN_CUDNN
    spsh__rnn_layers layers;
#endif
} twin_rnn;

static void close_state(void *opaque)
{
    twin_rnn *self = opaque;
#ifdef TWIN_CUDNN
    spsh__rnn_layers_close(&self->layers);
#endif
    twin_table.free_fn(self->turn);
    free(self);
}

static spsh_status open_state(const spsh__device_train_plan *plan, void **ret_state,
                              spsh_error *err)
{
    twin_rnn *self = twin_new(sizeof(*self));
    const spsh_status rc = twin_table.alloc_fn(plan->device, 1, &self->turn, err);
#ifdef TWIN_CUDNN
    self->layers.device = (int)plan->device;
    self->layers.precision = plan->precision;
#endif
    if (rc != SPSH_OK)
        close_state(self);
    else
        *ret_state = self;
    return rc;
}

#ifdef TWIN_CUDNN
#define LAYER(name_) spsh__rnn_layer_##name_
#else
#define LAYER(name_) twin_layer_##name_
#endif

static spsh_status layer_open(void *opaque, const spsh__cudnn_plan *plan, void **ret_layer,
                              spsh__cudnn_sizes *ret_sizes, spsh_error *err)
{
    twin_rnn *self = opaque;
#ifdef TWIN_CUDNN
    return spsh__rnn_layer_open(&self->layers, plan, ret_layer, ret_sizes, err);
#else
    return twin_layer_open(self->turn, plan, ret_layer, ret_sizes, err);
#endif
}

SPSH_API const spsh__device_rnn_entry *spsh_cuda_rnn_entry(void)
{
    static const spsh__device_rnn_entry entry = {
        SPSH__RNN_JOBS_BYTES, open_state,   close_state, limits, resident, launch,
        layer_open,           LAYER(close), LAYER(call),
    };
    return &entry;
}

/* bench_train_ops.c: how long the operators of a training step take in a backend, at the shapes
 * that ds2-tiny and ds2-small have for a batch of BATCH utterances of FRAMES frames (16 kHz, 161
 * bins).
 *
 *     bench_train_ops [BACKEND [THREADS]] > results/train-ops.json
 *
 * A round runs each operator once, so that a disturbance affects all. `ms` is the median wall time
 * of ROUNDS rounds. `gflops` counts multiplications and additions per second, for operators that
 * consist of them. The backward pass of the recurrence consumes the results of the forward pass. So
 * the forward pass is timed separately, and both passes together.
 */
#include "backend/backend.h"
#include "bench_kit.h"

enum { ROUNDS = 5, BATCH = 16, FRAMES = 800, BINS = 161, SYMBOLS = 29, OPS_MAX = 64 };

typedef struct op op;
struct op {
    const char *model, *name;
    void (*run_fn)(op *o);
    double gflop;
    spsh__backend_buffer x, y, dx, dy, weights, gradients;
    spsh__conv_shape conv;
    spsh__norm_shape norm;
    spsh__norm_state state;
    spsh__rnn_shape rnn;
    spsh__rnn_weights rnn_weights, rnn_gradients;
    spsh__backend_buffer reserve;
    size_t count;
    double ms[ROUNDS];
};

static spsh__backend *backend;
static const spsh__backend_ops *table;
static op ops[OPS_MAX];
static size_t op_count;
static uint64_t random_state = 7;
static uint32_t lengths[BATCH];

/* `count` random elements between -scale and scale. */
static spsh__backend_buffer take(size_t count, float scale)
{
    spsh__backend_buffer buffer = {NULL, false};
    check(table->alloc_fn(backend, count, &buffer, &failure), "buffer");
    float *values = malloc((count + 1) * sizeof(*values));
    must(values != NULL, "memory");
    for (size_t i = 0; i < count; i++)
        values[i] = ((float)(next_random(&random_state) >> 40) / 8388608.0f - 1) * scale;
    table->write_f32_fn(backend, buffer, values, count);
    free(values);
    return buffer;
}

static op *add(const char *model, const char *name, void (*run_fn)(op *o))
{
    must(op_count < OPS_MAX, "too many operators");
    op *o = &ops[op_count++];
    *o = (op){.model = model, .name = name, .run_fn = run_fn};
    return o;
}

/* --- convolutions --- */

static void conv_forward(op *o)
{
    table->conv_forward_fn(backend, &o->conv, o->x, o->weights, o->gradients, o->y);
}

static void conv_backward(op *o)
{
    const spsh__conv_grad g = {o->x, o->weights, o->dy, o->dx, o->gradients, o->gradients};
    table->conv_backward_fn(backend, &o->conv, &g);
}

static void to_rows(op *o)
{
    table->rows_from_conv_fn(backend, &o->conv, o->y, o->dy);
}

static spsh__conv_shape conv_shape(uint32_t in_channels, uint32_t channels, uint32_t in_bins,
                                   uint32_t in_frames)
{
    const uint32_t kernel = in_channels == 1 ? 41 : 21, stride = in_channels == 1 ? 2 : 1;
    return (spsh__conv_shape){.batch = BATCH,
                              .in_channels = in_channels,
                              .out_channels = channels,
                              .in_bins = in_bins,
                              .in_frames = in_frames,
                              .out_bins = spsh__conv_out(in_bins, kernel, 2, kernel / 2),
                              .out_frames = spsh__conv_out(in_frames, 11, stride, 5),
                              .kernel_bins = kernel,
                              .kernel_frames = 11,
                              .stride_bins = 2,
                              .stride_frames = stride,
                              .pad_bins = kernel / 2,
                              .pad_frames = 5};
}

static void add_conv(const char *model, const spsh__conv_shape *s, bool is_first)
{
    const size_t in = (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames;
    const size_t out = (size_t)s->batch * s->out_channels * s->out_bins * s->out_frames;
    const size_t taps = (size_t)s->in_channels * s->kernel_bins * s->kernel_frames;
    op *o = add(model, is_first ? "conv1 forward" : "conv2 forward", conv_forward);
    o->conv = *s;
    o->x = take(in, 1);
    o->y = take(out, 1);
    o->dy = take(out, 1);
    o->weights = take(taps * s->out_channels, 0.1f);
    o->gradients = take(taps * s->out_channels, 0.1f);
    o->gflop = 2e-9 * (double)out * (double)taps;
    op *back = add(model, is_first ? "conv1 backward" : "conv2 backward", conv_backward);
    const op forward = *o;
    *back = (op){.model = model, .name = back->name, .run_fn = conv_backward};
    back->conv = forward.conv, back->x = forward.x, back->y = forward.y, back->dy = forward.dy;
    back->weights = forward.weights, back->gradients = forward.gradients;
    back->gflop = forward.gflop * (is_first ? 1 : 2);
    if (is_first)
        return;
    back->dx = take(in, 1);
    op *rows = add(model, "rows of conv2", to_rows);
    rows->conv = forward.conv, rows->y = forward.y, rows->dy = forward.dy;
}

/* --- normalisation, clip --- */

static void norm_forward(op *o)
{
    const spsh__norm_io io = {o->x, o->y};
    table->norm_forward_fn(backend, &o->norm, lengths, true, &o->state, &io);
}

static void norm_backward(op *o)
{
    const spsh__norm_grad g = {
        .x = o->x, .dy = o->dy, .dx = o->dx, .dweight = o->weights, .dbias = o->gradients};
    table->norm_backward_fn(backend, &o->norm, lengths, &o->state, &g);
}

static void clip(op *o)
{
    table->clip_forward_fn(backend, 20, o->count, o->x, o->y);
}

static void add_norm(const char *model, const char *const names[2], const spsh__norm_shape *s)
{
    const size_t count = (size_t)s->batch * s->channels * s->frames * (s->is_conv ? s->bins : 1);
    op *o = add(model, names[0], norm_forward);
    o->norm = *s;
    o->state = (spsh__norm_state){.weight = take(s->channels, 1),
                                  .bias = take(s->channels, 1),
                                  .running_mean = take(s->channels, 1),
                                  .running_variance = take(s->channels, 0),
                                  .batch_mean = take(s->channels, 1),
                                  .batch_scale = take(s->channels, 1)};
    o->x = take(count, 1);
    o->y = take(count, 1);
    o->count = count;
    op *back = add(model, names[1], norm_backward);
    back->norm = o->norm, back->state = o->state, back->x = o->x, back->dy = o->y;
    back->dx = take(count, 1);
    back->weights = take(s->channels, 1);
    back->gradients = take(s->channels, 1);
    if (!s->is_conv)
        return;
    op *limit = add(model, "clip", clip);
    limit->x = o->x, limit->y = o->y, limit->count = count;
}

/* --- recurrence --- */

static void rnn_forward(op *o)
{
    table->rnn_forward_fn(backend, &o->rnn, &o->rnn_weights, o->x, o->y, o->reserve);
}

static void rnn_both(op *o)
{
    rnn_forward(o);
    const spsh__rnn_grad g = {
        &o->rnn_weights, &o->rnn_gradients, o->x, o->y, o->reserve, o->dy, o->dx};
    table->rnn_backward_fn(backend, &o->rnn, &g);
}

static spsh__rnn_weights rnn_arrays(const spsh__rnn_shape *s)
{
    const size_t gates = (s->cell == SPSH__CELL_LSTM ? 4 : 3) * (size_t)s->hidden;
    return (spsh__rnn_weights){take(gates * s->inputs, 0.05f), take(gates * s->hidden, 0.05f),
                               take(gates, 0.05f), take(gates, 0.05f)};
}

static void add_rnn(const char *model, const char *const names[2], const spsh__rnn_shape *s)
{
    const size_t rows = (size_t)s->frames * s->batch;
    const size_t gates = (s->cell == SPSH__CELL_LSTM ? 4 : 3) * (size_t)s->hidden;
    op *o = add(model, names[0], rnn_forward);
    o->rnn = *s;
    o->rnn_weights = rnn_arrays(s);
    o->x = take(rows * s->inputs, 1);
    o->y = take(rows * s->hidden, 1);
    o->reserve = take(table->rnn_reserve_fn(s), 0);
    o->gflop = 2e-9 * (double)rows * (double)(gates * (s->inputs + (size_t)s->hidden));
    op *both = add(model, names[1], rnn_both);
    const char *name = both->name;
    *both = *o;
    both->name = name;
    both->run_fn = rnn_both;
    both->gflop = 3 * o->gflop;
    both->rnn_gradients = rnn_arrays(s);
    both->dx = take(rows * s->inputs, 1);
    both->dy = take(rows * s->hidden, 1);
}

/* --- losses, optimisers --- */

static void ctc(op *o)
{
    static uint32_t labels[BATCH * 64], offsets[BATCH + 1];
    spsh__ctc_result results[BATCH];
    for (uint32_t i = 0; i < BATCH * 64; i++)
        labels[i] = 1 + i * 7 % (SYMBOLS - 1);
    for (uint32_t n = 0; n <= BATCH; n++)
        offsets[n] = n * 64;
    const spsh__ctc_shape s = {FRAMES / 2, BATCH, SYMBOLS, 0, 1};
    const spsh__label_batch batch = {labels, offsets};
    const spsh__ctc_io io = {o->x, o->dx, NULL, results};
    table->ctc_fn(backend, &s, lengths, &batch, &io);
}

static void adamw(op *o)
{
    const spsh__adamw a = {1e-4, 0.9, 0.999, 1e-8, 1e-5, 10};
    const spsh__update u = {
        .weights = o->weights,
        .gradients = o->gradients,
        .moments = {o->x, o->y},
        .count = o->count,
        .decays = true,
        .gradient_scale = 1
    };
    table->adamw_fn(backend, &a, &u);
}

static void sgd(op *o)
{
    const spsh__sgd a = {1e-4, 0.9, 1e-5, true};
    const spsh__update u = {
        .weights = o->weights,
        .gradients = o->gradients,
        .moments = {o->x, {NULL, false}},
        .count = o->count,
        .decays = true,
        .gradient_scale = 1
    };
    table->sgd_fn(backend, &a, &u);
}

static void squares(op *o)
{
    (void)table->square_sum_fn(backend, o->weights, o->count);
}

static void add_updates(const char *model, size_t count)
{
    op *first = add(model, "adamw", adamw);
    first->count = count;
    first->weights = take(count, 1), first->gradients = take(count, 1);
    first->x = take(count, 0), first->y = take(count, 0);
    op *second = add(model, "sgd", sgd);
    *second = *first;
    second->name = "sgd", second->run_fn = sgd;
    op *third = add(model, "square sum", squares);
    *third = *first;
    third->name = "square sum", third->run_fn = squares;
}

/* --- models --- */

static void add_model(const char *model, uint32_t channels, uint32_t hidden, size_t weights)
{
    static const char *const conv_names[2] = {"norm1 forward", "norm1 backward"};
    static const char *const row_names[2] = {"norm of rows forward", "norm of rows backward"};
    static const char *const first[2] = {"lstm 1 forward", "lstm 1 both"};
    static const char *const later[2] = {"lstm 2 forward", "lstm 2 both"};
    static const char *const gru[2] = {"gru 2 forward", "gru 2 both"};
    const spsh__conv_shape one = conv_shape(1, channels, BINS, FRAMES);
    const spsh__conv_shape two = conv_shape(channels, channels, one.out_bins, one.out_frames);
    const spsh__norm_shape conv = {true, BATCH, channels, one.out_bins, one.out_frames, false, 0};
    const spsh__norm_shape rows = {false, BATCH, hidden, 0, two.out_frames, false, 0};
    spsh__rnn_shape rnn = {SPSH__CELL_LSTM, two.out_frames, BATCH, channels * two.out_bins, hidden};
    add_conv(model, &one, true);
    add_norm(model, conv_names, &conv);
    add_conv(model, &two, false);
    add_rnn(model, first, &rnn);
    rnn.inputs = hidden;
    add_rnn(model, later, &rnn);
    rnn.cell = SPSH__CELL_GRU;
    add_rnn(model, gru, &rnn);
    add_norm(model, row_names, &rows);
    op *loss = add(model, "ctc", ctc);
    const size_t logits = (size_t)two.out_frames * BATCH * SYMBOLS;
    loss->x = take(logits, 1);
    loss->dx = take(logits, 1);
    add_updates(model, weights);
}

static void print(void)
{
    printf("{\n  \"backend\": \"%s\", \"threads\": %u, \"batch\": %d, \"frames\": %d, "
           "\"rounds\": %d,\n  \"operators\": [\n",
           table->name, backend->threads, BATCH, FRAMES, ROUNDS);
    for (size_t i = 0; i < op_count; i++) {
        const figure f = figure_of(ops[i].ms, ROUNDS);
        printf("    {\"model\": \"%s\", \"operator\": \"%s\", \"ms\": %.3f, \"least\": %.3f, "
               "\"gflops\": %.1f}%s\n",
               ops[i].model, ops[i].name, f.median, f.least, ops[i].gflop / f.median * 1e3,
               i + 1 < op_count ? "," : "");
    }
    printf("  ]\n}\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cpu";
    const unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    check(spsh__backend_open(name, (uint32_t)threads, NULL, &backend, &failure), name);
    table = backend->ops;
    for (uint32_t n = 0; n < BATCH; n++) /* 10 % of padding */
        lengths[n] = FRAMES / 2 - n * (FRAMES / 2) / 5 / BATCH;
    add_model("ds2-tiny", 16, 128, 1500000);
    add_model("ds2-small", 32, 256, 5600000);
    for (int round = -1; round < ROUNDS; round++) { /* the first is not counted */
        for (size_t i = 0; i < op_count; i++) {
            const double start = now_ms();
            ops[i].run_fn(&ops[i]);
            if (round >= 0)
                ops[i].ms[round] = now_ms() - start;
        }
    }
    check(table->status_fn(backend, &failure), "operators");
    print();
    return 0;
}

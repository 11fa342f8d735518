/* unit_train_rnn_device.c PLUGIN [all]: recurrent layers on a device. Each fallback of the fallback
 * order (backend_cuda_rnn.h) is compared with the reference backend in double, on the same inputs.
 *
 * With the host emulation, the test also knows which fallback a shape must select. Threads and
 * blocks change their order from run to run, which must not change a bit. With the real plug-in,
 * the fallbacks are those that the device supports. Exit status 77: no device.
 *
 * all: only the persistent kernel, for all sizes of models and many batches. Takes minutes.
 */
#include <math.h>

#include "backend_cuda/backend_cuda.h"
#include "backend_cuda/backend_cuda_rnn.h"
#include "device_test.h"
#include "doubles.h"
#include "spsh_test.h"
#include "twin_rnn.h"

static spsh_cuda *cuda;
static twin_controls *twin; /* NULL: the real plug-in */
static twin_rnn_controls *twin_rnn;
static uint64_t seed;

/* ---------------------------------------------------------------------------------- one layer */

enum { X, W_IH, W_HH, B_IH, B_HH, DY, INPUTS };
enum { Y, DX, G_IH, G_HH, GB_IH, GB_HH, OUTPUTS };

/* Tolerances are fractions of the largest value. */
static const struct kind_row {
    spsh__precision precision;
    double tolerance;
} kinds[] = {
    {SPSH__FP32, 5e-6  },
    {SPSH__TF32, 2e-3  },
    {SPSH__BF16, 1.5e-2},
    {SPSH__FP16, 2.5e-3},
};

typedef struct layer {
    spsh__backend *b;
    spsh__rnn_shape s;
    bool has_two_biases, has_dx;
    uint32_t passes; /* 2: ran together with another layer */
    size_t input_counts[INPUTS], output_counts[OUTPUTS];
    spsh__backend_buffer inputs[INPUTS], outputs[OUTPUTS], reserve;
} layer;

static spsh__backend_buffer take(spsh__backend *b, size_t count, bool is_half)
{
    spsh__backend_buffer buffer = {NULL, false};
    spsh_status rc = is_half ? b->ops->alloc_half_fn(b, count + 1, &buffer, NULL)
                             : b->ops->alloc_fn(b, count + 1, &buffer, NULL);
    REQUIRE(rc == SPSH_OK);
    return buffer;
}

static void count_layer(layer *l)
{
    const spsh__rnn_shape *s = &l->s;
    const size_t gates = s->cell == SPSH__CELL_LSTM ? 4 : 3, rows = (size_t)s->frames * s->batch;
    const size_t width = gates * s->hidden;
    const size_t inputs[INPUTS] = {
        rows * s->inputs, width * s->inputs, width * s->hidden, width, width, rows * s->hidden};
    const size_t outputs[OUTPUTS] = {
        rows * s->hidden, rows * s->inputs, width * s->inputs, width * s->hidden, width, width};
    memcpy(l->input_counts, inputs, sizeof(inputs));
    memcpy(l->output_counts, outputs, sizeof(outputs));
}

static void layer_open(layer *l, spsh__backend *b, const spsh__rnn_shape *s, bool has_two_biases)
{
    *l = (layer){.b = b, .s = *s, .has_two_biases = has_two_biases, .has_dx = true, .passes = 1};
    count_layer(l);
    for (int i = 0; i < INPUTS; i++)
        l->inputs[i] = take(b, l->input_counts[i], b->has_half && i != B_IH && i != B_HH);
    for (int i = 0; i < OUTPUTS; i++)
        l->outputs[i] = take(b, l->output_counts[i], b->has_half && (i == Y || i == DX));
    l->reserve = take(b, b->ops->rnn_reserve_fn(s), b->has_half);
}

static void layer_close(const layer *l)
{
    for (int i = 0; i < INPUTS; i++)
        l->b->ops->free_fn(l->b, l->inputs[i]);
    for (int i = 0; i < OUTPUTS; i++)
        l->b->ops->free_fn(l->b, l->outputs[i]);
    l->b->ops->free_fn(l->b, l->reserve);
}

/* Open two equal layers. */
static void pair_open(layer pair[2], spsh__backend *b, const spsh__rnn_shape *s,
                      bool has_two_biases)
{
    for (int i = 0; i < 2; i++)
        layer_open(&pair[i], b, s, has_two_biases);
}

static void pair_close(const layer pair[2])
{
    for (int i = 0; i < 2; i++)
        layer_close(&pair[i]);
}

/* Random numbers around 0. Weights are as large as in a trained layer. */
static void write_random(const layer *l, spsh__backend_buffer to, size_t count, double size)
{
    double *values = malloc((count + 1) * sizeof(double));
    REQUIRE(values != NULL);
    for (size_t i = 0; i < count; i++)
        values[i] = size * ((double)(test_random(&seed) >> 40) / (double)(1 << 23) - 1);
    put_doubles(l->b, to, values, count);
    free(values);
}

static void write_inputs(const layer *l)
{
    const double size = 1 / sqrt((double)l->s.hidden);
    for (int i = 0; i < INPUTS; i++)
        write_random(l, l->inputs[i], l->input_counts[i], i == X || i == DY ? 1 : size);
}

/* Fill overwritten outputs with NaNs, and outputs that are added to with numbers. */
static void write_outputs(const layer *l)
{
    for (int i = 0; i < OUTPUTS; i++) {
        double *values = malloc((l->output_counts[i] + 1) * sizeof(double));
        REQUIRE(values != NULL);
        for (size_t k = 0; k < l->output_counts[i]; k++)
            values[k] = i == Y || i == DX ? (double)NAN : (double)(k % 5) - 2;
        put_doubles(l->b, l->outputs[i], values, l->output_counts[i]);
        free(values);
    }
}

static double *read_values(const layer *l, spsh__backend_buffer from, size_t count)
{
    double *values = calloc(count + 1, sizeof(double));
    REQUIRE(values != NULL);
    take_doubles(l->b, values, from, count);
    return values;
}

static void copy_inputs(const layer *to, const layer *from)
{
    for (int i = 0; i < INPUTS; i++) {
        double *values = read_values(from, from->inputs[i], from->input_counts[i]);
        put_doubles(to->b, to->inputs[i], values, to->input_counts[i]);
        free(values);
    }
}

static spsh__rnn_weights weights_of(const layer *l, const spsh__backend_buffer *first)
{
    spsh__rnn_weights w = {first[0], first[1], first[2], first[3]};
    if (!l->has_two_biases)
        w.recurrent_bias.data = NULL;
    return w;
}

static void forward(const layer *l)
{
    const spsh__rnn_weights w = weights_of(l, &l->inputs[W_IH]);
    l->b->ops->rnn_forward_fn(l->b, &l->s, &w, l->inputs[X], l->outputs[Y], l->reserve);
}

/* weights: [0] the weights, [1] their gradients. */
static spsh__rnn_grad grad_of(const layer *l, spsh__rnn_weights weights[2])
{
    weights[0] = weights_of(l, &l->inputs[W_IH]);
    weights[1] = weights_of(l, &l->outputs[G_IH]);
    spsh__rnn_grad g = {.weights = &weights[0],
                        .gradients = &weights[1],
                        .x = l->inputs[X],
                        .y = l->outputs[Y],
                        .reserve = l->reserve,
                        .dy = l->inputs[DY],
                        .dx = l->outputs[DX]};
    if (!l->has_dx)
        g.dx.data = NULL;
    return g;
}

static void backward(const layer *l)
{
    spsh__rnn_weights weights[2];
    const spsh__rnn_grad g = grad_of(l, weights);
    l->b->ops->rnn_backward_fn(l->b, &l->s, &g);
}

/* Run two layers as the two directions of one layer. */
static void run_both(layer both[2])
{
    const spsh__backend_ops *ops = both->b->ops;
    spsh__rnn_weights weights[2][2];
    spsh__rnn_pass passes[2];
    spsh__rnn_grad g[2];
    for (int i = 0; i < 2; i++) {
        const layer *l = &both[i];
        both[i].passes = 2;
        g[i] = grad_of(l, weights[i]);
        passes[i] = (spsh__rnn_pass){g[i].weights, l->inputs[X], l->outputs[Y], l->reserve};
    }
    ops->rnn_both_forward_fn(both->b, &both->s, passes);
    ops->rnn_both_backward_fn(both->b, &both->s, g);
}

static void check_status(spsh__backend *b)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (b->ops->status_fn(b, &err) != SPSH_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        CHECK(false);
    }
}

/* Largest difference, relative to the largest value. */
static double difference(const double *one, const double *right, size_t count)
{
    double most = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs(one[i] - right[i]);
        if (!(d <= most))
            most = isnan(d) ? (double)INFINITY : d;
        largest = fmax(largest, fabs(right[i]));
    }
    return count == 0 ? 0 : most / fmax(largest, 0.1);
}

static void check_outputs(const layer *l, const layer *right, double tolerance, const char *what)
{
    static const char *const names[OUTPUTS] = {"y", "dx", "dw_ih", "dw_hh", "db_ih", "db_hh"};
    for (int i = 0; i < OUTPUTS; i++) {
        if (i == DX && (!l->has_dx || !right->has_dx))
            continue;
        double *one = read_values(l, l->outputs[i], l->output_counts[i]);
        double *other = read_values(right, right->outputs[i], l->output_counts[i]);
        const double d = difference(one, other, l->output_counts[i]);
        if (!(d <= tolerance)) {
            (void)fprintf(stderr, "%s: %s differs by %g (T %u, N %u, I %u, H %u, cell %d, %s)\n",
                          what, names[i], d, l->s.frames, l->s.batch, l->s.inputs, l->s.hidden,
                          (int)l->s.cell,
                          spsh__cuda_rnn_text(l->b, &l->s, l->has_two_biases, l->passes));
            CHECK(false);
        }
        free(one);
        free(other);
    }
}

/* Tolerance between two runs. On a real device, libraries may choose other algorithms, except in
 * deterministic mode. */
static double same(void)
{
    return twin != NULL ? 0 : 2e-2;
}

/* ------------------------------------------------------------------------------------- all
 * fallbacks
 */

static spsh__backend *open_backend(spsh__precision precision, bool is_deterministic)
{
    const spsh__backend_options options = {.name = "cuda",
                                           .cuda = cuda,
                                           .precision = precision,
                                           .is_deterministic = is_deterministic,
                                           .has_graphs = true};
    spsh__backend *b = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__backend_open_with(&options, NULL, &b, &err) != SPSH_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        REQUIRE(false);
    }
    return b;
}

/* Frames, batch, inputs, hidden: all 1; no multiples; more utterances than are multiplied at once;
 * two blocks, one incomplete; two shapes for cuDNN's persistent layers, directly and padded; more
 * than the columns of a tile. */
static const spsh__rnn_shape shapes[] = {
    {SPSH__CELL_LSTM, 1, 1,  1,   1 },
    {SPSH__CELL_LSTM, 3, 2,  5,   7 },
    {SPSH__CELL_LSTM, 3, 35, 6,   20},
    {SPSH__CELL_LSTM, 4, 3,  9,   33},
    {SPSH__CELL_LSTM, 2, 2,  128, 32},
    {SPSH__CELL_LSTM, 2, 2,  130, 32},
    {SPSH__CELL_LSTM, 5, 1,  3,   72},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

/* The fallback that the host emulation selects. */
static spsh__rnn_algorithm expected(const spsh__backend *b, const spsh__rnn_shape *s,
                                    spsh__rnn_algorithm asked)
{
    if (asked == SPSH__RNN_PERSISTENT || (asked == SPSH__RNN_AUTO && b->has_half))
        return SPSH__RNN_PERSISTENT;
    if (asked == SPSH__RNN_CUDNN_PERSISTENT || asked == SPSH__RNN_AUTO)
        return s->hidden % 32 == 0 && s->batch % 2 == 0 && b->precision != SPSH__BF16
                   ? SPSH__RNN_CUDNN_PERSISTENT
                   : SPSH__RNN_CUDNN;
    return asked;
}

static void check_algorithm(const layer *l, spsh__rnn_algorithm algorithm)
{
    if (twin == NULL)
        return;
    const char *text = spsh__cuda_rnn_text(l->b, &l->s, l->has_two_biases, l->passes);
    const char *name = spsh__rnn_algorithm_name(algorithm);
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 ||
        (text[length] != '\0' && text[length] != ':' && text[length] != ',')) {
        (void)fprintf(stderr, "\"%s\" is not %s (T %u, N %u, I %u, H %u)\n", text, name,
                      l->s.frames, l->s.batch, l->s.inputs, l->s.hidden);
        CHECK(false);
    }
}

static void run(const layer *l)
{
    write_outputs(l);
    if (twin != NULL)
        twin->order += 3;
    forward(l);
    backward(l);
    check_status(l->b);
}

static void test_layer(spsh__backend *b, const layer *right, spsh__rnn_algorithm algorithm,
                       double tolerance)
{
    layer both[2];
    spsh__cuda_rnn_choose(b, algorithm);
    pair_open(both, b, &right->s, right->has_two_biases);
    for (int i = 0; i < 2; i++)
        copy_inputs(&both[i], right);
    run(&both[0]);
    check_outputs(&both[0], right, tolerance, "against reference");
    check_algorithm(&both[0], expected(b, &right->s, algorithm));
    both[1].has_dx = false;
    run(&both[1]);
    check_outputs(&both[1], &both[0], same(), "a second time, without dx");
    pair_close(both);
}

/* As test_layer, but the reference gets the inputs after rounding to 16 bits. */
static void test_shape(spsh__backend *b, spsh__backend *reference, const spsh__rnn_shape *s,
                       bool has_two_biases, double tolerance)
{
    layer rounded, right;
    layer_open(&rounded, b, s, has_two_biases);
    layer_open(&right, reference, s, has_two_biases);
    write_inputs(&rounded);
    copy_inputs(&right, &rounded);
    write_outputs(&right);
    forward(&right);
    backward(&right);
    copy_inputs(&right, &rounded); /* backward overwrites dy */
    for (int algorithm = SPSH__RNN_AUTO; algorithm < SPSH__RNN_ALGORITHMS; algorithm++)
        test_layer(b, &right, (spsh__rnn_algorithm)algorithm, tolerance);
    layer_close(&right);
    layer_close(&rounded);
}

static void test_algorithms(void)
{
    const size_t count = SHAPES;
    spsh__backend *reference = NULL;
    REQUIRE(spsh__backend_open("reference", 1, NULL, &reference, NULL) == SPSH_OK);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        spsh__backend *b = open_backend(kinds[k].precision, false);
        for (size_t i = 0; i < 2 * count; i++) {
            spsh__rnn_shape s = shapes[i % count];
            s.cell = i < count ? SPSH__CELL_LSTM : SPSH__CELL_GRU;
            test_shape(b, reference, &s, i % 3 != 0, kinds[k].tolerance);
        }
        spsh__backend_close(b);
    }
    spsh__backend_close(reference);
}

/* ---------------------------------------------------------------------------- layers of models */

/* Compare the persistent kernel with the reference, in a layer of real size. */
static void test_model_shape(spsh__backend *b, spsh__backend *reference, const spsh__rnn_shape *s,
                             double tolerance)
{
    layer one, right;
    layer_open(&one, b, s, true);
    layer_open(&right, reference, s, true);
    write_inputs(&one);
    copy_inputs(&right, &one);
    write_outputs(&right);
    forward(&right);
    backward(&right);
    run(&one);
    check_outputs(&one, &right, tolerance, "a layer of a model");
    check_algorithm(&one, SPSH__RNN_PERSISTENT);
    layer_close(&right);
    layer_close(&one);
}

/* Every batch that the table of GPU.md promises. */
static void test_all_batches(spsh__backend *reference)
{
    spsh__backend *b = open_backend(SPSH__BF16, false);
    spsh__cuda_rnn_choose(b, SPSH__RNN_PERSISTENT);
    for (uint32_t batch = 1; batch <= 64; batch++) {
        const spsh__rnn_shape s = {batch % 2 == 0 ? SPSH__CELL_LSTM : SPSH__CELL_GRU, 2, batch, 5,
                                   512};
        test_model_shape(b, reference, &s, kinds[2].tolerance);
    }
    spsh__backend_close(b);
}

/* Sizes of models, on half of an H100: one direction of two. */
static void test_model_shapes(bool is_all)
{
    static const uint32_t sizes[] = {512, 760, 800, 1024, 1280};
    static const uint32_t batches[] = {1, 8, 33, 7, 16, 17, 32, 64};
    const twin_rnn_controls before = twin_rnn == NULL ? (twin_rnn_controls){0} : *twin_rnn;
    uint32_t count = 0;
    spsh__backend *reference = NULL;
    REQUIRE(spsh__backend_open("reference", 1, NULL, &reference, NULL) == SPSH_OK);
    if (twin_rnn != NULL)
        twin_rnn->blocks = 66;
    for (uint32_t kind = 2; kind < 4; kind++) {
        spsh__backend *b = open_backend(kinds[kind].precision, false);
        spsh__cuda_rnn_choose(b, SPSH__RNN_PERSISTENT);
        for (uint32_t i = 0; i < 5 * 8 * 2; i++) {
            const uint32_t hidden = sizes[i / 16], batch = i / 2 % 8, cell = i % 2;
            const spsh__rnn_shape s = {cell == 0 ? SPSH__CELL_LSTM : SPSH__CELL_GRU,
                                       batch == 0 ? 4 : 2, batches[batch], 5, hidden};
            const bool is_some = hidden == 760 && batch < 3 && (batch + cell + kind) % 2 == 0;
            if (!is_all && !is_some)
                continue;
            test_model_shape(b, reference, &s, kinds[kind].tolerance);
            count++;
        }
        spsh__backend_close(b);
    }
    CHECK_U64(count, is_all ? 160 : 6);
    if (is_all)
        test_all_batches(reference);
    if (twin_rnn != NULL)
        twin_rnn->blocks = before.blocks;
    spsh__backend_close(reference);
}

/* ----------------------------------------------------------------- both directions, and segments
 */

/* A shape that this fallback accepts in the host emulation. */
static const spsh__rnn_shape *shape_of(spsh__rnn_algorithm algorithm)
{
    return &shapes[algorithm == SPSH__RNN_CUDNN_PERSISTENT ? 5 : 3];
}

static void test_both(spsh__rnn_algorithm algorithm, spsh__precision precision)
{
    spsh__backend *b = open_backend(precision, false);
    layer both[2], alone[2];
    spsh__cuda_rnn_choose(b, algorithm);
    pair_open(both, b, shape_of(algorithm), true);
    pair_open(alone, b, shape_of(algorithm), true);
    for (int i = 0; i < 2; i++) {
        write_inputs(&both[i]);
        copy_inputs(&alone[i], &both[i]);
        run(&alone[i]);
        write_outputs(&both[i]);
    }
    free(read_values(&alone[1], alone[1].outputs[Y], 1)); /* waits */
    const uint32_t grids = twin_rnn == NULL ? 0 : twin_rnn->grids;
    run_both(both);
    check_status(b);
    for (int i = 0; i < 2; i++)
        check_outputs(&both[i], &alone[i], same(), "both at once");
    check_algorithm(&both[0], algorithm);
    if (twin_rnn != NULL && algorithm == SPSH__RNN_PERSISTENT) {
        const bool is_in_turn = twin_rnn->blocks < 8; /* an LSTM needs 4 per direction */
        CHECK_U64(twin_rnn->grids - grids, is_in_turn ? 4 : 2);
        const char *text = spsh__cuda_rnn_text(b, &both->s, true, 2);
        CHECK((strstr(text, "one direction after the other") != NULL) == is_in_turn);
        CHECK((strstr(text, "2 x ") != NULL) == !is_in_turn);
    }
    pair_close(alone);
    pair_close(both);
    spsh__backend_close(b);
}

static void do_segment(spsh__backend *b, layer both[2])
{
    const spsh__graph_segment segment = {77, 1};
    if (!b->ops->segment_begin_fn(b, &segment))
        run_both(both);
    b->ops->segment_end_fn(b);
    check_status(b);
}

/* The third run launches a graph. The inputs differ each time, in the same memory. */
static void test_segments(spsh__rnn_algorithm algorithm, spsh__precision precision)
{
    spsh__backend *b = open_backend(precision, false);
    layer both[2], alone;
    spsh__cuda_rnn_choose(b, algorithm);
    pair_open(both, b, shape_of(algorithm), true);
    layer_open(&alone, b, shape_of(algorithm), true);
    for (int i = 0; i < 4; i++) {
        write_inputs(&both[0]);
        copy_inputs(&both[1], &both[0]);
        copy_inputs(&alone, &both[0]);
        run(&alone);
        write_outputs(&both[0]);
        write_outputs(&both[1]);
        do_segment(b, both);
        check_outputs(&both[0], &alone, same(), "in a segment");
        check_outputs(&both[1], &alone, same(), "in a segment, the second direction");
    }
    CHECK_U64(spsh__cuda_segments_counted(b).launched, 2);
    check_algorithm(&alone, algorithm);
    layer_close(&alone);
    pair_close(both);
    spsh__backend_close(b);
}

/* If cuDNN needs more reserve than was allocated, the backend allocates one extra piece that grows.
 */
static void test_reserve(void)
{
    static const uint32_t frames[] = {2, 3, 6, 1, 4, 6};
    spsh__backend *b = open_backend(SPSH__FP16, false);
    const spsh__rnn_shape largest = {SPSH__CELL_LSTM, 6, 35, 6, 20};
    uint32_t open_memory = 0;
    layer l, other;
    spsh__cuda_rnn_choose(b, SPSH__RNN_CUDNN);
    layer_open(&other, b, &largest, true);
    layer_open(&l, b, &largest, true);
    write_inputs(&l);
    copy_inputs(&other, &l);
    run(&other);
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        l.s.frames = other.s.frames = frames[i];
        count_layer(&l);
        count_layer(&other);
        run(&l);
        run(&other);
        check_outputs(&l, &other, same(), "in a reserve that grows");
        if (i > 0 && twin != NULL)
            CHECK_U64(twin->open_memory, open_memory);
        open_memory = twin == NULL ? 0 : twin->open_memory;
    }
    layer_close(&l);
    layer_close(&other);
    spsh__backend_close(b);
}

/* --------------------------------------------------------------------------- excluded fallbacks */

static void check_choice(spsh__backend *b, const spsh__rnn_shape *s, spsh__rnn_algorithm asked,
                         spsh__rnn_algorithm algorithm)
{
    layer l;
    spsh__cuda_rnn_choose(b, asked);
    layer_open(&l, b, s, true);
    write_inputs(&l);
    CHECK_STR(spsh__cuda_rnn_text(b, s, true, 1), "");
    run(&l);
    check_algorithm(&l, algorithm);
    layer_close(&l);
}

static void test_refusals(void)
{
    const twin_rnn_controls before = *twin_rnn;
    spsh__rnn_shape s = shapes[4];
    spsh__backend *b = open_backend(SPSH__FP16, false);
    twin_rnn->blocks = 0;
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_CUDNN_PERSISTENT);
    char text[200];
    CHECK(spsh__cuda_rnn_news(b, text, sizeof(text)));
    CHECK_STR(text, "LSTM of 32 units, 128 inputs: cudnn-persistent, not persistent (the device "
                    "cannot launch cooperative grids)");
    s.frames++;
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_CUDNN_PERSISTENT); /* not queried again */
    CHECK(!spsh__cuda_rnn_news(b, text, sizeof(text)));
    s.batch++;
    check_choice(b, &s, SPSH__RNN_PERSISTENT, SPSH__RNN_CUDNN);
    twin_rnn->has_cudnn = 0;
    s.batch++;
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_STEPWISE);
    twin_rnn->blocks = before.blocks;
    twin_rnn->shared_bytes = 1024;
    s.batch++;
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_STEPWISE);
    twin_rnn->shared_bytes = before.shared_bytes;
    twin_rnn->has_cudnn = before.has_cudnn;
    spsh__backend_close(b);
}

/* A layer that fits no longer once multiprocessors are spared is offered to cuDNN anew. */
static void test_spared(void)
{
    const uint32_t blocks = twin_rnn->blocks;
    spsh__rnn_shape s = shapes[4];
    spsh__backend *b = open_backend(SPSH__FP16, false);
    twin_rnn->blocks = 4; /* as many as an LSTM needs */
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_PERSISTENT);
    spsh__backend_spare(b, 4);
    s.frames++;
    check_choice(b, &s, SPSH__RNN_AUTO, SPSH__RNN_CUDNN_PERSISTENT);
    twin_rnn->blocks = blocks;
    spsh__backend_close(b);
}

static void test_deterministic(void)
{
    spsh__backend *b = open_backend(SPSH__FP32, true);
    check_choice(b, &shapes[4], SPSH__RNN_AUTO, SPSH__RNN_STEPWISE);
    check_choice(b, &shapes[4], SPSH__RNN_CUDNN, SPSH__RNN_STEPWISE);
    check_choice(b, &shapes[4], SPSH__RNN_PERSISTENT, SPSH__RNN_PERSISTENT);
    spsh__backend_close(b);
    b = open_backend(SPSH__BF16, true);
    check_choice(b, &shapes[4], SPSH__RNN_AUTO, SPSH__RNN_PERSISTENT);
    check_choice(b, &shapes[4], SPSH__RNN_CUDNN_PERSISTENT, SPSH__RNN_STEPWISE);
    spsh__backend_close(b);
}

/* Deterministic mode gives identical bits, whatever ran before. */
static void test_same_bits(spsh__precision precision, const spsh__rnn_shape *s)
{
    spsh__backend *b = open_backend(precision, true);
    layer both[2];
    pair_open(both, b, s, true);
    write_inputs(&both[0]);
    copy_inputs(&both[1], &both[0]);
    run(&both[0]);
    for (int i = 0; i < 2; i++) {
        run(&both[1]);
        check_outputs(&both[1], &both[0], 0, "in deterministic mode");
    }
    pair_close(both);
    spsh__backend_close(b);
}

/* Empty shapes, and buffers of another type than the precision. */
static void test_edges(void)
{
    spsh__backend *b = open_backend(SPSH__FP32, false);
    const spsh__rnn_shape none[] = {
        {SPSH__CELL_LSTM, 0, 3, 4, 5},
        {SPSH__CELL_GRU,  3, 0, 4, 5},
    };
    layer l;
    for (int i = 0; i < 2; i++) {
        layer_open(&l, b, &none[i], true);
        forward(&l);
        backward(&l);
        layer_close(&l);
    }
    check_status(b);
    layer_open(&l, b, &shapes[1], true);
    l.inputs[W_HH].is_half = true;
    forward(&l);
    CHECK_I64(b->ops->status_fn(b, NULL), SPSH_E_INVALID_ARG);
    backward(&l);
    layer_close(&l);
    spsh__backend_close(b);
}

/* More lengths than the backend remembers: it closes the layers of the least recently used ones,
 * with their work in flight, and opens them again. */
static void test_many_lengths(void)
{
    enum { MANY = SPSH__RNN_CHOICES + 40 };
    spsh__backend *b = open_backend(SPSH__FP32, false);
    const spsh__rnn_shape largest = {SPSH__CELL_GRU, MANY, 1, 2, 2};
    layer l, again;
    spsh__cuda_rnn_choose(b, SPSH__RNN_CUDNN);
    layer_open(&l, b, &largest, true);
    layer_open(&again, b, &largest, true);
    write_inputs(&l);
    copy_inputs(&again, &l);
    for (uint32_t frames = 1; frames <= MANY; frames++) {
        l.s.frames = frames;
        forward(&l);
        l.s.frames = 1; /* in use all the time */
        forward(&l);
    }
    check_status(b);
    CHECK(twin_rnn->layers == 0 || twin_rnn->layers == SPSH__RNN_CHOICES);
    CHECK_STR(spsh__cuda_rnn_text(b, &l.s, true, l.passes), "cudnn");
    l.s.frames = 2;
    CHECK_STR(spsh__cuda_rnn_text(b, &l.s, true, l.passes), "");
    l.s.frames = again.s.frames = MANY;
    count_layer(&l);
    count_layer(&again);
    run(&l);
    run(&again);
    check_outputs(&l, &again, same(), "after many lengths");
    layer_close(&l);
    layer_close(&again);
    spsh__backend_close(b);
}

TEST_MAIN(unit_train_rnn_device)
{
    REQUIRE(argc == 2 || argc == 3);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    twin_rnn_controls_fn *rnn_controls_fn = NULL;
    void *symbol = spsh_cuda_symbol(cuda, TWIN_RNN_CONTROLS_SYMBOL);
    memcpy(&rnn_controls_fn, &symbol, sizeof(rnn_controls_fn));
    twin_rnn = rnn_controls_fn == NULL ? NULL : rnn_controls_fn();
    seed = test_seed(20261122);
    test_model_shapes(argc == 3);
    if (argc == 3) {
        spsh_cuda_close(cuda);
        return TEST_RESULT();
    }
    test_algorithms();
    for (int algorithm = SPSH__RNN_PERSISTENT; algorithm < SPSH__RNN_ALGORITHMS; algorithm++) {
        test_both((spsh__rnn_algorithm)algorithm, algorithm % 2 == 0 ? SPSH__FP16 : SPSH__BF16);
        test_segments((spsh__rnn_algorithm)algorithm, algorithm % 2 == 0 ? SPSH__FP32 : SPSH__FP16);
    }
    if (twin_rnn != NULL) {
        const uint32_t blocks = twin_rnn->blocks;
        twin_rnn->blocks = 4;
        test_both(SPSH__RNN_PERSISTENT, SPSH__FP16);
        twin_rnn->blocks = blocks;
    }
    test_reserve();
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
        test_same_bits(kinds[k].precision, &shapes[3]);
    test_edges();
    if (twin != NULL) {
        test_refusals();
        test_spared();
        test_deterministic();
        test_many_lengths();
        CHECK(twin_rnn->grids > 0);
        CHECK_U64(twin_rnn->layers, 0);
        CHECK_U64(twin->open_memory, 0);
    }
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

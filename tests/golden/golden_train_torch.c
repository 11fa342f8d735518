/* golden_train_torch.c: compare operators with train_operators.txt, which
 * train_operators_reference.py computes with PyTorch. That script describes inputs and checksums.
 */
#include <math.h>

#include "backend/backend.h"
#include "doubles.h"
#include "spsh_test.h"
#include "test_number.h"

static spsh__backend *b;
static const spsh__backend_ops *ops;
static spsh__backend_buffer buffers[256];
static size_t buffer_count;
static char golden[16384];

static double value(size_t i, size_t salt)
{
    return (double)((i * 7919 + salt * 104729) % 1009) / 504.5 - 1;
}

static spsh__backend_buffer zeros(size_t count)
{
    spsh__backend_buffer buffer = {NULL, false};
    REQUIRE(buffer_count < sizeof(buffers) / sizeof(buffers[0]));
    REQUIRE(ops->alloc_fn(b, count, &buffer, NULL) == SPSH_OK);
    buffers[buffer_count++] = buffer;
    return buffer;
}

static spsh__backend_buffer tensor(size_t salt, size_t count)
{
    const spsh__backend_buffer buffer = zeros(count);
    for (size_t i = 0; i < count; i++) {
        const double v = value(i, salt);
        put_doubles(b, spsh__at(ops, buffer, i), &v, 1);
    }
    return buffer;
}

/* Gradients of the loss. */
static spsh__backend_buffer weights_of_loss(size_t count)
{
    return tensor(90, count);
}

static double wanted(const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = golden; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return test_number(line + length + 1, NULL);
    }
    fprintf(stderr, "no line %s\n", name);
    REQUIRE(false);
    return 0;
}

static void check_sum(const char *name, double got)
{
    const double tolerance = ops->element_bytes == sizeof(double) ? 1e-12 : 5e-5;
    const double want = wanted(name);
    if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
        fprintf(stderr, "%s %s: got %.17g, want %.17g\n", ops->name, name, got, want);
    CHECK(fabs(got - want) <= tolerance * (1 + fabs(want)));
}

static void check(const char *operator, const char * part, spsh__backend_buffer from, size_t count)
{
    char name[64];
    double sum = 0;
    snprintf(name, sizeof(name), "%s%s%s", operator, part[0] == '\0' ? "" : ".", part);
    for (size_t i = 0; i < count; i++) {
        double x = 0;
        take_doubles(b, &x, spsh__at(ops, from, i), 1);
        sum += x * value(i, 91);
    }
    check_sum(name, sum);
}

static void conv(void)
{
    const spsh__conv_shape s = {2, 2, 3, 7, 9, 4, 9, 3, 5, 2, 1, 1, 2};
    const size_t in = 2 * 2 * 7 * 9, out = 2 * 3 * 4 * 9, kernel = 3 * 2 * 3 * 5;
    const spsh__conv_grad g = {.x = tensor(1, in),
                               .weight = tensor(2, kernel),
                               .dy = weights_of_loss(out),
                               .dx = zeros(in),
                               .dweight = zeros(kernel),
                               .dbias = zeros(3)};
    const spsh__backend_buffer y = zeros(out);
    ops->conv_forward_fn(b, &s, g.x, g.weight, tensor(3, 3), y);
    ops->conv_backward_fn(b, &s, &g);
    check("conv", "y", y, out);
    check("conv", "dx", g.dx, in);
    check("conv", "dweight", g.dweight, kernel);
    check("conv", "dbias", g.dbias, 3);
}

static spsh__norm_state norm_state(size_t channels)
{
    const spsh__norm_state state = {.weight = tensor(2, channels),
                                    .bias = tensor(3, channels),
                                    .running_mean = zeros(channels),
                                    .running_variance = zeros(channels),
                                    .batch_mean = zeros(channels),
                                    .batch_scale = zeros(channels)};
    for (size_t i = 0; i < channels; i++) {
        const double one = 1;
        put_doubles(b, spsh__at(ops, state.running_variance, i), &one, 1);
    }
    return state;
}

static void norm(const char *name, const spsh__norm_shape *s, const uint32_t *lengths)
{
    const size_t count = (size_t)s->batch * s->channels * s->frames * (s->is_conv ? s->bins : 1);
    const spsh__norm_state state = norm_state(s->channels);
    const spsh__norm_io io = {tensor(1, count), zeros(count)};
    const spsh__norm_grad g = {.x = io.x,
                               .dy = weights_of_loss(count),
                               .dx = zeros(count),
                               .dweight = zeros(s->channels),
                               .dbias = zeros(s->channels)};
    ops->norm_forward_fn(b, s, lengths, true, &state, &io);
    ops->norm_backward_fn(b, s, lengths, &state, &g);
    check(name, "y", io.y, count);
    check(name, "dx", g.dx, count);
    check(name, "dweight", g.dweight, s->channels);
    check(name, "dbias", g.dbias, s->channels);
    if (lengths != NULL)
        return;
    check(name, "mean", state.running_mean, s->channels);
    check(name, "variance", state.running_variance, s->channels);
    ops->norm_forward_fn(b, s, lengths, false, &state, &io);
    check(name, "used", io.y, count);
}

static void norms(void)
{
    const uint32_t lengths[3] = {4, 0, 2};
    const spsh__norm_shape conv_shape = {true, 2, 3, 4, 5, false, 0};
    const spsh__norm_shape rows = {false, 2, 3, 0, 4, false, 0};
    const spsh__norm_shape masked = {false, 3, 2, 0, 4, false, 0};
    norm("norm_conv", &conv_shape, NULL);
    norm("norm_rows", &rows, NULL);
    norm("norm_masked", &masked, lengths);
}

/* A layer of four inputs and three hidden units on five frames of three utterances, and the buffers
 * of its gradients. */
typedef struct direction {
    spsh__rnn_shape s;
    size_t gates;
    spsh__rnn_weights weights, gradients;
    spsh__backend_buffer x, y, reserve, dy, dx;
} direction;

#define IN  60u
#define OUT 45u

static direction direction_of(spsh__cell cell, size_t salt)
{
    direction d = {
        .s = {cell, 5, 3, 4, 3},
          .gates = cell == SPSH__CELL_LSTM ? 12 : 9
    };
    d.weights = (spsh__rnn_weights){tensor(salt, d.gates * 4), tensor(salt + 1, d.gates * 3),
                                    tensor(salt + 2, d.gates), tensor(salt + 3, d.gates)};
    d.gradients =
        (spsh__rnn_weights){zeros(d.gates * 4), zeros(d.gates * 3), zeros(d.gates), zeros(d.gates)};
    d.x = tensor(1, IN);
    d.y = zeros(OUT);
    d.reserve = zeros(ops->rnn_reserve_fn(&d.s));
    d.dy = weights_of_loss(OUT);
    d.dx = zeros(IN);
    return d;
}

static void forward(const direction *d)
{
    ops->rnn_forward_fn(b, &d->s, &d->weights, d->x, d->y, d->reserve);
}

static void backward(const direction *d)
{
    const spsh__rnn_grad g = {&d->weights, &d->gradients, d->x, d->y, d->reserve, d->dy, d->dx};
    ops->rnn_backward_fn(b, &d->s, &g);
}

static void one_direction(const char *name, spsh__cell cell)
{
    const direction d = direction_of(cell, 2);
    forward(&d);
    check(name, "y", d.y, OUT);
    backward(&d);
    check(name, "dx", d.dx, IN);
    check(name, "dinput", d.gradients.input, d.gates * 4);
    check(name, "drecurrent", d.gradients.recurrent, d.gates * 3);
    check(name, "dinput_bias", d.gradients.input_bias, d.gates);
    check(name, "drecurrent_bias", d.gradients.recurrent_bias, d.gates);
}

/* Two passes, the second on reversed utterances, must equal a packed batch in PyTorch. */
static void both_directions(const char *name, spsh__cell cell)
{
    const uint32_t lengths[3] = {5, 1, 3};
    const spsh__rows in = {5, 3, 4}, out = {5, 3, 3};
    const direction ahead = direction_of(cell, 2), back = direction_of(cell, 6);
    const spsh__backend_buffer turned = zeros(IN), turned_y = zeros(OUT);

    ops->reverse_fn(b, &in, lengths, ahead.x, back.x);
    forward(&ahead);
    forward(&back);
    ops->reverse_fn(b, &out, lengths, back.y, turned_y);
    ops->axpy_fn(b, 1, ahead.y, turned_y, OUT);
    ops->mask_rows_fn(b, &out, lengths, turned_y);
    check(name, "y", turned_y, OUT);

    ops->mask_rows_fn(b, &out, lengths, ahead.dy);
    ops->reverse_fn(b, &out, lengths, ahead.dy, back.dy);
    backward(&ahead);
    backward(&back);
    ops->reverse_fn(b, &in, lengths, back.dx, turned);
    ops->axpy_fn(b, 1, ahead.dx, turned, IN);
    check(name, "dx", turned, IN);
    check(name, "dinput", back.gradients.input, back.gates * 4);
    check(name, "drecurrent", ahead.gradients.recurrent, ahead.gates * 3);
}

static void recurrent(void)
{
    one_direction("lstm", SPSH__CELL_LSTM);
    one_direction("gru", SPSH__CELL_GRU);
    both_directions("lstm_both", SPSH__CELL_LSTM);
    both_directions("gru_both", SPSH__CELL_GRU);
}

static void lookahead(void)
{
    const spsh__lookahead l = {
        .frames = 6, .batch = 2, .width = 3, .context = 4, .weight = tensor(2, 12)};
    const spsh__lookahead_grad g = {tensor(1, 36), weights_of_loss(36), zeros(36), zeros(12)};
    const spsh__backend_buffer y = zeros(36);
    ops->lookahead_forward_fn(b, &l, g.x, y);
    ops->lookahead_backward_fn(b, &l, &g);
    check("lookahead", "y", y, 36);
    check("lookahead", "dx", g.dx, 36);
    check("lookahead", "dweight", g.dweight, 12);
}

static void rows_losses(void)
{
    const uint32_t states[6] = {0, 3, UINT32_MAX, 1, 4, 2};
    const spsh__backend_buffer y = zeros(30);
    spsh__cross_entropy c = {.rows = 6,
                             .width = 5,
                             .states = states,
                             .scale = 2,
                             .logits = tensor(1, 30),
                             .dlogits = zeros(30)};
    ops->log_softmax_fn(b, 6, 5, c.logits, y);
    check("log_softmax", "", y, 30);
    ops->cross_entropy_fn(b, &c);
    check_sum("cross_entropy", c.loss * value(0, 91));
    check("cross_entropy", "dx", c.dlogits, 30);
}

static void ctc(void)
{
    const uint32_t labels[5] = {1, 2, 2, 4, 3}, offsets[4] = {0, 4, 4, 5}, lengths[3] = {9, 5, 7};
    const double weights[3] = {1, 3, 0.5};
    const spsh__ctc_shape s = {9, 3, 5, 0, 1};
    const spsh__label_batch batch = {labels, offsets};
    spsh__ctc_result results[3];
    const spsh__ctc_io io = {tensor(1, 135), zeros(135), weights, results};
    ops->ctc_fn(b, &s, lengths, &batch, &io);
    check_sum("ctc", results[0].loss * value(0, 91) + results[1].loss * value(1, 91) +
                         results[2].loss * value(2, 91));
    check("ctc", "dx", io.dlogits, 135);
}

/* Three steps, on gradients 2, 3 and 4. */
static void optimiser(const char *name, const spsh__sgd *sgd, const spsh__adamw *adamw)
{
    spsh__update u = {
        .weights = tensor(1, 7),
        .moments = {zeros(7), zeros(7)},
        .count = 7,
        .decays = true,
        .gradient_scale = 1
    };
    for (uint64_t step = 1; step <= 3; step++) {
        u.gradients = tensor(1 + step, 7);
        if (sgd != NULL) {
            ops->sgd_fn(b, sgd, &u);
        } else {
            spsh__adamw now = *adamw;
            now.step = step;
            ops->adamw_fn(b, &now, &u);
        }
    }
    check(name, "", u.weights, 7);
}

static void optimisers(void)
{
    const spsh__sgd sgd = {0.125, 0, 0, false}, momentum = {0.125, 0.875, 0.25, false};
    const spsh__sgd nesterov = {0.125, 0.875, 0, true};
    const spsh__adamw adamw = {0.0625, 0.875, 0.75, 1e-6, 0.25, 0};
    optimiser("sgd", &sgd, NULL);
    optimiser("momentum", &momentum, NULL);
    optimiser("nesterov", &nesterov, NULL);
    optimiser("adamw", NULL, &adamw);
}

static void all_on(const char *backend)
{
    REQUIRE(spsh__backend_open(backend, 2, NULL, &b, NULL) == SPSH_OK);
    ops = b->ops;
    conv();
    norms();
    recurrent();
    lookahead();
    rows_losses();
    ctc();
    optimisers();
    CHECK(ops->status_fn(b, NULL) == SPSH_OK);
    while (buffer_count > 0)
        ops->free_fn(b, buffers[--buffer_count]);
    spsh__backend_close(b);
}

static void test_reference(void)
{
    all_on("reference");
}

static void test_cpu(void)
{
    all_on("cpu");
}

TEST_MAIN(golden_train_torch)
{
    char path[512];
    test_source_path(path, sizeof(path), "tests/golden/train_operators.txt");
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    golden[fread(golden, 1, sizeof(golden) - 1, file)] = '\0';
    fclose(file);
    RUN(test_reference);
    RUN(test_cpu);
    return TEST_RESULT();
}

/* unit_train_device.c PLUGIN [OTHER]: the backend `cuda`: every operator compared with the double
 * results of the reference, in each precision, its memory, lanes, segments, and failures. PLUGIN is
 * the host emulation or the real plug-in (77: no device). OTHER: a plug-in without the trainer's
 * part.
 *
 * Tolerances. Inputs are rounded to the precision before both backends see them, so that products
 * of two factors are exact. Two errors remain. One is float's error in sums: 2e-5 of the largest
 * value of an array, as with `cpu`. It covers a real device, which fuses multiplications and
 * additions, and the host emulation, which does not. The other is the rounding of intermediate
 * values to the precision. Each rounding is off by at most one unit, relative to its value. Number
 * of units per operator:
 *
 *     products, convolutions, rows    3     rounding of results, at most twice, and of addends
 *     norms                           8     x - mean cancels the common part
 *     recurrent layers               64     h and gates of every frame
 *
 * The unit is 2^-p with p bits of significand: 11 with tf32 and fp16, 8 with bf16.
 */
#include <locale.h>
#include <math.h>

#include "backend_cuda/backend_cuda_state.h"
#include "device_test.h"
#include "doubles.h"
#include "fault_alloc.h"
#include "operator_cases.h"
#include "spsh_test.h"

static spsh_error err;
static spsh_cuda *cuda;
static const spsh__backend_buffer no_bias;
static twin_controls *twin; /* NULL: a real device */
static const char *other_path;
static uint64_t seed;
static bool is_deterministic = true;
static const spsh__precision precisions[] = {SPSH__FP32, SPSH__TF32, SPSH__BF16, SPSH__FP16};
static const char *const precision_names[] = {"fp32", "tf32", "bf16", "fp16"};

enum { PRECISIONS = sizeof(precisions) / sizeof(precisions[0]) };

static spsh__backend *open_device(spsh__precision precision, bool has_graphs)
{
    const spsh__backend_options options = {.name = "cuda",
                                           .cuda = cuda,
                                           .precision = precision,
                                           .is_deterministic = is_deterministic,
                                           .has_graphs = has_graphs};
    spsh__backend *b = NULL;
    if (spsh__backend_open_with(&options, NULL, &b, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(b != NULL);
    return b;
}

static void check_status(spsh__backend *b)
{
    if (b->ops->status_fn(b, &err) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK(b->ops->status_fn(b, NULL) == SPSH_OK);
}

/* Everything that was opened is closed. */
static void check_nothing_is_open(void)
{
    if (twin == NULL)
        return;
    CHECK_U64(twin->open_memory, 0);
    CHECK_U64(twin->open_pinned, 0);
    CHECK_U64(twin->open_streams, 0);
    CHECK_U64(twin->open_events, 0);
    CHECK_U64(twin->open_graphs, 0);
}

/* Change the order of threads within blocks, and of streams. */
static void shuffle(uint64_t *random)
{
    if (twin == NULL)
        return;
    twin->order = (uint32_t)test_random(random);
    twin->seed = test_random(random);
}

/* ----------------------------------------------------------------------------------- operators */

static double tolerance_of(const operator_case *c, spsh__precision precision)
{
    const double units[] = {0, 0x1p-11, 0x1p-8, 0x1p-11};
    double depth = 3;
    if (strcmp(c->name, "norm") == 0)
        depth = 8;
    if (strcmp(c->name, "rnn") == 0)
        depth = 64;
    return 2e-5 + depth * units[precision];
}

static void compare(const operator_case *c, spsh__precision precision, const operator_results *got,
                    const operator_results *want)
{
    const double tolerance = tolerance_of(c, precision);
    REQUIRE(got->count == want->count);
    for (size_t k = 0, from = 0; k < want->end_count; from = want->ends[k++]) {
        double greatest = 1e-3, worst = 0;
        for (size_t i = from; i < want->ends[k]; i++) {
            greatest = fmax(greatest, fabs(want->values[i]));
            worst = isfinite(got->values[i]) ? fmax(worst, fabs(got->values[i] - want->values[i]))
                                             : (double)INFINITY;
        }
        if (worst <= tolerance * greatest)
            continue;
        fprintf(stderr, "%s, row %td, array %zu, %s: off by %g of %g\n", c->name,
                c - operator_cases, k, precision_names[precision], worst, greatest);
        CHECK(worst <= tolerance * greatest);
    }
}

static void check_case(spsh__backend *device, spsh__backend *reference, const operator_case *c,
                       spsh__precision precision, size_t number)
{
    const operator_results want = operator_case_run(reference, c, seed + number);
    const operator_results got = operator_case_run(device, c, seed + number);
    compare(c, precision, &got, &want);
    free(want.values);
    free(got.values);
}

/* Large cases run in two of the four precisions. */
static bool is_left_out(const operator_case *c, spsh__precision precision)
{
    return c->is_large && twin != NULL && precision != SPSH__FP32 && precision != SPSH__BF16;
}

static void test_operators_are_the_references(void)
{
    spsh__backend *reference = NULL;
    uint64_t random = seed;
    REQUIRE(spsh__backend_open("reference", 1, NULL, &reference, &err) == SPSH_OK);
    for (size_t p = 0; p < PRECISIONS; p++) {
        spsh__backend *device = open_device(precisions[p], false);
        operator_rounding = precisions[p];
        for (size_t i = 0; i < operator_case_count; i++) {
            const operator_case *c = &operator_cases[i];
            if (is_left_out(c, precisions[p]))
                continue;
            shuffle(&random);
            check_case(device, reference, c, precisions[p], i);
        }
        check_status(device);
        spsh__backend_close(device);
    }
    operator_rounding = SPSH__FP32;
    spsh__backend_close(reference);
    check_nothing_is_open();
}

/* Products with the algorithms that libraries prefer, in the same precision. */
static void test_products_as_libraries_like(void)
{
    spsh__backend *reference = NULL;
    REQUIRE(spsh__backend_open("reference", 1, NULL, &reference, &err) == SPSH_OK);
    is_deterministic = false;
    for (size_t p = 0; p < PRECISIONS; p++) {
        spsh__backend *device = open_device(precisions[p], false);
        operator_rounding = precisions[p];
        for (size_t i = 0; i < operator_case_count; i++) {
            const operator_case *c = &operator_cases[i];
            if ((strcmp(c->name, "gemm") != 0 && strcmp(c->name, "conv") != 0) ||
                (c->is_large && twin != NULL))
                continue;
            check_case(device, reference, c, precisions[p], i);
        }
        check_status(device);
        spsh__backend_close(device);
    }
    is_deterministic = true;
    operator_rounding = SPSH__FP32;
    spsh__backend_close(reference);
}

/* For any order of threads and streams. */
static void test_same_bits_each_time(void)
{
    uint64_t random = seed;
    for (size_t p = 0; p < PRECISIONS; p += 2) {
        spsh__backend *device = open_device(precisions[p], false);
        for (size_t i = 0; i < operator_case_count; i++) {
            const operator_case *c = &operator_cases[i];
            if (c->is_large && twin != NULL)
                continue;
            shuffle(&random);
            const operator_results one = operator_case_run(device, c, seed + i);
            shuffle(&random);
            const operator_results two = operator_case_run(device, c, seed + i);
            REQUIRE(one.count == two.count);
            CHECK(memcmp(one.values, two.values, one.count * sizeof(double)) == 0);
            free(one.values);
            free(two.values);
        }
        spsh__backend_close(device);
    }
}

/* -------------------------------------------------------------------------------------- memory */

static double value_of(size_t i)
{
    return (double)(i % 251) - 125;
}

/* More elements than fit in one transfer, at an offset, in float and in 16-bit memory. */
static void test_memory_goes_both_ways(void)
{
    const size_t count = 300007, first = 3;
    spsh__backend *b = open_device(SPSH__BF16, false);
    double *values = malloc(count * sizeof(*values));
    float *floats = malloc(count * sizeof(*floats));
    REQUIRE(values != NULL && floats != NULL);
    for (int is_half = 0; is_half < 2; is_half++) {
        spsh__backend_buffer one = {NULL, false}, two = {NULL, false};
        REQUIRE((is_half ? b->ops->alloc_half_fn : b->ops->alloc_fn)(b, count + first, &one,
                                                                     &err) == SPSH_OK);
        REQUIRE((is_half ? b->ops->alloc_half_fn : b->ops->alloc_fn)(b, count + first, &two,
                                                                     &err) == SPSH_OK);
        take_doubles(b, values, one, count);
        for (size_t i = 0; i < count; i++)
            REQUIRE(values[i] == 0);
        for (size_t i = 0; i < count; i++)
            floats[i] = (float)(values[i] = value_of(i));
        put_doubles(b, spsh__at(b->ops, one, first), values, count);
        b->ops->copy_fn(b, two, one, count + first);
        b->ops->zero_fn(b, one, count + first);
        memset(values, 0xa5, count * sizeof(*values));
        take_doubles(b, values, spsh__at(b->ops, two, first), count);
        for (size_t i = 0; i < count; i++)
            REQUIRE(values[i] == value_of(i));
        b->ops->write_f32_fn(b, one, floats, count);
        memset(floats, 0xa5, count * sizeof(*floats));
        b->ops->read_f32_fn(b, floats, one, count);
        for (size_t i = 0; i < count; i++)
            REQUIRE((double)floats[i] == value_of(i));
        b->ops->free_fn(b, one);
        b->ops->free_fn(b, two);
    }
    free(values);
    free(floats);
    check_status(b);
    spsh__backend_close(b);
}

typedef struct taken {
    uint32_t *to;
    uint32_t add;
} taken;

static void take(const void *user, const void *bytes)
{
    const taken *t = user;
    uint32_t value = 0;
    memcpy(&value, bytes, sizeof(value));
    *t->to = value + t->add;
}

/* A download arrives in finish_fn, not before. Then its staging space can be reused. finish_fn does
 * not wait for work that was enqueued after the download. */
static void test_downloads_come_with_finish(void)
{
    enum { COUNT = 3000 };
    spsh__backend *b = open_device(SPSH__FP32, false);
    spsh__backend_buffer memory = {NULL, false};
    static uint32_t got[COUNT];
    REQUIRE(b->ops->alloc_fn(b, COUNT, &memory, &err) == SPSH_OK);
    for (uint32_t pass = 0; pass < 3; pass++) {
        static uint32_t numbers[COUNT];
        for (uint32_t i = 0; i < COUNT; i++)
            numbers[i] = i * 7 + pass;
        memset(got, 0xff, sizeof(got));
        spsh__cuda_upload(b, memory.data, numbers, sizeof(numbers));
        memset(numbers, 0, sizeof(numbers));
        for (uint32_t i = 0; i < COUNT; i++) {
            const taken t = {&got[i], i};
            spsh__cuda_download(b, (const char *)memory.data + i * sizeof(uint32_t),
                                i == 5 ? 100 * sizeof(uint32_t) : sizeof(uint32_t), take, &t,
                                sizeof(t));
        }
        CHECK_U64(got[0], UINT32_MAX);
        b->ops->zero_fn(b, memory, COUNT);
        b->ops->finish_fn(b);
        if (twin != NULL) /* the memory of the host emulation is host memory */
            CHECK_U64(((const uint32_t *)memory.data)[COUNT - 1], 7 * (COUNT - 1) + pass);
        for (uint32_t i = 0; i < COUNT; i++)
            REQUIRE(got[i] == i * 8 + pass);
    }
    b->ops->free_fn(b, memory);
    check_status(b);
    spsh__backend_close(b);
}

/* ---------------------------------------------------------------------------------------- updates
 */

enum { UPDATED = 1300, UPDATE_ARRAYS = 4 }; /* more than one run per thread */

/* Weights, gradients, and two moments. */
static void open_update(spsh__backend *b, spsh__update *u)
{
    float values[UPDATED];
    uint64_t random = seed;
    spsh__backend_buffer *all[UPDATE_ARRAYS] = {&u->weights, &u->gradients, &u->moments[0],
                                                &u->moments[1]};
    for (int a = 0; a < UPDATE_ARRAYS; a++) {
        for (size_t i = 0; i < UPDATED; i++)
            values[i] = (float)(test_random(&random) % 1000) / 1000.0f;
        REQUIRE(b->ops->alloc_fn(b, UPDATED, all[a], &err) == SPSH_OK);
        b->ops->write_f32_fn(b, *all[a], values, UPDATED);
    }
    u->gradient_scale = 0.25;
}

static void close_update(spsh__backend *b, const spsh__update *u)
{
    b->ops->free_fn(b, u->weights);
    b->ops->free_fn(b, u->gradients);
    b->ops->free_fn(b, u->moments[0]);
    b->ops->free_fn(b, u->moments[1]);
}

static void do_update(spsh__backend *b, bool is_adamw, const spsh__update *u)
{
    const spsh__adamw adamw = {0.125, 0.9, 0.999, 1e-8, 0.5, 3};
    const spsh__sgd sgd = {
        .rate = 0.125, .momentum = 0.9, .is_nesterov = true, .weight_decay = 0.5};
    if (is_adamw)
        b->ops->adamw_fn(b, &adamw, u);
    else
        b->ops->sgd_fn(b, &sgd, u);
}

/* A slice of the arena, from element `offset` on, in one launch, and a launch per range. */
static void check_toggles(bool is_adamw, uint64_t offset)
{
    static const uint32_t toggles[] = {1, 2, 5, 9, 12}; /* blocks */
    spsh__backend *b = open_device(SPSH__FP32, false);
    spsh__update one = {.count = UPDATED, .toggles = toggles, .toggle_count = 5, .offset = offset};
    spsh__update many = {.offset = 0};
    float values[2][UPDATED];
    open_update(b, &one);
    open_update(b, &many);
    do_update(b, is_adamw, &one);
    for (size_t i = 0; i < UPDATED; i++) {
        const uint64_t block = (offset + i) / SPSH__UPDATE_BLOCK;
        spsh__update u = {.count = 1, .gradient_scale = many.gradient_scale};
        for (uint32_t k = 0; k < 5; k++)
            u.decays = toggles[k] <= block ? !u.decays : u.decays;
        u.weights = spsh__at(b->ops, many.weights, i);
        u.gradients = spsh__at(b->ops, many.gradients, i);
        u.moments[0] = spsh__at(b->ops, many.moments[0], i);
        u.moments[1] = spsh__at(b->ops, many.moments[1], i);
        do_update(b, is_adamw, &u);
    }
    b->ops->read_f32_fn(b, values[0], one.weights, UPDATED);
    b->ops->read_f32_fn(b, values[1], many.weights, UPDATED);
    for (size_t i = 0; i < UPDATED; i++)
        REQUIRE(values[0][i] == values[1][i]);
    check_status(b);
    for (int i = 0; i < 2; i++) {
        const spsh__update *u = i == 0 ? &one : &many;
        close_update(b, u);
    }
    spsh__backend_close(b);
}

static void test_updates_of_many_parameters(void)
{
    for (uint64_t offset = 0; offset <= 128; offset += 128) {
        check_toggles(true, offset);
        check_toggles(false, offset);
    }
    check_nothing_is_open();
}

typedef struct decision_case {
    spsh__step_rule rule;
    float gradient; /* replaces one gradient; 0: none */
    bool is_applied;
} decision_case;

static void check_equal_arrays(spsh__backend *b, spsh__backend_buffer got,
                               spsh__backend_buffer want)
{
    float values[2][UPDATED];
    b->ops->read_f32_fn(b, values[0], got, UPDATED);
    b->ops->read_f32_fn(b, values[1], want, UPDATED);
    for (size_t i = 0; i < UPDATED; i++)
        CHECK(values[0][i] == values[1][i]);
}

/* Two equal updates: the device decides about one, and the host about the other. */
static void check_decision(spsh__backend *b, bool is_adamw, const decision_case *c)
{
    spsh__update there = {.count = UPDATED, .decays = true}, here = there;
    spsh__decide decide = {.count = UPDATED, .rule = c->rule};
    double sum = -1;
    open_update(b, &there);
    open_update(b, &here);
    REQUIRE(b->ops->alloc_fn(b, SPSH__DECISION_ELEMENTS, &there.decision, &err) == SPSH_OK);
    if (c->gradient != 0) {
        b->ops->write_f32_fn(b, spsh__at(b->ops, there.gradients, 1000), &c->gradient, 1);
        b->ops->write_f32_fn(b, spsh__at(b->ops, here.gradients, 1000), &c->gradient, 1);
    }
    const double want = b->ops->square_sum_fn(b, here.gradients, UPDATED);
    const uint64_t waits = twin != NULL ? twin->waits : 0;
    decide.gradients = there.gradients;
    decide.decision = there.decision;
    decide.ret_square_sum = &sum;
    b->ops->decide_fn(b, &decide);
    do_update(b, is_adamw, &there);
    CHECK(twin == NULL || twin->waits == waits);
    spsh__backend_finish(b);
    CHECK(sum == want || (isnan(sum) && isnan(want)));
    const spsh__step_scale step = spsh__step_rule_apply(&c->rule, sum);
    CHECK(step.is_finite == c->is_applied);
    here.gradient_scale = step.scale;
    if (step.is_finite)
        do_update(b, is_adamw, &here);
    check_equal_arrays(b, there.weights, here.weights);
    check_equal_arrays(b, there.moments[0], here.moments[0]);
    check_equal_arrays(b, there.moments[1], here.moments[1]);
    check_status(b);
    close_update(b, &there);
    close_update(b, &here);
    b->ops->free_fn(b, there.decision);
}

/* Gradients of all cases have a norm of about 20. */
static void test_decisions(void)
{
    static const decision_case cases[] = {
        {{8, 0},        0,               true }, /* no clip */
        {{3, 2},        0,               true }, /* clipped */
        {{3, 1e3},      0,               true }, /* not clipped */
        {{1, 0},        3e38f,           true }, /* the square exceeds a float */
        {{65536, 2},    (float)INFINITY, false},
        {{3, 0},        (float)NAN,      false},
        {{0, 0},        0,               false}, /* no losses */
        {{5e-324, 0.5}, 0,               false}, /* the norm exceeds a double */
    };
    spsh__backend *b = open_device(SPSH__FP32, false);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_decision(b, true, &cases[i]);
        check_decision(b, false, &cases[i]);
    }
    spsh__backend_close(b);
    check_nothing_is_open();
}

/* ------------------------------------------------------------------------------------------ plans
 */

/* Convolve batches of 1 ... count shapes, and multiply matrices of as many. Return the number of
 * algorithms that the libraries were asked for. */
static uint64_t do_shapes(spsh__backend *b, uint32_t first, uint32_t end,
                          spsh__backend_buffer zeros)
{
    const uint64_t before = twin->heuristics;
    for (uint32_t i = first; i < end; i++) {
        const spsh__conv_shape shape = {.batch = 1 + i / 50,
                                        .in_channels = 1,
                                        .out_channels = 1,
                                        .in_bins = 1,
                                        .in_frames = 1 + i % 50,
                                        .out_bins = 1,
                                        .out_frames = 1 + i % 50,
                                        .kernel_bins = 1,
                                        .kernel_frames = 1,
                                        .stride_bins = 1,
                                        .stride_frames = 1};
        const spsh__gemm g = {.m = 1 + i / 50,
                              .n = 1 + i % 50,
                              .k = 1,
                              .a = zeros,
                              .b = zeros,
                              .c = spsh__at(b->ops, zeros, 65536),
                              .a_stride = 1,
                              .b_stride = 50,
                              .c_stride = 50};
        b->ops->conv_forward_fn(b, &shape, zeros, zeros, no_bias, spsh__at(b->ops, zeros, 65536));
        b->ops->gemm_fn(b, &g);
    }
    check_status(b);
    return twin->heuristics - before;
}

/* A run has some hundred shapes, which all keep their plans. With more, the recent ones do. */
static void test_plans_stay(void)
{
    spsh__backend *b = open_device(SPSH__FP32, false);
    spsh__backend_buffer zeros = {NULL, false};
    REQUIRE(b->ops->alloc_fn(b, 2 * 65536, &zeros, &err) == SPSH_OK);
    if (twin != NULL && do_shapes(b, 0, 1, zeros) > 0) { /* else there are no libraries */
        CHECK_U64(do_shapes(b, 1, 700, zeros), 2 * 699);
        CHECK_U64(do_shapes(b, 0, 700, zeros), 0);
        CHECK_U64(do_shapes(b, 700, 3000, zeros), 2 * 2300);
        CHECK(do_shapes(b, 2300, 3000, zeros) < 70);
        CHECK(do_shapes(b, 0, 700, zeros) > 350);
    }
    b->ops->free_fn(b, zeros);
    spsh__backend_close(b);
    check_nothing_is_open();
}

/* --------------------------------------------------------------------------------------- segments
 */

enum { ROWS = 24, WIDTH = 20, CONV_FRAMES = 40 };

static const spsh__conv_shape net_conv = {
    .batch = 2,
    .in_channels = 1,
    .out_channels = 3,
    .in_bins = 6,
    .in_frames = CONV_FRAMES,
    .out_bins = 3,
    .out_frames = CONV_FRAMES,
    .kernel_bins = 3,
    .kernel_frames = 5,
    .stride_bins = 2,
    .stride_frames = 1,
    .pad_bins = 1,
    .pad_frames = 2,
};

enum { CONV_IN = 2 * 6 * CONV_FRAMES, CONV_OUT = 2 * 3 * 3 * CONV_FRAMES, CONV_WEIGHTS = 45 };

/* A sample of all kinds of stream work, on both lanes. */
typedef struct net {
    spsh__backend *b;
    spsh__backend_buffer x, weight, bias, y[2], sum; /* products: each on its own lane */
    spsh__backend_buffer conv_x, conv_weight, conv_y, conv_dweight;
    uint32_t lengths[4];
} net;

static spsh__backend_buffer random_buffer(net *n, size_t count, uint64_t *random)
{
    spsh__backend_buffer buffer = {NULL, false};
    float *values = malloc(count * sizeof(*values));
    REQUIRE(values != NULL && n->b->ops->alloc_fn(n->b, count, &buffer, &err) == SPSH_OK);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(test_random(random) % 2001) / 1000.0f - 1.0f;
    n->b->ops->write_f32_fn(n->b, buffer, values, count);
    free(values);
    return buffer;
}

static void net_open(net *n, bool has_graphs)
{
    uint64_t random = seed;
    *n = (net){.b = open_device(SPSH__FP32, has_graphs)};
    n->x = random_buffer(n, (size_t)ROWS * WIDTH, &random);
    n->weight = random_buffer(n, (size_t)WIDTH * WIDTH, &random);
    n->bias = random_buffer(n, WIDTH, &random);
    n->y[0] = random_buffer(n, (size_t)ROWS * WIDTH, &random);
    n->y[1] = random_buffer(n, (size_t)ROWS * WIDTH, &random);
    n->sum = random_buffer(n, (size_t)ROWS * 2 * WIDTH, &random);
    n->conv_x = random_buffer(n, CONV_IN, &random);
    n->conv_weight = random_buffer(n, CONV_WEIGHTS, &random);
    n->conv_y = random_buffer(n, CONV_OUT, &random);
    n->conv_dweight = random_buffer(n, CONV_WEIGHTS, &random);
}

static void net_close(net *n)
{
    const spsh__backend_buffer all[] = {n->x,      n->weight,      n->bias,   n->y[0],
                                        n->y[1],   n->sum,         n->conv_x, n->conv_weight,
                                        n->conv_y, n->conv_dweight};
    check_status(n->b);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        n->b->ops->free_fn(n->b, all[i]);
    spsh__backend_close(n->b);
}

/* Before a step: the values that differ from step to step. */
static void net_batch(net *n, uint32_t step)
{
    const spsh__batch_lengths l = {n->lengths, n->lengths, 4};
    for (uint32_t i = 0; i < 4; i++)
        n->lengths[i] = (step + 2 * i) % 7;
    n->b->ops->batch_fn(n->b, &l);
    n->b->ops->scale_fn(n->b, 1.0 - 0.125 * step, n->x, (size_t)ROWS * WIDTH);
}

static void net_lane(const net *n, uint32_t lane)
{
    const spsh__backend_ops *ops = n->b->ops;
    const spsh__rows rows = {6, 4, WIDTH};
    const spsh__gemm g = {.b_transposed = lane == 1,
                          .m = ROWS,
                          .n = WIDTH,
                          .k = WIDTH,
                          .a = n->x,
                          .b = n->weight,
                          .c = n->y[lane],
                          .a_stride = WIDTH,
                          .b_stride = WIDTH,
                          .c_stride = WIDTH};
    spsh__cuda_choose_lane(n->b, lane);
    ops->gemm_fn(n->b, &g);
    ops->bias_forward_fn(n->b, ROWS, WIDTH, n->bias, n->y[lane]);
    ops->mask_rows_fn(n->b, &rows, n->lengths, n->y[lane]);
}

/* Combine the results of the lanes. */
static void net_side(const net *n, uint32_t lane)
{
    const spsh__backend_ops *ops = n->b->ops;
    const spsh__columns side = {ROWS,  WIDTH,    n->y[lane], spsh__at(ops, n->sum, lane * WIDTH),
                                WIDTH, 2 * WIDTH};
    ops->copy_columns_fn(n->b, &side);
}

static void net_work(const net *n)
{
    const spsh__backend_ops *ops = n->b->ops;
    const spsh__conv_grad g = {
        .x = n->conv_x, .weight = n->conv_weight, .dy = n->conv_y, .dweight = n->conv_dweight};
    spsh__cuda_fork(n->b);
    net_lane(n, 1);
    net_lane(n, 0);
    ops->conv_forward_fn(n->b, &net_conv, n->conv_x, n->conv_weight, no_bias, n->conv_y);
    spsh__cuda_join(n->b);
    net_side(n, 0);
    net_side(n, 1);
    ops->zero_fn(n->b, n->y[1], WIDTH);
    ops->conv_backward_fn(n->b, &net_conv, &g);
}

static void net_step(net *n, uint32_t step, uint64_t key, uint32_t number)
{
    const spsh__graph_segment segment = {key, number};
    net_batch(n, step);
    if (!n->b->ops->segment_begin_fn(n->b, &segment))
        net_work(n);
    n->b->ops->segment_end_fn(n->b);
}

/* Check that all results of both are the same. */
static void check_same(const net *a, const net *b)
{
    const spsh__backend_buffer pairs[][2] = {
        {a->y[0],         b->y[0]        },
        {a->y[1],         b->y[1]        },
        {a->sum,          b->sum         },
        {a->conv_y,       b->conv_y      },
        {a->conv_dweight, b->conv_dweight},
    };
    const size_t counts[] = {(size_t)ROWS * WIDTH, (size_t)ROWS * WIDTH, (size_t)ROWS * 2 * WIDTH,
                             CONV_OUT, CONV_WEIGHTS};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        float one[ROWS * 2 * WIDTH], two[ROWS * 2 * WIDTH];
        REQUIRE(counts[i] <= sizeof(one) / sizeof(one[0]));
        a->b->ops->read_f32_fn(a->b, one, pairs[i][0], counts[i]);
        b->b->ops->read_f32_fn(b->b, two, pairs[i][1], counts[i]);
        CHECK(memcmp(one, two, counts[i] * sizeof(float)) == 0);
    }
}

static void test_segments_are_what_was_kept(void)
{
    uint64_t random = seed;
    net plain, kept;
    net_open(&plain, false);
    net_open(&kept, true);
    for (uint32_t step = 0; step < 8; step++) {
        shuffle(&random);
        net_step(&plain, step, 77, 3);
        net_step(&kept, step, 77, 3);
        check_same(&plain, &kept);
    }
    const spsh__cuda_segment_counts none = spsh__cuda_segments_counted(plain.b);
    const spsh__cuda_segment_counts counts = spsh__cuda_segments_counted(kept.b);
    CHECK_U64(none.kept + none.launched + none.refused, 0);
    CHECK_U64(counts.begun, 8);
    CHECK_U64(counts.refused, 0);
    CHECK_U64(counts.kept, 1);
    CHECK_U64(counts.launched, 6);
    net_close(&plain);
    net_close(&kept);
    check_nothing_is_open();
}

/* If memory is freed, or scratch grows, all graphs are dropped and captured again. */
static void test_segments_go_with_memory(void)
{
    net plain, kept;
    net_open(&plain, false);
    net_open(&kept, true);
    for (uint32_t step = 0; step < 12; step++) {
        spsh__backend_buffer more = {NULL, false};
        if (step == 4) {
            REQUIRE(kept.b->ops->alloc_fn(kept.b, 10, &more, &err) == SPSH_OK);
            kept.b->ops->free_fn(kept.b, more);
        }
        if (step == 8)
            REQUIRE(spsh__cuda_scratch(kept.b, 0, 12345678) != NULL);
        net_step(&plain, step, 5, 0);
        net_step(&kept, step, 5, 0);
        check_same(&plain, &kept);
    }
    const spsh__cuda_segment_counts counts = spsh__cuda_segments_counted(kept.b);
    CHECK_U64(counts.kept, 3);
    CHECK_U64(counts.launched, 12 - 4); /* not at the first step, and not at the capture */
    net_close(&plain);
    net_close(&kept);
}

/* More shapes than graphs are kept. Two steps in a row capture a shape, and the oldest shapes are
 * evicted. Then segments of the last number that is allowed, and one past it. */
static void test_segments_of_many_shapes(void)
{
    net plain, kept;
    net_open(&plain, false);
    net_open(&kept, true);
    for (uint64_t i = 0; i < 2 * (SPSH__CUDA_KEYS + 9); i++) {
        net_step(&plain, (uint32_t)(i % 7), 1 + i / 2, 0);
        net_step(&kept, (uint32_t)(i % 7), 1 + i / 2, 0);
    }
    check_same(&plain, &kept);
    spsh__cuda_segment_counts counts = spsh__cuda_segments_counted(kept.b);
    CHECK_U64(counts.kept, SPSH__CUDA_KEYS + 9);
    CHECK_U64(counts.evicted, 9);
    CHECK_U64(counts.launched, 0);
    for (uint32_t step = 0; step < 4; step++) {
        for (uint64_t key = 1; key <= 25; key += 3)
            net_step(&kept, step, key, 63);
        net_step(&kept, step, 1, 64);
    }
    CHECK_U64(spsh__cuda_segments_counted(kept.b).kept, counts.kept + 9);
    net_close(&plain);
    net_close(&kept);
    check_nothing_is_open();
}

typedef struct odd_work {
    uint32_t *count;
    uint32_t good; /* number of times that enqueuing it succeeds */
} odd_work;

static spsh_status put_odd(spsh__backend *b, void *stream, const void *arguments,
                           spsh_error *odd_err)
{
    const odd_work *w = arguments;
    (void)b, (void)stream;
    if (++*w->count > w->good) {
        odd_err->status = SPSH_E_IO;
        return SPSH_E_IO;
    }
    return SPSH_OK;
}

/* Work that cannot be captured is enqueued at each step. That is not an error. */
static void test_segments_that_cannot_be_kept(void)
{
    net plain, kept;
    uint32_t count = 0;
    float value = 0;
    net_open(&plain, false);
    net_open(&kept, true);
    for (uint32_t step = 0; step < 6; step++) {
        const odd_work work = {&count, step <= 1 ? step + 1 : UINT32_MAX};
        const spsh__graph_segment segments[] = {
            {9, 0},
            {9, 1}
        };
        net_batch(&plain, step);
        net_batch(&kept, step);
        CHECK(!kept.b->ops->segment_begin_fn(kept.b, &segments[0]));
        spsh__cuda_put(kept.b, put_odd, &work, sizeof(work));
        net_work(&kept);
        kept.b->ops->segment_end_fn(kept.b);
        CHECK(!kept.b->ops->segment_begin_fn(kept.b, &segments[1]));
        kept.b->ops->read_f32_fn(kept.b, &value, kept.x, 1); /* waits */
        kept.b->ops->segment_end_fn(kept.b);
        net_work(&plain);
        check_same(&plain, &kept);
    }
    CHECK_U64(spsh__cuda_segments_counted(kept.b).refused, 2);
    CHECK_U64(spsh__cuda_segments_counted(kept.b).kept, 0);
    CHECK_U64(count, 7); /* once per step, and once more at the capture */
    net_close(&plain);
    net_close(&kept);
    check_nothing_is_open();
}

typedef struct note_work {
    void **streams; /* streams where it was enqueued */
    uint32_t *count;
} note_work;

static spsh_status put_note(spsh__backend *b, void *stream, const void *arguments,
                            spsh_error *note_err)
{
    const note_work *w = arguments;
    (void)b, (void)note_err;
    w->streams[(*w->count)++] = stream;
    return SPSH_OK;
}

/* A captured graph replays its work on the streams where it was captured. */
static void test_segments_keep_lanes(void)
{
    spsh__backend *b = open_device(SPSH__FP32, true);
    const spsh__graph_segment segment = {1, 0};
    void *streams[16] = {NULL};
    uint32_t count = 0;
    const note_work work = {streams, &count};
    for (uint32_t step = 0; step < 2; step++) {
        CHECK(!b->ops->segment_begin_fn(b, &segment));
        spsh__cuda_fork(b);
        for (uint32_t i = 0; i < 3; i++) {
            spsh__cuda_choose_lane(b, i % 2);
            spsh__cuda_put(b, put_note, &work, sizeof(work));
        }
        spsh__cuda_join(b);
        b->ops->segment_end_fn(b);
        CHECK_U64(spsh__cuda_lane(b), 0);
    }
    REQUIRE(count == 9); /* once per step, and once more at the capture */
    CHECK(streams[0] == b->ops->stream_fn(b) && streams[1] != streams[0]);
    for (uint32_t i = 3; i < count; i++)
        CHECK(streams[i] == streams[i % 3]);
    check_status(b);
    spsh__backend_close(b);
}

/* --------------------------------------------------------------------------------------- failures
 */

static void test_what_cannot_be_opened(void)
{
    static const struct {
        spsh__precision precision;
        uint32_t capability;
        const char *word;
    } rows[] = {
        {SPSH__BF16, 75, "bf16 needs a device of compute capability 8.0"},
        {SPSH__TF32, 75, "tf32 needs a device of compute capability 8.0"},
        {SPSH__FP16, 52, "fp16 needs a device of compute capability 5.3"},
    };
    spsh__backend *b = NULL;
    spsh__backend_options options = {.name = "cuda", .cuda = cuda};
    for (size_t i = 0; twin != NULL && i < sizeof(rows) / sizeof(rows[0]); i++) {
        twin->capability = rows[i].capability;
        options.precision = rows[i].precision;
        CHECK(spsh__backend_open_with(&options, NULL, &b, &err) == SPSH_E_UNSUPPORTED);
        CHECK(strstr(err.message, rows[i].word) != NULL);
        twin->capability = 90;
    }
    options.precision = SPSH__FP32;
    options.device = 1000;
    CHECK(spsh__backend_open_with(&options, NULL, &b, &err) == SPSH_E_INVALID_ARG);
    if (other_path != NULL) {
        spsh_cuda *other = NULL;
        REQUIRE(spsh_cuda_open(other_path, &other, &err) == SPSH_OK);
        options.device = 0;
        options.cuda = other;
        CHECK(spsh__backend_open_with(&options, NULL, &b, &err) == SPSH_E_UNSUPPORTED);
        CHECK(strstr(err.message, "cuDNN") != NULL);
        spsh_cuda_close(other);
    }
    CHECK(b == NULL);
    check_nothing_is_open();
}

static void test_every_allocation_failure(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        const spsh__backend_options options = {.name = "cuda", .cuda = cuda, .has_graphs = true};
        spsh__backend *b = NULL;
        REQUIRE(fail_at < 100);
        rc = spsh__backend_open_with(&options, &allocator, &b, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        spsh__backend_close(b);
        CHECK(fault.live_count == 0);
    }
    check_nothing_is_open();
}

/* The message gives the requested size and the free memory. An error about scratch is kept until
 * later. */
static void test_a_full_device(void)
{
    (void)setlocale(LC_NUMERIC, "C"); /* messages depend on the locale of the host program */
    spsh__backend *b = open_device(SPSH__FP32, false);
    spsh__backend_buffer memory = {NULL, false};
    const size_t too_many = twin != NULL ? 3000000 : (size_t)1 << 45;
    if (twin != NULL)
        twin->device_bytes = 10 << 20;
    CHECK(b->ops->alloc_fn(b, too_many, &memory, &err) == SPSH_E_NO_MEMORY);
    CHECK(strstr(err.message, "MiB") != NULL && strstr(err.message, "batch") != NULL);
    if (twin != NULL)
        CHECK(strstr(err.message, "cannot allocate 11.4 MiB more") != NULL);
    CHECK(b->ops->alloc_fn(b, SIZE_MAX / 2, &memory, &err) == SPSH_E_NO_MEMORY);
    CHECK(memory.data == NULL);
    check_status(b);
    CHECK(spsh__cuda_scratch(b, 0, 4 * too_many) == NULL);
    CHECK(b->ops->status_fn(b, &err) == SPSH_E_NO_MEMORY);
    CHECK(strstr(err.message, "MiB") != NULL);
    if (twin != NULL)
        twin->device_bytes = UINT64_C(8) << 30;
    spsh__backend_close(b);
    check_nothing_is_open();
}

/* If there is not enough memory for the work space of its fastest algorithm, a convolution uses a
 * smaller one. Its results are the same. */
static void test_a_convolution_makes_do(void)
{
    net n;
    float values[CONV_OUT] = {0}, with_less[CONV_OUT] = {0};
    uint64_t free_bytes = 0, all_bytes = 0;
    if (twin == NULL)
        return;
    for (uint32_t run = 0; run < 2; run++) {
        net_open(&n, false);
        REQUIRE(spsh_cuda_memory(cuda, 0, &free_bytes, &all_bytes, &err) == SPSH_OK);
        if (run == 1)
            twin->device_bytes = all_bytes - free_bytes + 200000;
        n.b->is_deterministic = false; /* otherwise, free memory must not choose an algorithm */
        n.b->ops->conv_forward_fn(n.b, &net_conv, n.conv_x, n.conv_weight, no_bias, n.conv_y);
        n.b->ops->read_f32_fn(n.b, run == 0 ? values : with_less, n.conv_y, CONV_OUT);
        check_status(n.b);
        twin->device_bytes = UINT64_C(8) << 30;
        net_close(&n);
    }
    for (size_t i = 0; i < CONV_OUT; i++)
        CHECK(values[i] == with_less[i]);
    check_nothing_is_open();
}

/* A device can be lost at any point of a step. The first failure is kept, no call waits forever,
 * reads return zeros, and all objects can be closed. */
static void test_a_lost_device(void)
{
    if (twin == NULL)
        return;
    bool was_lost = true;
    for (uint64_t after = 1; was_lost && after < 2000; after += 7) {
        net n;
        float values[4] = {1, 2, 3, 4};
        net_open(&n, true);
        twin->lost_after = twin->work_count + after;
        for (uint32_t step = 0; step < 4; step++)
            net_step(&n, step, 1, 0);
        n.b->ops->finish_fn(n.b);
        n.b->ops->read_f32_fn(n.b, values, n.sum, 4);
        was_lost = twin->is_lost;
        const spsh_status rc = n.b->ops->status_fn(n.b, &err);
        CHECK(rc == (was_lost ? SPSH_E_IO : SPSH_OK));
        if (was_lost) {
            for (uint32_t i = 0; i < 4; i++)
                CHECK(values[i] == 0);
            CHECK(err.message[0] != '\0');
        }
        twin->lost_after = 0;
        spsh__backend_close(n.b);
        twin->is_lost = false;
    }
    CHECK(!was_lost);
}

/* Lengths that no batch began with cause an error, not an invalid pointer. */
static void test_unknown_lengths(void)
{
    static const uint32_t lengths[] = {1, 2};
    spsh__backend *b = open_device(SPSH__FP32, false);
    CHECK(spsh__cuda_lengths(b, lengths) == NULL);
    CHECK(b->ops->status_fn(b, &err) == SPSH_E_INVALID_ARG);
    spsh__backend_close(b);
}

TEST_MAIN(unit_train_device)
{
    REQUIRE(argc == 2 || argc == 3);
    other_path = argc == 3 ? argv[2] : NULL;
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    seed = test_seed(20261122);
    RUN(test_operators_are_the_references);
    RUN(test_products_as_libraries_like);
    RUN(test_same_bits_each_time);
    RUN(test_memory_goes_both_ways);
    RUN(test_downloads_come_with_finish);
    RUN(test_updates_of_many_parameters);
    RUN(test_decisions);
    RUN(test_plans_stay);
    RUN(test_segments_are_what_was_kept);
    RUN(test_segments_go_with_memory);
    RUN(test_segments_of_many_shapes);
    RUN(test_segments_that_cannot_be_kept);
    RUN(test_segments_keep_lanes);
    RUN(test_what_cannot_be_opened);
    RUN(test_every_allocation_failure);
    RUN(test_a_full_device);
    RUN(test_a_convolution_makes_do);
    RUN(test_unknown_lengths);
    RUN(test_a_lost_device);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

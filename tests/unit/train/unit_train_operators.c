/* unit_train_operators.c: gradients of all operators by finite differences, in double. `cpu` is
 * compared with `reference` on each instruction set, and on one, two, and five threads. Also edge
 * cases of the operators. */
#include <math.h>

#include "backend_cpu/cpu.h"
#include "doubles.h"
#include "fault_alloc.h"
#include "operator_cases.h"
#include "spsh_test.h"

static uint64_t seed;

static spsh__backend *open_backend(const char *name, uint32_t threads)
{
    spsh__backend *b = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__backend_open(name, threads, NULL, &b, &err) != SPSH_OK)
        fprintf(stderr, "%s: %s\n", name, err.message);
    REQUIRE(b != NULL);
    return b;
}

static double *read_values(const operator_run *r, spsh__backend_buffer from, size_t count)
{
    double *values = malloc((count + 1) * sizeof(double));
    REQUIRE(values != NULL);
    take_doubles(r->b, values, from, count);
    return values;
}

/* ----------------------------------------------------------------------------- finite differences
 */

/* The loss is the sum of y * dy. */
static double loss_of(operator_run *r)
{
    r->c->forward_fn(r);
    double *y = read_values(r, r->y, r->y_count);
    double sum = 0;
    for (size_t i = 0; i < r->y_count; i++)
        sum += y[i] * r->dy_values[i];
    free(y);
    return sum;
}

static double difference(operator_run *r, const operator_input *input, size_t element)
{
    const double step = 1e-5;
    const spsh__backend_buffer at = spsh__at(r->ops, input->data, element);
    double value = 0, loss[2];
    take_doubles(r->b, &value, at, 1);
    for (int i = 0; i < 2; i++) {
        const double moved = i == 0 ? value + step : value - step;
        put_doubles(r->b, at, &moved, 1);
        loss[i] = loss_of(r);
    }
    put_doubles(r->b, at, &value, 1);
    return (loss[0] - loss[1]) / (2 * step);
}

static void check_gradient(operator_run *r, size_t number)
{
    const operator_input *input = &r->inputs[number];
    double *got = read_values(r, input->gradient, input->count);
    for (size_t i = 0; i < input->count && i < 400; i++) {
        const double want = difference(r, input, i) + (input->adds ? input->before[i] : 0);
        if (fabs(got[i] - want) <= 1e-7 * (1 + fabs(want)))
            continue;
        fprintf(stderr, "%s, row %td, input %zu, element %zu: %.12g, by differences %.12g\n",
                r->c->name, r->c - operator_cases, number, i, got[i], want);
        CHECK(got[i] == want);
        break;
    }
    free(got);
}

/* Without dx, all other gradients have the same bits. */
static void check_without_dx(operator_run *r)
{
    double *before[OPERATOR_INPUTS_MAX] = {NULL};
    for (size_t i = 1; i < r->input_count; i++)
        before[i] = read_values(r, r->inputs[i].gradient, r->inputs[i].count);
    r->is_without_dx = true;
    r->c->forward_fn(r);
    operator_run_backward(r);
    for (size_t i = 1; i < r->input_count; i++) {
        double *after = read_values(r, r->inputs[i].gradient, r->inputs[i].count);
        CHECK(before[i] != NULL &&
              memcmp(before[i], after, r->inputs[i].count * sizeof(double)) == 0);
        free(before[i]);
        free(after);
    }
    r->is_without_dx = false;
}

static void test_gradients(void)
{
    spsh__backend *b = open_backend("reference", 1);
    for (size_t i = 0; i < operator_case_count; i++) {
        operator_run r;
        if (operator_cases[i].backward_fn == NULL || operator_cases[i].is_large)
            continue;
        operator_run_open(&r, b, &operator_cases[i], seed + i);
        r.c->forward_fn(&r);
        operator_run_backward(&r);
        if (r.input_count > 1)
            check_without_dx(&r);
        r.c->forward_fn(&r);
        operator_run_backward(&r);
        for (size_t k = 0; k < r.input_count; k++)
            check_gradient(&r, k);
        operator_run_close(&r);
    }
    spsh__backend_close(b);
}

/* ----------------------------------------------------------------------------- one against another
 */

/* Float's error grows with the length of a value's sum, so it is relative to the largest value of
 * its array. */
static void compare_part(const operator_case *c, const double *got, const double *want,
                         size_t count)
{
    double greatest = 1e-3, worst = 0;
    for (size_t i = 0; i < count; i++) {
        greatest = fmax(greatest, fabs(want[i]));
        worst = isfinite(got[i]) ? fmax(worst, fabs(got[i] - want[i])) : (double)INFINITY;
    }
    if (worst <= 2e-5 * greatest)
        return;
    fprintf(stderr, "%s, row %td: off by %g of %g\n", c->name, c - operator_cases, worst, greatest);
    CHECK(worst <= 2e-5 * greatest);
}

enum { LEVELS_MAX = 3 };

/* A backend `cpu` for each instruction set that this processor has. */
static size_t open_levels(spsh__backend *levels[LEVELS_MAX])
{
    const spsh__cpu_kernels *const all[LEVELS_MAX] = {
        spsh__cpu_kernels_simd128(), spsh__cpu_kernels_avx2(), spsh__cpu_kernels_avx512()};
    size_t count = 0;
    for (size_t i = 0; i < LEVELS_MAX; i++) {
        if (all[i] == NULL)
            continue;
        printf("    %s\n", all[i]->name);
        levels[count] = open_backend("cpu", 2);
        spsh__cpu_of(levels[count++])->kernels = all[i];
    }
    return count;
}

static void compare(const operator_case *c, const operator_results *got,
                    const operator_results *want)
{
    CHECK_U64(got->count, want->count);
    for (size_t k = 0, from = 0; k < want->end_count; from = want->ends[k++])
        compare_part(c, got->values + from, want->values + from, want->ends[k] - from);
}

static void test_cpu_is_reference(void)
{
    spsh__backend *reference = open_backend("reference", 1), *levels[LEVELS_MAX];
    const size_t level_count = open_levels(levels);
    for (size_t i = 0; i < operator_case_count; i++) {
        const operator_case *c = &operator_cases[i];
        const operator_results want = operator_case_run(reference, c, seed + i);
        for (size_t l = 0; l < level_count; l++) {
            const operator_results got = operator_case_run(levels[l], c, seed + i);
            compare(c, &got, &want);
            free(got.values);
        }
        free(want.values);
    }
    for (size_t l = 0; l < level_count; l++)
        spsh__backend_close(levels[l]);
    spsh__backend_close(reference);
}

/* Twice on the same threads, then on others: identical bits. */
static void test_bits_of_any_threads(void)
{
    static const uint32_t threads[] = {1, 1, 2, 5};
    for (size_t k = 1; k < sizeof(threads) / sizeof(threads[0]); k++) {
        spsh__backend *one = open_backend("cpu", threads[0]),
                      *other = open_backend("cpu", threads[k]);
        for (size_t i = 0; i < operator_case_count; i++) {
            const operator_results want = operator_case_run(one, &operator_cases[i], seed + i);
            const operator_results got = operator_case_run(other, &operator_cases[i], seed + i);
            CHECK(memcmp(want.values, got.values, want.count * sizeof(double)) == 0);
            free(want.values);
            free(got.values);
        }
        spsh__backend_close(one);
        spsh__backend_close(other);
    }
}

/* ----------------------------------------------------------------------------- edges */

static const char *const backend_names[] = {"reference", "cpu"};
static spsh__backend *edge; /* backend under test */

static spsh__backend_buffer with_values(const double *values, size_t count)
{
    spsh__backend_buffer buffer = {NULL, false};
    REQUIRE(edge->ops->alloc_fn(edge, count, &buffer, NULL) == SPSH_OK);
    if (values != NULL)
        put_doubles(edge, buffer, values, count);
    return buffer;
}

static void check_values(spsh__backend_buffer buffer, const double *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double got = 0;
        take_doubles(edge, &got, spsh__at(edge->ops, buffer, i), 1);
        if (fabs(got - want[i]) > 1e-6 * (1 + fabs(want[i])))
            fprintf(stderr, "element %zu: got %.9g, want %.9g\n", i, got, want[i]);
        CHECK(fabs(got - want[i]) <= 1e-6 * (1 + fabs(want[i])));
    }
    edge->ops->free_fn(edge, buffer);
}

static void edge_memory(void)
{
    const float from[3] = {1.5f, -2.0f, 0.25f};
    float to[3] = {0};
    const double zeros[5] = {0}, want[5] = {0, 1.5, -2, 0.25, 0};
    spsh__backend_buffer a = with_values(NULL, 5), b = with_values(NULL, 5);
    edge->ops->write_f32_fn(edge, spsh__at(edge->ops, a, 1), from, 3);
    edge->ops->copy_fn(edge, b, a, 5);
    edge->ops->read_f32_fn(edge, to, spsh__at(edge->ops, b, 1), 3);
    for (int i = 0; i < 3; i++)
        CHECK(to[i] == from[i]);
    edge->ops->zero_fn(edge, a, 5);
    check_values(a, zeros, 5);
    check_values(b, want, 5);
    edge->ops->free_fn(edge, (spsh__backend_buffer){NULL, false});
}

/* keep 0: the content of c, even a NaN, is not read. */
static void edge_gemm_keep(void)
{
    const double a[2] = {2, 3}, b[2] = {5, 7}, c[1] = {(double)NAN}, want[1] = {31};
    spsh__gemm g = {.m = 1, .n = 1, .k = 2, .a_stride = 2, .b_stride = 1, .c_stride = 1};
    g.a = with_values(a, 2);
    g.b = with_values(b, 2);
    g.c = with_values(c, 1);
    edge->ops->gemm_fn(edge, &g);
    check_values(g.c, want, 1);
    edge->ops->free_fn(edge, g.a);
    edge->ops->free_fn(edge, g.b);
}

/* At 0 and at the limit the gradient is 0. In-place use is allowed. A NaN stays a NaN. */
static void edge_clip(void)
{
    const double x[6] = {-1, 0, 0.5, 20, 21, (double)NAN}, dy[6] = {1, 2, 3, 4, 5, 6};
    const double want[5] = {0, 0, 0.5, 20, 20}, want_dx[5] = {0, 0, 3, 0, 0};
    spsh__backend_buffer y = with_values(x, 6), g = with_values(dy, 6);
    double last = 0;
    edge->ops->clip_forward_fn(edge, 20, 6, y, y);
    edge->ops->clip_backward_fn(edge, 20, 6, y, g, g);
    take_doubles(edge, &last, spsh__at(edge->ops, y, 5), 1);
    CHECK(isnan(last));
    check_values(y, want, 5);
    check_values(g, want_dx, 5);
}

/* The frames [1, 3 | 100], with padding that counts or does not: mean and variance, running values,
 * y in the padding.
 */
static void edge_norm(void)
{
    const uint32_t lengths[1] = {2}, none[1] = {0};
    const double x[3] = {1, 3, 100}, one[1] = {1}, half[1] = {0.5};
    const double masked[3] = {-0.999995 + 0.5, 0.999995 + 0.5, 0};
    const double mean[1] = {0.1 * 2}, variance[1] = {0.9 + 0.1 * 2};
    spsh__norm_shape s = {.batch = 1, .channels = 1, .frames = 3};
    spsh__norm_io io = {with_values(x, 3), with_values(NULL, 3)};
    spsh__norm_state state = {.weight = with_values(one, 1),
                              .bias = with_values(half, 1),
                              .running_mean = with_values(NULL, 1),
                              .running_variance = with_values(one, 1),
                              .batch_mean = with_values(NULL, 1),
                              .batch_scale = with_values(NULL, 1)};
    edge->ops->norm_forward_fn(edge, &s, none, true, &state, &io);
    for (size_t i = 0; i < 3; i++) { /* nothing counts: the running values stay 0 and 1 */
        double got = 7;
        take_doubles(edge, &got, spsh__at(edge->ops, io.y, i), 1);
        CHECK(got == 0);
    }
    edge->ops->norm_forward_fn(edge, &s, lengths, true, &state, &io);
    check_values(io.y, masked, 3);
    check_values(state.running_mean, mean, 1);
    check_values(state.running_variance, variance, 1);
    edge->ops->free_fn(edge, io.x);
    edge->ops->free_fn(edge, state.weight);
    edge->ops->free_fn(edge, state.bias);
    edge->ops->free_fn(edge, state.batch_mean);
    edge->ops->free_fn(edge, state.batch_scale);
}

/* Two utterances of 2 and 0 of 3 frames. */
static void edge_masks(void)
{
    const uint32_t lengths[2] = {2, 0};
    const double x[6] = {1, 2, 3, 4, 5, 6}, of_rows[6] = {1, 0, 3, 0, 0, 0};
    const spsh__rows rows = {3, 2, 1};
    const spsh__backend_buffer a = with_values(x, 6);
    edge->ops->mask_rows_fn(edge, &rows, lengths, a);
    check_values(a, of_rows, 6);
}

/* Frames 4 and -4, and four frames of padding, which count as 0: the variance is 32 / 6. y is 5.96
 * and -0.96, clipped to 5 and 0, and 0 in the padding. So no gradient is left. */
static void edge_masked_norm(void)
{
    const uint32_t lengths[2] = {2, 0};
    const double nan = (double)NAN;
    const double x[6] = {4, -4, nan, nan, nan, nan}, weight[1] = {2}, bias[1] = {2.5};
    const double y[6] = {5, 0, 0, 0, 0, 0}, none[6] = {0}, dy[6] = {3, 5, nan, nan, 7, nan};
    spsh__norm_shape s = {.is_conv = true,
                          .batch = 2,
                          .channels = 1,
                          .bins = 1,
                          .frames = 3,
                          .counts_padding = true,
                          .clip = 5};
    const spsh__norm_io io = {with_values(x, 6), with_values(NULL, 6)};
    const spsh__norm_state state = {.weight = with_values(weight, 1),
                                    .bias = with_values(bias, 1),
                                    .running_mean = with_values(NULL, 1),
                                    .running_variance = with_values(NULL, 1),
                                    .batch_mean = with_values(NULL, 1),
                                    .batch_scale = with_values(NULL, 1)};
    const double variance[1] = {0.1 * 32 / 5}, scale[1] = {1 / sqrt(32.0 / 6 + 1e-5)};
    edge->ops->norm_forward_fn(edge, &s, lengths, true, &state, &io);
    const spsh__norm_grad g = {.x = io.x,
                               .dy = with_values(dy, 6),
                               .dx = with_values(dy, 6),
                               .dweight = with_values(NULL, 1),
                               .dbias = with_values(NULL, 1),
                               .y = io.y};
    edge->ops->norm_backward_fn(edge, &s, lengths, &state, &g);
    check_values(io.y, y, 6);
    check_values(state.running_variance, variance, 1);
    check_values(state.batch_scale, scale, 1);
    check_values(g.dx, none, 6);
    check_values(g.dweight, none, 1);
    check_values(g.dbias, none, 1);
    edge->ops->free_fn(edge, io.x);
    edge->ops->free_fn(edge, g.dy);
    edge->ops->free_fn(edge, state.weight);
    edge->ops->free_fn(edge, state.bias);
    edge->ops->free_fn(edge, state.running_mean);
    edge->ops->free_fn(edge, state.batch_mean);
}

/* Gradients count half, weights do not decay: SGD 2 - 1/4 * 2; AdamW 2 - 1/4 * 2 / (2 + 2). */
static void edge_updates(void)
{
    const spsh__sgd sgd = {.rate = 0.25, .weight_decay = 0.5};
    const spsh__adamw adamw = {0.25, 0.5, 0.75, 2, 0.5, 1};
    const double weight[1] = {2}, gradient[1] = {4}, by_sgd[1] = {1.5}, by_adamw[1] = {1.875};
    spsh__update u = {.weights = with_values(weight, 1), .count = 1, .gradient_scale = 0.5};
    u.gradients = with_values(gradient, 1);
    edge->ops->sgd_fn(edge, &sgd, &u);
    check_values(u.weights, by_sgd, 1);
    u.weights = with_values(weight, 1);
    u.moments[0] = with_values(NULL, 1);
    u.moments[1] = with_values(NULL, 1);
    edge->ops->adamw_fn(edge, &adamw, &u);
    check_values(u.weights, by_adamw, 1);
    for (int i = 0; i < 2; i++)
        edge->ops->free_fn(edge, u.moments[i]);
    edge->ops->free_fn(edge, u.gradients);
}

/* The first of two equal logits wins. A row without a state is not counted. */
static void edge_cross_entropy(void)
{
    const double logits[6] = {1, 1, 0, 3, -900, 900};
    const uint32_t states[3] = {0, UINT32_MAX, 0};
    const double want[6] = {-1, 1, 0, 0, -2, 2};
    spsh__cross_entropy c = {.rows = 3, .width = 2, .states = states, .scale = 2};
    c.logits = with_values(logits, 6);
    c.dlogits = c.logits;
    edge->ops->cross_entropy_fn(edge, &c);
    CHECK(fabs(c.loss - (log(2) + 1800)) < 1e-3);
    CHECK_U64(c.right, 1);
    check_values(c.logits, want, 6);
}

/* Losses of infeasible, empty, and NaN utterances without a gradient. */
static void edge_ctc(void)
{
    const uint32_t labels[4] = {1, 1, 1, 2}, offsets[4] = {0, 2, 2, 4}, lengths[3] = {2, 0, 2};
    const double weights[3] = {1, 1, 0}, zeros[18] = {0};
    double logits[18];
    for (size_t i = 0; i < 18; i++)
        logits[i] = i / 3 % 3 == 2 ? (double)NAN : 0.25 * (double)(i % 5);
    const spsh__ctc_shape s = {2, 3, 3, 0, 1};
    const spsh__label_batch batch = {labels, offsets};
    spsh__ctc_result found[3];
    spsh__ctc_io io = {with_values(logits, 18), with_values(logits, 18), weights, found};
    edge->ops->ctc_fn(edge, &s, lengths, &batch, &io);
    CHECK(found[0].is_infeasible && isinf(found[0].loss) && found[0].loss > 0);
    CHECK(!found[1].is_infeasible && found[1].loss == 0);
    CHECK(!isfinite(found[2].loss));
    check_values(io.dlogits, zeros, 18);
    edge->ops->free_fn(edge, io.logits);
}

/* The bits of differences on the host, and axpy. mine may be y. */
static void edge_mix(void)
{
    enum { COUNT = 50003 }; /* several pieces, and a rest */
    static float theirs[COUNT], mine[COUNT], start[COUNT], want[COUNT], got[COUNT];
    uint64_t random = 5;
    for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
        spsh__backend_buffer all[4];
        for (size_t i = 0; i < COUNT; i++) {
            theirs[i] = (float)(int64_t)test_random(&random);
            start[i] = (float)(int64_t)test_random(&random);
            mine[i] = is_in_place ? start[i] : (float)(int64_t)test_random(&random);
            want[i] = theirs[i] - mine[i];
        }
        const float *const from[4] = {theirs, mine, start, want};
        for (size_t k = 0; k < 4; k++) {
            all[k] = with_values(NULL, COUNT);
            edge->ops->write_f32_fn(edge, all[k], from[k], COUNT);
        }
        spsh__backend_buffer y = is_in_place ? all[1] : all[2], other = with_values(NULL, COUNT);
        edge->ops->copy_fn(edge, other, all[2], COUNT);
        edge->ops->axpy_fn(edge, 1.0 / 3, all[3], other, COUNT);
        edge->ops->read_f32_fn(edge, want, other, COUNT);
        edge->ops->mix_fn(edge, 1.0 / 3, all[0], all[1], y, COUNT);
        edge->ops->read_f32_fn(edge, got, y, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(strcmp(edge->ops->name, "cpu") == 0
                      ? got[i] == want[i]
                      : fabsf(got[i] - want[i]) <=
                            2e-7f * (fabsf(theirs[i]) + fabsf(mine[i]) + fabsf(start[i])));
        edge->ops->free_fn(edge, other);
        for (size_t k = 0; k < 4; k++)
            edge->ops->free_fn(edge, all[k]);
    }
}

/* The first of equals. -0 equals 0. Nothing exceeds a NaN at the beginning, and later ones exceed
 * nothing. */
static void edge_argmax(void)
{
    const double nan = (double)NAN, none = -(double)INFINITY;
    const double rows[] = {-1,   -1,  -1,  -2,  -1,   -1,   -3,   -0.0, 0,   -5,  -4,
                           -1.5, nan, nan, nan, none, none, none, none, nan, none};
    static const uint32_t want[] = {0, 1, 1, 2, 0, 0, 0};
    uint32_t got[7] = {0};
    const spsh__backend_buffer x = with_values(rows, 21);
    memset(got, 0xff, sizeof(got));
    edge->ops->argmax_fn(edge, 7, 3, x, got);
    for (size_t i = 0; i < 7; i++)
        CHECK_U64(got[i], want[i]);
    edge->ops->argmax_fn(edge, 0, 3, x, NULL);
    edge->ops->free_fn(edge, x);
}

static void test_edges(void)
{
    for (size_t i = 0; i < sizeof(backend_names) / sizeof(backend_names[0]); i++) {
        edge = open_backend(backend_names[i], 2);
        edge_memory();
        edge_mix();
        edge_argmax();
        edge_gemm_keep();
        edge_clip();
        edge_norm();
        edge_masks();
        edge_masked_norm();
        edge_updates();
        edge_cross_entropy();
        edge_ctc();
        CHECK(edge->ops->status_fn(edge, NULL) == SPSH_OK);
        spsh__backend_close(edge);
    }
}

/* ----------------------------------------------------------------------------- failures */

static void test_unknown_backend(void)
{
    spsh__backend *b = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh__backend_open("tpu", 1, NULL, &b, &err), SPSH_E_NOT_FOUND);
    CHECK(b == NULL && strstr(err.message, "tpu") != NULL);
    spsh__backend_close(NULL);
}

/* Open a backend, allocate, and run CTC on 9 frames. Return the first failure. */
static spsh_status open_and_use(const char *name, const spsh_allocator *allocator)
{
    spsh__backend *b = NULL;
    spsh__backend_buffer logits = {NULL, false};
    spsh_status rc = spsh__backend_open(name, 2, allocator, &b, NULL);
    if (rc != SPSH_OK)
        return rc;
    rc = b->ops->alloc_fn(b, 27, &logits, NULL);
    if (rc == SPSH_OK) {
        const uint32_t labels[2] = {1, 2}, offsets[2] = {0, 2}, lengths[1] = {9};
        const spsh__ctc_shape s = {9, 1, 3, 0, 1};
        const spsh__label_batch batch = {labels, offsets};
        spsh__ctc_result result = {0};
        const spsh__ctc_io io = {
            logits, {NULL, false},
             NULL, &result
        };
        b->ops->ctc_fn(b, &s, lengths, &batch, &io);
        rc = b->ops->status_fn(b, NULL);
        CHECK(b->ops->status_fn(b, NULL) == rc);
        CHECK(rc != SPSH_OK || result.loss > 0);
    }
    b->ops->free_fn(b, logits);
    spsh__backend_close(b);
    return rc;
}

static void test_every_allocation_failure(void)
{
    for (size_t i = 0; i < sizeof(backend_names) / sizeof(backend_names[0]); i++) {
        spsh_status rc = SPSH_E_NO_MEMORY;
        for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
            fault_alloc fault = {.fail_at = fail_at};
            const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
            REQUIRE(fail_at < 100);
            rc = open_and_use(backend_names[i], &allocator);
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
            CHECK(fault.live_count == 0);
            CHECK(rc != SPSH_OK || fail_at >= 3);
        }
    }
}

/* Scratch grows to the largest shape. A shape that was used before allocates nothing. */
static void test_second_time_takes_nothing(void)
{
    for (size_t i = 0; i < sizeof(backend_names) / sizeof(backend_names[0]); i++) {
        fault_alloc fault = {.fail_at = UINT64_MAX};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh__backend *b = NULL;
        REQUIRE(spsh__backend_open(backend_names[i], 2, &allocator, &b, NULL) == SPSH_OK);
        for (size_t k = 0; k < operator_case_count; k++) {
            operator_run r;
            uint64_t calls = 0;
            operator_run_open(&r, b, &operator_cases[k], seed);
            for (int pass = 0; pass < 2; pass++) {
                calls = fault.call_count;
                r.c->forward_fn(&r);
                if (r.c->backward_fn != NULL)
                    operator_run_backward(&r);
            }
            CHECK_U64(fault.call_count, calls);
            operator_run_close(&r);
        }
        spsh__backend_close(b);
        CHECK_I64(fault.live_count, 0);
    }
}

static void test_no_buffer_of_everything(void)
{
    spsh__backend *b = open_backend("reference", 1);
    spsh__backend_buffer buffer = {NULL, false};
    CHECK_I64(b->ops->alloc_fn(b, SIZE_MAX / 8, &buffer, NULL), SPSH_E_NO_MEMORY);
    CHECK_I64(b->ops->alloc_fn(b, SIZE_MAX / 2, &buffer, NULL), SPSH_E_NO_MEMORY);
    CHECK(buffer.data == NULL);
    spsh__backend_close(b);
}

TEST_MAIN(unit_train_operators)
{
    const bool is_whole = !test_wants_races(argc, argv);
    seed = test_seed(7);
    if (is_whole) /* test_bits_of_any_threads covers threads */
        RUN(test_gradients);
    RUN(test_edges);
    RUN(test_unknown_backend);
    RUN(test_every_allocation_failure);
    if (is_whole) {
        RUN(test_second_time_takes_nothing);
        RUN(test_no_buffer_of_everything);
        RUN(test_cpu_is_reference);
    }
    RUN(test_bits_of_any_threads);
    return TEST_RESULT();
}

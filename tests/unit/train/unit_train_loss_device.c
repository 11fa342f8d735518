/* unit_train_loss_device.c PLUGIN: the losses of the backend `cuda`, compared with the double
 * results of the reference: CTC of random batches and all edge cases, cross-entropy, log softmax.
 * Several orders of the threads must give identical bits. PLUGIN is the host emulation, or the real
 * plug-in (77: no device).
 */
#include <math.h>

#include "backend/backend.h"
#include "device_test.h"
#include "doubles.h"
#include "speechshard/inside.h"
#include "spsh_test.h"

/* Losses: relative error. Gradients: error relative to the scale. */
#define LOSS_TOLERANCE     1e-5
#define GRADIENT_TOLERANCE 1e-5

static spsh_error err;
static spsh_cuda *cuda;
static spsh__backend *reference, *device;
static twin_controls *twin; /* NULL: a real device */
static uint64_t seed;
static const uint32_t orders[] = {0, 1, 77, 12345};

enum { ORDERS = sizeof(orders) / sizeof(orders[0]) };

static void set_order(size_t i)
{
    if (twin != NULL)
        twin->order = orders[i];
}

static void check_status(void)
{
    const spsh_status rc = device->ops->status_fn(device, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
}

static void *test_take(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    REQUIRE(memory != NULL);
    memset(memory, 0xa5, bytes);
    return memory;
}

static spsh__backend_buffer buffer_of(spsh__backend *b, const double *values, size_t count)
{
    spsh__backend_buffer buffer = {NULL, false};
    REQUIRE(b->ops->alloc_fn(b, count + 1, &buffer, &err) == SPSH_OK);
    put_doubles(b, buffer, values, count);
    return buffer;
}

static double near_zero(uint64_t *random, double reach)
{
    return (double)(float)(((double)(test_random(random) >> 11) / 4503599627370496.0 - 1) * reach);
}

static uint32_t below(uint64_t *random, uint32_t end)
{
    return (uint32_t)(test_random(random) % end);
}

/* Read a buffer of either kind from the device. float16 values are first converted to float. */
static void read_back(spsh__backend_buffer from, double *to, size_t count)
{
    if (!from.is_half) {
        take_doubles(device, to, from, count);
        return;
    }
    spsh__backend_buffer floats = {NULL, false};
    REQUIRE(device->ops->alloc_fn(device, count + 1, &floats, &err) == SPSH_OK);
    device->ops->convert_fn(device, floats, from, count);
    take_doubles(device, to, floats, count);
    device->ops->free_fn(device, floats);
}

/* ---- CTC */

typedef struct batch {
    spsh__ctc_shape s;
    uint32_t *lengths, *labels, *offsets;
    double *weights;
    double *logits;
    size_t count; /* number of logits */
    double *want, *got;
    spsh__ctc_result *want_results, *got_results;
    bool is_half;
} batch;

static batch new_batch(spsh__ctc_shape s, uint32_t labels_max)
{
    batch one = {.s = s, .count = (size_t)s.frames * s.batch * s.symbols};
    one.lengths = test_take(s.batch * sizeof(uint32_t));
    one.labels = test_take((size_t)s.batch * labels_max * sizeof(uint32_t));
    one.offsets = test_take((s.batch + 1) * sizeof(uint32_t));
    one.weights = test_take(s.batch * sizeof(double));
    one.logits = test_take(one.count * sizeof(double));
    one.want = test_take(one.count * sizeof(double));
    one.got = test_take(one.count * sizeof(double));
    one.want_results = test_take(s.batch * sizeof(spsh__ctc_result));
    one.got_results = test_take(s.batch * sizeof(spsh__ctc_result));
    one.offsets[0] = 0;
    return one;
}

static void free_batch(batch *one)
{
    free(one->lengths), free(one->labels), free(one->offsets), free(one->weights);
    free(one->logits), free(one->want), free(one->got);
    free(one->want_results), free(one->got_results);
}

static void add_label(batch *one, uint32_t n, uint64_t *random, uint32_t count)
{
    uint32_t *labels = one->labels + one->offsets[n];
    for (uint32_t i = 0; i < count; i++) {
        const bool repeats = i > 0 && below(random, 4) == 0;
        labels[i] = repeats ? labels[i - 1] : below(random, one->s.symbols);
        while (labels[i] == one->s.blank)
            labels[i] = below(random, one->s.symbols);
    }
    one->offsets[n + 1] = one->offsets[n] + count;
}

/* Logits up to `reach`, rounded as on the device. */
static void fill(batch *one, uint64_t *random, double reach)
{
    for (size_t i = 0; i < one->count; i++)
        one->logits[i] = near_zero(random, reach);
}

static void run_ctc(spsh__backend *b, batch *one, double *gradients, spsh__ctc_result *results)
{
    const spsh__label_batch labels = {one->labels, one->offsets};
    spsh__ctc_io io = {.logits = buffer_of(b, one->logits, one->count),
                       .weights = one->weights,
                       .results = results};
    if (gradients != NULL)
        io.dlogits = buffer_of(b, one->want, one->count);
    const spsh__ctc_io floats = io;
    if (one->is_half && b == device) {
        REQUIRE(b->ops->alloc_half_fn(b, one->count + 1, &io.logits, &err) == SPSH_OK);
        REQUIRE(b->ops->alloc_half_fn(b, one->count + 1, &io.dlogits, &err) == SPSH_OK);
        b->ops->convert_fn(b, io.logits, floats.logits, one->count);
    }
    b->ops->ctc_fn(b, &one->s, one->lengths, &labels, &io);
    if (b->ops->finish_fn != NULL)
        b->ops->finish_fn(b);
    if (gradients != NULL && b == device)
        read_back(io.dlogits, gradients, one->count);
    else if (gradients != NULL)
        take_doubles(b, gradients, io.dlogits, one->count);
    if (one->is_half && b == device) {
        b->ops->free_fn(b, io.logits);
        b->ops->free_fn(b, io.dlogits);
    }
    b->ops->free_fn(b, floats.logits);
    if (floats.dlogits.data != NULL)
        b->ops->free_fn(b, floats.dlogits);
}

static bool is_near(double got, double want, double tolerance)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* tolerance: of gradients, relative to the scale. */
static void compare(const batch *one, double tolerance)
{
    uint64_t wrong = 0;
    for (uint32_t n = 0; n < one->s.batch; n++) {
        const spsh__ctc_result *got = &one->got_results[n], *want = &one->want_results[n];
        CHECK(got->is_infeasible == want->is_infeasible);
        if (!is_near(got->loss, want->loss, LOSS_TOLERANCE)) {
            fprintf(stderr, "utterance %u: loss %.9g, want %.9g\n", n, got->loss, want->loss);
            test_fail(__FILE__, __LINE__, "a loss");
        }
    }
    for (size_t i = 0; i < one->count; i++)
        wrong += !(fabs(one->got[i] - one->want[i]) <= tolerance * fmax(1, fabs(one->s.scale)));
    CHECK_U64(wrong, 0);
}

/* All orders give the reference's numbers, each with identical bits. Then the same without
 * gradients. */
static void check_batch(batch *one, double tolerance)
{
    const size_t bytes = one->count * sizeof(double);
    double *first = test_take(bytes);
    run_ctc(reference, one, one->want, one->want_results);
    for (size_t i = 0; i < ORDERS; i++) {
        set_order(i);
        run_ctc(device, one, one->got, one->got_results);
        check_status();
        compare(one, tolerance);
        if (i == 0)
            memcpy(first, one->got, bytes);
        CHECK(memcmp(first, one->got, bytes) == 0);
    }
    set_order(0);
    for (uint32_t n = 0; n < one->s.batch; n++)
        one->want_results[n] = one->got_results[n];
    run_ctc(device, one, NULL, one->got_results);
    for (uint32_t n = 0; n < one->s.batch; n++) {
        const double want = one->want_results[n].loss, got = one->got_results[n].loss;
        CHECK(got == want || (isnan(got) && isnan(want)));
    }
    free(first);
}

static void random_batch(uint64_t *random, bool is_half)
{
    static const uint32_t widths[] = {2, 5, 29, 33, 300};
    const uint32_t width = widths[below(random, 5)];
    batch one = new_batch((spsh__ctc_shape){.frames = 1 + below(random, 90),
                                            .batch = 1 + below(random, 6),
                                            .symbols = width,
                                            .blank = below(random, width),
                                            .scale = below(random, 2) == 0 ? 1 : 0.37},
                          100);
    one.is_half = is_half;
    fill(&one, random, below(random, 3) == 0 ? 30 : 3);
    for (uint32_t n = 0; n < one.s.batch; n++) {
        one.lengths[n] = below(random, 8) == 0 ? 0 : 1 + below(random, one.s.frames);
        one.weights[n] = below(random, 6) == 0 ? 0 : (double)(float)(0.25 * (1 + below(random, 6)));
        add_label(&one, n, random, below(random, one.lengths[n] * 2 / 3 + 2));
    }
    if (is_half) { /* the reference gets the rounded values */
        for (size_t i = 0; i < one.count; i++)
            one.logits[i] = (double)(float)(round(one.logits[i] * 4) / 4);
    }
    check_batch(&one, is_half ? 6e-3 : GRADIENT_TOLERANCE);
    free_batch(&one);
}

static void test_random_batches_are_the_references(void)
{
    uint64_t random = seed;
    for (int i = 0; i < 40; i++)
        random_batch(&random, false);
}

static void test_halves_are_taken_and_given(void)
{
    uint64_t random = seed + 1;
    for (int i = 0; device->has_half && i < 8; i++)
        random_batch(&random, true);
}

/* Infeasible, empty, no frames, a symbol of probability 0, and NaNs, in one batch. */
static void test_corners(void)
{
    enum { FRAMES = 9, SYMBOLS = 4, CORNERS = 10 };
    static const struct {
        uint32_t frames, count, labels[6];
    } corners[CORNERS] = {
        {9, 0, {0}      }, /* the path of blanks */
        {0, 0, {0}      }, /* no frames, no labels: 0 */
        {0, 1, {1}      }, /* infeasible */
        {4, 3, {1, 1, 1}}, /* infeasible: repeats */
        {5, 3, {1, 1, 1}}, /* one path */
        {9, 2, {1, 7}   }, /* not a symbol */
        {9, 2, {1, 0}   }, /* the blank */
        {9, 3, {1, 2, 1}}, /* a logit is NaN */
        {9, 3, {3, 2, 1}}, /* minus infinity in all frames */
        {9, 2, {1, 2}   }, /* a frame of only minus infinity */
    };
    batch one = new_batch(
        (spsh__ctc_shape){
            .frames = FRAMES, .batch = CORNERS, .symbols = SYMBOLS, .blank = 0, .scale = 2},
        6);
    uint64_t random = seed + 2;
    fill(&one, &random, 2);
    for (uint32_t n = 0; n < CORNERS; n++) {
        one.lengths[n] = corners[n].frames;
        one.weights[n] = 1;
        memcpy(one.labels + one.offsets[n], corners[n].labels, sizeof(corners[n].labels));
        one.offsets[n + 1] = one.offsets[n] + corners[n].count;
    }
    one.logits[(3 * CORNERS + 7) * SYMBOLS + 2] = (double)NAN;
    for (size_t t = 0; t < FRAMES; t++)
        one.logits[(t * CORNERS + 8) * SYMBOLS + 2] = (double)-INFINITY;
    for (size_t k = 0; k < SYMBOLS; k++)
        one.logits[(8 * CORNERS + 9) * SYMBOLS + k] = (double)-INFINITY;
    check_batch(&one, GRADIENT_TOLERANCE);
    CHECK(one.got_results[1].loss == 0 && isinf(one.got_results[2].loss));
    CHECK(one.got_results[3].is_infeasible && !one.got_results[4].is_infeasible);
    CHECK(isnan(one.got_results[7].loss) && isinf(one.got_results[8].loss));
    free_batch(&one);
}

/* Labels that exceed the memory of a block, with paths far below the range of float. */
static void test_long_labels(void)
{
    static const uint32_t counts[] = {1300, 700, 400, 2};
    batch one = new_batch(
        (spsh__ctc_shape){.frames = 1700, .batch = 4, .symbols = 3, .blank = 2, .scale = 1}, 1300);
    uint64_t random = seed + 3;
    fill(&one, &random, 20);
    for (uint32_t n = 0; n < 4; n++) {
        one.lengths[n] = 1700 - n;
        one.weights[n] = 1;
        add_label(&one, n, &random, counts[n]);
        uint32_t *labels = one.labels + one.offsets[n];
        for (uint32_t i = 1; i < counts[n]; i++) /* few repeats: feasible */
            labels[i] = i % 8 == 0 ? labels[i - 1] : 1 - labels[i - 1];
    }
    for (size_t t = 0; t < 1700; t++) /* exponents exceed the range of an integer */
        one.logits[(t * 4 + 3) * 3 + one.labels[one.offsets[3]]] = (double)-INFINITY;
    run_ctc(reference, &one, one.want, one.want_results);
    run_ctc(device, &one, one.got, one.got_results);
    check_status();
    CHECK(!one.want_results[0].is_infeasible && isinf(one.got_results[3].loss));
    /* A path of 1700 steps, each with a rounding. */
    compare(&one, 2e-4);
    free_batch(&one);
}

/* ---- cross-entropy, log softmax */

typedef struct rows {
    size_t rows;
    uint32_t width;
    double *logits, *want, *got, *want_losses, *got_losses;
    uint32_t *states;
} rows;

static rows new_rows(size_t count, uint32_t width, uint64_t *random)
{
    const size_t bytes = count * width * sizeof(double);
    rows r = {count, width, test_take(bytes), test_take(bytes), test_take(bytes), NULL, NULL, NULL};
    r.want_losses = test_take(count * sizeof(double));
    r.got_losses = test_take(count * sizeof(double));
    r.states = test_take(count * sizeof(uint32_t));
    for (size_t i = 0; i < count * width; i++)
        r.logits[i] = below(random, 4) == 0 ? 4 : near_zero(random, 4); /* repeated maximum */
    for (size_t i = 0; i < count; i++)
        r.states[i] = below(random, 5) == 0 ? UINT32_MAX : below(random, width);
    return r;
}

static void free_rows(rows *r)
{
    free(r->logits), free(r->want), free(r->got);
    free(r->want_losses), free(r->got_losses), free(r->states);
}

static spsh__cross_entropy run_entropy(spsh__backend *b, rows *r, double *gradients, double *losses,
                                       bool is_in_place)
{
    const size_t count = r->rows * r->width;
    spsh__cross_entropy c = {.rows = r->rows,
                             .width = r->width,
                             .states = r->states,
                             .scale = 0.75,
                             .logits = buffer_of(b, r->logits, count)};
    c.row_losses = losses;
    c.dlogits = is_in_place ? c.logits : buffer_of(b, r->want, count);
    b->ops->cross_entropy_fn(b, &c);
    if (b->ops->finish_fn != NULL)
        b->ops->finish_fn(b);
    take_doubles(b, gradients, c.dlogits, count);
    if (!is_in_place)
        b->ops->free_fn(b, c.dlogits);
    b->ops->free_fn(b, c.logits);
    return c;
}

static void check_entropy(size_t count, uint32_t width, uint64_t *random)
{
    rows r = new_rows(count, width, random);
    const spsh__cross_entropy want = run_entropy(reference, &r, r.want, r.want_losses, false);
    double first = 0;
    for (size_t i = 0; i < ORDERS; i++) {
        set_order(i);
        const spsh__cross_entropy got = run_entropy(device, &r, r.got, r.got_losses, i % 2 != 0);
        check_status();
        CHECK(is_near(got.loss, want.loss, LOSS_TOLERANCE));
        CHECK_U64(got.right, want.right);
        first = i == 0 ? got.loss : first;
        CHECK(got.loss == first);
        uint64_t wrong = 0;
        for (size_t k = 0; k < count * width; k++)
            wrong += !(fabs(r.got[k] - r.want[k]) <= GRADIENT_TOLERANCE);
        CHECK_U64(wrong, 0);
        for (size_t k = 0; k < count; k++)
            CHECK(is_near(r.got_losses[k], r.want_losses[k], LOSS_TOLERANCE));
        CHECK(run_entropy(device, &r, r.got, NULL, false).loss == first);
    }
    set_order(0);
    free_rows(&r);
}

static void test_cross_entropy(void)
{
    static const uint32_t widths[] = {1, 2, 7, 29, 256, 1000, 3000};
    uint64_t random = seed + 4;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        check_entropy(1 + below(&random, widths[i] > 500 ? 9 : 300), widths[i], &random);
    check_entropy(3, 32000, &random);
    check_entropy(20011, 2, &random);
}

static void test_no_rows_are_no_work(void)
{
    spsh__cross_entropy c = {.rows = 0, .width = 5, .loss = 7, .right = 7};
    const spsh__ctc_shape s = {.frames = 4, .batch = 0, .symbols = 3};
    const spsh__ctc_io io = {.results = NULL};
    device->ops->cross_entropy_fn(device, &c);
    device->ops->ctc_fn(device, &s, NULL, &(spsh__label_batch){NULL, NULL}, &io);
    device->ops->log_softmax_fn(device, 0, 4, (spsh__backend_buffer){NULL, false},
                                (spsh__backend_buffer){NULL, false});
    device->ops->finish_fn(device);
    check_status();
    CHECK(c.loss == 0 && c.right == 0);
}

static void test_log_softmax(void)
{
    static const uint32_t widths[] = {1, 3, 29, 300, 4000};
    uint64_t random = seed + 5;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        rows r = new_rows(1 + below(&random, 40), widths[i], &random);
        const size_t count = r.rows * r.width;
        const spsh__backend_buffer x = buffer_of(reference, r.logits, count);
        reference->ops->log_softmax_fn(reference, r.rows, r.width, x, x);
        take_doubles(reference, r.want, x, count);
        reference->ops->free_fn(reference, x);
        for (size_t k = 0; k < ORDERS; k++) {
            set_order(k);
            const spsh__backend_buffer in = buffer_of(device, r.logits, count);
            const spsh__backend_buffer out = k % 2 == 0 ? in : buffer_of(device, r.want, count);
            device->ops->log_softmax_fn(device, r.rows, r.width, in, out);
            take_doubles(device, r.got, out, count);
            for (size_t j = 0; j < count; j++)
                CHECK(is_near(r.got[j], r.want[j], 2e-6));
            if (out.data != in.data)
                device->ops->free_fn(device, out);
            device->ops->free_fn(device, in);
        }
        set_order(0);
        free_rows(&r);
    }
    check_status();
}

/* Widths with one thread per row, several, and a block. Few different values, so that most rows
 * have equals; rows of NaN, of -infinity, and of NaN for infinity, as log_softmax leaves them. */
static void check_argmax(spsh__backend *cpu, uint32_t row_count, uint32_t width, uint64_t *random)
{
    const size_t count = (size_t)row_count * width;
    float *values = malloc(count * sizeof(*values));
    uint32_t *want = calloc(row_count, sizeof(*want)), *got = calloc(row_count, sizeof(*got));
    REQUIRE(values != NULL && want != NULL && got != NULL);
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / width, kind = row % 9;
        const bool is_nan = kind == 6 || (kind == 7 && below(random, 3) == 0);
        values[i] = is_nan      ? NAN
                    : kind >= 7 ? -INFINITY
                                : -(float)below(random, kind == 0 ? 1000000 : 3);
    }
    for (size_t k = 0; k < ORDERS; k++) {
        spsh__backend *const both[] = {cpu, device};
        set_order(k);
        memset(got, 0xff, row_count * sizeof(*got));
        for (size_t i = 0; i < 2; i++) {
            spsh__backend *b = both[i];
            spsh__backend_buffer x = {NULL, false};
            REQUIRE(b->ops->alloc_fn(b, count, &x, &err) == SPSH_OK);
            b->ops->write_f32_fn(b, x, values, count);
            b->ops->argmax_fn(b, row_count, width, x, i == 0 ? want : got);
            spsh__backend_finish(b);
            b->ops->free_fn(b, x);
        }
        for (uint32_t i = 0; i < row_count; i++)
            CHECK_U64(got[i], want[i]);
    }
    set_order(0);
    free(values);
    free(want);
    free(got);
}

static void test_argmax_is_the_cpus(void)
{
    static const uint32_t widths[] = {1, 2, 7, 29, 256, 1000, 5000};
    spsh__backend *cpu = NULL;
    uint64_t random = seed + 6;
    REQUIRE(spsh__backend_open("cpu", 1, spsh_allocator_default(), &cpu, &err) == SPSH_OK);
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        check_argmax(cpu, 1 + below(&random, widths[i] > 500 ? 40 : 600), widths[i], &random);
    check_argmax(cpu, 9, 32000, &random);
    spsh__backend_close(cpu);
    check_status();
}

static spsh__backend *open_device(spsh__precision precision)
{
    const spsh__backend_options options = {
        .name = "cuda", .cuda = cuda, .precision = precision, .is_deterministic = true};
    spsh__backend *b = NULL;
    const spsh_status rc = spsh__backend_open_with(&options, spsh_allocator_default(), &b, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    return b;
}

TEST_MAIN(unit_train_loss_device)
{
    REQUIRE(argc == 2);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    seed = test_seed(20261122);
    REQUIRE(spsh__backend_open("reference", 1, spsh_allocator_default(), &reference, &err) ==
            SPSH_OK);
    device = open_device(SPSH__FP32);
    RUN(test_random_batches_are_the_references);
    RUN(test_corners);
    RUN(test_long_labels);
    RUN(test_cross_entropy);
    RUN(test_no_rows_are_no_work);
    RUN(test_log_softmax);
    RUN(test_argmax_is_the_cpus);
    spsh__backend_close(device);
    for (spsh__precision p = SPSH__BF16; p <= SPSH__FP16; p++) {
        device = open_device(p);
        RUN(test_halves_are_taken_and_given);
        spsh__backend_close(device);
    }
    spsh__backend_close(reference);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

/* unit_train_model.c: shapes and counts of the models, their arenas and initial values, and valid
 * batches. The test also checks that backward is the derivative of forward.
 *
 * That check uses doubles, and central differences of the whole model with its loss.
 */
#include <math.h>

#include "doubles.h"
#include "fault_alloc.h"
#include "model/model.h"
#include "spsh_test.h"

enum { BATCH = 3, BATCH_MAX = 4, FRAMES_MAX = 16, OUT_MAX = 512 };

/* ---- a backend that only counts: models of any size need no memory */

static char nothing[256];

static spsh_status count_alloc(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                               spsh_error *err)
{
    (void)err;
    *(uint64_t *)b->state += count * sizeof(float);
    ret->data = nothing;
    return SPSH_OK;
}

static void count_free(spsh__backend *b, spsh__backend_buffer buffer)
{
    (void)b;
    (void)buffer;
}

static void count_zero(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    (void)b;
    (void)to;
    (void)count;
}

static void count_write(spsh__backend *b, spsh__backend_buffer to, const float *from, size_t count)
{
    (void)b;
    (void)to;
    (void)from;
    (void)count;
}

static size_t count_reserve(const spsh__rnn_shape *s)
{
    return (size_t)s->frames * s->batch * s->hidden * 6;
}

static const spsh__backend_ops counting_ops = {.name = "counting",
                                               .element_bytes = sizeof(float),
                                               .alloc_fn = count_alloc,
                                               .free_fn = count_free,
                                               .zero_fn = count_zero,
                                               .write_f32_fn = count_write,
                                               .rnn_reserve_fn = count_reserve};

static spsh__model *open_counting(spsh__backend *b, const spsh__model_shape *shape)
{
    static uint64_t bytes;
    spsh__model_limits limits = {1, 100, 100};
    spsh__model *model = NULL;
    *b = (spsh__backend){.ops = &counting_ops,
                         .allocator = *spsh_allocator_default(),
                         .threads = 1,
                         .state = &bytes};
    REQUIRE(spsh__model_open(b, shape, &limits, &model, NULL) == SPSH_OK);
    return model;
}

static spsh__model_shape preset(const char *name, uint32_t inputs, uint32_t outputs)
{
    spsh__model_shape shape = {.inputs = inputs, .outputs = outputs};
    REQUIRE(spsh__model_preset(name, &shape, NULL) == SPSH_OK);
    CHECK(shape.inputs == inputs && shape.outputs == outputs);
    return shape;
}

static uint64_t weights_of(const spsh__model_shape *shape)
{
    spsh__backend b;
    spsh__model *model = open_counting(&b, shape);
    uint64_t count = spsh__model_weight_count(model);
    spsh__model_close(model);
    return count;
}

static void test_published_counts(void)
{
    spsh__model_shape shape = preset("ds2", 161, 29);
    CHECK_U64(weights_of(&shape), 86618400);
    shape.inputs = 81; /* 8 kHz */
    CHECK_U64(weights_of(&shape), 81375520);
    shape = preset("ds2", 161, 29);
    shape.is_bidirectional = false;
    shape.lookahead = 20;
    CHECK_U64(weights_of(&shape), 43475232);
    shape = preset("ds2", 161, 29);
    shape.cell = SPSH__CELL_GRU;
    shape.hidden = 800;
    CHECK_U64(weights_of(&shape), 41187968);
    shape = preset("ds2-small", 161, 29);
    CHECK_U64(weights_of(&shape), 5580832);
    shape = preset("ds2-tiny", 161, 29);
    CHECK_U64(weights_of(&shape), 1139728);
    shape = preset("lstm-hybrid", 260, 32000);
    CHECK_U64(weights_of(&shape), 43130368);
    CHECK_I64(spsh__model_preset("ds3", &shape, NULL), SPSH_E_NOT_FOUND);
}

/* Slices are in order, aligned, and do not overlap. Buckets tile the arena and hold whole slices.
 */
static void check_layout(const spsh__model *model)
{
    uint64_t end = 0, weights = 0, bucket_end = 0;
    uint32_t bucket = 0, slices = spsh__model_parameter_count(model);
    for (uint32_t i = 0; i < slices; i++) {
        const spsh__parameter *p = spsh__model_parameter(model, i);
        uint64_t count = 1, begin = 0, size = 0;
        for (uint32_t d = 0; d < p->rank; d++)
            count *= p->shape[d];
        CHECK_U64(p->count, count);
        CHECK(p->offset >= end && p->offset < end + 64 && p->offset % 64 == 0);
        CHECK(p->bucket == bucket || p->bucket == bucket + 1);
        bucket = p->bucket;
        spsh__model_bucket(model, bucket, &begin, &size);
        CHECK(p->offset >= begin && p->offset + p->count <= begin + size);
        for (uint32_t j = 0; j < i; j++)
            CHECK(strcmp(p->name, spsh__model_parameter(model, j)->name) != 0);
        end = p->offset + p->count;
        weights += p->count;
    }
    CHECK_U64(bucket + 1, spsh__model_bucket_count(model));
    CHECK_U64(weights, spsh__model_weight_count(model));
    for (uint32_t i = 0; i <= bucket; i++) {
        uint64_t begin = 0, size = 0;
        spsh__model_bucket(model, i, &begin, &size);
        CHECK_U64(begin, bucket_end);
        CHECK(size >= 1 << 18 || i + 1 >= bucket); /* the last bucket may be a single unit */
        bucket_end = begin + size;
    }
    CHECK_U64(bucket_end, spsh__model_arena_elements(model));
}

static void test_layout(void)
{
    static const struct {
        const char *name;
        uint32_t inputs, outputs, buckets;
        const char *first, *last;
    } rows[] = {
        {"ds2",         161, 29,    12, "output.weight", "conv1.bias"       },
        {"ds2-tiny",    81,  29,    4,  "output.weight", "conv1.bias"       },
        {"lstm-hybrid", 260, 32000, 14, "output.weight", "rnn1.forward.b_ih"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh__backend b;
        spsh__model_shape shape = preset(rows[i].name, rows[i].inputs, rows[i].outputs);
        spsh__model *model = open_counting(&b, &shape);
        uint32_t slices = spsh__model_parameter_count(model);
        check_layout(model);
        CHECK_STR(spsh__model_parameter(model, 0)->name, rows[i].first);
        CHECK_STR(spsh__model_parameter(model, slices - 1)->name, rows[i].last);
        CHECK_U64(spsh__model_bucket_count(model), rows[i].buckets);
        spsh__model_close(model);
    }
}

static void test_refused_shapes(void)
{
    static const struct {
        size_t offset;
        uint32_t value;
    } rules[] = {
        {offsetof(spsh__model_shape, kind),          2      },
        {offsetof(spsh__model_shape, cell),          2      },
        {offsetof(spsh__model_shape, inputs),        0      },
        {offsetof(spsh__model_shape, inputs),        65537  },
        {offsetof(spsh__model_shape, conv_channels), 0      },
        {offsetof(spsh__model_shape, layers),        0      },
        {offsetof(spsh__model_shape, layers),        17     },
        {offsetof(spsh__model_shape, hidden),        0      },
        {offsetof(spsh__model_shape, hidden),        16385  },
        {offsetof(spsh__model_shape, lookahead),     20     }, /* both directions see all frames */
        {offsetof(spsh__model_shape, bottleneck),    256    },
        {offsetof(spsh__model_shape, outputs),       1      },
        {offsetof(spsh__model_shape, outputs),       4194305},
    };
    uint64_t bytes = 0;
    spsh__backend b = {.ops = &counting_ops,
                       .allocator = *spsh_allocator_default(),
                       .threads = 1,
                       .state = &bytes};
    spsh__model_limits limits = {1, 100, 100};
    spsh__model *model = NULL;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        spsh__model_shape shape = preset("ds2-tiny", 81, 29);
        memcpy((char *)&shape + rules[i].offset, &rules[i].value, sizeof(rules[i].value));
        CHECK_I64(spsh__model_open(&b, &shape, &limits, &model, NULL), SPSH_E_INVALID_ARG);
    }
    for (int i = 0; i < 3; i++) {
        spsh__model_shape shape = preset("ds2-tiny", 81, 29);
        spsh__model_limits none = {i == 0 ? 0 : 1, i == 1 ? 0 : 1, i == 2 ? 0 : 1};
        CHECK_I64(spsh__model_open(&b, &shape, &none, &model, NULL), SPSH_E_INVALID_ARG);
    }
    CHECK(model == NULL && bytes == 0);
}

/* ---- small models */

static const char *backend_name;
static uint64_t seed;
static double rounding; /* tolerance for values that differ only by the order of sums */

typedef struct rig {
    spsh__backend *backend;
    const spsh__backend_ops *ops;
    spsh__model *model;
    spsh__model_shape shape;
    uint64_t random;
    uint32_t batch, frames;
    uint32_t lengths[BATCH_MAX], out_lengths[BATCH_MAX];
    float features[BATCH_MAX * FRAMES_MAX * 8];
    uint32_t labels[16], label_offsets[BATCH_MAX + 1];
    uint32_t states[BATCH_MAX * FRAMES_MAX];
} rig;

static void open_rig_threads(rig *r, const spsh__model_shape *shape, uint32_t threads)
{
    *r = (rig){.shape = *shape, .random = seed, .batch = BATCH, .frames = 11};
    spsh__model_limits limits = {BATCH_MAX, FRAMES_MAX, BATCH_MAX * FRAMES_MAX};
    REQUIRE(shape->inputs <= 8);
    REQUIRE(spsh__backend_open(backend_name, threads, spsh_allocator_default(), &r->backend,
                               NULL) == SPSH_OK);
    r->ops = r->backend->ops;
    REQUIRE(spsh__model_open(r->backend, shape, &limits, &r->model, NULL) == SPSH_OK);
    spsh__model_init(r->model, 1);
    for (size_t i = 0; i < sizeof(r->features) / sizeof(r->features[0]); i++)
        r->features[i] = (float)(test_random(&r->random) >> 40) / (float)(1 << 23) - 1;
    memcpy(r->lengths, (uint32_t[]){11, 6, 8}, BATCH * sizeof(uint32_t));
    memcpy(r->labels, (uint32_t[]){1, 2, 2, 1}, 4 * sizeof(uint32_t));
    memcpy(r->label_offsets, (uint32_t[]){0, 3, 4, 4}, (BATCH + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < BATCH_MAX * FRAMES_MAX; i++)
        r->states[i] = (uint32_t)(test_random(&r->random) % shape->outputs);
}

static void open_rig(rig *r, const spsh__model_shape *shape)
{
    open_rig_threads(r, shape, 2);
}

static void close_rig(rig *r)
{
    CHECK(r->ops->status_fn(r->backend, NULL) == SPSH_OK);
    spsh__model_close(r->model);
    spsh__backend_close(r->backend);
}

static spsh__backend_buffer forward(rig *r, bool is_training)
{
    spsh__backend_buffer logits = {NULL, false};
    spsh__model_batch batch = {
        .features = r->features, .lengths = r->lengths, .batch = r->batch, .frames = r->frames};
    REQUIRE(spsh__model_forward(r->model, &batch, is_training, &logits, r->out_lengths, NULL) ==
            SPSH_OK);
    return logits;
}

/* CTC for ds2, cross-entropy of real frames for the hybrid. */
static double loss_of(rig *r)
{
    spsh__backend_buffer logits = forward(r, true), dlogits = spsh__model_logit_gradients(r->model);
    uint32_t frames = spsh__model_out_frames(r->model, r->frames);
    if (r->shape.kind == SPSH__MODEL_LSTM_HYBRID) {
        spsh__cross_entropy c = {.rows = (size_t)frames * r->batch,
                                 .width = r->shape.outputs,
                                 .states = r->states,
                                 .scale = 0.5,
                                 .logits = logits,
                                 .dlogits = dlogits};
        for (uint32_t t = 0; t < frames; t++) {
            for (uint32_t n = 0; n < r->batch; n++) {
                if (t >= r->out_lengths[n])
                    r->states[t * r->batch + n] = UINT32_MAX;
            }
        }
        r->ops->cross_entropy_fn(r->backend, &c);
        return c.loss * c.scale;
    }
    spsh__ctc_result results[BATCH_MAX];
    spsh__ctc_shape shape = {frames, r->batch, r->shape.outputs, 0, 0.5};
    spsh__label_batch labels = {r->labels, r->label_offsets};
    spsh__ctc_io io = {logits, dlogits, NULL, results};
    double loss = 0;
    r->ops->ctc_fn(r->backend, &shape, r->out_lengths, &labels, &io);
    for (uint32_t n = 0; n < r->batch; n++)
        loss += results[n].loss * shape.scale;
    CHECK(isfinite(loss));
    return loss;
}

static void gradients_of(rig *r, void (*bucket_fn)(void *user, uint32_t bucket), void *user)
{
    r->ops->zero_fn(r->backend, spsh__model_gradients(r->model),
                    spsh__model_arena_elements(r->model));
    (void)loss_of(r);
    spsh__model_backward(r->model, spsh__model_logit_gradients(r->model), bucket_fn, user);
}

static double *read_all(const rig *r, spsh__backend_buffer from, uint64_t count)
{
    double *values = (double *)calloc(count, sizeof(*values));
    REQUIRE(values != NULL);
    take_doubles(r->backend, values, from, count);
    return values;
}

/* (loss(w + h) - loss(w - h)) / 2 h */
static double difference(rig *r, uint64_t element, double value)
{
    const double h = 1e-5;
    spsh__backend_buffer at = spsh__at(r->ops, spsh__model_weights(r->model), element);
    double moved[2] = {value + h, value - h}, loss[2];
    for (int i = 0; i < 2; i++) {
        put_doubles(r->backend, at, &moved[i], 1);
        loss[i] = loss_of(r);
    }
    put_doubles(r->backend, at, &value, 1);
    return (loss[0] - loss[1]) / (2 * h);
}

enum { TRIES = 4 }; /* elements per slice */

static void check_gradients(const spsh__model_shape *shape, const char *name)
{
    rig r;
    open_rig(&r, shape);
    uint64_t elements = spsh__model_arena_elements(r.model);
    gradients_of(&r, NULL, NULL);
    double *gradients = read_all(&r, spsh__model_gradients(r.model), elements);
    double *weights = read_all(&r, spsh__model_weights(r.model), elements);
    double worst = 0;
    for (uint32_t i = 0; i < spsh__model_parameter_count(r.model); i++) {
        const spsh__parameter *p = spsh__model_parameter(r.model, i);
        double largest = 1e-3;
        REQUIRE(p->count > 0);
        for (uint64_t j = 0; j < p->count; j++)
            largest = fmax(largest, fabs(gradients[p->offset + j]));
        for (int try = 0; try < TRIES; try++) {
            uint64_t element = p->offset + test_random(&r.random) % p->count;
            double got = difference(&r, element, weights[element]);
            double off = fabs(got - gradients[element]) / largest;
            if (!(off < 1e-5))
                fprintf(stderr, "%s: %s: %g, by differences %g\n", name, p->name,
                        gradients[element], got);
            CHECK(off < 1e-5);
            worst = fmax(worst, off);
        }
    }
    printf("%s: off by %.1e\n", name, worst);
    free(gradients);
    free(weights);
    close_rig(&r);
}

static spsh__model_shape small_ds2(void)
{
    return (spsh__model_shape){.inputs = 7,
                               .conv_channels = 2,
                               .layers = 2,
                               .hidden = 5,
                               .is_bidirectional = true,
                               .outputs = 4};
}

static spsh__model_shape small_hybrid(void)
{
    return (spsh__model_shape){.kind = SPSH__MODEL_LSTM_HYBRID,
                               .inputs = 6,
                               .layers = 3,
                               .hidden = 4,
                               .is_bidirectional = true,
                               .bottleneck = 3,
                               .outputs = 9};
}

static void test_gradients(void)
{
    spsh__model_shape shape = small_ds2();
    check_gradients(&shape, "lstm, both directions");
    shape.counts_padding = true;
    check_gradients(&shape, "lstm, both directions, compat");
    shape.is_bidirectional = false;
    shape.lookahead = 3;
    check_gradients(&shape, "lstm, forward, look-ahead, compat");
    shape.cell = SPSH__CELL_GRU;
    shape.counts_padding = false;
    check_gradients(&shape, "gru, forward, look-ahead");
    shape.lookahead = 0;
    shape.layers = 1;
    check_gradients(&shape, "gru, one layer");
    shape = small_hybrid();
    check_gradients(&shape, "hybrid");
    shape.is_bidirectional = false;
    check_gradients(&shape, "hybrid, forward");
}

static void test_gradients_add_up(void)
{
    rig r;
    spsh__model_shape shape = small_ds2();
    open_rig(&r, &shape);
    uint64_t elements = spsh__model_arena_elements(r.model);
    gradients_of(&r, NULL, NULL);
    double *once = read_all(&r, spsh__model_gradients(r.model), elements);
    (void)loss_of(&r);
    spsh__model_backward(r.model, spsh__model_logit_gradients(r.model), NULL, NULL);
    double *twice = read_all(&r, spsh__model_gradients(r.model), elements);
    for (uint64_t i = 0; i < elements; i++)
        CHECK(fabs(twice[i] - 2 * once[i]) <= rounding * (1 + fabs(once[i])));
    free(once);
    free(twice);
    close_rig(&r);
}

/* Logits of a forward pass of training. */
static void read_logits(rig *r, double logits[OUT_MAX])
{
    size_t count =
        (size_t)spsh__model_out_frames(r->model, r->frames) * r->batch * r->shape.outputs;
    REQUIRE(count <= OUT_MAX);
    take_doubles(r->backend, logits, forward(r, true), count);
}

/* The result does not depend on the content of the padding, on its length, or on older memory
 * content. */
static void check_padding(const spsh__model_shape *shape)
{
    rig r;
    open_rig(&r, shape);
    uint32_t inputs = shape->inputs, outputs = shape->outputs;
    uint64_t elements = spsh__model_arena_elements(r.model);
    double logits[2][OUT_MAX];
    float kept[BATCH * 11 * 8];
    memcpy(kept, r.features, sizeof(kept[0]) * BATCH * 11 * inputs);

    gradients_of(&r, NULL, NULL);
    double *before = read_all(&r, spsh__model_gradients(r.model), elements);
    read_logits(&r, logits[0]);
    r.frames = 16;
    for (uint32_t i = 0; i < BATCH * 16 * inputs; i++)
        r.features[i] = (float)NAN;
    for (uint32_t n = 0; n < BATCH; n++)
        memcpy(r.features + n * 16 * inputs, kept + n * 11 * inputs,
               sizeof(float) * r.lengths[n] * inputs);
    gradients_of(&r, NULL, NULL);
    double *after = read_all(&r, spsh__model_gradients(r.model), elements);
    read_logits(&r, logits[1]);

    for (uint32_t n = 0; n < BATCH; n++) {
        for (uint32_t t = 0; t < r.out_lengths[n]; t++) {
            size_t row = (size_t)(t * BATCH + n) * outputs;
            for (uint32_t v = 0; v < outputs; v++)
                CHECK(fabs(logits[0][row + v] - logits[1][row + v]) < rounding);
        }
    }
    for (uint64_t i = 0; i < elements; i++)
        CHECK(fabs(before[i] - after[i]) <= rounding * (1 + fabs(before[i])));
    free(before);
    free(after);
    close_rig(&r);
}

static void test_padding_is_not_seen(void)
{
    spsh__model_shape shape = small_ds2();
    check_padding(&shape);
    shape.is_bidirectional = false;
    shape.lookahead = 3;
    shape.cell = SPSH__CELL_GRU;
    check_padding(&shape);
    shape = small_hybrid();
    check_padding(&shape);
}

/* Without batch statistics, the other utterances of a batch do not change the result of an
 * utterance. */
static void test_evaluation_is_of_one(void)
{
    rig r;
    spsh__model_shape shape = small_ds2();
    double together[OUT_MAX], alone[OUT_MAX];
    open_rig(&r, &shape);
    (void)forward(&r, true);
    take_doubles(r.backend, together, forward(&r, false), BATCH * 6 * 4);
    memmove(r.features, r.features + 11 * shape.inputs, sizeof(float) * 6 * shape.inputs);
    r.batch = 1;
    r.frames = r.lengths[0] = 6;
    take_doubles(r.backend, alone, forward(&r, false), 3 * 4);
    CHECK_U64(r.out_lengths[0], 3);
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t v = 0; v < 4; v++)
            CHECK(fabs(alone[t * 4 + v] - together[(t * BATCH + 1) * 4 + v]) < rounding);
    }
    close_rig(&r);
}

/* Utterances without frames, and a batch of only such utterances, are computed and train nothing.
 */
static void test_no_frames(void)
{
    rig r;
    spsh__model_shape shape = small_ds2();
    open_rig(&r, &shape);
    memset(r.lengths, 0, sizeof(r.lengths));
    memset(r.label_offsets, 0, sizeof(r.label_offsets));
    CHECK(loss_of(&r) == 0);
    CHECK_U64(r.out_lengths[0], 0);
    gradients_of(&r, NULL, NULL);
    CHECK(r.ops->square_sum_fn(r.backend, spsh__model_gradients(r.model),
                               spsh__model_arena_elements(r.model)) == 0);
    close_rig(&r);
}

/* A batch with NaN features must leave no trace in the statistics. Nor may it leave NaNs in the
 * padding of the next batch. */
static void check_bad_batch(const spsh__model_shape *shape)
{
    rig r;
    uint64_t count = 0;
    open_rig(&r, shape);
    uint64_t elements = spsh__model_arena_elements(r.model);
    spsh__backend_buffer statistics = spsh__model_statistics(r.model, &count);
    gradients_of(&r, NULL, NULL);
    double *before = read_all(&r, spsh__model_gradients(r.model), elements);
    double *learnt = read_all(&r, statistics, count);

    static const uint32_t lengths[BATCH] = {11, 11, 11};
    spsh__backend_buffer logits = {NULL, false};
    for (uint32_t i = 0; i < BATCH * 11; i++) {
        float kept = r.features[i * shape->inputs];
        r.features[i * shape->inputs] = (float)NAN;
        if (i % 11 == 10) {
            spsh__model_batch bad = {
                .features = r.features, .lengths = lengths, .batch = BATCH, .frames = 11};
            REQUIRE(spsh__model_forward(r.model, &bad, true, &logits, r.out_lengths, NULL) ==
                    SPSH_OK);
            spsh__model_backward(r.model, logits, NULL, NULL);
        }
        r.features[i * shape->inputs] = kept;
    }
    double *after = read_all(&r, statistics, count);
    CHECK(memcmp(learnt, after, count * sizeof(double)) == 0);
    gradients_of(&r, NULL, NULL);
    double *again = read_all(&r, spsh__model_gradients(r.model), elements);
    CHECK(memcmp(before, again, elements * sizeof(double)) == 0);
    free(before);
    free(learnt);
    free(after);
    free(again);
    close_rig(&r);
}

static void test_bad_batch_leaves_nothing(void)
{
    spsh__model_shape shape = small_ds2();
    check_bad_batch(&shape);
    shape = small_hybrid();
    check_bad_batch(&shape);
}

/* Only shapes decide how work is divided among threads. */
static void check_threads(const spsh__model_shape *shape)
{
    double *want = NULL;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        rig r;
        open_rig_threads(&r, shape, threads);
        uint64_t elements = spsh__model_arena_elements(r.model);
        gradients_of(&r, NULL, NULL);
        double *got = read_all(&r, spsh__model_gradients(r.model), elements);
        CHECK(want == NULL || memcmp(got, want, elements * sizeof(double)) == 0);
        if (want == NULL)
            want = got;
        else
            free(got);
        close_rig(&r);
    }
    free(want);
}

static void test_threads_change_no_bit(void)
{
    spsh__model_shape shape = small_ds2();
    shape.conv_channels = 5;
    shape.hidden = 70;
    check_threads(&shape);
    shape.cell = SPSH__CELL_GRU;
    check_threads(&shape);
    shape = small_hybrid();
    shape.hidden = 70;
    shape.outputs = 300;
    check_threads(&shape);
}

/* ---- buckets, during the backward pass */

typedef struct witness {
    const rig *r;
    uint32_t next;
    double *seen; /* the arena when each bucket was reported complete */
} witness;

static void see_bucket(void *user, uint32_t bucket)
{
    witness *w = (witness *)user;
    uint64_t begin = 0, count = 0;
    CHECK_U64(bucket, w->next++);
    spsh__model_bucket(w->r->model, bucket, &begin, &count);
    take_doubles(w->r->backend, w->seen + begin,
                 spsh__at(w->r->ops, spsh__model_gradients(w->r->model), begin), count);
}

static void check_buckets(const spsh__model_shape *shape, uint32_t buckets)
{
    rig r;
    open_rig(&r, shape);
    uint64_t elements = spsh__model_arena_elements(r.model);
    witness w = {&r, 0, (double *)calloc(elements, sizeof(double))};
    REQUIRE(w.seen != NULL);
    gradients_of(&r, see_bucket, &w);
    double *last = read_all(&r, spsh__model_gradients(r.model), elements);
    CHECK_U64(w.next, buckets);
    CHECK_U64(spsh__model_bucket_count(r.model), buckets);
    CHECK(memcmp(last, w.seen, elements * sizeof(double)) == 0);
    check_layout(r.model);
    free(last);
    free(w.seen);
    close_rig(&r);
}

static void test_buckets_are_complete(void)
{
    spsh__model_shape shape = small_ds2();
    shape.hidden = 200;
    check_buckets(&shape, 5);
    shape.is_bidirectional = false;
    check_buckets(&shape, 3);
    shape = small_hybrid();
    shape.hidden = 130;
    shape.bottleneck = 40;
    check_buckets(&shape, 4);
}

/* ---- initial values and limits */

static void test_init(void)
{
    spsh__model_shape shape = small_ds2();
    rig r;
    open_rig(&r, &shape);
    uint64_t elements = spsh__model_arena_elements(r.model), count = 0;
    double *first = read_all(&r, spsh__model_weights(r.model), elements);
    spsh__backend_buffer statistics = spsh__model_statistics(r.model, &count);
    double *before = read_all(&r, statistics, count);
    (void)forward(&r, true);
    spsh__model_init(r.model, 1);
    double *again = read_all(&r, spsh__model_weights(r.model), elements);
    double *after = read_all(&r, statistics, count);
    CHECK(memcmp(first, again, elements * sizeof(double)) == 0);
    CHECK(memcmp(before, after, count * sizeof(double)) == 0);
    free(again);
    spsh__model_init(r.model, 2);
    again = read_all(&r, spsh__model_weights(r.model), elements);
    for (uint32_t i = 0; i < spsh__model_parameter_count(r.model); i++) {
        const spsh__parameter *p = spsh__model_parameter(r.model, i);
        bool is_norm = strstr(p->name, ".norm.") != NULL;
        double want = strstr(p->name, "norm.weight") != NULL ? 1 : 0, most = 0;
        for (uint64_t j = p->offset; j < p->offset + p->count; j++) {
            CHECK(is_norm ? first[j] == want : first[j] != again[j]);
            most = fmax(most, fabs(first[j]));
        }
        if (strncmp(p->name, "rnn1.forward.w_hh", 17) == 0) /* 100 of them below 1 / sqrt(5) */
            CHECK(most < 0.4473 && most > 0.4);
        CHECK(p->decays == (p->rank > 1));
    }
    free(first);
    free(again);
    free(before);
    free(after);
    close_rig(&r);
}

static void test_refused_batches(void)
{
    rig r;
    spsh__model_shape shape = small_ds2();
    spsh__backend_buffer logits = {NULL, false};
    open_rig(&r, &shape);
    static const struct {
        uint32_t batch, frames, length;
        spsh_status want;
    } rows[] = {
        {0,             5,              5, SPSH_E_INVALID_ARG},
        {1,             0,              0, SPSH_E_INVALID_ARG},
        {1,             5,              6, SPSH_E_INVALID_ARG},
        {BATCH_MAX + 1, 1,              1, SPSH_E_LIMIT      },
        {1,             FRAMES_MAX + 1, 1, SPSH_E_LIMIT      },
        {1,             FRAMES_MAX,     1, SPSH_OK           },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t lengths[BATCH_MAX] = {rows[i].length};
        spsh__model_batch batch = {.features = r.features,
                                   .lengths = lengths,
                                   .batch = rows[i].batch,
                                   .frames = rows[i].frames};
        CHECK_I64(spsh__model_forward(r.model, &batch, false, &logits, r.out_lengths, NULL),
                  rows[i].want);
        CHECK((logits.data != NULL) == (rows[i].want == SPSH_OK));
    }
    close_rig(&r);
    spsh__model_close(NULL);
}

static void test_every_allocation_failure(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh__backend *backend = NULL;
        spsh__model *model = NULL;
        spsh__model_shape shape = small_ds2();
        spsh__model_limits limits = {2, 9, 12};
        REQUIRE(fail_at < 200);
        rc = spsh__backend_open(backend_name, 2, &allocator, &backend, NULL);
        if (rc == SPSH_OK)
            rc = spsh__model_open(backend, &shape, &limits, &model, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (model != NULL));
        spsh__model_close(model);
        spsh__backend_close(backend);
        CHECK_U64(fault.live_count, 0);
    }
}

/* ---- only the forward pass */

typedef struct tally {
    uint64_t bytes;
} tally;

static void *tally_alloc(void *user, size_t size_bytes)
{
    ((tally *)user)->bytes += size_bytes;
    return malloc(size_bytes);
}

static void tally_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static double *logits_of(rig *r, spsh__model *model, uint64_t *ret_count)
{
    spsh__backend_buffer logits = {NULL, false};
    spsh__model_batch batch = {
        .features = r->features, .lengths = r->lengths, .batch = r->batch, .frames = r->frames};
    REQUIRE(spsh__model_forward(model, &batch, false, &logits, r->out_lengths, NULL) == SPSH_OK);
    *ret_count = (uint64_t)spsh__model_out_frames(model, r->frames) * r->batch * r->shape.outputs;
    return read_all(r, logits, *ret_count);
}

/* A forward model borrows weights and statistics, and shares the memory of layers. Its bits are the
 * same, also the second time with another batch in between. */
static void check_forward(const spsh__model_shape *shape)
{
    rig r;
    open_rig(&r, shape);
    const spsh__model_limits limits = {BATCH_MAX, FRAMES_MAX, BATCH_MAX * FRAMES_MAX};
    spsh__model *reader = NULL;
    uint64_t count = 0;
    REQUIRE(spsh__model_open_forward(r.backend, shape, &limits, r.model, &reader, NULL) == SPSH_OK);
    (void)forward(&r, true); /* the statistics change */
    double *want = logits_of(&r, r.model, &count);
    for (int again = 0; again < 2; again++) {
        double *found = logits_of(&r, reader, &count);
        CHECK(memcmp(found, want, count * sizeof(*want)) == 0);
        free(found);
        const uint32_t frames = r.frames;
        r.frames = 9;
        memcpy(r.lengths, (uint32_t[]){9, 3, 0}, BATCH * sizeof(uint32_t));
        free(logits_of(&r, reader, &count));
        r.frames = frames;
        memcpy(r.lengths, (uint32_t[]){11, 6, 8}, BATCH * sizeof(uint32_t));
        count = (uint64_t)spsh__model_out_frames(r.model, r.frames) * r.batch * shape->outputs;
    }
    CHECK(spsh__model_gradients(reader).data == NULL);
    spsh__model_close(reader); /* the weights stay */
    double *still = logits_of(&r, r.model, &count);
    CHECK(memcmp(still, want, count * sizeof(*want)) == 0);
    free(still);
    free(want);
    close_rig(&r);
}

static void test_forward_alone(void)
{
    spsh__model_shape shape = small_ds2();
    for (shape.layers = 1; shape.layers <= 4; shape.layers++)
        check_forward(&shape);
    shape.hidden = 40; /* wider than the output of the convolutions */
    check_forward(&shape);
    shape.is_bidirectional = false;
    check_forward(&shape);
    shape.lookahead = 3;
    shape.cell = SPSH__CELL_GRU;
    check_forward(&shape);
    for (shape = small_hybrid(); shape.layers > 0; shape.layers--)
        check_forward(&shape);
    shape = small_hybrid();
    shape.is_bidirectional = false;
    check_forward(&shape);
}

static void test_forward_takes_less(void)
{
    tally counted = {0};
    spsh_allocator allocator = {tally_alloc, tally_free, &counted};
    spsh__backend *backend = NULL;
    spsh__model *model = NULL, *reader = NULL;
    spsh__model_shape shape = {.inputs = 20, .outputs = 29};
    const spsh__model_limits limits = {4, 400, 1600};
    REQUIRE(spsh__model_preset("ds2-small", &shape, NULL) == SPSH_OK);
    shape.layers = 5;
    REQUIRE(spsh__backend_open(backend_name, 1, &allocator, &backend, NULL) == SPSH_OK);
    REQUIRE(spsh__model_open(backend, &shape, &limits, &model, NULL) == SPSH_OK);
    const uint64_t arenas = 2 * spsh__model_arena_elements(model) * backend->ops->element_bytes;
    const uint64_t training = counted.bytes - arenas;
    counted.bytes = 0;
    REQUIRE(spsh__model_open_forward(backend, &shape, &limits, model, &reader, NULL) == SPSH_OK);
    CHECK(counted.bytes < training / 3);
    spsh__model_close(reader);
    spsh__model_close(model);
    spsh__backend_close(backend);
}

TEST_MAIN(unit_train_model)
{
    REQUIRE(argc == 2);
    backend_name = argv[1];
    bool is_double = strcmp(backend_name, "reference") == 0;
    rounding = is_double ? 1e-12 : 1e-4;
    seed = test_seed(7);
    RUN(test_published_counts);
    RUN(test_layout);
    RUN(test_refused_shapes);
    if (is_double)
        RUN(test_gradients);
    RUN(test_gradients_add_up);
    RUN(test_padding_is_not_seen);
    RUN(test_evaluation_is_of_one);
    RUN(test_no_frames);
    RUN(test_bad_batch_leaves_nothing);
    RUN(test_threads_change_no_bit);
    RUN(test_buckets_are_complete);
    RUN(test_init);
    RUN(test_refused_batches);
    RUN(test_every_allocation_failure);
    RUN(test_forward_alone);
    RUN(test_forward_takes_less);
    return TEST_RESULT();
}

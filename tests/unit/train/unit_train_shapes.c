/* unit_train_shapes.c PLUGIN: batches of few shapes on a device. Padding utterances change no bit
 * of losses, weights, and statistics. Evicting a shape neither waits nor allocates. In the batches
 * of plans, with the utterance lengths of published corpora, almost all steps launch a graph.
 * PLUGIN is the host emulation.
 */
#include "backend_cuda/backend_cuda_state.h"
#include "device_test.h"
#include "model/model.h"
#include "plan_kit.h"
#include "spsh_test.h"

static spsh_error err;
static spsh_cuda *cuda;
static twin_controls *twin;
static uint64_t seed;

static spsh__backend *open_device(spsh__precision precision)
{
    const spsh__backend_options options = {.name = "cuda",
                                           .cuda = cuda,
                                           .precision = precision,
                                           .is_deterministic = true,
                                           .has_graphs = true};
    spsh__backend *b = NULL;
    REQUIRE(spsh__backend_open_with(&options, NULL, &b, &err) == SPSH_OK);
    return b;
}

/* ---- padding ---- */

enum { BATCH_MAX = 16, FRAMES_MAX = 50, INPUTS = 20, OUTPUTS = 5, LABELS = 3, STEPS = 4 };

/* A model, its optimizer, and what three steps leave. */
typedef struct learner {
    spsh__backend *b;
    spsh__model *model;
    spsh__backend_buffer moments[2];
    size_t count;
    uint64_t random;
    double losses[STEPS * BATCH_MAX];
} learner;

static void learner_open(learner *l, const spsh__model_shape *shape, spsh__precision precision,
                         uint32_t multiple)
{
    const spsh__model_limits limits = {BATCH_MAX, FRAMES_MAX, BATCH_MAX * FRAMES_MAX};
    *l = (learner){.b = open_device(precision), .random = seed};
    CHECK_U64(l->b->batch_multiple, SPSH__CUDA_BATCH_MULTIPLE);
    l->b->batch_multiple = multiple;
    REQUIRE(spsh__model_open(l->b, shape, &limits, &l->model, &err) == SPSH_OK);
    spsh__model_init(l->model, 1);
    l->count = (size_t)spsh__model_arena_elements(l->model);
    for (int i = 0; i < 2; i++)
        REQUIRE(l->b->ops->alloc_fn(l->b, l->count, &l->moments[i], &err) == SPSH_OK);
}

static void learner_close(learner *l)
{
    CHECK(l->b->ops->status_fn(l->b, &err) == SPSH_OK);
    spsh__model_close(l->model);
    for (int i = 0; i < 2; i++)
        l->b->ops->free_fn(l->b, l->moments[i]);
    spsh__backend_close(l->b);
}

/* The utterances of a batch, and padding without labels and frames. */
typedef struct texts {
    float features[BATCH_MAX * FRAMES_MAX * INPUTS];
    uint32_t lengths[BATCH_MAX], out_lengths[BATCH_MAX];
    uint32_t labels[BATCH_MAX * LABELS], offsets[BATCH_MAX + 1];
    double weights[BATCH_MAX];
    spsh__ctc_result results[BATCH_MAX];
} texts;

/* One utterance of the batch has no frames, and one is not trained on. */
static void draw_texts(texts *t, uint32_t batch, uint64_t *random)
{
    *t = (texts){.offsets = {0}};
    for (size_t i = 0; i < sizeof(t->features) / sizeof(t->features[0]); i++)
        t->features[i] = (float)(test_random(random) % 2001) / 1000.0f - 1.0f;
    for (uint32_t i = 0; i < BATCH_MAX * LABELS; i++)
        t->labels[i] = 1 + (uint32_t)(test_random(random) % (OUTPUTS - 1));
    for (uint32_t n = 0; n < BATCH_MAX; n++) {
        const bool is_there = n < batch && n != 2;
        t->lengths[n] = is_there ? FRAMES_MAX - (uint32_t)(test_random(random) % 30) : 0;
        t->weights[n] = is_there && n != 4 ? 1 : 0;
        t->offsets[n + 1] = t->offsets[n] + (is_there ? LABELS : 0);
    }
}

static void learn(learner *l, uint32_t step, uint32_t batch)
{
    static texts t;
    const spsh__backend_ops *ops = l->b->ops;
    const uint32_t padded = spsh__model_padded_batch(l->model, batch);
    const spsh__model_batch b = {
        .features = t.features, .lengths = t.lengths, .batch = batch, .frames = FRAMES_MAX};
    const spsh__ctc_shape shape = {spsh__model_out_frames(l->model, FRAMES_MAX), padded, OUTPUTS, 0,
                                   1};
    const spsh__label_batch labels = {t.labels, t.offsets};
    spsh__ctc_io io = {.dlogits = spsh__model_logit_gradients(l->model),
                       .weights = t.weights,
                       .results = t.results};
    const spsh__adamw adamw = {1e-2, 0.9, 0.999, 1e-8, 1e-2, step + 1};
    const spsh__update u = {
        .weights = spsh__model_weights(l->model),
        .gradients = spsh__model_gradients(l->model),
        .moments = {l->moments[0], l->moments[1]},
        .count = l->count,
        .decays = true,
        .gradient_scale = 1.0 / batch
    };
    draw_texts(&t, batch, &l->random);
    REQUIRE(spsh__model_forward(l->model, &b, true, &io.logits, t.out_lengths, &err) == SPSH_OK);
    ops->ctc_fn(l->b, &shape, spsh__model_out_lengths(l->model), &labels, &io);
    spsh__model_backward(l->model, io.dlogits, NULL, NULL);
    spsh__backend_finish(l->b);
    ops->adamw_fn(l->b, &adamw, &u);
    ops->zero_fn(l->b, u.gradients, u.count);
    spsh__model_weights_changed(l->model);
    for (uint32_t n = 0; n < batch; n++)
        l->losses[step * BATCH_MAX + n] = t.weights[n] > 0 ? t.results[n].loss : 0;
    REQUIRE(ops->status_fn(l->b, &err) == SPSH_OK);
}

static void check_same(const learner *a, const learner *b, spsh__backend_buffer of_a,
                       spsh__backend_buffer of_b, size_t count)
{
    float *values = calloc(2 * count, sizeof(*values));
    REQUIRE(values != NULL);
    a->b->ops->read_f32_fn(a->b, values, of_a, count);
    b->b->ops->read_f32_fn(b->b, values + count, of_b, count);
    CHECK(memcmp(values, values + count, count * sizeof(*values)) == 0);
    CHECK(values[0] != 0);
    free(values);
}

static void check_bits(const spsh__model_shape *shape, spsh__precision precision)
{
    static learner padded, plain;
    static const uint32_t batches[STEPS] = {5, 11, 1, 5};
    uint64_t statistics = 0;
    learner_open(&padded, shape, precision, SPSH__CUDA_BATCH_MULTIPLE);
    learner_open(&plain, shape, precision, 1);
    CHECK_U64(spsh__model_padded_batch(padded.model, 9), 16);
    CHECK_U64(spsh__model_padded_batch(plain.model, 9), 9);
    for (uint32_t step = 0; step < STEPS; step++) {
        learn(&padded, step, batches[step]);
        learn(&plain, step, batches[step]);
    }
    for (uint32_t i = 0; i < STEPS * BATCH_MAX; i++)
        CHECK(padded.losses[i] == plain.losses[i]);
    CHECK(plain.losses[0] > 0 && plain.losses[3 * BATCH_MAX] > 0);
    check_same(&padded, &plain, spsh__model_weights(padded.model), spsh__model_weights(plain.model),
               plain.count);
    const spsh__backend_buffer of_plain = spsh__model_statistics(plain.model, &statistics);
    check_same(&padded, &plain, spsh__model_statistics(padded.model, &statistics), of_plain,
               (size_t)statistics);
    learner_close(&padded);
    learner_close(&plain);
}

static void test_padding_changes_nothing(void)
{
    static const spsh__precision precisions[] = {SPSH__FP32, SPSH__TF32, SPSH__BF16, SPSH__FP16};
    spsh__model_shape shape = {.inputs = INPUTS,
                               .conv_channels = 2,
                               .layers = 2,
                               .cell = SPSH__CELL_LSTM,
                               .hidden = 6,
                               .is_bidirectional = true,
                               .outputs = OUTPUTS};
    for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++)
        check_bits(&shape, precisions[i]);
    shape.cell = SPSH__CELL_GRU;
    shape.is_bidirectional = false;
    shape.lookahead = 3;
    check_bits(&shape, SPSH__FP32);
    check_bits(&shape, SPSH__BF16);
}

/* With BN `compat`, padding would count. */
static void test_no_padding_that_counts(void)
{
    const spsh__model_shape shape = {.inputs = INPUTS,
                                     .conv_channels = 1,
                                     .layers = 1,
                                     .cell = SPSH__CELL_LSTM,
                                     .hidden = 4,
                                     .counts_padding = true,
                                     .outputs = OUTPUTS};
    learner l;
    learner_open(&l, &shape, SPSH__FP32, SPSH__CUDA_BATCH_MULTIPLE);
    CHECK_U64(spsh__model_padded_batch(l.model, 9), 9);
    CHECK_U64(spsh__model_padded_frames(l.model, 33), 33);
    learner_close(&l);
}

/* ---- segments ---- */

/* A step of one segment, with little work. */
static void do_step(spsh__backend *b, spsh__backend_buffer work, uint64_t key)
{
    const spsh__graph_segment segment = {key, 0};
    if (!b->ops->segment_begin_fn(b, &segment))
        b->ops->zero_fn(b, work, 1);
    b->ops->segment_end_fn(b);
}

/* The emulation stops if a graph is closed in flight. It runs work only when something waits for
 * it, or asks for an event. */
static void test_evictions_do_not_wait(void)
{
    enum { SHAPES = SPSH__CUDA_KEYS + 300 };
    spsh__backend *b = open_device(SPSH__FP32);
    spsh__backend_buffer work = {NULL, false};
    REQUIRE(b->ops->alloc_fn(b, 1, &work, &err) == SPSH_OK);
    const uint64_t waits = twin->waits;
    const uint32_t memory = twin->open_memory, events = twin->open_events;
    for (uint64_t key = 1; key <= SHAPES; key++) {
        for (int i = 0; i < 3; i++)
            do_step(b, work, key);
        CHECK(twin->open_graphs <= SPSH__CUDA_KEYS + SPSH__CUDA_RETIRED);
    }
    CHECK_U64(twin->waits, waits);
    CHECK_U64(twin->open_memory, memory);
    CHECK_U64(twin->open_events, events);
    const spsh__cuda_segment_counts counts = spsh__cuda_segments_counted(b);
    CHECK(counts.evicted > 200 && counts.evicted <= SHAPES - SPSH__CUDA_KEYS);
    CHECK_U64(counts.batches, 3 * SHAPES);
    CHECK_U64(counts.replayed, counts.launched);
    CHECK(counts.launched > SHAPES * UINT64_C(8) / 10);
    b->ops->free_fn(b, work); /* waits, and closes the graphs */
    CHECK_U64(twin->open_graphs, 0);
    CHECK(b->ops->status_fn(b, &err) == SPSH_OK);
    spsh__backend_close(b);
}

/* ---- the shapes of plans ---- */

/* Lengths of utterances, as seconds at probabilities, with linear interpolation between them. */
typedef struct quantile {
    double probability, seconds;
} quantile;

typedef struct corpus {
    const char *name;
    uint64_t utterances;
    const quantile *quantiles; /* up to probability 1 */
} corpus;

/* LibriSpeech, train-other-500 and train-clean-360 alike: k2-fsa/icefall,
 * egs/librispeech/ASR/local/display_manifest_statistics.py. */
static const quantile librispeech[] = {
    {0,     0.8 },
    {0.001, 1.7 },
    {0.01,  2.3 },
    {0.05,  3.5 },
    {0.1,   5.0 },
    {0.25,  9.8 },
    {0.5,   13.4},
    {0.75,  15.1},
    {0.9,   16.5},
    {0.95,  17.2},
    {0.99,  18.1},
    {0.999, 18.9},
    {1,     31.0},
};

/* Common Voice: bookbot-hive/icefall, egs/commonvoice/ASR/local/display_manifest_statistics.py. The
 * minimum: SpeechBrain's recipes/CommonLanguage/README.md, from 45 languages of Common Voice. */
static const quantile common_voice[] = {
    {0,     0.86},
    {0.25,  4.8 },
    {0.5,   6.3 },
    {0.75,  8.8 },
    {0.99,  22.0},
    {0.995, 24.5},
    {0.999, 30.3},
    {1,     48.7},
};

static double seconds_at(const quantile *q, double probability)
{
    while (q[1].probability < probability)
        q++;
    return q[0].seconds + (probability - q[0].probability) * (q[1].seconds - q[0].seconds) /
                              (q[1].probability - q[0].probability);
}

static void open_corpus(plan_kit *kit, const corpus *c)
{
    uint64_t random = seed;
    *kit = (plan_kit){.count = c->utterances};
    kit->rows = calloc((size_t)kit->count, sizeof(*kit->rows));
    REQUIRE(kit->rows != NULL);
    for (uint64_t i = 0; i < kit->count; i++) {
        const double p = (double)(test_random(&random) >> 11) * 0x1p-53;
        kit->rows[i].samples = (uint64_t)(seconds_at(c->quantiles, p) * 16000);
    }
    plan_kit_open(kit, 1);
}

/* Frames of the longest utterance, 10 ms each. */
static uint32_t frames_of(const spsh_planned_batch *batch)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < batch->item_count; i++)
        longest = batch->items[i].samples > longest ? batch->items[i].samples : longest;
    return (uint32_t)(1 + longest / 160);
}

static uint64_t shape_of(const spsh_planned_batch *batch)
{
    return spsh__round_up(frames_of(batch), SPSH__MODEL_FRAMES) << 32 |
           spsh__round_up(batch->item_count, SPSH__CUDA_BATCH_MULTIPLE);
}

/* Run the steps of an epoch. Return the share of steps that launched a graph. */
static double run_epoch(spsh__backend *b, spsh__backend_buffer work, spsh_sampler *sampler)
{
    const spsh__cuda_segment_counts before = spsh__cuda_segments_counted(b);
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    while (spsh_sampler_next(sampler, &batch, NULL) == SPSH_OK) {
        do_step(b, work, shape_of(&batch));
        if (batch.number % 4 == 0)
            spsh__cuda_fetch(b, &(float){0}, work.data, sizeof(float)); /* the host waits */
    }
    const spsh__cuda_segment_counts after = spsh__cuda_segments_counted(b);
    return (double)(after.replayed - before.replayed) / (double)(after.batches - before.batches);
}

/* Return the lowest share of the epochs after the first one. */
static double hit_rate(const plan_kit *kit, const corpus *c)
{
    enum { EPOCHS = 3 };
    spsh_plan_options options = SPSH_PLAN_OPTIONS_INIT;
    double least = 1;
    options.batch_utterances_max = 256;
    options.batch_padded_seconds_max = SPSH_BATCH_SECONDS_DEFAULT;
    options.long_utterances = SPSH_LONG_DROP;
    options.sample_rate_hz = 16000;
    spsh_plan *plan = plan_kit_plan(kit, &options);
    spsh_sampler *sampler = plan_kit_sampler(plan, 0, 1);
    spsh__backend *b = open_device(SPSH__FP32);
    spsh__backend_buffer work = {NULL, false};
    REQUIRE(b->ops->alloc_fn(b, 1, &work, &err) == SPSH_OK);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double rate = run_epoch(b, work, sampler);
        const spsh__cuda_segment_counts n = spsh__cuda_segments_counted(b);
        printf("%s, epoch %d: %.1f %% of steps launch a graph; in all %llu steps, %llu captured, "
               "%llu evicted\n",
               c->name, epoch, 100 * rate, (unsigned long long)n.batches,
               (unsigned long long)n.kept, (unsigned long long)n.evicted);
        if (epoch > 0 && rate < least)
            least = rate;
    }
    b->ops->free_fn(b, work);
    CHECK(b->ops->status_fn(b, &err) == SPSH_OK);
    spsh__backend_close(b);
    spsh_sampler_close(sampler);
    spsh_plan_close(plan);
    return least;
}

static void test_plans_have_few_shapes(void)
{
    static const corpus corpora[] = {
        {"LibriSpeech 960 h",  281241, librispeech },
        {"LibriSpeech 100 h",  28539,  librispeech },
        {"Common Voice 250 h", 120000, common_voice},
    };
    for (size_t i = 0; i < sizeof(corpora) / sizeof(corpora[0]); i++) {
        plan_kit kit;
        open_corpus(&kit, &corpora[i]);
        CHECK(hit_rate(&kit, &corpora[i]) >= 0.975); /* GPU.md has the numbers */
        plan_kit_close(&kit);
    }
}

TEST_MAIN(unit_train_shapes)
{
    REQUIRE(argc == 2);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    REQUIRE(twin != NULL);
    seed = test_seed(20261128);
    RUN(test_padding_changes_nothing);
    RUN(test_no_padding_that_counts);
    RUN(test_evictions_do_not_wait);
    RUN(test_plans_have_few_shapes);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

/* unit_train_overfit.c: the model memorizes eight utterances. After some hundred steps, the greedy
 * transcript of each equals its label, also of the empty one. Training has identical bits with one
 * thread and with three.
 */
#include "model/model.h"
#include "spsh_test.h"

enum {
    BATCH = 8,
    FRAMES = 80,
    INPUTS = 20,
    OUTPUTS = 12,
    LABELS_MAX = 9,
    STEPS_MAX = 600,
    CHECK_EVERY = 20,
};

typedef struct learner {
    spsh__backend *backend;
    const spsh__backend_ops *ops;
    spsh__model *model;
    spsh__backend_buffer moments[2];
    size_t elements;
    uint64_t step;
    float features[BATCH * FRAMES * INPUTS];
    uint32_t lengths[BATCH], out_lengths[BATCH];
    uint32_t labels[BATCH * LABELS_MAX], offsets[BATCH + 1];
} learner;

static void make_batch(learner *l, uint64_t seed)
{
    for (size_t i = 0; i < BATCH * FRAMES * INPUTS; i++)
        l->features[i] = (float)(test_random(&seed) >> 40) / (float)(1 << 23) - 1;
    for (uint32_t n = 0; n < BATCH; n++) {
        uint32_t count = n == 3 ? 0 : 1 + (uint32_t)(test_random(&seed) % LABELS_MAX);
        l->lengths[n] = FRAMES - (uint32_t)(test_random(&seed) % (FRAMES / 2));
        l->offsets[n + 1] = l->offsets[n] + count;
        for (uint32_t i = l->offsets[n]; i < l->offsets[n + 1]; i++)
            l->labels[i] = 1 + (uint32_t)(test_random(&seed) % (OUTPUTS - 1));
    }
}

static learner *open_learner(uint32_t threads, uint64_t seed)
{
    learner *l = (learner *)calloc(1, sizeof(*l));
    const spsh__model_shape shape = {.inputs = INPUTS,
                                     .conv_channels = 4,
                                     .layers = 2,
                                     .hidden = 48,
                                     .is_bidirectional = true,
                                     .outputs = OUTPUTS};
    const spsh__model_limits limits = {BATCH, FRAMES, BATCH * FRAMES};
    REQUIRE(l != NULL);
    make_batch(l, seed);
    REQUIRE(spsh__backend_open("cpu", threads, spsh_allocator_default(), &l->backend, NULL) ==
            SPSH_OK);
    l->ops = l->backend->ops;
    REQUIRE(spsh__model_open(l->backend, &shape, &limits, &l->model, NULL) == SPSH_OK);
    spsh__model_init(l->model, seed);
    l->elements = spsh__model_arena_elements(l->model);
    for (int i = 0; i < 2; i++)
        REQUIRE(l->ops->alloc_fn(l->backend, l->elements, &l->moments[i], NULL) == SPSH_OK);
    return l;
}

static void close_learner(learner *l)
{
    CHECK(l->ops->status_fn(l->backend, NULL) == SPSH_OK);
    for (int i = 0; i < 2; i++)
        l->ops->free_fn(l->backend, l->moments[i]);
    spsh__model_close(l->model);
    spsh__backend_close(l->backend);
    free(l);
}

static spsh__backend_buffer forward(learner *l, bool is_training)
{
    const spsh__model_batch batch = {
        .features = l->features, .lengths = l->lengths, .batch = BATCH, .frames = FRAMES};
    spsh__backend_buffer logits = {NULL, false};
    REQUIRE(spsh__model_forward(l->model, &batch, is_training, &logits, l->out_lengths, NULL) ==
            SPSH_OK);
    return logits;
}

static double step(learner *l)
{
    spsh__ctc_result results[BATCH];
    const spsh__ctc_shape shape = {spsh__model_out_frames(l->model, FRAMES), BATCH, OUTPUTS, 0,
                                   1.0 / BATCH};
    const spsh__label_batch labels = {l->labels, l->offsets};
    const spsh__ctc_io io = {forward(l, true), spsh__model_logit_gradients(l->model), NULL,
                             results};
    const spsh__adamw adamw = {3e-3, 0.9, 0.999, 1e-8, 0, ++l->step};
    const spsh__update u = {
        .weights = spsh__model_weights(l->model),
        .gradients = spsh__model_gradients(l->model),
        .moments = {l->moments[0], l->moments[1]},
        .count = l->elements,
        .gradient_scale = 1
    };
    double loss = 0;
    l->ops->zero_fn(l->backend, u.gradients, l->elements);
    l->ops->ctc_fn(l->backend, &shape, l->out_lengths, &labels, &io);
    spsh__model_backward(l->model, io.dlogits, NULL, NULL);
    l->ops->adamw_fn(l->backend, &adamw, &u);
    for (uint32_t n = 0; n < BATCH; n++)
        loss += results[n].loss / BATCH;
    return loss;
}

/* Take the best symbol of each frame, merge repeats, and remove blanks. */
static bool is_right(const learner *l, const float *logits, uint32_t n)
{
    uint32_t count = l->offsets[n], before = 0;
    for (uint32_t t = 0; t < l->out_lengths[n]; t++) {
        const float *row = logits + ((size_t)t * BATCH + n) * OUTPUTS;
        uint32_t best = 0;
        for (uint32_t v = 1; v < OUTPUTS; v++)
            best = row[v] > row[best] ? v : best;
        if (best != 0 && best != before) {
            if (count == l->offsets[n + 1] || l->labels[count] != best)
                return false;
            count++;
        }
        before = best;
    }
    return count == l->offsets[n + 1];
}

static uint32_t right_count(learner *l)
{
    float logits[FRAMES * BATCH * OUTPUTS];
    uint32_t right = 0;
    l->ops->read_f32_fn(l->backend, logits, forward(l, false),
                        (size_t)spsh__model_out_frames(l->model, FRAMES) * BATCH * OUTPUTS);
    for (uint32_t n = 0; n < BATCH; n++)
        right += is_right(l, logits, n) ? 1 : 0;
    return right;
}

static void test_learns_by_heart(void)
{
    learner *l = open_learner(2, test_seed(11));
    uint32_t right = 0;
    double loss = 0;
    while (right < BATCH && l->step < STEPS_MAX) {
        loss = step(l);
        if (l->step % CHECK_EVERY == 0)
            right = right_count(l);
    }
    printf("%u of %d right after %u steps, loss %.4f\n", right, BATCH, (unsigned)l->step, loss);
    CHECK_U64(right, BATCH);
    close_learner(l);
}

static void test_threads_learn_alike(void)
{
    uint64_t seed = test_seed(12);
    learner *one = open_learner(1, seed), *three = open_learner(3, seed);
    for (int i = 0; i < 10; i++)
        CHECK(step(one) == step(three));
    float *weights[2];
    for (int i = 0; i < 2; i++) {
        const learner *l = i == 0 ? one : three;
        weights[i] = (float *)calloc(l->elements, sizeof(float));
        REQUIRE(weights[i] != NULL);
        l->ops->read_f32_fn(l->backend, weights[i], spsh__model_weights(l->model), l->elements);
    }
    CHECK(memcmp(weights[0], weights[1], one->elements * sizeof(float)) == 0);
    for (int i = 0; i < 2; i++)
        free(weights[i]);
    close_learner(one);
    close_learner(three);
}

TEST_MAIN(unit_train_overfit)
{
    RUN(test_learns_by_heart);
    RUN(test_threads_learn_alike);
    return TEST_RESULT();
}

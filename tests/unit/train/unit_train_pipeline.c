/* unit_train_pipeline.c: a model in stages, compared with one process that has the whole model. The
 * same micro-batches give identical weights, statistics, totals, and gradient norms. Stages are
 * threads that act as processes, over TCP.
 */
#include <math.h>
#include <pthread.h>

#include "spsh_test.h"
#include "strategy/pipeline_parallel.h"
#include "strategy/pipeline_schedule.h"
#include "strategy/strategy_internal.h"

enum {
    STAGES_MAX = 4,
    MICRO_BATCHES = 8,
    STEPS = 3,
    BATCH_MAX = 3,
    FRAMES_MAX = 12,
    LABELS = 2,
    DEADLINE_MS = 120000
};

typedef struct run_kind {
    const char *name, *backend;
    spsh__model_shape shape;
    uint32_t stages, micro_batches;
    bool is_plain; /* without pipeline_parallel.h */
    const uint32_t *cuts;
    uint32_t dies; /* stage that ends in the second step; 0: none (the first stage stays) */
} run_kind;

typedef struct outcome { /* results of all stages together */
    float *weights, *statistics;
    double totals[STEPS][2], squares[STEPS];
} outcome;

typedef struct world world;

typedef struct learner {
    world *world;
    uint32_t rank;
    spsh__backend *backend;
    spsh__comm *comm, *own;
    spsh__stages *pipeline;
    spsh__model *model;
    spsh__strategy *strategy;
    spsh__learner learner;
    spsh__slice *buckets;
    uint32_t index; /* micro-batch in the backward pass */
    double rows[MICRO_BATCHES][2];
    spsh_status status;
    spsh_error error;
} learner;

struct world {
    char folder[64];
    run_kind kind;
    outcome out;
    learner learners[STAGES_MAX];
};

static const spsh__model_limits limits = {BATCH_MAX, FRAMES_MAX, BATCH_MAX *FRAMES_MAX};

/* ---- micro-batches, which depend only on step and index ---- */

typedef struct micro_batch {
    spsh__model_batch batch;
    float *features;
    uint32_t lengths[BATCH_MAX];
    uint32_t labels[BATCH_MAX * LABELS], offsets[BATCH_MAX + 1];
    uint32_t states[BATCH_MAX * FRAMES_MAX];
} micro_batch;

static uint32_t below(uint64_t *state, uint32_t end)
{
    return (uint32_t)(test_random(state) % end);
}

static void make_batch(const run_kind *k, uint64_t step, uint32_t index, micro_batch *b)
{
    uint64_t state = 977 * step + index + 1;
    (void)test_random(&state);
    *b = (micro_batch){
        .batch = {.batch = 1 + below(&state, BATCH_MAX), .frames = FRAMES_MAX - below(&state, 3)}
    };
    const size_t count = (size_t)b->batch.batch * b->batch.frames * k->shape.inputs;
    b->features = malloc(count * sizeof(*b->features));
    REQUIRE(b->features != NULL);
    for (size_t i = 0; i < count; i++)
        b->features[i] = (float)((double)(int64_t)test_random(&state) / 4e18);
    for (uint32_t n = 0; n < b->batch.batch; n++) {
        b->lengths[n] = b->batch.frames - (n == 0 ? 0 : below(&state, 5));
        b->offsets[n + 1] = b->offsets[n] + LABELS;
        for (uint32_t i = 0; i < LABELS; i++)
            b->labels[b->offsets[n] + i] = 1 + below(&state, k->shape.outputs - 1);
    }
    for (uint32_t i = 0; i < BATCH_MAX * FRAMES_MAX; i++)
        b->states[i] = below(&state, k->shape.outputs);
    b->batch.features = b->features;
    b->batch.lengths = b->lengths;
}

/* The second step has an empty micro-batch in its middle. The third step ends early. */
static bool is_empty(uint64_t step, uint32_t index)
{
    return step == 1 && index == 1;
}

static uint32_t micro_batches_of(const run_kind *k, uint64_t step)
{
    return step == 2 && k->micro_batches > 2 ? k->micro_batches - 1 : k->micro_batches;
}

/* ---- a learner ---- */

static spsh_status on_bucket(void *user, uint32_t index, uint32_t bucket, spsh_error *err)
{
    const learner *l = (const learner *)user;
    return l->strategy->ops->on_bucket_fn(l->strategy, index, bucket, err);
}

static spsh_status on_skip(void *user, uint32_t index, spsh_error *err)
{
    const learner *l = (const learner *)user;
    return l->strategy->ops->skip_leaf_fn(l->strategy, index, err);
}

static spsh_status on_loss(void *user, uint32_t index, spsh__model *model,
                           spsh__backend_buffer logits, spsh_error *err)
{
    learner *l = (learner *)user;
    const run_kind *k = &l->world->kind;
    const spsh__backend_buffer gradients = spsh__model_logit_gradients(model);
    micro_batch b;
    (void)err;
    make_batch(k, l->learner.step, index, &b);
    const uint32_t frames = spsh__model_out_frames(model, b.batch.frames);
    double *row = l->rows[index];
    if (k->shape.kind == SPSH__MODEL_DS2) {
        spsh__ctc_result results[BATCH_MAX];
        const spsh__ctc_shape shape = {frames, b.batch.batch, k->shape.outputs, 0, 1};
        const spsh__label_batch labels = {b.labels, b.offsets};
        const spsh__ctc_io io = {logits, gradients, NULL, results};
        l->backend->ops->ctc_fn(l->backend, &shape, spsh__model_out_lengths(model), &labels, &io);
        for (uint32_t n = 0; n < b.batch.batch; n++)
            row[0] += results[n].is_infeasible ? 0 : results[n].loss;
    } else {
        spsh__cross_entropy c = {.rows = (size_t)frames * b.batch.batch,
                                 .width = k->shape.outputs,
                                 .states = b.states,
                                 .scale = 1,
                                 .logits = logits,
                                 .dlogits = gradients};
        l->backend->ops->cross_entropy_fn(l->backend, &c);
        row[0] = c.loss;
    }
    row[1] = b.batch.batch;
    free(b.features);
    return SPSH_OK;
}

static void on_plain_bucket(void *user, uint32_t bucket)
{
    learner *l = (learner *)user;
    REQUIRE(on_bucket(l, l->index, bucket, NULL) == SPSH_OK);
}

static spsh_status put(learner *l, uint32_t index, const micro_batch *b, spsh_error *err)
{
    spsh__backend_buffer logits = {NULL, false};
    uint32_t lengths[BATCH_MAX];
    if (l->pipeline != NULL)
        return spsh__stages_put(l->pipeline, index, b == NULL ? NULL : &b->batch, err);
    if (b == NULL)
        return on_skip(l, index, err);
    spsh_status rc = spsh__model_forward(l->model, &b->batch, true, &logits, lengths, err);
    if (rc == SPSH_OK)
        rc = on_loss(l, index, l->model, logits, err);
    l->index = index;
    if (rc == SPSH_OK)
        spsh__model_backward(l->model, spsh__model_logit_gradients(l->model), on_plain_bucket, l);
    return rc;
}

static spsh_status put_next(learner *l, uint32_t index, spsh_error *err)
{
    micro_batch b;
    if (is_empty(l->learner.step, index))
        return put(l, index, NULL, err);
    make_batch(&l->world->kind, l->learner.step, index, &b);
    if (l->rank > 0)
        b.batch.features = NULL;
    const spsh_status rc = put(l, index, &b, err);
    free(b.features);
    return rc;
}

/* Clip, so that the last bit of the norm affects the weights, too. */
static void update(learner *l, double square_sum)
{
    const spsh__sgd sgd = {.rate = 0.05};
    const spsh__update u = {.weights = l->learner.weights,
                            .gradients = l->learner.gradients,
                            .count = l->learner.arena_elements,
                            .gradient_scale = 1 / sqrt(square_sum)};
    l->backend->ops->sgd_fn(l->backend, &sgd, &u);
}

static spsh_status train_step(learner *l, spsh_error *err)
{
    const spsh__strategy_ops *ops = l->strategy->ops;
    outcome *out = &l->world->out;
    double totals[2], squares = 0;
    spsh_status rc = ops->before_forward_fn(l->strategy, err);
    memset(l->rows, 0, sizeof(l->rows));
    if (l->pipeline != NULL)
        spsh__stages_begin(l->pipeline);
    const uint32_t micro_batches = micro_batches_of(&l->world->kind, l->learner.step);
    for (uint32_t index = 0; rc == SPSH_OK && index < micro_batches; index++)
        rc = put_next(l, index, err);
    if (rc == SPSH_OK && l->pipeline != NULL)
        rc = spsh__stages_end(l->pipeline, err);
    if (rc == SPSH_OK)
        rc = ops->after_backward_fn(l->strategy, l->rows[0], totals, 2, err);
    if (rc == SPSH_OK)
        rc = ops->square_sum_fn(l->strategy, &squares, err);
    if (rc != SPSH_OK)
        return rc;
    update(l, squares);
    if (l->rank == 0) { /* the same on all */
        memcpy(out->totals[l->learner.step], totals, sizeof(totals));
        out->squares[l->learner.step] = squares;
    }
    l->learner.step++;
    return ops->after_step_fn(l->strategy, err);
}

static spsh_status open_stage(learner *l, spsh_error *err)
{
    const run_kind *k = &l->world->kind;
    const spsh__stages_options options = {.backend = l->backend,
                                          .comm = l->comm,
                                          .shape = &k->shape,
                                          .limits = &limits,
                                          .cuts = k->cuts,
                                          .cut_count = k->stages - 1,
                                          .loss_fn = on_loss,
                                          .bucket_fn = on_bucket,
                                          .skip_fn = on_skip,
                                          .user = l};
    const spsh_status rc = spsh__stages_open(&options, &l->pipeline, err);
    if (rc == SPSH_OK) {
        spsh__model_init(spsh__stages_model(l->pipeline), 7);
        spsh__stages_learner(l->pipeline, &l->learner);
    }
    return rc;
}

static spsh_status open_plain(learner *l, spsh_error *err)
{
    const spsh_status rc =
        spsh__model_open(l->backend, &l->world->kind.shape, &limits, &l->model, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__model *m = l->model;
    spsh__model_init(l->model, 7);
    l->learner.bucket_count = spsh__model_bucket_count(m);
    l->buckets = calloc(l->learner.bucket_count, sizeof(*l->buckets));
    REQUIRE(l->buckets != NULL);
    for (uint32_t b = 0; b < l->learner.bucket_count; b++)
        spsh__model_bucket(m, b, &l->buckets[b].offset, &l->buckets[b].count);
    l->learner.backend = l->backend;
    l->learner.weights = spsh__model_weights(m);
    l->learner.gradients = spsh__model_gradients(m);
    l->learner.arena_elements = spsh__model_arena_elements(m);
    l->learner.statistics = spsh__model_statistics(m, &l->learner.statistics_elements);
    l->learner.buckets = l->buckets;
    return SPSH_OK;
}

/* Store this stage's part of the outcome. */
static void hand_in(const learner *l)
{
    const spsh__learner *in = &l->learner;
    const spsh__slice whole = {0, 0};
    const spsh__slice *arena = l->pipeline == NULL ? &whole : &in->staged->stages[l->rank];
    const spsh__slice *statistics = l->pipeline == NULL ? &whole : &in->staged->statistics[l->rank];
    outcome *out = &l->world->out;
    l->backend->ops->read_f32_fn(l->backend, out->weights + arena->offset, in->weights,
                                 in->arena_elements);
    l->backend->ops->read_f32_fn(l->backend, out->statistics + statistics->offset, in->statistics,
                                 in->statistics_elements);
}

static spsh_status learn(learner *l, spsh_error *err)
{
    const run_kind *k = &l->world->kind;
    spsh_status rc = k->is_plain ? open_plain(l, err) : open_stage(l, err);
    l->learner.comm = l->own;
    l->learner.virtual_world = k->micro_batches;
    if (rc == SPSH_OK)
        rc = spsh__strategy_open(k->is_plain ? "allreduce" : "pipeline", spsh_allocator_default(),
                                 &l->strategy, err);
    if (rc == SPSH_OK)
        rc = l->strategy->ops->start_fn(l->strategy, &l->learner, err);
    while (rc == SPSH_OK && l->learner.step < STEPS) {
        if (k->dies > 0 && l->rank == k->dies && l->learner.step == 1)
            return SPSH_E_CANCELED;
        rc = train_step(l, err);
    }
    if (rc == SPSH_OK)
        hand_in(l);
    return rc;
}

static void *be_process(void *user)
{
    learner *l = (learner *)user;
    const run_kind *k = &l->world->kind;
    const spsh__launch launch = {.rank = l->rank,
                                 .world_size = k->stages,
                                 .local_rank = l->rank,
                                 .local_size = k->stages,
                                 .node_count = 1,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = l->world->folder, .deadline_ms = DEADLINE_MS};
    const spsh_allocator *allocator = spsh_allocator_default();
    REQUIRE(spsh__comm_self_open(allocator, &l->own, NULL) == SPSH_OK);
    if (k->stages == 1)
        REQUIRE(spsh__comm_self_open(allocator, &l->comm, NULL) == SPSH_OK);
    else
        REQUIRE(spsh__comm_open(&meeting, allocator, &l->comm, NULL) == SPSH_OK);
    l->status = learn(l, &l->error);
    if (l->status != SPSH_OK)
        spsh__comm_fail(l->comm);
    spsh__comm_close(l->comm); /* first: messages in flight use the pipeline's memory */
    spsh__strategy_close(l->strategy);
    spsh__stages_close(l->pipeline);
    spsh__model_close(l->model);
    free(l->buckets);
    spsh__comm_close(l->own);
    spsh__backend_close(l->backend);
    return NULL;
}

/* ---- worlds ---- */

static world *run(const run_kind *kind)
{
    pthread_t threads[STAGES_MAX];
    world *w = calloc(1, sizeof(*w));
    REQUIRE(w != NULL);
    w->kind = *kind;
    test_temp_dir(w->folder, sizeof(w->folder));
    for (uint32_t i = 0; i < kind->stages; i++) {
        learner *l = &w->learners[i];
        *l = (learner){.world = w, .rank = i, .error = SPSH_ERROR_INIT};
        REQUIRE(spsh__backend_open(kind->backend, 1, NULL, &l->backend, NULL) == SPSH_OK);
    }
    spsh__model *layout = NULL;
    REQUIRE(spsh__model_open_layout(w->learners[0].backend, &kind->shape,
                                    &(spsh__model_stage){0, 0}, &layout, NULL) == SPSH_OK);
    uint64_t statistics = 0;
    (void)spsh__model_statistics(layout, &statistics);
    w->out.weights = calloc(spsh__model_arena_elements(layout), sizeof(float));
    w->out.statistics = calloc(statistics + 1, sizeof(float));
    REQUIRE(w->out.weights != NULL && w->out.statistics != NULL);
    spsh__model_close(layout);
    for (uint32_t i = 0; i < kind->stages; i++)
        REQUIRE(pthread_create(&threads[i], NULL, be_process, &w->learners[i]) == 0);
    for (uint32_t i = 0; i < kind->stages; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    test_remove_tree(w->folder);
    return w;
}

static void end(world *w)
{
    free(w->out.weights);
    free(w->out.statistics);
    free(w);
}

static void check_good(const world *w)
{
    for (uint32_t i = 0; i < w->kind.stages; i++) {
        if (w->learners[i].status != SPSH_OK)
            fprintf(stderr, "%s, stage %u of %u: %s\n", w->kind.name, i, w->kind.stages,
                    w->learners[i].error.message);
        CHECK_I64(w->learners[i].status, SPSH_OK);
    }
}

static void check_same(const world *plain, const world *w, uint64_t elements, uint64_t statistics)
{
    bool is_same =
        memcmp(plain->out.weights, w->out.weights, elements * sizeof(float)) == 0 &&
        memcmp(plain->out.statistics, w->out.statistics, statistics * sizeof(float)) == 0;
    for (int step = 0; step < STEPS; step++)
        is_same = is_same && plain->out.squares[step] == w->out.squares[step] &&
                  plain->out.totals[step][0] == w->out.totals[step][0] &&
                  plain->out.totals[step][1] == w->out.totals[step][1];
    if (!is_same)
        fprintf(stderr, "%s (%s): %u stages, %u micro-batches: other bits; loss %.17g, %.17g\n",
                w->kind.name, w->kind.backend, w->kind.stages, w->kind.micro_batches,
                plain->out.totals[0][0], w->out.totals[0][0]);
    CHECK(is_same);
}

static void compare(run_kind kind, uint32_t stages)
{
    uint64_t statistics = 0;
    run_kind of_one = kind;
    of_one.stages = 1;
    of_one.is_plain = true;
    world *plain = run(&of_one);
    check_good(plain);
    CHECK(plain->out.squares[0] > 0 && isfinite(plain->out.squares[STEPS - 1]));
    spsh__backend *backend = NULL;
    spsh__model *layout = NULL;
    REQUIRE(spsh__backend_open("cpu", 1, NULL, &backend, NULL) == SPSH_OK);
    REQUIRE(spsh__model_open_layout(backend, &kind.shape, &(spsh__model_stage){0, 0}, &layout,
                                    NULL) == SPSH_OK);
    (void)spsh__model_statistics(layout, &statistics);
    kind.stages = stages;
    world *w = run(&kind);
    check_good(w);
    check_same(plain, w, spsh__model_arena_elements(layout), statistics);
    end(w);
    end(plain);
    spsh__model_close(layout);
    spsh__backend_close(backend);
}

static spsh__model_shape ds2(void)
{
    return (spsh__model_shape){.kind = SPSH__MODEL_DS2,
                               .inputs = 9,
                               .conv_channels = 2,
                               .layers = 3,
                               .cell = SPSH__CELL_LSTM,
                               .hidden = 8,
                               .is_bidirectional = true,
                               .outputs = 6};
}

static spsh__model_shape ds2_forward(void)
{
    spsh__model_shape s = ds2();
    s.cell = SPSH__CELL_GRU;
    s.is_bidirectional = false;
    s.lookahead = 3;
    s.layers = 2;
    return s;
}

static spsh__model_shape hybrid(void)
{
    return (spsh__model_shape){.kind = SPSH__MODEL_LSTM_HYBRID,
                               .inputs = 7,
                               .layers = 3,
                               .cell = SPSH__CELL_LSTM,
                               .hidden = 8,
                               .is_bidirectional = true,
                               .bottleneck = 5,
                               .outputs = 11};
}

/* Several blocks of the norm, and cuts in the middle of them. */
static spsh__model_shape wide(void)
{
    spsh__model_shape s = ds2();
    s.hidden = 72;
    return s;
}

/* ---- tests ---- */

static void test_stages_are_one_model_to_the_bit(void)
{
    static const uint32_t micro_batches[] = {1, 2, 4, 8};
    const spsh__model_shape shapes[] = {ds2(), ds2_forward(), hybrid()};
    static const char *const names[] = {"ds2", "ds2, forward", "hybrid"};
    for (size_t s = 0; s < 3; s++) {
        for (size_t i = 0; i < 4; i++) {
            const run_kind kind = {.name = names[s],
                                   .backend = "cpu",
                                   .shape = shapes[s],
                                   .micro_batches = micro_batches[i]};
            for (uint32_t stages = 1; stages <= 3; stages++)
                compare(kind, stages);
        }
    }
}

static void test_doubles_and_wide_layers_are_so_too(void)
{
    const run_kind doubles = {
        .name = "doubles", .backend = "reference", .shape = ds2(), .micro_batches = 4};
    const run_kind blocks = {.name = "wide", .backend = "cpu", .shape = wide(), .micro_batches = 2};
    spsh__model_shape padded = ds2();
    padded.counts_padding = true;
    const run_kind padding = {
        .name = "padding", .backend = "cpu", .shape = padded, .micro_batches = 4};
    compare(doubles, 3);
    compare(blocks, 2);
    compare(blocks, 4);
    compare(padding, 2);
}

/* For any cut. */
static void test_cuts_are_as_given(void)
{
    const spsh__model_shape shapes[] = {ds2(), hybrid()};
    for (size_t s = 0; s < 2; s++) {
        for (uint32_t cut = 1; cut < 5; cut++) {
            const run_kind kind = {.name = "cut",
                                   .backend = "cpu",
                                   .shape = shapes[s],
                                   .micro_batches = 3,
                                   .cuts = &cut};
            compare(kind, 2);
        }
    }
}

static void test_a_stage_that_dies_ends_the_others(void)
{
    const run_kind kind = {.name = "dies",
                           .backend = "cpu",
                           .shape = ds2(),
                           .micro_batches = 4,
                           .stages = 3,
                           .dies = 1};
    world *w = run(&kind);
    CHECK_I64(w->learners[1].status, SPSH_E_CANCELED);
    for (uint32_t i = 0; i < 3; i += 2) {
        printf("stage %u: %s\n", i, w->learners[i].error.message);
        CHECK(w->learners[i].status != SPSH_OK && w->learners[i].learner.step == 1);
    }
    end(w);
}

static void check_refused(const uint32_t *cuts, uint32_t count, uint32_t stages, const char *text)
{
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh__stages_check_cuts(cuts, count, stages, 5, &err), SPSH_E_INVALID_ARG);
    if (strstr(err.message, text) == NULL)
        fprintf(stderr, "\"%s\" is not in: %s\n", text, err.message);
    CHECK(strstr(err.message, text) != NULL);
}

static void test_wrong_cuts_are_told(void)
{
    const uint32_t good[] = {1, 4}, zero[] = {0, 2}, falling[] = {3, 3}, behind[] = {1, 5};
    CHECK_I64(spsh__stages_check_cuts(good, 2, 3, 5, NULL), SPSH_OK);
    check_refused(good, 2, 2, "2 cuts give 3 stages, but there are 2 processes");
    check_refused(zero, 2, 3, "from 1 to 4");
    check_refused(falling, 2, 3, "cut 2 is at block 3");
    check_refused(behind, 2, 3, "cut 2 is at block 5");
    check_refused(good, 2, 6, "6 processes cannot share a model of 5 blocks");
}

static double dearest(const double *works, uint32_t blocks, const uint32_t *firsts, uint32_t stages)
{
    double most = 0;
    for (uint32_t s = 0; s < stages; s++) {
        double work = 0;
        const uint32_t last = s + 1 < stages ? firsts[s + 1] : blocks;
        CHECK(firsts[s] < last);
        for (uint32_t b = firsts[s]; b < last; b++)
            work += works[b];
        most = work > most ? work : most;
    }
    return most;
}

/* Compared with all ways to cut. */
static void test_stages_are_balanced(void)
{
    enum { BLOCKS = 7 };
    uint64_t state = 11;
    for (int round = 0; round < 50; round++) {
        double works[BLOCKS], best = HUGE_VAL;
        uint32_t firsts[3];
        for (int b = 0; b < BLOCKS; b++)
            works[b] = 1 + below(&state, 20);
        for (uint32_t i = 1; i < BLOCKS; i++) {
            for (uint32_t j = i + 1; j < BLOCKS; j++) {
                const uint32_t cuts[3] = {0, i, j};
                best = fmin(best, dearest(works, BLOCKS, cuts, 3));
            }
        }
        REQUIRE(spsh__stages_balance(works, BLOCKS, 3, firsts, NULL) == SPSH_OK);
        CHECK(firsts[0] == 0 && dearest(works, BLOCKS, firsts, 3) <= best);
    }
}

/* Length of a step if each operation takes 1. */
static uint32_t simulate(uint32_t stages, uint32_t micro_batches)
{
    uint32_t forward_at[STAGES_MAX][MICRO_BATCHES + 1], backward_at[STAGES_MAX][MICRO_BATCHES + 1];
    uint32_t forwards[STAGES_MAX] = {0}, backwards[STAGES_MAX] = {0};
    uint32_t now = 0;
    while (backwards[0] < micro_batches) {
        REQUIRE(now < 100);
        for (uint32_t s = 0; s < stages; s++) {
            const uint32_t f = forwards[s], b = backwards[s];
            const spsh__stages_operation next =
                spsh__stages_next(spsh__stages_window(s, stages), f, b, f < micro_batches);
            const bool is_last = s + 1 == stages;
            if (next == SPSH__STAGES_FORWARD &&
                (s == 0 || (forwards[s - 1] > f && forward_at[s - 1][f] < now)))
                forward_at[s][forwards[s]++] = now;
            else if (next == SPSH__STAGES_BACKWARD &&
                     (is_last || (backwards[s + 1] > b && backward_at[s + 1][b] < now)))
                backward_at[s][backwards[s]++] = now;
            CHECK(forwards[s] - backwards[s] <= spsh__stages_window(s, stages));
        }
        now++;
    }
    return now;
}

/* 2 M of work, and 2 (S - 1) of waiting. */
static void test_the_bubble_is_as_long_as_said(void)
{
    for (uint32_t stages = 1; stages <= STAGES_MAX; stages++) {
        for (uint32_t micro_batches = 1; micro_batches <= MICRO_BATCHES; micro_batches++)
            CHECK_U64(simulate(stages, micro_batches), 2 * (micro_batches + stages - 1));
    }
}

TEST_MAIN(unit_train_pipeline)
{
    RUN(test_the_bubble_is_as_long_as_said);
    RUN(test_stages_are_balanced);
    RUN(test_wrong_cuts_are_told);
    RUN(test_stages_are_one_model_to_the_bit);
    RUN(test_doubles_and_wide_layers_are_so_too);
    RUN(test_cuts_are_as_given);
    RUN(test_a_stage_that_dies_ends_the_others);
    return TEST_RESULT();
}

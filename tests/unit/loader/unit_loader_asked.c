/* unit_loader_asked.c: a loader with requested batches. For any order of the requests, the batch of
 * a step is the batch that a sequential loader serves there. */
#include "loader_kit.h"
#include "talk_dataset.h"

enum { EPOCHS = 3, STEPS_MAX = 256 };

static char folder[512], path[600];
static uint64_t wanted[EPOCHS][STEPS_MAX]; /* digests of a sequential loader */
static uint64_t step_count[EPOCHS];

static uint64_t mix_bytes(uint64_t state, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = (const uint8_t *)data;
    for (size_t n = 0; n < size_bytes; n++)
        state = (state ^ bytes[n]) * UINT64_C(0x100000001b3);
    return state;
}

static uint64_t mix(uint64_t state, uint64_t value)
{
    return (state ^ value) * UINT64_C(0x100000001b3);
}

/* Digest everything that a borrower sees: utterances in their order, and augmented samples. */
static uint64_t digest(const spsh_batch *b)
{
    uint64_t state = mix(mix(mix(UINT64_C(0xcbf29ce484222325), b->epoch), b->step), b->number);
    state = mix(mix(mix(state, b->utterance_count), b->padded_samples), b->value_count);
    for (uint32_t n = 0; n < b->utterance_count; n++) {
        const spsh_batch_utterance *u = &b->utterances[n];
        state = mix(mix(mix(state, u->item.position), u->item.pass), u->samples);
        state = mix_bytes(state, u->id.data, u->id.size_bytes);
        state = mix_bytes(state, u->text.data, u->text.size_bytes);
    }
    return mix_bytes(state, b->f32, b->value_count * sizeof(*b->f32));
}

static spsh_loader_options options(spsh_augment_options *augment, bool is_asked)
{
    spsh_loader_options opt = small_options();
    *augment = (spsh_augment_options)SPSH_AUGMENT_OPTIONS_INIT;
    require(spsh_augment_options_parse(
        "speed-perturb,gain_probability=1,gain_db_min=-6,gain_db_max=6", augment, &err));
    opt.output = SPSH_OUTPUT_FLOAT32;
    kit_plan.seed = 11;
    kit_plan.batch_utterances_max = 3;
    opt.augment = augment;
    opt.is_asked = is_asked;
    return opt;
}

/* Record the digests of all batches of all epochs, in the order of the plan. */
static void follow_the_plan(void)
{
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    const spsh_loader_options opt = options(&augment, false);
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader *loader = open_loader(dataset, &opt);
    for (uint64_t e = 0; e < EPOCHS;) {
        const spsh_batch *batch = NULL;
        const spsh_status rc = spsh_loader_next(loader, &batch, &err);
        if (rc == SPSH_E_END) {
            e++;
            continue;
        }
        require(rc);
        REQUIRE(batch->step == step_count[e] && batch->step < STEPS_MAX);
        wanted[e][step_count[e]++] = digest(batch);
        spsh_loader_release(loader, batch);
    }
    REQUIRE(step_count[0] > 20);
    CHECK(wanted[0][3] != wanted[1][3]);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

typedef struct step {
    uint64_t epoch, step;
} step;

/* Request `ahead` steps before taking the first batch. */
static void check_steps(spsh_loader *loader, const step *steps, size_t count, size_t ahead)
{
    size_t asked = 0;
    for (size_t n = 0; n < count; n++) {
        const spsh_batch *batch = NULL;
        for (; asked < count && asked < n + ahead; asked++)
            require(spsh_loader_ask(loader, steps[asked].epoch, steps[asked].step, &err));
        require(spsh_loader_next(loader, &batch, &err));
        CHECK_U64(batch->epoch, steps[n].epoch);
        CHECK_U64(batch->step, steps[n].step);
        CHECK_U64(digest(batch), wanted[steps[n].epoch][steps[n].step]);
        spsh_loader_release(loader, batch);
    }
}

static void test_any_order(void)
{
    const uint64_t seed = test_seed(5);
    static step steps[200];
    for (uint32_t threads = 1; threads <= 4; threads += 3)
        for (int engine = SPSH_ENGINE_AUTO; engine <= SPSH_ENGINE_PREAD; engine += 2) {
            uint64_t state = seed + threads;
            spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
            spsh_loader_options opt = options(&augment, true);
            opt.decode_threads = threads;
            opt.engine = (spsh_engine)engine;
            opt.slots = 4;
            spsh_dataset *dataset = open_dataset(path);
            spsh_loader *loader = open_loader(dataset, &opt);
            for (size_t n = 0; n < 200; n++) {
                steps[n].epoch = test_random(&state) % EPOCHS;
                steps[n].step = test_random(&state) % step_count[steps[n].epoch];
            }
            check_steps(loader, steps, 200, threads);
            spsh_loader_close(loader);
            spsh_dataset_close(dataset);
        }
}

/* Request steps as learners do: upward, with gaps, back to a step that another learner has left,
 * and on into the next epoch. Then repeat everything from the beginning. */
static void test_as_learners_ask(void)
{
    static step steps[2 * EPOCHS * STEPS_MAX];
    size_t count = 0;
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    const spsh_loader_options opt = options(&augment, true);
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader *loader = open_loader(dataset, &opt);
    for (uint64_t e = 0; e < EPOCHS; e++)
        for (uint64_t s = e; s < step_count[e]; s += 1 + s % 4) {
            steps[count++] = (step){e, s};
            if (s % 5 == 4)
                steps[count++] = (step){e, s - 3};
        }
    check_steps(loader, steps, count, 3);
    count = 0;
    for (uint64_t s = 0; s < step_count[0]; s++)
        steps[count++] = (step){0, s};
    check_steps(loader, steps, count, 2);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_how_many_may_be_asked_for(void)
{
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_loader_options opt = options(&augment, true);
    const spsh_batch *batch = NULL, *lent[3];
    opt.slots = 3;
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader *loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "no batch was requested") != NULL);
    for (uint64_t s = 0; s < 3; s++)
        require(spsh_loader_ask(loader, 0, s, &err));
    CHECK_I64(spsh_loader_ask(loader, 0, 3, &err), SPSH_E_LIMIT);
    CHECK(strstr(err.message, "3 requests are outstanding") != NULL);
    for (uint64_t s = 0; s < 3; s++) {
        require(spsh_loader_next(loader, &lent[s], &err));
        CHECK_U64(digest(lent[s]), wanted[0][s]);
        require(spsh_loader_ask(loader, 0, 3 + s, &err));
    }
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_LIMIT); /* all batches are lent */
    for (int s = 0; s < 3; s++)
        spsh_loader_release(loader, lent[s]);
    require(spsh_loader_next(loader, &batch, &err));
    CHECK_U64(digest(batch), wanted[0][3]);
    spsh_loader_close(loader); /* with one batch lent and two in flight */
    spsh_dataset_close(dataset);
}

static void test_steps_that_are_not_there(void)
{
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    const spsh_loader_options opt = options(&augment, true);
    spsh_dataset *dataset = open_dataset(path);
    spsh_loader *loader = open_loader(dataset, &opt);
    const spsh_batch *batch = NULL;
    require(spsh_loader_ask(loader, 1, 4, &err));
    require(spsh_loader_ask(loader, 1, step_count[1], &err));
    require(spsh_loader_ask(loader, 0, UINT64_MAX, &err));
    require(spsh_loader_ask(loader, UINT64_MAX, 0, &err));
    require(spsh_loader_ask(loader, 1, 5, &err));
    require(spsh_loader_next(loader, &batch, &err));
    CHECK_U64(digest(batch), wanted[1][4]);
    spsh_loader_release(loader, batch);
    for (int n = 0; n < 3; n++)
        CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_INVALID_ARG);
    require(spsh_loader_next(loader, &batch, &err));
    CHECK_U64(digest(batch), wanted[1][5]);
    spsh_loader_release(loader, batch);
    CHECK_I64(spsh_loader_next(loader, &batch, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(loader);
    spsh_dataset_close(dataset);
}

static void test_what_is_refused(void)
{
    spsh_augment_options augment = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_loader_options opt = options(&augment, true);
    uint8_t cursor[SPSH_CURSOR_BYTES];
    size_t size = 0;
    spsh_dataset *dataset = open_dataset(path);
    const spsh_dataset *const datasets[1] = {dataset};
    spsh_loader *loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_loader_seek(loader, 0, 1, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(loader);
    opt.is_asked = false;
    loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_ask(loader, 0, 0, &err), SPSH_E_INVALID_ARG);
    require(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size, &err));
    spsh_loader_close(loader);
    opt.is_asked = true;
    loader = open_loader(dataset, &opt);
    CHECK_I64(spsh_loader_cursor_restore(loader, cursor, size, &err), SPSH_E_INVALID_ARG);
    spsh_loader_close(loader);
    opt.world_size = 2;
    CHECK_I64(spsh_loader_open(datasets, 1, &opt, &loader, &err), SPSH_E_INVALID_ARG);
    opt.world_size = 1;
    kit_plan.virtual_world_size = 2;
    CHECK_I64(spsh_loader_open(datasets, 1, &opt, &loader, &err), SPSH_E_INVALID_ARG);
    spsh_dataset_close(dataset);
}

TEST_MAIN(unit_loader_asked)
{
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/mixed", folder);
    talk_dataset_make(path, TALK_MIXED);
    follow_the_plan();
    RUN(test_any_order);
    RUN(test_as_learners_ask);
    RUN(test_how_many_may_be_asked_for);
    RUN(test_steps_that_are_not_there);
    RUN(test_what_is_refused);
    test_remove_tree(folder);
    return TEST_RESULT();
}

/* unit_train_run_strategies.c: runs under each strategy. One learner of any strategy equals SGD, to
 * the bit. Options that do not fit a strategy are reported. Several processes: see
 * mpi/mpi_strategies_test.py. */
#include "train_kit.h"

#define ONE_BATCH "data.virtual_world=1", "train.accumulate=1"

static const char *const names[] = {"dpsgd-ring",    "d1-model", "d1-grad", "adpsgd-fixed",
                                    "adpsgd-random", "ps-async", "hogwild", "hierarchical"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static uint64_t steps, weights;
static size_t stride;

static void test_one_learner_is_sgd(void)
{
    kit_run plain = {.folder = "plain", .overrides = {ONE_BATCH}};
    REQUIRE(train_kit_run(&plain) == SPSH_OK);
    steps = plain.result.steps;
    weights = train_kit_weights("plain");
    for (size_t n = stride - 1; n < NAMES; n += stride) {
        char strategy[64];
        (void)snprintf(strategy, sizeof(strategy), "train.strategy=%s", names[n]);
        kit_run run = {
            .folder = names[n], .overrides = {ONE_BATCH, strategy}
        };
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(run.result.steps, steps);
        CHECK_U64(run.result.samples, plain.result.samples);
        CHECK(run.result.wer == plain.result.wer);
        if (train_kit_weights(names[n]) != weights)
            fprintf(stderr, "%s: other weights\n%s", names[n], run.err.message);
        CHECK_U64(train_kit_weights(names[n]), weights);
    }
}

/* A run stops in the middle of an epoch, and another strategy resumes it. */
static void test_stopped_and_resumed(void)
{
    for (size_t n = stride - 1; n < NAMES; n += stride) {
        char folder[64], strategy[64], next[64];
        (void)snprintf(folder, sizeof(folder), "%s-stopped", names[n]);
        (void)snprintf(strategy, sizeof(strategy), "train.strategy=%s", names[n]);
        (void)snprintf(next, sizeof(next), "train.strategy=%s", names[(n + 1) % NAMES]);
        kit_run run = {
            .folder = folder, .stop_at = 3, .overrides = {ONE_BATCH, strategy}
        };
        CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
        CHECK(run.result.steps >= 3 && run.result.steps < steps);
        run = (kit_run){
            .folder = folder, .resume = true, .overrides = {ONE_BATCH, next}
        };
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(run.result.steps, steps);
        CHECK_U64(train_kit_weights(folder), weights);
    }
}

static void fails(const char *first, const char *text)
{
    kit_run run = {
        .folder = "wrong", .overrides = {ONE_BATCH, first}
    };
    CHECK(train_kit_run(&run) != SPSH_OK);
    if (strstr(run.err.message, text) == NULL)
        fprintf(stderr, "%s: said '%s', not '%s'\n", first, run.err.message, text);
    CHECK(strstr(run.err.message, text) != NULL);
}

static void test_wrong_options(void)
{
    fails("train.strategy=adpsgd", "did you mean 'adpsgd-");
    fails("train.strategy=other-thing", "expected one of allreduce, partitioned, ps-sync");
    fails("train.staleness_max=some", "is not 'any' or a whole number");
    fails("train.inner=hogwild", "expected one of allreduce, partitioned, ps-sync");
    fails("train.node_sise=2", "did you mean 'train.node_size'");
}

TEST_MAIN(unit_train_run_strategies)
{
    stride = test_stride(argc, argv, 2); /* every second strategy is stopped and resumed */
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    RUN(test_one_learner_is_sgd);
    RUN(test_stopped_and_resumed);
    RUN(test_wrong_options);
    test_remove_tree(base);
    return TEST_RESULT();
}

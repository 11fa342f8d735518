/* unit_train_run_simulated.c: runs of several learners in this process, on a simulated clock. They
 * use real gradients, serve every utterance once, and repeat with identical bits. Their times
 * follow from the cluster description. */
#include <dirent.h>
#include <math.h>

#include "speechshard/loader.h"
#include "test_number.h"
#include "train_kit.h"

#define FOUR "learners=4,step=250ms,jitter=0.2,slow=1:10x,link=1ms+100Mbit"

enum { UTTERANCES = 96, LEARNERS = 4 };

static const struct {
    const char *name, *cluster, *more;
} strategies[] = {
    {"allreduce",     FOUR,                             NULL                  },
    {"partitioned",   FOUR,                             NULL                  },
    {"ps-sync",       FOUR,                             NULL                  },
    {"dpsgd-ring",    FOUR,                             NULL                  },
    {"d1-model",      FOUR,                             NULL                  },
    {"d1-grad",       FOUR,                             NULL                  },
    {"adpsgd-fixed",  FOUR,                             NULL                  },
    {"adpsgd-random", FOUR,                             NULL                  },
    {"ps-async",      FOUR,                             "train.overlap=true"  },
    {"hogwild",       FOUR ",node=4",                   NULL                  },
    {"hierarchical",  FOUR ",node=2,node_link=5GB",     "train.outer=d1-model"},
    {"hierarchical",  FOUR ",node=2,node_link=1us+5GB", NULL                  },
};
enum { STRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };

/* ---- which utterances learners are served ---- */

static uint32_t served[2][2 * UTTERANCES]; /* counts for an epoch, by position */
static bool counts_served;
static size_t every = 1; /* test every N-th strategy, from the last one on */

/* The linker gives these names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming) */
spsh_status __real_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);
spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err);

spsh_status __wrap_spsh_loader_next(spsh_loader *loader, const spsh_batch **ret, spsh_error *err)
{
    const spsh_status rc = __real_spsh_loader_next(loader, ret, err);
    for (uint32_t n = 0; rc == SPSH_OK && counts_served && n < (*ret)->utterance_count; n++) {
        const uint64_t at_place = (*ret)->utterances[n].item.position;
        REQUIRE((*ret)->epoch < 2 && at_place < 2 * UTTERANCES);
        served[(*ret)->epoch][at_place]++;
    }
    return rc;
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */

static void check_served_once(const char *name)
{
    for (int epoch = 0; epoch < 2; epoch++) {
        uint32_t places = 0;
        for (uint32_t i = 0; i < 2 * UTTERANCES; i++) {
            places += served[epoch][i] > 0;
            if (served[epoch][i] > 1)
                fprintf(stderr, "%s: utterance %u %u times in epoch %d\n", name, i,
                        served[epoch][i], epoch);
            CHECK(served[epoch][i] <= 1);
        }
        CHECK_U64(places, UTTERANCES);
    }
}

/* ---- runs ---- */

static kit_run run_of(size_t n, const char *folder)
{
    static char strategy[64];
    (void)snprintf(strategy, sizeof(strategy), "train.strategy=%s", strategies[n].name);
    return (kit_run){
        .folder = folder,
        .simulate = strategies[n].cluster,
        .overrides = {strategy, "train.accumulate=1", "data.virtual_world=4",
                      strategies[n].more != NULL ? strategies[n].more : "train.accumulate=1"}
    };
}

static void same_file(const char *first, const char *second, const char *name)
{
    char path[2][1200];
    size_t size[2] = {0, 0};
    (void)snprintf(path[0], sizeof(path[0]), "%s/%s/%s", base, first, name);
    (void)snprintf(path[1], sizeof(path[1]), "%s/%s/%s", base, second, name);
    uint8_t *a = test_file_read(path[0], &size[0]), *b = test_file_read(path[1], &size[1]);
    CHECK_U64(size[0], size[1]);
    CHECK(size[0] > 0 && size[0] == size[1] && memcmp(a, b, size[0]) == 0);
    free(a);
    free(b);
}

/* Number of stale updates: all counts of all steps except the first. */
static uint64_t stale_updates(const char *folder)
{
    static const char key[] = "\"staleness\":[";
    char path[1200];
    size_t size = 0;
    uint64_t sum = 0;
    (void)snprintf(path, sizeof(path), "%s/%s/metrics.jsonl", base, folder);
    char *text = (char *)test_file_read(path, &size);
    text[size] = '\0';
    for (char *at = strstr(text, key); at != NULL; at = strstr(at, key)) {
        (void)strtoull(at + strlen(key), &at, 10);
        while (*at == ',')
            sum += strtoull(at + 1, &at, 10);
    }
    free(text);
    return sum;
}

/* The files of rank 0 are identical to the byte: nothing that is logged or saved depends on real
 * time. */
static void test_the_same_again(void)
{
    for (size_t n = STRATEGIES; n-- > 0;) {
        if ((STRATEGIES - 1 - n) % every != 0)
            continue;
        memset(served, 0, sizeof(served));
        for (int i = 0; i < 2; i++) {
            kit_run run = run_of(n, i == 0 ? "first" : "second");
            run.overrides[4] = "data.dev=[]";
            counts_served = i == 0;
            const spsh_status rc = train_kit_run(&run);
            counts_served = false;
            if (rc != SPSH_OK)
                fprintf(stderr, "%s: %s\n", strategies[n].name, run.err.message);
            REQUIRE(rc == SPSH_OK);
            CHECK_U64(run.result.samples, 2 * UTTERANCES);
        }
        check_served_once(strategies[n].name);
        if (strncmp(strategies[n].name, "adpsgd", 6) == 0 ||
            strcmp(strategies[n].name, "ps-async") == 0)
            CHECK(stale_updates("first") > 0); /* by a learner that takes ten times as long */
        same_file("first", "second", "metrics.jsonl");
        same_file("first", "second", "checkpoints/000001-000000000192.spsh");
        test_remove_tree(at("first"));
        test_remove_tree(at("second"));
    }
}

/* A sum is always the same tree of micro-batches, whichever ranks compute it. */
static void test_sums_are_those_of_one_process(void)
{
    kit_run one = {
        .folder = "one", .overrides = {"data.virtual_world=4", "train.accumulate=1"}
    };
    REQUIRE(train_kit_run(&one) == SPSH_OK);
    for (size_t n = 0; n < 3; n += every) {
        kit_run run = run_of(n, strategies[n].name);
        REQUIRE(train_kit_run(&run) == SPSH_OK);
        CHECK_U64(run.result.steps, one.result.steps);
        CHECK(run.result.wer == one.result.wer && run.result.loss == one.result.loss);
        CHECK_U64(train_kit_weights(strategies[n].name), train_kit_weights("one"));
    }
}

/* Updates that grow make the same steps on any number of processes, and after a resume. */
static void test_growing_updates(void)
{
    enum { CONSTANT = 25, GROWING = 11 }; /* steps of 2 epochs: 12 + 13; 8 + 3 */
    kit_run run = {
        .folder = "growing",
        .overrides = {"data.virtual_world=4", "train.accumulate=1", "data.max_padded_seconds=0.5",
                      "train.accumulate_samples=32", "train.accumulate_max=4"}
    };
    kit_run constant = {.folder = "constant"};
    memcpy(constant.overrides, run.overrides, 3 * sizeof(*run.overrides));
    REQUIRE(train_kit_run(&constant) == SPSH_OK && train_kit_run(&run) == SPSH_OK);
    CHECK_U64(constant.result.steps, CONSTANT);
    CHECK_U64(run.result.steps, GROWING);
    CHECK_U64(run.result.samples, 2 * UTTERANCES);
    const uint64_t weights = train_kit_weights("growing");

    run.folder = "growing stopped";
    run.stop_at = 5;
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    run.resume = true;
    run.stop_at = 0;
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(train_kit_weights("growing stopped"), weights);

    run.resume = false;
    for (size_t n = 0; n < 3; n += every) {
        char strategy[64], folder[64];
        (void)snprintf(strategy, sizeof(strategy), "train.strategy=%s", strategies[n].name);
        (void)snprintf(folder, sizeof(folder), "growing %s", strategies[n].name);
        run.folder = folder;
        run.simulate = strategies[n].cluster;
        run.overrides[5] = strategy;
        REQUIRE(train_kit_run(&run) == SPSH_OK);
        CHECK_U64(run.result.steps, GROWING);
        CHECK_U64(train_kit_weights(folder), weights);
    }
}

/* ---- times ---- */

/* The value of a key in the last line of a kind. */
static double last_number(const char *folder, const char *kind, const char *key)
{
    char path[1200], wanted[64];
    size_t size = 0;
    double found = (double)NAN;
    (void)snprintf(path, sizeof(path), "%s/%s/metrics.jsonl", base, folder);
    char *text = (char *)test_file_read(path, &size);
    text[size] = '\0';
    (void)snprintf(wanted, sizeof(wanted), "\"%s\":", key);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        const char *there = strstr(line, wanted);
        if (strstr(line, kind) != NULL && there != NULL)
            found = test_number(there + strlen(wanted), NULL);
    }
    free(text);
    return found;
}

static uint64_t count_checkpoints(const char *folder)
{
    char path[1200];
    uint64_t count = 0;
    (void)snprintf(path, sizeof(path), "%s/%s/checkpoints", base, folder);
    DIR *files = opendir(path);
    REQUIRE(files != NULL);
    for (const struct dirent *file = readdir(files); file != NULL; file = readdir(files))
        count += strstr(file->d_name, ".spsh") != NULL;
    (void)closedir(files);
    return count;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

/* If learners are equal and messages take no time, a step takes as long as its two batches. */
static void test_times_are_the_clusters(void)
{
    kit_run run = {.folder = "timed", .simulate = "learners=2,step=250ms"};
    REQUIRE(train_kit_run(&run) == SPSH_OK);
    CHECK(is_near(last_number("timed", "\"step\"", "step_s"), 0.5));
    CHECK(is_near(last_number("timed", "\"step\"", "wait_s"), 0));
    CHECK(is_near(last_number("timed", "evaluation", "time"), 0.5 * (double)run.result.steps));
    spsh__checkpoint_file *file = NULL;
    CHECK(is_near(kit_newest_state("timed", &file).wall_seconds, 0.5 * (double)run.result.steps));
    spsh__checkpoint_close(file);
    /* Messages of an evaluation take no time. */
    run = (kit_run){
        .folder = "far",
        .simulate = "learners=2,step=250ms,link=1ms+10Kbit",
        .overrides = {"train.strategy=d1-model", "train.epochs=1"}
    };
    REQUIRE(train_kit_run(&run) == SPSH_OK);
    CHECK(last_number("far", "\"step\"", "step_s") > 1);
    CHECK(last_number("far", "evaluation", "time") - last_number("far", "\"step\"", "time") < 0.5);
    /* By the simulated clock: one save per second is one save every two steps. */
    run = (kit_run){
        .folder = "saved",
        .simulate = "learners=2,step=250ms",
        .overrides = {"train.checkpoint_every_s=0.99", "train.keep=0"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK(count_checkpoints("saved") >= run.result.steps / 2);
    CHECK(count_checkpoints("saved") <= run.result.steps / 2 + 2);
}

/* One learner is ten times as slow: all learners wait for it, or none does. */
static void test_a_slow_learner(void)
{
    double took[2];
    static const char *const names[] = {"train.strategy=allreduce", "train.strategy=adpsgd-random"};
    for (int i = 0; i < 2; i++) {
        kit_run run = {
            .folder = i == 0 ? "together" : "free",
            .simulate = "learners=4,step=100ms,slow=3:10x",
            .overrides = {names[i], "train.accumulate=1", "data.virtual_world=4",
                          "data.max_padded_seconds=0.4"}
        };
        REQUIRE(train_kit_run(&run) == SPSH_OK);
        took[i] = last_number(run.folder, "\"step\"", "time");
    }
    CHECK(took[1] < took[0] / 2);
}

/* ---- what ends a run ---- */

static void test_stopped_by_all_and_gone_on_with(void)
{
    kit_run run = run_of(7, "stopped");
    run.stop_at = 3;
    CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
    CHECK(run.result.steps >= 3 && run.result.samples < 2 * UTTERANCES);
    const double stopped = last_number("stopped", "\"step\"", "time");
    run = run_of(7, "stopped");
    run.resume = true;
    CHECK_I64(train_kit_run(&run), SPSH_OK);
    CHECK_U64(run.result.samples, 2 * UTTERANCES);
    CHECK(last_number("stopped", "\"step\"", "time") > stopped);
    run = (kit_run){.folder = "stopped", .resume = true, .overrides = {"train.epochs=3"}};
    CHECK_I64(train_kit_run(&run), SPSH_OK); /* resumed by a process with one learner */
    CHECK_U64(run.result.samples, 3 * UTTERANCES);
}

static void ends(const char *cluster, const char *first, spsh_status want, const char *text)
{
    kit_run run = {
        .folder = "ends", .simulate = cluster, .overrides = {"data.virtual_world=4", first}
    };
    const spsh_status rc = train_kit_run(&run);
    CHECK_I64(rc, want);
    if (text != NULL && strstr(run.err.message, text) == NULL)
        fprintf(stderr, "%s: said '%s', not '%s'\n", cluster, run.err.message, text);
    CHECK(text == NULL || strstr(run.err.message, text) != NULL);
    if (access(at("ends"), F_OK) == 0)
        test_remove_tree(at("ends"));
}

static void test_deaths(void)
{
    static const char *const names[] = {"train.strategy=allreduce", "train.strategy=ps-async"};
    for (int i = 0; i < 2; i++) {
        ends("learners=3,step=250ms,kill=1:2s,deadline=5s", names[i], SPSH_E_TIMEOUT, NULL);
        ends("learners=3,step=250ms,kill=0:2s,deadline=5s", names[i], SPSH_E_TIMEOUT, NULL);
        ends("learners=3,step=250ms,freeze=2:1s+4s,deadline=5s", names[i], SPSH_OK, NULL);
    }
    ends("learners=1,step=250ms,kill=0:2s", names[0], SPSH_E_TIMEOUT, "learner 0 was killed");
}

static void test_what_is_wrong_is_said(void)
{
    ends("learners=2..4,step=1s", NULL, SPSH_E_INVALID_ARG, "one number of learners");
    ends("learners=2", NULL, SPSH_E_INVALID_ARG, "step=250ms");
    ends("learners=2,step=1s,strategy=d1-model", NULL, SPSH_E_INVALID_ARG, "train.strategy=NAME");
    ends("learners=2,step=1s,slow=2:3x", NULL, SPSH_E_INVALID_ARG, "learner 2 does not exist");
    ends("learners=2,step=1s", "train.strategy=pipeline", SPSH_E_UNSUPPORTED, "each stage");
    ends("learners=2,step=1s", "train.strategy=hogwild", SPSH_E_UNSUPPORTED, "on this node");
    ends("learners=5,step=1s", NULL, SPSH_E_INVALID_ARG, "data.virtual_world");
}

static void test_asynchronous_updates_do_not_grow(void)
{
    kit_run run = {
        .folder = "not growing",
        .simulate = "learners=2,step=1s",
        .overrides = {"train.strategy=adpsgd-random", "train.accumulate_samples=9",
                      "train.accumulate_max=4"}
    };
    CHECK_I64(train_kit_run(&run), SPSH_E_INVALID_ARG);
    CHECK(strstr(run.err.message, "adpsgd-random is asynchronous") != NULL);
}

TEST_MAIN(unit_train_run_simulated)
{
    every = test_wants_races(argc, argv) ? STRATEGIES : test_wants_fewer(argc, argv) ? 2 : 1;
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    RUN(test_the_same_again);
    if (test_wants_races(argc, argv)) { /* learners take turns: only loader threads race */
        test_remove_tree(base);
        return TEST_RESULT();
    }
    RUN(test_sums_are_those_of_one_process);
    RUN(test_growing_updates);
    RUN(test_times_are_the_clusters);
    RUN(test_a_slow_learner);
    RUN(test_stopped_by_all_and_gone_on_with);
    RUN(test_deaths);
    RUN(test_asynchronous_updates_do_not_grow);
    RUN(test_what_is_wrong_is_said);
    test_remove_tree(base);
    return TEST_RESULT();
}

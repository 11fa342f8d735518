/* unit_train_run_models.c: runs of the other models: one direction with look-ahead, GRU, several
 * layers. They learn, and resumed runs end with identical bits. Also dev sets with utterances
 * longer than a training batch allows. */
#include <locale.h>
#include <math.h>

#include "train_kit.h"

/* Loss of epoch `number`: the last one in the log. */
static double loss_of_epoch(const char *log, int number)
{
    char key[32];
    double loss = (double)NAN;
    (void)snprintf(key, sizeof(key), "epoch %d: loss ", number);
    for (const char *at_key = strstr(log, key); at_key != NULL; at_key = strstr(at_key + 1, key))
        loss = strtod(at_key + strlen(key), NULL);
    return loss;
}

static size_t stride; /* --fewer: three of the five models, which together have all features */

static void test_models_learn(void)
{
    (void)setlocale(LC_NUMERIC, "C"); /* messages depend on the locale of the host program */
    static const struct {
        const char *folder, *changes[4];
    } models[] = {
        {"lookahead",   {"model.bidirectional=false", "model.lookahead=20", "model.layers=2"}},
        {"forward",     {"model.bidirectional=false"}                                        },
        {"gru",         {"model.cell=gru", "model.layers=2"}                                 },
        {"forward-gru", {"model.cell=gru", "model.bidirectional=false", "model.lookahead=3"} },
        {"compat",      {"model.batch_norm=compat", "model.layers=3"}                        },
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i += stride) {
        kit_run run = {
            .folder = models[i].folder,
            .overrides = {"train.epochs=4", "train.rate=1e-2", "train.accumulate=1"}
        };
        size_t count = 3;
        for (size_t c = 0; c < 4 && models[i].changes[c] != NULL; c++)
            run.overrides[count++] = models[i].changes[c];
        REQUIRE(train_kit_run(&run) == SPSH_OK);
        const double first = loss_of_epoch(run.log, 1), last = loss_of_epoch(run.log, 4);
        printf("%s: loss %.4g, then %.4g\n", run.folder, first, last);
        CHECK(last < 0.75 * first);
        const uint64_t weights = train_kit_weights(run.folder);
        char stopped[64];
        (void)snprintf(stopped, sizeof(stopped), "%s-stopped", models[i].folder);
        run.folder = stopped;
        run.stop_at = run.steps / 2;
        CHECK_I64(train_kit_run(&run), SPSH_E_CANCELED);
        run.stop_at = 0;
        run.resume = true;
        CHECK_I64(train_kit_run(&run), SPSH_OK);
        CHECK_U64(train_kit_weights(stopped), weights);
    }
}

/* Training skips utterances that are longer than a batch. An evaluation skips none. */
static void test_long_dev_utterances(void)
{
    char data[600], text[KIT_TEXT_BYTES * 4];
    const char *const names[] = {data, NULL};
    spsh_evaluate_options options = SPSH_EVALUATE_OPTIONS_INIT;
    spsh_evaluation result = SPSH_EVALUATION_INIT;
    kit_run run = {.folder = "short", .overrides = {"data.max_padded_seconds=0.15"}};
    REQUIRE(train_kit_run(&run) == SPSH_OK);
    CHECK(run.result.samples < 2 * TALK_UTTERANCES - 50);
    CHECK(run.result.wer > 0);
    (void)snprintf(text, sizeof(text), "%s/metrics.jsonl", at("short"));
    FILE *file = fopen(text, "rb");
    REQUIRE(file != NULL);
    uint32_t evaluations = 0;
    while (fgets(text, sizeof(text), file) != NULL) {
        if (strstr(text, "\"kind\":\"evaluation\"") == NULL)
            continue;
        evaluations++;
        CHECK(strstr(text, "\"utterances\":96,") != NULL);
    }
    (void)fclose(file);
    CHECK_U64(evaluations, 2);
    (void)snprintf(data, sizeof(data), "%s", at("talk.spsh"));
    (void)snprintf(text, sizeof(text), "%s", at("short"));
    options.checkpoint = text;
    options.datasets = names;
    REQUIRE(spsh_evaluate(&options, &result, NULL) == SPSH_OK);
    CHECK_U64(result.utterances, TALK_UTTERANCES);
}

TEST_MAIN(unit_train_run_models)
{
    stride = (size_t)test_stride(argc, argv, 2);
    test_temp_dir(base, sizeof(base));
    train_kit_make("");
    RUN(test_models_learn);
    RUN(test_long_dev_utterances);
    test_remove_tree(base);
    return TEST_RESULT();
}

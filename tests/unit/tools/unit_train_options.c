/* unit_train_options.c: option structs of older and newer callers, missing options, and an existing
 * vocabulary file. */
#include "speechshard/train.h"
#include "spsh_test.h"
#include "test_file.h"
#include "test_tree.h"
#include "text_dataset.h"

static spsh_error err;

/* ---- sizes ---- */

static spsh_status call_train(const void *options)
{
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    return spsh_train((const spsh_train_options *)options, &result, &err);
}

static spsh_status call_evaluate(const void *options)
{
    spsh_evaluation result = SPSH_EVALUATION_INIT;
    return spsh_evaluate((const spsh_evaluate_options *)options, &result, &err);
}

static spsh_status call_vocabulary(const void *options)
{
    char *path = NULL;
    uint32_t symbols = 0;
    return spsh_vocabulary_make((const spsh_vocabulary_options *)options, &path, &symbols, &err);
}

static spsh_status call_estimate(const void *options)
{
    spsh_train_estimate *estimate = NULL;
    return spsh_train_estimate_make((const spsh_train_estimate_options *)options, &estimate, &err);
}

static spsh_status call_recogniser(const void *options)
{
    spsh_recogniser *recogniser = NULL;
    return spsh_recogniser_open((const spsh_recogniser_options *)options, &recogniser, &err);
}

static const struct {
    spsh_status (*call_fn)(const void *options);
    size_t size_bytes;
    const char *missing; /* message if a required option is missing */
} calls[] = {
    {call_train,      sizeof(spsh_train_options),          "run is NULL: a run needs a folder"},
    {call_evaluate,   sizeof(spsh_evaluate_options),
     "checkpoint is NULL: an evaluation needs a checkpoint"                                   },
    {call_vocabulary, sizeof(spsh_vocabulary_options),
     "config_path is NULL: a vocabulary needs a configuration"                                },
    {call_estimate,   sizeof(spsh_train_estimate_options),
     "config_path is NULL: an estimate needs a configuration"                                 },
    {call_recogniser, sizeof(spsh_recogniser_options),
     "checkpoint is NULL: a recogniser needs a checkpoint"                                    },
};

static void check_call(size_t i, size_t struct_size, uint8_t behind, const char *message)
{
    union {
        size_t struct_size;
        uint8_t bytes[256];
    } options = {.bytes = {0}};
    REQUIRE(calls[i].size_bytes < sizeof(options.bytes));
    options.struct_size = struct_size;
    options.bytes[calls[i].size_bytes] = behind;
    err = (spsh_error)SPSH_ERROR_INIT;
    CHECK_I64(calls[i].call_fn(&options), SPSH_E_INVALID_ARG);
    if (strstr(err.message, message) == NULL)
        CHECK_STR(err.message, message);
}

static void test_sizes(void)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const size_t known = calls[i].size_bytes;
        check_call(i, 0, 0, "struct_size is 0");
        check_call(i, sizeof(size_t), 0xff, calls[i].missing); /* an older caller */
        check_call(i, known, 0xff, calls[i].missing);
        check_call(i, known + 8, 0, calls[i].missing); /* a newer caller */
        check_call(i, known + 8, 1, "is set, but this library knows");
        err = (spsh_error)SPSH_ERROR_INIT;
        CHECK_I64(calls[i].call_fn(NULL), SPSH_E_INVALID_ARG);
        CHECK_STR(err.message, calls[i].missing);
    }
}

/* ---- the vocabulary's file ---- */

static spsh_status make_vocabulary(const char *config, const char *profile, uint32_t *ret_symbols)
{
    spsh_vocabulary_options options = SPSH_VOCABULARY_OPTIONS_INIT;
    char *path = NULL;
    options.config_path = config;
    options.profile = profile;
    const spsh_status rc = spsh_vocabulary_make(&options, &path, ret_symbols, &err);
    CHECK((rc == SPSH_OK) == (path != NULL));
    free(path);
    return rc;
}

static void test_vocabulary_that_is_there(void)
{
    static const text_row rows[] = {
        {.id = "a", .split = "train", .text = "Abba"}
    };
    char config[600];
    char text[2000];
    uint32_t symbols = 0;
    text_dataset_make(at("texts.spsh"), 1, rows, 1);
    (void)snprintf(config, sizeof(config), "%s/run.yaml", base);
    (void)snprintf(text, sizeof(text), "vocabulary: %s/letters\ndata: {train: %s/texts.spsh}\n",
                   base, base);
    test_file_write_text(config, text);
    CHECK_I64(make_vocabulary(config, "lower", &symbols), SPSH_OK);
    CHECK_U64(symbols, 3);
    CHECK_I64(make_vocabulary(config, "lower", &symbols), SPSH_OK); /* the same again */
    CHECK_I64(make_vocabulary(config, "nfc", &symbols), SPSH_E_EXISTS);
    CHECK(strstr(err.message, "/letters: the file exists") != NULL);
    CHECK_I64(make_vocabulary(config, NULL, &symbols), SPSH_OK); /* and was not changed */
    test_file_write_text(at("letters"), "something else\n");
    CHECK_I64(make_vocabulary(config, "lower", &symbols), SPSH_E_EXISTS);
}

TEST_MAIN(unit_train_options)
{
    test_temp_dir(base, sizeof(base));
    RUN(test_sizes);
    RUN(test_vocabulary_that_is_there);
    test_remove_tree(base);
    return TEST_RESULT();
}

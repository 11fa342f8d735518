/* fault_train_settings.c: every allocation fails once while a configuration or a vocabulary is
 * read, written, or made: the call reports the failure and leaves no file or memory. */
#include "config/config.h"
#include "fail_malloc.h"
#include "labels/vocabulary.h"
#include "spsh_test.h"
#include "text_dataset.h"

enum { CALLS_MAX = 20000 };

static const char config_text[] = "vocabulary: v.yaml\n"
                                  "data: {train: [a, b:x], train_weights: [1, 2], dev: c}\n"
                                  "train: {rate: 1e-3}\n";
static const char *const overrides[] = {"data.rooms=[r, s]", "train.epochs=3", NULL};

static const char pieces_text[] = "kind: pieces\nprofile: lower-1\n"
                                  "symbols: [\"\\u2581\", a, b, ab]\nmerges: [a b]\n";

static spsh_dataset *dataset;

static spsh_status read_config(void)
{
    spsh__config *config = NULL;
    const spsh_status rc =
        spsh__config_parse(config_text, strlen(config_text), overrides, &config, NULL);
    if (rc != SPSH_OK) {
        CHECK(config == NULL);
        return rc;
    }
    char *text = spsh__config_text(config);
    spsh__config_free(config);
    free(text);
    return text == NULL ? SPSH_E_NO_MEMORY : SPSH_OK;
}

static spsh_status read_vocabulary(void)
{
    spsh__vocabulary *v = NULL;
    const spsh_status rc = spsh__vocabulary_parse(pieces_text, strlen(pieces_text), "v", &v, NULL);
    if (rc != SPSH_OK) {
        CHECK(v == NULL);
        return rc;
    }
    char *text = spsh__vocabulary_text(v);
    spsh__vocabulary_free(v);
    free(text);
    return text == NULL ? SPSH_E_NO_MEMORY : SPSH_OK;
}

static spsh_status make_pieces(void)
{
    const spsh_dataset *const datasets[] = {dataset};
    const char *const splits[] = {"train"};
    const spsh__vocabulary_options options = {.kind = "pieces", .symbols = 20, .splits = splits};
    spsh__vocabulary *v = NULL;
    const spsh_status rc = spsh__vocabulary_make(datasets, 1, &options, &v, NULL);
    CHECK((rc == SPSH_OK) == (v != NULL));
    spsh__vocabulary_free(v);
    return rc;
}

static void fail_each(spsh_status (*run)(void), bool later_too)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    fail_malloc.later_too = later_too;
    for (uint64_t at = 0; rc != SPSH_OK; at++) {
        REQUIRE(at < CALLS_MAX);
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        rc = run();
        fail_malloc.at = UINT64_MAX;
        if (rc != SPSH_OK)
            CHECK_I64(rc, SPSH_E_NO_MEMORY);
        if (test_failures > 0)
            return;
        if (fail_malloc.calls <= at)
            CHECK_I64(rc, SPSH_OK);
    }
}

static void test_config(void)
{
    fail_each(read_config, false);
    fail_each(read_config, true);
}

static void test_vocabulary(void)
{
    fail_each(read_vocabulary, false);
    fail_each(read_vocabulary, true);
}

static void test_make(void)
{
    static const text_row rows[] = {
        {.id = "a", .split = "train", .text = "low lower lowest"},
        {.id = "b", .split = "train", .text = "newer wider low" },
    };
    char folder[256];
    char path[300];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/t.spsh", folder);
    text_dataset_make(path, 1, rows, 2);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, NULL) == SPSH_OK);
    fail_each(make_pieces, false);
    fail_each(make_pieces, true);
    spsh_dataset_close(dataset);
    test_remove_tree(folder);
}

TEST_MAIN(fault_train_settings)
{
    RUN(test_config);
    RUN(test_vocabulary);
    RUN(test_make);
    return TEST_RESULT();
}

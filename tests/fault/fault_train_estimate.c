/* fault_train_estimate.c: an allocation fails during an estimate. The estimate must fail, return
 * nothing, and free everything. The loader's threads allocate as well, and the failing thread
 * varies: an estimate that does not need the failed allocation succeeds. */
#include <inttypes.h>
#include <stdlib.h>

#include "fail_malloc.h"
#include "speechshard/train.h"
#include "spsh_test.h"
#include "talk_dataset.h"

enum { CALLS_MAX = 100000, PATH_BYTES = 600 };

static char folder[PATH_BYTES], config[PATH_BYTES + 16];

static void write_file(const char *name, const char *text, char *ret_path, size_t capacity)
{
    (void)snprintf(ret_path, capacity, "%s/%s", folder, name);
    FILE *file = fopen(ret_path, "w");
    REQUIRE(file != NULL);
    REQUIRE(fputs(text, file) >= 0);
    REQUIRE(fclose(file) == 0);
}

static void set_up(void)
{
    char dataset[PATH_BYTES + 16], vocabulary[PATH_BYTES + 16], text[4 * PATH_BYTES];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(dataset, sizeof(dataset), "%s/talk.spsh", folder);
    talk_dataset_make(dataset, TALK_MIXED);
    write_file("letters.yaml", "kind: characters\nprofile: lower-1\nsymbols: [\" \", a, e, t, u]\n",
               vocabulary, sizeof(vocabulary));
    (void)snprintf(text, sizeof(text),
                   "vocabulary: \"%s\"\nfeatures: kaldi-fbank,mel_count=20\n"
                   "data: {train: [\"%s\"], dev: [\"%s\"], max_padded_seconds: 30, "
                   "virtual_world: 2}\n"
                   "model: {preset: ds2-tiny, layers: 1, hidden: 4, conv_channels: 1}\n"
                   "train: {backend: cpu, threads: 1}\n",
                   vocabulary, dataset, dataset);
    write_file("talk.yaml", text, config, sizeof(config));
}

static spsh_status estimate(spsh_error *err)
{
    spsh_train_estimate_options options = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    spsh_train_estimate *made = NULL;
    options.config_path = config;
    const spsh_status rc = spsh_train_estimate_make(&options, &made, err);
    CHECK((rc == SPSH_OK) == (made != NULL));
    if (made != NULL)
        CHECK_U64(made->utterances, TALK_UTTERANCES);
    spsh_train_estimate_free(made);
    return rc;
}

static uint64_t stride = 1; /* --fewer: stride between failing allocations */

static void test_each_allocation(bool later_too)
{
    uint64_t failed = 0;
    fail_malloc.later_too = later_too;
    for (uint64_t at = 0;; at += stride) {
        spsh_error err = SPSH_ERROR_INIT;
        REQUIRE(at < CALLS_MAX);
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        const spsh_status rc = estimate(&err);
        fail_malloc.at = UINT64_MAX;
        failed += rc != SPSH_OK;
        if (rc != SPSH_OK)
            CHECK_I64(rc, SPSH_E_NO_MEMORY);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            fprintf(stderr, "call %" PRIu64 ": %s\n", at, err.message);
        if (test_failures > 0)
            return;
        if (fail_malloc.calls <= at)
            break; /* no allocation failed: the sweep is complete */
    }
    CHECK(failed > 100 / stride);
}

TEST_MAIN(fault_train_estimate)
{
    if (test_wants_fewer(argc, argv))
        stride = 5;
    spsh_error err = SPSH_ERROR_INIT;
    set_up();
    CHECK_I64(estimate(&err), SPSH_OK);
    test_each_allocation(false);
    test_each_allocation(true);
    test_remove_tree(folder);
    return TEST_RESULT();
}

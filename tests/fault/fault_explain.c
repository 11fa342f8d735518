/* fault_explain.c: two utterances are compared while each allocation fails in turn, and while files
 * are unreadable. The status must report the failure, and a rerun must find the same result.
 */
#include "copy_dataset.h"
#include "fail_malloc.h"
#include "fault_io.h"
#include "print_signals.h"
#include "speechshard/dedup.h"
#include "spsh_test.h"

enum { RATE = 8000, SAMPLES = 20000, PATH_BYTES = 400 };

static fault_io no_fault = {.fail_at = UINT64_MAX};
static spsh_io good_io; /* without fsync, which is slow */
static char folder[256];
static char dataset_path[PATH_BYTES];
static char names[2][64]; /* ids of a recording and of its quieter copy */

static void make_dataset(void)
{
    static int16_t pcm[SAMPLES], quiet[SAMPLES];
    copy_audio audio = {SPSH_CODEC_WAV, 16, RATE, 1, pcm, SAMPLES};
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    make_signal(SIGNAL_SPEECH, RATE, 1, pcm, SAMPLES);
    for (size_t i = 0; i < SAMPLES; i++)
        quiet[i] = (int16_t)(pcm[i] / 2);
    copy_dataset *set = copy_dataset_open(dataset_path, 1);
    copy_dataset_add(set, &audio);
    audio.pcm = quiet;
    copy_dataset_add(set, &audio);
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    REQUIRE(spsh_dataset_open(dataset_path, NULL, &dataset, NULL) == SPSH_OK);
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < 2; i++) {
        REQUIRE(spsh_reader_metadata(reader, i, &utterance, NULL) == SPSH_OK);
        (void)snprintf(names[i], sizeof(names[i]), "%.*s", (int)utterance.id.size_bytes,
                       (const char *)utterance.id.data);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
}

static void check_result(const spsh_explanation *e)
{
    const spsh_explain_facts *facts = spsh_explanation_facts(e);
    CHECK(facts->kind == SPSH_COPY_SAME_RECORDING && facts->may_drop);
    CHECK(facts->tier == SPSH_TIER_ACOUSTIC && !facts->has_equal_pcm);
    CHECK(facts->verdict[0] != '\0' && facts->match_count > 0 && facts->check_count > 0);
    CHECK(facts->has_gain && facts->gain_db < -5 && facts->gain_db > -7);
    CHECK(spsh_explanation_match(e, 0)->a_seconds > 1);
    CHECK(spsh_explanation_check(e, 0)->what[0] != '\0');
    CHECK_U64(spsh_explanation_side(e, 1)->row.samples, SAMPLES);
}

static spsh_status explain(const char *a, const char *b, const spsh_io *io, spsh_error *err)
{
    const char *const paths[2] = {dataset_path, dataset_path};
    const char *const ids[2] = {a, b};
    spsh_explain_options options = SPSH_EXPLAIN_OPTIONS_INIT;
    spsh_explanation *e = NULL;
    options.io = io;
    options.threads = 1;
    const spsh_status rc = spsh_pair_explain(paths, ids, &options, &e, err);
    CHECK((rc == SPSH_OK) == (e != NULL));
    if (rc == SPSH_OK)
        check_result(e);
    spsh_explanation_free(e);
    return rc;
}

static void test_other_utterances(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(explain(names[0], names[1], &good_io, &err), SPSH_OK);
    CHECK_I64(explain(names[0], names[0], &good_io, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(explain(names[0], "nothing like it", &good_io, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "nothing like it") != NULL);
}

static void test_failing_allocations(void)
{
    uint64_t at = 0;
    uint64_t failed = 0;
    for (bool is_over = false; !is_over; at++) {
        spsh_error err = SPSH_ERROR_INIT;
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        const spsh_status rc = explain(names[0], names[1], &good_io, &err);
        is_over = fail_malloc.calls <= at;
        fail_malloc.at = UINT64_MAX;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (err.message[0] == '\0'));
        failed += rc != SPSH_OK;
    }
    printf("%" PRIu64 " allocations, %" PRIu64 " runs failed\n", at, failed);
    CHECK(failed > at / 2);
    CHECK_I64(explain(names[0], names[1], &good_io, NULL), SPSH_OK);
}

static void test_failing_calls(void)
{
    bool is_over = false;
    for (uint64_t at = 0; !is_over; at++) {
        fault_io fault = {.fail_at = at, .fail_count = UINT64_MAX, .fail_errno = EIO};
        const spsh_io io = fault_io_table(&fault);
        spsh_error err = SPSH_ERROR_INIT;
        const spsh_status rc = explain(names[0], names[1], &io, &err);
        is_over = fault.call_count <= at;
        CHECK_I64(fault.open_count, 0);
        CHECK(!is_over || rc == SPSH_OK);
        CHECK((rc == SPSH_OK) == (err.message[0] == '\0'));
    }
    CHECK_I64(explain(names[0], names[1], &good_io, NULL), SPSH_OK);
}

TEST_MAIN(fault_explain)
{
    (void)argc, (void)argv;
    good_io = fault_io_table(&no_fault);
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(dataset_path, PATH_BYTES, "%s/d", folder);
    make_dataset();
    RUN(test_other_utterances);
    RUN(test_failing_allocations);
    RUN(test_failing_calls);
    test_remove_tree(folder);
    return TEST_RESULT();
}

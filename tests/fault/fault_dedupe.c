/* fault_dedupe.c: each file operation fails in turn during the search for copies and while their
 * plan is applied: once, from then on (a crash), or with a full disk. Then each allocation fails,
 * and the caller cancels at each report. The status must report the failure. A rerun must produce
 * the plan of an undisturbed run. A plan is in force in all datasets or in none.
 */
#include "copy_dataset.h"
#include "fail_malloc.h"
#include "fault_io.h"
#include "print_signals.h"
#include "speechshard/dedup.h"
#include "spsh_test.h"

enum { RATE = 8000, SAMPLES = 20000, PATH_BYTES = 400 };

/* fsync is skipped: it is slow, and is not under test. */
static fault_io no_fault = {.fail_at = UINT64_MAX};
static spsh_io good_io;

static char folder[256];
static char plan_path[PATH_BYTES], work_path[PATH_BYTES];
static char dataset_paths[2][PATH_BYTES];
static spsh_dedup_sources *sources;
static uint8_t plan_hash[16]; /* plan hash of an undisturbed run */
static uint64_t allocation_stride;

/* Make equal samples within and across datasets, and a recording with a quieter copy. */
static void make_datasets(void)
{
    static int16_t pcm[2][SAMPLES], quiet[SAMPLES];
    for (uint64_t i = 0; i < 2; i++)
        make_signal(SIGNAL_SPEECH, RATE, i + 1, pcm[i], SAMPLES);
    for (size_t i = 0; i < SAMPLES; i++)
        quiet[i] = (int16_t)(pcm[0][i] / 2);
    for (uint8_t i = 0; i < 2; i++) {
        copy_audio audio = {SPSH_CODEC_WAV, 16, RATE, 1, pcm[i], SAMPLES};
        spsh_error err = SPSH_ERROR_INIT;
        (void)snprintf(dataset_paths[i], PATH_BYTES, "%s/d%u", folder, (unsigned)i);
        copy_dataset *set = copy_dataset_open(dataset_paths[i], (uint8_t)(i + 1));
        copy_dataset_add(set, &audio);
        audio.codec = SPSH_CODEC_FLAC;
        copy_dataset_add(set, &audio);
        audio.pcm = i == 0 ? quiet : pcm[0];
        copy_dataset_add(set, &audio);
        copy_dataset_close(set, SPSH_DEDUPE_NONE);
        REQUIRE(spsh_dedup_sources_add(sources, dataset_paths[i], SPSH_SIDE_TRAIN, NULL, &err) ==
                SPSH_OK);
    }
}

static spsh_dedupe_options dedupe_options(const spsh_io *io)
{
    spsh_dedupe_options options = SPSH_DEDUPE_OPTIONS_INIT;
    options.io = io;
    options.plan_path = plan_path;
    options.work_path = work_path;
    options.command = "test";
    options.memory_bytes = SPSH_DEDUP_MEMORY_BYTES_MIN;
    options.threads = 1; /* one thread makes the calls in a fixed order */
    return options;
}

/* Four copies of one recording, one of them quieter, and two of another. */
static void check_result(const spsh_dedupe_result *result)
{
    const spsh_dedupe_facts *facts = spsh_dedupe_result_facts(result);
    CHECK_U64(facts->dropped_count, 4);
    CHECK_U64(facts->cluster_count, 2);
    CHECK_U64(facts->member_count, 6);
    CHECK_U64(spsh_dedupe_result_decisions(result, SPSH_DECISION_DROP), 4);
    CHECK(spsh_dedupe_result_matches(result, SPSH_TIER_ACOUSTIC, SPSH_COPY_SAME_RECORDING) > 0);
    for (uint64_t i = 0; i < facts->cluster_count; i++) {
        const spsh_copy_cluster *cluster = spsh_dedupe_result_cluster(result, i);
        const spsh_copy_member *kept = spsh_dedupe_result_member(result, cluster->first_member);
        CHECK_U64(cluster->member_count, i == 0 ? 4 : 2);
        CHECK(kept->decision == SPSH_DECISION_KEEP && kept->reason[0] != '\0');
        CHECK(kept->dataset < 2 && kept->position < 3);
        CHECK(spsh_dedupe_result_dataset(result, kept->dataset) != NULL);
    }
    CHECK(memcmp(plan_hash, facts->plan_hash, 16) == 0 || plan_hash[0] == 0);
    memcpy(plan_hash, facts->plan_hash, 16);
}

static spsh_status find(const spsh_io *io, spsh_error *err)
{
    const spsh_dedupe_options options = dedupe_options(io);
    spsh_dedupe_result *result = NULL;
    const spsh_status rc = spsh_dedupe_run(sources, &options, &result, err);
    CHECK((rc == SPSH_OK) == (result != NULL));
    if (rc == SPSH_OK)
        check_result(result);
    spsh_dedupe_result_free(result);
    return rc;
}

/* Remove temporary files that a crash leaves. Another process would use other names; here the
 * process is always the same, and the names would run out. */
static int remove_temporary(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return strstr(path, ".tmp-") != NULL ? remove(path) : 0;
}

static void remove_temporaries(void)
{
    CHECK(nftw(folder, remove_temporary, 16, FTW_PHYS) == 0);
}

static void remove_fingerprints(void)
{
    for (unsigned i = 0; i < 2; i++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/d%u/fingerprints", folder, i);
        if (access(path, F_OK) == 0)
            test_remove_tree(path);
    }
}

/* step: every step-th call, so that the test stays short. */
static void fail_calls(int fail_errno, uint64_t fail_count, uint64_t step)
{
    spsh_status rc = SPSH_E_IO;
    bool is_over = false;
    for (uint64_t at = 0; !is_over; at += step) {
        fault_io fault = {.fail_at = at, .fail_count = fail_count, .fail_errno = fail_errno};
        const spsh_io io = fault_io_table(&fault);
        spsh_error err = SPSH_ERROR_INIT;
        rc = find(&io, &err);
        is_over = fault.call_count <= at;
        CHECK_I64(fault.open_count, 0);
        CHECK(!is_over || rc == SPSH_OK);
        if (rc != SPSH_OK) {
            CHECK(err.message[0] != '\0');
        }
        remove_temporaries();
        if (rc != SPSH_OK && find(&good_io, &err) != SPSH_OK) {
            fprintf(stderr, "after call %" PRIu64 ": %s\n", at, err.message);
            CHECK(false);
        }
    }
}

static void test_find_goes_on(void)
{
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(find(&good_io, &err) == SPSH_OK);
    fail_calls(EIO, UINT64_MAX, 5);
    fail_calls(EIO, 1, 11);
    fail_calls(ENOSPC, UINT64_MAX, 13);
    REQUIRE(find(&good_io, &err) == SPSH_OK);
    CHECK(access(work_path, F_OK) != 0);
}

/* Each allocation fails once, from fresh fingerprints to the plan. */
static void test_failing_allocations(void)
{
    uint64_t at = 0;
    uint64_t failed = 0;
    for (bool is_over = false; !is_over; at += allocation_stride) {
        spsh_error err = SPSH_ERROR_INIT;
        if (at % 2 == 0)
            remove_fingerprints();
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        const spsh_status rc = find(&good_io, &err);
        is_over = fail_malloc.calls <= at;
        fail_malloc.at = UINT64_MAX;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (err.message[0] == '\0'));
        failed += rc != SPSH_OK;
        remove_temporaries();
        REQUIRE(find(&good_io, &err) == SPSH_OK);
        CHECK(access(work_path, F_OK) != 0);
    }
    printf("%" PRIu64 " allocations, %" PRIu64 " runs failed\n", at, failed);
    CHECK(at > 400 && failed > at / allocation_stride / 2);
}

static int cancel(void *user, const char *phase, uint64_t done, uint64_t total)
{
    uint64_t *left = user;
    (void)phase, (void)done, (void)total;
    return (*left)-- == 0;
}

/* Canceled at any report: nothing is written, and a rerun ends with the same plan. */
static void test_canceled_runs(void)
{
    spsh_status rc = SPSH_E_CANCELED;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t at = 0;
    for (; rc != SPSH_OK; at++) {
        spsh_dedupe_options options = dedupe_options(&good_io);
        spsh_dedupe_result *result = NULL;
        uint64_t left = at;
        options.progress_fn = cancel;
        options.user = &left;
        options.flags = at % 2 == 0 ? SPSH_DEDUPE_DISCARD_WORK : 0;
        remove_fingerprints();
        (void)unlink(plan_path);
        rc = spsh_dedupe_run(sources, &options, &result, &err);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CANCELED);
        CHECK((rc == SPSH_OK) == (access(plan_path, F_OK) == 0));
        CHECK(rc == SPSH_OK || at % 2 != 0 || access(work_path, F_OK) != 0);
        spsh_dedupe_result_free(result);
        CHECK_I64(find(&good_io, &err), SPSH_OK);
    }
    CHECK(at > 3);
}

static void test_refused_options(void)
{
    static const char *const nowhere[] = {"nowhere"};
    spsh_dedupe_result *result = NULL;
    spsh_dedupe_options options = dedupe_options(NULL);
    options.work_path = NULL;
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_INVALID_ARG);
    options = dedupe_options(NULL);
    options.flags = 16;
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_INVALID_ARG);
    options = dedupe_options(NULL);
    options.keep = (spsh_dedupe_keep)3;
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_INVALID_ARG);
    options = dedupe_options(NULL);
    options.memory_bytes = SPSH_DEDUP_MEMORY_BYTES_MIN - 1;
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_INVALID_ARG);
    options = dedupe_options(NULL);
    options.prefer = nowhere;
    options.prefer_count = 1;
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_INVALID_ARG);
    options = dedupe_options(NULL);
    options.drop_from = "nowhere";
    CHECK_I64(spsh_dedupe_run(sources, &options, &result, NULL), SPSH_E_UNKNOWN_NAME);
    CHECK(result == NULL);
}

/* Number of datasets that have the plan's overlay. */
static size_t applied_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        spsh_dataset *dataset = NULL;
        REQUIRE(spsh_dataset_open(dataset_paths[i], NULL, &dataset, NULL) == SPSH_OK);
        count += spsh_dataset_info_get(dataset)->overlay_count;
        spsh_dataset_close(dataset);
    }
    return count;
}

static spsh_status change(bool apply, const spsh_io *io, spsh_copy_plan_facts *facts,
                          spsh_error *err)
{
    spsh_copy_plan_options options = SPSH_COPY_PLAN_OPTIONS_INIT;
    options.io = io;
    *facts = (spsh_copy_plan_facts)SPSH_COPY_PLAN_FACTS_INIT;
    return apply ? spsh_copy_plan_apply(plan_path, &options, facts, err)
                 : spsh_copy_plan_revert(plan_path, &options, facts, err);
}

/* A call that fails once leaves all overlays or none. A crash may leave some of them, and the next
 * call completes the plan. */
static void change_with_faults(bool apply, uint64_t fail_count)
{
    const size_t before = apply ? 0 : 2;
    bool is_over = false;
    for (uint64_t at = 0; !is_over; at++) {
        fault_io fault = {.fail_at = at, .fail_count = fail_count, .fail_errno = EIO};
        const spsh_io io = fault_io_table(&fault);
        spsh_copy_plan_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        const spsh_status rc = change(apply, &io, &facts, &err);
        is_over = fault.call_count <= at;
        CHECK_I64(fault.open_count, 0);
        if (apply && rc != SPSH_OK && fail_count == 1)
            CHECK_U64(applied_count(), 0);
        if (rc == SPSH_OK)
            CHECK_U64(applied_count(), 2 - before);
        remove_temporaries();
        CHECK_I64(change(apply, &good_io, &facts, &err), SPSH_OK);
        CHECK_U64(applied_count(), 2 - before);
        CHECK_I64(change(!apply, &good_io, &facts, &err), SPSH_OK);
        CHECK_U64(applied_count(), before);
    }
}

static void test_apply_is_all_or_nothing(void)
{
    spsh_copy_plan_facts facts;
    change_with_faults(true, 1);
    change_with_faults(true, UINT64_MAX);
    REQUIRE(change(true, &good_io, &facts, NULL) == SPSH_OK);
    CHECK_U64(facts.utterance_count, 4);
    CHECK_U64(facts.changed_count, 2);
    CHECK(strncmp(facts.overlay, "dedupe-", 7) == 0);
    change_with_faults(false, 1);
    change_with_faults(false, UINT64_MAX);
    REQUIRE(change(false, &good_io, &facts, NULL) == SPSH_OK);
}

static void change_without_memory(bool apply)
{
    const size_t before = apply ? 0 : 2;
    uint64_t at = 0;
    for (bool is_over = false; !is_over; at++) {
        spsh_copy_plan_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        const spsh_status rc = change(apply, &good_io, &facts, &err);
        is_over = fail_malloc.calls <= at;
        fail_malloc.at = UINT64_MAX;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (err.message[0] == '\0'));
        if (rc == SPSH_OK)
            CHECK_U64(applied_count(), 2 - before);
        else if (apply)
            CHECK_U64(applied_count(), 0);
        remove_temporaries();
        CHECK_I64(change(apply, &good_io, &facts, &err), SPSH_OK);
        CHECK_I64(change(!apply, &good_io, &facts, &err), SPSH_OK);
        CHECK_U64(applied_count(), before);
    }
    CHECK(at > 50);
}

static void test_apply_without_memory(void)
{
    spsh_copy_plan_facts facts;
    change_without_memory(true);
    REQUIRE(change(true, &good_io, &facts, NULL) == SPSH_OK);
    change_without_memory(false);
    REQUIRE(change(false, &good_io, &facts, NULL) == SPSH_OK);
}

static void test_moved_datasets(void)
{
    const char *const moved[] = {folder};
    spsh_copy_plan_options options = SPSH_COPY_PLAN_OPTIONS_INIT;
    spsh_copy_plan_facts facts = SPSH_COPY_PLAN_FACTS_INIT;
    const char *const same[] = {dataset_paths[1]};
    options.datasets = moved;
    options.dataset_count = 1;
    CHECK(spsh_copy_plan_apply(plan_path, &options, &facts, NULL) != SPSH_OK);
    CHECK_U64(applied_count(), 0);
    options.datasets = same;
    CHECK_I64(spsh_copy_plan_apply(plan_path, &options, &facts, NULL), SPSH_OK);
    CHECK_I64(spsh_copy_plan_revert(plan_path, &options, &facts, NULL), SPSH_OK);
    CHECK_U64(facts.changed_count, 2);
    CHECK_U64(applied_count(), 0);
}

TEST_MAIN(fault_dedupe)
{
    allocation_stride = test_stride(argc, argv, 5);
    good_io = fault_io_table(&no_fault);
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(plan_path, PATH_BYTES, "%s/plan.jsonl", folder);
    (void)snprintf(work_path, PATH_BYTES, "%s/plan.jsonl.work", folder);
    REQUIRE(spsh_dedup_sources_new(&sources, NULL) == SPSH_OK);
    make_datasets();
    RUN(test_find_goes_on);
    RUN(test_failing_allocations);
    RUN(test_canceled_runs);
    RUN(test_refused_options);
    RUN(test_apply_is_all_or_nothing);
    RUN(test_apply_without_memory);
    RUN(test_moved_datasets);
    spsh_dedup_sources_free(sources);
    test_remove_tree(folder);
    return TEST_RESULT();
}

/* fault_dedupe.c: each call for a file fails in turn while copies are looked for and while their
 * plan is applied: once, from then on (a crash), or with a full disk. The status says so, a rerun
 * ends with the plan of an undisturbed run, and a plan is in force in all datasets or in none.
 */
#include "copy_dataset.h"
#include "dedupe_run.h"
#include "fault_io.h"
#include "plan/copy_plan_apply.h"
#include "print_signals.h"
#include "spsh_test.h"

enum { RATE = 8000, SAMPLES = 20000, PATH_BYTES = 400 };

/* fsync is left out: it takes long, and is not what is tested. */
static fault_io no_fault = {.fail_at = UINT64_MAX};
static spsh_io good_io;

static char folder[256];
static char plan_path[PATH_BYTES], work_path[PATH_BYTES];
static char dataset_paths[2][PATH_BYTES];
static spsh_dedup_sources sources;
static uint8_t plan_hash[16]; /* of an undisturbed run */

/* Equal samples within and over datasets, and a louder one to listen to. */
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
        REQUIRE(spsh__source_list_add(&sources, dataset_paths[i], SPSH_SIDE_TRAIN, NULL, &err) ==
                SPSH_OK);
    }
}

static spsh_status find(const spsh_io *io, spsh_error *err)
{
    const spsh__dedupe_options options = {.sources = &sources,
                                          .plan_path = plan_path,
                                          .work_path = work_path,
                                          .command = "test",
                                          .policy = {.boilerplate_min = 20},
                                          .memory_bytes = UINT64_C(64) << 20,
                                          .threads = 1, /* calls then come in one order */
                                          .part_count = 1,
                                          .io = io};
    spsh__dedupe dedupe;
    spsh_status rc = spsh__dedupe_run(&options, NULL, &dedupe, err);
    if (rc == SPSH_OK) {
        CHECK(dedupe.facts.dropped_count == 4);
        CHECK(memcmp(plan_hash, dedupe.plan_hash, 16) == 0 || plan_hash[0] == 0);
        memcpy(plan_hash, dedupe.plan_hash, 16);
    }
    spsh__dedupe_free(&dedupe);
    return rc;
}

/* What a crash leaves of files that were being written: another process takes other names, but
 * here it is always the same one, and the names run out. */
static int remove_temporary(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return strstr(path, ".tmp-") != NULL ? remove(path) : 0;
}

static void remove_temporaries(void)
{
    CHECK(nftw(folder, remove_temporary, 16, FTW_PHYS) == 0);
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

/* So many datasets have the plan's overlay. */
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

/* A call that fails once leaves all or nothing; a crash may leave some, and the next call ends it.
 */
static void change_with_faults(bool apply, uint64_t fail_count, const spsh__copy_plan *plan)
{
    const size_t before = apply ? 0 : 2;
    bool is_over = false;
    for (uint64_t at = 0; !is_over; at++) {
        fault_io fault = {.fail_at = at, .fail_count = fail_count, .fail_errno = EIO};
        const spsh_io io = fault_io_table(&fault);
        spsh__copy_view_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = apply ? spsh__copy_view_apply(plan, NULL, &io, &facts, &err)
                               : spsh__copy_view_revert(plan, NULL, &io, &facts, &err);
        is_over = fault.call_count <= at;
        CHECK_I64(fault.open_count, 0);
        if (apply && rc != SPSH_OK && fail_count == 1)
            CHECK_U64(applied_count(), 0);
        if (rc == SPSH_OK)
            CHECK_U64(applied_count(), 2 - before);
        remove_temporaries();
        if (apply)
            rc = spsh__copy_view_apply(plan, NULL, &good_io, &facts, &err);
        else
            rc = spsh__copy_view_revert(plan, NULL, &good_io, &facts, &err);
        CHECK_I64(rc, SPSH_OK);
        CHECK_U64(applied_count(), 2 - before);
        if (apply)
            rc = spsh__copy_view_revert(plan, NULL, &good_io, &facts, &err);
        else
            rc = spsh__copy_view_apply(plan, NULL, &good_io, &facts, &err);
        CHECK_I64(rc, SPSH_OK);
        CHECK_U64(applied_count(), before);
    }
}

static void test_apply_is_all_or_nothing(void)
{
    spsh__copy_plan *plan = NULL;
    spsh__copy_view_facts facts;
    REQUIRE(spsh__copy_plan_open(&good_io, plan_path, &plan, NULL) == SPSH_OK);
    CHECK(memcmp(spsh__copy_plan_hash(plan), plan_hash, 16) == 0);
    change_with_faults(true, 1, plan);
    change_with_faults(true, UINT64_MAX, plan);
    REQUIRE(spsh__copy_view_apply(plan, NULL, &good_io, &facts, NULL) == SPSH_OK);
    CHECK_U64(facts.utterance_count, 4);
    change_with_faults(false, 1, plan);
    change_with_faults(false, UINT64_MAX, plan);
    spsh__copy_plan_free(plan);
}

TEST_MAIN(fault_dedupe)
{
    good_io = fault_io_table(&no_fault);
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(plan_path, PATH_BYTES, "%s/plan.jsonl", folder);
    (void)snprintf(work_path, PATH_BYTES, "%s/plan.jsonl.work", folder);
    make_datasets();
    RUN(test_find_goes_on);
    RUN(test_apply_is_all_or_nothing);
    spsh__source_list_free(&sources);
    test_remove_tree(folder);
    return TEST_RESULT();
}

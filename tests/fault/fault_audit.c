/* fault_audit.c: an audit in which each file operation fails, or is the last one that reaches the
 * disk, and in which each allocation fails. The status must report the failure, and nothing may
 * stay open. A folder that has a statement must be complete. A rerun must produce the bytes of an
 * undisturbed run.
 */
#include <dirent.h>

#include "fail_malloc.h"
#include "fault_io.h"
#include "speechshard/dedup.h"
#include "spsh_test.h"
#include "text_dataset.h"

enum { FILES_MAX = 16, PATH_BYTES = 700 };

static char folder[256];
static char dataset_path[300];
static char report_path[300];
static char work_path[300];
static char statement_path[340];

static const text_row rows[] = {
    {.id = "t1",       .split = "train", .text = "the same words",  .speaker = "ann"              },
    {.id = "t2",       .split = "train", .text = "the other words", .speaker = "bob",               .document = "d"},
    {.id = "t3",                .split = "extra",                       .text = "the same words",                 .speaker = "eve"},
    {.id = "e1",                .split = "test",                       .text = "The same words.",                  .speaker = "joe"},
    {.id = "e2",                .split = "test",                       .text = "something else",                  .speaker = "bob",  .document = "d"},
    {.id = "e3", .split = "dev",                 .text = "and yet another one",                                 .speaker = "amy"                                               },
};

typedef struct file_image {
    char name[64];
    uint8_t *data;
    size_t size;
} file_image;

static file_image want[FILES_MAX];
static size_t want_count;
static uint64_t call_stride, allocation_stride; /* odd: see fail_every_call() */

/* The operating system's calls except fsync, which is slow. */
static fault_io no_fault = {.fail_at = UINT64_MAX};
static spsh_io quick_io;

static spsh_error told; /* error of the last run */

static spsh_status add_sources(spsh_dedup_sources *sources, const spsh_io *io)
{
    char operand[340];
    snprintf(operand, sizeof(operand), "%s:train,extra", dataset_path);
    const spsh_status rc = spsh_dedup_sources_add(sources, operand, SPSH_SIDE_TRAIN, io, &told);
    snprintf(operand, sizeof(operand), "%s:test,dev", dataset_path);
    return rc == SPSH_OK ? spsh_dedup_sources_add(sources, operand, SPSH_SIDE_TEST, io, &told) : rc;
}

static spsh_audit_options audit_options(const spsh_io *io)
{
    spsh_audit_options options = SPSH_AUDIT_OPTIONS_INIT;
    options.io = io;
    options.folder = report_path;
    options.work_path = work_path;
    options.command = "speechshard audit";
    options.memory_bytes = SPSH_DEDUP_MEMORY_BYTES_MIN;
    options.threads = 1;
    return options;
}

static void check_audit(const spsh_audit *audit)
{
    REQUIRE(spsh_audit_split_count(audit) == 2);
    const spsh_audit_split *split = spsh_audit_split_get(audit, 1);
    CHECK_STR(split->name, "corpus.spsh: test");
    CHECK_U64(split->utterance_count, 2);
    CHECK_U64(split->dirty_count, 1);
    const spsh_audit_leak *leak = spsh_audit_leak_get(audit, 1, SPSH_LEAK_SENTENCE);
    CHECK_U64(leak->utterance_count, 1);
    CHECK(leak->limit > 1 && !leak->is_failure && leak->share_high > 0.5);
    REQUIRE(leak->example != NULL);
    CHECK_STR(leak->example->train_corpus, "corpus.spsh");
    CHECK(leak->example->test_id.size_bytes == 2 &&
          memcmp(leak->example->test_id.data, "e1", 2) == 0);
    CHECK(leak->example->match->tier == SPSH_TIER_TEXT_EXACT);
    CHECK(spsh_audit_leak_get(audit, 0, SPSH_LEAK_SENTENCE)->example == NULL);
    CHECK(spsh_audit_warning_count(audit) >= 2 && spsh_audit_warning(audit, 0)[0] != '\0');
}

static spsh_status run_audit(const spsh_io *io)
{
    const spsh_audit_options options = audit_options(io);
    spsh_dedup_sources *sources = NULL;
    spsh_audit *audit = NULL;
    spsh_status rc = spsh_dedup_sources_new(&sources, &told);
    if (rc == SPSH_OK)
        rc = add_sources(sources, io);
    if (rc == SPSH_OK)
        rc = spsh_audit_run(sources, &options, &audit, &told);
    CHECK((rc == SPSH_OK) == (audit != NULL));
    if (rc == SPSH_OK)
        check_audit(audit);
    spsh_audit_free(audit);
    spsh_dedup_sources_free(sources);
    return rc;
}

static void read_report(file_image *images, size_t *ret_count)
{
    size_t count = 0;
    struct dirent **entries = NULL;
    const int found = scandir(report_path, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char path[PATH_BYTES];
        struct stat status;
        snprintf(path, sizeof(path), "%s/%s", report_path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            REQUIRE(count < FILES_MAX && stat(path, &status) == 0);
            file_image *image = &images[count++];
            snprintf(image->name, sizeof(image->name), "%.63s", entries[i]->d_name);
            image->size = (size_t)status.st_size;
            image->data = malloc(image->size + 1);
            FILE *file = fopen(path, "rb");
            REQUIRE(file != NULL && image->data != NULL);
            REQUIRE(fread(image->data, 1, image->size, file) == image->size);
            fclose(file);
        }
        free(entries[i]);
    }
    free(entries);
    *ret_count = count;
}

static bool is_wanted(void)
{
    file_image got[FILES_MAX];
    size_t count = 0;
    read_report(got, &count);
    bool same = count == want_count;
    for (size_t i = 0; i < count; i++) {
        same = same && strcmp(got[i].name, want[i].name) == 0 && got[i].size == want[i].size &&
               memcmp(got[i].data, want[i].data, want[i].size) == 0;
        free(got[i].data);
    }
    return same;
}

/* Check the state after a disturbed run. */
static void check_after(spsh_status rc, uint64_t number)
{
    const bool is_stated = access(statement_path, F_OK) == 0;
    const int before = test_failures;
    uint64_t files = 0;
    if (rc == SPSH_OK)
        CHECK(is_wanted());
    if (is_stated) {
        CHECK(spsh_audit_check(statement_path, NULL, NULL, &files, NULL) == SPSH_OK);
        CHECK_U64(files + 1, want_count);
    }
    CHECK(run_audit(&quick_io) == SPSH_OK);
    CHECK(is_wanted());
    CHECK(access(work_path, F_OK) != 0);
    if (test_failures != before) {
        fprintf(stderr, "call %" PRIu64 ", status %s\n", number, spsh_status_name(rc));
        exit(1);
    }
}

static void clear_report(void)
{
    if (access(report_path, F_OK) == 0)
        test_remove_tree(report_path);
    if (access(work_path, F_OK) == 0)
        test_remove_tree(work_path);
}

/* fail_count: 1, or UINT64_MAX for a crash. Every second run replaces the report before it. */
static void fail_every_call(uint64_t fail_count, int fail_errno)
{
    uint64_t total = 1;
    for (uint64_t at = 0; at < total; at += call_stride) {
        fault_io fault = {.fail_at = at, .fail_count = fail_count, .fail_errno = fail_errno};
        const spsh_io io = fault_io_table(&fault);
        if (at % 2 == 0)
            clear_report();
        const spsh_status rc = run_audit(&io);
        CHECK_I64(fault.open_count, 0);
        if (fail_count == UINT64_MAX)
            CHECK(rc != SPSH_OK || fault.call_count <= at || is_wanted());
        total = fault.call_count > at ? at + call_stride + 1 : at;
        check_after(rc, at);
    }
    printf("%" PRIu64 " calls\n", total);
}

static void test_failing_calls(void)
{
    fail_every_call(1, EIO);
    fail_every_call(1, ENOSPC);
}

static void test_crashes(void)
{
    fail_every_call(UINT64_MAX, EIO);
}

static void test_failing_allocations(void)
{
    uint64_t failed = 0;
    uint64_t at = 0;
    for (bool done = false; !done; at += allocation_stride) {
        if (at % 2 == 0)
            clear_report();
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        const spsh_status rc = run_audit(&quick_io);
        done = fail_malloc.calls <= at;
        fail_malloc.at = UINT64_MAX;
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            fprintf(stderr, "%s\n", told.message);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        failed += rc != SPSH_OK;
        check_after(rc, at);
    }
    printf("%" PRIu64 " allocations, %" PRIu64 " runs failed\n", at, failed);
    CHECK(failed > at / allocation_stride / 2);
}

static void test_failing_allocations_of_a_check(void)
{
    uint64_t failed = 0;
    uint64_t at = 0;
    for (bool done = false; !done; at++) {
        fail_malloc.calls = 0;
        fail_malloc.at = at;
        uint64_t files = 0;
        const spsh_status rc = spsh_audit_check(statement_path, NULL, NULL, &files, NULL);
        done = fail_malloc.calls <= at;
        fail_malloc.at = UINT64_MAX;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK(!done || rc == SPSH_OK);
        failed += rc != SPSH_OK;
    }
    printf("%" PRIu64 " allocations, %" PRIu64 " checks failed\n", at, failed);
    CHECK(failed > at / 2);
}

static int cancel(void *user, const char *phase, uint64_t done, uint64_t total)
{
    uint64_t *left = user;
    (void)phase, (void)done, (void)total;
    return (*left)-- == 0;
}

/* A run that its caller cancels at any report leaves no statement. A rerun succeeds as usual. */
static void test_canceled_runs(void)
{
    spsh_dedup_sources *sources = NULL;
    spsh_status rc = SPSH_E_CANCELED;
    REQUIRE(spsh_dedup_sources_new(&sources, NULL) == SPSH_OK);
    REQUIRE(add_sources(sources, NULL) == SPSH_OK);
    uint64_t at = 0;
    for (; rc != SPSH_OK; at++) {
        spsh_audit_options options = audit_options(&quick_io);
        spsh_audit *audit = NULL;
        uint64_t left = at;
        options.progress_fn = cancel;
        options.user = &left;
        clear_report();
        rc = spsh_audit_run(sources, &options, &audit, &told);
        CHECK(rc == SPSH_OK || rc == SPSH_E_CANCELED);
        CHECK((rc == SPSH_OK) == (access(statement_path, F_OK) == 0));
        spsh_audit_free(audit);
        check_after(rc, at);
    }
    CHECK(at > 2);
    spsh_dedup_sources_free(sources);
}

static void test_refused_options(void)
{
    spsh_audit_options options = audit_options(NULL);
    spsh_dedup_sources *sources = NULL;
    spsh_audit *audit = NULL;
    REQUIRE(spsh_dedup_sources_new(&sources, NULL) == SPSH_OK);
    REQUIRE(add_sources(sources, NULL) == SPSH_OK);
    options.folder = NULL;
    CHECK_I64(spsh_audit_run(sources, &options, &audit, NULL), SPSH_E_INVALID_ARG);
    options = audit_options(NULL);
    options.flags = 2;
    CHECK_I64(spsh_audit_run(sources, &options, &audit, NULL), SPSH_E_INVALID_ARG);
    options = audit_options(NULL);
    options.memory_bytes = 1;
    CHECK_I64(spsh_audit_run(sources, &options, &audit, NULL), SPSH_E_INVALID_ARG);
    CHECK(audit == NULL);
    spsh_dedup_sources_free(sources);
}

TEST_MAIN(fault_audit)
{
    call_stride = test_stride(argc, argv, 5);
    allocation_stride = test_stride(argc, argv, 3);
    quick_io = fault_io_table(&no_fault);
    test_temp_dir(folder, sizeof(folder));
    snprintf(dataset_path, sizeof(dataset_path), "%s/corpus.spsh", folder);
    snprintf(report_path, sizeof(report_path), "%s/audit", folder);
    snprintf(work_path, sizeof(work_path), "%s/audit.work", folder);
    snprintf(statement_path, sizeof(statement_path), "%s/statement.json", report_path);
    text_dataset_make(dataset_path, 1, rows, sizeof(rows) / sizeof(rows[0]));
    REQUIRE(run_audit(&quick_io) == SPSH_OK);
    read_report(want, &want_count);
    REQUIRE(want_count == 9);
    RUN(test_failing_calls);
    RUN(test_crashes);
    RUN(test_failing_allocations);
    RUN(test_failing_allocations_of_a_check);
    RUN(test_canceled_runs);
    RUN(test_refused_options);
    for (size_t i = 0; i < want_count; i++)
        free(want[i].data);
    test_remove_tree(folder);
    return TEST_RESULT();
}

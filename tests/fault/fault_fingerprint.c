/* fault_fingerprint.c: making segments while each file operation fails, is the last that reaches
 * the disk, or finds the disk full, and while each allocation fails. The status must report it. A
 * rerun must produce the bytes of an undisturbed run, and no other files.
 */
#include <dirent.h>

#include "fail_malloc.h"
#include "fault_io.h"
#include "speechshard/dedup.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

static char folder[256];
static char dataset_path[300];
static char segments_path[340];
static tiny_dataset tiny;

typedef struct file_image {
    uint8_t *data;
    size_t size;
} file_image;
static file_image want[TINY_SHARDS];

static void segment_file(size_t shard, char path[400])
{
    char name[32];
    spsh_shard_file_name(tiny.seals[shard].unit, tiny.seals[shard].number, name);
    (void)snprintf(path, 400, "%s/%s", segments_path, name);
}

static spsh_status run(const spsh_io *io, spsh_fingerprint_facts *facts, spsh_error *err)
{
    spsh_fingerprint_options options = SPSH_FINGERPRINT_OPTIONS_INIT;
    options.io = io;
    options.threads = 1;
    facts->struct_size = sizeof(*facts);
    return spsh_fingerprint_run(dataset_path, &options, facts, err);
}

static void remove_segments(void)
{
    if (access(segments_path, F_OK) == 0)
        test_remove_tree(segments_path);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *list = opendir(segments_path);
    while (list != NULL && readdir(list) != NULL)
        count++;
    if (list != NULL)
        (void)closedir(list);
    return count - 2; /* . and .. */
}

/* An undisturbed run, and the resulting files. */
static void check_rerun(const char *what, uint64_t at)
{
    spsh_fingerprint_facts facts;
    spsh_error err = SPSH_ERROR_INIT;
    const int before = test_failures;
    CHECK_I64(run(NULL, &facts, &err), SPSH_OK);
    CHECK_U64(count_files(), TINY_SHARDS);
    for (size_t n = 0; n < TINY_SHARDS; n++) {
        char path[400];
        file_image got = {NULL, 0};
        segment_file(n, path);
        REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &got.data, &got.size,
                                  NULL) == SPSH_OK);
        CHECK(got.size == want[n].size && memcmp(got.data, want[n].data, got.size) == 0);
        free(got.data);
    }
    if (test_failures != before)
        fprintf(stderr, "    after %s at call %" PRIu64 ": %s\n", what, at, err.message);
}

static void test_plain_run(void)
{
    spsh_fingerprint_facts facts;
    REQUIRE(run(NULL, &facts, NULL) == SPSH_OK);
    CHECK_U64(facts.made_count, TINY_SHARDS);
    for (size_t n = 0; n < TINY_SHARDS; n++) {
        char path[400];
        segment_file(n, path);
        REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &want[n].data,
                                  &want[n].size, NULL) == SPSH_OK);
    }
    check_rerun("nothing", 0);
}

static uint64_t stride; /* from one place that fails to the next */

/* One kind of fault at every call, from the first on; stops when the calls are used up. */
static void fail_everywhere(const char *what, uint64_t fail_count, int fail_errno)
{
    uint64_t failed = 0;
    uint64_t n = 0;
    for (bool reached = true; reached && test_failures < 5; n += stride) {
        fault_io fault = {.fail_at = n, .fail_count = fail_count, .fail_errno = fail_errno};
        const spsh_io io = fault_io_table(&fault);
        spsh_fingerprint_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        remove_segments();
        const spsh_status rc = run(&io, &facts, &err);
        reached = fault.call_count > n;
        failed += rc != SPSH_OK;
        CHECK(rc == SPSH_OK || rc == spsh_io_status(fail_errno) || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (err.message[0] == '\0'));
        CHECK_I64(fault.open_count, 0);
        check_rerun(what, n);
    }
    CHECK(n > 100);
    CHECK(failed > 50 / stride);
    printf("%s: %" PRIu64 " calls, %" PRIu64 " runs failed\n", what, n - 1, failed);
}

static void test_each_call_fails(void)
{
    fail_everywhere("an error", 1, EIO);
}

static void test_full_disk(void)
{
    fail_everywhere("a full disk", 1, ENOSPC);
}

static void test_crash_at_each_call(void)
{
    fail_everywhere("a crash", UINT64_MAX, EIO);
}

static void test_each_allocation_fails(void)
{
    for (int later = 0; later < 2; later++) {
        bool reached = true;
        uint64_t failed = 0;
        uint64_t n = 0;
        for (; reached && test_failures < 5; n += later ? 7 : stride) {
            spsh_fingerprint_facts facts;
            spsh_error err = SPSH_ERROR_INIT;
            remove_segments();
            fail_malloc.calls = 0;
            fail_malloc.later_too = later == 1;
            fail_malloc.at = n;
            const spsh_status rc = run(NULL, &facts, &err);
            fail_malloc.at = UINT64_MAX;
            fail_malloc.later_too = false;
            reached = fail_malloc.calls > n;
            failed += rc != SPSH_OK;
            CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_IO);
            if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
                fprintf(stderr, "    allocation %" PRIu64 ": %s\n", n, err.message);
        }
        printf("%" PRIu64 " allocations, %" PRIu64 " runs failed\n", n, failed);
        CHECK(n > 100 && failed > n / (later ? 14 : 2 * stride));
    }
    check_rerun("no memory", 0);
}

/* The command must not remove temporary files of a live process or of a finished shard. */
static void test_temporaries(void)
{
    char first[400];
    char path[440];
    spsh_fingerprint_facts facts;
    segment_file(0, first);
    remove_segments();
    CHECK_I64(run(NULL, &facts, NULL), SPSH_OK);
    (void)snprintf(path, sizeof(path), "%s.tmp-%ld-0", first, (long)getpid());
    fclose(fopen(path, "w"));
    CHECK_I64(run(NULL, &facts, NULL), SPSH_OK);
    CHECK(access(path, F_OK) == 0); /* the shard is done */
    REQUIRE(unlink(first) == 0);
    CHECK_I64(run(NULL, &facts, NULL), SPSH_OK);
    CHECK_U64(facts.made_count, 1);
    CHECK(access(path, F_OK) != 0);
    (void)snprintf(path, sizeof(path), "%s.tmp-%ld-0", first, (long)getppid());
    fclose(fopen(path, "w"));
    REQUIRE(unlink(first) == 0);
    CHECK_I64(run(NULL, &facts, NULL), SPSH_OK);
    CHECK(access(path, F_OK) == 0); /* the parent process is alive */
    REQUIRE(unlink(path) == 0);
    check_rerun("temporaries", 0);
}

static int cancel(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user, (void)phase, (void)done, (void)total;
    return 1;
}

/* Cancel at the first report, and then let a rerun finish. */
static void test_canceled_run(void)
{
    spsh_fingerprint_options options = SPSH_FINGERPRINT_OPTIONS_INIT;
    spsh_fingerprint_facts facts = SPSH_FINGERPRINT_FACTS_INIT;
    options.progress_fn = cancel;
    options.threads = 3;
    remove_segments();
    CHECK_I64(spsh_fingerprint_run(dataset_path, &options, &facts, NULL), SPSH_E_CANCELED);
    CHECK_U64(facts.shard_count, 0);
    check_rerun("a cancellation", 0);
}

static void test_estimate(void)
{
    spsh_fingerprint_cost cost = SPSH_FINGERPRINT_COST_INIT;
    remove_segments();
    CHECK_I64(spsh_fingerprint_estimate(dataset_path, NULL, 0.1, &cost, NULL), SPSH_OK);
    CHECK_U64(cost.missing_count, TINY_SHARDS);
    CHECK(cost.measured_count > 0 && cost.file_bytes > 0);
    CHECK(access(segments_path, F_OK) != 0);
    check_rerun("an estimate", 0);
}

static void test_refused_options(void)
{
    spsh_fingerprint_options options = SPSH_FINGERPRINT_OPTIONS_INIT;
    spsh_fingerprint_facts facts = {0};
    CHECK_I64(spsh_fingerprint_run(dataset_path, NULL, &facts, NULL), SPSH_E_INVALID_ARG);
    facts.struct_size = sizeof(facts);
    options.flags = 1;
    CHECK_I64(spsh_fingerprint_run(dataset_path, &options, &facts, NULL), SPSH_E_INVALID_ARG);
    options.flags = 0;
    options.part = 3;
    options.part_count = 3;
    CHECK_I64(spsh_fingerprint_run(dataset_path, &options, &facts, NULL), SPSH_E_INVALID_ARG);
}

TEST_MAIN(fault_fingerprint)
{
    stride = test_stride(argc, argv, 3);
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(dataset_path, sizeof(dataset_path), "%s/d.spsh", folder);
    (void)snprintf(segments_path, sizeof(segments_path), "%s/fingerprints", dataset_path);
    tiny_dataset_write(&tiny, dataset_path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    RUN(test_plain_run);
    RUN(test_each_call_fails);
    RUN(test_full_disk);
    RUN(test_crash_at_each_call);
    RUN(test_each_allocation_fails);
    RUN(test_temporaries);
    RUN(test_canceled_run);
    RUN(test_estimate);
    RUN(test_refused_options);
    for (size_t n = 0; n < TINY_SHARDS; n++)
        free(want[n].data);
    test_remove_tree(folder);
    return TEST_RESULT();
}

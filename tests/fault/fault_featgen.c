/* fault_featgen.c: making features, and their statistics, while each file operation fails, is the
 * last that reaches the disk, or finds the disk full, and while each allocation fails. The status
 * must report it. A rerun must produce the bytes of an undisturbed run, and no other files.
 */
#include "common/hash.h"
#include "fail_malloc.h"
#include "fault_io.h"
#include "features/feature_run.h"
#include "speechshard/statistics.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

enum {
    LEFT_OUT = 1,
    UNDECODABLE = 1
}; /* utterances of the tiny dataset; one is shorter than its
                                           header states */

typedef spsh_status run_fn(const spsh__feature_run_options *options,
                           spsh__feature_run_facts *ret_facts, spsh_error *err);

/* A file of the test, and its path. */
typedef struct subject {
    const char *name;
    run_fn *run;
    char path[340];
    uint64_t want; /* digest of all files below path */
    size_t file_count;
} subject;

static char folder[256];
static char dataset_path[300];
static tiny_dataset tiny;
static subject features = {.name = "features", .run = spsh__feature_run};
static subject statistics = {.name = "statistics", .run = spsh__statistics_run};
static subject *now = &features;

static spsh_status run(const spsh_io *io, spsh__feature_run_facts *facts, spsh_error *err)
{
    spsh__feature_run_options options = {.source = dataset_path,
                                         .output = features.path,
                                         .features = SPSH_FEATURE_OPTIONS_INIT,
                                         .dtype = SPSH_FLOAT16,
                                         .by_speaker = true,
                                         .leave_out_damaged = true,
                                         .part_count = 1,
                                         .threads = 1,
                                         .io = io};
    const spsh_status rc =
        spsh_feature_options_parse("kaldi-mfcc,window_us=5000,hop_us=2000", &options.features, err);
    return rc == SPSH_OK ? now->run(&options, facts, err) : rc;
}

static void remove_output(void)
{
    if (access(now->path, F_OK) == 0)
        test_remove_tree(now->path);
}

static uint64_t digest;
static size_t file_count;

static int add_file(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    uint8_t *data = NULL;
    size_t size = 0;
    (void)info, (void)walk;
    if (kind != FTW_F)
        return 0;
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size, NULL) ==
            SPSH_OK);
    const uint64_t name = spsh__pack_hash64((spsh_bytes){(const uint8_t *)path, strlen(path)});
    digest += name * 3 ^ spsh__pack_hash64((spsh_bytes){data, size});
    file_count++;
    free(data);
    return 0;
}

static void look(void)
{
    digest = 0;
    file_count = 0;
    CHECK(nftw(now->path, add_file, 16, FTW_PHYS) == 0);
}

/* An undisturbed run, and the resulting files. */
static void check_rerun(const char *what, uint64_t at)
{
    fault_io nothing = {.fail_at = UINT64_MAX}; /* I/O without fsync */
    const spsh_io io = fault_io_table(&nothing);
    spsh__feature_run_facts facts = {.published = false};
    spsh_error err = SPSH_ERROR_INIT;
    const int before = test_failures;
    CHECK_I64(run(&io, &facts, &err), SPSH_OK);
    CHECK(facts.published || facts.already_there);
    look();
    CHECK_U64(file_count, now->file_count);
    CHECK(digest == now->want);
    if (test_failures != before)
        fprintf(stderr, "    %s after %s at call %" PRIu64 ": %s\n", now->name, what, at,
                err.message);
}

static void plain_run(void)
{
    spsh__feature_run_facts facts;
    REQUIRE(run(NULL, &facts, NULL) == SPSH_OK);
    CHECK_U64(facts.made_count, TINY_SHARDS);
    CHECK_U64(facts.utterance_count, TINY_UTTERANCES - LEFT_OUT - UNDECODABLE);
    CHECK_U64(facts.left_out_count, LEFT_OUT);
    CHECK_U64(facts.undecodable_count, UNDECODABLE);
    look();
    now->want = digest;
    now->file_count = file_count;
    CHECK_U64(file_count, now == &features ? TINY_SHARDS + 2 : 1);
    check_rerun("nothing", 0);
    remove_output();
    check_rerun("a removal", 0);
}

static void test_plain_run(void)
{
    now = &features;
    plain_run();
    now = &statistics;
    plain_run();
}

static uint64_t stride = 1; /* from one call that fails to the next; more with --fewer */

/* One kind of fault at every call, from the first on; stops when the calls are used up. */
static void fail_everywhere(const char *what, uint64_t fail_count, int fail_errno)
{
    uint64_t failed = 0;
    uint64_t n = 0;
    for (bool reached = true; reached && test_failures < 5; n += stride) {
        fault_io fault = {.fail_at = n, .fail_count = fail_count, .fail_errno = fail_errno};
        const spsh_io io = fault_io_table(&fault);
        spsh__feature_run_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        remove_output();
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
    printf("%s, %s: %" PRIu64 " calls, %" PRIu64 " runs failed\n", now->name, what, n - stride,
           failed);
}

static void fail_both(const char *what, uint64_t fail_count, int fail_errno)
{
    now = &features;
    fail_everywhere(what, fail_count, fail_errno);
    now = &statistics;
    fail_everywhere(what, fail_count, fail_errno);
}

static void test_each_call_fails(void)
{
    fail_both("an error", 1, EIO);
}

static void test_full_disk(void)
{
    fail_both("a full disk", 1, ENOSPC);
}

static void test_crash_at_each_call(void)
{
    fail_both("a crash", UINT64_MAX, EIO);
}

static void fail_allocations(bool later)
{
    bool reached = true;
    uint64_t n = 0;
    for (; reached && test_failures < 5; n += later ? 7 * stride : stride) {
        spsh__feature_run_facts facts;
        spsh_error err = SPSH_ERROR_INIT;
        remove_output();
        fault_io nothing = {.fail_at = UINT64_MAX};
        const spsh_io io = fault_io_table(&nothing);
        fail_malloc.calls = 0;
        fail_malloc.later_too = later;
        fail_malloc.at = n;
        const spsh_status rc = run(&io, &facts, &err);
        fail_malloc.at = UINT64_MAX;
        fail_malloc.later_too = false;
        reached = fail_malloc.calls > n;
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_IO);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            fprintf(stderr, "    allocation %" PRIu64 ": %s\n", n, err.message);
    }
    CHECK(n > 100);
    remove_output();
    check_rerun("no memory", 0);
}

static void test_each_allocation_fails(void)
{
    for (int i = 0; i < 4; i++) {
        now = i < 2 ? &features : &statistics;
        fail_allocations(i % 2 == 1);
    }
}

/* With any damaged bit, a reader of statistics returns correct values or reports the damage. */
static void test_damaged_statistics(void)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    char path[600], name[SPSH_STATISTICS_NAME_BYTES];
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    uint8_t *data = NULL;
    size_t size = 0;
    double sums[2][64];
    now = &statistics;
    check_rerun("nothing", 0);
    REQUIRE(spsh_feature_options_parse("kaldi-mfcc,window_us=5000,hop_us=2000", &options, NULL) ==
            SPSH_OK);
    (void)spsh_feature_options_text(&options, text, sizeof(text));
    REQUIRE(spsh_dataset_open(dataset_path, NULL, &dataset, NULL) == SPSH_OK);
    spsh_statistics_file_name(text, SPSH_STATISTICS_WHOLE, name);
    (void)snprintf(path, sizeof(path), "%s/%s", statistics.path, name);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, &size, NULL) ==
            SPSH_OK);
    for (size_t bit = 0; bit < 8 * size; bit += bit / 8 < 4096 + 2048 ? 37 : 1511) {
        spsh_statistics *found = NULL;
        spsh_statistics_sums wanted = {0, sums[0], sums[1]};
        FILE *file = fopen(path, "wb");
        REQUIRE(file != NULL);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        REQUIRE(fwrite(data, 1, size, file) == size && fclose(file) == 0);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        const spsh_status rc =
            spsh_statistics_open(dataset, text, SPSH_STATISTICS_WHOLE, NULL, &found, NULL);
        if (rc == SPSH_OK) {
            CHECK_U64(spsh_statistics_dim(found), 13);
            (void)!spsh_statistics_get(found, SPSH_STATISTICS_DATASET, &wanted, NULL);
        }
        spsh_statistics_close(found);
    }
    free(data);
    spsh_dataset_close(dataset);
    remove_output();
    check_rerun("damage", 0);
}

TEST_MAIN(fault_featgen)
{
    stride = test_stride(argc, argv, 13);
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(dataset_path, sizeof(dataset_path), "%s/d.spsh", folder);
    (void)snprintf(features.path, sizeof(features.path), "%s/f.spsh", folder);
    (void)snprintf(statistics.path, sizeof(statistics.path), "%s/" SPSH_STATISTICS_DIRECTORY,
                   dataset_path);
    tiny_dataset_write(&tiny, dataset_path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    RUN(test_plain_run);
    RUN(test_each_call_fails);
    RUN(test_full_disk);
    RUN(test_crash_at_each_call);
    RUN(test_each_allocation_fails);
    RUN(test_damaged_statistics);
    test_remove_tree(folder);
    return TEST_RESULT();
}

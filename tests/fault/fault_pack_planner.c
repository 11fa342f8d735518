/* fault_pack_planner.c: processes that meet while one of them makes the plan. No work may be lost.
 *
 * A planner that was taken for dead publishes its plan while its successor begins. Another process
 * packs all units before the successor continues:
 *
 *     stopped    claims the plan, makes it, and stops before the plan gets its name
 *     successor  takes over after a lease, finds no plan, and stops there
 *     stopped    publishes the plan
 *     worker     packs all units
 *     successor  continues
 *
 * A pack that is not a part is canceled while it waits for the plan of a part. A part publishes the
 * dataset while another one begins with the plan.
 *
 * All of them are calls in this process. The I/O table of each call runs the next one.
 */
#include <fcntl.h>
#include <stdatomic.h>

#include "speechshard/pack.h"
#include "spsh_test.h"

#define CLIPS     12U
#define WAV_BYTES ((size_t)44 + 4000)

static char directory[256];
static char corpus[300];
static char output[300];
static _Atomic bool is_stopped; /* the first planner shows no sign of life */
static bool successor_has_claim, successor_ran, worker_ran;
static unsigned successor_looks;
static const char *plan_from, *plan_to;
static uint64_t worker_units, successor_units;

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path);
    return length >= strlen(end) && strcmp(path + length - strlen(end), end) == 0;
}

static const char *const corpora[] = {corpus};

static spsh_pack_options set_options(const spsh_io *io)
{
    spsh_pack_options options = SPSH_PACK_OPTIONS_INIT;
    options.corpora = corpora;
    options.corpus_count = 1;
    options.output = output;
    options.shard_bytes = UINT64_C(64) << 10;
    options.threads = 1;
    options.memory_bytes = UINT64_C(16) << 20;
    options.lease_s = 1;
    options.io = io;
    return options;
}

static spsh_status pack(const spsh_io *io, bool merges, uint64_t *ret_units)
{
    spsh_pack_options options = set_options(io);
    spsh_pack_report *report = NULL;
    options.is_part = true;
    options.part_count = 1;
    options.merges_parts = merges;
    const spsh_status rc = spsh_pack(&options, &report, NULL);
    if (rc == SPSH_OK)
        *ret_units = spsh_pack_report_facts(report)->units_packed;
    spsh_pack_report_free(report);
    return rc;
}

static int successor_mkdir(void *user, const char *path, mode_t mode)
{
    (void)user;
    successor_has_claim = successor_has_claim || ends_with(path, "/plan.g2");
    return spsh_io_default()->mkdir_fn(NULL, path, mode);
}

/* The answer to the look for the plan is older than the work of the others. */
static int successor_open(void *user, const char *path, int flags, mode_t mode)
{
    const int rc = spsh_io_default()->open_fn(NULL, path, flags, mode);
    (void)user;
    if (!successor_has_claim || worker_ran || !ends_with(path, "/.pack/plan") || rc != -ENOENT)
        return rc;
    if (++successor_looks < 2) /* the second look decides */
        return rc;
    worker_ran = true;
    CHECK_I64(spsh_io_default()->rename_new_fn(NULL, plan_from, plan_to), 0);
    CHECK_I64(pack(spsh_io_default(), false, &worker_units), SPSH_OK);
    return rc;
}

/* The publication of the plan: the whole process stops in it. */
static int stopped_rename_new(void *user, const char *from, const char *to)
{
    (void)user;
    if (successor_ran || !ends_with(to, "/.pack/plan"))
        return spsh_io_default()->rename_new_fn(NULL, from, to);
    spsh_io io = *spsh_io_default();
    io.mkdir_fn = successor_mkdir;
    io.open_fn = successor_open;
    successor_ran = true;
    is_stopped = true;
    plan_from = from;
    plan_to = to;
    CHECK_I64(pack(&io, false, &successor_units), SPSH_OK);
    is_stopped = false;
    return worker_ran ? 0 : -EIO;
}

static int64_t stopped_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                              uint64_t offset_bytes)
{
    (void)user;
    return is_stopped ? (int64_t)size_bytes
                      : spsh_io_default()->pwrite_fn(NULL, fd, src, size_bytes, offset_bytes);
}

static void make_corpus(void)
{
    static const uint8_t head[44] =
        "RIFF\xC4\x0F\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1F\0\0\x80\x3E\0\0\2\0\x10\0data\xA0\x0F";
    uint8_t wav[WAV_BYTES];
    char path[400];

    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(corpus, sizeof(corpus), "%s/corpus", directory);
    (void)snprintf(output, sizeof(output), "%s/corpus.spsh", directory);
    REQUIRE(mkdir(corpus, 0777) == 0);
    for (unsigned i = 0; i < CLIPS; i++) {
        memcpy(wav, head, sizeof(head));
        for (size_t at = sizeof(head); at < WAV_BYTES; at++)
            wav[at] = (uint8_t)((at * (i + 3)) >> (i % 5));
        (void)snprintf(path, sizeof(path), "%s/%02u.wav", corpus, i);
        FILE *file = fopen(path, "wb");
        REQUIRE(file != NULL && fwrite(wav, 1, sizeof(wav), file) == sizeof(wav));
        REQUIRE(fclose(file) == 0);
    }
}

static void test_late_plan(void)
{
    spsh_io io = *spsh_io_default();
    uint64_t units = 0;

    io.rename_new_fn = stopped_rename_new;
    io.pwrite_fn = stopped_pwrite;
    CHECK_I64(pack(&io, true, &units), SPSH_OK);
    CHECK(successor_ran && worker_ran);
    CHECK(worker_units > 0);
    CHECK_U64(successor_units, 0);
    CHECK_U64(units, 0);
}

static int cancel_in_wait(void *user, const char *phase, uint64_t done, uint64_t total)
{
    bool *has_waited = (bool *)user;
    (void)done;
    (void)total;
    *has_waited = *has_waited || strcmp(phase, "wait") == 0;
    return *has_waited ? 1 : 0;
}

/* The publication of the plan: meanwhile, another pack begins and is canceled. */
static int canceling_rename_new(void *user, const char *from, const char *to)
{
    bool has_waited = false;
    (void)user;
    if (ends_with(to, "/.pack/plan")) {
        spsh_pack_options options = set_options(spsh_io_default());
        spsh_pack_report *report = NULL;
        options.progress_fn = cancel_in_wait;
        options.user = &has_waited;
        CHECK_I64(spsh_pack(&options, &report, NULL), SPSH_E_CANCELED);
        CHECK(has_waited);
    }
    return spsh_io_default()->rename_new_fn(NULL, from, to);
}

static void test_canceled_pack(void)
{
    spsh_io io = *spsh_io_default();
    uint64_t units = 0;

    test_remove_tree(output);
    io.rename_new_fn = canceling_rename_new;
    CHECK_I64(pack(&io, true, &units), SPSH_OK);
    CHECK(units > 0);
}

/* The first look at the utterances of the plan: meanwhile, another part packs and merges. */
static int late_open(void *user, const char *path, int flags, mode_t mode)
{
    uint64_t units = 0;
    (void)user;
    if (!worker_ran && ends_with(path, "/plan.items")) {
        worker_ran = true;
        CHECK_I64(pack(spsh_io_default(), true, &units), SPSH_OK);
        CHECK(units > 0);
    }
    return spsh_io_default()->open_fn(NULL, path, flags, mode);
}

static void test_late_part(void)
{
    spsh_pack_options options = set_options(spsh_io_default());
    spsh_pack_report *report = NULL;
    spsh_io io = *spsh_io_default();
    uint64_t units = 1;

    test_remove_tree(output);
    options.is_plan_only = true;
    CHECK_I64(spsh_pack(&options, &report, NULL), SPSH_OK);
    spsh_pack_report_free(report);
    worker_ran = false;
    io.open_fn = late_open;
    CHECK_I64(pack(&io, false, &units), SPSH_OK);
    CHECK(worker_ran);
    CHECK_U64(units, 0);
}

TEST_MAIN(fault_pack_planner)
{
    make_corpus();
    RUN(test_late_plan);
    RUN(test_canceled_pack);
    RUN(test_late_part);
    test_remove_tree(directory);
    return TEST_RESULT();
}

/* fault_train_checkpoint.c: whatever fails during a save, the previous checkpoint or the new one is
 * complete. An acknowledged checkpoint is durable. Damage is reported, and the damaged file is
 * skipped. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint_kit.h"
#include "fault_alloc.h"
#include "fault_io.h"
#include "speechshard/table_file.h"
#include "test_file.h"
#include "test_tree.h"

enum { ELEMENTS = 300, MANY_ELEMENTS = 40000, CALLS_MAX = 500 };

typedef struct heard {
    int count;
    char last[600];
} heard;

static void hear(void *user, spsh_log_level level, const char *text)
{
    heard *h = (heard *)user;
    CHECK_I64(level, SPSH_LOG_WARNING);
    h->count++;
    (void)snprintf(h->last, sizeof(h->last), "%s", text);
}

static bool has_temporaries(const char *folder)
{
    bool has = false;
    DIR *open = opendir(folder);
    REQUIRE(open != NULL);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        has = has || strstr(entry->d_name, ".tmp-") != NULL;
    (void)closedir(open);
    return has;
}

/* Make a run with one good checkpoint, after 100 samples. The I/O table skips fsync, since the run
 * is made hundreds of times. */
static void make_run(const char *run)
{
    kit_state s;
    fault_io fault = {.fail_at = UINT64_MAX};
    const spsh_io io = fault_io_table(&fault);
    kit_make(&s, ELEMENTS, 100);
    spsh__checkpoint_writer *writer = kit_writer(run, 1, &io);
    kit_put(writer, &s, 100);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

/* ---- calls that fail ---- */

/* One save over a table; *ret_put: it was acknowledged. */
static spsh_status save(const char *run, const spsh_io *io, kit_state *s, uint64_t samples,
                        spsh__checkpoint_writer **ret_writer)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__checkpoint_writer *writer = *ret_writer;
    spsh_status rc = SPSH_OK;
    if (writer == NULL)
        rc = spsh__checkpoint_writer_open(run, 1, io, NULL, &writer, &err);
    if (rc != SPSH_OK)
        return rc;
    *ret_writer = writer;
    kit_fill(s, samples);
    rc = spsh__checkpoint_put(writer, &s->c, &err);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_flush(writer, &err);
    CHECK(rc == SPSH_OK || err.message[0] != '\0');
    return rc;
}

/* The process ends at call n: no later call reaches the disk. */
static void test_a_crash_at_each_call(void)
{
    kit_state s;
    bool is_over = false;
    uint64_t saved_before = 0;
    kit_make(&s, ELEMENTS, 1);
    for (uint64_t n = 0; !is_over; n++) {
        fault_io fault = {.fail_at = n, .fail_count = UINT64_MAX, .fail_errno = EIO};
        const spsh_io io = fault_io_table(&fault);
        spsh__checkpoint_writer *writer = NULL;
        REQUIRE(n < CALLS_MAX);
        make_run(at("crash"));
        const spsh_status rc = save(at("crash"), &io, &s, 200, &writer);
        spsh__checkpoint_writer_close(writer);
        is_over = fault.call_count <= n;
        CHECK_I64(fault.open_count, 0);
        const uint64_t newest = kit_newest(at("crash"));
        CHECK(newest == 200 || (newest == 100 && rc != SPSH_OK));
        CHECK(!is_over || rc == SPSH_OK);
        saved_before += newest == 200 && rc != SPSH_OK; /* published, not yet acknowledged */

        fault.fail_at = UINT64_MAX;
        writer = kit_writer(at("crash"), 1, &io);
        kit_put(writer, &s, 300);
        spsh__checkpoint_writer_close(writer);
        CHECK_U64(kit_newest(at("crash")), 300);
        CHECK(!has_temporaries(at("crash/checkpoints")) && !has_temporaries(at("crash")));
        test_remove_tree(at("crash"));
    }
    CHECK(saved_before > 0);
    kit_free(&s);
}

/* One call fails, and the training continues. */
static void fail_each_call(int os_errno, spsh_status want)
{
    kit_state s;
    bool is_over = false;
    int failures = 0;
    kit_make(&s, ELEMENTS, 1);
    for (uint64_t n = 0; !is_over; n++) {
        fault_io fault = {.fail_at = n, .fail_count = 1, .fail_errno = os_errno};
        const spsh_io io = fault_io_table(&fault);
        spsh__checkpoint_writer *writer = NULL;
        REQUIRE(n < CALLS_MAX);
        make_run(at("fail"));
        const spsh_status rc = save(at("fail"), &io, &s, 200, &writer);
        is_over = fault.call_count <= n;
        CHECK(rc == SPSH_OK || rc == want || rc == SPSH_E_IO || rc == SPSH_E_NO_MEMORY);
        failures += rc == want;
        const uint64_t newest = kit_newest(at("fail"));
        CHECK(newest == 200 || (newest == 100 && rc != SPSH_OK));
        fault.fail_at = UINT64_MAX;
        CHECK_I64(save(at("fail"), &io, &s, 300, &writer), SPSH_OK);
        CHECK_U64(kit_newest(at("fail")), 300);
        CHECK(!has_temporaries(at("fail/checkpoints")) || fault.fail_errno == EIO);
        spsh__checkpoint_writer_close(writer);
        CHECK_I64(fault.open_count, 0);
        test_remove_tree(at("fail"));
    }
    CHECK(failures > 5);
    kit_free(&s);
}

static void test_a_full_disk(void)
{
    fail_each_call(ENOSPC, SPSH_E_NO_SPACE);
}

static void test_a_failing_disk(void)
{
    fail_each_call(EIO, SPSH_E_IO);
}

/* The disk stays full: every save fails with that reason, and the previous state stays. */
static void test_a_disk_that_stays_full(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 1);
    make_run(at("full"));
    fault_io fault = {.fail_at = UINT64_MAX, .fail_count = UINT64_MAX, .fail_errno = ENOSPC};
    const spsh_io io = fault_io_table(&fault);
    spsh__checkpoint_writer *writer = kit_writer(at("full"), 1, &io);
    fault.fail_at = 0;
    for (uint64_t samples = 200; samples < 500; samples += 100) {
        CHECK_I64(save(at("full"), &io, &s, samples, &writer), SPSH_E_NO_SPACE);
        CHECK_U64(kit_newest(at("full")), 100);
    }
    fault.fail_at = UINT64_MAX;
    CHECK_I64(save(at("full"), &io, &s, 500, &writer), SPSH_OK);
    CHECK_U64(kit_newest(at("full")), 500);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

static void test_short_transfers(void)
{
    kit_state s;
    fault_io fault = {.fail_at = UINT64_MAX, .transfer_bytes_max = 1000};
    const spsh_io io = fault_io_table(&fault);
    spsh__checkpoint_writer *writer = NULL;
    kit_make(&s, MANY_ELEMENTS, 1);
    CHECK_I64(save(at("short"), &io, &s, 200, &writer), SPSH_OK);
    CHECK_U64(kit_newest(at("short")), 200);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

/* ---- damage ---- */

/* Make two good checkpoints, and read the bytes of the newer one. */
static uint8_t *make_pair(char path[1024], size_t *ret_size)
{
    kit_state s;
    make_run(at("pair"));
    kit_make(&s, ELEMENTS, 200);
    spsh__checkpoint_writer *writer = kit_writer(at("pair"), 3, NULL);
    kit_put(writer, &s, 200);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
    (void)snprintf(path, 1024, "%s", at("pair/checkpoints/000002-000000000200.spsh"));
    return test_file_read(path, ret_size);
}

/* Open the newest good checkpoint; *ret_heard counts skipped ones. */
static uint64_t open_pair(heard *h)
{
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    *h = (heard){0};
    CHECK_I64(spsh__checkpoint_open(at("pair"), NULL, hear, h, &file, &c, NULL), SPSH_OK);
    if (file == NULL)
        return 0;
    CHECK(kit_is_whole(&c));
    const uint64_t samples = c.samples;
    spsh__checkpoint_close(file);
    return samples;
}

/* Only a damaged footer copy may stay unreported: the other copy replaces it. */
static void test_every_flip_is_passed_over(void)
{
    char path[1024];
    size_t size = 0;
    uint64_t seed = test_seed(5);
    heard h;
    uint8_t *data = make_pair(path, &size);
    for (size_t place = 0; place < size; place += 64) {
        const size_t byte = place + (size_t)(test_random(&seed) % 64);
        const uint8_t bit = (uint8_t)(1U << (test_random(&seed) % 8));
        data[byte] ^= bit;
        test_file_write(path, data, size);
        data[byte] ^= bit;
        const uint64_t found = open_pair(&h);
        const bool is_footer = byte >= size - 8192;
        CHECK_U64(found, is_footer ? 200 : 100);
        CHECK_I64(h.count, is_footer ? 0 : 1);
        CHECK(is_footer || strstr(h.last, "000002-000000000200.spsh") != NULL);
    }
    free(data);
    test_remove_tree(at("pair"));
}

static void test_every_cut_is_passed_over(void)
{
    char path[1024];
    size_t size = 0;
    heard h;
    uint8_t *data = make_pair(path, &size);
    for (size_t cut = 0; cut < size; cut += cut % 4096 == 0 && cut > 0 ? 4095 : 1) {
        if (cut > 40 && cut < 4095)
            cut = 4095;
        test_file_write(path, data, cut);
        CHECK_U64(open_pair(&h), 100);
        CHECK_I64(h.count, 1);
    }
    free(data);
    test_remove_tree(at("pair"));
}

/* A valid file under another name does not match its name; a folder in place of a file is not a
 * file. */
static void test_wrong_names_are_passed_over(void)
{
    char path[1024];
    size_t size = 0;
    heard h;
    uint8_t *data = make_pair(path, &size);
    test_file_write(at("pair/checkpoints/000003-000000000900.spsh"), data, size);
    REQUIRE(mkdir(at("pair/checkpoints/000004-000000000900.spsh"), 0777) == 0);
    CHECK_U64(open_pair(&h), 200);
    CHECK_I64(h.count, 2);
    free(data);
    test_remove_tree(at("pair"));
}

/* A run with only damaged checkpoints is not an empty run: it must not silently begin anew. */
static void test_all_are_damaged(void)
{
    char path[1024];
    size_t size = 0;
    heard h = {0};
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint8_t *data = make_pair(path, &size);
    test_file_write(path, data, 4096);
    test_file_write(at("pair/checkpoints/000001-000000000100.spsh"), data, 8192);
    CHECK_I64(spsh__checkpoint_open(at("pair"), NULL, hear, &h, &file, &c, &err), SPSH_E_CORRUPT);
    CHECK_I64(h.count, 2);
    CHECK(strstr(err.message, "none of the 2 checkpoints") != NULL);
    CHECK(strstr(err.message, "000002-000000000200.spsh") != NULL);
    CHECK(file == NULL);
    free(data);
    test_remove_tree(at("pair"));
}

/* A newer program's state is not thrown away for an older one. */
static void test_a_later_version_is_not_passed_over(void)
{
    char path[1024];
    size_t size = 0;
    const uint32_t version = 2;
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    heard h = {0};
    const spsh_table_column column = {1, 4, 1, &version};
    const spsh_table_file_content content = {
        .directory = at("pair/checkpoints"),
        .name = "000002-000000000200.spsh",
        .info = {.kind = SPSH_TABLE_CHECKPOINT, .unit = 200, .number = 2},
        .columns = &column,
        .column_count = 1,
        .mode = SPSH_PUBLISH_REPLACE
    };
    free(make_pair(path, &size));
    REQUIRE(spsh_table_file_publish(&content, NULL, NULL) == SPSH_OK);
    CHECK_I64(spsh__checkpoint_open(at("pair"), NULL, hear, &h, &file, &c, NULL), SPSH_E_VERSION);
    CHECK_I64(h.count, 0);
    test_remove_tree(at("pair"));
}

/* ---- what happens while a file is written ---- */

/* The disk loses data: a synced and renamed file has other contents than were written. */
static int rename_and_damage(void *user, const char *from, const char *to)
{
    const int rc = rename(from, to);
    (void)user;
    if (strstr(to, "latest") != NULL)
        return rc;
    FILE *file = fopen(to, "r+b");
    REQUIRE(file != NULL);
    REQUIRE(fseek(file, 5000, SEEK_SET) == 0 && fputc(0x55, file) == 0x55);
    REQUIRE(fclose(file) == 0);
    return rc;
}

static void test_a_disk_that_lies(void)
{
    kit_state s;
    spsh_io io = *spsh_io_default();
    spsh__checkpoint_writer *writer = NULL;
    io.rename_fn = rename_and_damage;
    kit_make(&s, ELEMENTS, 1);
    make_run(at("lies"));
    CHECK_I64(save(at("lies"), &io, &s, 200, &writer), SPSH_E_CORRUPT);
    CHECK_U64(kit_newest(at("lies")),
              100); /* keep is 1, and the previous checkpoint still exists */
    io.rename_fn = spsh_io_default()->rename_fn;
    CHECK_I64(save(at("lies"), &io, &s, 300, &writer), SPSH_OK);
    CHECK_U64(kit_newest(at("lies")), 300);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
}

static spsh__checkpoint_writer *successor;

static void be_succeeded(void)
{
    if (successor == NULL)
        successor = kit_writer(at("late"), 1, NULL);
}

static int rename_late(void *user, const char *from, const char *to)
{
    (void)user;
    be_succeeded();
    return rename(from, to) == 0 ? 0 : -errno;
}

static void *mmap_late(void *user, int fd, size_t size_bytes, uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    (void)user;
    be_succeeded();
    return io->mmap_fn(io->user, fd, size_bytes, offset_bytes);
}

/* The old process neither writes `latest` nor removes a file that its successor may be reading. */
static void succeed(const spsh_io *io)
{
    kit_state s;
    size_t size = 0;
    spsh__checkpoint_writer *writer = NULL;
    successor = NULL;
    make_run(at("late"));
    kit_make(&s, ELEMENTS, 1);
    CHECK_I64(save(at("late"), io, &s, 200, &writer), SPSH_E_MISMATCH);
    spsh__checkpoint_writer_close(writer);
    uint8_t *latest = test_file_read(at("late/latest"), &size);
    CHECK(size == 25 && memcmp(latest, "000001-000000000100.spsh\n", 25) == 0);
    free(latest);
    CHECK(access(at("late/checkpoints/000001-000000000100.spsh"), F_OK) == 0);
    REQUIRE(successor != NULL);
    kit_put(successor, &s, 150);
    CHECK_U64(kit_newest(at("late")), 150);
    spsh__checkpoint_writer_close(successor);
    kit_free(&s);
    test_remove_tree(at("late"));
}

/* The successor starts before the file is renamed, and removes the temporary file; or it starts
 * after the rename. */
static void test_succeeded_during_a_save(void)
{
    spsh_io io = *spsh_io_default();
    io.rename_fn = rename_late;
    succeed(&io);
    io = *spsh_io_default();
    io.mmap_fn = mmap_late;
    succeed(&io);
}

/* ---- memory ---- */

static void test_every_allocation_failure(void)
{
    kit_state s;
    kit_make(&s, ELEMENTS, 1);
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t n = 0; rc != SPSH_OK; n++) {
        fault_alloc fault = {.fail_at = n};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh__checkpoint_writer *writer = NULL;
        REQUIRE(n < CALLS_MAX);
        make_run(at("memory"));
        rc = spsh__checkpoint_writer_open(at("memory"), 2, NULL, &allocator, &writer, NULL);
        CHECK((rc == SPSH_OK) == (writer != NULL));
        if (rc == SPSH_OK)
            rc = save(at("memory"), NULL, &s, 200, &writer);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        spsh__checkpoint_writer_close(writer);
        CHECK_I64(fault.live_count, 0);
        const uint64_t newest = kit_newest(at("memory"));
        CHECK(newest == 200 || (newest == 100 && rc != SPSH_OK));
        test_remove_tree(at("memory"));
    }
    kit_free(&s);
}

static void test_every_allocation_failure_of_reading(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    make_run(at("reading"));
    for (uint64_t n = 0; rc != SPSH_OK; n++) {
        fault_alloc fault = {.fail_at = n};
        const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        spsh__checkpoint c;
        spsh__checkpoint_file *file = NULL;
        REQUIRE(n < CALLS_MAX);
        rc = spsh__checkpoint_read(at("reading/checkpoints/000001-000000000100.spsh"),
                                   spsh_io_default(), &allocator, &file, &c, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        CHECK((rc == SPSH_OK) == (file != NULL));
        spsh__checkpoint_close(file);
        CHECK_I64(fault.live_count, 0);
    }
}

/* ---- kill -9 ---- */

/* Save until killed. Write the number of samples to the pipe after each acknowledged save. */
_Noreturn static void save_for_ever(const char *run, int pipe_end)
{
    kit_state s;
    spsh__checkpoint_writer *writer = NULL;
    kit_make(&s, MANY_ELEMENTS, 1);
    uint64_t samples = kit_newest(run);
    if (spsh__checkpoint_writer_open(run, 2, NULL, NULL, &writer, NULL) != SPSH_OK)
        _exit(2);
    for (;;) {
        kit_fill(&s, ++samples);
        if (spsh__checkpoint_put(writer, &s.c, NULL) != SPSH_OK ||
            spsh__checkpoint_flush(writer, NULL) != SPSH_OK)
            _exit(3);
        if (write(pipe_end, &samples, sizeof(samples)) != (ssize_t)sizeof(samples))
            _exit(4);
    }
}

static uint64_t run_and_kill(const char *run, uint64_t acknowledged, useconds_t wait_us)
{
    int ends[2];
    int status = 0;
    uint64_t samples = acknowledged;
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        save_for_ever(run, ends[1]);
    }
    (void)close(ends[1]);
    REQUIRE(read(ends[0], &samples, sizeof(samples)) == (ssize_t)sizeof(samples));
    CHECK(samples > acknowledged);
    (void)usleep(wait_us); /* selects only the moment of the kill */
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    for (uint64_t next; read(ends[0], &next, sizeof(next)) == (ssize_t)sizeof(next);)
        samples = next;
    (void)close(ends[0]);
    return samples;
}

static void test_killed_at_any_moment(void)
{
    char run[1024];
    uint64_t seed = test_seed(17);
    uint64_t acknowledged = 0;
    (void)snprintf(run, sizeof(run), "%s", at("killed"));
    for (int round = 0; round < 25; round++) {
        acknowledged = run_and_kill(run, acknowledged, (useconds_t)(test_random(&seed) % 20000));
        const uint64_t newest = kit_newest(run);
        CHECK(newest == acknowledged || newest == acknowledged + 1);
    }
}

TEST_MAIN(fault_train_checkpoint)
{
    test_temp_dir(base, sizeof(base));
    RUN(test_killed_at_any_moment);
    RUN(test_a_crash_at_each_call);
    RUN(test_a_full_disk);
    RUN(test_a_failing_disk);
    RUN(test_a_disk_that_stays_full);
    RUN(test_short_transfers);
    RUN(test_every_flip_is_passed_over);
    RUN(test_every_cut_is_passed_over);
    RUN(test_wrong_names_are_passed_over);
    RUN(test_all_are_damaged);
    RUN(test_a_later_version_is_not_passed_over);
    RUN(test_a_disk_that_lies);
    RUN(test_succeeded_during_a_save);
    RUN(test_every_allocation_failure);
    RUN(test_every_allocation_failure_of_reading);
    test_remove_tree(base);
    return TEST_RESULT();
}

/* unit_loader_fork.c: children that are forked from a process with loaders and read engines. A
 * child is refused with a status and can close the objects. The parent serves the same batches as
 * without the child. A dataset works in both.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader_kit.h"
#include "speechshard/read_engine.h"
#include "talk_dataset.h"

enum { CHILD_SECONDS = 60, YIELDS = 20000 };

static char work[512], path[600];

/* ThreadSanitizer stops a child that starts threads if its parent had some. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_HAS_THREADS false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_HAS_THREADS false
#endif
#endif
#ifndef CHILD_HAS_THREADS
#define CHILD_HAS_THREADS true
#endif

/* ---- children ---- */

/* Runs body in a child: true if it ends well, false if it fails a check, crashes or hangs. */
static bool child_does(void (*body)(void *user), void *user)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)alarm(CHILD_SECONDS);
        test_failures = 0;
        body(user);
        (void)fflush(NULL);
        _exit(TEST_RESULT());
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint32_t count_descriptors(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    REQUIRE(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

/* ---- batches ---- */

static uint64_t digest(uint64_t state, const spsh_batch *batch)
{
    const uint8_t *bytes = (const uint8_t *)batch->i16;
    state = (state ^ batch->number) * UINT64_C(0x100000001b3);
    for (uint64_t n = 0; n < batch->value_count * sizeof(*batch->i16); n++)
        state = (state ^ bytes[n]) * UINT64_C(0x100000001b3);
    return state;
}

typedef struct run {
    spsh_dataset *dataset;
    spsh_loader *loader;
    const spsh_batch *held; /* lent while the process is forked; NULL: none */
    uint64_t held_digest;
    uint64_t want;              /* digest of an epoch */
    uint32_t descriptors;       /* before the dataset was opened */
    void (*child)(void *user);  /* runs in a child ... */
    uint32_t every, call_count; /* ... after each `every` calls of next; 0: never */
} run;

/* Serve to the end of the epoch. */
static uint64_t serve(run *r)
{
    uint64_t state = 1;
    for (;;) {
        const spsh_batch *batch = NULL;
        const spsh_status rc = spsh_loader_next(r->loader, &batch, &err);
        if (rc == SPSH_E_END)
            return state;
        require(rc);
        state = digest(state, batch);
        spsh_loader_release(r->loader, batch);
        if (r->every != 0 && ++r->call_count % r->every == 0)
            CHECK(child_does(r->child, r));
    }
}

static spsh_loader_options options_for(spsh_engine engine)
{
    spsh_loader_options opt = small_options();
    opt.engine = engine;
    opt.flags = SPSH_LOADER_CACHED;
    return opt;
}

/* Returns false if the kernel has no io_uring. */
static bool open_run(run *r, const spsh_loader_options *opt)
{
    r->descriptors = count_descriptors();
    r->dataset = open_dataset(path);
    const spsh_dataset *const dataset = r->dataset;
    const spsh_status rc = spsh_loader_open(&dataset, 1, opt, &r->loader, &err);
    if (rc == SPSH_E_UNSUPPORTED && opt->engine == SPSH_ENGINE_URING) {
        spsh_dataset_close(r->dataset);
        return false;
    }
    require(rc);
    return true;
}

static void close_run(const run *r)
{
    spsh_loader_close(r->loader);
    spsh_dataset_close(r->dataset);
}

/* ---- permitted calls in a child ---- */

static void is_refused(spsh_status rc)
{
    CHECK_I64(rc, SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "after the fork") != NULL);
    err.message[0] = '\0';
}

static void check_refusals(const run *r)
{
    uint8_t cursor[SPSH_CURSOR_BYTES] = {0};
    size_t size_bytes = 0;
    uint64_t calls = 0;
    const spsh_batch *batch = NULL;
    spsh_bad_record bad;
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    char text[4096];
    spsh_loader *loader = r->loader;
    is_refused(spsh_loader_next(loader, &batch, &err));
    is_refused(spsh_loader_next_for(loader, 1, &batch, &err));
    is_refused(spsh_loader_ask(loader, 0, 0, &err));
    is_refused(spsh_loader_seek(loader, 0, 0, &err));
    is_refused(spsh_loader_cursor_save(loader, cursor, sizeof(cursor), &size_bytes, &err));
    is_refused(spsh_loader_cursor_restore(loader, cursor, sizeof(cursor), &err));
    is_refused(spsh_loader_call_count(loader, 0, &calls, &err));
    is_refused(spsh_loader_bad_get(loader, 0, &bad, &err));
    CHECK_U64(spsh_loader_slots_free(loader), 0);
    CHECK_U64(spsh_loader_domain_units(loader, 0), 0);
    CHECK_U64(spsh_loader_bad_count(loader), 0);
    spsh_loader_stats_get(loader, &stats);
    CHECK_U64(stats.batches, 0);
    CHECK(spsh_loader_stats_json(loader, text, sizeof(text)) > 0);
    if (r->held != NULL) { /* its memory is a copy of the parent's */
        CHECK(digest(1, r->held) == r->held_digest);
        spsh_loader_release(loader, r->held);
    }
}

/* Close all descriptors. Another loader then serves the same from the dataset of the parent. */
static void use_in_child(void *user)
{
    const run *r = (const run *)user;
    const spsh_loader_options opt = options_for(SPSH_ENGINE_AUTO);
    check_refusals(r);
    spsh_loader_close(r->loader);
    run own = {.dataset = r->dataset};
    if (CHILD_HAS_THREADS) {
        own.loader = open_loader(r->dataset, &opt);
        CHECK(serve(&own) == r->want);
    }
    close_run(&own);
    CHECK_U64(count_descriptors(), r->descriptors);
}

static void close_in_child(void *user)
{
    close_run((const run *)user);
}

static void close_after_dataset_use(void *user)
{
    const run *r = (const run *)user;
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    require(spsh_reader_open(r->dataset, &reader, &err));
    for (uint64_t n = 0; n < TALK_UTTERANCES; n += TALK_UTTERANCES / TALK_SHARDS)
        require(spsh_reader_metadata(reader, n, &utterance, &err));
    spsh_reader_close(reader);
    close_run(r);
}

/* ---- tests ---- */

static void check_engine(spsh_engine engine, uint32_t flags)
{
    spsh_loader_options opt = options_for(engine);
    run r = {.want = 0};
    opt.flags |= flags;
    if (!open_run(&r, &opt))
        return;
    r.want = serve(&r); /* serving opens all shards, so no shard is being opened during a fork */
    require(spsh_loader_seek(r.loader, 0, 0, &err));
    require(spsh_loader_next(r.loader, &r.held, &err));
    r.held_digest = digest(1, r.held);
    CHECK(child_does(use_in_child, &r));
    spsh_loader_release(r.loader, r.held);
    r.held = NULL;
    require(spsh_loader_seek(r.loader, 0, 0, &err));
    CHECK(serve(&r) == r.want);
    close_run(&r);
}

static void test_child_is_refused_and_closes(void)
{
    check_engine(SPSH_ENGINE_PREAD, 0);
    check_engine(SPSH_ENGINE_URING, 0);
    check_engine(SPSH_ENGINE_URING, SPSH_LOADER_SQPOLL);
}

/* Children start while threads open shards, read, and decode. The parent serves the same batches.
 */
static void test_children_at_any_time(void)
{
    const spsh_engine engines[] = {SPSH_ENGINE_PREAD, SPSH_ENGINE_URING};
    for (uint32_t n = 0; n < 2; n++) {
        const spsh_loader_options opt = options_for(engines[n]);
        run r = {.child = close_in_child};
        if (!open_run(&r, &opt))
            continue;
        CHECK(child_does(close_in_child, &r)); /* nothing has been read yet */
        r.want = serve(&r);
        require(spsh_loader_seek(r.loader, 0, 0, &err));
        r.every = 4;
        CHECK(serve(&r) == r.want);
        r.child = close_after_dataset_use;
        require(spsh_loader_seek(r.loader, 0, 0, &err));
        CHECK(serve(&r) == r.want);
        close_run(&r);
    }
}

/* ---- datasets ---- */

/* A shard is closed with the dataset's mutex held. Here the close waits for a fork, with a limit,
 * because the fork may wait for the mutex. */
typedef struct slow_close {
    _Atomic bool is_armed, is_closing, has_forked;
} slow_close;

static int close_slowly(void *user, int fd)
{
    slow_close *slow = (slow_close *)user;
    if (atomic_load(&slow->is_armed)) {
        atomic_store(&slow->is_closing, true);
        for (uint32_t n = 0; n < YIELDS && !atomic_load(&slow->has_forked); n++)
            (void)sched_yield();
    }
    return spsh_io_default()->close_fn(spsh_io_default()->user, fd);
}

static void read_every_shard(const spsh_dataset *dataset)
{
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_error why = SPSH_ERROR_INIT;
    CHECK_I64(spsh_reader_open(dataset, &reader, &why), SPSH_OK);
    for (uint64_t n = 0; n < TALK_UTTERANCES; n++)
        CHECK_I64(spsh_reader_metadata(reader, n, &utterance, &why), SPSH_OK);
    spsh_reader_close(reader);
}

static void *read_in_thread(void *opaque)
{
    read_every_shard((const spsh_dataset *)opaque);
    return NULL;
}

static void read_in_child(void *user)
{
    read_every_shard((const spsh_dataset *)user);
    spsh_dataset_close((spsh_dataset *)user);
}

static void test_dataset_crosses_a_fork(void)
{
    slow_close slow = {.is_armed = false};
    spsh_io io = *spsh_io_default();
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    pthread_t thread;
    int status = 0;
    io.user = &slow;
    io.close_fn = close_slowly;
    opt.io = &io;
    opt.shards_open_max = 1;
    require(spsh_dataset_open(path, &opt, &dataset, &err));
    atomic_store(&slow.is_armed, true);
    REQUIRE(pthread_create(&thread, NULL, read_in_thread, dataset) == 0);
    while (!atomic_load(&slow.is_closing))
        (void)sched_yield();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)alarm(CHILD_SECONDS);
        atomic_store(&slow.is_armed, false);
        read_in_child(dataset);
        _exit(TEST_RESULT());
    }
    atomic_store(&slow.has_forked, true);
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    spsh_dataset_close(dataset);
}

/* ---- the read engine ---- */

typedef struct reads {
    spsh_read_engine *engine;
    uint32_t file;
    uint32_t descriptors;
} reads;

static void use_engine_in_child(void *user)
{
    const reads *r = (const reads *)user;
    spsh_read_completion done;
    uint32_t file = 0;
    is_refused(spsh_read_engine_add_file(r->engine, path, &file, &err));
    is_refused(spsh_read_submit(r->engine, r->file, 0, 64, 1, &err));
    is_refused(spsh_read_wait(r->engine, &done, &err));
    is_refused(spsh_read_wait_for(r->engine, 0, &done, &err));
    spsh_read_engine_close(r->engine);
    CHECK_U64(count_descriptors(), r->descriptors);
}

static void remove_file_in_child(void *user)
{
    const reads *r = (const reads *)user;
    spsh_read_engine_remove_file(r->engine, r->file);
    spsh_read_engine_close(r->engine);
    CHECK_U64(count_descriptors(), r->descriptors);
}

/* A read that was submitted before the fork, and one after, arrive in the parent. */
static void test_read_engine(void)
{
    const uint32_t flags[] = {SPSH_READ_NO_URING, SPSH_READ_NO_PREAD};
    char shard[700];
    talk_dataset_shard(path, 0, shard, sizeof(shard));
    for (uint32_t n = 0; n < 2; n++) {
        spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
        spsh_read_completion done;
        reads r = {.descriptors = count_descriptors()};
        opt.flags = flags[n] | SPSH_READ_CACHED;
        const spsh_status rc = spsh_read_engine_open(&opt, &r.engine, &err);
        if (rc == SPSH_E_UNSUPPORTED && n == 1)
            continue;
        require(rc);
        require(spsh_read_engine_add_file(r.engine, shard, &r.file, &err));
        for (uint64_t tag = 0; tag < 3; tag++) {
            require(spsh_read_submit(r.engine, r.file, 0, 4096, tag, &err));
            CHECK(child_does(tag % 2 == 0 ? use_engine_in_child : remove_file_in_child, &r));
            require(spsh_read_wait(r.engine, &done, &err));
            CHECK_U64(done.tag, tag);
            CHECK_I64(done.status, SPSH_OK);
            CHECK_U64(done.got_bytes, 4096);
            spsh_read_recycle(r.engine, &done);
        }
        spsh_read_engine_close(r.engine);
    }
}

TEST_MAIN(unit_loader_fork)
{
    test_temp_dir(work, sizeof(work));
    (void)snprintf(path, sizeof(path), "%s/talk", work);
    talk_dataset_make(path, TALK_PLAIN);
    RUN(test_child_is_refused_and_closes);
    RUN(test_children_at_any_time);
    RUN(test_dataset_crosses_a_fork);
    RUN(test_read_engine);
    test_remove_tree(work);
    return TEST_RESULT();
}

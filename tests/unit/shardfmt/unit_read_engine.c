/* unit_read_engine.c: the same requests through every back end, and through one that completes them
 * in any order with short reads and errors. The bytes and the order of delivery must be the same.
 */
#include "fault_alloc.h"
#include "fault_io.h"
#include "io/io_backend.h"
#include "spsh_test.h"

#include <fcntl.h>
#include <sys/resource.h>

#define FILE_BYTES     ((size_t)777777)
#define REQUESTS       3000
#define HARSH_SLOTS    256
#define HARSH_FAILURES 2 /* failures at one offset that the engine tolerates */

static uint8_t content[FILE_BYTES];
static char directory[512], path[600];
static uint64_t seed;

/* ---- a back end with the worst permitted behavior ---- */

typedef struct harsh_state {
    spsh__read_op ops[HARSH_SLOTS];
    uint32_t failures[HARSH_SLOTS]; /* EIO, by slot */
    uint32_t count;
} harsh_state;

static harsh_state harsh;
static uint64_t harsh_random;
static int harsh_always; /* errno of every read; 0: mixed results */
static bool harsh_whole; /* no short reads, no errors: only another order */
static uint64_t harsh_reads;
static uint64_t harsh_delays; /* bounded waits that return nothing */

static spsh_status harsh_open(const spsh__read_setup *setup, void **ret_state, spsh_error *err)
{
    (void)err;
    REQUIRE(setup->requests_max <= HARSH_SLOTS);
    memset(&harsh, 0, sizeof(harsh));
    *ret_state = &harsh;
    return SPSH_OK;
}

static void harsh_file(void *state, uint32_t file, int fd)
{
    (void)state, (void)file, (void)fd;
}

static spsh_status harsh_submit(void *opaque, const spsh__read_op *op, spsh_error *err)
{
    (void)err;
    harsh_state *state = (harsh_state *)opaque;
    REQUIRE(state->count < HARSH_SLOTS);
    for (uint32_t at = 0; at < state->count; at++) /* one operation per slot */
        CHECK(state->ops[at].slot != op->slot);
    state->ops[state->count++] = *op;
    return SPSH_OK;
}

static int64_t harsh_read(harsh_state *state, const spsh__read_op *op)
{
    static const int errors[] = {EINTR, EAGAIN, EIO};
    if (harsh_always != 0)
        return -harsh_always;
    uint64_t dice = harsh_whole ? 9 : test_random(&harsh_random) % 10;
    if (dice < 3 && (dice < 2 || state->failures[op->slot]++ < HARSH_FAILURES))
        return -errors[dice];
    ssize_t got = pread(op->fd, op->dst, op->size_bytes, (off_t)op->offset_bytes);
    REQUIRE(got >= 0);
    if (dice < 6 && got > 0)
        got = 1 + (ssize_t)(test_random(&harsh_random) % (uint64_t)got);
    memset(op->dst + got, 0xEE, op->size_bytes - (size_t)got); /* missing bytes are garbage */
    return got;
}

static spsh_status harsh_wait(void *opaque, uint32_t timeout_ms, spsh__read_result *ret_result,
                              spsh_error *err)
{
    (void)err;
    harsh_state *state = (harsh_state *)opaque;
    REQUIRE(state->count > 0); /* waiting with nothing in flight would hang */
    if (timeout_ms != SPSH__READ_FOREVER && harsh_delays > 0) {
        harsh_delays--;
        return SPSH_E_TIMEOUT;
    }
    uint32_t at = (uint32_t)(test_random(&harsh_random) % state->count);
    spsh__read_op op = state->ops[at];
    state->ops[at] = state->ops[--state->count];
    harsh_reads++;
    *ret_result = (spsh__read_result){op.slot, harsh_read(state, &op)};
    return SPSH_OK;
}

static void harsh_close(void *opaque, bool is_inherited)
{
    CHECK(!is_inherited);
    CHECK_U64(((harsh_state *)opaque)->count, 0);
}

static const spsh_read_backend harsh_backend = {"harsh",      harsh_open, harsh_file,
                                                harsh_submit, harsh_wait, harsh_close};

/* ---- one table row per way of reading ---- */

static const struct {
    const char *name;
    const spsh_read_backend *backend;
    uint32_t flags;
} ways[] = {
    {"uring, direct", &spsh__read_uring, 0                                    },
    {"uring, cached", &spsh__read_uring, SPSH_READ_CACHED                     },
    {"uring, thread", &spsh__read_uring, SPSH_READ_SQPOLL                     },
    {"pread, direct", &spsh__read_pread, 0                                    },
    {"pread, cached", NULL,              SPSH_READ_CACHED | SPSH_READ_NO_URING},
    {"harsh, direct", &harsh_backend,    0                                    },
    {"harsh, cached", &harsh_backend,    SPSH_READ_CACHED                     },
};

#define WAYS      (sizeof(ways) / sizeof(ways[0]))
#define WAY_HARSH 5

/* NULL if this machine denies io_uring: then there is nothing to test. */
static spsh_read_engine *open_way(size_t way, size_t arena_bytes, uint32_t *ret_file)
{
    const spsh_read_engine_options opt = {
        .struct_size = sizeof(opt),
        .arena_bytes = arena_bytes,
        .requests_max = 1 + (uint32_t)(arena_bytes >> 13) % HARSH_SLOTS,
        .flags = ways[way].flags,
        .backend = ways[way].backend,
    };
    spsh_read_engine *engine = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_read_engine_open(&opt, &engine, &err);
    if (rc == SPSH_E_UNSUPPORTED && opt.backend == &spsh__read_uring)
        return NULL;
    REQUIRE(rc == SPSH_OK);
    REQUIRE(spsh_read_engine_add_file(engine, path, ret_file, &err) == SPSH_OK);
    CHECK_U64(spsh_read_file_bytes(engine, *ret_file), FILE_BYTES);
    if ((opt.flags & SPSH_READ_CACHED) != 0)
        CHECK(!spsh_read_file_direct(engine, *ret_file));
    return engine;
}

typedef struct ask {
    uint64_t offset_bytes;
    size_t size_bytes;
} ask;

static void check_answer(const spsh_read_completion *done, const ask *want, uint64_t tag)
{
    CHECK_U64(done->tag, tag);
    CHECK_U64(done->offset_bytes, want->offset_bytes);
    CHECK_U64(done->size_bytes, want->size_bytes);
    uint64_t left = want->offset_bytes < FILE_BYTES ? FILE_BYTES - want->offset_bytes : 0;
    size_t got = left < want->size_bytes ? (size_t)left : want->size_bytes;
    CHECK_I64(done->status, got == want->size_bytes ? SPSH_OK : SPSH_E_TRUNCATED);
    CHECK_U64(done->got_bytes, got);
    CHECK(got == 0 || memcmp(done->data, content + want->offset_bytes, got) == 0);
}

/* Submit all requests, as many at a time as fit. Return the buffers in a random order, and hold at
 * most four of them. */
static void read_all(spsh_read_engine *engine, uint32_t file, const ask *asks, uint64_t count)
{
    spsh_read_completion held[4];
    uint32_t held_count = 0;
    uint64_t asked = 0, random = seed;
    for (uint64_t at = 0; at < count; at++) {
        while (asked < count && spsh_read_has_space(engine, asks[asked].size_bytes)) {
            REQUIRE(spsh_read_submit(engine, file, asks[asked].offset_bytes, asks[asked].size_bytes,
                                     asked * 3, NULL) == SPSH_OK);
            asked++;
        }
        if (spsh_read_pending(engine) == 0) { /* all memory is lent */
            REQUIRE(held_count > 0);
            spsh_read_recycle(engine, &held[--held_count]);
            at--;
            continue;
        }
        spsh_read_completion done;
        REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
        check_answer(&done, &asks[at], at * 3);
        uint32_t other = (uint32_t)(test_random(&random) % 4);
        if (other >= held_count && held_count < 4) {
            held[held_count++] = done;
        } else {
            if (held_count == 4)
                check_answer(&held[other], &asks[held[other].tag / 3], held[other].tag);
            spsh_read_recycle(engine, &held[other % held_count]);
            held[other % held_count] = done;
        }
    }
    while (held_count > 0)
        spsh_read_recycle(engine, &held[--held_count]);
    CHECK_U64(spsh_read_pending(engine), 0);
    CHECK_I64(spsh_read_wait(engine, held, NULL), SPSH_E_END);
}

static size_t request_count;

static void test_random_requests_are_answered_in_order(void)
{
    static const size_t arenas[] = {16384, 100000, 1 << 20};
    static ask asks[REQUESTS];
    for (size_t way = 0; way < WAYS; way++) {
        for (size_t a = 0; a < sizeof(arenas) / sizeof(arenas[0]); a++) {
            uint32_t file = 0;
            uint64_t random = seed + way;
            size_t size_max = arenas[a] / 2 - SPSH_READ_ALIGN;
            for (size_t at = 0; at < request_count; at++) {
                asks[at].offset_bytes = test_random(&random) % (FILE_BYTES + 9000);
                asks[at].size_bytes = (size_t)(test_random(&random) % (size_max + 1));
            }
            spsh_read_engine *engine = open_way(way, arenas[a], &file);
            if (engine == NULL)
                continue;
            harsh_random = seed;
            read_all(engine, file, asks, request_count);
            spsh_read_engine_close(engine);
        }
    }
}

static void test_aligned_extents_to_the_end(void)
{
    static ask asks[FILE_BYTES / 65536 + 1];
    const size_t count = sizeof(asks) / sizeof(asks[0]);
    for (size_t at = 0; at < count; at++)
        asks[at] = (ask){at * 65536, 65536};
    for (size_t way = 0; way < WAYS; way++) {
        uint32_t file = 0;
        spsh_read_engine *engine = open_way(way, 1 << 19, &file);
        if (engine == NULL)
            continue;
        read_all(engine, file, asks, count);
        spsh_read_engine_close(engine);
    }
}

/* The data of an aligned request is aligned. It can be passed to another O_DIRECT call or to a
 * device without a copy. */
static void test_aligned_requests_lie_aligned(void)
{
    for (size_t way = 0; way < WAYS; way++) {
        uint32_t file = 0;
        spsh_read_engine *engine = open_way(way, 1 << 20, &file);
        if (engine == NULL)
            continue;
        for (uint64_t at = 0; at < 40; at++) {
            spsh_read_completion done;
            REQUIRE(spsh_read_submit(engine, file, at * 4096, 1 + (size_t)at * 1000, at, NULL) ==
                    SPSH_OK);
            REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
            CHECK_U64((uintptr_t)done.data % SPSH_READ_ALIGN, 0);
            spsh_read_recycle(engine, &done);
        }
        spsh_read_engine_close(engine);
    }
}

static void test_bounds_are_kept(void)
{
    for (size_t way = 0; way < WAYS; way++) {
        uint32_t file = 0;
        spsh_read_engine *engine = open_way(way, 65536, &file); /* 9 requests */
        if (engine == NULL)
            continue;
        CHECK(!spsh_read_has_space(engine, SIZE_MAX));
        CHECK(!spsh_read_has_space(engine, 65536));
        CHECK_I64(spsh_read_submit(engine, file, 0, 65536, 0, NULL), SPSH_E_LIMIT);
        CHECK_I64(spsh_read_submit(engine, file + 1, 0, 1, 0, NULL), SPSH_E_INVALID_ARG);
        CHECK_I64(spsh_read_submit(engine, file, UINT64_MAX, 1, 0, NULL), SPSH_E_INVALID_ARG);
        uint32_t count = 0;
        while (spsh_read_has_space(engine, 4096)) {
            REQUIRE(spsh_read_submit(engine, file, 4096 * count, 4096, count, NULL) == SPSH_OK);
            count++;
        }
        CHECK_U64(count, 8); /* 8,192 bytes each */
        spsh_read_completion done;
        REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
        CHECK(!spsh_read_has_space(engine, 1)); /* delivered buffers have not been returned yet */
        spsh_read_recycle(engine, &done);
        CHECK(spsh_read_has_space(engine, 1));
        spsh_read_engine_close(engine); /* with reads in flight */
    }
}

static void test_errors_are_delivered_and_the_rest_goes_on(void)
{
    uint32_t file = 0;
    spsh_read_completion done;
    spsh_read_engine *engine = open_way(WAY_HARSH, 65536, &file);
    harsh_always = EIO;
    harsh_reads = 0;
    REQUIRE(spsh_read_submit(engine, file, 8192, 4096, 7, NULL) == SPSH_OK);
    REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
    CHECK_I64(done.status, SPSH_E_IO);
    CHECK_I64(done.os_errno, EIO);
    CHECK_U64(done.got_bytes, 0);
    CHECK_U64(harsh_reads, 3); /* two retries */
    spsh_read_recycle(engine, &done);

    harsh_always = EAGAIN; /* permanent: the engine gives up after some retries */
    REQUIRE(spsh_read_submit(engine, file, 8192, 4096, 7, NULL) == SPSH_OK);
    REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
    CHECK_I64(done.os_errno, EAGAIN);
    spsh_read_recycle(engine, &done);

    harsh_always = 0;
    REQUIRE(spsh_read_submit(engine, file, 8192, 4096, 7, NULL) == SPSH_OK);
    REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
    check_answer(&done, &(ask){8192, 4096}, 7);
    spsh_read_recycle(engine, &done);
    spsh_read_engine_close(engine);
}

static void test_a_file_that_became_shorter(void)
{
    char other[600];
    (void)snprintf(other, sizeof(other), "%s/shrinks", directory);
    for (size_t way = 0; way < WAYS; way++) {
        int fd = open(other, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        REQUIRE(fd >= 0 && write(fd, content, 65536) == 65536);
        uint32_t file = 0, unused = 0;
        spsh_read_engine *engine = open_way(way, 1 << 20, &unused);
        if (engine != NULL) {
            spsh_read_completion done;
            REQUIRE(spsh_read_engine_add_file(engine, other, &file, NULL) == SPSH_OK);
            REQUIRE(ftruncate(fd, 8192) == 0);
            REQUIRE(spsh_read_submit(engine, file, 4096, 16384, 1, NULL) == SPSH_OK);
            REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
            CHECK_I64(done.status, SPSH_E_TRUNCATED);
            CHECK_U64(done.got_bytes, 4096);
            CHECK(memcmp(done.data, content + 4096, 4096) == 0);
            spsh_read_engine_close(engine);
        }
        REQUIRE(close(fd) == 0);
    }
}

static void test_files_come_and_go(void)
{
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    opt.arena_bytes = 65536;
    opt.files_max = 2;
    spsh_read_engine *engine = NULL;
    uint32_t a = 9, b = 9, c = 9;
    REQUIRE(spsh_read_engine_open(&opt, &engine, NULL) == SPSH_OK);
    char pipe_path[600];
    (void)snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", directory);
    REQUIRE(mkfifo(pipe_path, 0600) == 0);
    CHECK_I64(spsh_read_engine_add_file(engine, directory, &a, NULL), SPSH_E_IO);
    CHECK_I64(spsh_read_engine_add_file(engine, pipe_path, &a, NULL), SPSH_E_IO);
    CHECK_I64(spsh_read_engine_add_file(engine, "/nonexistent/x", &a, NULL), SPSH_E_NOT_FOUND);
    CHECK_I64(spsh_read_engine_add_file(engine, path, &a, NULL), SPSH_OK);
    CHECK_I64(spsh_read_engine_add_file(engine, path, &b, NULL), SPSH_OK);
    CHECK(a != b);
    CHECK_I64(spsh_read_engine_add_file(engine, path, &c, NULL), SPSH_E_LIMIT);
    CHECK_U64(c, 9);
    spsh_read_engine_remove_file(engine, a);
    CHECK_I64(spsh_read_submit(engine, a, 0, 1, 0, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_read_engine_add_file(engine, path, &c, NULL), SPSH_OK);
    for (uint64_t at = 0; at < 4; at++)
        REQUIRE(spsh_read_submit(engine, at % 2 == 0 ? b : c, at * 100, 100, at, NULL) == SPSH_OK);
    for (uint64_t at = 0; at < 4; at++) {
        spsh_read_completion done;
        REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
        check_answer(&done, &(ask){at * 100, 100}, at);
        spsh_read_recycle(engine, &done);
    }
    spsh_read_engine_close(engine);
}

static void test_pread_where_io_uring_is_refused(void)
{
    struct rlimit limit, none;
    spsh_read_engine *engine = NULL;
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    opt.arena_bytes = 65536;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 0; /* io_uring needs a descriptor, threads need none */
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    spsh_status rc = spsh_read_engine_open(&opt, &engine, NULL);
    spsh_read_engine *strict = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    opt.flags = SPSH_READ_NO_PREAD;
    spsh_status strict_rc = spsh_read_engine_open(&opt, &strict, &err);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    REQUIRE(rc == SPSH_OK);
    CHECK_STR(spsh_read_engine_name(engine), "pread");
    spsh_read_engine_close(engine);
    CHECK_I64(strict_rc, SPSH_E_UNSUPPORTED);
    CHECK_I64(err.os_errno, EMFILE);
    CHECK(strict == NULL);
}

static void test_options_that_make_no_sense(void)
{
    static uint8_t memory[3 * SPSH_READ_ALIGN];
    uint8_t *aligned = memory + (SPSH_READ_ALIGN - (uintptr_t)memory % SPSH_READ_ALIGN);
    const struct {
        uint32_t flags;
        uint8_t *arena;
        size_t arena_bytes;
    } bad[] = {
        {UINT32_C(1) << 31,                       NULL,        0                  },
        {SPSH_READ_NO_PREAD | SPSH_READ_NO_URING, NULL,        0                  },
        {0,                                       aligned + 1, SPSH_READ_ALIGN    },
        {0,                                       aligned,     SPSH_READ_ALIGN + 1},
        {0,                                       aligned,     0                  },
        {0,                                       NULL,        SIZE_MAX           },
    };
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++) {
        spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
        spsh_read_engine *engine = NULL;
        opt.flags = bad[at].flags;
        opt.arena = bad[at].arena;
        opt.arena_bytes = bad[at].arena_bytes;
        CHECK_I64(spsh_read_engine_open(&opt, &engine, NULL), SPSH_E_INVALID_ARG);
        CHECK(engine == NULL);
    }
}

static void test_reads_land_in_the_arena_that_is_given(void)
{
    enum { ARENA_BYTES = 10 * SPSH_READ_ALIGN };
    static uint8_t memory[ARENA_BYTES + 2 * SPSH_READ_ALIGN];
    uint8_t *arena = memory + (SPSH_READ_ALIGN - (uintptr_t)memory % SPSH_READ_ALIGN);
    for (size_t way = 0; way < WAYS; way++) {
        spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
        spsh_read_engine *engine = NULL;
        uint32_t file = 0;
        opt.arena = arena;
        opt.arena_bytes = ARENA_BYTES;
        opt.flags = ways[way].flags;
        opt.backend = ways[way].backend;
        memset(memory, 0xA5, sizeof(memory));
        spsh_status rc = spsh_read_engine_open(&opt, &engine, NULL);
        if (rc == SPSH_E_UNSUPPORTED && ways[way].backend == &spsh__read_uring)
            continue;
        REQUIRE(rc == SPSH_OK);
        REQUIRE(spsh_read_engine_add_file(engine, path, &file, NULL) == SPSH_OK);
        for (uint64_t at = 0; at < 50; at++) {
            const ask want = {at * 9999, (size_t)(at * 731) % (9 * SPSH_READ_ALIGN)};
            spsh_read_completion done;
            REQUIRE(spsh_read_submit(engine, file, want.offset_bytes, want.size_bytes, at, NULL) ==
                    SPSH_OK);
            REQUIRE(spsh_read_wait(engine, &done, NULL) == SPSH_OK);
            check_answer(&done, &want, at);
            CHECK(done.data >= arena && done.data + done.got_bytes <= arena + ARENA_BYTES);
            spsh_read_recycle(engine, &done);
        }
        spsh_read_engine_close(engine);
        for (uint8_t *byte = memory; byte < arena; byte++)
            CHECK(*byte == 0xA5);
        for (uint8_t *byte = arena + ARENA_BYTES; byte < memory + sizeof(memory); byte++)
            CHECK(*byte == 0xA5);
    }
}

static void test_bounded_waits_answer_alike(void)
{
    for (size_t way = 0; way < WAYS; way++) {
        uint32_t file = 0;
        spsh_read_engine *engine = open_way(way, 1 << 20, &file);
        if (engine == NULL)
            continue;
        spsh_read_completion done;
        CHECK_I64(spsh_read_wait_for(engine, 0, &done, NULL), SPSH_E_END);
        harsh_delays = 5; /* it returns early: the wait is not over */
        for (uint64_t at = 0; at < 200; at++) {
            const ask want = {at * 3001, 5000};
            REQUIRE(spsh_read_submit(engine, file, want.offset_bytes, want.size_bytes, at, NULL) ==
                    SPSH_OK);
            spsh_status rc = SPSH_E_TIMEOUT;
            while (rc == SPSH_E_TIMEOUT)
                rc = spsh_read_wait_for(engine, at % 2 == 0 ? 0 : UINT32_MAX, &done, NULL);
            REQUIRE(rc == SPSH_OK);
            check_answer(&done, &want, at);
            spsh_read_recycle(engine, &done);
        }
        harsh_delays = 0;
        spsh_read_engine_close(engine);
    }
}

static void test_a_slow_read_is_given_up_and_found_again(void)
{
    uint32_t file = 0;
    spsh_read_completion done = {.tag = 77};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_read_engine *engine = open_way(WAY_HARSH, 65536, &file);
    harsh_whole = true;
    harsh_delays = UINT64_MAX;
    for (uint64_t at = 0; at < 3; at++)
        REQUIRE(spsh_read_submit(engine, file, at * 4096, 4096, at, NULL) == SPSH_OK);
    for (uint32_t timeout_ms = 0; timeout_ms < 3; timeout_ms++) {
        CHECK_I64(spsh_read_wait_for(engine, timeout_ms, &done, &err), SPSH_E_TIMEOUT);
        CHECK_I64(err.status, SPSH_E_TIMEOUT);
        CHECK_U64(err.offset_bytes, 0);
        CHECK_U64(done.tag, 77);
        CHECK_U64(spsh_read_pending(engine), 3);
    }
    harsh_delays = 0;
    for (uint64_t at = 0; at < 3; at++) {
        REQUIRE(spsh_read_wait_for(engine, 1000, &done, NULL) == SPSH_OK);
        check_answer(&done, &(ask){at * 4096, 4096}, at);
        spsh_read_recycle(engine, &done);
    }
    harsh_whole = false;
    spsh_read_engine_close(engine);
}

/* A read that hangs in the system call until the test writes a byte to this pipe. */
static int hanging_fd[2];

static int64_t hanging_pread(void *user, int fd, void *dst, size_t size_bytes,
                             uint64_t offset_bytes)
{
    char byte = 0;
    (void)user;
    REQUIRE(read(hanging_fd[0], &byte, 1) == 1);
    ssize_t got = pread(fd, dst, size_bytes, (off_t)offset_bytes);
    return got < 0 ? -errno : got;
}

static void test_a_hanging_system_call(void)
{
    spsh_io io = *spsh_io_default();
    io.pread_fn = hanging_pread;
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    opt.io = &io;
    opt.arena_bytes = 65536;
    opt.flags = SPSH_READ_NO_URING | SPSH_READ_CACHED;
    spsh_read_engine *engine = NULL;
    spsh_read_completion done;
    uint32_t file = 0;
    REQUIRE(pipe(hanging_fd) == 0);
    REQUIRE(spsh_read_engine_open(&opt, &engine, NULL) == SPSH_OK);
    REQUIRE(spsh_read_engine_add_file(engine, path, &file, NULL) == SPSH_OK);
    REQUIRE(spsh_read_submit(engine, file, 100, 200, 1, NULL) == SPSH_OK);
    CHECK_I64(spsh_read_wait_for(engine, 0, &done, NULL), SPSH_E_TIMEOUT);
    CHECK_I64(spsh_read_wait_for(engine, 20, &done, NULL), SPSH_E_TIMEOUT);
    REQUIRE(write(hanging_fd[1], "x", 1) == 1);
    REQUIRE(spsh_read_wait_for(engine, 60000, &done, NULL) == SPSH_OK);
    check_answer(&done, &(ask){100, 200}, 1);
    spsh_read_recycle(engine, &done);
    spsh_read_engine_close(engine);
    REQUIRE(close(hanging_fd[0]) == 0 && close(hanging_fd[1]) == 0);
}

/* The engine has opened no file, so it must not close one. Memory of fault_alloc looks like open
 * descriptors. */
static spsh_status open_without(uint64_t fail_at, bool fails_once, size_t way)
{
    fault_alloc fault = {.fail_at = fail_at, .fails_once = fails_once};
    fault_io descriptors = {.fail_at = UINT64_MAX};
    const spsh_io io = fault_io_table(&descriptors);
    const spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    opt.allocator = &allocator;
    opt.io = &io;
    opt.arena_bytes = 65536;
    opt.flags = ways[way].flags;
    opt.backend = ways[way].backend;
    spsh_read_engine *engine = NULL;
    const spsh_status rc = spsh_read_engine_open(&opt, &engine, NULL);
    CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_UNSUPPORTED);
    CHECK((rc == SPSH_OK) == (engine != NULL));
    spsh_read_engine_close(engine);
    CHECK_I64(fault.live_count, 0);
    CHECK_I64(descriptors.open_count, 0);
    CHECK_U64(descriptors.call_count, 0);
    return fault.call_count > fail_at ? SPSH_E_NO_MEMORY : rc;
}

static void test_every_allocation_failure(void)
{
    for (size_t run = 0; run < 2 * WAYS; run++) {
        spsh_status rc = SPSH_E_NO_MEMORY;
        for (uint64_t fail_at = 0; rc == SPSH_E_NO_MEMORY; fail_at++) {
            REQUIRE(fail_at < 100);
            rc = open_without(fail_at, run % 2 != 0, run / 2);
        }
    }
}

TEST_MAIN(unit_read_engine)
{
    seed = test_seed(20251121);
    uint64_t random = seed;
    for (size_t at = 0; at < FILE_BYTES; at++)
        content[at] = (uint8_t)test_random(&random);
    test_temp_dir(directory, sizeof(directory));
    (void)snprintf(path, sizeof(path), "%s/data", directory);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fwrite(content, 1, FILE_BYTES, file) == FILE_BYTES);
    REQUIRE(fclose(file) == 0);

    request_count = REQUESTS / test_stride(argc, argv, 5);
    RUN(test_random_requests_are_answered_in_order);
    harsh_whole = true;
    RUN(test_aligned_extents_to_the_end);
    RUN(test_aligned_requests_lie_aligned);
    RUN(test_bounds_are_kept);
    harsh_whole = false;
    RUN(test_errors_are_delivered_and_the_rest_goes_on);
    RUN(test_a_file_that_became_shorter);
    RUN(test_files_come_and_go);
    RUN(test_pread_where_io_uring_is_refused);
    RUN(test_options_that_make_no_sense);
    RUN(test_reads_land_in_the_arena_that_is_given);
    RUN(test_bounded_waits_answer_alike);
    RUN(test_a_slow_read_is_given_up_and_found_again);
    RUN(test_a_hanging_system_call);
    RUN(test_every_allocation_failure);
    test_remove_tree(directory);
    return TEST_RESULT();
}

/* NCCL with one rank, on the host emulation with its shim and on a GPU: open, sums, parts, copies,
 * wait, close, and abort. tests/mpi/mpi_devices_test.py tests several ranks.
 *
 *     unit_train_collectives PLUGIN [SHIM]       SHIM: for the emulation, tests/support/nccl_shim.c
 *
 * Without SHIM, and without NCCL on this machine, it is skipped.
 */
#include <dlfcn.h>
#include <limits.h>
#include <locale.h>

#include "backend_cuda/backend_cuda_rnn.h"
#include "comm/comm.h"
#include "comm/comm_nccl.h"
#include "cuda/device_half.h"
#include "device_test.h"
#include "nccl_shim.h"
#include "speechshard/cuda_plugin.h"
#include "speechshard/inside.h"
#include "spsh_test.h"

enum { COUNT = 100000, DEADLINE_MS = 1000 };

static const char *shim;
static twin_controls *twin; /* NULL: a real device */
static spsh_cuda *cuda;
static spsh__backend *backend;
static spsh__comm *comm;
static const uint64_t step = 7;
static float values[COUNT], got[COUNT];

static bool open_all(void)
{
    const spsh__backend_options options = {
        .name = "cuda", .threads = 1, .cuda = cuda, .precision = SPSH__FP32};
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__comm_self_open(spsh_allocator_default(), &comm, NULL) == SPSH_OK);
    comm->deadline_ms = DEADLINE_MS;
    if (spsh__backend_open_with(&options, spsh_allocator_default(), &backend, &err) != SPSH_OK) {
        fprintf(stderr, "no backend: %s\n", err.message);
        spsh__comm_close(comm);
        return false;
    }
    return true;
}

static void close_all(spsh__collectives *c)
{
    spsh__collectives_close(c);
    spsh__backend_close(backend);
    spsh__comm_close(comm);
}

/* One rank's sum is its input; the host has it after wait. */
static void check_one(spsh__collectives *c, spsh__backend_buffer arena, spsh__collective_kind kind)
{
    const spsh__collective what = {kind, arena.data, COUNT};
    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = (float)(i * 3 + kind);
    backend->ops->write_f32_fn(backend, arena, values, COUNT);
    CHECK(spsh__collectives_behind(c, NULL) == SPSH_OK);
    CHECK(spsh__collectives_start(c, &what, "a test", NULL) == SPSH_OK);
    CHECK(spsh__collectives_join(c, NULL) == SPSH_OK);
    backend->ops->scale_fn(backend, 2, arena, COUNT); /* after the sum */
    CHECK(spsh__collectives_wait(c, NULL) == SPSH_OK);
    backend->ops->read_f32_fn(backend, got, arena, COUNT);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wrong += got[i] != 2 * values[i];
    CHECK_U64(wrong, 0);
}

/* A rank's exchange with itself is a copy. Kernels between the collectives run on their stream. */
static void check_halves(spsh__collectives *c, spsh__backend_buffer arena, spsh__precision half)
{
    const spsh__backend_ops *ops = backend->ops;
    spsh__backend_buffer memory = {NULL, false};
    REQUIRE(ops->alloc_fn(backend, COUNT, &memory, NULL) == SPSH_OK);
    const spsh__backend_buffer sent = {memory.data, true}, received = spsh__at(ops, sent, COUNT);
    const spsh__collective exchange = {SPSH__COLLECTIVE_EXCHANGE_HALVES, sent.data, COUNT};
    const spsh__collective gather = {SPSH__COLLECTIVE_GATHER_HALVES, received.data, COUNT};
    spsh__add_rows a = {.stream = spsh__collectives_stream(c),
                        .half = half,
                        .from = arena,
                        .to = sent,
                        .rows = 1,
                        .count = COUNT};
    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = 1 + (float)(i % 4096) * 0x1p-12F;
    ops->write_f32_fn(backend, arena, values, COUNT);
    CHECK(spsh__collectives_behind(c, NULL) == SPSH_OK);
    CHECK(ops->add_rows_fn(backend, &a, NULL) == SPSH_OK);
    CHECK(spsh__collectives_start(c, &exchange, "halves", NULL) == SPSH_OK);
    CHECK(spsh__collectives_start(c, &gather, "halves", NULL) == SPSH_OK);
    a.from = received;
    a.to = arena;
    CHECK(ops->add_rows_fn(backend, &a, NULL) == SPSH_OK);
    CHECK(spsh__collectives_join(c, NULL) == SPSH_OK);
    CHECK(spsh__collectives_wait(c, NULL) == SPSH_OK);
    ops->read_f32_fn(backend, got, arena, COUNT);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wrong += got[i] != spsh__f32_of_half(spsh__half_of_f32(values[i], half == SPSH__BF16),
                                             half == SPSH__BF16);
    CHECK_U64(wrong, 0);
    ops->free_fn(backend, memory);
}

static void test_all_kinds(void)
{
    spsh__collectives *c = NULL;
    spsh__backend_buffer arena = {NULL, false};
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(open_all());
    const spsh_status rc = spsh__collectives_open(comm, backend, &step, &c, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    printf("NCCL %u\n", spsh__collectives_version(c));
    CHECK(spsh__collectives_version(c) >= 21400);
    REQUIRE(backend->ops->alloc_fn(backend, COUNT, &arena, NULL) == SPSH_OK);
    for (int round = 0; round < 3; round++) {
        check_one(c, arena, SPSH__COLLECTIVE_SUM);
        check_one(c, arena, SPSH__COLLECTIVE_SUM_PARTS);
        check_one(c, arena, SPSH__COLLECTIVE_GATHER_PARTS);
        check_one(c, arena, SPSH__COLLECTIVE_BROADCAST);
        check_halves(c, arena, SPSH__BF16);
        check_halves(c, arena, SPSH__FP16);
    }
    const spsh__collective nothing = {SPSH__COLLECTIVE_SUM, arena.data, 0};
    CHECK(spsh__collectives_start(c, &nothing, "nothing", NULL) == SPSH_OK);
    CHECK(spsh__collectives_wait(c, NULL) == SPSH_OK);
    CHECK(!comm->has_failed);
    backend->ops->free_fn(backend, arena);
    close_all(c);
}

/* After a failure elsewhere, close returns at once, with work in flight. */
static void test_given_up(void)
{
    spsh__collectives *c = NULL;
    spsh__backend_buffer arena = {NULL, false};
    REQUIRE(open_all());
    REQUIRE(spsh__collectives_open(comm, backend, &step, &c, NULL) == SPSH_OK);
    REQUIRE(backend->ops->alloc_fn(backend, COUNT, &arena, NULL) == SPSH_OK);
    const spsh__collective sum = {SPSH__COLLECTIVE_SUM, arena.data, COUNT};
    CHECK(spsh__collectives_behind(c, NULL) == SPSH_OK);
    CHECK(spsh__collectives_start(c, &sum, "a test", NULL) == SPSH_OK);
    CHECK(spsh__collectives_join(c, NULL) == SPSH_OK);
    spsh__comm_fail(comm);
    spsh__collectives_close(c);
    backend->ops->free_fn(backend, arena);
    close_all(NULL);
}

/* A sum without a partner ends at the deadline with an error that names it. The device stays
 * usable. */
static void test_late(void)
{
    static const struct {
        const char *fault;
        spsh_status want;
        const char *text;
    } cases[] = {
        {"hang:0:2",  SPSH_E_TIMEOUT,
         "no rank is missing: step 7, bucket 1; a device or the network hangs, waited for "
         "1."                                                                },
        {"error:0:2", SPSH_E_IO,      "step 7, bucket 1, rank 0 of 1: NCCL: "},
    };
    (void)setlocale(LC_NUMERIC, "C"); /* the locale of the host decides about messages */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__collectives *c = NULL;
        spsh__backend_buffer arena = {NULL, false};
        spsh_error err = SPSH_ERROR_INIT;
        REQUIRE(setenv("NCCL_SHIM", cases[i].fault, 1) == 0 && open_all());
        REQUIRE(spsh__collectives_open(comm, backend, &step, &c, NULL) == SPSH_OK);
        REQUIRE(backend->ops->alloc_fn(backend, COUNT, &arena, NULL) == SPSH_OK);
        const spsh__collective sum = {SPSH__COLLECTIVE_SUM, arena.data, COUNT};
        CHECK(spsh__collectives_start(c, &sum, "bucket 0", NULL) == SPSH_OK);
        CHECK(spsh__collectives_start(c, &sum, "bucket 1", NULL) == SPSH_OK);
        CHECK(spsh__collectives_join(c, NULL) == SPSH_OK);
        const spsh_status rc = spsh__collectives_wait(c, &err);
        CHECK(rc == cases[i].want && comm->has_failed);
        CHECK(strstr(err.message, cases[i].text) != NULL);
        CHECK(spsh__collectives_start(c, &sum, "bucket 2", &err) == SPSH_E_TIMEOUT);
        CHECK(strstr(err.message, "stopped after an earlier failure, in bucket 1") != NULL);
        backend->ops->read_f32_fn(backend, got, arena, COUNT); /* waits for the device */
        CHECK(backend->ops->status_fn(backend, NULL) == SPSH_OK);
        backend->ops->free_fn(backend, arena);
        close_all(c);
    }
    REQUIRE(unsetenv("NCCL_SHIM") == 0);
}

/* Multiprocessors of a persistent layer: "persistent: 2 x 8 blocks of ..."; 0: no such layer. */
static uint32_t layer_blocks(void)
{
    const spsh__rnn_shape s = {SPSH__CELL_LSTM, 2, 1, 8, 32};
    const size_t gates = 4, rows = s.frames;
    const size_t counts[] = {rows * s.inputs,
                             gates * s.hidden * s.inputs,
                             gates * s.hidden * s.hidden,
                             gates * s.hidden,
                             gates * s.hidden,
                             rows * s.hidden,
                             backend->ops->rnn_reserve_fn(&s)};
    spsh__backend_buffer at[7];
    for (size_t i = 0; i < 7; i++) {
        REQUIRE(backend->ops->alloc_fn(backend, counts[i], &at[i], NULL) == SPSH_OK);
        backend->ops->zero_fn(backend, at[i], counts[i]);
    }
    const spsh__rnn_weights w = {at[1], at[2], at[3], at[4]};
    spsh__cuda_rnn_choose(backend, SPSH__RNN_PERSISTENT);
    backend->ops->rnn_forward_fn(backend, &s, &w, at[0], at[5], at[6]);
    CHECK(backend->ops->status_fn(backend, NULL) == SPSH_OK);
    const char *text = spsh__cuda_rnn_text(backend, &s, true, 1); /* "persistent: 12 blocks ..." */
    const char *number = strpbrk(text, "0123456789");
    const uint32_t blocks = number != NULL ? (uint32_t)strtoul(number, NULL, 10) : 0;
    for (size_t i = 0; i < 7; i++)
        backend->ops->free_fn(backend, at[i]);
    return blocks;
}

/* NCCL receives a configuration with no clusters, and as many blocks as a persistent layer leaves free. */
static void test_multiprocessors(void)
{
    static const char *const versions[] = {"21400", "21600", "21701", "22809"};
    nccl_shim_received_fn *received_fn = NULL;
    void *library = dlopen(shim, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL);
    void *symbol = dlsym(library, NCCL_SHIM_RECEIVED_SYMBOL);
    REQUIRE(symbol != NULL);
    memcpy(&received_fn, &symbol, sizeof(received_fn));
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        spsh__collectives *c = NULL;
        REQUIRE(setenv("NCCL_SHIM_VERSION", versions[i], 1) == 0 && open_all());
        CHECK_U64(layer_blocks(), 16); /* of 16 in the emulation */
        REQUIRE(spsh__collectives_open(comm, backend, &step, &c, NULL) == SPSH_OK);
        const nccl_shim_config *config = received_fn();
        const bool is_limited = i >= 2;
        CHECK_U64(config->version, is_limited ? 21700 : 21400);
        CHECK_I64(config->cga_cluster_size, is_limited ? 0 : INT_MIN);
        CHECK_I64(config->max_ctas, is_limited ? (int)SPSH__NCCL_MULTIPROCESSORS : INT_MIN);
        CHECK_I64(config->min_ctas, INT_MIN);
        CHECK(config->net_name == NULL);
        CHECK_U64(layer_blocks(), 16 - SPSH__NCCL_MULTIPROCESSORS);
        spsh__collectives_close(c);
        CHECK_U64(layer_blocks(), 16);
        close_all(NULL);
    }
    REQUIRE(unsetenv("NCCL_SHIM_VERSION") == 0 && dlclose(library) == 0);
}

/* A graph of a fill. */
static void *capture(void *stream, void *memory)
{
    const spsh__cuda_plugin *plugin = spsh_cuda_plugin_of(cuda);
    void *graph = NULL;
    REQUIRE(plugin->graph_begin_fn(stream, NULL) == SPSH_OK);
    REQUIRE(plugin->fill_fn(memory, 0, sizeof(float), stream, NULL) == SPSH_OK);
    REQUIRE(plugin->graph_end_fn(stream, &graph, NULL) == SPSH_OK);
    return graph;
}

/* A call of CUDA waits for a sum without a partner: the watchdog ends the sum, and the call
 * returns. The next call here reports it. */
static void test_late_in_a_call(void)
{
    const spsh__cuda_plugin *plugin = spsh_cuda_plugin_of(cuda);
    for (int is_launch = 0; is_launch < 2; is_launch++) {
        spsh__collectives *c = NULL;
        spsh__backend_buffer arena = {NULL, false}, other = {NULL, false};
        spsh_error err = SPSH_ERROR_INIT;
        REQUIRE(setenv("NCCL_SHIM", "hang:0:2", 1) == 0 && open_all());
        REQUIRE(spsh__collectives_open(comm, backend, &step, &c, NULL) == SPSH_OK);
        REQUIRE(backend->ops->alloc_fn(backend, COUNT, &arena, NULL) == SPSH_OK);
        REQUIRE(backend->ops->alloc_fn(backend, 1, &other, NULL) == SPSH_OK);
        void *stream = backend->ops->stream_fn(backend), *graph = capture(stream, other.data);
        const spsh__collective sum = {SPSH__COLLECTIVE_SUM, arena.data, COUNT};
        CHECK(spsh__collectives_start(c, &sum, "bucket 0", NULL) == SPSH_OK);
        CHECK(spsh__collectives_start(c, &sum, "bucket 1", NULL) == SPSH_OK);
        twin->launches_wait = is_launch != 0;
        if (is_launch != 0)
            CHECK(plugin->graph_launch_fn(graph, stream, &err) == SPSH_OK);
        else
            backend->ops->free_fn(backend, other);
        twin->launches_wait = false;
        CHECK(spsh__collectives_start(c, &sum, "bucket 2", &err) == SPSH_E_TIMEOUT);
        CHECK(comm->has_failed);
        CHECK(strstr(err.message, "no rank is missing: step 7, bucket 1; a device or the network "
                                  "hangs, waited for 1.") != NULL);
        CHECK(strstr(err.message, " s in a call to the device; this is rank 0 of 1") != NULL);
        CHECK(spsh__collectives_wait(c, &err) == SPSH_E_TIMEOUT);
        CHECK(strstr(err.message, "stopped after an earlier failure, in bucket 1") != NULL);
        CHECK(plugin->synchronize_fn(stream, NULL) == SPSH_OK);
        plugin->graph_close_fn(graph);
        if (is_launch != 0)
            backend->ops->free_fn(backend, other);
        backend->ops->free_fn(backend, arena);
        close_all(c);
    }
    REQUIRE(unsetenv("NCCL_SHIM") == 0);
}

/* ... and one that cannot be opened. */
static void test_not_there(void)
{
    spsh__collectives *c = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(setenv("TWIN_NCCL", "/none/of/it", 1) == 0 && open_all());
    CHECK(spsh__collectives_open(comm, backend, &step, &c, &err) == SPSH_E_UNSUPPORTED);
    CHECK(strstr(err.message, "cannot load NCCL") != NULL && !comm->has_failed);
    close_all(c);
    REQUIRE(setenv("TWIN_NCCL", shim, 1) == 0 && setenv("NCCL_SHIM", "absent:0", 1) == 0);
    REQUIRE(open_all());
    CHECK(spsh__collectives_open(comm, backend, &step, &c, &err) == SPSH_E_TIMEOUT);
    CHECK(strstr(err.message, "connecting the ranks over NCCL") != NULL);
    close_all(c);
    REQUIRE(unsetenv("NCCL_SHIM") == 0);
}

/* Whether NCCL is unavailable here; prints the reason. The tests report other failures. */
static bool is_without_nccl(void)
{
    spsh__collectives *c = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(open_all());
    const spsh_status rc = spsh__collectives_open(comm, backend, &step, &c, &err);
    close_all(c);
    if (rc == SPSH_E_UNSUPPORTED)
        fprintf(stderr, "skipped: %s\n", err.message);
    return rc == SPSH_E_UNSUPPORTED;
}

TEST_MAIN(unit_train_collectives)
{
    REQUIRE(argc >= 2);
    shim = argc > 2 ? argv[2] : NULL;
    REQUIRE(shim == NULL || setenv("TWIN_NCCL", shim, 1) == 0);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    if (shim == NULL && is_without_nccl()) {
        spsh_cuda_close(cuda);
        return TEST_SKIPPED;
    }
    RUN(test_all_kinds);
    RUN(test_given_up);
    if (shim != NULL) {
        RUN(test_multiprocessors);
        RUN(test_late);
        RUN(test_late_in_a_call);
        RUN(test_not_there);
    }
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

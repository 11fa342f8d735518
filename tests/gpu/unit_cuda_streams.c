/* unit_cuda_streams.c PLUGIN [FOLDER]: memory, pinned memory, streams, events and graphs of a
 * plug-in.
 *
 * With the host emulation, and with plugin.cu over its streams (support/fake_cudart.c), the tests
 * run in many orders among streams. They then also check that work runs late, that unordered
 * accesses are found, and that a lost or full device is handled. With the real plug-in, the other
 * tests run on a device. Without a device the program prints the reason and is skipped. With
 * FOLDER, which LD_LIBRARY_PATH contains, libraries are searched there (support/fake_nccl.c).
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "device_test.h"
#include "fake_cudart.h"
#include "speechshard/cuda_plugin.h"
#include "spsh_test.h"

enum { BYTES = 4096, PAGE = 4096 };

static const uint8_t rounds = 60; /* in many orders */

static spsh_cuda *cuda;
static const spsh__cuda_plugin *table;
static twin_controls *twin; /* NULL: a real device */
static spsh_error err;
static void *memory, *other_memory;  /* BYTES of device 0 */
static uint8_t *pinned;              /* BYTES */
static void *first, *second, *third; /* streams of device 0 */
static void *event, *other_event;

static void must(spsh_status rc)
{
    if (rc != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_name(rc), err.message);
    REQUIRE(rc == SPSH_OK);
}

static void open_all(void)
{
    void *host = NULL;
    must(spsh_cuda_alloc(cuda, 0, BYTES, &memory, &err));
    must(spsh_cuda_alloc(cuda, 0, BYTES, &other_memory, &err));
    must(spsh_cuda_host_alloc(cuda, BYTES, &host, &err));
    pinned = host;
    must(spsh_cuda_stream_open(cuda, 0, 0, &first, &err));
    must(spsh_cuda_stream_open(cuda, 0, 1, &second, &err));
    must(spsh_cuda_stream_open(cuda, 0, 0, &third, &err));
    must(spsh_cuda_event_open(cuda, 0, 0, &event, &err));
    must(spsh_cuda_event_open(cuda, 0, 0, &other_event, &err));
}

static void close_all(void)
{
    spsh_cuda_stream_close(cuda, first);
    spsh_cuda_stream_close(cuda, second);
    spsh_cuda_stream_close(cuda, third);
    spsh_cuda_event_close(cuda, event);
    spsh_cuda_event_close(cuda, other_event);
    spsh_cuda_free(cuda, memory);
    spsh_cuda_free(cuda, other_memory);
    spsh_cuda_host_free(cuda, pinned);
}

/* Wait until the work of all streams is done. */
static void rest(void)
{
    must(spsh_cuda_synchronize(cuda, first, &err));
    must(spsh_cuda_synchronize(cuda, second, &err));
    must(spsh_cuda_synchronize(cuda, third, &err));
}

static void fill(void *stream, void *to, uint8_t byte)
{
    must(spsh_cuda_fill(cuda, to, byte, BYTES, stream, &err));
}

static void copy(void *stream, void *to, const void *from)
{
    must(spsh_cuda_copy(cuda, to, from, BYTES, stream, &err));
}

static void record(void *of, void *stream)
{
    must(spsh_cuda_event_record(cuda, of, stream, &err));
}

static void wait_for(void *of, void *stream)
{
    must(spsh_cuda_event_wait(cuda, of, stream, &err));
}

/* Check that all bytes of device memory have this value. */
static void check_bytes(const void *of, uint8_t want)
{
    uint8_t bytes[BYTES];
    memset(bytes, 0, sizeof(bytes));
    must(spsh_cuda_copy(cuda, bytes, of, BYTES, third, &err));
    must(spsh_cuda_synchronize(cuda, third, &err));
    for (size_t i = 0; i < BYTES; i++) {
        if (bytes[i] == want)
            continue;
        CHECK_U64(bytes[i], want);
        return;
    }
}

/* ---- what every plug-in does ---- */

static void test_arguments(void)
{
    void *made = NULL;
    uint8_t host[16] = {0};
    uint64_t free_bytes = 7, all_bytes = 7;
    const uint32_t none = spsh_cuda_device_count(cuda);
    CHECK_I64(spsh_cuda_stream_open(cuda, none, 0, &made, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "does not exist") != NULL);
    CHECK_I64(spsh_cuda_event_open(cuda, none, 0, &made, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_alloc(cuda, none, 1, &made, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_memory(cuda, none, &free_bytes, &all_bytes, &err), SPSH_E_INVALID_ARG);
    CHECK(free_bytes == 7 && all_bytes == 7);
    CHECK_I64(spsh_cuda_host_alloc(cuda, 0, &made, &err), SPSH_E_INVALID_ARG);
    CHECK(made == NULL);
    CHECK_I64(spsh_cuda_event_record(cuda, NULL, first, &err), SPSH_E_INVALID_ARG);
    CHECK_STR(err.message, "event is NULL");
    CHECK_I64(spsh_cuda_event_wait(cuda, NULL, first, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_event_query(cuda, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_event_synchronize(cuda, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_event_ms(cuda, event, NULL, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_event_ms(cuda, NULL, event, NULL, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_copy(cuda, NULL, memory, 1, first, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_copy(cuda, memory, NULL, 1, first, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_fill(cuda, NULL, 0, 1, first, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_fill(cuda, host, 0, sizeof(host), first, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_fill(cuda, NULL, 0, 0, first, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_copy(cuda, NULL, NULL, 0, first, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_host_register(cuda, NULL, PAGE, NULL), SPSH_E_INVALID_ARG);
    spsh_cuda_stream_close(cuda, NULL);
    spsh_cuda_event_close(cuda, NULL);
    spsh_cuda_host_free(cuda, NULL);
    spsh_cuda_host_unregister(cuda, NULL);
    CHECK(spsh_cuda_plugin_of(cuda)->abi == SPSH__CUDA_ABI);
}

/* Each library has a version, or a reason why it is missing. */
static void test_libraries(void)
{
    spsh_cuda_library library = SPSH_CUDA_LIBRARY_INIT;
    uint32_t count = 0;
    for (; spsh_cuda_library_get(cuda, count, &library) == SPSH_OK; count++) {
        CHECK(library.name[0] != '\0' && library.used_for[0] != '\0');
        CHECK((library.version[0] == '\0') == (library.reason[0] != '\0'));
    }
    CHECK(count >= 2);
    CHECK_I64(spsh_cuda_library_get(cuda, count, &library), SPSH_E_END);
}

static void test_libraries_of_folder(void)
{
    spsh_cuda_library library = SPSH_CUDA_LIBRARY_INIT;
    must(spsh_cuda_library_get(cuda, 1, &library));
    CHECK_STR(library.name, "cuDNN");
    CHECK_STR(library.version, "");
    CHECK(strstr(library.reason, "cudnnGetVersion") != NULL);
    must(spsh_cuda_library_get(cuda, 2, &library));
    CHECK_STR(library.name, "NCCL");
    CHECK_STR(library.version, "2.29.3");
}

static void test_register(void)
{
    uint8_t *pages = aligned_alloc(PAGE, 2 * PAGE);
    REQUIRE(pages != NULL);
    memset(pages, 9, 2 * PAGE);
    CHECK_I64(spsh_cuda_host_register(cuda, pages + 1, PAGE, &err), SPSH_E_INVALID_ARG);
    CHECK_STR(err.message, "memory to pin must be whole pages of 4096 bytes");
    CHECK_I64(spsh_cuda_host_register(cuda, pages, PAGE - 1, &err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_host_register(cuda, pages, 0, &err), SPSH_E_INVALID_ARG);
    must(spsh_cuda_host_register(cuda, pages, (size_t)2 * PAGE, &err));
    CHECK_I64(spsh_cuda_host_register(cuda, pages, (size_t)2 * PAGE, &err), SPSH_E_INVALID_ARG);
    copy(first, memory, pages);
    rest();
    check_bytes(memory, 9);
    spsh_cuda_host_unregister(cuda, pages);
    must(spsh_cuda_host_register(cuda, pages, PAGE, &err));
    spsh_cuda_host_unregister(cuda, pages);
    free(pages);
}

static void test_memory_info(void)
{
    const size_t size_bytes = (size_t)64 << 20;
    uint64_t before = 0, during = 0, after = 0, all = 0;
    void *large = NULL;
    must(spsh_cuda_memory(cuda, 0, &before, &all, &err));
    must(spsh_cuda_alloc(cuda, 0, size_bytes, &large, &err));
    CHECK(((uintptr_t)large & 255) == 0);
    must(spsh_cuda_memory(cuda, 0, &during, &all, &err));
    spsh_cuda_free(cuda, large);
    must(spsh_cuda_memory(cuda, 0, &after, &all, &err));
    CHECK(before <= all && before >= during + size_bytes / 2);
    if (twin != NULL) {
        CHECK_U64(before - during, size_bytes);
        CHECK_U64(after, before);
        CHECK_U64(all, twin->device_bytes);
    }
}

/* Work of streams that wait for each other runs in that order, for any other random order. */
static void test_order_by_events(void)
{
    for (uint8_t round = 1; round <= rounds; round++) {
        fill(first, memory, round);
        record(event, first);
        wait_for(event, second);
        copy(second, other_memory, memory);
        record(other_event, second);
        wait_for(other_event, third);
        fill(third, memory, (uint8_t)(round + 1));
        rest();
        check_bytes(other_memory, round);
        check_bytes(memory, (uint8_t)(round + 1));
    }
}

/* A wait applies to the last recording before it; an event that was never recorded has no effect.
 */
static void test_marks(void)
{
    void *fresh = NULL;
    must(spsh_cuda_event_open(cuda, 0, 0, &fresh, &err));
    CHECK_I64(spsh_cuda_event_query(cuda, fresh, &err), SPSH_OK);
    CHECK_I64(spsh_cuda_event_synchronize(cuda, fresh, &err), SPSH_OK);
    wait_for(fresh, first);
    spsh_cuda_event_close(cuda, fresh);
    for (uint8_t round = 1; round <= rounds; round++) {
        fill(first, memory, round);
        record(event, first);
        wait_for(event, second);
        fill(third, other_memory, 0);
        record(event, third);
        wait_for(event, second);
        copy(second, other_memory, memory);
        rest();
        check_bytes(other_memory, round);
    }
}

static void test_query(void)
{
    uint64_t asked = 0;
    spsh_status rc = SPSH_OK;
    for (int round = 0; round < rounds; round++) {
        for (uint8_t i = 0; i < 20; i++)
            fill(first, memory, i);
        record(event, first);
        while ((rc = spsh_cuda_event_query(cuda, event, &err)) == SPSH_E_TIMEOUT)
            asked++;
        CHECK_I64(rc, SPSH_OK);
        fill(second, memory, 77); /* the host saw that it was done */
        must(spsh_cuda_synchronize(cuda, second, &err));
    }
    check_bytes(memory, 77);
    CHECK(twin == NULL || asked > 0);
}

static void test_times(void)
{
    void *begin = NULL, *end = NULL;
    float ms = -1;
    must(spsh_cuda_event_open(cuda, 0, 1, &begin, &err));
    must(spsh_cuda_event_open(cuda, 0, 1, &end, &err));
    CHECK_I64(spsh_cuda_event_ms(cuda, begin, end, &ms, &err), SPSH_E_INVALID_ARG);
    record(begin, first);
    fill(first, memory, 1);
    record(end, first);
    record(event, first);
    must(spsh_cuda_event_synchronize(cuda, end, &err));
    must(spsh_cuda_synchronize(cuda, first, &err));
    must(spsh_cuda_event_ms(cuda, begin, end, &ms, &err));
    CHECK(ms >= 0);
    ms = -1;
    CHECK_I64(spsh_cuda_event_ms(cuda, begin, event, &ms, &err), SPSH_E_INVALID_ARG);
    CHECK(ms < 0);
    spsh_cuda_event_close(cuda, begin);
    spsh_cuda_event_close(cuda, end);
}

/* Memory that is not pinned may be written again at once. */
static void test_staging(void)
{
    static uint8_t host[BYTES];
    memset(host, 1, sizeof(host));
    copy(first, memory, host);
    memset(host, 2, sizeof(host));
    rest();
    check_bytes(memory, 1);
    memset(pinned, 3, BYTES);
    copy(first, memory, pinned);
    must(spsh_cuda_synchronize(cuda, first, &err));
    memset(pinned, 4, BYTES);
    check_bytes(memory, 3);
    copy(first, pinned, memory);
    must(spsh_cuda_synchronize(cuda, first, &err));
    CHECK(pinned[0] == 3 && pinned[BYTES - 1] == 3);
}

/* ---- graphs ---- */

/* Capture two copies: pinned to memory, and then, on another stream, half of memory to
 * other_memory. */
static void *make_graph(void)
{
    void *graph = NULL;
    must(table->graph_begin_fn(first, &err));
    copy(first, memory, pinned);
    record(event, first);
    wait_for(event, second);
    must(spsh_cuda_copy(cuda, other_memory, memory, BYTES / 2, second, &err));
    must(spsh_cuda_fill(cuda, (uint8_t *)other_memory + BYTES / 2, 5, BYTES / 2, first, &err));
    record(other_event, second);
    wait_for(other_event, first);
    must(table->graph_end_fn(first, &graph, &err));
    REQUIRE(graph != NULL);
    return graph;
}

static void test_graph(void)
{
    uint8_t bytes[BYTES];
    void *graph = make_graph();
    fill(third, other_memory, 0);
    for (uint8_t round = 1; round <= rounds; round++) {
        memset(pinned, round + 10, BYTES);
        must(table->graph_launch_fn(graph, third, &err));
        copy(third, bytes, other_memory);
        must(spsh_cuda_synchronize(cuda, third, &err));
        CHECK_U64(bytes[0], round + 10);
        CHECK_U64(bytes[BYTES / 2 - 1], round + 10);
        CHECK_U64(bytes[BYTES / 2], 5);
        CHECK_U64(bytes[BYTES - 1], 5);
        fill(third, other_memory, 0);
        must(spsh_cuda_synchronize(cuda, third, &err));
    }
    /* Launch the graph twice on two streams, one launch after the other. */
    must(table->graph_launch_fn(graph, third, &err));
    record(event, third);
    wait_for(event, first);
    must(table->graph_launch_fn(graph, first, &err));
    rest();
    table->graph_close_fn(graph);
    table->graph_close_fn(NULL);
}

/* Captured work does not run. Memory may be allocated during the capture. */
static void test_capture_is_not_done(void)
{
    void *graph = NULL, *more = NULL, *host = NULL;
    fill(first, memory, 1);
    rest();
    must(table->graph_begin_fn(first, &err));
    fill(first, memory, 2);
    must(spsh_cuda_alloc(cuda, 0, 100, &more, &err));
    must(spsh_cuda_host_alloc(cuda, 100, &host, &err));
    must(table->graph_end_fn(first, &graph, &err));
    check_bytes(memory, 1);
    must(table->graph_launch_fn(graph, first, &err));
    rest();
    check_bytes(memory, 2);
    table->graph_close_fn(graph);
    spsh_cuda_free(cuda, more);
    spsh_cuda_host_free(cuda, host);
}

/* After it the streams are as before. */
static void check_over(spsh_status rc)
{
    void *graph = NULL;
    CHECK_I64(rc, SPSH_E_IO);
    table->graph_abandon_fn(first);
    table->graph_abandon_fn(first); /* nothing to abandon */
    fill(first, memory, 8);
    rest();
    check_bytes(memory, 8);
    must(table->graph_begin_fn(first, &err));
    must(table->graph_end_fn(first, &graph, &err));
    table->graph_close_fn(graph);
}

static void test_bad_captures(void)
{
    static uint8_t host[BYTES];
    void *graph = NULL;
    CHECK_I64(table->graph_begin_fn(NULL, &err), SPSH_E_IO);
    CHECK_I64(table->graph_end_fn(first, &graph, &err), SPSH_E_IO);

    must(table->graph_begin_fn(first, &err));
    check_over(spsh_cuda_synchronize(cuda, first, &err)); /* a wait for the stream is invalid */

    must(table->graph_begin_fn(first, &err));
    record(event, first);
    check_over(spsh_cuda_event_query(cuda, event, &err)); /* an event query is invalid */

    must(table->graph_begin_fn(first, &err));
    record(event, first);
    check_over(spsh_cuda_event_synchronize(cuda, event, &err));

    fill(second, other_memory, 3);
    record(event, second);
    must(table->graph_begin_fn(first, &err));
    check_over(spsh_cuda_event_wait(cuda, event, first, &err)); /* on uncaptured work */

    must(table->graph_begin_fn(first, &err)); /* a stream that the first one does not wait for */
    record(event, first);
    wait_for(event, second);
    fill(second, other_memory, 3);
    check_over(table->graph_end_fn(first, &graph, &err));

    if (twin != NULL) { /* stricter than some versions of CUDA */
        must(table->graph_begin_fn(first, &err));
        check_over(spsh_cuda_copy(cuda, memory, host, BYTES, first, &err));
        must(table->graph_begin_fn(first, &err));
        check_over(spsh_cuda_copy(cuda, host, memory, BYTES, first, &err));
    }
    must(table->graph_begin_fn(first, &err)); /* a capture that has failed is not ended */
    CHECK_I64(spsh_cuda_synchronize(cuda, first, &err), SPSH_E_IO);
    CHECK(spsh_cuda_fill(cuda, memory, 1, BYTES, first, &err) != SPSH_OK);
    check_over(table->graph_end_fn(first, &graph, &err));
    CHECK(graph == NULL);
}

/* Threads with separate streams. */
static void *use_alone(void *opaque)
{
    const uint8_t own = *(const uint8_t *)opaque;
    uint8_t bytes[BYTES] = {0};
    spsh_error error = SPSH_ERROR_INIT;
    for (uint8_t round = 0; round < 20; round++) {
        void *place = NULL, *stream = NULL, *mark = NULL;
        bool is_good = spsh_cuda_stream_open(cuda, 0, 0, &stream, &error) == SPSH_OK &&
                       spsh_cuda_event_open(cuda, 0, 0, &mark, &error) == SPSH_OK &&
                       spsh_cuda_alloc(cuda, 0, BYTES, &place, &error) == SPSH_OK &&
                       spsh_cuda_fill(cuda, place, own, BYTES, stream, &error) == SPSH_OK &&
                       spsh_cuda_copy(cuda, bytes, place, BYTES, stream, &error) == SPSH_OK &&
                       spsh_cuda_event_record(cuda, mark, stream, &error) == SPSH_OK &&
                       spsh_cuda_event_synchronize(cuda, mark, &error) == SPSH_OK;
        is_good = is_good && bytes[0] == own && bytes[BYTES - 1] == own;
        spsh_cuda_event_close(cuda, mark);
        spsh_cuda_stream_close(cuda, stream);
        spsh_cuda_free(cuda, place);
        if (!is_good)
            return &err; /* failed */
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[4];
    uint8_t own[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, use_alone, &own[i]) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *result = NULL;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        CHECK(result == NULL);
    }
}

/* Another thread uses the device during the capture. */
static void test_capture_beside_threads(void)
{
    pthread_t thread;
    uint8_t own = 9;
    void *graph = NULL, *result = NULL;
    must(table->graph_begin_fn(first, &err));
    REQUIRE(pthread_create(&thread, NULL, use_alone, &own) == 0);
    fill(first, memory, 6);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK(result == NULL);
    must(table->graph_end_fn(first, &graph, &err));
    must(table->graph_launch_fn(graph, first, &err));
    rest();
    check_bytes(memory, 6);
    table->graph_close_fn(graph);
}

/* ---- only the host emulation can show this ---- */

/* A copy from pinned memory reads it when the copy runs: a write that comes too early is visible.
 */
static void test_pinned_is_read_late(void)
{
    memset(pinned, 1, BYTES);
    copy(first, memory, pinned);
    memset(pinned, 2, BYTES);
    rest();
    check_bytes(memory, 2);
}

static uint64_t hazards(void)
{
    rest();
    const uint64_t count = twin->hazards;
    twin->hazards = 0;
    return count;
}

static void test_hazards(void)
{
    uint8_t *half = (uint8_t *)memory + BYTES / 2;
    twin->counts_hazards = true;
    fill(first, memory, 1); /* two writes */
    fill(second, memory, 2);
    CHECK_U64(hazards(), 1);
    copy(first, other_memory, memory); /* a read, then a write of one byte of it */
    must(spsh_cuda_fill(cuda, half, 0, 1, second, &err));
    CHECK_U64(hazards(), 1);
    fill(first, memory, 1); /* a write, then a read */
    copy(second, other_memory, memory);
    CHECK_U64(hazards(), 1);
    copy(first, other_memory, memory); /* from pinned memory */
    copy(first, pinned, memory);
    copy(second, pinned, other_memory);
    CHECK_U64(hazards(), 2); /* the second hazard is in other_memory */
    record(event, first);    /* a recording before the copy does not order it */
    fill(first, memory, 1);
    wait_for(event, second);
    fill(second, memory, 2);
    CHECK_U64(hazards(), 1);
    fill(first, memory, 1); /* one of three is not ordered */
    record(event, first);
    wait_for(event, second);
    fill(second, memory, 2);
    fill(third, memory, 3);
    CHECK_U64(hazards(), 1);
    twin->counts_hazards = false;
}

static void test_no_hazards(void)
{
    uint8_t *half = (uint8_t *)memory + BYTES / 2;
    uint8_t host[2][BYTES];
    twin->counts_hazards = true;
    must(spsh_cuda_fill(cuda, memory, 1, BYTES / 2, first, &err)); /* adjacent bytes */
    must(spsh_cuda_fill(cuda, half, 2, BYTES / 2, second, &err));
    CHECK_U64(hazards(), 0);
    copy(first, host[0], memory); /* two reads */
    copy(second, host[1], memory);
    CHECK_U64(hazards(), 0);
    fill(first, memory, 1); /* ordered through a third stream */
    record(event, first);
    wait_for(event, third);
    record(other_event, third);
    wait_for(other_event, second);
    fill(second, memory, 2);
    CHECK_U64(hazards(), 0);
    fill(first, memory, 1); /* the host waits for the stream */
    must(spsh_cuda_synchronize(cuda, first, &err));
    fill(second, memory, 2);
    record(event, second); /* the host waits for the event */
    must(spsh_cuda_event_synchronize(cuda, event, &err));
    fill(third, memory, 3);
    record(event, third); /* the host polls the event */
    while (spsh_cuda_event_query(cuda, event, &err) == SPSH_E_TIMEOUT)
        continue;
    fill(first, memory, 4);
    CHECK_U64(hazards(), 0);
    twin->counts_hazards = false;
}

/* Without an event either may come first: the order is drawn. */
static void test_orders_are_drawn(void)
{
    uint8_t bytes[BYTES];
    int seen[3] = {0};
    twin->counts_hazards = true;
    for (int round = 0; round < rounds; round++) {
        fill(first, memory, 1);
        fill(second, memory, 2);
        rest();
        copy(third, bytes, memory);
        rest();
        seen[bytes[0] % 3]++;
    }
    twin->counts_hazards = false;
    twin->hazards = 0;
    CHECK(seen[0] == 0 && seen[1] > 0 && seen[2] > 0);
}

static void test_hazards_of_graphs(void)
{
    void *graph = NULL;
    twin->counts_hazards = true;
    must(table->graph_begin_fn(first, &err)); /* a hazard within one graph */
    record(event, first);
    wait_for(event, second);
    fill(first, memory, 1);
    fill(second, memory, 2);
    record(other_event, second);
    wait_for(other_event, first);
    must(table->graph_end_fn(first, &graph, &err));
    CHECK_U64(hazards(), 1);
    table->graph_close_fn(graph);

    graph = make_graph();
    CHECK_U64(hazards(), 0);
    must(table->graph_launch_fn(graph, first, &err)); /* a launch and concurrent work */
    fill(third, other_memory, 1);
    CHECK(hazards() > 0);
    must(table->graph_launch_fn(graph, first, &err));
    record(event, first);
    wait_for(event, third);
    fill(third, other_memory, 1);
    must(spsh_cuda_synchronize(cuda, third, &err));
    must(table->graph_launch_fn(graph, first, &err)); /* a launch follows the previous one */
    must(table->graph_launch_fn(graph, second, &err));
    CHECK_U64(hazards(), 0);
    table->graph_close_fn(graph);
    twin->counts_hazards = false;
}

/* A graph whose memory was freed. */
static void test_graph_of_freed_memory(void)
{
    void *graph = NULL, *mine = NULL;
    must(spsh_cuda_alloc(cuda, 0, BYTES, &mine, &err));
    must(table->graph_begin_fn(first, &err));
    fill(first, mine, 1);
    must(table->graph_end_fn(first, &graph, &err));
    spsh_cuda_free(cuda, mine);
    CHECK_I64(table->graph_launch_fn(graph, first, &err), SPSH_E_INVALID_ARG);
    table->graph_close_fn(graph);
}

static void test_bad_memory(void)
{
    void *mine = NULL;
    uint8_t byte = 0;
    must(spsh_cuda_alloc(cuda, 0, 1000, &mine, &err));
    CHECK_I64(spsh_cuda_copy(cuda, &byte, (uint8_t *)mine + 1000, 1, first, &err),
              SPSH_E_INVALID_ARG);
    CHECK_I64(spsh_cuda_copy(cuda, mine, other_memory, 1001, first, &err), SPSH_E_INVALID_ARG);
    spsh_cuda_free(cuda, mine);
    CHECK_I64(spsh_cuda_copy(cuda, &byte, mine, 1, first, &err), SPSH_E_INVALID_ARG);
}

/* Return whether a child that makes this call ends by abort(). */
static bool stops(void (*do_fn)(void))
{
    int status = 0;
    (void)fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)close(STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        do_fn();
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void meet(void)
{
    fill(first, memory, 1);
    fill(second, memory, 2);
}

static void do_not_meet(void)
{
    fill(first, memory, 1);
    record(event, first);
    wait_for(event, second);
    fill(second, memory, 2);
}

/* Bytes before a block, and bytes after a block of odd size. */
static void write_before(void)
{
    void *mine = NULL;
    must(spsh_cuda_alloc(cuda, 0, 1000, &mine, &err));
    ((uint8_t *)mine)[-1] = 0;
    spsh_cuda_free(cuda, mine);
}

static void write_behind(void)
{
    void *mine = NULL;
    must(spsh_cuda_alloc(cuda, 0, 1000, &mine, &err));
    ((uint8_t *)mine)[1000] = 0;
    spsh_cuda_free(cuda, mine);
}

static void unpin_early(void)
{
    copy(first, memory, pinned);
    spsh_cuda_host_free(cuda, pinned);
}

static void unpin_under_graph(void)
{
    void *graph = make_graph();
    must(table->graph_launch_fn(graph, first, &err));
    spsh_cuda_host_free(cuda, pinned);
}

static void free_twice(void)
{
    spsh_cuda_free(cuda, memory);
    spsh_cuda_free(cuda, memory);
}

static void test_stops(void)
{
    CHECK(stops(meet));
    CHECK(!stops(do_not_meet));
    CHECK(stops(write_before));
    CHECK(stops(write_behind));
    CHECK(stops(unpin_early));
    CHECK(stops(unpin_under_graph));
    CHECK(stops(free_twice));
}

static void test_full(void)
{
    const uint64_t usual = twin->device_bytes;
    uint64_t free_bytes = 0, all_bytes = 0;
    void *large = NULL, *larger = NULL;
    must(spsh_cuda_memory(cuda, 0, &free_bytes, &all_bytes, &err));
    twin->device_bytes = all_bytes - free_bytes + 1000;
    must(spsh_cuda_alloc(cuda, 0, 600, &large, &err));
    CHECK_I64(spsh_cuda_alloc(cuda, 0, 401, &larger, &err), SPSH_E_NO_MEMORY);
    CHECK(larger == NULL && strstr(err.message, "401 bytes") != NULL);
    must(spsh_cuda_alloc(cuda, 1, 401, &larger, &err)); /* another device's */
    spsh_cuda_free(cuda, larger);
    must(spsh_cuda_alloc(cuda, 0, 400, &larger, &err));
    spsh_cuda_free(cuda, large);
    spsh_cuda_free(cuda, larger);
    twin->device_bytes = usual;
}

static void check_all_lost(void)
{
    uint64_t free_bytes = 0, all_bytes = 0;
    void *made = NULL;
    CHECK_I64(spsh_cuda_fill(cuda, memory, 1, BYTES, second, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_copy(cuda, memory, pinned, BYTES, second, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_synchronize(cuda, second, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_event_query(cuda, event, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_event_synchronize(cuda, event, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_event_record(cuda, event, first, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_event_wait(cuda, event, first, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_alloc(cuda, 0, 1, &made, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_memory(cuda, 0, &free_bytes, &all_bytes, &err), SPSH_E_IO);
    CHECK_I64(spsh_cuda_stream_open(cuda, 0, 0, &made, &err), SPSH_E_IO);
    CHECK_I64(table->graph_begin_fn(first, &err), SPSH_E_IO);
    CHECK(made == NULL);
}

/* From one operation on, everything fails. All objects can still be closed. */
static void test_lost(void)
{
    void *graph = make_graph();
    for (uint64_t at = 1; at < 8; at++) {
        twin->lost_after = twin->work_count + at;
        for (uint8_t i = 0; i < 5; i++)
            fill(first, memory, i);
        must(spsh_cuda_event_record(cuda, event, first, &err));
        must(table->graph_launch_fn(graph, first, &err));
        CHECK_I64(spsh_cuda_synchronize(cuda, first, &err), SPSH_E_IO);
        CHECK(strstr(err.message, "start the program again") != NULL);
        check_all_lost();
        twin->lost_after = 0;
        twin->is_lost = false;
        fill(first, memory, 7);
        rest();
        check_bytes(memory, 7);
    }
    twin->lost_after = twin->work_count + 1;
    fill(first, memory, 1);
    CHECK_I64(spsh_cuda_synchronize(cuda, first, &err), SPSH_E_IO);
    table->graph_close_fn(graph);
    close_all();
    CHECK_U64(twin->open_streams + twin->open_events + twin->open_graphs, 0);
    twin->lost_after = 0;
    twin->is_lost = false;
    open_all();
}

/* Use memory of one device with a stream or an event of the other. */
static void test_other_device(void)
{
    void *stream = NULL, *theirs = NULL;
    must(spsh_cuda_stream_open(cuda, 1, 0, &stream, &err));
    must(spsh_cuda_alloc(cuda, 1, BYTES, &theirs, &err));
    CHECK_I64(spsh_cuda_event_record(cuda, event, stream, &err), SPSH_E_INVALID_ARG);
    fill(stream, theirs, 4);
    copy(stream, memory, theirs);
    must(spsh_cuda_synchronize(cuda, stream, &err));
    check_bytes(memory, 4);
    spsh_cuda_free(cuda, theirs);
    spsh_cuda_stream_close(cuda, stream);
}

/* A thread that never had a device; its first call is random. */
static void *call_from_nowhere(void *opaque)
{
    const uint32_t first_call = *(const uint32_t *)opaque;
    void *made = NULL, *mine = NULL;
    if (first_call == 0)
        record(event, first);
    if (first_call == 1)
        copy(first, memory, pinned);
    if (first_call == 2)
        must(spsh_cuda_host_alloc(cuda, BYTES, &made, &err));
    if (first_call == 3)
        must(spsh_cuda_alloc(cuda, 1, BYTES, &mine, &err));
    if (first_call == 4)
        fill(first, memory, 1);
    must(spsh_cuda_synchronize(cuda, first, &err));
    spsh_cuda_host_free(cuda, made);
    spsh_cuda_free(cuda, mine);
    return NULL;
}

/* A process that uses only device 1 has no context on device 0, whichever of its threads calls
 * which function. The default stream is device 1's. Runs in a separate process, because contexts
 * persist. */
static void use_one_device(fake_contexts_fn *contexts_fn)
{
    void *host = NULL;
    CHECK_U64(contexts_fn(), 0);
    must(spsh_cuda_alloc(cuda, 1, BYTES, &memory, &err));
    must(spsh_cuda_host_alloc(cuda, BYTES, &host, &err));
    pinned = host;
    must(spsh_cuda_stream_open(cuda, 1, 0, &first, &err));
    must(spsh_cuda_event_open(cuda, 1, 0, &event, &err));
    for (uint32_t first_call = 0; first_call < 5; first_call++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, call_from_nowhere, &first_call) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        CHECK_U64(contexts_fn(), 2);
    }
    fill(NULL, memory, 3);
    must(spsh_cuda_synchronize(cuda, NULL, &err));
    CHECK_U64(contexts_fn(), 2);
}

static void test_one_device(void)
{
    fake_contexts_fn *contexts_fn = NULL;
    int status = 0;
    void *symbol = spsh_cuda_symbol(cuda, FAKE_CONTEXTS_SYMBOL);
    memcpy(&contexts_fn, &symbol, sizeof(contexts_fn));
    if (contexts_fn == NULL)
        return;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        use_one_device(contexts_fn);
        _exit(TEST_RESULT());
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void run_of_twin(void)
{
    RUN(test_pinned_is_read_late);
    RUN(test_hazards);
    RUN(test_no_hazards);
    RUN(test_orders_are_drawn);
    RUN(test_hazards_of_graphs);
    RUN(test_graph_of_freed_memory);
    RUN(test_bad_memory);
    RUN(test_stops);
    RUN(test_full);
    RUN(test_lost);
    RUN(test_other_device);
}

TEST_MAIN(unit_cuda_streams)
{
    REQUIRE(argc == 2 || argc == 3);
    const uint64_t seed = test_seed(20261122);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    table = spsh_cuda_plugin_of(cuda);
    if (twin != NULL)
        twin->seed = seed;
    RUN(test_one_device); /* before this process has a context */
    open_all();
    RUN(test_arguments);
    RUN(test_libraries);
    if (argc == 3)
        RUN(test_libraries_of_folder);
    RUN(test_register);
    RUN(test_memory_info);
    RUN(test_order_by_events);
    RUN(test_marks);
    RUN(test_query);
    RUN(test_times);
    RUN(test_staging);
    RUN(test_graph);
    RUN(test_capture_is_not_done);
    RUN(test_bad_captures);
    RUN(test_threads);
    RUN(test_capture_beside_threads);
    if (twin != NULL)
        run_of_twin();
    close_all();
    if (twin != NULL) {
        CHECK_U64(twin->open_memory, 0);
        CHECK_U64(twin->open_pinned, 0);
        CHECK_U64(twin->open_streams, 0);
        CHECK_U64(twin->open_events, 0);
        CHECK_U64(twin->open_graphs, 0);
        CHECK_U64(twin->hazards, 0);
    }
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}

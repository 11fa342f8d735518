/* unit_train_fault.c: a link that is slower than the real network, between threads that act as
 * processes. Messages keep their order and bytes, and take at least the requested time. Also the
 * syntax of faults of a process. */
#include <pthread.h>

#include "runtime/comm_throttle.h"
#include "runtime/fault.h"
#include "speechshard/inside.h"
#include "spsh_test.h"

#define DEADLINE_MS 120000
#define MESSAGES    40u
#define BYTES_MAX   5000u

typedef struct process {
    char folder[64];
    uint32_t rank;
    spsh__link link;
    uint64_t took_ns;
    uint64_t sent_bytes;
} process;

/* Fill a message. Its number decides its length and bytes. */
static size_t fill(uint32_t number, uint8_t *bytes)
{
    uint64_t state = number + 1;
    const size_t size = (size_t)(test_random(&state) % BYTES_MAX);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)test_random(&state);
    return size;
}

static spsh__comm *open_comm(const process *p)
{
    const spsh__launch launch = {.rank = p->rank,
                                 .world_size = 2,
                                 .local_rank = p->rank,
                                 .local_size = 2,
                                 .node_count = 1,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = p->folder, .deadline_ms = DEADLINE_MS};
    spsh__comm *tcp = NULL, *slow = NULL;
    REQUIRE(spsh__comm_tcp_open(&meeting, spsh_allocator_default(), &tcp, NULL) == SPSH_OK);
    REQUIRE(spsh__comm_throttle_open(tcp, &p->link, &slow, NULL) == SPSH_OK);
    return slow;
}

/* All messages are in flight at once, in both directions, on two tags. */
static void *talk(void *user)
{
    static uint8_t out[2][MESSAGES][BYTES_MAX], in[2][MESSAGES][BYTES_MAX];
    process *p = (process *)user;
    spsh__comm *c = open_comm(p);
    spsh__comm_handle sent[MESSAGES], got[MESSAGES];
    uint8_t want[BYTES_MAX];
    uint32_t which = 0;
    uint64_t sum = 1;
    CHECK(spsh__comm_all_reduce(c, SPSH__COMM_U64, SPSH__COMM_SUM, &sum, 1, NULL) == SPSH_OK);
    CHECK(sum == 2);
    const uint64_t begin_ns = spsh__now_ns();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const size_t size = fill(i + 1000 * p->rank, out[p->rank][i]);
        p->sent_bytes += size;
        REQUIRE(c->ops->send_fn(c, 1 - p->rank, 7 + i % 2, out[p->rank][i], size, &sent[i], NULL) ==
                SPSH_OK);
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const size_t size = fill(i + 1000 * (1 - p->rank), want);
        REQUIRE(c->ops->receive_fn(c, 1 - p->rank, 7 + i % 2, in[p->rank][i], size, &got[i],
                                   NULL) == SPSH_OK);
    }
    CHECK(c->ops->wait_any_fn(c, got, MESSAGES, DEADLINE_MS, &which, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const size_t size = fill(i + 1000 * (1 - p->rank), want);
        CHECK(c->ops->wait_fn(c, got[i], DEADLINE_MS, NULL) == SPSH_OK);
        CHECK(size == 0 || memcmp(in[p->rank][i], want, size) == 0);
    }
    p->took_ns = spsh__now_ns() - begin_ns;
    CHECK(c->ops->wait_any_fn(c, sent, MESSAGES, DEADLINE_MS, &which, NULL) == SPSH_OK);
    CHECK(which < MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK(c->ops->wait_fn(c, sent[i], DEADLINE_MS, NULL) == SPSH_OK);
    }
    spsh__comm_close(c);
    return NULL;
}

static void test_a_slow_link(const char *text)
{
    process both[2];
    pthread_t threads[2];
    memset(both, 0, sizeof(both));
    test_temp_dir(both[0].folder, sizeof(both[0].folder));
    for (uint32_t i = 0; i < 2; i++) {
        memcpy(both[i].folder, both[0].folder, sizeof(both[0].folder));
        both[i].rank = i;
        REQUIRE(spsh__link_read(text, &both[i].link, NULL) == SPSH_OK);
        REQUIRE(pthread_create(&threads[i], NULL, talk, &both[i]) == 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 2; i++) {
        const process *from = &both[1 - i];
        const double least_ns =
            (double)from->link.latency_ns + (double)from->sent_bytes / from->link.bytes_per_s * 1e9;
        printf("%s: %.1f ms, at least %.1f\n", text, (double)both[i].took_ns * 1e-6,
               least_ns * 1e-6);
        /* the other rank may have started a little before this one read its clock */
        CHECK((double)both[i].took_ns >= least_ns / 2);
    }
    test_remove_tree(both[0].folder);
}

static void test_slow_links(void)
{
    test_a_slow_link("20ms+1GB");
    test_a_slow_link("1ms+1MB");
}

/* A failure while a 1 kB message that takes a minute is in flight. */
static void *fail_both_ways(void *user)
{
    static uint8_t bytes[1000], there[2] = {1, 1};
    const process *p = (const process *)user;
    spsh__comm *c = open_comm(p);
    spsh__comm_handle h[2] = {0, 0};
    const uint64_t begin_ns = spsh__now_ns();
    REQUIRE(c->ops->receive_fn(c, 1 - p->rank, 1, &there[p->rank], 1, &h[0], NULL) == SPSH_OK);
    if (p->rank == 0) {
        spsh__comm_fail(c);
    } else {
        REQUIRE(c->ops->send_fn(c, 0, 1, bytes, sizeof(bytes), &h[1], NULL) == SPSH_OK);
        CHECK(spsh__comm_await(c, h[1], 10)); /* the link is late, not the rank: */
        CHECK(c->ops->wait_fn(c, h[1], DEADLINE_MS, NULL) == SPSH_E_TIMEOUT);
    }
    CHECK(spsh__comm_has_failed(c->below) && spsh__comm_has_failed(c));
    spsh__comm_close(c);
    CHECK(spsh__now_ns() - begin_ns < DEADLINE_MS / 2 * UINT64_C(1000000));
    return NULL;
}

static void run_both(const char *link, void *(*process_fn)(void *user))
{
    process both[2];
    pthread_t threads[2];
    memset(both, 0, sizeof(both));
    test_temp_dir(both[0].folder, sizeof(both[0].folder));
    REQUIRE(spsh__link_read(link, &both[0].link, NULL) == SPSH_OK);
    both[1] = both[0];
    both[1].rank = 1;
    for (uint32_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, process_fn, &both[i]) == 0);
    for (uint32_t i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    test_remove_tree(both[0].folder);
}

/* After a failure, the link moves no more bytes of pending messages, and its close does not wait.
 */
static void test_a_failure_is_the_link_s(void)
{
    run_both("1us+16B", fail_both_ways);
}

/* Rank 1 receives a large message only after it is told to. */
static void *take_late(void *user)
{
    static uint8_t bytes[2][1000000];
    const process *p = (const process *)user;
    spsh__comm *c = open_comm(p);
    spsh__comm_handle h[2] = {0, 0};
    uint8_t byte = 0;
    if (p->rank == 0) {
        REQUIRE(c->ops->send_fn(c, 1, 1, bytes[0], sizeof(bytes[0]), &h[0], NULL) == SPSH_OK);
        CHECK(!spsh__comm_await(c, h[0], 1000));
        REQUIRE(c->ops->send_fn(c, 1, 2, &byte, 1, &h[1], NULL) == SPSH_OK);
        CHECK(spsh__comm_await(c, h[0], DEADLINE_MS));
        CHECK(c->ops->done_fn(c, h[0]));
        CHECK(c->ops->wait_fn(c, h[0], 0, NULL) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, h[1], DEADLINE_MS, NULL) == SPSH_OK);
    } else {
        REQUIRE(c->ops->receive_fn(c, 0, 2, &byte, 1, &h[1], NULL) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, h[1], DEADLINE_MS, NULL) == SPSH_OK);
        REQUIRE(c->ops->receive_fn(c, 0, 1, bytes[1], sizeof(bytes[1]), &h[0], NULL) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, h[0], DEADLINE_MS, NULL) == SPSH_OK);
    }
    spsh__comm_close(c);
    return NULL;
}

/* The late message causes no failure. */
static void test_who_is_late_can_be_asked(void)
{
    run_both("1us+1GB", take_late);
}

static spsh_train_options options_of(const char *const *slow, const char *const *freeze,
                                     const char *const *kill)
{
    spsh_train_options o = SPSH_TRAIN_OPTIONS_INIT;
    o.slow = slow;
    o.freeze = freeze;
    o.kill = kill;
    return o;
}

static void test_what_is_done_to_whom(void)
{
    static const char *const slow[] = {"1:10x", "0:2.5", NULL};
    static const char *const freeze[] = {"1:200+5s", NULL};
    static const char *const deaths[] = {"0:30s", NULL};
    const spsh_train_options o = options_of(slow, freeze, deaths);
    spsh__faults f;
    REQUIRE(spsh__faults_read(&o, 0, 2, &f, NULL) == SPSH_OK);
    CHECK(f.slow == 2.5 && !f.freeze.is_there && f.kill.is_there && !f.kill.is_step);
    CHECK_U64(f.kill.at, UINT64_C(30000000000));
    REQUIRE(spsh__faults_read(&o, 1, 2, &f, NULL) == SPSH_OK);
    CHECK(f.slow == 10 && f.freeze.is_there && f.freeze.is_step && !f.kill.is_there);
    CHECK(f.freeze.at == 200 && f.freeze.duration_ns == UINT64_C(5000000000));
}

static void test_what_cannot_be_done(void)
{
    static const struct {
        const char *slow[2], *freeze[2], *kill[2], *told;
    } of[] = {
        {{"2:10x", NULL}, {NULL},         {NULL},        "rank 2 does not exist"},
        {{"1", NULL},     {NULL},         {NULL},        "'1': expected"        },
        {{"0:0.5", NULL}, {NULL},         {NULL},        "faster"               },
        {{NULL},          {"0:5s", NULL}, {NULL},        "'0:5s'"               },
        {{NULL},          {NULL},         {"0", NULL},   "'0': expected"        },
        {{NULL},          {NULL},         {"9:3", NULL}, "rank 9 does not exist"},
    };
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        const spsh_train_options o = options_of(of[i].slow, of[i].freeze, of[i].kill);
        spsh_error err = SPSH_ERROR_INIT;
        spsh__faults f;
        CHECK(spsh__faults_read(&o, 0, 2, &f, &err) == SPSH_E_INVALID_ARG);
        CHECK(strstr(err.message, of[i].told) != NULL);
    }
}

/* It sleeps, and then continues. */
static void test_a_frozen_process_goes_on(void)
{
    spsh__faults f = {.slow = 1};
    f.freeze.is_there = f.freeze.is_step = true;
    f.freeze.at = 2;
    f.freeze.duration_ns = 50000000;
    const uint64_t begin_ns = spsh__now_ns();
    spsh__fault_before_step(&f);
    CHECK(f.freeze.is_there);
    spsh__fault_before_step(&f);
    CHECK(!f.freeze.is_there);
    CHECK(spsh__now_ns() - begin_ns >= 50000000);
    f.slow = 3;
    const uint64_t slow_ns = spsh__now_ns();
    spsh__fault_after_compute(&f, 0.01);
    CHECK(spsh__now_ns() - slow_ns >= 20000000);
}

TEST_MAIN(unit_train_fault)
{
    RUN(test_slow_links);
    RUN(test_a_failure_is_the_link_s);
    RUN(test_who_is_late_can_be_asked);
    RUN(test_what_is_done_to_whom);
    RUN(test_what_cannot_be_done);
    RUN(test_a_frozen_process_goes_on);
    return TEST_RESULT();
}

/* unit_train_runtime_sim.c: the simulation: links and deadlines to the nanosecond, faults, and
 * equal results of two runs. */
#include "runtime/runtime_sim.h"

#include <stdlib.h>

#include "fault_alloc.h"
#include "spsh_test.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static spsh__sim *open_sim(const spsh__sim_options *options)
{
    spsh__sim *sim = NULL;
    spsh__sim_options o = *options;
    if (o.allocator.alloc_fn == NULL)
        o.allocator = *spsh_allocator_default();
    REQUIRE(spsh__sim_open(&o, &sim, NULL) == SPSH_OK);
    return sim;
}

/* Links --------------------------------------------------------------------------------------- */

/* 0 sends two messages of 1,000 bytes, 1 answers both. */
static spsh_status ping(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    uint8_t bytes[2][1000] = {{0}};
    spsh__comm_handle in[2], out = 0;
    const uint32_t other = 1 - learner;
    for (int i = 0; i < 2; i++)
        CHECK(c->ops->receive_fn(c, other, 7, bytes[i], sizeof(bytes[i]), &in[i], err) == SPSH_OK);
    if (learner == 0) {
        uint8_t first[1000] = {1}, second[1000] = {2};
        CHECK(c->ops->send_fn(c, 1, 7, first, sizeof(first), &out, err) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, out, 1000, err) == SPSH_OK);
        CHECK(c->ops->send_fn(c, 1, 7, second, sizeof(second), &out, err) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, out, 1000, err) == SPSH_OK);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(c->ops->wait_fn(c, in[i], 1000, err) == SPSH_OK);
        CHECK_U64(bytes[i][0], (uint64_t)i + 1);
        /* each takes 1 us on the link and 10 us of latency; an answer is sent when its message
         * arrives */
        CHECK_U64(spsh__sim_now_ns(sim),
                  learner == 1 ? (11 + (uint64_t)i) * US : (22 + (uint64_t)i) * US);
        if (learner == 1) {
            CHECK(c->ops->send_fn(c, 0, 7, bytes[i], sizeof(bytes[i]), &out, err) == SPSH_OK);
            CHECK(c->ops->wait_fn(c, out, 1000, err) == SPSH_OK);
        }
    }
    return SPSH_OK;
}

static void test_links_take_their_time(void)
{
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 2, .latency_ns = 10 * US, .bytes_per_s = 1e9});
    CHECK(spsh__sim_run(sim, ping, sim, NULL) == SPSH_OK);
    CHECK_U64(spsh__sim_sent_bytes(sim, 0), 2000);
    spsh__sim_close(sim);
}

/* All send to one: its link takes one message after the other. */
static spsh_status flood(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    static const uint8_t zeros[5000];
    spsh__comm_handle handle = 0;
    if (learner > 0)
        return c->ops->send_fn(c, 0, 1, zeros, sizeof(zeros), &handle, err);
    for (uint32_t from = 1; from < c->world_size; from++) {
        uint8_t bytes[5000];
        CHECK(c->ops->receive_fn(c, from, 1, bytes, sizeof(bytes), &handle, err) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, handle, 1000, err) == SPSH_OK);
        CHECK_U64(spsh__sim_now_ns(sim), (10 + 5 * (uint64_t)from) * US);
    }
    return SPSH_OK;
}

static void test_a_link_is_shared_by_those_who_send_there(void)
{
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 5, .latency_ns = 10 * US, .bytes_per_s = 1e9});
    CHECK(spsh__sim_run(sim, flood, sim, NULL) == SPSH_OK);
    CHECK_U64(spsh__sim_now_ns(sim), 30 * US);
    spsh__sim_close(sim);
}

/* A large message, then a small one, with the same tag. */
static spsh_status send_two_sizes(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    uint8_t large[1000] = {1}, small[10] = {2};
    spsh__comm_handle handle = 0;
    if (learner == 0) {
        CHECK(c->ops->send_fn(c, 1, 7, large, sizeof(large), &handle, err) == SPSH_OK);
        return c->ops->send_fn(c, 1, 7, small, sizeof(small), &handle, err);
    }
    memset(large, 0, sizeof(large));
    CHECK(c->ops->receive_fn(c, 0, 7, large, sizeof(large), &handle, err) == SPSH_OK);
    CHECK(c->ops->wait_fn(c, handle, 1000, err) == SPSH_OK);
    CHECK(large[0] == 1);
    CHECK_U64(spsh__sim_now_ns(sim), 3 * US);
    CHECK(c->ops->receive_fn(c, 0, 7, small, sizeof(small), &handle, err) == SPSH_OK);
    CHECK(c->ops->wait_fn(c, handle, 1000, err) == SPSH_OK);
    CHECK(small[0] == 2);
    CHECK_U64(spsh__sim_now_ns(sim), 3 * US + 10);
    return SPSH_OK;
}

/* Messages keep their order on any link: 2 us of latency, 1 ns per byte. */
static void test_messages_come_in_their_order(void)
{
    for (uint32_t node_size = 0; node_size <= 2; node_size += 2) {
        spsh__sim *sim = open_sim(&(spsh__sim_options){.learners = 2,
                                                       .latency_ns = 2 * US,
                                                       .bytes_per_s = 1e9,
                                                       .node_size = node_size,
                                                       .node_latency_ns = 2 * US,
                                                       .node_bytes_per_s = 1e9});
        CHECK(spsh__sim_run(sim, send_two_sizes, sim, NULL) == SPSH_OK);
        spsh__sim_close(sim);
    }
}

/* Rank 0 stops waiting. Messages that arrive later go to later receives, in their order. */
static spsh_status give_up(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    uint8_t given_up[2] = {0}, found[2] = {0};
    spsh__comm_handle handle = 0, in[2];
    for (uint32_t i = 0; i < 2; i++)
        CHECK(c->ops->receive_fn(c, 1 - learner, 9 - 2 * i, &given_up[i], 1, &in[i], err) ==
              SPSH_OK);
    for (uint32_t i = 0; i < 2; i++) /* 0 gives up at 1 ms and 6 ms; 1 sends at 4 */
        CHECK(c->ops->wait_fn(c, in[1 - i], learner == 0 ? 1 + 4 * i : 2, NULL) == SPSH_E_TIMEOUT);
    for (uint8_t i = 1; i <= 2 && learner == 1; i++)
        CHECK(c->ops->send_fn(c, 0, 7, &i, 1, &handle, err) == SPSH_OK);
    if (learner == 1)
        return SPSH_OK;
    for (int i = 0; i < 2; i++) {
        CHECK(c->ops->receive_fn(c, 1, 7, &found[i], 1, &in[i], err) == SPSH_OK);
        CHECK(c->ops->done_fn(c, in[i])); /* the message came before the receive was posted */
    }
    for (int i = 1; i >= 0; i--)
        CHECK(c->ops->wait_fn(c, in[i], 1000, err) == SPSH_OK);
    CHECK(given_up[0] == 0 && given_up[1] == 0 && found[0] == 1 && found[1] == 2);
    return SPSH_OK;
}

static void test_what_is_given_up_takes_nothing(void)
{
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 2, .latency_ns = 10 * US, .bytes_per_s = 1e9});
    CHECK(spsh__sim_run(sim, give_up, sim, NULL) == SPSH_OK);
    spsh__sim_close(sim);
}

/* A long wait, a short one, a short one without time, and a short one again. */
static spsh_status hurry(void *user, uint32_t learner, spsh_error *err)
{
    static const size_t sizes[] = {5000, 1, 1, 1};
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    spsh__comm_handle handle = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t bytes[5000] = {(uint8_t)i};
        if (learner == 0) {
            spsh__sim_rest(sim, 0, i == 2);
            CHECK(c->ops->send_fn(c, 1, 3, bytes, sizes[i], &handle, err) == SPSH_OK);
            continue;
        }
        CHECK(c->ops->receive_fn(c, 0, 3, bytes, sizeof(bytes), &handle, err) == SPSH_OK);
        CHECK(c->ops->wait_fn(c, handle, 1000, err) == SPSH_OK);
        CHECK_U64(bytes[0], i);
    }
    return SPSH_OK;
}

/* The first learner rests after sending: its message arrives at once. */
static spsh_status rest(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    uint64_t values[1000] = {learner};
    spsh__sim_rest(sim, learner, true);
    CHECK(spsh__comm_broadcast(spsh__sim_comm(sim, learner), values, sizeof(values), 0, err) ==
          SPSH_OK);
    CHECK_U64(spsh__sim_now_ns(sim), 0);
    spsh__sim_rest(sim, learner, false);
    CHECK(spsh__comm_broadcast(spsh__sim_comm(sim, learner), values, sizeof(values), 0, err) ==
          SPSH_OK);
    CHECK(learner == 0 || spsh__sim_now_ns(sim) == 18 * US);
    return SPSH_OK;
}

static void test_no_message_overtakes_another(void)
{
    for (uint32_t node = 0; node <= 2; node += 2) {
        spsh__sim *sim = open_sim(&(spsh__sim_options){.learners = 2,
                                                       .latency_ns = 10 * US,
                                                       .bytes_per_s = 1e9,
                                                       .node_size = node,
                                                       .node_latency_ns = US,
                                                       .node_bytes_per_s = 1e9});
        CHECK(spsh__sim_run(sim, hurry, sim, NULL) == SPSH_OK);
        spsh__sim_close(sim);
    }
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 2, .latency_ns = 10 * US, .bytes_per_s = 1e9});
    CHECK(spsh__sim_run(sim, rest, sim, NULL) == SPSH_OK);
    spsh__sim_close(sim);
}

/* One learner ends the run. The other sees at once that its further work does not count. */
static spsh_status end_all(void *user, uint32_t learner, spsh_error *err)
{
    spsh__sim *sim = (spsh__sim *)user;
    spsh__comm *c = spsh__sim_comm(sim, learner);
    uint8_t byte = 0;
    spsh__comm_handle handle = 0;
    if (learner == 1) {
        spsh__sim_end(sim);
        return SPSH_OK;
    }
    CHECK(c->ops->receive_fn(c, 1, 3, &byte, 1, &handle, err) == SPSH_OK);
    CHECK(c->ops->wait_fn(c, handle, 1000, err) == SPSH_E_CANCELED);
    CHECK(spsh__comm_has_failed(c));
    CHECK_U64(spsh__sim_now_ns(sim), 0);
    return SPSH_E_CANCELED;
}

static void test_an_end_is_one_for_all(void)
{
    spsh__sim *sim = open_sim(&(spsh__sim_options){.learners = 2});
    CHECK(spsh__sim_run(sim, end_all, sim, NULL) == SPSH_OK);
    spsh__sim_close(sim);
}

/* Tasks --------------------------------------------------------------------------------------- */

typedef struct counter {
    spsh__sim *sim;
    spsh__runtime *runtime;
    uint64_t served, numbers, served_ns, computed_ns;
    spsh_status fails;
} counter;

static spsh_status count_message(void *user, const spsh__message *m, spsh_error *err)
{
    counter *c = (counter *)user;
    CHECK_U64(m->from, 1 - c->runtime->rank);
    CHECK_U64(m->number, c->served); /* in the order in which they were sent */
    CHECK_U64(m->size_bytes, 8);
    c->served++;
    c->numbers += *(const uint8_t *)m->bytes;
    c->served_ns = spsh__sim_now_ns(c->sim);
    if (c->fails != SPSH_OK)
        spsh_error_set(err, c->fails, 0, SPSH_OFFSET_NONE, "as it was told to");
    return c->fails;
}

static bool has_three(void *user)
{
    return ((counter *)user)->served == 3;
}

static const spsh__mark here = {5, 0, 1};

/* 1 computes 10 ms and posts after 1, 2, and 3 ms; 0 computes 20 ms, then waits. */
static spsh_status two_tasks(void *user, uint32_t learner, spsh_error *err)
{
    counter *c = (counter *)user + learner;
    spsh__runtime *t = c->runtime;
    if (learner == 0) {
        t->ops->compute_fn(t, 20 * MS);
        c->computed_ns = spsh__sim_now_ns(c->sim);
        return t->ops->wait_fn(t, &here, has_three, c, 0, err);
    }
    for (uint64_t i = 0; i < 3; i++) {
        uint8_t bytes[8] = {(uint8_t)(i + 1)};
        const spsh__message m = {.kind = 9, .number = i, .bytes = bytes, .size_bytes = 8};
        t->ops->compute_fn(t, MS);
        const spsh_status rc = t->ops->post_fn(t, 0, &m, err);
        if (rc != SPSH_OK)
            return rc;
        bytes[0] = 100; /* it was copied */
    }
    return SPSH_OK;
}

static void start_counters(spsh__sim *sim, counter *counters, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        counters[i].sim = sim;
        counters[i].runtime = spsh__sim_runtime(sim, i);
        counters[i].runtime->ops->listen_fn(counters[i].runtime, SPSH__SERVICE_STRATEGY,
                                            count_message, &counters[i]);
    }
}

/* With a separate serving task, messages are served while the learner computes. Without one, they
 * are served after that. */
static void test_messages_are_served_meanwhile(void)
{
    for (int alone = 0; alone < 2; alone++) {
        counter counters[2] = {{.sim = NULL}};
        spsh__sim *sim = open_sim(&(spsh__sim_options){.learners = 2, .serves_itself = alone});
        start_counters(sim, counters, 2);
        CHECK(spsh__sim_run(sim, two_tasks, counters, NULL) == SPSH_OK);
        CHECK_U64(counters[0].numbers, 6);
        CHECK_U64(counters[0].served_ns, alone ? 20 * MS : 3 * MS);
        CHECK_U64(spsh__sim_now_ns(sim), 20 * MS);
        spsh__sim_close(sim);
    }
}

static void test_what_serving_fails_with_is_told(void)
{
    counter counters[2] = {{.sim = NULL}};
    spsh_error err = SPSH_ERROR_INIT;
    spsh__sim *sim = open_sim(&(spsh__sim_options){.learners = 2});
    counters[0].fails = SPSH_E_CORRUPT;
    start_counters(sim, counters, 2);
    CHECK(spsh__sim_run(sim, two_tasks, counters, &err) == SPSH_E_CORRUPT);
    CHECK_STR(err.message, "as it was told to");
    CHECK_U64(counters[0].served, 1);
    spsh__sim_close(sim);
}

/* Faults -------------------------------------------------------------------------------------- */

static void test_slow_and_frozen(void)
{
    const spsh__sim_fault faults[] = {
        {SPSH__SIM_SLOW,   1, 10, 0,        0      }, /* posts at 10, 20, 30 ms */
        {SPSH__SIM_FREEZE, 0, 0,  15 * MS,  25 * MS}, /* serves the second at 25 */
        {SPSH__SIM_SLOW,   0, 3,  100 * MS, 0      }, /* after the end */
    };
    counter counters[2] = {{.sim = NULL}};
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 2, .faults = faults, .fault_count = 3});
    start_counters(sim, counters, 2);
    CHECK(spsh__sim_run(sim, two_tasks, counters, NULL) == SPSH_OK);
    CHECK_U64(counters[0].computed_ns, 25 * MS);
    CHECK_U64(counters[0].served_ns, 30 * MS);
    CHECK_U64(spsh__sim_now_ns(sim), 30 * MS);
    spsh__sim_close(sim);
}

static spsh_status compute_twice(void *user, uint32_t learner, spsh_error *err)
{
    spsh__runtime *t = spsh__sim_runtime((spsh__sim *)user, learner);
    (void)err;
    t->ops->compute_fn(t, MS);
    t->ops->compute_fn(t, MS);
    return SPSH_OK;
}

static void test_the_clock_has_an_end(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_SLOW, 0, 1e30, 0, 0};
    spsh__sim *sim =
        open_sim(&(spsh__sim_options){.learners = 1, .faults = &fault, .fault_count = 1});
    CHECK(spsh__sim_run(sim, compute_twice, sim, NULL) == SPSH_OK);
    CHECK_U64(spsh__sim_now_ns(sim), UINT64_MAX / 2);
    spsh__sim_close(sim);
}

static void test_a_dead_learner_is_missed_within_the_deadline(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_KILL, 1, 0, 2 * MS + 1, 0};
    counter counters[2] = {{.sim = NULL}};
    spsh_error err = SPSH_ERROR_INIT;
    spsh__sim *sim = open_sim(
        &(spsh__sim_options){.learners = 2, .deadline_ms = 50, .faults = &fault, .fault_count = 1});
    start_counters(sim, counters, 2);
    CHECK(spsh__sim_run(sim, two_tasks, counters, &err) == SPSH_E_TIMEOUT);
    CHECK_STR(err.message,
              "learner 0 waited 50 ms for the others without success (mark 5, number 1)");
    CHECK_U64(counters[0].served, 2);
    CHECK_U64(spsh__sim_now_ns(sim), 70 * MS);
    CHECK(spsh__sim_is_dead(sim, 1) && !spsh__sim_is_dead(sim, 0));
    spsh__sim_close(sim);
}

static void test_faults_of_nobody_are_refused(void)
{
    const spsh__sim_fault faults[] = {
        {SPSH__SIM_KILL, 2, 0, 0, 0},
        {SPSH__SIM_SLOW, 0, 0, 0, 0}
    };
    for (int i = 0; i < 2; i++) {
        spsh__sim *sim = NULL;
        const spsh__sim_options o = {.allocator = *spsh_allocator_default(),
                                     .learners = 2,
                                     .faults = &faults[i],
                                     .fault_count = 1};
        CHECK(spsh__sim_open(&o, &sim, NULL) == SPSH_E_INVALID_ARG);
    }
}

/* Two runs ------------------------------------------------------------------------------------ */

#define LEARNERS 16

typedef struct gossip {
    spsh__sim *sim;
    uint64_t hashes[LEARNERS];
} gossip;

typedef struct gossiper {
    gossip *all;
    uint32_t learner;
} gossiper;

static spsh_status hear(void *user, const spsh__message *m, spsh_error *err)
{
    const gossiper *g = (const gossiper *)user;
    uint64_t *hash = &g->all->hashes[g->learner];
    (void)err;
    *hash = (*hash ^ (m->from + 1) ^ spsh__sim_now_ns(g->all->sim)) * UINT64_C(0x100000001b3);
    return SPSH_OK;
}

static spsh_status chatter(void *user, uint32_t learner, spsh_error *err)
{
    gossip *all = (gossip *)user;
    spsh__runtime *t = spsh__sim_runtime(all->sim, learner);
    uint64_t state = learner;
    for (int i = 0; i < 50; i++) {
        const spsh__message m = {.number = (uint64_t)i, .bytes = all, .size_bytes = 64};
        t->ops->compute_fn(t, MS);
        CHECK(t->ops->post_fn(t, (uint32_t)(test_random(&state) % LEARNERS), &m, err) == SPSH_OK);
    }
    return SPSH_OK;
}

static uint64_t run_chatter(uint64_t seed)
{
    gossip all = {0};
    gossiper each[LEARNERS];
    uint64_t sum = 0;
    all.sim = open_sim(&(spsh__sim_options){.learners = LEARNERS,
                                            .latency_ns = 50 * US,
                                            .bytes_per_s = 1e6,
                                            .jitter = 0.5,
                                            .seed = seed});
    for (uint32_t i = 0; i < LEARNERS; i++) {
        each[i] = (gossiper){&all, i};
        spsh__runtime *t = spsh__sim_runtime(all.sim, i);
        t->ops->listen_fn(t, SPSH__SERVICE_STRATEGY, hear, &each[i]);
    }
    CHECK(spsh__sim_run(all.sim, chatter, &all, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < LEARNERS; i++)
        sum = (sum ^ all.hashes[i]) * UINT64_C(0x100000001b3);
    spsh__sim_close(all.sim);
    return sum;
}

static void test_a_seed_has_one_run(void)
{
    const uint64_t first = run_chatter(1);
    CHECK_U64(run_chatter(1), first);
    CHECK(run_chatter(2) != first);
}

/* Every allocation of opening and of a run fails once. The failing learner, or the one that waits
 * for it, gets an error, and nothing leaks. */
static void test_no_memory(void)
{
    bool has_run = false;
    for (uint64_t at = 0; !has_run; at++) {
        fault_alloc fault = {.fail_at = at};
        counter counters[2] = {{.sim = NULL}};
        spsh__sim *sim = NULL;
        REQUIRE(at < 1000);
        const spsh__sim_options o = {
            .allocator = {fault_alloc_alloc, fault_alloc_free, &fault},
              .learners = 2
        };
        spsh_status rc = spsh__sim_open(&o, &sim, NULL);
        if (rc == SPSH_OK) {
            start_counters(sim, counters, 2);
            rc = spsh__sim_run(sim, two_tasks, counters, NULL);
            has_run = rc == SPSH_OK;
        }
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_TIMEOUT);
        spsh__sim_close(sim);
        CHECK_I64(fault.live_count, 0);
    }
}

TEST_MAIN(unit_train_runtime_sim)
{
    RUN(test_links_take_their_time);
    RUN(test_a_link_is_shared_by_those_who_send_there);
    RUN(test_messages_come_in_their_order);
    RUN(test_what_is_given_up_takes_nothing);
    RUN(test_no_message_overtakes_another);
    RUN(test_an_end_is_one_for_all);
    RUN(test_messages_are_served_meanwhile);
    RUN(test_what_serving_fails_with_is_told);
    RUN(test_slow_and_frozen);
    RUN(test_the_clock_has_an_end);
    RUN(test_a_dead_learner_is_missed_within_the_deadline);
    RUN(test_faults_of_nobody_are_refused);
    RUN(test_a_seed_has_one_run);
    RUN(test_no_memory);
    return TEST_RESULT();
}

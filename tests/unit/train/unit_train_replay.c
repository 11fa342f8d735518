/* unit_train_replay.c: a run that depends on chance is recorded, and its replay produces identical
 * bits. Records that are cut, damaged, or from another run are reported. */
#include "runtime/runtime_replay.h"

#include <math.h>

#include "spsh_test.h"

#define LEARNERS 6
#define STEPS    20
#define PARTS    3

enum { ASK = 1, ANSWER = 2, BYE = 3, APPLY = 1, POST = 2, WAIT = 3 };

/* Learners that read each other's numbers while they increase them. Each order of the reads has a
 * different result. */
typedef struct puller {
    spsh__runtime *runtime;
    double parts[PARTS];
    uint64_t asked, answered, gone;
    uint64_t steps;
} puller;

typedef struct world {
    char folder[64];
    spsh__record_options record;
    puller pullers[LEARNERS];
    spsh__comm *comms[LEARNERS];
    uint64_t steps;            /* steps per learner */
    spsh__sim_body_fn body_fn; /* body of each learner */
} world;

static spsh_status serve(void *user, const spsh__message *m, spsh_error *err)
{
    puller *p = (puller *)user;
    const double mine = p->parts[m->part];
    double theirs = 0;
    if (m->kind == BYE) {
        p->gone++;
        return SPSH_OK;
    }
    memcpy(&theirs, m->bytes, sizeof(theirs));
    p->parts[m->part] += (theirs - mine) / 3;
    if (m->kind == ANSWER) {
        p->answered++;
        return SPSH_OK;
    }
    const spsh__message answer = {.kind = ANSWER,
                                  .part = m->part,
                                  .number = m->number,
                                  .bytes = &mine,
                                  .size_bytes = sizeof(mine)};
    return p->runtime->ops->post_fn(p->runtime, m->from, &answer, err);
}

static bool has_answers(void *user)
{
    const puller *p = (const puller *)user;
    return p->answered == p->asked;
}

static bool is_alone(void *user)
{
    return ((const puller *)user)->gone == LEARNERS - 1;
}

/* A learner that has done all its steps answers others until all have finished. */
static spsh_status send_bye(puller *p, spsh_error *err)
{
    static const spsh__mark mark = {WAIT, 0, 0};
    const spsh__message bye = {.kind = BYE};
    spsh__runtime *t = p->runtime;
    spsh_status rc = SPSH_OK;
    for (uint32_t to = 0; rc == SPSH_OK && to < LEARNERS; to++)
        if (to != t->rank)
            rc = t->ops->post_fn(t, to, &bye, err);
    return rc != SPSH_OK ? rc : t->ops->wait_fn(t, &mark, is_alone, p, 0, err);
}

static spsh_status ask(puller *p, uint32_t to, uint32_t part, spsh_error *err)
{
    spsh__runtime *t = p->runtime;
    const spsh__mark mark = {POST, part, p->asked};
    spsh_status rc = t->ops->enter_fn(t, &mark, err);
    if (rc != SPSH_OK)
        return rc;
    const double mine = p->parts[part];
    const spsh__message m = {.kind = ASK,
                             .part = part,
                             .number = p->asked++,
                             .bytes = &mine,
                             .size_bytes = sizeof(mine)};
    rc = t->ops->post_fn(t, to, &m, err);
    t->ops->leave_fn(t);
    return rc;
}

static spsh_status step(puller *p, double *read, uint64_t *state, spsh_error *err)
{
    static const spsh__mark answers = {WAIT, 0, 0};
    spsh__runtime *t = p->runtime;
    uint64_t to = test_random(state) % (LEARNERS - 1);
    spsh_status rc = t->ops->note_fn(t, &to, err);
    to += to >= t->rank;
    for (uint32_t part = 0; rc == SPSH_OK && part < PARTS; part++)
        rc = ask(p, (uint32_t)to, part, err);
    t->ops->compute_fn(t, 1000000);
    for (uint32_t part = 0; rc == SPSH_OK && part < PARTS; part++) {
        const spsh__mark mark = {APPLY, part, p->steps};
        rc = t->ops->enter_fn(t, &mark, err);
        if (rc != SPSH_OK)
            return rc;
        p->parts[part] = p->parts[part] * 1.01 + sin(read[part]);
        read[part] = p->parts[part];
        t->ops->leave_fn(t);
    }
    p->steps++;
    return rc != SPSH_OK ? rc : t->ops->wait_fn(t, &answers, has_answers, p, 0, err);
}

static spsh_status pull(void *user, uint32_t learner, spsh_error *err)
{
    world *w = (world *)user;
    puller *p = &w->pullers[learner];
    double read[PARTS] = {1, 2, 3};
    uint64_t state = learner; /* a replay draws other numbers, so only notes count */
    if (strcmp(p->runtime->ops->name, "replay") == 0)
        state = 1000;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && p->steps < w->steps)
        rc = step(p, read, &state, err);
    return rc != SPSH_OK ? rc : send_bye(p, err);
}

static void start(world *w, spsh__runtime *t, uint32_t learner)
{
    puller *p = &w->pullers[learner];
    *p = (puller){
        .runtime = t, .parts = {learner, 2.0 * learner, 0.5}
    };
    if (w->body_fn == pull)
        t->ops->listen_fn(t, SPSH__SERVICE_STRATEGY, serve, p);
}

static bool has_one(void *user)
{
    return ((const puller *)user)->gone == 1;
}

/* Learner 0 posts to learner 1 at once. Learner 1 serves the message after it has received one from
 * learner 2.
 */
static spsh_status listen_late(void *user, uint32_t learner, spsh_error *err)
{
    static const spsh__mark mark = {WAIT, 0, 0};
    const spsh__message bye = {.kind = BYE};
    puller *p = &((world *)user)->pullers[learner];
    spsh__comm *c = ((world *)user)->comms[learner];
    spsh__runtime *t = p->runtime;
    spsh__comm_handle handle = 0;
    uint8_t byte = 0;
    if (learner == 0)
        return t->ops->post_fn(t, 1, &bye, err);
    if (learner == 2)
        return c->ops->send_fn(c, 1, 1, &byte, 1, &handle, err);
    if (learner != 1)
        return SPSH_OK;
    spsh_status rc = c->ops->receive_fn(c, 2, 1, &byte, 1, &handle, err);
    if (rc == SPSH_OK)
        rc = c->ops->wait_fn(c, handle, 1000, err);
    t->ops->listen_fn(t, SPSH__SERVICE_STRATEGY, serve, p);
    return rc != SPSH_OK ? rc : t->ops->wait_fn(t, &mark, has_one, p, 0, err);
}

static void open_world(world *w)
{
    *w = (world){.steps = STEPS, .body_fn = pull};
    test_temp_dir(w->folder, sizeof(w->folder));
    w->record = (spsh__record_options){spsh_allocator_default(), spsh_io_default(), w->folder, 77};
}

/* Record in a simulation with random times. */
static void record(world *w, const spsh__sim_fault *fault)
{
    spsh__sim *sim = NULL;
    spsh__runtime *recorded[LEARNERS];
    const spsh__sim_options o = {.allocator = *spsh_allocator_default(),
                                 .learners = LEARNERS,
                                 .latency_ns = 300000,
                                 .bytes_per_s = 1e5,
                                 .jitter = 1,
                                 .seed = 5,
                                 .deadline_ms = 1000,
                                 .faults = fault,
                                 .fault_count = fault != NULL};
    REQUIRE(spsh__sim_open(&o, &sim, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        REQUIRE(spsh__record_open(&w->record, spsh__sim_runtime(sim, i), &recorded[i], NULL) ==
                SPSH_OK);
        w->comms[i] = spsh__sim_comm(sim, i);
        start(w, recorded[i], i);
    }
    const spsh_status rc = spsh__sim_run(sim, w->body_fn, w, NULL);
    CHECK_I64(rc, fault == NULL ? SPSH_OK : SPSH_E_TIMEOUT);
    for (uint32_t i = 0; i < LEARNERS; i++)
        recorded[i]->ops->close_fn(recorded[i]);
    spsh__sim_close(sim);
}

static spsh_status replay(world *w, spsh_error *err)
{
    spsh__replay *again = NULL;
    spsh_status rc = spsh__replay_open(&w->record, LEARNERS, &again, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t i = 0; i < LEARNERS; i++) {
        w->comms[i] = spsh__replay_comm(again, i);
        start(w, spsh__replay_runtime(again, i), i);
    }
    rc = spsh__replay_run(again, w->body_fn, w, err);
    spsh__replay_close(again);
    return rc;
}

static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, PARTS * sizeof(double)) == 0;
}

static void check_same(const world *a, const world *b)
{
    for (uint32_t i = 0; i < LEARNERS; i++) {
        CHECK(is_same(a->pullers[i].parts, b->pullers[i].parts));
        CHECK_U64(a->pullers[i].steps, b->pullers[i].steps);
    }
}

static void test_a_run_comes_to_the_same_bits(void)
{
    world w;
    open_world(&w);
    record(&w, NULL);
    world first = w;
    CHECK(isfinite(first.pullers[0].parts[0]) && first.pullers[0].steps == STEPS);
    CHECK(replay(&w, NULL) == SPSH_OK);
    check_same(&first, &w);
    test_remove_tree(w.folder);
}

static void test_nobody_is_served_before_it_listens(void)
{
    world w;
    open_world(&w);
    w.body_fn = listen_late;
    record(&w, NULL);
    CHECK_U64(w.pullers[1].gone, 1);
    CHECK(replay(&w, NULL) == SPSH_OK);
    CHECK_U64(w.pullers[1].gone, 1);
    test_remove_tree(w.folder);
}

/* The replay repeats the steps of a killed learner, and the steps of the others until they detected
 * the loss. */
static void test_a_learner_that_was_killed(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_KILL, 2, 0, 9000000, 0};
    world w;
    open_world(&w);
    record(&w, &fault);
    world first = w;
    CHECK(first.pullers[2].steps < STEPS);
    spsh_error err = SPSH_ERROR_INIT;
    CHECK(replay(&w, &err) == SPSH_OK);
    check_same(&first, &w);
    test_remove_tree(w.folder);
}

static void test_other_programs_are_told_from_it(void)
{
    world w;
    spsh_error err = SPSH_ERROR_INIT;
    open_world(&w);
    record(&w, NULL);
    w.steps = STEPS - 1; /* marks are left over */
    CHECK(replay(&w, &err) == SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "does not follow its record") != NULL);
    w.steps = STEPS;
    w.record.run = 78;
    CHECK(replay(&w, &err) == SPSH_E_MISMATCH);
    CHECK(strstr(err.message, "in a different run") != NULL);
    test_remove_tree(w.folder);
}

TEST_MAIN(unit_train_replay)
{
    RUN(test_a_run_comes_to_the_same_bits);
    RUN(test_nobody_is_served_before_it_listens);
    RUN(test_a_learner_that_was_killed);
    RUN(test_other_programs_are_told_from_it);
    return TEST_RESULT();
}

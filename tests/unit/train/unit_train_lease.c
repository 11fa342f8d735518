/* unit_train_lease.c: leases. Every step of every epoch is acknowledged once, even if learners are
 * slow, die, stop, or restart. Tested in a simulation, between threads that act as processes, and
 * in replays.
 *
 * A row is 1, the step, and its square. The sums over an epoch must be the sums over all its steps.
 */
#include "runtime/lease.h"

#include <pthread.h>

#include <xxhash.h>

#include "comm/rendezvous.h"
#include "runtime/comm_sub.h"
#include "runtime/lease_server.h"
#include "runtime/runtime_processes.h"
#include "runtime/runtime_replay.h"
#include "spsh_test.h"

#define LEARNERS_MAX 8
#define EPOCHS_MAX   3
#define STEPS        40
#define SAMPLES      10 /* samples per batch */
#define MS           UINT64_C(1000000)
#define TRIES        8
#define NOBODY       UINT32_MAX

typedef struct world world;

typedef struct learner {
    world *world;
    uint32_t rank;
    spsh__runtime *runtime;
    spsh__comm *comm; /* between threads */
    spsh__leases *leases;
    spsh__lease queue[SPSH__LEASE_AHEAD_MAX + 1]; /* taken, but not processed yet */
    uint32_t first, count;
    uint64_t steps, hash; /* steps and hash of its leases */
    bool is_given_up;     /* another rank has declared it dead */
    spsh_status status;
    spsh_error error;
} learner;

struct world {
    /* settings */
    uint32_t learners, ahead, epochs;
    uint32_t node_size; /* above 1: one learner takes the leases of its node (simulated) */
    uint64_t steps;
    const spsh__sim_fault *faults;
    uint32_t fault_count;
    uint32_t frozen; /* learner that is declared dead, but is not; NOBODY */
    double jitter;
    uint64_t step_ns;
    spsh__lease_round round;
    uint64_t save_at, stop_at; /* in steps: of rank 0; of the last rank; 0: never */
    spsh__lease_state from;    /* initial state */
    char folder[64], records[80];
    bool is_recorded, looks_around; /* look for dead learners after each step */
    /* results */
    spsh__sim *sim;
    learner all[LEARNERS_MAX];
    double sums[EPOCHS_MAX][3];
    uint64_t updates[EPOCHS_MAX];
    uint32_t reasons, pauses, returned;
    spsh__lease_state last;
};

/* ---- a learner ---- */

static bool is_dead(const world *w, uint32_t rank)
{
    for (uint32_t i = 0; w->sim != NULL && i < w->fault_count; i++)
        if (w->faults[i].kind == SPSH__SIM_KILL && w->faults[i].learner == rank &&
            spsh__sim_now_ns(w->sim) >= w->faults[i].from_ns)
            return true;
    return rank == w->frozen;
}

/* Tell rank 0 that `rank` will not be heard of again. */
static spsh_status lose(spsh__runtime *t, uint32_t rank, spsh_error *err)
{
    const spsh__message m = {.kind = SPSH__LEASE_LOST, .part = rank};
    return t->ops->post_fn(t, 0, &m, err);
}

/* After a timeout, report the dead learners. */
static spsh_status report(const learner *l, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 1; rc == SPSH_OK && r < l->world->learners; r++)
        if (r != l->rank && is_dead(l->world, r))
            rc = lose(l->runtime, r, err);
    return rc;
}

/* Also look for dead learners after each step, if looks_around is set. */
static spsh_status look_around(const learner *l, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t r = 1; rc == SPSH_OK && r < l->world->learners; r++) {
        uint64_t dead = is_dead(l->world, r);
        rc = l->runtime->ops->note_fn(l->runtime, &dead, err);
        if (rc == SPSH_OK && dead != 0 && r != l->rank)
            rc = lose(l->runtime, r, err);
    }
    return rc;
}

static spsh_status take(learner *l, spsh__lease_taken *ret, spsh_error *err)
{
    spsh__lease lease = {0, 0, 0, 0, 0};
    spsh_status rc = SPSH_E_TIMEOUT;
    for (int tries = 0; rc == SPSH_E_TIMEOUT && tries < TRIES; tries++) {
        rc = spsh__leases_take(l->leases, l->count == 0, &lease, ret, err);
        if (rc == SPSH_E_TIMEOUT && l->rank == l->world->frozen)
            l->is_given_up = true;
        if (rc == SPSH_E_TIMEOUT && report(l, err) != SPSH_OK)
            return rc;
    }
    if (rc == SPSH_OK && *ret == SPSH__LEASE_TAKEN) {
        CHECK(l->count <= l->world->ahead);
        l->queue[(l->first + l->count++) % (SPSH__LEASE_AHEAD_MAX + 1)] = lease;
        const uint64_t seen[5] = {l->hash, lease.epoch, lease.step, lease.samples, lease.updates};
        l->hash = XXH3_64bits(seen, sizeof(seen));
    }
    return rc;
}

static spsh_status work(learner *l, spsh_error *err)
{
    world *w = l->world;
    const spsh__lease lease = l->queue[l->first];
    const double step = (double)lease.step;
    const double row[3] = {1, step, step * step};
    spsh__lease_done done = {
        .number = lease.number, .samples = SAMPLES, .row = row, .row_count = 3};
    l->first = (l->first + 1) % (SPSH__LEASE_AHEAD_MAX + 1);
    l->count--;
    l->runtime->ops->compute_fn(l->runtime, w->step_ns);
    l->steps++;
    if (w->stop_at == l->steps && l->rank + 1 == w->learners)
        done.reasons = SPSH__PAUSE_STOP;
    spsh_status rc = spsh__leases_acknowledge(l->leases, &done, err);
    if (rc == SPSH_OK && w->save_at == l->steps && l->rank == 0)
        rc = spsh__leases_pause(l->leases, SPSH__PAUSE_SAVE | SPSH__PAUSE_EVALUATE, err);
    if (rc == SPSH_OK && w->looks_around)
        rc = look_around(l, err);
    return rc;
}

/* On rank 0, add up the acknowledged totals, and keep the lease state that belongs to them. */
static spsh_status count(learner *l, spsh_error *err)
{
    world *w = l->world;
    double sums[4];
    uint64_t updates = 0;
    spsh__lease_state state;
    spsh_status rc = spsh__leases_state(l->leases, &state, err);
    if (rc == SPSH_OK)
        rc = spsh__leases_totals(l->leases, sums, 4, &updates, err);
    if (rc != SPSH_OK)
        return rc;
    REQUIRE(state.epoch < EPOCHS_MAX);
    CHECK_U64((uint64_t)sums[0], updates);
    CHECK(sums[3] == 0);
    w->updates[state.epoch] += updates;
    for (int i = 0; i < 3; i++)
        w->sums[state.epoch][i] += sums[i];
    return SPSH_OK;
}

static spsh_status meet(learner *l, spsh__lease_state *state, spsh_error *err)
{
    world *w = l->world;
    spsh_status rc = SPSH_E_TIMEOUT;
    for (int tries = 0; rc == SPSH_E_TIMEOUT && tries < TRIES; tries++) {
        rc = spsh__leases_meet(l->leases, state, err);
        if (rc == SPSH_E_TIMEOUT && report(l, err) != SPSH_OK)
            return rc;
    }
    if (rc != SPSH_OK || l->rank != 0)
        return rc;
    w->reasons |= state->reasons;
    w->returned += state->returned;
    w->last = *state;
    w->pauses++;
    return count(l, err);
}

/* Until the barrier. */
static spsh_status go_round(learner *l, spsh_error *err)
{
    spsh__lease_taken taken = SPSH__LEASE_TAKEN;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK) {
        do
            rc = take(l, &taken, err);
        while (rc == SPSH_OK && taken == SPSH__LEASE_TAKEN);
        if (rc != SPSH_OK || taken == SPSH__LEASE_PAUSE)
            return rc;
        rc = work(l, err);
    }
    return rc;
}

static spsh_status begin(learner *l, uint64_t epoch, uint64_t step, bool is_new, spsh_error *err)
{
    const world *w = l->world;
    spsh_status rc = SPSH_OK;
    if (l->rank != 0)
        return rc;
    if (is_new)
        rc = spsh__leases_place(l->leases, epoch, step, w->steps, err);
    return rc != SPSH_OK ? rc : spsh__leases_begin(l->leases, &w->round, err);
}

static spsh_status learn(learner *l, spsh_error *err)
{
    const world *w = l->world;
    spsh__lease_state state = w->from;
    uint64_t step = w->from.step;
    bool is_new = true;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK && state.epoch < w->epochs) {
        rc = begin(l, state.epoch, step, is_new, err);
        if (rc == SPSH_OK)
            rc = go_round(l, err);
        if (rc == SPSH_OK)
            rc = meet(l, &state, err);
        if (rc != SPSH_OK ||
            (state.reasons & (SPSH__PAUSE_STOP | SPSH__PAUSE_SAMPLES | SPSH__PAUSE_UPDATES)) != 0)
            break;
        is_new = (state.reasons & SPSH__PAUSE_EPOCH) != 0;
        state.epoch += is_new;
        step = 0;
    }
    return rc;
}

static spsh_status learn_in_turn(void *user, uint32_t rank, spsh_error *err)
{
    world *w = (world *)user;
    if (w->node_size > 1 && rank % w->node_size != 0)
        return SPSH_OK;
    learner *l = &w->all[rank / w->node_size];
    const spsh_status rc = learn(l, err);
    return l->is_given_up ? SPSH_OK : rc;
}

/* ---- worlds ---- */

static void make(world *w, uint32_t learners, uint32_t ahead)
{
    *w = (world){.learners = learners,
                 .ahead = ahead,
                 .node_size = 1,
                 .epochs = EPOCHS_MAX,
                 .steps = STEPS,
                 .frozen = NOBODY,
                 .jitter = 0.5,
                 .step_ns = 10 * MS};
}

static void add_learner(world *w, uint32_t rank, spsh__runtime *t)
{
    learner *l = &w->all[rank];
    *l = (learner){.world = w, .rank = rank, .runtime = t, .error = SPSH_ERROR_INIT};
    REQUIRE(spsh__leases_open(t, spsh_allocator_default(), w->ahead, &l->leases, NULL) == SPSH_OK);
}

static void close_learners(world *w)
{
    for (uint32_t i = 0; i < w->learners; i++)
        spsh__leases_close(w->all[i].leases);
}

static spsh__record_options records_of(const world *w)
{
    return (spsh__record_options){spsh_allocator_default(), spsh_io_default(), w->records, 9};
}

static void simulate(world *w, uint64_t seed)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__runtime *around[LEARNERS_MAX] = {NULL};
    const spsh__record_options records = records_of(w);
    const spsh__ranks leaders = {0, w->node_size, w->learners};
    const spsh__sim_options o = {.allocator = *spsh_allocator_default(),
                                 .learners = w->learners * w->node_size,
                                 .latency_ns = 50000,
                                 .bytes_per_s = 1e9,
                                 .jitter = w->jitter,
                                 .seed = seed,
                                 .deadline_ms = 2000,
                                 .faults = w->faults,
                                 .fault_count = w->fault_count};
    REQUIRE(spsh__sim_open(&o, &w->sim, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < w->learners; i++) {
        spsh__runtime *t = spsh__sim_runtime(w->sim, i * w->node_size);
        if (w->is_recorded)
            REQUIRE(spsh__record_open(&records, t, &around[i], NULL) == SPSH_OK);
        else if (w->node_size > 1)
            REQUIRE(spsh__runtime_sub_open(t, &leaders, spsh_allocator_default(), &around[i],
                                           NULL) == SPSH_OK);
        add_learner(w, i, around[i] != NULL ? around[i] : t);
    }
    if (spsh__sim_run(w->sim, learn_in_turn, w, &err) != SPSH_OK) {
        fprintf(stderr, "seed %llu, %u learners: %s\n", (unsigned long long)seed, w->learners,
                err.message);
        CHECK(false);
    }
    close_learners(w);
    for (uint32_t i = 0; i < w->learners; i++)
        if (around[i] != NULL)
            around[i]->ops->close_fn(around[i]);
    spsh__sim_close(w->sim);
    w->sim = NULL;
}

static double sum_of(uint64_t steps, int power)
{
    double sum = 0;
    for (uint64_t s = 0; s < steps; s++)
        sum += power == 0 ? 1 : power == 1 ? (double)s : (double)s * (double)s;
    return sum;
}

static void check_epochs(const world *w)
{
    for (uint32_t e = 0; e < w->epochs; e++)
        for (int i = 0; i < 3; i++)
            if (w->sums[e][i] != sum_of(w->steps, i)) {
                fprintf(stderr, "%u learners, epoch %u: sum %d is %g, not %g\n", w->learners, e, i,
                        w->sums[e][i], sum_of(w->steps, i));
                CHECK(false);
            }
}

/* ---- guarantees ---- */

static void test_each_step_once(void)
{
    const uint64_t seed = test_seed(1);
    for (uint32_t learners = 1; learners <= LEARNERS_MAX; learners++)
        for (uint32_t ahead = 0; ahead < 4; ahead++) {
            world w;
            make(&w, learners, ahead);
            simulate(&w, seed + ahead);
            check_epochs(&w);
            CHECK_U64(w.pauses, EPOCHS_MAX);
            CHECK_U64(w.reasons, SPSH__PAUSE_EPOCH);
            CHECK_U64(w.last.updates, EPOCHS_MAX * STEPS);
            CHECK_U64(w.last.samples, EPOCHS_MAX * STEPS * SAMPLES);
            CHECK_U64(w.last.learners, learners);
        }
}

static void test_leaders_of_nodes(void)
{
    world w;
    make(&w, 4, 2);
    w.node_size = 3;
    simulate(&w, 1);
    check_epochs(&w);
    CHECK_U64(w.last.learners, 4);
}

/* 8 learners, one ten times as slow: it gets about a tenth of the leases of another. */
static void test_a_slow_learner_gets_fewer(void)
{
    const spsh__sim_fault slow = {SPSH__SIM_SLOW, 5, 10, 0, 0};
    world w;
    make(&w, 8, 1);
    w.steps = 400;
    w.jitter = 0;
    w.faults = &slow;
    w.fault_count = 1;
    simulate(&w, 1);
    check_epochs(&w);
    printf("steps: %llu and %llu\n", (unsigned long long)w.all[4].steps,
           (unsigned long long)w.all[5].steps);
    CHECK(w.all[5].steps > 0 && w.all[5].steps * 7 < w.all[4].steps);
}

/* Kill a learner at any time of the first epochs: with leases in hand, at work, or at the barrier.
 */
static void test_a_learner_that_dies(void)
{
    const uint64_t seed = test_seed(2);
    for (uint32_t learners = 2; learners <= LEARNERS_MAX; learners += 2)
        for (uint64_t at = 0; at < 24; at++) {
            spsh__sim_fault kill[2] = {
                {SPSH__SIM_KILL, learners - 1, 0, at * 17 * MS, 0},
                {SPSH__SIM_KILL, learners / 2, 0, at * 31 * MS, 0},
            };
            world w;
            make(&w, learners, (uint32_t)(at % 4));
            w.faults = kill;
            w.fault_count = learners > 2 ? 2 : 1;
            w.looks_around = at % 2 == 1;
            simulate(&w, seed + at);
            check_epochs(&w);
        }
}

/* Kill a learner near the end of the first epoch, while it waits at the barrier for a slow one. */
static void test_a_learner_that_dies_in_the_pause(void)
{
    uint32_t left = 0;
    for (uint64_t at = 200; at < 600; at += 5) {
        const spsh__sim_fault faults[2] = {
            {SPSH__SIM_KILL, 2, 0, at * MS, 0},
            {SPSH__SIM_SLOW, 3, 5, 0,       0},
        };
        world w;
        make(&w, 4, 2);
        w.jitter = 3;
        w.looks_around = at % 10 == 0;
        w.epochs = 2;
        w.faults = faults;
        w.fault_count = 2;
        simulate(&w, 7);
        check_epochs(&w);
        left += w.returned;
    }
    printf("%u leases were left to the round behind a pause\n", left);
    CHECK(left > 0);
}

/* A learner is frozen for longer than the others wait. After that, they ignore it. */
static void test_one_that_was_taken_for_dead(void)
{
    const spsh__sim_fault freeze = {SPSH__SIM_FREEZE, 2, 0, 45 * MS, 4500 * MS};
    world w;
    make(&w, 4, 2);
    w.steps = 400; /* so that the others are still training when it is back */
    w.epochs = 2;
    w.faults = &freeze;
    w.fault_count = 1;
    w.frozen = 2;
    simulate(&w, 3);
    check_epochs(&w);
    CHECK(w.all[2].is_given_up && w.all[0].steps > w.all[2].steps);
    CHECK_U64(w.last.learners, 3);
}

static void test_a_pause_for_saving(void)
{
    for (uint32_t learners = 1; learners <= LEARNERS_MAX; learners++) {
        world w;
        make(&w, learners, 2);
        w.steps = 2 * STEPS; /* more than all can take before rank 0 finishes its third step */
        w.save_at = 3;
        simulate(&w, learners);
        check_epochs(&w);
        CHECK_U64(w.pauses, EPOCHS_MAX + 1);
        CHECK_U64(w.reasons, SPSH__PAUSE_EPOCH | SPSH__PAUSE_SAVE | SPSH__PAUSE_EVALUATE);
        CHECK_U64(w.returned, 0);
    }
}

/* Stop, and resume at the same step with other learners. */
static void test_stop_and_go_on(void)
{
    for (uint32_t learners = 1; learners <= LEARNERS_MAX; learners++) {
        world w, more;
        make(&w, learners, 2);
        w.steps = 2 * STEPS;
        w.stop_at = 4;
        simulate(&w, learners);
        CHECK_U64(w.reasons, SPSH__PAUSE_STOP);
        CHECK_U64(w.last.step, w.last.updates); /* no lease is outstanding */
        CHECK(w.last.step >= 4 && w.last.step < w.steps);
        make(&more, LEARNERS_MAX + 1 - learners, 1);
        more.steps = w.steps;
        more.from = w.last;
        memcpy(more.sums, w.sums, sizeof(w.sums));
        simulate(&more, learners);
        check_epochs(&more);
        CHECK_U64(w.last.updates + more.last.updates, EPOCHS_MAX * w.steps);
    }
}

static void test_bounds_of_a_round(void)
{
    for (uint32_t learners = 1; learners <= LEARNERS_MAX; learners++) {
        world w;
        make(&w, learners, 2);
        w.round.updates_max = 57;
        simulate(&w, learners);
        CHECK_U64(w.last.updates, 57);
        CHECK_U64(w.reasons & SPSH__PAUSE_UPDATES, SPSH__PAUSE_UPDATES);
        CHECK_U64(w.last.epoch, 1);
        make(&w, learners, 2);
        w.round =
            (spsh__lease_round){.samples_max = 95, .holds_back = true, .samples_mean = SAMPLES};
        simulate(&w, learners);
        CHECK_U64(w.last.samples, 100);
        CHECK_U64(w.reasons, SPSH__PAUSE_SAMPLES);
        make(&w, learners, 2); /* without holding back, steps in flight at the limit count, too */
        w.round = (spsh__lease_round){.samples_max = 95};
        simulate(&w, learners);
        CHECK(w.last.samples > 100 && w.last.samples < 100 + 3 * learners * SAMPLES);
        CHECK_U64(w.reasons, SPSH__PAUSE_SAMPLES);
    }
}

/* Steps held back for a dead learner's samples go to the other learners. */
static void test_samples_of_a_dead_learner(void)
{
    for (uint64_t at = 0; at < 48; at++) {
        const spsh__sim_fault kill = {SPSH__SIM_KILL, 1, 0, at * MS, 0};
        world w;
        make(&w, 3, 2);
        w.round =
            (spsh__lease_round){.samples_max = 95, .holds_back = true, .samples_mean = SAMPLES};
        w.looks_around = at % 2 == 0;
        w.faults = &kill;
        w.fault_count = 1;
        simulate(&w, at);
        CHECK_U64(w.last.samples, 100);
    }
}

/* ---- records ---- */

static void replay(const world *was)
{
    world w = *was;
    const spsh__record_options records = records_of(was);
    spsh_error err = SPSH_ERROR_INIT;
    spsh__replay *again = NULL;
    w.pauses = 0;
    memset(w.sums, 0, sizeof(w.sums));
    REQUIRE(spsh__replay_open(&records, w.learners, &again, &err) == SPSH_OK);
    for (uint32_t i = 0; i < w.learners; i++)
        add_learner(&w, i, spsh__replay_runtime(again, i));
    if (spsh__replay_run(again, learn_in_turn, &w, &err) != SPSH_OK) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(false);
    }
    close_learners(&w);
    spsh__replay_close(again);
    CHECK_U64(w.pauses, was->pauses);
    for (uint32_t e = 0; e < EPOCHS_MAX; e++)
        for (int i = 0; i < 3; i++)
            CHECK(w.sums[e][i] == was->sums[e][i]);
    CHECK_U64(w.last.samples, was->last.samples);
    for (uint32_t i = 0; i < w.learners; i++) {
        CHECK_U64(w.all[i].steps, was->all[i].steps);
        CHECK_U64(w.all[i].hash, was->all[i].hash);
    }
}

static void begin_record(world *w)
{
    test_temp_dir(w->folder, sizeof(w->folder));
    (void)snprintf(w->records, sizeof(w->records), "%s/records", w->folder);
    REQUIRE(mkdir(w->records, 0777) == 0);
    w->is_recorded = w->looks_around = true;
}

/* The same learners get the same leases, with the same samples before them. One learner dies. */
static void test_a_recorded_run_is_replayed(void)
{
    const spsh__sim_fault kill = {SPSH__SIM_KILL, 2, 0, 73 * MS, 0};
    for (uint64_t seed = 0; seed < 4; seed++) {
        world w;
        make(&w, 4, 2);
        w.jitter = 3;
        w.save_at = 5;
        w.faults = &kill;
        w.fault_count = 1;
        begin_record(&w);
        simulate(&w, seed);
        check_epochs(&w);
        CHECK(w.all[2].steps > 0 && w.all[2].steps < 20);
        replay(&w);
        test_remove_tree(w.folder);
    }
}

/* ---- processes ---- */

static void *be_process(void *user)
{
    learner *l = (learner *)user;
    world *w = l->world;
    const uint32_t rank = l->rank;
    const spsh__launch launch = {.rank = rank,
                                 .world_size = w->learners,
                                 .local_rank = rank,
                                 .local_size = w->learners,
                                 .node_count = 1,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = w->folder, .deadline_ms = 120000};
    const spsh__record_options records = records_of(w);
    spsh__comm *comm = NULL;
    spsh__runtime *t = NULL, *recorded = NULL;
    REQUIRE(spsh__comm_open(&meeting, spsh_allocator_default(), &comm, NULL) == SPSH_OK);
    REQUIRE(spsh__runtime_processes_open(comm, spsh_allocator_default(), &t, NULL) == SPSH_OK);
    REQUIRE(spsh__record_open(&records, t, &recorded, NULL) == SPSH_OK);
    add_learner(w, rank, recorded);
    l->status = learn(l, &l->error);
    if (l->status != SPSH_OK)
        fprintf(stderr, "learner %u: %s\n", rank, l->error.message);
    spsh__leases_close(l->leases);
    recorded->ops->close_fn(recorded);
    t->ops->close_fn(t);
    spsh__comm_close(comm);
    return NULL;
}

static void test_between_processes(void)
{
    pthread_t threads[4];
    world *w = malloc(sizeof(*w));
    REQUIRE(w != NULL);
    make(w, 4, 2);
    w->save_at = 4;
    w->step_ns = 200000;
    begin_record(w);
    for (uint32_t i = 0; i < 4; i++) {
        w->all[i] = (learner){.world = w, .rank = i};
        REQUIRE(pthread_create(&threads[i], NULL, be_process, &w->all[i]) == 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_I64(w->all[i].status, SPSH_OK);
    check_epochs(w);
    replay(w);
    test_remove_tree(w->folder);
    free(w);
}

/* ---- rejected calls ---- */

typedef struct alone {
    spsh__leases *leases;
    spsh__runtime *runtime;
} alone;

static spsh_status misuse(void *user, uint32_t rank, spsh_error *err)
{
    alone *all = (alone *)user;
    spsh__leases *l = all[rank].leases;
    spsh__lease lease, other;
    spsh__lease_taken taken = SPSH__LEASE_NONE;
    double total = 0;
    uint64_t updates = 0;
    if (rank == 1) {
        CHECK_I64(spsh__leases_place(l, 0, 0, 5, err), SPSH_E_INVALID_ARG);
        CHECK_I64(spsh__leases_begin(l, NULL, err), SPSH_E_INVALID_ARG);
        CHECK_I64(spsh__leases_totals(l, &total, 1, &updates, err), SPSH_E_INVALID_ARG);
        const spsh__message strange = {.kind = SPSH__LEASE_ACKNOWLEDGE, .number = 77};
        all[1].runtime->ops->compute_fn(all[1].runtime, 500 * MS);
        return all[1].runtime->ops->post_fn(all[1].runtime, 0, &strange, err);
    }
    CHECK_I64(spsh__leases_begin(l, NULL, err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__leases_place(l, 0, 6, 5, err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__leases_place(l, 0, 0, 5, err), SPSH_OK);
    CHECK_I64(spsh__leases_begin(l, NULL, err), SPSH_OK);
    CHECK_I64(spsh__leases_begin(l, NULL, err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__leases_place(l, 0, 0, 5, err), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__leases_take(l, true, &lease, &taken, err), SPSH_OK);
    CHECK_U64(taken, SPSH__LEASE_TAKEN);
    CHECK_I64(spsh__leases_take(l, true, &other, &taken, err), SPSH_E_INVALID_ARG);
    spsh__lease_done done = {.number = lease.number + 1};
    CHECK_I64(spsh__leases_acknowledge(l, &done, err), SPSH_E_INVALID_ARG);
    done = (spsh__lease_done){.number = lease.number, .row_count = SPSH__LEASE_NUMBERS_MAX + 1};
    CHECK_I64(spsh__leases_acknowledge(l, &done, err), SPSH_E_INVALID_ARG);
    done.row_count = 0;
    CHECK_I64(spsh__leases_acknowledge(l, &done, err), SPSH_OK);
    CHECK_I64(spsh__leases_acknowledge(l, &done, err), SPSH_E_INVALID_ARG);
    all[0].runtime->ops->compute_fn(all[0].runtime, 1000 * MS);
    CHECK_I64(spsh__leases_take(l, true, &lease, &taken, err),
              SPSH_E_MISMATCH); /* the lease of rank 1 */
    CHECK(strstr(err->message, "learner 1 sent") != NULL);
    return SPSH_OK;
}

static void test_what_is_refused(void)
{
    const spsh__sim_options o = {
        .allocator = *spsh_allocator_default(), .learners = 2, .latency_ns = 1000};
    spsh__sim *sim = NULL;
    alone all[2] = {
        {NULL, NULL},
        {NULL, NULL},
    };
    REQUIRE(spsh__sim_open(&o, &sim, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < 2; i++) {
        all[i].runtime = spsh__sim_runtime(sim, i);
        CHECK_I64(spsh__leases_open(all[i].runtime, spsh_allocator_default(),
                                    SPSH__LEASE_AHEAD_MAX + 1, &all[i].leases, NULL),
                  SPSH_E_INVALID_ARG);
        REQUIRE(spsh__leases_open(all[i].runtime, spsh_allocator_default(), 0, &all[i].leases,
                                  NULL) == SPSH_OK);
    }
    CHECK(spsh__sim_run(sim, misuse, all, NULL) == SPSH_OK);
    spsh__leases_close(all[0].leases);
    spsh__leases_close(all[1].leases);
    spsh__sim_close(sim);
}

TEST_MAIN(unit_train_lease)
{
    RUN(test_each_step_once);
    RUN(test_leaders_of_nodes);
    RUN(test_a_slow_learner_gets_fewer);
    RUN(test_a_learner_that_dies);
    RUN(test_a_learner_that_dies_in_the_pause);
    RUN(test_one_that_was_taken_for_dead);
    RUN(test_a_pause_for_saving);
    RUN(test_stop_and_go_on);
    RUN(test_bounds_of_a_round);
    RUN(test_samples_of_a_dead_learner);
    RUN(test_a_recorded_run_is_replayed);
    RUN(test_between_processes);
    RUN(test_what_is_refused);
    return TEST_RESULT();
}

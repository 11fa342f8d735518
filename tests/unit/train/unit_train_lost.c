/* unit_train_lost.c: a simulation that kills one or two learners at any time of a run of leases,
 * barriers, and a strategy with a model per learner. */
#include <math.h>

#include "runtime/comm_sub.h"
#include "runtime/lease.h"
#include "runtime/runtime_sim.h"
#include "spsh_test.h"
#include "strategy/gradient_sum.h"
#include "strategy/strategy_internal.h"

#define LEARNERS 5
#define ELEMENTS 700 /* elements of an arena, enough for two parts */
#define EPOCHS   3
#define STEPS    40 /* steps per epoch */
#define MS       UINT64_C(1000000)

typedef struct learner {
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__leases *leases;
    spsh__comm *living;
    const struct world *world;
    uint32_t learners; /* since the last barrier */
    float model[ELEMENTS];
    bool has_ended;
} learner;

typedef struct world {
    const char *strategy;
    spsh__sim *sim;
    spsh__backend *backend;
    learner learners[LEARNERS];
    double sums[EPOCHS]; /* sums over the acknowledged steps, and their count */
    uint64_t updates[EPOCHS];
} world;

static void update_slice(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                         double scale)
{
    const learner *l = (const learner *)user;
    const spsh__backend_ops *ops = l->world->backend->ops;
    const spsh__sgd sgd = {.rate = 0.1};
    const spsh__update u = {.weights = spsh__at(ops, l->learner.updated, slice->offset),
                            .gradients = gradients,
                            .count = slice->count,
                            .gradient_scale = scale};
    ops->sgd_fn(l->world->backend, &sgd, &u);
}

/* Gradient of 1/2 |w - c|^2. c differs per learner. */
static void fill_gradients(const learner *l, uint32_t number)
{
    const spsh__backend_ops *ops = l->world->backend->ops;
    float weights[ELEMENTS];
    ops->read_f32_fn(l->world->backend, weights, l->learner.weights, ELEMENTS);
    for (size_t i = 0; i < ELEMENTS; i++)
        weights[i] -= (float)number + 1;
    ops->write_f32_fn(l->world->backend, l->learner.gradients, weights, ELEMENTS);
}

static spsh_status step(learner *l, uint32_t number, spsh_error *err)
{
    const spsh__strategy_ops *ops = l->strategy->ops;
    const spsh__backend_ops *backend = l->world->backend->ops;
    spsh__runtime *t = l->learner.runtime;
    double row = 1, total = 0;
    spsh__slice slice;
    l->learner.step++;
    spsh_status rc = ops->before_forward_fn(l->strategy, err);
    if (rc != SPSH_OK)
        return rc;
    fill_gradients(l, number);
    t->ops->compute_fn(t, 10 * MS);
    rc = ops->after_backward_fn(l->strategy, &row, &total, 1, err);
    if (rc != SPSH_OK)
        return rc;
    if (ops->push_fn != NULL)
        return ops->push_fn(l->strategy, 1, err);
    for (uint32_t n = 0; ops->slice_fn(l->strategy, n, &slice); n++)
        update_slice(l, &slice, spsh__at(backend, l->learner.gradients, slice.offset), 1);
    return ops->after_step_fn(l->strategy, err);
}

static spsh_status make_round(learner *l, uint32_t number, spsh_error *err)
{
    spsh__lease_taken taken = SPSH__LEASE_TAKEN;
    spsh__lease lease = {0};
    spsh_status rc = number == 0 ? spsh__leases_begin(l->leases, NULL, err) : SPSH_OK;
    while (rc == SPSH_OK) {
        rc = spsh__leases_take(l->leases, true, &lease, &taken, err);
        if (rc != SPSH_OK || taken == SPSH__LEASE_PAUSE)
            break;
        rc = step(l, number, err);
        const double row = (double)lease.step;
        const spsh__lease_done done = {
            .number = lease.number, .samples = 7, .row = &row, .row_count = 1};
        if (rc == SPSH_OK)
            rc = spsh__leases_acknowledge(l->leases, &done, err);
    }
    if (rc == SPSH_OK && l->strategy->ops->retire_fn != NULL)
        rc = l->strategy->ops->retire_fn(l->strategy, err);
    return rc;
}

/* The survivors continue with a separate communicator. */
static spsh_status close_ranks(learner *l, const spsh__lease_state *state, spsh_error *err)
{
    uint32_t list[LEARNERS], count = 0;
    for (uint32_t r = 0; r < LEARNERS; r++)
        if (!spsh__leases_is_lost(l->leases, r))
            list[count++] = r;
    CHECK_U64(count, state->learners);
    if (count == l->learners)
        return SPSH_OK;
    spsh__comm_close(l->living);
    l->living = NULL;
    l->learners = count;
    const spsh_status rc = spsh__comm_list_open(l->learner.comm, list, count, &l->living, err);
    l->learner.living = l->living;
    return rc;
}

static spsh_status make_pause(world *w, uint32_t number, uint64_t *epoch, spsh_error *err)
{
    learner *l = &w->learners[number];
    spsh__lease_state state = {.epoch = 0};
    double sum = 0;
    uint64_t updates = 0;
    spsh_status rc = spsh__leases_meet(l->leases, &state, err);
    if (rc == SPSH_OK && number == 0)
        rc = spsh__leases_totals(l->leases, &sum, 1, &updates, err);
    if (number == 0) {
        w->sums[*epoch] += sum;
        w->updates[*epoch] += updates;
    }
    if (rc == SPSH_OK)
        rc = close_ranks(l, &state, err);
    if (rc == SPSH_OK)
        rc = l->strategy->ops->settle_fn(l->strategy, err);
    if (rc == SPSH_OK)
        rc = l->strategy->ops->consensus_fn(l->strategy, *epoch % 2 == 0, err);
    if (rc == SPSH_OK && (state.reasons & SPSH__PAUSE_EPOCH) != 0)
        if (++*epoch < EPOCHS && number == 0)
            rc = spsh__leases_place(l->leases, *epoch, 0, STEPS, err);
    return rc;
}

static spsh_status learn(void *user, uint32_t number, spsh_error *err)
{
    world *w = (world *)user;
    learner *l = &w->learners[number];
    uint64_t epoch = 0;
    spsh_status rc =
        spsh__leases_open(l->learner.runtime, spsh_allocator_default(), 2, &l->leases, err);
    if (rc == SPSH_OK)
        rc = l->strategy->ops->start_fn(l->strategy, &l->learner, err);
    if (rc == SPSH_OK && number == 0)
        rc = spsh__leases_place(l->leases, 0, 0, STEPS, err);
    while (rc == SPSH_OK && epoch < EPOCHS) {
        rc = make_round(l, number, err);
        if (rc == SPSH_OK)
            rc = make_pause(w, number, &epoch, err);
    }
    l->has_ended = rc == SPSH_OK;
    if (rc == SPSH_OK)
        w->backend->ops->read_f32_fn(w->backend, l->model, l->learner.weights, ELEMENTS);
    return rc;
}

static spsh__backend_buffer new_buffer(const world *w)
{
    spsh__backend_buffer b = {NULL, false};
    REQUIRE(w->backend->ops->alloc_fn(w->backend, ELEMENTS, &b, NULL) == SPSH_OK);
    return b;
}

static void open_learner(world *w, uint32_t i)
{
    static const spsh__slice bucket = {0, ELEMENTS};
    learner *l = &w->learners[i];
    l->world = w;
    l->learners = LEARNERS;
    l->learner = (spsh__learner){
        .backend = w->backend,
        .comm = spsh__sim_comm(w->sim, i),
        .weights = new_buffer(w),
        .gradients = new_buffer(w),
        .arena_elements = ELEMENTS,
        .part_elements = 300,
        .statistics = new_buffer(w),
        .statistics_elements = 1,
        .buckets = &bucket,
        .bucket_count = 1,
        .virtual_world = LEARNERS,
        .runtime = spsh__sim_runtime(w->sim, i),
        .seed = 5,
        .options = {.bound = 2, .servers = 1},
        .update_fn = update_slice,
        .update_user = l
    };
    REQUIRE(spsh__strategy_open(w->strategy, spsh_allocator_default(), &l->strategy, NULL) ==
            SPSH_OK);
}

static void close_learner(const world *w, learner *l)
{
    const spsh__backend_buffer buffers[] = {l->learner.weights, l->learner.gradients,
                                            l->learner.statistics};
    spsh__strategy_close(l->strategy);
    spsh__leases_close(l->leases);
    spsh__comm_close(l->living);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        w->backend->ops->free_fn(w->backend, buffers[i]);
}

/* Return the duration of the run. */
static uint64_t run(world *w, const char *strategy, const spsh__sim_fault *faults, uint32_t count,
                    spsh_status *ret_status, spsh_error *err)
{
    const spsh__sim_options options = {.allocator = *spsh_allocator_default(),
                                       .learners = LEARNERS,
                                       .latency_ns = MS,
                                       .bytes_per_s = 1e6,
                                       .jitter = 0.4,
                                       .deadline_ms = 5000,
                                       .outlives = true,
                                       .faults = faults,
                                       .fault_count = count};
    *w = (world){.strategy = strategy};
    REQUIRE(spsh__sim_open(&options, &w->sim, NULL) == SPSH_OK);
    REQUIRE(spsh__backend_open("cpu", 1, NULL, &w->backend, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < LEARNERS; i++)
        open_learner(w, i);
    *ret_status = spsh__sim_run(w->sim, learn, w, err);
    const uint64_t now_ns = spsh__sim_now_ns(w->sim);
    for (uint32_t i = 0; i < LEARNERS; i++)
        close_learner(w, &w->learners[i]);
    spsh__sim_close(w->sim);
    spsh__backend_close(w->backend);
    return now_ns;
}

static const char *const names[] = {"adpsgd-fixed", "adpsgd-random", "ps-async"};

static bool has_learnt_all(const world *w)
{
    bool has = true;
    for (uint32_t e = 0; e < EPOCHS; e++)
        has = has && w->updates[e] == STEPS && w->sums[e] == STEPS * (STEPS - 1) / 2.0;
    return has;
}

static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, ELEMENTS * sizeof(float)) == 0;
}

/* All survivors have ended with one model. The dead learner left nothing. */
static bool is_ended_by(const world *w, uint32_t living)
{
    uint32_t ended = 0;
    bool is_one = true;
    for (uint32_t i = 0; i < LEARNERS; i++) {
        ended += w->learners[i].has_ended;
        is_one = is_one &&
                 (!w->learners[i].has_ended || is_same(w->learners[i].model, w->learners[0].model));
    }
    return ended == living && is_one;
}

/* Kill one learner at all times of a run. During a round, the others finish the run, and every step
 * counts once. At a barrier, they name the dead rank, and wait no longer than the deadline.
 */
static void test_others_go_on(void)
{
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        uint32_t went_on = 0, ended = 0;
        world w;
        spsh_status rc = SPSH_OK;
        const uint64_t whole_ns = run(&w, names[n], NULL, 0, &rc, NULL);
        CHECK(rc == SPSH_OK && has_learnt_all(&w) && is_ended_by(&w, LEARNERS));
        for (uint64_t at = 1; at <= 60; at++) {
            const spsh__sim_fault kill = {.kind = SPSH__SIM_KILL,
                                          .learner = 1 + (uint32_t)(at % (LEARNERS - 1)),
                                          .from_ns = at * whole_ns / 64};
            spsh_error err = SPSH_ERROR_INIT;
            const uint64_t took_ns = run(&w, names[n], &kill, 1, &rc, &err);
            if (rc == SPSH_OK) {
                CHECK(has_learnt_all(&w) && is_ended_by(&w, LEARNERS - 1));
                CHECK(took_ns < 2 * whole_ns);
                went_on++;
            } else {
                CHECK(rc == SPSH_E_TIMEOUT);
                CHECK(took_ns < 2 * whole_ns + 5000 * MS);
                ended++;
            }
        }
        printf("%-14s %u of 60 went on, %u ended in a pause\n", names[n], went_on, ended);
        CHECK(went_on >= 45);
    }
}

/* Kill the learners one by one: first the last two, which are neighbors, down to a learner without
 * neighbors. */
static void test_one_by_one(void)
{
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        spsh__sim_fault kills[LEARNERS - 1];
        world w;
        spsh_status rc = SPSH_OK;
        const uint64_t whole_ns = run(&w, names[n], NULL, 0, &rc, NULL);
        for (uint32_t i = 0; i < LEARNERS - 1; i++)
            kills[i] = (spsh__sim_fault){.kind = SPSH__SIM_KILL,
                                         .learner = LEARNERS - 1 - i,
                                         .from_ns = whole_ns / 2 + i * 15 * MS};
        for (uint32_t count = 2; count < LEARNERS; count++) {
            spsh_error err = SPSH_ERROR_INIT;
            (void)run(&w, names[n], kills, count, &rc, &err);
            CHECK(rc == SPSH_OK && has_learnt_all(&w) && is_ended_by(&w, LEARNERS - count));
            if (rc != SPSH_OK)
                printf("%s, %u killed: %s\n", names[n], count, err.message);
        }
    }
}

static void test_without_rank_0_there_is_no_run(void)
{
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        const spsh__sim_fault kill = {.kind = SPSH__SIM_KILL, .learner = 0, .from_ns = 100 * MS};
        spsh_error err = SPSH_ERROR_INIT;
        spsh_status rc = SPSH_OK;
        world w;
        const uint64_t took_ns = run(&w, names[n], &kill, 1, &rc, &err);
        CHECK(rc == SPSH_E_TIMEOUT && took_ns < 200 * MS);
        CHECK(strstr(err.message, "disconnected") != NULL);
        CHECK(is_ended_by(&w, 0));
    }
}

/* ---- reports of a loss ---- */

typedef struct hearing {
    spsh__sim *sim;
    bool is_sub;
    uint32_t heard[3]; /* reports to learner 0 about each learner */
} hearing;

static spsh_status hear(void *user, const spsh__message *m, spsh_error *err)
{
    (void)err;
    CHECK_U64(m->kind, SPSH__LOST_KIND);
    ((hearing *)user)->heard[m->from]++;
    return SPSH_OK;
}

static spsh_status hear_all(void *user, uint32_t number, spsh_error *err)
{
    static const spsh__ranks two = {0, 1, 2};
    hearing *h = (hearing *)user;
    spsh__runtime *t = spsh__sim_runtime(h->sim, number), *own = NULL;
    if (h->is_sub && number < 2)
        REQUIRE(spsh__runtime_sub_open(t, &two, spsh_allocator_default(), &own, NULL) == SPSH_OK);
    spsh__runtime *heard = own != NULL ? own : t;
    if (number == 0)
        heard->ops->listen_fn(heard, SPSH__SERVICE_STRATEGY, hear, h);
    heard->ops->compute_fn(heard, 10 * MS);
    const spsh_status rc = heard->ops->poll_fn(heard, err);
    heard->ops->close_fn(heard);
    return number == 0 ? rc : SPSH_OK;
}

/* A loss is reported once, however often the learner is killed. A sub-runtime reports only its own
 * learners. */
static void test_a_loss_is_told_once(void)
{
    static const spsh__sim_fault kills[] = {
        {.kind = SPSH__SIM_KILL, .learner = 2, .from_ns = MS    },
        {.kind = SPSH__SIM_KILL, .learner = 2, .from_ns = 2 * MS},
        {.kind = SPSH__SIM_KILL, .learner = 1, .from_ns = 3 * MS},
    };
    const spsh__sim_options options = {.allocator = *spsh_allocator_default(),
                                       .learners = 3,
                                       .outlives = true,
                                       .faults = kills,
                                       .fault_count = sizeof(kills) / sizeof(kills[0])};
    for (uint32_t sub = 0; sub < 2; sub++) {
        hearing h = {.is_sub = sub == 1};
        spsh_error err = SPSH_ERROR_INIT;
        REQUIRE(spsh__sim_open(&options, &h.sim, NULL) == SPSH_OK);
        CHECK_I64(spsh__sim_run(h.sim, hear_all, &h, &err), SPSH_OK);
        CHECK_U64(h.heard[0], 0);
        CHECK_U64(h.heard[1], 1);
        CHECK_U64(h.heard[2], 1 - sub);
        spsh__sim_close(h.sim);
    }
}

/* ---- no other rank answers ---- */

static spsh_status sum_alone(void *user, uint32_t number, spsh_error *err)
{
    static const uint32_t all[3] = {0, 1, 2};
    world *w = (world *)user;
    learner *l = &w->learners[0];
    const double rows[LEARNERS] = {0}; /* rows of its micro-batches */
    double total = 0;
    spsh__sum sum = {NULL, NULL};
    if (number != 0)
        return SPSH_OK;
    REQUIRE(spsh__comm_list_open(l->learner.comm, all, 3, &l->living, NULL) == SPSH_OK);
    l->learner.comm = l->living;
    REQUIRE(spsh__gradient_sum_open(&l->learner, true, spsh_allocator_default(), &sum, NULL) ==
            SPSH_OK);
    spsh_status rc = sum.ops->begin_fn(sum.state, err);
    if (rc == SPSH_OK)
        rc = sum.ops->end_fn(sum.state, rows, &total, 1, err);
    spsh__sum_close(&sum);
    return rc;
}

/* All ranks without a message are missing, even if a learner knows them. */
static void test_all_are_named(void)
{
    const spsh__sim_options options = {
        .allocator = *spsh_allocator_default(), .learners = 3, .deadline_ms = 100};
    spsh_error err = SPSH_ERROR_INIT;
    world w = {.strategy = "allreduce"};
    REQUIRE(spsh__sim_open(&options, &w.sim, NULL) == SPSH_OK);
    REQUIRE(spsh__backend_open("cpu", 1, NULL, &w.backend, NULL) == SPSH_OK);
    open_learner(&w, 0);
    CHECK_I64(spsh__sim_run(w.sim, sum_alone, &w, &err), SPSH_E_TIMEOUT);
    if (strstr(err.message, "rank 1, 2 is missing") == NULL)
        fprintf(stderr, "%s\n", err.message);
    CHECK(strstr(err.message, "rank 1, 2 is missing") != NULL);
    close_learner(&w, &w.learners[0]);
    spsh__sim_close(w.sim);
    spsh__backend_close(w.backend);
}

TEST_MAIN(unit_train_lost)
{
    RUN(test_others_go_on);
    RUN(test_one_by_one);
    RUN(test_without_rank_0_there_is_no_run);
    RUN(test_a_loss_is_told_once);
    RUN(test_all_are_named);
    return TEST_RESULT();
}

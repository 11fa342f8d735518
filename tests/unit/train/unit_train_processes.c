/* unit_train_processes.c: strategies with a model per learner, between threads that act as
 * processes. Each has its own communicator and serving task. The properties that simulations show
 * must hold here, too, for any timing. */
#include <math.h>
#include <pthread.h>

#include "runtime/comm_sub.h"
#include "runtime/runtime_processes.h"
#include "runtime/runtime_record.h"
#include "runtime/runtime_replay.h"
#include "speechshard/inside.h"
#include "spsh_test.h"
#include "strategy/strategy_internal.h"

#define LEARNERS    4
#define NOBODY      LEARNERS
#define ELEMENTS    3000
#define STEPS       30
#define DEADLINE_MS 120000

typedef struct world world;

typedef struct learner {
    world *world;
    uint32_t rank;
    spsh__backend *backend;
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__slice bucket;
    spsh_status status;
    spsh_error error;
    float result[ELEMENTS]; /* final model */
} learner;

struct world {
    char folder[64], records[80];
    const char *strategy;
    spsh__strategy_options options;
    bool is_recorded;
    uint32_t leaver; /* exits without a message in the middle of the run; NOBODY */
    double rate;
    float shared[ELEMENTS];
    learner learners[LEARNERS];
};

static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, ELEMENTS * sizeof(float)) == 0;
}

static float value(uint64_t what, uint64_t i)
{
    uint64_t state = what * UINT64_C(0x100000001b3) + i;
    (void)test_random(&state);
    return (float)((double)(int64_t)test_random(&state) / 9.3e18);
}

static spsh__backend_buffer new_buffer(const learner *l)
{
    spsh__backend_buffer b = {NULL, false};
    REQUIRE(l->backend->ops->alloc_fn(l->backend, ELEMENTS, &b, NULL) == SPSH_OK);
    return b;
}

static void update_slice(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                         double scale)
{
    const learner *l = (const learner *)user;
    const spsh__sgd sgd = {.rate = l->world->rate};
    const spsh__update u = {.weights = spsh__at(l->backend->ops, l->learner.updated, slice->offset),
                            .gradients = gradients,
                            .count = slice->count,
                            .gradient_scale = scale};
    l->backend->ops->sgd_fn(l->backend, &sgd, &u);
}

static spsh_status step(learner *l, spsh_error *err)
{
    const spsh__strategy_ops *ops = l->strategy->ops;
    float weights[ELEMENTS], gradients[ELEMENTS];
    double row = 1, total = 0;
    spsh__slice slice;
    spsh_status rc = ops->before_forward_fn(l->strategy, err);
    if (rc != SPSH_OK)
        return rc;
    l->backend->ops->read_f32_fn(l->backend, weights, l->learner.weights, ELEMENTS);
    for (uint64_t e = 0; e < ELEMENTS; e++)
        gradients[e] = weights[e] - value(l->rank + 1, e);
    l->backend->ops->write_f32_fn(l->backend, l->learner.gradients, gradients, ELEMENTS);
    rc = ops->after_backward_fn(l->strategy, &row, &total, 1, err);
    if (rc == SPSH_OK && ops->push_fn != NULL)
        rc = ops->push_fn(l->strategy, 1, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t n = 0; ops->slice_fn(l->strategy, n, &slice); n++)
        update_slice(l, &slice, spsh__at(l->backend->ops, l->learner.gradients, slice.offset), 1);
    l->learner.step++;
    return ops->after_step_fn(l->strategy, err);
}

/* As after a barrier that finds the lost rank: the mean is only over the other learners. */
static spsh_status go_on_without(learner *l, spsh_error *err)
{
    uint32_t list[LEARNERS], count = 0;
    for (uint32_t r = 0; r < LEARNERS; r++)
        if (r != l->world->leaver)
            list[count++] = r;
    return spsh__comm_list_open(l->learner.comm, list, count, &l->learner.living, err);
}

static spsh_status begin(learner *l, spsh_error *err)
{
    l->bucket = (spsh__slice){0, ELEMENTS};
    l->learner.backend = l->backend;
    l->learner.weights = new_buffer(l);
    l->learner.gradients = new_buffer(l);
    l->learner.statistics = new_buffer(l);
    l->learner.statistics_elements = 1;
    l->learner.arena_elements = ELEMENTS;
    l->learner.buckets = &l->bucket;
    l->learner.bucket_count = 1;
    l->learner.virtual_world = LEARNERS;
    l->learner.seed = 3;
    l->learner.shared = l->world->shared;
    l->learner.options = l->world->options;
    l->learner.update_fn = update_slice;
    l->learner.update_user = l;
    const spsh_status rc =
        spsh__strategy_open(l->world->strategy, spsh_allocator_default(), &l->strategy, err);
    return rc != SPSH_OK ? rc : l->strategy->ops->start_fn(l->strategy, &l->learner, err);
}

static spsh_status learn(learner *l, spsh_error *err)
{
    spsh_status rc = begin(l, err);
    while (rc == SPSH_OK && l->learner.step < STEPS) {
        rc = step(l, err);
        if (l->rank == l->world->leaver && l->learner.step == STEPS / 3)
            return SPSH_E_END;
    }
    if (rc == SPSH_OK && l->world->leaver != NOBODY)
        rc = go_on_without(l, err);
    return rc != SPSH_OK ? rc : l->strategy->ops->settle_fn(l->strategy, err);
}

/* A leaver has no result, because its model still serves other learners. */
static void leave(learner *l)
{
    if (l->learner.updated.data != NULL && l->status == SPSH_OK)
        l->backend->ops->read_f32_fn(l->backend, l->result, l->learner.updated, ELEMENTS);
    spsh__strategy_close(l->strategy);
    l->backend->ops->free_fn(l->backend, l->learner.weights);
    l->backend->ops->free_fn(l->backend, l->learner.gradients);
    l->backend->ops->free_fn(l->backend, l->learner.statistics);
    spsh__backend_close(l->backend);
}

static spsh__comm *open_comm_of(const spsh_allocator *allocator, const char *folder, uint32_t rank,
                                uint32_t ranks)
{
    const spsh__launch launch = {.rank = rank,
                                 .world_size = ranks,
                                 .local_rank = rank,
                                 .local_size = ranks,
                                 .node_count = 1,
                                 .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = folder, .deadline_ms = DEADLINE_MS};
    spsh__comm *c = NULL;
    REQUIRE(spsh__comm_open(&meeting, allocator, &c, NULL) == SPSH_OK);
    return c;
}

static spsh__comm *open_comm(const char *folder, uint32_t rank, uint32_t ranks)
{
    return open_comm_of(spsh_allocator_default(), folder, rank, ranks);
}

static void *be_process(void *user)
{
    learner *l = (learner *)user;
    const spsh__record_options record = {spsh_allocator_default(), spsh_io_default(),
                                         l->world->records, 5};
    spsh__runtime *processes = NULL, *recorded = NULL;
    l->learner.comm = open_comm(l->world->folder, l->rank, LEARNERS);
    l->learner.comm->outlives = l->world->leaver != NOBODY;
    REQUIRE(spsh__runtime_processes_open(l->learner.comm, spsh_allocator_default(), &processes,
                                         NULL) == SPSH_OK);
    if (l->world->is_recorded)
        REQUIRE(spsh__record_open(&record, processes, &recorded, NULL) == SPSH_OK);
    l->learner.runtime = recorded != NULL ? recorded : processes;
    l->status = learn(l, &l->error);
    if (l->status == SPSH_OK && l->world->leaver != NOBODY)
        l->status = l->strategy->ops->consensus_fn(l->strategy, true, &l->error);
    if (l->rank == l->world->leaver)
        spsh__comm_fail(l->learner.comm);
    leave(l);
    spsh__comm_close(l->learner.living);
    if (recorded != NULL)
        recorded->ops->close_fn(recorded);
    processes->ops->close_fn(processes);
    spsh__comm_close(l->learner.comm);
    return NULL;
}

static void start(world *w, const char *strategy)
{
    *w = (world){.rate = 0.02, .leaver = NOBODY};
    test_temp_dir(w->folder, sizeof(w->folder));
    w->strategy = strategy;
    w->options.bound = UINT32_MAX;
    for (uint32_t i = 0; i < LEARNERS; i++) {
        w->learners[i] = (learner){.world = w, .rank = i, .error = SPSH_ERROR_INIT};
        REQUIRE(spsh__backend_open("cpu", 1, NULL, &w->learners[i].backend, NULL) == SPSH_OK);
    }
}

static void run(world *w)
{
    pthread_t threads[LEARNERS];
    for (uint32_t i = 0; i < LEARNERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, be_process, &w->learners[i]) == 0);
    for (uint32_t i = 0; i < LEARNERS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        const spsh_status want = i == w->leaver ? SPSH_E_END : SPSH_OK;
        if (w->learners[i].status != want)
            fprintf(stderr, "learner %u: %s\n", i, w->learners[i].error.message);
        CHECK_I64(w->learners[i].status, want);
    }
}

/* All learners reach the mean of the minima. */
static void test_they_come_to_the_minimum(void)
{
    static const char *const names[] = {"dpsgd-ring",    "d1-model", "adpsgd-fixed",
                                        "adpsgd-random", "ps-async", "hogwild"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        world *w = calloc(1, sizeof(*w));
        REQUIRE(w != NULL);
        start(w, names[n]);
        double begin = 0, end = 0;
        run(w);
        for (uint64_t e = 0; e < ELEMENTS; e++) {
            double minimum = 0, model = 0;
            for (uint32_t i = 0; i < LEARNERS; i++) {
                minimum += (double)value(i + 1, e) / LEARNERS;
                model += (double)w->learners[i].result[e] / LEARNERS;
            }
            begin += minimum * minimum;
            end += (model - minimum) * (model - minimum);
        }
        printf("%-14s %.3f of the way left\n", names[n], sqrt(end / begin));
        CHECK(end < 0.5 * begin);
        test_remove_tree(w->folder);
        free(w);
    }
}

/* The connections of one learner end. The others make their steps, finish their exchanges, and
 * reach their mean. */
static void test_one_goes(void)
{
    static const char *const names[] = {"adpsgd-fixed", "adpsgd-random", "ps-async"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        world *w = calloc(1, sizeof(*w));
        REQUIRE(w != NULL);
        start(w, names[n]);
        w->options.servers = 1;
        w->leaver = 2;
        run(w);
        CHECK(is_same(w->learners[0].result, w->learners[1].result));
        CHECK(is_same(w->learners[0].result, w->learners[3].result));
        test_remove_tree(w->folder);
        free(w);
    }
}

static spsh_status learn_again(void *user, uint32_t rank, spsh_error *err)
{
    learner *l = &((world *)user)->learners[rank];
    const spsh_status rc = learn(l, err);
    leave(l);
    return rc;
}

static void replay(world *w)
{
    const spsh__record_options records = {spsh_allocator_default(), spsh_io_default(), w->records,
                                          5};
    spsh_error err = SPSH_ERROR_INIT;
    spsh__replay *again = NULL;
    REQUIRE(spsh__replay_open(&records, LEARNERS, &again, &err) == SPSH_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        w->learners[i].learner.comm = spsh__replay_comm(again, i);
        w->learners[i].learner.runtime = spsh__replay_runtime(again, i);
    }
    if (spsh__replay_run(again, learn_again, w, &err) != SPSH_OK) {
        fprintf(stderr, "%s\n", err.message);
        CHECK(false);
    }
    spsh__replay_close(again);
}

/* No two runs are equal. The replay of a record equals its run, to the bit. */
static void test_a_recorded_run_is_replayed(void)
{
    static const char *const names[] = {"adpsgd-random", "adpsgd-fixed", "ps-async", "dpsgd-ring"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        world *w = calloc(1, sizeof(*w)), *again = calloc(1, sizeof(*again));
        REQUIRE(w != NULL && again != NULL);
        start(w, names[n]);
        (void)snprintf(w->records, sizeof(w->records), "%s/records", w->folder);
        REQUIRE(mkdir(w->records, 0777) == 0);
        w->is_recorded = true;
        run(w);
        start(again, names[n]);
        memcpy(again->records, w->records, sizeof(w->records));
        replay(again);
        for (uint32_t i = 0; i < LEARNERS; i++)
            CHECK(is_same(w->learners[i].result, again->learners[i].result));
        test_remove_tree(w->folder);
        test_remove_tree(again->folder);
        free(w);
        free(again);
    }
}

/* A runtime whose serving task stalls after it has posted an answer, while it holds the lock. It
 * continues when the computing task requests the lock, or no longer needs it. Learner 0 asks for an
 * exchange after the computing task has waited for the end of exchanges. That wait takes the lock,
 * too. */
static struct {
    const spsh__runtime_ops *of;
    spsh__runtime_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool has_waited, goes_on;
} late = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static void say(bool *fact)
{
    (void)pthread_mutex_lock(&late.lock);
    *fact = true;
    (void)pthread_cond_broadcast(&late.news);
    (void)pthread_mutex_unlock(&late.lock);
}

static void await_fact(const bool *fact)
{
    (void)pthread_mutex_lock(&late.lock);
    while (!*fact)
        (void)pthread_cond_wait(&late.news, &late.lock);
    (void)pthread_mutex_unlock(&late.lock);
}

static spsh_status post_late(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err)
{
    const spsh_status rc = late.of->post_fn(t, to, m, err);
    if (m->kind == SPSH__MESSAGE_ANSWER)
        await_fact(&late.goes_on);
    return rc;
}

static spsh_status wait_before(spsh__runtime *t, const spsh__mark *mark, bool (*is_true)(void *),
                               void *user, uint32_t deadline_ms, spsh_error *err)
{
    const spsh_status rc = late.of->wait_fn(t, mark, is_true, user, deadline_ms, err);
    say(&late.has_waited);
    return rc;
}

static spsh_status enter_late(spsh__runtime *t, const spsh__mark *mark, spsh_error *err)
{
    say(&late.goes_on);
    return late.of->enter_fn(t, mark, err);
}

static void be_late(spsh__runtime *t)
{
    late.of = t->ops;
    late.ops = *t->ops;
    late.ops.post_fn = post_late;
    late.ops.wait_fn = wait_before;
    late.ops.enter_fn = enter_late;
    t->ops = &late.ops;
}

/* Learner 0, with weights 1, asks learner 1, with weights 0, which answers late. */
static void *exchange_once(void *user)
{
    learner *l = (learner *)user;
    float ones[ELEMENTS];
    spsh__runtime *t = NULL;
    l->learner.comm = open_comm(l->world->folder, l->rank, 2);
    REQUIRE(spsh__runtime_processes_open(l->learner.comm, spsh_allocator_default(), &t, NULL) ==
            SPSH_OK);
    if (l->rank == 1)
        be_late(t);
    l->learner.runtime = t;
    for (uint64_t e = 0; e < ELEMENTS; e++)
        ones[e] = 1;
    CHECK(begin(l, NULL) == SPSH_OK);
    if (l->rank == 0) {
        l->backend->ops->write_f32_fn(l->backend, l->learner.updated, ones, ELEMENTS);
        await_fact(&late.has_waited);
        CHECK(l->strategy->ops->before_forward_fn(l->strategy, NULL) == SPSH_OK);
    }
    CHECK(l->strategy->ops->settle_fn(l->strategy, NULL) == SPSH_OK);
    l->backend->ops->read_f32_fn(l->backend, l->result, l->learner.updated, ELEMENTS);
    if (l->rank == 1)
        say(&late.goes_on);
    leave(l);
    t->ops->close_fn(t);
    spsh__comm_close(l->learner.comm);
    return NULL;
}

/* After all have settled, all exchanges are complete: each of two learners has moved by a quarter
 * of their difference. */
static void test_who_has_answered_has_mixed(void)
{
    static const char *const names[] = {"adpsgd-fixed", "adpsgd-random"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        world *w = calloc(1, sizeof(*w));
        pthread_t threads[2];
        REQUIRE(w != NULL);
        start(w, names[n]);
        late.has_waited = late.goes_on = false;
        for (uint32_t i = 0; i < 2; i++)
            REQUIRE(pthread_create(&threads[i], NULL, exchange_once, &w->learners[i]) == 0);
        for (uint32_t i = 0; i < 2; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        uint32_t count = 0;
        for (uint64_t e = 0; e < ELEMENTS; e++)
            count += w->learners[0].result[e] == 0.75F && w->learners[1].result[e] == 0.25F;
        CHECK_U64(count, ELEMENTS);
        for (uint32_t i = 2; i < LEARNERS; i++)
            spsh__backend_close(w->learners[i].backend);
        test_remove_tree(w->folder);
        free(w);
    }
}

static spsh_status count_lost(void *user, const spsh__message *m, spsh_error *err)
{
    (void)err;
    *(uint32_t *)user += m->kind == SPSH__LOST_KIND && m->from == 1;
    return SPSH_OK;
}

static bool has_any(void *user)
{
    return *(const uint32_t *)user > 0;
}

/* Exit as soon as both ranks are connected. */
static void *go_at_once(void *user)
{
    uint8_t byte = 0;
    spsh__comm *c = open_comm(user, 1, 2);
    CHECK(spsh__comm_broadcast(c, &byte, 1, 0, NULL) == SPSH_OK);
    spsh__comm_fail(c);
    spsh__comm_close(c);
    return NULL;
}

/* A listener that registers after a loss still gets the report. */
static void test_one_goes_before_somebody_listens(void)
{
    static const spsh__mark mark = {SPSH__MARK_WAIT, 0, 0};
    uint32_t early = 0, later = 0;
    spsh__runtime *t = NULL;
    uint8_t byte = 0;
    char folder[64];
    pthread_t other;
    test_temp_dir(folder, sizeof(folder));
    REQUIRE(pthread_create(&other, NULL, go_at_once, folder) == 0);
    spsh__comm *c = open_comm(folder, 0, 2);
    CHECK(spsh__comm_broadcast(c, &byte, 1, 0, NULL) == SPSH_OK);
    c->outlives = true;
    REQUIRE(spsh__runtime_processes_open(c, spsh_allocator_default(), &t, NULL) == SPSH_OK);
    t->ops->listen_fn(t, SPSH__SERVICE_LEASES, count_lost, &early);
    CHECK(t->ops->wait_fn(t, &mark, has_any, &early, DEADLINE_MS, NULL) == SPSH_OK);
    t->ops->listen_fn(t, SPSH__SERVICE_STRATEGY, count_lost, &later);
    CHECK_U64(early, 1);
    CHECK_U64(later, 1);
    t->ops->close_fn(t);
    spsh__comm_close(c);
    REQUIRE(pthread_join(other, NULL) == 0);
    test_remove_tree(folder);
}

/* A communicator without a runtime. It receives no messages until the other rank has exited. */
static void *be_silent(void *user)
{
    spsh__comm *c = open_comm(user, 1, 2);
    uint8_t byte = 0;
    spsh__comm_handle h = 0;
    REQUIRE(c->ops->receive_fn(c, 0, 1, &byte, 1, &h, NULL) == SPSH_OK);
    CHECK(c->ops->wait_fn(c, h, DEADLINE_MS, NULL) == SPSH_E_TIMEOUT);
    spsh__comm_close(c);
    return NULL;
}

/* An allocator that tracks the blocks that are not freed. */
static struct {
    pthread_mutex_t lock;
    void *blocks[1000];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void swap_block(const void *from, void *to)
{
    size_t at = 0;
    (void)pthread_mutex_lock(&kept.lock);
    while (at < 1000 && kept.blocks[at] != from)
        at++;
    REQUIRE(at < 1000);
    kept.blocks[at] = to;
    (void)pthread_mutex_unlock(&kept.lock);
}

static void *keep(void *user, size_t size_bytes)
{
    void *memory = malloc(size_bytes);
    (void)user;
    REQUIRE(memory != NULL);
    swap_block(NULL, memory);
    return memory;
}

static void give_back(void *user, void *memory)
{
    (void)user;
    if (memory != NULL)
        swap_block(memory, NULL);
    free(memory);
}

static const spsh_allocator keeper = {keep, give_back, NULL};

/* Return the number of blocks that are left, and free them. */
static uint32_t count_kept(void)
{
    uint32_t count = 0;
    for (size_t i = 0; i < 1000; i++) {
        count += kept.blocks[i] != NULL;
        free(kept.blocks[i]);
        kept.blocks[i] = NULL;
    }
    return count;
}

/* Choose whether the communicator keeps memory after a failure, as MPI does. */
static void make_linger(spsh__comm *c, bool lingers, spsh__comm_ops *ops)
{
    *ops = *c->ops;
    ops->lingers = lingers;
    c->ops = ops;
}

static void close_behind_a_failure(bool lingers)
{
    static uint8_t part[SPSH__PART_BYTES];
    const spsh__message m = {.kind = 1, .bytes = part, .size_bytes = sizeof(part)};
    spsh__comm_ops ops;
    spsh__runtime *t = NULL;
    char folder[64];
    pthread_t other;
    test_temp_dir(folder, sizeof(folder));
    REQUIRE(pthread_create(&other, NULL, be_silent, folder) == 0);
    spsh__comm *c = open_comm(folder, 0, 2);
    make_linger(c, lingers, &ops);
    REQUIRE(spsh__runtime_processes_open(c, &keeper, &t, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(t->ops->post_fn(t, 1, &m, NULL) == SPSH_OK);
    spsh__comm_fail(c);
    const uint64_t begin_ns = spsh__now_ns();
    t->ops->close_fn(t);
    CHECK(spsh__now_ns() - begin_ns < DEADLINE_MS / 4 * UINT64_C(1000000));
    spsh__comm_close(c);
    REQUIRE(pthread_join(other, NULL) == 0);
    CHECK_U64(count_kept(), lingers ? 4 : 0); /* three parts, and the list of them */
    test_remove_tree(folder);
}

/* A close after a failure does not wait for messages that will not be sent. */
static void test_closing_behind_a_failure(void)
{
    close_behind_a_failure(false);
    close_behind_a_failure(true);
}

/* Memory that other ranks might still write to is not freed. */
static void test_a_sum_that_fails(void)
{
    for (uint32_t lingers = 0; lingers < 2; lingers++) {
        spsh__comm_ops ops;
        uint64_t value = 1;
        char folder[64];
        pthread_t other;
        test_temp_dir(folder, sizeof(folder));
        REQUIRE(pthread_create(&other, NULL, be_silent, folder) == 0);
        spsh__comm *c = open_comm_of(&keeper, folder, 0, 2);
        make_linger(c, lingers == 1, &ops);
        c->deadline_ms = 1;
        CHECK(spsh__comm_all_reduce(c, SPSH__COMM_U64, SPSH__COMM_SUM, &value, 1, NULL) ==
              SPSH_E_TIMEOUT);
        spsh__comm_close(c);
        REQUIRE(pthread_join(other, NULL) == 0);
        CHECK_U64(count_kept(), lingers);
        test_remove_tree(folder);
    }
}

TEST_MAIN(unit_train_processes)
{
    (void)argc, (void)argv;
    RUN(test_they_come_to_the_minimum);
    RUN(test_one_goes);
    RUN(test_one_goes_before_somebody_listens);
    RUN(test_a_recorded_run_is_replayed);
    RUN(test_who_has_answered_has_mixed);
    RUN(test_closing_behind_a_failure);
    RUN(test_a_sum_that_fails);
    return TEST_RESULT();
}

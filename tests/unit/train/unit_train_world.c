/* unit_train_world.c: processes train a model of plain numbers. mpi_world_test.py compares the
 * results of 1, 2, 3, and 4 processes.
 *
 *     test_train_world                                         one process: the strategies agree
 *     mpirun -np 3 test_train_world allreduce 8 1              virtual_world 8, accumulate 1
 *     mpirun -np 3 test_train_world allreduce 8 1 hang 2       rank 2 stops answering in step 3
 *
 * Rank 0 prints a hash of weights, moments, statistics, and totals. The magnitudes of the gradients
 * are such that another order of their sum gives another result.
 */
#include <math.h>
#include <signal.h>

#include "comm/comm.h"
#include "fault_alloc.h"
#include "spsh_test.h"
#include "strategy/strategy.h"

#define STEPS       6
#define DEADLINE_MS 60000 /* for the rendezvous, unless TEST_DEADLINE_MS gives another */
#define FAULT_MS    8000  /* limit for a rank that never answers; others answer soon */
#define STATISTICS  37
#define SHARED      3
#define BUCKETS     5

static const uint64_t bucket_counts[BUCKETS] = {100032, 16384, 64, 40000, 128};

/* A backend of a few operators ---------------------------------------------------------------- */

static spsh_status tiny_alloc(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                              spsh_error *err)
{
    (void)b, (void)err;
    ret->data = calloc(count, sizeof(float));
    REQUIRE(ret->data != NULL);
    return SPSH_OK;
}

static void tiny_free(spsh__backend *b, spsh__backend_buffer buffer)
{
    (void)b;
    free(buffer.data);
}

static void tiny_zero(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    (void)b;
    memset(to.data, 0, count * sizeof(float));
}

static void tiny_copy(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                      size_t count)
{
    (void)b;
    memcpy(to.data, from.data, count * sizeof(float));
}

static void tiny_axpy(spsh__backend *b, double factor, spsh__backend_buffer x,
                      spsh__backend_buffer y, size_t count)
{
    const float *from = x.data;
    float *to = y.data;
    (void)b;
    for (size_t i = 0; i < count; i++)
        to[i] += (float)factor * from[i];
}

static void tiny_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count)
{
    float *values = x.data;
    (void)b;
    for (size_t i = 0; i < count; i++)
        values[i] *= (float)factor;
}

static double tiny_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count)
{
    const float *values = x.data;
    double sum = 0;
    (void)b;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum;
}

static const spsh__backend_ops tiny_ops = {
    .name = "tiny",
    .element_bytes = sizeof(float),
    .alloc_fn = tiny_alloc,
    .free_fn = tiny_free,
    .zero_fn = tiny_zero,
    .copy_fn = tiny_copy,
    .axpy_fn = tiny_axpy,
    .scale_fn = tiny_scale,
    .square_sum_fn = tiny_square_sum,
};

/* A run -----------------------------------------------------------------------------------------
 */

typedef struct run {
    spsh__backend backend;
    spsh__learner learner;
    spsh__slice buckets[BUCKETS];
    spsh__strategy *strategy;
    const char *fault; /* NULL: none */
    uint32_t fault_rank;
    uint64_t hash;
} run;

/* Values of many magnitudes, a function of only `what` and `i`. */
static float noise(uint64_t what, uint64_t i)
{
    uint64_t state = what * UINT64_C(0x100000001b3) + i;
    uint64_t bits = test_random(&state);
    double value = (double)(int64_t)bits / 9.3e18;
    return (float)(value * (1u << (bits % 13)));
}

static void fill_bucket(const run *r, uint32_t leaf, uint32_t bucket)
{
    const spsh__slice *b = &r->buckets[bucket];
    float *gradients = (float *)r->learner.gradients.data + b->offset;
    const float *weights = (const float *)r->learner.weights.data + b->offset;
    for (uint64_t i = 0; i < b->count; i++) {
        CHECK(gradients[i] == 0);
        gradients[i] += noise(r->learner.step * 1000 + leaf, b->offset + i) + 0.01f * weights[i];
    }
}

static void see_batch(const run *r, uint32_t leaf)
{
    float *statistics = r->learner.statistics.data;
    for (uint64_t i = 0; i < STATISTICS; i++)
        statistics[i] = 0.9f * statistics[i] + 0.1f * noise(r->learner.step * 77 + leaf, i);
}

/* The last step is incomplete, and a micro-batch in the middle of the second step is empty. */
static bool is_empty(const run *r, uint32_t leaf)
{
    return (r->learner.step == STEPS - 1 && leaf >= 2) || (r->learner.step == 1 && leaf == 1);
}

static spsh_status train_leaf(run *r, uint32_t leaf, double *row, spsh_error *err)
{
    spsh__strategy *s = r->strategy;
    spsh_status rc = SPSH_OK;
    memset(row, 0, SHARED * sizeof(*row));
    if (is_empty(r, leaf))
        return r->learner.step == 1 ? s->ops->skip_leaf_fn(s, leaf, err) : SPSH_OK;
    see_batch(r, leaf);
    row[0] = (double)noise(leaf, r->learner.step);
    row[1] = 1;
    row[2] = leaf;
    for (uint32_t bucket = 0; rc == SPSH_OK && bucket < BUCKETS; bucket++) {
        fill_bucket(r, leaf, bucket);
        rc = s->ops->on_bucket_fn(s, leaf, bucket, err);
    }
    return rc;
}

static void update(run *r, double square_sum)
{
    float scale = (float)(1.0 / sqrt(1 + square_sum));
    float *weights = r->learner.weights.data;
    float *moments = r->learner.moments[0].data;
    const float *gradients = r->learner.gradients.data;
    spsh__slice slice;
    for (uint32_t n = 0; r->strategy->ops->slice_fn(r->strategy, n, &slice); n++)
        for (uint64_t i = slice.offset; i < slice.offset + slice.count; i++) {
            moments[i] = 0.9f * moments[i] + scale * gradients[i];
            weights[i] -= 0.1f * moments[i];
        }
}

static void hash_bytes(run *r, const void *bytes, size_t size_bytes)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < size_bytes; i++)
        r->hash = (r->hash ^ b[i]) * UINT64_C(0x100000001b3);
}

static void fail_as_asked(const run *r)
{
    if (r->fault == NULL || r->learner.step != 3)
        return;
    r->learner.comm->deadline_ms = FAULT_MS;
    if (r->learner.comm->rank != r->fault_rank)
        return;
    if (strcmp(r->fault, "kill") == 0)
        raise(SIGKILL);
    while (strcmp(r->fault, "hang") == 0)
        pause();
}

static spsh_status train_step(run *r, spsh_error *err)
{
    spsh__strategy *s = r->strategy;
    double rows[SPSH__LEAVES_MAX * SHARED];
    double totals[SHARED] = {0};
    double square_sum = 0;
    uint32_t count = spsh__leaf_count(&r->learner);
    spsh_status rc = s->ops->before_forward_fn(s, err);
    for (uint32_t own = 0; rc == SPSH_OK && own < count; own++)
        rc = train_leaf(r, spsh__leaf_of(&r->learner, own), rows + (size_t)own * SHARED, err);
    fail_as_asked(r);
    if (rc == SPSH_OK)
        rc = s->ops->after_backward_fn(s, rows, totals, SHARED, err);
    if (rc == SPSH_OK)
        rc = s->ops->square_sum_fn(s, &square_sum, err);
    if (rc != SPSH_OK)
        return rc;
    update(r, square_sum);
    hash_bytes(r, totals, sizeof(totals));
    hash_bytes(r, &square_sum, sizeof(square_sum));
    return s->ops->after_step_fn(s, err);
}

static void take_arenas(run *r)
{
    spsh__learner *l = &r->learner;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        bool is_other = r->fault != NULL && strcmp(r->fault, "other-model") == 0 &&
                        l->comm->rank == r->fault_rank && b == 1;
        r->buckets[b] = (spsh__slice){l->arena_elements, bucket_counts[b] - (is_other ? 64 : 0)};
        l->arena_elements += r->buckets[b].count;
    }
    l->buckets = r->buckets;
    l->bucket_count = BUCKETS;
    l->statistics_elements = STATISTICS;
    tiny_alloc(NULL, l->arena_elements, &l->weights, NULL);
    tiny_alloc(NULL, l->arena_elements, &l->gradients, NULL);
    tiny_alloc(NULL, l->arena_elements, &l->moments[0], NULL);
    tiny_alloc(NULL, STATISTICS, &l->statistics, NULL);
    /* The count of rank 0, which the others must receive. */
    float *weights = l->weights.data;
    for (uint64_t i = 0; i < l->arena_elements; i++)
        weights[i] = noise(l->comm->rank, i);
}

static spsh_status train(run *r, const char *strategy, spsh_error *err)
{
    spsh__learner *l = &r->learner;
    r->hash = UINT64_C(0xcbf29ce484222325);
    r->backend = (spsh__backend){.ops = &tiny_ops, .allocator = *spsh_allocator_default()};
    l->backend = &r->backend;
    take_arenas(r);
    spsh_status rc = spsh__strategy_open(strategy, spsh_allocator_default(), &r->strategy, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->start_fn(r->strategy, l, err);
    for (l->step = 0; rc == SPSH_OK && l->step < STEPS; l->step++)
        rc = train_step(r, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->gather_fn(r->strategy, err);
    if (rc != SPSH_OK)
        return rc;
    hash_bytes(r, l->weights.data, l->arena_elements * sizeof(float));
    hash_bytes(r, l->moments[0].data, l->arena_elements * sizeof(float));
    hash_bytes(r, l->statistics.data, STATISTICS * sizeof(float));
    return SPSH_OK;
}

static void end_run(run *r)
{
    spsh__strategy_close(r->strategy);
    free(r->learner.weights.data);
    free(r->learner.gradients.data);
    free(r->learner.moments[0].data);
    free(r->learner.statistics.data);
}

/* One process -------------------------------------------------------------------------------- */

static uint64_t train_alone(const char *strategy, uint32_t virtual_world, uint32_t accumulate)
{
    run r = {0};
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__comm_self_open(spsh_allocator_default(), &r.learner.comm, NULL) == SPSH_OK);
    r.learner.virtual_world = virtual_world;
    r.learner.accumulate = accumulate;
    CHECK_I64(train(&r, strategy, &err), SPSH_OK);
    end_run(&r);
    spsh__comm_close(r.learner.comm);
    return r.hash;
}

static void test_strategies_agree(void)
{
    for (uint32_t world = 0; world < 10; world += 3)
        CHECK_U64(train_alone("partitioned", world, 1), train_alone("allreduce", world, 1));
}

static void test_the_order_matters(void)
{
    /* Otherwise equal hashes would prove nothing. */
    CHECK(train_alone("allreduce", 4, 1) != train_alone("allreduce", 2, 1));
    CHECK_U64(train_alone("allreduce", 4, 2), train_alone("allreduce", 8, 1));
}

static void test_wrong_turns(void)
{
    run r = {0};
    spsh__strategy *s = NULL;
    REQUIRE(spsh__comm_self_open(spsh_allocator_default(), &r.learner.comm, NULL) == SPSH_OK);
    r.learner.virtual_world = 3;
    CHECK_I64(train(&r, "allreduce", NULL), SPSH_OK);
    CHECK_I64(r.strategy->ops->before_forward_fn(r.strategy, NULL), SPSH_OK);
    CHECK_I64(r.strategy->ops->on_bucket_fn(r.strategy, 1, 0, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(r.strategy->ops->on_bucket_fn(r.strategy, 0, BUCKETS, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(r.strategy->ops->skip_leaf_fn(r.strategy, 2, NULL), SPSH_E_INVALID_ARG);
    CHECK_I64(spsh__strategy_open("ring", spsh_allocator_default(), &s, NULL), SPSH_E_NOT_FOUND);
    end_run(&r);
    spsh__comm_close(r.learner.comm);
}

static void test_every_allocation_failure(void)
{
    spsh_status rc = SPSH_E_NO_MEMORY;
    for (uint64_t fail_at = 0; rc != SPSH_OK && fail_at < 100; fail_at++) {
        fault_alloc fault = {.fail_at = fail_at};
        spsh_allocator allocator = {fault_alloc_alloc, fault_alloc_free, &fault};
        run r = {0};
        REQUIRE(spsh__comm_self_open(spsh_allocator_default(), &r.learner.comm, NULL) == SPSH_OK);
        r.learner.virtual_world = 5;
        r.backend = (spsh__backend){.ops = &tiny_ops};
        r.learner.backend = &r.backend;
        take_arenas(&r);
        rc = spsh__strategy_open("partitioned", &allocator, &r.strategy, NULL);
        if (rc == SPSH_OK)
            rc = r.strategy->ops->start_fn(r.strategy, &r.learner, NULL);
        CHECK(rc == SPSH_OK || rc == SPSH_E_NO_MEMORY);
        end_run(&r);
        spsh__comm_close(r.learner.comm);
        CHECK_U64(fault.live_count, 0);
    }
    CHECK_I64(rc, SPSH_OK);
}

/* Runs in one shared folder are told apart by their names. Runs without a unique name are told
 * apart by their training folders. */
static void test_runs_meet_apart(void)
{
    static const struct {
        const char *ids[2], *folders[2];
        bool is_same;
    } cases[] = {
        {{"one", "one"},   {"a", "b"}, true },
        {{"one", "two"},   {"a", "a"}, false},
        {{"none", "none"}, {"a", "a"}, true },
        {{"none", "none"}, {"a", "b"}, false},
        {{"", ""},         {"a", "b"}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char paths[2][200];
        for (size_t n = 0; n < 2; n++) {
            spsh__launch launch = {.world_size = 2};
            const spsh__rendezvous_options o = {
                .launch = &launch, .where = "file:///shared", .folder = cases[i].folders[n]};
            (void)snprintf(launch.run_id, sizeof(launch.run_id), "%s", cases[i].ids[n]);
            CHECK(spsh__rendezvous_path(&o, paths[n], sizeof(paths[n])));
        }
        CHECK(strncmp(paths[0], "/shared/.meeting-", 17) == 0);
        CHECK((strcmp(paths[0], paths[1]) == 0) == cases[i].is_same);
    }
}

/* Several processes -------------------------------------------------------------------------- */

static void check_sums(spsh__comm *comm)
{
    uint64_t counts[2] = {1, comm->rank};
    double reals[2] = {1.0 / (3 + comm->rank), comm->rank == 1 ? nan("") : 1};
    uint32_t last = comm->world_size - 1;
    CHECK(spsh__comm_all_reduce(comm, SPSH__COMM_U64, SPSH__COMM_SUM, counts, 2, NULL) == SPSH_OK);
    CHECK_U64(counts[0], comm->world_size);
    CHECK_U64(counts[1], (uint64_t)last * (last + 1) / 2);
    CHECK(spsh__comm_all_reduce(comm, SPSH__COMM_F64, SPSH__COMM_MAX, reals, 2, NULL) == SPSH_OK);
    CHECK(reals[0] == 1.0 / 3);
    CHECK(isnan(reals[1]) == (comm->world_size > 1));
    counts[0] = comm->rank;
    CHECK(spsh__comm_all_reduce(comm, SPSH__COMM_U64, SPSH__COMM_MAX, counts, 1, NULL) == SPSH_OK);
    CHECK_U64(counts[0], last);
}

static int in_company(char **arguments, int count)
{
    run r = {0};
    spsh__launch launch;
    const char *ms = getenv("TEST_DEADLINE_MS");
    const uint32_t deadline_ms = ms == NULL ? DEADLINE_MS : (uint32_t)strtoul(ms, NULL, 10);
    /* A shared folder, for processes without MPI. */
    const spsh__rendezvous_options meeting = {&launch, getenv("TEST_RENDEZVOUS"), NULL, deadline_ms,
                                              NULL};
    spsh__comm *comm = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (count > 4) {
        r.fault = arguments[3];
        r.fault_rank = (uint32_t)strtoul(arguments[4], NULL, 10);
    }
    spsh_status rc = spsh__launch_find(NULL, NULL, &launch, &err);
    if (rc == SPSH_OK)
        rc = spsh__comm_open(&meeting, spsh_allocator_default(), &comm, &err);
    if (rc != SPSH_OK) {
        fprintf(stderr, "%s\n", err.message);
        return rc == SPSH_E_UNSUPPORTED ? TEST_SKIPPED : 1;
    }
    check_sums(comm);
    r.learner.comm = comm;
    r.learner.virtual_world = (uint32_t)strtoul(arguments[1], NULL, 10);
    r.learner.accumulate = (uint32_t)strtoul(arguments[2], NULL, 10);
    rc = train(&r, arguments[0], &err);
    if (rc != SPSH_OK) {
        fprintf(stderr, "rank %u: %s: %s\n", comm->rank, spsh_status_name(rc), err.message);
        end_run(&r);
        spsh__comm_close(comm);
        return 1;
    }
    uint64_t greatest = r.hash;
    CHECK(spsh__comm_all_reduce(comm, SPSH__COMM_U64, SPSH__COMM_MAX, &greatest, 1, NULL) ==
          SPSH_OK);
    CHECK_U64(greatest, r.hash);
    if (comm->rank == 0)
        printf("hash %016" PRIx64 "\n", r.hash);
    end_run(&r);
    spsh__comm_close(comm);
    return TEST_RESULT();
}

TEST_MAIN(unit_train_world)
{
    if (argc >= 4)
        return in_company(argv + 1, argc - 1);
    RUN(test_strategies_agree);
    RUN(test_the_order_matters);
    RUN(test_wrong_turns);
    RUN(test_every_allocation_failure);
    RUN(test_runs_meet_apart);
    return TEST_RESULT();
}

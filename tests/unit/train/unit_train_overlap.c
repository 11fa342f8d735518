/* unit_train_overlap.c: the exchange of a bucket completes while the next bucket is computed: its
 * pieces, their sum, and the return of the sum. The computing thread makes no call for it. Ranks
 * are threads that use TCP as processes do. Byte counts show whether a message was sent, not times.
 * Messages of 16 bits have half as many bytes, and sums of floats in between.
 */
#include <pthread.h>
#include <sched.h>

#include "cuda/device_half.h"
#include "speechshard/inside.h"
#include "spsh_test.h"
#include "strategy/strategy.h"

#define RANKS    2
#define PART     16384u /* elements of a bucket that belong to a rank */
#define BUCKETS  2
#define STEPS    3
#define LONG_MS  60000
#define LIMIT_NS UINT64_C(30000000000) /* longer than this: it never goes */

static char folder[64];
static spsh__precision sent_as = SPSH__FP32;

typedef struct rank {
    uint32_t rank;
    spsh__backend *backend;
    spsh__learner learner;
    spsh__slice buckets[BUCKETS];
    spsh__strategy *strategy;
    uint64_t begin_bytes;
    pthread_t thread;
} rank;

static void open_rank(rank *r)
{
    const uint64_t elements = RANKS * PART;
    spsh__launch launch = {.rank = r->rank,
                           .world_size = RANKS,
                           .local_rank = r->rank,
                           .local_size = RANKS,
                           .node_count = 1,
                           .launcher = "environment"};
    const spsh__rendezvous_options meeting = {
        .launch = &launch, .folder = folder, .deadline_ms = LONG_MS};
    spsh__learner *l = &r->learner;
    (void)snprintf(launch.comm, sizeof(launch.comm), "tcp");
    REQUIRE(spsh__comm_open(&meeting, spsh_allocator_default(), &l->comm, NULL) == SPSH_OK);
    l->comm->deadline_ms = LONG_MS;
    REQUIRE(spsh__backend_open("cpu", 1, NULL, &r->backend, NULL) == SPSH_OK);
    l->backend = r->backend;
    l->sent_as = sent_as;
    for (uint32_t b = 0; b < BUCKETS; b++)
        r->buckets[b] = (spsh__slice){b * elements, elements};
    l->buckets = r->buckets;
    l->bucket_count = BUCKETS;
    l->arena_elements = BUCKETS * elements;
    const spsh__backend_ops *ops = r->backend->ops;
    REQUIRE(ops->alloc_fn(r->backend, l->arena_elements, &l->weights, NULL) == SPSH_OK);
    REQUIRE(ops->alloc_fn(r->backend, l->arena_elements, &l->gradients, NULL) == SPSH_OK);
    REQUIRE(ops->alloc_fn(r->backend, 1, &l->statistics, NULL) == SPSH_OK);
    REQUIRE(spsh__strategy_open("allreduce", spsh_allocator_default(), &r->strategy, NULL) ==
            SPSH_OK);
    REQUIRE(r->strategy->ops->start_fn(r->strategy, l, NULL) == SPSH_OK);
}

static void close_rank(rank *r)
{
    const spsh__backend_ops *ops = r->backend->ops;
    spsh__strategy_close(r->strategy);
    ops->free_fn(r->backend, r->learner.weights);
    ops->free_fn(r->backend, r->learner.gradients);
    ops->free_fn(r->backend, r->learner.statistics);
    spsh__backend_close(r->backend);
    spsh__comm_close(r->learner.comm);
}

static float value_of(uint32_t step, uint32_t number, uint64_t i)
{
    return (float)(1 + step) + 0.5F * (float)number + (float)(i % 1000);
}

static float rounded(float value)
{
    const bool is_bf16 = sent_as == SPSH__BF16;
    return sent_as == SPSH__FP32 ? value
                                 : spsh__f32_of_half(spsh__half_of_f32(value, is_bf16), is_bf16);
}

/* The owner of a part adds the rounded values of the other rank to its own, and rounds the sum. */
static float sum_of(uint32_t step, uint64_t i)
{
    const float first = value_of(step, 0, i), second = value_of(step, 1, i);
    return rounded(i / PART % RANKS == 0 ? first + rounded(second) : rounded(first) + second);
}

static uint64_t sent_bytes(const rank *r)
{
    return __atomic_load_n(&r->learner.comm->sent_bytes, __ATOMIC_RELAXED) - r->begin_bytes;
}

/* Compute as a long layer does, and nothing else. */
static void compute_until_sent(const rank *r, uint64_t bytes)
{
    const uint64_t begin_ns = spsh__now_ns();
    while (sent_bytes(r) < bytes && spsh__now_ns() - begin_ns < LIMIT_NS)
        (void)sched_yield();
    CHECK_U64(sent_bytes(r), bytes);
}

static void make_step(rank *r, uint32_t step)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    const size_t element_bytes = sent_as == SPSH__FP32 ? sizeof(float) : sizeof(uint16_t);
    float *gradients = r->learner.gradients.data;
    const double row = 1 + r->rank;
    double total = 0;
    r->learner.step++;
    r->begin_bytes += sent_bytes(r);
    REQUIRE(ops->before_forward_fn(r->strategy, NULL) == SPSH_OK);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const spsh__slice *s = &r->buckets[b];
        for (uint64_t i = s->offset; i < s->offset + s->count; i++)
            gradients[i] = value_of(step, r->rank, i);
        REQUIRE(ops->on_bucket_fn(r->strategy, r->rank, b, NULL) == SPSH_OK);
        /* the other rank's part as a piece, and the sum of the own part */
        compute_until_sent(r, (b + 1) * 2 * PART * element_bytes);
    }
    REQUIRE(ops->after_backward_fn(r->strategy, &row, &total, 1, NULL) == SPSH_OK);
    CHECK(total == 3);
    for (uint64_t i = 0; i < r->learner.arena_elements; i++)
        REQUIRE(gradients[i] == sum_of(step, i));
    REQUIRE(ops->after_step_fn(r->strategy, NULL) == SPSH_OK);
}

static void *be_rank(void *user)
{
    rank *r = user;
    open_rank(r);
    for (uint32_t step = 0; step < STEPS; step++)
        make_step(r, step);
    close_rank(r);
    return NULL;
}

static void test_sums_go_on_by_themselves(void)
{
    rank ranks[RANKS];
    (void)snprintf(folder, sizeof(folder), "/tmp/test-overlap-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.rank = i};
        REQUIRE(pthread_create(&ranks[i].thread, NULL, be_rank, &ranks[i]) == 0);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        REQUIRE(pthread_join(ranks[i].thread, NULL) == 0);
    CHECK(rmdir(folder) == 0);
}

static void test_sums_of_halves(void)
{
    sent_as = SPSH__BF16;
    CHECK(sum_of(0, 999) != value_of(0, 0, 999) + value_of(0, 1, 999));
    test_sums_go_on_by_themselves();
    sent_as = SPSH__FP16;
    test_sums_go_on_by_themselves();
    sent_as = SPSH__FP32;
}

/* A step is abandoned halfway, for example because a batch cannot be read. The buffers that are
 * then closed must not be used any more. */
static void *leave_half_way(void *user)
{
    rank *r = user;
    open_rank(r);
    REQUIRE(r->strategy->ops->before_forward_fn(r->strategy, NULL) == SPSH_OK);
    REQUIRE(r->strategy->ops->on_bucket_fn(r->strategy, r->rank, 0, NULL) == SPSH_OK);
    spsh__comm_fail(r->learner.comm);
    close_rank(r);
    return NULL;
}

static void test_left_half_way(void)
{
    rank ranks[RANKS];
    (void)snprintf(folder, sizeof(folder), "/tmp/test-overlap-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.rank = i};
        REQUIRE(pthread_create(&ranks[i].thread, NULL, leave_half_way, &ranks[i]) == 0);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        REQUIRE(pthread_join(ranks[i].thread, NULL) == 0);
    CHECK(rmdir(folder) == 0);
}

TEST_MAIN(unit_train_overlap)
{
    RUN(test_sums_go_on_by_themselves);
    RUN(test_sums_of_halves);
    RUN(test_left_half_way);
    return TEST_RESULT();
}

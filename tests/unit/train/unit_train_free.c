/* unit_train_free.c [PLUGIN]: strategies with a model per learner, in a simulation. Learners
 * minimize a quadratic, or take no gradient steps, so that only averaging changes the models. The
 * tests check the sums that averaging keeps, how fast it mixes, and which learners wait for others.
 *
 * With PLUGIN, the host emulation of the CUDA plug-in, each learner has a backend `cuda` for its
 * steps and another one for its arena, as in a run. The emulation then also checks that all work on
 * the same memory is ordered.
 */
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_test.h"
#include "doubles.h"
#include "runtime/runtime_sim.h"
#include "spsh_test.h"
#include "strategy/strategy_internal.h"

#define LEARNERS_MAX 16
#define ELEMENTS     700 /* elements of an arena */
#define MS           UINT64_C(1000000)

static spsh_cuda *cuda; /* NULL: backend `cpu` */

typedef struct setting {
    const char *strategy;
    uint32_t learners;
    uint64_t steps;         /* steps of each learner; UINT64_MAX: until end_ns */
    uint64_t end_ns;        /* 0: steps decide */
    uint64_t more;          /* steps after the consensus */
    double rate;            /* 0: only averaging */
    double noise;           /* noise of gradients */
    uint64_t seed;          /* seed of the rings */
    uint64_t part_elements; /* 0: the arena has one part */
    double *errors;         /* spread of all models before each step of learner 0, or NULL */
    spsh__strategy_options options;
    spsh__sim_options sim; /* links and faults */
} setting;

typedef struct learner {
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__slice bucket;
    uint64_t steps;
    const struct world *world;
} learner;

typedef struct world {
    const setting *o;
    spsh__sim *sim;
    learner learners[LEARNERS_MAX];
    spsh__staleness staleness; /* total over all learners */
    float shared[ELEMENTS];
    uint64_t begin_ns;
    double sums[2][ELEMENTS]; /* over learners: at the beginning, at the end */
} world;

static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, ELEMENTS * sizeof(double)) == 0;
}

static double value(uint64_t what, uint64_t i)
{
    uint64_t state = what * UINT64_C(0x100000001b3) + i;
    (void)test_random(&state);
    return (double)(int64_t)test_random(&state) / 9.3e18;
}

static spsh__backend *open_backend(void)
{
    const spsh__backend_options options = {
        .name = cuda != NULL ? "cuda" : "cpu", .threads = 1, .precision = SPSH__FP32, .cuda = cuda};
    spsh__backend *b = NULL;
    REQUIRE(spsh__backend_open_with(&options, spsh_allocator_default(), &b, NULL) == SPSH_OK);
    return b;
}

static spsh__backend_buffer new_buffer(spsh__backend *b)
{
    spsh__backend_buffer buffer = {NULL, false};
    REQUIRE(b->ops->alloc_fn(b, ELEMENTS, &buffer, NULL) == SPSH_OK);
    return buffer;
}

/* The optimizer: plain SGD. */
static void update_slice(const learner *l, spsh__backend *b, const spsh__slice *slice,
                         spsh__backend_buffer gradients, double scale)
{
    const spsh__sgd sgd = {.rate = l->world->o->rate};
    const spsh__update u = {.weights = spsh__at(b->ops, l->learner.updated, slice->offset),
                            .gradients = gradients,
                            .count = slice->count,
                            .gradient_scale = scale};
    if (sgd.rate > 0)
        b->ops->sgd_fn(b, &sgd, &u);
}

static void update_served(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                          double scale)
{
    const learner *l = (const learner *)user;
    update_slice(l, l->learner.arena_backend, slice, gradients, scale);
}

static void start_learner(world *w, uint32_t i)
{
    learner *l = &w->learners[i];
    spsh__backend *b = open_backend();
    l->bucket = (spsh__slice){0, ELEMENTS};
    l->world = w;
    l->learner = (spsh__learner){.backend = b,
                                 .arena_backend = open_backend(),
                                 .comm = spsh__sim_comm(w->sim, i),
                                 .weights = new_buffer(b),
                                 .gradients = new_buffer(b),
                                 .arena_elements = ELEMENTS,
                                 .statistics = new_buffer(b),
                                 .statistics_elements = 1,
                                 .buckets = &l->bucket,
                                 .bucket_count = 1,
                                 .virtual_world = w->o->learners,
                                 .runtime = spsh__sim_runtime(w->sim, i),
                                 .seed = w->o->seed,
                                 .shared = w->shared,
                                 .part_elements = w->o->part_elements,
                                 .options = w->o->options,
                                 .staleness = &w->staleness,
                                 .update_fn = update_served,
                                 .update_user = l};
    REQUIRE(spsh__strategy_open(w->o->strategy, spsh_allocator_default(), &l->strategy, NULL) ==
            SPSH_OK);
}

static void stop_learner(world *w, uint32_t i)
{
    learner *l = &w->learners[i];
    spsh__backend *b = l->learner.backend;
    spsh__strategy_close(l->strategy);
    b->ops->free_fn(b, l->learner.weights);
    b->ops->free_fn(b, l->learner.gradients);
    b->ops->free_fn(b, l->learner.statistics);
    CHECK(b->ops->status_fn(b, NULL) == SPSH_OK);
    spsh__backend_close(b);
    spsh__backend_close(l->learner.arena_backend);
}

/* Gradient of 1/2 |w - c|^2. c differs per learner. */
static void fill_gradients(const world *w, uint32_t i, uint64_t step)
{
    const spsh__learner *l = &w->learners[i].learner;
    float weights[ELEMENTS], gradients[ELEMENTS];
    l->backend->ops->read_f32_fn(l->backend, weights, l->weights, ELEMENTS);
    for (uint64_t e = 0; e < ELEMENTS; e++)
        gradients[e] = (float)((double)weights[e] - value(i + 1, e) +
                               w->o->noise * value(1000 + i * 7919 + step, e));
    l->backend->ops->write_f32_fn(l->backend, l->gradients, gradients, ELEMENTS);
}

static spsh_status update(world *w, uint32_t i, spsh_error *err)
{
    learner *l = &w->learners[i];
    spsh__backend *b = l->learner.backend;
    spsh__slice slice;
    if (l->strategy->ops->push_fn != NULL)
        return l->strategy->ops->push_fn(l->strategy, 1, err);
    for (uint32_t n = 0; l->strategy->ops->slice_fn(l->strategy, n, &slice); n++)
        update_slice(l, b, &slice, spsh__at(b->ops, l->learner.gradients, slice.offset), 1);
    return SPSH_OK;
}

static spsh_status step(world *w, uint32_t i, spsh_error *err)
{
    learner *l = &w->learners[i];
    spsh__runtime *t = l->learner.runtime;
    const spsh__strategy_ops *ops = l->strategy->ops;
    double row = 1, total = 0, squares = 0;
    spsh_status rc = ops->before_forward_fn(l->strategy, err);
    if (rc == SPSH_E_TIMEOUT && w->o->end_ns > 0)
        return SPSH_E_END; /* another learner has reached the end */
    if (rc != SPSH_OK)
        return rc;
    t->ops->compute_fn(t, 20 * MS);
    if (w->o->end_ns > 0 && spsh__sim_now_ns(w->sim) > w->begin_ns + w->o->end_ns)
        return SPSH_E_END;
    fill_gradients(w, i, l->learner.step);
    rc = ops->on_bucket_fn(l->strategy, spsh__leaf_of(&l->learner, 0), 0, err);
    if (rc == SPSH_OK)
        rc = ops->after_backward_fn(l->strategy, &row, &total, 1, err);
    if (rc == SPSH_E_TIMEOUT && w->o->end_ns > 0)
        return SPSH_E_END;
    if (rc == SPSH_OK)
        rc = ops->square_sum_fn(l->strategy, &squares, err);
    if (rc != SPSH_OK)
        return rc;
    if (ops->flush_fn == NULL || w->o->learners == 1)
        CHECK(total == (!ops->has_own_model           ? w->o->learners
                        : w->o->options.node_size > 0 ? w->o->options.node_size
                                                      : 1));
    else
        CHECK(total == (l->steps == 0 ? 0 : w->o->learners));
    rc = update(w, i, err);
    l->steps++;
    l->learner.step++;
    return rc != SPSH_OK ? rc : ops->after_step_fn(l->strategy, err);
}

/* The backend of the newest work on the model that is updated: of the arena, or of the learner. */
static spsh__backend *backend_of(const spsh__learner *l)
{
    return l->updated.data != NULL && l->updated.data != l->weights.data ? l->arena_backend
                                                                         : l->backend;
}

/* Only the leader of a node has an updated model. */
static void read_arena(const world *w, uint32_t i, double *to)
{
    const spsh__learner *l = &w->learners[i].learner;
    take_doubles(backend_of(l), to, l->updated.data != NULL ? l->updated : l->weights, ELEMENTS);
}

/* Squared distance of the models from their mean. */
static double spread(const world *w)
{
    static double models[LEARNERS_MAX][ELEMENTS];
    double sum = 0;
    for (uint32_t i = 0; i < w->o->learners; i++)
        read_arena(w, i, models[i]);
    for (size_t e = 0; e < ELEMENTS; e++) {
        double mean = 0;
        for (uint32_t i = 0; i < w->o->learners; i++)
            mean += models[i][e] / w->o->learners;
        for (uint32_t i = 0; i < w->o->learners; i++)
            sum += (models[i][e] - mean) * (models[i][e] - mean);
    }
    return sum;
}

static void sum_models(const world *w, double *to)
{
    double model[ELEMENTS];
    memset(to, 0, ELEMENTS * sizeof(*to));
    for (uint32_t i = 0; i < w->o->learners; i++) {
        read_arena(w, i, model);
        for (size_t e = 0; e < ELEMENTS; e++)
            to[e] += model[e];
    }
}

/* Give each learner different initial weights. */
static void scatter(world *w, uint32_t i)
{
    double weights[ELEMENTS];
    for (uint64_t e = 0; e < ELEMENTS; e++) {
        weights[e] = value(50 + i, e);
        w->sums[0][e] += weights[e];
    }
    const spsh__learner *l = &w->learners[i].learner;
    put_doubles(backend_of(l), l->updated, weights, ELEMENTS);
}

static bool is_never(void *user)
{
    (void)user;
    return false;
}

/* Resume all learners from the mean of their models. */
static spsh_status go_on(world *w, uint32_t i, spsh_error *err)
{
    learner *l = &w->learners[i];
    spsh_status rc = l->strategy->ops->consensus_fn(l->strategy, true, err);
    while (rc == SPSH_OK && l->steps < w->o->steps + w->o->more)
        rc = step(w, i, err);
    return rc != SPSH_OK || w->o->more == 0 ? rc : l->strategy->ops->settle_fn(l->strategy, err);
}

static spsh_status learn(void *user, uint32_t i, spsh_error *err)
{
    world *w = (world *)user;
    learner *l = &w->learners[i];
    spsh__runtime *t = l->learner.runtime;
    static const spsh__mark mark = {99, 0, 0};
    uint64_t all = 1;
    double total = 0;
    bool is_due = false;
    spsh_status rc = l->strategy->ops->start_fn(l->strategy, &l->learner, err);
    if (rc == SPSH_OK && w->o->rate == 0)
        scatter(w, i);
    if (rc == SPSH_OK) /* all have begun */
        rc = spsh__comm_all_reduce(l->learner.comm, SPSH__COMM_U64, SPSH__COMM_SUM, &all, 1, err);
    if (i == 0 && w->begin_ns == 0)
        w->begin_ns = spsh__sim_now_ns(w->sim);
    while (rc == SPSH_OK && l->steps < w->o->steps) {
        if (i == 0 && w->o->errors != NULL)
            w->o->errors[l->steps] = spread(w);
        rc = step(w, i, err);
    }
    if (rc == SPSH_E_END) { /* the others still run for a while, and need answers */
        (void)t->ops->wait_fn(t, &mark, is_never, NULL, 1000, NULL);
        return SPSH_OK;
    }
    if (rc == SPSH_OK && l->strategy->ops->flush_fn != NULL) {
        rc = l->strategy->ops->flush_fn(l->strategy, &total, 1, &is_due, err);
        CHECK(rc != SPSH_OK ||
              (is_due == (w->o->learners > 1) && (!is_due || total == w->o->learners)));
        if (rc == SPSH_OK && is_due)
            rc = update(w, i, err);
    }
    if (rc != SPSH_OK || !l->strategy->ops->has_own_model)
        return rc;
    rc = l->strategy->ops->settle_fn(l->strategy, err);
    if (rc == SPSH_OK && i == 0)
        sum_models(w, w->sums[1]);
    t->ops->compute_fn(t, 1000 * MS); /* before any learner takes the consensus */
    return rc != SPSH_OK ? rc : go_on(w, i, err);
}

static spsh_status run_with(world *w, const setting *o, spsh__sim_body_fn body_fn, spsh_error *err)
{
    spsh__sim_options sim = o->sim;
    sim.allocator = *spsh_allocator_default();
    sim.learners = o->learners;
    *w = (world){.o = o};
    REQUIRE(spsh__sim_open(&sim, &w->sim, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < o->learners; i++)
        start_learner(w, i);
    return spsh__sim_run(w->sim, body_fn, w, err);
}

static spsh_status run(world *w, const setting *o, spsh_error *err)
{
    return run_with(w, o, learn, err);
}

static void stop(world *w)
{
    for (uint32_t i = 0; i < w->o->learners; i++)
        stop_learner(w, i);
    spsh__sim_close(w->sim);
}

/* ---- */

static const char *const names[] = {"dpsgd-ring", "adpsgd-fixed", "adpsgd-random",
                                    "d1-model",   "ps-async",     "hogwild"};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* One learner of any strategy is SGD, to the bit. */
static void test_one_learner_is_sgd(void)
{
    double models[NAMES][ELEMENTS], want[ELEMENTS] = {0};
    for (uint64_t s = 0; s < 30; s++)
        for (uint64_t e = 0; e < ELEMENTS; e++) {
            const double noise = 0.1 * value(1000 + s, e);
            want[e] -= 0.1 * (double)(float)((double)(float)want[e] - value(1, e) + noise);
        }
    for (size_t n = 0; n < NAMES; n++) {
        const setting o = {.strategy = names[n],
                           .learners = 1,
                           .steps = 30,
                           .rate = 0.1,
                           .noise = 0.1,
                           .options = {.bound = n % 2 == 0 ? UINT32_MAX : 0}};
        world w;
        CHECK(run(&w, &o, NULL) == SPSH_OK);
        read_arena(&w, 0, models[n]);
        for (size_t e = 0; e < ELEMENTS; e++)
            CHECK(fabs(models[n][e] - want[e]) < 1e-5);
        CHECK(is_same(models[n], models[0]));
        CHECK_U64(spsh__sim_sent_bytes(w.sim, 0), 0);
        stop(&w);
    }
}

/* All learners apply each gradient once, one step after it was computed. */
static void test_gradients_that_come_a_step_late(void)
{
    const setting o = {
        .strategy = "d1-grad",
        .learners = 4,
        .steps = 20,
        .rate = 0.05,
        .noise = 0.2,
        .sim = {.jitter = 0.9, .seed = 6, .latency_ns = MS}
    };
    double want[ELEMENTS] = {0}, due[ELEMENTS] = {0}, model[ELEMENTS];
    world w;
    for (uint64_t s = 0; s <= o.steps; s++) /* the last update is the flushed one */
        for (uint64_t e = 0; e < ELEMENTS; e++) {
            double sum = 0;
            for (uint64_t i = 0; i < o.learners && s < o.steps; i++)
                sum += want[e] - value(i + 1, e) + o.noise * value(1000 + i * 7919 + s, e);
            want[e] -= o.rate * due[e];
            due[e] = sum;
        }
    CHECK(run(&w, &o, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < o.learners; i++) {
        read_arena(&w, i, model);
        for (size_t e = 0; e < ELEMENTS; e++)
            CHECK(fabs(model[e] - want[e]) < 1e-5);
    }
    stop(&w);
}

/* The result does not depend on which ranks add the gradients and make the updates. */
static void test_synchronous_strategies_have_the_same_bits(void)
{
    static const struct {
        const char *name;
        uint32_t servers;
    } of[] = {
        {"allreduce",   0},
        {"partitioned", 0},
        {"ps-sync",     0},
        {"ps-sync",     1},
        {"ps-sync",     2}
    };
    double models[2][ELEMENTS];
    for (size_t n = 0; n < sizeof(of) / sizeof(of[0]); n++) {
        const setting o = {
            .strategy = of[n].name,
            .learners = 3,
            .steps = 15,
            .rate = 0.1,
            .noise = 1,
            .options = {.servers = of[n].servers},
            .sim = { .jitter = 0.5,               .seed = n}
        };
        world w;
        CHECK(run(&w, &o, NULL) == SPSH_OK);
        for (uint32_t i = 0; i < o.learners; i++) {
            read_arena(&w, i, models[n > 0 || i > 0]);
            CHECK(is_same(models[0], models[n > 0 || i > 0]));
        }
        stop(&w);
    }
}

/* A hierarchy of one node equals its inner strategy. With nodes of one rank, it equals the outer
 * strategy. */
static void test_a_hierarchy_of_one_level_is_that_level(void)
{
    double models[2][ELEMENTS];
    for (int is_node = 0; is_node < 2; is_node++) {
        for (int n = 0; n < 2; n++) {
            const setting o = {
                .strategy = n == 0    ? "hierarchical"
                            : is_node ? "allreduce"
                                      : "adpsgd-fixed",
                .learners = 4,
                .steps = 12,
                .rate = 0.05,
                .noise = 0.5,
                .options = {.node_size = is_node ? 4 : 1, .outer = "adpsgd-fixed"},
                .sim = {.latency_ns = MS                           }
            };
            world w;
            spsh_error err = SPSH_ERROR_INIT;
            CHECK(run(&w, &o, &err) == SPSH_OK);
            read_arena(&w, 0, models[n]);
            stop(&w);
        }
        CHECK(is_same(models[0], models[1]));
    }
}

static void test_the_sum_of_models_stays(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_SLOW, 1, 5, 0, 0};
    for (size_t n = 0; n < 4; n++)
        for (uint32_t learners = 2; learners <= 7; learners++) {
            const setting o = {
                .strategy = names[n],
                .learners = learners,
                .steps = 25,
                .part_elements = learners % 2 == 0 ? 128 : 0,
                .sim = {.latency_ns = 3 * MS,
                        .bytes_per_s = 1e5,
                        .jitter = 0.7,
                        .seed = learners,
                        .faults = &fault,
                        .fault_count = 1}
            };
            world w;
            CHECK(run(&w, &o, NULL) == SPSH_OK);
            for (size_t e = 0; e < ELEMENTS; e++)
                CHECK(fabs(w.sums[0][e] - w.sums[1][e]) < 1e-5 * learners);
            CHECK(spread(&w) < 1e-9); /* after the consensus */
            stop(&w);
        }
}

/* A learner that has the consensus must not mix with one that does not have it yet. */
static void test_all_go_on_from_the_mean(void)
{
    for (size_t n = 0; n < 4; n++)
        for (uint32_t learners = 2; learners <= 7; learners++) {
            const setting o = {
                .strategy = names[n],
                .learners = learners,
                .steps = 5,
                .more = 5,
 /* a neighbor is nearer than the rank that has the mean */
                .sim = {.latency_ns = 3 * MS,
                        .bytes_per_s = 1e5,
                        .node_size = 2,
                        .jitter = 0.7,
                        .seed = learners}
            };
            world w;
            CHECK(run(&w, &o, NULL) == SPSH_OK);
            CHECK(spread(&w) < 1e-9);
            stop(&w);
        }
}

/* A hogwild step changes only elements from LOCKED on. The page before them is read-only, so a
 * write to it would crash. Meanwhile another learner has written all elements. */
#define LOCKED 300

static spsh_status change_some(void *user, uint32_t i, spsh_error *err)
{
    world *w = (world *)user;
    learner *l = &w->learners[i];
    const spsh__strategy_ops *ops = l->strategy->ops;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    float weights[ELEMENTS];
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    float *shared = (float *)(void *)(pages + page) - LOCKED;
    l->learner.shared = shared;
    spsh_status rc = ops->start_fn(l->strategy, &l->learner, err);
    for (uint64_t e = 0; e < ELEMENTS; e++)
        shared[e] = (float)e;
    if (rc == SPSH_OK)
        rc = ops->before_forward_fn(l->strategy, err);
    l->learner.backend->ops->read_f32_fn(l->learner.backend, weights, l->learner.weights, ELEMENTS);
    for (uint64_t e = 0; e < ELEMENTS; e++) {
        CHECK(weights[e] == (float)e);
        weights[e] += e < LOCKED ? 0 : 1;
        shared[e] += 2;
    }
    l->learner.backend->ops->write_f32_fn(l->learner.backend, l->learner.weights, weights,
                                          ELEMENTS);
    REQUIRE(mprotect(pages, page, PROT_READ) == 0);
    if (rc == SPSH_OK)
        rc = ops->after_step_fn(l->strategy, err);
    for (uint64_t e = 0; e < ELEMENTS; e++)
        CHECK(shared[e] == (float)e + (e < LOCKED ? 2 : 3));
    REQUIRE(munmap(pages, 2 * page) == 0);
    return rc;
}

static void test_what_did_not_change_is_not_written(void)
{
    const setting o = {.strategy = "hogwild", .learners = 1};
    world w;
    CHECK(run_with(&w, &o, change_some, NULL) == SPSH_OK);
    stop(&w);
}

/* The mean factor by which the distance to the mean shrinks, from the second step on. */
static double contraction(const char *strategy, uint32_t learners, uint64_t steps)
{
    double errors[64];
    world w;
    const setting o = {
        .strategy = strategy, .learners = learners, .steps = steps, .errors = errors};
    REQUIRE(steps <= 64);
    CHECK(run(&w, &o, NULL) == SPSH_OK);
    stop(&w);
    const uint64_t half = steps / 2;
    const double factor = pow(errors[steps - 1] / errors[half], 1.0 / (double)(steps - 1 - half));
    printf("%-14s %2u learners: %.4f a step\n", strategy, learners, factor);
    return factor;
}

static void test_mixing_is_as_fast_as_the_ring_lets_it(void)
{
    for (uint32_t learners = 4; learners <= 16; learners *= 2) {
        const double pi = 3.14159265358979323846;
        const double lambda = (1 + 2 * cos(2 * pi / learners)) / 3;
        const uint64_t steps = learners == 4 ? 6 : 30;
        for (size_t n = 0; n < 2; n++)
            CHECK(fabs(contraction(names[n], learners, steps) / (lambda * lambda) - 1) < 0.05);
    }
}

/* Mean mixing over random rings, for arbitrary models. */
static void test_a_random_ring_mixes_alike_however_large(void)
{
    for (uint32_t learners = 8; learners <= 16; learners *= 2) {
        const double want = 1.0 / 3 - 2.0 / (3 * (learners - 1.0));
        double sum = 0, errors[2];
        world w;
        for (uint64_t seed = 0; seed < 100; seed++) {
            const setting o = {.strategy = "adpsgd-random",
                               .learners = learners,
                               .steps = 2,
                               .seed = seed,
                               .errors = errors};
            CHECK(run(&w, &o, NULL) == SPSH_OK);
            stop(&w);
            sum += errors[1] / errors[0];
        }
        printf("adpsgd-random %2u learners: %.4f a step, %.4f expected\n", learners, sum / 100,
               want);
        CHECK(fabs(sum / 100 / want - 1) < 0.05);
    }
}

/* If both learners start an exchange, both must get the mean. They must not swap their models. */
static void test_two_learners_come_to_their_mean(void)
{
    for (size_t n = 0; n < 3; n++) {
        double errors[4];
        const setting o = {.strategy = names[n], .learners = 2, .steps = 4, .errors = errors};
        world w;
        CHECK(run(&w, &o, NULL) == SPSH_OK);
        stop(&w);
        CHECK(errors[3] < 1e-9 * errors[0]);
    }
}

/* Total steps of all learners, as a fraction of the steps without slow learners and messages. */
static double throughput(const char *strategy, bool has_slow, bool serves_itself)
{
    const spsh__sim_fault fault = {SPSH__SIM_SLOW, 3, 10, 0, 0};
    const setting o = {
        .strategy = strategy,
        .learners = 8,
        .steps = UINT64_MAX,
        .end_ns = 4000 * MS,
        .rate = 0.1,
        .options = {.bound = UINT32_MAX,
                    .overlaps = true,
                    .node_size = strcmp(strategy, "hierarchical") == 0 ? 2 : 0},
        .sim = { .latency_ns = MS / 10,
                    .bytes_per_s = 2800 / 6e-3, /* an arena takes 0.3 of a step */
                .node_size = strcmp(strategy, "hierarchical") == 0 ? 2 : 0,
                    .node_bytes_per_s = 2800 / 2e-4,
                    .faults = &fault,
                    .fault_count = has_slow,
                    .serves_itself = serves_itself}
    };
    uint64_t steps = 0;
    world w;
    CHECK(run(&w, &o, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < o.learners; i++)
        steps += w.learners[i].steps;
    stop(&w);
    const double share = (double)steps / (8 * 4000 / 20.0);
    printf("%-14s %s: %.3f of ideal\n", strategy, has_slow ? "one slow" : "alike   ", share);
    return share;
}

static void test_who_waits_for_a_slow_learner(void)
{
    CHECK(throughput("dpsgd-ring", false, false) >= 0.7);
    CHECK(throughput("dpsgd-ring", true, false) <= 0.15);
    CHECK(throughput("d1-model", false, false) >= 0.7);
    CHECK(throughput("d1-model", true, false) <= 0.15);
    CHECK(throughput("allreduce", true, false) <= 0.15);
    CHECK(throughput("hierarchical", false, false) >= 0.7);
    CHECK(throughput("hierarchical", true, false) >= 0.7);
    CHECK(throughput("hogwild", true, false) >= 0.8);
    CHECK(throughput("ps-async", false, false) >= 0.95);
    CHECK(throughput("ps-async", true, false) >= 0.8);
    for (size_t n = 1; n < 3; n++) {
        CHECK(throughput(names[n], false, false) >= 0.95);
        CHECK(throughput(names[n], true, false) >= 0.8);
    }
}

static double mean_staleness(const world *w)
{
    uint64_t sum = 0, count = 0;
    for (uint64_t i = 0; i < SPSH__STALENESS_MAX; i++) {
        sum += i * w->staleness.counts[i];
        count += w->staleness.counts[i];
    }
    return (double)sum / (double)count;
}

/* The learners of a server are equal: between two gradients of one learner, each other learner
 * sends one. */
static void test_staleness_is_what_comes_between(void)
{
    for (uint32_t learners = 2; learners <= 8; learners *= 2) {
        const setting o = {
            .strategy = "ps-async",
            .learners = learners,
            .steps = 60,
            .rate = 0.01,
            .options = {.bound = UINT32_MAX   },
            .sim = { .jitter = 0.3, .latency_ns = MS / 10}
        };
        world w;
        CHECK(run(&w, &o, NULL) == SPSH_OK);
        const double stale = mean_staleness(&w);
        printf("%u learners: staleness %.2f\n", learners, stale);
        CHECK(fabs(stale - (learners - 1)) < 0.15 * learners);
        stop(&w);
    }
}

/* No learner runs ahead: each step uses the gradients of all learners for the last weights. */
static void test_a_bound_of_0_is_bulk_synchronous(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_SLOW, 2, 4, 0, 0};
    const setting o = {
        .strategy = "ps-async",
        .learners = 4,
        .steps = 20,
        .rate = 0.05,
        .noise = 0.2,
        .options = {.bound = 0,        .servers = 2    },
        .sim = { .jitter = 0.9, .seed = 4, .faults = &fault, .fault_count = 1}
    };
    double want[ELEMENTS] = {0}, model[ELEMENTS];
    world w;
    for (uint64_t s = 0; s < o.steps; s++)
        for (uint64_t e = 0; e < ELEMENTS; e++) {
            double sum = 0;
            for (uint64_t i = 0; i < o.learners; i++)
                sum += want[e] - value(i + 1, e) + o.noise * value(1000 + i * 7919 + s, e);
            want[e] -= o.rate * sum;
        }
    CHECK(run(&w, &o, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < o.learners; i++) {
        const spsh__learner *l = &w.learners[i].learner;
        take_doubles(l->backend, model, l->weights, ELEMENTS);
        for (size_t e = 0; e < ELEMENTS; e++)
            CHECK(fabs(model[e] - want[e]) < 1e-5);
    }
    stop(&w);
}

/* A runtime that delays the messages that report a retired learner until after its next
 * computation. */
static struct {
    const spsh__runtime_ops *of;
    spsh__runtime_ops ops;
    spsh__message done;
    bool is_held;
} late;

static spsh_status post_late(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err)
{
    if (m->kind != SPSH__MESSAGE_DONE)
        return late.of->post_fn(t, to, m, err);
    late.done = *m;
    late.is_held = true;
    return SPSH_OK;
}

static void compute_late(spsh__runtime *t, uint64_t duration_ns)
{
    late.of->compute_fn(t, duration_ns);
    if (late.is_held)
        CHECK(late.of->post_fn(t, 0, &late.done, NULL) == SPSH_OK);
    late.is_held = false;
}

static spsh_status learn_late(void *user, uint32_t i, spsh_error *err)
{
    spsh__runtime *t = ((world *)user)->learners[i].learner.runtime;
    if (i == 1) {
        late.of = t->ops;
        late.ops = *t->ops;
        late.ops.post_fn = post_late;
        late.ops.compute_fn = compute_late;
        t->ops = &late.ops;
    }
    return learn(user, i, err);
}

/* After a barrier, the bound applies to the slow learner again. It does not matter when the server
 * hears that this learner had retired before. */
static void test_a_bound_holds_behind_a_pause(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_SLOW, 1, 4, 0, 0};
    const setting o = {
        .strategy = "ps-async",
        .learners = 2,
        .steps = 3,
        .more = 3,
        .rate = 0.05,
        .options = {.bound = 0,       .servers = 1    },
        .sim = {.faults = &fault, .fault_count = 1}
    };
    double want[ELEMENTS] = {0}, model[ELEMENTS];
    world w;
    for (uint64_t s = 0; s < o.steps + o.more; s++)
        for (uint64_t e = 0; e < ELEMENTS; e++)
            want[e] -= o.rate * (2 * want[e] - value(1, e) - value(2, e));
    CHECK(run_with(&w, &o, learn_late, NULL) == SPSH_OK);
    read_arena(&w, 0, model);
    double furthest = 0;
    for (size_t e = 0; e < ELEMENTS; e++)
        furthest = fmax(furthest, fabs(model[e] - want[e]));
    CHECK(furthest < 1e-5);
    stop(&w);
}

static void test_a_dead_neighbour_is_named(void)
{
    const spsh__sim_fault fault = {SPSH__SIM_KILL, 2, 0, 100 * MS, 0};
    const setting o = {
        .strategy = "dpsgd-ring",
        .learners = 5,
        .steps = 50,
        .sim = {.deadline_ms = 300, .faults = &fault, .fault_count = 1}
    };
    spsh_error err = SPSH_ERROR_INIT;
    world w;
    CHECK(run(&w, &o, &err) == SPSH_E_TIMEOUT);
    stop(&w);
}

/* Bytes between host and device, and in messages. */
typedef struct traffic {
    uint64_t up, down, sent;
} traffic;

static traffic traffic_of(twin_controls *twin, const char *strategy, uint64_t steps)
{
    const setting o = {.strategy = strategy,
                       .learners = 4,
                       .steps = steps,
                       .rate = 0.05,
                       .sim = {.latency_ns = MS}};
    const uint64_t up = twin->up_bytes, down = twin->down_bytes;
    traffic t = {0};
    world w;
    CHECK(run(&w, &o, NULL) == SPSH_OK);
    for (uint32_t i = 0; i < o.learners; i++)
        t.sent += spsh__sim_sent_bytes(w.sim, i);
    stop(&w);
    t.up = twin->up_bytes - up;
    t.down = twin->down_bytes - down;
    return t;
}

/* A snapshot comes from the device once, also for two neighbors, and goes to the device once for
 * each receiver: to be mixed there. Each step of the test reads the weights and a norm, and writes
 * the gradients. */
static void test_what_crosses(twin_controls *twin)
{
    static const struct {
        const char *name;
        uint64_t receivers;
    } rows[] = {
        {"dpsgd-ring",    2},
        {"adpsgd-fixed",  1},
        {"adpsgd-random", 1}
    };
    const uint64_t steps = 20, learners = 4, arena = ELEMENTS * sizeof(float);
    for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
        const traffic some = traffic_of(twin, rows[n].name, steps),
                      more = traffic_of(twin, rows[n].name, 2 * steps);
        const uint64_t sent = more.sent - some.sent, own = steps * learners * arena;
        CHECK(sent > 0);
        CHECK_U64(more.up - some.up, own + sent);
        CHECK_U64(more.down - some.down,
                  own + steps * learners * sizeof(double) + sent / rows[n].receivers);
    }
}

/* The tests of what learners compute. */
static void run_computations(void)
{
    RUN(test_one_learner_is_sgd);
    RUN(test_gradients_that_come_a_step_late);
    RUN(test_synchronous_strategies_have_the_same_bits);
    RUN(test_a_hierarchy_of_one_level_is_that_level);
    RUN(test_the_sum_of_models_stays);
    RUN(test_all_go_on_from_the_mean);
    RUN(test_what_did_not_change_is_not_written);
    RUN(test_two_learners_come_to_their_mean);
}

TEST_MAIN(unit_train_free)
{
    twin_controls *twin = NULL;
    const int refused = argc > 1 ? device_test_open(argv[1], &cuda, &twin) : 0;
    if (refused != 0)
        return refused;
    run_computations();
    if (cuda != NULL) {
        if (twin != NULL)
            test_what_crosses(twin);
        CHECK(twin == NULL || twin->open_memory == 0);
        spsh_cuda_close(cuda);
        return TEST_RESULT();
    }
    RUN(test_mixing_is_as_fast_as_the_ring_lets_it);
    RUN(test_a_random_ring_mixes_alike_however_large);
    RUN(test_who_waits_for_a_slow_learner);
    RUN(test_staleness_is_what_comes_between);
    RUN(test_a_bound_of_0_is_bulk_synchronous);
    RUN(test_a_bound_holds_behind_a_pause);
    RUN(test_a_dead_neighbour_is_named);
    return TEST_RESULT();
}

/* simulate_strategy.c: see simulate_strategy.h. A learner's step is run_step.c's, with a clock for
 * a model:
 *
 *     before_forward;  compute a third
 *     for each bucket: compute its share of two thirds, on_bucket
 *     after_backward, square_sum, update, after_step
 */
#include "simulate_strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/whole_numbers.h"
#include "gradient_sum.h"
#include "speechshard/inside.h"
#include "strategy_internal.h"

enum {
    COORDINATES = 64,     /* coordinates of the quadratic, spread over the arena */
    PIECE_ELEMENTS = 128, /* minimum elements of a message with weights */
    SMALL_BYTES = 300,    /* maximum bytes of a message without weights */
    BUCKETS = 8,
    BUCKETS_MAX = 32,
    MORE_STEPS = 4,
};

#define PART_ELEMENTS (SPSH__PART_BYTES / sizeof(float))
#define MESSAGES      UINT64_C(1000000) /* approximate maximum of messages per strategy */
#define RATE          0.05
#define RATE_MAX      0.5
#define NOISE         0.5

struct world;

typedef struct student {
    spsh__learner learner;
    spsh__strategy *strategy;
    spsh__staleness staleness;
    const struct world *world;
    uint64_t sent_before;           /* bytes sent before the steps began */
    uint64_t steps, updates_before; /* hogwild: all updates at the read of weights */
    spsh__cluster_batch batch;
    uint64_t compute_ns, step_ns; /* totals over all steps */
} student;

typedef struct world {
    const spsh__simulate_options *o;
    const spsh__cluster *c;
    spsh__cluster_sim clock;
    spsh__backend *backend;
    student *students;
    spsh__slice *buckets;
    float *shared;
    uint64_t elements;
    uint32_t bucket_count;
    double rate, share; /* share: weight of a single gradient that changes the shared model */
    double first_loss;
    bool is_shared; /* learners share memory and send no messages */
    /* results */
    uint64_t begin_ns, done, wanted; /* learner-steps */
    uint64_t end_ns, last_ns;        /* end of `wanted` steps, 0: not yet; end of the last */
    uint64_t target_done, target_ns;
    bool is_over;
} world;

/* ---- the quadratic ---- */

static uint64_t place(const world *w, uint32_t i)
{
    return i * (w->elements / COORDINATES);
}

static double curvature(uint32_t i)
{
    return 0.25 + 0.75 * i / (COORDINATES - 1);
}

/* Noise of deviation 1. It is uniform, so that its bits do not depend on a mathematical library. */
static double noise(const world *w, uint32_t learner, uint64_t step, uint32_t i)
{
    const uint64_t seed = w->c->seed ^ (UINT64_C(0xa5a5) << 32);
    return 3.4641016151377544 *
           (spsh__sim_uniform(seed, learner * UINT64_C(1000003) + step, i) - 0.5);
}

/* Write the gradient of the quadratic. All other elements of the gradients are zero. */
static void fill_gradients(const world *w, uint32_t number)
{
    const spsh__learner *l = &w->students[number].learner;
    const spsh__backend_ops *ops = w->backend->ops;
    for (uint32_t i = 0; i < COORDINATES; i++) {
        const uint64_t at = place(w, i);
        float value = 0;
        ops->read_f32_fn(w->backend, &value, spsh__at(ops, l->weights, at), 1);
        value = (float)(curvature(i) * ((double)value - 1) +
                        NOISE * noise(w, number, w->students[number].steps, i));
        ops->write_f32_fn(w->backend, spsh__at(ops, l->gradients, at), &value, 1);
    }
}

/* Mean of all models. A node has one model, its leader's. The other ranks have copies. */
static double mean_model(const world *w, uint32_t i)
{
    const spsh__backend_ops *ops = w->backend->ops;
    double sum = 0;
    uint32_t models = 0;
    if (w->is_shared)
        return (double)w->shared[place(w, i)];
    for (uint32_t n = 0; n < w->o->learners; n++) {
        const spsh__backend_buffer model = w->students[n].learner.updated;
        float value = 0;
        if (model.data == NULL)
            continue;
        ops->read_f32_fn(w->backend, &value, spsh__at(ops, model, place(w, i)), 1);
        sum += (double)value;
        models++;
    }
    return sum / models;
}

static double loss(const world *w)
{
    double sum = 0;
    for (uint32_t i = 0; i < COORDINATES; i++) {
        const double off = mean_model(w, i) - 1;
        sum += 0.5 * curvature(i) * off * off;
    }
    return sum;
}

/* Optimizer update: plain SGD. */
static void update_slice(void *user, const spsh__slice *slice, spsh__backend_buffer gradients,
                         double scale)
{
    const student *s = (const student *)user;
    const world *w = s->world;
    const spsh__sgd sgd = {.rate = w->rate};
    const spsh__update u = {.weights = spsh__at(w->backend->ops, s->learner.updated, slice->offset),
                            .gradients = gradients,
                            .count = slice->count,
                            .gradient_scale = scale};
    w->backend->ops->sgd_fn(w->backend, &sgd, &u);
}

/* ---- a step ---- */

/* Count the time since begin_ns as computation. SPSH_E_END: the other learners have finished. */
static spsh_status computed(const world *w, student *s, uint64_t begin_ns, spsh_error *err)
{
    s->compute_ns += spsh__sim_now_ns(w->clock.sim) - begin_ns;
    return w->is_over ? SPSH_FAIL(err, SPSH_E_END, "the other learners are done") : SPSH_OK;
}

static spsh_status forward_backward(world *w, uint32_t number, spsh_error *err)
{
    student *s = &w->students[number];
    const spsh__strategy_ops *ops = s->strategy->ops;
    const uint32_t leaf = spsh__leaf_of(&s->learner, 0);
    uint64_t begin_ns = spsh__sim_now_ns(w->clock.sim);
    spsh__cluster_forward(&w->clock, number, s->steps, &s->batch);
    spsh_status rc = computed(w, s, begin_ns, err);
    if (rc == SPSH_OK)
        fill_gradients(w, number);
    for (uint32_t b = 0; rc == SPSH_OK && b < w->bucket_count; b++) {
        begin_ns = spsh__sim_now_ns(w->clock.sim);
        spsh__cluster_backward(&w->clock, number, &s->batch, b, w->bucket_count);
        rc = computed(w, s, begin_ns, err);
        if (rc == SPSH_OK)
            rc = ops->on_bucket_fn(s->strategy, leaf, b, err);
    }
    return rc;
}

/* total: number of batches in the sum of gradients. */
static spsh_status update(world *w, uint32_t number, double total, spsh_error *err)
{
    student *s = &w->students[number];
    const spsh__strategy_ops *ops = s->strategy->ops;
    spsh__slice slice;
    if (ops->push_fn != NULL)
        return ops->push_fn(s->strategy, w->share, err);
    const double scale = w->is_shared ? w->share : total > 0 ? 1 / total : 0;
    for (uint32_t n = 0; ops->slice_fn(s->strategy, n, &slice); n++)
        update_slice(s, &slice, spsh__at(w->backend->ops, s->learner.gradients, slice.offset),
                     scale);
    return SPSH_OK;
}

/* Count a finished learner-step. */
static void count(world *w, student *s)
{
    s->steps++;
    s->learner.step++;
    w->done++;
    w->last_ns = spsh__sim_now_ns(w->clock.sim);
    if (w->end_ns == 0 && w->done == w->wanted)
        w->end_ns = w->last_ns;
    if (w->target_done == 0 && w->done % w->o->learners == 0 &&
        loss(w) <= SPSH_TRAIN_TARGET * w->first_loss) {
        w->target_done = w->done;
        w->target_ns = w->last_ns;
    }
    w->is_over = w->end_ns > 0 && (w->target_done > 0 || w->done >= MORE_STEPS * w->wanted);
}

static spsh_status step(world *w, uint32_t number, spsh_error *err)
{
    student *s = &w->students[number];
    const spsh__strategy_ops *ops = s->strategy->ops;
    const uint64_t begin_ns = spsh__sim_now_ns(w->clock.sim);
    double row = 1, total = 0, squares = 0;
    spsh_status rc = ops->before_forward_fn(s->strategy, err);
    s->updates_before = w->done;
    if (rc == SPSH_OK)
        rc = forward_backward(w, number, err);
    if (rc == SPSH_OK)
        rc = ops->after_backward_fn(s->strategy, &row, &total, 1, err);
    if (rc == SPSH_OK)
        rc = ops->square_sum_fn(s->strategy, &squares, err);
    if (rc == SPSH_OK)
        rc = update(w, number, total, err);
    if (rc == SPSH_OK)
        rc = ops->after_step_fn(s->strategy, err);
    if (rc != SPSH_OK)
        return rc;
    if (w->is_shared)
        spsh__learner_stale(&s->learner, w->done - s->updates_before);
    s->step_ns += spsh__sim_now_ns(w->clock.sim) - begin_ns;
    count(w, s);
    return SPSH_OK;
}

/* Run one learner. A learner that waits for a finished learner waits until its deadline, and then
 * finishes too. */
static spsh_status learn(void *user, uint32_t number, spsh_error *err)
{
    world *w = (world *)user;
    student *s = &w->students[number];
    uint64_t all = 1;
    spsh_status rc = s->strategy->ops->start_fn(s->strategy, &s->learner, err);
    if (rc == SPSH_OK) /* wait until all learners have started */
        rc = spsh__comm_all_reduce(s->learner.comm, SPSH__COMM_U64, SPSH__COMM_SUM, &all, 1, err);
    if (rc == SPSH_OK && !w->clock.has_begun) {
        w->begin_ns = spsh__sim_now_ns(w->clock.sim);
        w->first_loss = loss(w);
        spsh__cluster_begin(&w->clock);
    }
    s->sent_before = spsh__sim_sent_bytes(w->clock.sim, number);
    while (rc == SPSH_OK && !w->is_over)
        rc = step(w, number, err);
    return w->is_over ? SPSH_OK : rc;
}

/* ---- the reduced model ---- */

/* Number of parts of the simulated arena. The strategies cut the arena into that many parts. */
static uint64_t parts_of(const world *w)
{
    const uint64_t real = spsh__divide_up(w->o->weights, PART_ELEMENTS);
    uint64_t most = MESSAGES / (UINT64_C(4) * w->o->learners * w->c->steps + 1);
    most = most < 16 ? 16 : most > 512 ? 512 : most;
    return real < most ? real : most;
}

/* The arena: every message with weights has at least PIECE_ELEMENTS. */
static void shrink(world *w, spsh__learner *shape, double *ret_scale)
{
    const uint64_t weights = w->o->weights, learners = w->o->learners, parts = parts_of(w);
    const uint64_t pieces = learners * w->bucket_count > parts ? learners * w->bucket_count : parts;
    const uint64_t elements = pieces * PIECE_ELEMENTS;
    *ret_scale = 1;
    if (w->o->is_whole || elements >= weights) {
        w->elements = weights < COORDINATES ? COORDINATES : weights;
        return;
    }
    const double factor = (double)weights / (double)elements;
    const uint64_t piece = spsh__divide_up(elements, learners * w->bucket_count);
    const uint64_t block = (uint64_t)(SPSH__BLOCK_ELEMENTS / factor);
    w->elements = elements;
    shape->part_elements = spsh__divide_up(elements, parts);
    shape->block_elements = 4 * block < piece ? piece : block;
    *ret_scale = factor;
}

/* ---- opening ---- */

static spsh_status new_buffer(const world *w, uint64_t elements, spsh__backend_buffer *ret,
                              spsh_error *err)
{
    return w->backend->ops->alloc_fn(w->backend, elements, ret, err);
}

static spsh_status open_student(world *w, const spsh__learner *shape, uint32_t number,
                                spsh_error *err)
{
    student *s = &w->students[number];
    spsh__learner *l = &s->learner;
    s->world = w;
    *l = *shape;
    l->comm = spsh__sim_comm(w->clock.sim, number);
    l->runtime = spsh__sim_runtime(w->clock.sim, number);
    l->staleness = &s->staleness;
    l->update_fn = update_slice;
    l->update_user = s;
    spsh_status rc = new_buffer(w, w->elements, &l->weights, err);
    if (rc == SPSH_OK)
        rc = new_buffer(w, w->elements, &l->gradients, err);
    if (rc == SPSH_OK)
        rc = new_buffer(w, 1, &l->statistics, err);
    l->updated = l->weights;
    return rc != SPSH_OK
               ? rc
               : spsh__strategy_open(w->o->strategy, spsh_allocator_default(), &s->strategy, err);
}

static void cut_buckets(world *w)
{
    const uint64_t each = spsh__divide_up(w->elements, w->bucket_count);
    for (uint32_t b = 0; b < w->bucket_count; b++) {
        const uint64_t first = b * each < w->elements ? b * each : w->elements;
        const uint64_t left = w->elements - first;
        w->buckets[b] = (spsh__slice){first, left < each ? left : each};
    }
}

static spsh_status open_world(world *w, spsh_error *err)
{
    const spsh__cluster *c = w->c;
    const uint32_t learners = w->o->learners;
    spsh__learner shape = {
        .statistics_elements = 1,
        .virtual_world = learners,
        .seed = c->seed,
        .options = {
                    .servers = c->servers, .bound = c->bound, .overlaps = true, .node_size = c->node_size}
    };
    double scale = 1;
    w->bucket_count = w->o->buckets > 0 ? w->o->buckets : BUCKETS;
    if (w->bucket_count > BUCKETS_MAX)
        w->bucket_count = BUCKETS_MAX;
    while (w->bucket_count > 2 && learners * w->bucket_count > 256)
        w->bucket_count--;
    shrink(w, &shape, &scale);
    spsh_status rc = spsh__backend_open("cpu", 1, NULL, &w->backend, err);
    if (rc == SPSH_OK)
        rc = spsh__cluster_sim_open(
            &w->clock, c,
            &(spsh__sim_options){.learners = learners, .scale = scale, .small_bytes = SMALL_BYTES},
            err);
    if (rc != SPSH_OK)
        return rc;
    w->students = calloc(learners, sizeof(*w->students));
    w->buckets = calloc(w->bucket_count, sizeof(*w->buckets));
    w->shared = calloc(w->elements, sizeof(*w->shared));
    if (w->students == NULL || w->buckets == NULL || w->shared == NULL)
        return SPSH_NO_MEMORY(err);
    cut_buckets(w);
    shape.backend = w->backend;
    shape.arena_elements = w->elements;
    shape.buckets = w->buckets;
    shape.bucket_count = w->bucket_count;
    shape.shared = w->shared;
    for (uint32_t i = 0; rc == SPSH_OK && i < learners; i++)
        rc = open_student(w, &shape, i, err);
    return rc;
}

static void close_world(world *w)
{
    for (uint32_t i = 0; w->students != NULL && i < w->o->learners; i++) {
        student *s = &w->students[i];
        spsh__strategy_close(s->strategy);
        w->backend->ops->free_fn(w->backend, s->learner.weights);
        w->backend->ops->free_fn(w->backend, s->learner.gradients);
        w->backend->ops->free_fn(w->backend, s->learner.statistics);
    }
    spsh__cluster_sim_close(&w->clock);
    spsh__backend_close(w->backend);
    free(w->students);
    free(w->buckets);
    free(w->shared);
}

/* ---- results ---- */

static void fill_staleness(const world *w, spsh_train_simulated *ret)
{
    uint64_t counts[SPSH__STALENESS_MAX] = {0}, all = 0, below = 0, sum = 0;
    bool has_middle = false;
    for (uint32_t n = 0; n < w->o->learners; n++)
        for (uint32_t i = 0; i < SPSH__STALENESS_MAX; i++) {
            counts[i] += w->students[n].staleness.counts[i];
            all += w->students[n].staleness.counts[i];
        }
    for (uint32_t i = 0; i < SPSH__STALENESS_MAX; i++) {
        below += counts[i];
        sum += i * counts[i];
        if (counts[i] > 0)
            ret->staleness_max = i;
        if (!has_middle && 2 * below >= all)
            ret->staleness_p50 = i;
        has_middle = has_middle || 2 * below >= all;
    }
    ret->staleness_mean = all > 0 ? (double)sum / (double)all : 0;
}

static void fill_speeds(const world *w, spsh_train_simulated *ret)
{
    const double seconds = (double)(w->last_ns - w->begin_ns) * 1e-9;
    uint64_t sent = 0, compute_ns = 0, step_ns = 0;
    ret->slowest_steps_per_s = (double)INFINITY;
    for (uint32_t n = 0; n < w->o->learners; n++) {
        const student *s = &w->students[n];
        const double speed = seconds > 0 ? (double)s->steps / seconds : 0;
        ret->speeds[n] = speed;
        ret->slowest_steps_per_s =
            speed < ret->slowest_steps_per_s ? speed : ret->slowest_steps_per_s;
        ret->fastest_steps_per_s =
            speed > ret->fastest_steps_per_s ? speed : ret->fastest_steps_per_s;
        sent += spsh__sim_sent_bytes(w->clock.sim, n) - s->sent_before;
        compute_ns += s->compute_ns;
        step_ns += s->step_ns;
    }
    if (w->done == 0)
        return;
    ret->sent_bytes = (double)sent / (double)w->done;
    ret->exposed_s =
        step_ns > compute_ns ? (double)(step_ns - compute_ns) * 1e-9 / (double)w->done : 0;
}

static void fill(const world *w, spsh_train_simulated *ret)
{
    const uint64_t end_ns = w->end_ns > 0 ? w->end_ns : spsh__sim_now_ns(w->clock.sim);
    const uint64_t counted = w->end_ns > 0 ? w->wanted : w->done;
    const double seconds = (double)(end_ns - w->begin_ns) * 1e-9;
    const double ideal = (double)w->o->learners / ((double)w->c->step_ns * 1e-9);
    ret->share = seconds > 0 ? (double)counted / seconds / ideal : 0;
    ret->steps_per_s = ret->share * ideal;
    ret->batches = counted;
    ret->seconds = w->end_ns > 0 ? seconds : (double)NAN;
    ret->target_batches = w->target_done;
    ret->target_seconds =
        w->target_done > 0 ? (double)(w->target_ns - w->begin_ns) * 1e-9 : (double)NAN;
    fill_speeds(w, ret);
    fill_staleness(w, ret);
}

/* Return true, with the reason, if the strategy needs a different cluster. */
static bool is_unfit(const spsh__simulate_options *o, char text[SPSH_TRAIN_STOPPED_BYTES])
{
    const uint32_t node = o->cluster->node_size;
    text[0] = '\0';
    if (strcmp(o->strategy, "hogwild") == 0 && o->learners > 1 && node < o->learners)
        (void)snprintf(text, SPSH_TRAIN_STOPPED_BYTES,
                       "hogwild learners share memory, so all must be on one node; set node=%u",
                       o->learners);
    if (strcmp(o->strategy, "hierarchical") == 0 && (node == 0 || o->learners % node != 0))
        (void)snprintf(
            text, SPSH_TRAIN_STOPPED_BYTES,
            "hierarchical needs nodes with the same number of learners each; set node=%u",
            o->learners % 2 == 0 ? 2 : 1);
    if (strcmp(o->strategy, "pipeline") == 0)
        (void)snprintf(
            text, SPSH_TRAIN_STOPPED_BYTES,
            "pipeline stages send activations, and the number of weights does not give their size");
    return text[0] != '\0';
}

spsh_status spsh__simulate(const spsh__simulate_options *options, spsh_train_simulated *ret,
                           spsh_error *err)
{
    spsh_error failed = SPSH_ERROR_INIT;
    world w = {.o = options, .c = options->cluster};
    *ret = (spsh_train_simulated){
        .learners = options->learners, .target_seconds = (double)NAN, .seconds = (double)NAN};
    (void)snprintf(ret->strategy, sizeof(ret->strategy), "%s", options->strategy);
    ret->speeds = calloc(options->learners, sizeof(*ret->speeds));
    if (ret->speeds == NULL)
        return SPSH_NO_MEMORY(err);
    if (is_unfit(options, ret->stopped))
        return SPSH_OK;
    w.wanted = options->cluster->steps * options->learners;
    w.rate = RATE * options->learners < RATE_MAX ? RATE * options->learners : RATE_MAX;
    w.share = 1.0 / options->learners;
    spsh_status rc = open_world(&w, &failed);
    if (rc == SPSH_OK) {
        const spsh__strategy_ops *ops = w.students[0].strategy->ops;
        w.is_shared = ops->has_own_model && !ops->needs_runtime;
        rc = spsh__sim_run(w.clock.sim, learn, &w, &failed);
        fill(&w, ret);
    }
    if (w.is_over || rc == SPSH_E_TIMEOUT) { /* a deadlock between learners is a result, not an
                                                error */
        if (!w.is_over)
            (void)snprintf(ret->stopped, sizeof(ret->stopped), "%.190s", failed.message);
        rc = SPSH_OK;
    }
    close_world(&w);
    return spsh__fail_again(rc, &failed, err);
}

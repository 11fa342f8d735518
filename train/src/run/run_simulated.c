/* run_simulated.c: all learners of a run in one process, under runtime_sim.h's clock. Each is the
 * whole of spsh__run_in on a fiber: its model, feed and backend are its own, messages and time are
 * the simulator's. One runs at a time, until it waits for a message or for its batch's time, so
 * that nothing but the options decides who is next.
 *
 * The time of a batch passes as on a computer of its own:
 *
 *     begin_batch    a third
 *     ...            forward and backward, in no time
 *     pass_bucket    two thirds, in as many parts as there are buckets
 *
 * so that what is sent with a bucket is in flight while the next one is computed.
 *
 * What a batch takes and what befalls learners is the cluster's text's; times of it count from the
 * first batch on. The first failure ends all, as a launcher would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fiber.h"
#include "run_one_process.h"
#include "run_setup.h"
#include "runtime/cluster.h"
#include "runtime/runtime_sim.h"
#include "simulate_all.h"
#include "speechshard/inside.h"

#define FAR_NS (UINT64_MAX / 4) /* later than all */

struct theatre;

typedef struct player {
    struct theatre *theatre;
    spsh__run_world world;
    uint64_t batches;
    uint64_t batch_ns, spent_ns; /* of the batch: all of its time, and how much of it has passed */
} player;

typedef struct theatre {
    spsh__run_outcome all; /* SPSH_E_CANCELED where all stopped and saved */
    spsh__cluster cluster;
    uint32_t learners;
    spsh__sim_fault faults[SPSH__CLUSTER_FAULTS_MAX];
    spsh__sim *sim;
    player *players;
    bool has_begun;
} theatre;

/* ---- the world of a learner ---- */

static spsh_status configure(spsh__run_world *w, const spsh_train_options *o, spsh__config *c,
                             spsh_error *err)
{
    const player *p = (const player *)w->state;
    (void)o;
    if (p->theatre->cluster.deadline_ms > 0)
        w->comm->deadline_ms = p->theatre->cluster.deadline_ms;
    c->threads = 1;
    const spsh_status rc = spsh__run_stay_on_host(c, err);
    if (rc == SPSH_OK && spsh__run_is_staged(c))
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.strategy pipeline is not simulated: how long each stage takes of a "
                         "batch is not known");
    return rc;
}

static spsh_status open_runtime(spsh__run_world *w, uint64_t run, const spsh_allocator *allocator,
                                spsh__runtime **ret, spsh_error *err)
{
    const player *p = (const player *)w->state;
    (void)run, (void)allocator, (void)err;
    *ret = spsh__sim_runtime(p->theatre->sim, w->launch.rank);
    (*ret)->deadline_ms = w->comm->deadline_ms;
    return SPSH_OK;
}

static double now_s(const spsh__run_world *w)
{
    const player *p = (const player *)w->state;
    return (double)spsh__sim_now_ns(p->theatre->sim) * 1e-9;
}

/* Only batches and messages take time. */
static double passed_s(const spsh__run_world *w, double real_s)
{
    (void)w, (void)real_s;
    return 0;
}

/* Since the run began, without the time between its starts. */
static double time_s(const void *world)
{
    const spsh__run_world *w = (const spsh__run_world *)world;
    return w->earlier_s + now_s(w);
}

static void rest(spsh__run_world *w, bool is_resting)
{
    const player *p = (const player *)w->state;
    spsh__sim_rest(p->theatre->sim, w->launch.rank, is_resting);
}

/* Times of faults are told from here on. */
static void begin(theatre *t)
{
    const uint64_t now_ns = spsh__sim_now_ns(t->sim);
    if (t->has_begun)
        return;
    t->has_begun = true;
    for (uint32_t i = 0; i < t->cluster.fault_count; i++) {
        spsh__sim_fault *f = &t->faults[i];
        f->from_ns = f->from_ns - FAR_NS + now_ns;
        f->to_ns = f->to_ns > 0 ? f->to_ns - FAR_NS + now_ns : 0;
    }
}

/* Until so much of the batch's time is over. */
static void pass(player *p, uint64_t until_ns)
{
    spsh__runtime *t = spsh__sim_runtime(p->theatre->sim, p->world.launch.rank);
    t->ops->compute_fn(t, until_ns - p->spent_ns);
    p->spent_ns = until_ns;
}

static spsh_status begin_batch(spsh__run_world *w, spsh_error *err)
{
    player *p = (player *)w->state;
    const spsh__cluster *c = &p->theatre->cluster;
    begin(p->theatre);
    const double more = 1 + c->jitter * spsh__sim_uniform(c->seed, w->launch.rank, p->batches++);
    p->batch_ns = (uint64_t)((double)c->step_ns * more);
    p->spent_ns = 0;
    pass(p, p->batch_ns / 3);
    return spsh__one_process_check(w, err);
}

static void pass_bucket(spsh__run_world *w, uint32_t bucket, uint32_t count)
{
    player *p = (player *)w->state;
    const uint64_t forward_ns = p->batch_ns / 3;
    const uint64_t part_ns = (p->batch_ns - forward_ns) / count;
    pass(p, bucket + 1 == count ? p->batch_ns : forward_ns + part_ns * (bucket + 1));
}

static const spsh__run_world_ops simulated = {
    .no_loss = SPSH__ONE_PROCESS_NO_LOSS,
    .configure_fn = configure,
    .opened_fn = spsh__one_process_opened,
    .runtime_fn = open_runtime,
    .now_s_fn = now_s,
    .passed_s_fn = passed_s,
    .time_s_fn = time_s,
    .rest_fn = rest,
    .begin_batch_fn = begin_batch,
    .pass_bucket_fn = pass_bucket,
};

static spsh_status learn(void *user, uint32_t learner, spsh_error *err)
{
    theatre *t = (theatre *)user;
    spsh_error failed = SPSH_ERROR_INIT;
    const spsh_status rc =
        spsh__run_in_turn(&t->all, t->all.o, &t->players[learner].world, &failed);
    if (!spsh__sim_is_dead(t->sim, learner))
        spsh__run_take_failure(&t->all, rc, &failed);
    if (rc != SPSH_OK && rc != SPSH_E_CANCELED) /* who stops does so with all others */
        spsh__sim_end(t->sim);
    if (rc != SPSH_OK && err != NULL)
        *err = failed;
    return rc;
}

/* ---- opening ---- */

static spsh_status check_cluster(const theatre *t, spsh_error *err)
{
    const spsh__cluster *c = &t->cluster;
    const spsh_train_options *o = t->all.o;
    if (c->size_count != 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a run is of one number of learners, not of %u",
                         c->size_count);
    if (c->name_count > 0 || c->has_all_names || c->weights > 0 || c->steps > 0 || c->servers > 0 ||
        c->bound != UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "strategy, weights, steps, servers and staleness_max of a run are its "
                         "configuration's: train.strategy=NAME, train.servers=N, ...");
    if (o->record)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a simulated run needs no record: the same command gives the same bits");
    return spsh__run_check_undisturbed(o,
                                       "slow, freeze, kill and link of a simulated run are its "
                                       "cluster's; it has no other processes to meet",
                                       err);
}

static spsh__launch launch_of(const theatre *t, uint32_t learner)
{
    const uint32_t node = t->cluster.node_size > 0 ? t->cluster.node_size : 1;
    const uint32_t first = learner / node * node;
    return (spsh__launch){.launcher = "simulated",
                          .rank = learner,
                          .world_size = t->learners,
                          .local_rank = learner - first,
                          .local_size = t->learners - first < node ? t->learners - first : node,
                          .node = learner / node,
                          .node_count = (t->learners + node - 1) / node};
}

static spsh_status open_sim(theatre *t, spsh_error *err)
{
    const spsh__cluster *c = &t->cluster;
    for (uint32_t i = 0; i < c->fault_count; i++) {
        t->faults[i] = c->faults[i];
        t->faults[i].from_ns += FAR_NS;
        t->faults[i].to_ns += c->faults[i].to_ns > 0 ? FAR_NS : 0;
    }
    const spsh__sim_options sim = {.allocator = *spsh_allocator_default(),
                                   .learners = t->learners,
                                   .latency_ns = c->link.latency_ns,
                                   .bytes_per_s = c->link.bytes_per_s,
                                   .node_size = c->node_size,
                                   .node_bytes_per_s = c->node_link.bytes_per_s,
                                   .node_latency_ns = c->node_link.latency_ns,
                                   .seed = c->seed,
                                   .faults = t->faults,
                                   .fault_count = c->fault_count,
                                   .stack_bytes = SPSH__FIBER_RUN_BYTES};
    return spsh__sim_open(&sim, &t->sim, err);
}

static void cast(theatre *t, uint32_t learner)
{
    player *p = &t->players[learner];
    p->theatre = t;
    p->world = (spsh__run_world){.ops = &simulated,
                                 .launch = launch_of(t, learner),
                                 .comm = spsh__sim_comm(t->sim, learner),
                                 .state = p};
}

spsh_status spsh__run_simulated(const spsh_train_options *o, spsh_train_result *ret,
                                spsh_error *err)
{
    theatre t = {
        .all = {.o = o, .result = ret, .error = SPSH_ERROR_INIT}
    };
    const spsh_io *io = o->io != NULL ? o->io : spsh_io_default();
    spsh_status rc = spsh__cluster_read(o->simulate, &t.cluster, err);
    if (rc == SPSH_OK)
        rc = check_cluster(&t, err);
    if (rc == SPSH_OK)
        rc = spsh__run_check_alone("a simulated run", err);
    if (rc == SPSH_OK)
        rc = spsh__cluster_find_step(io, &t.cluster, err);
    if (rc != SPSH_OK)
        return rc;
    t.learners = t.cluster.sizes[0];
    rc = open_sim(&t, err);
    t.players = calloc(t.learners, sizeof(*t.players));
    if (rc == SPSH_OK && t.players == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; rc == SPSH_OK && i < t.learners; i++)
        cast(&t, i);
    if (rc == SPSH_OK) {
        rc = spsh__sim_run(t.sim, learn, &t, err);
        rc = t.all.status != SPSH_OK ? t.all.status : rc;
        if (t.all.status != SPSH_OK && err != NULL)
            *err = t.all.error;
        if (rc == SPSH_OK && spsh__sim_is_dead(t.sim, 0))
            rc = SPSH_FAIL(err, SPSH_E_TIMEOUT, "learner 0 was killed");
    }
    spsh__sim_close(t.sim);
    free(t.players);
    return rc;
}

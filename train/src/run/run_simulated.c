/* run_simulated.c: all learners of a run in one process, under runtime_sim.h's clock. Each is the
 * whole of spsh__run_in on a fiber: its model, feed and backend are its own, messages and time are
 * the simulator's. One runs at a time, until it waits for a message or for its batch's time, so
 * that nothing but the options decides who is next.
 *
 * Computing itself takes no time. A batch's time passes as cluster_sim.h describes: before forward,
 * and with each bucket. The cluster's text sets this time and the faults of learners; times of
 * faults count from the first batch on. The first failure ends all, as a launcher would.
 */
#include <stdlib.h>

#include "base/fiber.h"
#include "run_one_process.h"
#include "run_setup.h"
#include "runtime/cluster_sim.h"
#include "simulate_all.h"
#include "speechshard/inside.h"

struct theatre;

typedef struct player {
    struct theatre *theatre;
    spsh__run_world world;
    uint64_t batches;
    spsh__cluster_batch batch;
} player;

typedef struct theatre {
    spsh__run_outcome all; /* SPSH_E_CANCELED: all learners stopped and saved */
    spsh__cluster cluster;
    uint32_t learners;
    spsh__cluster_sim clock;
    player *players;
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
    if (c->backend == SPSH__BACKEND_AUTO) /* a device is shared by all learners: only on request */
        c->backend = SPSH__BACKEND_CPU;
    if (spsh__run_is_staged(c))
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.strategy pipeline cannot be simulated, because the time of each "
                         "stage is not known");
    return SPSH_OK;
}

static spsh_status open_runtime(spsh__run_world *w, uint64_t run, const spsh_allocator *allocator,
                                spsh__runtime **ret, spsh_error *err)
{
    const player *p = (const player *)w->state;
    (void)run, (void)allocator, (void)err;
    *ret = spsh__sim_runtime(p->theatre->clock.sim, w->launch.rank);
    (*ret)->deadline_ms = w->comm->deadline_ms;
    return SPSH_OK;
}

static double now_s(const spsh__run_world *w)
{
    const player *p = (const player *)w->state;
    return (double)spsh__sim_now_ns(p->theatre->clock.sim) * 1e-9;
}

/* Only batches and messages take time. */
static double passed_s(const spsh__run_world *w, double real_s)
{
    (void)w, (void)real_s;
    return 0;
}

/* Seconds since the run began, without the time between its starts. */
static double time_s(const void *world)
{
    const spsh__run_world *w = (const spsh__run_world *)world;
    return w->earlier_s + now_s(w);
}

static void rest(spsh__run_world *w, bool is_resting)
{
    const player *p = (const player *)w->state;
    spsh__sim_rest(p->theatre->clock.sim, w->launch.rank, is_resting);
}

static spsh_status begin_batch(spsh__run_world *w, spsh_error *err)
{
    player *p = (player *)w->state;
    spsh__cluster_sim *clock = &p->theatre->clock;
    spsh__cluster_begin(clock);
    spsh__cluster_forward(clock, w->launch.rank, p->batches++, &p->batch);
    return spsh__one_process_check(w, err);
}

static void pass_bucket(spsh__run_world *w, uint32_t bucket, uint32_t count)
{
    player *p = (player *)w->state;
    spsh__cluster_backward(&p->theatre->clock, w->launch.rank, &p->batch, bucket, count);
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
    if (!spsh__sim_is_dead(t->clock.sim, learner))
        spsh__run_take_failure(&t->all, rc, &failed);
    if (rc != SPSH_OK && rc != SPSH_E_CANCELED) /* a stop applies to all learners */
        spsh__sim_end(t->clock.sim);
    return spsh__fail_again(rc, &failed, err);
}

/* ---- opening ---- */

static spsh_status check_cluster(const theatre *t, spsh_error *err)
{
    const spsh__cluster *c = &t->cluster;
    const spsh_train_options *o = t->all.o;
    if (c->size_count != 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a simulated run takes one number of learners, not %u numbers",
                         c->size_count);
    if (c->name_count > 0 || c->has_all_names || c->weights > 0 || c->steps > 0 || c->servers > 0 ||
        c->bound != UINT32_MAX)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "strategy, weights, steps, servers, and staleness_max of a simulated run come from its "
            "configuration: set train.strategy=NAME, train.servers=N, ...");
    if (o->record)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "a simulated run needs no record: the same command gives identical results");
    return spsh__run_check_undisturbed(
        o,
        "a simulated run takes no slow, freeze, kill, link, or rendezvous: set them in simulate; "
        "there are no other processes",
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

static void cast(theatre *t, uint32_t learner)
{
    player *p = &t->players[learner];
    p->theatre = t;
    p->world = (spsh__run_world){.ops = &simulated,
                                 .launch = launch_of(t, learner),
                                 .comm = spsh__sim_comm(t->clock.sim, learner),
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
    const spsh__sim_options options = {.learners = t.learners,
                                       .stack_bytes = SPSH__FIBER_RUN_BYTES};
    rc = spsh__cluster_sim_open(&t.clock, &t.cluster, &options, err);
    t.players = calloc(t.learners, sizeof(*t.players));
    if (rc == SPSH_OK && t.players == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; rc == SPSH_OK && i < t.learners; i++)
        cast(&t, i);
    if (rc == SPSH_OK) {
        rc = spsh__sim_run(t.clock.sim, learn, &t, err);
        if (t.all.status != SPSH_OK)
            rc = spsh__fail_again(t.all.status, &t.all.error, err);
        if (rc == SPSH_OK && spsh__sim_is_dead(t.clock.sim, 0))
            rc = SPSH_FAIL(err, SPSH_E_TIMEOUT, "learner 0 was killed, so the run cannot end");
    }
    spsh__cluster_sim_close(&t.clock);
    free(t.players);
    return rc;
}

/* run_world.h: the surroundings of a run: the other ranks, their messages, and the clock. It is a
 * table, so that the loop (run.c, run_step.c) is the same in every world.
 *
 *     spsh__run_world world = {.ops = &spsh__process_world};
 *     rc = spsh__run_in(&options, &world, &result, &err);
 *
 * spsh__process_world is a process that a launcher started (process_world.c). Its clock is the
 * computer's, and it does nothing while the run computes. A NULL function of the table does
 * nothing. A NULL clock is the computer's.
 */
#ifndef SPSH_TRAIN_RUN_WORLD_H
#define SPSH_TRAIN_RUN_WORLD_H

#include "comm/comm.h"
#include "comm/launch.h"
#include "config/config.h"
#include "runtime/fault.h"
#include "runtime/runtime.h"
#include "speechshard/inside.h"
#include "speechshard/train.h"

struct spsh__estimating;

typedef struct spsh__run_world spsh__run_world;

typedef struct spsh__run_world_ops {
    /* Reason that a run in this world cannot continue without a lost rank; NULL: it can. */
    const char *no_loss;
    /* Find the other ranks: sets launch, comm and faults. NULL: they are already set. */
    spsh_status (*open_fn)(spsh__run_world *w, const spsh_train_options *o, spsh_error *err);
    /* Reject a configuration that cannot run here, before large objects are opened. May change its
     * threads and backend, and the deadline of comm, which is initially the configuration's. */
    spsh_status (*configure_fn)(spsh__run_world *w, const spsh_train_options *o, spsh__config *c,
                                spsh_error *err);
    /* Called once the feed, the model and the optimizer's moments are open, on each rank. */
    spsh_status (*opened_fn)(spsh__run_world *w, const spsh_train_options *o,
                             struct spsh__estimating *e, spsh_error *err);
    /* Open the runtime of a strategy that needs one. run: hash of configuration, vocabulary and
     * data, which distinguishes one run from another. */
    spsh_status (*runtime_fn)(spsh__run_world *w, uint64_t run, const spsh_allocator *allocator,
                              spsh__runtime **ret, spsh_error *err);

    /* Seconds since an arbitrary start. */
    double (*now_s_fn)(const spsh__run_world *w);
    /* Convert `real_s` seconds of the computer's clock to seconds of this clock. */
    double (*passed_s_fn)(const spsh__run_world *w, double real_s);
    /* Time of the lines of metrics; w is the world. */
    double (*time_s_fn)(const void *w);
    /* is_resting: until the call with false, the run's work takes no time of this clock. */
    void (*rest_fn)(spsh__run_world *w, bool is_resting);
    /* Called before the forward pass of a batch. SPSH_E_CANCELED: this rank ends here. */
    spsh_status (*begin_batch_fn)(spsh__run_world *w, spsh_error *err);
    /* Called when the backward pass has completed one bucket of `count`. */
    void (*pass_bucket_fn)(spsh__run_world *w, uint32_t bucket, uint32_t count);
} spsh__run_world_ops;

struct spsh__run_world {
    const spsh__run_world_ops *ops;
    spsh__launch launch;
    spsh__comm *comm;    /* all ranks; after a loss: the live ranks (run_lost.c) */
    bool is_first;       /* rank 0: writes all files */
    spsh__faults faults; /* faults to inject into this process */
    double earlier_s;    /* seconds that earlier starts of the run took */
    void *state;
};

/* The world of a separate process (process_world.c). */
extern const spsh__run_world_ops spsh__process_world;

/* Train with options that were taken. Returns SPSH_E_CANCELED also if comm has failed because the
 * world ended this rank: nothing was saved then. */
spsh_status spsh__run_in(const spsh_train_options *options, spsh__run_world *world,
                         spsh_train_result *ret_result, spsh_error *err);

static inline double spsh__world_now_s(const spsh__run_world *w)
{
    return w->ops->now_s_fn != NULL ? w->ops->now_s_fn(w) : spsh__now_s();
}

static inline double spsh__world_passed_s(const spsh__run_world *w, double real_s)
{
    return w->ops->passed_s_fn != NULL ? w->ops->passed_s_fn(w, real_s) : real_s;
}

static inline void spsh__world_rest(spsh__run_world *w, bool is_resting)
{
    if (w->ops->rest_fn != NULL)
        w->ops->rest_fn(w, is_resting);
}

static inline spsh_status spsh__world_begin_batch(spsh__run_world *w, spsh_error *err)
{
    return w->ops->begin_batch_fn != NULL ? w->ops->begin_batch_fn(w, err) : SPSH_OK;
}

static inline void spsh__world_pass_bucket(spsh__run_world *w, uint32_t bucket, uint32_t count)
{
    if (w->ops->pass_bucket_fn != NULL)
        w->ops->pass_bucket_fn(w, bucket, count);
}

#endif

/* run_world.h: what surrounds a run: other learners, messages, a clock. A run of processes finds
 * them by its launcher; one of several learners in one process is given them.
 *
 *     spsh__run_world world = {.launch = ..., .comm = spsh__sim_comm(sim, learner), ...};
 *     rc = spsh__run_in(&options, &world, &result, &err);        // each learner's body
 */
#ifndef SPSH_TRAIN_RUN_WORLD_H
#define SPSH_TRAIN_RUN_WORLD_H

#include "comm.h"
#include "launch.h"
#include "runtime.h"
#include "speechshard/train.h"

typedef struct spsh__run_world {
    spsh__launch launch;
    spsh__comm *comm; /* both are the owner's: closing them does nothing */
    spsh__runtime *runtime;
    uint32_t deadline_ms; /* 0: the configuration's */
    uint64_t record;      /* of a replay: what the recorded run was (record.h); else 0 */
    /* How long this learner's next batch takes, of the runtime's clock; NULL: as long as it does,
     * of the computer's, and nothing of what follows is called. */
    uint64_t (*batch_ns_fn)(void *user);
    void (*begin_fn)(void *user);                 /* a batch is next */
    void (*rest_fn)(void *user, bool is_resting); /* what is done takes no time */
    void *user;
} spsh__run_world;

/* spsh_train with options that were taken, as one learner of `world`; NULL: as the process that it
 * is. SPSH_E_CANCELED, too: the learner's comm has failed, as it is dead; nothing was saved. */
spsh_status spsh__run_in(const spsh_train_options *options, const spsh__run_world *world,
                         spsh_train_result *ret_result, spsh_error *err);

/* Where all learners are in one process: no launcher has begun others. */
spsh_status spsh__run_check_alone(const char *what, spsh_error *err);

/* spsh_train with options.simulate (run_simulated.c). */
spsh_status spsh__run_simulated(const spsh_train_options *options, spsh_train_result *ret_result,
                                spsh_error *err);
/* ... with options.replay (run_replayed.c). */
spsh_status spsh__run_replayed(const spsh_train_options *options, spsh_train_result *ret_result,
                               spsh_error *err);

#endif

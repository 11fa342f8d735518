/* run_world.h: what surrounds a run: other learners, messages, a clock. A run of processes finds
 * them by its launcher; one of several learners in one process is given them.
 *
 *     spsh__run_world world = {.launch = ..., .comm = spsh__sim_comm(sim, learner), ...};
 *     rc = spsh__run_in(&options, &world, &result, &err);        // each learner's body
 */
#ifndef SPSH_TRAIN_RUN_WORLD_H
#define SPSH_TRAIN_RUN_WORLD_H

#include "comm/comm.h"
#include "comm/launch.h"
#include "runtime/runtime.h"
#include "speechshard/train.h"

typedef struct spsh__run_world {
    spsh__launch launch;
    spsh__comm *comm; /* both are the owner's: closing them does nothing */
    spsh__runtime *runtime;
    uint32_t deadline_ms; /* 0: the configuration's */
    uint64_t record;      /* of a replay: what the recorded run was (runtime_record.h); else 0 */
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

/* ---- where all learners are in one process ---- */
typedef struct spsh__run_outcome {
    const spsh_train_options *o; /* the caller's */
    spsh_train_result *result;   /* the caller's: learner 0's */
    spsh_status status;          /* the first failure */
    spsh_error error;
} spsh__run_outcome;

/* spsh__run_in of one of them: learner 0 has the caller's log and result; of the others warnings
 * and errors are logged alone. */
spsh_status spsh__run_in_turn(spsh__run_outcome *all, const spsh_train_options *options,
                              const spsh__run_world *world, spsh_error *err);
/* Nothing where there was one before, or rc is SPSH_OK. */
void spsh__run_take_failure(spsh__run_outcome *all, spsh_status rc, const spsh_error *failed);
/* No launcher has begun others. */
spsh_status spsh__run_check_alone(const char *what, spsh_error *err);
/* No option is there that does something to a process, or to its messages; why: the refusal. */
spsh_status spsh__run_check_undisturbed(const spsh_train_options *options, const char *why,
                                        spsh_error *err);

/* spsh_train with options.simulate (run_simulated.c). */
spsh_status spsh__run_simulated(const spsh_train_options *options, spsh_train_result *ret_result,
                                spsh_error *err);
/* ... with options.replay (run_replayed.c). */
spsh_status spsh__run_replayed(const spsh_train_options *options, spsh_train_result *ret_result,
                               spsh_error *err);

#endif

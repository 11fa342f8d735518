/* run_one_process.h: runs whose learners are all in one process, each the whole of spsh__run_in on
 * a fiber: simulated runs (run_simulated.c) and replayed runs (run_replayed.c).
 */
#ifndef SPSH_TRAIN_RUN_ONE_PROCESS_H
#define SPSH_TRAIN_RUN_ONE_PROCESS_H

#include "run_world.h"

/* spsh_train with options.simulate. */
spsh_status spsh__run_simulated(const spsh_train_options *options, spsh_train_result *ret_result,
                                spsh_error *err);
/* spsh_train with options.replay. */
spsh_status spsh__run_replayed(const spsh_train_options *options, spsh_train_result *ret_result,
                               spsh_error *err);

/* ---- common to both (run_one_process.c) ---- */
typedef struct spsh__run_outcome {
    const spsh_train_options *o; /* options of the caller */
    spsh_train_result *result;   /* result of the caller, filled in by learner 0 */
    spsh_status status;          /* the first failure */
    spsh_error error;
} spsh__run_outcome;

/* Run spsh__run_in for one learner. Learner 0 has the log and the result of the caller. The other
 * learners log only warnings and errors. */
spsh_status spsh__run_in_turn(spsh__run_outcome *all, const spsh_train_options *options,
                              spsh__run_world *world, spsh_error *err);
/* Keep the first failure; rc may be SPSH_OK. */
void spsh__run_take_failure(spsh__run_outcome *all, spsh_status rc, const spsh_error *failed);
/* Reject a process that a launcher started with others. */
spsh_status spsh__run_check_alone(const char *what, spsh_error *err);
/* Reject options that disturb a process or its messages; why: the message. */
spsh_status spsh__run_check_undisturbed(const spsh_train_options *options, const char *why,
                                        spsh_error *err);

/* Functions of both kinds of world. */
#define SPSH__ONE_PROCESS_NO_LOSS                                                                  \
    "train.on_lost is shrink, but a simulated run ends if a learner is killed; set "               \
    "train.on_lost=end"
/* opened_fn: log the memory of all learners, before the other learners allocate theirs. */
spsh_status spsh__one_process_opened(spsh__run_world *w, const spsh_train_options *o,
                                     struct spsh__estimating *e, spsh_error *err);
/* Check for begin_batch_fn: SPSH_E_CANCELED if comm has failed. */
spsh_status spsh__one_process_check(const spsh__run_world *w, spsh_error *err);

#endif

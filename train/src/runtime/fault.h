/* fault.h: what is done to a process of a run on purpose, so that a cluster can be tried out before
 * it is there, and tests have stragglers (spsh_train_options' slow, freeze, kill).
 *
 *     slow     behind what a step computed the computing task sleeps, for (factor - 1) times as
 *              long: the serving task goes on, as that of a slow computer's does
 *     freeze   the process stops (SIGSTOP), with both tasks, before a step; a child of it wakes it
 *     kill     SIGKILL, before a step
 *
 * Steps and seconds are counted from the process's first step.
 */
#ifndef SPSH_TRAIN_FAULT_H
#define SPSH_TRAIN_FAULT_H

#include "cluster.h"
#include "speechshard/train.h"

/* Of this process alone. Zeroed: nothing is done to it. */
typedef struct spsh__fault {
    bool is_there, is_step;   /* at: a step's number, else nanoseconds */
    uint64_t at, duration_ns; /* of a freeze */
} spsh__fault;

typedef struct spsh__faults {
    double slow; /* factor; 0, 1: as it is */
    spsh__fault freeze, kill;
    uint64_t steps, begin_ns;
} spsh__faults;

/* SPSH_E_INVALID_ARG: not of the form, or of a rank that there is none of. */
spsh_status spsh__faults_read(const spsh_train_options *o, uint32_t rank, uint32_t world_size,
                              spsh__faults *ret, spsh_error *err);
void spsh__fault_before_step(spsh__faults *f);
/* What was computed took so long. */
void spsh__fault_after_compute(const spsh__faults *f, double duration_s);
#endif

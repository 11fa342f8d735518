/* fault.h: deliberate faults of a process of a run, to try out a cluster in advance and to give
 * tests stragglers (slow, freeze, and kill of spsh_train_options).
 *
 *     slow    the computing task sleeps after each computation, for (factor - 1) times its duration.
 *             The serving task continues, as on a slow computer
 *     freeze  the process stops (SIGSTOP) before a step, with both tasks. A child process resumes it
 *     kill    SIGKILL before a step
 *
 * Steps and seconds are counted from the process's first step.
 */
#ifndef SPSH_TRAIN_FAULT_H
#define SPSH_TRAIN_FAULT_H

#include "cluster.h"
#include "speechshard/train.h"

/* A fault of this process. Zeroed: no fault. */
typedef struct spsh__fault {
    bool is_there, is_step;   /* is_step: `at` is a step number, else nanoseconds */
    uint64_t at, duration_ns; /* duration_ns: of a freeze */
} spsh__fault;

typedef struct spsh__faults {
    double slow; /* factor; 0, 1: full speed */
    spsh__fault freeze, kill;
    uint64_t steps, begin_ns;
} spsh__faults;

/* Read the faults of a rank. SPSH_E_INVALID_ARG: malformed, or of a rank that does not exist. */
spsh_status spsh__faults_read(const spsh_train_options *o, uint32_t rank, uint32_t world_size,
                              spsh__faults *ret, spsh_error *err);
void spsh__fault_before_step(spsh__faults *f);
/* Sleep after a computation that took duration_s, if the process is to be slow. */
void spsh__fault_after_compute(const spsh__faults *f, double duration_s);
#endif

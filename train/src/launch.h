/* launch.h: who started this process: rank and world size from the environment of mpirun, srun,
 * torchrun, or plain variables. Order: flags, torchrun, OpenMPI, PMI, Slurm, RANK/WORLD_SIZE,
 * alone. Sets that contradict each other are refused, naming both (mpirun inside srun is
 * OpenMPI's). research 3.11.
 */
#ifndef SPSH_TRAIN_LAUNCH_H
#define SPSH_TRAIN_LAUNCH_H

#include "speechshard/base.h"

typedef struct spsh__launch {
    const char *launcher; /* "mpirun", "torchrun", "srun", "pmi", "environment", "alone" */
    uint32_t rank, world_size, local_rank, local_size, node, node_count;
    char master[256]; /* host of rank 0 where the launcher says it; else empty */
    uint32_t master_port;
    char run_id[128];
    uint32_t restart_count;
} spsh__launch;

/* get_fn: getenv, or a test's. SPSH_E_INVALID_ARG: contradiction, or a number that is none. */
spsh_status spsh__launch_find(const char *(*get_fn)(void *user, const char *name), void *user,
                              spsh__launch *ret_launch, spsh_error *err);

#endif

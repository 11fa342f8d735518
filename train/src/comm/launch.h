/* launch.h: who started this process: rank and world size from the environment of mpirun, srun,
 * torchrun, Kubernetes, or plain variables.
 *
 * Order: torchrun (LOCAL_RANK and TORCHELASTIC_RUN_ID), OpenMPI (OMPI_COMM_WORLD_RANK), PMI
 * (PMI_RANK), Slurm (SLURM_PROCID of a step), RANK and WORLD_SIZE (without RANK:
 * JOB_COMPLETION_INDEX), alone.
 *
 * One launcher inside another is usual: mpirun, mpiexec or torchrun inside srun; there the inner
 * one counts. Refused, naming both: torchrun's and OpenMPI's variables that differ, and plain ones
 * that differ from the launcher's. The shell of a batch script, which sees Slurm's numbers without
 * being a task of a step, is alone.
 */
#ifndef SPSH_TRAIN_LAUNCH_H
#define SPSH_TRAIN_LAUNCH_H

#include "speechshard/base.h"

/* A string that all processes of a run share: see rendezvous.h. */
#define SPSH__LAUNCH_SECRET "SPEECHSHARD_SECRET"

typedef struct spsh__launch {
    const char *launcher; /* "mpirun", "torchrun", "srun", "pmi", "environment", "alone" */
    uint32_t rank, world_size, local_rank, local_size, node, node_count;
    char master[256];     /* host of rank 0 where the launcher says it; else empty */
    uint32_t master_port; /* 0: not said */
    char run_id[128];     /* of the launcher; else empty */
    uint32_t restart_count;
    const char *secret; /* SPEECHSHARD_SECRET, borrowed from the environment; NULL: not set */
    char comm[8]; /* SPEECHSHARD_COMM, what carries messages: "mpi" or "tcp"; empty: as usual */
} spsh__launch;

/* get_fn: NULL: getenv; or a test's. SPSH_E_INVALID_ARG: a contradiction, half a set, or a number
 * that is none. */
spsh_status spsh__launch_find(const char *(*get_fn)(void *user, const char *name), void *user,
                              spsh__launch *ret_launch, spsh_error *err);

#endif

/* launch.h: the launcher of this process, and the rank and world size from the environment of
 * mpirun, srun, torchrun, Kubernetes, or plain variables.
 *
 * Order: torchrun (LOCAL_RANK and TORCHELASTIC_RUN_ID), OpenMPI (OMPI_COMM_WORLD_RANK), PMI
 * (PMI_RANK), Slurm (SLURM_PROCID of a step), RANK and WORLD_SIZE (without RANK:
 * JOB_COMPLETION_INDEX), a single process.
 *
 * Launchers are often nested: mpirun, mpiexec, or torchrun inside srun. The inner launcher then
 * counts. Two contradictions are rejected, with both launchers in the message: torchrun's variables
 * that differ from OpenMPI's, and plain variables that differ from the launcher's. The shell of a
 * batch script sees Slurm's numbers but is not a task of a step, so it is a single process.
 */
#ifndef SPSH_TRAIN_LAUNCH_H
#define SPSH_TRAIN_LAUNCH_H

#include "speechshard/base.h"

/* Secret string that all processes of a run share: see rendezvous.h. */
#define SPSH__LAUNCH_SECRET "SPEECHSHARD_SECRET"

typedef struct spsh__launch {
    const char *launcher; /* "mpirun", "torchrun", "srun", "pmi", "environment", "alone" */
    uint32_t rank, world_size, local_rank, local_size, node, node_count;
    char master[256];     /* host of rank 0, if the launcher sets it; else empty */
    uint32_t master_port; /* 0: not set */
    char run_id[128];     /* run ID of the launcher; else empty */
    uint32_t restart_count;
    const char *secret; /* SPEECHSHARD_SECRET, borrowed from the environment; NULL: not set */
    char comm[8]; /* SPEECHSHARD_COMM, the carrier of messages: "mpi" or "tcp"; empty: choose by
                     launcher */
} spsh__launch;

/* get_fn: reads a variable (NULL: getenv). SPSH_E_INVALID_ARG: variables contradict each other, are
 * incomplete, or hold a malformed number. */
spsh_status spsh__launch_find(const char *(*get_fn)(void *user, const char *name), void *user,
                              spsh__launch *ret_launch, spsh_error *err);

/* A get_fn: getenv. user is unused. */
const char *spsh__launch_environment(void *user, const char *name);

#endif

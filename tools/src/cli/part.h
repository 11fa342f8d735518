/* part.h: `--part I/N`, `--part auto`, and `--part auto/N`: the share of this process if several
 * machines divide the work.
 *
 * `auto` reads the variables of a job array (Slurm, Kubernetes, SGE, PBS, LSF, AWS Batch, Google
 * Batch) and the variables of a launcher (spsh_train_world_find). mpirun, srun, or a PMI launcher
 * inside a task of an array divides the part of that task once more. Variables that cannot be mapped
 * to parts without a gap are rejected, because a wrong guess would silently omit work.
 */
#ifndef SPSH_PART_H
#define SPSH_PART_H

#include <stdint.h>

#include "speechshard/base.h"

/* Last words of the option's help; the first words say what part I of N processes. */
#define SPSH_PART_AUTO_HELP                                                                        \
    "; auto takes I and N from a job array or from mpirun, and auto/N takes only I"

typedef struct spsh__job_part {
    uint64_t index;  /* from 0 */
    uint64_t count;  /* 0: the scheduler does not set it */
    char source[64]; /* where both come from: "Slurm array", "mpirun", "SGE array and mpirun" */
} spsh__job_part;

/**
 * Find the part of this process in the environment.
 *
 * @param count  number of parts as given by the user; 0: not given
 * @return SPSH_OK; SPSH_E_NOT_FOUND: neither an array nor a launcher; SPSH_E_INVALID_ARG: variables
 *         are not numbers, contradict each other or count, or describe an array with gaps
 */
spsh_status spsh__part_find(uint64_t count, spsh__job_part *ret_part, spsh_error *err);

/* Parse the value of --part. "2/3" is the last of three parts, counted from 0. NULL is 0/1,
 * everything. Returns SPSH_EXIT_DONE, or reports the error for `command` and returns
 * SPSH_EXIT_USAGE. */
int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count);

#endif

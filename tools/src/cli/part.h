/* part.h: the option `--part I/N`, `--part auto`, or `--part auto/N`: the share of this process if
 * several machines divide the work (spsh_job_part_find).
 */
#ifndef SPSH_PART_H
#define SPSH_PART_H

#include <stdint.h>

/* Last words of the option's help; the first words say what part I of N processes. */
#define SPSH_PART_AUTO_HELP                                                                        \
    "; auto takes I and N from a job array or from mpirun, and auto/N takes only I"

/* Parse the value of --part. NULL is 0/1, everything. Returns SPSH_EXIT_DONE, or reports the error
 * for `command` and returns SPSH_EXIT_USAGE. */
int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count);

#endif

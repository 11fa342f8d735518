/* part.h: `--part i/n`: which share of the work this run does, of several on as many machines. */
#ifndef SPSH_PART_H
#define SPSH_PART_H

#include <stdint.h>

/* "2/3" is the last of three: counted from 0. NULL is 0/1, everything. What is none is reported for
 * the command: SPSH_EXIT_USAGE; else SPSH_EXIT_DONE. */
int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count);

#endif

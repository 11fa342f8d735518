/* part.h: `--part i/n`: the share of this run if several machines divide the work. */
#ifndef SPSH_PART_H
#define SPSH_PART_H

#include <stdint.h>

/* Parse a part. "2/3" is the last of three parts, counted from 0. NULL is 0/1, everything. Returns
 * SPSH_EXIT_DONE, or reports a malformed value for `command` and returns SPSH_EXIT_USAGE. */
int spsh__part_take(const char *command, const char *text, uint64_t *ret_part, uint64_t *ret_count);

#endif

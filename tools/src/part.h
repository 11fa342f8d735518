/* part.h: `--part i/n`: which share of the work this run does, of several on as many machines. */
#ifndef SPSH_PART_H
#define SPSH_PART_H

#include <stdbool.h>
#include <stdint.h>

/* "2/3" is the last of three: counted from 0. NULL is 0/1, everything. false: it is none. */
bool spsh__part_parse(const char *text, uint64_t *ret_part, uint64_t *ret_count);

#endif

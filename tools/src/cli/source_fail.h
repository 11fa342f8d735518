/* source_fail.h: a command that reads datasets and their segments has failed: why, and where a file
 * of theirs is damaged, which command is for that. */
#ifndef SPSH_SOURCE_FAIL_H
#define SPSH_SOURCE_FAIL_H

#include "set/print_set.h"

/* command: before the message; NULL: nothing. Returns SPSH_EXIT_FAILED. */
int spsh__source_fail(const char *command, const spsh_dedup_source *sources, size_t source_count,
                      const spsh_error *err);

#endif

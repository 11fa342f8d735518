/* source_fail.h: a command that reads datasets and their fingerprints has failed: why, and if a
 * file of theirs is damaged, which command helps.
 */
#ifndef SPSH_SOURCE_FAIL_H
#define SPSH_SOURCE_FAIL_H

#include <stddef.h>

#include "speechshard/dedup.h"

/* command: before the message; NULL: nothing. Returns SPSH_EXIT_FAILED. */
int spsh__path_fail(const char *command, const char *const *paths, size_t path_count,
                    const spsh_error *err);
int spsh__source_fail(const char *command, const spsh_dedup_sources *sources, spsh_error *err);

#endif

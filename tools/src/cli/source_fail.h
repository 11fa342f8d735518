/* source_fail.h: report why a command failed that reads datasets and their fingerprints. If one of
 * their files is damaged, the message names the command that helps.
 */
#ifndef SPSH_SOURCE_FAIL_H
#define SPSH_SOURCE_FAIL_H

#include <stddef.h>

#include "speechshard/dedup.h"

/* command: prefix of the message; NULL: no prefix. Returns SPSH_EXIT_FAILED. */
int spsh__path_fail(const char *command, const char *const *paths, size_t path_count,
                    const spsh_error *err);
int spsh__source_fail(const char *command, const spsh_dedup_sources *sources, spsh_error *err);

#endif

/* stale_files.h: what killed runs left behind, out of the way. */
#ifndef SPSH_STALE_FILES_H
#define SPSH_STALE_FILES_H

#include <stdbool.h>

#include "speechshard/io.h"

/**
 * Remove NAME.tmp-PID-N of processes that are no more from a directory, where is_ours_fn says so of
 * the name in front; on another machine a process may well be. What cannot be removed is in
 * nobody's way.
 */
void spsh__remove_stale(const spsh_io *io, const char *directory,
                        bool (*is_ours_fn)(void *user, const char *name, size_t name_bytes),
                        void *user);

#endif

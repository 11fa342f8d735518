/* work_space.h: check that the disk has space for the temporary files of a long command. */
#ifndef SPSH_WORK_SPACE_H
#define SPSH_WORK_SPACE_H

#include "speechshard/base.h"

/* Check that path has need_bytes free. path is a directory, or will be made in an existing one.
 * SPSH_E_NO_SPACE states both numbers. If the free space is unknown, the check passes. */
SPSH_NODISCARD spsh_status spsh__work_space_check(const char *path, uint64_t need_bytes,
                                                  spsh_error *err);

#endif

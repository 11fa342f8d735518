/* work_space.h: is there room for what a long command leaves on disk for a while? */
#ifndef SPSH_WORK_SPACE_H
#define SPSH_WORK_SPACE_H

#include "speechshard/base.h"

/* path: a folder that is there, or will be made in one that is. SPSH_E_NO_SPACE with both numbers.
 * What cannot be asked is taken for enough. */
SPSH_NODISCARD spsh_status spsh__work_space_check(const char *path, uint64_t need_bytes,
                                                  spsh_error *err);

#endif

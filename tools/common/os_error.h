/* os_error.h: which failed system calls a repeat may mend. */
#ifndef SPSH_OS_ERROR_H
#define SPSH_OS_ERROR_H

#include <stdbool.h>

/* True for failures of a disk, a file server, or the network, such as EIO, ESTALE, and ETIMEDOUT.
 * The file itself may be good: the same call can succeed a little later, or on another machine.
 *
 * False for properties of a path, such as EACCES. False for a lack of space and a read-only disk
 * (ENOSPC, EDQUOT, EROFS): a restart fails until the user has mended the cause. */
bool spsh__os_error_is_transient(int os_errno);

#endif

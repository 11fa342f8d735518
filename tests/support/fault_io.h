/* fault_io.h: an I/O table whose calls fail or stop short on request.
 *
 *     fault_io fault = {.fail_at = n, .fail_count = 1, .fail_errno = EIO};  -- call n, from 0,
 *     fails spsh_io io = fault_io_table(&fault);
 *     ... CHECK_I64(fault.open_count, 0);
 *
 * fail_count UINT64_MAX is a crash: nothing reaches the disk from call n on, not even the removal
 * of temporary files; descriptors and mappings are still released. All other calls go to the
 * operating system, except fsync, which is only counted. Safe to use from several threads.
 */
#ifndef FAULT_IO_H
#define FAULT_IO_H

#include <stdatomic.h>

#include "speechshard/io.h"

typedef struct fault_io {
    uint64_t fail_at;    /* UINT64_MAX: never */
    uint64_t fail_count; /* number of consecutive calls that fail */
    int fail_errno;
    size_t transfer_bytes_max; /* limit for pread and pwrite; 0: no limit */
    _Atomic uint64_t call_count;
    _Atomic int64_t open_count; /* descriptors and mappings that are not given back yet */
} fault_io;

/* fault must outlive the table. */
spsh_io fault_io_table(fault_io *fault);

#endif

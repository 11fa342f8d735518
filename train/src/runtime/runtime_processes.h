/* runtime_processes.h: runtime.h for processes: comm.h's messages, a thread that serves, and the
 * clock on the wall.
 *
 *     spsh__runtime_processes_open(comm, allocator, &runtime, &err);
 *     ... strategies, which go on to use comm as well, with other tags ...
 *     runtime->ops->close_fn(runtime);        // all ranks, before the comm is closed
 */
#ifndef SPSH_TRAIN_RUNTIME_PROCESSES_H
#define SPSH_TRAIN_RUNTIME_PROCESSES_H

#include "comm/comm.h"
#include "runtime.h"

/* Of a comm that outlives ranks, which it says before this is opened, so does the runtime, as
 * runtime.h has it. The comm must outlive it. SPSH_E_NO_MEMORY, _LIMIT (threads). */
spsh_status spsh__runtime_processes_open(spsh__comm *comm, const spsh_allocator *allocator,
                                         spsh__runtime **ret_runtime, spsh_error *err);

#endif

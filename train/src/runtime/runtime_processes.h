/* runtime_processes.h: runtime.h for processes: messages of comm.h, a serving thread, and the wall
 * clock.
 *
 *     spsh__runtime_processes_open(comm, allocator, &runtime, &err);
 *     ... strategies, which may also use comm, with other tags ...
 *     runtime->ops->close_fn(runtime);        // all ranks, before the comm is closed
 */
#ifndef SPSH_TRAIN_RUNTIME_PROCESSES_H
#define SPSH_TRAIN_RUNTIME_PROCESSES_H

#include "comm/comm.h"
#include "runtime.h"

/* Open the runtime of a process. If comm->outlives is set before this call and the carrier supports
 * it, the runtime outlives lost ranks, as in runtime.h. The comm must outlive the runtime.
 * SPSH_E_NO_MEMORY, SPSH_E_LIMIT (threads). */
spsh_status spsh__runtime_processes_open(spsh__comm *comm, const spsh_allocator *allocator,
                                         spsh__runtime **ret_runtime, spsh_error *err);

#endif

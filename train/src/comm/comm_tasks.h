/* comm_tasks.h: comm.h between compute tasks of one process that take turns: the tasks of a
 * simulation (runtime_sim.h) or of a replay (runtime_replay.h). A send copies its bytes and is done
 * at once. Receives match incoming messages in the order in which they were posted.
 */
#ifndef SPSH_COMM_TASKS_H
#define SPSH_COMM_TASKS_H

#include "comm.h"

/* Functions of the owner of the tasks. */
typedef struct spsh__task_comm_ops {
    /* Pass a copy of the bytes to spsh__task_comm_deliver of rank `to`, now or later. */
    spsh_status (*send_fn)(void *user, uint32_t to, uint32_t tag, const void *bytes,
                           size_t size_bytes, spsh_error *err);
    /* Suspend the current task until ready_fn returns true. SPSH_E_TIMEOUT, SPSH_E_CANCELED:
     * without an error text. */
    spsh_status (*wait_fn)(void *user, bool (*ready_fn)(void *user), void *ready_user,
                           uint32_t deadline_ms);
    /* Current time in nanoseconds on the clock of these deadlines. */
    uint64_t (*now_fn)(void *user);
} spsh__task_comm_ops;

/* Open the communicator of one task. The caller sets comm.deadline_ms. SPSH_E_NO_MEMORY. */
spsh_status spsh__task_comm_open(const spsh__task_comm_ops *ops, void *user, uint32_t rank,
                                 uint32_t world_size, const spsh_allocator *allocator,
                                 spsh__comm **ret_comm, spsh_error *err);
/* Free the communicator. Only its owner calls this: comm.ops->close_fn does nothing. NULL is fine.
 */
void spsh__task_comm_free(spsh__comm *comm);
/* Deliver a message to a task. SPSH_E_NO_MEMORY: the message is lost. */
spsh_status spsh__task_comm_deliver(spsh__comm *comm, uint32_t from, uint32_t tag,
                                    const void *bytes, size_t size_bytes);

#endif

/* comm_tasks.h: comm.h between computing tasks of one process that take turns: those of a
 * simulation (runtime_sim.h) and of a replay (runtime_replay.h). Sends are copied and done at once;
 * receives take what comes in the order in which they were posted.
 */
#ifndef SPSH_COMM_TASKS_H
#define SPSH_COMM_TASKS_H

#include "comm.h"

/* Whose tasks they are. */
typedef struct spsh__task_comm_ops {
    /* A copy of the bytes comes to spsh__task_comm_deliver of `to`, now or later. */
    spsh_status (*send_fn)(void *user, uint32_t to, uint32_t tag, const void *bytes,
                           size_t size_bytes, spsh_error *err);
    /* The task at hand goes on when ready_fn says so. SPSH_E_TIMEOUT, _CANCELED: without a text. */
    spsh_status (*wait_fn)(void *user, bool (*ready_fn)(void *user), void *ready_user,
                           uint32_t deadline_ms);
    /* Nanoseconds of the clock of these deadlines. */
    uint64_t (*now_fn)(void *user);
} spsh__task_comm_ops;

/* comm.deadline_ms is the caller's to set. SPSH_E_NO_MEMORY. */
spsh_status spsh__task_comm_open(const spsh__task_comm_ops *ops, void *user, uint32_t rank,
                                 uint32_t world_size, const spsh_allocator *allocator,
                                 spsh__comm **ret_comm, spsh_error *err);
/* By its owner: comm.ops->close_fn does nothing. NULL is fine. */
void spsh__task_comm_free(spsh__comm *comm);
/* SPSH_E_NO_MEMORY: it is lost. */
spsh_status spsh__task_comm_deliver(spsh__comm *comm, uint32_t from, uint32_t tag,
                                    const void *bytes, size_t size_bytes);

#endif

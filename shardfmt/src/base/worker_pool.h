/* worker_pool.h: threads that work on tasks. Finished tasks return in the order in which they were
 * put.
 *
 * A pool of one thread starts no thread: put does the work. So one core is used by only one thread.
 */
#ifndef SPSH_WORKER_POOL_H
#define SPSH_WORKER_POOL_H

#include "base_internal.h"

typedef struct spsh__worker_pool spsh__worker_pool;

/* Work on one task. worker is 0 ... threads - 1. */
typedef void (*spsh__worker_fn)(void *user, uint32_t worker, void *task);

/* tasks_max: maximum of tasks that are put and not yet taken. Only one thread may put and take. */
spsh_status spsh__worker_pool_open(const spsh_allocator *allocator, uint32_t threads,
                                   uint32_t tasks_max, spsh__worker_fn work_fn, void *user,
                                   spsh__worker_pool **ret_pool, spsh_error *err);
/* Finish all tasks that were put, then close. NULL is allowed. */
void spsh__worker_pool_close(spsh__worker_pool *pool);

/* The pool must not be full. */
void spsh__worker_pool_put(spsh__worker_pool *pool, void *task);
/* Take the oldest task, once it is finished. Returns NULL if no task was put or, with block false,
 * if the oldest is not finished yet. */
void *spsh__worker_pool_take(spsh__worker_pool *pool, bool block);

#endif

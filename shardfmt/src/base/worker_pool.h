/* worker_pool.h: threads that work on tasks; finished tasks come back in the order they were put.
 *
 * With one thread there is none: put does the work. So one core is used by one thread alone.
 */
#ifndef SPSH_WORKER_POOL_H
#define SPSH_WORKER_POOL_H

#include "base_internal.h"

typedef struct spsh__worker_pool spsh__worker_pool;

/* Works on one task; worker is 0 ... threads - 1. */
typedef void (*spsh__worker_fn)(void *user, uint32_t worker, void *task);

/* tasks_max: put and not yet taken. One thread may put and take. */
spsh_status spsh__worker_pool_open(const spsh_allocator *allocator, uint32_t threads,
                                   uint32_t tasks_max, spsh__worker_fn work_fn, void *user,
                                   spsh__worker_pool **ret_pool, spsh_error *err);
/* Finishes what was put; NULL is fine. */
void spsh__worker_pool_close(spsh__worker_pool *pool);

bool spsh__worker_pool_full(const spsh__worker_pool *pool);
/* The pool must not be full. */
void spsh__worker_pool_put(spsh__worker_pool *pool, void *task);
/* The oldest task, once it is finished; NULL when none was put. With block false: also NULL when it
 * is not finished yet. */
void *spsh__worker_pool_take(spsh__worker_pool *pool, bool block);

#endif

/* cpu_pool.h: threads that share the pieces of one operator at a time. */
#ifndef SPSH_TRAIN_CPU_POOL_H
#define SPSH_TRAIN_CPU_POOL_H

#include "speechshard/base.h"

typedef struct spsh__cpu_pool spsh__cpu_pool;

/* Process one piece of many. Any thread may process it, so the result must not depend on the
 * thread. */
typedef void (*spsh__piece_fn)(void *work, size_t piece);

/* threads: including the caller, at least 1; fewer if the system allows fewer. */
spsh_status spsh__cpu_pool_open(const spsh_allocator *allocator, uint32_t threads,
                                spsh__cpu_pool **ret_pool, spsh_error *err);
void spsh__cpu_pool_close(spsh__cpu_pool *pool);

/* Returns when all are done. For one thread at a time; pieces below 2^32. */
void spsh__cpu_pool_run(spsh__cpu_pool *pool, spsh__piece_fn piece_fn, void *work, size_t pieces);

#endif

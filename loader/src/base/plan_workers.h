/* plan_workers.h: numbered pieces of work for a few threads, once. */
#ifndef SPSH_PLAN_WORKERS_H
#define SPSH_PLAN_WORKERS_H

#include "speechshard/inside.h"

/* Does one piece; worker is 0 ... threads - 1. */
typedef spsh_status (*spsh__plan_piece_fn)(void *user, uint32_t worker, uint64_t piece,
                                           spsh_error *err);

/* Processors this process may use, at most 64. */
uint32_t spsh__workers_default(void);

/* Work on pieces 0 ... count - 1, with the calling thread and up to threads - 1 more. After a
 * failure no new piece is begun; of several failures that of the lowest piece is returned. */
spsh_status spsh__workers_run(uint32_t threads, uint64_t count, spsh__plan_piece_fn piece_fn,
                              void *user, spsh_error *err);

#endif

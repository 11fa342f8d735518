/* plan_workers.h: numbered pieces of work for a few threads, once. */
#ifndef SPSH_PLAN_WORKERS_H
#define SPSH_PLAN_WORKERS_H

#include "speechshard/inside.h"

/* Does one piece; worker is 0 ... threads - 1. */
typedef spsh_status (*spsh__plan_piece_fn)(void *user, uint32_t worker, uint64_t piece,
                                           spsh_error *err);

/* Processors this process may use, at most 64. */
uint32_t spsh__workers_default(void);

/* The caller's function for progress: the calling thread reports the pieces that are begun. */
typedef struct spsh__plan_progress {
    spsh_progress_fn fn; /* NULL: none */
    void *user;
    const char *phase;
} spsh__plan_progress;

/* Report; SPSH_E_CANCELED if the caller cancels. */
spsh_status spsh__plan_progress_report(const spsh__plan_progress *progress, uint64_t done,
                                       uint64_t total, spsh_error *err);

/* Work on pieces 0 ... count - 1, with the calling thread and up to threads - 1 more. After a
 * failure no new piece is begun; of several failures that of the lowest piece is returned.
 * progress: NULL: none. */
spsh_status spsh__workers_run(uint32_t threads, uint64_t count, spsh__plan_piece_fn piece_fn,
                              void *user, const spsh__plan_progress *progress, spsh_error *err);

#endif

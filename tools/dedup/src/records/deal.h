/* deal.h: numbered things dealt out to threads.
 *
 *     const spsh__deal deal = {.end = count, .at_once = 64, .take_fn = take, .stage = "read keys"};
 *     rc = spsh__deal_run(&deal, workers, sizeof(*workers), worker_count, err);
 *
 * spsh_cores_run with a watch: each thread takes the next few in order until none is left, one has
 * failed, or the watch is canceled. Which thread took what must not matter to the caller.
 */
#ifndef SPSH_DEDUP_DEAL_H
#define SPSH_DEDUP_DEAL_H

#include <stddef.h>

#include "call_watch.h"

typedef struct spsh__deal {
    uint64_t first, end; /* numbers */
    uint64_t at_once;    /* 1 or more */
    /* worker: no other thread has it. Anything but SPSH_OK ends the run with that. */
    spsh_status (*take_fn)(void *worker, uint64_t number, spsh_error *err);
    spsh__call_watch *watch; /* may be NULL; gets the count of finished things */
    const char *stage;
} spsh__deal;

/* workers: an array; the first is the caller's own thread. Of several failures that of the lowest
 * number is returned. */
spsh_status spsh__deal_run(const spsh__deal *deal, void *workers, size_t worker_bytes,
                           uint32_t worker_count, spsh_error *err);

#endif

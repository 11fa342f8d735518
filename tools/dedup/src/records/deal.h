/* deal.h: distribute numbered work items to threads.
 *
 *     const spsh__deal deal = {.end = count, .at_once = 64, .threads = 8, .user = &pool,
 *                              .worker_bytes = sizeof(worker), .open_fn = open_worker,
 *                              .take_fn = take, .close_fn = close_worker, .stage = "read keys"};
 *     rc = spsh__deal_run(&deal, err);
 *
 * Adds a watch to spsh_cores_run. Each thread repeatedly takes the next at_once items in order,
 * until no item is left, an item fails, or the watch is canceled. The result of the caller must not
 * depend on which thread took which item.
 */
#ifndef SPSH_DEDUP_DEAL_H
#define SPSH_DEDUP_DEAL_H

#include <stddef.h>

#include "call_watch.h"

typedef struct spsh__deal {
    uint64_t first, end; /* item numbers, from first to end - 1 */
    uint64_t at_once;    /* items that a thread takes at a time, at least 1 */
    uint32_t threads;    /* 0: 1 */
    void *user;          /* for open_fn */
    size_t worker_bytes; /* state of a thread, zeros before open_fn */
    /* Called one after another for all workers before the first item. close_fn is called for all of
     * them, also for those that were not opened. */
    spsh_status (*open_fn)(void *worker, void *user, spsh_error *err);
    void (*close_fn)(void *worker, void *user);
    /* Process one item. Only this thread uses the worker during the run. Any result except SPSH_OK
     * ends the run, and spsh__deal_run returns that result. */
    spsh_status (*take_fn)(void *worker, uint64_t number, spsh_error *err);
    spsh__call_watch *watch; /* may be NULL; receives the number of finished items */
    const char *stage;
} spsh__deal;

/* The calling thread uses the first worker. If several items fail, the error of the lowest item
 * number is returned. */
spsh_status spsh__deal_run(const spsh__deal *deal, spsh_error *err);

#endif

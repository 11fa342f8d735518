/* batch_window.h: cut a window of the sequence into batches. */
#ifndef SPSH_BATCH_WINDOW_H
#define SPSH_BATCH_WINDOW_H

#include "utterance_order.h"

enum { SPSH__WINDOWS_MAX = 3 };

typedef struct spsh__batch_range {
    uint32_t first, count; /* range of the window's items */
} spsh__batch_range;

typedef struct spsh__window {
    bool is_valid;
    uint64_t epoch;
    uint32_t number;
    uint64_t used; /* spsh__windows.clock at the last use */
    spsh_item *items;
    uint32_t item_count;
    spsh__batch_range *batches;
    uint32_t batch_count;
} spsh__window;

typedef struct spsh__window_scratch spsh__window_scratch;

/* A walk, and the windows that it made last. One thread. */
typedef struct spsh__windows {
    const spsh_plan *plan;
    spsh__walk walk;
    spsh__window_scratch *scratch;
    spsh__window windows[SPSH__WINDOWS_MAX];
    uint32_t kept;
    uint64_t clock;
    bool saves; /* save results to the cache directory once there are many */
} spsh__windows;

/* kept: number of windows to keep, 1 to SPSH__WINDOWS_MAX. Allocates all memory. */
spsh_status spsh__windows_open(spsh__windows *windows, const spsh_plan *plan, uint32_t kept,
                               spsh_error *err);
void spsh__windows_close(spsh__windows *windows);

/* Return a window; borrowed until `kept` other windows have been requested. */
spsh_status spsh__windows_get(spsh__windows *windows, uint64_t epoch, uint32_t number,
                              const spsh__window **ret_window, spsh_error *err);

/* Batch count of a window. Makes the window if the plan does not know its count. */
spsh_status spsh__windows_batches(spsh__windows *windows, uint64_t epoch, uint32_t number,
                                  uint32_t *ret_batches, spsh_error *err);

/* Maximum number of items in a window. UINT64_MAX: it does not fit into 64 bits. */
uint64_t spsh__window_items_max(const spsh_plan *plan);

#endif

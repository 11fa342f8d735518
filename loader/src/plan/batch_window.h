/* batch_window.h: the batches of a window of the sequence. */
#ifndef SPSH_BATCH_WINDOW_H
#define SPSH_BATCH_WINDOW_H

#include "utterance_order.h"

enum { SPSH__WINDOWS_MAX = 3 };

typedef struct spsh__batch_range {
    uint32_t first, count; /* of the window's items */
} spsh__batch_range;

typedef struct spsh__window {
    bool is_valid;
    uint64_t epoch;
    uint32_t number;
    uint64_t used; /* clock */
    spsh_item *items;
    uint32_t item_count;
    spsh__batch_range *batches;
    uint32_t batch_count;
} spsh__window;

typedef struct spsh__window_scratch spsh__window_scratch;

/* A walk, and the windows it made last; one thread. */
typedef struct spsh__windows {
    const spsh_plan *plan;
    spsh__walk walk;
    spsh__window_scratch *scratch;
    spsh__window windows[SPSH__WINDOWS_MAX];
    uint32_t kept;
    uint64_t clock;
    bool saves; /* what is found out goes to the cache directory, when it is much */
} spsh__windows;

/* kept: how many windows stay, 1 to SPSH__WINDOWS_MAX. All memory is taken here. */
spsh_status spsh__windows_open(spsh__windows *windows, const spsh_plan *plan, uint32_t kept,
                               spsh_error *err);
void spsh__windows_close(spsh__windows *windows);

/* Borrowed until `kept` other windows have been asked for. */
spsh_status spsh__windows_get(spsh__windows *windows, uint64_t epoch, uint32_t number,
                              const spsh__window **ret_window, spsh_error *err);

/* Batches of a window: as remembered by the plan, else it is made. */
spsh_status spsh__windows_batches(spsh__windows *windows, uint64_t epoch, uint32_t number,
                                  uint32_t *ret_batches, spsh_error *err);

/* Most items a window can have. UINT64_MAX: more than can be counted. */
uint64_t spsh__window_items_max(const spsh_plan *plan);

#endif

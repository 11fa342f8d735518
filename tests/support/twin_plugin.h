/* twin_plugin.h: what a test can change in the twin of the CUDA plug-in, and see of it, while it is
 * loaded. Between calls, or while nobody else calls the twin. */
#ifndef SPSH_TWIN_PLUGIN_H
#define SPSH_TWIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWIN_CONTROLS_SYMBOL "twin_controls_get"

typedef struct twin_controls {
    uint32_t order;        /* of a block's threads in each phase: spsh__device_turn */
    size_t memory_bytes;   /* that a block may have */
    bool has_threads;      /* those of a block are threads; order does not count */
    uint64_t seed;         /* of the order among streams: what is drawn goes on from here */
    uint64_t device_bytes; /* memory of each device */
    uint32_t capability;   /* of each device, major * 10 + minor */
    uint64_t lost_after;   /* the device is lost when work_count comes to it; 0: never */
    bool counts_hazards;   /* instead of stopping the program */
    /* What is open. */
    uint32_t open_memory, open_pinned, open_streams, open_events, open_graphs;
    uint64_t work_count; /* pieces of work that were done */
    uint64_t hazards;    /* that were counted */
    uint64_t most_bytes; /* that a device had at once, since a test set it to 0 */
    bool is_lost;        /* everything fails; a test may set it back */
} twin_controls;

typedef twin_controls *twin_controls_fn(void);

#endif

/* twin_plugin.h: controls and counters of the host emulation of the CUDA plug-in, for tests, while
 * it is loaded. Use them between calls, and while no other thread calls it. */
#ifndef SPSH_TWIN_PLUGIN_H
#define SPSH_TWIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWIN_CONTROLS_SYMBOL "twin_controls_get"

typedef struct twin_controls {
    uint32_t order;        /* order of a block's threads in each phase: spsh__device_turn */
    size_t memory_bytes;   /* maximum shared memory of a block */
    bool has_threads;      /* run a block's threads as real threads; order is then unused */
    uint64_t seed;         /* state of the random order among streams */
    uint64_t device_bytes; /* memory of each device */
    uint32_t capability;   /* compute capability of each device, major * 10 + minor */
    uint64_t lost_after;   /* the device is lost when work_count reaches this; 0: never */
    bool launches_wait;    /* a launch of a graph waits for all work of the device, like free_fn */
    bool counts_hazards;   /* count hazards instead of stopping the program */
    /* Numbers of open objects. */
    uint32_t open_memory, open_pinned, open_streams, open_events, open_graphs;
    uint64_t work_count;           /* number of completed pieces of work */
    uint64_t heuristics;           /* number of algorithms that fake libraries were asked for */
    uint64_t waits;                /* number of calls that wait for a stream or for an event */
    uint64_t up_bytes, down_bytes; /* copied from the host to devices, and back */
    uint64_t hazards;              /* number of hazards, with counts_hazards */
    uint64_t most_bytes;           /* maximum memory in use on a device, since a test set it to 0 */
    bool is_lost;                  /* all calls fail; a test may reset it */
} twin_controls;

typedef twin_controls *twin_controls_fn(void);

#endif

/* twin_plugin.h: what a test can change in the twin of the CUDA plug-in, while it is loaded. */
#ifndef SPSH_TWIN_PLUGIN_H
#define SPSH_TWIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWIN_CONTROLS_SYMBOL "twin_controls_get"

typedef struct twin_controls {
    uint32_t order;       /* of a block's threads in each phase: spsh__device_turn */
    size_t memory_bytes;  /* that a block may have */
    uint32_t open_memory; /* pieces of memory that are not freed */
    bool has_threads;     /* those of a block are threads; order does not count */
} twin_controls;

typedef twin_controls *twin_controls_fn(void);

#endif

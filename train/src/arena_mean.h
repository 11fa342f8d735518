/* arena_mean.h: an arena of all ranks becomes their mean, or rank 0's.
 *
 * A mean is summed in the order of ranks: each part by the rank that owns it (part mod world size),
 * who sends it to all.
 */
#ifndef SPSH_TRAIN_ARENA_MEAN_H
#define SPSH_TRAIN_ARENA_MEAN_H

#include "backend.h"
#include "comm.h"

typedef struct spsh__arena_mean {
    spsh__comm *comm;
    spsh__backend *backend;
    float *host;            /* a part */
    uint64_t part_elements; /* the same on all ranks */
} spsh__arena_mean;

/* from may be to. All ranks; allocates. Whatever comm.h says. */
spsh_status spsh__arena_mean_make(const spsh__arena_mean *m, spsh__buffer from, spsh__buffer to,
                                  uint64_t elements, spsh_error *err);
spsh_status spsh__arena_mean_align(const spsh__arena_mean *m, spsh__buffer arena, uint64_t elements,
                                   spsh_error *err);

#endif

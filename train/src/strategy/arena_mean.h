/* arena_mean.h: an arena of all ranks becomes their mean, or rank 0's.
 *
 * A mean is summed in the order of ranks: each part by the rank that owns it (part mod world size),
 * who sends it to all. Rank 0's goes from rank to rank, part by part: each sends it once, whatever
 * their number, and the last one has it so many parts later.
 */
#ifndef SPSH_TRAIN_ARENA_MEAN_H
#define SPSH_TRAIN_ARENA_MEAN_H

#include "comm/comm.h"
#include "parts.h"

/* All ranks, of the same number of elements; allocates. What comm.h says; SPSH_E_NO_MEMORY. */
spsh_status spsh__arena_mean(spsh__comm *comm, spsh__parts *from, spsh__parts *to,
                             spsh_error *err); /* may be one */
spsh_status spsh__arena_align(spsh__comm *comm, spsh__parts *arena, spsh_error *err);

#endif

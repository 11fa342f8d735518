/* arena_mean.h: replace an arena on all ranks by its mean, or by rank 0's arena.
 *
 * A mean is summed in the order of ranks. The owner of a part (rank part mod world size) sums the
 * part and sends the mean to all ranks. Rank 0's arena passes from rank to rank, part by part. Each
 * rank sends each part once, whatever the world size.
 */
#ifndef SPSH_TRAIN_ARENA_MEAN_H
#define SPSH_TRAIN_ARENA_MEAN_H

#include "comm/comm.h"
#include "parts.h"

/* All ranks call together, with the same number of elements. The functions allocate. They return
 * the codes of comm.h, or SPSH_E_NO_MEMORY. `from` and `to` may be the same. */
spsh_status spsh__arena_mean(spsh__comm *comm, spsh__parts *from, spsh__parts *to, spsh_error *err);
spsh_status spsh__arena_align(spsh__comm *comm, spsh__parts *arena, spsh_error *err);

#endif

/* run_draw.h: batches of asynchronous learners: the leases (lease.h), the feed that prepares their
 * batches, and the assignment of leases to the ranks of a node, which are synchronous.
 *
 *     leader      takes leases, up to two updates ahead; deals them to its node in turn
 *     each rank   requests its batches ahead; an update has node_size * accumulate batches
 *
 * Without nodes each rank is a leader.
 */
#ifndef SPSH_TRAIN_RUN_DRAW_H
#define SPSH_TRAIN_RUN_DRAW_H

#include "comm/comm.h"
#include "feed/feed.h"
#include "runtime/lease.h"

typedef struct spsh__draw_options {
    spsh__comm *comm;
    spsh__runtime *runtime;
    spsh__feed *feed;    /* with is_asked */
    uint32_t node_size;  /* divides the world size */
    uint32_t accumulate; /* batches per rank and update */
    const spsh_allocator *allocator;
} spsh__draw_options;

/* This rank's part of an update. */
typedef struct spsh__drawn {
    bool is_pause;    /* no update: the round is over */
    uint32_t batches; /* number of spsh__feed_next calls of this rank */
    uint64_t samples; /* minimum number of samples that all ranks of this run had trained on when it
                         began */
} spsh__drawn;

typedef struct spsh__draw spsh__draw;
/* All ranks. SPSH_E_NO_MEMORY; codes of leases. */
spsh_status spsh__draw_open(const spsh__draw_options *options, spsh__draw **ret, spsh_error *err);
void spsh__draw_close(spsh__draw *d); /* accepts NULL; call before the runtime is closed */

spsh__leases *spsh__draw_leases(const spsh__draw *d); /* NULL: this rank is not a leader */

/* Wait for the next update. SPSH_E_TIMEOUT: rank 0, or the leader, does not answer. */
spsh_status spsh__draw_next(spsh__draw *d, spsh__drawn *ret, spsh_error *err);
/* Call after the update: the node's leader acknowledges it with this row. */
spsh_status spsh__draw_done(spsh__draw *d, const spsh__lease_done *done, spsh_error *err);
/* Get this rank's next batch of the update. */
spsh_status spsh__draw_batch(spsh__draw *d, const spsh__feed_batch **ret, spsh_error *err);

#endif

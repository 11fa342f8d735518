/* run_draw.h: batches of learners that do not step together: leases (lease.h), the feed that they
 * are asked of, and who has which of them in a node whose ranks step together.
 *
 *     leader      takes leases, up to two updates ahead; deals them to its node in turn
 *     each rank   asks its feed for its own, ahead as well; an update is of node_size * accumulate
 *
 * Without nodes each rank is its own leader.
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
    uint32_t accumulate; /* batches of a rank in an update */
    const spsh_allocator *allocator;
} spsh__draw_options;

/* An update, as this rank has a part in it. */
typedef struct spsh__drawn {
    bool is_pause;    /* there is none: the round is over */
    uint32_t batches; /* of spsh__feed_next, of this rank */
    uint64_t samples; /* at least, that all had learnt from in this run when it began */
} spsh__drawn;

typedef struct spsh__draw spsh__draw;
/* All ranks. SPSH_E_NO_MEMORY; what leases say. */
spsh_status spsh__draw_open(const spsh__draw_options *options, spsh__draw **ret, spsh_error *err);
void spsh__draw_close(spsh__draw *d); /* NULL is fine; before the runtime */

spsh__leases *spsh__draw_leases(const spsh__draw *d); /* NULL: this rank does not lead */

/* Waits for the next update. SPSH_E_TIMEOUT: rank 0, or the leader, does not answer. */
spsh_status spsh__draw_next(spsh__draw *d, spsh__drawn *ret, spsh_error *err);
/* Behind the update: it is acknowledged with this row, by the node's leader. */
spsh_status spsh__draw_done(spsh__draw *d, const spsh__lease_done *done, spsh_error *err);
/* Its next batch. */
spsh_status spsh__draw_batch(spsh__draw *d, const spsh__feed_batch **ret, spsh_error *err);

#endif

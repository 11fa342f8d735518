/* owner_mean.h: the mean of all learners' arenas, made by their serving tasks while others compute.
 *
 *     spsh__owner_mean_begin(m, err);            // own parts are on their way to their owners
 *     ... serve_fn hands messages on: spsh__owner_mean_serve(m, message, err) ...
 *     wait until spsh__owner_mean_is_here(m);    // under the lock
 *     ... m->mean ...
 *     spsh__owner_mean_end(m);                   // under the lock
 *
 * Part p belongs to learner p mod L, who adds what all have sent in the order of ranks, and sends
 * the mean to all: 2 (L - 1) / L of the arena each way, as a ring would. Nobody is a round ahead of
 * an owner: whoever begins the next one has the means of this one, which have everybody's parts.
 */
#ifndef SPSH_TRAIN_OWNER_MEAN_H
#define SPSH_TRAIN_OWNER_MEAN_H

#include "parts.h"

typedef struct spsh__owner_mean {
    spsh__runtime *runtime;
    spsh__parts *parts; /* whose arena it is of: borrowed */
    uint64_t round;
    float *mine; /* a part */
    double *sum; /* a part */
    /* under the lock */
    float *inbox;   /* [owned][learner] parts */
    uint32_t *came; /* [owned] of learners */
    float *mean;    /* an arena */
    uint32_t mean_count;
    spsh_allocator allocator;
} spsh__owner_mean;

spsh_status spsh__owner_mean_open(spsh__runtime *runtime, spsh__parts *parts,
                                  const spsh_allocator *allocator, spsh__owner_mean *ret,
                                  spsh_error *err);
void spsh__owner_mean_close(spsh__owner_mean *m); /* zeroed is fine */

/* Without the lock. Begin takes and sends all parts; send: m->mine, which the caller has filled. */
spsh_status spsh__owner_mean_begin(spsh__owner_mean *m, spsh_error *err);
spsh_status spsh__owner_mean_send(spsh__owner_mean *m, uint32_t part, spsh_error *err);
spsh_status spsh__owner_mean_serve(spsh__owner_mean *m, const spsh__message *message,
                                   spsh_error *err);
bool spsh__owner_mean_is_here(const spsh__owner_mean *m);
void spsh__owner_mean_end(spsh__owner_mean *m);

#endif

/* owner_mean.h: the mean of the arenas of all learners. The serving tasks compute it while the
 * computing tasks compute gradients.
 *
 *     spsh__owner_mean_begin(m, err);            // posts this learner's parts to their owners
 *     ... serve_fn passes messages: spsh__owner_mean_serve(m, message, err) ...
 *     spsh__owner_mean_enter(m, spsh__owner_mean_is_here, m, err);
 *     ... m->mean ...
 *     spsh__owner_mean_leave(m);
 *
 * Learner p mod L owns part p. It adds the parts of all learners in the order of ranks, and sends
 * the mean to all: 2 (L - 1) / L of the arena in each direction, as a ring would. No learner is a
 * round ahead of an owner: a learner that begins the next round has received all means of this
 * round, and each mean contains the parts of all learners.
 */
#ifndef SPSH_TRAIN_OWNER_MEAN_H
#define SPSH_TRAIN_OWNER_MEAN_H

#include "parts.h"

typedef struct spsh__owner_mean {
    spsh__runtime *runtime;
    spsh__parts *parts; /* parts of the arena; borrowed */
    uint64_t round;
    float *mine; /* one part */
    double *sum; /* one part */
    /* under the lock */
    float *inbox;   /* [owned][learner] parts */
    uint32_t *came; /* [owned] number of learners whose part arrived */
    float *mean;    /* a whole arena */
    uint32_t mean_count;
    spsh_allocator allocator;
} spsh__owner_mean;

spsh_status spsh__owner_mean_open(spsh__runtime *runtime, spsh__parts *parts,
                                  const spsh_allocator *allocator, spsh__owner_mean *ret,
                                  spsh_error *err);
void spsh__owner_mean_close(spsh__owner_mean *m); /* zeroed is fine */

/* Call without the lock. begin takes and sends all parts. send sends m->mine, which the caller
 * filled. */
spsh_status spsh__owner_mean_begin(spsh__owner_mean *m, spsh_error *err);
spsh_status spsh__owner_mean_send(spsh__owner_mean *m, uint32_t part, spsh_error *err);
spsh_status spsh__owner_mean_serve(spsh__owner_mean *m, const spsh__message *message,
                                   spsh_error *err);

/* enter waits for ready_fn, which includes spsh__owner_mean_is_here, and takes the lock if it
 * succeeds. leave ends the round and gives the lock back. */
spsh_status spsh__owner_mean_enter(spsh__owner_mean *m, bool (*ready_fn)(void *user), void *user,
                                   spsh_error *err);
bool spsh__owner_mean_is_here(void *mean);
void spsh__owner_mean_leave(spsh__owner_mean *m);

#endif

/* lease.h: learners that do not step together draw their batches from one cursor: every batch of an
 * epoch once, whoever is slow and whoever dies.
 *
 * Rank 0's serving task has the cursor (epoch, next step) and gives out leases: a lease is one step
 * of the loader's plan, of a world of one, until it is acknowledged. What was given to a learner
 * that is lost goes to the others, before what is new.
 *
 *     spsh__leases_open(runtime, &allocator, 2, &leases, &err);         // all ranks; listens
 *     rank 0: spsh__leases_place(leases, epoch, step, steps, &err);
 *     each round:
 *         rank 0: spsh__leases_begin(leases, &round, &err);
 *         for (;;) {
 *             do take(leases, nothing is in the feed, &lease, &taken), and spsh__feed_ask each
 *             while (taken == SPSH__LEASE_TAKEN);
 *             if (taken == SPSH__LEASE_PAUSE) break;
 *             ... the batch that was asked for first: gradient, update ...
 *             spsh__leases_acknowledge(leases, &done, &err);
 *         }
 *         spsh__leases_meet(leases, &state, &err);     // all are here, and all know the same
 *         ... settle, consensus, evaluate, save; spsh__leases_place where the epoch is over ...
 *
 * A round ends in a pause: once there is a reason, every ask is answered with it; a learner uses up
 * the leases it has, acknowledges them, and is in the pause. So nothing is out behind meet, and the
 * cursor is (epoch, next step) alone, but for what a learner lost in the pause itself left: then
 * state.returned is not 0, and the next round gives that first. Who is early for the next round
 * waits for its answer until begin.
 *
 * Whatever the server does follows from the order of its messages and of rank 0's marks: a replay
 * (runtime_replay.h) of all learners gives the same leases to the same learners.
 *
 * Messages, to rank 0: ASK, ACKNOWLEDGE, PAUSED, LOST; from it: GIVEN, NO_MORE, MET.
 */
#ifndef SPSH_TRAIN_LEASE_H
#define SPSH_TRAIN_LEASE_H

#include "runtime.h"

#define SPSH__LEASE_NUMBERS_MAX UINT32_C(256) /* numbers in a row */
#define SPSH__LEASE_AHEAD_MAX   UINT32_C(64)  /* leases held in addition to the current one */

/* Reasons of a pause: bits. */
#define SPSH__PAUSE_EPOCH    UINT32_C(1)  /* no step is left to give */
#define SPSH__PAUSE_STOP     UINT32_C(2)  /* somebody acknowledged with it */
#define SPSH__PAUSE_SAVE     UINT32_C(4)  /* rank 0: spsh__leases_pause */
#define SPSH__PAUSE_EVALUATE UINT32_C(8)  /* ... */
#define SPSH__PAUSE_SAMPLES  UINT32_C(16) /* round.samples_max are acknowledged */
#define SPSH__PAUSE_UPDATES  UINT32_C(32) /* round.updates_max are given out */

typedef struct spsh__leases spsh__leases;

typedef struct spsh__lease {
    uint64_t number;      /* of all that were given out in this run */
    uint64_t epoch, step; /* spsh__feed_ask's */
    uint64_t samples;     /* acknowledged by all learners when it was given: for schedules */
    uint64_t updates;     /* ... leases */
} spsh__lease;

typedef enum spsh__lease_taken {
    SPSH__LEASE_TAKEN = 0,
    SPSH__LEASE_NONE = 1,  /* yet: it is on its way, or there are no more in this round */
    SPSH__LEASE_PAUSE = 2, /* the round is over for this learner */
} spsh__lease_taken;

/* What came of a lease. */
typedef struct spsh__lease_done {
    uint64_t number;    /* the lease's */
    uint64_t samples;   /* that were learnt from */
    const double *row;  /* added to the totals, in the order of messages; NULL with count 0 */
    uint32_t row_count; /* the same for all learners; at most SPSH__LEASE_NUMBERS_MAX */
    uint32_t reasons;   /* that this learner has for a pause: SPSH__PAUSE_STOP, or 0 */
} spsh__lease_done;

/* Of a round: when it ends, beside the epoch's end and spsh__leases_pause. */
typedef struct spsh__lease_round {
    uint64_t samples_max; /* acknowledged in all; 0: no bound. Then no more leases are given, but
                             those that are out are learnt from, too */
    bool holds_back;      /* a lease is given while those that are out, at the mean of those before,
                             would not reach samples_max: so it is passed by no more than about a
                             batch */
    double samples_mean;  /* of a batch, until the first is acknowledged; 0: nothing is held back
                             before */
    uint64_t updates_max; /* acknowledged in all: exact; 0: no bound */
} spsh__lease_round;

typedef struct spsh__lease_state {
    uint64_t epoch, step, steps; /* the next new step, and how many the epoch has */
    uint64_t samples, updates;   /* acknowledged in all */
    uint32_t reasons;            /* for the pause: all, from all */
    uint32_t returned;           /* leases of lost learners that nobody has got yet */
    uint32_t learners;           /* that are not lost */
} spsh__lease_state;

/* All ranks of the runtime, which may be one of some ranks alone (comm_sub.h: leaders of nodes),
 * and before anything on it waits for a strategy's messages, for those behind a lease's wait with
 * it. Listens (SPSH__SERVICE_LEASES) until close. ahead: leases that a learner has, or has asked
 * for, beside the one at work; 0 to SPSH__LEASE_AHEAD_MAX. The runtime must outlive it.
 * SPSH_E_INVALID_ARG, _NO_MEMORY. */
spsh_status spsh__leases_open(spsh__runtime *runtime, const spsh_allocator *allocator,
                              uint32_t ahead, spsh__leases **ret_leases, spsh_error *err);
void spsh__leases_close(spsh__leases *leases); /* NULL is fine */

/* ---- every learner's computing task ----
 *
 * What enter_fn, wait_fn and post_fn of the runtime say, too. */

/* Asks ahead, and takes the next lease that has come: leases are numbered, and taken, in the order
 * in which rank 0 gave them. may_wait: NONE is not returned, but waited for; that needs that all
 * taken before are acknowledged, or that there are still some to come: else SPSH_E_INVALID_ARG.
 * Without, it does not wait, and PAUSE is said when all taken ones are acknowledged.
 * SPSH_E_TIMEOUT: nothing has changed, call again. PAUSE is said once a round: meet is next. */
spsh_status spsh__leases_take(spsh__leases *leases, bool may_wait, spsh__lease *ret_lease,
                              spsh__lease_taken *ret_taken, spsh_error *err);

/* A lease that was taken, once. SPSH_E_INVALID_ARG: none of this learner's; a row that is too long.
 */
spsh_status spsh__leases_acknowledge(spsh__leases *leases, const spsh__lease_done *done,
                                     spsh_error *err);

/* Behind PAUSE: until all learners that are not lost are in the pause. All get the same state.
 * SPSH_E_TIMEOUT: call again. */
spsh_status spsh__leases_meet(spsh__leases *leases, spsh__lease_state *ret_state, spsh_error *err);

/* Behind meet: the rank was lost when all had met. All learners say the same, as rank 0 knew it. */
bool spsh__leases_is_lost(const spsh__leases *leases, uint32_t rank);

/* ---- rank 0's computing task; on other ranks SPSH_E_INVALID_ARG ---- */

/* Before the first round, or in a pause: go on at this step of an epoch of so many steps; what is
 * not acknowledged is forgotten. SPSH_E_INVALID_ARG: step > steps; a round is under way. */
spsh_status spsh__leases_place(spsh__leases *leases, uint64_t epoch, uint64_t step, uint64_t steps,
                               spsh_error *err);
/* round NULL: without bounds. SPSH_E_INVALID_ARG: one is under way, or there was no place. */
spsh_status spsh__leases_begin(spsh__leases *leases, const spsh__lease_round *round,
                               spsh_error *err);
/* The round ends for these reasons, too. */
spsh_status spsh__leases_pause(spsh__leases *leases, uint32_t reasons, spsh_error *err);
/* Sums of the rows since the last call, of `count` numbers, and how many leases they are of. */
spsh_status spsh__leases_totals(spsh__leases *leases, double *totals, uint32_t count,
                                uint64_t *ret_updates, spsh_error *err);
/* At any time. */
spsh_status spsh__leases_state(spsh__leases *leases, spsh__lease_state *ret_state, spsh_error *err);

#endif

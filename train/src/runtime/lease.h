/* lease.h: batches for asynchronous learners from one shared cursor: every batch of an epoch once,
 * even if learners are slow or lost.
 *
 * Rank 0's serving task has the cursor (epoch, next step) and gives out leases. A lease is one step
 * of the loader's plan for a world of one. It is outstanding until it is acknowledged. Leases of a
 * lost learner go to the others, before new leases.
 *
 *     spsh__leases_open(runtime, &allocator, 2, &leases, &err);         // all ranks; listens
 *     rank 0: spsh__leases_place(leases, epoch, step, steps, &err);
 *     each round:
 *         rank 0: spsh__leases_begin(leases, &round, &err);
 *         for (;;) {
 *             do take(leases, is the feed empty, &lease, &taken), and spsh__feed_ask each
 *             while (taken == SPSH__LEASE_TAKEN);
 *             if (taken == SPSH__LEASE_PAUSE) break;
 *             ... the batch that was requested first: gradient, update ...
 *             spsh__leases_acknowledge(leases, &done, &err);
 *         }
 *         spsh__leases_meet(leases, &state, &err);     // all are here, with the same state
 *         ... settle, consensus, evaluate, save; spsh__leases_place at the end of the epoch ...
 *
 * A round ends in a pause, a barrier of all learners. Once there is a reason for a pause, every
 * request is answered with it. A learner uses up its leases, acknowledges them, and enters the
 * pause. So no lease is outstanding after spsh__leases_meet, and the cursor is just (epoch, next
 * step). The exception is a learner that is lost during the pause: state.returned is then not 0,
 * and the next round gives out those leases first. A learner that is early for the next round waits
 * for its answer until spsh__leases_begin.
 *
 * The server's actions follow only from the order of its messages and of rank 0's marks. A replay
 * (runtime_replay.h) of all learners therefore gives the same leases to the same learners.
 *
 * Messages to rank 0: ASK, ACKNOWLEDGE, PAUSED, LOST. Messages from rank 0: GIVEN, NO_MORE, MET.
 */
#ifndef SPSH_TRAIN_LEASE_H
#define SPSH_TRAIN_LEASE_H

#include "runtime.h"

#define SPSH__LEASE_NUMBERS_MAX UINT32_C(256) /* maximum numbers per row */
#define SPSH__LEASE_AHEAD_MAX   UINT32_C(64)  /* leases held in addition to the current one */

/* Reasons for a pause: bits. */
#define SPSH__PAUSE_EPOCH    UINT32_C(1)  /* the epoch has no step left */
#define SPSH__PAUSE_STOP     UINT32_C(2)  /* a learner acknowledged with it */
#define SPSH__PAUSE_SAVE     UINT32_C(4)  /* rank 0 called spsh__leases_pause */
#define SPSH__PAUSE_EVALUATE UINT32_C(8)  /* rank 0 called spsh__leases_pause */
#define SPSH__PAUSE_SAMPLES  UINT32_C(16) /* round.samples_max is acknowledged */
#define SPSH__PAUSE_UPDATES  UINT32_C(32) /* round.updates_max is given out */

typedef struct spsh__leases spsh__leases;

typedef struct spsh__lease {
    uint64_t number;      /* sequence number in this run */
    uint64_t epoch, step; /* arguments of spsh__feed_ask */
    uint64_t samples;     /* acknowledged by all learners when the lease was given: for schedules */
    uint64_t updates;     /* leases acknowledged by then */
} spsh__lease;

typedef enum spsh__lease_taken {
    SPSH__LEASE_TAKEN = 0,
    SPSH__LEASE_NONE = 1,  /* none yet: a lease is in flight, or this round has no more */
    SPSH__LEASE_PAUSE = 2, /* the round is over for this learner */
} spsh__lease_taken;

/* Result of a lease. */
typedef struct spsh__lease_done {
    uint64_t number;    /* number of the lease */
    uint64_t samples;   /* utterances that were trained on */
    const double *row;  /* added to the totals, in the order of messages; NULL if row_count is 0 */
    uint32_t row_count; /* the same for all learners; at most SPSH__LEASE_NUMBERS_MAX */
    uint32_t reasons;   /* this learner's reasons for a pause: SPSH__PAUSE_STOP, or 0 */
} spsh__lease_done;

/* Bounds of a round. The end of the epoch and spsh__leases_pause also end a round. */
typedef struct spsh__lease_round {
    uint64_t samples_max; /* total acknowledged samples; 0: no bound. At the bound no more leases
                             are given, but outstanding leases are still trained on */
    bool holds_back;      /* give a lease only if the outstanding leases, at the mean of earlier
                             ones, would not reach samples_max: the bound is exceeded by at most
                             about a batch */
    double samples_mean;  /* estimated samples per batch until the first is acknowledged; 0: do not
                             hold back before then */
    uint64_t updates_max; /* total acknowledged leases: exact; 0: no bound */
} spsh__lease_round;

typedef struct spsh__lease_state {
    uint64_t epoch, step, steps; /* the next new step, and the number of steps of the epoch */
    uint64_t samples, updates;   /* total acknowledged */
    uint32_t reasons;            /* all reasons for the pause, from all ranks */
    uint32_t returned;           /* leases of lost learners, not given out again yet */
    uint32_t learners;           /* learners that are not lost */
} spsh__lease_state;

/* Open the leases. All ranks of the runtime call together (it may be a sub-runtime: see comm_sub.h,
 * leaders of nodes). Call before any wait for a strategy's messages: lease messages ahead of them
 * would block them. Listens (SPSH__SERVICE_LEASES) until close. ahead: leases that a learner holds
 * or has requested, in addition to the current one; 0 to SPSH__LEASE_AHEAD_MAX. The runtime must
 * outlive the leases. SPSH_E_INVALID_ARG, SPSH_E_NO_MEMORY. */
spsh_status spsh__leases_open(spsh__runtime *runtime, const spsh_allocator *allocator,
                              uint32_t ahead, spsh__leases **ret_leases, spsh_error *err);
void spsh__leases_close(spsh__leases *leases); /* NULL is fine */

/* ---- every learner's computing task ----
 *
 * These functions also return the codes of enter_fn, wait_fn, and post_fn of the runtime.
 */

/* Request leases ahead, and take the next lease that has arrived. Leases are taken in the order in
 * which rank 0 numbered and gave them. may_wait: wait instead of returning NONE. This requires that
 * all taken leases are acknowledged, or that more leases are to come: else SPSH_E_INVALID_ARG.
 * PAUSE is returned once per round, after all taken leases are acknowledged: call spsh__leases_meet
 * next. SPSH_E_TIMEOUT: nothing has changed, call again. */
spsh_status spsh__leases_take(spsh__leases *leases, bool may_wait, spsh__lease *ret_lease,
                              spsh__lease_taken *ret_taken, spsh_error *err);

/* Acknowledge a taken lease, once. SPSH_E_INVALID_ARG: not a lease of this learner, or the row is
 * too long.
 */
spsh_status spsh__leases_acknowledge(spsh__leases *leases, const spsh__lease_done *done,
                                     spsh_error *err);

/* Barrier after PAUSE: wait until all learners that are not lost are in the pause. All get the same
 * state. SPSH_E_TIMEOUT: call again. */
spsh_status spsh__leases_meet(spsh__leases *leases, spsh__lease_state *ret_state, spsh_error *err);

/* Return true if the rank was lost at the last spsh__leases_meet. All learners return the same, as
 * recorded by rank 0. */
bool spsh__leases_is_lost(const spsh__leases *leases, uint32_t rank);

/* ---- rank 0's computing task; on other ranks SPSH_E_INVALID_ARG ---- */

/* Continue at this step of an epoch of `steps` steps. Call before the first round, or in a pause.
 * Leases that are not acknowledged are forgotten. SPSH_E_INVALID_ARG: step > steps, or a round is
 * in progress. */
spsh_status spsh__leases_place(spsh__leases *leases, uint64_t epoch, uint64_t step, uint64_t steps,
                               spsh_error *err);
/* Begin a round. round: bounds; NULL: none. SPSH_E_INVALID_ARG: a round is in progress, or
 * spsh__leases_place was not called. */
spsh_status spsh__leases_begin(spsh__leases *leases, const spsh__lease_round *round,
                               spsh_error *err);
/* End the round for these additional reasons. */
spsh_status spsh__leases_pause(spsh__leases *leases, uint32_t reasons, spsh_error *err);
/* Return the sums of the rows since the last call, `count` numbers, and the number of leases in
 * them. */
spsh_status spsh__leases_totals(spsh__leases *leases, double *totals, uint32_t count,
                                uint64_t *ret_updates, spsh_error *err);
/* Return the current state. May be called at any time. */
spsh_status spsh__leases_state(spsh__leases *leases, spsh__lease_state *ret_state, spsh_error *err);

#endif

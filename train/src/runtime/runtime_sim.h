/* runtime_sim.h: many learners in one process, under a clock of its own: what takes time is put
 * into a queue, and the clock goes from one event to the next.
 *
 *     spsh__sim_options options = {.learners = 128, .latency_ns = 10000, .bytes_per_s = 12.5e9};
 *     spsh__sim_open(&options, &sim, &err);
 *     spsh__sim_run(sim, learner_fn, user, &err);   // each calls its spsh__sim_runtime or _comm
 *     ... spsh__sim_now_ns(sim) ...
 *     spsh__sim_close(sim);
 *
 * A learner's computing task is a fiber that runs from one wait to the next in no time at all;
 * compute_fn, links and deadlines alone let the clock go on. Events of one time come in the order
 * in which they were made: the same options have the same run, on every machine.
 *
 * A link is a learner's own: full duplex, one message after the other in either direction, each
 * for size / bytes_per_s, and latency_ns on its way. Messages within a node, and to oneself, take
 * another one. So messages between two learners come in the order in which they were sent, as
 * comm.h and runtime.h say. Work of the serving task takes no time.
 */
#ifndef SPSH_RUNTIME_SIM_H
#define SPSH_RUNTIME_SIM_H

#include "comm/comm.h"
#include "runtime.h"

typedef enum spsh__sim_fault_kind {
    SPSH__SIM_SLOW = 0,   /* computing takes `factor` times as long */
    SPSH__SIM_FREEZE = 1, /* nothing goes on, in neither task, as after SIGSTOP; links do */
    SPSH__SIM_KILL = 2,   /* at from_ns, for ever */
} spsh__sim_fault_kind;

typedef struct spsh__sim_fault {
    spsh__sim_fault_kind kind;
    uint32_t learner;
    double factor;
    uint64_t from_ns, to_ns; /* to_ns 0: until the end */
} spsh__sim_fault;

typedef struct spsh__sim_options {
    spsh_allocator allocator;
    uint32_t learners;
    uint64_t latency_ns;
    double bytes_per_s; /* 0: a message of any size takes no more than latency_ns */
    uint32_t node_size; /* 0: every learner is a node; else learners n S ... n S + S - 1 are one: */
    double node_bytes_per_s; /* ... messages among them take a link of their own; 0: no time */
    uint64_t node_latency_ns;
    double scale; /* of messages with more than small_bytes: count so many times as long; 0: once */
    size_t small_bytes;
    double jitter; /* computing takes 1 to 1 + jitter times what it was said to, by the seed */
    uint64_t seed;
    uint32_t deadline_ms; /* of waits without one of their own, on this clock; 0: 600,000 */
    bool serves_itself;   /* no serving task: messages lie until the learner polls or waits */
    bool outlives; /* runtime.h: who is killed is lost, as its connections would say: told at once,
                      behind what it has sent */
    const spsh__sim_fault *faults; /* borrowed until close */
    uint32_t fault_count;
    size_t stack_bytes; /* of a learner's computing task; 0: as fiber.h */
} spsh__sim_options;

typedef struct spsh__sim spsh__sim;

/* SPSH_E_INVALID_ARG: no learners, a fault of none; _NO_MEMORY, _LIMIT (threads). */
spsh_status spsh__sim_open(const spsh__sim_options *options, spsh__sim **ret_sim, spsh_error *err);
void spsh__sim_close(spsh__sim *sim); /* NULL is fine */

/* Of the simulation until it is closed: closing them does nothing. */
spsh__runtime *spsh__sim_runtime(spsh__sim *sim, uint32_t learner);
spsh__comm *spsh__sim_comm(spsh__sim *sim, uint32_t learner);

typedef spsh_status (*spsh__sim_body_fn)(void *user, uint32_t learner, spsh_error *err);

/* Once. Until all learners have returned or are dead. A dead one's body goes on behind the end, to
 * return: its waits and posts are SPSH_E_CANCELED then, its comm has failed
 * (spsh__comm_has_failed), and nothing it does reaches anybody. The first failure of a learner,
 * which is named; the others go on, as processes would. */
spsh_status spsh__sim_run(spsh__sim *sim, spsh__sim_body_fn body_fn, void *user, spsh_error *err);

/* By a body: it is over for all, as when the others are dead. */
void spsh__sim_end(spsh__sim *sim);
/* What this learner sends from now on takes no time, until it says otherwise: of what nobody wants
 * to measure. Messages of one sender stay in their order. */
void spsh__sim_rest(spsh__sim *sim, uint32_t learner, bool is_resting);

uint64_t spsh__sim_now_ns(const spsh__sim *sim);
/* From node to node, as they count (scale). */
uint64_t spsh__sim_sent_bytes(const spsh__sim *sim, uint32_t learner);
bool spsh__sim_is_dead(const spsh__sim *sim, uint32_t learner);

/* Within 0 and 1, of the seed and of where it is asked alone: for jitter and noise. */
double spsh__sim_uniform(uint64_t seed, uint64_t a, uint64_t b);

#endif

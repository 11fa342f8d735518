/* runtime_sim.h: many learners in one process under a virtual clock. Everything that takes time is
 * an event in a queue, and the clock advances from one event to the next.
 *
 * spsh__sim_options options = {.learners = 128, .latency_ns = 10000, .bytes_per_s = 12.5e9};
 * spsh__sim_open(&options, &sim, &err); spsh__sim_run(sim, learner_fn, user, &err); // each calls
 * its spsh__sim_runtime or _comm ... spsh__sim_now_ns(sim) ... spsh__sim_close(sim);
 *
 * The computing task of a learner is a fiber that runs from one wait to the next in no time. Only
 * compute_fn, links, and deadlines advance the clock. Events at the same time run in the order in
 * which they were made. The same options give the same run on every machine.
 *
 * Each learner has one full-duplex link. In either direction, messages follow one after another,
 * for size / bytes_per_s each, and take latency_ns more to arrive. Messages within a node, and to
 * the learner itself, take another link. Messages between two learners therefore arrive in the
 * order in which they were sent, as comm.h and runtime.h require. The serving task takes no time.
 */
#ifndef SPSH_RUNTIME_SIM_H
#define SPSH_RUNTIME_SIM_H

#include "comm/comm.h"
#include "runtime.h"

typedef enum spsh__sim_fault_kind {
    SPSH__SIM_SLOW = 0,   /* computing takes `factor` times as long */
    SPSH__SIM_FREEZE = 1, /* both tasks stop, as after SIGSTOP; links continue */
    SPSH__SIM_KILL = 2,   /* at from_ns, permanently */
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
    double bytes_per_s;      /* 0: a message of any size takes no more than latency_ns */
    uint32_t node_size;      /* 0: every learner is a node; else learners n S ... n S + S - 1 form a
                           node */
    double node_bytes_per_s; /* bandwidth of the link within a node; 0: no time */
    uint64_t node_latency_ns;
    double scale; /* factor for the bytes of messages longer than small_bytes; 0: 1 */
    size_t small_bytes;
    double jitter; /* computing takes 1 to 1 + jitter times its duration, drawn from the seed */
    uint64_t seed;
    uint32_t deadline_ms; /* default deadline of waits on this clock; 0: 600,000 */
    bool serves_itself;   /* no serving task: messages are queued until the learner polls or
                             waits */
    bool outlives; /* see runtime.h: a killed learner is reported as lost at once, after its last
                      message, like a connection that ends */
    const spsh__sim_fault *faults; /* borrowed until close */
    uint32_t fault_count;
    size_t stack_bytes; /* stack of a learner's computing task; 0: see fiber.h */
} spsh__sim_options;

typedef struct spsh__sim spsh__sim;

/* SPSH_E_INVALID_ARG: no learners, or a fault of a learner that does not exist; SPSH_E_NO_MEMORY,
 * SPSH_E_LIMIT (threads). */
spsh_status spsh__sim_open(const spsh__sim_options *options, spsh__sim **ret_sim, spsh_error *err);
void spsh__sim_close(spsh__sim *sim); /* NULL is fine */

/* Return the runtime or communicator of a learner. The simulation owns both until it is closed:
 * closing them does nothing. */
spsh__runtime *spsh__sim_runtime(spsh__sim *sim, uint32_t learner);
spsh__comm *spsh__sim_comm(spsh__sim *sim, uint32_t learner);

typedef spsh_status (*spsh__sim_body_fn)(void *user, uint32_t learner, spsh_error *err);

/* Run the simulation, once, until all learners have returned or are dead. The body of a dead
 * learner continues after the end, so that it returns: its waits and posts are SPSH_E_CANCELED, its
 * comm has failed (spsh__comm_has_failed), and its messages reach no learner. Returns the first
 * failure of a learner, with its name. The other learners continue, as processes would. */
spsh_status spsh__sim_run(spsh__sim *sim, spsh__sim_body_fn body_fn, void *user, spsh_error *err);

/* Called by a body: end the run for all learners, as if the others were dead. */
void spsh__sim_end(spsh__sim *sim);
/* While is_resting, this learner's messages take no time: for exchanges that are not to be
 * measured. The messages of a sender stay in their order. */
void spsh__sim_rest(spsh__sim *sim, uint32_t learner, bool is_resting);

uint64_t spsh__sim_now_ns(const spsh__sim *sim);
/* Bytes sent between nodes, scaled (scale). */
uint64_t spsh__sim_sent_bytes(const spsh__sim *sim, uint32_t learner);
bool spsh__sim_is_dead(const spsh__sim *sim, uint32_t learner);

/* Return a number within 0 and 1 that depends only on the arguments: for jitter and noise. */
double spsh__sim_uniform(uint64_t seed, uint64_t a, uint64_t b);

#endif

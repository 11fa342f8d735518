/* runtime.h: time, messages, and the two tasks of a learner, as a table. A strategy is written
 * once, and runs as processes (runtime_processes.h), in one process under a virtual clock
 * (runtime_sim.h), or again from the record of a run (runtime_replay.h).
 *
 *     computing task                       serving task
 *     forward, backward, update            serve_fn(user, message) for each message
 *     post, wait, enter ... leave          in the order of its sender; it posts, and never waits
 *
 * Each learner has one lock. serve_fn runs under it; the computing task enters and leaves it. Data
 * that both tasks use is accessed only under the lock, for no longer than one part of the arena
 * takes (SPSH__PART_BYTES). The serving task can thus answer neighbors while a gradient is
 * computed, and neither task delays the other for long.
 *
 * Each place that takes the lock has a mark. The state of a learner is a function of its batches
 * and of the order of its marks. A record holds that order, and a replay needs nothing else to
 * produce identical bits. The clock may therefore influence decisions only through note_fn, and the
 * condition of a wait stays true until the computing task itself uses it up.
 *
 * If a runtime outlives its learners, the runtime reports a lost learner by a message to all
 * services that have a listener; in processes, also to services that listen later. The message has
 * the kind SPSH__LOST_KIND, comes from the lost learner, and follows its last message. It is sent
 * once. After it, no message of that learner arrives, and messages to it are discarded. In other
 * runtimes, a wait for a lost learner fails.
 */
#ifndef SPSH_TRAIN_RUNTIME_H
#define SPSH_TRAIN_RUNTIME_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__PART_BYTES                                                                           \
    ((size_t)1 << 20) /* size of a part of an arena, the unit of
                                                    exchange */
#define SPSH__MESSAGE_KIND_MAX UINT32_C(256)
#define SPSH__LEASE_KIND       UINT32_C(128) /* first kind of messages and marks of lease.h */
#define SPSH__LOST_KIND        (SPSH__MESSAGE_KIND_MAX - 1)

/* The receiver may use the message until serve_fn returns. */
typedef struct spsh__message {
    uint32_t from;   /* written by the runtime */
    uint32_t kind;   /* below SPSH__MESSAGE_KIND_MAX */
    uint32_t part;   /* part of an arena, or a value that depends on the kind */
    uint64_t number; /* a version, an exchange, a lease, ... */
    const void *bytes;
    size_t size_bytes;
} spsh__message;

/* Place where the lock is taken: place in the strategy, part, and count. */
typedef struct spsh__mark {
    uint32_t kind;
    uint32_t part;
    uint64_t number;
} spsh__mark;

typedef spsh_status (*spsh__serve_fn)(void *user, const spsh__message *message, spsh_error *err);

/* Receivers of messages, by kind. */
typedef enum spsh__service {
    SPSH__SERVICE_STRATEGY = 0,
    SPSH__SERVICE_LEASES = 1,
} spsh__service;
enum { SPSH__SERVICES = 2 };

typedef struct spsh__listener {
    spsh__serve_fn serve_fn; /* NULL: no listener */
    void *user;
} spsh__listener;

typedef struct spsh__runtime spsh__runtime;
typedef struct spsh__runtime_ops {
    const char *name; /* "processes", "sim", "replay" */
    /* Nanoseconds since an arbitrary start. For reports, not for decisions. Any task. */
    uint64_t (*now_fn)(spsh__runtime *t);
    /* Simulate a computation of this duration. Sleeps if the clock is real. */
    void (*compute_fn)(spsh__runtime *t, uint64_t duration_ns);
    /* Send a message to a learner, which may be this one. The bytes are copied. Any task, with or
     * without the lock. SPSH_E_NO_MEMORY; SPSH_E_CANCELED: the run is over; or a failure of
     * serve_fn, once. */
    spsh_status (*post_fn)(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err);
    /* Serve the messages that have arrived, without waiting: for learners without a serving
     * task. */
    spsh_status (*poll_fn)(spsh__runtime *t, spsh_error *err);
    /* Wait until ready_fn returns true. It is called under the lock after messages were served.
     * Only the computing task, outside of the lock. deadline_ms 0: the learner's. SPSH_E_TIMEOUT;
     * and see post_fn. */
    spsh_status (*wait_fn)(spsh__runtime *t, const spsh__mark *mark, bool (*ready_fn)(void *user),
                           void *user, uint32_t deadline_ms, spsh_error *err);
    /* Take the lock. Computing task. SPSH_E_CANCELED: the run is over, and the lock was not
     * taken. */
    spsh_status (*enter_fn)(spsh__runtime *t, const spsh__mark *mark, spsh_error *err);
    void (*leave_fn)(spsh__runtime *t);
    /* Record a value that depends on more than messages and marks, such as a lease or a flag. A
     * replay returns the recorded value. Computing task, outside of the lock. SPSH_E_CANCELED. */
    spsh_status (*note_fn)(spsh__runtime *t, uint64_t *value, spsh_error *err);
    /* Set the listener of a service. A message that arrives before its service has a listener is
     * kept until then, and so are later messages of its sender. The loss of a process is not kept:
     * all existing listeners get it at once. serve_fn NULL: no listener. */
    void (*listen_fn)(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn, void *user);
    void (*close_fn)(spsh__runtime *t);
} spsh__runtime_ops;

struct spsh__runtime {
    const spsh__runtime_ops *ops;
    uint32_t rank, world_size;
    uint32_t deadline_ms;
    spsh__listener listeners[SPSH__SERVICES]; /* set by listen_fn */
    spsh__runtime *below;                     /* the runtime that this one wraps; else NULL */
    void *state;
};

/* Functions of a wrapper that call the wrapped runtime. */
static inline uint64_t spsh__runtime_below_now(spsh__runtime *t)
{
    return t->below->ops->now_fn(t->below);
}

static inline void spsh__runtime_below_compute(spsh__runtime *t, uint64_t duration_ns)
{
    t->below->ops->compute_fn(t->below, duration_ns);
}

static inline spsh_status spsh__runtime_below_poll(spsh__runtime *t, spsh_error *err)
{
    return t->below->ops->poll_fn(t->below, err);
}

static inline void spsh__runtime_below_leave(spsh__runtime *t)
{
    t->below->ops->leave_fn(t->below);
}

/* listen_fn of single-threaded runtimes. */
static inline void spsh__runtime_listen(spsh__runtime *t, spsh__service service,
                                        spsh__serve_fn serve_fn, void *user)
{
    t->listeners[service] = (spsh__listener){serve_fn, user};
}

/* Return the service of a message kind. A loss goes to all services. */
static inline spsh__service spsh__runtime_service(uint32_t kind)
{
    return kind < SPSH__LEASE_KIND ? SPSH__SERVICE_STRATEGY : SPSH__SERVICE_LEASES;
}

static inline const spsh__listener *spsh__runtime_listener(const spsh__runtime *t,
                                                           const spsh__message *m)
{
    return &t->listeners[spsh__runtime_service(m->kind)];
}

/* Return true if the message's service has a listener. A loss goes to all existing listeners, so it
 * never waits. */
static inline bool spsh__runtime_has_listener(const spsh__runtime *t, const spsh__message *m)
{
    return m->kind == SPSH__LOST_KIND || spsh__runtime_listener(t, m)->serve_fn != NULL;
}

/* Serve a message that has a listener. */
static inline spsh_status spsh__runtime_serve(const spsh__runtime *t, const spsh__message *m,
                                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (m->kind != SPSH__LOST_KIND) {
        const spsh__listener *l = spsh__runtime_listener(t, m);
        return l->serve_fn(l->user, m, err);
    }
    for (int i = 0; rc == SPSH_OK && i < SPSH__SERVICES; i++)
        if (t->listeners[i].serve_fn != NULL)
            rc = t->listeners[i].serve_fn(t->listeners[i].user, m, err);
    return rc;
}

#endif

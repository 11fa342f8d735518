/* runtime.h: time, messages and the two tasks of a learner, as a table, so that a strategy is
 * written once and runs as processes (runtime_processes.h), in one process under a virtual clock
 * (runtime_sim.h) and again from the record of a run (runtime_replay.h).
 *
 *     computing task                       serving task
 *     forward, backward, update            serve_fn(user, message) for each message
 *     post, wait, enter ... leave          in the order of its sender; it posts, and never waits
 *
 * One lock a learner: serve_fn runs under it, the computing task enters and leaves. Whatever both
 * tasks touch is touched under the lock alone, for no longer than a part of the arena takes
 * (SPSH__PART_BYTES): the serving task answers neighbours while a gradient is computed, and neither
 * holds up the other for long.
 *
 * A place where the lock is taken has a mark. What a learner's state becomes is a function of its
 * batches and of the order of its marks: that order is what a record holds, and all that a replay
 * needs to come to the same bits. So nothing is decided by the clock but through note_fn, and what
 * a wait is for stays true until the computing task itself has used it up.
 *
 * Where a runtime outlives its learners, one that has gone is told of by a message of the runtime
 * itself, to all services that have a listener, and to those of processes that listen later: kind
 * SPSH__LOST_KIND, from the learner that is lost, behind its last one. It is told once; nothing of
 * that learner comes any more, and what is posted to it goes nowhere. Elsewhere who waits for it
 * fails.
 */
#ifndef SPSH_TRAIN_RUNTIME_H
#define SPSH_TRAIN_RUNTIME_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__PART_BYTES       ((size_t)1 << 20) /* of an arena: what is exchanged at once */
#define SPSH__MESSAGE_KIND_MAX UINT32_C(256)
#define SPSH__LEASE_KIND       UINT32_C(128) /* kinds from here on are lease.h's, of marks too */
#define SPSH__LOST_KIND        (SPSH__MESSAGE_KIND_MAX - 1)

/* The receiver's until serve_fn returns. */
typedef struct spsh__message {
    uint32_t from;   /* the runtime's */
    uint32_t kind;   /* below SPSH__MESSAGE_KIND_MAX */
    uint32_t part;   /* of an arena, or whatever the kind makes of it */
    uint64_t number; /* a version, an exchange, a lease, ... */
    const void *bytes;
    size_t size_bytes;
} spsh__message;

/* Where the lock is taken: which place of the strategy, for which part, which time. */
typedef struct spsh__mark {
    uint32_t kind;
    uint32_t part;
    uint64_t number;
} spsh__mark;

typedef spsh_status (*spsh__serve_fn)(void *user, const spsh__message *message, spsh_error *err);

/* Whose messages, by their kind. */
typedef enum spsh__service {
    SPSH__SERVICE_STRATEGY = 0,
    SPSH__SERVICE_LEASES = 1,
} spsh__service;
enum { SPSH__SERVICES = 2 };

typedef struct spsh__listener {
    spsh__serve_fn serve_fn; /* NULL: nobody */
    void *user;
} spsh__listener;

typedef struct spsh__runtime spsh__runtime;
typedef struct spsh__runtime_ops {
    const char *name; /* "processes", "sim", "replay" */
    /* Nanoseconds since some beginning. For what is told, not for what is done. Any task. */
    uint64_t (*now_fn)(spsh__runtime *t);
    /* So much time of computing passes: by sleeping where the clock is real. */
    void (*compute_fn)(spsh__runtime *t, uint64_t duration_ns);
    /* To another learner, or to oneself. The bytes are copied. Any task, with or without the lock.
     * SPSH_E_NO_MEMORY; SPSH_E_CANCELED: the run is over; what serve_fn failed with, once. */
    spsh_status (*post_fn)(spsh__runtime *t, uint32_t to, const spsh__message *m, spsh_error *err);
    /* Serves what has come, and does not wait: for learners without a serving task. */
    spsh_status (*poll_fn)(spsh__runtime *t, spsh_error *err);
    /* Until ready_fn, called under the lock after messages were served, says so. The computing task
     * alone, outside of the lock. deadline_ms 0: the learner's. SPSH_E_TIMEOUT; as post_fn. */
    spsh_status (*wait_fn)(spsh__runtime *t, const spsh__mark *mark, bool (*ready_fn)(void *user),
                           void *user, uint32_t deadline_ms, spsh_error *err);
    /* The computing task. SPSH_E_CANCELED: the run is over, and the lock was not taken. */
    spsh_status (*enter_fn)(spsh__runtime *t, const spsh__mark *mark, spsh_error *err);
    void (*leave_fn)(spsh__runtime *t);
    /* What depended on more than messages and marks (a lease, a flag): is recorded; a replay has
     * what was. The computing task, outside of the lock. SPSH_E_CANCELED. */
    spsh_status (*note_fn)(spsh__runtime *t, uint64_t *value, spsh_error *err);
    /* Who serves a service's messages from now on; one that comes before waits, and those of its
     * sender behind it, but for a loss, which waits for nobody. serve_fn NULL: nobody. */
    void (*listen_fn)(spsh__runtime *t, spsh__service service, spsh__serve_fn serve_fn, void *user);
    void (*close_fn)(spsh__runtime *t);
} spsh__runtime_ops;

struct spsh__runtime {
    const spsh__runtime_ops *ops;
    uint32_t rank, world_size;
    uint32_t deadline_ms;
    spsh__listener listeners[SPSH__SERVICES]; /* listen_fn's */
    uint64_t posted_bytes;                    /* by either task: atomic */
    uint64_t served_count;                    /* under the lock */
    spsh__runtime *below;                     /* of one that is over another */
    void *state;
};

/* What one that is over another hands on as it is. */
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

/* listen_fn of runtimes that one thread runs. */
static inline void spsh__runtime_listen(spsh__runtime *t, spsh__service service,
                                        spsh__serve_fn serve_fn, void *user)
{
    t->listeners[service] = (spsh__listener){serve_fn, user};
}

/* Whose messages of a kind are; a loss is everybody's. */
static inline spsh__service spsh__runtime_service(uint32_t kind)
{
    return kind < SPSH__LEASE_KIND ? SPSH__SERVICE_STRATEGY : SPSH__SERVICE_LEASES;
}

static inline const spsh__listener *spsh__runtime_listener(const spsh__runtime *t,
                                                           const spsh__message *m)
{
    return &t->listeners[spsh__runtime_service(m->kind)];
}

/* Somebody listens; a loss is told to whoever does. */
static inline bool spsh__runtime_has_listener(const spsh__runtime *t, const spsh__message *m)
{
    return m->kind == SPSH__LOST_KIND || spsh__runtime_listener(t, m)->serve_fn != NULL;
}

/* Of one that has a listener. */
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

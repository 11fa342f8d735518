/* sim_internal.h: what sim.c (events, links, runtime.h) and sim_comm.c (comm.h) share. */
#ifndef SPSH_TRAIN_SIM_INTERNAL_H
#define SPSH_TRAIN_SIM_INTERNAL_H

#include "fiber.h"
#include "sim.h"

/* A message on its way; its bytes lie behind it. */
typedef struct spsh__parcel {
    struct spsh__parcel *next;
    uint32_t from, to;
    bool is_comm;
    uint32_t tag; /* of comm.h */
    spsh__message message;
} spsh__parcel;

typedef struct spsh__parcel_queue {
    spsh__parcel *first, *last;
} spsh__parcel_queue;

/* Of comm.h: a receive that is posted, or a send; handles are its place in the table, from 1. */
typedef struct spsh__sim_handle {
    bool is_used, is_done, is_receive;
    uint32_t peer, tag;
    uint64_t order; /* of receives: the earliest takes what comes first */
    void *bytes;
    size_t size_bytes;
} spsh__sim_handle;

typedef struct spsh__sim_learner {
    spsh__sim *sim;
    spsh__runtime runtime;
    spsh__comm comm;
    spsh__fiber *fiber;
    spsh_status status; /* the body's */
    spsh_error error;
    bool is_dead, has_ended;
    /* a wait */
    bool is_waiting, is_resuming, has_timed_out;
    bool (*ready_fn)(void *user);
    void *ready_user;
    uint64_t deadline_ns, alarm_ns; /* alarm: when an event looks at the deadline; 0: none does */
    /* messages */
    spsh__parcel_queue mail;  /* of runtime.h, not served yet */
    spsh_status serve_status; /* what serve_fn failed with: the next call's */
    spsh_error serve_error;
    spsh__parcel_queue early; /* of comm.h, that nobody has asked for yet */
    spsh__sim_handle *handles;
    size_t handle_count;
    uint64_t receive_count;
    uint64_t compute_count;
    uint64_t send_free_ns, receive_free_ns; /* the link */
    uint64_t sent_bytes;
} spsh__sim_learner;

void spsh__parcel_push(spsh__parcel_queue *queue, spsh__parcel *parcel);
spsh__parcel *spsh__parcel_pop(spsh__parcel_queue *queue); /* NULL: empty */

/* Puts a message on its way. */
spsh_status spsh__sim_send(spsh__sim_learner *from, const spsh__parcel *head, const void *bytes,
                           size_t size_bytes, spsh_error *err);
/* The learner's fiber: until ready_fn says so. SPSH_E_TIMEOUT, _CANCELED: without a text. */
spsh_status spsh__sim_wait(spsh__sim_learner *l, bool (*ready_fn)(void *user), void *user,
                           uint64_t deadline_ns);
void spsh__sim_free(spsh__sim_learner *l, void *memory);

void spsh__sim_comm_start(spsh__sim_learner *l);
void spsh__sim_comm_deliver(spsh__sim_learner *l, spsh__parcel *parcel); /* takes it */
void spsh__sim_comm_stop(spsh__sim_learner *l);

#endif

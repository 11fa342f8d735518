/* comm.h: messages between ranks on the host, as a table: `self`, `mpi`, `tcp`; and what is
 * made of them. Devices exchange what is large by comm_nccl.h.
 *
 *     spsh__comm_open(&options, allocator, &comm, &err);
 *     comm->ops->receive_fn(comm, from, tag, there, size, &in, &err);
 *     comm->ops->send_fn(comm, to, tag, here, size, &out, &err);
 *     ... both go on by themselves ...
 *     comm->ops->wait_fn(comm, in, deadline_ms, &err);
 *
 * A handle is waited for exactly once; its memory is the message's until then. Messages of one
 * sender, receiver and tag arrive in the order in which they were sent. Several threads may call,
 * each with its own handles and tags.
 *
 * A rank that does not answer is SPSH_E_TIMEOUT with its number in the text. A rank that fails, so
 * or otherwise, closes and ends with a status that is not 0: mpirun and torchrun then end all
 * others; where a launcher does not (srun without --kill-on-bad-exit), their deadlines do.
 *
 * The order of every sum is the tree of fold_tree.h: a function of what is summed, never of timing.
 */
#ifndef SPSH_TRAIN_COMM_H
#define SPSH_TRAIN_COMM_H

#include <stdbool.h>

#include "rendezvous.h"
#include "speechshard/base.h"

typedef enum spsh__comm_type { SPSH__COMM_F64 = 0, SPSH__COMM_U64 = 1 } spsh__comm_type;
typedef enum spsh__comm_op { SPSH__COMM_SUM = 0, SPSH__COMM_MAX = 1 } spsh__comm_op;

/* Of messages: below SPSH__COMM_TAG_MAX; the ones above are comm.c's own. */
#define SPSH__COMM_TAG_MAX 30000u

typedef struct spsh__comm spsh__comm;
typedef uint64_t spsh__comm_handle; /* 0: done already */

typedef struct spsh__comm_ops {
    const char *name;
    spsh_status (*send_fn)(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                           size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*receive_fn)(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                              size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    /* true: wait_fn would return at once. */
    bool (*done_fn)(spsh__comm *c, spsh__comm_handle handle);
    spsh_status (*wait_fn)(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                           spsh_error *err);
    /* Until wait_fn would return at once, whatever it would say; false: it is late, and nothing has
     * failed for it, so that who is missing can still be asked (spsh__comm_name_missing). NULL:
     * nobody who is late here can say so. */
    bool (*await_fn)(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms);
    /* Until wait_fn of one of them would return at once, whatever it would say: *ret_which; or
     * until wake_fn was called, or deadline_ms are over: count. One thread at a time. NULL of those
     * without other processes. */
    spsh_status (*wait_any_fn)(spsh__comm *c, const spsh__comm_handle *handles, uint32_t count,
                               uint32_t deadline_ms, uint32_t *ret_which, spsh_error *err);
    void (*wake_fn)(spsh__comm *c);
    /* Waits for the others, but after a failure. */
    void (*close_fn)(spsh__comm *c);
    /* Of carriers that lose a rank by itself; NULL: with one all are. true: the rank's connection
     * has ended; of its messages those that are not done never will be. wait_fn for one of them is
     * a failure all the same; */
    bool (*has_gone_fn)(spsh__comm *c, uint32_t rank);
    /* ... without one: the message is forgotten, and its memory is free. */
    void (*drop_fn)(spsh__comm *c, spsh__comm_handle handle);
    /* Nanoseconds of the clock by which deadlines are, of the lowest; NULL: the machine's. */
    uint64_t (*now_fn)(const spsh__comm *c);
    bool lingers; /* as spsh__comm_lingers */
} spsh__comm_ops;

struct spsh__comm {
    const spsh__comm_ops *ops;
    uint32_t rank, world_size;
    uint32_t deadline_ms; /* of everything that waits without a deadline of its own */
    bool has_failed;      /* by those below; of the lowest */
    spsh__comm *below;    /* that moves the messages of this one, and fails with it; else NULL */
    bool outlives; /* asked for, before a runtime is opened: it goes on without ranks that have gone
                      (runtime_processes.h); where has_gone_fn is */
    uint64_t sent_bytes; /* of what was sent, by whoever sends; atomic */
    spsh_allocator allocator;
    void *state;
};

static inline void spsh__comm_count(spsh__comm *c, uint64_t size_bytes)
{
    __atomic_fetch_add(&c->sent_bytes, size_bytes, __ATOMIC_RELAXED);
}

/* Whoever fails otherwise says so: close waits for nobody, and from the return on no message is
 * moved, so that its memory may be freed, unless it lingers. Any thread. */
void spsh__comm_fail(spsh__comm *c);

/* Who is late here can say so: the lowest has an await_fn. */
bool spsh__comm_can_await(const spsh__comm *c);

/* ops->await_fn, where there is one; true where there is none. */
bool spsh__comm_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms);

/* The same as spsh__comm_fail of those that move messages, under their own lock. */
static inline void spsh__comm_set_failed(spsh__comm *c)
{
    __atomic_store_n(&c->has_failed, true, __ATOMIC_RELAXED);
}

/* The carrier: what moves the messages in the end. */
static inline const spsh__comm *spsh__comm_lowest(const spsh__comm *c)
{
    while (c->below != NULL)
        c = c->below;
    return c;
}

/* Somebody has; what was being moved just then may still be. */
static inline bool spsh__comm_has_failed(const spsh__comm *c)
{
    return __atomic_load_n(&spsh__comm_lowest(c)->has_failed, __ATOMIC_RELAXED);
}

/* ... and the carrier, or what moves messages for it, may go on with those that were on their way,
 * until the process ends: what is freed of their memory may still be written to. */
static inline bool spsh__comm_lingers(const spsh__comm *c)
{
    return spsh__comm_lowest(c)->ops->lingers && spsh__comm_has_failed(c);
}

/* What waits for several messages has one deadline for all. */
uint64_t spsh__comm_now_ns(const spsh__comm *c);

/* `self` for a world of one; else what launch->comm asks for; else `mpi` where mpirun, srun or
 * another launcher with PMI has begun it; else, and where options say where to meet, `tcp`.
 * SPSH_E_UNSUPPORTED: MPI was not built in; SPSH_E_MISMATCH: MPI sees another world than the
 * launcher's variables say; SPSH_E_TIMEOUT, _INVALID_ARG, _IO: as rendezvous.h says. */
spsh_status spsh__comm_open(const spsh__rendezvous_options *options,
                            const spsh_allocator *allocator, spsh__comm **ret_comm,
                            spsh_error *err);
void spsh__comm_close(spsh__comm *comm); /* NULL is fine */

/* "self", "mpi", "tcp": what spsh__comm_open takes. where: as in rendezvous.h. */
const char *spsh__comm_name(const spsh__launch *launch, const char *where);
/* MPI was built in. */
bool spsh__comm_has_mpi(void);

spsh_status spsh__comm_self_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                 spsh_error *err);
spsh_status spsh__comm_mpi_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err);
spsh_status spsh__comm_tcp_open(const spsh__rendezvous_options *options,
                                const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err);

/* SPSH_E_INVALID_ARG if the rank is c's own or not in the world. */
spsh_status spsh__comm_check_peer(const spsh__comm *c, uint32_t peer, spsh_error *err);
/* SPSH_E_MISMATCH: peer sent more, or less, than the size_bytes that were expected. */
spsh_status spsh__comm_fail_size(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_more,
                                 spsh_error *err);
/* SPSH_E_TIMEOUT: peer has not taken a send, or not sent, since begin_ns. */
spsh_status spsh__comm_fail_late(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_send,
                                 uint64_t begin_ns, spsh_error *err);

/* Pause between two polls of a wait since begin_ns: yield for a millisecond, then sleep 50 us. */
void spsh__comm_nap(uint64_t begin_ns);

/* Send or receive one message, and wait for it until comm's deadline. */
spsh_status spsh__comm_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh_error *err);
spsh_status spsh__comm_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh_error *err);

/* For counts, losses and flags: every rank sends everything to every other. */
spsh_status spsh__comm_all_reduce(spsh__comm *c, spsh__comm_type type, spsh__comm_op op,
                                  void *values, size_t count, spsh_error *err);
spsh_status spsh__comm_broadcast(spsh__comm *c, void *bytes, size_t size_bytes, uint32_t root,
                                 spsh_error *err);

/* Who is late, or NCCL, or what connects two: all whom it was late for say how far they have come.
 * counts: world_size, written; UINT64_MAX: has not said so within deadline_ms. No message
 * follows. */
void spsh__comm_roll(spsh__comm *c, uint64_t own, uint32_t deadline_ms, uint64_t *counts);

/* By a roll: "2" or "1, 2", ranks that do not answer; where all do, those that have not come as far
 * as own; "": nobody. Whoever waits for one that waits for another is not to name it: they wait
 * for each other, so their time is over at about the same moment, and who does not say so is
 * missing. false: messages have failed before, nobody can be asked. */
bool spsh__comm_name_missing(spsh__comm *c, uint64_t own, char *text, size_t capacity);

#endif

/* comm.h: messages between ranks on the host, and collectives that are built from them. The carrier
 * is a table of functions: `self`, `mpi`, or `tcp`. Devices exchange large data through
 * comm_nccl.h.
 *
 *     spsh__comm_open(&options, allocator, &comm, &err);
 *     comm->ops->receive_fn(comm, from, tag, there, size, &in, &err);
 *     comm->ops->send_fn(comm, to, tag, here, size, &out, &err);
 *     ... both proceed in the background ...
 *     comm->ops->wait_fn(comm, in, deadline_ms, &err);
 *
 * Wait for each handle exactly once. Until then, the message owns its buffer. Messages with the
 * same sender, receiver, and tag arrive in the order in which they were sent. Several threads may
 * call at once, each with its own handles and tags.
 *
 * A rank that does not answer is SPSH_E_TIMEOUT, with its number in the message. A rank that fails
 * for any reason closes and exits with a nonzero status. mpirun and torchrun then end all other
 * ranks. If the launcher does not (srun without --kill-on-bad-exit), their deadlines end them.
 *
 * The order of every sum is the tree of fold_tree.h. It depends only on the summands, never on
 * timing.
 */
#ifndef SPSH_TRAIN_COMM_H
#define SPSH_TRAIN_COMM_H

#include <stdbool.h>

#include "rendezvous.h"
#include "speechshard/base.h"

typedef enum spsh__comm_type { SPSH__COMM_F64 = 0, SPSH__COMM_U64 = 1 } spsh__comm_type;
typedef enum spsh__comm_op { SPSH__COMM_SUM = 0, SPSH__COMM_MAX = 1 } spsh__comm_op;

/* Message tags are below SPSH__COMM_TAG_MAX. comm.c uses the tags from there on. */
#define SPSH__COMM_TAG_MAX 30000u

typedef struct spsh__comm spsh__comm;
typedef uint64_t spsh__comm_handle; /* 0: already done */

typedef struct spsh__comm_ops {
    const char *name;
    spsh_status (*send_fn)(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                           size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    spsh_status (*receive_fn)(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                              size_t size_bytes, spsh__comm_handle *ret_handle, spsh_error *err);
    /* Return true if wait_fn would return at once. */
    bool (*done_fn)(spsh__comm *c, spsh__comm_handle handle);
    spsh_status (*wait_fn)(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms,
                           spsh_error *err);
    /* Wait until wait_fn would return at once, with any status. Return false if deadline_ms passed
     * first. A late message does not fail the communicator, so the waiting rank can still ask which
     * ranks are missing (spsh__comm_name_missing). NULL: a late wait_fn fails, and the waiting rank
     * cannot ask. */
    bool (*await_fn)(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms);
    /* Wait until wait_fn of one handle would return at once, with any status, and store its index
     * in *ret_which. Store count if wake_fn was called or deadline_ms passed first. Only one thread
     * at a time may call. NULL for carriers without other processes. */
    spsh_status (*wait_any_fn)(spsh__comm *c, const spsh__comm_handle *handles, uint32_t count,
                               uint32_t deadline_ms, uint32_t *ret_which, spsh_error *err);
    void (*wake_fn)(spsh__comm *c);
    /* Wait for the other ranks, except after a failure. */
    void (*close_fn)(spsh__comm *c);
    /* Return true if the connection to the rank has ended. Its unfinished messages then never
     * finish, and wait_fn for such a message fails the communicator. NULL for carriers that lose
     * all ranks together. */
    bool (*has_gone_fn)(spsh__comm *c, uint32_t rank);
    /* Forget a message without failing. Its buffer may then be freed. Set if has_gone_fn is set. */
    void (*drop_fn)(spsh__comm *c, spsh__comm_handle handle);
    /* Current time in nanoseconds on the clock of the deadlines. Only the carrier's function is
     * called. NULL: the monotonic clock of the machine. */
    uint64_t (*now_fn)(const spsh__comm *c);
    bool lingers; /* see spsh__comm_lingers */
} spsh__comm_ops;

struct spsh__comm {
    const spsh__comm_ops *ops;
    uint32_t rank, world_size;
    uint32_t deadline_ms; /* default deadline of waits */
    bool has_failed;      /* atomic; only the carrier's flag is read */
    spsh__comm *below;    /* moves the messages of this communicator and fails with it; else NULL */
    bool outlives; /* request, set before a runtime is opened: continue without disconnected ranks
                      (runtime_processes.h); needs has_gone_fn */
    uint64_t sent_bytes; /* bytes that this rank has sent; atomic */
    spsh_allocator allocator;
    void *state;
};

static inline void spsh__comm_count(spsh__comm *c, uint64_t size_bytes)
{
    __atomic_fetch_add(&c->sent_bytes, size_bytes, __ATOMIC_RELAXED);
}

/* Mark the communicator as failed after an error elsewhere. close_fn then does not wait for the
 * other ranks. After the return no message is in flight: its buffer may be freed unless
 * spsh__comm_lingers. Any thread may call. */
void spsh__comm_fail(spsh__comm *c);

/* Return true if the carrier has an await_fn: a rank that waits can detect a late message without a
 * failure, and then poll the ranks. */
bool spsh__comm_can_await(const spsh__comm *c);

/* Call ops->await_fn. Return true if it is NULL. */
bool spsh__comm_await(spsh__comm *c, spsh__comm_handle handle, uint32_t deadline_ms);

/* Mark as failed, like spsh__comm_fail. For carriers, which call it under their own lock. */
static inline void spsh__comm_set_failed(spsh__comm *c)
{
    __atomic_store_n(&c->has_failed, true, __ATOMIC_RELAXED);
}

/* Return the carrier: the lowest communicator, which moves the messages. */
static inline const spsh__comm *spsh__comm_lowest(const spsh__comm *c)
{
    while (c->below != NULL)
        c = c->below;
    return c;
}

/* Return true if the communicator has failed. A message that was in flight then may still be
 * moving. */
static inline bool spsh__comm_has_failed(const spsh__comm *c)
{
    return __atomic_load_n(&spsh__comm_lowest(c)->has_failed, __ATOMIC_RELAXED);
}

/* Return true after a failure if the carrier, or its network hardware, may still move messages that
 * were in flight, until the process ends. Do not free their buffers: they may still be written to.
 */
static inline bool spsh__comm_lingers(const spsh__comm *c)
{
    return spsh__comm_lowest(c)->ops->lingers && spsh__comm_has_failed(c);
}

/* Current time on the carrier's clock. A wait for several messages uses it to keep one deadline for
 * all of them. */
uint64_t spsh__comm_now_ns(const spsh__comm *c);

/* Open a communicator. A world of one rank gets `self`. Otherwise launch->comm decides if it is
 * set. Without it, a named rendezvous (options->where), torchrun, or plain variables select `tcp`,
 * and any other launcher selects `mpi`. SPSH_E_UNSUPPORTED: the build has no MPI; SPSH_E_MISMATCH:
 * the world of MPI differs from the launcher's variables; SPSH_E_TIMEOUT, _INVALID_ARG, _IO: see
 * rendezvous.h. */
spsh_status spsh__comm_open(const spsh__rendezvous_options *options,
                            const spsh_allocator *allocator, spsh__comm **ret_comm,
                            spsh_error *err);
void spsh__comm_close(spsh__comm *comm); /* NULL is fine */

/* Return the carrier that spsh__comm_open would choose: "self", "mpi", or "tcp". where: see
 * rendezvous.h. */
const char *spsh__comm_name(const spsh__launch *launch, const char *where);
/* Return true if the build has MPI. */
bool spsh__comm_has_mpi(void);

spsh_status spsh__comm_self_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                 spsh_error *err);
spsh_status spsh__comm_mpi_open(const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err);
spsh_status spsh__comm_tcp_open(const spsh__rendezvous_options *options,
                                const spsh_allocator *allocator, spsh__comm **ret_comm,
                                spsh_error *err);

/* Return SPSH_E_INVALID_ARG if `peer` is this rank or not in the world. */
spsh_status spsh__comm_check_peer(const spsh__comm *c, uint32_t peer, spsh_error *err);
/* Report SPSH_E_MISMATCH: peer sent more or fewer than the expected size_bytes. */
spsh_status spsh__comm_fail_size(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_more,
                                 spsh_error *err);
/* Report SPSH_E_TIMEOUT: peer has not received, or not sent, a message since begin_ns. */
spsh_status spsh__comm_fail_late(uint32_t peer, uint32_t tag, size_t size_bytes, bool is_send,
                                 uint64_t begin_ns, spsh_error *err);

/* Sleep between two polls of a wait since begin_ns: yield for a millisecond, then sleep 50 us. */
void spsh__comm_pause(uint64_t begin_ns);

/* Send or receive one message, and wait for it until comm's deadline. */
spsh_status spsh__comm_send(spsh__comm *c, uint32_t to, uint32_t tag, const void *bytes,
                            size_t size_bytes, spsh_error *err);
spsh_status spsh__comm_receive(spsh__comm *c, uint32_t from, uint32_t tag, void *bytes,
                               size_t size_bytes, spsh_error *err);

/* All-reduce and broadcast of small data: counts, losses, and flags. In an all-reduce, every rank
 * sends all of its values to every other rank. */
spsh_status spsh__comm_all_reduce(spsh__comm *c, spsh__comm_type type, spsh__comm_op op,
                                  void *values, size_t count, spsh_error *err);
spsh_status spsh__comm_broadcast(spsh__comm *c, void *bytes, size_t size_bytes, uint32_t root,
                                 spsh_error *err);

/* Status poll of all ranks after a timeout: a late rank, NCCL, or a broken link. Every rank that
 * timed out sends its progress `own` to the others. counts: world_size values, written; UINT64_MAX
 * for a rank that did not answer within deadline_ms. Send no message after the poll. */
void spsh__comm_roll(spsh__comm *c, uint64_t own, uint32_t deadline_ms, uint64_t *counts);

/* Poll all ranks, and write the missing ranks, such as "2" or "1, 2": the ranks that did not
 * answer. If all answered, the ranks whose progress is below `own`. "": no rank is missing. Ranks
 * that wait for each other time out at about the same moment and all answer, so that a rank that
 * only waits for a missing rank is not named. Return false if the communicator has already failed,
 * and the ranks cannot be polled. */
bool spsh__comm_name_missing(spsh__comm *c, uint64_t own, char *text, size_t capacity);

#endif

/* rendezvous.h: how processes that a launcher started find each other without MPI, and are
 * connected, each with each.
 *
 *     rank 0     listens, and says where: in a file in a folder that all see, and, where the
 *                launcher gives an address, at that host's port
 *     the others come to rank 0 and claim: which run, which attempt, which rank of how many, and
 *                where they listen themselves
 *     rank 0     once all are there: everybody's address and a number, drawn for this meeting
 *     rank r     goes to 1 ... r - 1 with that number; r + 1 ... come to it
 *
 * All ranks share a secret: the environment's SPEECHSHARD_SECRET, or one that rank 0 draws for this
 * meeting and writes into the file, which only its user can read (mode 0600). On every connection
 * both sides prove that they know it, by a keyed hash of nonces of both (peer_proof.h), before
 * anything else that they send is used. A refusal names no run.
 *
 * A connection without a proof is closed five seconds after it was made, and the oldest one earlier
 * if there are too many: neither idle nor slow connections keep a rank out. If all processes are on
 * one node, the listeners are on 127.0.0.1. Messages are not encrypted, and have no proofs of their
 * own: a host that can change packets between two ranks can change messages, as for MPI and NCCL.
 */
#ifndef SPSH_TRAIN_RENDEZVOUS_H
#define SPSH_TRAIN_RENDEZVOUS_H

#include <stdbool.h>

#include "launch.h"
#include "speechshard/base.h"

typedef struct spsh__rendezvous_options {
    const spsh__launch *launch;
    /* NULL or "auto": the file in `folder`, and MASTER_ADDR : MASTER_PORT + 1 + restarts, as
     * torchrun itself listens at MASTER_PORT; "file://FOLDER"; "tcp://HOST:PORT". */
    const char *where;
    const char *folder; /* of the run; made by rank 0 where it is not there; NULL: none */
    uint32_t deadline_ms;
    const volatile int *stop; /* not 0: it is given up at once; NULL: none */
} spsh__rendezvous_options;

/* sockets: written, world_size: connected and non-blocking, to be closed by the caller; -1 for this
 * rank. SPSH_E_TIMEOUT: who has not come; SPSH_E_CANCELED: stopped; SPSH_E_INVALID_ARG: `where`, or
 * no secret; SPSH_E_IO, also if others may read the file; _NO_MEMORY. */
spsh_status spsh__rendezvous_meet(const spsh__rendezvous_options *options,
                                  const spsh_allocator *allocator, int *sockets, spsh_error *err);

/* The file in a folder; false: longer than capacity. For tests. */
bool spsh__rendezvous_path(const spsh__rendezvous_options *options, char *path, size_t capacity);

#endif

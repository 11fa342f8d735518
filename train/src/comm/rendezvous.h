/* rendezvous.h: how processes that a launcher started find each other without MPI. Afterward every
 * rank is connected to every other rank.
 *
 *     rank 0     listens, and publishes its address: in a file in a shared folder, and at the port
 *                of a host if the launcher sets one
 *     the others connect to rank 0 and claim a run, an attempt, a rank, a world size, and the
 *                address at which they listen
 *     rank 0     sends the addresses of all ranks, and a random number of this meeting, once all
 *                ranks have connected
 *     rank r     connects to ranks 1 ... r - 1 with that number; ranks r + 1 ... connect to it
 *
 * All ranks share a secret: SPEECHSHARD_SECRET from the environment, or a secret that rank 0 draws
 * for this meeting and writes into the file, which only its user can read (mode 0600). On every
 * connection both sides prove that they know the secret, by a keyed hash of both nonces
 * (peer_proof.h), before they use any other data of the peer. A rejection names no run.
 *
 * A connection without a proof is closed after five seconds, or earlier if there are too many: the
 * oldest is closed first. Neither idle nor slow connections keep a rank out. If all processes run
 * on one node, the listeners use 127.0.0.1. Messages are not encrypted or authenticated after the
 * meeting: a host that can change packets between two ranks can change messages, as for MPI and
 * NCCL.
 */
#ifndef SPSH_TRAIN_RENDEZVOUS_H
#define SPSH_TRAIN_RENDEZVOUS_H

#include <stdbool.h>

#include "launch.h"
#include "speechshard/base.h"

typedef struct spsh__rendezvous_options {
    const spsh__launch *launch;
    /* NULL or "auto": the file in `folder`, and MASTER_ADDR at port MASTER_PORT + 1 + restarts,
     * because torchrun itself listens at MASTER_PORT. Or "file://FOLDER", or "tcp://HOST:PORT". */
    const char *where;
    const char *folder; /* folder of the run; rank 0 creates it if it does not exist; NULL: none */
    uint32_t deadline_ms;
    const volatile int *stop; /* nonzero: give up at once; NULL: none */
} spsh__rendezvous_options;

/* Connect all ranks. sockets: world_size values, written: connected and non-blocking, -1 for this
 * rank; the caller closes them. SPSH_E_TIMEOUT: a rank is missing; SPSH_E_CANCELED: stopped;
 * SPSH_E_INVALID_ARG: bad `where`, or no secret; SPSH_E_IO: also if other users may read the file;
 * SPSH_E_NO_MEMORY. */
spsh_status spsh__rendezvous_meet(const spsh__rendezvous_options *options,
                                  const spsh_allocator *allocator, int *sockets, spsh_error *err);

/* Write the path of the meeting file. Return false if it is longer than capacity. For tests. */
bool spsh__rendezvous_path(const spsh__rendezvous_options *options, char *path, size_t capacity);

#endif

/* comm_throttle.h: a communication whose messages take their time, as on a slower network.
 *
 *     send at t, of n bytes:  the link is free at f = max(t, f) + n / bytes_per_s
 *                             and the message goes at f + latency_ns
 *
 * Each rank's sending side is one link. Messages wait at their sender and go in the order in which
 * they were sent; what the real network takes comes on top.
 */
#ifndef SPSH_TRAIN_COMM_THROTTLE_H
#define SPSH_TRAIN_COMM_THROTTLE_H

#include "cluster.h"
#include "comm/comm.h"

/* Takes the parent, which closes with it, but on failure. SPSH_E_NO_MEMORY, _LIMIT (threads). */
spsh_status spsh__comm_throttle_open(spsh__comm *parent, const spsh__link *link,
                                     spsh__comm **ret_comm, spsh_error *err);
#endif

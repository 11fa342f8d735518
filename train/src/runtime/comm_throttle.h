/* comm_throttle.h: a communicator whose messages are delayed, as on a slower network.
 *
 *     send at t, of n bytes:  the link is free at f = max(t, f) + n / bytes_per_s
 *                             and the message leaves at f + latency_ns
 *
 * The sending side of each rank is one link. Messages wait at their sender and leave in the order
 * in which they were sent. The time of the real network is added.
 */
#ifndef SPSH_TRAIN_COMM_THROTTLE_H
#define SPSH_TRAIN_COMM_THROTTLE_H

#include "cluster.h"
#include "comm/comm.h"

/* Open a throttled communicator. It takes the parent, and closes it too, except on failure.
 * SPSH_E_NO_MEMORY, SPSH_E_LIMIT (threads). */
spsh_status spsh__comm_throttle_open(spsh__comm *parent, const spsh__link *link,
                                     spsh__comm **ret_comm, spsh_error *err);
#endif

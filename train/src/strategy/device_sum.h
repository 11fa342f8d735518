/* device_sum.h: gradients in a device's memory become the sum over all leaves, where they are.
 *
 * A rank's leaves add up in the arena itself. When its last one has passed a bucket, the bucket's
 * sum over ranks is started (comm_nccl.h), behind what the backend's stream has come to, and
 * backward goes on beside it. With whole sums wanted that is one sum to all. Else a bucket is cut
 * into equal parts of whole 256 bytes, one a rank, and a rest of less than that a rank: each rank
 * gets the sum of its part; the rest everybody gets, and everybody updates alike.
 *
 * NCCL's order of a sum depends on the number of ranks and on how they are connected: unlike
 * gradient_sum.h's, sums of other worlds agree to rounding alone. All ranks get the same bits.
 *
 * Gradients are floats in any precision. What is not finite on one rank is so in the sum on all:
 * that some rank's gradients have overflowed needs no message of its own. A rank without a batch
 * takes part with zeros.
 */
#ifndef SPSH_TRAIN_DEVICE_SUM_H
#define SPSH_TRAIN_DEVICE_SUM_H

#include "comm/comm_nccl.h"
#include "sum_ops.h"

/* collectives: taken, also on failure; NULL: a world of one. A device updates two slices per
 * bucket: its part, and the rest. */
spsh_status spsh__device_sum_open(spsh__learner *learner, bool is_whole,
                                  spsh__collectives *collectives, const spsh_allocator *allocator,
                                  spsh__sum *ret, spsh_error *err);

#endif

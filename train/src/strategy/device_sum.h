/* device_sum.h: the sum of the gradients of all leaves, in device memory.
 *
 * The leaves of a rank add up in the arena itself. When the last leaf has passed a bucket, the
 * bucket's all-reduce starts (comm_nccl.h), after the work enqueued on the backend's stream.
 * Backward continues in parallel. With is_whole, one all-reduce gives the sum to all ranks.
 * Otherwise a bucket is cut into one equal part per rank, in multiples of 256 bytes, and a rest.
 * Each rank gets the sum of its part. All ranks get the sum of the rest, and apply the same update
 * to it.
 *
 * NCCL's summation order depends on the number of ranks and on their links. Unlike the sums of
 * gradient_sum.h, sums of different world sizes agree only up to rounding. All ranks get the same
 * bits.
 *
 * Gradients are floats in any precision. If learner->sent_as has 16 bits, each rank rounds its bucket
 * once and sends part p to rank p, which adds the parts as floats in the order of ranks. With
 * is_whole, rank p rounds the sum and sends it to all ranks. The rest of a bucket, and the running
 * statistics, stay floats.
 *
 * A value that is not finite on one rank is not finite in the sum on all ranks, so an overflow needs
 * no separate message. A rank without a batch contributes zeros.
 */
#ifndef SPSH_TRAIN_DEVICE_SUM_H
#define SPSH_TRAIN_DEVICE_SUM_H

#include "comm/comm_nccl.h"
#include "sum_ops.h"

/* Open the sum. collectives: owned by the sum, also on failure; NULL: a world of one. With is_whole
 * false, a rank updates two slices per bucket: its part, and the rest. */
spsh_status spsh__device_sum_open(spsh__learner *learner, bool is_whole,
                                  spsh__collectives *collectives, const spsh_allocator *allocator,
                                  spsh__sum *ret, spsh_error *err);

#endif

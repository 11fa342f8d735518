/* gradient_sum.h: the sum of the gradients of all leaves, bucket by bucket, while backward
 * continues.
 *
 * A bucket is cut into one part per rank, in multiples of SPSH__BLOCK_ELEMENTS. When the last leaf
 * of a rank has passed a bucket, the rank sends part p of its pieces (fold_tree.h) to rank p. Rank
 * p joins the pieces of its part in the tree's order, once all have arrived. This is the
 * reduce-scatter. With is_whole, rank p then sends its part to all ranks. If each rank has one
 * piece, both phases move (W - 1) / W of the bucket, the minimum that a ring needs, in two hops
 * instead of 2 (W - 1).
 *
 * If learner->sent_as has 16 bits, both phases move half as many bytes. Sums are still made of floats
 * (gradient_sum.c). All ranks get the same bits, which then depend on the number of ranks.
 *
 * The running statistics are one more bucket, always of floats. All of its leaves start from the same values.
 *
 * For a learner on a device, the host does the same with the backend `cpu`. Buckets are copied down
 * as they become ready, and the sums are copied up (device_stage.h). The bits of a device's
 * gradients therefore do not depend on the number of ranks either.
 */
#ifndef SPSH_TRAIN_GRADIENT_SUM_H
#define SPSH_TRAIN_GRADIENT_SUM_H

#include "comm/fold_tree.h"
#include "sum_ops.h"

/* Parts and square sums cover whole blocks of this size, so the bits of a square sum do not depend
 * on the world size. */
#define SPSH__BLOCK_ELEMENTS 16384u

/* Open the sum. is_whole: all ranks get the whole sum, not only their parts. Otherwise a rank
 * updates one slice per bucket: its part. */
spsh_status spsh__gradient_sum_open(spsh__learner *learner, bool is_whole,
                                    const spsh_allocator *allocator, spsh__sum *ret,
                                    spsh_error *err);

#endif

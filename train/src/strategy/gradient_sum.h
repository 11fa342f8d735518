/* gradient_sum.h: gradients of all leaves become one sum, bucket by bucket, while backward goes on.
 *
 * A bucket is cut into a part for each rank (multiples of SPSH__BLOCK_ELEMENTS). When a rank's last
 * leaf has passed a bucket, it sends part p of its pieces (fold_tree.h) to rank p; rank p joins the
 * pieces of its part as soon as all are there, in the tree's order. That is the reduce-scatter;
 * with whole sums wanted, it then sends its part to all. Both move (W - 1) / W of the bucket where
 * a rank has one piece: as little as a ring does, in two legs instead of 2 (W - 1).
 *
 * The running statistics are one more bucket, whose leaves start from the same values.
 *
 * Of a learner on a device the same is done on the host, by the backend `cpu`: buckets come down as
 * they are ready, and the sums go up (device_stage.h). So a device's gradients, too, have a sum
 * whose bits do not depend on the number of ranks.
 */
#ifndef SPSH_TRAIN_GRADIENT_SUM_H
#define SPSH_TRAIN_GRADIENT_SUM_H

#include "comm/fold_tree.h"
#include "sum_ops.h"

/* Parts, and square sums, are of whole blocks, so that neither depends on the world size. */
#define SPSH__BLOCK_ELEMENTS 16384u

/* is_whole: all ranks get the whole sum, not their parts alone. A rank updates one slice per
 * bucket: its part. */
spsh_status spsh__gradient_sum_open(spsh__learner *learner, bool is_whole,
                                    const spsh_allocator *allocator, spsh__sum *ret,
                                    spsh_error *err);

#endif

/* strategy_partitioned.c: partitioned gradients (stage 1 of ZeRO, Rajbhandari and others 2020):
 * every rank gets the sum of its part of each bucket, updates the weights there, and sends them to
 * all ranks.
 *
 * The sums are those of allreduce, and optimizers work element by element, so the weights have
 * identical bits, too. A rank makes 1 / W of the update. Its moments are valid only in its part.
 * gather_fn completes them for a checkpoint that any world size can resume.
 *
 * On a device the host waits for the weights of the other ranks after each step, and polls NCCL
 * meanwhile. A later batch or evaluation would wait for the device without polling, and a rank that
 * exited would block it forever.
 */
#include "strategy_internal.h"

static spsh_status partitioned_start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    return spsh__strategy_sum_start(s, l, false, err);
}

const spsh__strategy_ops spsh__strategy_partitioned = {
    .name = "partitioned",
    .start_fn = partitioned_start,
    SPSH__STRATEGY_SUMS,
    .slice_fn = spsh__strategy_sum_part,
    .after_step_fn = spsh__strategy_sum_share_weights,
    .gather_fn = spsh__strategy_sum_gather_moments,
};

/* strategy_partitioned.c: partitioned gradients (stage 1 of ZeRO, Rajbhandari and others 2020):
 * every rank gets the sum of its part of each bucket, updates the weights there, and gives them to
 * all.
 *
 * The sums are those of allreduce, and optimisers are element by element: so are the weights, to
 * the bit. A rank makes 1 / W of the update. Moments are right in its own part alone: gather makes
 * them whole, for a checkpoint that any world size can take up.
 *
 * On a device the host waits for the weights of the others behind each step, looking after NCCL
 * meanwhile. What comes next, a batch or an evaluation, waits for the device without looking: a
 * rank that has gone would hold it for ever.
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

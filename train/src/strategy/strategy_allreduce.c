/* strategy_allreduce.c: synchronous data parallel: all ranks get the sum of all gradients and make
 * the same update.
 *
 *     w <- w - rate * U(sum over leaves of gradients)
 */
#include "strategy_internal.h"

static spsh_status allreduce_start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    return spsh__strategy_sum_start(s, l, true, err);
}

const spsh__strategy_ops spsh__strategy_allreduce = {
    .name = "allreduce",
    .start_fn = allreduce_start,
    SPSH__STRATEGY_SUMS,
    .slice_fn = spsh__strategy_whole_slice,
    .after_step_fn = spsh__strategy_own_nothing,
    .gather_fn = spsh__strategy_own_nothing,
};

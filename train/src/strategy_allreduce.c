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

static bool allreduce_slice(const spsh__strategy *s, uint32_t number, spsh__slice *ret)
{
    if (number > 0)
        return false;
    *ret = (spsh__slice){0, s->learner->arena_elements};
    return true;
}

static spsh_status allreduce_nothing(spsh__strategy *s, spsh_error *err)
{
    (void)s, (void)err;
    return SPSH_OK;
}

const spsh__strategy_ops spsh__strategy_allreduce = {
    .name = "allreduce",
    .start_fn = allreduce_start,
    .before_forward_fn = spsh__strategy_sum_before_forward,
    .on_bucket_fn = spsh__strategy_sum_on_bucket,
    .skip_leaf_fn = spsh__strategy_sum_skip_leaf,
    .after_backward_fn = spsh__strategy_sum_after_backward,
    .square_sum_fn = spsh__strategy_sum_square_sum,
    .slice_fn = allreduce_slice,
    .after_step_fn = allreduce_nothing,
    .gather_fn = allreduce_nothing,
    .close_fn = spsh__strategy_sum_close,
};

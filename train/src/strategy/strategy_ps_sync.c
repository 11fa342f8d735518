/* strategy_ps_sync.c: synchronous parameter servers (Li and others 2014): all ranks send the
 * gradients of a part to the rank that serves it. That rank sums them, updates the part, and sends
 * it to all.
 *
 * This is strategy_partitioned.c with fewer owners: only the first `servers` ranks serve. The sums
 * have the bits of allreduce, whichever rank makes them. 2 L / S times the arena passes through
 * each server, so with few servers their links are the limit.
 */
#include "strategy_internal.h"

static spsh_status start(spsh__strategy *s, spsh__learner *l, spsh_error *err)
{
    const uint32_t servers = l->options.servers;
    l->owners = servers < l->comm->world_size ? servers : 0;
    if (l->backend->ops->stream_fn != NULL)
        l->exchange = SPSH__EXCHANGE_HOST; /* NCCL divides the sums among all ranks */
    return spsh__strategy_sum_start(s, l, false, err);
}

const spsh__strategy_ops spsh__strategy_ps_sync = {
    .name = "ps-sync",
    .start_fn = start,
    SPSH__STRATEGY_SUMS,
    .slice_fn = spsh__strategy_sum_part,
    .after_step_fn = spsh__strategy_sum_share_weights,
    .gather_fn = spsh__strategy_sum_gather_moments,
};

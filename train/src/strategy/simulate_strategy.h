/* simulate_strategy.h: what a strategy would do on a cluster: it runs, message by message, under
 * runtime_sim.h's clock, with a model that stands for the real one.
 *
 *     real    P weights   1 MiB parts   buckets   blocks of gradients   links of R bytes a second
 *     here    E weights   as many       as many   as many to each       a byte counts P / E times
 *
 * So a message is there when the real one would be, though it carries some hundred bytes; messages
 * without weights (totals, norms) are no larger here than there, and count once. Where that would
 * be more than about a million messages there are fewer, larger parts, 16 at least; and of buckets,
 * where learners are many, fewer than the model's, 2 at least.
 *
 * What learners learn is a quadratic: sum over i of h_i (w_i - 1)^2 / 2, curvatures h from 1/4 to
 * 1, begun at 0. A batch's gradient has noise of deviation 1/2 in each coordinate. All strategies
 * go as far a batch: the rate is 0.05 times the learners, up to 0.5, of means over learners, and a
 * L-th of it where single gradients change the one model of all. A learner-step is one batch.
 */
#ifndef SPSH_SIMULATE_STRATEGY_H
#define SPSH_SIMULATE_STRATEGY_H

#include "runtime/cluster_sim.h"
#include "speechshard/io.h"
#include "speechshard/train.h"

typedef struct spsh__simulate_options {
    const spsh__cluster *cluster; /* step_ns and steps are set */
    uint32_t learners;
    const char *strategy;
    uint64_t weights;
    uint32_t buckets; /* of the model; 0: 8 */
    bool is_whole;    /* with all weights: for tests of the above */
} spsh__simulate_options;

/* Until `steps` times learners batches were learnt from and the loss has come to SPSH_TRAIN_TARGET
 * of the first one, or four times as many. A strategy that cannot run there, or stops, says why in
 * ret->stopped, and that is SPSH_OK. ret->speeds is the caller's to free().
 * SPSH_E_NOT_FOUND: no such strategy; _NO_MEMORY, _LIMIT. */
spsh_status spsh__simulate(const spsh__simulate_options *options, spsh_train_simulated *ret,
                           spsh_error *err);

#endif

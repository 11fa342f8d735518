/* simulate_strategy.h: behavior of a strategy on a cluster. The strategy runs, message by message,
 * under the clock of runtime_sim.h, with a small model that represents the real one.
 *
 *     real        P weights   1 MiB parts   buckets   gradient blocks   links of R bytes per second
 *     simulated   E weights   same number   same      same number per   a byte counts P / E times
 *                             of parts      number    part
 *
 * A message therefore arrives when the real one would, but carries only some hundred bytes.
 * Messages without weights (totals, norms) have their real size and count once. If a strategy would
 * send more than about a million messages, parts are fewer and larger (at least 16). With many
 * learners, there are fewer buckets than in the model (at least 2).
 *
 * The learners minimize a quadratic: the sum over i of h_i (w_i - 1)^2 / 2, with curvatures h from
 * 1/4 to 1, starting at 0. The gradient of a batch has noise of deviation 1/2 in each coordinate.
 * All strategies make the same progress per batch: the rate is 0.05 times the number of learners,
 * at most 0.5, for means over L learners, and 1 / L of that if a single gradient changes the shared
 * model. A learner-step is one batch.
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
    uint32_t buckets; /* number of buckets of the model; 0: 8 */
    bool is_whole;    /* simulate all weights, to test the reduction above */
} spsh__simulate_options;

/* Simulate until the learners have trained on `steps` times learners batches and the loss has
 * reached SPSH_TRAIN_TARGET of its first value, or until four times as many batches. If a strategy
 * cannot run on the cluster, or stops, ret->stopped has the reason, and the result is SPSH_OK. The
 * caller frees ret->speeds with free(). SPSH_E_NOT_FOUND: no such strategy; SPSH_E_NO_MEMORY,
 * SPSH_E_LIMIT. */
spsh_status spsh__simulate(const spsh__simulate_options *options, spsh_train_simulated *ret,
                           spsh_error *err);

#endif

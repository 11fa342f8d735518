/* cluster_sim.h: a cluster's text (cluster.h) under the simulator's clock (runtime_sim.h): the one
 * model of time of planned runs (simulate_strategy.h) and of simulated ones (run_simulated.c).
 *
 * A batch takes a learner `step`, with its jitter:
 *
 *     spsh__cluster_forward     a third
 *     spsh__cluster_backward    two thirds, in as many equal parts as there are buckets
 *
 * so that messages of a bucket are in flight while the next bucket is computed.
 */
#ifndef SPSH_TRAIN_CLUSTER_SIM_H
#define SPSH_TRAIN_CLUSTER_SIM_H

#include "cluster.h"

typedef struct spsh__cluster_sim {
    const spsh__cluster *cluster;
    spsh__sim *sim;
    spsh__sim_fault faults[SPSH__CLUSTER_FAULTS_MAX]; /* faults of existing learners */
    uint32_t fault_count;
    bool has_begun;
} spsh__cluster_sim;

/* Time of one batch of one learner. */
typedef struct spsh__cluster_batch {
    uint64_t batch_ns, spent_ns;
} spsh__cluster_batch;

/* Open a simulation of the cluster. options: learners, scale, small_bytes, stack_bytes; the cluster
 * sets the rest. The cluster must outlive s, and s must not move. Returns the codes of
 * spsh__sim_open. */
spsh_status spsh__cluster_sim_open(spsh__cluster_sim *s, const spsh__cluster *cluster,
                                   const spsh__sim_options *options, spsh_error *err);
void spsh__cluster_sim_close(spsh__cluster_sim *s);

/* Count times of faults from now on. Only the first call has an effect; no fault with a time
 * happens before it. */
void spsh__cluster_begin(spsh__cluster_sim *s);

/* Simulate the forward pass. Call on the learner's fiber. number: of the learner's batch; seeds the
 * jitter. */
void spsh__cluster_forward(const spsh__cluster_sim *s, uint32_t learner, uint64_t number,
                           spsh__cluster_batch *ret);
void spsh__cluster_backward(const spsh__cluster_sim *s, uint32_t learner, spsh__cluster_batch *b,
                            uint32_t bucket, uint32_t bucket_count);

#endif

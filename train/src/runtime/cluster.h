/* cluster.h: a description of a cluster and its faults as text: KEY=VALUE, separated by commas.
 *
 *     learners=8,link=10us+100Gbit,step=250ms,slow=3:10x,kill=1:30s
 *
 *     learners  8; several clusters: 2,4,6; 1..128: doubled each time
 *     link      LATENCY+BANDWIDTH of each learner's link, full duplex; without it messages take no
 *               time. bit, Kbit, Mbit, Gbit, Tbit, B, KB, MB, GB: per second
 *     node      learners per node; node_link: LATENCY+BANDWIDTH within a node
 *     slow      LEARNER:FACTORx;  freeze: LEARNER:AT+FOR;  kill: LEARNER:AT; each several times
 *     step      time per batch of a learner: ns, us, ms, s, min
 *     jitter    0.1: a step takes 1 to 1.1 times as long
 *     steps     number of steps per learner; seed; strategy: names, or all; weights: of a model;
 *     deadline  after which a wait for a learner fails
 *     servers, staleness_max   of parameter servers, as train.servers and train.staleness_max
 */
#ifndef SPSH_TRAIN_CLUSTER_H
#define SPSH_TRAIN_CLUSTER_H

#include "runtime_sim.h"

#define SPSH__CLUSTER_FAULTS_MAX 64u
#define SPSH__CLUSTER_SIZES_MAX  32u
#define SPSH__CLUSTER_NAMES_MAX  16u
#define SPSH__CLUSTER_NAME_BYTES 32u
#define SPSH__CLUSTER_PATH_BYTES 512u

/* A link between computers. */
typedef struct spsh__link {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: unlimited */
} spsh__link;

typedef struct spsh__cluster {
    uint32_t sizes[SPSH__CLUSTER_SIZES_MAX]; /* numbers of learners, one per cluster */
    uint32_t size_count;
    spsh__link link, node_link;
    uint32_t node_size; /* 0: not set */
    spsh__sim_fault faults[SPSH__CLUSTER_FAULTS_MAX];
    uint32_t fault_count;
    uint64_t step_ns;                       /* 0: not set */
    char step_of[SPSH__CLUSTER_PATH_BYTES]; /* path of a measured run; else empty */
    double jitter;
    uint64_t steps, seed; /* steps 0: not set */
    uint64_t weights;     /* 0: not set */
    uint32_t deadline_ms; /* 0: not set */
    uint32_t servers, bound;
    char names[SPSH__CLUSTER_NAMES_MAX][SPSH__CLUSTER_NAME_BYTES]; /* names of strategies */
    uint32_t name_count;                                           /* 0: not set */
    bool has_all_names;                                            /* "all" */
} spsh__cluster;

/* Parse a description. SPSH_E_INVALID_ARG: the message names the bad word and the reason. */
spsh_status spsh__cluster_read(const char *text, spsh__cluster *ret, spsh_error *err);

/* Parse a link or a fault that is a separate option. AT of a fault may also be a step, such as
 * "200": then *ret_is_step is true, and from_ns is the step number. SPSH_E_INVALID_ARG. */
spsh_status spsh__link_read(const char *text, spsh__link *ret, spsh_error *err);
spsh_status spsh__fault_read(spsh__sim_fault_kind kind, const char *text, bool *ret_is_step,
                             spsh__sim_fault *ret, spsh_error *err);
#endif

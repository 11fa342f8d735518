/* cluster.h: computers and what happens to them, as text: KEY=VALUE with commas between.
 *
 *     learners=8,link=10us+100Gbit,step=250ms,slow=3:10x,kill=1:30s
 *
 *     learners  8; several: 2,4,6; 1..128: doubled each time
 *     link      LATENCY+BANDWIDTH of each learner's own, full duplex; without it messages take no
 *               time. bit, Kbit, Mbit, Gbit, Tbit: a second; B, KB, MB, GB: as well
 *     node      learners of a node; node_link: LATENCY+BANDWIDTH among them
 *     slow      LEARNER:FACTORx;  freeze: LEARNER:AT+FOR;  kill: LEARNER:AT; each several times
 *     step      what a batch takes a learner: ns, us, ms, s, min
 *     jitter    0.1: a step takes 1 to 1.1 times as long
 *     steps     that each learner would make; seed; strategy: names, or all; weights: of a model;
 *     deadline  after which a learner that is waited for is given up
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

/* Of a line between computers. */
typedef struct spsh__link {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: any number */
} spsh__link;

typedef struct spsh__cluster {
    uint32_t sizes[SPSH__CLUSTER_SIZES_MAX]; /* learners */
    uint32_t size_count;
    spsh__link link, node_link;
    uint32_t node_size; /* 0: not said */
    spsh__sim_fault faults[SPSH__CLUSTER_FAULTS_MAX];
    uint32_t fault_count;
    uint64_t step_ns;                       /* 0: not said */
    char step_of[SPSH__CLUSTER_PATH_BYTES]; /* a run that was measured; else empty */
    double jitter;
    uint64_t steps, seed; /* steps 0: not said */
    uint64_t weights;     /* 0: not said */
    uint32_t deadline_ms; /* 0: not said */
    uint32_t servers, bound;
    char names[SPSH__CLUSTER_NAMES_MAX][SPSH__CLUSTER_NAME_BYTES]; /* of strategies */
    uint32_t name_count;                                           /* 0: not said */
    bool has_all_names;                                            /* "all" */
} spsh__cluster;

/* SPSH_E_INVALID_ARG, which says what is wrong with which word of it. */
spsh_status spsh__cluster_read(const char *text, spsh__cluster *ret, spsh_error *err);

/* Parts of it, for options of their own: all of the text. Of a fault AT may be a step as well
 * ("200"): then *ret_is_step, and from_ns is its number. SPSH_E_INVALID_ARG. */
spsh_status spsh__link_read(const char *text, spsh__link *ret, spsh_error *err);
spsh_status spsh__fault_read(spsh__sim_fault_kind kind, const char *text, bool *ret_is_step,
                             spsh__sim_fault *ret, spsh_error *err);
#endif

/* run_traffic.h: what a rank has sent, and how stale its strategy's updates were, as numbers of a
 * row (run_rows.h), of which metrics have the sum over all ranks.
 */
#ifndef SPSH_TRAIN_RUN_TRAFFIC_H
#define SPSH_TRAIN_RUN_TRAFFIC_H

#include "run_record.h"
#include "strategy/strategy.h"

/* Since the last row. */
typedef struct spsh__run_traffic {
    spsh__staleness staleness; /* the learner's, if there is a runtime */
    uint64_t told_bytes;       /* that were sent by then */
} spsh__run_traffic;

/* Bytes that this rank has ever sent to others. */
uint64_t spsh__traffic_sent_bytes(const spsh__learner *l);
/* Into row: bytes since the last call's sent_bytes, and staleness since then. */
spsh_status spsh__traffic_put(spsh__run_traffic *t, const spsh__run_runtime *runtime,
                              const spsh__learner *l, uint64_t sent_bytes, double *row,
                              spsh_error *err);

#endif

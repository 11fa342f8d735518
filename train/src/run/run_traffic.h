/* run_traffic.h: bytes that a rank sent, and the staleness of its strategy's updates, as numbers of
 * a row (run_rows.h). Metrics report the sum over all ranks.
 */
#ifndef SPSH_TRAIN_RUN_TRAFFIC_H
#define SPSH_TRAIN_RUN_TRAFFIC_H

#include "run_record.h"
#include "strategy/strategy.h"

/* Values since the last row. */
typedef struct spsh__run_traffic {
    spsh__staleness staleness; /* the learner's, if there is a runtime */
    uint64_t reported_bytes;   /* bytes that were sent by then */
} spsh__run_traffic;

/* Return the total of bytes that this rank has sent. */
uint64_t spsh__traffic_sent_bytes(const spsh__learner *l);
/* Write to row the bytes since the sent_bytes of the last call, and the staleness since then. */
spsh_status spsh__traffic_put(spsh__run_traffic *t, const spsh__run_runtime *runtime,
                              const spsh__learner *l, uint64_t sent_bytes, double *row,
                              spsh_error *err);

#endif

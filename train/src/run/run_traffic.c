/* run_traffic.c: see run_traffic.h.
 *
 * Bytes are counted up to the beginning of a step, when no part of an all-reduce is in flight. At
 * any later time, the number of bytes sent so far depends on timing. Bytes and updates of the
 * serving task are noted, or counted under the lock, at a mark (runtime.h), so that a replay
 * reports the same.
 */
#include "run_traffic.h"

#include <string.h>

#include "run_rows.h"

uint64_t spsh__traffic_sent_bytes(const spsh__learner *l)
{
    const spsh__comm *all = l->staged != NULL ? l->staged->comm : l->comm;
    return __atomic_load_n(&all->sent_bytes, __ATOMIC_RELAXED);
}

spsh_status spsh__traffic_put(spsh__run_traffic *t, const spsh__run_runtime *runtime,
                              const spsh__learner *l, uint64_t sent_bytes, double *row,
                              spsh_error *err)
{
    uint64_t bytes = sent_bytes - t->reported_bytes;
    t->reported_bytes = sent_bytes;
    spsh_status rc = spsh__run_note(runtime, &bytes, err);
    row[SPSH__ROW_SENT] = (double)bytes;
    if (rc != SPSH_OK || l->staleness == NULL)
        return rc;
    rc = spsh__run_enter(runtime, l->step, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t i = 0; i < SPSH__STALENESS_MAX; i++)
        row[SPSH__ROW_STALE + spsh__metric_staleness(i)] += (double)t->staleness.counts[i];
    memset(&t->staleness, 0, sizeof(t->staleness));
    spsh__run_leave(runtime);
    return SPSH_OK;
}

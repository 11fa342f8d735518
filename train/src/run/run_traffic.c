/* run_traffic.c: what a rank has sent, and how stale its strategy's updates were, into the step's
 * row, of which metrics have the sum over all ranks.
 *
 * Bytes are counted up to a step's beginning, where nothing of a sum is on its way: how much of one
 * has been sent at any later time is chance. What the serving task sends and updates meanwhile is
 * noted, or counted under the lock, at a mark (runtime.h): a replay says the same.
 */
#include <string.h>

#include "run_internal.h"

uint64_t spsh__run_sent_bytes(const spsh__run *r)
{
    const spsh__comm *all = r->learner.living != NULL ? r->learner.comm : r->world->comm;
    return __atomic_load_n(&all->sent_bytes, __ATOMIC_RELAXED);
}

spsh_status spsh__run_put_traffic(spsh__run *r, uint64_t all_bytes, spsh_error *err)
{
    uint64_t sent_bytes = all_bytes - r->traffic.told_bytes;
    r->traffic.told_bytes = all_bytes;
    spsh_status rc = spsh__run_note(&r->runtime, &sent_bytes, err);
    r->rows.rows[SPSH__ROW_SENT] = (double)sent_bytes;
    if (rc != SPSH_OK || r->learner.staleness == NULL)
        return rc;
    rc = spsh__run_enter(&r->runtime, r->learner.step, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t i = 0; i < SPSH__STALENESS_MAX; i++)
        r->rows.rows[SPSH__ROW_STALE + spsh__metric_staleness(i)] +=
            (double)r->traffic.staleness.counts[i];
    memset(&r->traffic.staleness, 0, sizeof(r->traffic.staleness));
    spsh__run_leave(&r->runtime);
    return SPSH_OK;
}

/* plan_scan.h: scan the indexes for utterances that pass, and list the members of each domain. */
#ifndef SPSH_PLAN_SCAN_H
#define SPSH_PLAN_SCAN_H

#include "filter.h"
#include "plan_internal.h"

/* Fill the plan's domains (without weights), member lists, and counts. Needs plan->caps, and
 * dataset and count in plan->datasets. threads: at least 1. */
spsh_status spsh__plan_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads,
                            spsh_error *err);

/* Set the column pointers of the datasets, and allocate their granules. */
spsh_status spsh__plan_map(spsh_plan *plan, spsh_error *err);

#endif

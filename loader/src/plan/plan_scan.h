/* plan_scan.h: which utterances pass, and the member lists of the domains they make. */
#ifndef SPSH_PLAN_SCAN_H
#define SPSH_PLAN_SCAN_H

#include "filter.h"
#include "plan_internal.h"

/* Fills the plan's domains (without weights), member lists and counts; plan->datasets has dataset
 * and count, plan->caps is there. threads: at least 1. */
spsh_status spsh__plan_scan(spsh_plan *plan, const spsh__filter *filters, uint32_t threads,
                            spsh_error *err);

/* Column pointers and granules of the datasets. */
spsh_status spsh__plan_map(spsh_plan *plan, spsh_error *err);

#endif

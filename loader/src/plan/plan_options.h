/* plan_options.h: check the options, and derive limits, shares, and keys from them. */
#ifndef SPSH_PLAN_OPTIONS_H
#define SPSH_PLAN_OPTIONS_H

#include "filter.h"
#include "plan_internal.h"

/* Check and copy the options, with defaults filled in. options may be NULL. */
spsh_status spsh__plan_take_options(const spsh_plan_options *options,
                                    spsh_plan_options *ret_options, spsh_error *err);

/* Limits of a batch. */
spsh__caps spsh__plan_caps(const spsh_plan_options *options);

/* Hash the inputs of the scan: the datasets, the skips, the filters. */
void spsh__plan_scan_keys(spsh_plan *plan, const spsh__filter *filters);

/* Compute integer shares, select the epoch rule, and hash everything that decides the order. */
spsh_status spsh__plan_shares(spsh_plan *plan, const spsh__filter *filters, spsh_error *err);

#endif

/* plan_options.h: options checked, and turned into what the plan works with. */
#ifndef SPSH_PLAN_OPTIONS_H
#define SPSH_PLAN_OPTIONS_H

#include "filter.h"
#include "plan_internal.h"

/* options may be NULL. */
spsh_status spsh__plan_take_options(const spsh_plan_options *options,
                                    spsh_plan_options *ret_options, spsh_error *err);

/* Bounds of a batch, in microseconds. */
spsh__caps spsh__plan_caps(const spsh_plan_options *options);

/* Hashes of what scanning depends on: the datasets, the skips, the filters. */
void spsh__plan_scan_keys(spsh_plan *plan, const spsh__filter *filters);

/* Shares as whole numbers, which rule epochs follow, and a hash of all the order depends on. */
spsh_status spsh__plan_shares(spsh_plan *plan, const spsh__filter *filters, spsh_error *err);

#endif

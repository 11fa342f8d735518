/* dedupe_out.h: what `dedupe` found, as a table or as JSON; and what a run would take. */
#ifndef SPSH_DEDUPE_OUT_H
#define SPSH_DEDUPE_OUT_H

#include "dedupe_run.h"

void spsh__dedupe_print(const spsh__dedupe_options *options, const spsh__dedupe *dedupe);
spsh_status spsh__dedupe_print_json(const spsh__dedupe_options *options, const spsh__dedupe *dedupe,
                                    spsh_error *err);

/* Prints the cost of a run and makes nothing. SPSH_EXIT_*. */
int spsh__dedupe_estimate(const spsh__dedupe_options *options, bool json);

#endif

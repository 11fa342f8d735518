/* dedupe_out.h: what `dedupe` found, as a table or as JSON; and what a run would take. */
#ifndef SPSH_DEDUPE_OUT_H
#define SPSH_DEDUPE_OUT_H

#include "speechshard/dedup.h"

void spsh__dedupe_print(const spsh_dedupe_options *options, const spsh_dedupe_result *d);
/* Returns the exit status. */
int spsh__dedupe_print_json(const spsh_dedupe_options *options, const spsh_dedupe_result *d);

/* Prints the cost of a run and makes nothing. SPSH_EXIT_*. */
int spsh__dedupe_print_estimate(const spsh_dedup_sources *sources,
                                const spsh_dedupe_options *options, bool json);

#endif

/* dedupe_out.h: print the result of `dedupe`, as a table or as JSON, and the estimated cost of a
 * run. */
#ifndef SPSH_DEDUPE_OUT_H
#define SPSH_DEDUPE_OUT_H

#include "speechshard/dedup.h"

void spsh__dedupe_print(const spsh_dedupe_options *options, const spsh_dedupe_result *d);
/* Return the exit status. */
int spsh__dedupe_print_json(const spsh_dedupe_options *options, const spsh_dedupe_result *d);

/* Print the cost of a run and write nothing. Returns SPSH_EXIT_*. */
int spsh__dedupe_print_estimate(const spsh_dedup_sources *sources,
                                const spsh_dedupe_options *options, bool json);

#endif

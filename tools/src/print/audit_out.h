/* audit_out.h: the output of `audit` for people. */
#ifndef SPSH_AUDIT_OUT_H
#define SPSH_AUDIT_OUT_H

#include "speechshard/dedup.h"

/* Print one table per test split, with the strongest example of each kind. Returns the exit status
 * of printing. */
int spsh__audit_print(const spsh_audit *audit);

/* Report the warnings, and the exceeded limits with their excess. Returns SPSH_EXIT_FAILED if a
 * limit was exceeded. */
int spsh__audit_display(const spsh_audit *audit);

/* Print the estimated cost and write nothing. Returns the exit status. */
int spsh__audit_print_estimate(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                               bool json);

#endif

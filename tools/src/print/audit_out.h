/* audit_out.h: what `audit` prints for people. */
#ifndef SPSH_AUDIT_OUT_H
#define SPSH_AUDIT_OUT_H

#include "speechshard/dedup.h"

/* A table a test split, with the strongest example of each kind. Returns the exit status of
 * printing. */
int spsh__audit_print(const spsh_audit *audit);

/* The warnings, and which limits were passed by how much, as messages. Returns SPSH_EXIT_FAILED if
 * one was. */
int spsh__audit_tell(const spsh_audit *audit);

/* What it would take; nothing is made. Returns the exit status. */
int spsh__audit_print_estimate(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                               bool json);

#endif

/* audit_out.h: what `audit` prints for people. */
#ifndef SPSH_AUDIT_OUT_H
#define SPSH_AUDIT_OUT_H

#include "audit_run.h"

/* A table a test split, with the strongest example of each kind. Returns the exit status of
 * printing. */
int spsh__audit_print(const spsh__audit_run *run);

/* The warnings, and which limits were passed by how much, as messages. */
void spsh__audit_tell(const spsh__audit_run *run);

/* What it would take; nothing is made. Returns the exit status. */
int spsh__audit_estimate(const spsh__audit_options *options, bool json);

#endif

/* simulate_all.h: the time of a step that a cluster description names. */
#ifndef SPSH_SIMULATE_ALL_H
#define SPSH_SIMULATE_ALL_H

#include "runtime/cluster.h"
#include "speechshard/io.h"

/* Set the cluster's step_ns from its text or from the run that it names. SPSH_E_INVALID_ARG: the
 * text has neither; SPSH_E_NOT_FOUND, _IO: the run. */
spsh_status spsh__cluster_find_step(const spsh_io *io, spsh__cluster *cluster, spsh_error *err);

#endif

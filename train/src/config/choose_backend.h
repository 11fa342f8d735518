/* choose_backend.h: resolve `train.backend` on this machine to a backend and to the device that the
 * backend shares with other components.
 *
 *     rc = spsh__compute_open(&options, &compute, &err);
 *     ... compute.backend, compute.cuda (NULL: the host), compute.text ...
 *     spsh__compute_close(&compute);            // after everything that was opened on it
 */
#ifndef SPSH_CHOOSE_BACKEND_H
#define SPSH_CHOOSE_BACKEND_H

#include "comm/comm.h"
#include "config.h"

typedef struct spsh__compute_options {
    const spsh__config *config;
    uint32_t threads;    /* threads of a host backend; 0: one per core */
    uint32_t local_rank; /* rank among the node's processes; selects the device if the configuration
                            does not */
    spsh__comm *comm;    /* all ranks compute on the same kind of backend; NULL: one rank */
    bool is_for_reading; /* the model was trained elsewhere: fall back if this machine lacks the
                            device, or the backend lacks the precision */
    const spsh_allocator *allocator;
} spsh__compute_options;

typedef struct spsh__compute {
    spsh_cuda *cuda; /* NULL: the backend is the host's */
    spsh__backend *backend;
    char text[400]; /* the selected backend and the reason, as text */
    char why[240];  /* if no GPU can be used: the reason, which text omits; else "" */
} spsh__compute;

/* Return SPSH_E_NOT_FOUND, _VERSION, _UNSUPPORTED, or _IO if train.backend is cuda and there is no
 * device or a required library is missing; SPSH_E_INVALID_ARG if the device does not exist or the
 * backend lacks the precision; SPSH_E_NO_MEMORY. */
spsh_status spsh__compute_open(const spsh__compute_options *options, spsh__compute *ret,
                               spsh_error *err);
void spsh__compute_close(spsh__compute *c); /* accepts an all-zero struct */

#endif

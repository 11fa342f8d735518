/* choose_backend.h: what a configuration's `train.backend` means on this machine: a backend, and
 * the device that it lends to others.
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
    uint32_t threads;    /* of a backend on the host; 0: as many as there are cores */
    uint32_t local_rank; /* among the node's processes: which device, where nobody says */
    spsh__comm *comm;    /* all ranks compute on the same kind of backend; NULL: alone */
    bool is_for_reading; /* a model that was trained elsewhere: what is not here, and a precision
                            that the backend does not have, is no failure */
    bool needs_host;     /* the strategy would race on a device (spsh__strategy_needs_host) */
    const spsh_allocator *allocator;
} spsh__compute_options;

typedef struct spsh__compute {
    spsh_cuda *cuda; /* NULL: the backend is the host's */
    spsh__backend *backend;
    char text[400]; /* where, and why there, in words */
} spsh__compute;

/* SPSH_E_NOT_FOUND, _VERSION, _UNSUPPORTED, _IO: no device, with train.backend cuda, or libraries
 * that it needs; SPSH_E_UNSUPPORTED: the strategy runs on the host only; SPSH_E_INVALID_ARG: no
 * such device, or a precision that the backend does not have; SPSH_E_NO_MEMORY. */
spsh_status spsh__compute_open(const spsh__compute_options *options, spsh__compute *ret,
                               spsh_error *err);
void spsh__compute_close(spsh__compute *c); /* one that is all zeros is fine */

#endif

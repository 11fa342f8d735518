/* host_arenas.h: rank 0's copy of a whole model in host memory, for writing checkpoints. Its arenas
 * have the same layout as the model's (model.h).
 *
 *     read     begin to copy the arenas to pinned memory, on a separate stream of the device
 *     hold     make the learner's stream wait for the copies before it overwrites its arenas
 *     land     wait on the host for the copies; any thread
 *
 * The learner computes its next gradient meanwhile. It waits only for the statistics, which forward
 * changes. On the host, read copies everything.
 */
#ifndef SPSH_TRAIN_HOST_ARENAS_H
#define SPSH_TRAIN_HOST_ARENAS_H

#include "checkpoint/checkpoint.h"
#include "strategy/strategy.h"

typedef struct spsh__host_arenas {
    spsh__parameter *parameters;
    float *weights, *moments[2], *statistics; /* moments NULL: unused by the optimizer */
    const spsh_cuda *cuda;                    /* NULL: the learner is not on a device */
    void *stream;
    void *before, *down; /* events: the learner's work so far; all copies, or the statistics' */
    bool is_coming;      /* copies that the learner's stream does not wait for yet */
} spsh__host_arenas;

/* backend: the learner's. The arenas must be closed even after a failure. SPSH_E_NO_MEMORY. */
spsh_status spsh__host_arenas_open(spsh__backend *backend, const spsh__model *whole,
                                   const bool has_moments[2], spsh__host_arenas *ret,
                                   spsh_error *err);
void spsh__host_arenas_close(spsh__host_arenas *a); /* accepts an all-zero struct */
/* Copy a checkpoint that fits the model. false: it is from another optimizer. */
bool spsh__host_arenas_take(spsh__host_arenas *a, const spsh__checkpoint *c);
/* Copy the arenas of a learner that has the whole model. */
spsh_status spsh__host_arenas_read(spsh__host_arenas *a, const spsh__learner *l, spsh_error *err);
spsh_status spsh__host_arenas_hold(spsh__host_arenas *a, const spsh__learner *l, spsh_error *err);
spsh_status spsh__host_arenas_land(const spsh__host_arenas *a, spsh_error *err);

#endif

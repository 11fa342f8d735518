/* host_arenas.h: rank 0's copy of a whole model in host memory, for writing checkpoints. Its arenas
 * have the same layout as the model's (model.h).
 */
#ifndef SPSH_TRAIN_HOST_ARENAS_H
#define SPSH_TRAIN_HOST_ARENAS_H

#include "checkpoint/checkpoint.h"
#include "strategy/strategy.h"

typedef struct spsh__host_arenas {
    spsh__parameter *parameters;
    float *weights, *moments[2], *statistics; /* moments NULL: unused by the optimizer */
} spsh__host_arenas;

/* The arenas must be closed even after a failure. SPSH_E_NO_MEMORY. */
spsh_status spsh__host_arenas_open(const spsh__model *whole, const bool has_moments[2],
                                   spsh__host_arenas *ret, spsh_error *err);
void spsh__host_arenas_close(spsh__host_arenas *a); /* accepts an all-zero struct */
/* Copy a checkpoint that fits the model. false: it is from another optimizer. */
bool spsh__host_arenas_take(spsh__host_arenas *a, const spsh__checkpoint *c);
/* Copy the arenas of a learner that has the whole model. */
void spsh__host_arenas_read(spsh__host_arenas *a, const spsh__learner *l);

#endif

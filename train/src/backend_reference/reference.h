/* reference.h: the operators of the backend `reference`. Each implements its definition in
 * backend.h literally: loops over indices, in double, without shared code. */
#ifndef SPSH_TRAIN_REFERENCE_H
#define SPSH_TRAIN_REFERENCE_H

#include "backend/backend.h"

static inline double *spsh__f64(spsh__backend_buffer buffer)
{
    return (double *)buffer.data;
}

/* Operators, by their names in backend.h. */
#define SPSH_X(name_) SPSH__OPERATOR_TYPE(name_) spsh__reference_##name_;
SPSH__OPERATORS(SPSH_X)
#undef SPSH_X

#endif

/* sampler_internal.h: a place by its batch's number, for a loader that is asked. */
#ifndef SPSH_SAMPLER_INTERNAL_H
#define SPSH_SAMPLER_INTERNAL_H

#include "speechshard/sampler.h"

/* Before a batch of an epoch. Ahead in the same epoch it goes on from where it is; else from the
 * epoch's beginning: over windows whose numbers of batches the plan remembers that is quick.
 * SPSH_E_INVALID_ARG: the epoch has no such batch; nothing has changed, as after other failures. */
spsh_status spsh__sampler_go(spsh_sampler *sampler, uint64_t epoch, uint64_t batch,
                             spsh_error *err);

#endif

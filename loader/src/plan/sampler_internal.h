/* sampler_internal.h: seek by batch number, for loaders with is_asked. */
#ifndef SPSH_SAMPLER_INTERNAL_H
#define SPSH_SAMPLER_INTERNAL_H

#include "speechshard/sampler.h"

/* Seek to a batch of an epoch. Searches from the current position if the batch is later in the same
 * epoch, else from the epoch's beginning. Windows whose batch count the plan knows are passed
 * quickly. SPSH_E_INVALID_ARG: the epoch does not have the batch. A failure changes nothing. */
spsh_status spsh__sampler_seek_batch(spsh_sampler *sampler, uint64_t epoch, uint64_t batch,
                                     spsh_error *err);

#endif

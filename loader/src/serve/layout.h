/* layout.h: lay out a planned batch in a slot, with a position for each utterance. */
#ifndef SPSH_LAYOUT_H
#define SPSH_LAYOUT_H

#include "loader_threads.h"

/* Fill in the slot's batch and jobs. Reads no audio. */
spsh_status spsh__layout(spsh_loader *loader, spsh__slot *slot, const spsh_planned_batch *planned,
                         spsh_error *err);

/* Replace the job's item, if the new one matches the batch, fits, and is not in the batch yet. */
bool spsh__layout_substitute(const spsh_loader *loader, spsh__job *job, const spsh_item *item);

/* Can the job's record be served? If not, *ret_why names the record and the reason. */
bool spsh__layout_is_servable(spsh_loader *loader, const spsh__job *job, spsh_error *ret_why);

#endif

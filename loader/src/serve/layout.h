/* layout.h: a planned batch becomes a slot with a place for each utterance. */
#ifndef SPSH_LAYOUT_H
#define SPSH_LAYOUT_H

#include "loader_threads.h"

/* Fill in the slot's batch and jobs; nothing is read. */
spsh_status spsh__layout(spsh_loader *loader, spsh__slot *slot, const spsh_planned_batch *planned,
                         spsh_error *err);

/* Let the job have another item, if it is of the batch's kind, fits, and is not in the batch. */
bool spsh__layout_substitute(const spsh_loader *loader, spsh__job *job, const spsh_item *item);

/* May the job's record be read at all? If not, *ret_why names it. */
bool spsh__layout_is_servable(spsh_loader *loader, const spsh__job *job, spsh_error *ret_why);

#endif

/* pack_units.h: the units of the plan, shared with other processes by claims. */
#ifndef SPSH_PACK_UNITS_H
#define SPSH_PACK_UNITS_H

#include "pack_state.h"

/**
 * Pack units until each unit of the plan is done, or a living process packs it.
 *
 * First come the units of this part, then units that no process has claimed, then units whose
 * owners have stopped. Sets the numbers of units in state->result.
 *
 * @param waits  also wait until the units of other processes are done
 * Sets state->has_ended if another process has published the dataset.
 */
SPSH_NODISCARD spsh_status spsh__units_pack(spsh__pack_state *state, bool waits, spsh_error *err);

#endif

/* pack_merge.h: publish the dataset of a plan whose units are done. */
#ifndef SPSH_PACK_MERGE_H
#define SPSH_PACK_MERGE_H

#include "pack_state.h"

/** Whether the plan is free of damaged archives and manifests, or the options accept them.
 * SPSH_E_TRUNCATED if not. */
SPSH_NODISCARD spsh_status spsh__merge_check_damage(const spsh_pack_options *options,
                                                    const spsh__plan *plan, spsh_error *err);

/**
 * Merge the units into a published dataset, write the reports, and remove the state.
 *
 * @param waits  if another living process merges: wait for it, then set state->has_ended. false:
 *               leave the dataset to it, and set nothing
 * @return SPSH_E_NOT_FOUND also if a unit is not done; or any error of publishing
 */
SPSH_NODISCARD spsh_status spsh__merge_run(spsh__pack_state *state, bool waits, bool *ret_merged,
                                           spsh_error *err);

#endif

/* pack_run.h: corpora in, one dataset out.
 *
 *     scan -> plan -> units: read -> check/decode -> hash -> dedupe -> place -> write -> seal
 *          -> merge
 *
 * The plan (pack_plan.h) lists every utterance in the order in which it will lie in the dataset and
 * cuts the list into units. A unit (unit.h) is packed into a few shards; after each sealed shard a
 * journal says how far it got, and the last entry is the unit's commit record. When every unit is
 * committed, the shards are merged into a manifest. All state lies in DATASET/.pack; a rerun after
 * any interruption takes it up and ends with the same bytes.
 */
#ifndef SPSH_PACK_RUN_H
#define SPSH_PACK_RUN_H

#include "plan/pack_options.h"

/** See spsh_pack. options: of spsh__pack_options_take, with absolute paths of corpora. */
SPSH_NODISCARD spsh_status spsh__pack_run(const spsh_pack_options *options,
                                          spsh__pack_result *ret_result, spsh_error *err);

void spsh__pack_result_free(spsh__pack_result *result);

#endif

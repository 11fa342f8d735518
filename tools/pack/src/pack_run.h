/* pack_run.h: pack corpora into one dataset.
 *
 *     scan -> plan -> units: read -> check/decode -> hash -> dedupe -> place -> write -> seal
 *          -> merge
 *
 * The plan (pack_plan.h) lists every utterance in dataset order and cuts the list into units. A
 * unit (unit.h) is packed into a few shards. After each sealed shard a journal records the
 * progress, and the last journal is the unit's commit record. When every unit is committed, the
 * shards are merged into a manifest. All state is stored in DATASET/.pack. A rerun after an
 * interruption resumes from it and produces identical bytes.
 */
#ifndef SPSH_PACK_RUN_H
#define SPSH_PACK_RUN_H

#include "plan/pack_options.h"

/** See spsh_pack. options: from spsh__pack_options_take, with absolute corpus paths. */
SPSH_NODISCARD spsh_status spsh__pack_run(const spsh_pack_options *options,
                                          spsh__pack_result *ret_result, spsh_error *err);

/** See spsh_pack_merge. options: from spsh__pack_options_take. */
SPSH_NODISCARD spsh_status spsh__pack_merge_run(const spsh_pack_options *options,
                                                spsh__pack_result *ret_result, spsh_error *err);

void spsh__pack_result_free(spsh__pack_result *result);

#endif

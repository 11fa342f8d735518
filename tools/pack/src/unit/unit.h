/* unit.h: pack one unit of the plan into shards.
 *
 * After each sealed shard a journal `unit-<u>.<n>` describes the shard, and records the counts, the
 * next job, and the stored audio. `unit-<u>.<n>.rejects` holds the reject lines since the previous
 * journal. The journal whose state has the flag `last` is the unit's commit record. The merge reads
 * only the journals. A run that finds journals resumes after the last one.
 */
#ifndef SPSH_PACK_UNIT_H
#define SPSH_PACK_UNIT_H

#include "loudness.h"
#include "plan/pack_plan.h"

/** Sums over the packed units so far. Zero-initialize, then call spsh__packed_begin; free with
 * spsh__packed_free. */
typedef struct spsh__packed {
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh__level_counts levels;
    spsh__source_tally *tallies; /* by source of the plan */
    spsh_shard_seal *seals;      /* sorted by (unit, number) */
    size_t seal_count, seal_capacity;
    char (*reject_files)[32]; /* names in the work directory, in order */
    size_t reject_file_count, reject_file_capacity;
    uint64_t decode_ns; /* this run's processor time of decoding, and the length of that audio */
    uint64_t decode_audio_ms;
} spsh__packed;

typedef struct spsh__unit_context {
    const spsh_pack_options *options;
    const spsh__plan *plan;
    const char *work_directory;
    const char *shard_directory;
} spsh__unit_context;

/** Allocate one tally per source of the plan. false: no memory. */
bool spsh__packed_begin(spsh__packed *packed, const spsh__plan *plan);

/** Pack or resume a unit, or only read its journals if it is complete. Adds to packed. */
spsh_status spsh__unit_pack(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err);

void spsh__packed_free(spsh__packed *packed);

#endif

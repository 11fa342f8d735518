/* unit.h: pack one unit of the plan into shards.
 *
 * After each sealed shard a journal `unit-<u>.<n>` says what the shard is, what was counted, which
 * job is next and which audio is stored; `unit-<u>.<n>.rejects` holds the reject lines up to there.
 * The journal that says `last 1` is the unit's commit record: it is all that the merge reads. A run
 * that finds journals goes on behind the last one.
 */
#ifndef SPSH_PACK_UNIT_H
#define SPSH_PACK_UNIT_H

#include "loudness.h"
#include "plan/pack_plan.h"

/** What the packed units amount to so far. Zero-initialise, begin; free with spsh__packed_free. */
typedef struct spsh__packed {
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh__level_counts levels;
    spsh__source_tally *tallies; /* by source of the plan */
    spsh_shard_seal *seals;      /* ascending (unit, number) */
    size_t seal_count, seal_capacity;
    char (*reject_files)[32]; /* names in the work directory, in order */
    size_t reject_file_count, reject_file_capacity;
    uint64_t decode_ns; /* this run's processor time in decoders, and the audio that they decoded */
    uint64_t decode_audio_ms;
} spsh__packed;

typedef struct spsh__unit_context {
    const spsh_pack_options *options;
    const spsh__plan *plan;
    const char *work_directory;
    const char *shard_directory;
} spsh__unit_context;

/** Make room for the plan's sources. false: no memory. */
bool spsh__packed_begin(spsh__packed *packed, const spsh__plan *plan);

/** Pack (or go on with, or only read the journals of) a unit and add what it gave to packed. */
spsh_status spsh__unit_pack(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err);

void spsh__packed_free(spsh__packed *packed);

#endif

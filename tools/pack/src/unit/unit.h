/* unit.h: pack one unit of the plan into shards.
 *
 * Each attempt to pack a unit has its own folder `unit-<u>.g<K>` in the work directory (claim.h).
 * Only the attempt's process writes there: sealed shards, and after each of them a journal
 * `unit-<u>.<n>`, which describes the shard, and records the counts, the next job, and the stored
 * audio. `unit-<u>.<n>.rejects` holds the reject lines since the previous journal. The last journal
 * has the flag `last`. A new attempt adopts the journals and shards of older ones and resumes after
 * the last journal. All attempts produce the same bytes.
 *
 * `unit-<u>.done` in the work directory is the unit's commit record: it names the attempt whose
 * folder the merge reads. The first attempt that publishes it wins.
 */
#ifndef SPSH_PACK_UNIT_H
#define SPSH_PACK_UNIT_H

#include "loudness.h"
#include "plan/pack_plan.h"

#define SPSH__REJECT_NAME_BYTES 96U

/** Sums over the packed units so far. Zero-initialize, then call spsh__packed_begin; free with
 * spsh__packed_free. */
typedef struct spsh__packed {
    spsh__pack_counts counts;
    spsh__reject_counts rejects;
    spsh__level_counts levels;
    spsh__source_tally *tallies; /* by source of the plan */
    spsh_shard_seal *seals;      /* sorted by (unit, number) */
    size_t seal_count, seal_capacity;
    char (*reject_files)[SPSH__REJECT_NAME_BYTES]; /* paths in the work directory, in order */
    size_t reject_file_count, reject_file_capacity;
    uint64_t decode_ns; /* this run's processor time of decoding, and the length of that audio */
    uint64_t decode_audio_ms;
    uint64_t other_items; /* items and source bytes of units that other runs packed, for progress */
    uint64_t other_bytes;
    uint64_t total_bytes; /* source bytes of the units that this run packs, and of other_bytes */
} spsh__packed;

/** An attempt to pack a unit. */
typedef struct spsh__unit_context {
    const spsh_pack_options *options;
    const spsh__plan *plan;
    const char *work_directory;
    const char *folder;    /* the attempt's folder in the work directory, */
    const char *directory; /* and its path */
} spsh__unit_context;

/** Allocate one tally per source of the plan. false: no memory. */
bool spsh__packed_begin(spsh__packed *packed, const spsh__plan *plan);

/** Append the path of a file of reject lines. false: no memory. */
bool spsh__packed_add_rejects(spsh__packed *packed, const char *folder, const char *name);

/** Pack a unit, or resume it after the last journal in the folder. Adds to packed. */
spsh_status spsh__unit_pack(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err);

/** Load the journals of a unit that is done and add them to packed. SPSH_E_CORRUPT if a journal is
 * damaged or missing. */
spsh_status spsh__unit_load(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err);

void spsh__packed_free(spsh__packed *packed);

#endif

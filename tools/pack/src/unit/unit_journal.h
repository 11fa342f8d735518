/* unit_journal.h: the state that is stored after each sealed shard of a unit. */
#ifndef SPSH_PACK_UNIT_JOURNAL_H
#define SPSH_PACK_UNIT_JOURNAL_H

#include "common/stored_table.h"
#include "unit.h"

/** State of a unit after its last sealed shard. */
typedef struct spsh__unit_state {
    uint64_t unit;
    uint32_t part;         /* number of the next journal */
    uint32_t shard_number; /* number of the next shard */
    uint64_t next_job;
    uint64_t next_record; /* number in the unit */
    uint64_t next_utterance;
    bool last;                /* the unit is finished */
    spsh__pack_counts counts; /* counts since the last journal */
    spsh__reject_counts rejects;
    spsh__level_counts levels;
    spsh__source_tally *tallies; /* by source of the plan */
    spsh__builder reject_lines;
    spsh__stored stored;   /* stored audio of the whole unit */
    size_t stored_written; /* number of entries in earlier journals */
} spsh__unit_state;

/** Publish the journal and the reject lines of a sealed shard, then reset the counts. seal NULL:
 * only reject lines, no shard. */
spsh_status spsh__unit_journal_write(const spsh__unit_context *context, spsh__unit_state *state,
                                     const spsh_shard_seal *seal, spsh__packed *packed,
                                     spsh_error *err);

/** Write the name of a file of a unit. suffix: "" for journal number `part`, or ".rejects". */
void spsh__unit_file_name(uint64_t unit, uint32_t part, const char *suffix, char dst[32]);

/** Load all journals in the attempt's folder, in order, into state and packed. Stops at the first
 * one that is missing. */
spsh_status spsh__unit_journal_resume(const spsh__unit_context *context, spsh__unit_state *state,
                                      spsh__packed *packed, spsh_error *err);

/** Files that belong to one journal, and whether it is the unit's last one. */
typedef struct spsh__unit_summary {
    bool has_shard;
    uint32_t shard_number; /* if has_shard */
    bool has_rejects;
    bool is_last;
} spsh__unit_summary;

/** Check a journal of this plan and summarize it. Any code of spsh__journal_read; SPSH_E_CORRUPT. */
spsh_status spsh__unit_journal_peek(const spsh__unit_context *context, const char *path,
                                    uint64_t unit, uint32_t part, spsh__unit_summary *ret_summary);

/**
 * Link the journals and shards of older attempts into the folder of a new one, as far as they are
 * intact and the file system has hard links. The rest is packed again.
 *
 * @param generation  of the new attempt
 * @param ret_count   number of adopted journals
 */
spsh_status spsh__unit_adopt(const spsh__unit_context *context, uint64_t unit, uint32_t generation,
                             uint32_t *ret_count, spsh_error *err);

/**
 * Publish the commit record of a unit, unless another attempt has published one.
 *
 * @param generation  of this attempt
 * @param ret_won     false: another attempt was first
 */
spsh_status spsh__unit_done_publish(const spsh__unit_context *context, uint64_t unit,
                                    uint32_t generation, bool *ret_won, spsh_error *err);

/** Load a commit record. SPSH_E_NOT_FOUND: the unit is not done; SPSH_E_CORRUPT: the record is
 * damaged or belongs to another plan. */
spsh_status spsh__unit_done_load(const spsh_io *io, const char *work_directory,
                                 const spsh__plan *plan, uint64_t unit, uint32_t *ret_generation,
                                 spsh_error *err);

/** Files that say that all units of a share are done: SHARE_PREFIX, then I-of-N.done. They only save
 * looks at commit records. */
#define SPSH__SHARE_PREFIX "unit-share-"

/** Record that units share, share + count, share + 2 * count, ... are done. Ignores failures. */
void spsh__share_done_publish(const spsh_io *io, const char *work_directory, const spsh__plan *plan,
                              uint32_t share, uint32_t count);
/** Whether that is recorded for this plan. */
bool spsh__share_done_load(const spsh_io *io, const char *work_directory, const spsh__plan *plan,
                           uint32_t share, uint32_t count);

#endif

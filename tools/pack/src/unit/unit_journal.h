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

/** Load all journals of a unit, in order, into state and packed. */
spsh_status spsh__unit_journal_resume(const spsh__unit_context *context, spsh__unit_state *state,
                                      spsh__packed *packed, spsh_error *err);

#endif

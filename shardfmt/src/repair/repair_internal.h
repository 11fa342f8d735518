/* repair_internal.h: declarations shared by the two ways of repairing a shard.
 *
 * repair.c identifies the shard and its intact parts. If all blocks are intact, repair_rebuild.c
 * writes the same file again. Otherwise repair_salvage.c copies the intact parts to a new one.
 */
#ifndef SPSH_REPAIR_INTERNAL_H
#define SPSH_REPAIR_INTERNAL_H

#include "base/buffer.h"
#include "format/container.h"
#include "format/metadata_block.h"
#include "format/salvage.h"
#include "format/shard_index.h"
#include "speechshard/verify.h"

struct spsh_repair_unit {
    spsh_allocator allocator;
    spsh__buffer map;    /* u64 per old record of the unit: new number, or SPSH_NONE_U64 */
    uint64_t utterances; /* utterances of the earlier shards, before repair */
    uint64_t new_records, new_utterances; /* totals of the earlier shards, as written */
};

/* Return whether a number in the unit has changed: then later shards must be rewritten too. */
bool spsh__repair_unit_changed(const spsh_repair_unit *unit);

/* An intact block, in file order. */
typedef struct spsh__repair_block {
    uint64_t offset_bytes;
    spsh__block block;
} spsh__repair_block;

typedef struct spsh__repair {
    const spsh_allocator *allocator;
    const spsh_io *io;
    spsh_repair_options opt;
    spsh_repair_result result;
    const char *path, *directory;
    char name[32];      /* file name from unit and number */
    spsh__salvage file; /* fd -1: missing */
    uint64_t file_bytes;
    spsh__header header; /* header as read or derived */
    bool header_found;
    spsh__footer footer; /* valid if footer_found */
    bool footer_found;
    spsh__buffer blocks; /* spsh__repair_block elements */
    uint64_t block_count;
} spsh__repair;

spsh__repair_block spsh__repair_block_at(const spsh__repair *r, uint64_t n);
/* Read the whole of an intact block. The caller frees it. */
spsh_status spsh__repair_block_load(const spsh__repair *r, const spsh__repair_block *block,
                                    uint8_t **ret_data, spsh_error *err);

/* Report a lost part. id may be empty. */
spsh_status spsh__repair_lost(spsh__repair *r, const char *part, uint64_t offset_bytes,
                              spsh_bytes id, uint64_t utterances, const char *message,
                              spsh_error *err);

/* Write the file that header and blocks give. *ret_same: the file equals the sealed one, as far as
 * a footer or the manifest can prove; if false, nothing was written. */
spsh_status spsh__repair_rebuild(spsh__repair *r, bool *ret_same, spsh_error *err);

/* Write a new shard from the intact parts. */
spsh_status spsh__repair_salvage(spsh__repair *r, spsh_error *err);

#endif

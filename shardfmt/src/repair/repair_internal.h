/* repair_internal.h: what the two ways of repairing a shard share.
 *
 * repair.c finds out which shard it is and what of it is intact; when all blocks are, it writes
 * the same file again (repair_rebuild.c); else repair_salvage.c moves what is intact into a new
 * one.
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
    spsh__buffer map; /* u64 a record of the unit as it was: its new number, SPSH_NONE_U64: lost */
    uint64_t utterances;                  /* of the shards before, as they were */
    uint64_t new_records, new_utterances; /* of the shards before, as written */
};

/* Something is numbered otherwise than it was: later shards cannot stay as they are. */
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
    char name[32];      /* of the file, by unit and number */
    spsh__salvage file; /* fd -1: missing */
    uint64_t file_bytes;
    spsh__header header; /* as it was, found or derived */
    bool header_found;
    spsh__footer footer; /* when footer_found */
    bool footer_found;
    spsh__buffer blocks; /* spsh__repair_block */
    uint64_t block_count;
} spsh__repair;

spsh__repair_block spsh__repair_block_at(const spsh__repair *r, uint64_t n);
/* The whole of an intact block; the caller frees it. */
spsh_status spsh__repair_block_load(const spsh__repair *r, const spsh__repair_block *block,
                                    uint8_t **ret_data, spsh_error *err);

/* Report what is lost. id may be empty. */
spsh_status spsh__repair_lost(spsh__repair *r, const char *part, uint64_t offset_bytes,
                              spsh_bytes id, uint64_t utterances, const char *message,
                              spsh_error *err);

/* Write the file that header and blocks give. *ret_same: it is the one that was sealed, as far as a
 * footer or the manifest tells; false: nothing was written. */
spsh_status spsh__repair_rebuild(spsh__repair *r, bool *ret_same, spsh_error *err);

/* Write a new shard from what is intact. */
spsh_status spsh__repair_salvage(spsh__repair *r, spsh_error *err);

#endif

/* spill.h: a temporary file of 16-byte records, in blocks that are verified when they are read.
 *
 *     spsh__spill_open(io, directory, block_records, &spill, err);
 *     spsh__spill_write(spill, records, count, &block, err);     // count <= block_records
 *     spsh__spill_read(spill, block, records, count, err);       // capacity: block_records + 1
 *     spsh__spill_close(spill);
 *
 * The file is unlinked right after it is opened, so it disappears however the process ends. Block n
 * starts at byte n * (block_records + 1) * 16. Its records are followed by its number and the XXH3
 * hash of the records. So a flipped bit, or a block that was written at a wrong offset, gives
 * SPSH_E_CORRUPT. Integers have the byte order of the machine: no other process reads the file.
 */
#ifndef SPSH_DEDUP_SPILL_H
#define SPSH_DEDUP_SPILL_H

#include "sort128.h"

typedef struct spsh__spill spsh__spill;

spsh_status spsh__spill_open(const spsh_io *io, const char *directory, size_t block_records,
                             spsh__spill **ret_spill, spsh_error *err);
/* Any thread may call the next three functions. */
spsh_status spsh__spill_write(spsh__spill *spill, const spsh__u128 *records, size_t count,
                              uint64_t *ret_block, spsh_error *err);
spsh_status spsh__spill_read(spsh__spill *spill, uint64_t block, spsh__u128 *records, size_t count,
                             spsh_error *err);
uint64_t spsh__spill_bytes(spsh__spill *spill);
/* Discard all blocks from `block` on, and free their disk space. */
spsh_status spsh__spill_cut(spsh__spill *spill, uint64_t block, spsh_error *err);
void spsh__spill_close(spsh__spill *spill);

#endif

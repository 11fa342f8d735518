/* spill.h: records of 16 bytes that wait on disk, in blocks that are checked when they come back.
 *
 *     spsh__spill_open(io, directory, block_records, &spill, err);
 *     spsh__spill_write(spill, records, count, &block, err);     // count <= block_records
 *     spsh__spill_read(spill, block, records, count, err);       // room for block_records + 1
 *     spsh__spill_close(spill);
 *
 * The file has a name for a moment only, so nothing is left behind however the process ends. Block
 * n starts at n * (block_records + 1) * 16; behind its records are its number and their XXH3: a bit
 * that the disk turns over, or a block that went to another's place, is SPSH_E_CORRUPT. Numbers are
 * in the machine's own order: nobody else reads the file.
 */
#ifndef SPSH_DEDUP_SPILL_H
#define SPSH_DEDUP_SPILL_H

#include "sort128.h"

typedef struct spsh__spill spsh__spill;

spsh_status spsh__spill_open(const spsh_io *io, const char *directory, size_t block_records,
                             spsh__spill **ret_spill, spsh_error *err);
/* All three from any thread. */
spsh_status spsh__spill_write(spsh__spill *spill, const spsh__u128 *records, size_t count,
                              uint64_t *ret_block, spsh_error *err);
spsh_status spsh__spill_read(spsh__spill *spill, uint64_t block, spsh__u128 *records, size_t count,
                             spsh_error *err);
uint64_t spsh__spill_bytes(spsh__spill *spill);
/* Forgets the blocks from `block` on and gives their space back. */
spsh_status spsh__spill_cut(spsh__spill *spill, uint64_t block, spsh_error *err);
void spsh__spill_close(spsh__spill *spill);

#endif

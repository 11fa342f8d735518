/* salvage.h: find blocks and records by their own headers, if nothing else gives their offsets.
 * Checksums are seeded with file id and offset, so a match proves that it was written here. */
#ifndef SPSH_SALVAGE_H
#define SPSH_SALVAGE_H

#include "block.h"
#include "record.h"
#include "speechshard/io.h"

/* A shard file whose identity is known. All pointers are borrowed. */
typedef struct spsh__salvage {
    const spsh_io *io;
    const spsh_allocator *allocator;
    int fd;
    const char *path;
    const uint8_t *file_id;
    uint64_t end_bytes; /* upper bound of the blocks' end */
} spsh__salvage;

/* A block whose checksum is right. data is the whole block; the caller owns it and frees it with
 * the allocator. */
typedef struct spsh__salvaged_block {
    uint64_t offset_bytes;
    spsh__block block;
    uint8_t *data;
} spsh__salvaged_block;

/* Find the first intact block at or after offset_bytes (a multiple of 4096); SPSH_E_END: not
 * found. */
spsh_status spsh__salvage_block(const spsh__salvage *file, uint64_t offset_bytes,
                                spsh__salvaged_block *ret_block, spsh_error *err);

/* Read size_bytes. Pages that cannot be read become zeros. The caller frees *ret_data. */
spsh_status spsh__salvage_bytes(const spsh__salvage *file, uint64_t offset_bytes, size_t size_bytes,
                                uint8_t **ret_data, spsh_error *err);

/* Find the first intact record head at or after position `at` of data, which begins at offset_bytes
 * of the file. `at` and offset_bytes are multiples of 64. Returns whether it was found. */
bool spsh__salvage_head(const uint8_t file_id[16], uint64_t offset_bytes, spsh_bytes data,
                        size_t at, size_t *ret_at, spsh__record_head *ret_head);

#endif

/* salvage.h: find blocks and records by what they say of themselves, when nothing else tells where
 * they lie. Checksums are seeded with file and place, so what is found was written here. */
#ifndef SPSH_SALVAGE_H
#define SPSH_SALVAGE_H

#include "block.h"
#include "record.h"
#include "speechshard/io.h"

/* A shard file whose identity is known. Everything is borrowed. */
typedef struct spsh__salvage {
    const spsh_io *io;
    const spsh_allocator *allocator;
    int fd;
    const char *path;
    const uint8_t *file_id;
    uint64_t end_bytes; /* blocks end here at the latest */
} spsh__salvage;

/* A block whose checksum is right. data is the whole of it, from the allocator, owned by the
 * caller. */
typedef struct spsh__salvaged_block {
    uint64_t offset_bytes;
    spsh__block block;
    uint8_t *data;
} spsh__salvaged_block;

/* The first intact block at or behind offset_bytes (a multiple of 4096); SPSH_E_END without one. */
spsh_status spsh__salvage_block(const spsh__salvage *file, uint64_t offset_bytes,
                                spsh__salvaged_block *ret_block, spsh_error *err);

/* Read size_bytes; what cannot be read, a page at a time, is zero. *ret_data is the caller's. */
spsh_status spsh__salvage_bytes(const spsh__salvage *file, uint64_t offset_bytes, size_t size_bytes,
                                uint8_t **ret_data, spsh_error *err);

/* The first intact record head at or behind position `at` of data, which lies at offset_bytes of
 * the file; `at` and offset_bytes are multiples of 64. false: there is none. */
bool spsh__salvage_head(const uint8_t file_id[16], uint64_t offset_bytes, spsh_bytes data,
                        size_t at, size_t *ret_at, spsh__record_head *ret_head);

#endif

/* block.h: the 64-byte header of every block of a shard (FORMAT.md 3.1). */
#ifndef SPSH_BLOCK_H
#define SPSH_BLOCK_H

#include <stdbool.h>

#include "base/base_internal.h"

#define SPSH__BLOCK_HEADER_BYTES UINT32_C(64)
#define SPSH__BLOCK_OVERSIZE     UINT32_C(1)
/* Largest record plus this header, in pages. */
#define SPSH__BLOCK_OVERSIZE_BYTES_MAX ((UINT64_C(2) << 30) + UINT64_C(4096))

typedef enum spsh__block_kind {
    SPSH__BLOCK_RECORDS = 1,
    SPSH__BLOCK_METADATA = 2,
} spsh__block_kind;

typedef struct spsh__block {
    uint64_t checksum;
    uint32_t kind;
    uint64_t block_bytes;
    uint64_t used_bytes;
    uint64_t first; /* first record or utterance; number within the shard */
    uint32_t count;
    uint32_t flags;
    uint64_t ordinal;
} spsh__block;

/* Whether reserved bytes or padding of a file are zeros. */
bool spsh__all_zero(const uint8_t *bytes, size_t size_bytes);

/* header has SPSH__BLOCK_HEADER_BYTES. */
void spsh__block_header_encode(const spsh__block *block, uint8_t *header);

/* Check every rule of FORMAT.md 3.1 that needs only the header; not the checksum. offset_bytes:
 * offset of the block. */
spsh_status spsh__block_header_decode(const uint8_t *header, uint64_t offset_bytes,
                                      const char *path, spsh__block *ret_block, spsh_error *err);

/* Compute the checksum of a whole block with its header, store it in data, and return it. */
uint64_t spsh__block_seal(const uint8_t file_id[16], uint64_t offset_bytes, uint8_t *data,
                          size_t block_bytes);

/* Check the whole block that `block` was decoded from: its checksum, and zeros from used_bytes on.
 */
spsh_status spsh__block_check(const uint8_t file_id[16], uint64_t offset_bytes, const uint8_t *data,
                              const spsh__block *block, const char *path, spsh_error *err);

#endif

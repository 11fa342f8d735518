/* checksum.h: the two hashes of the format (FORMAT.md 2.1), over xxHash. Only checksum.c includes
 * xxHash. */
#ifndef SPSH_CHECKSUM_H
#define SPSH_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* XXH3-64 seeded with file id and offset: the checksum of every structure. */
uint64_t spsh__checksum(const uint8_t file_id[16], uint64_t offset_bytes, const void *data,
                        size_t size_bytes);

/* spsh__checksum of data followed by zeros. */
uint64_t spsh__checksum_padded(const uint8_t file_id[16], uint64_t offset_bytes, const void *data,
                               size_t size_bytes, size_t zero_bytes);

/* XXH3-64, seed 0: id_hash. */
uint64_t spsh__hash64(const void *data, size_t size_bytes);

/* XXH3-128, seed 0, canonical form: file ids, payload and PCM hashes, overlay keys. */
void spsh__hash128(const void *data, size_t size_bytes, uint8_t ret_hash[16]);

/* Streaming forms. spsh__hasher_new allocates the state. */
typedef struct spsh__hasher spsh__hasher;
struct spsh_allocator;
spsh__hasher *spsh__hasher_new(const struct spsh_allocator *allocator); /* NULL: no memory */
void spsh__hasher_free(spsh__hasher *hasher);
void spsh__hasher_reset128(spsh__hasher *hasher);
void spsh__hasher_reset_checksum(spsh__hasher *hasher, const uint8_t file_id[16],
                                 uint64_t offset_bytes);
void spsh__hasher_update(spsh__hasher *hasher, const void *data, size_t size_bytes);
void spsh__hasher_digest128(const spsh__hasher *hasher, uint8_t ret_hash[16]);
uint64_t spsh__hasher_digest_checksum(const spsh__hasher *hasher);

#endif

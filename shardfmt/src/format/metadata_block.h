/* metadata_block.h: the rows of utterances as compressed columns (FORMAT.md 3.3). */
#ifndef SPSH_METADATA_BLOCK_H
#define SPSH_METADATA_BLOCK_H

#include "base/base_internal.h"
#include "speechshard/shard.h"

/* Row count that closes a block. Reading one utterance reads and unpacks its whole block, and 128
 * rows are 16 KiB on disk, little compared with its audio. */
#define SPSH__METADATA_ROWS  UINT32_C(128)
#define SPSH__METADATA_BYTES (UINT32_C(1) << 20) /* raw bytes that close a block */

/* Check every rule of FORMAT.md 3.3 that needs no record, and the limits, for an utterance from a
 * caller of the writer. SPSH_E_INVALID_ARG names the field; SPSH_E_LIMIT. */
spsh_status spsh__utterance_check_fields(const spsh_utterance *utterance, spsh_error *err);

/* ---- writing ---- */

typedef struct spsh__metadata_builder spsh__metadata_builder;
spsh__metadata_builder *
spsh__metadata_builder_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__metadata_builder_free(spsh__metadata_builder *builder);
/* Add a row. Strings are copied. After SPSH_E_NO_MEMORY the builder can only be freed. */
spsh_status spsh__metadata_builder_add(spsh__metadata_builder *builder,
                                       const spsh_utterance *utterance, spsh_error *err);
uint32_t spsh__metadata_builder_rows(const spsh__metadata_builder *builder);
uint64_t spsh__metadata_builder_raw_bytes(const spsh__metadata_builder *builder);
/* Return an upper bound of *ret_used_bytes below. */
uint64_t spsh__metadata_builder_bound(const spsh__metadata_builder *builder);
/* Write the content after block's header (bytes 64 ... *ret_used_bytes) and empty the builder. */
spsh_status spsh__metadata_builder_encode(spsh__metadata_builder *builder, uint8_t *block,
                                          size_t capacity_bytes, size_t *ret_used_bytes,
                                          spsh_error *err);

/* ---- reading ---- */

/* One decompressed block; can be loaded repeatedly. */
typedef struct spsh__metadata spsh__metadata;
spsh__metadata *spsh__metadata_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__metadata_free(spsh__metadata *metadata);
/* Unpack a block that spsh__block_check accepted: kind metadata, used_bytes, count rows. The block
 * is not needed afterwards. offset_bytes: offset of the block, for messages. A failure discards the
 * rows. Rows are not checked: check each before using it. */
spsh_status spsh__metadata_unpack(spsh__metadata *metadata, const uint8_t *block,
                                  uint64_t used_bytes, uint32_t count, uint64_t offset_bytes,
                                  const char *path, spsh_error *err);
/* Return the name of a field that is invalid by itself, or NULL. */
const char *spsh__metadata_find_bad_field(const spsh_utterance *u);
/* Unpack, and check all rows. */
spsh_status spsh__metadata_load(spsh__metadata *metadata, const uint8_t *block, uint64_t used_bytes,
                                uint32_t count, uint64_t offset_bytes, const char *path,
                                spsh_error *err);
uint32_t spsh__metadata_rows(const spsh__metadata *metadata);
/* row < rows; strings are borrowed until the next load. */
void spsh__metadata_row(const spsh__metadata *metadata, uint32_t row,
                        spsh_utterance *ret_utterance);

#endif

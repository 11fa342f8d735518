/* metadata_block.h: the rows of utterances as compressed columns (FORMAT.md 3.3). */
#ifndef SPSH_METADATA_BLOCK_H
#define SPSH_METADATA_BLOCK_H

#include "base/base_internal.h"
#include "speechshard/shard.h"

/* A block is closed at this many rows: a look at one utterance reads and unpacks all of its block,
 * and 128 rows are 16 KiB on disk, little beside its audio. */
#define SPSH__METADATA_ROWS  UINT32_C(128)
#define SPSH__METADATA_BYTES (UINT32_C(1) << 20) /* or at this many raw bytes */

/* What a caller may hand to the writer: every rule of FORMAT.md 3.3 that needs no record, and the
 * limits. SPSH_E_INVALID_ARG names the field; SPSH_E_LIMIT. */
spsh_status spsh__utterance_check_fields(const spsh_utterance *utterance, spsh_error *err);

/* ---- writing ---- */

typedef struct spsh__metadata_builder spsh__metadata_builder;
spsh__metadata_builder *
spsh__metadata_builder_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__metadata_builder_free(spsh__metadata_builder *builder);
/* Strings are copied. On SPSH_E_NO_MEMORY the builder is of no more use. */
spsh_status spsh__metadata_builder_add(spsh__metadata_builder *builder,
                                       const spsh_utterance *utterance, spsh_error *err);
uint32_t spsh__metadata_builder_rows(const spsh__metadata_builder *builder);
uint64_t spsh__metadata_builder_raw_bytes(const spsh__metadata_builder *builder);
/* An upper bound of ret_used_bytes below. */
uint64_t spsh__metadata_builder_bound(const spsh__metadata_builder *builder);
/* Write the content behind block's header (bytes 64 ... *ret_used_bytes) and empty the builder. */
spsh_status spsh__metadata_builder_encode(spsh__metadata_builder *builder, uint8_t *block,
                                          size_t capacity_bytes, size_t *ret_used_bytes,
                                          spsh_error *err);

/* ---- reading ---- */

/* One decompressed block; can be loaded again and again. */
typedef struct spsh__metadata spsh__metadata;
spsh__metadata *spsh__metadata_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__metadata_free(spsh__metadata *metadata);
/* block: checked by spsh__block_check, kind metadata, of used_bytes and count rows; not needed
 * afterwards. offset_bytes: of the block, for messages. After a failure the rows are gone. Rows are
 * as written: each must be checked before it is used. */
spsh_status spsh__metadata_unpack(spsh__metadata *metadata, const uint8_t *block,
                                  uint64_t used_bytes, uint32_t count, uint64_t offset_bytes,
                                  const char *path, spsh_error *err);
/* What is wrong with an utterance by itself, or NULL. */
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

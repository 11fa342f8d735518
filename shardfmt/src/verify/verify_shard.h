/* verify_shard.h: declarations shared by the parts of a shard's check (listed in
 * verify_internal.h).
 */
#ifndef SPSH_VERIFY_SHARD_H
#define SPSH_VERIFY_SHARD_H

#include "base/buffer.h"
#include "format/block.h"
#include "format/metadata_block.h"
#include "format/salvage.h"
#include "format/shard_index.h"
#include "verify_internal.h"

/* A block in progress: read, checked by a worker, taken in order. */
typedef struct spsh__block_task {
    uint64_t offset_bytes;
    size_t block_bytes;
    const uint8_t *data; /* the whole block: borrowed from the engine, or heap */
    spsh_read_completion lent;
    uint8_t *heap; /* memory of a block that is read in parts */
    size_t arrived_bytes;
    bool readable;
    /* Findings of the worker. */
    spsh_status status; /* status of the block as a whole */
    spsh_error why;
    spsh__block block;     /* valid if status is SPSH_OK */
    spsh__buffer findings; /* spsh__audio_finding elements, when decoding */
} spsh__block_task;

/* A record of an intact block that contradicts its head. */
typedef struct spsh__audio_finding {
    uint64_t ordinal;
    uint64_t offset_bytes, size_bytes;
    spsh_bytes id; /* id, in the block */
    const char *part;
    spsh_error why;
} spsh__audio_finding;

/* Utterances that need a record. */
typedef struct spsh__record_uses {
    uint32_t utterances; /* count in the dataset, as far as its index can be read; else in the
                            shard */
    uint32_t first_row;  /* first row of this shard, or SPSH_NONE_U32 */
} spsh__record_uses;

typedef struct spsh__shard_check {
    spsh__verify *v;
    spsh__verify_file *file;
    spsh__salvage scan;     /* for rereading damaged regions; fd is -1 until then */
    uint64_t end_bytes;     /* end of the blocks */
    const uint8_t *offsets; /* one u64 per block, in the file's section area; NULL: unknown */
    uint64_t block_count;
    /* Counts of the blocks, records, and rows taken so far, in order. */
    uint64_t ordinal, records, rows;
    bool whole; /* every block so far was intact and at its offset */
    spsh__shard_index *rebuilt;
    spsh__metadata *metadata;
    spsh__record_uses *uses; /* per record; NULL until damage is found */
    uint64_t use_count;
} spsh__shard_check;

/* Get the elements of a section of file->area. Returns false if no section has that width. */
bool spsh__verify_section(const spsh__verify_file *file, uint32_t id, uint32_t element_bytes,
                          const uint8_t **ret_elements, uint64_t *ret_count);

/* Worker (spsh__worker_fn): check the block's checksum and, with SPSH_VERIFY_DECODE, its audio. */
void spsh__verify_block_work(void *check_opaque, uint32_t worker, void *task_opaque);
/* Check the block's position and structure, and add its records and rows to the rebuilt index.
 * Called in file order. */
spsh_status spsh__verify_block_take(spsh__shard_check *check, spsh__block_task *task,
                                    spsh_error *err);

/* Find the records or rows hit by the damage in [offset, offset + size). data holds the bytes that
 * could be read. why: error of the check of the whole block. */
spsh_status spsh__verify_block_damage(spsh__shard_check *check, uint64_t offset_bytes,
                                      spsh_bytes data, const spsh_error *why, spsh_error *err);
/* Report a damaged record, with the utterances that it costs. */
spsh_status spsh__verify_record_damage(spsh__shard_check *check, const spsh__audio_finding *finding,
                                       spsh_error *err);

/* Compare the index that the blocks give with the stored one. Call only if every block was intact.
 */
spsh_status spsh__verify_rebuilt(spsh__shard_check *check, spsh_error *err);

#endif

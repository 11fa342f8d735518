/* verify_shard.h: what the parts of a shard's check share (verify_internal.h says which they are).
 */
#ifndef SPSH_VERIFY_SHARD_H
#define SPSH_VERIFY_SHARD_H

#include "base/buffer.h"
#include "format/block.h"
#include "format/metadata_block.h"
#include "format/salvage.h"
#include "format/shard_index.h"
#include "verify_internal.h"

/* A block on its way: read, checked by a worker, taken in order. */
typedef struct spsh__block_task {
    uint64_t offset_bytes;
    size_t block_bytes;
    const uint8_t *data; /* the whole block: lent by the engine, or heap */
    spsh_read_completion lent;
    uint8_t *heap; /* blocks that are read in parts */
    size_t arrived_bytes;
    bool readable;
    /* What the worker found. */
    spsh_status status; /* of the block as a whole */
    spsh_error why;
    spsh__block block;     /* when status is SPSH_OK */
    spsh__buffer findings; /* spsh__audio_finding, when decoding */
} spsh__block_task;

/* A record of an intact block that is not what its head says. */
typedef struct spsh__audio_finding {
    uint64_t ordinal;
    uint64_t offset_bytes, size_bytes;
    spsh_bytes id; /* in the block */
    const char *part;
    spsh_error why;
} spsh__audio_finding;

/* Who needs a record. */
typedef struct spsh__record_uses {
    uint32_t utterances; /* of the dataset, as far as its index can be read; else of the shard */
    uint32_t first_row;  /* of this shard; SPSH_NONE_U32 */
} spsh__record_uses;

typedef struct spsh__shard_check {
    spsh__verify *v;
    spsh__verify_file *file;
    spsh__salvage scan;     /* for reading damaged places again; fd is -1 until it is needed */
    uint64_t end_bytes;     /* where the blocks end */
    const uint8_t *offsets; /* u64 a block, in the file's section area; NULL: not known */
    uint64_t block_count;
    /* What has passed by, in order. */
    uint64_t ordinal, records, rows;
    bool whole; /* every block so far was intact and in its place */
    spsh__shard_index *rebuilt;
    spsh__metadata *metadata;
    spsh__record_uses *uses; /* by record; NULL until there is damage */
    uint64_t use_count;
} spsh__shard_check;

/* Elements of a section of file->area; false when it is not there with that width. */
bool spsh__verify_section(const spsh__verify_file *file, uint32_t id, uint32_t element_bytes,
                          const uint8_t **ret_elements, uint64_t *ret_count);

/* Worker (spsh__worker_fn): the block's checksum and, with SPSH_VERIFY_DECODE, its audio. */
void spsh__verify_block_work(void *check_opaque, uint32_t worker, void *task_opaque);
/* In order: the block's place and structure; its records and rows go into the rebuilt index. */
spsh_status spsh__verify_block_take(spsh__shard_check *check, spsh__block_task *task,
                                    spsh_error *err);

/* Which records or rows does the damage in [offset, offset + size) hit? data holds what could be
 * read of it; why is what the check of the whole said. */
spsh_status spsh__verify_block_damage(spsh__shard_check *check, uint64_t offset_bytes,
                                      spsh_bytes data, const spsh_error *why, spsh_error *err);
/* A record, with the utterances that it costs. */
spsh_status spsh__verify_record_damage(spsh__shard_check *check, const spsh__audio_finding *finding,
                                       spsh_error *err);

/* Does the index that the blocks give equal the stored one? When every block was intact. */
spsh_status spsh__verify_rebuilt(spsh__shard_check *check, spsh_error *err);

#endif

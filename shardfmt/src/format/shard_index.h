/* shard_index.h: the index sections of a shard (FORMAT.md 3.4), collected block by block.
 *
 * The writer adds the blocks that it writes, repair the blocks that it finds. Both get the same
 * bytes.
 */
#ifndef SPSH_SHARD_INDEX_H
#define SPSH_SHARD_INDEX_H

#include "container.h"
#include "speechshard/shard.h"

/* Section ids. */
enum {
    SPSH__SHARD_RECORD_OFFSET = 1,
    SPSH__SHARD_RECORD_HEAD_BYTES = 2,
    SPSH__SHARD_RECORD_PAYLOAD_BYTES = 3,
    SPSH__SHARD_RECORD_SAMPLES = 4,
    SPSH__SHARD_RECORD_SAMPLE_RATE_HZ = 5,
    SPSH__SHARD_RECORD_NOMINAL_RATE_HZ = 6,
    SPSH__SHARD_RECORD_CHANNELS = 7,
    SPSH__SHARD_RECORD_CODEC = 8,
    SPSH__SHARD_RECORD_SAMPLE_FORMAT = 9,
    SPSH__SHARD_RECORD_BITS_PER_SAMPLE = 10,
    SPSH__SHARD_RECORD_FLAGS = 11,
    SPSH__SHARD_RECORD_PCM_HASH = 12,
    SPSH__SHARD_RECORD_PAYLOAD_HASH = 13,
    SPSH__SHARD_ID_HASH = 32,
    SPSH__SHARD_BY_ID = 33,
    SPSH__SHARD_RECORD = 34,
    SPSH__SHARD_START_SAMPLE = 35,
    SPSH__SHARD_SAMPLES = 36,
    SPSH__SHARD_FLAGS = 37,
    SPSH__SHARD_DOMAIN = 38,
    SPSH__SHARD_SPLIT = 39,
    SPSH__SHARD_SPEAKER = 40,
    SPSH__SHARD_LANGUAGE = 41,
    SPSH__SHARD_DOCUMENT = 42,
    SPSH__SHARD_TEXT_BYTES = 43,
    SPSH__SHARD_METADATA_OFFSET = 64,
    SPSH__SHARD_METADATA_FIRST_ROW = 65,
    SPSH__SHARD_NAMES = 80, /* ends of kind k at 80 + 2 k, their bytes at 81 + 2 k */
    SPSH__SHARD_BLOCK_OFFSET = 96,
};

typedef struct spsh__shard_column {
    uint32_t id; /* section id */
    uint32_t element_bytes;
} spsh__shard_column;

/* Columns with one element per record, and columns with one element per row, of which by_id is the
 * last. */
#define SPSH__SHARD_RECORD_COLUMNS 13
#define SPSH__SHARD_ROW_COLUMNS    12
extern const spsh__shard_column spsh__shard_record_columns[SPSH__SHARD_RECORD_COLUMNS];
extern const spsh__shard_column spsh__shard_row_columns[SPSH__SHARD_ROW_COLUMNS];

/* XXH3-128 of dataset_id, unit and number: the file_id of a shard. */
void spsh__shard_file_id(const uint8_t dataset_id[16], uint64_t unit, uint64_t number,
                         uint8_t ret_file_id[16]);

typedef struct spsh__shard_index spsh__shard_index;
spsh__shard_index *spsh__shard_index_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__shard_index_free(spsh__shard_index *index);

/* Add a block, in file order. SPSH_E_NO_MEMORY or SPSH_E_LIMIT; after an error only free is
 * allowed. */
spsh_status spsh__shard_index_add_block(spsh__shard_index *index, uint64_t offset_bytes,
                                        uint64_t checksum, spsh_error *err);
spsh_status spsh__shard_index_add_metadata_block(spsh__shard_index *index, uint64_t offset_bytes,
                                                 uint32_t first_row, spsh_error *err);
/* record must have both hashes. Its id and seek points are not used. */
spsh_status spsh__shard_index_add_record(spsh__shard_index *index, uint64_t offset_bytes,
                                         uint32_t head_bytes, const spsh_record *record,
                                         spsh_error *err);
/* Add a row, in row order. */
spsh_status spsh__shard_index_add_row(spsh__shard_index *index, const spsh_utterance *utterance,
                                      spsh_error *err);

uint64_t spsh__shard_index_records(const spsh__shard_index *index);
uint64_t spsh__shard_index_rows(const spsh__shard_index *index);
uint64_t spsh__shard_index_blocks(const spsh__shard_index *index);
/* Return the sample count of a record that was added. */
uint64_t spsh__shard_index_record_samples(const spsh__shard_index *index, uint64_t record);
/* Return about how many bytes write will append. */
uint64_t spsh__shard_index_bytes(const spsh__shard_index *index);

/* Append sections, page table and footers to a file that holds header and blocks. */
spsh_status spsh__shard_index_write(const spsh__shard_index *index, spsh_file_writer *file,
                                    const spsh__header *header, spsh__footer *ret_footer,
                                    spsh_error *err);

#endif

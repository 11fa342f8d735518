/* segment_columns.h: columns of a segment, numbered as in FORMAT.md 8, for its writer and its
 * reader. */
#ifndef SPSH_DEDUP_SEGMENT_COLUMNS_H
#define SPSH_DEDUP_SEGMENT_COLUMNS_H

#include "segment.h"
#include "speechshard/inside.h"
#include "speechshard/table_file.h"

/* name, id, bytes per element, number of elements (spsh__segment_per) */
#define SPSH__SEGMENT_COLUMN_MAP(X)                                                                \
    X(SHARD, 1, 16, FILE)                                                                          \
    X(VERSIONS, 2, 4, FILE)                                                                        \
    X(ID_KEY, 32, 16, ROW)                                                                         \
    X(FLAGS, 33, 4, ROW)                                                                           \
    X(SAMPLE_RATE_HZ, 34, 4, ROW)                                                                  \
    X(CHANNELS, 35, 2, ROW)                                                                        \
    X(SAMPLES, 36, 8, ROW)                                                                         \
    X(PAYLOAD_HASH, 37, 16, ROW)                                                                   \
    X(PCM_FULL, 38, 16, ROW)                                                                       \
    X(PCM_TRIM, 39, 16, ROW)                                                                       \
    X(PCM_MONO, 40, 16, ROW)                                                                       \
    X(TRIM_FIRST, 41, 8, ROW)                                                                      \
    X(TRIM_COUNT, 42, 8, ROW)                                                                      \
    X(BANDWIDTH_HZ, 43, 4, ROW)                                                                    \
    X(CLIPPED_COUNT, 44, 4, ROW)                                                                   \
    X(PAYLOAD_BPS, 45, 4, ROW)                                                                     \
    X(ACTIVE_MS, 46, 4, ROW)                                                                       \
    X(PRINT_BEGIN, 47, 8, ROW_END)                                                                 \
    X(CHUNK_BEGIN, 48, 8, ROW_END)                                                                 \
    X(PRINT_ROW, 64, 4, PRINT)                                                                     \
    X(PRINT_CHANNEL, 65, 2, PRINT)                                                                 \
    X(FRAME_BEGIN, 66, 8, PRINT_END)                                                               \
    X(KEY_BEGIN, 67, 8, PRINT_END)                                                                 \
    X(WORDS, 80, 4, FRAME)                                                                         \
    X(LEVELS, 81, 1, FRAME)                                                                        \
    X(KEYS, 82, 16, KEY)                                                                           \
    X(CHUNKS, 83, 16, CHUNK)

/* Columns that store a member of spsh__segment_row unchanged: a number or a hash. */
#define SPSH__SEGMENT_MEMBER_MAP(X)                                                                \
    X(ID_KEY, id_key)                                                                              \
    X(FLAGS, flags)                                                                                \
    X(SAMPLE_RATE_HZ, sample_rate_hz)                                                              \
    X(CHANNELS, channels)                                                                          \
    X(SAMPLES, samples)                                                                            \
    X(PAYLOAD_HASH, payload_hash)                                                                  \
    X(PCM_FULL, pcm_full)                                                                          \
    X(PCM_TRIM, pcm_trim)                                                                          \
    X(PCM_MONO, pcm_mono)                                                                          \
    X(TRIM_FIRST, trim_first)                                                                      \
    X(TRIM_COUNT, trim_count)                                                                      \
    X(BANDWIDTH_HZ, bandwidth_hz)                                                                  \
    X(CLIPPED_COUNT, clipped_count)                                                                \
    X(PAYLOAD_BPS, payload_bps)                                                                    \
    X(ACTIVE_MS, active_ms)

/* Column indices, in the order of the column ids. */
typedef enum spsh__segment_column {
#define SPSH_X(name_, id_, bytes_, per_) SPSH__SEGMENT_##name_,
    SPSH__SEGMENT_COLUMN_MAP(SPSH_X)
#undef SPSH_X
        SPSH__SEGMENT_COLUMN_COUNT
} spsh__segment_column;

/* The unit of a column: it has one element per unit. ROW_END and PRINT_END have one additional
 * element, the end of the last range. */
typedef enum spsh__segment_per {
    SPSH__PER_FILE,
    SPSH__PER_ROW,
    SPSH__PER_ROW_END,
    SPSH__PER_PRINT,
    SPSH__PER_PRINT_END,
    SPSH__PER_FRAME,
    SPSH__PER_KEY,
    SPSH__PER_CHUNK,
} spsh__segment_per;

typedef struct spsh__segment_column_info {
    uint32_t id;
    uint32_t element_bytes;
    spsh__segment_per per;
} spsh__segment_column_info;

extern const spsh__segment_column_info spsh__segment_columns[SPSH__SEGMENT_COLUMN_COUNT];

enum {
    SPSH__SEGMENT_VERSIONS_COUNT = 2,
    SPSH__SEGMENT_CHUNK_BITS = 20,   /* bits of a chunk's sample count; its first sample has the
                                        other 44 */
    SPSH__SEGMENT_FRAME_SHIFT = 6,   /* bit position of a key's frame */
    SPSH__SEGMENT_ACTIVE_BIT = 0x80, /* flag bit of an active frame in its level */
    SPSH__SEGMENT_WEAK_BITS = 6,
};

/* Return the expected header->file_id of a segment. */
void spsh__segment_file_id(const spsh_dataset *dataset, const spsh_shard_seal *seal,
                           uint8_t ret_file_id[16]);

#endif

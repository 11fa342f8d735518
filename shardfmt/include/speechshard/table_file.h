/* table_file.h: columns with checksummed pages in a file of their own.
 *
 *     spsh_table_file_publish(&content, io, &err);              // all columns at once
 *     spsh_table_file_open(path, NULL, NULL, &file, &err);
 *     spsh_table_file_require(file, 32, 16, rows, &err);
 *     spsh_table_file_column(file, 32, first, count, &elements, &err);
 *     spsh_table_file_close(file);
 *
 * What belongs to nobody who only reads the audio is kept so: fingerprint segments beside shards
 * (FORMAT.md 8), checkpoints of trainers (FORMAT.md 10). The file is immutable; opening maps it and
 * looks at header, footer and directory, pages are checked when they are first touched.
 */
#ifndef SPEECHSHARD_TABLE_FILE_H
#define SPEECHSHARD_TABLE_FILE_H

#include "speechshard/base.h"
#include "speechshard/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Elements that lie in memory as the file has them: little-endian, one behind the other. */
typedef struct spsh_table_column {
    uint32_t id;
    uint32_t element_bytes; /* 1, 2, 4, 8 or 16 */
    uint64_t count;
    const void *elements; /* borrowed; may be NULL when count is 0 */
} spsh_table_column;

/** As headers have them. */
typedef enum spsh_table_kind {
    SPSH_TABLE_FINGERPRINT = 5,
    SPSH_TABLE_CHECKPOINT = 7,
} spsh_table_kind;

/** What header and footer say. */
typedef struct spsh_table_file_info {
    uint8_t file_id[16]; /* of this file: checksums are seeded with it */
    uint8_t dataset_id[16];
    uint64_t unit;      /* of the shard beside which it lies; checkpoint: samples seen */
    uint32_t number;    /* of the shard inside its unit; checkpoint: generation */
    uint32_t kind;      /* spsh_table_kind; 0 when writing: fingerprints */
    uint64_t row_count; /* utterances of the shard; checkpoint: 0 */
    uint8_t root_hash[16];
    uint64_t file_bytes;
} spsh_table_file_info;

/** A file to be written. Everything is borrowed during the call. */
typedef struct spsh_table_file_content {
    const char *directory;     /* exists */
    const char *name;          /* without a slash */
    spsh_table_file_info info; /* root_hash and file_bytes are not looked at */
    const spsh_table_column *columns;
    uint32_t column_count; /* ascending ids */
    spsh_publish_mode mode;
    const spsh_allocator *allocator; /* NULL: malloc and free */
} spsh_table_file_content;

/**
 * Write the file and publish it (io.h says how).
 *
 * @param io  NULL: the operating system
 * Space for all of it is reserved first, so that a full disk shows early.
 *
 * @return SPSH_OK, SPSH_E_INVALID_ARG (kind, ids, widths), _LIMIT, _EXISTS, _IO, _NO_SPACE or
 * _NO_MEMORY
 *
 * Thread-safe. Memory: 64 KiB a column, 8 bytes for each 64 KiB.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_publish(const spsh_table_file_content *content,
                                                            const spsh_io *io, spsh_error *err);

typedef struct spsh_table_file spsh_table_file;

/**
 * Open a fingerprint segment.
 *
 * @param io         NULL: the operating system; borrowed until close
 * @param allocator  NULL: malloc and free; copied
 * @return SPSH_OK, _NOT_FOUND, _NOT_SPEECHSHARD, _VERSION, _TRUNCATED, _CORRUPT, _MISMATCH (a file
 * of another kind), _LIMIT, _IO, _NO_MEMORY
 *
 * Keeps a mapping and no descriptor. Safe on hostile input. Everything below but close is
 * thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_open(const char *path, const spsh_io *io,
                                                         const spsh_allocator *allocator,
                                                         spsh_table_file **ret_file,
                                                         spsh_error *err);
/** The same of another kind: a spsh_table_kind, else SPSH_E_INVALID_ARG. */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_open_kind(const char *path, uint32_t kind,
                                                              const spsh_io *io,
                                                              const spsh_allocator *allocator,
                                                              spsh_table_file **ret_file,
                                                              spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_table_file_close(spsh_table_file *file);

SPSH_API const spsh_table_file_info *spsh_table_file_info_get(const spsh_table_file *file);
SPSH_API const char *spsh_table_file_path(const spsh_table_file *file);

/** Elements of a column; 0 when it is absent. */
SPSH_API uint64_t spsh_table_file_count(const spsh_table_file *file, uint32_t id);

/** SPSH_E_CORRUPT unless the column is there with that width and count (UINT64_MAX: any). */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_require(const spsh_table_file *file,
                                                            uint32_t id, uint32_t element_bytes,
                                                            uint64_t count, spsh_error *err);

/**
 * Elements [first, first + count) of a column.
 *
 * @param ret_elements  points into the mapping, valid until close; untouched on failure
 * @return SPSH_OK, or SPSH_E_CORRUPT: a damaged page, named with file and offset, or a range that
 * the column does not have
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_column(const spsh_table_file *file, uint32_t id,
                                                           uint64_t first, uint64_t count,
                                                           spsh_bytes *ret_elements,
                                                           spsh_error *err);

/** Every page against its checksum, and what must be zero. */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_check(const spsh_table_file *file,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif

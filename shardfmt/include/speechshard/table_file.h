/* table_file.h: a file of columns with checksummed pages.
 *
 *     spsh_table_file_publish(&content, io, &err);              // all columns at once
 *     spsh_table_file_open(path, NULL, NULL, &file, &err);
 *     spsh_table_file_require(file, 32, 16, rows, &err);
 *     spsh_table_file_column(file, 32, first, count, &elements, &err);
 *     spsh_table_file_close(file);
 *
 * Data that audio readers do not need is stored in such files: fingerprint segments next to shards
 * (FORMAT.md 8), and checkpoints of trainers (FORMAT.md 10). A table file is immutable. Opening
 * maps it and checks header, footer, and directory; each page is checked on its first use.
 */
#ifndef SPEECHSHARD_TABLE_FILE_H
#define SPEECHSHARD_TABLE_FILE_H

#include "speechshard/base.h"
#include "speechshard/io.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A column in memory, with the bytes of the file: contiguous little-endian elements. */
typedef struct spsh_table_column {
    uint32_t id;
    uint32_t element_bytes; /* 1, 2, 4, 8 or 16 */
    uint64_t count;
    const void *elements; /* borrowed; may be NULL when count is 0 */
} spsh_table_column;

/** Kind of a table file, as stored in its header. */
typedef enum spsh_table_kind {
    SPSH_TABLE_FINGERPRINT = 5,
    SPSH_TABLE_CHECKPOINT = 7,
} spsh_table_kind;

/** Contents of header and footer. */
typedef struct spsh_table_file_info {
    uint8_t file_id[16]; /* id of this file; it seeds the checksums */
    uint8_t dataset_id[16];
    uint64_t unit;      /* unit of its shard; checkpoint: utterances trained on */
    uint32_t number;    /* number of its shard in the unit; checkpoint: generation */
    uint32_t kind;      /* spsh_table_kind; 0 on writing: fingerprints */
    uint64_t row_count; /* number of utterances in the shard; checkpoint: 0 */
    uint8_t root_hash[16];
    uint64_t file_bytes;
} spsh_table_file_info;

/** Contents of a file to write. All pointers are borrowed during the call. */
typedef struct spsh_table_file_content {
    const char *directory;     /* must exist */
    const char *name;          /* without a slash */
    spsh_table_file_info info; /* root_hash and file_bytes are ignored */
    const spsh_table_column *columns;
    uint32_t column_count; /* ascending ids */
    spsh_publish_mode mode;
    const spsh_allocator *allocator; /* NULL: malloc and free */
} spsh_table_file_content;

/**
 * Write the file and publish it (see io.h). Reserves the space for the whole file first, so that a
 * full disk is detected early.
 *
 * @param io  NULL: the operating system
 * @return SPSH_OK, SPSH_E_INVALID_ARG (kind, ids, widths), _LIMIT, _EXISTS, _IO, _NO_SPACE or
 * _NO_MEMORY
 *
 * Thread-safe. Memory: 64 KiB per column, and 8 bytes per 64 KiB of data.
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
 * Keeps a mapping and no descriptor. Safe on hostile input. All functions below except close are
 * thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_open(const char *path, const spsh_io *io,
                                                         const spsh_allocator *allocator,
                                                         spsh_table_file **ret_file,
                                                         spsh_error *err);
/** Open a file of any kind. SPSH_E_INVALID_ARG if kind is not a spsh_table_kind. */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_open_kind(const char *path, uint32_t kind,
                                                              const spsh_io *io,
                                                              const spsh_allocator *allocator,
                                                              spsh_table_file **ret_file,
                                                              spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_table_file_close(spsh_table_file *file);

SPSH_API const spsh_table_file_info *spsh_table_file_info_get(const spsh_table_file *file);
SPSH_API const char *spsh_table_file_path(const spsh_table_file *file);

/** Number of elements in a column; 0 if it is absent. */
SPSH_API uint64_t spsh_table_file_count(const spsh_table_file *file, uint32_t id);

/** SPSH_E_CORRUPT unless the column exists with that width and count (UINT64_MAX: any count). */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_require(const spsh_table_file *file,
                                                            uint32_t id, uint32_t element_bytes,
                                                            uint64_t count, spsh_error *err);

/**
 * Return elements [first, first + count) of a column.
 *
 * @param ret_elements  points into the mapping, valid until close; untouched on failure
 * @return SPSH_OK, or SPSH_E_CORRUPT: a damaged page, named with file and offset, or a range that
 * the column does not have
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_column(const spsh_table_file *file, uint32_t id,
                                                           uint64_t first, uint64_t count,
                                                           spsh_bytes *ret_elements,
                                                           spsh_error *err);

/** Check the checksum of every page, and the bytes that must be zero. */
SPSH_API SPSH_NODISCARD spsh_status spsh_table_file_check(const spsh_table_file *file,
                                                          spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif

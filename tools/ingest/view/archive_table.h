/* archive_table.h: tables of an archive index. Each column is a file that grows and is then mapped.
 *
 *     members  in archive order: one record each; its name is in `names`
 *     folders  sorted by path: each has the index of its first entry; a sentinel marks the end
 *     entries  sorted by (folder, name): a member or a folder
 *     names    NUL-terminated member names and link targets
 *     paths    NUL-terminated folder paths and the last part of each path
 *
 * The files have no name, so they disappear when the process exits.
 */
#ifndef SPSH_INGEST_ARCHIVE_TABLE_H
#define SPSH_INGEST_ARCHIVE_TABLE_H

#include "common/byte_builder.h"
#include "speechshard/io.h"

typedef struct spsh__archive_column {
    const spsh_io *io;
    int fd; /* -1: not open */
    spsh__builder pending;
    uint64_t size_bytes; /* size including pending bytes */
    uint8_t *data;       /* mapped for reading; NULL before the mapping and if empty */
    uint64_t mapped_bytes;
} spsh__archive_column;

SPSH_NODISCARD spsh_status spsh__column_open(const spsh_io *io, const char *directory,
                                             spsh__archive_column *ret_column, spsh_error *err);
SPSH_NODISCARD spsh_status spsh__column_append(spsh__archive_column *column, const void *data,
                                               size_t size_bytes, spsh_error *err);

/* Map the bytes appended so far. Call again to map later appends. */
SPSH_NODISCARD spsh_status spsh__column_map(spsh__archive_column *column, spsh_error *err);

/* Close a column. A column that is all zero except fd -1 is valid, too. */
void spsh__column_close(spsh__archive_column *column);

/* Write all data and handle short writes. The message of SPSH_E_NO_SPACE names the file. */
SPSH_NODISCARD spsh_status spsh__archive_write(const spsh_io *io, int fd, const char *path,
                                               spsh_bytes data, uint64_t offset_bytes,
                                               spsh_error *err);

#define SPSH__NO_MEMBER UINT64_MAX

typedef enum spsh__member_kind {
    SPSH__MEMBER_PIECE,   /* bytes are in the archive or its unpacked spool file */
    SPSH__MEMBER_SPOOLED, /* bytes are in the archive's spool file */
    SPSH__MEMBER_LINK,    /* hard link; offset_bytes locates the target path in names */
    SPSH__MEMBER_SPECIAL,
    SPSH__MEMBER_FOLDER,
} spsh__member_kind;

typedef struct spsh__member_record {
    uint64_t name; /* offset in names */
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint32_t archive;
    uint32_t kind;
} spsh__member_record;

typedef struct spsh__entry_record {
    uint64_t member; /* SPSH__NO_MEMBER: a folder */
    uint64_t name;   /* offset in names; for a folder, in paths */
} spsh__entry_record;

typedef struct spsh__folder_record {
    uint64_t path; /* offset in paths */
    uint64_t first_entry;
} spsh__folder_record;

typedef struct spsh__archive_table {
    spsh__archive_column members, names, folders, entries, paths;
} spsh__archive_table;

SPSH_NODISCARD spsh_status spsh__archive_table_open(const spsh_io *io, const char *directory,
                                                    spsh__archive_table *table, spsh_error *err);
void spsh__archive_table_close(spsh__archive_table *table);

/* Return the string at an offset of names or paths. */
const char *spsh__column_text(const spsh__archive_column *column, uint64_t at);
spsh__member_record spsh__archive_table_member(const spsh__archive_table *table, uint64_t number);
spsh__entry_record spsh__archive_table_entry(const spsh__archive_table *table, uint64_t number);
const char *spsh__archive_table_name(const spsh__archive_table *table,
                                     const spsh__entry_record *entry);

/* Return the entry range of a folder, or the entry of a path. All columns must be mapped. */
bool spsh__archive_table_folder(const spsh__archive_table *table, const char *path,
                                size_t path_bytes, uint64_t *ret_first, uint64_t *ret_end);
bool spsh__archive_table_find(const spsh__archive_table *table, const char *path,
                              uint64_t *ret_entry);

#endif

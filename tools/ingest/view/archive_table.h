/* archive_table.h: what an index of archives keeps: columns on disk that grow and are then mapped.
 *
 *     members  in the order in which the archives have them: record, name in `names`
 *     folders  sorted by path; each with its first entry; one more marks the end
 *     entries  sorted by (folder, name): a member, or a folder
 *     names    member names and link targets, each with a NUL
 *     paths    paths of folders and their last parts, each with a NUL
 *
 * The files have no name: they go with the process.
 */
#ifndef SPSH_INGEST_ARCHIVE_TABLE_H
#define SPSH_INGEST_ARCHIVE_TABLE_H

#include "common/byte_builder.h"
#include "speechshard/io.h"

typedef struct spsh__archive_column {
    const spsh_io *io;
    int fd; /* -1: not open */
    spsh__builder pending;
    uint64_t size_bytes; /* with what is pending */
    uint8_t *data;       /* once it is mapped, for reading; NULL when it is empty */
    uint64_t mapped_bytes;
} spsh__archive_column;

SPSH_NODISCARD spsh_status spsh__column_open(const spsh_io *io, const char *directory,
                                             spsh__archive_column *ret_column, spsh_error *err);
SPSH_NODISCARD spsh_status spsh__column_append(spsh__archive_column *column, const void *data,
                                               size_t size_bytes, spsh_error *err);

/* Map what was appended so far; later appends are seen by the next call. */
SPSH_NODISCARD spsh_status spsh__column_map(spsh__archive_column *column, spsh_error *err);

/* A column that is all zero but fd -1 can be closed, too. */
void spsh__column_close(spsh__archive_column *column);

/* Write all of it, through short writes. SPSH_E_NO_SPACE says which file had no room. */
SPSH_NODISCARD spsh_status spsh__archive_write(const spsh_io *io, int fd, const char *path,
                                               spsh_bytes data, uint64_t offset_bytes,
                                               spsh_error *err);

#define SPSH__NO_MEMBER UINT64_MAX

typedef enum spsh__member_kind {
    SPSH__MEMBER_PIECE,   /* of the archive, or of what it was unpacked to */
    SPSH__MEMBER_SPOOLED, /* of the archive's spool file */
    SPSH__MEMBER_LINK,    /* hard: offset is that of the target in names */
    SPSH__MEMBER_SPECIAL,
    SPSH__MEMBER_FOLDER,
} spsh__member_kind;

typedef struct spsh__member_record {
    uint64_t name; /* in names */
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint32_t archive;
    uint32_t kind;
} spsh__member_record;

typedef struct spsh__entry_record {
    uint64_t member; /* or SPSH__NO_MEMBER: a folder */
    uint64_t name;   /* in names, or of a folder in paths */
} spsh__entry_record;

typedef struct spsh__folder_record {
    uint64_t path; /* in paths */
    uint64_t first_entry;
} spsh__folder_record;

typedef struct spsh__archive_table {
    spsh__archive_column members, names, folders, entries, paths;
} spsh__archive_table;

SPSH_NODISCARD spsh_status spsh__archive_table_open(const spsh_io *io, const char *directory,
                                                    spsh__archive_table *table, spsh_error *err);
void spsh__archive_table_close(spsh__archive_table *table);

/* Text in names or paths. */
const char *spsh__column_text(const spsh__archive_column *column, uint64_t at);
spsh__member_record spsh__archive_table_member(const spsh__archive_table *table, uint64_t number);
spsh__entry_record spsh__archive_table_entry(const spsh__archive_table *table, uint64_t number);
const char *spsh__archive_table_name(const spsh__archive_table *table,
                                     const spsh__entry_record *entry);

/* Once all columns are mapped. The entries of a folder; the entry of a path. */
bool spsh__archive_table_folder(const spsh__archive_table *table, const char *path,
                                size_t path_bytes, uint64_t *ret_first, uint64_t *ret_end);
bool spsh__archive_table_find(const spsh__archive_table *table, const char *path,
                              uint64_t *ret_entry);

#endif

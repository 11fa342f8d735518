/* archive_build.h: an archive index under construction: find the archives, unpack them, and read
 * their members in order. archive_index.c sorts the members.
 */
#ifndef SPSH_INGEST_ARCHIVE_BUILD_H
#define SPSH_INGEST_ARCHIVE_BUILD_H

#include "archive_file.h"
#include "archive_index.h"
#include "archive_table.h"
#include "speechshard/sorter.h"

typedef struct spsh__indexed_archive {
    char *path;          /* relative to the root; "" for the root itself */
    size_t folder_bytes; /* length of the folder part of path, without the '/' */
    char *data; /* file that contains the member pieces: the archive or its unpacked spool file */
    uint64_t data_bytes;
    char *spool; /* file of members that exist nowhere uncompressed, or NULL */
    uint64_t spool_bytes;
    uint64_t packed_bytes; /* size of the archive file */
    spsh__archive_kind kind;
    bool own_folder;
    bool is_listed; /* a layout listed the members in order and handles repeated ones itself */
    bool is_used;   /* a lookup or a listing returned one of its files */
    bool has_unlisted_problems; /* the list of held problems is full and more problems occurred */
    uint64_t first_member, member_count;
} spsh__indexed_archive;

/** A hard link whose target exists. */
typedef struct spsh__link_record {
    uint64_t member;
    uint64_t target; /* index of a member that is a file */
} spsh__link_record;

/** A problem that is reported only if its archive is used. */
typedef struct spsh__held_problem {
    size_t archive; /* index in archives */
    spsh__view_problem_kind kind;
    char *path;
    char *detail;
} spsh__held_problem;

typedef struct spsh__held_problems {
    spsh__held_problem *items;
    size_t count, capacity;
} spsh__held_problems;

struct spsh__archive_index {
    const spsh_io *io;
    bool used_only;                      /* see spsh__archive_index_options */
    spsh__held_problems held;            /* only if used_only */
    const spsh__view_observer *observer; /* only while the index is built */
    bool is_root;                        /* the root is an archive */
    spsh__indexed_archive *archives;     /* sorted by path */
    size_t archive_count, archive_capacity;
    uint64_t link_count;
    spsh__archive_table table;
    spsh__archive_column repeated; /* uint64_t each: members whose path a later member repeats */
    spsh__archive_column links;    /* spsh__link_record each, sorted by member */
};

void spsh__indexed_archive_clear(spsh__indexed_archive *archive);

/* Report a problem while the index is built, or hold it back. archive: position in index->archives,
 * or SIZE_MAX for a file that the index does not contain. If used_only is set, problems with
 * SIZE_MAX are dropped. */
SPSH_NODISCARD spsh_status spsh__archive_report(spsh__archive_index *index, size_t archive,
                                                const spsh__view_problem *problem, spsh_error *err);

/* Return the byte range of a member. Only for SPSH__MEMBER_PIECE and SPSH__MEMBER_SPOOLED. */
void spsh__archive_piece(const spsh__archive_index *index, const spsh__member_record *member,
                         spsh__piece *ret_piece);

/* Append the path that the member would have if unpacked, relative to the root. */
void spsh__archive_path(const spsh__archive_index *index, const spsh__member_record *member,
                        spsh__builder *out);

/* Find, unpack, and read all archives. Fills archives, members, and names. */
SPSH_NODISCARD spsh_status spsh__archive_read_all(spsh__archive_index *index,
                                                  const spsh__archive_index_options *options,
                                                  spsh_error *err);

#endif

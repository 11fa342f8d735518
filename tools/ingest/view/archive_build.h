/* archive_build.h: an index of archives while it is made: which archives there are, unpacking, and
 * their members in order. archive_index.c sorts them.
 */
#ifndef SPSH_INGEST_ARCHIVE_BUILD_H
#define SPSH_INGEST_ARCHIVE_BUILD_H

#include "archive_file.h"
#include "archive_index.h"
#include "archive_table.h"
#include "speechshard/sorter.h"

typedef struct spsh__indexed_archive {
    char *path;          /* relative to the root; "" for the root itself */
    size_t folder_bytes; /* of path: its folder, without the '/' */
    char *data; /* the file that members are pieces of: the archive or what it unpacked to */
    uint64_t data_bytes;
    char *spool; /* NULL, or the file of members that stand nowhere as they are */
    uint64_t spool_bytes;
    uint64_t packed_bytes; /* size of the archive */
    spsh__archive_kind kind;
    bool own_folder;
    bool is_listed; /* a layout reads its members in order, and judges repeated ones itself */
    bool is_used;   /* a look-up or a listing gave one of its files */
    bool has_unlisted_problems; /* more than the list of held problems takes */
    uint64_t first_member, member_count;
} spsh__indexed_archive;

/** A hard link that leads somewhere. */
typedef struct spsh__link_record {
    uint64_t member;
    uint64_t target; /* a member that is a file */
} spsh__link_record;

/** A problem that is reported only if its archive is used. */
typedef struct spsh__held_problem {
    size_t archive; /* its number */
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
    spsh__held_problems held;            /* with used_only */
    const spsh__view_observer *observer; /* while it is built */
    bool is_root;                        /* the root is an archive */
    spsh__indexed_archive *archives;     /* sorted by path */
    size_t archive_count, archive_capacity;
    uint64_t link_count;
    spsh__archive_table table;
    spsh__archive_column repeated; /* uint64_t each: members whose path a later member has */
    spsh__archive_column links;    /* spsh__link_record each, sorted by member */
};

void spsh__indexed_archive_clear(spsh__indexed_archive *archive);

/* Report a problem while the index is built, or hold it back. archive: its number, or SIZE_MAX for
 * a file that the index does not have; with used_only such a problem is dropped. */
SPSH_NODISCARD spsh_status spsh__archive_tell(spsh__archive_index *index, size_t archive,
                                              const spsh__view_problem *problem, spsh_error *err);

/* Where the member's bytes are; only for pieces and spooled ones. */
void spsh__archive_piece(const spsh__archive_index *index, const spsh__member_record *member,
                         spsh__piece *ret_piece);

/* Append the member's path as unpacked, relative to the root. */
void spsh__archive_path(const spsh__archive_index *index, const spsh__member_record *member,
                        spsh__builder *out);

/* Find, unpack and read: fills archives, members and names. */
SPSH_NODISCARD spsh_status spsh__archive_read_all(spsh__archive_index *index,
                                                  const spsh__archive_index_options *options,
                                                  spsh_error *err);

#endif

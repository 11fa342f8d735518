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
    uint64_t first_member, member_count;
} spsh__indexed_archive;

/** A hard link that leads somewhere. */
typedef struct spsh__link_record {
    uint64_t member;
    uint64_t target; /* a member that is a file */
} spsh__link_record;

struct spsh__archive_index {
    const spsh_io *io;
    const spsh__view_observer *observer; /* while it is built */
    bool is_root;                        /* the root is an archive */
    spsh__indexed_archive *archives;     /* sorted by path */
    size_t archive_count, archive_capacity;
    uint64_t link_count;
    spsh__archive_table table;
    spsh__column repeated; /* uint64_t each: members whose path a later member has */
    spsh__column links;    /* spsh__link_record each, sorted by member */
};

void spsh__indexed_archive_clear(spsh__indexed_archive *archive);
spsh_status spsh__archive_no_memory(spsh_error *err);
SPSH_NODISCARD spsh_status spsh__archive_tell(const spsh__view_observer *observer,
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

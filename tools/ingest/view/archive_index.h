/* archive_index.h: the members of all archives of a corpus, where they would lie if every archive
 * had been unpacked in its own folder.
 *
 * Built in one pass over every archive. Memory is bounded: what has to be known of each member goes
 * through external sorts into tables on disk, which are mapped. What is compressed is unpacked once
 * into spool files of the scratch directory; members are pieces of those.
 */
#ifndef SPSH_INGEST_ARCHIVE_INDEX_H
#define SPSH_INGEST_ARCHIVE_INDEX_H

#include "speechshard/io.h"
#include "view.h"

#define SPSH__ARCHIVE_SPOOL_PREFIX "unpacked-" /* names of spool files begin so */
#define SPSH__ARCHIVE_STDIN        "-"

typedef struct spsh__archive_index spsh__archive_index;

typedef struct spsh__archive_index_options {
    const spsh_io *io;
    const char *root;              /* a folder, an archive, or SPSH__ARCHIVE_STDIN */
    const char *scratch_directory; /* for spool files, which stay, and tables, which do not */
    bool follow_links;             /* look for archives in linked folders, too */
    bool plain_only;               /* leave compressed archives alone */
    bool used_only; /* report problems of archives in spsh__archive_index_tell, and only of
                     * archives that a look-up or a listing took a file from */
    const spsh__view_observer *observer; /* may be NULL */
} spsh__archive_index_options;

/* Whether a file is an archive: what a view of it shows is what is in it. One that is called so but
 * holds something else, or begins damaged, is SPSH_E_SYNTAX, _CORRUPT or _TRUNCATED. */
SPSH_NODISCARD spsh_status spsh__archive_is_one(const spsh_io *io, const char *path, bool *ret_is,
                                                spsh_error *err);

/* Everything in options but io is copied or no longer used behind the call. SPSH_E_NO_SPACE,
 * SPSH_E_IO, SPSH_E_NO_MEMORY, SPSH_E_LIMIT, what the observer gave; SPSH_E_INVALID_ARG and
 * SPSH_E_TRUNCATED for standard input that is no whole archive. */
SPSH_NODISCARD spsh_status spsh__archive_index_build(const spsh__archive_index_options *options,
                                                     spsh__archive_index **ret_index,
                                                     spsh_error *err);
void spsh__archive_index_free(spsh__archive_index *index);

/** What stands at a path. Borrowed until the index is freed. */
typedef struct spsh__archive_entry {
    const char *name;
    spsh__view_type type; /* FILE, FOLDER or SPECIAL */
    spsh__piece piece;    /* of a file */
} spsh__archive_entry;

/* path: relative to the root, as in view.h. */
bool spsh__archive_index_find(const spsh__archive_index *index, const char *path,
                              spsh__archive_entry *ret_entry);

/* The entries of a folder are those from *ret_first to before *ret_end, sorted by name. */
bool spsh__archive_index_folder(const spsh__archive_index *index, const char *path,
                                uint64_t *ret_first, uint64_t *ret_end);
void spsh__archive_index_entry(const spsh__archive_index *index, uint64_t number,
                               spsh__archive_entry *ret_entry);

/* As in view.h. */
const char *spsh__archive_index_archive(const spsh__archive_index *index, size_t number);

/* The number of the first archive below a folder, if there is one. */
size_t spsh__archive_index_first(const spsh__archive_index *index, const char *folder);
SPSH_NODISCARD spsh_status spsh__archive_index_members(const spsh__archive_index *index,
                                                       const char *archive,
                                                       spsh__view_member_fn member_fn, void *user,
                                                       spsh_error *err);

/* Report the problems that are not known when the index is built. Whether a repeated member is lost
 * depends on how its archive is read: a layout that lists all members of an archive, since
 * forget_listed, judges them itself. The others are reported here, and the problems that used_only
 * held back. */
void spsh__archive_index_forget_listed(const spsh__archive_index *index);
SPSH_NODISCARD spsh_status spsh__archive_index_tell(const spsh__archive_index *index,
                                                    const spsh__view_observer *observer,
                                                    spsh_error *err);

#endif

/* archive_index.h: index of the members of all archives of a corpus. Each member has the path that
 * it would have if every archive were unpacked in its folder.
 *
 * The build reads every archive once. Memory is bounded: member records go through external sorts
 * into mapped tables on disk. Compressed archives are unpacked once into spool files in the scratch
 * directory, and their members are pieces of these files.
 */
#ifndef SPSH_INGEST_ARCHIVE_INDEX_H
#define SPSH_INGEST_ARCHIVE_INDEX_H

#include "speechshard/io.h"
#include "view.h"

#define SPSH__ARCHIVE_SPOOL_PREFIX "unpacked-" /* prefix of spool file names */
#define SPSH__ARCHIVE_STDIN        "-"

typedef struct spsh__archive_index spsh__archive_index;

typedef struct spsh__archive_index_options {
    const spsh_io *io;
    const char *root;              /* a folder, an archive, or SPSH__ARCHIVE_STDIN */
    const char *scratch_directory; /* for spool files, which are kept, and tables, which are not */
    bool follow_links;             /* also look for archives in linked folders */
    bool plain_only;               /* ignore compressed archives */
    bool used_only; /* delay problem reports until spsh__archive_index_report, and report only
                       archives from which a lookup or a listing returned a file */
    const spsh__view_observer *observer; /* may be NULL */
} spsh__archive_index_options;

/* Whether a file is an archive, so that a view of it shows its members. SPSH_E_SYNTAX,
 * SPSH_E_CORRUPT, or SPSH_E_TRUNCATED if the file has the name of an archive but other content, or
 * is damaged at its start. */
SPSH_NODISCARD spsh_status spsh__archive_is_one(const spsh_io *io, const char *path, bool *ret_is,
                                                spsh_error *err);

/* Build the index. options->io must outlive the index; the rest of options may be freed after the
 * call. SPSH_E_NO_SPACE; SPSH_E_IO; SPSH_E_NO_MEMORY; SPSH_E_LIMIT; any code that the observer
 * returns; SPSH_E_INVALID_ARG or SPSH_E_TRUNCATED if standard input is not a whole archive. */
SPSH_NODISCARD spsh_status spsh__archive_index_build(const spsh__archive_index_options *options,
                                                     spsh__archive_index **ret_index,
                                                     spsh_error *err);
void spsh__archive_index_free(spsh__archive_index *index);

/** The file or folder at a path. Borrowed until the index is freed. */
typedef struct spsh__archive_entry {
    const char *name;
    spsh__view_type type; /* FILE, FOLDER, or SPECIAL */
    spsh__piece piece;    /* bytes of a file */
} spsh__archive_entry;

/* Look up a path relative to the root (see view.h). */
bool spsh__archive_index_find(const spsh__archive_index *index, const char *path,
                              spsh__archive_entry *ret_entry);

/* Return the range of entries of a folder: *ret_first is the first and *ret_end is past the last.
 * Entries are sorted by name. */
bool spsh__archive_index_folder(const spsh__archive_index *index, const char *path,
                                uint64_t *ret_first, uint64_t *ret_end);
void spsh__archive_index_entry(const spsh__archive_index *index, uint64_t number,
                               spsh__archive_entry *ret_entry);

/* See spsh__view_archive. */
const char *spsh__archive_index_archive(const spsh__archive_index *index, size_t number);

/* Return the index of the first archive below a folder. If the folder has no archive, return the
 * position where it would be inserted. */
size_t spsh__archive_index_first(const spsh__archive_index *index, const char *folder);
SPSH_NODISCARD spsh_status spsh__archive_index_members(const spsh__archive_index *index,
                                                       const char *archive,
                                                       spsh__view_member_fn member_fn, void *user,
                                                       spsh_error *err);

/* Report the problems that are unknown when the index is built. A layout that lists all members of
 * an archive after spsh__archive_index_forget_listed handles repeated members itself.
 * spsh__archive_index_report reports repeated members of the other archives, and the problems that
 * used_only held back. */
void spsh__archive_index_forget_listed(const spsh__archive_index *index);
SPSH_NODISCARD spsh_status spsh__archive_index_report(const spsh__archive_index *index,
                                                      const spsh__view_observer *observer,
                                                      spsh_error *err);

#endif

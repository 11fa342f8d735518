/* view.h: the files of a corpus as layouts see them: folders on a disk, with the content of
 * archives standing where it would lie if they had been unpacked.
 *
 *     corpus/                            train/clean.json
 *         train/clean.json         is    train/clean/clean_000000.tar        (the archive itself)
 *         train/clean/clean_000000.tar   train/clean/a_00000.flac            (a member of it)
 *
 * So a layout is written once, and a corpus gives the same dataset unpacked, in one archive or in
 * thousands. What lies on the disk hides a member of the same path. A root may be a folder, an
 * archive (then the root is what is in it), or a manifest file (then it is the manifest's folder,
 * and spsh__view_file is its name).
 *
 * Paths are relative to the root, "" is the root itself, without a leading or doubled '/'; absolute
 * paths are looked up on the disk. A path with ".." is looked up on the disk only. Nothing here
 * writes, and nothing is unpacked into the file system: members are pieces of files (spsh__piece).
 *
 * A view is used by one thread at a time.
 */
#ifndef SPSH_INGEST_VIEW_H
#define SPSH_INGEST_VIEW_H

#include <stdbool.h>

#include "common/byte_builder.h"
#include "speechshard/io.h"

typedef enum spsh__view_type {
    SPSH__VIEW_FILE,
    SPSH__VIEW_FOLDER,
    SPSH__VIEW_LINK,    /* in listings only: spsh__view_stat says what is behind it */
    SPSH__VIEW_SPECIAL, /* FIFO, socket, device; in an archive: a link, too */
} spsh__view_type;

#define SPSH__PIECE_BYTES_UNKNOWN UINT64_MAX /* of a whole file only: it was not looked at */

/** Where the bytes of a file are: a whole file, or a part of one. */
typedef struct spsh__piece {
    const char *path; /* of the file to open; absolute, or relative to the process's directory */
    uint64_t offset_bytes; /* 0 for a whole file */
    uint64_t size_bytes;
    uint64_t file_bytes; /* size of the file that it is a part of; size_bytes for a whole file */
} spsh__piece;

typedef struct spsh__view_info {
    spsh__view_type type;   /* never LINK */
    uint64_t size_bytes;    /* of a file */
    uint64_t device, inode; /* of what lies on a disk; 0, 0 for what is in an archive */
} spsh__view_info;

/** One name of a folder; borrowed until the next one. */
typedef struct spsh__view_entry {
    const char *name;
    spsh__view_type type;
    bool enters; /* a folder, or a link to one in a view that follows links */
} spsh__view_entry;

typedef struct spsh__view spsh__view;
typedef struct spsh__view_folder spsh__view_folder;

typedef enum spsh__view_problem_kind {
    SPSH__VIEW_DUP_MEMBER,
    SPSH__VIEW_BAD_MEMBER,
    SPSH__VIEW_ARCHIVE_TRUNCATED,
    SPSH__VIEW_ARCHIVE_BAD,
    SPSH__VIEW_ARCHIVE_UNREADABLE,
    SPSH__VIEW_ARCHIVE_UNPACKED, /* what is in it lies on the disk already: it is not read */
    SPSH__VIEW_ARCHIVE_NESTED,   /* an archive that is a member of another one: it is not read */
} spsh__view_problem_kind;

/** Something in an archive that cannot be shown. Borrowed during the call. */
typedef struct spsh__view_problem {
    spsh__view_problem_kind kind;
    const char *path; /* of the archive or member, relative to the root; bytes as found */
    const char *detail;
} spsh__view_problem;

/** Who is told what happens while archives are read. Any function may be NULL. */
typedef struct spsh__view_observer {
    spsh_status (*problem_fn)(void *user, const spsh__view_problem *problem, spsh_error *err);
    /* Compressed archives, in their own bytes; may cancel. */
    spsh_status (*unpack_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes,
                             spsh_error *err);
    spsh_log_fn log_fn;
    void *user;
} spsh__view_observer;

typedef struct spsh__view_options {
    const char *root; /* "-": an archive on standard input, which is read to its end */
    /* For what has to be decompressed, which takes its whole size there; NULL: archives and
     * compressed files stay the files that they are. */
    const char *scratch_directory;
    bool follow_links; /* symbolic links to folders are folders to enter */
    const spsh_io *io; /* for archives; NULL: the operating system's */
    /* Called by spsh__view_open and spsh__view_index_archives; may be NULL. The struct is copied;
     * its user must live as long as the view. */
    const spsh__view_observer *observer;
} spsh__view_options;

/* options are copied. SPSH_E_NOT_FOUND or SPSH_E_IO when the root cannot be read; for archives what
 * spsh__archive_index_build says. */
SPSH_NODISCARD spsh_status spsh__view_open(const spsh__view_options *options, spsh__view **ret_view,
                                           spsh_error *err);

/* The same files seen from a folder below; closed before view is. */
SPSH_NODISCARD spsh_status spsh__view_below(const spsh__view *view, const char *path,
                                            spsh__view **ret_view, spsh_error *err);
void spsh__view_close(spsh__view *view);

/* The root as the user would write it, for messages. */
const char *spsh__view_root(const spsh__view *view);

/* The manifest that the user pointed at, or NULL: the whole root is meant. */
const char *spsh__view_file(const spsh__view *view);

/* Index the archives around a manifest, once: its rows may name members of them. Until this call
 * the view of a manifest shows no archives, so finding out what the file is reads none. Does
 * nothing for other roots, whose archives spsh__view_open indexes. */
SPSH_NODISCARD spsh_status spsh__view_index_archives(const spsh__view *view, spsh_error *err);

/* Whether links to folders are folders to enter. */
bool spsh__view_follows_links(const spsh__view *view);

/* What path is, links followed: 0, or an errno. */
int spsh__view_stat(const spsh__view *view, const char *path, spsh__view_info *ret_info);
bool spsh__view_has_file(const spsh__view *view, const char *path);
bool spsh__view_has_folder(const spsh__view *view, const char *path);

/* Names in directory order, without "." and ".."; each once. NULL with errno when path is no folder
 * or cannot be read. next: false at the end, with errno 0 or why it cannot be read further. */
spsh__view_folder *spsh__view_folder_open(const spsh__view *view, const char *path);
bool spsh__view_folder_next(spsh__view_folder *folder, spsh__view_entry *ret_entry);
void spsh__view_folder_close(spsh__view_folder *folder);

/* Where the file's bytes are: 0, or an errno. Costs one stat on a disk. ret_piece->path: borrowed
 * until the next call with the same view. */
int spsh__view_locate(const spsh__view *view, const char *path, spsh__piece *ret_piece);

/* The same without a look at the disk, for a file that is known to be there or that the caller is
 * about to open: what lies on the disk becomes a whole file of size_bytes, which may be
 * SPSH__PIECE_BYTES_UNKNOWN. Fails with ENOMEM for paths on the disk, and with nothing else. */
int spsh__view_locate_known(const spsh__view *view, const char *path, uint64_t size_bytes,
                            spsh__piece *ret_piece);

/* The root's path, absolute and without links; NULL when it cannot be told. For a root that is an
 * archive: its path without the extensions. Borrowed until the view is closed. */
const char *spsh__view_real_root(const spsh__view *view);

/* The last part of the folder's path as it is really called (of the root too); nothing is appended
 * when it cannot be told. For a root that is an archive: its name without the extensions. */
void spsh__view_folder_name(const spsh__view *view, const char *path, spsh__builder *out);

/* ---- archives, for layouts whose archives are more than packaging ---- */

/** A member, in the order in which the archive has them. Borrowed during the call. */
typedef struct spsh__view_member {
    const char *name;  /* as in the archive, made relative: "000017.flac", "a/b.txt" */
    uint64_t position; /* 0 for the first member */
    spsh__view_type type;
    spsh__piece piece; /* of a file */
} spsh__view_member;

/* Members of one archive with one path: the later one is shown, as tar would leave it. scan_ends
 * reports the earlier ones, unless a layout read the archive by spsh__view_members and so judged
 * them itself. For the view of a manifest, scan_ends also reports the problems of those archives
 * that the scan took a file from. */
void spsh__view_scan_begins(const spsh__view *view);
SPSH_NODISCARD spsh_status spsh__view_scan_ends(const spsh__view *view,
                                                const spsh__view_observer *observer,
                                                spsh_error *err);

typedef spsh_status (*spsh__view_member_fn)(void *user, const spsh__view_member *member,
                                            spsh_error *err);

/* The archive at that number in the sorted list of paths, relative to the root; NULL behind the
 * last. A root that is an archive has one, "". */
const char *spsh__view_archive(const spsh__view *view, size_t number);

/* All members of an archive (its path as above), files only, in order. SPSH_E_NOT_FOUND when there
 * is no such archive. */
SPSH_NODISCARD spsh_status spsh__view_members(const spsh__view *view, const char *archive,
                                              spsh__view_member_fn member_fn, void *user,
                                              spsh_error *err);

#endif

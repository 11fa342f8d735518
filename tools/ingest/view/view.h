/* view.h: the files of a corpus as layouts see them. Members of archives appear where they would be
 * if the archives were unpacked.
 *
 *     corpus/                            train/clean.json
 *         train/clean.json         is    train/clean/clean_000000.tar        (the archive itself)
 *         train/clean/clean_000000.tar   train/clean/a_00000.flac            (a member of it)
 *
 * So each layout is written once, and a corpus produces the same dataset unpacked, in one archive,
 * or in thousands. A file on the disk hides a member with the same path. The root may be a folder,
 * an archive, or a manifest file. If it is an archive, the root shows its members. If it is a
 * manifest, the root is the folder of the manifest, and spsh__view_file returns the manifest's
 * name.
 *
 * Paths are relative to the root, without a leading or doubled '/'; "" is the root. An absolute
 * path is looked up on the disk, and in the archives if it is below the root. In the archives, ".."
 * parts are resolved as text, and a path above the root does not exist. The view never writes or
 * unpacks into the corpus: members are pieces of files (spsh__piece).
 *
 * Only one thread may use a view at a time.
 */
#ifndef SPSH_INGEST_VIEW_H
#define SPSH_INGEST_VIEW_H

#include <stdbool.h>

#include "common/byte_builder.h"
#include "speechshard/io.h"

typedef enum spsh__view_type {
    SPSH__VIEW_FILE,
    SPSH__VIEW_FOLDER,
    SPSH__VIEW_LINK,    /* in listings only; spsh__view_stat returns the target's type */
    SPSH__VIEW_SPECIAL, /* FIFO, socket, device; in an archive also a link */
} spsh__view_type;

#define SPSH__PIECE_BYTES_UNKNOWN UINT64_MAX /* only for a whole file: its size was not read */

/** Location of the bytes of a file: a whole file or a part of one. */
typedef struct spsh__piece {
    const char *path;      /* file to open; absolute, or relative to the working directory */
    uint64_t offset_bytes; /* 0 for a whole file */
    uint64_t size_bytes;
    uint64_t file_bytes; /* size of the file at path; equals size_bytes for a whole file */
} spsh__piece;

typedef struct spsh__view_info {
    spsh__view_type type;   /* never LINK */
    uint64_t size_bytes;    /* size of a file */
    uint64_t device, inode; /* identity of a file or folder on disk; 0, 0 in an archive */
} spsh__view_info;

/** One entry of a folder. Borrowed until the next one. */
typedef struct spsh__view_entry {
    const char *name;
    spsh__view_type type;
    bool enters; /* can be entered: a folder, or a link to one if the view follows links */
} spsh__view_entry;

typedef struct spsh__view spsh__view;
typedef struct spsh__view_folder spsh__view_folder;

typedef enum spsh__view_problem_kind {
    SPSH__VIEW_DUP_MEMBER,
    SPSH__VIEW_BAD_MEMBER,
    SPSH__VIEW_ARCHIVE_TRUNCATED,
    SPSH__VIEW_ARCHIVE_BAD,
    SPSH__VIEW_ARCHIVE_UNREADABLE,
    SPSH__VIEW_ARCHIVE_UNPACKED, /* its members are already on the disk: the archive is not read */
    SPSH__VIEW_ARCHIVE_NESTED,   /* an archive inside an archive: the inner archive is not read */
} spsh__view_problem_kind;

/** A problem in an archive. Borrowed during the call. */
typedef struct spsh__view_problem {
    spsh__view_problem_kind kind;
    const char *path; /* path of the archive or member, relative to the root; bytes as found */
    const char *detail;
} spsh__view_problem;

/** A compressed archive, and the tar that was unpacked from it. */
typedef struct spsh__packed_archive {
    const char *path; /* to open it; borrowed */
    const char *name; /* for messages: the end of path; borrowed */
    uint64_t size_bytes;
    char *tar;          /* absolute path; owned */
    spsh_status damage; /* SPSH_OK, or SPSH_E_TRUNCATED or SPSH_E_CORRUPT: the rest is missing */
    char *detail;       /* reason of the damage, or NULL; owned */
} spsh__packed_archive;

/** Unpack the compressed archives of a corpus, and set the last three members of each. */
typedef spsh_status (*spsh__unpack_all_fn)(void *user, spsh__packed_archive *archives, size_t count,
                                           spsh_error *err);

/** Callbacks for events while archives are read. Any function may be NULL. */
typedef struct spsh__view_observer {
    spsh_status (*problem_fn)(void *user, const spsh__view_problem *problem, spsh_error *err);
    /* Progress in bytes of the compressed archives; may cancel. */
    spsh_status (*unpack_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes,
                             spsh_error *err);
    spsh__unpack_all_fn unpack_all_fn; /* NULL: the view unpacks into its scratch directory */
    void *user;
} spsh__view_observer;

typedef struct spsh__view_options {
    const char *root; /* "-": an archive on standard input, which is read to its end */
    /* Directory for decompressed data; needs space for its full size. NULL: do not decompress
     * archives or files. */
    const char *scratch_directory;
    bool follow_links; /* enter symbolic links to folders */
    const spsh_io *io; /* for archives; NULL: spsh_io_default */
    /* Called by spsh__view_open and spsh__view_index_archives; may be NULL. The struct is copied.
     * Its user pointer must stay valid as long as the view. */
    const spsh__view_observer *observer;
} spsh__view_options;

/* Open a view. options are copied. SPSH_E_NOT_FOUND or SPSH_E_IO if the root cannot be read; for
 * archives also the codes of spsh__archive_index_build. */
SPSH_NODISCARD spsh_status spsh__view_open(const spsh__view_options *options, spsh__view **ret_view,
                                           spsh_error *err);

/* Open a view of a subfolder. Close it before view. */
SPSH_NODISCARD spsh_status spsh__view_below(const spsh__view *view, const char *path,
                                            spsh__view **ret_view, spsh_error *err);
void spsh__view_close(spsh__view *view);

/* Return the root as the user gave it, for messages. */
const char *spsh__view_root(const spsh__view *view);

/* Return the name of the manifest if the user gave one, or NULL for a whole root. */
const char *spsh__view_file(const spsh__view *view);

/* Index the archives around a manifest, because its rows may name members. Only the first call has
 * an effect. Before it, the view of a manifest shows no archives, so that detecting the format
 * reads none. Does nothing for other roots: spsh__view_open indexes their archives. */
SPSH_NODISCARD spsh_status spsh__view_index_archives(const spsh__view *view, spsh_error *err);

/* Whether the view enters links to folders. */
bool spsh__view_follows_links(const spsh__view *view);

/* Fail if a disk or a file server has failed in a call of this view or of one below (os_error.h):
 * what the call reported as missing or unreadable may be there. SPSH_E_IO */
SPSH_NODISCARD spsh_status spsh__view_check(const spsh__view *view, spsh_error *err);

/* Return the type and size of a path after following links. Returns 0 or an errno. */
int spsh__view_stat(const spsh__view *view, const char *path, spsh__view_info *ret_info);
bool spsh__view_has_file(const spsh__view *view, const char *path);
bool spsh__view_has_folder(const spsh__view *view, const char *path);

/* List the entries of a folder in directory order, without "." and "..". Each name appears once.
 * open: NULL with errno set if path is not a folder or cannot be read. next: false at the end with
 * errno 0, or false with the errno of a read error. */
spsh__view_folder *spsh__view_folder_open(const spsh__view *view, const char *path);
bool spsh__view_folder_next(spsh__view_folder *folder, spsh__view_entry *ret_entry);
void spsh__view_folder_close(spsh__view_folder *folder);

/* Locate the bytes of a file. Returns 0 or an errno. Costs one stat for a file on disk.
 * ret_piece->path is borrowed until the next call with the same view. */
int spsh__view_locate(const spsh__view *view, const char *path, spsh__piece *ret_piece);

/* Locate a file that is known to exist or that the caller is about to open. Avoids the stat of
 * spsh__view_locate unless an archive has a member with that path. A path on the disk becomes a
 * whole file of size_bytes, which may be SPSH__PIECE_BYTES_UNKNOWN. The only error for such a path
 * is ENOMEM. */
int spsh__view_locate_known(const spsh__view *view, const char *path, uint64_t size_bytes,
                            spsh__piece *ret_piece);

/* Return the absolute path of the root without links, or NULL if it cannot be determined. If the
 * root is an archive, its path without the extensions. Borrowed until the view is closed. */
const char *spsh__view_real_root(const spsh__view *view);

/* Append the real name of a folder, or of the root: the last part of its path without links.
 * Appends nothing if the name cannot be determined. If the root is an archive, appends the
 * archive's name without the extensions. */
void spsh__view_folder_name(const spsh__view *view, const char *path, spsh__builder *out);

/* ---- archives, for layouts that depend on the order or the grouping of members ---- */

/** A member of an archive, passed in archive order. Borrowed during the call. */
typedef struct spsh__view_member {
    const char *name;  /* relative form of the name in the archive: "000017.flac", "a/b.txt" */
    uint64_t position; /* 0 for the first member */
    spsh__view_type type;
    spsh__piece piece; /* bytes of a file */
} spsh__view_member;

/* Mark the begin and the end of a scan. If members of one archive share a path, the view shows the
 * last one, as tar would leave it. scan_ends reports the earlier members, unless a layout read the
 * archive with spsh__view_members and so handled them itself. For the view of a manifest, scan_ends
 * also reports problems of the archives from which the scan took a file. */
void spsh__view_scan_begins(const spsh__view *view);
SPSH_NODISCARD spsh_status spsh__view_scan_ends(const spsh__view *view,
                                                const spsh__view_observer *observer,
                                                spsh_error *err);

typedef spsh_status (*spsh__view_member_fn)(void *user, const spsh__view_member *member,
                                            spsh_error *err);

/* Return the path of the archive with that index in the sorted list, relative to the root, or NULL
 * after the last. If the root is an archive, the list has only "". */
const char *spsh__view_archive(const spsh__view *view, size_t number);

/* Pass all files of an archive to member_fn in archive order. archive: a path from
 * spsh__view_archive. SPSH_E_NOT_FOUND if the archive does not exist. */
SPSH_NODISCARD spsh_status spsh__view_members(const spsh__view *view, const char *archive,
                                              spsh__view_member_fn member_fn, void *user,
                                              spsh_error *err);

#endif

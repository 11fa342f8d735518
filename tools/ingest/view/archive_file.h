/* archive_file.h: read the members of a tar or zip in one pass, whatever its compression or name.
 *
 *     spsh__archive_open(io, fd, path, &archive, err);
 *     while ((rc = spsh__archive_next(archive, &member, err)) == SPSH_OK)
 *         if (member.offset_bytes == SPSH_OFFSET_NONE)
 *             while ((rc = spsh__archive_read(archive, &data, err)) == SPSH_OK) ...
 *     spsh__archive_close(archive);
 *
 * Only archive_file.c calls libarchive. Members are never written under their names, so a member
 * cannot escape from a folder. Sizes, counts, and compression ratios are limited, so an archive
 * cannot exhaust the machine.
 */
#ifndef SPSH_INGEST_ARCHIVE_FILE_H
#define SPSH_INGEST_ARCHIVE_FILE_H

#include <stdbool.h>

#include "speechshard/io.h"

typedef enum spsh__archive_kind {
    SPSH__ARCHIVE_NONE,       /* not an archive */
    SPSH__ARCHIVE_PLAIN,      /* an uncompressed tar, or a zip: members may be pieces of the file */
    SPSH__ARCHIVE_COMPRESSED, /* a tar compressed by gzip, bzip2, xz, zstd, or lz4 */
    SPSH__ARCHIVE_TEXT,       /* one compressed file that is not a tar */
} spsh__archive_kind;

/* Detect the kind from the first bytes, not from the name. Decompresses the start of a compressed
 * file. fd must be at the start of the file. SPSH_E_CORRUPT if a compressed file is damaged at its
 * start. */
SPSH_NODISCARD spsh_status spsh__archive_sniff(const spsh_io *io, int fd, const char *path,
                                               spsh__archive_kind *ret_kind, spsh_error *err);

/** A file that has the name of an archive but is not an archive. */
typedef struct spsh__archive_foreign {
    const char *what; /* "has 0 bytes" or similar; NULL: only zeros, a tar without members */
    bool is_failure;  /* a failed download; otherwise the content is unknown */
} spsh__archive_foreign;

SPSH_NODISCARD spsh_status spsh__archive_report_foreign(const spsh_io *io, int fd, const char *path,
                                                        spsh__archive_foreign *ret_foreign,
                                                        spsh_error *err);

typedef enum spsh__archive_member_type {
    SPSH__ARCHIVE_FILE,
    SPSH__ARCHIVE_FOLDER,
    SPSH__ARCHIVE_HARD_LINK, /* target is an earlier member */
    SPSH__ARCHIVE_OTHER,     /* symbolic link, device, ... */
} spsh__archive_member_type;

/** The next member. Borrowed until the next call. */
typedef struct spsh__archive_member {
    const char *name;   /* relative, without "." parts; bytes as found; "" for the archive itself */
    const char *target; /* target path of a hard link, normalized like name */
    spsh__archive_member_type type;
    uint64_t size_bytes;
    uint64_t offset_bytes; /* offset of the data in the file; SPSH_OFFSET_NONE: use
                              spsh__archive_read */
    const char *problem;   /* NULL, or why the member must not be used: a name with "..", too long,
                              ... */
} spsh__archive_member;

typedef struct spsh__archive spsh__archive;

/* Open an archive. fd is borrowed, may be a pipe, and is read from its start. path is copied and
 * appears in messages. */
SPSH_NODISCARD spsh_status spsh__archive_open(const spsh_io *io, int fd, const char *path,
                                              spsh__archive **ret_archive, spsh_error *err);

/* Whether a file that begins with head uses a supported compression. */
bool spsh__archive_is_compressed(const uint8_t *head, size_t size_bytes);

/** A file or a byte range of a file. */
typedef struct spsh__archive_input {
    const spsh_io *io;
    int fd;           /* borrowed */
    const char *path; /* for messages */
    uint64_t begin_bytes;
    uint64_t end_bytes; /* SPSH_OFFSET_NONE: the end of the file */
} spsh__archive_input;

/* Open the whole input as one member, decompressed if it is compressed. Call spsh__archive_read
 * without spsh__archive_next. */
SPSH_NODISCARD spsh_status spsh__archive_open_stream(const spsh__archive_input *input,
                                                     spsh__archive **ret_archive, spsh_error *err);

/* Advance to the next member. SPSH_E_END after the last member; SPSH_E_CORRUPT or SPSH_E_TRUNCATED
 * if the rest is unreadable; SPSH_E_LIMIT above the limits of archive_file.c; SPSH_E_IO;
 * SPSH_E_NO_MEMORY. */
SPSH_NODISCARD spsh_status spsh__archive_next(spsh__archive *archive,
                                              spsh__archive_member *ret_member, spsh_error *err);

/* Return the next bytes of the current member. *ret_data is borrowed until the next call.
 * SPSH_E_END at the end of the member; other codes as for spsh__archive_next. */
SPSH_NODISCARD spsh_status spsh__archive_read(spsh__archive *archive, spsh_bytes *ret_data,
                                              spsh_error *err);

/* Return the count of bytes of the file read or skipped so far, for progress. */
uint64_t spsh__archive_position(const spsh__archive *archive);
void spsh__archive_close(spsh__archive *archive);

#endif

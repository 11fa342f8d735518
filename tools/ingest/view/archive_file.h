/* archive_file.h: the members of a tar or zip, whatever compresses it and whatever it is called,
 * read once from front to back.
 *
 *     spsh__archive_open(io, fd, path, &archive, err);
 *     while ((rc = spsh__archive_next(archive, &member, err)) == SPSH_OK)
 *         if (member.offset_bytes == SPSH_OFFSET_NONE)
 *             while ((rc = spsh__archive_read(archive, &data, err)) == SPSH_OK) ...
 *     spsh__archive_close(archive);
 *
 * libarchive sits behind archive_file.c. What is in an archive is never written under its own name,
 * so a member cannot escape; sizes, counts and ratios have limits, so it cannot exhaust the
 * machine.
 */
#ifndef SPSH_INGEST_ARCHIVE_FILE_H
#define SPSH_INGEST_ARCHIVE_FILE_H

#include <stdbool.h>

#include "speechshard/io.h"

typedef enum spsh__archive_kind {
    SPSH__ARCHIVE_NONE,       /* something else */
    SPSH__ARCHIVE_PLAIN,      /* an uncompressed tar, or a zip: members may be pieces of the file */
    SPSH__ARCHIVE_COMPRESSED, /* tar inside gzip, bzip2, xz, zstd, lz4 */
    SPSH__ARCHIVE_TEXT,       /* one compressed file that is no tar */
} spsh__archive_kind;

/* By the first bytes, not by the name; of a compressed file the first are decompressed. fd is at
 * its start. What is compressed and damaged from the start is SPSH_E_CORRUPT. */
SPSH_NODISCARD spsh_status spsh__archive_sniff(const spsh_io *io, int fd, const char *path,
                                               spsh__archive_kind *ret_kind, spsh_error *err);

/** A file that is called an archive and is none. */
typedef struct spsh__archive_foreign {
    const char *what; /* "has 0 bytes"; NULL: a tar without members, which is zeros alone */
    bool is_failure;  /* of a download; else it may be anything */
} spsh__archive_foreign;

SPSH_NODISCARD spsh_status spsh__archive_say_foreign(const spsh_io *io, int fd, const char *path,
                                                     spsh__archive_foreign *ret_foreign,
                                                     spsh_error *err);

typedef enum spsh__archive_member_type {
    SPSH__ARCHIVE_FILE,
    SPSH__ARCHIVE_FOLDER,
    SPSH__ARCHIVE_HARD_LINK, /* to an earlier member: target */
    SPSH__ARCHIVE_OTHER,     /* symbolic link, device ... */
} spsh__archive_member_type;

/** The next member. Borrowed until the next call. */
typedef struct spsh__archive_member {
    const char *name;   /* relative, without "." parts; bytes as found; "" for the archive itself */
    const char *target; /* of a hard link, in the same form */
    spsh__archive_member_type type;
    uint64_t size_bytes;
    uint64_t offset_bytes; /* of its bytes in the file; SPSH_OFFSET_NONE: only by reading it here */
    const char *problem;   /* NULL, or why it must not be used: a name with "..", too long ... */
} spsh__archive_member;

typedef struct spsh__archive spsh__archive;

/* fd is borrowed, may be a pipe, and is read from its start. path is for messages and is copied. */
SPSH_NODISCARD spsh_status spsh__archive_open(const spsh_io *io, int fd, const char *path,
                                              spsh__archive **ret_archive, spsh_error *err);

/* Whether a file that begins so is compressed in a way that is read here. */
bool spsh__archive_is_compressed(const uint8_t *head, size_t size_bytes);

/** A file, or a part of one. */
typedef struct spsh__archive_input {
    const spsh_io *io;
    int fd;           /* borrowed */
    const char *path; /* for messages */
    uint64_t begin_bytes;
    uint64_t end_bytes; /* SPSH_OFFSET_NONE: the file's */
} spsh__archive_input;

/* The whole input as one member, decompressed if it was compressed: it is there at once, for
 * spsh__archive_read. */
SPSH_NODISCARD spsh_status spsh__archive_open_stream(const spsh__archive_input *input,
                                                     spsh__archive **ret_archive, spsh_error *err);

/* SPSH_OK, SPSH_E_END; SPSH_E_CORRUPT or SPSH_E_TRUNCATED: what follows cannot be read;
 * SPSH_E_LIMIT: more than any corpus has; SPSH_E_IO, SPSH_E_NO_MEMORY. */
SPSH_NODISCARD spsh_status spsh__archive_next(spsh__archive *archive,
                                              spsh__archive_member *ret_member, spsh_error *err);

/* Bytes of the member that next gave, in order; *ret_data is borrowed until the next call.
 * SPSH_E_END behind the last; else as spsh__archive_next. */
SPSH_NODISCARD spsh_status spsh__archive_read(spsh__archive *archive, spsh_bytes *ret_data,
                                              spsh_error *err);

/* Bytes of the file that were read or skipped so far, for progress. */
uint64_t spsh__archive_position(const spsh__archive *archive);
void spsh__archive_close(spsh__archive *archive);

#endif

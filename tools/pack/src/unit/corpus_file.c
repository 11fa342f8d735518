/* corpus_file.c: read files that other programs may own and change. */
#include "corpus_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/os_error.h"
#include "speechshard/inside.h"

/* Pauses before a failed read is repeated. A client that opens a file again gets a new handle for a
 * stale one, and a file server may be back after a moment. Longer failures end the pack. */
static const long pauses_ms[] = {10, 200};

static void reject(spsh__pack_source *source, spsh_reject_reason reason, const char *detail)
{
    source->rejected = true;
    source->reason = reason;
    (void)snprintf(source->detail, sizeof(source->detail), "%s", detail);
}

static spsh_status fail_io(const char *path, int error, spsh_error *err)
{
    return SPSH_FAIL_OS(err, SPSH_E_IO, error, "%s: %s", path, strerror(error));
}

/* Reject the file for permanent conditions of its path. Other errors are the machine's failures. */
static spsh_status judge_open_error(spsh__pack_source *source, const char *path, int error,
                                    spsh_error *err)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: reject(source, SPSH_REJECT_MISSING_AUDIO, "no such file"); return SPSH_OK;
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG: reject(source, SPSH_REJECT_UNREADABLE, strerror(error)); return SPSH_OK;
    case ENXIO:
    case EISDIR: reject(source, SPSH_REJECT_NOT_REGULAR, "not a regular file"); return SPSH_OK;
    default: break;
    }
    return fail_io(path, error, err);
}

static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ino == b->st_ino;
}

/* Judge the file by the result of fstat, and set the piece to read. Returns true if it should be
 * read. */
static bool judge_size(spsh__pack_source *source, const struct stat *state, spsh__piece *piece,
                       uint64_t size_max)
{
    uint64_t file_bytes = (uint64_t)state->st_size;

    if (!S_ISREG(state->st_mode)) {
        reject(source, SPSH_REJECT_NOT_REGULAR, "not a regular file");
        return false;
    }
    if (piece->file_bytes == SPSH_SOURCE_BYTES_UNKNOWN)
        *piece = (spsh__piece){piece->path, 0, file_bytes, file_bytes};
    /* For a file of 0 bytes, "empty" is more informative than "changed". */
    if (file_bytes == 0 || piece->size_bytes == 0) {
        reject(source, SPSH_REJECT_EMPTY_FILE, "0 bytes");
    } else if (file_bytes != piece->file_bytes || piece->offset_bytes > file_bytes ||
               piece->size_bytes > file_bytes - piece->offset_bytes) {
        reject(source, SPSH_REJECT_CHANGED_WHILE_READ, "");
        (void)snprintf(source->detail, sizeof(source->detail),
                       "%" PRIu64 " bytes, but %" PRIu64 " bytes when it was scanned", file_bytes,
                       piece->file_bytes);
    } else if (piece->size_bytes > size_max) {
        reject(source, SPSH_REJECT_TOO_LONG, "");
        (void)snprintf(source->detail, sizeof(source->detail),
                       "%" PRIu64 " bytes, but the limit is %" PRIu64, piece->size_bytes, size_max);
    }
    return !source->rejected;
}

static spsh_status read_open_file(const spsh_io *io, int fd, const spsh__piece *piece,
                                  spsh__pack_source *source, const struct stat *before,
                                  spsh_error *err)
{
    struct stat after;
    size_t size_bytes = (size_t)piece->size_bytes;

    source->data = malloc(size_bytes);
    if (source->data == NULL)
        return SPSH_NO_MEMORY(err);
    source->size_bytes = size_bytes;
    spsh_status rc =
        spsh_io_read_exact(io, fd, source->data, size_bytes, piece->offset_bytes, piece->path, err);
    if (rc != SPSH_OK && rc != SPSH_E_TRUNCATED)
        return rc;
    int error = -io->fstat_fn(io->user, fd, &after);
    if (error != 0)
        return fail_io(piece->path, error, err);
    if (rc == SPSH_E_TRUNCATED || !same_state(before, &after))
        reject(source, SPSH_REJECT_CHANGED_WHILE_READ, "the file changed during reading");
    return SPSH_OK;
}

static spsh_status read_once(const spsh_io *io, const spsh__piece *piece, uint64_t size_max,
                             spsh__pack_source *ret_source, spsh_error *err)
{
    spsh__pack_source source = {0};
    spsh__piece wanted = *piece;
    const char *path = piece->path;
    struct stat state;
    spsh_status rc = SPSH_OK;
    int fd = io->open_fn(io->user, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);

    if (fd < 0) {
        rc = judge_open_error(&source, path, -fd, err);
        goto out;
    }
    int error = -io->fstat_fn(io->user, fd, &state);
    if (error != 0) {
        rc = fail_io(path, error, err);
    } else if (judge_size(&source, &state, &wanted, size_max)) {
        rc = read_open_file(io, fd, &wanted, &source, &state, err);
    }
    (void)io->close_fn(io->user, fd);
out:
    if (rc != SPSH_OK || source.rejected) {
        free(source.data);
        source.data = NULL;
    }
    if (rc == SPSH_OK)
        *ret_source = source;
    return rc;
}

spsh_status spsh__pack_source_read(const spsh_io *io, const spsh__piece *piece, uint64_t size_max,
                                   spsh__pack_source *ret_source, spsh_error *err)
{
    spsh_error cause = SPSH_ERROR_INIT;
    spsh_status rc = read_once(io, piece, size_max, ret_source, &cause);

    for (size_t i = 0; i < sizeof(pauses_ms) / sizeof(pauses_ms[0]); i++) {
        if (rc != SPSH_E_IO || !spsh__os_error_is_transient(cause.os_errno))
            break;
        const struct timespec pause = {0, pauses_ms[i] * 1000000L};
        (void)nanosleep(&pause, NULL);
        rc = read_once(io, piece, size_max, ret_source, &cause);
    }
    return rc == SPSH_OK ? SPSH_OK : spsh__fail_again(rc, &cause, err);
}

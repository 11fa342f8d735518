/* archive_spool.c: see archive_spool.h. */
#include "archive_spool.h"

#include <inttypes.h>
#include <string.h>

#include "archive_file.h"
#include "archive_table.h"
#include "speechshard/inside.h"

spsh_status spsh__spool_write(const spsh_io *io, int fd, const char *path, spsh_bytes data,
                              uint64_t offset_bytes, spsh_error *err)
{
    spsh_status rc = spsh__archive_write(io, fd, path, data, offset_bytes, err);
    if (rc != SPSH_E_NO_SPACE)
        return rc;
    return SPSH_FAIL(
        err, SPSH_E_NO_SPACE,
        "%s: the disk is full after %" PRIu64
        " bytes of an archive were unpacked; free space, or choose an output on another disk",
        path, offset_bytes);
}

spsh_status spsh__spool_archive(const spsh__spooling *spooling, uint64_t *ret_bytes,
                                spsh_status *ret_damage, spsh_error *cause, spsh_error *err)
{
    const spsh__spooling *s = spooling;
    const spsh__archive_input input = {s->io, s->archive, s->archive_name, 0, SPSH_OFFSET_NONE};
    spsh__archive *stream = NULL;
    uint64_t size_bytes = 0;
    spsh_status rc = SPSH_OK;
    spsh_status got = spsh__archive_open_stream(&input, &stream, cause);

    while (got == SPSH_OK && rc == SPSH_OK) {
        spsh_bytes data = {NULL, 0};
        got = spsh__archive_read(stream, &data, cause);
        if (got != SPSH_OK)
            break;
        rc = spsh__spool_write(s->io, s->spool, s->spool_path, data, size_bytes, err);
        size_bytes += data.size_bytes;
        if (rc == SPSH_OK)
            rc = s->progress_fn(s->user, spsh__archive_position(stream), err);
    }
    spsh__archive_close(stream);
    *ret_bytes = size_bytes;
    *ret_damage = got == SPSH_E_END ? SPSH_OK : got;
    return rc;
}

spsh_status spsh__spool_close(const spsh_io *io, int fd, const char *path, spsh_error *err)
{
    int error = -io->fsync_fn(io->user, fd);
    int close_error = -io->close_fn(io->user, fd);

    error = error != 0 ? error : close_error;
    if (error != 0)
        return SPSH_FAIL_OS(err, spsh_io_status(error), error, "%s: %s", path, strerror(error));
    return SPSH_OK;
}

const char *spsh__without_path(const char *message, const char *path)
{
    const char *at = path[0] == '\0' ? NULL : strstr(message, path);
    at = strstr(at == NULL ? message : at + strlen(path), ": ");
    return at == NULL ? message : at + 2;
}

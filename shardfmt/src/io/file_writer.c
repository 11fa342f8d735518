/* file_writer.c: the only way in which this library creates files (io.h).
 *
 *     NAME.tmp-<pid>-<n>   O_EXCL -> reserve -> write ... -> truncate to size -> fsync, once
 *     NAME                 rename (without replacing, or replacing) -> fsync of the directory
 *
 * Before the rename the file is not visible under its name. After it all its bytes are on the disk.
 * So a crash at any moment leaves the old state or the new one. A failed fsync is never repeated:
 * the kernel may have dropped the dirty pages and would then report success. Instead, the writer
 * fails for good and removes its temporary file.
 */
#include "io_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TEMPORARY_TRIES =
        1000, /* names that are taken: other writers of this process, or a reused pid */
    COMPARE_BYTES = 1024 * 1024, /* read at once when contents are compared */
};

struct spsh_file_writer {
    const spsh_io *io;
    spsh_allocator allocator;
    char *directory;
    char *path;      /* final */
    char *temporary; /* NULL when nothing needs to be removed */
    int fd;
    uint64_t size_bytes; /* highest end of a write */
    bool dead;
};

static spsh_status fail_file(spsh_file_writer *writer, const char *what, int os_errno,
                             spsh_error *err)
{
    writer->dead = true;
    spsh_status rc = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, rc, os_errno, "%s: cannot %s: %s", writer->path, what,
                        spsh__os_text(os_errno));
}

static spsh_status check_alive(const spsh_file_writer *writer, spsh_error *err)
{
    if (writer->dead)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: no call is possible after a failure or after publishing",
                         writer->path);
    return SPSH_OK;
}

static int open_temporary(spsh_file_writer *writer, size_t capacity_bytes)
{
    char *temporary = writer->temporary;
    writer->temporary = NULL; /* not ours before it is open */
    int fd = -EEXIST;
    for (unsigned n = 0; n < TEMPORARY_TRIES && (fd == -EEXIST || fd == -EINTR); n++) {
        (void)snprintf(temporary, capacity_bytes, "%s.tmp-%ld-%u", writer->path, (long)getpid(), n);
        fd = writer->io->open_fn(writer->io->user, temporary, O_RDWR | O_CREAT | O_EXCL, 0666);
    }
    if (fd >= 0)
        writer->temporary = temporary;
    else
        spsh__free(&writer->allocator, temporary);
    return fd;
}

static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static spsh_status reserve(spsh_file_writer *writer, uint64_t reserve_bytes, spsh_error *err)
{
    int rc = -EINTR;
    while (rc == -EINTR)
        rc = writer->io->fallocate_fn(writer->io->user, writer->fd, reserve_bytes);
    if (rc < 0 && rc != -EOPNOTSUPP && rc != -ENOSYS)
        return fail_file(writer, "reserve space", -rc, err);
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): a place, a name, and where the result goes */
spsh_status spsh_file_writer_open(const spsh_io *io, const char *directory, const char *name,
                                  uint64_t reserve_bytes, const spsh_allocator *allocator,
                                  spsh_file_writer **ret_writer, spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    if (!is_plain_name(name))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "\"%s\" is not a file name", name);
    spsh_status rc = SPSH_OK;
    size_t temporary_bytes = strlen(directory) + strlen(name) + 64;
    spsh_file_writer *writer = (spsh_file_writer *)spsh__alloc(allocator, sizeof(*writer));
    if (writer == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: file writer", name);
    *writer = (spsh_file_writer){.io = io, .allocator = *allocator, .fd = -1};
    writer->directory = spsh__string_copy(allocator, directory);
    writer->path = spsh__path_join(allocator, directory, name);
    char *temporary = (char *)spsh__alloc(allocator, temporary_bytes);
    if (writer->directory == NULL || writer->path == NULL || temporary == NULL) {
        spsh__free(allocator, temporary);
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: file writer", name);
        goto out;
    }
    writer->temporary = temporary;
    writer->fd = open_temporary(writer, temporary_bytes);
    if (writer->fd < 0) {
        rc = fail_file(writer, "create a temporary file for it", -writer->fd, err);
        goto out;
    }
    if (reserve_bytes != 0)
        rc = reserve(writer, reserve_bytes, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_writer = writer;
    writer = NULL;
out:
    spsh_file_writer_free(writer);
    return rc;
}

spsh_status spsh_file_writer_write_at(spsh_file_writer *writer, const void *data, size_t size_bytes,
                                      uint64_t offset_bytes, spsh_error *err)
{
    spsh_status rc = check_alive(writer, err);
    if (rc != SPSH_OK)
        return rc;
    const uint8_t *from = (const uint8_t *)data;
    size_t done = 0;
    while (done < size_bytes) {
        int64_t put = writer->io->pwrite_fn(writer->io->user, writer->fd, from + done,
                                            size_bytes - done, offset_bytes + done);
        if (put == -EINTR)
            continue;
        if (put == 0)
            put = -EIO; /* a regular file that takes no bytes and reports no error */
        if (put < 0)
            return fail_file(writer, "write", (int)-put, err);
        done += (size_t)put;
    }
    if (offset_bytes + size_bytes > writer->size_bytes)
        writer->size_bytes = offset_bytes + size_bytes;
    return SPSH_OK;
}

spsh_status spsh_file_writer_write(spsh_file_writer *writer, const void *data, size_t size_bytes,
                                   spsh_error *err)
{
    return spsh_file_writer_write_at(writer, data, size_bytes, writer->size_bytes, err);
}

spsh_status spsh_file_writer_read_at(spsh_file_writer *writer, void *dst, size_t size_bytes,
                                     uint64_t offset_bytes, spsh_error *err)
{
    spsh_status rc = check_alive(writer, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh_io_read_exact(writer->io, writer->fd, dst, size_bytes, offset_bytes, writer->path,
                              err);
}

uint64_t spsh_file_writer_size(const spsh_file_writer *writer)
{
    return writer->size_bytes;
}

static int close_once(spsh_file_writer *writer)
{
    int fd = writer->fd;
    if (fd < 0)
        return 0;
    writer->fd = -1; /* closed even when the call is interrupted or fails */
    int rc = writer->io->close_fn(writer->io->user, fd);
    return rc == -EINTR ? 0 : rc; /* the bytes are on the disk already */
}

/* Both files are size_bytes long. buffer holds 2 * COMPARE_BYTES. */
static spsh_status compare_contents(spsh_file_writer *writer, int fd_new, int fd_old,
                                    uint8_t *buffer, bool *ret_same, spsh_error *err)
{
    uint64_t offset = 0;
    while (offset < writer->size_bytes) {
        uint64_t left = writer->size_bytes - offset;
        size_t size = left < COMPARE_BYTES ? (size_t)left : COMPARE_BYTES;
        spsh_status rc =
            spsh_io_read_exact(writer->io, fd_new, buffer, size, offset, writer->temporary, err);
        if (rc == SPSH_OK)
            rc = spsh_io_read_exact(writer->io, fd_old, buffer + COMPARE_BYTES, size, offset,
                                    writer->path, err);
        if (rc != SPSH_OK)
            return rc;
        if (memcmp(buffer, buffer + COMPARE_BYTES, size) != 0) {
            *ret_same = false;
            return SPSH_OK;
        }
        offset += size;
    }
    *ret_same = true;
    return SPSH_OK;
}

static spsh_status compare_with_published(spsh_file_writer *writer, bool *ret_same, spsh_error *err)
{
    const spsh_io *io = writer->io;
    int fd_new = -1;
    int fd_old = -1;
    uint64_t old_bytes = 0;
    uint8_t *buffer = NULL;
    struct stat info;
    memset(&info, 0, sizeof(info));
    spsh_status rc = SPSH_OK;
    int stat_rc = io->stat_fn(io->user, writer->path, &info);
    if (stat_rc < 0)
        return fail_file(writer, "look at", -stat_rc, err);
    if (!S_ISREG(info.st_mode)) {
        *ret_same = false;
        return SPSH_OK;
    }
    rc = spsh__io_open_read(io, writer->temporary, &fd_new, err);
    if (rc == SPSH_OK)
        rc = spsh__io_open_read(io, writer->path, &fd_old, err);
    if (rc == SPSH_OK)
        rc = spsh__io_file_bytes(io, fd_old, writer->path, &old_bytes, err);
    if (rc != SPSH_OK)
        goto out;
    if (old_bytes != writer->size_bytes) {
        *ret_same = false;
        goto out;
    }
    buffer = (uint8_t *)spsh__alloc_array(&writer->allocator, 2, COMPARE_BYTES);
    if (buffer == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: comparing", writer->path);
        goto out;
    }
    rc = compare_contents(writer, fd_new, fd_old, buffer, ret_same, err);
out:
    spsh__free(&writer->allocator, buffer);
    if (fd_new >= 0)
        (void)io->close_fn(io->user, fd_new);
    if (fd_old >= 0)
        (void)io->close_fn(io->user, fd_old);
    return rc;
}

/* Publish under a name that must be free. Afterward, the temporary file exists only after a
 * failure, or if an identical file was already published.
 */
static spsh_status publish_new(spsh_file_writer *writer, spsh_error *err)
{
    int io_rc = writer->io->rename_new_fn(writer->io->user, writer->temporary, writer->path);
    if (io_rc == 0) {
        spsh__free(&writer->allocator, writer->temporary);
        writer->temporary = NULL;
        return SPSH_OK;
    }
    if (io_rc != -EEXIST)
        return fail_file(writer, "publish", -io_rc, err);

    bool same = false;
    spsh_status rc = compare_with_published(writer, &same, err);
    if (rc != SPSH_OK)
        return rc;
    if (!same)
        return SPSH_FAIL_OS(err, SPSH_E_EXISTS, EEXIST,
                            "%s: the file exists with different content", writer->path);
    return SPSH_OK;
}

static spsh_status publish_replace(spsh_file_writer *writer, spsh_error *err)
{
    int io_rc = writer->io->rename_fn(writer->io->user, writer->temporary, writer->path);
    if (io_rc < 0)
        return fail_file(writer, "publish", -io_rc, err);
    spsh__free(&writer->allocator, writer->temporary);
    writer->temporary = NULL;
    return SPSH_OK;
}

spsh_status spsh_file_writer_publish(spsh_file_writer *writer, spsh_publish_mode mode,
                                     spsh_error *err)
{
    spsh_status rc = check_alive(writer, err);
    if (rc != SPSH_OK)
        return rc;
    writer->dead = true; /* whatever happens, only free may follow */
    int io_rc = -EINTR;
    while (io_rc == -EINTR)
        io_rc = writer->io->ftruncate_fn(writer->io->user, writer->fd, writer->size_bytes);
    if (io_rc < 0)
        return fail_file(writer, "set the size", -io_rc, err);
    io_rc = writer->io->fsync_fn(writer->io->user, writer->fd);
    if (io_rc < 0)
        return fail_file(writer, "sync", -io_rc, err);
    io_rc = close_once(writer);
    if (io_rc < 0)
        return fail_file(writer, "close", -io_rc, err);
    rc = mode == SPSH_PUBLISH_REPLACE ? publish_replace(writer, err) : publish_new(writer, err);
    if (rc != SPSH_OK)
        return rc;
    return spsh_io_sync_directory(writer->io, writer->directory, err);
}

void spsh_file_writer_free(spsh_file_writer *writer)
{
    if (writer == NULL)
        return;
    const spsh_allocator allocator = writer->allocator;
    (void)close_once(writer);
    if (writer->temporary != NULL)
        (void)writer->io->unlink_fn(writer->io->user, writer->temporary);
    spsh__free(&allocator, writer->temporary);
    spsh__free(&allocator, writer->path);
    spsh__free(&allocator, writer->directory);
    spsh__free(&allocator, writer);
}

/* file_out.c: the library's write protocol for regular files, plain writes for the rest. */
#include "file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speechshard/inside.h"
#include "speechshard/io.h"

enum { FD_NONE = -1 };

struct spsh__file_out {
    char *path;
    spsh_file_writer *writer; /* NULL: write directly to fd */
    int fd;
};

static spsh_status fail_os(const char *path, const char *what, int os_errno, spsh_error *err)
{
    spsh_status status = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, status, os_errno, "%s: %s: %s", path, what, strerror(os_errno));
}

static spsh_status open_writer(spsh__file_out *file, spsh_error *err)
{
    char *slash = strrchr(file->path, '/');
    const char *name = slash == NULL ? file->path : slash + 1;
    const char *directory = slash == NULL ? "." : slash == file->path ? "/" : file->path;
    if (slash != NULL)
        *slash = '\0';
    spsh_stale_files_remove_of(spsh_io_default(), directory, name);
    const spsh_status rc =
        spsh_file_writer_open(spsh_io_default(), directory, name, 0, NULL, &file->writer, err);
    if (slash != NULL)
        *slash = '/';
    return rc;
}

spsh_status spsh__file_out_open(const char *path, spsh__file_out **ret_file, spsh_error *err)
{
    struct stat info;
    spsh_status rc = SPSH_OK;
    size_t length = strlen(path);
    spsh__file_out *file = (spsh__file_out *)calloc(1, sizeof(*file));
    if (file != NULL) {
        file->fd = FD_NONE;
        file->path = strdup(path);
    }
    if (file == NULL || file->path == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    bool exists = lstat(path, &info) == 0;
    if ((exists && S_ISDIR(info.st_mode)) || length == 0 || path[length - 1] == '/') {
        rc = fail_os(path, "cannot write", EISDIR, err);
    } else if (exists && !S_ISREG(info.st_mode)) {
        /* Follow a link: a rename would replace the link itself, such as /dev/stdout. */
        file->fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        if (file->fd < 0)
            rc = fail_os(path, "cannot open", errno, err);
    } else {
        rc = open_writer(file, err);
    }
    if (rc != SPSH_OK)
        goto out;
    *ret_file = file;
    file = NULL;
out:
    spsh__file_out_free(file);
    return rc;
}

static spsh_status write_fd(const spsh__file_out *file, const uint8_t *data, size_t size_bytes,
                            spsh_error *err)
{
    while (size_bytes > 0) {
        ssize_t written = write(file->fd, data, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_os(file->path, "cannot write", errno, err);
        data += written;
        size_bytes -= (size_t)written;
    }
    return SPSH_OK;
}

static spsh_status write_file(void *user, const void *data, size_t size_bytes, spsh_error *err)
{
    spsh__file_out *file = (spsh__file_out *)user;
    if (file->writer != NULL)
        return spsh_file_writer_write(file->writer, data, size_bytes, err);
    return write_fd(file, (const uint8_t *)data, size_bytes, err);
}

spsh__byte_sink spsh__file_out_sink(spsh__file_out *file)
{
    return (spsh__byte_sink){write_file, file};
}

spsh_status spsh__file_out_finish(spsh__file_out *file, spsh_error *err)
{
    if (file->writer != NULL)
        return spsh_file_writer_publish(file->writer, SPSH_PUBLISH_REPLACE, err);
    int rc = close(file->fd);
    file->fd = FD_NONE;
    return rc == 0 ? SPSH_OK : fail_os(file->path, "cannot write", errno, err);
}

void spsh__file_out_free(spsh__file_out *file)
{
    if (file == NULL)
        return;
    spsh_file_writer_free(file->writer);
    if (file->fd != FD_NONE)
        close(file->fd);
    free(file->path);
    free(file);
}

spsh_status spsh__file_out_write(const char *path, spsh_bytes content, spsh_error *err)
{
    spsh__file_out *file = NULL;
    spsh_status rc = spsh__file_out_open(path, &file, err);
    if (rc == SPSH_OK)
        rc = write_file(file, content.data, content.size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_finish(file, err);
    spsh__file_out_free(file);
    return rc;
}

static spsh_status write_stdout(void *user, const void *data, size_t size_bytes, spsh_error *err)
{
    (void)user;
    if (fwrite(data, 1, size_bytes, stdout) == size_bytes)
        return SPSH_OK;
    return fail_os("standard output", "cannot write", errno, err);
}

spsh__byte_sink spsh__stdout_sink(void)
{
    return (spsh__byte_sink){write_stdout, NULL};
}

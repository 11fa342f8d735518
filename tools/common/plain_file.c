/* plain_file.c: see plain_file.h. */
#include "plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "speechshard/inside.h"

#define SMALL_BYTES_MAX ((uint64_t)256 << 10)

spsh_status spsh__plain_file_open(const char *path, const char *name, spsh__plain_file *ret_file,
                                  spsh_error *err)
{
    struct stat info;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return SPSH_FAIL_OS(err, errno == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, errno,
                            "%s: cannot open the file", name);
    const int os_errno = fstat(fd, &info) == 0 ? 0 : errno;
    if (os_errno != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd);
        if (os_errno != 0)
            return SPSH_FAIL_OS(err, SPSH_E_IO, os_errno, "%s: cannot open the file", name);
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: not a regular file", name);
    }
    *ret_file = (spsh__plain_file){fd, (uint64_t)info.st_size, name};
    return SPSH_OK;
}

void spsh__plain_file_close(spsh__plain_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

spsh_status spsh__plain_file_read(const spsh__plain_file *file, uint64_t offset_bytes, void *buffer,
                                  size_t size_bytes, size_t *ret_size_bytes, spsh_error *err)
{
    size_t done = 0;
    while (done < size_bytes) {
        const ssize_t got = pread(file->fd, (uint8_t *)buffer + done, size_bytes - done,
                                  (off_t)(offset_bytes + done));
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SPSH_FAIL_OS(err, SPSH_E_IO, errno, "%s: cannot read the file", file->name);
        done += (size_t)got;
    }
    *ret_size_bytes = done;
    return SPSH_OK;
}

static spsh_status read_at(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                           size_t *ret_size_bytes, spsh_error *err)
{
    return spsh__plain_file_read(user, offset_bytes, buffer, size_bytes, ret_size_bytes, err);
}

size_t spsh__plain_file_window(uint64_t size_bytes)
{
    return size_bytes < SMALL_BYTES_MAX ? (size_t)size_bytes + 1 : 0;
}

spsh__text_input spsh__plain_file_input(spsh__plain_file *file)
{
    return (spsh__text_input){read_at, file, file->name, spsh__plain_file_window(file->size_bytes)};
}

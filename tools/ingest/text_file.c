/* text_file.c: see text_file.h. */
#include "text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

#define WINDOW_BYTES_SMALL ((uint64_t)256 << 10)

static spsh_status read_file(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                             size_t *ret_size_bytes, spsh_error *err)
{
    const spsh__text_file *file = user;
    size_t done = 0;
    if (file->is_part) {
        const uint64_t left = offset_bytes < file->size_bytes ? file->size_bytes - offset_bytes : 0;
        size_bytes = left < size_bytes ? (size_t)left : size_bytes;
    }
    while (done < size_bytes) {
        ssize_t got = pread(file->fd, (uint8_t *)buffer + done, size_bytes - done,
                            (off_t)(file->offset_bytes + offset_bytes + done));
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SPSH_INGEST_FAIL_OS(err, SPSH_E_IO, errno, "%s: cannot be read", file->path);
        done += (size_t)got;
    }
    *ret_size_bytes = done;
    return SPSH_OK;
}

spsh__text_input spsh__text_input_file(spsh__text_file *file)
{
    /* A small file is read at once, and one byte more shows that this was all. */
    const bool small = file->size_bytes < WINDOW_BYTES_SMALL;
    return (spsh__text_input){read_file, file, file->path,
                              small ? (size_t)file->size_bytes + 1 : 0};
}

spsh_status spsh__text_file_open(const spsh__view *view, const char *path,
                                 spsh__text_file *ret_file, spsh_error *err)
{
    spsh__piece piece;
    const int os_errno = spsh__view_locate_known(view, path, SPSH__PIECE_BYTES_UNKNOWN, &piece);
    if (os_errno != 0)
        return SPSH_INGEST_FAIL_OS(err, os_errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, os_errno,
                                   "%s: cannot be opened", path);
    return spsh__text_file_open_piece(&piece, path, ret_file, err);
}

spsh_status spsh__text_file_open_piece(const spsh__piece *piece, const char *path,
                                       spsh__text_file *ret_file, spsh_error *err)
{
    struct stat info;
    const bool is_part = piece->offset_bytes != 0 || piece->size_bytes != piece->file_bytes;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    int fd = open(piece->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return SPSH_INGEST_FAIL_OS(err, errno == ENOENT ? SPSH_E_NOT_FOUND : SPSH_E_IO, errno,
                                   "%s: cannot be opened", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd);
        return SPSH_INGEST_FAIL(err, SPSH_E_INVALID_ARG, "%s: is not a regular file", path);
    }
    if (is_part && (uint64_t)info.st_size != piece->file_bytes) {
        (void)close(fd);
        return SPSH_INGEST_FAIL(err, SPSH_E_IO, "%s: %s changed its size since it was listed", path,
                                piece->path);
    }
    *ret_file = (spsh__text_file){
        .fd = fd,
        .path = path,
        .offset_bytes = piece->offset_bytes,
        .size_bytes = is_part ? piece->size_bytes : (uint64_t)info.st_size,
        .is_part = is_part,
    };
    return SPSH_OK;
}

void spsh__text_file_close(spsh__text_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

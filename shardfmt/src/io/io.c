/* io.c: the operating system's implementation of the I/O table, and helpers that work on any table.
 *
 * Table functions return a negative errno and may stop short or be interrupted, as the kernel does.
 * The retry loops are here and in file_writer.c, so that the I/O table of a test exercises them
 * too.
 */
#include "io_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int answer(int rc)
{
    return rc < 0 ? -errno : rc;
}

static int os_open(void *user, const char *path, int flags, mode_t mode)
{
    (void)user;
    return answer(open(path, flags | O_CLOEXEC, mode));
}

static int os_close(void *user, int fd)
{
    (void)user;
    return answer(close(fd));
}

static int64_t os_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    (void)user;
    ssize_t got = pread(fd, dst, size_bytes, (off_t)offset_bytes);
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

static int64_t os_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                         uint64_t offset_bytes)
{
    (void)user;
    ssize_t put = pwrite(fd, src, size_bytes, (off_t)offset_bytes);
    return put < 0 ? -(int64_t)errno : (int64_t)put;
}

static int os_fallocate(void *user, int fd, uint64_t size_bytes)
{
    (void)user;
#if defined(FALLOC_FL_KEEP_SIZE)
    return answer(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size_bytes));
#else
    (void)fd, (void)size_bytes;
    return -EOPNOTSUPP;
#endif
}

static int os_ftruncate(void *user, int fd, uint64_t size_bytes)
{
    (void)user;
    return answer(ftruncate(fd, (off_t)size_bytes));
}

static int os_fstat(void *user, int fd, struct stat *ret_stat)
{
    (void)user;
    return answer(fstat(fd, ret_stat));
}

static int os_stat(void *user, const char *path, struct stat *ret_stat)
{
    (void)user;
    return answer(lstat(path, ret_stat));
}

static int os_fsync(void *user, int fd)
{
    (void)user;
    return answer(fsync(fd));
}

static int os_rename(void *user, const char *from, const char *to)
{
    (void)user;
    return answer(rename(from, to));
}

/* For file systems that have neither hard links nor a rename that does not replace. Two processes
 * that publish at the same moment can both succeed, and the later file stays. */
static int rename_if_free(const char *from, const char *to)
{
    struct stat found;

    if (lstat(to, &found) == 0)
        return -EEXIST;
    return errno == ENOENT ? answer(rename(from, to)) : -errno;
}

/* If the file system cannot rename without replacing, a hard link is as atomic. A crash between the
 * two steps leaves the temporary file next to the published one. */
static int os_rename_new(void *user, const char *from, const char *to)
{
    (void)user;
#if defined(RENAME_NOREPLACE)
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
#endif
    if (link(from, to) != 0)
        return errno == EOPNOTSUPP || errno == EPERM || errno == ENOSYS ? rename_if_free(from, to)
                                                                        : -errno;
    /* ENOENT: the reply to an unlink was lost, and the client of the file system repeated it */
    return unlink(from) == 0 || errno == ENOENT ? 0 : -errno;
}

static int os_link(void *user, const char *from, const char *to)
{
    (void)user;
    return answer(link(from, to));
}

static int os_unlink(void *user, const char *path)
{
    (void)user;
    return answer(unlink(path));
}

static int os_mkdir(void *user, const char *path, mode_t mode)
{
    (void)user;
    return answer(mkdir(path, mode));
}

static int os_rmdir(void *user, const char *path)
{
    (void)user;
    return answer(rmdir(path));
}

static void *os_mmap(void *user, int fd, size_t size_bytes, uint64_t offset_bytes)
{
    (void)user;
    void *memory = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset_bytes);
    return memory == MAP_FAILED ? NULL : memory;
}

static int os_munmap(void *user, void *memory, size_t size_bytes)
{
    (void)user;
    return answer(munmap(memory, size_bytes));
}

static const spsh_io os_io = {
    .open_fn = os_open,
    .close_fn = os_close,
    .pread_fn = os_pread,
    .pwrite_fn = os_pwrite,
    .fallocate_fn = os_fallocate,
    .ftruncate_fn = os_ftruncate,
    .fstat_fn = os_fstat,
    .stat_fn = os_stat,
    .fsync_fn = os_fsync,
    .rename_fn = os_rename,
    .rename_new_fn = os_rename_new,
    .link_fn = os_link,
    .unlink_fn = os_unlink,
    .mkdir_fn = os_mkdir,
    .rmdir_fn = os_rmdir,
    .mmap_fn = os_mmap,
    .munmap_fn = os_munmap,
};

const spsh_io *spsh_io_default(void)
{
    return &os_io;
}

char *spsh__path_join(const spsh_allocator *allocator, const char *directory, const char *name)
{
    size_t directory_bytes = strlen(directory);
    size_t name_bytes = strlen(name);
    char *path = (char *)spsh__alloc(allocator, directory_bytes + name_bytes + 2);
    if (path == NULL)
        return NULL;
    memcpy(path, directory, directory_bytes);
    path[directory_bytes] = '/';
    memcpy(path + directory_bytes + 1, name, name_bytes + 1);
    return path;
}

char *spsh__string_copy(const spsh_allocator *allocator, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    char *copy = (char *)spsh__alloc(allocator, size_bytes);
    if (copy != NULL)
        memcpy(copy, text, size_bytes);
    return copy;
}

spsh_status spsh_io_status(int os_errno)
{
    switch (os_errno) {
    case ENOSPC:
    case EFBIG: /* ulimit -f, or the largest file of the file system */
    case EDQUOT: return SPSH_E_NO_SPACE;
    case ENOENT: return SPSH_E_NOT_FOUND;
    case EEXIST: return SPSH_E_EXISTS;
    default: return SPSH_E_IO;
    }
}

static spsh_status fail_os(const char *what, const char *path, int os_errno, spsh_error *err)
{
    spsh_status rc = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, rc, os_errno, "%s: cannot %s: %s", path, what,
                        spsh__os_text(os_errno));
}

static int open_through_eintr(const spsh_io *io, const char *path, int flags)
{
    int fd = -EINTR;
    while (fd == -EINTR)
        fd = io->open_fn(io->user, path, flags, 0);
    return fd;
}

spsh_status spsh__io_open_read(const spsh_io *io, const char *path, int *ret_fd, spsh_error *err)
{
    int fd = open_through_eintr(io, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return fail_os("open", path, -fd, err);
    *ret_fd = fd;
    return SPSH_OK;
}

spsh_status spsh__io_file_bytes(const spsh_io *io, int fd, const char *path, uint64_t *ret_bytes,
                                spsh_error *err)
{
    struct stat info;
    memset(&info, 0, sizeof(info));
    int rc = io->fstat_fn(io->user, fd, &info);
    if (rc < 0)
        return fail_os("look at", path, -rc, err);
    if (!S_ISREG(info.st_mode))
        return SPSH_FAIL(err, SPSH_E_IO, "%s: not a regular file", path);
    *ret_bytes = (uint64_t)info.st_size;
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): a buffer and its size belong side by side */
spsh_status spsh_io_read_exact(const spsh_io *io, int fd, void *dst, size_t size_bytes,
                               uint64_t offset_bytes, const char *path, spsh_error *err)
{
    uint8_t *to = (uint8_t *)dst;
    size_t done = 0;
    while (done < size_bytes) {
        unsigned long long at = offset_bytes + done;
        int64_t got = io->pread_fn(io->user, fd, to + done, size_bytes - done, at);
        if (got == -EINTR)
            continue;
        if (got < 0) {
            spsh_status rc = spsh_io_status((int)-got);
            spsh_error_set(err, rc, (int)-got, at, "%s: cannot read %zu bytes at %llu: %s", path,
                           size_bytes - done, at, spsh__os_text((int)-got));
            return rc;
        }
        if (got == 0)
            return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, at,
                                "%s: the file ends at %llu, but %zu bytes at %llu were requested",
                                path, at, size_bytes, (unsigned long long)offset_bytes);
        done += (size_t)got;
    }
    return SPSH_OK;
}

/* NOLINTNEXTLINE(readability-function-size): data and its size are returned side by side */
spsh_status spsh_io_read_file(const spsh_io *io, const char *path, size_t size_max,
                              const spsh_allocator *allocator, uint8_t **ret_data,
                              size_t *ret_bytes, spsh_error *err)
{
    if (allocator == NULL)
        allocator = spsh_allocator_default();
    uint8_t *data = NULL;
    uint64_t size_bytes = 0;
    int fd = -1;
    spsh_status rc = spsh__io_open_read(io, path, &fd, err);
    if (rc != SPSH_OK)
        goto out;
    rc = spsh__io_file_bytes(io, fd, path, &size_bytes, err);
    if (rc != SPSH_OK)
        goto out;
    if (size_bytes > size_max) {
        rc = SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the file has %llu bytes, but the limit is %zu", path,
                       (unsigned long long)size_bytes, size_max);
        goto out;
    }
    data = (uint8_t *)spsh__alloc(allocator, size_bytes == 0 ? 1 : (size_t)size_bytes);
    if (data == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: %llu bytes", path,
                       (unsigned long long)size_bytes);
        goto out;
    }
    rc = spsh_io_read_exact(io, fd, data, (size_t)size_bytes, 0, path, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_data = data;
    *ret_bytes = (size_t)size_bytes;
    data = NULL;
out:
    spsh__free(allocator, data);
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    return rc;
}

spsh_status spsh_io_sync_directory(const spsh_io *io, const char *path, spsh_error *err)
{
    int fd = open_through_eintr(io, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fail_os("open directory", path, -fd, err);
    int rc = io->fsync_fn(io->user, fd);
    (void)io->close_fn(io->user, fd);
    if (rc < 0 && rc != -EINVAL) /* EINVAL: a file system whose directories need no sync */
        return fail_os("sync directory", path, -rc, err);
    return SPSH_OK;
}

/* Length of the parent in path; 0: the current directory. Trailing slashes do not count. */
static size_t parent_bytes(const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    while (end > 1 && path[end - 1] == '/')
        end--;
    return end;
}

spsh_status spsh_io_make_directory(const spsh_io *io, const char *path, spsh_error *err)
{
    int rc = io->mkdir_fn(io->user, path, 0777);
    if (rc == -EEXIST) {
        struct stat info;
        memset(&info, 0, sizeof(info));
        int stat_rc = io->stat_fn(io->user, path, &info);
        if (stat_rc < 0)
            return fail_os("look at", path, -stat_rc, err);
        if (S_ISLNK(info.st_mode)) {
            int fd = open_through_eintr(io, path, O_RDONLY | O_DIRECTORY);
            if (fd < 0)
                return fail_os("open directory", path, -fd, err);
            (void)io->close_fn(io->user, fd);
        } else if (!S_ISDIR(info.st_mode)) {
            return SPSH_FAIL_OS(err, SPSH_E_EXISTS, EEXIST,
                                "%s: the path exists and is not a directory", path);
        }
    } else if (rc < 0) {
        return fail_os("make directory", path, -rc, err);
    }

    char parent[4096];
    size_t size_bytes = parent_bytes(path);
    if (size_bytes == 0)
        return spsh_io_sync_directory(io, ".", err);
    if (size_bytes >= sizeof(parent))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "directory name: %zu bytes", size_bytes);
    memcpy(parent, path, size_bytes);
    parent[size_bytes] = '\0';
    return spsh_io_sync_directory(io, parent, err);
}

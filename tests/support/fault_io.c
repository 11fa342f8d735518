/* fault_io.c: each function counts itself, fails if it is its turn, else passes the call on. */
#include "fault_io.h"

#include <stddef.h>

static bool must_fail(void *user)
{
    fault_io *fault = (fault_io *)user;
    uint64_t call = atomic_fetch_add(&fault->call_count, 1);
    return call >= fault->fail_at && call - fault->fail_at < fault->fail_count;
}

static int failure(void *user)
{
    const fault_io *fault = (const fault_io *)user;
    return -fault->fail_errno;
}

static void count_open(void *user, int64_t change)
{
    fault_io *fault = (fault_io *)user;
    atomic_fetch_add(&fault->open_count, change);
}

static size_t shorten(void *user, size_t size_bytes)
{
    const fault_io *fault = (const fault_io *)user;
    size_t most = fault->transfer_bytes_max;
    return most != 0 && size_bytes > most ? most : size_bytes;
}

static int fault_open(void *user, const char *path, int flags, mode_t mode)
{
    const spsh_io *io = spsh_io_default();
    if (must_fail(user))
        return failure(user);
    int fd = io->open_fn(io->user, path, flags, mode);
    if (fd >= 0)
        count_open(user, 1);
    return fd;
}

static int fault_close(void *user, int fd)
{
    const spsh_io *io = spsh_io_default();
    bool fail = must_fail(user);
    int result = io->close_fn(io->user, fd);
    count_open(user, -1);
    return fail ? failure(user) : result;
}

static int64_t fault_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user)
               ? failure(user)
               : io->pread_fn(io->user, fd, dst, shorten(user, size_bytes), offset_bytes);
}

static int64_t fault_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                            uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user)
               ? failure(user)
               : io->pwrite_fn(io->user, fd, src, shorten(user, size_bytes), offset_bytes);
}

static int fault_fallocate(void *user, int fd, uint64_t size_bytes)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->fallocate_fn(io->user, fd, size_bytes);
}

static int fault_ftruncate(void *user, int fd, uint64_t size_bytes)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->ftruncate_fn(io->user, fd, size_bytes);
}

static int fault_fstat(void *user, int fd, struct stat *ret_stat)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->fstat_fn(io->user, fd, ret_stat);
}

static int fault_stat(void *user, const char *path, struct stat *ret_stat)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->stat_fn(io->user, path, ret_stat);
}

static int fault_fsync(void *user, int fd)
{
    (void)fd; /* no test cuts the power, and thousands of syncs would take minutes */
    return must_fail(user) ? failure(user) : 0;
}

static int fault_rename(void *user, const char *from, const char *to)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->rename_fn(io->user, from, to);
}

static int fault_rename_new(void *user, const char *from, const char *to)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->rename_new_fn(io->user, from, to);
}

static int fault_link(void *user, const char *from, const char *to)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->link_fn(io->user, from, to);
}

static int fault_unlink(void *user, const char *path)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->unlink_fn(io->user, path);
}

static int fault_mkdir(void *user, const char *path, mode_t mode)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->mkdir_fn(io->user, path, mode);
}

static int fault_rmdir(void *user, const char *path)
{
    const spsh_io *io = spsh_io_default();
    return must_fail(user) ? failure(user) : io->rmdir_fn(io->user, path);
}

static void *fault_mmap(void *user, int fd, size_t size_bytes, uint64_t offset_bytes)
{
    const spsh_io *io = spsh_io_default();
    if (must_fail(user))
        return NULL;
    void *memory = io->mmap_fn(io->user, fd, size_bytes, offset_bytes);
    if (memory != NULL)
        count_open(user, 1);
    return memory;
}

static int fault_munmap(void *user, void *memory, size_t size_bytes)
{
    const spsh_io *io = spsh_io_default();
    count_open(user, -1);
    return io->munmap_fn(io->user, memory, size_bytes);
}

spsh_io fault_io_table(fault_io *fault)
{
    return (spsh_io){
        .user = fault,
        .open_fn = fault_open,
        .close_fn = fault_close,
        .pread_fn = fault_pread,
        .pwrite_fn = fault_pwrite,
        .fallocate_fn = fault_fallocate,
        .ftruncate_fn = fault_ftruncate,
        .fstat_fn = fault_fstat,
        .stat_fn = fault_stat,
        .fsync_fn = fault_fsync,
        .rename_fn = fault_rename,
        .rename_new_fn = fault_rename_new,
        .link_fn = fault_link,
        .unlink_fn = fault_unlink,
        .mkdir_fn = fault_mkdir,
        .rmdir_fn = fault_rmdir,
        .mmap_fn = fault_mmap,
        .munmap_fn = fault_munmap,
    };
}

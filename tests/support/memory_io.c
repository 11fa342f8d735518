/* memory_io.c: functions that change files return EROFS. */
#include "memory_io.h"

#include <errno.h>
#include <string.h>

static int memory_open(void *user, const char *path, int flags, mode_t mode)
{
    (void)user, (void)path, (void)flags, (void)mode;
    return 3;
}

static int memory_close(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static int64_t memory_pread(void *user, int fd, void *dst, size_t size_bytes, uint64_t offset_bytes)
{
    const memory_io *memory = (const memory_io *)user;
    (void)fd;
    if (offset_bytes >= memory->size_bytes)
        return 0;
    size_t left = memory->size_bytes - (size_t)offset_bytes;
    size_t size = size_bytes < left ? size_bytes : left;
    memcpy(dst, memory->data + offset_bytes, size);
    return (int64_t)size;
}

static int64_t memory_pwrite(void *user, int fd, const void *src, size_t size_bytes,
                             uint64_t offset_bytes)
{
    (void)user, (void)fd, (void)src, (void)size_bytes, (void)offset_bytes;
    return -EROFS;
}

static int memory_resize(void *user, int fd, uint64_t size_bytes)
{
    (void)user, (void)fd, (void)size_bytes;
    return -EROFS;
}

static int memory_fstat(void *user, int fd, struct stat *ret_stat)
{
    const memory_io *memory = (const memory_io *)user;
    (void)fd;
    memset(ret_stat, 0, sizeof(*ret_stat));
    ret_stat->st_mode = S_IFREG | 0444;
    ret_stat->st_size = (off_t)memory->size_bytes;
    return 0;
}

static int memory_stat(void *user, const char *path, struct stat *ret_stat)
{
    (void)path;
    return memory_fstat(user, 3, ret_stat);
}

static int memory_fsync(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static int memory_two_names(void *user, const char *from, const char *to)
{
    (void)user, (void)from, (void)to;
    return -EROFS;
}

static int memory_one_name(void *user, const char *path)
{
    (void)user, (void)path;
    return -EROFS;
}

static int memory_mkdir(void *user, const char *path, mode_t mode)
{
    (void)user, (void)path, (void)mode;
    return -EROFS;
}

static void *memory_mmap(void *user, int fd, size_t size_bytes, uint64_t offset_bytes)
{
    const memory_io *memory = (const memory_io *)user;
    (void)fd;
    if (offset_bytes > memory->size_bytes || size_bytes > memory->size_bytes - offset_bytes)
        return NULL;
    union {
        const uint8_t *mapped;
        void *address;
    } view = {memory->data + offset_bytes}; /* mapped read-only, as the contract says */
    return view.address;
}

static int memory_munmap(void *user, void *address, size_t size_bytes)
{
    (void)user, (void)address, (void)size_bytes;
    return 0;
}

spsh_io memory_io_table(memory_io *memory)
{
    return (spsh_io){
        .user = memory,
        .open_fn = memory_open,
        .close_fn = memory_close,
        .pread_fn = memory_pread,
        .pwrite_fn = memory_pwrite,
        .fallocate_fn = memory_resize,
        .ftruncate_fn = memory_resize,
        .fstat_fn = memory_fstat,
        .stat_fn = memory_stat,
        .fsync_fn = memory_fsync,
        .rename_fn = memory_two_names,
        .rename_new_fn = memory_two_names,
        .link_fn = memory_two_names,
        .unlink_fn = memory_one_name,
        .mkdir_fn = memory_mkdir,
        .rmdir_fn = memory_one_name,
        .mmap_fn = memory_mmap,
        .munmap_fn = memory_munmap,
    };
}

/* work_space.c: ask the file system for its free space. */
#include "work_space.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "speechshard/inside.h"

/* Free bytes for a directory. An existing path may be a mount point, so it is asked itself.
 * Otherwise ask its parent. */
static bool free_space(const char *path, uint64_t *ret_bytes)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0) {
        const char *slash = strrchr(path, '/');
        char *parent = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
        const bool known = parent != NULL && statvfs(parent, &info) == 0;
        free(parent);
        if (!known)
            return false;
    }
    *ret_bytes = (uint64_t)info.f_bavail * (uint64_t)info.f_frsize;
    return true;
}

spsh_status spsh__work_space_check(const char *path, uint64_t need_bytes, spsh_error *err)
{
    uint64_t free_bytes = 0;
    if (!free_space(path, &free_bytes) || free_bytes >= need_bytes)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_NO_SPACE,
                     "%s: needs up to %.1f GB for a while, and the disk has %.1f GB; give "
                     "work_path a directory on another one",
                     path, (double)need_bytes / 1e9, (double)free_bytes / 1e9);
}

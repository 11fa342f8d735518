/* work_space.c: asks the file system. */
#include "work_space.h"

#include <stdbool.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/byte_builder.h"
#include "speechshard/inside.h"

/* What is there may be a disk of its own; what is not will be on that of the folder it lies in. */
static bool free_space(const char *path, uint64_t *ret_bytes)
{
    struct statvfs info;
    spsh__builder parent = {0};
    const char *slash = strrchr(path, '/');
    if (statvfs(path, &info) == 0) {
        *ret_bytes = (uint64_t)info.f_bavail * (uint64_t)info.f_frsize;
        return true;
    }
    spsh__builder_append(&parent, path, slash == NULL ? 0 : (size_t)(slash - path) + 1);
    if (parent.size_bytes == 0)
        spsh__builder_append_text(&parent, ".");
    const char *text = spsh__builder_text(&parent);
    const bool known = text != NULL && statvfs(text, &info) == 0;
    if (known)
        *ret_bytes = (uint64_t)info.f_bavail * (uint64_t)info.f_frsize;
    spsh__builder_free(&parent);
    return known;
}

spsh_status spsh__work_space_check(const char *path, uint64_t need_bytes, spsh_error *err)
{
    uint64_t free_bytes = 0;
    if (!free_space(path, &free_bytes) || free_bytes >= need_bytes)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_NO_SPACE,
                     "%s: needs up to %.1f GB for a while, and the disk has %.1f GB; give "
                     "--work a directory on another one",
                     path, (double)need_bytes / 1e9, (double)free_bytes / 1e9);
}

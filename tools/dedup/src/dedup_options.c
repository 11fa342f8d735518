/* dedup_options.c: see dedup_options.h. */
#include "dedup_options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "speechshard/cores.h"
#include "speechshard/inside.h"

uint32_t spsh__dedup_threads(uint32_t threads)
{
    if (threads == 0)
        return spsh_core_count(SPSH_DEDUP_THREADS_MAX);
    return threads < SPSH_DEDUP_THREADS_MAX ? threads : SPSH_DEDUP_THREADS_MAX;
}

spsh_status spsh__dedup_path_check(const char *name, const char *path, spsh_error *err)
{
    return path == NULL ? SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is missing", name) : SPSH_OK;
}

spsh_status spsh__dedup_memory_take(uint64_t *memory_bytes, spsh_error *err)
{
    if (*memory_bytes == 0)
        *memory_bytes = SPSH_DEDUP_MEMORY_BYTES_DEFAULT;
    if (*memory_bytes >= SPSH_DEDUP_MEMORY_BYTES_MIN)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "memory_bytes is %" PRIu64 ", must be at least %" PRIu64, *memory_bytes,
                     SPSH_DEDUP_MEMORY_BYTES_MIN);
}

/* Return the free bytes for a directory. An existing path may be a mount point, so query the path
 * itself. Otherwise query its parent. */
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
                     "%s: up to %.1f GB are needed temporarily, but the disk has %.1f GB; set "
                     "work_path to a directory on another disk",
                     path, (double)need_bytes / 1e9, (double)free_bytes / 1e9);
}

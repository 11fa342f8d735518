/* dedup_options.c: see dedup_options.h. */
#include "dedup_options.h"

#include <inttypes.h>

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
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "memory_bytes is %" PRIu64 ", at least %" PRIu64,
                     *memory_bytes, SPSH_DEDUP_MEMORY_BYTES_MIN);
}

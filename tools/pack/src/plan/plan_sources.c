/* plan_sources.c: whether this machine sees the corpus that the plan was made from. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "pack_plan.h"
#include "plan_item.h"
#include "speechshard/inside.h"

#define FILES_TRIED 16U

/* Try to open the first files of a unit that the scan has seen. A missing one is an error only if
 * all are missing: single files may have been removed since. */
static spsh_status check_items(const spsh_io *io, spsh_bytes rest, spsh_error *err)
{
    spsh_ingest_item item;
    uint64_t sequence = 0;
    uint32_t missing = 0;

    while (missing < FILES_TRIED && rest.size_bytes > 0) {
        const spsh_status rc = spsh__item_take(&rest, &item, &sequence, err);
        if (rc != SPSH_OK)
            return rc;
        if (item.source_bytes == SPSH_SOURCE_BYTES_UNKNOWN)
            continue;
        const int fd = io->open_fn(io->user, item.audio.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
        if (fd >= 0)
            (void)io->close_fn(io->user, fd);
        if (fd >= 0 || (fd != -ENOENT && fd != -ENOTDIR))
            return SPSH_OK;
        missing++;
    }
    if (missing == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_IO,
                     "%s: the file was there when the plan was made, but it is missing on this "
                     "machine; mount the corpus under the same path",
                     item.audio.path);
}

spsh_status spsh__plan_check_sources(const spsh_io *io, const char *work_directory,
                                     const spsh__plan *plan, spsh_error *err)
{
    uint8_t *items = NULL;

    if (plan->unit_count == 0)
        return SPSH_OK;
    spsh_status rc = spsh__plan_read_unit(io, work_directory, plan, 0, &items, err);
    if (rc == SPSH_OK)
        rc = check_items(io, (spsh_bytes){items, (size_t)plan->units[0].size_bytes}, err);
    free(items);
    return rc;
}

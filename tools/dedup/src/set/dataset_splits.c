/* dataset_splits.c: see dataset_splits.h. */
#include "dataset_splits.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "speechshard/dataset.h"
#include "speechshard/inside.h"

spsh_status spsh_dedup_sources_new(spsh_dedup_sources **ret_sources, spsh_error *err)
{
    spsh_dedup_sources *sources = calloc(1, sizeof(*sources));
    if (sources == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_sources = sources;
    return SPSH_OK;
}

spsh_status spsh_dedup_sources_add(spsh_dedup_sources *sources, const char *operand, spsh_side side,
                                   const spsh_io *io, spsh_error *err)
{
    const char *splits = NULL;
    if (!SPSH_GROW(sources->items, sources->capacity, sources->count + 1))
        return SPSH_NO_MEMORY(err);
    char *path = strdup(operand);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh_dataset_name_cut(path, io, &splits, err);
    if (rc == SPSH_OK)
        sources->items[sources->count++] = (spsh_dedup_source){path, splits, side};
    else
        free(path);
    return rc;
}

size_t spsh_dedup_sources_count(const spsh_dedup_sources *sources)
{
    return sources->count;
}

const spsh_dedup_source *spsh_dedup_sources_get(const spsh_dedup_sources *sources, size_t index)
{
    return &sources->items[index];
}

void spsh_dedup_sources_free(spsh_dedup_sources *sources)
{
    if (sources == NULL)
        return;
    for (size_t i = 0; i < sources->count; i++) {
        union {
            const char *borrowed;
            char *owned; /* the splits are stored in the same block */
        } path = {sources->items[i].path};
        free(path.owned);
    }
    free(sources->items);
    free(sources);
}

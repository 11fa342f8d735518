/* dataset_splits.c: where an operand is cut. */
#include "dataset_splits.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"

#include "common/file_names.h"
#include "speechshard/inside.h"

static bool exists(const spsh_io *io, const char *path)
{
    struct stat status;
    return io->stat_fn(io->user, path, &status) == 0;
}

/* How much of the operand is the path. */
static spsh_status find_path(const char *operand, const spsh_io *io, size_t *ret_bytes,
                             spsh_error *err)
{
    const char *last = strrchr(operand, ':');
    *ret_bytes = strlen(operand);
    if (last == NULL || exists(io, operand))
        return SPSH_OK;
    char *path = strdup(operand);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    *ret_bytes = (size_t)(last - operand);
    for (size_t at = *ret_bytes + 1; at-- > 0;) {
        if (path[at] != ':')
            continue;
        path[at] = '\0';
        if (exists(io, path)) {
            *ret_bytes = at;
            break;
        }
    }
    free(path);
    return SPSH_OK;
}

/* "a,b": names between commas, none of them empty. */
static bool are_names(const char *splits)
{
    size_t bytes = strlen(splits);
    return bytes > 0 && splits[0] != ',' && splits[bytes - 1] != ',' &&
           strstr(splits, ",,") == NULL;
}

static spsh_status grow(spsh_dedup_sources *sources, spsh_error *err)
{
    if (sources->count < sources->capacity)
        return SPSH_OK;
    size_t capacity = sources->capacity == 0 ? 8 : 2 * sources->capacity;
    spsh_dedup_source *items =
        (spsh_dedup_source *)realloc(sources->items, capacity * sizeof(*items));
    if (items == NULL)
        return SPSH_NO_MEMORY(err);
    sources->items = items;
    sources->capacity = capacity;
    return SPSH_OK;
}

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
    size_t path_bytes = 0;
    spsh_status rc = find_path(operand, io != NULL ? io : spsh_io_default(), &path_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    bool has_splits = operand[path_bytes] == ':';
    if (path_bytes == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "'%s' names no dataset", operand);
    if (has_splits && !are_names(operand + path_bytes + 1))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "'%s': splits are names with commas between, such as '%.*s:train'",
                         operand, (int)path_bytes, operand);
    if (has_splits && !spsh__utf8_valid(spsh__bytes_of(operand + path_bytes + 1)))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "'%s': names of splits are UTF-8, and this one is not", operand);
    rc = grow(sources, err);
    if (rc != SPSH_OK)
        return rc;
    char *text = strdup(operand);
    if (text == NULL)
        return SPSH_NO_MEMORY(err);
    text[path_bytes] = '\0';
    sources->items[sources->count++] =
        (spsh_dedup_source){text, has_splits ? text + path_bytes + 1 : NULL, side};
    return SPSH_OK;
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
    for (size_t i = 0; sources != NULL && i < sources->count; i++) {
        union {
            const char *borrowed;
            char *owned; /* the splits follow it */
        } path = {sources->items[i].path};
        free(path.owned);
    }
    if (sources != NULL)
        free(sources->items);
    free(sources);
}

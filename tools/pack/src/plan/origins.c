/* origins.c: see origins.h. */
#include "origins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"

#define ORIGINS_MAX ((size_t)4096) /* maximum number of folders; roots may follow */

void spsh__origins_begin(spsh__origins *origins, const char *root)
{
    origins->root = root;
    origins->settled = false;
    origins->begun = true;
}

static bool push(spsh__origins *origins, spsh__origin origin)
{
    if (!SPSH_GROW(origins->items, origins->capacity, origins->count + 1))
        return false;
    origins->items[origins->count++] = origin;
    return true;
}

/* Return the folders of a path: "a/b" for "a/b/c.wav". */
static spsh_bytes folders_of(spsh_bytes path)
{
    const uint8_t *slash = path.size_bytes == 0 ? NULL : memrchr(path.data, '/', path.size_bytes);
    return (spsh_bytes){path.data, slash == NULL ? 0 : (size_t)(slash - path.data)};
}

bool spsh__origins_see(spsh__origins *origins, spsh_bytes source, uint64_t sequence)
{
    spsh_bytes below = folders_of(source);
    char *folder = NULL;

    if (origins->settled)
        return true;
    if (!origins->begun) {
        const spsh__origin *last = &origins->items[origins->count - 1];
        if (spsh__bytes_equal(below, spsh__bytes_of(last->folder + last->root_bytes)))
            return true;
    }
    origins->begun = false;
    origins->settled = origins->count >= ORIGINS_MAX;
    if (origins->settled)
        below.size_bytes = 0;
    const bool has_root = below.size_bytes == 0 || below.data[0] != '/';
    const int root_bytes = asprintf(&folder, "%s%s", has_root ? origins->root : "",
                                    has_root && below.size_bytes > 0 ? "/" : "");
    if (root_bytes < 0)
        return false;
    char *whole = realloc(folder, (size_t)root_bytes + below.size_bytes + 1);
    if (whole == NULL) {
        free(folder);
        return false;
    }
    if (below.size_bytes > 0)
        memcpy(whole + root_bytes, below.data, below.size_bytes);
    whole[(size_t)root_bytes + below.size_bytes] = '\0';
    if (push(origins, (spsh__origin){sequence, whole, (size_t)root_bytes}))
        return true;
    free(whole);
    return false;
}

/* Return the folder of an item. There must be at least one folder. */
static spsh_bytes folder_of(const spsh__origins *origins, uint64_t sequence)
{
    size_t low = 0;
    size_t high = origins->count;
    while (high - low > 1) { /* items[low] begins at or before sequence, items[high] after it */
        const size_t middle = low + (high - low) / 2;
        if (origins->items[middle].first_sequence <= sequence)
            low = middle;
        else
            high = middle;
    }
    return spsh__bytes_of(origins->items[low].folder);
}

/* Shorten both paths: each ends with the first folder that differs. */
static void cut(spsh_bytes *a, spsh_bytes *b)
{
    size_t at = 0;
    while (at < a->size_bytes && at < b->size_bytes && a->data[at] == b->data[at])
        at++;
    for (int i = 0; i < 2; i++) {
        spsh_bytes *path = i == 0 ? a : b;
        size_t end = at;
        while (end < path->size_bytes && path->data[end] != '/')
            end++;
        path->size_bytes = end;
    }
}

void spsh__origins_share(spsh__origins *origins, uint64_t earlier, uint64_t later)
{
    spsh__origin_pair pair = {folder_of(origins, earlier), folder_of(origins, later), 1};
    if (spsh__bytes_equal(pair.earlier, pair.later))
        return;
    cut(&pair.earlier, &pair.later);
    for (size_t i = 0; i < origins->pair_count; i++) {
        spsh__origin_pair *known = &origins->pairs[i];
        if (spsh__bytes_equal(known->earlier, pair.earlier) &&
            spsh__bytes_equal(known->later, pair.later)) {
            known->ids++;
            return;
        }
    }
    if (origins->pair_count < SPSH__ORIGIN_PAIRS)
        origins->pairs[origins->pair_count++] = pair;
}

void spsh__origins_free(spsh__origins *origins)
{
    for (size_t i = 0; i < origins->count; i++)
        free(origins->items[i].folder);
    free(origins->items);
    *origins = (spsh__origins){0};
}

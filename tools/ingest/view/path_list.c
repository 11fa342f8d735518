/* path_list.c: see path_list.h. */
#include "path_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/grow.h"
#include "speechshard/inside.h"

bool spsh__path_list_push(spsh__path_list *list, char *path)
{
    if (path == NULL || !SPSH_GROW(list->paths, list->capacity, list->count + 1)) {
        free(path);
        return false;
    }
    list->paths[list->count++] = path;
    return true;
}

spsh_status spsh__path_list_add(spsh__path_list *list, const char *folder, const char *name,
                                spsh_error *err)
{
    const size_t folder_bytes = strlen(folder);
    const size_t name_bytes = strlen(name);
    size_t at = folder_bytes;
    char *path = malloc(folder_bytes + 1 + name_bytes + 1);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(path, folder, folder_bytes);
    if (folder_bytes > 0 && name_bytes > 0)
        path[at++] = '/';
    memcpy(path + at, name, name_bytes + 1);
    return spsh__path_list_push(list, path) ? SPSH_OK : SPSH_NO_MEMORY(err);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void spsh__path_list_sort(spsh__path_list *list, size_t first)
{
    if (list->count > first + 1)
        qsort(list->paths + first, list->count - first, sizeof(*list->paths), compare_paths);
}

void spsh__path_list_free(spsh__path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (spsh__path_list){0};
}

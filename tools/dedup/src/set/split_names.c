/* split_names.c: see split_names.h. */
#include "split_names.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"

bool spsh__split_names_has(const char *list, spsh_bytes name)
{
    spsh_bytes listed;
    while (spsh__split_names_next(&list, &listed)) {
        if (spsh__bytes_equal(listed, name))
            return true;
    }
    return false;
}

bool spsh__split_names_add(spsh__split_names *names, const char *list)
{
    spsh_bytes name;
    while (spsh__split_names_next(&list, &name)) {
        if (!SPSH_GROW(names->items, names->capacity, names->count + 1))
            return false;
        names->items[names->count++] = name;
    }
    return true;
}

int spsh__name_compare(const void *left, const void *right)
{
    const spsh_bytes *l = left;
    const spsh_bytes *r = right;
    const size_t common = l->size_bytes < r->size_bytes ? l->size_bytes : r->size_bytes;
    const int order = common == 0 ? 0 : memcmp(l->data, r->data, common);
    return order != 0 ? order : (l->size_bytes > r->size_bytes) - (l->size_bytes < r->size_bytes);
}

void spsh__split_names_sort(spsh__split_names *names)
{
    size_t count = 0;
    if (names->count > 1)
        qsort(names->items, names->count, sizeof(*names->items), spsh__name_compare);
    for (size_t i = 0; i < names->count; i++) {
        if (count == 0 || spsh__name_compare(&names->items[count - 1], &names->items[i]) != 0)
            names->items[count++] = names->items[i];
    }
    names->count = count;
}

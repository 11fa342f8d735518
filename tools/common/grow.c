/* grow.c: see grow.h. */
#include "grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 32 }; /* so that short lists move once */

void *spsh__grow(void *items, size_t *capacity, size_t needed, size_t item_bytes)
{
    const size_t more = 2 * needed + FIRST;
    if (items != NULL && needed <= *capacity)
        return items;
    if (more / 2 < needed || more > SIZE_MAX / item_bytes)
        return NULL;
    void *moved = realloc(items, more * item_bytes);
    if (moved != NULL)
        *capacity = more;
    return moved;
}

/* Pointers of all types are copied as bytes, which no compiler may assume not to alias. */
bool spsh__grow_array(void *array, size_t *capacity, size_t needed, size_t item_bytes)
{
    void *items = NULL;
    memcpy(&items, array, sizeof(items));
    items = spsh__grow(items, capacity, needed, item_bytes);
    if (items == NULL)
        return false;
    memcpy(array, &items, sizeof(items));
    return true;
}

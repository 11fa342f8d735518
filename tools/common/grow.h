/* grow.h: room in an array that grows as it is filled.
 *
 *     item *items = spsh__grow(list->items, &list->capacity, list->count + 1, sizeof(*items));
 *     if (items == NULL)
 *         return SPSH_NO_MEMORY(err);
 *     list->items = items;
 *     list->items[list->count++] = *one;
 */
#ifndef SPSH_DEDUP_GROW_H
#define SPSH_DEDUP_GROW_H

#include <stddef.h>

/* The array, moved if need be, with room for needed items, and for as many again when it grows.
 * items may be NULL, with *capacity 0. NULL without memory: then the array is as before. */
void *spsh__grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

#endif

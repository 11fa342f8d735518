/* grow.h: room in an array that grows as it is filled.
 *
 *     if (!SPSH_GROW(list->items, list->capacity, list->count + 1))
 *         return SPSH_NO_MEMORY(err);
 *     list->items[list->count++] = *one;
 */
#ifndef SPSH_DEDUP_GROW_H
#define SPSH_DEDUP_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* The array, moved if need be, with room for needed items, and for as many again when it grows.
 * items may be NULL, with *capacity 0. NULL without memory: then the array is as before. */
void *spsh__grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

/* The same for an array that is a pointer with a type, in place: false without memory. */
#define SPSH_GROW(array_, capacity_, needed_)                                                      \
    spsh__grow_array((void *)&(array_), &(capacity_), (needed_), sizeof(*(array_)))
/* array: the address of the pointer to the items. */
bool spsh__grow_array(void *array, size_t *capacity, size_t needed, size_t item_bytes);

#endif

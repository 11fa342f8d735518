/* grow.h: capacity for an array that grows as it is filled.
 *
 *     if (!SPSH_GROW(list->items, list->capacity, list->count + 1))
 *         return SPSH_NO_MEMORY(err);
 *     list->items[list->count++] = *one;
 */
#ifndef SPSH_DEDUP_GROW_H
#define SPSH_DEDUP_GROW_H

#include <stdbool.h>
#include <stddef.h>

/* Return the array, moved if necessary, with capacity for at least needed items. A larger array
 * gets twice that capacity. items may be NULL with *capacity 0. NULL: no memory, and the array is
 * unchanged. */
void *spsh__grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

/* The same for a typed pointer, in place. false: no memory. */
#define SPSH_GROW(array_, capacity_, needed_)                                                      \
    spsh__grow_array((void *)&(array_), &(capacity_), (needed_), sizeof(*(array_)))
/* array: address of the pointer to the items. */
bool spsh__grow_array(void *array, size_t *capacity, size_t needed, size_t item_bytes);

#endif

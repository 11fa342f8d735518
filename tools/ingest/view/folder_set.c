/* folder_set.c: see folder_set.h. Linear probing in a table that is at most half full. */
#include "folder_set.h"

#include <stdlib.h>

#define CAPACITY_MIN ((size_t)256) /* all capacities are powers of two */

/* Return the slot of a key, or the empty slot where it belongs. */
static spsh__folder_key *find_key(spsh__folder_key *slots, size_t capacity,
                                  const spsh__folder_key *key)
{
    const uint64_t mixed = (key->inode ^ (key->device << 40)) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(mixed >> 32) & (capacity - 1);
    while (slots[at].used && (slots[at].inode != key->inode || slots[at].device != key->device))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static bool grow(spsh__folder_set *set)
{
    const size_t capacity = set->capacity == 0 ? CAPACITY_MIN : set->capacity * 2;
    spsh__folder_key *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->slots[i].used)
            *find_key(slots, capacity, &set->slots[i]) = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return true;
}

bool spsh__folder_set_add(spsh__folder_set *set, const spsh__view_info *folder, bool *ret_new)
{
    const spsh__folder_key key = {folder->device, folder->inode, true};
    *ret_new = true;
    if (key.device == 0 && key.inode == 0)
        return true;
    if (set->count * 2 >= set->capacity && !grow(set))
        return false;
    spsh__folder_key *slot = find_key(set->slots, set->capacity, &key);
    *ret_new = !slot->used;
    set->count += !slot->used;
    *slot = key;
    return true;
}

void spsh__folder_set_free(spsh__folder_set *set)
{
    free(set->slots);
    *set = (spsh__folder_set){0};
}

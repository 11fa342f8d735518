/* stored_table.c: open addressing over an array; keys are hashes already. */
#include "stored_table.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

static size_t first_slot(const spsh__stored *stored, const uint8_t key[16])
{
    uint64_t hash = 0;
    memcpy(&hash, key, sizeof(hash));
    return (size_t)hash & (stored->slot_count - 1);
}

static void insert(spsh__stored *stored, size_t number)
{
    size_t slot = first_slot(stored, stored->entries[number].key);
    while (stored->slots[slot] != 0)
        slot = (slot + 1) & (stored->slot_count - 1);
    stored->slots[slot] = (uint32_t)number + 1;
}

/* Keep at least twice as many slots as entries. Reinsert the entries in insertion order, because
 * find returns them in that order. */
static spsh_status grow(spsh__stored *stored, spsh_error *err)
{
    size_t capacity = stored->capacity == 0 ? 256 : 2 * stored->capacity;
    if (capacity >= UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a unit has too many recordings");
    spsh__stored_entry *entries = realloc(stored->entries, capacity * sizeof(*entries));
    if (entries == NULL)
        return SPSH_NO_MEMORY(err);
    stored->entries = entries;
    uint32_t *slots = calloc(2 * capacity, sizeof(*slots));
    if (slots == NULL)
        return SPSH_NO_MEMORY(err);
    free(stored->slots);
    stored->slots = slots;
    stored->slot_count = 2 * capacity;
    stored->capacity = capacity;
    for (size_t i = 0; i < stored->count; i++)
        insert(stored, i);
    return SPSH_OK;
}

spsh_status spsh__stored_add(spsh__stored *stored, const spsh__stored_entry *entry, spsh_error *err)
{
    if (stored->count == stored->capacity) {
        spsh_status rc = grow(stored, err);
        if (rc != SPSH_OK)
            return rc;
    }
    stored->entries[stored->count] = *entry;
    insert(stored, stored->count++);
    return SPSH_OK;
}

bool spsh__stored_find(const spsh__stored *stored, const uint8_t key[16], size_t *at,
                       const spsh__stored_entry **ret_entry)
{
    if (stored->slot_count == 0)
        return false;
    /* *at counts probed slots, so that the search can be continued. */
    size_t slot = (first_slot(stored, key) + *at) & (stored->slot_count - 1);
    for (; stored->slots[slot] != 0; slot = (slot + 1) & (stored->slot_count - 1)) {
        const spsh__stored_entry *entry = &stored->entries[stored->slots[slot] - 1];
        ++*at;
        if (memcmp(entry->key, key, sizeof(entry->key)) == 0) {
            *ret_entry = entry;
            return true;
        }
    }
    return false;
}

void spsh__stored_free(spsh__stored *stored)
{
    free(stored->entries);
    free(stored->slots);
    *stored = (spsh__stored){0};
}

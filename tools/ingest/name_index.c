/* name_index.c: open addressing with linear probing, at most three quarters full. Nothing is ever
 * removed, so a search ends at the first free slot, and state 0 marks a free one.
 */
#include "name_index.h"

#include <stdlib.h>
#include <xxhash.h>

#define CAPACITY_MIN ((size_t)1024)

static spsh__name_slot hash_name(spsh_bytes name)
{
    const XXH128_hash_t hash = XXH3_128bits(name.data, name.size_bytes);
    return (spsh__name_slot){.hash_high = hash.high64, .hash_low = (uint32_t)hash.low64};
}

/* Where the name is, or the free slot where it would be. There is always a free one. */
static spsh__name_slot *probe(const spsh__name_index *index, const spsh__name_slot *wanted)
{
    const size_t mask = index->capacity - 1;
    size_t at = (size_t)wanted->hash_high & mask;
    for (;;) {
        spsh__name_slot *slot = &index->slots[at];
        if (slot->state == 0 ||
            (slot->hash_high == wanted->hash_high && slot->hash_low == wanted->hash_low))
            return slot;
        at = (at + 1) & mask;
    }
}

static bool grow(spsh__name_index *index)
{
    spsh__name_index larger = {.count = index->count};
    if (index->capacity > SIZE_MAX / 2 / sizeof(*larger.slots))
        return false;
    larger.capacity = index->capacity == 0 ? CAPACITY_MIN : index->capacity * 2;
    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < index->capacity; i++) {
        if (index->slots[i].state != 0)
            *probe(&larger, &index->slots[i]) = index->slots[i];
    }
    free(index->slots);
    *index = larger;
    return true;
}

spsh__name_slot *spsh__name_index_find(const spsh__name_index *index, spsh_bytes name)
{
    if (index->capacity == 0)
        return NULL;
    const spsh__name_slot wanted = hash_name(name);
    spsh__name_slot *slot = probe(index, &wanted);
    return slot->state != 0 ? slot : NULL;
}

spsh__name_slot *spsh__name_index_add(spsh__name_index *index, spsh_bytes name, uint32_t state)
{
    spsh__name_slot wanted = hash_name(name);
    if (index->count >= index->capacity / 4 * 3 && !grow(index))
        return NULL;
    spsh__name_slot *slot = probe(index, &wanted);
    if (slot->state == 0) {
        wanted.state = state;
        *slot = wanted;
        index->count++;
    }
    return slot;
}

bool spsh__name_index_any(const spsh__name_index *index, uint32_t with, uint32_t without)
{
    for (size_t i = 0; i < index->capacity; i++) {
        const uint32_t state = index->slots[i].state;
        if (state != 0 && (state & with) == with && (state & without) == 0)
            return true;
    }
    return false;
}

void spsh__name_index_free(spsh__name_index *index)
{
    free(index->slots);
    *index = (spsh__name_index){0};
}

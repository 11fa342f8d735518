/* hash_map.c: a table of hashes. At most 5/8 of the slots are full. The upper half of a key selects
 * the slot, and the lower half selects the bit of the filter.
 */
#include "hash_map.h"

#include <stdlib.h>

#include "common/hash.h"

enum { CAPACITY_FIRST = 1024 };

spsh__u128 spsh__u128_of(const uint8_t digest[16])
{
    spsh__u128 number = {0, 0};
    for (unsigned i = 0; i < 8; i++) {
        number.high = number.high << 8 | digest[i];
        number.low = number.low << 8 | digest[8 + i];
    }
    return number;
}

spsh__u128 spsh__hash_of(spsh_bytes bytes)
{
    uint8_t hash[16];
    spsh__pack_hash128(bytes, hash);
    return spsh__u128_of(hash);
}

static spsh__hash_slot *slot_of(const spsh__hash_map *map, spsh__u128 key)
{
    size_t at = (size_t)key.high & (map->capacity - 1);
    while (map->slots[at].value != SPSH__HASH_NONE &&
           (map->slots[at].key.high != key.high || map->slots[at].key.low != key.low))
        at = (at + 1) & (map->capacity - 1);
    return &map->slots[at];
}

static void put(spsh__hash_map *map, const spsh__hash_slot *entry)
{
    *slot_of(map, entry->key) = *entry;
    const size_t bit = (size_t)entry->key.low & (map->capacity * 8 - 1);
    map->filter[bit / 64] |= UINT64_C(1) << (bit % 64);
}

static bool grow(spsh__hash_map *map)
{
    spsh__hash_map larger = {.capacity = map->capacity == 0 ? CAPACITY_FIRST : map->capacity * 2,
                             .count = map->count};
    if (larger.capacity > SIZE_MAX / sizeof(*larger.slots))
        return false;
    larger.slots = malloc(larger.capacity * sizeof(*larger.slots));
    larger.filter = calloc(larger.capacity / 8, sizeof(*larger.filter));
    if (larger.slots == NULL || larger.filter == NULL) {
        spsh__hash_map_free(&larger);
        return false;
    }
    for (size_t i = 0; i < larger.capacity; i++)
        larger.slots[i].value = SPSH__HASH_NONE;
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != SPSH__HASH_NONE)
            put(&larger, &map->slots[i]);
    }
    spsh__hash_map smaller = *map;
    *map = larger;
    spsh__hash_map_free(&smaller);
    return true;
}

bool spsh__hash_map_add(spsh__hash_map *map, spsh__u128 key, uint32_t value, uint32_t *ret_value)
{
    if (map->count >= map->capacity / 8 * 5 && !grow(map))
        return false;
    const spsh__hash_slot *slot = slot_of(map, key);
    if (slot->value == SPSH__HASH_NONE) {
        const spsh__hash_slot entry = {key, value};
        put(map, &entry);
        map->count++;
        *ret_value = value;
    } else {
        *ret_value = slot->value;
    }
    return true;
}

uint32_t spsh__hash_map_find(const spsh__hash_map *map, spsh__u128 key)
{
    if (map->capacity == 0)
        return SPSH__HASH_NONE;
    const size_t bit = (size_t)key.low & (map->capacity * 8 - 1);
    if ((map->filter[bit / 64] >> (bit % 64) & 1) == 0)
        return SPSH__HASH_NONE;
    return slot_of(map, key)->value;
}

uint64_t spsh__hash_map_bytes(const spsh__hash_map *map)
{
    return (uint64_t)map->capacity * (sizeof(*map->slots) + 1);
}

void spsh__hash_map_free(spsh__hash_map *map)
{
    free(map->slots);
    free(map->filter);
    *map = (spsh__hash_map){0};
}

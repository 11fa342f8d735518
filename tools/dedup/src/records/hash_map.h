/* hash_map.h: numbers by hashes of 128 bits: what the test side of a join is looked up in.
 *
 *     spsh__hash_map map = {0};
 *     if (!spsh__hash_map_add(&map, spsh__hash_of(text), next, &number))  // next: if it is new
 *         return SPSH_NO_MEMORY(err);
 *     if (spsh__hash_map_find(&map, spsh__hash_of(other)) != SPSH__HASH_NONE) ...
 *     spsh__hash_map_free(&map);
 *
 * Open addressing, 24 bytes a slot and a byte of filter, which answers most of what is not there
 * without going to memory. Two of 10^9 strings have one hash with a probability of 10^-21, so
 * strings are not kept.
 */
#ifndef SPSH_DEDUP_HASH_MAP_H
#define SPSH_DEDUP_HASH_MAP_H

#include <stdbool.h>

#include "sort128.h"
#include "speechshard/base.h"

#define SPSH__HASH_NONE UINT32_MAX

typedef struct spsh__hash_slot {
    spsh__u128 key;
    uint32_t value; /* SPSH__HASH_NONE: free */
} spsh__hash_slot;

/** All zero is empty. */
typedef struct spsh__hash_map {
    spsh__hash_slot *slots;
    uint64_t *filter; /* 8 bits a slot */
    size_t capacity;  /* a power of two, or 0 */
    size_t count;
} spsh__hash_map;

/* Its bytes, the highest first. */
spsh__u128 spsh__u128_of(const uint8_t digest[16]);
spsh__u128 spsh__hash_of(spsh_bytes bytes);

/* The key's value, made `value` (not SPSH__HASH_NONE) when it has none. false: no memory. */
bool spsh__hash_map_add(spsh__hash_map *map, spsh__u128 key, uint32_t value, uint32_t *ret_value);

/* SPSH__HASH_NONE when it is not there. Any thread, while nothing is added. */
uint32_t spsh__hash_map_find(const spsh__hash_map *map, spsh__u128 key);

uint64_t spsh__hash_map_bytes(const spsh__hash_map *map);
void spsh__hash_map_free(spsh__hash_map *map);

#endif

/* hash_map.h: a map from 128-bit hashes to numbers. Joins look up the test side in it.
 *
 *     spsh__hash_map map = {0};
 *     if (!spsh__hash_map_add(&map, spsh__hash_of(text), next, &number))  // next: if new
 *         return SPSH_NO_MEMORY(err);
 *     if (spsh__hash_map_find(&map, spsh__hash_of(other)) != SPSH__HASH_NONE) ...
 *     spsh__hash_map_free(&map);
 *
 * Open addressing with 24 bytes per slot, plus one byte of filter per slot. The filter answers most
 * lookups of absent keys without a random memory access to the slots. The map does not keep
 * strings: the probability that two of 10^9 strings have the same hash is 10^-21.
 */
#ifndef SPSH_DEDUP_HASH_MAP_H
#define SPSH_DEDUP_HASH_MAP_H

#include <stdbool.h>

#include "sort128.h"
#include "speechshard/base.h"

#define SPSH__HASH_NONE UINT32_MAX

typedef struct spsh__hash_slot {
    spsh__u128 key;
    uint32_t value; /* SPSH__HASH_NONE in an empty slot */
} spsh__hash_slot;

/** A zeroed map is empty. */
typedef struct spsh__hash_map {
    spsh__hash_slot *slots;
    uint64_t *filter; /* 8 bits per slot */
    size_t capacity;  /* number of slots: a power of two, or 0 */
    size_t count;
} spsh__hash_map;

/* Convert a digest to a number, most significant byte first. */
spsh__u128 spsh__u128_of(const uint8_t digest[16]);
spsh__u128 spsh__hash_of(spsh_bytes bytes);

/* Return the value of the key in *ret_value. A new key is added with `value`, which must not be
 * SPSH__HASH_NONE. false: out of memory. */
bool spsh__hash_map_add(spsh__hash_map *map, spsh__u128 key, uint32_t value, uint32_t *ret_value);

/* Return the value of the key, or SPSH__HASH_NONE if the key is absent. Any thread may call it
 * while no thread adds keys. */
uint32_t spsh__hash_map_find(const spsh__hash_map *map, spsh__u128 key);

uint64_t spsh__hash_map_bytes(const spsh__hash_map *map);
void spsh__hash_map_free(spsh__hash_map *map);

#endif

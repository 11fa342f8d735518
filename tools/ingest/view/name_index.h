/* name_index.h: hash table from file names or ids to state bits and a value. It does not keep the
 * names.
 *
 * A slot holds 96 bits of the name's XXH3-128, 32 state bits, and a 64-bit value for the caller.
 * That is 24 bytes, or 32 to 64 bytes per name including free slots. The table grows in place. The
 * probability that two of ten million names share 96 bits is below 10^-15.
 */
#ifndef SPSH_INGEST_NAME_INDEX_H
#define SPSH_INGEST_NAME_INDEX_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__name_slot {
    uint64_t hash_high;
    uint32_t hash_low;
    uint32_t state; /* state bits of the caller; never 0 in a used slot */
    uint64_t value;
} spsh__name_slot;

#define SPSH__NAME_MARKS ((size_t)16)

/** All zero is an empty index. Free it with spsh__name_index_free. */
typedef struct spsh__name_index {
    spsh__name_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    spsh__name_slot marks[SPSH__NAME_MARKS]; /* ring of pending marks */
    size_t mark_first, mark_count;
} spsh__name_index;

/* Return the slot of the name, or NULL. Valid until the next add. */
spsh__name_slot *spsh__name_index_find(const spsh__name_index *index, spsh_bytes name);

/* Return the slot of the name. A new slot gets the given state, which must not be 0. Returns NULL
 * if out of memory. */
spsh__name_slot *spsh__name_index_add(spsh__name_index *index, spsh_bytes name, uint32_t state);

#define SPSH__NAME_VALUE_KEPT UINT64_MAX

/**
 * Add a name, set these bits in addition to the bits of its slot, and store the value.
 * SPSH__NAME_VALUE_KEPT leaves the value unchanged (0 in a new slot).
 *
 * The change is delayed by some marks until the slot is in the cache. Use this function for names
 * in random order whose state is not needed at once. spsh__name_index_settle applies the pending
 * marks. Other functions do not see them before.
 *
 * @return false if out of memory
 */
bool spsh__name_index_mark(spsh__name_index *index, spsh_bytes name, uint32_t bits, uint64_t value);
bool spsh__name_index_settle(spsh__name_index *index);

/* Prefetch the slot of a name that will be looked up soon. */
void spsh__name_index_expect(const spsh__name_index *index, spsh_bytes name);

/* Whether any slot has all of the bits `with` and none of `without`. */
bool spsh__name_index_any(const spsh__name_index *index, uint32_t with, uint32_t without);

void spsh__name_index_free(spsh__name_index *index);

#endif

/* name_index.h: what is known about each of many file names or ids, without keeping the names.
 *
 * A slot holds 96 bits of the name's XXH3-128, 32 bits of state and a 64-bit value of the caller's:
 * 24 bytes, 32 to 64 a name with the free slots; it grows in place. Two of ten million names share
 * 96 bits with a probability below 10^-15.
 */
#ifndef SPSH_INGEST_NAME_INDEX_H
#define SPSH_INGEST_NAME_INDEX_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__name_slot {
    uint64_t hash_high;
    uint32_t hash_low;
    uint32_t state; /* the caller's bits; never 0 once the slot is used */
    uint64_t value;
} spsh__name_slot;

#define SPSH__NAME_MARKS ((size_t)16)

/** All zero is empty; free with spsh__name_index_free. */
typedef struct spsh__name_index {
    spsh__name_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    spsh__name_slot marks[SPSH__NAME_MARKS]; /* that wait, a ring */
    size_t mark_first, mark_count;
} spsh__name_index;

/* The name's slot, or NULL; valid until the next add. */
spsh__name_slot *spsh__name_index_find(const spsh__name_index *index, spsh_bytes name);

/* The same, made with that state (not 0) when there is none; NULL when there is no memory. */
spsh__name_slot *spsh__name_index_add(spsh__name_index *index, spsh_bytes name, uint32_t state);

#define SPSH__NAME_VALUE_KEPT UINT64_MAX

/**
 * Add a name, with these bits besides those that its slot has, and that value (or KEPT: 0 for a new
 * slot). It is done some marks later, when the slot has come from memory: for names that come in
 * any order, and of which nothing has to be known at once. spsh__name_index_settle does the last;
 * until then the other functions do not know of them.
 *
 * @return false: no memory
 */
bool spsh__name_index_mark(spsh__name_index *index, spsh_bytes name, uint32_t bits, uint64_t value);
bool spsh__name_index_settle(spsh__name_index *index);

/* The name will be looked for soon. */
void spsh__name_index_expect(const spsh__name_index *index, spsh_bytes name);

/* Whether any slot has all of the bits `with` and none of `without`. */
bool spsh__name_index_any(const spsh__name_index *index, uint32_t with, uint32_t without);

void spsh__name_index_free(spsh__name_index *index);

#endif

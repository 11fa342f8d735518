/* stored_table.h: which audio a unit holds already: key to record and to the job that brought it.
 */
#ifndef SPSH_STORED_TABLE_H
#define SPSH_STORED_TABLE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__stored_entry {
    uint8_t key[16];
    uint64_t record; /* inside the unit */
    uint64_t job;
} spsh__stored_entry;

/* Entries in order of adding, and a hash table of their numbers. Zero-initialise. */
typedef struct spsh__stored {
    spsh__stored_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t *slots; /* entry number + 1, 0: free; linear probing */
    size_t slot_count;
} spsh__stored;

spsh_status spsh__stored_add(spsh__stored *stored, const spsh__stored_entry *entry,
                             spsh_error *err);

/** Entries with that key, in order of adding: start with *at = 0; false when there is no further
 * one. */
bool spsh__stored_find(const spsh__stored *stored, const uint8_t key[16], size_t *at,
                       const spsh__stored_entry **ret_entry);
void spsh__stored_free(spsh__stored *stored);

#endif

/* stored_table.h: the audio that a unit has stored: maps a key to the record and its job. */
#ifndef SPSH_STORED_TABLE_H
#define SPSH_STORED_TABLE_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__stored_entry {
    uint8_t key[16];
    uint64_t record; /* record number in the unit */
    uint64_t job;
} spsh__stored_entry;

/* Entries in insertion order, and a hash table of their indices. Zero-initialize. */
typedef struct spsh__stored {
    spsh__stored_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t *slots; /* entry index + 1, 0: free; linear probing */
    size_t slot_count;
} spsh__stored;

spsh_status spsh__stored_add(spsh__stored *stored, const spsh__stored_entry *entry,
                             spsh_error *err);

/** Find the entries with that key, in insertion order. Start with *at = 0. false: no more entries.
 */
bool spsh__stored_find(const spsh__stored *stored, const uint8_t key[16], size_t *at,
                       const spsh__stored_entry **ret_entry);
void spsh__stored_free(spsh__stored *stored);

#endif

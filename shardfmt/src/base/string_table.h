/* string_table.h: a set of strings, numbered in order of first appearance, in the layout of a
 * string table.
 */
#ifndef SPSH_STRING_TABLE_H
#define SPSH_STRING_TABLE_H

#include "base_internal.h"

typedef struct spsh__names spsh__names;

spsh__names *spsh__names_new(const spsh_allocator *allocator); /* NULL: no memory */
void spsh__names_free(spsh__names *names);

/* Return the number of a string; a new string is copied and added. SPSH_E_LIMIT at 2^32 - 1 names.
 */
spsh_status spsh__names_add(spsh__names *names, spsh_bytes string, uint32_t *ret_number,
                            spsh_error *err);
/* Find a string. Returns false if it is not in the set. */
bool spsh__names_find(const spsh__names *names, spsh_bytes string, uint32_t *ret_number);

uint32_t spsh__names_count(const spsh__names *names);
/* Borrowed until the next add. */
spsh_bytes spsh__names_get(const spsh__names *names, uint32_t number);

/* Get the two sections of a string table: count u64 ends, little-endian, and the bytes. Borrowed
 * until the next add. */
const uint8_t *spsh__names_ends(const spsh__names *names);
spsh_bytes spsh__names_bytes(const spsh__names *names);

#endif

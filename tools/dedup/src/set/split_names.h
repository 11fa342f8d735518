/* split_names.h: comma-separated lists of splits, and sets of their names. */
#ifndef SPSH_DEDUP_SPLIT_NAMES_H
#define SPSH_DEDUP_SPLIT_NAMES_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

/* Return the name at the start of *at, and advance *at to the next name. False at the end of the
 * list. */
static inline bool spsh__split_names_next(const char **at, spsh_bytes *ret_name)
{
    const size_t length = strcspn(*at, ",");
    if (**at == '\0')
        return false;
    *ret_name = (spsh_bytes){(const uint8_t *)*at, length};
    *at += length + ((*at)[length] == ',');
    return true;
}

/* Whether a list has the name. */
bool spsh__split_names_has(const char *list, spsh_bytes name);

/* Initialize with zeros. items is from malloc; the names in it are borrowed. */
typedef struct spsh__split_names {
    spsh_bytes *items;
    size_t count, capacity;
} spsh__split_names;

/* Add the names of a list. False: out of memory. */
bool spsh__split_names_add(spsh__split_names *names, const char *list);
/* Sort by bytes, and remove duplicates. */
void spsh__split_names_sort(spsh__split_names *names);

/* Compare two spsh_bytes, for qsort. */
int spsh__name_compare(const void *left, const void *right);

#endif

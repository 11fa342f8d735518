/* split_names.h: lists of splits with commas between, and the sets of names that they make. */
#ifndef SPSH_DEDUP_SPLIT_NAMES_H
#define SPSH_DEDUP_SPLIT_NAMES_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

/* The name that *at begins with; *at moves on to the next one. False: the list has ended. */
static inline bool spsh__split_names_next(const char **at, spsh_bytes *ret_name)
{
    const size_t length = strcspn(*at, ",");
    if (**at == '\0')
        return false;
    *ret_name = (spsh_bytes){(const uint8_t *)*at, length};
    *at += length + ((*at)[length] == ',');
    return true;
}

/* All zero to begin with; items from malloc, the names in them borrowed. */
typedef struct spsh__split_names {
    spsh_bytes *items;
    size_t count, capacity;
} spsh__split_names;

/* Adds the names of a list. False: no memory. */
bool spsh__split_names_add(spsh__split_names *names, const char *list);
/* Into the order of their bytes, each once. */
void spsh__split_names_sort(spsh__split_names *names);

/* Compares two spsh_bytes, for qsort. */
int spsh__name_compare(const void *left, const void *right);

#endif

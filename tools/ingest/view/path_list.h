/* path_list.h: growing list of names or paths that can be sorted. */
#ifndef SPSH_INGEST_PATH_LIST_H
#define SPSH_INGEST_PATH_LIST_H

#include <stdbool.h>

#include "speechshard/base.h"

/** All zero is an empty list. Free it with spsh__path_list_free. */
typedef struct spsh__path_list {
    char **paths;
    size_t count, capacity;
} spsh__path_list;

/* Append path and take ownership of it; malloc allocated it. Returns false if path is NULL or if
 * out of memory. */
bool spsh__path_list_push(spsh__path_list *list, char *path);

/* Append a copy of folder and name, with a '/' between them if both are nonempty. */
SPSH_NODISCARD spsh_status spsh__path_list_add(spsh__path_list *list, const char *folder,
                                               const char *name, spsh_error *err);

/* Sort the paths from index first to the end by bytes. */
void spsh__path_list_sort(spsh__path_list *list, size_t first);
void spsh__path_list_free(spsh__path_list *list);

#endif

/* path_list.h: names or paths that are found one by one and then sorted. */
#ifndef SPSH_INGEST_PATH_LIST_H
#define SPSH_INGEST_PATH_LIST_H

#include <stdbool.h>
#include <stddef.h>

/** All zero is an empty list; free with spsh__path_list_free. */
typedef struct spsh__path_list {
    char **paths;
    size_t count, capacity;
} spsh__path_list;

/* Takes path, which malloc gave; NULL and a lack of memory give false. */
bool spsh__path_list_push(spsh__path_list *list, char *path);

/* A copy of folder and name, with a '/' between them when both say something. False: no memory. */
bool spsh__path_list_add(spsh__path_list *list, const char *folder, const char *name);

/* By bytes, the paths from the first-th on. */
void spsh__path_list_sort(spsh__path_list *list, size_t first);
void spsh__path_list_free(spsh__path_list *list);

#endif

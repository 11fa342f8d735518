/* folder_set.h: set of visited folders, so that links do not lead into a folder twice. */
#ifndef SPSH_INGEST_FOLDER_SET_H
#define SPSH_INGEST_FOLDER_SET_H

#include <stdbool.h>
#include <stddef.h>

#include "view.h"

/** A folder's device and inode. */
typedef struct spsh__folder_key {
    uint64_t device, inode;
    bool used;
} spsh__folder_key;

/** A hash table. All zero is an empty set. Free it with spsh__folder_set_free. */
typedef struct spsh__folder_set {
    spsh__folder_key *slots;
    size_t count, capacity;
} spsh__folder_set;

/* Add a folder. *ret_new: the folder was not in the set. Folders in archives are always new,
 * because archives have no links to folders. Returns false if out of memory. */
bool spsh__folder_set_add(spsh__folder_set *set, const spsh__view_info *folder, bool *ret_new);
void spsh__folder_set_free(spsh__folder_set *set);

#endif

/* origins.h: find the folders from which utterances with equal ids come.
 *
 * Two releases of one corpus under one root have most ids in common, so every second utterance is a
 * duplicate. One line that names the two folders is more useful than many rejects. Items come
 * folder by folder, so only the start of each folder is stored, not the items.
 */
#ifndef SPSH_PACK_ORIGINS_H
#define SPSH_PACK_ORIGINS_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__ORIGIN_PAIRS ((size_t)4)

typedef struct spsh__origin {
    uint64_t first_sequence; /* sequence of the folder's first item; the folder ends where the next
                                origin begins */
    char *folder;
    size_t root_bytes; /* length of the root and a slash at the start of folder */
} spsh__origin;

/** Pair of folders with equal ids. The item below `earlier` keeps each id; the one below `later` is
 * the duplicate. */
typedef struct spsh__origin_pair {
    spsh_bytes earlier, later; /* borrowed from the origins */
    uint64_t ids;
} spsh__origin_pair;

/** Zero-initialize (empty). Free with spsh__origins_free. */
typedef struct spsh__origins {
    spsh__origin *items;
    size_t count, capacity;
    const char *root; /* root of the items since spsh__origins_begin; borrowed */
    bool begun;       /* true until the first item after spsh__origins_begin */
    bool settled;     /* too many folders: all later items count as items of the root */
    spsh__origin_pair pairs[SPSH__ORIGIN_PAIRS];
    size_t pair_count;
} spsh__origins;

/* Set the root of the next items. Absolute paths ignore the root. */
void spsh__origins_begin(spsh__origins *origins, const char *root);

/* Add the path of an item. Call in the order of the sequence. false: no memory. */
bool spsh__origins_see(spsh__origins *origins, spsh_bytes source, uint64_t sequence);

/* Count two items that have the same id. Only the first SPSH__ORIGIN_PAIRS pairs of folders count.
 */
void spsh__origins_share(spsh__origins *origins, uint64_t earlier, uint64_t later);

void spsh__origins_free(spsh__origins *origins);

#endif

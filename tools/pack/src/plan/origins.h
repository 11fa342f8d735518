/* origins.h: which folders the utterances with equal ids come from.
 *
 * Two releases of one corpus under one root have most ids in common, and every second one is a
 * duplicate. One line that names the two folders says more than a thousand rejects. Items come
 * folder by folder, so where each folder begins is remembered, and no item is.
 */
#ifndef SPSH_PACK_ORIGINS_H
#define SPSH_PACK_ORIGINS_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__ORIGIN_PAIRS ((size_t)4)

typedef struct spsh__origin {
    uint64_t first_sequence; /* of the items that lie here, up to those of the next origin */
    char *folder;
    size_t root_bytes; /* of the folder: the root and a slash */
} spsh__origin;

/** Equal ids: each second one below `later`, the one that keeps the id below `earlier`. */
typedef struct spsh__origin_pair {
    spsh_bytes earlier, later; /* borrowed from the origins */
    uint64_t ids;
} spsh__origin_pair;

/** All zero is empty; free with spsh__origins_free. */
typedef struct spsh__origins {
    spsh__origin *items;
    size_t count, capacity;
    const char *root; /* of the items since spsh__origins_begin; borrowed */
    bool begun;       /* no item since then */
    bool settled;     /* too many folders: all that come now lie below the root */
    spsh__origin_pair pairs[SPSH__ORIGIN_PAIRS];
    size_t pair_count;
} spsh__origins;

/* The next items lie below that root, or are absolute. */
void spsh__origins_begin(spsh__origins *origins, const char *root);

/* An item, in the order of the sequence. false: no memory. */
bool spsh__origins_see(spsh__origins *origins, spsh_bytes source, uint64_t sequence);

/* Two items have one id. Of more pairs of folders than SPSH__ORIGIN_PAIRS only the first count. */
void spsh__origins_share(spsh__origins *origins, uint64_t earlier, uint64_t later);

void spsh__origins_free(spsh__origins *origins);

#endif

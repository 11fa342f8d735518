/* dataset_splits.h: operands of the form DATASET[:SPLITS], as sources of a set.
 *
 * A path may hold colons: what exists under the whole name is a dataset with all its splits; else
 * the last colon counts whose left side exists, or else the last one. A split whose name holds a
 * comma cannot be named.
 */
#ifndef SPSH_DATASET_SPLITS_H
#define SPSH_DATASET_SPLITS_H

#include "print_set.h"

struct spsh_dedup_sources {
    spsh_dedup_source *items; /* their texts belong to the list */
    size_t count, capacity;
};

#endif

/* dataset_splits.h: operands of the form DATASET[:SPLITS], as sources of a set.
 * spsh_dataset_name_cut says where a name is cut. A split whose name holds a comma cannot be named.
 */
#ifndef SPSH_DATASET_SPLITS_H
#define SPSH_DATASET_SPLITS_H

#include "print_set.h"

struct spsh_dedup_sources {
    spsh_dedup_source *items; /* their texts belong to the list */
    size_t count, capacity;
};

#endif

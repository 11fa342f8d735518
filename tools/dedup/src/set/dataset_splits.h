/* dataset_splits.h: operands of the form DATASET[:SPLITS], as sources of a set.
 * spsh_dataset_name_cut defines where the operand is split. A split whose name contains a comma
 * cannot be selected.
 */
#ifndef SPSH_DATASET_SPLITS_H
#define SPSH_DATASET_SPLITS_H

#include "print_set.h"

struct spsh_dedup_sources {
    spsh_dedup_source *items; /* the list owns their strings */
    size_t count, capacity;
};

#endif

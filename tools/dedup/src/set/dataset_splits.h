/* dataset_splits.h: operands of the form DATASET[:SPLITS], as sources of a set.
 *
 *     spsh_dedup_sources sources = {0};
 *     rc = spsh__source_list_add(&sources, "corpus.spsh:train,other", SPSH_SIDE_TRAIN, io, &err);
 *     rc = spsh__print_set_open(sources.items, sources.count, io, &set, &err);
 *     spsh__source_list_free(&sources);
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

/**
 * @param io  asked what exists; NULL: the operating system
 * @return SPSH_OK; SPSH_E_INVALID_ARG: no path, an empty name among the splits, or one that is not
 * UTF-8 (the message says which operand); SPSH_E_NO_MEMORY. Whether dataset and splits exist is
 * found when the set is opened.
 */
SPSH_NODISCARD spsh_status spsh__source_list_add(spsh_dedup_sources *list, const char *operand,
                                                 spsh_side side, const spsh_io *io,
                                                 spsh_error *err);
void spsh__source_list_free(spsh_dedup_sources *list);

#endif

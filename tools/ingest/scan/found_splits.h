/* found_splits.h: the names of splits in a corpus, to reject a --split that names no row.
 *
 *     spsh__found_splits names = {0};
 *     spsh__found_splits_add(&names, "train", is_wanted);   // for each row or file of rows
 *     rc = spsh__found_splits_check(&names, "train,tset", err);
 *     spsh__found_splits_free(&names);
 */
#ifndef SPSH_INGEST_FOUND_SPLITS_H
#define SPSH_INGEST_FOUND_SPLITS_H

#include "common/byte_builder.h"

/** All zero is empty. */
typedef struct spsh__found_splits {
    spsh__builder names; /* each with a NUL: all wanted names, and a few others for the message */
    size_t last;         /* offset of the name that was added last */
    size_t other_count;
} spsh__found_splits;

/* Iterate over a comma-separated list: get the next name of *list. An empty name is skipped.
 * Returns false at the end. */
bool spsh__found_splits_next(const char **list, spsh_bytes *ret_name);

void spsh__found_splits_add(spsh__found_splits *names, spsh_bytes name, bool is_wanted);

/* SPSH_E_UNKNOWN_NAME if a name of the filter was not added, or if the filter has no names. */
SPSH_NODISCARD spsh_status spsh__found_splits_check(const spsh__found_splits *names,
                                                    const char *filter, spsh_error *err);

void spsh__found_splits_free(spsh__found_splits *names);

#endif

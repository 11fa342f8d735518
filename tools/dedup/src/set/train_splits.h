/* train_splits.h: the splits of the train side by number, so that hits can be kept of each.
 *
 *     spsh__train_splits_open(set, &splits, err);
 *     number = spsh__train_splits_number(splits, ordinal);        below spsh__train_splits_count
 *     rc = spsh__train_splits_status(splits, err);                when all was asked
 */
#ifndef SPSH_DEDUP_TRAIN_SPLITS_H
#define SPSH_DEDUP_TRAIN_SPLITS_H

#include "print_set.h"

typedef struct spsh__train_splits spsh__train_splits;

/* Goes once through a column of the index. Split and dataset make a number. */
spsh_status spsh__train_splits_open(const spsh__print_set *set, spsh__train_splits **ret_splits,
                                    spsh_error *err);
/* 1 or more. */
uint32_t spsh__train_splits_count(const spsh__train_splits *splits);
/* Any thread; ordinal: of train. A failure to read is remembered, and the number is 0. */
uint32_t spsh__train_splits_number(spsh__train_splits *splits, uint64_t ordinal);
spsh_status spsh__train_splits_status(const spsh__train_splits *splits, spsh_error *err);
void spsh__train_splits_free(spsh__train_splits *splits);

#endif

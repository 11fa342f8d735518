/* train_splits.h: number the splits of the train side, so that hits can be counted per split.
 *
 *     spsh__train_splits_open(set, &splits, err);
 *     number = spsh__train_splits_number(splits, ordinal);        below spsh__train_splits_count
 *     rc = spsh__train_splits_status(splits, err);                after the last number
 */
#ifndef SPSH_DEDUP_TRAIN_SPLITS_H
#define SPSH_DEDUP_TRAIN_SPLITS_H

#include "print_set.h"

typedef struct spsh__train_splits spsh__train_splits;

/* Assign a number to each pair of dataset and split. Reads one column of the index once. */
spsh_status spsh__train_splits_open(const spsh__print_set *set, spsh__train_splits **ret_splits,
                                    spsh_error *err);
/* Number of splits, at least 1. */
uint32_t spsh__train_splits_count(const spsh__train_splits *splits);
/* Return the number of the split of a train utterance. Any thread may call it. After a read failure
 * it returns 0, and spsh__train_splits_status reports the failure. */
uint32_t spsh__train_splits_number(spsh__train_splits *splits, uint64_t ordinal);
spsh_status spsh__train_splits_status(const spsh__train_splits *splits, spsh_error *err);
void spsh__train_splits_free(spsh__train_splits *splits);

#endif

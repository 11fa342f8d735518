/* dataset_list.h: the datasets that a configuration names: "path" or "path:split,split".
 *
 *     spsh__dataset_list list = {0};
 *     rc = spsh__dataset_list_open(config->train, io, &list, &err);
 *     ... list.datasets, list.count; list.splits, list.split_count for the plan ...
 *     spsh__dataset_list_close(&list);
 *
 * spsh_dataset_name_cut finds the colon. The plan's filter is one list of splits for all datasets.
 * If datasets name different splits, that list would admit splits that were not requested. Opening
 * such a list fails.
 */
#ifndef SPSH_TRAIN_DATASET_LIST_H
#define SPSH_TRAIN_DATASET_LIST_H

#include "speechshard/dataset.h"

typedef struct spsh__dataset_list {
    spsh_dataset **datasets;
    uint32_t count;
    char **texts;            /* one path per dataset; the splits follow its NUL */
    const char **own_splits; /* pointers into texts; NULL: all splits */
    char **splits;           /* splits of all datasets, without duplicates; NULL: every split */
    uint32_t split_count;
} spsh__dataset_list;

/* names: NULL-terminated; NULL: no datasets. @return SPSH_OK; SPSH_E_INVALID_ARG (an empty name,
 * splits that contradict each other); codes of spsh_dataset_open. On failure the list is closed. */
spsh_status spsh__dataset_list_open(const char *const *names, const spsh_io *io,
                                    spsh__dataset_list *list, spsh_error *err);
void spsh__dataset_list_close(spsh__dataset_list *list);

/* Fail unless at least one served utterance of the splits has a transcript, which may be empty.
 * Reads rows up to the first transcript. @return SPSH_OK; SPSH_E_INVALID_ARG: no transcript; codes
 * of spsh_reader_metadata.
 */
spsh_status spsh__dataset_list_require_text(const spsh__dataset_list *list, spsh_error *err);

/* Return the splits of a dataset as its name gives them, separated by commas. NULL: all. */
const char *spsh__dataset_list_splits(const spsh__dataset_list *list, uint32_t number);

#endif

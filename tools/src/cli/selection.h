/* selection.h: open a dataset for a subcommand, and iterate over the utterances that its options
 * select.
 *
 *     rc = spsh__dataset_open_or_report(path, 0, &dataset);
 *     rc = spsh__selection_open("ls", dataset, &filter, &selection);
 *     while ((status = spsh__selection_next(selection, &position, &row, &err)) == SPSH_OK) ...
 *     spsh__selection_free(selection);
 */
#ifndef SPSH_SELECTION_H
#define SPSH_SELECTION_H

#include <stdbool.h>

#include "speechshard/dataset.h"

/** Values of the options --domain and --split. NULL: all. */
typedef struct spsh__row_filter {
    const char *domain;
    const char *split;
    bool served_only; /* exclude utterances in a skip overlay */
} spsh__row_filter;

/** Return SPSH_EXIT_DONE with *ret_dataset set, or report it and return SPSH_EXIT_FAILED. */
int spsh__dataset_open_or_report(const char *path, uint32_t flags, spsh_dataset **ret_dataset);

typedef struct spsh__selection spsh__selection;

/**
 * Start at the first utterance. If the dataset does not have the domain or split, the error lists
 * the existing names.
 *
 * @param command  the subcommand's name, for messages
 * @param dataset  borrowed until free
 * @return SPSH_EXIT_DONE, SPSH_EXIT_USAGE or SPSH_EXIT_FAILED
 */
int spsh__selection_open(const char *command, const spsh_dataset *dataset,
                         const spsh__row_filter *filter, spsh__selection **ret_selection);

/** Return the next selected utterance. The row is borrowed until the next call. SPSH_E_END after
 * the last.
 */
SPSH_NODISCARD spsh_status spsh__selection_next(spsh__selection *selection, uint64_t *ret_position,
                                                const spsh_row **ret_row, spsh_error *err);

/** True if a skip overlay names the utterance that spsh__selection_next returned last. */
bool spsh__selection_is_skipped(const spsh__selection *selection);
/** Return how many utterances of the whole dataset skip overlays name, selected or not. */
uint64_t spsh__selection_skipped_count(const spsh__selection *selection);

/** Skip the next `count` selected utterances. */
SPSH_NODISCARD spsh_status spsh__selection_pass(spsh__selection *selection, uint64_t count,
                                                spsh_error *err);
void spsh__selection_free(spsh__selection *selection);

/** Report an id that the dataset does not have, and suggest the nearest one. Returns
 * SPSH_EXIT_FAILED. */
int spsh__utterance_missing(const spsh_dataset *dataset, spsh_reader *reader, const char *id);

/** Return the name for a number in a row. Empty for SPSH_NONE_U32. */
SPSH_NODISCARD spsh_status spsh__row_name(const spsh_dataset *dataset, spsh_name_kind kind,
                                          uint32_t number, spsh_bytes *ret_name, spsh_error *err);

#endif

/* selection.h: open a dataset for a subcommand, and go through the utterances that its options
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

/** What the options --domain and --split say; NULL: all. */
typedef struct spsh__row_filter {
    const char *domain;
    const char *split;
    bool served_only; /* without utterances that a skip overlay names */
} spsh__row_filter;

/** Returns SPSH_EXIT_DONE with *ret_dataset set, or reports the failure and returns
 * SPSH_EXIT_FAILED. */
int spsh__dataset_open_or_report(const char *path, uint32_t flags, spsh_dataset **ret_dataset);

typedef struct spsh__selection spsh__selection;

/**
 * Start at the first utterance. A domain or split that the dataset does not have is reported with
 * those that it has.
 *
 * @param command  the subcommand's name, for messages
 * @param dataset  borrowed until free
 * @return SPSH_EXIT_DONE, SPSH_EXIT_USAGE or SPSH_EXIT_FAILED
 */
int spsh__selection_open(const char *command, const spsh_dataset *dataset,
                         const spsh__row_filter *filter, spsh__selection **ret_selection);

/** The next selected utterance; the row is borrowed until the next call. SPSH_E_END after the last.
 */
SPSH_NODISCARD spsh_status spsh__selection_next(spsh__selection *selection, uint64_t *ret_position,
                                                const spsh_row **ret_row, spsh_error *err);

/** Is the utterance that spsh__selection_next returned last named by a skip overlay? */
bool spsh__selection_is_skipped(const spsh__selection *selection);
/** Utterances of the whole dataset that skip overlays name, selected or not. */
uint64_t spsh__selection_skipped_count(const spsh__selection *selection);

/** Pass over so many selected utterances. */
SPSH_NODISCARD spsh_status spsh__selection_pass(spsh__selection *selection, uint64_t count,
                                                spsh_error *err);
void spsh__selection_free(spsh__selection *selection);

/** Name of a kind by its number in a row; empty for SPSH_NONE_U32. */
SPSH_NODISCARD spsh_status spsh__row_name(const spsh_dataset *dataset, spsh_name_kind kind,
                                          uint32_t number, spsh_bytes *ret_name, spsh_error *err);

#endif

/* selection.c: read rows about a thousand at a time. Names are resolved to numbers once, and rows
 * are compared by number. */
#include "selection.h"

#include <stdlib.h>

#include "cli.h"
#include "common/file_names.h"
#include "common/nearest_id.h"

enum {
    ROWS_AT_ONCE = 1024,
    NAMES_SHOWN_MAX = 12,    /* maximum number of names in a message */
    NAMES_TEXT_BYTES = 1024, /* maximum bytes of that message */
};

#define ANY UINT64_MAX

struct spsh__selection {
    const spsh_dataset *dataset;
    uint64_t domain, split; /* numbers of the names; ANY: no filter */
    uint64_t utterance_count;
    uint64_t first; /* position of rows[0] */
    uint64_t count; /* number of rows that were read */
    uint64_t at;    /* index of the next row to check */
    bool served_only, is_skipped;
    uint64_t *skipped; /* positions, ascending */
    uint64_t skipped_count, skipped_at;
    spsh_row rows[ROWS_AT_ONCE];
};

int spsh__dataset_open_or_report(const char *path, uint32_t flags, spsh_dataset **ret_dataset)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset_options options = SPSH_DATASET_OPTIONS_INIT;
    options.flags = flags;
    if (spsh_dataset_open(path, &options, ret_dataset, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    return SPSH_EXIT_DONE;
}

int spsh__utterance_missing(const spsh_dataset *dataset, spsh_reader *reader, const char *id)
{
    spsh__builder nearest = {0};
    const char *name = spsh__nearest_id(dataset, reader, id, &nearest);
    spsh__cli_error("%s has no utterance '%s'%s%s%s", spsh_dataset_path(dataset), id,
                    name != NULL ? "; did you mean '" : "",
                    name != NULL ? name : " ('speechshard ls' lists them)",
                    name != NULL ? "'?" : "");
    spsh__builder_free(&nearest);
    return SPSH_EXIT_FAILED;
}

spsh_status spsh__row_name(const spsh_dataset *dataset, spsh_name_kind kind, uint32_t number,
                           spsh_bytes *ret_name, spsh_error *err)
{
    if (number == SPSH_NONE_U32) {
        *ret_name = (spsh_bytes){NULL, 0};
        return SPSH_OK;
    }
    return spsh_dataset_name(dataset, kind, number, ret_name, err);
}

/* List the names of a kind in a dataset: "en, fr, it, ...". */
static void list_names(const spsh_dataset *dataset, spsh_name_kind kind, uint64_t count,
                       char dst[NAMES_TEXT_BYTES])
{
    size_t used = 0;
    dst[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        spsh_bytes name = {NULL, 0};
        if (i == NAMES_SHOWN_MAX) {
            snprintf(dst + used, NAMES_TEXT_BYTES - used, ", ...");
            return;
        }
        if (spsh_dataset_name(dataset, kind, i, &name, NULL) != SPSH_OK)
            return;
        int length = snprintf(dst + used, NAMES_TEXT_BYTES - used, "%s%.*s", i == 0 ? "" : ", ",
                              (int)name.size_bytes, (const char *)name.data);
        if (length < 0 || used + (size_t)length >= NAMES_TEXT_BYTES)
            return;
        used += (size_t)length;
    }
}

/* Find the number of the name that the option gives. ANY if the option is not given. */
static int find_name(const char *command, const spsh_dataset *dataset, spsh_name_kind kind,
                     const char *wanted, uint64_t *ret_number)
{
    const char *what = kind == SPSH_NAME_DOMAIN ? "domain" : "split";
    spsh_error err = SPSH_ERROR_INIT;
    char names[NAMES_TEXT_BYTES];
    const uint64_t count = spsh_dataset_name_count(dataset, kind);
    *ret_number = ANY;
    for (uint32_t i = 0; wanted != NULL && i < count; i++) {
        spsh_bytes name = {NULL, 0};
        if (spsh_dataset_name(dataset, kind, i, &name, &err) != SPSH_OK)
            return spsh__cli_fail(spsh_dataset_path(dataset), &err);
        if (spsh__bytes_equal(name, spsh__bytes_of(wanted))) {
            *ret_number = i;
            return SPSH_EXIT_DONE;
        }
    }
    if (wanted == NULL)
        return SPSH_EXIT_DONE;
    list_names(dataset, kind, count, names);
    return spsh__cli_usage(command, "--%s: there is no %s '%s' in %s; there %s %s", what, what,
                           wanted, spsh_dataset_path(dataset), count == 0 ? "are" : "is",
                           count == 0 ? "none" : names);
}

static int load_skipped(spsh__selection *s)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_dataset_skipped_positions(s->dataset, NULL, 0, &s->skipped_count, &err);
    if (rc == SPSH_OK && s->skipped_count > 0) {
        s->skipped = (uint64_t *)calloc((size_t)s->skipped_count, sizeof(*s->skipped));
        if (s->skipped == NULL)
            return spsh__cli_fail_memory();
        rc = spsh_dataset_skipped_positions(s->dataset, s->skipped, s->skipped_count,
                                            &s->skipped_count, &err);
    }
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(spsh_dataset_path(s->dataset), &err);
}

int spsh__selection_open(const char *command, const spsh_dataset *dataset,
                         const spsh__row_filter *filter, spsh__selection **ret_selection)
{
    spsh__selection *selection = (spsh__selection *)calloc(1, sizeof(*selection));
    if (selection == NULL)
        return spsh__cli_fail_memory();
    selection->dataset = dataset;
    selection->utterance_count = spsh_dataset_info_get(dataset)->utterance_count;
    selection->served_only = filter->served_only;
    int rc = load_skipped(selection);
    if (rc == SPSH_EXIT_DONE)
        rc = find_name(command, dataset, SPSH_NAME_DOMAIN, filter->domain, &selection->domain);
    if (rc == SPSH_EXIT_DONE)
        rc = find_name(command, dataset, SPSH_NAME_SPLIT, filter->split, &selection->split);
    if (rc == SPSH_EXIT_DONE)
        *ret_selection = selection;
    else
        spsh__selection_free(selection);
    return rc;
}

/* Make sure that rows[at] is loaded. SPSH_E_END after the last row. */
static spsh_status fill(spsh__selection *s, spsh_error *err)
{
    if (s->at < s->count)
        return SPSH_OK;
    s->first += s->count;
    s->count = 0;
    s->at = 0;
    uint64_t left = s->utterance_count - s->first;
    if (left == 0)
        return SPSH_E_END;
    uint64_t count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
    spsh_status rc = spsh_dataset_rows(s->dataset, s->first, count, s->rows, err);
    if (rc == SPSH_OK)
        s->count = count;
    return rc;
}

/* Set is_skipped for a position. Positions must ascend from call to call. */
static void find_skipped(spsh__selection *s, uint64_t position)
{
    while (s->skipped_at < s->skipped_count && s->skipped[s->skipped_at] < position)
        s->skipped_at++;
    s->is_skipped = s->skipped_at < s->skipped_count && s->skipped[s->skipped_at] == position;
}

bool spsh__selection_is_skipped(const spsh__selection *selection)
{
    return selection->is_skipped;
}

uint64_t spsh__selection_skipped_count(const spsh__selection *selection)
{
    return selection->skipped_count;
}

spsh_status spsh__selection_next(spsh__selection *selection, uint64_t *ret_position,
                                 const spsh_row **ret_row, spsh_error *err)
{
    spsh_status rc;
    while ((rc = fill(selection, err)) == SPSH_OK) {
        const uint64_t position = selection->first + selection->at;
        const spsh_row *row = &selection->rows[selection->at++];
        find_skipped(selection, position);
        if ((selection->served_only && selection->is_skipped) ||
            (selection->domain != ANY && row->domain != selection->domain) ||
            (selection->split != ANY && row->split != selection->split))
            continue;
        *ret_position = position;
        *ret_row = row;
        return SPSH_OK;
    }
    return rc;
}

spsh_status spsh__selection_pass(spsh__selection *selection, uint64_t count, spsh_error *err)
{
    uint64_t position = 0;
    const spsh_row *row = NULL;
    spsh_status rc = SPSH_OK;
    const bool leaves_out = selection->domain != ANY || selection->split != ANY ||
                            (selection->served_only && selection->skipped_count > 0);
    if (!leaves_out && selection->count == 0) {
        uint64_t left = selection->utterance_count - selection->first;
        selection->first += count < left ? count : left;
        return SPSH_OK;
    }
    while (count-- > 0 && rc == SPSH_OK)
        rc = spsh__selection_next(selection, &position, &row, err);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

void spsh__selection_free(spsh__selection *selection)
{
    if (selection != NULL)
        free(selection->skipped);
    free(selection);
}

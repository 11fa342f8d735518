/* dataset_list.c: see dataset_list.h. */
#include "dataset_list.h"

#include <stdlib.h>

#include "speechshard/inside.h"
#include "speechshard/publish.h"

const char *spsh__dataset_list_splits(const spsh__dataset_list *list, uint32_t number)
{
    return list->own_splits[number];
}

/* Return true if the comma-separated list `names` contains `name`. */
static bool has_name(const char *names, spsh_bytes name)
{
    for (const char *at = names; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (length == name.size_bytes && memcmp(at, name.data, length) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static spsh_status add_split(spsh__dataset_list *list, const char *name, size_t length,
                             spsh_error *err)
{
    for (uint32_t i = 0; i < list->split_count; i++) {
        if (strlen(list->splits[i]) == length && memcmp(list->splits[i], name, length) == 0)
            return SPSH_OK;
    }
    char **more = realloc(list->splits, (list->split_count + 1) * sizeof(*more));
    if (more == NULL)
        return SPSH_NO_MEMORY(err);
    list->splits = more;
    char *copy = strndup(name, length);
    if (copy == NULL)
        return SPSH_NO_MEMORY(err);
    list->splits[list->split_count++] = copy;
    return SPSH_OK;
}

static spsh_status collect_splits(spsh__dataset_list *list, spsh_error *err)
{
    for (uint32_t d = 0; d < list->count; d++) {
        const char *splits = spsh__dataset_list_splits(list, d);
        for (const char *at = splits; at != NULL && *at != '\0';) {
            const size_t length = strcspn(at, ",");
            const spsh_status rc = add_split(list, at, length, err);
            if (rc != SPSH_OK)
                return rc;
            at += length + (at[length] == ',');
        }
    }
    return SPSH_OK;
}

/* Fail if the list of all splits passes a split that this dataset's own list does not, or the
 * reverse. */
static spsh_status check_splits(const spsh__dataset_list *list, uint32_t number, spsh_error *err)
{
    const char *own = spsh__dataset_list_splits(list, number);
    const uint64_t groups = spsh_dataset_group_count(list->datasets[number]);
    for (uint64_t g = 0; g < groups; g++) {
        spsh_dataset_group group;
        const spsh_status rc = spsh_dataset_group_get(list->datasets[number], g, &group, err);
        if (rc != SPSH_OK)
            return rc;
        bool passes = false;
        for (uint32_t i = 0; i < list->split_count && !passes; i++)
            passes = has_name(list->splits[i], group.split);
        if (passes != (own == NULL || has_name(own, group.split)))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "%s: its split '%.*s' %s for this dataset, but not for all others; "
                             "name the same splits for each dataset",
                             spsh_dataset_path(list->datasets[number]), (int)group.split.size_bytes,
                             (const char *)group.split.data,
                             passes ? "is excluded" : "is included");
    }
    return SPSH_OK;
}

static spsh_status open_one(spsh__dataset_list *list, const char *name, const spsh_io *io,
                            spsh_error *err)
{
    spsh_dataset_options options = SPSH_DATASET_OPTIONS_INIT;
    options.io = io;
    char *text = strdup(name);
    if (text == NULL)
        return SPSH_NO_MEMORY(err);
    list->texts[list->count] = text;
    spsh_status rc = spsh_dataset_name_cut(text, io, &list->own_splits[list->count], err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_open(text, &options, &list->datasets[list->count], err);
    list->count++; /* also on failure: the text is freed with the others */
    return rc;
}

spsh_status spsh__dataset_list_open(const char *const *names, const spsh_io *io,
                                    spsh__dataset_list *list, spsh_error *err)
{
    size_t count = 0;
    while (names != NULL && names[count] != NULL)
        count++;
    spsh__dataset_list made = {.texts = calloc(count + 1, sizeof(char *))};
    made.datasets = calloc(count + 1, sizeof(spsh_dataset *));
    made.own_splits = calloc(count + 1, sizeof(char *));
    spsh_status rc = SPSH_OK;
    if (made.datasets == NULL || made.texts == NULL || made.own_splits == NULL)
        rc = SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = open_one(&made, names[i], io, err);
    if (rc == SPSH_OK)
        rc = collect_splits(&made, err);
    for (uint32_t d = 0; d < made.count && made.split_count > 0 && rc == SPSH_OK; d++)
        rc = check_splits(&made, d, err);
    if (rc != SPSH_OK)
        spsh__dataset_list_close(&made);
    *list = made;
    return rc;
}

void spsh__dataset_list_close(spsh__dataset_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        spsh_dataset_close(list->datasets[i]);
        free(list->texts[i]);
    }
    for (uint32_t i = 0; i < list->split_count; i++)
        free(list->splits[i]);
    free(list->splits);
    free(list->datasets);
    free(list->texts);
    free(list->own_splits);
    *list = (spsh__dataset_list){0};
}

/* ---- transcripts ---- */

/* Overlays can add transcripts, which the index does not know. */
static spsh_status has_new_texts(const spsh_dataset *dataset, bool *ret_has, spsh_error *err)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->overlay_count;
    *ret_has = false;
    for (uint64_t i = 0; i < count && !*ret_has; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        const spsh_status rc = spsh_dataset_overlay(dataset, i, &overlay, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_has = overlay.type == SPSH_OVERLAY_TRANSCRIPT;
    }
    return SPSH_OK;
}

/* Is this utterance served, with a transcript? */
static spsh_status has_text(const spsh_dataset *dataset, spsh_reader *reader, uint64_t position,
                            bool *ret_has, spsh_error *err)
{
    spsh_utterance u;
    bool is_skipped = false;
    spsh_status rc = spsh_reader_metadata(reader, position, &u, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_skipped(dataset, u.id, &is_skipped, NULL, err);
    *ret_has = rc == SPSH_OK && !is_skipped && (u.flags & SPSH_UTTERANCE_HAS_TEXT) != 0;
    return rc;
}

static spsh_status find_text(const spsh__dataset_list *list, uint32_t number, bool *ret_has,
                             spsh_error *err)
{
    const spsh_dataset *dataset = list->datasets[number];
    const char *splits = spsh__dataset_list_splits(list, number);
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    bool has_new = false;
    spsh_reader *reader = NULL;
    spsh_status rc = has_new_texts(dataset, &has_new, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_open(dataset, &reader, err);
    for (uint64_t at = 0; at < count && rc == SPSH_OK && !*ret_has; at++) {
        spsh_row row;
        spsh_bytes split = {NULL, 0};
        rc = spsh_dataset_rows(dataset, at, 1, &row, err);
        if (rc == SPSH_OK)
            rc = spsh_dataset_name(dataset, SPSH_NAME_SPLIT, row.split, &split, err);
        if (rc == SPSH_OK && (has_new || (row.flags & SPSH_UTTERANCE_HAS_TEXT) != 0) &&
            (splits == NULL || has_name(splits, split)))
            rc = has_text(dataset, reader, at, ret_has, err);
    }
    spsh_reader_close(reader);
    return rc;
}

spsh_status spsh__dataset_list_require_text(const spsh__dataset_list *list, spsh_error *err)
{
    bool has = false;
    spsh_status rc = SPSH_OK;
    for (uint32_t d = 0; d < list->count && rc == SPSH_OK && !has; d++)
        rc = find_text(list, d, &has, err);
    if (rc != SPSH_OK || has)
        return rc;
    const char *splits = spsh__dataset_list_splits(list, 0);
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%.200s%s%.50s: no utterance has a transcript, so there is nothing to compare "
                     "with; name a dataset or split that has them, or add them with `speechshard "
                     "overlay`",
                     spsh_dataset_path(list->datasets[0]), splits == NULL ? "" : ":",
                     splits == NULL ? "" : splits);
}

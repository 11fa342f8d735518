/* layout_table.c: the table itself as the root, or a folder in which exactly one file is a table.
 *
 * Files are tables by their content: a header with an audio column and rows whose audio exists. Two
 * tables in one folder (train.csv, dev.csv) are refused, because packing one of them, or the folder
 * without any, would both be silently wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fail.h"
#include "layouts.h"
#include "names.h"
#include "table_scan.h"

#define CANDIDATES_MAX      ((size_t)16)
#define TEXT_CANDIDATES_MAX 16U

typedef struct candidates {
    char *names[CANDIDATES_MAX];
    size_t count;
    unsigned text_count;  /* .txt files seen, sidecars as a rule */
    unsigned table_count; /* .csv, .tsv, .psv files seen */
} candidates;

static void candidates_free(candidates *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->names[i]);
}

static int compare_candidates(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_extension(const char *name, const char *extension)
{
    const size_t length = strlen(name);
    const size_t own = strlen(extension);
    return length > own &&
           spsh__bytes_equal_nocase(spsh__bytes_of(name + length - own), spsh__bytes_of(extension));
}

static spsh_status list_candidates(const spsh__view *view, const char *extension, candidates *c,
                                   unsigned *ret_seen, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    const char *root = spsh__view_root(view);
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    if (folder == NULL)
        return SPSH_INGEST_FAIL_OS(err, errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, errno,
                                   "%s: cannot be read", root);
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (!has_extension(entry.name, extension) || spsh__is_ignored_name(entry.name))
            continue;
        ++*ret_seen;
        if (c->count == CANDIDATES_MAX)
            continue;
        char *name = strdup(entry.name);
        if (name == NULL)
            rc = SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for a name", root);
        else
            c->names[c->count++] = name;
    }
    spsh__view_folder_close(folder);
    return rc;
}

/* Files in the root that may be tables. Many .txt files are transcripts, not tables. */
static spsh_status find_candidates(const spsh__view *view, candidates *c, spsh_error *err)
{
    static const char *const extensions[] = {".tsv", ".csv", ".psv"};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]) && rc == SPSH_OK; i++)
        rc = list_candidates(view, extensions[i], c, &c->table_count, err);
    const size_t tables = c->count;
    if (rc == SPSH_OK)
        rc = list_candidates(view, ".txt", c, &c->text_count, err);
    while (c->text_count > TEXT_CANDIDATES_MAX && c->count > tables)
        free(c->names[--c->count]);
    qsort(c->names, c->count, sizeof(c->names[0]), compare_candidates);
    return rc;
}

/* Probe every candidate; *ret_name is the only one that is a table, or NULL. Two or more are an
 * error: which of them is meant is for a person to say. */
static spsh_status choose_table(const spsh__view *view, char **ret_name, spsh_layout_probe *probe,
                                spsh_error *err)
{
    candidates c = {0};
    size_t chosen = SIZE_MAX;
    spsh_status rc = find_candidates(view, &c, err);
    for (size_t i = 0; i < c.count && rc == SPSH_OK; i++) {
        spsh_layout_probe one = {0};
        /* A candidate that cannot be read is not the table; the folder may hold another. */
        const spsh_status probed =
            spsh__table_probe(view, c.names[i], SPSH__TABLE_QUOTING_DECIDE, false, &one, NULL);
        if (probed == SPSH_E_NO_MEMORY)
            rc = SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for a row", c.names[i]);
        if (probed != SPSH_OK || !one.matches)
            continue;
        if (chosen != SIZE_MAX) {
            rc = SPSH_INGEST_FAIL(err, SPSH_E_INVALID_ARG,
                                  "%s: holds several tables of audio, such as %s and %s; give the "
                                  "tables themselves, or --layout folder to pack without them",
                                  spsh__view_root(view), c.names[chosen], c.names[i]);
            break;
        }
        chosen = i;
        *probe = one;
    }
    if (rc == SPSH_OK && chosen != SIZE_MAX) {
        *ret_name = c.names[chosen];
        c.names[chosen] = NULL;
    }
    candidates_free(&c);
    return rc;
}

static spsh_status table_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                               spsh_error *err)
{
    const char *file = spsh__view_file(view);
    char *name = NULL;
    *ret_probe = (spsh_layout_probe){0};
    if (file != NULL && !spsh__view_has_file(view, file))
        return SPSH_OK;
    if (file != NULL)
        return spsh__table_probe(view, file, SPSH__TABLE_QUOTING_DECIDE, true, ret_probe, err);
    spsh_status rc = choose_table(view, &name, ret_probe, err);
    free(name);
    return rc;
}

static spsh_status table_scan_root(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                                   spsh__table_quoting quoting, spsh_error *err)
{
    const spsh__view *view = options->view;
    char *name = NULL;
    spsh_layout_probe probe = {0};
    if (spsh__view_file(view) != NULL)
        return spsh__table_scan(spsh__view_file(view), quoting, options, sink, err);
    spsh_status rc = choose_table(view, &name, &probe, err);
    if (rc == SPSH_OK && name == NULL)
        rc = SPSH_INGEST_FAIL(err, SPSH_E_NOT_FOUND,
                              "%s: holds no table with a column of audio paths that exist; give "
                              "the table itself",
                              spsh__view_root(view));
    if (rc == SPSH_OK)
        rc = spsh__table_scan(name, quoting, options, sink, err);
    free(name);
    return rc;
}

static spsh_status scan_decide(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                               spsh_error *err)
{
    return table_scan_root(options, sink, SPSH__TABLE_QUOTING_DECIDE, err);
}

static spsh_status scan_raw(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                            spsh_error *err)
{
    return table_scan_root(options, sink, SPSH__TABLE_QUOTING_RAW, err);
}

static spsh_status scan_rfc(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                            spsh_error *err)
{
    return table_scan_root(options, sink, SPSH__TABLE_QUOTING_RFC, err);
}

const spsh_layout spsh__layout_table = {
    .name = "table",
    .summary = "a CSV or TSV file with a header row and a column of audio paths",
    .tier = SPSH_LAYOUT_TABLE,
    .probe_fn = table_probe,
    .scan_fn = scan_decide,
};

const spsh_layout spsh__layout_table_raw = {
    .name = "table-raw",
    .summary = "a table where quotes are part of the text",
    .tier = SPSH_LAYOUT_FORCED,
    .probe_fn = table_probe,
    .scan_fn = scan_raw,
};

const spsh_layout spsh__layout_table_rfc = {
    .name = "table-rfc",
    .summary = "a table where quotes enclose fields (RFC 4180)",
    .tier = SPSH_LAYOUT_FORCED,
    .probe_fn = table_probe,
    .scan_fn = scan_rfc,
};

/* layout_table.c: a table as the root, or a folder in which exactly one file is a table.
 *
 * The content decides whether a file is a table: a header with an audio column, and rows whose
 * audio exists. Several tables in one folder are one corpus if their names are splits (train.csv,
 * dev.csv) and none has a split column. Otherwise several tables are an error. It would be wrong to
 * pack only one of them, or the folder without its tables, without a message.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/metadata/table_scan.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define CANDIDATES_MAX      ((size_t)16)
#define TEXT_CANDIDATES_MAX 16U

typedef struct candidates {
    spsh__path_list names;
    unsigned text_count;  /* count of .txt files, usually sidecars */
    unsigned table_count; /* count of .csv, .tsv, and .psv files */
    bool have_splits;     /* a table has a split column */
} candidates;

static spsh_status list_candidates(const spsh__view *view, const char *extension, candidates *c,
                                   unsigned *ret_seen, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    const char *root = spsh__view_root(view);
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    if (folder == NULL)
        return SPSH_FAIL_OS(err, errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, errno,
                            "%s: cannot read the file", root);
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (!spsh__has_extension(spsh__bytes_of(entry.name), extension) ||
            spsh__is_ignored_name(entry.name))
            continue;
        ++*ret_seen;
        if (c->names.count < CANDIDATES_MAX)
            rc = spsh__path_list_add(&c->names, "", entry.name, err);
    }
    spsh__view_folder_close(folder);
    return rc;
}

/* Find files in the root that may be tables. If there are many .txt files, they are transcripts. */
static spsh_status find_candidates(const spsh__view *view, candidates *c, spsh_error *err)
{
    static const char *const extensions[] = {".tsv", ".csv", ".psv"};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]) && rc == SPSH_OK; i++)
        rc = list_candidates(view, extensions[i], c, &c->table_count, err);
    const size_t tables = c->names.count;
    if (rc == SPSH_OK)
        rc = list_candidates(view, ".txt", c, &c->text_count, err);
    while (c->text_count > TEXT_CANDIDATES_MAX && c->names.count > tables)
        free(c->names.paths[--c->names.count]);
    spsh__path_list_sort(&c->names, 0);
    return rc;
}

/* Keep the candidates that are tables of audio. *probe becomes the probe of the first. */
static spsh_status keep_tables(const spsh__view *view, candidates *c, spsh_layout_probe *probe,
                               spsh_error *err)
{
    size_t kept = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < c->names.count; i++) {
        spsh_layout_probe one = {0};
        bool has_split = false;
        /* A candidate that cannot be read is not the table; the folder may hold another. */
        const spsh_status probed =
            rc != SPSH_OK ? rc
                          : spsh__table_probe(view, c->names.paths[i], SPSH__TABLE_QUOTING_DECIDE,
                                              false, &one, &has_split, NULL);
        if (rc == SPSH_OK && probed == SPSH_E_NO_MEMORY)
            rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for a row", c->names.paths[i]);
        if (probed != SPSH_OK || !one.matches) {
            free(c->names.paths[i]);
            continue;
        }
        if (kept == 0)
            *probe = one;
        c->have_splits |= has_split;
        c->names.paths[kept++] = c->names.paths[i];
    }
    c->names.count = kept;
    return rc;
}

/* Whether each table is a different split. False for train.csv and train.tsv. */
static bool are_splits(const candidates *c)
{
    for (size_t i = 0; i < c->names.count; i++) {
        const spsh_bytes stem = {(const uint8_t *)c->names.paths[i],
                                 strcspn(c->names.paths[i], ".")};
        for (size_t j = 0; j < i; j++) {
            if (strncmp(c->names.paths[i], c->names.paths[j], stem.size_bytes + 1) == 0)
                return false;
        }
        if (!spsh__is_split_name(stem))
            return false;
    }
    return !c->have_splits;
}

/* Choose the tables that form the corpus. The caller frees c, also after a failure. If there are
 * several tables that are not splits, the user must choose one. */
static spsh_status choose_tables(const spsh__view *view, candidates *c, spsh_layout_probe *probe,
                                 spsh_error *err)
{
    spsh_status rc = find_candidates(view, c, err);
    if (rc == SPSH_OK)
        rc = keep_tables(view, c, probe, err);
    if (rc != SPSH_OK || c->names.count < 2)
        return rc;
    if (!are_splits(c))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: the folder holds several tables of audio, such as %s and %s; give "
                         "the tables themselves, or choose layout_name folder to pack without them",
                         spsh__view_root(view), c->names.paths[0], c->names.paths[1]);
    spsh__probe_evidence(probe,
                         "it holds %zu tables whose names are splits, such as %.60s and %.60s",
                         c->names.count, c->names.paths[0], c->names.paths[1]);
    return SPSH_OK;
}

static spsh_status table_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                               spsh_error *err)
{
    const char *file = spsh__view_file(view);
    candidates tables = {0};
    if (file != NULL && !spsh__view_has_file(view, file))
        return SPSH_OK;
    if (file != NULL)
        return spsh__table_probe(view, file, SPSH__TABLE_QUOTING_DECIDE, true, ret_probe, NULL,
                                 err);
    spsh_status rc = choose_tables(view, &tables, ret_probe, err);
    spsh__path_list_free(&tables.names);
    return rc;
}

/* Scan the tables of splits one after another, each as a separate scan. */
static spsh_status table_scan_root(spsh__scan *scan, spsh_error *err)
{
    const spsh__table_quoting quoting = (spsh__table_quoting)scan->options->variant;
    const spsh__view *view = scan->options->view;
    candidates tables = {0};
    spsh_layout_probe probe = {0};
    if (spsh__view_file(view) != NULL)
        return spsh__table_scan(scan, spsh__view_file(view), quoting, err);
    spsh_status rc = choose_tables(view, &tables, &probe, err);
    if (rc == SPSH_OK && tables.names.count == 0)
        rc = SPSH_FAIL(
            err, SPSH_E_NOT_FOUND,
            "%s: no table here has a column of audio paths that exist; give the table itself",
            spsh__view_root(view));
    spsh_ingest_options own = *scan->options;
    own.split_by_name = tables.names.count > 1 && !own.no_split_names;
    const spsh_ingest_options *given = scan->options;
    scan->options = &own;
    for (size_t i = 0; i < tables.names.count && rc == SPSH_OK; i++) {
        if (i > 0)
            rc = spsh__scan_finish(scan, err);
        if (rc == SPSH_OK)
            rc = spsh__table_scan(scan, tables.names.paths[i], quoting, err);
    }
    scan->options = given;
    spsh__path_list_free(&tables.names);
    return rc;
}

const spsh_layout spsh__layout_table = {
    .name = "table",
    .summary = "a CSV or TSV file with a header row and a column of audio paths",
    .tier = SPSH_LAYOUT_TABLE,
    .takes_columns = true,
    .reads_file = true,
    .variant = SPSH__TABLE_QUOTING_DECIDE,
    .probe_fn = table_probe,
    .scan_fn = table_scan_root,
};

const spsh_layout spsh__layout_table_raw = {
    .name = "table-raw",
    .summary = "a table where quotes are part of the text",
    .tier = SPSH_LAYOUT_FORCED,
    .takes_columns = true,
    .reads_file = true,
    .variant = SPSH__TABLE_QUOTING_RAW,
    .probe_fn = table_probe,
    .scan_fn = table_scan_root,
};

const spsh_layout spsh__layout_table_rfc = {
    .name = "table-rfc",
    .summary = "a table where quotes enclose fields (RFC 4180)",
    .tier = SPSH_LAYOUT_FORCED,
    .takes_columns = true,
    .reads_file = true,
    .variant = SPSH__TABLE_QUOTING_RFC,
    .probe_fn = table_probe,
    .scan_fn = table_scan_root,
};

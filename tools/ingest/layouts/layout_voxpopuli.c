/* layout_voxpopuli.c: the transcribed part of VoxPopuli.
 *
 *     [transcribed_data/]<language>/asr_{train,dev,test}.tsv   id, raw_text, normalized_text, ...
 *     [transcribed_data/]<language>/<year>/<id>.ogg            an id begins with its year
 *
 *     [transcribed_data/]<language>/asr_<language>.tsv.gz      id_ | session_id | normed_text | ...
 *     [transcribed_data/]<language>/<year>/<session_id>-<id_>.ogg
 *
 *     data/<language>/asr_{train,dev,test}.tsv                 as mirrored on the Hugging Face hub
 *     data/<language>/<split>/<split>_part_<n>/<id>.wav
 *
 * The .tsv.gz file is the annotation from which the tables are made. It is read if there are no
 * tables. The tables are not quoted, but the annotation is. The normalized text is the transcript,
 * and the raw text becomes an extra, because half of the raw texts of some languages are missing.
 * Rows with the split "invalid" are packed only if --split names it.
 */
#include <string.h>

#include "common/file_names.h"
#include "ingest/metadata/clip_table.h"
#include "ingest/scan/scan_strings.h"
#include "layouts.h"
#include "speechshard/inside.h"

static const spsh__clip_table tables[] = {
    {"asr_test.tsv",  "test",  true, false, false},
    {"asr_dev.tsv",   "dev",   true, false, false},
    {"asr_train.tsv", "train", true, false, false},
};
#define TABLE_COUNT (sizeof(tables) / sizeof(tables[0]))

static const spsh__clip_form form = {
    .corpus = "voxpopuli",
    .dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'},
    .columns = { "id", "normalized_text", "speaker_id", NULL, NULL, "split", NULL},
    .extension = ".ogg",
    .in_year_folders = true,
    .left_split = "invalid",
};

#define MIRROR_DEPTH 2U /* one level for the split, one for the unpacked archive */

static const spsh__clip_form mirror_form = {
    .corpus = "voxpopuli",
    .dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'},
    .columns = { "id", "normalized_text", "speaker_id", NULL, NULL, "split", NULL},
    .extension = ".wav",
    .left_split = "invalid",
};

/* The annotation of a language. VoxPopuli's own tools parse it with quotes. */
static const spsh__clip_form annotation_form = {
    .corpus = "voxpopuli",
    .dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = '|'},
    .columns = { "id_", "normed_text", "speaker_id", NULL, NULL, "split", "session_id"},
    .extension = ".ogg",
    .in_year_folders = true,
    .left_split = "invalid",
    .document_before_path = true,
};

static bool is_annotation_name(const char *name)
{
    const char *end = strstr(name, ".tsv");
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (strncmp(name, tables[i].name, strlen(tables[i].name)) == 0)
            return false;
    }
    return strncmp(name, "asr_", 4) == 0 && end != NULL &&
           (strcmp(end, ".tsv") == 0 || strcmp(end, ".tsv.gz") == 0);
}

static spsh_status has_tables(const spsh__view *folder, bool *ret_has, spsh_error *err)
{
    static const char *const columns[] = {"id", "raw_text", "normalized_text", NULL};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < TABLE_COUNT && rc == SPSH_OK && !*ret_has; i++)
        rc = spsh__clip_header_has(folder, tables[i].name, &form.dialect, columns, ret_has, err);
    return rc;
}

/* Write the name of the folder's first annotation to out. Empty if the folder has no annotation. */
static spsh_status find_annotation(const spsh__view *folder, spsh__builder *out, spsh_error *err)
{
    static const char *const columns[] = {"id_", "session_id", "normed_text", "split", NULL};
    spsh__view_entry entry;
    spsh_status rc = SPSH_OK;
    spsh__view_folder *listing = spsh__view_folder_open(folder, "");
    spsh__builder_clear(out);
    while (listing != NULL && rc == SPSH_OK && spsh__view_folder_next(listing, &entry)) {
        bool has = false;
        if (!is_annotation_name(entry.name) ||
            (out->size_bytes > 0 && strcmp(entry.name, spsh__builder_text(out)) >= 0))
            continue;
        rc =
            spsh__clip_header_has(folder, entry.name, &annotation_form.dialect, columns, &has, err);
        if (rc == SPSH_OK && has) {
            spsh__builder_clear(out);
            spsh__builder_append_text(out, entry.name);
            rc = spsh__builder_text(out) == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
        }
    }
    if (listing != NULL)
        spsh__view_folder_close(listing);
    return rc;
}

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    spsh__builder annotation = {0};
    spsh_status rc = has_tables(folder, ret_is_tree, err);
    if (rc == SPSH_OK && !*ret_is_tree) {
        rc = find_annotation(folder, &annotation, err);
        *ret_is_tree = rc == SPSH_OK && annotation.size_bytes > 0;
    }
    spsh__builder_free(&annotation);
    return rc;
}

/* Report the annotation as redundant with the tables. No row is lost. */
static spsh_status report_annotation(spsh__scan *scan, const char *path, const char *name,
                                     spsh_error *err)
{
    const spsh_reject reject = {
        .reason = SPSH_REJECT_EXCLUDED_BY_RULE,
        .source = spsh__strings_path(scan, spsh__bytes_of(path), spsh__bytes_of(name)),
        .detail = "the tables next to it are packed instead"};
    return spsh__scan_reject(scan, &reject, NULL, err);
}

static spsh_status scan_tree(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    spsh__builder annotation = {0};
    bool in_tables = false;
    bool is_mirror = false;
    spsh_status rc = has_tables(tree->view, &in_tables, err);
    if (rc == SPSH_OK)
        rc = find_annotation(tree->view, &annotation, err);
    for (size_t i = 0; i < TABLE_COUNT && rc == SPSH_OK && in_tables; i++)
        is_mirror = is_mirror || spsh__view_has_folder(tree->view, tables[i].split);
    const spsh__clip_table annotated = {.name = (const char *)annotation.data};
    const spsh__clip_tree clips = {
        .path = tree->path,
        .name = tree->name,
        .clips = "",
        .depth = is_mirror ? MIRROR_DEPTH : 0,
        .locale = tree->name[0] != '\0' ? tree->name : "unknown",
        .id_prefix = "",
        .tables = in_tables ? tables : &annotated,
        .table_count = in_tables ? TABLE_COUNT : 1,
    };
    if (rc == SPSH_OK && in_tables && annotation.size_bytes > 0)
        rc = report_annotation(scan, tree->path, annotated.name, err);
    if (rc == SPSH_OK)
        rc = spsh__clip_tree_scan(scan,
                                  is_mirror   ? &mirror_form
                                  : in_tables ? &form
                                              : &annotation_form,
                                  &clips, err);
    spsh__builder_free(&annotation);
    return rc;
}

static const spsh__tree_layout trees = {
    "holds asr_*.tsv with id, raw_text and normalized_text, or id_, session_id and normed_text",
    check_tree, scan_tree, NULL};

const spsh_layout spsh__layout_voxpopuli = {
    .name = "voxpopuli",
    .summary = "VoxPopuli, transcribed: <language>/asr_*.tsv and <language>/<year>/<id>.ogg",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

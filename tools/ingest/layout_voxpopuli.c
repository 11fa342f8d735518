/* layout_voxpopuli.c: the transcribed part of VoxPopuli.
 *
 *     [transcribed_data/]<language>/asr_{train,dev,test}.tsv   id TAB raw_text TAB normalized_text
 * ... [transcribed_data/]<language>/<year>/<id>.ogg            the year is where the id begins
 *
 * The tables are not quoted. The text is the normalized one, the other is an extra: half of the raw
 * texts of some languages are missing. Rows whose split is "invalid" are packed when --split asks.
 */
#include "clip_table.h"
#include "layouts.h"
#include "names.h"

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

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    static const char *const columns[] = {"id", "raw_text", "normalized_text", NULL};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < TABLE_COUNT && rc == SPSH_OK && !*ret_is_tree; i++)
        rc =
            spsh__clip_header_has(folder, tables[i].name, &form.dialect, columns, ret_is_tree, err);
    return rc;
}

static spsh_status scan_tree(spsh__scan *scan, const char *path, const char *name, spsh_error *err)
{
    const spsh__clip_tree tree = {
        .path = path,
        .name = name,
        .clips = "",
        .locale = name[0] != '\0' ? name : "unknown",
        .id_prefix = "",
        .tables = tables,
        .table_count = TABLE_COUNT,
    };
    return spsh__clip_tree_scan(scan, &form, &tree, err);
}

static const spsh__tree_layout trees = {"holds asr_*.tsv with id, raw_text and normalized_text",
                                        check_tree, scan_tree};

static spsh_status voxpopuli_scan(const spsh_ingest_options *options, const spsh_ingest_sink *sink,
                                  spsh_error *err)
{
    return spsh__trees_scan(options, sink, &trees, err);
}

static spsh_status voxpopuli_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                   spsh_error *err)
{
    return spsh__trees_probe(view, trees.check_fn, trees.what, ret_probe, err);
}

const spsh_layout spsh__layout_voxpopuli = {
    .name = "voxpopuli",
    .summary = "VoxPopuli, transcribed: <language>/asr_train.tsv and <language>/<year>/<id>.ogg",
    .tier = SPSH_LAYOUT_CORPUS,
    .probe_fn = voxpopuli_probe,
    .scan_fn = voxpopuli_scan,
};

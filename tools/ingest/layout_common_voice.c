/* layout_common_voice.c: Common Voice, scripted speech, releases 1 to 25 and deltas.
 *
 *     [wrapper/][cv-corpus-<version>-<date>/][<locale>/]clips/common_voice_<locale>_<number>.mp3
 *     [...]{test,dev,train,validated,other,invalidated}.tsv    one row a clip, columns by name
 *
 * The producer writes these tables without quoting, so a quote is text. validated.tsv holds test,
 * dev and train again; the tables are therefore read in the order below, and a clip belongs to the
 * first that has it. test comes first: if a clip stands in train as well, it is not trained on.
 * Columns differ by release and are found by name; reported.tsv and the *_sentences.tsv are broken
 * or quoted, and hold no clips: they are not read.
 */
#include "clip_table.h"
#include "layouts.h"
#include "names.h"

static const spsh__clip_table tables[] = {
    {"test.tsv",        "test",        true,  false, false},
    {"dev.tsv",         "dev",         true,  false, false},
    {"train.tsv",       "train",       true,  false, false},
    {"validated.tsv",   "validated",   false, true,  false},
    {"other.tsv",       "other",       false, false, true },
    {"invalidated.tsv", "invalidated", false, false, true },
};
#define TABLE_COUNT (sizeof(tables) / sizeof(tables[0]))

static const spsh__clip_form form = {
    .corpus = "cv",
    .dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'},
    .columns = { "path", "sentence", "client_id", "locale", NULL, NULL, NULL},
    .extension = ".mp3",
};

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    static const char *const columns[] = {"client_id", "path", "sentence", NULL};
    spsh_status rc = SPSH_OK;
    if (!spsh__view_has_folder(folder, "clips"))
        return SPSH_OK;
    for (size_t i = 0; i < TABLE_COUNT && rc == SPSH_OK && !*ret_is_tree; i++)
        rc =
            spsh__clip_header_has(folder, tables[i].name, &form.dialect, columns, ret_is_tree, err);
    return rc;
}

/* The locale where no column says it: the folder "de", or the end of "cv-corpus-4-2019-12-10_de" or
 * "cv-corpus-7.0-2021-07-21-de". */
static const char *locale_of(const char *folder)
{
    if (spsh__is_locale(spsh__bytes_of(folder)))
        return folder;
    const char *end = strrchr(folder, '_');
    if (end == NULL)
        end = strrchr(folder, '-');
    if (end != NULL && spsh__is_locale(spsh__bytes_of(end + 1)))
        return end + 1;
    return "unknown";
}

static spsh_status scan_tree(spsh__scan *scan, const char *path, const char *name, spsh_error *err)
{
    const spsh__clip_tree tree = {
        .path = path,
        .name = name,
        .clips = "clips",
        .locale = locale_of(name),
        .id_prefix = "",
        .tables = tables,
        .table_count = TABLE_COUNT,
    };
    return spsh__clip_tree_scan(scan, &form, &tree, err);
}

static const spsh__tree_layout trees = {"holds clips/ and tables with client_id, path and sentence",
                                        check_tree, scan_tree};

static spsh_status common_voice_scan(const spsh_ingest_options *options,
                                     const spsh_ingest_sink *sink, spsh_error *err)
{
    return spsh__trees_scan(options, sink, &trees, err);
}

static spsh_status common_voice_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                      spsh_error *err)
{
    return spsh__trees_probe(view, trees.check_fn, trees.what, ret_probe, err);
}

const spsh_layout spsh__layout_common_voice = {
    .name = "common-voice",
    .summary = "Common Voice, scripted speech, releases 1 to 25: clips/ and train.tsv ...",
    .tier = SPSH_LAYOUT_CORPUS,
    .probe_fn = common_voice_probe,
    .scan_fn = common_voice_scan,
};

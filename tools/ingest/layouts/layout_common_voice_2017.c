/* layout_common_voice_2017.c: the first Common Voice, English, of 2017.
 *
 *     cv-{valid,other}-{train,dev,test}.csv  cv-invalid.csv    comma separated, quoted by RFC 4180
 *     cv-valid-train/sample-000070.mp3 ...                     one folder next to each table
 *
 * Numbers begin at 0 in every folder, so an id includes the folder's name. The corpus has no
 * speakers.
 */
#include "ingest/metadata/clip_table.h"
#include "layouts.h"

static const struct {
    spsh__clip_table table;
    const char *clips, *id_prefix;
} parts[] = {
    {{"cv-valid-test.csv", "test", true, false, false},     "cv-valid-test",  "cv-valid-test/" },
    {{"cv-valid-dev.csv", "dev", true, false, false},       "cv-valid-dev",   "cv-valid-dev/"  },
    {{"cv-valid-train.csv", "train", true, false, false},   "cv-valid-train", "cv-valid-train/"},
    {{"cv-other-test.csv", "other", false, false, true},    "cv-other-test",  "cv-other-test/" },
    {{"cv-other-dev.csv", "other", false, false, true},     "cv-other-dev",   "cv-other-dev/"  },
    {{"cv-other-train.csv", "other", false, false, true},   "cv-other-train", "cv-other-train/"},
    {{"cv-invalid.csv", "invalidated", false, false, true}, "cv-invalid",     "cv-invalid/"    },
};
#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

static const spsh__clip_form form = {
    .corpus = "cv",
    .dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','},
    .columns = { "filename", "text", NULL, NULL, NULL, NULL, NULL, "duration"},
    .duration_unit_ns = UINT64_C(1000000000),
};

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    static const char *const columns[] = {"filename", "text", "up_votes", NULL};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < PART_COUNT && rc == SPSH_OK && !*ret_is_tree; i++)
        rc = spsh__clip_header_has(folder, parts[i].table.name, &form.dialect, columns, ret_is_tree,
                                   err);
    return rc;
}

static spsh_status scan_tree(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < PART_COUNT && rc == SPSH_OK; i++) {
        const spsh__clip_tree part = {
            .path = tree->path,
            .name = "",
            .clips = parts[i].clips,
            .locale = "en",
            .id_prefix = parts[i].id_prefix,
            .tables = &parts[i].table,
            .table_count = 1,
        };
        if (spsh__view_has_file(tree->view, parts[i].table.name))
            rc = spsh__clip_tree_scan(scan, &form, &part, err);
    }
    return rc;
}

static const spsh__tree_layout trees = {"holds cv-*.csv with filename, text and votes", check_tree,
                                        scan_tree, NULL};

const spsh_layout spsh__layout_common_voice_2017 = {
    .name = "common-voice-2017",
    .summary = "the first Common Voice: cv-valid-train.csv and a folder beside it ...",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

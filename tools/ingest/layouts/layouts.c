/* layouts.c: the table of layouts, and the detection of a root's layout. */
#include "layouts.h"

#include <stdio.h>

#include "common/file_names.h"
#include "ingest/metadata/json_manifest.h"
#include "ingest/scan/trees.h"
#include "ingest/view/walk.h"
#include "speechshard/inside.h"

#define EXTENSIONS_MAX     ((size_t)8)
#define EXTENSION_BYTES    ((size_t)12)
#define SURVEY_FOLDERS_MAX UINT64_C(64)

/* All layouts. Layouts of one tier are tried in this order. */
/* clang-format off: one a line */
const spsh_layout *const spsh__layouts[] = {
    &spsh__layout_lhotse_shar,
    &spsh__layout_nemo_tarred,
    &spsh__layout_mls,
    &spsh__layout_peoples_speech,
    &spsh__layout_common_voice_spontaneous,
    &spsh__layout_common_voice,
    &spsh__layout_common_voice_2017,
    &spsh__layout_librispeech,
    &spsh__layout_librilight,
    &spsh__layout_mdc,
    &spsh__layout_voxpopuli,
    &spsh__layout_gigaspeech,
    &spsh__layout_kaldi,
    &spsh__layout_audiofolder,
    &spsh__layout_wenet,
    &spsh__layout_wenet_shards,
    &spsh__layout_nemo,
    &spsh__layout_lhotse,
    &spsh__layout_webdataset,
    &spsh__layout_ljspeech,
    &spsh__layout_table,
    &spsh__layout_folder,
    &spsh__layout_mls_flac,
    &spsh__layout_mls_opus,
    &spsh__layout_table_raw,
    &spsh__layout_table_rfc,
    NULL,
};
/* clang-format on */

const spsh_layout *spsh__layout_find(const char *name)
{
    for (size_t i = 0; spsh__layouts[i] != NULL; i++) {
        if (strcmp(spsh__layouts[i]->name, name) == 0)
            return spsh__layouts[i];
    }
    return NULL;
}

static spsh_status probe_layout(const spsh_layout *layout, const spsh__view *view,
                                spsh_layout_probe *ret_probe, spsh_error *err)
{
    if (layout->probe_fn != NULL)
        return layout->probe_fn(view, ret_probe, err);
    if (layout->trees != NULL)
        return spsh__trees_probe(view, layout->trees, ret_probe, err);
    return spsh__json_manifest_probe(view, layout->json, ret_probe, err);
}

spsh_status spsh__layout_scan(const spsh_layout *layout, const spsh_ingest_options *options,
                              const spsh_ingest_sink *sink, spsh_error *err)
{
    spsh_ingest_options own = *options;
    spsh__scan scan;
    own.variant = layout->variant;
    spsh_status rc = spsh__scan_begin(&scan, &own, sink, err);
    if (rc == SPSH_OK && layout->without_splits != NULL)
        rc = spsh__scan_refuse_split(&scan, layout->without_splits, err);
    if (rc == SPSH_OK && layout->without_columns != NULL)
        rc = spsh__scan_refuse_column(&scan, layout->without_columns, err);
    if (rc != SPSH_OK)
        return rc;
    if (layout->scan_fn != NULL)
        rc = layout->scan_fn(&scan, err);
    else if (layout->trees != NULL)
        rc = spsh__trees_scan(&scan, layout->trees, err);
    else
        rc = spsh__json_manifest_scan(&scan, layout->json, err);
    if (rc == SPSH_OK)
        rc = spsh__scan_finish(&scan, err);
    spsh__strings_free(&scan.strings);
    return rc;
}

spsh_status spsh__layout_match_view(const spsh__view *view, spsh_layout_tier tier_max,
                                    spsh__layout_match *ret_match, spsh_error *err)
{
    spsh__layout_match match = {0};
    /* Try better tiers first, because probing a folder of audio may need a long walk, and a table
     * many lookups. */
    for (int tier = SPSH_LAYOUT_CORPUS; tier <= (int)tier_max && match.count == 0; tier++) {
        for (size_t i = 0; spsh__layouts[i] != NULL; i++) {
            spsh_layout_probe probe = {0};
            if ((int)spsh__layouts[i]->tier != tier || match.count == SPSH__LAYOUT_MATCHES_MAX ||
                (spsh__view_file(view) != NULL && !spsh__layouts[i]->reads_file))
                continue;
            spsh_status rc = probe_layout(spsh__layouts[i], view, &probe, err);
            if (rc != SPSH_OK)
                return rc;
            if (!probe.matches)
                continue;
            match.layouts[match.count] = spsh__layouts[i];
            match.probes[match.count++] = probe;
        }
    }
    *ret_match = match;
    return SPSH_OK;
}

spsh_status spsh__layout_refuse(const spsh__view *view, const spsh__layout_match *match,
                                spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%s: two layouts fit; choose layout_name %s (%.60s) or layout_name %s (%.60s)",
                     spsh__view_root(view), match->layouts[0]->name, match->probes[0].evidence,
                     match->layouts[1]->name, match->probes[1].evidence);
}

/** Files in the first folders below a root, for the message that no layout matches. */
typedef struct survey {
    struct {
        char extension[EXTENSION_BYTES];
        uint64_t count;
    } kinds[EXTENSIONS_MAX];
    size_t kind_count;
    uint64_t others, files, folders;
} survey;

static void survey_name(survey *s, const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *extension = dot == NULL || dot == name ? "" : dot;
    s->files++;
    for (size_t i = 0; i < s->kind_count; i++) {
        if (strcmp(s->kinds[i].extension, extension) == 0) {
            s->kinds[i].count++;
            return;
        }
    }
    bool printable = strlen(extension) < EXTENSION_BYTES;
    for (const char *c = extension; *c != '\0' && printable; c++)
        printable = *c > 0x20 && *c < 0x7f;
    if (s->kind_count == EXTENSIONS_MAX || !printable) {
        s->others++;
        return;
    }
    memcpy(s->kinds[s->kind_count].extension, extension, strlen(extension) + 1);
    s->kinds[s->kind_count++].count = 1;
}

static spsh_status survey_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    survey *s = user;
    (void)err;
    for (size_t i = 0; i < folder->entry_count; i++)
        survey_name(s, folder->entries[i].name);
    return ++s->folders < SURVEY_FOLDERS_MAX ? SPSH_OK : SPSH_E_END;
}

#define READ_BY_PYTHON                                                                             \
    "parquet files are packed by `python -m speechshard.parquet SOURCE -o DATASET`"

static bool is_parquet(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".parquet") == 0;
}

static spsh_status nothing_found(const spsh__view *view, spsh_error *err)
{
    const char *root = spsh__view_root(view);
    survey s = {0};
    char seen[200] = "";
    size_t at = 0;
    const spsh__walk_visitor visitor = {.folder_fn = survey_folder, .user = &s};
    spsh_status rc = spsh__walk(view, &visitor, err);
    if (rc != SPSH_OK && rc != SPSH_E_END)
        return rc;
    for (size_t i = 0; i < s.kind_count && at < sizeof(seen) - 1; i++) {
        const char *extension = s.kinds[i].extension;
        int length = snprintf(seen + at, sizeof(seen) - at, "%s%llu %s", i == 0 ? "" : ", ",
                              (unsigned long long)s.kinds[i].count,
                              extension[0] == '\0' ? "without extension" : extension);
        at += length > 0 ? (size_t)length : 0;
    }
    if (s.files == 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "%s: no corpus layout fits: no files in %llu folder(s)%s", root,
                         (unsigned long long)s.folders,
                         spsh__view_follows_links(view)
                             ? ""
                             : "; links to folders are followed only with follows_links");
    bool has_parquet = false;
    for (size_t i = 0; i < s.kind_count; i++)
        has_parquet = has_parquet || is_parquet(s.kinds[i].extension);
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "%s: no corpus layout fits: %llu file(s) seen (%s%s); %s", root,
                     (unsigned long long)s.files, seen, s.others > 0 ? ", others" : "",
                     has_parquet ? READ_BY_PYTHON
                                 : "give a folder with audio, a .csv or .tsv with a column "
                                   "of audio paths, or layout_name");
}

spsh_status spsh__layout_detect(const spsh__view *view, const spsh_layout **ret_layout,
                                spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__layout_match match = {0};
    spsh_status rc = spsh__layout_match_view(view, SPSH_LAYOUT_FOLDER, &match, err);
    if (rc != SPSH_OK)
        return rc;
    if (match.count > 1)
        return spsh__layout_refuse(view, &match, err);
    if (match.count == 1) {
        *ret_layout = match.layouts[0];
        *ret_probe = match.probes[0];
        return SPSH_OK;
    }
    if (spsh__view_file(view) != NULL && is_parquet(spsh__view_root(view)))
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: " READ_BY_PYTHON, spsh__view_root(view));
    if (spsh__view_file(view) != NULL)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "%s: no corpus layout fits this file; looked for a table with a "
                         "column such as path, file or audio, a list of audio and texts "
                         "between pipes, JSON lines of Lhotse, NeMo, wenet or The People's "
                         "Speech, GigaSpeech's JSON, a list of archives, and wav.scp; give "
                         "the folder to pack what else is in it",
                         spsh__view_root(view));
    return nothing_found(view, err);
}

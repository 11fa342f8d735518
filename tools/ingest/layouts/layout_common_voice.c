/* layout_common_voice.c: Common Voice, scripted speech, releases 1 to 25 and deltas.
 *
 *     [wrapper/][cv-corpus-<version>-<date>/][<locale>/]clips/common_voice_<locale>_<number>.mp3
 *     [...]{test,dev,train,validated,other,invalidated}.tsv    one row per clip, columns by name
 *
 *     transcript/<locale>/{test,dev,train ...}.tsv             the same data as mirrored on the
 *     audio/<locale>/<split>/<locale>_<split>_<i>/<clip>.mp3   Hugging Face hub, in many archives
 *
 * Common Voice writes these tables without quoting, so a quote is part of the text. validated.tsv
 * repeats the rows of test, dev, and train. So the tables are read in the order below, and a clip
 * belongs to the first table that names it. test comes first, so that no test clip is in train.
 * Columns differ by release and are found by name. reported.tsv and the *_sentences.tsv files are
 * not read: they are broken or quoted, and name no clips.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/metadata/clip_table.h"
#include "ingest/view/archive_find.h"
#include "layouts.h"
#include "speechshard/inside.h"

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

#define MIRROR_TABLES    "transcript"
#define MIRROR_CLIPS     "audio"
#define MIRROR_DEPTH     2U /* one level for the split, one for the archive */
#define CLIP_PREFIX      "common_voice_"
#define CLIPS_CHECK_MAX  16U /* names checked to recognize clips */
#define LOCALE_BYTES     ((size_t)64)
#define MIRROR_PATH_MAX  ((size_t)128)
#define MIRROR_CHECK_MAX 4U /* folders checked to recognize a mirror */

/* Whether the folder has one of the tables. */
static spsh_status has_table(const spsh__view *folder, bool *ret_has, spsh_error *err)
{
    static const char *const columns[] = {"client_id", "path", "sentence", NULL};
    spsh_status rc = SPSH_OK;
    *ret_has = false;
    for (size_t i = 0; i < TABLE_COUNT && rc == SPSH_OK && !*ret_has; i++)
        rc = spsh__clip_header_has(folder, tables[i].name, &form.dialect, columns, ret_has, err);
    return rc;
}

static bool is_locale_entry(const spsh__view_entry *entry)
{
    return (entry->type == SPSH__VIEW_FOLDER || entry->type == SPSH__VIEW_LINK) &&
           spsh__is_locale(spsh__bytes_of(entry->name)) && strlen(entry->name) < LOCALE_BYTES;
}

static spsh_status check_mirror(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    unsigned checked = 0;
    if (!spsh__view_has_folder(folder, MIRROR_TABLES) ||
        !spsh__view_has_folder(folder, MIRROR_CLIPS))
        return SPSH_OK;
    spsh__view_folder *locales = spsh__view_folder_open(folder, MIRROR_TABLES);
    if (locales == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    while (locales != NULL && rc == SPSH_OK && !*ret_is_tree && checked < MIRROR_CHECK_MAX &&
           spsh__view_folder_next(locales, &entry)) {
        char path[MIRROR_PATH_MAX];
        spsh__view *locale = NULL;
        (void)snprintf(path, sizeof(path), MIRROR_TABLES "/%.*s", (int)LOCALE_BYTES, entry.name);
        if (!is_locale_entry(&entry))
            continue;
        checked++;
        const spsh_status opened = spsh__view_below(folder, path, &locale, NULL);
        if (opened == SPSH_OK)
            rc = has_table(locale, ret_is_tree, err);
        else if (opened == SPSH_E_NO_MEMORY)
            rc = SPSH_NO_MEMORY(err);
        spsh__view_close(locale);
    }
    spsh__view_folder_close(locales);
    return rc;
}

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    if (!spsh__view_has_folder(folder, "clips"))
        return check_mirror(folder, ret_is_tree, err);
    return has_table(folder, ret_is_tree, err);
}

/* Whether clips/ has clips of Common Voice. Some deltas were published without their tables. */
static spsh_status check_clips(const spsh__view *folder, bool *ret_has, spsh_error *err)
{
    spsh__view_entry entry;
    spsh__view_folder *clips = spsh__view_folder_open(folder, "clips");
    if (clips == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    for (unsigned i = 0; clips != NULL && i < CLIPS_CHECK_MAX && !*ret_has; i++) {
        if (!spsh__view_folder_next(clips, &entry))
            break;
        *ret_has = strncmp(entry.name, CLIP_PREFIX, strlen(CLIP_PREFIX)) == 0;
    }
    spsh__view_folder_close(clips);
    return SPSH_OK;
}

/* Whether a scan reads this tree. Clips without tables count, so that they are reported as orphans.
 */
static spsh_status check_scanned(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    spsh_status rc = check_tree(folder, ret_is_tree, err);
    return rc == SPSH_OK && !*ret_is_tree ? check_clips(folder, ret_is_tree, err) : rc;
}

/* The locale in a name: "de" itself, or the end of "cv-corpus-4-2019-12-10_de" or
 * "cv-corpus-7.0-2021-07-21-de". NULL if the name has no locale. */
static const char *locale_in(const char *name)
{
    if (spsh__is_locale(spsh__bytes_of(name)))
        return name;
    const char *end = strrchr(name, '_');
    if (end == NULL)
        end = strrchr(name, '-');
    return end != NULL && spsh__is_locale(spsh__bytes_of(end + 1)) ? end + 1 : NULL;
}

/* Locale of rows without a locale column: from the archive that was unpacked here (the first
 * releases had no folder in it), else from the folder. out keeps the string. */
static const char *locale_of(const spsh__view *folder, const char *name, spsh__builder *out)
{
    const char *archive = NULL;
    for (size_t i = 0; (archive = spsh__view_archive(folder, i)) != NULL; i++) {
        if (strchr(archive, '/') != NULL)
            continue;
        spsh__builder_clear(out);
        spsh__builder_append_bytes(out, spsh__archive_stem(archive));
        const char *stem = spsh__builder_text(out);
        if (stem == NULL || locale_in(stem) != NULL)
            return stem == NULL ? NULL : locale_in(stem);
    }
    const char *locale = locale_in(name);
    return locale == NULL ? "unknown" : locale;
}

static spsh_status scan_mirrored(spsh__scan *scan, const char *path, const char *locale,
                                 spsh_error *err)
{
    spsh__clip_table mirrored[TABLE_COUNT];
    char names[TABLE_COUNT][MIRROR_PATH_MAX];
    char clips[MIRROR_PATH_MAX];
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        (void)snprintf(names[i], sizeof(names[i]), MIRROR_TABLES "/%.63s/%s", locale,
                       tables[i].name);
        mirrored[i] = tables[i];
        mirrored[i].name = names[i];
    }
    (void)snprintf(clips, sizeof(clips), MIRROR_CLIPS "/%.63s", locale);
    const spsh__clip_tree tree = {
        .path = path,
        .name = locale,
        .clips = clips,
        .depth = MIRROR_DEPTH,
        .locale = locale,
        .id_prefix = "",
        .tables = mirrored,
        .table_count = TABLE_COUNT,
    };
    return spsh__clip_tree_scan(scan, &form, &tree, err);
}

static int compare_locales(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Scan every locale with a folder of tables, in name order. */
static spsh_status scan_mirror(spsh__scan *scan, const char *path, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__builder folder = {0};
    spsh__builder locales = {0};
    spsh__builder_append_part(&folder, path);
    spsh__builder_append_part(&folder, MIRROR_TABLES);
    const char *text = spsh__builder_text(&folder);
    spsh__view_folder *listing =
        text == NULL ? NULL : spsh__view_folder_open(scan->options->view, text);
    const bool no_listing = listing == NULL && errno == ENOMEM;
    while (listing != NULL && spsh__view_folder_next(listing, &entry)) {
        char locale[LOCALE_BYTES] = {0};
        if (!is_locale_entry(&entry))
            continue;
        memcpy(locale, entry.name, strlen(entry.name));
        spsh__builder_append(&locales, locale, sizeof(locale));
    }
    spsh__view_folder_close(listing);
    if (text == NULL || locales.failed || no_listing)
        rc = SPSH_NO_MEMORY(err);
    const size_t count = locales.size_bytes / LOCALE_BYTES;
    if (rc == SPSH_OK && count > 1)
        qsort(locales.data, count, LOCALE_BYTES, compare_locales);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = scan_mirrored(scan, path, (const char *)locales.data + i * LOCALE_BYTES, err);
    SPSH__BUILDERS_FREE(&folder, &locales);
    return rc;
}

/* Append "25.0 de" if the folder is that locale of the release, according to the names of the
 * folders above it. Appends nothing for deltas and unknown releases. */
static void append_subset(const spsh__scan *scan, const char *path, const char *locale,
                          spsh__builder *out)
{
    static const char release[] = "cv-corpus-25.0-2"; /* the date follows, or "delta" */
    spsh__builder whole = {0};
    spsh__builder_append_text(&whole, spsh__view_root(scan->options->view));
    spsh__builder_append_part(&whole, path);
    const char *text = spsh__builder_text(&whole);
    const char *found = text == NULL ? NULL : strstr(text, release);
    if (found != NULL && strstr(found, "-variants") == NULL) {
        spsh__builder_append_text(out, "25.0 ");
        spsh__builder_append_text(out, locale);
    }
    out->failed = out->failed || text == NULL;
    spsh__builder_free(&whole);
}

static spsh_status scan_tree(spsh__scan *scan, const char *path, const char *name, spsh_error *err)
{
    spsh__view *folder = NULL;
    spsh__builder locale = {0};
    spsh__builder subset = {0};
    spsh_status rc = spsh__view_below(scan->options->view, path, &folder, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__clip_tree tree = {
        .path = path,
        .name = name,
        .clips = "clips",
        .locale = locale_of(folder, name, &locale),
        .id_prefix = "",
        .tables = tables,
        .table_count = TABLE_COUNT,
    };
    if (tree.locale != NULL) {
        append_subset(scan, path, tree.locale, &subset);
        tree.subset = spsh__builder_text(&subset);
    }
    if (tree.subset == NULL)
        rc = SPSH_NO_MEMORY(err);
    else if (spsh__view_has_folder(folder, tree.clips))
        rc = spsh__clip_tree_scan(scan, &form, &tree, err);
    else
        rc = scan_mirror(scan, path, err);
    spsh__view_close(folder);
    SPSH__BUILDERS_FREE(&locale, &subset);
    return rc;
}

static const spsh__tree_layout trees = {"holds clips and tables with client_id, path and sentence",
                                        check_scanned, scan_tree};

static spsh_status common_voice_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                      spsh_error *err)
{
    return spsh__trees_probe(view, check_tree, trees.what, ret_probe, err);
}

const spsh_layout spsh__layout_common_voice = {
    .name = "common-voice",
    .summary = "Common Voice, scripted speech, releases 1 to 25: clips/ and train.tsv ...",
    .tier = SPSH_LAYOUT_CORPUS,
    .probe_fn = common_voice_probe,
    .trees = &trees,
};

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

#include "common/file_names.h"
#include "ingest/metadata/clip_table.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/archive_find.h"
#include "ingest/view/path_list.h"
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
 * releases had no folder in it), else from the folder. */
static const char *locale_of(spsh__scan *scan, const spsh__tree *tree)
{
    const char *archive = NULL;
    for (size_t i = 0; (archive = spsh__view_archive(tree->view, i)) != NULL; i++) {
        if (strchr(archive, '/') != NULL)
            continue;
        const char *locale =
            locale_in(spsh__text_of(SPSH__JOIN(scan, spsh__archive_stem(archive))));
        if (locale != NULL)
            return locale;
    }
    const char *locale = locale_in(tree->name);
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

/* Scan every locale with a folder of tables, in name order. */
static spsh_status scan_mirror(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__path_list locales = {0};
    spsh__view_folder *listing = spsh__view_folder_open(tree->view, MIRROR_TABLES);
    if (listing == NULL && errno == ENOMEM)
        rc = SPSH_NO_MEMORY(err);
    while (listing != NULL && rc == SPSH_OK && spsh__view_folder_next(listing, &entry)) {
        if (is_locale_entry(&entry))
            rc = spsh__path_list_add(&locales, "", entry.name, err);
    }
    spsh__view_folder_close(listing);
    spsh__path_list_sort(&locales, 0);
    for (size_t i = 0; i < locales.count && rc == SPSH_OK; i++)
        rc = scan_mirrored(scan, tree->path, locales.paths[i], err);
    spsh__path_list_free(&locales);
    return rc;
}

/* "25.0 de" if the folder is that locale of the release, according to the names of the folders
 * above it. Empty for deltas and unknown releases. */
static const char *subset_of(spsh__scan *scan, const char *path, const char *locale)
{
    static const char release[] = "cv-corpus-25.0-2"; /* the date follows, or "delta" */
    const spsh_bytes whole = spsh__strings_path(
        scan, spsh__bytes_of(spsh__view_root(scan->options->view)), spsh__bytes_of(path));
    const char *found = strstr(spsh__text_of(whole), release);
    return found != NULL && strstr(found, "-variants") == NULL
               ? spsh__text_of(SPSH__JOIN(scan, spsh__bytes_of("25.0 "), spsh__bytes_of(locale)))
               : "";
}

static spsh_status scan_tree(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    const char *locale = locale_of(scan, tree);
    const spsh__clip_tree clips = {
        .path = tree->path,
        .name = tree->name,
        .clips = "clips",
        .locale = locale,
        .id_prefix = "",
        .subset = subset_of(scan, tree->path, locale),
        .tables = tables,
        .table_count = TABLE_COUNT,
    };
    return spsh__view_has_folder(tree->view, clips.clips)
               ? spsh__clip_tree_scan(scan, &form, &clips, err)
               : scan_mirror(scan, tree, err);
}

static const spsh__tree_layout trees = {"holds clips and tables with client_id, path and sentence",
                                        check_scanned, scan_tree, check_tree};

const spsh_layout spsh__layout_common_voice = {
    .name = "common-voice",
    .summary = "Common Voice, scripted speech, releases 1 to 25: clips/ and train.tsv ...",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

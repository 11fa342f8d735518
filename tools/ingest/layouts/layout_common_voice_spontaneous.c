/* layout_common_voice_spontaneous.c: Common Voice, spontaneous speech.
 *
 *     [sps-corpus-<version>-<date>-<locale>/]ss-corpus-<locale>.tsv     one row per recording
 *     [...]audios/spontaneous-speech-<locale>-<number>.mp3
 *
 * There is one table with a split column, written without quoting. Recordings that users reported
 * remain in audios/ without a row, so they are orphans.
 */
#include <errno.h>

#include "common/file_names.h"
#include "ingest/metadata/clip_table.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define TABLE_PREFIX   "ss-corpus-"
#define TABLE_SUFFIX   ".tsv"
#define NAME_BYTES_MAX ((size_t)256)

static const spsh__clip_form form = {
    .corpus = "cv-sps",
    .dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'},
    .columns = { "audio_file", "transcription", "client_id", NULL, "audio_id", "split", "prompt_id",
                "duration_ms"},
    .duration_unit_ns = UINT64_C(1000000),
};

/* Find the first table by name in a folder. ret_name is empty if the folder has no table. */
static spsh_status find_table(const spsh__view *view, char ret_name[NAME_BYTES_MAX],
                              spsh_error *err)
{
    spsh__view_entry entry;
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    ret_name[0] = '\0';
    if (folder == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    while (folder != NULL && spsh__view_folder_next(folder, &entry)) {
        const size_t length = strlen(entry.name);
        if (strncmp(entry.name, TABLE_PREFIX, strlen(TABLE_PREFIX)) != 0 ||
            length <= strlen(TABLE_PREFIX TABLE_SUFFIX) || length >= NAME_BYTES_MAX ||
            strcmp(entry.name + length - strlen(TABLE_SUFFIX), TABLE_SUFFIX) != 0)
            continue;
        if (ret_name[0] == '\0' || strcmp(entry.name, ret_name) < 0)
            memcpy(ret_name, entry.name, length + 1);
    }
    spsh__view_folder_close(folder);
    return SPSH_OK;
}

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    static const char *const columns[] = {"client_id", "audio_file", "transcription", NULL};
    char name[NAME_BYTES_MAX];
    if (!spsh__view_has_folder(folder, "audios"))
        return SPSH_OK;
    spsh_status rc = find_table(folder, name, err);
    if (rc != SPSH_OK || name[0] == '\0')
        return rc;
    return spsh__clip_header_has(folder, name, &form.dialect, columns, ret_is_tree, err);
}

static spsh_status scan_tree(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    char name[NAME_BYTES_MAX];
    char locale[NAME_BYTES_MAX];
    spsh_status rc = find_table(tree->view, name, err);
    if (rc != SPSH_OK || name[0] == '\0')
        return rc;
    const size_t length = strlen(name) - strlen(TABLE_PREFIX TABLE_SUFFIX);
    memcpy(locale, name + strlen(TABLE_PREFIX), length);
    locale[length] = '\0';
    const spsh__clip_table table = {.name = name};
    const spsh__clip_tree clips = {
        .path = tree->path,
        .name = "",
        .clips = "audios",
        .locale = locale,
        .id_prefix = "",
        .tables = &table,
        .table_count = 1,
    };
    return spsh__clip_tree_scan(scan, &form, &clips, err);
}

static const spsh__tree_layout trees = {"holds audios/ and ss-corpus-<locale>.tsv", check_tree,
                                        scan_tree, NULL};

const spsh_layout spsh__layout_common_voice_spontaneous = {
    .name = "common-voice-spontaneous",
    .summary = "Common Voice, spontaneous speech: ss-corpus-<locale>.tsv and audios/",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

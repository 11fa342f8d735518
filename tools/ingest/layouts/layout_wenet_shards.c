/* layout_wenet_shards.c: wenet's shards: tars with KEY.txt and KEY.wav, and lists of their paths.
 *
 *     data.list                          shards/shards_000000000.tar
 *         data/train/shards/shards_000000000.tar       BAC009S0002W0122.txt
 *         data/train/shards/shards_000000001.tar       BAC009S0002W0122.wav
 *
 * A list selects shards, one path per line. The base folder of its paths is unknown. So a line
 * selects the archive below the corpus whose path is the longest suffix of the line. Without a
 * list, all archives are used.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "ingest/metadata/json_manifest.h"
#include "ingest/metadata/sample_scan.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/name_index.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define LISTS_MAX    ((size_t)256)
#define FOLDERS_MAX  64U /* folders that are searched */
#define SHARD_DIGITS ((size_t)9)
#define PROBE_WINDOW ((size_t)16 << 10)
#define PROBE_LINES  8U

enum { LISTED = 1, TAKEN = 2 };

/** Lists of shards: sorted paths in the view. All zero is empty. */
typedef struct list_set {
    spsh__path_list list;
    unsigned folders; /* folders seen during the search */
} list_set;

typedef struct shard {
    const char *archive; /* borrowed from the view */
    spsh_bytes split;    /* split in the list's name */
} shard;

typedef struct shard_scan {
    spsh__scan *scan;
    const spsh__view *view;
    list_set lists;
    const char *list;          /* being read */
    spsh__name_index archives; /* value: index of the archive in the view */
    shard *shards;             /* in list order */
    size_t shard_count, shard_capacity;
} shard_scan;

/* ---- lists ---- */

static bool names_archive(spsh_bytes line)
{
    return spsh__has_extension(line, ".tar") || spsh__has_extension(line, ".tar.gz") ||
           spsh__has_extension(line, ".tgz");
}

static spsh_bytes trim(spsh_bytes line)
{
    return spsh__bytes_trim(line, " \t\r");
}

static const spsh__dialect lines = {.kind = SPSH__DIALECT_RAW, .delimiter = '\0'};

/* Decide by the first line that is not blank. */
static spsh_status first_line_is_archive(const spsh__text_input *input, bool *ret_is,
                                         spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_bytes line = {0};
    spsh_status rc = spsh__row_reader_new(input, &lines, &reader, err);
    for (unsigned i = 0; i < PROBE_LINES && rc == SPSH_OK && line.size_bytes == 0; i++) {
        rc = spsh__row_reader_next(reader, &row, err);
        if (rc == SPSH_OK && row.problem == NULL)
            line = trim(row.raw);
    }
    *ret_is = line.size_bytes > 0 && line.data[0] != '{' && names_archive(line);
    spsh__row_reader_free(reader);
    return rc;
}

static spsh_status file_is_list(const spsh__view *view, const char *name, bool *ret_is_list,
                                spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    *ret_is_list = false;
    spsh_status rc = spsh__text_file_open(view, name, &file, err);
    if (rc == SPSH_OK) {
        spsh__text_input input = spsh__text_input_file(&file);
        input.window_bytes = PROBE_WINDOW;
        rc = first_line_is_archive(&input, ret_is_list, err);
    }
    spsh__text_file_close(&file);
    return rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK; /* an unreadable file is not a list */
}

/* Keep a path if the file is a list. */
static spsh_status add_list(const spsh__view *view, list_set *lists, const char *path,
                            spsh_error *err)
{
    bool is_list = false;
    spsh_status rc = file_is_list(view, path, &is_list, err);
    if (rc != SPSH_OK || !is_list || lists->list.count == LISTS_MAX)
        return rc;
    return spsh__path_list_add(&lists->list, "", path, err);
}

/* Handle a name in the root: a list, or a folder with a data.list. */
static spsh_status inspect(const spsh__view *view, const spsh__view_entry *entry, list_set *lists,
                           spsh_error *err)
{
    spsh__builder path = {0};
    if (spsh__is_ignored_name(entry->name))
        return SPSH_OK;
    if (entry->type == SPSH__VIEW_FILE || (entry->type == SPSH__VIEW_LINK && !entry->enters))
        return spsh__has_extension(spsh__bytes_of(entry->name), ".list")
                   ? add_list(view, lists, entry->name, err)
                   : SPSH_OK;
    if (!entry->enters || lists->folders++ >= FOLDERS_MAX)
        return SPSH_OK;
    spsh__builder_append_part(&path, entry->name);
    spsh__builder_append_part(&path, "data.list");
    const char *text = spsh__builder_text(&path);
    spsh_status rc = text == NULL                      ? SPSH_NO_MEMORY(err)
                     : spsh__view_has_file(view, text) ? add_list(view, lists, text, err)
                                                       : SPSH_OK;
    spsh__builder_free(&path);
    return rc;
}

/* Find the lists: the named file, or the lists in the root and its subfolders. */
static spsh_status find_lists(const spsh__view *view, list_set *lists, spsh_error *err)
{
    const char *given = spsh__view_file(view);
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    if (given != NULL)
        return add_list(view, lists, given, err);
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    if (folder == NULL)
        return errno == ENOMEM ? SPSH_NO_MEMORY(err) : SPSH_OK;
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry))
        rc = inspect(view, &entry, lists, err);
    spsh__view_folder_close(folder);
    spsh__path_list_sort(&lists->list, 0);
    return rc;
}

/* ---- shards ---- */

static bool is_shard_name(const char *archive)
{
    const char *base = spsh__base_name(archive);
    return strncmp(base, "shards_", 7) == 0 &&
           spsh__sample_number_digits(archive) == SHARD_DIGITS &&
           strspn(base + 7, "0123456789") == SHARD_DIGITS;
}

static spsh_status index_archives(shard_scan *s, spsh_error *err)
{
    for (size_t i = 0;; i++) {
        const char *archive = spsh__view_archive(s->view, i);
        if (archive == NULL)
            return SPSH_OK;
        spsh__name_slot *slot = spsh__name_index_add(&s->archives, spsh__bytes_of(archive), LISTED);
        if (slot == NULL)
            return SPSH_NO_MEMORY(err);
        slot->value = i;
    }
}

/* Return the slot of an archive at a path in a folder. */
static spsh__name_slot *find_below(shard_scan *s, const char *folder, size_t folder_bytes,
                                   spsh_bytes path)
{
    const spsh_bytes parent = {(const uint8_t *)folder, folder_bytes};
    return spsh__name_index_find(&s->archives, SPSH__JOIN(s->scan, parent, path));
}

/* Find the archive with the longest suffix of the line as its path, relative to the list's folder
 * or to the root. NULL if none matches. */
static spsh__name_slot *find_archive(shard_scan *s, spsh_bytes line)
{
    const char *slash = strrchr(s->list, '/');
    const size_t folder_bytes = slash == NULL ? 0 : (size_t)(slash + 1 - s->list);
    for (;;) {
        while (line.size_bytes >= 2 && memcmp(line.data, "./", 2) == 0)
            line = (spsh_bytes){line.data + 2, line.size_bytes - 2};
        spsh__name_slot *slot = find_below(s, s->list, folder_bytes, line);
        if (slot == NULL && folder_bytes > 0)
            slot = find_below(s, "", 0, line);
        const uint8_t *next = memchr(line.data, '/', line.size_bytes);
        if (slot != NULL || next == NULL)
            return slot;
        line.size_bytes -= (size_t)(next + 1 - line.data);
        line.data = next + 1;
    }
}

static spsh_status push_shard(shard_scan *s, const char *archive, spsh_error *err)
{
    if (!SPSH_GROW(s->shards, s->shard_capacity, s->shard_count + 1))
        return SPSH_NO_MEMORY(err);
    s->shards[s->shard_count++] = (shard){
        archive, s->list == NULL ? (spsh_bytes){0} : spsh__split_of_name(spsh__base_name(s->list))};
    return SPSH_OK;
}

static spsh_status take_line(void *user, const spsh__row *row, const spsh__row_place *place,
                             spsh_error *err)
{
    shard_scan *s = user;
    const spsh_bytes line = trim(row->raw);
    spsh_reject reject = {.reason = SPSH_REJECT_MISSING_AUDIO,
                          .source = line,
                          .detail = "no archive below the corpus has this path",
                          .rows = 1};
    if (line.size_bytes == 0)
        return SPSH_OK;
    spsh__name_slot *slot = find_archive(s, line);
    if (slot != NULL && (slot->state & TAKEN) == 0) {
        slot->state |= TAKEN;
        return push_shard(s, spsh__view_archive(s->view, (size_t)slot->value), err);
    }
    if (slot != NULL)
        reject = (spsh_reject){.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                               .detail = "the shard is listed twice"};
    else if (memmem(line.data, line.size_bytes, "://", 3) != NULL) {
        reject.reason = SPSH_REJECT_REMOTE_SOURCE;
        reject.detail = "only shards in files can be read; download them first";
    }
    return spsh__scan_reject(s->scan, &reject, place, err);
}

static const char *nth_shard(const void *user, size_t number, spsh_bytes *ret_split)
{
    const shard_scan *s = user;
    if (number >= s->shard_count)
        return NULL;
    *ret_split = s->shards[number].split;
    return s->shards[number].archive;
}

/* Collect the shards of the lists, or all archives. */
static spsh_status take_shards(shard_scan *s, spsh_error *err)
{
    const spsh__row_visitor visitor = {
        .dialect = lines, .row_fn = take_line, .user = s, .is_required = true};
    spsh_status rc = index_archives(s, err);
    for (size_t i = 0; i < s->lists.list.count && rc == SPSH_OK; i++) {
        s->list = s->lists.list.paths[i];
        rc = spsh__scan_file_rows(s->scan, s->list, &visitor, err);
    }
    if (s->lists.list.count > 0)
        return rc;
    for (size_t i = 0; rc == SPSH_OK && spsh__view_file(s->view) == NULL; i++) {
        const char *archive = spsh__view_archive(s->view, i);
        if (archive == NULL)
            break;
        rc = push_shard(s, archive, err);
    }
    if (rc == SPSH_OK && s->shard_count == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: holds neither a list of shards nor shards",
                       spsh__view_root(s->view));
    return rc;
}

static spsh_status wenet_shards_scan(spsh__scan *scan, spsh_error *err)
{
    shard_scan s = {.scan = scan, .view = scan->options->view};
    spsh__sample_set set = {.archive_fn = nth_shard, .user = &s};
    spsh_status rc = find_lists(s.view, &s.lists, err);
    if (rc == SPSH_OK)
        rc = take_shards(&s, err);
    if (rc == SPSH_OK && !spsh__split_of_root(s.view, &set.split))
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__sample_scan(scan, &set, err);
    spsh__path_list_free(&s.lists.list);
    spsh__name_index_free(&s.archives);
    free(s.shards);
    return rc;
}

static spsh_status wenet_shards_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                      spsh_error *err)
{
    list_set lists = {0};
    spsh_status rc = find_lists(view, &lists, err);
    const char *archive =
        rc == SPSH_OK && lists.list.count == 0 ? spsh__view_archive(view, 0) : NULL;
    if (rc == SPSH_OK && lists.list.count > 0) {
        ret_probe->matches = true;
        spsh__probe_evidence(ret_probe, "%.80s is a list of archives", lists.list.paths[0]);
    } else if (archive != NULL && is_shard_name(archive)) {
        ret_probe->matches = true;
        spsh__probe_evidence(ret_probe, "%.80s is named like wenet's shards", archive);
    }
    spsh__path_list_free(&lists.list);
    return rc;
}

const spsh_layout spsh__layout_wenet_shards = {
    .name = "wenet-shards",
    .summary = "wenet's shards: tars of KEY.txt and KEY.wav, and lists of them",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .probe_fn = wenet_shards_probe,
    .scan_fn = wenet_shards_scan,
};

/* layout_libri_light.c: Libri-Light, whole chapters of LibriVox without transcripts.
 *
 *     [[librilight/]<subset>/]<speaker>/<book folder>/<chapter>.flac
 *     [[librilight/]<subset>/]<speaker>/<book folder>/<chapter>.json    speaker, book_meta, snr ...
 *
 * The subsets are small, medium, large, and duplicate. The name of the folder above the speaker's
 * folder determines the subset, even if that folder is the root or above the root. So an id does
 * not depend on the root that the user chose.
 */
#include <limits.h>
#include <stdio.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/scan/trees.h"
#include "ingest/view/text_file.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define JSON_BYTES_MAX  ((size_t)16 << 20)
#define PROBE_NAMES_MAX 4096U
#define PROBE_JSON_MAX  4U
#define PROBE_BYTES     ((size_t)16384)

typedef struct light_scan {
    spsh__scan *scan;
    const char *real_root; /* NULL: unknown */
    spsh__builder json;    /* contents of a file */
} light_scan;

/** Location of a chapter. */
typedef struct chapter_place {
    spsh_bytes subset, speaker, book;
} chapter_place;

static bool is_subset(spsh_bytes name)
{
    static const char *const names[] = {"small", "medium", "large", "duplicate"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (spsh__bytes_equal(name, spsh__bytes_of(names[i])))
            return true;
    }
    return false;
}

static spsh_bytes take_last(spsh_bytes *path)
{
    const spsh_bytes last = spsh__bytes_base_name(*path);
    const size_t before = path->size_bytes - last.size_bytes;
    path->size_bytes = before > 0 ? before - 1 : 0;
    return last;
}

/* Split a folder path into its parts. Returns false if it is not the folder of a book. */
static bool find_place(light_scan *l, const char *folder, chapter_place *ret_place)
{
    const spsh_bytes root = spsh__bytes_of(l->real_root == NULL ? "" : l->real_root);
    spsh_bytes path = SPSH__JOIN(l->scan, root, spsh__bytes_of(folder[0] == '\0' ? "" : "/"),
                                 spsh__bytes_of(folder));
    ret_place->book = take_last(&path);
    ret_place->speaker = take_last(&path);
    ret_place->subset = take_last(&path);
    if (!is_subset(ret_place->subset))
        ret_place->subset = (spsh_bytes){0};
    return spsh__is_digits(ret_place->speaker);
}

static void text_member(spsh__builder *extras, const char *key, spsh_bytes text)
{
    if (text.size_bytes > 0)
        spsh__json_member(extras, 0, spsh__bytes_of(key), text);
}

/* Return the chapter's JSON as extras. A broken JSON only means that these extras are missing. */
static spsh_status read_json(light_scan *l, const spsh__folder *folder, spsh_bytes stem,
                             spsh_bytes *ret_extras, spsh_error *err)
{
    static const char *const names[] = {"book_meta.id", "book_meta.title", "snr"};
    static const char *const keys[] = {"book_id", "book_title", "snr"};
    spsh__json_value values[3];
    spsh_bytes texts[3];
    size_t offset = 0;
    const spsh_bytes name = spsh__strings_path(l->scan, spsh__bytes_of(folder->path),
                                               SPSH__JOIN(l->scan, stem, spsh__bytes_of(".json")));
    spsh__whole_file state = SPSH__WHOLE_READ;
    const spsh_status rc = spsh__text_file_whole(folder->view, spsh__text_of(name), JSON_BYTES_MAX,
                                                 &l->json, &state, err);
    *ret_extras = (spsh_bytes){0};
    if (rc != SPSH_OK || state != SPSH__WHOLE_READ ||
        spsh__json_pick(spsh__builder_bytes(&l->json), names, 3, values, NULL, &offset) != NULL)
        return rc;
    for (size_t i = 0; i < 3; i++)
        texts[i] = values[i].kind == SPSH__JSON_NUMBER
                       ? values[i].raw
                       : spsh__strings_json_text(l->scan, &values[i]);
    spsh__builder *extras = spsh__strings_open(l->scan);
    for (size_t i = 0; i < 3; i++)
        text_member(extras, keys[i], texts[i]);
    spsh__json_close(extras, 0);
    *ret_extras = spsh__strings_close(l->scan);
    return SPSH_OK;
}

static spsh_status emit_chapter(light_scan *l, const spsh__folder *folder,
                                const chapter_place *where, spsh_bytes name, spsh_bytes source,
                                spsh_error *err)
{
    const spsh_bytes corpus = spsh__bytes_of("libri-light");
    spsh__view_info info;
    spsh_bytes extras = {0};
    const spsh_bytes stem = {name.data, spsh__audio_stem(name)};
    const spsh_bytes path = spsh__strings_path(l->scan, spsh__bytes_of(folder->path), name);
    if (spsh__view_stat(folder->view, spsh__text_of(path), &info) != 0 ||
        info.type != SPSH__VIEW_FILE) {
        const spsh_reject reject = {.reason = SPSH_REJECT_UNREADABLE, .source = source, .rows = 1};
        return spsh__scan_reject(l->scan, &reject, NULL, err);
    }
    spsh_status rc = read_json(l, folder, stem, &extras, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes reader = spsh__strings_path(l->scan, where->subset, where->speaker);
    const spsh_bytes book = spsh__strings_path(l->scan, reader, where->book);
    const spsh_bytes id = spsh__strings_name(l->scan, spsh__strings_path(l->scan, book, stem));
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = source,
        .recording_id = id,
        .id = id,
        .domain = spsh__strings_path(l->scan, corpus, where->subset),
        .speaker = spsh__strings_path(l->scan, corpus, where->speaker),
        .language = spsh__bytes_of("en"),
        .document = where->book,
        .extras = extras,
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = info.size_bytes,
    };
    return spsh__scan_emit(l->scan, &item, NULL, err);
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    light_scan *l = user;
    const spsh__strings_mark mark = spsh__strings_here(l->scan);
    chapter_place where = {0};
    const bool is_book = find_place(l, folder->path, &where);
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        const spsh__strings_mark file = spsh__strings_here(l->scan);
        const spsh_bytes name = spsh__bytes_of(folder->entries[i].name);
        if (!spsh__is_audio_name(name))
            continue;
        const spsh_reject reject = {
            .reason = SPSH_REJECT_ORPHAN_AUDIO,
            .source = spsh__strings_name(
                l->scan, spsh__strings_path(l->scan, spsh__bytes_of(folder->path), name)),
            .detail = "is not in a folder <speaker>/<book>"};
        rc = is_book ? emit_chapter(l, folder, &where, name, reject.source, err)
                     : spsh__scan_reject(l->scan, &reject, NULL, err);
        spsh__strings_release(l->scan, file);
    }
    spsh__strings_release(l->scan, mark);
    return rc == SPSH_OK ? spsh__scan_progress(l->scan, folder->entry_count, err) : rc;
}

static spsh_status librilight_scan(spsh__scan *scan, spsh_error *err)
{
    light_scan l = {.scan = scan, .real_root = spsh__view_real_root(scan->options->view)};
    const spsh__walk_visitor visitor = {scan_folder, &l, spsh__scan_walk_note, scan};
    spsh_status rc = spsh__walk(scan->options->view, &visitor, err);
    spsh__builder_free(&l.json);
    return rc;
}

/* Whether a JSON file has the name of a chapter next to it and describes a book. */
static bool is_chapter_json(const spsh__view *folder, const char *name)
{
    char chapter[NAME_MAX + 1];
    char head[PROBE_BYTES];
    size_t size_bytes = 0;
    const size_t length = strlen(name);
    if (length > NAME_MAX)
        return false;
    (void)snprintf(chapter, sizeof(chapter), "%.*s.flac", (int)(length - 5), name);
    return spsh__view_has_file(folder, chapter) &&
           spsh__text_file_head(folder, name, head, sizeof(head), &size_bytes, NULL) == SPSH_OK &&
           size_bytes > 0 && head[0] == '{' &&
           memmem(head, size_bytes, "\"book_meta\"", strlen("\"book_meta\"")) != NULL;
}

static spsh_status check_folder(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    spsh__view_entry entry;
    spsh__view_folder *listing = spsh__view_folder_open(folder, "");
    unsigned tried = 0;
    (void)err;
    if (listing == NULL)
        return SPSH_OK;
    for (unsigned i = 0; i < PROBE_NAMES_MAX && tried < PROBE_JSON_MAX && !*ret_is_tree; i++) {
        if (!spsh__view_folder_next(listing, &entry))
            break;
        if (!spsh__ends_with(spsh__bytes_of(entry.name), ".json"))
            continue;
        tried++;
        *ret_is_tree = is_chapter_json(folder, entry.name);
    }
    spsh__view_folder_close(listing);
    return SPSH_OK;
}

static const spsh__tree_layout trees = {.what = "has chapters as flac and json with a book_meta",
                                        .check_fn = check_folder};

const spsh_layout spsh__layout_librilight = {
    .name = "libri-light",
    .summary = "Libri-Light: speaker/book folders of chapters, flac and json, no texts",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
    .without_splits = "Libri-Light",
    .without_columns = "Libri-Light",
    .scan_fn = librilight_scan,
};

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
#include "common/jsonl.h"
#include "ingest/scan/scan.h"
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
    spsh__builder place, json, speaker, domain, id, source, path, extras, strings;
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
    spsh__builder_clear(&l->place);
    if (l->real_root != NULL)
        spsh__builder_append_text(&l->place, l->real_root);
    if (folder[0] != '\0')
        spsh__builder_append(&l->place, "/", 1);
    spsh__builder_append_text(&l->place, folder);
    spsh_bytes path = spsh__builder_bytes(&l->place);
    ret_place->book = take_last(&path);
    ret_place->speaker = take_last(&path);
    ret_place->subset = take_last(&path);
    if (!is_subset(ret_place->subset))
        ret_place->subset = (spsh_bytes){0};
    return spsh__is_digits(ret_place->speaker);
}

static void text_member(light_scan *l, const char *key, const spsh__json_value *value)
{
    spsh__builder_clear(&l->strings);
    spsh_bytes text = spsh__json_text(value, &l->strings);
    l->extras.failed |= l->strings.failed;
    if (value->kind == SPSH__JSON_NUMBER)
        text = value->raw;
    if (text.size_bytes > 0)
        spsh__json_member(&l->extras, 0, spsh__bytes_of(key), text);
}

/* Read the chapter's JSON into the extras. A broken JSON only means that these extras are missing.
 */
static spsh_status read_json(light_scan *l, const spsh__folder *folder, spsh_bytes stem,
                             spsh_error *err)
{
    static const char *const names[] = {"book_meta.id", "book_meta.title", "snr"};
    spsh__json_value values[3];
    spsh__text_file file = {.fd = -1};
    size_t size_bytes = 0;
    size_t offset = 0;
    spsh__builder_clear(&l->extras);
    spsh__builder_clear(&l->json);
    spsh__builder_append_part(&l->json, folder->path);
    if (l->json.size_bytes > 0)
        spsh__builder_append(&l->json, "/", 1);
    spsh__builder_append_bytes(&l->json, stem);
    spsh__builder_append_text(&l->json, ".json");
    const char *name = spsh__builder_text(&l->json);
    if (name == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__text_file_open(folder->view, name, &file, NULL);
    if (rc != SPSH_OK)
        return rc == SPSH_E_NO_MEMORY ? SPSH_NO_MEMORY(err) : SPSH_OK;
    spsh__builder_clear(&l->json);
    if (file.size_bytes <= JSON_BYTES_MAX) {
        const spsh__text_input input = spsh__text_input_file(&file);
        uint8_t *data = spsh__builder_reserve(&l->json, (size_t)file.size_bytes + 1);
        rc = data == NULL
                 ? SPSH_NO_MEMORY(err)
                 : input.read_at_fn(input.user, 0, data, (size_t)file.size_bytes, &size_bytes, err);
    }
    spsh__text_file_close(&file);
    if (rc != SPSH_OK || size_bytes == 0)
        return rc;
    const spsh_bytes text = {l->json.data, size_bytes};
    if (spsh__json_pick(text, names, 3, values, NULL, &offset) != NULL)
        return SPSH_OK;
    text_member(l, "book_id", &values[0]);
    text_member(l, "book_title", &values[1]);
    text_member(l, "snr", &values[2]);
    spsh__json_close(&l->extras, 0);
    return SPSH_OK;
}

static void append_part(spsh__builder *out, spsh_bytes part)
{
    if (part.size_bytes == 0)
        return;
    spsh__name_append(out, part);
    spsh__builder_append(out, "/", 1);
}

static spsh_status emit_chapter(light_scan *l, const spsh__folder *folder,
                                const chapter_place *where, spsh_bytes name, spsh_error *err)
{
    spsh__view_info info;
    const spsh_bytes stem = {name.data, spsh__audio_stem(name)};
    spsh__builder_clear(&l->source);
    append_part(&l->source, spsh__bytes_of(folder->path));
    spsh__name_append(&l->source, name);
    spsh__builder_clear(&l->path);
    spsh__builder_append_part(&l->path, folder->path);
    spsh__builder_append_part(&l->path, (const char *)name.data);
    const char *path = spsh__builder_text(&l->path);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    if (spsh__view_stat(folder->view, path, &info) != 0 || info.type != SPSH__VIEW_FILE) {
        const spsh_reject reject = {
            .reason = SPSH_REJECT_UNREADABLE, .source = spsh__builder_bytes(&l->source), .rows = 1};
        return spsh__scan_reject(l->scan, &reject, NULL, err);
    }
    spsh_status rc = read_json(l, folder, stem, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_clear(&l->id);
    append_part(&l->id, where->subset);
    append_part(&l->id, where->speaker);
    append_part(&l->id, where->book);
    spsh__name_append(&l->id, stem);
    spsh__builder_clear(&l->domain);
    spsh__builder_append_text(&l->domain,
                              where->subset.size_bytes > 0 ? "libri-light/" : "libri-light");
    spsh__builder_append_bytes(&l->domain, where->subset);
    spsh__builder_clear(&l->speaker);
    spsh__builder_append_text(&l->speaker, "libri-light/");
    spsh__builder_append_bytes(&l->speaker, where->speaker);
    spsh_ingest_item item = {
        .audio_path = path,
        .source = spsh__builder_bytes(&l->source),
        .recording_id = spsh__builder_bytes(&l->id),
        .id = spsh__builder_bytes(&l->id),
        .domain = spsh__builder_bytes(&l->domain),
        .speaker = spsh__builder_bytes(&l->speaker),
        .language = spsh__bytes_of("en"),
        .document = where->book,
        .extras = spsh__builder_bytes(&l->extras),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = info.size_bytes,
    };
    if (l->place.failed || l->source.failed || l->id.failed || l->domain.failed ||
        l->speaker.failed || l->extras.failed || l->strings.failed)
        return SPSH_NO_MEMORY(err);
    return spsh__scan_emit(l->scan, &item, NULL, err);
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    light_scan *l = user;
    chapter_place where = {0};
    const bool is_book = find_place(l, folder->path, &where);
    spsh_status rc = l->place.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        const spsh_bytes name = spsh__bytes_of(folder->entries[i].name);
        if (!spsh__is_audio_name(name))
            continue;
        if (is_book) {
            rc = emit_chapter(l, folder, &where, name, err);
        } else {
            spsh__builder_clear(&l->source);
            append_part(&l->source, spsh__bytes_of(folder->path));
            spsh__name_append(&l->source, name);
            const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                        .source = spsh__builder_bytes(&l->source),
                                        .detail = "not in <speaker>/<book>"};
            rc = l->source.failed ? SPSH_NO_MEMORY(err)
                                  : spsh__scan_reject(l->scan, &reject, NULL, err);
        }
    }
    return rc == SPSH_OK ? spsh__scan_progress(l->scan, folder->entry_count, err) : rc;
}

static spsh_status librilight_scan(spsh__scan *scan, spsh_error *err)
{
    light_scan l = {.scan = scan, .real_root = spsh__view_real_root(scan->options->view)};
    const spsh__walk_visitor visitor = {scan_folder, &l, spsh__scan_walk_note, scan};
    spsh_status rc = spsh__walk(scan->options->view, &visitor, err);
    SPSH__BUILDERS_FREE(&l.place, &l.json, &l.speaker, &l.domain, &l.id, &l.source, &l.path,
                        &l.extras, &l.strings);
    return rc;
}

/* Whether a JSON file has the name of a chapter next to it and describes a book. */
static bool is_chapter_json(const spsh__view *folder, const char *name)
{
    char chapter[NAME_MAX + 1];
    char head[PROBE_BYTES];
    size_t size_bytes = 0;
    spsh__text_file file = {.fd = -1};
    const size_t length = strlen(name);
    if (length > NAME_MAX)
        return false;
    (void)snprintf(chapter, sizeof(chapter), "%.*s.flac", (int)(length - 5), name);
    if (!spsh__view_has_file(folder, chapter) ||
        spsh__text_file_open(folder, name, &file, NULL) != SPSH_OK)
        return false;
    const spsh__text_input input = spsh__text_input_file(&file);
    const spsh_status rc = input.read_at_fn(input.user, 0, head, sizeof(head), &size_bytes, NULL);
    spsh__text_file_close(&file);
    return rc == SPSH_OK && size_bytes > 0 && head[0] == '{' &&
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

static spsh_status librilight_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                    spsh_error *err)
{
    return spsh__trees_probe(view, check_folder, "has chapters as flac and json with a book_meta",
                             ret_probe, err);
}

const spsh_layout spsh__layout_librilight = {
    .name = "libri-light",
    .summary = "Libri-Light: speaker/book folders of chapters, flac and json, no texts",
    .tier = SPSH_LAYOUT_CORPUS,
    .probe_fn = librilight_probe,
    .without_splits = "Libri-Light",
    .without_columns = "Libri-Light",
    .scan_fn = librilight_scan,
};

/* layout_folder.c: audio files in folders, each with or without a text file next to it.
 *
 * Within one folder, every audio file and every possible sidecar is an entry (stem, kind). The
 * entries are sorted by stem, then kind. So the audio files of a stem come first, immediately
 * followed by the best sidecar, and one pass pairs a folder of any size. "a.normalized.txt" is
 * entered twice, as a text of "a" and of "a.normalized": the audio files decide which one it is. A
 * .json is the last entry of its stem. It provides the other metadata, and the text if no text file
 * exists.
 *
 * An id is the path without extension. It keeps the extension if another file in the folder has the
 * same stem (a.wav, a.flac), or if the stem is itself the name of a file (a.wav, a.wav.flac). So
 * ids are unique within the folder and hence below the root.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "ingest/metadata/json_sidecar.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/walk.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define JSON_KIND (1U + SPSH__SIDECAR_RANKS)

typedef struct stem_entry {
    uint32_t entry; /* index in the folder's entries */
    uint16_t stem_bytes;
    uint8_t kind;    /* 0: audio; 1 + rank: sidecar; JSON_KIND */
    uint8_t matched; /* an audio file has the sidecar's stem */
} stem_entry;

typedef struct folder_scan {
    spsh__scan *scan;
    stem_entry *stems;
    size_t stem_count, stem_capacity;
    uint64_t sidecar_count;  /* count of audio files with a text in this folder */
    spsh__json_sidecar json; /* metadata of the current audio file */
} folder_scan;

/** The sidecars of an audio file. NULL: no such sidecar. */
typedef struct companions {
    const stem_entry *text, *json;
    bool keep_extension; /* keep the extension in the id */
} companions;

static spsh_bytes stem_of(const spsh__folder *folder, const stem_entry *entry)
{
    return (spsh_bytes){(const uint8_t *)folder->entries[entry->entry].name, entry->stem_bytes};
}

static int compare_stems(const void *a, const void *b, void *user)
{
    const stem_entry *x = a;
    const stem_entry *y = b;
    const spsh__folder *folder = user;
    int order = spsh__bytes_compare(stem_of(folder, x), stem_of(folder, y));
    if (order != 0)
        return order;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return strcmp(folder->entries[x->entry].name, folder->entries[y->entry].name);
}

static spsh_status add_stem(folder_scan *f, size_t entry, size_t stem_bytes, unsigned kind,
                            spsh_error *err)
{
    if (!SPSH_GROW(f->stems, f->stem_capacity, f->stem_count + 1))
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for %zu names", f->stem_count + 1);
    f->stems[f->stem_count++] =
        (stem_entry){(uint32_t)entry, (uint16_t)stem_bytes, (uint8_t)kind, 0};
    return SPSH_OK;
}

/* Append folder and name to path. */
static spsh_bytes path_of(folder_scan *f, const spsh__folder *folder, spsh_bytes name)
{
    return spsh__strings_path(f->scan, spsh__bytes_of(folder->path), name);
}

static spsh_status reject_entry(folder_scan *f, const spsh__folder *folder, const char *name,
                                spsh_reject reject, spsh_error *err)
{
    reject.source = path_of(f, folder, spsh__bytes_of(name));
    return spsh__scan_reject(f->scan, &reject, NULL, err);
}

/* Reject an entry that is not a regular file. rows: utterances lost by it. */
static spsh_status reject_irregular(folder_scan *f, const spsh__folder *folder,
                                    const spsh__folder_entry *entry, uint64_t rows, spsh_error *err)
{
    const bool broken = entry->type == SPSH__ENTRY_BROKEN;
    spsh_reject reject = {
        .reason = broken ? SPSH_REJECT_UNREADABLE : SPSH_REJECT_NOT_REGULAR,
        .detail = broken ? "the link leads to no readable file" : "a FIFO, socket or device",
        .rows = rows,
    };
    spsh__view_info info = {0};
    const char *path = spsh__text_of(path_of(f, folder, spsh__bytes_of(entry->name)));
    if (!broken && spsh__view_stat(folder->view, path, &info) == 0 &&
        info.inode == 0) /* inode 0: the entry is in an archive */
        reject.detail = "symbolic links in archives are not followed";
    return reject_entry(f, folder, entry->name, reject, err);
}

static spsh_status classify(folder_scan *f, const spsh__folder *folder, size_t index,
                            spsh_error *err)
{
    const spsh__folder_entry *entry = &folder->entries[index];
    const spsh_bytes name = {(const uint8_t *)entry->name, entry->name_bytes};
    const spsh_bytes json_suffix = spsh__bytes_of(".json");
    spsh_status rc = SPSH_OK;
    if (spsh__is_audio_name(name)) {
        if (entry->type != SPSH__ENTRY_FILE)
            return reject_irregular(f, folder, entry, 1, err);
        return add_stem(f, index, spsh__audio_stem(name), 0, err);
    }
    for (unsigned rank = 0; rank < SPSH__SIDECAR_RANKS && rc == SPSH_OK; rank++) {
        size_t stem_bytes = spsh__sidecar_stem(name, rank);
        if (stem_bytes == 0)
            continue;
        if (entry->type != SPSH__ENTRY_FILE)
            return reject_irregular(f, folder, entry, 0, err);
        rc = add_stem(f, index, stem_bytes, 1 + rank, err);
    }
    const size_t json_stem =
        json_suffix.size_bytes < name.size_bytes ? name.size_bytes - json_suffix.size_bytes : 0;
    const spsh_bytes ending = {name.data + json_stem, name.size_bytes - json_stem};
    if (rc == SPSH_OK && entry->type == SPSH__ENTRY_FILE && json_stem > 0 &&
        spsh__bytes_equal_nocase(ending, json_suffix))
        rc = add_stem(f, index, json_stem, JSON_KIND, err);
    return rc;
}

/* Whether a file of the folder has the stem as its name, for example a.wav for a.wav.flac. */
static bool stem_is_taken(folder_scan *f, const spsh__folder *folder, spsh_bytes stem)
{
    spsh__view_info info;
    return spsh__is_audio_name(stem) &&
           spsh__view_stat(folder->view, spsh__text_of(path_of(f, folder, stem)), &info) == 0;
}

/* Read the .json of an audio file. If it is unreadable, only its metadata are lost. */
static spsh_status read_json(folder_scan *f, const spsh__folder *folder, const companions *beside,
                             spsh_error *err)
{
    const char *problem = NULL;
    const char *name = folder->entries[beside->json->entry].name;
    spsh_status rc = spsh__json_sidecar_read(
        &f->json, folder->view, spsh__text_of(path_of(f, folder, spsh__bytes_of(name))),
        beside->text != NULL, &problem, err);
    if (rc != SPSH_OK || problem == NULL)
        return rc;
    const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = problem};
    return reject_entry(f, folder, name, reject, err);
}

static void add_json(const spsh__json_sidecar *json, spsh_ingest_item *item)
{
    item->speaker = json->speaker;
    item->language = json->language;
    item->domain = json->domain.size_bytes > 0 ? json->domain : json->language;
    item->extras = json->extras;
    if (item->text_path == NULL) {
        item->has_text = json->has_text;
        item->text = json->text;
    }
}

static spsh_status emit_audio(folder_scan *f, const spsh__folder *folder, const stem_entry *audio,
                              const companions *beside, spsh_error *err)
{
    const spsh__folder_entry *entry = &folder->entries[audio->entry];
    const spsh_bytes name = {(const uint8_t *)entry->name, entry->name_bytes};
    const spsh_bytes stem = beside->keep_extension ? name : stem_of(folder, audio);
    spsh__view_info info;
    const spsh_bytes path = path_of(f, folder, name);
    const int os_errno = spsh__view_stat(folder->view, spsh__text_of(path), &info);
    if (os_errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    if (os_errno != 0) {
        const spsh_reject reject = {
            .reason = SPSH_REJECT_UNREADABLE, .detail = strerror(os_errno), .rows = 1};
        return reject_entry(f, folder, entry->name, reject, err);
    }
    spsh_status rc = beside->json == NULL ? SPSH_OK : read_json(f, folder, beside, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes id = spsh__strings_name(f->scan, path_of(f, folder, stem));
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = spsh__strings_name(f->scan, path),
        .recording_id = id,
        .id = id,
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = info.size_bytes,
    };
    if (beside->text != NULL)
        item.text_path = spsh__text_of(
            path_of(f, folder, spsh__bytes_of(folder->entries[beside->text->entry].name)));
    if (beside->json != NULL)
        add_json(&f->json, &item);
    return spsh__scan_emit(f->scan, &item, NULL, err);
}

/* Emit the audio of one stem: the entries from begin to before end. */
static spsh_status emit_stem(folder_scan *f, const spsh__folder *folder, size_t begin, size_t end,
                             spsh_error *err)
{
    size_t audio_end = begin;
    while (audio_end < end && f->stems[audio_end].kind == 0)
        audio_end++;
    if (audio_end == begin)
        return SPSH_OK;
    for (size_t i = audio_end; i < end; i++)
        f->stems[i].matched = 1;
    companions beside = {.keep_extension =
                             audio_end - begin > 1 ||
                             stem_is_taken(f, folder, stem_of(folder, &f->stems[begin]))};
    if (audio_end < end && f->stems[end - 1].kind == JSON_KIND)
        beside.json = &f->stems[end - 1];
    if (audio_end < end && f->stems[audio_end].kind != JSON_KIND) {
        beside.text = &f->stems[audio_end];
        f->sidecar_count++;
    }
    spsh_status rc = SPSH_OK;
    for (size_t i = begin; i < audio_end && rc == SPSH_OK; i++)
        rc = emit_audio(f, folder, &f->stems[i], &beside, err);
    return rc;
}

static int compare_by_entry(const void *a, const void *b)
{
    const stem_entry *x = a;
    const stem_entry *y = b;
    if (x->entry != y->entry)
        return x->entry < y->entry ? -1 : 1;
    return (int)y->matched - (int)x->matched;
}

/* Report texts that belong to no audio file. A README.txt in a folder without sidecars is not
 * reported. */
static spsh_status reject_orphans(folder_scan *f, const spsh__folder *folder, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    /* A text with two possible stems is an orphan only if neither matched. Sort so that a matched
     * entry comes first. */
    qsort(f->stems, f->stem_count, sizeof(*f->stems), compare_by_entry);
    for (size_t i = 0; i < f->stem_count && rc == SPSH_OK; i++) {
        const stem_entry *entry = &f->stems[i];
        const bool again = i > 0 && f->stems[i - 1].entry == entry->entry;
        const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_TEXT,
                                    .detail = "no audio file has this name"};
        if (entry->kind != 0 && entry->kind != JSON_KIND && !entry->matched && !again)
            rc = reject_entry(f, folder, folder->entries[entry->entry].name, reject, err);
    }
    return rc;
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    folder_scan *f = user;
    spsh_status rc = SPSH_OK;
    f->stem_count = 0;
    f->sidecar_count = 0;
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++)
        rc = classify(f, folder, i, err);
    if (rc != SPSH_OK || f->stem_count == 0)
        return rc == SPSH_OK ? spsh__scan_progress(f->scan, folder->entry_count, err) : rc;
    union {
        const spsh__folder *in;
        void *out;
    } context = {.in = folder}; /* compare_stems treats it as const */
    qsort_r(f->stems, f->stem_count, sizeof(*f->stems), compare_stems, context.out);
    for (size_t i = 0; i < f->stem_count && rc == SPSH_OK;) {
        size_t end = i + 1;
        while (end < f->stem_count &&
               spsh__bytes_equal(stem_of(folder, &f->stems[i]), stem_of(folder, &f->stems[end])))
            end++;
        const spsh__strings_mark mark = spsh__strings_here(f->scan);
        rc = emit_stem(f, folder, i, end, err);
        spsh__strings_release(f->scan, mark);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(f->scan, end - i, err);
        i = end;
    }
    if (rc == SPSH_OK && f->sidecar_count > 0)
        rc = reject_orphans(f, folder, err);
    return rc;
}

static spsh_status folder_layout_scan(spsh__scan *scan, spsh_error *err)
{
    folder_scan f = {.scan = scan};
    const spsh__walk_visitor visitor = {scan_folder, &f, spsh__scan_walk_note, scan};
    spsh_status rc = spsh__walk(scan->options->view, &visitor, err);
    free(f.stems);
    spsh__json_sidecar_free(&f.json);
    return rc;
}

/* Stop at the first folder that has audio. The evidence names its first file. */
static spsh_status probe_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    spsh_layout_probe *probe = user;
    const char *first = NULL;
    (void)err;
    for (size_t i = 0; i < folder->entry_count; i++) {
        const char *name = folder->entries[i].name;
        if (spsh__is_audio_name(spsh__bytes_of(name)) && (first == NULL || strcmp(name, first) < 0))
            first = name;
    }
    if (first == NULL)
        return SPSH_OK;
    probe->matches = true;
    spsh__probe_evidence(probe, "it holds audio files such as %.80s%s%.80s", folder->path,
                         folder->path[0] == '\0' ? "" : "/", first);
    return SPSH_E_END;
}

static spsh_status folder_layout_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                       spsh_error *err)
{
    const spsh__walk_visitor visitor = {.folder_fn = probe_folder, .user = ret_probe};
    if (spsh__view_file(view) != NULL)
        return SPSH_OK;
    spsh_status rc = spsh__walk(view, &visitor, err);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

const spsh_layout spsh__layout_folder = {
    .name = "folder",
    .summary = "audio files, each with a text file of the same name or without",
    .tier = SPSH_LAYOUT_FOLDER,
    .probe_fn = folder_layout_probe,
    .without_splits = "a folder of audio",
    .without_columns = "a folder of audio",
    .scan_fn = folder_layout_scan,
};

/* layout_gigaspeech.c: GigaSpeech, in its two forms.
 *
 *     GigaSpeech.json                              {"audios": [{"aid", "path", "segments":
 *     audio/<source>/P0001/POD0000000025.opus          [{"sid", "begin_time", ...}]}, ...]}
 *
 *     data/metadata/<subset>_metadata/<subset>_chunks_0000_metadata.csv  sid, speaker, text_tn, ...
 *     data/audio/<subset>_files/<subset>_chunks_0000/<sid>.wav           cut segments
 *
 * The JSON is one object of several GB, so it is read recording by recording. A segment belongs to
 * nested subsets ({XS} in {S} in {M} ...), which are attributes of the segment, not folders. In the
 * second form each subset has its own folders and repeats segments of smaller subsets. An index of
 * ids (name_index.h: 32 to 64 bytes each) keeps the first occurrence of each segment.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/metadata/gigaspeech_tables.h"
#include "ingest/metadata/json_elements.h"
#include "ingest/metadata/table_audio.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/path_list.h"
#include "ingest/view/text_file.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define PROBE_FILES 32U
#define HEAD_BYTES  ((size_t)64 << 10)

typedef enum audio_key {
    AUDIO_PATH,
    AUDIO_AID,
    AUDIO_SEGMENTS,
    AUDIO_SUBSETS,
    AUDIO_SPEAKER,
    AUDIO_CATEGORY,
    AUDIO_URL,
    AUDIO_TITLE,
    AUDIO_MD5,
    AUDIO_KEYS
} audio_key;

static const char *const audio_names[AUDIO_KEYS] = {
    "path", "aid", "segments", "subsets", "speaker", "category", "url", "title", "md5",
};

typedef enum segment_key {
    SEGMENT_SID,
    SEGMENT_SPEAKER,
    SEGMENT_BEGIN,
    SEGMENT_END,
    SEGMENT_TEXT,
    SEGMENT_SUBSETS,
    SEGMENT_KEYS
} segment_key;

static const char *const segment_names[SEGMENT_KEYS] = {
    "sid", "speaker", "begin_time", "end_time", "text_tn", "subsets",
};

static const unsigned audio_kinds[AUDIO_KEYS] = {
    [AUDIO_PATH] = SPSH__JSON_STRINGS,    [AUDIO_AID] = SPSH__JSON_STRINGS,
    [AUDIO_SEGMENTS] = SPSH__JSON_ARRAYS, [AUDIO_SUBSETS] = SPSH__JSON_ARRAYS,
    [AUDIO_SPEAKER] = SPSH__JSON_NAMES,
};

static const unsigned segment_kinds[SEGMENT_KEYS] = {
    [SEGMENT_SID] = SPSH__JSON_STRINGS,  [SEGMENT_SPEAKER] = SPSH__JSON_NAMES,
    [SEGMENT_BEGIN] = SPSH__JSON_TIMES,  [SEGMENT_END] = SPSH__JSON_TIMES,
    [SEGMENT_TEXT] = SPSH__JSON_STRINGS, [SEGMENT_SUBSETS] = SPSH__JSON_ARRAYS,
};

typedef struct giga_scan {
    spsh__scan *scan;
    spsh__audio_resolver *resolver;
} giga_scan;

/* ---- GigaSpeech.json ---- */

/* "M" of "{M}". */
static spsh_bytes bare_subset(spsh_bytes subset)
{
    if (subset.size_bytes > 2 && subset.data[0] == '{' && subset.data[subset.size_bytes - 1] == '}')
        return (spsh_bytes){subset.data + 1, subset.size_bytes - 2};
    return subset;
}

/* The split that the subsets imply. *ret_wanted: --split names it or one of the subsets. */
static spsh_bytes split_of(const giga_scan *g, const spsh__json_value *subsets, bool *ret_wanted)
{
    spsh_bytes rest = subsets->kind == SPSH__JSON_ARRAY ? subsets->raw : (spsh_bytes){0};
    spsh_bytes split = spsh__bytes_of("train");
    spsh__json_value subset;
    bool wanted = false;
    while (spsh__json_array_next(&rest, &subset)) {
        const spsh_bytes name = bare_subset(subset.raw);
        if (spsh__bytes_equal_nocase(name, spsh__bytes_of("dev")))
            split = spsh__bytes_of("dev");
        else if (spsh__bytes_equal_nocase(name, spsh__bytes_of("test")))
            split = spsh__bytes_of("test");
        wanted = spsh__scan_wants_split(g->scan, name) || wanted;
    }
    *ret_wanted = spsh__scan_wants_split(g->scan, split) || wanted;
    return split;
}

/* Value of --domain column:NAME in the segment, else in the recording. */
static spsh_bytes column_of(giga_scan *g, spsh_bytes segment, spsh_bytes recording)
{
    const spsh_bytes own = spsh__strings_json_column(g->scan, segment);
    return own.size_bytes > 0 ? own : spsh__strings_json_column(g->scan, recording);
}

/** The recording whose segments are emitted. */
typedef struct giga_audio {
    const spsh__json_value *values;
    const spsh__audio_file *file;
    spsh_bytes raw, source, document, domain;
    spsh__row_place place;
} giga_audio;

static spsh_status reject_segment(giga_scan *g, spsh_reject_reason reason, const char *detail,
                                  spsh_bytes id, const giga_audio *audio, spsh_error *err)
{
    const spsh_reject reject = {
        .reason = reason, .source = audio->source, .id = id, .detail = detail, .rows = 1};
    return spsh__scan_reject(g->scan, &reject, &audio->place, err);
}

static spsh_bytes segment_extras(giga_scan *g, const giga_audio *audio,
                                 const spsh__json_value *subsets, spsh_bytes text)
{
    spsh__builder *extras = spsh__strings_open(g->scan);
    for (size_t i = AUDIO_CATEGORY; i < AUDIO_KEYS; i++)
        spsh__json_value_member(extras, 0, audio_names[i], &audio->values[i]);
    spsh__json_value_member(extras, 0, "subsets", subsets);
    spsh__giga_mark_garbage(extras, text);
    spsh__json_close(extras, 0);
    return spsh__strings_close(g->scan);
}

static spsh_status take_segment(giga_scan *g, const giga_audio *audio, spsh_bytes raw,
                                spsh_error *err)
{
    spsh__json_value v[SEGMENT_KEYS];
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    size_t offset = 0;
    bool wanted = false;
    spsh_ingest_item item = {.audio_path = audio->file->path,
                             .source = audio->source,
                             .recording_id = audio->source,
                             .document = audio->document,
                             .language = spsh__bytes_of("en"),
                             .source_bytes = audio->file->size_bytes,
                             .nominal_rate_hz = 16000};
    if (spsh__json_pick(raw, segment_names, SEGMENT_KEYS, v, NULL, &offset) != NULL)
        return reject_segment(g, SPSH_REJECT_ROW_SYNTAX, "a segment is not a JSON object", item.id,
                              audio, err);
    const spsh__json_value *subsets = v[SEGMENT_SUBSETS].kind == SPSH__JSON_ARRAY
                                          ? &v[SEGMENT_SUBSETS]
                                          : &audio->values[AUDIO_SUBSETS];
    item.split = split_of(g, subsets, &wanted);
    if (!wanted) {
        g->scan->excluded_rows++;
        return SPSH_OK;
    }
    const char *problem =
        spsh__json_kind_problem(v, segment_names, segment_kinds, SEGMENT_KEYS, buffer);
    if (problem != NULL)
        return reject_segment(g, SPSH_REJECT_ROW_SYNTAX, problem, item.id, audio, err);
    item.id = spsh__strings_json_text(g->scan, &v[SEGMENT_SID]);
    item.text = spsh__strings_json_text(g->scan, &v[SEGMENT_TEXT]);
    item.has_text = item.text.size_bytes > 0;
    if (spsh__json_seconds(&v[SEGMENT_BEGIN], &item.start_ns) != SPSH__TIME_OK ||
        spsh__json_seconds(&v[SEGMENT_END], &item.end_ns) != SPSH__TIME_OK ||
        item.end_ns <= item.start_ns)
        return reject_segment(
            g, SPSH_REJECT_SEGMENT_RANGE,
            "times must be seconds of 0 or more, and the end must be after the start", item.id,
            audio, err);
    const spsh__json_value *speaker = v[SEGMENT_SPEAKER].kind > SPSH__JSON_NULL
                                          ? &v[SEGMENT_SPEAKER]
                                          : &audio->values[AUDIO_SPEAKER];
    item.speaker = spsh__giga_speaker(g->scan, spsh__strings_json_name(g->scan, speaker));
    item.extras = segment_extras(g, audio, subsets, item.text);
    item.domain =
        g->scan->domain_rule == SPSH__DOMAIN_COLUMN ? column_of(g, raw, audio->raw) : audio->domain;
    return spsh__scan_emit(g->scan, &item, &audio->place, err);
}

/* Reject a recording without its file: one reject with the count of its requested segments. */
static spsh_status reject_audio(giga_scan *g, const giga_audio *audio, spsh_reject reject,
                                spsh_error *err)
{
    spsh_bytes rest = audio->values[AUDIO_SEGMENTS].raw;
    spsh__json_value segment, subsets;
    size_t offset = 0;
    reject.source = audio->source;
    reject.id = audio->document;
    while (spsh__json_array_next(&rest, &segment)) {
        bool wanted = true;
        if (spsh__json_pick(segment.raw, &segment_names[SEGMENT_SUBSETS], 1, &subsets, NULL,
                            &offset) == NULL)
            (void)split_of(
                g, subsets.kind == SPSH__JSON_ARRAY ? &subsets : &audio->values[AUDIO_SUBSETS],
                &wanted);
        reject.rows += wanted;
        g->scan->excluded_rows += !wanted;
    }
    return reject.rows == 0 && g->scan->options->split_filter != NULL
               ? SPSH_OK
               : spsh__scan_reject(g->scan, &reject, &audio->place, err);
}

static spsh_status take_segments(giga_scan *g, giga_audio *audio, spsh_bytes written,
                                 spsh_error *err)
{
    spsh__audio_file file;
    spsh_reject reject = {0};
    spsh_status rc = spsh__audio_resolve(g->resolver, written, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const bool refused = spsh__audio_refused(&file, &reject);
    audio->source = spsh__strings_name(g->scan, refused ? written : spsh__bytes_of(file.path));
    if (refused)
        return reject_audio(g, audio, reject, err);
    audio->file = &file;
    spsh_bytes rest = audio->values[AUDIO_SEGMENTS].raw;
    spsh__json_value segment;
    while (rc == SPSH_OK && spsh__json_array_next(&rest, &segment)) {
        const spsh__strings_mark mark = spsh__strings_here(g->scan);
        rc = take_segment(g, audio, segment.raw, err);
        spsh__strings_release(g->scan, mark);
    }
    audio->file = NULL;
    return rc;
}

static spsh_status take_element(giga_scan *g, const char *name, const spsh__json_element *element,
                                spsh_error *err)
{
    spsh__json_value values[AUDIO_KEYS];
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    size_t offset = 0;
    giga_audio audio = {
        .values = values,
        .raw = element->raw,
        .place = {spsh__bytes_of(name), element->line, element->offset_bytes, element->raw}
    };
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = element->problem};
    if (reject.detail == NULL)
        reject.detail =
            spsh__json_pick(element->raw, audio_names, AUDIO_KEYS, values, NULL, &offset);
    if (reject.detail == NULL && values[AUDIO_SEGMENTS].kind != SPSH__JSON_ARRAY)
        reject.detail = "the recording has no list of segments";
    if (reject.detail != NULL) {
        reject.rows = 1;
        audio.place.offset_bytes += offset;
        return spsh__scan_reject(g->scan, &reject, &audio.place, err);
    }
    reject.detail = spsh__json_kind_problem(values, audio_names, audio_kinds, AUDIO_KEYS, buffer);
    if (reject.detail != NULL)
        return reject_audio(g, &audio, reject, err);
    const spsh_bytes written = spsh__strings_json_text(g->scan, &values[AUDIO_PATH]);
    audio.document = spsh__strings_json_text(g->scan, &values[AUDIO_AID]);
    audio.domain = spsh__giga_domain(written);
    return take_segments(g, &audio, written, err);
}

static spsh_status scan_json(giga_scan *g, const char *name, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__json_elements *elements = NULL;
    spsh__json_element element;
    spsh_error broken = SPSH_ERROR_INIT;
    spsh_status rc = spsh__text_file_open(g->scan->options->view, name, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__json_elements_new(&input, "audios", &elements, err);
    while (rc == SPSH_OK &&
           (rc = spsh__json_elements_next(elements, &element, &broken)) == SPSH_OK) {
        const spsh__strings_mark mark = spsh__strings_here(g->scan);
        rc = take_element(g, name, &element, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(g->scan, 1, err);
        spsh__strings_release(g->scan, mark);
    }
    spsh__json_elements_free(elements);
    spsh__text_file_close(&file);
    if (rc == SPSH_E_CORRUPT) {
        const spsh_reject reject = {.reason = SPSH_REJECT_TRUNCATED,
                                    .source = spsh__bytes_of(name),
                                    .detail = broken.message};
        return spsh__scan_reject(g->scan, &reject, NULL, err);
    }
    if (rc != SPSH_OK && rc != SPSH_E_END && broken.status == rc && err != NULL)
        *err = broken;
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* ---- the root ---- */

/** Metadata files: .json and tables. */
typedef struct giga_files {
    spsh__path_list list; /* sorted */
    bool first_only;      /* set for a probe: stop at the first file */
} giga_files;

/* Whether the head of a file looks like the JSON object with the list of recordings. */
static spsh_status json_fits(const spsh__view *view, const char *path, bool *ret_fits,
                             spsh_error *err)
{
    static const char *const words[] = {"\"audios\"", "\"aid\"", "\"segments\""};
    size_t size_bytes = 0;
    uint8_t *head = malloc(HEAD_BYTES);
    if (head == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh__text_file_head(view, path, head, HEAD_BYTES, &size_bytes, err);
    *ret_fits = rc == SPSH_OK;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && *ret_fits; i++)
        *ret_fits = memmem(head, size_bytes, words[i], strlen(words[i])) != NULL;
    free(head);
    return rc;
}

static bool is_json_name(const char *name)
{
    return spsh__ends_with(spsh__bytes_of(name), ".json") ||
           spsh__ends_with(spsh__bytes_of(name), ".json.gz");
}

/* Add a file if it is metadata of GigaSpeech. */
static spsh_status inspect(const spsh__view *view, const char *path, giga_files *f, spsh_error *err)
{
    const char *name = spsh__base_name(path);
    bool fits = false;
    spsh_status rc = SPSH_OK;
    if (is_json_name(name) && name == path)
        rc = json_fits(view, path, &fits, err);
    else if (spsh__giga_is_table_name(name))
        rc = spsh__giga_is_table(view, path, &fits, err);
    if (rc == SPSH_E_NO_MEMORY)
        return rc;
    if (rc != SPSH_OK || !fits)
        return SPSH_OK;
    return spsh__path_list_add(&f->list, "", path, err);
}

static spsh_status search_in(const spsh__view *view, const char *folder, unsigned depth,
                             giga_files *f, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__builder path = {0};
    unsigned looked = 0;
    spsh__view_folder *listing = spsh__view_folder_open(view, folder);
    if (listing == NULL && errno == ENOMEM)
        rc = SPSH_NO_MEMORY(err);
    while (listing != NULL && rc == SPSH_OK && spsh__view_folder_next(listing, &entry)) {
        const bool is_folder = entry.enters;
        if (spsh__is_ignored_name(entry.name) || (is_folder && depth == 0) ||
            (!is_folder && !is_json_name(entry.name) && !spsh__giga_is_table_name(entry.name)))
            continue;
        if (f->first_only && (f->list.count > 0 || ++looked > PROBE_FILES))
            break;
        spsh__builder_clear(&path);
        spsh__builder_append_part(&path, folder);
        spsh__builder_append_part(&path, entry.name);
        const char *text = spsh__builder_text(&path);
        if (text == NULL)
            rc = SPSH_NO_MEMORY(err);
        else
            rc = is_folder ? search_in(view, text, depth - 1, f, err) : inspect(view, text, f, err);
    }
    if (listing != NULL)
        spsh__view_folder_close(listing);
    spsh__builder_free(&path);
    return rc;
}

static spsh_status find_files(const spsh__view *view, giga_files *f, spsh_error *err)
{
    static const char *const folders[] = {"metadata", "data/metadata"};
    const char *given = spsh__view_file(view);
    if (given != NULL)
        return inspect(view, given, f, err);
    spsh_status rc = search_in(view, "", 0, f, err);
    for (size_t i = 0; i < 2 && rc == SPSH_OK; i++)
        rc = search_in(view, folders[i], 1, f, err);
    spsh__path_list_sort(&f->list, 0);
    return rc;
}

static spsh_status giga_probe(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err)
{
    giga_files files = {.first_only = true};
    spsh_status rc = find_files(view, &files, err);
    if (rc == SPSH_OK && files.list.count > 0) {
        ret_probe->matches = true;
        spsh__probe_evidence(ret_probe, "%.100s %s", files.list.paths[0],
                             is_json_name(files.list.paths[0])
                                 ? "is an object with 'audios' and their segments"
                                 : "is a table of segments with sid and text");
    }
    spsh__path_list_free(&files.list);
    return rc;
}

static spsh_status giga_scan_root(spsh__scan *scan, spsh_error *err)
{
    giga_files files = {0};
    giga_scan g = {.scan = scan};
    spsh__giga_tables *tables = NULL;
    spsh_status rc = spsh__audio_resolver_new(scan->options->view, &g.resolver, err);
    if (rc == SPSH_OK)
        rc = spsh__giga_tables_new(scan, &tables, err);
    if (rc == SPSH_OK)
        rc = find_files(scan->options->view, &files, err);
    if (rc == SPSH_OK && files.list.count == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: holds no GigaSpeech.json and no <subset>_chunks_*_metadata.csv",
                       spsh__view_root(scan->options->view));
    for (size_t i = 0; i < files.list.count && rc == SPSH_OK; i++)
        rc = is_json_name(files.list.paths[i])
                 ? scan_json(&g, files.list.paths[i], err)
                 : spsh__giga_table_scan(tables, files.list.paths[i], err);
    if (rc == SPSH_OK)
        rc = spsh__giga_tables_end(tables, err);
    spsh__path_list_free(&files.list);
    spsh__giga_tables_free(tables);
    spsh__audio_resolver_free(g.resolver);
    return rc;
}

const spsh_layout spsh__layout_gigaspeech = {
    .name = "gigaspeech",
    .summary = "GigaSpeech: GigaSpeech.json with long recordings, or tables of cut segments",
    .tier = SPSH_LAYOUT_CORPUS,
    .reads_file = true,
    .probe_fn = giga_probe,
    .scan_fn = giga_scan_root,
};

/* layout_peoples_speech.c: The People's Speech, in files or in its archives.
 *
 *     train/clean.json          {"identifier": ..., "training_data": {"duration_ms": [...],
 *                                "label": [...], "name": [...]}}           one document per line
 *     train/clean/<name>.flac   also next to the manifest
 *     validation/validation.json, test/test.json; earlier releases: clean.json in the root
 *     dataset_manifest*.json    the same with "output_paths" below training_set/
 *     part-00000-<uuid>.json    the same; the name may end in a query, like its archive's name
 *
 * The lists of a document are found by their names, because their order differs by release.
 * Manifests are in the root or in its subfolders. The search reads only the names in a folder, and
 * does not list a folder with a manifest's name, which holds the clips. Audio is looked up first at
 * the last clip's location, so a clip costs one stat.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define PROBE_NAMES_MAX 20000U
#define PROBE_FILES_MAX 32U
#define PROBE_LINES     4
#define FOLDERS_MAX     ((size_t)256)
#define MANIFESTS_MAX   ((size_t)4096)
#define PLACES          4
#define FORMS           3
#define NS_PER_MS       UINT64_C(1000000)

enum { LABEL, NAME, PATHS, DURATION, IDENTIFIER, PICKED };
static const char *const picked[PICKED] = {"training_data.label", "training_data.name",
                                           "training_data.output_paths",
                                           "training_data.duration_ms", "identifier"};

typedef struct subset {
    const char *name;
    const char *split, *licence; /* licence NULL: unknown */
} subset;

/* Longer names first, because the names are searched within a manifest's name. */
static const subset subsets[] = {
    {"clean_sa",   "train",      "CC BY-SA"},
    {"dirty_sa",   "train",      "CC BY-SA"},
    {"clean",      "train",      "CC BY"   },
    {"dirty",      "train",      "CC BY"   },
    {"validation", "validation", NULL      },
    {"test",       "test",       NULL      },
};
#define SUBSET_COUNT (sizeof(subsets) / sizeof(subsets[0]))
static const subset unknown_subset = {"", "", NULL};

typedef struct ps_scan {
    spsh__scan *scan;
    const char *manifest; /* current manifest, relative to the root */
    const subset *subset;
    spsh_bytes domain;
    spsh_bytes places[PLACES]; /* folders ending in '/', relative to the root */
    unsigned last_place;       /* location and path form of the last clip */
} ps_scan;

/* Length of a manifest's name before ".json" or ".jsonl" and an optional query. 0 if it is not a
 * manifest. */
static size_t manifest_stem(const char *name)
{
    const char *found = strstr(name, ".json");
    if (found == NULL || spsh__is_ignored_name(name))
        return 0;
    const char *after = found + strlen(".json");
    if (*after == 'l')
        after++;
    return *after == '\0' || *after == '?' ? (size_t)(found - name) : 0;
}

/* List the manifests in one folder by name, and its subfolders. */
static spsh_status list_folder(const spsh__view *view, const char *path, unsigned names_max,
                               spsh__path_list *manifests, spsh__path_list *folders,
                               spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__view_folder *folder = spsh__view_folder_open(view, path);
    if (folder == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    if (folder == NULL)
        return errno == ENOTDIR || errno == ENOENT
                   ? SPSH_OK
                   : SPSH_FAIL_OS(err, SPSH_E_IO, errno, "%s: cannot read the file", path);
    int os_errno = 0;
    for (unsigned i = 0; i < names_max && rc == SPSH_OK; i++) {
        if (!spsh__view_folder_next(folder, &entry)) {
            os_errno = errno;
            break;
        }
        if (manifest_stem(entry.name) > 0 && manifests->count < MANIFESTS_MAX)
            rc = spsh__path_list_add(manifests, path, entry.name, err);
        else if (folders != NULL && entry.name[0] != '.' && folders->count < FOLDERS_MAX &&
                 !spsh__is_audio_name(spsh__bytes_of(entry.name)) &&
                 (entry.type == SPSH__VIEW_FOLDER || entry.type == SPSH__VIEW_LINK))
            rc = spsh__path_list_add(folders, path, entry.name, err);
    }
    spsh__view_folder_close(folder);
    if (os_errno != 0)
        rc = SPSH_FAIL_OS(err, SPSH_E_IO, os_errno, "%s: cannot read the rest of the file", path);
    return rc;
}

static bool is_clip_folder(const spsh__path_list *manifests, const char *folder)
{
    for (size_t i = 0; i < manifests->count; i++) {
        const size_t stem = manifest_stem(manifests->paths[i]);
        if (strlen(folder) == stem && strncmp(manifests->paths[i], folder, stem) == 0)
            return true;
    }
    return strcmp(folder, "training_set") == 0;
}

static spsh_status list_manifests(const spsh__view *view, unsigned names_max,
                                  spsh__path_list *manifests, spsh_error *err)
{
    spsh__path_list folders = {0};
    if (spsh__view_file(view) != NULL)
        return spsh__path_list_add(manifests, "", spsh__view_file(view), err);
    spsh_status rc = list_folder(view, "", names_max, manifests, &folders, err);
    const spsh__path_list in_root = *manifests;
    spsh__path_list below = {0};
    for (size_t i = 0; i < folders.count && rc == SPSH_OK; i++) {
        if (!is_clip_folder(&in_root, folders.paths[i]))
            rc = list_folder(view, folders.paths[i], names_max, &below, NULL, err);
    }
    for (size_t i = 0; i < below.count && rc == SPSH_OK; i++)
        rc = spsh__path_list_add(manifests, "", below.paths[i], err);
    spsh__path_list_free(&below);
    spsh__path_list_free(&folders);
    spsh__path_list_sort(manifests, 0);
    return rc;
}

/* Whether the first readable line of the file is a document. */
static spsh_status is_manifest(const spsh__view *view, const char *name, bool *ret_is,
                               spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line = {0};
    *ret_is = false;
    spsh_status rc = spsh__text_file_open(view, name, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__jsonl_reader_new(&input, picked, PICKED, &reader, err);
    for (int i = 0; i < PROBE_LINES && rc == SPSH_OK && !*ret_is; i++) {
        rc = spsh__jsonl_reader_next(reader, &line, err);
        *ret_is = rc == SPSH_OK && line.problem == NULL &&
                  line.values[IDENTIFIER].kind != SPSH__JSON_ABSENT &&
                  (line.values[NAME].kind == SPSH__JSON_ARRAY ||
                   line.values[PATHS].kind == SPSH__JSON_ARRAY);
    }
    spsh__jsonl_reader_free(reader);
    spsh__text_file_close(&file);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status ps_probe(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__path_list manifests = {0};
    spsh_status rc = list_manifests(view, PROBE_NAMES_MAX, &manifests, err);
    for (size_t i = 0; i < manifests.count && i < PROBE_FILES_MAX && rc == SPSH_OK; i++) {
        rc = is_manifest(view, manifests.paths[i], &ret_probe->matches, err);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            rc = SPSH_OK; /* the scan reports it */
        if (!ret_probe->matches)
            continue;
        spsh__probe_evidence(ret_probe,
                             "%.120s has documents with 'identifier' and 'training_data'",
                             manifests.paths[i]);
        break;
    }
    spsh__path_list_free(&manifests);
    return rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK;
}

/* Find the subset in the manifest's name, or in the names of its folders from the innermost. */
static const subset *find_subset(const char *manifest)
{
    const char *end = manifest + strlen(manifest);
    while (end > manifest) {
        const char *begin = end;
        while (begin > manifest && begin[-1] != '/')
            begin--;
        for (size_t i = 0; i < SUBSET_COUNT; i++) {
            if (memmem(begin, (size_t)(end - begin), subsets[i].name, strlen(subsets[i].name)))
                return &subsets[i];
        }
        end = begin > manifest ? begin - 1 : manifest;
    }
    return NULL;
}

/* Set the subset of the manifest. If no name below the root contains it, the root's name may be the
 * subset. */
static void set_subset(ps_scan *p)
{
    const subset *found = find_subset(p->manifest);
    spsh__builder *root = spsh__strings_open(p->scan);
    if (found == NULL)
        spsh__view_folder_name(p->scan->options->view, "", root);
    const spsh_bytes name = spsh__strings_close(p->scan);
    for (size_t i = 0; i < SUBSET_COUNT && found == NULL; i++) {
        if (spsh__bytes_equal(name, spsh__bytes_of(subsets[i].name)))
            found = &subsets[i];
    }
    p->subset = found == NULL ? &unknown_subset : found;
}

/* <subset>_000000.json repeats the first archive of <subset>.json. */
static bool is_microset(const spsh__path_list *manifests, const char *name)
{
    static const char ending[] = "_000000";
    const size_t length = sizeof(ending) - 1;
    const size_t stem = manifest_stem(name);
    if (stem <= length || strncmp(name + stem - length, ending, length) != 0)
        return false;
    for (size_t i = 0; i < manifests->count; i++) {
        if (manifest_stem(manifests->paths[i]) == stem - length &&
            strncmp(manifests->paths[i], name, stem - length) == 0)
            return true;
    }
    return false;
}

/* Set the folders where the clips of a manifest may be: a folder with its name, the manifest's
 * folder, or a folder in the root. */
static void set_places(ps_scan *p)
{
    const spsh_bytes slash = spsh__bytes_of("/");
    const spsh_bytes name = spsh__bytes_of(p->subset->name);
    const uint8_t *path = (const uint8_t *)p->manifest;
    const spsh_bytes stem = {path, manifest_stem(p->manifest)};
    p->places[0] = SPSH__JOIN(p->scan, stem, slash);
    p->places[1] = (spsh_bytes){path, (size_t)(spsh__base_name(p->manifest) - p->manifest)};
    p->places[2] = SPSH__JOIN(p->scan, name, slash);
    p->places[3] = SPSH__JOIN(p->scan, spsh__bytes_of(p->subset->split), slash, name, slash);
    p->last_place = 0;
}

/* Form a path for lookup: the file name, the path unchanged, or the path from training_set/. Empty
 * if the path does not have that form.
 */
static spsh_bytes form_of(spsh_bytes written, unsigned form)
{
    static const char mark[] = "training_set/";
    const uint8_t *slash = memrchr(written.data, '/', written.size_bytes);
    const uint8_t *end = written.data + written.size_bytes;
    if (form == 0 && slash != NULL)
        return (spsh_bytes){slash + 1, (size_t)(end - slash - 1)};
    if (form == 0)
        return written;
    if (slash == NULL)
        return (spsh_bytes){0};
    const uint8_t *found = memmem(written.data, written.size_bytes, mark, sizeof(mark) - 1);
    if (form == 2 && found != NULL)
        return (spsh_bytes){found, (size_t)(end - found)};
    const bool below =
        written.data[0] != '/' && memmem(written.data, written.size_bytes, "://", 3) == NULL;
    return form == 1 && below ? written : (spsh_bytes){0};
}

static bool inspect(ps_scan *p, spsh_bytes written, unsigned place, spsh_bytes *ret_path,
                    spsh__view_info *info)
{
    const spsh_bytes form = form_of(written, place % FORMS);
    if (form.size_bytes == 0)
        return false;
    *ret_path = SPSH__JOIN(p->scan, p->places[place / FORMS], form);
    return spsh__view_stat(p->scan->options->view, spsh__text_of(*ret_path), info) == 0 &&
           info->type != SPSH__VIEW_FOLDER;
}

static bool find_clip(ps_scan *p, spsh_bytes written, spsh_bytes *ret_path, spsh__view_info *info)
{
    if (written.size_bytes == 0 || memchr(written.data, '\0', written.size_bytes) != NULL)
        return false;
    if (inspect(p, written, p->last_place, ret_path, info))
        return true;
    for (unsigned place = 0; place < PLACES * FORMS; place++) {
        if (inspect(p, written, place, ret_path, info)) {
            p->last_place = place;
            return true;
        }
    }
    return false;
}

static const unsigned element_kinds[IDENTIFIER] = {
    [LABEL] = SPSH__JSON_STRINGS,
    [NAME] = SPSH__JSON_STRINGS,
    [PATHS] = SPSH__JSON_STRINGS,
    [DURATION] = SPSH__JSON_NUMBERS,
};

static const unsigned document_kinds[PICKED] = {
    [LABEL] = SPSH__JSON_ARRAYS,    [NAME] = SPSH__JSON_ARRAYS,        [PATHS] = SPSH__JSON_ARRAYS,
    [DURATION] = SPSH__JSON_ARRAYS, [IDENTIFIER] = SPSH__JSON_STRINGS,
};

/** A document and its parts. */
typedef struct document {
    const spsh__jsonl_line *line;
    const spsh__row_place *place;
    spsh_bytes id;
    spsh_bytes rest[IDENTIFIER]; /* unread rest of each list */
    bool has[IDENTIFIER];
} document;

static spsh_bytes make_extras(ps_scan *p, const document *d, const spsh__json_value *duration)
{
    spsh__builder *extras = spsh__strings_open(p->scan);
    spsh__builder_append_bytes(extras, d->line->extras);
    if (extras->size_bytes > 0)
        extras->size_bytes--; /* the closing brace */
    if (p->subset->licence != NULL)
        spsh__json_member(extras, 0, spsh__bytes_of("licence"), spsh__bytes_of(p->subset->licence));
    if (duration->kind == SPSH__JSON_NUMBER)
        spsh__json_value_member(extras, 0, "duration_ms", duration);
    spsh__json_close(extras, 0);
    return spsh__strings_close(p->scan);
}

static spsh_status emit_clip(ps_scan *p, const document *d, const spsh__json_value *elements,
                             spsh_error *err)
{
    spsh__view_info info;
    spsh_bytes path = {0};
    uint64_t expected_ns = 0;
    const spsh_bytes written =
        spsh__strings_json_text(p->scan, &elements[d->has[PATHS] ? PATHS : NAME]);
    const spsh_bytes base = written.size_bytes > 0 ? form_of(written, 0) : written;
    const spsh_bytes id = {base.data, spsh__audio_stem(base)};
    const spsh_bytes text = spsh__strings_json_text(p->scan, &elements[LABEL]);
    const bool found = find_clip(p, written, &path, &info);
    if (!found || info.type != SPSH__VIEW_FILE) {
        const spsh_reject reject = {
            .reason = found ? SPSH_REJECT_NOT_REGULAR : SPSH_REJECT_MISSING_AUDIO,
            .source = written,
            .id = id,
            .rows = 1,
        };
        return spsh__scan_reject(p->scan, &reject, d->place, err);
    }
    if (elements[DURATION].kind == SPSH__JSON_NUMBER)
        (void)spsh__table_time(elements[DURATION].raw, NS_PER_MS, &expected_ns);
    const spsh_bytes source = spsh__strings_name(p->scan, path);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = source,
        .recording_id = source,
        .id = id,
        .has_text = text.size_bytes > 0,
        .text = text,
        .domain = p->domain,
        .split = spsh__bytes_of(p->subset->split),
        .language = spsh__bytes_of("en"),
        .document = d->id,
        .extras = make_extras(p, d, &elements[DURATION]),
        .end_ns = SPSH_SEGMENT_END,
        .expected_ns = expected_ns,
        .source_bytes = info.size_bytes,
    };
    return spsh__scan_emit(p->scan, &item, d->place, err);
}

static size_t count_elements(const spsh__json_value *list)
{
    spsh_bytes rest = list->raw;
    spsh__json_value element;
    size_t count = 0;
    while (list->kind == SPSH__JSON_ARRAY && spsh__json_array_next(&rest, &element))
        count++;
    return count;
}

static spsh_status reject_document(ps_scan *p, const document *d, spsh_reject_reason reason,
                                   const char *detail, uint64_t rows, spsh_error *err)
{
    const spsh_reject reject = {.reason = reason, .detail = detail, .rows = rows};
    return spsh__scan_reject(p->scan, &reject, d->place, err);
}

static spsh_status scan_clips(ps_scan *p, document *d, size_t count, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t clip = 0; clip < count && rc == SPSH_OK; clip++) {
        const spsh__strings_mark mark = spsh__strings_here(p->scan);
        char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
        spsh__json_value elements[IDENTIFIER] = {0};
        for (size_t i = 0; i < IDENTIFIER; i++)
            (void)spsh__json_array_next(&d->rest[i], &elements[i]);
        const char *problem =
            spsh__json_kind_problem(elements, picked, element_kinds, IDENTIFIER, buffer);
        rc = problem == NULL ? emit_clip(p, d, elements, err)
                             : reject_document(p, d, SPSH_REJECT_ROW_SYNTAX, problem, 1, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(p->scan, 1, err);
        spsh__strings_release(p->scan, mark);
    }
    return rc;
}

static spsh_status scan_document(void *user, const spsh__jsonl_line *line,
                                 const spsh__row_place *place, spsh_error *err)
{
    ps_scan *p = user;
    document d = {.line = line, .place = place};
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    size_t count = 0;
    size_t list_count = 0;
    bool equal = false;
    for (size_t i = 0; i < IDENTIFIER; i++) {
        d.has[i] = line->values[i].kind == SPSH__JSON_ARRAY;
        d.rest[i] = d.has[i] ? line->values[i].raw : (spsh_bytes){0};
        const size_t elements = count_elements(&line->values[i]);
        if (d.has[i])
            equal = (equal && elements == count) || list_count == 0;
        list_count += d.has[i];
        count = elements > count ? elements : count;
    }
    const char *problem =
        spsh__json_kind_problem(line->values, picked, document_kinds, PICKED, buffer);
    if (problem != NULL)
        return reject_document(p, &d, SPSH_REJECT_ROW_SYNTAX, problem, count > 0 ? count : 1, err);
    if (!d.has[NAME] && !d.has[PATHS])
        return reject_document(p, &d, SPSH_REJECT_MISSING_AUDIO, "the document names no audio",
                               count > 0 ? count : 1, err);
    if (!equal)
        return reject_document(p, &d, SPSH_REJECT_ROW_FIELD_COUNT,
                               "the lists of the document differ in length", count, err);
    d.id = spsh__strings_json_text(p->scan, &line->values[IDENTIFIER]);
    return scan_clips(p, &d, count, err);
}

/* Count the archives directly in a folder, which ends in '/'. */
static uint64_t count_archives(const spsh__view *view, spsh_bytes folder)
{
    uint64_t count = 0;
    const char *archive = NULL;
    for (size_t i = 0; (archive = spsh__view_archive(view, i)) != NULL; i++) {
        const size_t length = strlen(archive);
        count += length > folder.size_bytes &&
                 (folder.size_bytes == 0 || memcmp(archive, folder.data, folder.size_bytes) == 0) &&
                 strchr(archive + folder.size_bytes, '/') == NULL;
    }
    return count;
}

/* Check the count of archives, which some revisions state: a download may be incomplete. Nothing is
 * checked if the archives were unpacked. */
static spsh_status check_count(ps_scan *p, spsh_bytes folder, spsh_error *err)
{
    const spsh__view *view = p->scan->options->view;
    uint8_t text[32] = {0};
    size_t text_bytes = 0;
    uint64_t want = 0;
    const uint64_t found = count_archives(view, folder);
    const spsh_bytes source = SPSH__JOIN(p->scan, folder, spsh__bytes_of("n_files.txt"));
    const char *path = spsh__text_of(source);
    if (found == 0 || !spsh__view_has_file(view, path))
        return SPSH_OK;
    spsh_status rc = spsh__text_file_head(view, path, text, sizeof(text) - 1, &text_bytes, err);
    for (size_t i = 0; i < text_bytes && i < 9 && text[i] >= '0' && text[i] <= '9'; i++)
        want = want * 10 + (uint64_t)(text[i] - '0');
    if (rc != SPSH_OK || want == 0 || want == found)
        return rc;
    char detail[96];
    (void)snprintf(detail, sizeof(detail),
                   "%" PRIu64 " archives were found, but %" PRIu64 " are expected", found, want);
    const spsh_reject reject = {
        .reason = SPSH_REJECT_COUNT_MISMATCH, .source = source, .detail = detail};
    return spsh__scan_reject(p->scan, &reject, NULL, err);
}

static size_t clips_of(const spsh__jsonl_line *line)
{
    return count_elements(
        &line->values[line->values[NAME].kind == SPSH__JSON_ARRAY ? NAME : PATHS]);
}

static spsh_status scan_manifest(ps_scan *p, const char *name, spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(p->scan);
    p->manifest = name;
    set_subset(p);
    set_places(p);
    p->domain = spsh__strings_path(p->scan, spsh__bytes_of("ps"), spsh__bytes_of(p->subset->name));
    const bool wanted = spsh__scan_wants_either(p->scan, spsh__bytes_of(p->subset->split),
                                                spsh__bytes_of(p->subset->name));
    const spsh__line_visitor visitor = {picked, PICKED, scan_document, p, !wanted, clips_of};
    spsh_status rc = spsh__scan_lines(p->scan, name, &visitor, err);
    for (size_t i = 0; i < 2 && rc == SPSH_OK; i++)
        rc = check_count(p, p->places[i], err);
    spsh__strings_release(p->scan, mark);
    return rc;
}

static spsh_status scan_manifests(ps_scan *p, const spsh__path_list *manifests, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t taken = 0;
    for (size_t i = 0; i < manifests->count && rc == SPSH_OK; i++) {
        const char *name = manifests->paths[i];
        spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                              .source = spsh__bytes_of(name),
                              .detail = "it repeats part of the subset's manifest"};
        bool is = false;
        rc = is_manifest(p->scan->options->view, name, &is, err);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY) {
            reject.reason = SPSH_REJECT_UNREADABLE;
            reject.detail = "it may be a manifest";
            rc = spsh__scan_reject(p->scan, &reject, NULL, err);
        } else if (rc == SPSH_OK && is) {
            taken++;
            rc = is_microset(manifests, name) ? spsh__scan_reject(p->scan, &reject, NULL, err)
                                              : scan_manifest(p, name, err);
        }
    }
    if (rc == SPSH_OK && taken == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: holds no JSON lines with 'identifier' and 'training_data'",
                       spsh__view_root(p->scan->options->view));
    return rc;
}

static spsh_status ps_scan_root(spsh__scan *scan, spsh_error *err)
{
    ps_scan p = {.scan = scan};
    spsh__path_list manifests = {0};
    spsh_status rc = list_manifests(scan->options->view, UINT32_MAX, &manifests, err);
    if (rc == SPSH_OK)
        rc = scan_manifests(&p, &manifests, err);
    spsh__path_list_free(&manifests);
    return rc;
}

const spsh_layout spsh__layout_peoples_speech = {
    .name = "peoples-speech",
    .summary = "The People's Speech: JSON lines with training_data, and FLAC files",
    .tier = SPSH_LAYOUT_CORPUS,
    .reads_file = true,
    .probe_fn = ps_probe,
    .without_columns = "The People's Speech",
    .scan_fn = ps_scan_root,
};

/* layout_lhotse.c: Lhotse manifests in JSON lines.
 *
 *     <corpus>_recordings_<part>.jsonl[.gz]     <corpus>_supervisions_<part>.jsonl[.gz]
 *     <corpus>_cuts_<part>.jsonl[.gz]
 *
 * The first line determines the kind of a manifest. Cuts contain their recordings and supervisions.
 * If there are cuts, other manifests next to them are redundant and are only reported. Otherwise
 * supervisions lead, and are joined to the recordings of the same corpus and part. Without
 * supervisions, each recording is an utterance.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "ingest/metadata/lhotse.h"
#include "ingest/metadata/lhotse_recordings.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define MANIFESTS_MAX ((size_t)4096)
#define PROBE_FILES   ((size_t)32)
#define PROBE_LINES   8U
#define PROBE_WINDOW  ((size_t)16 << 10)
#define HEAD_BYTES    ((size_t)4096)
#define TO_LINES      "is read only as JSON lines; convert it with `lhotse copy IN OUT.jsonl.gz`"

typedef struct manifest {
    char *name;
    spsh__lhotse_kind kind;
    spsh__lhotse_name parts;
    bool is_joined; /* a supervisions manifest uses these recordings */
} manifest;

typedef struct manifest_list {
    manifest *items; /* sorted by name */
    size_t count, capacity;
} manifest_list;

typedef struct lhotse_scan {
    spsh__scan *scan;
    spsh__lhotse lhotse;
    manifest_list list;
    const char *names[SPSH__LHOTSE_FILES_MAX]; /* manifests of the recordings in the current join */
    spsh__lhotse_recordings *recordings;
    spsh__builder last_id; /* id of the recording in `audio` */
    bool have_last;
    spsh__lhotse_audio audio;
    spsh__lhotse_kind kind; /* kind of the manifest that is read */
} lhotse_scan;

static void list_free(manifest_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (manifest_list){0};
}

static bool ends_with(const char *name, const char *const *endings)
{
    for (; *endings != NULL; endings++) {
        if (spsh__ends_with(spsh__bytes_of(name), *endings))
            return true;
    }
    return false;
}

static bool is_lines_name(const char *name)
{
    static const char *const endings[] = {".jsonl", ".jsonl.gz", NULL};
    return ends_with(name, endings);
}

/* Whether a name belongs to another manifest form of Lhotse, which has to be read as a whole. */
static bool is_whole_name(const char *name)
{
    static const char *const endings[] = {".json",    ".json.gz", ".yaml", ".yml",
                                          ".yaml.gz", ".yml.gz",  NULL};
    return ends_with(name, endings) &&
           (strstr(name, "recordings") != NULL || strstr(name, "supervisions") != NULL ||
            strstr(name, "cuts") != NULL);
}

static spsh_status list_add(manifest_list *list, const char *name, spsh_error *err)
{
    if (list->count == MANIFESTS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "more than %zu manifests in a folder", MANIFESTS_MAX);
    if (!SPSH_GROW(list->items, list->capacity, list->count + 1))
        return SPSH_NO_MEMORY(err);
    manifest *m = &list->items[list->count];
    *m = (manifest){.name = strdup(name)};
    if (m->name == NULL)
        return SPSH_NO_MEMORY(err);
    list->count++;
    return SPSH_OK;
}

static int compare_manifests(const void *a, const void *b)
{
    return strcmp(((const manifest *)a)->name, ((const manifest *)b)->name);
}

/* List the files of the root that may be manifests. */
static spsh_status list_names(const spsh__view *view, manifest_list *list, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    if (folder == NULL)
        return errno == ENOMEM ? SPSH_NO_MEMORY(err) : SPSH_OK; /* the walk reports the error */
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (entry.type != SPSH__VIEW_FOLDER && !spsh__is_ignored_name(entry.name) &&
            (is_lines_name(entry.name) || is_whole_name(entry.name)))
            rc = list_add(list, entry.name, err);
    }
    spsh__view_folder_close(folder);
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare_manifests);
    return rc;
}

/* Detect the kind from the first readable line. */
static spsh_status kind_of_lines(const spsh__text_input *input, spsh__lhotse_kind *ret_kind,
                                 spsh_error *err)
{
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    spsh_status rc = spsh__jsonl_reader_new(input, NULL, 0, &reader, err);
    for (unsigned i = 0; i < PROBE_LINES && rc == SPSH_OK; i++) {
        rc = spsh__jsonl_reader_next(reader, &line, err);
        if (rc == SPSH_OK && line.problem == NULL) {
            *ret_kind = spsh__lhotse_kind_of(line.raw);
            break;
        }
    }
    spsh__jsonl_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* Whether a JSON list or a YAML file is a Lhotse manifest. */
static spsh_status is_whole_manifest(const spsh__text_input *input, bool *ret_is, spsh_error *err)
{
    static const char *const words[] = {"sampling_rate", "recording_id", "MonoCut", "MultiCut"};
    char head[HEAD_BYTES];
    size_t size_bytes = 0;
    spsh_status rc = input->read_at_fn(input->user, 0, head, sizeof(head), &size_bytes, err);
    if (rc != SPSH_OK || size_bytes == 0 || (head[0] != '[' && head[0] != '-'))
        return rc;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !*ret_is; i++)
        *ret_is = memmem(head, size_bytes, words[i], strlen(words[i])) != NULL;
    return SPSH_OK;
}

/* Set the kind of m. *ret_is_whole: it is a manifest in an unsupported form. */
static spsh_status inspect(const spsh__view *view, manifest *m, bool *ret_is_whole, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    *ret_is_whole = false;
    spsh_status rc = spsh__text_file_open(view, m->name, &file, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__text_input input = spsh__text_input_file(&file);
    input.window_bytes = PROBE_WINDOW;
    if (is_lines_name(m->name))
        rc = kind_of_lines(&input, &m->kind, err);
    else
        rc = is_whole_manifest(&input, ret_is_whole, err);
    spsh__text_file_close(&file);
    spsh__lhotse_name_parse(m->name, &m->parts);
    return rc;
}

static spsh_status lhotse_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                spsh_error *err)
{
    static const char *const whats[] = {"", "recordings", "supervisions", "cuts"};
    manifest_list list = {0};
    spsh_status rc = spsh__view_file(view) != NULL ? list_add(&list, spsh__view_file(view), err)
                                                   : list_names(view, &list, err);
    for (size_t i = 0; i < list.count && i < PROBE_FILES && rc == SPSH_OK; i++) {
        bool is_whole = false;
        rc = inspect(view, &list.items[i], &is_whole, err);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            rc = SPSH_OK; /* the scan reports it */
        ret_probe->matches = is_whole || list.items[i].kind != SPSH__LHOTSE_OTHER;
        if (!ret_probe->matches)
            continue;
        spsh__probe_evidence(ret_probe, "%.80s holds %s%s", list.items[i].name,
                             is_whole ? "a manifest of Lhotse's" : "Lhotse's ",
                             whats[list.items[i].kind]);
        break;
    }
    list_free(&list);
    return rc;
}

/* ---- rows ---- */

static bool is_wanted(const lhotse_scan *s)
{
    return spsh__scan_wants_either(s->scan, s->lhotse.name.split, s->lhotse.name.partition);
}

static spsh_status scan_cut(lhotse_scan *s, const spsh__jsonl_line *line,
                            const spsh__row_place *place, spsh_error *err)
{
    spsh__lhotse_cut cut;
    spsh__lhotse_audio audio = {
        .reject = {.reason = SPSH_REJECT_MISSING_AUDIO, .detail = "the cut has no recording"}
    };
    spsh__json_value values[SPSH__LHOTSE_NAMES_MAX];
    size_t offset = 0;
    spsh__lhotse_cut_take(&s->lhotse, line, &cut);
    if (!is_wanted(s)) {
        s->scan->excluded_rows += spsh__lhotse_cut_rows(&cut);
        return SPSH_OK;
    }
    spsh_status rc = SPSH_OK;
    if (cut.problem == NULL &&
        spsh__json_pick(cut.recording.raw, spsh__lhotse_recording_names, SPSH__LHOTSE_NAMES_MAX,
                        values, NULL, &offset) == NULL)
        rc = spsh__lhotse_find_audio(&s->lhotse, values, &audio, err);
    return rc == SPSH_OK ? spsh__lhotse_cut_emit(&s->lhotse, &cut, &audio, place, err) : rc;
}

/* Load the audio of the supervision's recording into s->audio. */
static spsh_status take_recording(lhotse_scan *s, const spsh__json_value *written, spsh_error *err)
{
    spsh__json_value values[SPSH__LHOTSE_NAMES_MAX];
    bool found = false;
    const spsh_bytes id = spsh__strings_json_text(s->scan, written);
    if (s->have_last && spsh__bytes_equal(id, spsh__builder_bytes(&s->last_id)))
        return SPSH_OK;
    spsh__builder_clear(&s->last_id);
    spsh__builder_append_bytes(&s->last_id, id);
    if (s->last_id.failed || s->scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    s->have_last = true;
    s->audio = (spsh__lhotse_audio){
        .reject = {.reason = SPSH_REJECT_MISSING_AUDIO, .detail = "no manifest has its recording"}
    };
    spsh_status rc = spsh__lhotse_recordings_find(s->recordings, id, &found, values, err);
    if (rc != SPSH_OK || !found)
        return rc;
    return spsh__lhotse_find_audio(&s->lhotse, values, &s->audio, err);
}

static spsh_status scan_supervision(lhotse_scan *s, const spsh__jsonl_line *line,
                                    const spsh__row_place *place, spsh_error *err)
{
    const spsh__lhotse_supervision supervision = {line->values, line->extras, line->raw};
    if (!is_wanted(s)) {
        s->scan->excluded_rows++;
        return SPSH_OK;
    }
    spsh_status rc = take_recording(s, &line->values[1], err);
    return rc == SPSH_OK ? spsh__lhotse_supervision_emit(&s->lhotse, &supervision, NULL, &s->audio,
                                                         place, err)
                         : rc;
}

static spsh_status scan_recording(lhotse_scan *s, const spsh__jsonl_line *line,
                                  const spsh__row_place *place, spsh_error *err)
{
    spsh__lhotse_audio audio;
    if (!is_wanted(s)) {
        s->scan->excluded_rows++;
        return SPSH_OK;
    }
    spsh_status rc = spsh__lhotse_find_audio(&s->lhotse, line->values, &audio, err);
    const spsh__lhotse_cut whole = {
        .id = audio.recording_id, .end_ns = SPSH_SEGMENT_END, .line = line->raw};
    return rc == SPSH_OK ? spsh__lhotse_cut_emit(&s->lhotse, &whole, &audio, place, err) : rc;
}

static spsh_status scan_line(void *user, const spsh__jsonl_line *line, const spsh__row_place *place,
                             spsh_error *err)
{
    lhotse_scan *s = user;
    switch (s->kind) {
    case SPSH__LHOTSE_RECORDINGS: return scan_recording(s, line, place, err);
    case SPSH__LHOTSE_SUPERVISIONS: return scan_supervision(s, line, place, err);
    case SPSH__LHOTSE_CUTS:
    case SPSH__LHOTSE_OTHER: break;
    }
    return scan_cut(s, line, place, err);
}

static spsh_status scan_manifest(lhotse_scan *s, const manifest *m, spsh_error *err)
{
    static const char *const *const names[] = {
        [SPSH__LHOTSE_OTHER] = spsh__lhotse_cut_names,
        [SPSH__LHOTSE_RECORDINGS] = spsh__lhotse_recording_names,
        [SPSH__LHOTSE_SUPERVISIONS] = spsh__lhotse_supervision_names,
        [SPSH__LHOTSE_CUTS] = spsh__lhotse_cut_names,
    };
    const spsh__line_visitor visitor = {.names = names[m->kind],
                                        .name_count = SPSH__LHOTSE_NAMES_MAX,
                                        .line_fn = scan_line,
                                        .user = s};
    s->kind = m->kind;
    s->lhotse.name = m->parts;
    return spsh__scan_lines(s->scan, m->name, &visitor, err);
}

/* ---- choosing manifests ---- */

static bool same_parts(const manifest *a, const manifest *b)
{
    return spsh__bytes_equal(a->parts.prefix, b->parts.prefix) &&
           spsh__bytes_equal(a->parts.partition, b->parts.partition);
}

static bool has_kind(const manifest_list *list, spsh__lhotse_kind kind)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind == kind)
            return true;
    }
    return false;
}

/* Whether supervisions have recordings of the same parts. */
static bool has_own_recordings(const manifest_list *list, const manifest *supervisions)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind == SPSH__LHOTSE_RECORDINGS &&
            same_parts(&list->items[i], supervisions))
            return true;
    }
    return false;
}

/* Keep a named manifest and its partners, the manifests with the same prefix and partition. If a
 * supervisions manifest has no such recordings, keep all recordings manifests. */
static void keep_partners(manifest_list *list, const char *given)
{
    const manifest *own = NULL;
    for (size_t i = 0; i < list->count && own == NULL; i++) {
        if (strcmp(list->items[i].name, given) == 0)
            own = &list->items[i];
    }
    if (own == NULL)
        return;
    const bool any = own->kind == SPSH__LHOTSE_SUPERVISIONS && !has_own_recordings(list, own);
    for (size_t i = 0; i < list->count; i++) {
        manifest *m = &list->items[i];
        const bool pair = own->kind != SPSH__LHOTSE_CUTS && own->kind != SPSH__LHOTSE_OTHER &&
                          m->kind != SPSH__LHOTSE_CUTS &&
                          (same_parts(m, own) || (any && m->kind == SPSH__LHOTSE_RECORDINGS));
        if (m != own && !pair)
            m->kind = SPSH__LHOTSE_OTHER;
    }
}

static spsh_status report_file(lhotse_scan *s, spsh_reject_reason reason, const char *name,
                               const char *detail, spsh_error *err)
{
    const spsh_reject reject = {.reason = reason, .source = spsh__bytes_of(name), .detail = detail};
    return spsh__scan_reject(s->scan, &reject, NULL, err);
}

static bool is_joined(const manifest *m)
{
    return m->kind == SPSH__LHOTSE_RECORDINGS || m->kind == SPSH__LHOTSE_SUPERVISIONS;
}

/* List a named manifest. Other manifests are listed only if they may be its partners. */
static spsh_status list_given(lhotse_scan *s, const char *given, spsh_error *err)
{
    const spsh__view *view = s->scan->options->view;
    bool is_whole = false;
    spsh_status rc = list_add(&s->list, given, err);
    if (rc != SPSH_OK || inspect(view, &s->list.items[0], &is_whole, NULL) != SPSH_OK ||
        !is_joined(&s->list.items[0]))
        return rc; /* inspect_all reports unreadable files */
    list_free(&s->list);
    return list_names(view, &s->list, err);
}

/* Whether an unreadable manifest matters: always in a folder; for a named manifest, only if it is a
 * partner. */
static bool is_partner(manifest *m, const char *given)
{
    manifest own = {0};
    if (given == NULL)
        return true;
    spsh__lhotse_name_parse(given, &own.parts);
    spsh__lhotse_name_parse(m->name, &m->parts);
    return same_parts(&own, m);
}

/* Detect the kind of each manifest, and report unreadable files that may be manifests. */
static spsh_status inspect_all(lhotse_scan *s, spsh_error *err)
{
    const char *given = spsh__view_file(s->scan->options->view);
    for (size_t i = 0; i < s->list.count; i++) {
        manifest *m = &s->list.items[i];
        bool is_whole = false;
        spsh_error opened = SPSH_ERROR_INIT;
        spsh_status rc = inspect(s->scan->options->view, m, &is_whole, &opened);
        if (rc == SPSH_E_NO_MEMORY)
            return SPSH_NO_MEMORY(err);
        if (rc != SPSH_OK)
            rc = is_partner(m, given)
                     ? report_file(s, SPSH_REJECT_UNREADABLE, m->name, opened.message, err)
                     : SPSH_OK;
        else if (is_whole && given != NULL && strcmp(given, m->name) == 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %s", m->name, TO_LINES);
        else if (is_whole && given == NULL)
            rc = report_file(s, SPSH_REJECT_UNREADABLE, m->name, TO_LINES, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (given != NULL)
        keep_partners(&s->list, given);
    for (size_t i = 0; i < s->list.count; i++) {
        if (s->list.items[i].kind != SPSH__LHOTSE_OTHER)
            return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "%s: holds no Lhotse manifest in JSON lines; a JSON list or YAML %s",
                     spsh__view_root(s->scan->options->view), TO_LINES);
}

static spsh_status scan_kind(lhotse_scan *s, spsh__lhotse_kind kind, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < s->list.count && rc == SPSH_OK; i++) {
        if (s->list.items[i].kind == kind && !s->list.items[i].is_joined)
            rc = scan_manifest(s, &s->list.items[i], err);
    }
    return rc;
}

/* Open the recordings manifests that are not joined yet. partner: only manifests with its parts;
 * NULL: all. */
static spsh_status begin_join(lhotse_scan *s, const manifest *partner, spsh_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < s->list.count; i++) {
        manifest *m = &s->list.items[i];
        if (m->kind != SPSH__LHOTSE_RECORDINGS || m->is_joined ||
            (partner != NULL && !same_parts(m, partner)))
            continue;
        m->is_joined = true;
        if (count < SPSH__LHOTSE_FILES_MAX)
            s->names[count] = m->name;
        count++;
    }
    s->have_last = false;
    return spsh__lhotse_recordings_new(s->scan, s->names, count, &s->recordings, err);
}

static spsh_status end_join(lhotse_scan *s, spsh_status rc, spsh_error *err)
{
    if (rc == SPSH_OK && s->scan->options->split_filter == NULL)
        rc = spsh__lhotse_recordings_end(s->recordings, err);
    spsh__lhotse_recordings_free(s->recordings);
    s->recordings = NULL;
    return rc;
}

/* Scan each supervisions manifest with the recordings of the same parts. Then scan the supervisions
 * without such recordings, joined to the remaining recordings. */
static spsh_status scan_supervisions(lhotse_scan *s, spsh_error *err)
{
    bool left = false;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < s->list.count && rc == SPSH_OK; i++) {
        manifest *m = &s->list.items[i];
        if (m->kind != SPSH__LHOTSE_SUPERVISIONS)
            continue;
        if (!has_own_recordings(&s->list, m)) {
            left = true;
            continue;
        }
        rc = begin_join(s, m, err);
        if (rc == SPSH_OK)
            rc = scan_manifest(s, m, err);
        rc = end_join(s, rc, err);
        m->is_joined = true;
    }
    if (rc != SPSH_OK || !left)
        return rc;
    rc = begin_join(s, NULL, err);
    if (rc == SPSH_OK)
        rc = scan_kind(s, SPSH__LHOTSE_SUPERVISIONS, err);
    return end_join(s, rc, err);
}

/* Report manifests that the cuts make redundant. No row is lost. */
static spsh_status report_others(lhotse_scan *s, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < s->list.count && rc == SPSH_OK; i++) {
        const manifest *m = &s->list.items[i];
        if (is_joined(m))
            rc = report_file(
                s, SPSH_REJECT_EXCLUDED_BY_RULE, m->name,
                "the cuts next to it are packed instead; to pack this file, give it separately",
                err);
    }
    return rc;
}

static spsh_status scan_all(lhotse_scan *s, spsh_error *err)
{
    if (has_kind(&s->list, SPSH__LHOTSE_CUTS)) {
        spsh_status rc = report_others(s, err);
        return rc == SPSH_OK ? scan_kind(s, SPSH__LHOTSE_CUTS, err) : rc;
    }
    spsh_status rc = scan_supervisions(s, err);
    return rc == SPSH_OK ? scan_kind(s, SPSH__LHOTSE_RECORDINGS, err) : rc;
}

static spsh_status lhotse_scan_root(spsh__scan *scan, spsh_error *err)
{
    lhotse_scan *s = calloc(1, sizeof(*s));
    const char *given = spsh__view_file(scan->options->view);
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    s->scan = scan;
    s->lhotse.scan = scan;
    spsh_status rc = spsh__audio_resolver_new(scan->options->view, &s->lhotse.resolver, err);
    if (rc == SPSH_OK)
        rc = given == NULL ? list_names(scan->options->view, &s->list, err)
                           : list_given(s, given, err);
    if (rc == SPSH_OK)
        rc = inspect_all(s, err);
    if (rc == SPSH_OK)
        rc = scan_all(s, err);
    if (rc == SPSH_OK)
        rc = spsh__scan_reject_commands(scan, s->lhotse.commands, spsh__bytes_of("."), err);
    list_free(&s->list);
    spsh__lhotse_free(&s->lhotse);
    spsh__builder_free(&s->last_id);
    free(s);
    return rc;
}

const spsh_layout spsh__layout_lhotse = {
    .name = "lhotse",
    .summary = "Lhotse manifests in JSON lines: cuts, or recordings and supervisions",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .probe_fn = lhotse_probe,
    .scan_fn = lhotse_scan_root,
};

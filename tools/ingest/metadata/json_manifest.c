/* json_manifest.c: see json_manifest.h.
 *
 * A file is a manifest if one of its first lines is an object with the keys that the format
 * requires. The manifests of a folder are read in name order, and each line costs one stat. An id
 * comes from the format's id key. Otherwise it is the path in the manifest without audio extension,
 * followed by "#start_ns-end_ns" if the line cuts a segment out of the file.
 */
#include "json_manifest.h"

#include <assert.h>
#include <errno.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/probe.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/path_list.h"
#include "row_segment.h"
#include "speechshard/inside.h"
#include "table_audio.h"

#define PROBE_BYTES      ((uint64_t)1 << 20)
#define PROBE_LINES      8U
#define PROBE_WINDOW     ((size_t)16 << 10)
#define PROBE_FILES      32U
#define MANIFESTS_MAX    ((size_t)4096)
#define NAME_ROLES_COUNT ((size_t)SPSH__JSON_START) /* the string roles come first */

typedef struct manifest_scan {
    spsh__scan *scan;
    const spsh__json_format *format;
    const spsh__json_archives *members; /* NULL: audio is in separate files */
    const char *names[SPSH__JSON_NAMES_MAX];
    spsh__audio_resolver *resolver;
    spsh_bytes split;                                /* split in the manifest's name */
    const spsh__json_value *roles[SPSH__JSON_ROLES]; /* values of the current line by role; NULL:
                                                        none */
    spsh_bytes texts[NAME_ROLES_COUNT];              /* unescaped strings of the roles */
} manifest_scan;

static bool has_extension(const char *name, const char *const *extensions)
{
    for (size_t i = 0; extensions[i] != NULL; i++) {
        if (spsh__has_extension(spsh__bytes_of(name), extensions[i]))
            return true;
    }
    return false;
}

static spsh_status list_add(spsh__path_list *list, const char *name, spsh_error *err)
{
    if (list->count == MANIFESTS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%s and others: more than %zu manifests; give fewer at once", name,
                         MANIFESTS_MAX);
    return spsh__path_list_add(list, "", name, err);
}

/* List the files in a folder that may be manifests, or the file that the user named. */
static spsh_status list_files(const spsh__view *view, const spsh__json_format *format,
                              spsh__path_list *list, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    const char *file = spsh__view_file(view);
    if (file != NULL)
        return spsh__view_has_file(view, file) ? list_add(list, file, err) : SPSH_OK;
    spsh__view_folder *folder = spsh__view_folder_open(view, "");
    if (folder == NULL)
        return SPSH_FAIL_OS(err, errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, errno,
                            "%s: cannot read the file", spsh__view_root(view));
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (has_extension(entry.name, format->extensions) && !spsh__is_ignored_name(entry.name))
            rc = list_add(list, entry.name, err);
    }
    spsh__view_folder_close(folder);
    spsh__path_list_sort(list, 0);
    return rc;
}

/* Map a line's values to roles. take_extras keeps the values without a role. */
static void take_roles(const spsh__json_format *format, const spsh__json_value *values,
                       const spsh__json_value **roles)
{
    for (size_t i = 0; i < SPSH__JSON_ROLES; i++)
        roles[i] = NULL;
    for (size_t i = 0; i < format->key_count; i++) {
        const spsh__json_role role = format->keys[i].role;
        if (roles[role] == NULL && values[i].kind > SPSH__JSON_NULL)
            roles[role] = &values[i];
    }
}

static void take_names(const spsh__json_format *format, const char **names)
{
    assert(format->key_count <= SPSH__JSON_NAMES_MAX);
    for (size_t i = 0; i < format->key_count; i++)
        names[i] = format->keys[i].name;
}

static spsh_status first_line_fits(const spsh__text_input *input, const spsh__json_format *format,
                                   bool *ret_fits, spsh_error *err)
{
    const char *names[SPSH__JSON_NAMES_MAX];
    const spsh__json_value *roles[SPSH__JSON_ROLES];
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    take_names(format, names);
    spsh_status rc = spsh__jsonl_reader_new(input, names, format->key_count, &reader, err);
    for (unsigned i = 0; i < PROBE_LINES && rc == SPSH_OK; i++) {
        rc = spsh__jsonl_reader_next(reader, &line, err);
        if (rc != SPSH_OK || line.problem != NULL)
            continue;
        take_roles(format, line.values, roles);
        *ret_fits = true;
        for (size_t role = 0; role < SPSH__JSON_ROLES; role++)
            *ret_fits =
                *ret_fits &&
                ((roles[role] != NULL ? format->excluded : format->required) >> role & 1) == 0;
        break;
    }
    spsh__jsonl_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__json_manifest_fits(const spsh__view *view, const char *name,
                                     const spsh__json_format *format, bool *ret_fits,
                                     spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    *ret_fits = false;
    spsh_status rc = spsh__text_file_open(view, name, &file, err);
    if (rc == SPSH_OK) {
        const spsh__text_input input = spsh__text_input_start(&file, PROBE_BYTES, PROBE_WINDOW);
        rc = first_line_fits(&input, format, ret_fits, err);
        spsh__text_file_close(&file);
    }
    return rc;
}

spsh_status spsh__json_manifest_probe(const spsh__view *view, const spsh__json_format *format,
                                      spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__path_list list = {0};
    spsh_status rc = list_files(view, format, &list, NULL);
    if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
        rc = SPSH_OK; /* the layout that scans the file reports it if it is unreadable */
    else if (rc == SPSH_E_NO_MEMORY)
        rc = SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < list.count && i < PROBE_FILES && rc == SPSH_OK; i++) {
        rc = spsh__json_manifest_fits(view, list.paths[i], format, &ret_probe->matches, err);
        if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY)
            rc = SPSH_OK; /* the scan reports it */
        if (!ret_probe->matches)
            continue;
        spsh__probe_evidence(ret_probe, "%.80s is %s: its lines are objects with '%s'",
                             list.paths[i], format->title, format->keys[0].name);
        break;
    }
    spsh__path_list_free(&list);
    return rc;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

spsh_bytes spsh__split_of_name(const char *name)
{
    static const struct {
        const char *word, *split;
    } words[] = {
        {"train",      "train"     },
        {"dev",        "dev"       },
        {"test",       "test"      },
        {"validation", "validation"},
        {"valid",      "validation"},
        {"val",        "validation"},
    };
    for (const char *at = name; *at != '\0';) {
        size_t length = 0;
        while (is_letter(at[length]))
            length++;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            if (spsh__bytes_equal_nocase((spsh_bytes){(const uint8_t *)at, length},
                                         spsh__bytes_of(words[i].word)))
                return spsh__bytes_of(words[i].split);
        }
        at += length == 0 ? 1 : length;
    }
    return (spsh_bytes){0};
}

bool spsh__split_of_root(const spsh__view *view, spsh_bytes *ret_split)
{
    spsh__builder name = {0};
    spsh__view_folder_name(view, "", &name);
    const char *text = spsh__builder_text(&name);
    if (text != NULL)
        *ret_split = spsh__split_of_name(text);
    spsh__builder_free(&name);
    return text != NULL;
}

/* NULL, or a message about a value whose type does not fit its role. */
static const char *kind_problem(const manifest_scan *m, const spsh__json_value *values,
                                char buffer[SPSH__JSON_KIND_PROBLEM_BYTES])
{
    static const unsigned kinds[SPSH__JSON_ROLES] = {
        [SPSH__JSON_AUDIO] = SPSH__JSON_STRINGS,  [SPSH__JSON_ID] = SPSH__JSON_NAMES,
        [SPSH__JSON_TEXT] = SPSH__JSON_STRINGS,   [SPSH__JSON_TEXT_FILE] = SPSH__JSON_STRINGS,
        [SPSH__JSON_DOMAIN] = SPSH__JSON_NAMES,   [SPSH__JSON_SPEAKER] = SPSH__JSON_NAMES,
        [SPSH__JSON_LANGUAGE] = SPSH__JSON_NAMES, [SPSH__JSON_START] = SPSH__JSON_TIMES,
        [SPSH__JSON_END] = SPSH__JSON_TIMES,      [SPSH__JSON_DURATION] = SPSH__JSON_TIMES,
        [SPSH__JSON_SKIP] = SPSH__JSON_FLAGS,     [SPSH__JSON_SHARD] = SPSH__JSON_NAMES,
    };
    const char *problem = NULL;
    for (size_t role = 0; role < SPSH__JSON_ROLES && problem == NULL; role++) {
        const spsh__json_value *value = m->roles[role];
        if (value != NULL)
            problem =
                spsh__json_kind_problem(value, &m->names[value - values], &kinds[role], 1, buffer);
    }
    return problem;
}

/* Unescape the strings of the line. A number counts as its digits. */
static void take_texts(manifest_scan *m)
{
    for (size_t role = 0; role < NAME_ROLES_COUNT; role++) {
        const spsh__json_value *value = m->roles[role];
        if (value == NULL)
            m->texts[role] = (spsh_bytes){0};
        else if (role >= SPSH__JSON_DOMAIN)
            m->texts[role] = spsh__strings_json_name(m->scan, value);
        else
            m->texts[role] = value->kind == SPSH__JSON_NUMBER
                                 ? value->raw
                                 : spsh__strings_json_text(m->scan, value);
    }
}

static spsh__row_time role_time(const manifest_scan *m, spsh__json_role role)
{
    spsh__row_time time = {SPSH__TIME_ABSENT, 0};
    if (m->roles[role] != NULL)
        time.result = spsh__json_seconds(m->roles[role], &time.ns);
    return time;
}

/* Collect the extras: unknown members, and keys whose role another key took. */
static spsh_bytes make_extras(manifest_scan *m, const spsh__jsonl_line *line, bool cut)
{
    spsh__builder *extras = spsh__strings_open(m->scan);
    spsh__builder_append_bytes(extras, line->extras);
    if (extras->size_bytes > 0)
        extras->size_bytes--; /* the closing brace */
    for (size_t i = 0; i < m->format->key_count; i++) {
        const spsh__json_role role = m->format->keys[i].role;
        const spsh__json_value *value = &line->values[i];
        const bool unused = m->roles[role] != value || (role == SPSH__JSON_DURATION && !cut) ||
                            role == SPSH__JSON_SHARD;
        if (unused)
            spsh__json_value_member(extras, 0, m->format->keys[i].name, value);
    }
    spsh__json_close(extras, 0);
    return spsh__strings_close(m->scan);
}

static spsh_bytes make_id(manifest_scan *m, const spsh__row_segment *s)
{
    const spsh_bytes written = m->texts[SPSH__JSON_AUDIO];
    spsh_bytes plain = {0};
    if (m->texts[SPSH__JSON_ID].size_bytes > 0)
        return m->texts[SPSH__JSON_ID];
    if (m->members != NULL) {
        plain = spsh__strings_path(m->scan, spsh__bytes_of(m->members->folder), written);
    } else {
        spsh__audio_plain_path(m->resolver, written, spsh__strings_open(m->scan));
        plain = spsh__strings_close(m->scan);
    }
    const spsh_bytes stem = {plain.data, spsh__audio_stem(plain)};
    return spsh__row_segment_id(m->scan, spsh__strings_name(m->scan, stem), s);
}

/* Path of the text file, relative to the manifest's folder like the audio's path. */
static const char *take_text_path(manifest_scan *m)
{
    const spsh_bytes written = m->texts[SPSH__JSON_TEXT_FILE];
    return written.size_bytes == 0 || m->texts[SPSH__JSON_TEXT].size_bytes > 0 ||
                   memchr(written.data, '\0', written.size_bytes) != NULL
               ? NULL
               : spsh__text_of(SPSH__JOIN(m->scan, written));
}

/* --domain column:NAME may name a key that the format does not know. */
static spsh_bytes take_domain(manifest_scan *m, const spsh__jsonl_line *line)
{
    if (m->scan->domain_rule == SPSH__DOMAIN_COLUMN)
        return spsh__strings_json_column(m->scan, line->raw);
    const spsh_bytes domain = m->texts[SPSH__JSON_DOMAIN];
    return domain.size_bytes > 0 ? domain : m->texts[SPSH__JSON_LANGUAGE];
}

/** The audio of a line: a file of the view, or a piece. */
typedef struct line_audio {
    const char *path; /* NULL: a piece */
    spsh__piece piece;
    spsh_bytes source;
    uint64_t size_bytes;
} line_audio;

static spsh_status emit_line(manifest_scan *m, const spsh__jsonl_line *line,
                             const line_audio *audio, const spsh__row_segment *s,
                             const spsh__row_place *place, spsh_error *err)
{
    const spsh_bytes text = m->texts[SPSH__JSON_TEXT];
    spsh_ingest_item item = {
        .audio_path = audio->path,
        .audio = audio->piece,
        .source = audio->source,
        .recording_id = audio->source,
        .id = make_id(m, s),
        .has_text = text.size_bytes > 0,
        .text = text,
        .text_path = take_text_path(m),
        .domain = take_domain(m, line),
        .split = m->split,
        .speaker = m->texts[SPSH__JSON_SPEAKER],
        .language = m->texts[SPSH__JSON_LANGUAGE],
        .extras = make_extras(m, line, s->given),
        .start_ns = s->start_ns,
        .end_ns = s->end_ns,
        .expected_ns = s->expected_ns,
        .source_bytes = audio->size_bytes,
    };
    return spsh__scan_emit(m->scan, &item, place, err);
}

static spsh_status reject_line(manifest_scan *m, spsh_reject_reason reason, const char *detail,
                               const spsh__row_place *place, spsh_error *err)
{
    const spsh_reject reject = {
        .reason = reason,
        .source = m->texts[SPSH__JSON_AUDIO],
        .id = m->texts[SPSH__JSON_ID],
        .detail = detail,
        .rows = reason == SPSH_REJECT_EXCLUDED_BY_RULE ? 0 : 1,
    };
    return spsh__scan_reject(m->scan, &reject, place, err);
}

/* Find audio in a file. SPSH_E_END: not found, and reported. */
static spsh_status find_file(manifest_scan *m, const spsh__row_place *place, line_audio *ret_audio,
                             spsh_error *err)
{
    spsh__audio_file file;
    spsh_reject reject;
    spsh_status rc = spsh__audio_resolve(m->resolver, m->texts[SPSH__JSON_AUDIO], &file, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh__audio_refused(&file, &reject)) {
        rc = reject_line(m, reject.reason, reject.detail, place, err);
        return rc == SPSH_OK ? SPSH_E_END : rc;
    }
    *ret_audio = (line_audio){.path = file.path,
                              .source = spsh__strings_name(m->scan, spsh__bytes_of(file.path)),
                              .size_bytes = file.size_bytes};
    return SPSH_OK;
}

/* Find the audio in an archive member. */
static spsh_status find_member(manifest_scan *m, const spsh__row_place *place,
                               line_audio *ret_audio, spsh_error *err)
{
    spsh__json_archived member = {0};
    spsh_status rc = m->members->find_fn(m->members->user, m->texts[SPSH__JSON_AUDIO],
                                         m->roles[SPSH__JSON_SHARD], &member, err);
    if (rc != SPSH_OK)
        return rc;
    if (!member.found) {
        rc = reject_line(m, SPSH_REJECT_MISSING_AUDIO, member.detail, place, err);
        return rc == SPSH_OK ? SPSH_E_END : rc;
    }
    *ret_audio = (line_audio){
        .piece = member.piece, .source = member.source, .size_bytes = member.piece.size_bytes};
    return SPSH_OK;
}

/* Handle a valid line. Its roles and strings are set. */
static spsh_status scan_row(manifest_scan *m, const spsh__jsonl_line *line,
                            const spsh__row_place *place, spsh_error *err)
{
    line_audio audio = {0};
    spsh__row_segment s;
    if (m->texts[SPSH__JSON_AUDIO].size_bytes == 0)
        return reject_line(m, SPSH_REJECT_MISSING_AUDIO, "the line names no audio", place, err);
    spsh_status rc =
        m->members != NULL ? find_member(m, place, &audio, err) : find_file(m, place, &audio, err);
    if (rc != SPSH_OK)
        return rc == SPSH_E_END ? SPSH_OK : rc;
    if (!spsh__row_segment_take(role_time(m, SPSH__JSON_START), role_time(m, SPSH__JSON_END),
                                role_time(m, SPSH__JSON_DURATION), &s))
        return reject_line(
            m, SPSH_REJECT_SEGMENT_RANGE,
            "times must be seconds of 0 or more, and the end must be after the start", place, err);
    return emit_line(m, line, &audio, &s, place, err);
}

/* Skip a row. Looks up its audio nevertheless, so that the member is not reported as an orphan. */
static spsh_status skip_row(manifest_scan *m, const spsh__row_place *place, spsh_error *err)
{
    spsh__json_archived member = {0};
    spsh_status rc = SPSH_OK;
    if (m->members != NULL && m->texts[SPSH__JSON_AUDIO].size_bytes > 0)
        rc = m->members->find_fn(m->members->user, m->texts[SPSH__JSON_AUDIO],
                                 m->roles[SPSH__JSON_SHARD], &member, err);
    if (rc != SPSH_OK)
        return rc;
    m->scan->skipped_rows++;
    return reject_line(m, SPSH_REJECT_EXCLUDED_BY_RULE, "the manifest marks it as skipped", place,
                       err);
}

static spsh_status scan_line(void *user, const spsh__jsonl_line *line, const spsh__row_place *place,
                             spsh_error *err)
{
    manifest_scan *m = user;
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    take_roles(m->format, line->values, m->roles);
    const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX,
                                .detail = kind_problem(m, line->values, buffer),
                                .rows = 1};
    if (reject.detail != NULL)
        return spsh__scan_reject(m->scan, &reject, place, err);
    take_texts(m);
    if (m->roles[SPSH__JSON_SKIP] != NULL && spsh__json_truthy(m->roles[SPSH__JSON_SKIP]))
        return skip_row(m, place, err);
    return scan_row(m, line, place, err);
}

static spsh_bytes split_of_manifest(const manifest_scan *m, const char *path)
{
    const spsh_bytes split = spsh__split_of_name(spsh__base_name(path));
    return split.size_bytes == 0 && m->members != NULL ? m->members->split : split;
}

static spsh_status scan_manifest(manifest_scan *m, const char *name, spsh_error *err)
{
    m->split = split_of_manifest(m, name);
    const spsh__line_visitor visitor = {
        .names = m->names,
        .name_count = m->format->key_count,
        .line_fn = scan_line,
        .user = m,
        .is_excluded = !spsh__scan_wants_split(m->scan, m->split),
    };
    return spsh__scan_lines(m->scan, name, &visitor, err);
}

/* Scan the manifests among the files. Unreadable files are reported, because they may be manifests.
 */
static spsh_status scan_files(manifest_scan *m, const spsh__path_list *list, spsh_error *err)
{
    size_t taken = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < list->count && rc == SPSH_OK; i++) {
        bool fits = false;
        rc =
            spsh__json_manifest_fits(m->scan->options->view, list->paths[i], m->format, &fits, err);
        if (rc == SPSH_OK && fits) {
            rc = scan_manifest(m, list->paths[i], err);
            taken++;
        } else if (rc != SPSH_OK && rc != SPSH_E_NO_MEMORY) {
            const spsh_reject reject = {.reason = SPSH_REJECT_UNREADABLE,
                                        .source = spsh__bytes_of(list->paths[i]),
                                        .detail = "it may be a manifest"};
            rc = spsh__scan_reject(m->scan, &reject, NULL, err);
        }
    }
    if (rc == SPSH_OK && taken == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: holds no file that is %s",
                       spsh__view_root(m->scan->options->view), m->format->title);
    return rc;
}

spsh_status spsh__json_manifest_read(spsh__scan *scan, const spsh__json_format *format,
                                     const char *path, const spsh__json_archives *members,
                                     spsh_error *err)
{
    manifest_scan m = {.scan = scan, .format = format, .members = members};
    take_names(format, m.names);
    return scan_manifest(&m, path, err);
}

spsh_status spsh__json_manifest_scan(spsh__scan *scan, const spsh__json_format *format,
                                     spsh_error *err)
{
    const spsh__view *view = scan->options->view;
    manifest_scan m = {.scan = scan, .format = format};
    spsh__path_list list = {0};
    spsh_status rc = list_files(view, format, &list, err);
    if (rc == SPSH_OK)
        rc = spsh__audio_resolver_new(view, &m.resolver, err);
    take_names(format, m.names);
    if (rc == SPSH_OK)
        rc = scan_files(&m, &list, err);
    spsh__audio_resolver_free(m.resolver);
    spsh__path_list_free(&list);
    return rc;
}

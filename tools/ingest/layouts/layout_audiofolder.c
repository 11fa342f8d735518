/* layout_audiofolder.c: folders of audio with metadata files, in the format of Hugging Face's
 * AudioFolder.
 *
 *     [<split>/]metadata.csv      header with file_name or <anything>_file_name, RFC 4180
 *     [<split>/]metadata.jsonl    or objects with such a member
 *     [<split>/]...               audio, named relative to the metadata file
 *
 * One walk suffices: it visits a folder before its subfolders. So the rows of a metadata file are
 * known when the walk checks the folders that it describes for audio without a row. Ids are paths
 * relative to the root, because train/1.wav and test/1.wav are both "1.wav" in their metadata
 * files.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/metadata/table_audio.h"
#include "ingest/metadata/table_scan.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/scan/trees.h"
#include "ingest/view/name_index.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define FILE_NAME "file_name"
#define KEY_BYTES ((size_t)80)
#define USED      1U

static const spsh__dialect commas = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};

/** A row in the form that both formats share. */
typedef struct row_values {
    spsh_bytes file, text, id, speaker, language, domain, split, extras;
} row_values;

typedef struct folder_scan {
    spsh__scan *scan;
    spsh__name_index used; /* paths relative to the root that rows have named */
    spsh_bytes folder;     /* current folder, relative to the root, with a '/' */
    spsh_bytes folder_split;
    uint64_t seen;               /* count of metadata files */
    spsh__table_columns columns; /* columns of the metadata file */
    size_t file_at;              /* column that names the audio */
} folder_scan;

/* The column that names the audio, or SIZE_MAX: file_name before <anything>_file_name. */
static size_t file_column(const spsh_bytes *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (spsh__bytes_equal(names[i], spsh__bytes_of(FILE_NAME)))
            return i;
    }
    for (size_t i = 0; i < count; i++) {
        if (spsh__ends_with(names[i], FILE_NAME) &&
            names[i].data[names[i].size_bytes - sizeof(FILE_NAME)] == '_')
            return i;
    }
    return SIZE_MAX;
}

/* Find the audio member of a first JSON line and copy its name to key. Fails if it does not fit. */
static bool file_member(spsh_bytes line, char key[KEY_BYTES])
{
    const char mark[] = FILE_NAME "\"";
    const size_t mark_bytes = sizeof(mark) - 1;
    bool found = false;
    for (size_t i = 0; i + mark_bytes <= line.size_bytes; i++) {
        if (memcmp(line.data + i, mark, mark_bytes) != 0)
            continue;
        size_t begin = i;
        size_t after = i + mark_bytes;
        while (begin > 0 && line.data[begin - 1] != '"' && i - begin < KEY_BYTES)
            begin--;
        while (after < line.size_bytes && line.data[after] == ' ')
            after++;
        const size_t length = i + mark_bytes - 1 - begin;
        const bool plain = length == mark_bytes - 1;
        if (begin == 0 || length >= KEY_BYTES || after == line.size_bytes ||
            line.data[after] != ':' || (!plain && line.data[i - 1] != '_') || (found && !plain))
            continue;
        memcpy(key, line.data + begin, length);
        key[length] = '\0';
        found = true;
        if (plain)
            break;
    }
    return found;
}

/* Name of the innermost folder that is a split. */
static spsh_bytes split_of_folder(const char *folder)
{
    spsh_bytes found = {0};
    for (const char *at = folder; *at != '\0';) {
        const size_t length = strcspn(at, "/");
        const spsh_bytes name = {(const uint8_t *)at, length};
        if (spsh__is_split_name(name))
            found = name;
        at += length + (at[length] == '/');
    }
    return found;
}

/* Path of a file that is named in a folder, which ends in '/' or is empty. */
static spsh_bytes join(folder_scan *f, spsh_bytes folder, spsh_bytes name)
{
    const bool absolute = name.size_bytes > 0 && name.data[0] == '/';
    return SPSH__JOIN(f->scan, absolute ? (spsh_bytes){0} : folder, name);
}

static spsh_status emit_row(folder_scan *f, const row_values *row, spsh_bytes path,
                            const spsh__view_info *info, const spsh__row_place *place,
                            spsh_error *err)
{
    const spsh_bytes stem = {path.data, spsh__audio_stem(path)};
    const spsh_bytes source = spsh__strings_name(f->scan, path);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = source,
        .recording_id = source,
        .id = row->id.size_bytes > 0 ? row->id : spsh__strings_name(f->scan, stem),
        .has_text = row->text.size_bytes > 0,
        .text = row->text,
        .domain = row->domain.size_bytes > 0 ? row->domain : row->language,
        .split = row->split,
        .speaker = row->speaker,
        .language = row->language,
        .extras = row->extras,
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = info->size_bytes,
    };
    return spsh__scan_emit(f->scan, &item, place, err);
}

/* Find the row's file below the metadata file's folder. */
static spsh_status scan_values(folder_scan *f, row_values *row, const spsh__row_place *place,
                               spsh_error *err)
{
    spsh__view_info info;
    spsh_reject reject = {
        .reason = SPSH_REJECT_MISSING_AUDIO, .source = row->file, .id = row->id, .rows = 1};
    if (row->file.size_bytes == 0) {
        reject.detail = "the row names no file";
        return spsh__scan_reject(f->scan, &reject, place, err);
    }
    while (row->file.size_bytes > 2 && memcmp(row->file.data, "./", 2) == 0)
        row->file = (spsh_bytes){row->file.data + 2, row->file.size_bytes - 2};
    const spsh_bytes path = join(f, f->folder, row->file);
    if (spsh__name_index_add(&f->used, path, USED) == NULL)
        return SPSH_NO_MEMORY(err);
    if (row->split.size_bytes == 0)
        row->split = f->folder_split;
    if (!spsh__scan_wants_split(f->scan, row->split)) {
        f->scan->excluded_rows++;
        return SPSH_OK;
    }
    reject.source = path;
    const int os_errno = spsh__view_stat(f->scan->options->view, spsh__text_of(path), &info);
    if (os_errno == 0 && info.type == SPSH__VIEW_FOLDER)
        reject.reason = SPSH_REJECT_NOT_REGULAR;
    else if (!spsh__audio_stat_refused(os_errno, &info, &reject))
        return emit_row(f, row, path, &info, place, err);
    return spsh__scan_reject(f->scan, &reject, place, err);
}

static spsh_bytes absent_if_placeholder(spsh_bytes value)
{
    return spsh__is_placeholder(value) ? (spsh_bytes){0} : value;
}

static spsh_bytes field(const folder_scan *f, const spsh__row *row, spsh__column_role role)
{
    return spsh__row_field(row, f->columns.column_of[role]);
}

static spsh_status scan_csv_row(void *user, const spsh__row *row, const spsh__row_place *place,
                                spsh_error *err)
{
    folder_scan *f = user;
    spsh__table_extras(&f->columns, row->fields, row->field_count, spsh__strings_open(f->scan));
    row_values values = {
        .file = spsh__row_field(row, f->file_at),
        .text = field(f, row, SPSH__COLUMN_TEXT),
        .id = absent_if_placeholder(field(f, row, SPSH__COLUMN_ID)),
        .speaker = absent_if_placeholder(field(f, row, SPSH__COLUMN_SPEAKER)),
        .language = absent_if_placeholder(field(f, row, SPSH__COLUMN_LANGUAGE)),
        .domain = absent_if_placeholder(field(f, row, SPSH__COLUMN_DOMAIN)),
        .split = absent_if_placeholder(field(f, row, SPSH__COLUMN_SPLIT)),
        .extras = spsh__strings_close(f->scan),
    };
    return scan_values(f, &values, place, err);
}

/* Parse a header. The audio column is renamed to file_name. */
static spsh_status take_header(void *user, const spsh__row *row, spsh_error *err)
{
    folder_scan *f = user;
    f->file_at = row->problem != NULL ? SIZE_MAX : file_column(row->fields, row->field_count);
    if (f->file_at == SIZE_MAX)
        return SPSH_E_END;
    spsh_bytes *names = malloc(row->field_count * sizeof(*names));
    if (names == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(names, row->fields, row->field_count * sizeof(*names));
    names[f->file_at] = spsh__bytes_of(FILE_NAME);
    spsh_status rc = spsh__table_columns_parse(names, row->field_count, NULL, &f->columns, err);
    free(names);
    return rc == SPSH_OK ? spsh__table_note_unused(f->scan, "metadata.csv", &f->columns, err) : rc;
}

static spsh_status scan_csv(folder_scan *f, const char *path, spsh_error *err)
{
    const spsh__row_visitor visitor = {
        .dialect = commas,
        .header_fn = take_header,
        .row_fn = scan_csv_row,
        .user = f,
        .column_count = &f->columns.count,
        .is_required = true,
    };
    const spsh_status rc = spsh__scan_file_rows(f->scan, path, &visitor, err);
    spsh__table_columns_free(&f->columns);
    return rc;
}

/* Roles of members. Alternatives for one role are adjacent, the preferred one first. */
enum {
    FILE_MEMBER,
    TEXT_FIRST,
    TEXT_END = TEXT_FIRST + 5,
    ID_MEMBER = TEXT_END,
    SPEAKER_FIRST,
    SPEAKER_END = SPEAKER_FIRST + 3,
    LANGUAGE_FIRST = SPEAKER_END,
    LANGUAGE_END = LANGUAGE_FIRST + 3,
    DOMAIN_MEMBER = LANGUAGE_END,
    SPLIT_MEMBER,
    MEMBERS
};

static const char *const member_names[MEMBERS] = {
    FILE_NAME,         "text", "sentence", "transcript", "transcription",
    "normalized_text", "id",   "speaker",  "speaker_id", "client_id",
    "language",        "lang", "locale",   "domain",     "split",
};

static unsigned member_kinds(size_t member)
{
    return member < TEXT_END ? SPSH__JSON_STRINGS : SPSH__JSON_NAMES;
}

/* First available member of the alternatives. */
static spsh_bytes member(folder_scan *f, const spsh__jsonl_line *line, size_t begin, size_t end)
{
    while (begin + 1 < end && line->values[begin].kind <= SPSH__JSON_NULL)
        begin++;
    const spsh__json_value *value = &line->values[begin];
    return member_kinds(begin) == SPSH__JSON_STRINGS ? spsh__strings_json_text(f->scan, value)
                                                     : spsh__strings_json_name(f->scan, value);
}

static spsh_status scan_json_line(void *user, const spsh__jsonl_line *line,
                                  const spsh__row_place *place, spsh_error *err)
{
    folder_scan *f = user;
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    const char *problem = NULL;
    for (size_t i = 0; i < MEMBERS && problem == NULL; i++) {
        const unsigned kinds = member_kinds(i);
        problem = spsh__json_kind_problem(&line->values[i], &member_names[i], &kinds, 1, buffer);
    }
    if (problem != NULL) {
        const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = problem, .rows = 1};
        return spsh__scan_reject(f->scan, &reject, place, err);
    }
    row_values values = {
        .file = member(f, line, FILE_MEMBER, FILE_MEMBER + 1),
        .text = member(f, line, TEXT_FIRST, TEXT_END),
        .id = member(f, line, ID_MEMBER, ID_MEMBER + 1),
        .speaker = member(f, line, SPEAKER_FIRST, SPEAKER_END),
        .language = member(f, line, LANGUAGE_FIRST, LANGUAGE_END),
        .split = member(f, line, SPLIT_MEMBER, SPLIT_MEMBER + 1),
        .domain = member(f, line, DOMAIN_MEMBER, DOMAIN_MEMBER + 1),
        .extras = line->extras,
    };
    return scan_values(f, &values, place, err);
}

static spsh_status scan_jsonl(folder_scan *f, const char *path, const char *file_key,
                              spsh_error *err)
{
    const char *names[MEMBERS];
    const spsh__line_visitor visitor = {names, MEMBERS, scan_json_line, f, false, NULL};
    memcpy(names, member_names, sizeof(names));
    names[FILE_MEMBER] = file_key;
    return spsh__scan_lines(f->scan, path, &visitor, err);
}

/** The metadata file of a folder. */
typedef struct metadata {
    const char *name; /* NULL: no metadata file */
    bool is_jsonl;
    char key[KEY_BYTES]; /* the column or member that names the audio */
} metadata;

/* Find the audio column in a header. */
static spsh_status read_key(const uint8_t *head, size_t size_bytes, metadata *m, bool *ret_found,
                            spsh_error *err)
{
    const spsh__text_memory memory = {head, size_bytes};
    const spsh__text_input input = spsh__text_input_memory(&memory, m->name);
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(&input, &commas, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK && row.problem == NULL) {
        const size_t file_at = file_column(row.fields, row.field_count);
        *ret_found = file_at != SIZE_MAX;
        if (*ret_found)
            (void)snprintf(m->key, sizeof(m->key), "%.*s", (int)row.fields[file_at].size_bytes,
                           (const char *)row.fields[file_at].data);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* Whether the first line of the file at path has a member or column for the audio. An unreadable
 * file does not match. */
static spsh_status check_metadata(const spsh__view *view, const char *path, metadata *m,
                                  bool *ret_found, spsh_error *err)
{
    uint8_t head[16384];
    size_t size_bytes = 0;
    *ret_found = false;
    if (!spsh__view_has_file(view, path))
        return SPSH_OK;
    const spsh_status rc = spsh__text_file_head(view, path, head, sizeof(head), &size_bytes, NULL);
    if (rc != SPSH_OK)
        return rc == SPSH_E_NO_MEMORY ? SPSH_NO_MEMORY(err) : SPSH_OK;
    const uint8_t *end = size_bytes == 0 ? NULL : memchr(head, '\n', size_bytes);
    if (end != NULL)
        size_bytes = (size_t)(end - head);
    if (!m->is_jsonl)
        return read_key(head, size_bytes, m, ret_found, err);
    *ret_found = file_member((spsh_bytes){head, size_bytes}, m->key);
    return SPSH_OK;
}

/* Find the metadata file of a folder: metadata.csv, then metadata.jsonl. */
static spsh_status find_metadata(const spsh__view *view, const char *folder, metadata *ret_metadata,
                                 spsh_error *err)
{
    static const char *const names[] = {"metadata.csv", "metadata.jsonl"};
    spsh_status rc = SPSH_OK;
    *ret_metadata = (metadata){0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == SPSH_OK; i++) {
        metadata m = {.name = names[i], .is_jsonl = i == 1};
        bool found = false;
        spsh__builder builder = {0};
        spsh__builder_append_part(&builder, folder);
        spsh__builder_append_part(&builder, m.name);
        const char *path = spsh__builder_text(&builder);
        rc = path == NULL ? SPSH_NO_MEMORY(err) : check_metadata(view, path, &m, &found, err);
        spsh__builder_free(&builder);
        if (found) {
            *ret_metadata = m;
            break;
        }
    }
    return rc;
}

static spsh_status scan_metadata(folder_scan *f, const spsh__folder *folder, const metadata *m,
                                 spsh_error *err)
{
    const char *path = spsh__text_of(SPSH__JOIN(f->scan, f->folder, spsh__bytes_of(m->name)));
    f->folder_split = split_of_folder(folder->path);
    f->seen++;
    return m->is_jsonl ? scan_jsonl(f, path, m->key, err) : scan_csv(f, path, err);
}

/* Reject audio that no row of the metadata above it named. */
static spsh_status reject_unnamed(folder_scan *f, const spsh__folder *folder, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        const spsh__strings_mark mark = spsh__strings_here(f->scan);
        const spsh_bytes name = spsh__bytes_of(folder->entries[i].name);
        if (!spsh__is_audio_name(name))
            continue;
        const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                    .source = SPSH__JOIN(f->scan, f->folder, name),
                                    .detail = "no row names it"};
        if (spsh__name_index_find(&f->used, reject.source) == NULL)
            rc = spsh__scan_reject(f->scan, &reject, NULL, err);
        spsh__strings_release(f->scan, mark);
    }
    return rc;
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    folder_scan *f = user;
    const spsh__strings_mark mark = spsh__strings_here(f->scan);
    metadata m;
    f->folder = SPSH__JOIN(f->scan, spsh__bytes_of(folder->path),
                           spsh__bytes_of(folder->path[0] == '\0' ? "" : "/"));
    spsh_status rc = find_metadata(folder->view, folder->path, &m, err);
    if (rc == SPSH_OK && m.name != NULL)
        rc = scan_metadata(f, folder, &m, err);
    if (rc == SPSH_OK)
        rc = reject_unnamed(f, folder, err);
    spsh__strings_release(f->scan, mark);
    return rc;
}

static spsh_status audiofolder_scan(spsh__scan *scan, spsh_error *err)
{
    folder_scan f = {.scan = scan};
    const spsh__walk_visitor visitor = {scan_folder, &f, spsh__scan_walk_note, scan};
    spsh_status rc = spsh__walk(scan->options->view, &visitor, err);
    if (rc == SPSH_OK && f.seen == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: no metadata.csv or metadata.jsonl with a file_name",
                       spsh__view_root(scan->options->view));
    spsh__name_index_free(&f.used);
    return rc;
}

static spsh_status check_folder(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    metadata m;
    spsh_status rc = find_metadata(folder, "", &m, err);
    *ret_is_tree = rc == SPSH_OK && m.name != NULL;
    return rc;
}

static spsh_status report_metadata(const spsh__view *view, const char *path,
                                   spsh_layout_probe *probe, spsh_error *err)
{
    metadata m;
    spsh_status rc = find_metadata(view, path, &m, err);
    if (rc != SPSH_OK || m.name == NULL)
        return rc;
    probe->matches = true;
    spsh__probe_evidence(probe, "%.80s%s%s has the %s '%.60s'", path, path[0] == '\0' ? "" : "/",
                         m.name, m.is_jsonl ? "member" : "column", m.key);
    return SPSH_OK;
}

static spsh_status audiofolder_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                     spsh_error *err)
{
    spsh__path_list trees = {0};
    const spsh__tree_search search = {.view = view, .check_fn = check_folder};
    spsh_status rc = spsh__trees_find(&search, &trees, err);
    if (rc != SPSH_OK)
        return rc;
    if (trees.count > 0)
        rc = report_metadata(view, trees.paths[0], ret_probe, err);
    spsh__path_list_free(&trees);
    return rc;
}

const spsh_layout spsh__layout_audiofolder = {
    .name = "audiofolder",
    .summary = "audio with metadata.csv or metadata.jsonl (file_name), one a split if wanted",
    .tier = SPSH_LAYOUT_FORMAT,
    .probe_fn = audiofolder_probe,
    .without_columns = "an AudioFolder",
    .scan_fn = audiofolder_scan,
};

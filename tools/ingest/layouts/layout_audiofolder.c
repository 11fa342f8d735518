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
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "common/jsonl.h"
#include "ingest/metadata/table_scan.h"
#include "ingest/scan/scan.h"
#include "ingest/scan/trees.h"
#include "ingest/view/name_index.h"
#include "ingest/view/text_file.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define FILE_NAME "file_name"
#define KEY_BYTES ((size_t)80)
#define USED      1U

/** A row in the form that both formats share. */
typedef struct row_values {
    spsh_bytes file, text, id, speaker, language, domain, split, extras;
    bool has_text;
} row_values;

typedef struct folder_scan {
    spsh__scan *scan;
    spsh__name_index used; /* paths relative to the root that rows have named */
    const char *folder;    /* folder of the current metadata file, relative to the root */
    spsh_bytes folder_split;
    uint64_t seen; /* count of metadata files */
    spsh__builder prefix, place, relative, source, id, extras, strings[7];
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
        size_t behind = i + mark_bytes;
        while (begin > 0 && line.data[begin - 1] != '"' && i - begin < KEY_BYTES)
            begin--;
        while (behind < line.size_bytes && line.data[behind] == ' ')
            behind++;
        const size_t length = i + mark_bytes - 1 - begin;
        const bool plain = length == mark_bytes - 1;
        if (begin == 0 || length >= KEY_BYTES || behind == line.size_bytes ||
            line.data[behind] != ':' || (!plain && line.data[i - 1] != '_') || (found && !plain))
            continue;
        memcpy(key, line.data + begin, length);
        key[length] = '\0';
        found = true;
        if (plain)
            break;
    }
    return found;
}

/* Read the first line of the file, at most *size_bytes of it. */
static spsh_status read_head(const spsh__view *view, const char *path, uint8_t *head,
                             size_t *size_bytes, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh_status rc = spsh__text_file_open(view, path, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = input.read_at_fn(input.user, 0, head, *size_bytes, size_bytes, err);
    spsh__text_file_close(&file);
    const uint8_t *end = *size_bytes == 0 ? NULL : memchr(head, '\n', *size_bytes);
    if (end != NULL)
        *size_bytes = (size_t)(end - head);
    return rc;
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

static void join(spsh__builder *out, spsh_bytes before, spsh_bytes name)
{
    spsh__builder_clear(out);
    if (name.size_bytes == 0 || name.data[0] != '/')
        spsh__builder_append_bytes(out, before);
    spsh__builder_append_bytes(out, name);
}

static spsh_status emit_row(folder_scan *f, const row_values *row, const spsh__view_info *info,
                            const spsh__row_place *place, spsh_error *err)
{
    const spsh_bytes relative = spsh__builder_bytes(&f->relative);
    const spsh_bytes stem = {relative.data, spsh__audio_stem(relative)};
    spsh__builder_clear(&f->source);
    spsh__name_append(&f->source, relative);
    spsh__builder_clear(&f->id);
    if (row->id.size_bytes == 0)
        spsh__name_append(&f->id, stem);
    if (f->source.failed || f->id.failed)
        return SPSH_NO_MEMORY(err);
    spsh_ingest_item item = {
        .audio_path = (const char *)f->relative.data,
        .source = spsh__builder_bytes(&f->source),
        .recording_id = spsh__builder_bytes(&f->source),
        .id = row->id.size_bytes > 0 ? row->id : spsh__builder_bytes(&f->id),
        .has_text = row->has_text,
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
    join(&f->relative, spsh__builder_bytes(&f->prefix), row->file);
    const char *path = spsh__builder_text(&f->relative);
    if (path == NULL ||
        spsh__name_index_add(&f->used, spsh__builder_bytes(&f->relative), USED) == NULL)
        return SPSH_NO_MEMORY(err);
    if (row->split.size_bytes == 0)
        row->split = f->folder_split;
    if (!spsh__scan_wants_split(f->scan, row->split)) {
        f->scan->excluded_rows++;
        return SPSH_OK;
    }
    reject.source = spsh__builder_bytes(&f->relative);
    const int error = spsh__view_stat(f->scan->options->view, path, &info);
    if (error != 0) {
        const bool absent = error == ENOENT || error == ENOTDIR;
        reject.reason = absent ? SPSH_REJECT_MISSING_AUDIO : SPSH_REJECT_UNREADABLE;
        reject.detail = absent ? NULL : strerror(error);
        return spsh__scan_reject(f->scan, &reject, place, err);
    }
    if (info.type != SPSH__VIEW_FILE) {
        reject.reason = SPSH_REJECT_NOT_REGULAR;
        return spsh__scan_reject(f->scan, &reject, place, err);
    }
    return emit_row(f, row, &info, place, err);
}

static spsh_bytes absent_if_placeholder(spsh_bytes value)
{
    return spsh__is_placeholder(value) ? (spsh_bytes){0} : value;
}

static spsh_bytes field(const spsh__table_columns *columns, const spsh__row *row,
                        spsh__column_role role)
{
    return spsh__row_field(row, columns->column_of[role]);
}

static spsh_status scan_csv_row(folder_scan *f, const spsh__table_columns *columns, size_t file_at,
                                const spsh__row *row, spsh_error *err)
{
    const spsh__row_place place = {spsh__builder_bytes(&f->place), row->line, row->offset_bytes,
                                   row->raw};
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = row->problem, .rows = 1};
    if (spsh__row_is_blank(row))
        return SPSH_OK;
    if (row->problem == NULL && row->field_count > columns->count) {
        reject.reason = SPSH_REJECT_ROW_FIELD_COUNT;
        reject.detail = "the row has more fields than the header";
    }
    if (reject.detail != NULL)
        return spsh__scan_reject(f->scan, &reject, &place, err);
    spsh__builder_clear(&f->extras);
    spsh__table_extras(columns, row->fields, row->field_count, &f->extras);
    if (f->extras.failed)
        return SPSH_NO_MEMORY(err);
    row_values values = {
        .file = spsh__row_field(row, file_at),
        .text = field(columns, row, SPSH__COLUMN_TEXT),
        .id = absent_if_placeholder(field(columns, row, SPSH__COLUMN_ID)),
        .speaker = absent_if_placeholder(field(columns, row, SPSH__COLUMN_SPEAKER)),
        .language = absent_if_placeholder(field(columns, row, SPSH__COLUMN_LANGUAGE)),
        .domain = absent_if_placeholder(field(columns, row, SPSH__COLUMN_DOMAIN)),
        .split = absent_if_placeholder(field(columns, row, SPSH__COLUMN_SPLIT)),
        .extras = spsh__builder_bytes(&f->extras),
    };
    values.has_text = values.text.size_bytes > 0;
    return scan_values(f, &values, &place, err);
}

/* Parse a header. The audio column is renamed to file_name. */
static spsh_status read_header(spsh__row_reader *reader, spsh__table_columns *columns,
                               size_t *ret_file_at, spsh_error *err)
{
    spsh__row row;
    *ret_file_at = SIZE_MAX;
    spsh_status rc = spsh__row_reader_next(reader, &row, err);
    if (rc != SPSH_OK || row.problem != NULL)
        return rc == SPSH_E_END ? SPSH_OK : rc;
    *ret_file_at = file_column(row.fields, row.field_count);
    if (*ret_file_at == SIZE_MAX)
        return SPSH_OK;
    spsh_bytes *names = malloc(row.field_count * sizeof(*names));
    if (names == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(names, row.fields, row.field_count * sizeof(*names));
    names[*ret_file_at] = spsh__bytes_of(FILE_NAME);
    rc = spsh__table_columns_parse(names, row.field_count, NULL, columns, err);
    free(names);
    return rc;
}

static spsh_status scan_csv(folder_scan *f, const spsh__text_input *input, spsh_error *err)
{
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};
    spsh__row_reader *reader = NULL;
    spsh__table_columns columns = {0};
    spsh__row row;
    size_t file_at = SIZE_MAX;
    spsh_status rc = spsh__row_reader_new(input, &dialect, &reader, err);
    if (rc == SPSH_OK)
        rc = read_header(reader, &columns, &file_at, err);
    if (rc == SPSH_OK && file_at != SIZE_MAX)
        rc = spsh__table_note_unused(f->scan, "metadata.csv", &columns, err);
    while (rc == SPSH_OK && file_at != SIZE_MAX &&
           (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        rc = scan_csv_row(f, &columns, file_at, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(f->scan, 1, err);
    }
    spsh__row_reader_free(reader);
    spsh__table_columns_free(&columns);
    return rc == SPSH_E_END ? SPSH_OK : rc;
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
static spsh_bytes member(folder_scan *f, const spsh__jsonl_line *line, size_t begin, size_t end,
                         size_t string)
{
    spsh__builder_clear(&f->strings[string]);
    while (begin + 1 < end && line->values[begin].kind <= SPSH__JSON_NULL)
        begin++;
    return spsh__json_name(&line->values[begin], &f->strings[string]);
}

static spsh_status scan_json_line(folder_scan *f, const spsh__jsonl_line *line, spsh_error *err)
{
    const spsh__row_place place = {spsh__builder_bytes(&f->place), line->line, line->offset_bytes,
                                   line->raw};
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    const char *problem = line->problem;
    for (size_t i = 0; i < MEMBERS && problem == NULL; i++) {
        const unsigned kinds = member_kinds(i);
        problem = spsh__json_kind_problem(&line->values[i], &member_names[i], &kinds, 1, buffer);
    }
    if (problem != NULL) {
        const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = problem, .rows = 1};
        return spsh__scan_reject(f->scan, &reject, &place, err);
    }
    row_values values = {
        .file = member(f, line, FILE_MEMBER, FILE_MEMBER + 1, 0),
        .text = member(f, line, TEXT_FIRST, TEXT_END, 1),
        .id = absent_if_placeholder(member(f, line, ID_MEMBER, ID_MEMBER + 1, 2)),
        .speaker = absent_if_placeholder(member(f, line, SPEAKER_FIRST, SPEAKER_END, 3)),
        .language = absent_if_placeholder(member(f, line, LANGUAGE_FIRST, LANGUAGE_END, 4)),
        .split = absent_if_placeholder(member(f, line, SPLIT_MEMBER, SPLIT_MEMBER + 1, 5)),
        .domain = absent_if_placeholder(member(f, line, DOMAIN_MEMBER, DOMAIN_MEMBER + 1, 6)),
        .extras = line->extras,
    };
    values.has_text = values.text.size_bytes > 0;
    for (size_t i = 0; i < sizeof(f->strings) / sizeof(f->strings[0]); i++) {
        if (f->strings[i].failed)
            return SPSH_NO_MEMORY(err);
    }
    return scan_values(f, &values, &place, err);
}

static spsh_status scan_jsonl(folder_scan *f, const spsh__text_input *input, const char *file_key,
                              spsh_error *err)
{
    const char *names[MEMBERS];
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    memcpy(names, member_names, sizeof(names));
    names[FILE_MEMBER] = file_key;
    spsh_status rc = spsh__jsonl_reader_new(input, names, MEMBERS, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__jsonl_reader_next(reader, &line, err)) == SPSH_OK) {
        rc = scan_json_line(f, &line, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(f->scan, 1, err);
    }
    spsh__jsonl_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
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
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(&input, &dialect, &reader, err);
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
    size_t size_bytes = sizeof(head);
    *ret_found = false;
    if (!spsh__view_has_file(view, path))
        return SPSH_OK;
    const spsh_status rc = read_head(view, path, head, &size_bytes, NULL);
    if (rc != SPSH_OK)
        return rc == SPSH_E_NO_MEMORY ? SPSH_NO_MEMORY(err) : SPSH_OK;
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
    spsh__text_file file = {.fd = -1};
    spsh__builder_clear(&f->prefix);
    spsh__builder_append_text(&f->prefix, folder->path);
    if (folder->path[0] != '\0')
        spsh__builder_append(&f->prefix, "/", 1);
    join(&f->place, spsh__builder_bytes(&f->prefix), spsh__bytes_of(m->name));
    const char *path = spsh__builder_text(&f->place);
    if (f->prefix.failed || path == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__text_file_open(folder->view, path, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    f->folder_split = split_of_folder(folder->path);
    f->seen++;
    rc = m->is_jsonl ? scan_jsonl(f, &input, m->key, err) : scan_csv(f, &input, err);
    spsh__text_file_close(&file);
    return rc;
}

/* Reject audio that no row of the metadata above it named. */
static spsh_status reject_unnamed(folder_scan *f, const spsh__folder *folder, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__builder_clear(&f->prefix);
    spsh__builder_append_text(&f->prefix, folder->path);
    if (folder->path[0] != '\0')
        spsh__builder_append(&f->prefix, "/", 1);
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        const spsh_bytes name = spsh__bytes_of(folder->entries[i].name);
        if (!spsh__is_audio_name(name))
            continue;
        join(&f->relative, spsh__builder_bytes(&f->prefix), name);
        if (f->relative.failed)
            return SPSH_NO_MEMORY(err);
        const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                    .source = spsh__builder_bytes(&f->relative),
                                    .detail = "no row names it"};
        if (spsh__name_index_find(&f->used, reject.source) == NULL)
            rc = spsh__scan_reject(f->scan, &reject, NULL, err);
    }
    return rc;
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    folder_scan *f = user;
    metadata m;
    spsh_status rc = find_metadata(folder->view, folder->path, &m, err);
    if (rc == SPSH_OK && m.name != NULL)
        rc = scan_metadata(f, folder, &m, err);
    return rc == SPSH_OK ? reject_unnamed(f, folder, err) : rc;
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
    SPSH__BUILDERS_FREE(&f.prefix, &f.place, &f.relative, &f.source, &f.id, &f.extras);
    for (size_t i = 0; i < sizeof(f.strings) / sizeof(f.strings[0]); i++)
        spsh__builder_free(&f.strings[i]);
    return rc;
}

static spsh_status check_folder(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    metadata m;
    spsh_status rc = find_metadata(folder, "", &m, err);
    *ret_is_tree = rc == SPSH_OK && m.name != NULL;
    return rc;
}

static spsh_status tell_metadata(const spsh__view *view, const char *path, spsh_layout_probe *probe,
                                 spsh_error *err)
{
    metadata m;
    spsh_status rc = find_metadata(view, path, &m, err);
    if (rc != SPSH_OK || m.name == NULL)
        return rc;
    probe->matches = true;
    spsh__probe_say(probe, "%.80s%s%s has the %s '%.60s'", path, path[0] == '\0' ? "" : "/", m.name,
                    m.is_jsonl ? "member" : "column", m.key);
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
        rc = tell_metadata(view, trees.paths[0], ret_probe, err);
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

/* layout_mdc.c: datasets of the Mozilla Data Collective with the schema.yaml that describes them.
 *
 *     schema.yaml                             see mdc_schema.h
 *     [<folder>/]<index_file>                 one row per clip, columns according to the schema
 *     <section_root>/<section>/<index_file>   the same, one in each section
 *
 * Paths of audio and of transcript files are tried in each of the schema's folders in turn. Other
 * kinds of schemas are left to the layouts that recognize these corpora without a schema: tables of
 * splits to Common Voice, and texts next to the audio to the folder layout.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/metadata/mdc_schema.h"
#include "ingest/metadata/table.h"
#include "ingest/scan/trees.h"
#include "ingest/view/text_file.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define HEADER_MAX      ((size_t)256)
#define SPONTANEOUS     "ss-corpus-" /* Common Voice, which has a separate layout */
#define VALUE_OF_ITSELF "value"

typedef enum mdc_role {
    ROLE_AUDIO,
    ROLE_TEXT,
    ROLE_ID,
    ROLE_SPEAKER,
    ROLE_LANGUAGE,
    ROLE_SPLIT,
    ROLE_DOMAIN,
    ROLES
} mdc_role;

/* Column names of each role, in order of priority. */
static const char *const role_names[ROLES][4] = {
    {"audio_path"   },
    {"transcription", "sentence", "text"},
    {"id",         "utterance_id", "audio_id"},
    {"speaker_id",            "speaker", "client_id"},
    {"language",     "lang", "locale"},
    {"split"   },
    {"domain"   },
};

typedef struct mdc_scan {
    spsh__scan *scan;
    const spsh__mdc_schema *schema;
    const char *section;                    /* current section; NULL: no sections */
    size_t role_of[ROLES];                  /* index of the schema's column */
    size_t field_of[SPSH__MDC_COLUMNS_MAX]; /* index of the row's field for a schema column */
    size_t name_at[HEADER_MAX];             /* offsets of the table's own column names in `names` */
    bool is_mapped[HEADER_MAX];             /* the schema names the column */
    size_t header_count;
    spsh__builder root; /* base of paths, in the view */
    spsh__builder place, names, value, folder, path, text_path, source, id, speaker, domain, extras;
} mdc_scan;

static spsh_bytes trim(spsh_bytes text)
{
    while (text.size_bytes > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (spsh_bytes){text.data + 1, text.size_bytes - 1};
    while (text.size_bytes > 0 &&
           (text.data[text.size_bytes - 1] == ' ' || text.data[text.size_bytes - 1] == '\t'))
        text.size_bytes--;
    return text;
}

/* ---- columns ---- */

static size_t find_role(const spsh__mdc_schema *s, mdc_role role)
{
    for (size_t n = 0; n < 4 && role_names[role][n] != NULL; n++) {
        for (size_t i = 0; i < s->column_count; i++) {
            if (strcmp(s->columns[i].name, role_names[role][n]) == 0)
                return i;
        }
    }
    return SPSH__COLUMN_NONE;
}

static spsh_bytes header_name(const mdc_scan *m, size_t field)
{
    return spsh__bytes_of((const char *)m->names.data + m->name_at[field]);
}

static size_t find_field(const mdc_scan *m, spsh_bytes name)
{
    for (size_t i = 0; i < m->header_count; i++) {
        if (spsh__bytes_equal_nocase(header_name(m, i), trim(name)))
            return i;
    }
    return SPSH__COLUMN_NONE;
}

/* Parse a column index, which replaces the name in a table without a header: "0". */
static size_t number_of(const char *text)
{
    uint64_t number = 0;
    const bool is_number = spsh__take_digits(&text, HEADER_MAX - 1, &number) && *text == '\0';
    return is_number ? (size_t)number : SPSH__COLUMN_NONE;
}

/* Map the columns. row: the header, or NULL if the table has no header. */
static spsh_status take_header(mdc_scan *m, const spsh__row *row, spsh_error *err)
{
    const spsh__mdc_schema *s = m->schema;
    spsh__builder_clear(&m->names);
    m->header_count = 0;
    for (size_t i = 0; row != NULL && i < row->field_count && i < HEADER_MAX; i++) {
        m->name_at[i] = m->names.size_bytes;
        m->is_mapped[i] = false;
        spsh__builder_append_bytes(&m->names, trim(row->fields[i]));
        spsh__builder_append(&m->names, "", 1);
        m->header_count++;
    }
    if (m->names.failed)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < s->column_count; i++) {
        m->field_of[i] = row == NULL ? number_of(s->columns[i].source)
                                     : find_field(m, spsh__bytes_of(s->columns[i].source));
        if (row != NULL && m->field_of[i] != SPSH__COLUMN_NONE)
            m->is_mapped[m->field_of[i]] = true;
    }
    for (size_t role = 0; role < ROLES; role++) {
        m->role_of[role] = find_role(s, (mdc_role)role);
        if (m->role_of[role] != SPSH__COLUMN_NONE &&
            m->field_of[m->role_of[role]] == SPSH__COLUMN_NONE)
            m->role_of[role] = SPSH__COLUMN_NONE;
    }
    if (m->role_of[ROLE_AUDIO] != SPSH__COLUMN_NONE)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                     "%.*s: has no column '%.60s', where " SPSH__MDC_SCHEMA_FILE
                     " says that the audio is",
                     (int)m->place.size_bytes, (const char *)m->place.data,
                     s->columns[find_role(s, ROLE_AUDIO)].source);
}

static spsh_bytes role_value(const mdc_scan *m, const spsh__row *row, mdc_role role)
{
    const size_t column = m->role_of[role];
    const spsh_bytes value =
        column == SPSH__COLUMN_NONE ? (spsh_bytes){0} : spsh__row_field(row, m->field_of[column]);
    return spsh__is_placeholder(value) ? (spsh_bytes){0} : value;
}

/* ---- files ---- */

/* Expand "${Speaker ID}_${value}" with the values of the row. */
static void fill_in(const mdc_scan *m, const char *pattern, const spsh__row *row, spsh_bytes value,
                    spsh__builder *out)
{
    while (*pattern != '\0') {
        const char *begin = strstr(pattern, "${");
        const char *end = begin == NULL ? NULL : strchr(begin, '}');
        if (end == NULL) {
            spsh__builder_append_text(out, pattern);
            return;
        }
        const spsh_bytes name = {(const uint8_t *)begin + 2, (size_t)(end - begin - 2)};
        spsh__builder_append(out, pattern, (size_t)(begin - pattern));
        if (spsh__bytes_equal(name, spsh__bytes_of(VALUE_OF_ITSELF)))
            spsh__builder_append_bytes(out, value);
        else
            spsh__builder_append_bytes(out, trim(spsh__row_field(row, find_field(m, name))));
        pattern = end + 1;
    }
}

/* Write root/folder/value to path. Omits empty parts. */
static const char *join_path(mdc_scan *m, const spsh__row *row, const char *folder,
                             const char *extension, spsh__builder *path)
{
    const spsh_bytes value = spsh__builder_bytes(&m->value);
    spsh__builder_clear(path);
    spsh__builder_clear(&m->folder);
    if (value.size_bytes > 0 && value.data[0] != '/') {
        fill_in(m, folder, row, value, &m->folder);
        while (m->folder.size_bytes > 0 && m->folder.data[m->folder.size_bytes - 1] == '/')
            m->folder.size_bytes--;
        spsh__builder_append_bytes(path, spsh__builder_bytes(&m->root));
        if (path->size_bytes > 0 && m->folder.size_bytes > 0)
            spsh__builder_append(path, "/", 1);
        spsh__builder_append_bytes(path, spsh__builder_bytes(&m->folder));
        if (path->size_bytes > 0)
            spsh__builder_append(path, "/", 1);
    }
    spsh__builder_append_bytes(path, value);
    spsh__builder_append_text(path, extension);
    return m->folder.failed || m->value.failed ? NULL : spsh__builder_text(path);
}

typedef struct mdc_file {
    spsh__builder *path; /* the path of the file if found, else the expected path */
    bool found;
    spsh__view_info info;
} mdc_file;

/* Find the file that a column names. */
static spsh_status find_file(mdc_scan *m, const spsh__row *row, size_t column, mdc_file *file,
                             spsh_error *err)
{
    const spsh__mdc_schema *s = m->schema;
    const spsh__mdc_column *c = &s->columns[column];
    const spsh_bytes written = trim(spsh__row_field(row, m->field_of[column]));
    const size_t folder_count = s->audio_folders.count > 0 ? s->audio_folders.count : 1;
    file->found = false;
    spsh__builder_clear(&m->value);
    if (c->path[0] != '\0')
        fill_in(m, c->path, row, written, &m->value);
    else
        spsh__builder_append_bytes(&m->value, written);
    const char *extension =
        spsh__has_extension(spsh__builder_bytes(&m->value), c->extension) ? "" : c->extension;
    for (size_t i = 0; i < 2 * folder_count && !file->found; i++) {
        const char *folder = s->audio_folders.count > 0 ? s->audio_folders.items[i / 2] : "";
        if (i % 2 == 1 && *extension == '\0')
            continue;
        /* Try the path with the extension first, because a folder may have the name without it. */
        const char *text = join_path(m, row, folder, i % 2 == 0 ? extension : "", file->path);
        if (text == NULL)
            return SPSH_NO_MEMORY(err);
        const int os_errno = spsh__view_stat(m->scan->options->view, text, &file->info);
        if (os_errno == ENOMEM)
            return SPSH_NO_MEMORY(err);
        file->found = os_errno == 0 && file->info.type != SPSH__VIEW_FOLDER;
    }
    if (file->found)
        return SPSH_OK;
    const char *first = s->audio_folders.count > 0 ? s->audio_folders.items[0] : "";
    return join_path(m, row, first, extension, file->path) == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* ---- rows ---- */

static void set_extras(mdc_scan *m, const spsh__row *row)
{
    const spsh__mdc_schema *s = m->schema;
    spsh__builder_clear(&m->extras);
    for (size_t i = 0; i < s->column_count; i++) {
        bool has_role = false;
        for (size_t role = 0; role < ROLES && !has_role; role++)
            has_role = m->role_of[role] == i;
        const spsh_bytes value = spsh__row_field(row, m->field_of[i]);
        if (!has_role && value.size_bytes > 0)
            spsh__json_member(&m->extras, 0, spsh__bytes_of(s->columns[i].name), value);
    }
    for (size_t i = 0; i < m->header_count; i++) {
        const spsh_bytes value = spsh__row_field(row, i);
        if (!m->is_mapped[i] && value.size_bytes > 0 && header_name(m, i).size_bytes > 0)
            spsh__json_member(&m->extras, 0, header_name(m, i), value);
    }
    if (m->section != NULL)
        spsh__json_member(&m->extras, 0, spsh__bytes_of("section"), spsh__bytes_of(m->section));
    spsh__json_close(&m->extras, 0);
}

static void set_names(mdc_scan *m, const spsh__row *row, bool has_id)
{
    const spsh_bytes path = spsh__builder_bytes(&m->path);
    const spsh_bytes speaker = role_value(m, row, ROLE_SPEAKER);
    const spsh_bytes domain = role_value(m, row, ROLE_DOMAIN);
    spsh__builder_clear(&m->source);
    spsh__name_append(&m->source, path);
    spsh__builder_clear(&m->id);
    if (!has_id)
        spsh__name_append(&m->id, (spsh_bytes){path.data, spsh__audio_stem(path)});
    spsh__builder_clear(&m->speaker);
    spsh__builder_clear(&m->domain);
    spsh__builder_append_text(&m->domain, "mdc/");
    spsh__builder_append_text(&m->domain, m->schema->dataset_id);
    if (speaker.size_bytes > 0) {
        spsh__builder_append_bytes(&m->speaker, spsh__builder_bytes(&m->domain));
        spsh__builder_append(&m->speaker, "/", 1);
        spsh__builder_append_bytes(&m->speaker, speaker);
    }
    if (domain.size_bytes > 0) {
        spsh__builder_clear(&m->domain);
        spsh__builder_append_bytes(&m->domain, domain);
    }
}

static spsh_status emit_row(mdc_scan *m, const spsh__row *row, const spsh__row_place *place,
                            uint64_t source_bytes, spsh_error *err)
{
    const size_t text_column = m->role_of[ROLE_TEXT];
    const spsh_bytes id = role_value(m, row, ROLE_ID);
    const bool has_file = text_column != SPSH__COLUMN_NONE &&
                          strcmp(m->schema->columns[text_column].dtype, "file_content") == 0;
    mdc_file file = {.path = &m->text_path};
    spsh_bytes text = {0};
    if (text_column != SPSH__COLUMN_NONE)
        text = spsh__row_field(row, m->field_of[text_column]);
    if (has_file && text.size_bytes > 0) {
        spsh_status rc = find_file(m, row, text_column, &file, err);
        if (rc != SPSH_OK)
            return rc;
    }
    set_names(m, row, id.size_bytes > 0);
    set_extras(m, row);
    if (m->source.failed || m->id.failed || m->speaker.failed || m->domain.failed ||
        m->extras.failed)
        return SPSH_NO_MEMORY(err);
    spsh_ingest_item item = {
        .audio_path = (const char *)m->path.data,
        .source = spsh__builder_bytes(&m->source),
        .recording_id = spsh__builder_bytes(&m->source),
        .id = id.size_bytes > 0 ? id : spsh__builder_bytes(&m->id),
        .has_text = !has_file && text.size_bytes > 0,
        .text = has_file ? (spsh_bytes){0} : text,
        .text_path = has_file && text.size_bytes > 0 ? (const char *)m->text_path.data : NULL,
        .domain = spsh__builder_bytes(&m->domain),
        .split = role_value(m, row, ROLE_SPLIT),
        .speaker = spsh__builder_bytes(&m->speaker),
        .language = role_value(m, row, ROLE_LANGUAGE),
        .extras = spsh__builder_bytes(&m->extras),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = source_bytes,
    };
    return spsh__scan_emit(m->scan, &item, place, err);
}

static spsh_status scan_row(mdc_scan *m, const spsh__row *row, spsh_error *err)
{
    const spsh__row_place place = {spsh__builder_bytes(&m->place), row->line, row->offset_bytes,
                                   row->raw};
    const size_t audio = m->role_of[ROLE_AUDIO];
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = row->problem, .rows = 1};
    mdc_file file = {.path = &m->path};
    if (spsh__row_is_blank(row))
        return SPSH_OK;
    if (row->problem == NULL && m->header_count > 0 && row->field_count > m->header_count) {
        reject.reason = SPSH_REJECT_ROW_FIELD_COUNT;
        reject.detail = "the row has more fields than the header";
    }
    if (reject.detail != NULL)
        return spsh__scan_reject(m->scan, &reject, &place, err);
    if (!spsh__scan_wants_split(m->scan, role_value(m, row, ROLE_SPLIT))) {
        m->scan->excluded_rows++;
        return SPSH_OK;
    }
    reject.reason = SPSH_REJECT_MISSING_AUDIO;
    if (trim(spsh__row_field(row, m->field_of[audio])).size_bytes == 0) {
        reject.detail = "the row names no file";
        return spsh__scan_reject(m->scan, &reject, &place, err);
    }
    spsh_status rc = find_file(m, row, audio, &file, err);
    if (rc != SPSH_OK)
        return rc;
    if (file.found && file.info.type == SPSH__VIEW_FILE)
        return emit_row(m, row, &place, file.info.size_bytes, err);
    reject.source = spsh__builder_bytes(&m->path);
    if (file.found)
        reject.reason = SPSH_REJECT_NOT_REGULAR;
    return spsh__scan_reject(m->scan, &reject, &place, err);
}

/* ---- tables ---- */

/* Use the dialect of the schema, else the table's extension. */
static spsh_status find_dialect(const spsh__mdc_schema *s, const spsh__text_input *input,
                                spsh__dialect *ret_dialect, spsh_error *err)
{
    static const char *const names[][2] = {
        {"csv",  "," },
        {"tsv",  "\t"},
        {"tab",  "\t"},
        {"pipe", "|" },
        {"psv",  "|" },
    };
    const char *separator = s->separator;
    const char *dot = strrchr(s->index_file, '.');
    const char *kind = s->format[0] != '\0' ? s->format : dot != NULL ? dot + 1 : "";
    spsh__quoting quoting = SPSH__QUOTING_RFC;
    uint64_t line = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && *separator == '\0'; i++) {
        if (spsh__bytes_equal_nocase(spsh__bytes_of(kind), spsh__bytes_of(names[i][0])))
            separator = names[i][1];
    }
    if (strcmp(separator, "\\t") == 0)
        separator = "\t";
    if (strlen(separator) != 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: " SPSH__MDC_SCHEMA_FILE
                         " has no format (csv, tsv or pipe) or separator of one byte for it",
                         s->index_file);
    /* Texts with commas are quoted. */
    spsh_status rc = *separator == ','
                         ? SPSH_OK
                         : spsh__quoting_decide(input, (uint8_t)*separator, &quoting, &line, err);
    *ret_dialect = (spsh__dialect){
        .kind = quoting == SPSH__QUOTING_RFC ? SPSH__DIALECT_RFC : SPSH__DIALECT_RAW,
        .delimiter = (uint8_t)*separator,
    };
    return rc;
}

static spsh_status scan_rows(mdc_scan *m, const spsh__text_input *input, spsh_error *err)
{
    spsh__dialect dialect;
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = find_dialect(m->schema, input, &dialect, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_new(input, &dialect, &reader, err);
    if (rc == SPSH_OK && m->schema->has_header)
        rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK)
        rc = take_header(m, m->schema->has_header ? &row : NULL, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        rc = scan_row(m, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(m->scan, 1, err);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* Scan the table in root. */
static spsh_status scan_table(mdc_scan *m, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh_error open_error = SPSH_ERROR_INIT;
    spsh__builder_clear(&m->place);
    spsh__builder_append_bytes(&m->place, spsh__builder_bytes(&m->root));
    spsh__builder_append_part(&m->place, m->schema->index_file);
    const char *path = spsh__builder_text(&m->place);
    if (path == NULL || m->root.failed)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__text_file_open(m->scan->options->view, path, &file, &open_error);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK) {
        const spsh_reject reject = {.reason = SPSH_REJECT_UNREADABLE,
                                    .source = spsh__builder_bytes(&m->place),
                                    .detail = open_error.message};
        return spsh__scan_reject(m->scan, &reject, NULL, err);
    }
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = scan_rows(m, &input, err);
    spsh__text_file_close(&file);
    return rc;
}

/* ---- trees ---- */

/* Whether the file with these path parts exists. Omits empty parts. */
static spsh_status look_for(const spsh__view *folder, const char *const parts[3], bool *ret_found,
                            spsh_error *err)
{
    spsh__builder builder = {0};
    for (size_t i = 0; i < 3; i++)
        spsh__builder_append_part(&builder, parts[i]);
    const char *path = spsh__builder_text(&builder);
    spsh_status rc = path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    *ret_found = path != NULL && spsh__view_has_file(folder, path);
    spsh__builder_free(&builder);
    return rc;
}

/* Find the index in the schema's folder, or in the first subfolder that has it, because an archive
 * may have been unpacked there. below: the name of that subfolder. */
static spsh_status find_index(const spsh__view *folder, const spsh__mdc_schema *s,
                              spsh__builder *below, bool *ret_found, spsh_error *err)
{
    spsh__view_entry entry;
    const char *const here[3] = {"", "", s->index_file};
    spsh_status rc = look_for(folder, here, ret_found, err);
    if (*ret_found || rc != SPSH_OK)
        return rc;
    spsh__view_folder *listing = spsh__view_folder_open(folder, "");
    if (listing == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    while (listing != NULL && rc == SPSH_OK && spsh__view_folder_next(listing, &entry)) {
        const char *const there[3] = {entry.name, "", s->index_file};
        bool found = false;
        if (!entry.enters || entry.name[0] == '.' ||
            (*ret_found && strcmp(entry.name, (const char *)below->data) > 0))
            continue;
        rc = look_for(folder, there, &found, err);
        if (!found)
            continue;
        *ret_found = true;
        spsh__builder_clear(below);
        spsh__builder_append_text(below, entry.name);
        if (spsh__builder_text(below) == NULL)
            rc = SPSH_NO_MEMORY(err);
    }
    spsh__view_folder_close(listing);
    return rc;
}

static spsh_status check_schema(const spsh__view *folder, const spsh__mdc_schema *s,
                                bool *ret_is_tree, spsh_error *err)
{
    spsh__builder below = {0};
    spsh_status rc = SPSH_OK;
    const bool is_known = s->index_file[0] != '\0' &&
                          find_role(s, ROLE_AUDIO) != SPSH__COLUMN_NONE &&
                          strncmp(s->index_file, SPONTANEOUS, strlen(SPONTANEOUS)) != 0;
    if (is_known && s->strategy == SPSH__MDC_INDEX)
        rc = find_index(folder, s, &below, ret_is_tree, err);
    for (size_t i = 0; is_known && s->strategy == SPSH__MDC_SECTIONS && i < s->sections.count &&
                       rc == SPSH_OK && !*ret_is_tree;
         i++) {
        const char *const parts[3] = {s->section_root, s->sections.items[i], s->index_file};
        rc = look_for(folder, parts, ret_is_tree, err);
    }
    spsh__builder_free(&below);
    return rc;
}

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    spsh__mdc_schema schema;
    if (!spsh__view_has_file(folder, SPSH__MDC_SCHEMA_FILE))
        return SPSH_OK;
    spsh_status rc = spsh__mdc_schema_read(folder, &schema, NULL);
    if (rc != SPSH_OK) /* a different kind of schema, or an unsupported one */
        return rc == SPSH_E_NO_MEMORY ? SPSH_NO_MEMORY(err) : SPSH_OK;
    rc = check_schema(folder, &schema, ret_is_tree, err);
    spsh__mdc_schema_free(&schema);
    return rc;
}

static void set_root(mdc_scan *m, const char *path, const char *a, const char *b)
{
    spsh__builder_clear(&m->root);
    spsh__builder_append_part(&m->root, path);
    spsh__builder_append_part(&m->root, a);
    spsh__builder_append_part(&m->root, b);
}

static spsh_status scan_schema(mdc_scan *m, const spsh__view *folder, const char *path,
                               spsh_error *err)
{
    const spsh__mdc_schema *s = m->schema;
    spsh__builder below = {0};
    bool found = false;
    spsh_status rc = SPSH_OK;
    if (s->strategy == SPSH__MDC_INDEX) {
        rc = find_index(folder, s, &below, &found, err);
        set_root(m, path, below.size_bytes > 0 ? (const char *)below.data : "", "");
        if (rc == SPSH_OK && found)
            rc = scan_table(m, err);
    }
    for (size_t i = 0; s->strategy == SPSH__MDC_SECTIONS && i < s->sections.count && rc == SPSH_OK;
         i++) {
        m->section = s->sections.items[i];
        set_root(m, path, s->section_root, m->section);
        rc = scan_table(m, err);
    }
    spsh__builder_free(&below);
    return rc;
}

static spsh_status scan_tree(spsh__scan *scan, const char *path, const char *name, spsh_error *err)
{
    spsh__view *folder = NULL;
    spsh__mdc_schema schema = {0};
    (void)name;
    mdc_scan *m = calloc(1, sizeof(*m));
    spsh_status rc =
        m == NULL ? SPSH_NO_MEMORY(err) : spsh__scan_refuse_column(scan, "a schema.yaml", err);
    if (rc == SPSH_OK)
        rc = spsh__view_below(scan->options->view, path, &folder, err);
    if (rc == SPSH_OK)
        rc = spsh__mdc_schema_read(folder, &schema, err);
    if (rc == SPSH_OK) {
        m->scan = scan;
        m->schema = &schema;
        rc = scan_schema(m, folder, path, err);
    }
    if (m != NULL) {
        SPSH__BUILDERS_FREE(&m->root, &m->place, &m->names, &m->value, &m->folder, &m->path,
                            &m->text_path, &m->source, &m->id, &m->speaker, &m->domain, &m->extras);
    }
    free(m);
    spsh__mdc_schema_free(&schema);
    spsh__view_close(folder);
    return rc;
}

static const spsh__tree_layout trees = {"holds " SPSH__MDC_SCHEMA_FILE " and the table it names",
                                        check_tree, scan_tree};

const spsh_layout spsh__layout_mdc = {
    .name = "mdc",
    .summary = "Mozilla Data Collective: schema.yaml and the tables that it describes",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

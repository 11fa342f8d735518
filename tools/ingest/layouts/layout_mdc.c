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

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/metadata/mdc_schema.h"
#include "ingest/metadata/table.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/scan/trees.h"
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
    spsh_bytes header[HEADER_MAX];          /* names of the table's own columns */
    bool is_mapped[HEADER_MAX];             /* the schema names the column */
    size_t header_count;
    spsh_bytes root;   /* base of paths, in the view */
    const char *table; /* path of the table */
} mdc_scan;

static spsh_bytes trim(spsh_bytes text)
{
    return spsh__bytes_trim(text, " \t");
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

static size_t find_field(const mdc_scan *m, spsh_bytes name)
{
    for (size_t i = 0; i < m->header_count; i++) {
        if (spsh__bytes_equal_nocase(m->header[i], trim(name)))
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
static spsh_status map_columns(mdc_scan *m, const spsh__row *row, spsh_error *err)
{
    const spsh__mdc_schema *s = m->schema;
    m->header_count = 0;
    for (size_t i = 0; row != NULL && i < row->field_count && i < HEADER_MAX; i++) {
        m->header[i] = SPSH__JOIN(m->scan, trim(row->fields[i]));
        m->is_mapped[i] = false;
        m->header_count++;
    }
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
                     "%s: has no column '%.60s', where " SPSH__MDC_SCHEMA_FILE
                     " states that the audio is",
                     m->table, s->columns[find_role(s, ROLE_AUDIO)].source);
}

static spsh_status take_header(void *user, const spsh__row *row, spsh_error *err)
{
    return map_columns(user, row, err);
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
static spsh_bytes fill_in(mdc_scan *m, const char *pattern, const spsh__row *row, spsh_bytes value)
{
    spsh__builder *out = spsh__strings_open(m->scan);
    for (const char *begin = strstr(pattern, "${"); begin != NULL; begin = strstr(pattern, "${")) {
        const char *end = strchr(begin, '}');
        if (end == NULL)
            break;
        const spsh_bytes name = {(const uint8_t *)begin + 2, (size_t)(end - begin - 2)};
        spsh__builder_append(out, pattern, (size_t)(begin - pattern));
        if (spsh__bytes_equal(name, spsh__bytes_of(VALUE_OF_ITSELF)))
            spsh__builder_append_bytes(out, value);
        else
            spsh__builder_append_bytes(out, trim(spsh__row_field(row, find_field(m, name))));
        pattern = end + 1;
    }
    spsh__builder_append_text(out, pattern);
    return spsh__strings_close(m->scan);
}

/* Return root/folder/value. Omits empty parts. */
static spsh_bytes join_path(mdc_scan *m, const spsh__row *row, const char *pattern,
                            spsh_bytes value, const char *extension)
{
    const spsh_bytes name = SPSH__JOIN(m->scan, value, spsh__bytes_of(extension));
    if (value.size_bytes == 0 || value.data[0] == '/')
        return name;
    spsh_bytes folder = fill_in(m, pattern, row, value);
    while (folder.size_bytes > 0 && folder.data[folder.size_bytes - 1] == '/')
        folder.size_bytes--;
    return spsh__strings_path(m->scan, spsh__strings_path(m->scan, m->root, folder), name);
}

typedef struct mdc_file {
    spsh_bytes path; /* the path of the file if found, else the expected path */
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
    const spsh_bytes value = c->path[0] != '\0' ? fill_in(m, c->path, row, written) : written;
    const char *extension = spsh__has_extension(value, c->extension) ? "" : c->extension;
    file->found = false;
    for (size_t i = 0; i < 2 * folder_count && !file->found; i++) {
        const char *folder = s->audio_folders.count > 0 ? s->audio_folders.items[i / 2] : "";
        if (i % 2 == 1 && *extension == '\0')
            continue;
        /* Try the path with the extension first, because a folder may have the name without it. */
        const spsh_bytes path = join_path(m, row, folder, value, i % 2 == 0 ? extension : "");
        if (i == 0)
            file->path = path;
        const int os_errno =
            spsh__view_stat(m->scan->options->view, spsh__text_of(path), &file->info);
        if (os_errno == ENOMEM)
            return SPSH_NO_MEMORY(err);
        file->found = os_errno == 0 && file->info.type != SPSH__VIEW_FOLDER;
        if (file->found)
            file->path = path;
    }
    return SPSH_OK;
}

/* ---- rows ---- */

static spsh_bytes make_extras(mdc_scan *m, const spsh__row *row)
{
    const spsh__mdc_schema *s = m->schema;
    spsh__builder *extras = spsh__strings_open(m->scan);
    for (size_t i = 0; i < s->column_count; i++) {
        bool has_role = false;
        for (size_t role = 0; role < ROLES && !has_role; role++)
            has_role = m->role_of[role] == i;
        const spsh_bytes value = spsh__row_field(row, m->field_of[i]);
        if (!has_role && value.size_bytes > 0)
            spsh__json_member(extras, 0, spsh__bytes_of(s->columns[i].name), value);
    }
    for (size_t i = 0; i < m->header_count; i++) {
        const spsh_bytes value = spsh__row_field(row, i);
        if (!m->is_mapped[i] && value.size_bytes > 0 && m->header[i].size_bytes > 0)
            spsh__json_member(extras, 0, m->header[i], value);
    }
    if (m->section != NULL)
        spsh__json_member(extras, 0, spsh__bytes_of("section"), spsh__bytes_of(m->section));
    spsh__json_close(extras, 0);
    return spsh__strings_close(m->scan);
}

static spsh_status emit_row(mdc_scan *m, const spsh__row *row, const spsh__row_place *place,
                            const mdc_file *audio, spsh_error *err)
{
    const size_t text_column = m->role_of[ROLE_TEXT];
    const spsh_bytes id = role_value(m, row, ROLE_ID);
    const spsh_bytes speaker = role_value(m, row, ROLE_SPEAKER);
    const spsh_bytes domain = role_value(m, row, ROLE_DOMAIN);
    const spsh_bytes corpus =
        SPSH__JOIN(m->scan, spsh__bytes_of("mdc/"), spsh__bytes_of(m->schema->dataset_id));
    const spsh_bytes stem = {audio->path.data, spsh__audio_stem(audio->path)};
    const bool has_file = text_column != SPSH__COLUMN_NONE &&
                          strcmp(m->schema->columns[text_column].dtype, "file_content") == 0;
    mdc_file file = {0};
    spsh_bytes text = {0};
    if (text_column != SPSH__COLUMN_NONE)
        text = spsh__row_field(row, m->field_of[text_column]);
    if (has_file && text.size_bytes > 0) {
        spsh_status rc = find_file(m, row, text_column, &file, err);
        if (rc != SPSH_OK)
            return rc;
    }
    const spsh_bytes source = spsh__strings_name(m->scan, audio->path);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(audio->path),
        .source = source,
        .recording_id = source,
        .id = id.size_bytes > 0 ? id : spsh__strings_name(m->scan, stem),
        .has_text = !has_file && text.size_bytes > 0,
        .text = has_file ? (spsh_bytes){0} : text,
        .text_path = spsh__text_of(file.path),
        .domain = domain.size_bytes > 0 ? domain : corpus,
        .split = role_value(m, row, ROLE_SPLIT),
        .speaker = speaker.size_bytes > 0 ? spsh__strings_path(m->scan, corpus, speaker) : speaker,
        .language = role_value(m, row, ROLE_LANGUAGE),
        .extras = make_extras(m, row),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = audio->info.size_bytes,
    };
    return spsh__scan_emit(m->scan, &item, place, err);
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    mdc_scan *m = user;
    const size_t audio = m->role_of[ROLE_AUDIO];
    spsh_reject reject = {.reason = SPSH_REJECT_MISSING_AUDIO, .rows = 1};
    mdc_file file = {0};
    if (!spsh__scan_wants_split(m->scan, role_value(m, row, ROLE_SPLIT))) {
        m->scan->excluded_rows++;
        return SPSH_OK;
    }
    if (trim(spsh__row_field(row, m->field_of[audio])).size_bytes == 0) {
        reject.detail = "the row names no file";
        return spsh__scan_reject(m->scan, &reject, place, err);
    }
    spsh_status rc = find_file(m, row, audio, &file, err);
    if (rc != SPSH_OK)
        return rc;
    if (file.found && file.info.type == SPSH__VIEW_FILE)
        return emit_row(m, row, place, &file, err);
    reject.source = file.path;
    if (file.found)
        reject.reason = SPSH_REJECT_NOT_REGULAR;
    return spsh__scan_reject(m->scan, &reject, place, err);
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

/* Scan the table in root. */
static spsh_status scan_table(mdc_scan *m, spsh_error *err)
{
    const bool has_header = m->schema->has_header;
    spsh__row_visitor visitor = {.header_fn = has_header ? take_header : NULL,
                                 .row_fn = scan_row,
                                 .user = m,
                                 .column_count = has_header ? &m->header_count : NULL};
    spsh__text_file file;
    m->table =
        spsh__text_of(spsh__strings_path(m->scan, m->root, spsh__bytes_of(m->schema->index_file)));
    spsh_status rc = spsh__scan_open(m->scan, m->table, &file, err);
    if (rc != SPSH_OK || file.fd < 0)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = find_dialect(m->schema, &input, &visitor.dialect, err);
    if (rc == SPSH_OK && !has_header)
        rc = map_columns(m, NULL, err);
    if (rc == SPSH_OK)
        rc = spsh__scan_rows(m->scan, &input, spsh__bytes_of(m->table), &visitor, err);
    spsh__text_file_close(&file);
    return rc;
}

/* ---- trees ---- */

/* Whether the file with these path parts exists. Omits empty parts. */
static spsh_status search_for(const spsh__view *folder, const char *const parts[3], bool *ret_found,
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
    spsh_status rc = search_for(folder, here, ret_found, err);
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
        rc = search_for(folder, there, &found, err);
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
        rc = search_for(folder, parts, ret_is_tree, err);
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
    const spsh_bytes folder = spsh__strings_path(m->scan, spsh__bytes_of(path), spsh__bytes_of(a));
    m->root = spsh__strings_path(m->scan, folder, spsh__bytes_of(b));
}

static spsh_status scan_schema(mdc_scan *m, const spsh__tree *tree, spsh_error *err)
{
    const spsh__mdc_schema *s = m->schema;
    spsh__builder below = {0};
    bool found = false;
    spsh_status rc = SPSH_OK;
    if (s->strategy == SPSH__MDC_INDEX) {
        rc = find_index(tree->view, s, &below, &found, err);
        set_root(m, tree->path, below.size_bytes > 0 ? (const char *)below.data : "", "");
        if (rc == SPSH_OK && found)
            rc = scan_table(m, err);
    }
    for (size_t i = 0; s->strategy == SPSH__MDC_SECTIONS && i < s->sections.count && rc == SPSH_OK;
         i++) {
        m->section = s->sections.items[i];
        set_root(m, tree->path, s->section_root, m->section);
        rc = scan_table(m, err);
    }
    spsh__builder_free(&below);
    return rc;
}

static spsh_status scan_tree(spsh__scan *scan, const spsh__tree *tree, spsh_error *err)
{
    spsh__mdc_schema schema = {0};
    mdc_scan m = {.scan = scan, .schema = &schema};
    spsh_status rc = spsh__scan_refuse_column(scan, "a schema.yaml", err);
    if (rc == SPSH_OK)
        rc = spsh__mdc_schema_read(tree->view, &schema, err);
    if (rc == SPSH_OK)
        rc = scan_schema(&m, tree, err);
    spsh__mdc_schema_free(&schema);
    return rc;
}

static const spsh__tree_layout trees = {"holds " SPSH__MDC_SCHEMA_FILE " and the table it names",
                                        check_tree, scan_tree, NULL};

const spsh_layout spsh__layout_mdc = {
    .name = "mdc",
    .summary = "Mozilla Data Collective: schema.yaml and the tables that it describes",
    .tier = SPSH_LAYOUT_CORPUS,
    .trees = &trees,
};

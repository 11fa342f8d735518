/* table.c: column names are compared in a normalized form: lower case, with '-' and blank as '_',
 * without enclosing quotes and blanks. If several columns match one role, the order of the lists
 * below decides, so that "text" beats "normalized_text" at any position.
 */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "speechshard/inside.h"

#define NAME_PLAIN_MAX ((size_t)64)
#define HEADLESS_ROWS  64U

static const char *const audio_names[] = {
    "path",       "file", "file_name", "filename",     "audio", "audio_path", "audio_filepath",
    "audio_file", "wav",  "wav_path",  "wav_filename", "clip",  "utt_path",   NULL};
static const char *const text_names[] = {
    "text",  "sentence", "transcript", "transcription", "transcript_text", "normalized_text",
    "label", NULL};
static const char *const id_names[] = {"id",         "key", "utt_id", "utterance_id",
                                       "segment_id", "sid", NULL};
static const char *const speaker_names[] = {"speaker", "speaker_id", "spk", "client_id", NULL};
static const char *const language_names[] = {"lang", "language", "locale", NULL};
static const char *const domain_names[] = {"domain", NULL};
static const char *const split_names[] = {"split", NULL};
static const char *const start_names[] = {"start",      "offset",     "begin",
                                          "begin_time", "start_time", NULL};
static const char *const end_names[] = {"end", "end_time", NULL};
static const char *const duration_names[] = {"duration", "dur", "length", NULL};

static const char *const *const role_names[SPSH__COLUMN_ROLES] = {
    audio_names,  text_names,  id_names,    speaker_names, language_names,
    domain_names, split_names, start_names, end_names,     duration_names,
};

const char *const spsh__column_fields[SPSH__COLUMN_ROLES + 1] = {
    "audio", "text",  "id",  "speaker",  "language", "domain",
    "split", "start", "end", "duration", NULL};

bool spsh__column_rule_parse(const char *rule, spsh__column_role *ret_role, const char **ret_name)
{
    const size_t length = strcspn(rule, "=");
    for (size_t role = 0; role < SPSH__COLUMN_ROLES && rule[length] == '='; role++) {
        if (strlen(spsh__column_fields[role]) == length &&
            memcmp(rule, spsh__column_fields[role], length) == 0) {
            *ret_role = (spsh__column_role)role;
            *ret_name = rule + length + 1;
            return **ret_name != '\0';
        }
    }
    return false;
}

static const struct {
    const char *suffix;
    uint64_t unit_ns;
} units[] = {
    {"_milliseconds", 1000000   },
    {"_msec",         1000000   },
    {"_ms",           1000000   },
    {"_seconds",      1000000000},
    {"_secs",         1000000000},
    {"_sec",          1000000000},
    {"_s",            1000000000},
};

#define UNIT_NS_DEFAULT UINT64_C(1000000000)

static bool is_time_role(size_t role)
{
    return role == SPSH__COLUMN_START || role == SPSH__COLUMN_END || role == SPSH__COLUMN_DURATION;
}

/* Write the normalized form with a NUL. A name that is too long for any role becomes "". */
static void plain_name(spsh_bytes name, char plain[NAME_PLAIN_MAX])
{
    plain[0] = '\0';
    name = spsh__bytes_trim(name, " \t\"");
    if (name.size_bytes >= NAME_PLAIN_MAX)
        return;
    for (size_t i = 0; i < name.size_bytes; i++) {
        char c = (char)name.data[i];
        if (c == '-' || c == ' ')
            c = '_';
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + ('a' - 'A'));
        plain[i] = c;
    }
    plain[name.size_bytes] = '\0';
}

/* Rank of a normalized name in a role's list, or SIZE_MAX if it is not in the list. */
static size_t name_rank(const char *plain, size_t role, uint64_t *ret_unit_ns)
{
    char base[NAME_PLAIN_MAX];
    memcpy(base, plain, strlen(plain) + 1);
    *ret_unit_ns = UNIT_NS_DEFAULT;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && is_time_role(role); i++) {
        const size_t suffix = strlen(units[i].suffix);
        const size_t length = strlen(base);
        if (length > suffix && strcmp(base + length - suffix, units[i].suffix) == 0) {
            base[length - suffix] = '\0';
            *ret_unit_ns = units[i].unit_ns;
            break;
        }
    }
    for (size_t rank = 0; role_names[role][rank] != NULL; rank++) {
        if (strcmp(base, role_names[role][rank]) == 0)
            return rank;
    }
    return SIZE_MAX;
}

static void find_roles(const spsh_bytes *names, size_t count, spsh__table_columns *columns)
{
    size_t best[SPSH__COLUMN_ROLES];
    for (size_t role = 0; role < SPSH__COLUMN_ROLES; role++) {
        best[role] = SIZE_MAX;
        columns->column_of[role] = SPSH__COLUMN_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        char plain[NAME_PLAIN_MAX];
        plain_name(names[i], plain);
        for (size_t role = 0; role < SPSH__COLUMN_ROLES; role++) {
            uint64_t unit_ns = 0;
            size_t rank = name_rank(plain, role, &unit_ns);
            if (rank >= best[role])
                continue;
            best[role] = rank;
            columns->column_of[role] = i;
            columns->unit_ns[role] = unit_ns;
        }
    }
}

/* Apply the columns that the user assigned. A time column's unit comes from its name; the default
 * is seconds. */
static spsh_status apply_rules(const spsh_bytes *names, size_t count,
                               const spsh__column_rules *rules, spsh__table_columns *columns,
                               spsh_error *err)
{
    for (size_t r = 0; rules != NULL && r < rules->count; r++) {
        spsh__column_role role = SPSH__COLUMN_TEXT;
        const char *name = NULL;
        char wanted[NAME_PLAIN_MAX];
        char plain[NAME_PLAIN_MAX];
        size_t at = 0;
        if (!spsh__column_rule_parse(rules->texts[r], &role, &name))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "column rule '%.60s': write FIELD=NAME, such as text=class",
                             rules->texts[r]);
        plain_name(spsh__bytes_of(name), wanted);
        for (plain[0] = '\0'; at < count; at++) {
            plain_name(names[at], plain);
            if (wanted[0] != '\0' && strcmp(plain, wanted) == 0)
                break;
        }
        if (at == count)
            return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                             "column rule '%.60s': the header has no column of that name",
                             rules->texts[r]);
        columns->column_of[role] = at;
        (void)name_rank(wanted, role, &columns->unit_ns[role]);
    }
    return SPSH_OK;
}

/* Whether a column is an extra. A duration is one, too: without a start it is the file's nominal
 * length, which the packer checks. */
static bool is_extra(const spsh__table_columns *columns, size_t column)
{
    for (size_t role = 0; role < SPSH__COLUMN_DURATION; role++) {
        if (columns->column_of[role] == column)
            return false;
    }
    return true;
}

static bool key_is_taken(const spsh__table_columns *columns, size_t column)
{
    const struct spsh__table_column *own = &columns->columns[column];
    const uint8_t *text = columns->text.data;
    for (size_t i = 0; i < column; i++) {
        const struct spsh__table_column *other = &columns->columns[i];
        if (other->key_bytes == own->key_bytes &&
            memcmp(text + other->key_at, text + own->key_at, own->key_bytes) == 0)
            return true;
    }
    return false;
}

/* Build the column's key in JSON objects. A column without a name gets its number as name. A column
 * with the name of an earlier column gets its number appended, so that keys are unique. Names are
 * compared as JSON, where different bytes that are not UTF-8 become equal. */
static void append_key(spsh__table_columns *columns, spsh_bytes name, size_t column)
{
    struct spsh__table_column *own = &columns->columns[column];
    char number[32];
    spsh__builder key = {0};
    own->key_at = columns->text.size_bytes;
    spsh__builder_append_bytes(&key, name);
    if (name.size_bytes == 0) {
        (void)snprintf(number, sizeof(number), "column%zu", column + 1);
        spsh__builder_append_text(&key, number);
    }
    (void)snprintf(number, sizeof(number), "#%zu", column + 1);
    for (;;) {
        spsh__json_string(&columns->text, spsh__builder_bytes(&key));
        spsh__builder_append(&columns->text, ":", 1);
        columns->text.failed = columns->text.failed || key.failed;
        own->key_bytes = columns->text.size_bytes - own->key_at;
        if (columns->text.failed || !key_is_taken(columns, column))
            break;
        columns->text.size_bytes = own->key_at;
        spsh__builder_append_text(&key, number);
    }
    spsh__builder_free(&key);
}

spsh_status spsh__table_columns_parse(const spsh_bytes *names, size_t count,
                                      const spsh__column_rules *rules,
                                      spsh__table_columns *ret_columns, spsh_error *err)
{
    spsh__table_columns columns = {.count = count};
    find_roles(names, count, &columns);
    const spsh_status rc = apply_rules(names, count, rules, &columns, err);
    if (rc != SPSH_OK)
        return rc;
    if (columns.column_of[SPSH__COLUMN_AUDIO] == SPSH__COLUMN_NONE) {
        *ret_columns = columns;
        return SPSH_OK;
    }
    columns.columns = calloc(count, sizeof(*columns.columns));
    if (columns.columns == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for %zu columns", count);
    for (size_t i = 0; i < count; i++) {
        columns.columns[i].name_at = columns.text.size_bytes;
        columns.columns[i].name_bytes = names[i].size_bytes;
        spsh__builder_append_bytes(&columns.text, names[i]);
        if (is_extra(&columns, i))
            append_key(&columns, names[i], i);
    }
    if (columns.text.failed) {
        spsh__table_columns_free(&columns);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for %zu columns", count);
    }
    *ret_columns = columns;
    return SPSH_OK;
}

void spsh__table_columns_free(spsh__table_columns *columns)
{
    spsh__builder_free(&columns->text);
    free(columns->columns);
    *columns = (spsh__table_columns){0};
}

size_t spsh__table_column_find(const spsh__table_columns *columns, spsh_bytes name)
{
    char wanted[NAME_PLAIN_MAX];
    char plain[NAME_PLAIN_MAX];
    plain_name(name, wanted);
    for (size_t i = 0; i < columns->count; i++) {
        const struct spsh__table_column *column = &columns->columns[i];
        plain_name((spsh_bytes){columns->text.data + column->name_at, column->name_bytes}, plain);
        if (wanted[0] != '\0' && strcmp(plain, wanted) == 0)
            return i;
    }
    return SPSH__COLUMN_NONE;
}

void spsh__table_unused(const spsh__table_columns *columns, spsh__builder *out)
{
    const size_t start = out->size_bytes;
    for (size_t i = 0; i < columns->count; i++) {
        const struct spsh__table_column *column = &columns->columns[i];
        if (column->key_bytes == 0 || column->name_bytes == 0 ||
            columns->column_of[SPSH__COLUMN_DURATION] == i)
            continue;
        spsh__builder_append(out, ", ", out->size_bytes == start ? 0 : 2);
        spsh__name_append(out,
                          (spsh_bytes){columns->text.data + column->name_at, column->name_bytes});
    }
}

void spsh__table_extras(const spsh__table_columns *columns, const spsh_bytes *fields,
                        size_t field_count, spsh__builder *out)
{
    const size_t start = out->size_bytes;
    const size_t count = field_count < columns->count ? field_count : columns->count;
    for (size_t i = 0; i < count; i++) {
        const struct spsh__table_column *column = &columns->columns[i];
        if (column->key_bytes == 0 || fields[i].size_bytes == 0)
            continue;
        spsh__builder_append(out, out->size_bytes == start ? "{" : ",", 1);
        spsh__builder_append(out, columns->text.data + column->key_at, column->key_bytes);
        spsh__json_string(out, fields[i]);
    }
    spsh__json_close(out, start);
}

/* Parse the first row with one dialect. *ret_found: it has an audio column. */
static spsh_status try_header(const spsh__text_input *input, const spsh__dialect *dialect,
                              const spsh__column_rules *rules, spsh__table_columns *ret_columns,
                              bool *ret_found, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__table_columns columns = {0};
    spsh__row row;
    *ret_found = false;
    spsh_status rc = spsh__row_reader_new(input, dialect, &reader, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK && row.problem == NULL)
        rc = spsh__table_columns_parse(row.fields, row.field_count, rules, &columns, err);
    if (rc == SPSH_OK && columns.count > 0 &&
        columns.column_of[SPSH__COLUMN_AUDIO] != SPSH__COLUMN_NONE) {
        *ret_found = true;
        *ret_columns = columns;
        columns = (spsh__table_columns){0};
    }
    spsh__table_columns_free(&columns);
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh__dialect dialect_of(uint8_t delimiter, spsh__table_quoting quoting)
{
    spsh__dialect dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = delimiter};
    const bool decide = quoting == SPSH__TABLE_QUOTING_DECIDE;
    if (decide && delimiter == '|')
        dialect.kind = SPSH__DIALECT_PIPE_PAD;
    else if (quoting == SPSH__TABLE_QUOTING_RFC || (decide && delimiter != '\t'))
        dialect.kind = SPSH__DIALECT_RFC;
    return dialect;
}

/* Order the delimiters: the extension's delimiter first. */
static void order_delimiters(const char *path, uint8_t order[4])
{
    static const struct {
        const char *extension;
        uint8_t delimiter;
    } by_extension[] = {
        {".tsv", '\t'},
        {".csv", ',' },
        {".psv", '|' }
    };
    static const uint8_t all[] = {'\t', ',', '|', ';'};
    uint8_t own = '\t';
    size_t count = 0;
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(by_extension) / sizeof(by_extension[0]) && length >= 4; i++) {
        if (spsh__bytes_equal_nocase(spsh__bytes_of(path + length - 4),
                                     spsh__bytes_of(by_extension[i].extension)))
            own = by_extension[i].delimiter;
    }
    order[count++] = own;
    for (size_t i = 0; i < sizeof(all); i++) {
        if (all[i] != own)
            order[count++] = all[i];
    }
}

/* Tab-separated files exist with and without quoting. Decide by the rows, if they allow it. */
static spsh_status settle_quoting(const spsh__text_input *input, spsh__table_format *format,
                                  spsh_error *err)
{
    spsh__quoting quoting = SPSH__QUOTING_SAME;
    uint64_t line = 0;
    spsh_status rc = spsh__quoting_decide(input, format->dialect.delimiter, &quoting, &line, err);
    if (rc != SPSH_OK)
        return rc;
    if (quoting == SPSH__QUOTING_UNCLEAR)
        format->unclear_line = line;
    if (quoting == SPSH__QUOTING_RFC)
        format->dialect.kind = SPSH__DIALECT_RFC;
    return SPSH_OK;
}

/* Name the columns of a table without a header. Two columns: audio and text. Three columns: audio,
 * speaker number, and text; or, as in LJ Speech, audio, text as printed, and text as spoken. */
static spsh_status name_columns(spsh__table_format *format, size_t count, bool numbered,
                                spsh_error *err)
{
    const spsh_bytes two[] = {spsh__bytes_of("audio"), spsh__bytes_of("text")};
    const spsh_bytes three[] = {spsh__bytes_of("audio"),
                                spsh__bytes_of(numbered ? "speaker" : "raw_text"),
                                spsh__bytes_of("text")};
    format->headless = true;
    format->found = true;
    if (count == 3 && !numbered)
        format->text_else = 1;
    return spsh__table_columns_parse(count == 2 ? two : three, count, NULL, &format->columns, err);
}

/* Detect a table without a header by its first rows: two or three fields each, all with the same
 * form. */
static spsh_status sniff_headless(const spsh__text_input *input, spsh__table_format *format,
                                  spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    size_t count = 0;
    bool alike = true;
    bool numbered = true;
    format->dialect = dialect_of('|', SPSH__TABLE_QUOTING_DECIDE);
    spsh_status rc = spsh__row_reader_new(input, &format->dialect, &reader, err);
    for (unsigned i = 0; i < HEADLESS_ROWS && rc == SPSH_OK && alike; i++) {
        rc = spsh__row_reader_next(reader, &row, err);
        if (rc != SPSH_OK)
            break;
        count = i == 0 ? row.field_count : count;
        alike = row.problem == NULL && row.field_count == count;
        numbered = numbered && alike && count == 3 && spsh__is_digits(row.fields[1]);
    }
    spsh__row_reader_free(reader);
    if (rc != SPSH_OK && rc != SPSH_E_END)
        return rc;
    return alike && (count == 2 || count == 3) ? name_columns(format, count, numbered, err)
                                               : SPSH_OK;
}

spsh_status spsh__table_sniff(const spsh__text_input *input, const char *path,
                              spsh__table_quoting quoting, const spsh__column_rules *rules,
                              spsh__table_format *ret_format, spsh_error *err)
{
    spsh__table_format format = {.text_else = SPSH__COLUMN_NONE};
    uint8_t delimiters[4];
    spsh_status rc = SPSH_OK;
    if (quoting == SPSH__TABLE_NO_HEADER)
        rc = sniff_headless(input, &format, err);
    else
        order_delimiters(path, delimiters);
    for (size_t i = 0; quoting != SPSH__TABLE_NO_HEADER && i < sizeof(delimiters) &&
                       rc == SPSH_OK && !format.found;
         i++) {
        format.dialect = dialect_of(delimiters[i], quoting);
        rc = try_header(input, &format.dialect, rules, &format.columns, &format.found, err);
        /* With another delimiter, the header may have the column that a rule names. */
        if (rc == SPSH_E_NOT_FOUND && i + 1 < sizeof(delimiters))
            rc = SPSH_OK;
    }
    const bool by_test = quoting == SPSH__TABLE_QUOTING_DECIDE && format.dialect.delimiter == '\t';
    if (rc == SPSH_OK && format.found && by_test)
        rc = settle_quoting(input, &format, err);
    if (rc == SPSH_OK && format.found && format.dialect.kind == SPSH__DIALECT_RFC && by_test) {
        /* Parse the header again, because its names still include the quotes. */
        spsh__table_columns_free(&format.columns);
        rc = try_header(input, &format.dialect, rules, &format.columns, &format.found, err);
    }
    if (rc != SPSH_OK) {
        spsh__table_columns_free(&format.columns);
        return rc;
    }
    *ret_format = format;
    return SPSH_OK;
}

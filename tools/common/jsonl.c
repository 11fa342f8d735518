/* jsonl.c: see jsonl.h. One pass over a line checks it and finds its members.
 *
 * Lines come from the row reader (dialect RAW; the delimiter is NUL, which no valid line contains),
 * so windows, long lines, line numbers, and offsets work as in every other metadata file.
 *
 * Nearly all bytes of a manifest are in strings. The parser passes over them eight at a time: a
 * word is plain if none of its bytes is a quote, a backslash, a control character, or outside
 * ASCII. Nested values that are not requested are skipped without recursion: one bit per level
 * records whether the level is an object.
 */
#include "jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file_names.h"
#include "json_text.h"
#include "speechshard/inside.h"

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

typedef struct json_cursor {
    const uint8_t *at, *end;
    const char *problem;
} json_cursor;

static bool fail_at(json_cursor *c, const uint8_t *at, const char *problem)
{
    c->at = at;
    c->problem = problem;
    return false;
}

/* The data pointer of an empty text may be NULL, which pointer arithmetic must not use. */
static json_cursor cursor_of(spsh_bytes text)
{
    static const uint8_t nothing = 0;
    const uint8_t *begin = text.size_bytes == 0 ? &nothing : text.data;
    return (json_cursor){.at = begin, .end = begin + text.size_bytes};
}

static void skip_space(json_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n'))
        c->at++;
}

static bool take_byte(json_cursor *c, uint8_t byte)
{
    if (c->at == c->end || *c->at != byte)
        return false;
    c->at++;
    return true;
}

static uint64_t load_u64le(const uint8_t *data)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)data[i] << (8 * i);
    return value;
}

/* Set the high bit of every byte that is not plain. Bits after the first such byte may be wrong. */
static uint64_t special_bytes(uint64_t word)
{
    const uint64_t quote = word ^ (ONES * '"');
    const uint64_t backslash = word ^ (ONES * '\\');
    const uint64_t below_blank = (word - ONES * 0x20) & ~word;
    const uint64_t equal = ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash);
    return (word | below_blank | equal) & HIGHS;
}

/* To the first byte that is not plain, or the end. */
static const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 8) {
        const uint64_t special = special_bytes(load_u64le(at));
        if (special != 0)
            return at + (__builtin_ctzll(special) >> 3);
        at += 8;
    }
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\')
        at++;
    return at;
}

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Return the UTF-16 unit of the "\u" escape at `at`, or -1 if there is no valid escape. */
static int32_t take_unit(const uint8_t *at, const uint8_t *end)
{
    int32_t unit = 0;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        const int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Return the code point of the "\u" escape, or pair of escapes, at `at`; -1 if it is invalid. */
static int32_t take_code_point(const uint8_t *at, const uint8_t *end, size_t *ret_size_bytes)
{
    const int32_t first = take_unit(at, end);
    *ret_size_bytes = 6;
    if (first < 0xd800 || first > 0xdfff)
        return first;
    const int32_t second = first < 0xdc00 ? take_unit(at + 6, end) : -1;
    *ret_size_bytes = 12;
    if (second < 0xdc00 || second > 0xdfff)
        return -1;
    return 0x10000 + (first - 0xd800) * 0x400 + (second - 0xdc00);
}

static bool skip_escape(json_cursor *c)
{
    size_t size_bytes = 2;
    if (c->end - c->at < 2)
        return fail_at(c, c->at, "a string is never closed");
    if (c->at[1] == 'u') {
        if (take_code_point(c->at, c->end, &size_bytes) < 0)
            return fail_at(c, c->at, "a \\u escape is broken, or half of a surrogate pair");
    } else if (c->at[1] == '\0' || strchr("\"\\/bfnrt", c->at[1]) == NULL) {
        return fail_at(c, c->at, "an unknown escape");
    }
    c->at += size_bytes;
    return true;
}

/* Text outside ASCII comes in runs. */
static bool skip_utf8(json_cursor *c)
{
    while (c->at < c->end && *c->at >= 0x80) {
        if (c->end - c->at >= 2 && *c->at >= 0xc2 && *c->at < 0xe0 && (c->at[1] & 0xc0) == 0x80) {
            c->at += 2;
            continue;
        }
        const size_t length = spsh__utf8_sequence((spsh_bytes){c->at, (size_t)(c->end - c->at)});
        if (length == 0)
            return fail_at(c, c->at, "not UTF-8");
        c->at += length;
    }
    return true;
}

/* Take a string. c->at is on its opening quote. */
static bool take_string(json_cursor *c, spsh__json_value *value)
{
    const uint8_t *begin = ++c->at;
    *value = (spsh__json_value){.kind = SPSH__JSON_STRING};
    for (;;) {
        c->at = skip_plain(c->at, c->end);
        if (c->at == c->end)
            return fail_at(c, begin - 1, "a string is never closed");
        if (*c->at == '"')
            break;
        if (*c->at == '\\') {
            value->escaped = true;
            if (!skip_escape(c))
                return false;
        } else if (*c->at < 0x20) {
            return fail_at(c, c->at, "a control character in a string");
        } else if (!skip_utf8(c)) {
            return false;
        }
    }
    value->raw = (spsh_bytes){begin, (size_t)(c->at - begin)};
    c->at++;
    return true;
}

static bool skip_digits(json_cursor *c)
{
    const uint8_t *begin = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > begin || fail_at(c, begin, "a number lacks digits");
}

static bool take_number(json_cursor *c, spsh__json_value *value)
{
    const uint8_t *begin = c->at;
    (void)take_byte(c, '-');
    const uint8_t *first = c->at;
    if (!skip_digits(c))
        return false;
    if (*first == '0' && c->at - first > 1)
        return fail_at(c, first, "a number begins with 0");
    if (take_byte(c, '.') && !skip_digits(c))
        return false;
    if (c->at < c->end && (*c->at | 0x20) == 'e') {
        c->at++;
        if (!take_byte(c, '+'))
            (void)take_byte(c, '-');
        if (!skip_digits(c))
            return false;
    }
    *value = (spsh__json_value){
        .kind = SPSH__JSON_NUMBER, .raw = {begin, (size_t)(c->at - begin)}
    };
    return true;
}

static bool take_word(json_cursor *c, spsh__json_value *value)
{
    static const struct {
        const char *text;
        size_t size_bytes;
        spsh__json_kind kind;
    } words[] = {
        {"null",  4, SPSH__JSON_NULL },
        {"true",  4, SPSH__JSON_TRUE },
        {"false", 5, SPSH__JSON_FALSE},
    };
    const size_t left = (size_t)(c->end - c->at);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (left >= words[i].size_bytes && memcmp(c->at, words[i].text, words[i].size_bytes) == 0) {
            *value = (spsh__json_value){
                .kind = words[i].kind, .raw = {c->at, words[i].size_bytes}
            };
            c->at += words[i].size_bytes;
            return true;
        }
    }
    return fail_at(c, c->at, left == 0 ? "the line is cut off" : "not a JSON value");
}

static bool take_scalar(json_cursor *c, spsh__json_value *value)
{
    if (c->at < c->end && *c->at == '"')
        return take_string(c, value);
    if (c->at < c->end && (*c->at == '-' || (*c->at >= '0' && *c->at <= '9')))
        return take_number(c, value);
    return take_word(c, value);
}

/* Take a key and its colon. c->at is on the opening quote. */
static bool take_key(json_cursor *c, spsh__json_value *key)
{
    if (c->at == c->end || *c->at != '"')
        return fail_at(c, c->at, "a key is missing");
    if (!take_string(c, key))
        return false;
    skip_space(c);
    if (!take_byte(c, ':'))
        return fail_at(c, c->at, "a colon is missing");
    skip_space(c);
    return true;
}

static bool is_open(const json_cursor *c)
{
    return c->at < c->end && (*c->at == '{' || *c->at == '[');
}

/* Continue after a value inside containers: close the containers that end here, or pass one comma
 * and the key after it. depth becomes 0 when the outermost container is closed. */
static bool pass_value(json_cursor *c, uint64_t objects, unsigned *depth)
{
    spsh__json_value key;
    while (*depth > 0) {
        const bool object = (objects >> (*depth - 1) & 1) != 0;
        skip_space(c);
        if (take_byte(c, ',')) {
            skip_space(c);
            return !object || take_key(c, &key);
        }
        if (!take_byte(c, object ? '}' : ']'))
            return fail_at(c, c->at, "a comma or the end of a list or object is missing");
        --*depth;
    }
    return true;
}

/* Take any value. c->at starts at its first byte and ends past its last byte. */
static bool take_value(json_cursor *c, spsh__json_value *value)
{
    const uint8_t *begin = c->at;
    uint64_t objects = 0; /* bit i: level i + 1 is an object */
    unsigned depth = 0;
    if (!is_open(c))
        return take_scalar(c, value);
    do {
        spsh__json_value inner;
        if (is_open(c)) {
            const bool object = *c->at == '{';
            if (depth == SPSH__JSON_DEPTH_MAX)
                return fail_at(c, c->at, "nested too deeply");
            objects = (objects & ~(UINT64_C(1) << depth)) | (uint64_t)object << depth;
            depth++;
            c->at++;
            skip_space(c);
            if (c->at < c->end && *c->at != (object ? '}' : ']')) {
                if (object && !take_key(c, &inner))
                    return false;
                continue;
            }
            if (!take_byte(c, object ? '}' : ']'))
                return fail_at(c, c->at, "the line is cut off");
            depth--;
        } else if (!take_scalar(c, &inner)) {
            return false;
        }
        if (!pass_value(c, objects, &depth))
            return false;
    } while (depth > 0);
    *value = (spsh__json_value){
        .kind = *begin == '{' ? SPSH__JSON_OBJECT : SPSH__JSON_ARRAY,
        .raw = {begin, (size_t)(c->at - begin)},
    };
    return true;
}

/* Output of a pick, and the names that can still match. Inside a nested object only the names that
 * begin with its path and a dot can match. */
typedef struct json_names {
    const char *const *names;
    size_t count;
    uint32_t active;     /* bit i: names[i] is one of them */
    size_t prefix_bytes; /* length of the path and the dot at the start of each active name */
    spsh__json_value *values;
    spsh__builder *extras;
    size_t extras_start;
} json_names;

/* Return the index of the name that the key completes, or n->count. *ret_leads: the names that
 * continue after the key with a dot, one bit each. */
static size_t match_key(const json_names *n, const spsh__json_value *key, uint32_t *ret_leads)
{
    size_t found = n->count;
    *ret_leads = 0;
    if (key->escaped || key->raw.size_bytes == 0 ||
        memchr(key->raw.data, '.', key->raw.size_bytes) != NULL)
        return found; /* a key with a dot is not a path */
    const uint8_t first = key->raw.data[0];
    for (uint32_t left = n->active; left != 0; left &= left - 1) {
        const size_t i = (size_t)__builtin_ctz(left);
        const char *name = n->names[i] + n->prefix_bytes;
        /* Comparing the first byte excludes nearly all names. */
        if (name[0] != (char)first ||
            strncmp(name, (const char *)key->raw.data, key->raw.size_bytes) != 0)
            continue;
        if (name[key->raw.size_bytes] == '\0')
            found = i;
        else if (name[key->raw.size_bytes] == '.')
            *ret_leads |= UINT32_C(1) << i;
    }
    return found;
}

static bool pick_object(json_cursor *c, const json_names *n);

static void append_extra(const json_names *n, const uint8_t *begin, const uint8_t *end)
{
    if (n->extras == NULL)
        return;
    spsh__builder_append(n->extras, n->extras->size_bytes == n->extras_start ? "{" : ",", 1);
    spsh__builder_append(n->extras, begin, (size_t)(end - begin));
}

static bool pick_member(json_cursor *c, const json_names *n)
{
    const uint8_t *begin = c->at;
    spsh__json_value key, value;
    uint32_t leads = 0;
    if (!take_key(c, &key))
        return false;
    const size_t found = match_key(n, &key, &leads);
    if (leads != 0 && c->at < c->end && *c->at == '{') {
        json_names inner = *n;
        const uint8_t *object = c->at;
        inner.active = leads;
        inner.prefix_bytes += key.raw.size_bytes + 1;
        inner.extras = NULL;
        if (!pick_object(c, &inner))
            return false;
        value = (spsh__json_value){
            .kind = SPSH__JSON_OBJECT, .raw = {object, (size_t)(c->at - object)}
        };
    } else if (!take_value(c, &value)) {
        return false;
    }
    if (found < n->count)
        n->values[found] = value;
    else if (leads == 0)
        append_extra(n, begin, c->at);
    return true;
}

/* Pick members of the object whose opening brace is at c->at. Recursion is limited by the number of
 * dots in the names. */
static bool pick_object(json_cursor *c, const json_names *n)
{
    c->at++;
    skip_space(c);
    if (take_byte(c, '}'))
        return true;
    for (;;) {
        if (!pick_member(c, n))
            return false;
        skip_space(c);
        if (take_byte(c, '}'))
            return true;
        if (!take_byte(c, ','))
            return fail_at(c, c->at, "a comma or the end of the object is missing");
        skip_space(c);
    }
}

const char *spsh__json_pick(spsh_bytes text, const char *const *names, size_t name_count,
                            spsh__json_value *values, spsh__builder *extras, size_t *ret_offset)
{
    json_cursor c = cursor_of(text);
    const uint8_t *begin = c.at;
    const json_names n = {
        .names = names,
        .count = name_count,
        .active = name_count >= 32 ? UINT32_MAX : (UINT32_C(1) << name_count) - 1,
        .values = values,
        .extras = extras,
        .extras_start = extras == NULL ? 0 : extras->size_bytes,
    };
    memset(values, 0, name_count * sizeof(*values));
    skip_space(&c);
    if (c.at == c.end || *c.at != '{')
        (void)fail_at(&c, c.at, "not a JSON object");
    else if (pick_object(&c, &n))
        skip_space(&c);
    if (c.problem == NULL && c.at != c.end)
        (void)fail_at(&c, c.at, "text follows the object");
    if (c.problem != NULL) {
        memset(values, 0, name_count * sizeof(*values));
        if (extras != NULL && extras->size_bytes > n.extras_start)
            extras->size_bytes = n.extras_start;
        *ret_offset = (size_t)(c.at - begin);
    } else if (extras != NULL && extras->size_bytes > n.extras_start) {
        spsh__builder_append(extras, "}", 1);
    }
    return c.problem;
}

bool spsh__json_array_next(spsh_bytes *rest, spsh__json_value *ret_value)
{
    json_cursor c = cursor_of(*rest);
    if (rest->size_bytes == 0)
        return false;
    if (*c.at != '[' && *c.at != ',')
        return false;
    c.at++;
    skip_space(&c);
    if (c.at == c.end || *c.at == ']' || !take_value(&c, ret_value))
        return false;
    skip_space(&c);
    *rest = (spsh_bytes){c.at, (size_t)(c.end - c.at)};
    return true;
}

static void append_code_point(spsh__builder *out, uint32_t code)
{
    uint8_t text[4];
    size_t size_bytes = 1;
    if (code < 0x80) {
        text[0] = (uint8_t)code;
    } else {
        size_bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        for (size_t i = size_bytes - 1; i > 0; i--, code >>= 6)
            text[i] = (uint8_t)(0x80 | (code & 0x3f));
        text[0] = (uint8_t)((0xf00U >> size_bytes & 0xf0) | code);
    }
    spsh__builder_append(out, text, size_bytes);
}

void spsh__json_unescape(const spsh__json_value *value, spsh__builder *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const uint8_t *at = value->raw.data;
    const uint8_t *end = at + value->raw.size_bytes;
    while (at < end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
        size_t size_bytes = 2;
        if (escape == NULL) {
            spsh__builder_append(out, at, (size_t)(end - at));
            return;
        }
        spsh__builder_append(out, at, (size_t)(escape - at));
        if (escape[1] == 'u')
            append_code_point(out, (uint32_t)take_code_point(escape, end, &size_bytes));
        else
            spsh__builder_append(out, to + (strchr(from, escape[1]) - from), 1);
        at = escape + size_bytes;
    }
}

spsh_bytes spsh__json_text(const spsh__json_value *value, spsh__builder *out)
{
    if (value->kind != SPSH__JSON_STRING)
        return (spsh_bytes){0};
    if (!value->escaped)
        return value->raw;
    const size_t start = out->size_bytes;
    spsh__json_unescape(value, out);
    return out->failed ? (spsh_bytes){0} : (spsh_bytes){out->data + start, out->size_bytes - start};
}

spsh_bytes spsh__json_name(const spsh__json_value *value, spsh__builder *out)
{
    return value->kind == SPSH__JSON_NUMBER ? value->raw : spsh__json_text(value, out);
}

const char *spsh__json_kind_problem(const spsh__json_value *values, const char *const *names,
                                    const unsigned *kinds, size_t count,
                                    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES])
{
    static const char *const words[] = {
        [SPSH__JSON_FALSE] = "false",     [SPSH__JSON_TRUE] = "true",
        [SPSH__JSON_NUMBER] = "a number", [SPSH__JSON_STRING] = "a string",
        [SPSH__JSON_ARRAY] = "a list",    [SPSH__JSON_OBJECT] = "an object",
    };
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind <= SPSH__JSON_NULL || kinds[i] == 0 ||
            (kinds[i] >> values[i].kind & 1) != 0)
            continue;
        const char *wanted = kinds[i] == SPSH__JSON_ARRAYS    ? "a list"
                             : kinds[i] == SPSH__JSON_OBJECTS ? "an object"
                             : kinds[i] == SPSH__JSON_NUMBERS ? "a number"
                             : kinds[i] == SPSH__JSON_STRINGS ? "a string"
                                                              : "a string or a number";
        (void)snprintf(buffer, SPSH__JSON_KIND_PROBLEM_BYTES, "'%.80s' is %s, but must be %s",
                       names[i], words[values[i].kind], wanted);
        return buffer;
    }
    return NULL;
}

void spsh__json_value_member(spsh__builder *out, size_t start, const char *key,
                             const spsh__json_value *value)
{
    const char *quote = value->kind == SPSH__JSON_STRING ? "\"" : "";
    if (value->kind <= SPSH__JSON_NULL)
        return;
    spsh__builder_append(out, out->size_bytes == start ? "{" : ",", 1);
    spsh__json_string(out, spsh__bytes_of(key));
    spsh__builder_append(out, ":", 1);
    spsh__builder_append_text(out, quote);
    spsh__builder_append_bytes(out, value->raw);
    spsh__builder_append_text(out, quote);
}

spsh__time_result spsh__json_seconds(const spsh__json_value *value, uint64_t *ret_ns)
{
    if (value->kind == SPSH__JSON_ABSENT || value->kind == SPSH__JSON_NULL)
        return SPSH__TIME_ABSENT;
    if (value->kind != SPSH__JSON_NUMBER && value->kind != SPSH__JSON_STRING)
        return SPSH__TIME_BAD;
    return spsh__table_time(value->raw, UINT64_C(1000000000), ret_ns);
}

bool spsh__json_truthy(const spsh__json_value *value)
{
    static const char *const falses[] = {"", "0", "false", "False"};
    if (value->kind == SPSH__JSON_NUMBER) {
        for (size_t i = 0; i < value->raw.size_bytes; i++) {
            const uint8_t c = value->raw.data[i];
            if (c >= '1' && c <= '9')
                return true;
            if ((c | 0x20) == 'e')
                return false;
        }
        return false;
    }
    if (value->kind != SPSH__JSON_STRING)
        return value->kind == SPSH__JSON_TRUE;
    for (size_t i = 0; i < sizeof(falses) / sizeof(falses[0]); i++) {
        if (spsh__bytes_equal(value->raw, spsh__bytes_of(falses[i])))
            return false;
    }
    return true;
}

struct spsh__jsonl_reader {
    spsh__row_reader *rows;
    const char *const *names;
    size_t name_count;
    spsh__builder extras;
    spsh__json_value values[SPSH__JSON_NAMES_MAX];
};

spsh_status spsh__jsonl_reader_new(const spsh__text_input *input, const char *const *names,
                                   size_t name_count, spsh__jsonl_reader **ret_reader,
                                   spsh_error *err)
{
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\0'};
    if (name_count > SPSH__JSON_NAMES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%zu names, but at most %u can be searched for",
                         name_count, SPSH__JSON_NAMES_MAX);
    spsh__jsonl_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: a reader of JSON lines", input->name);
    reader->names = names;
    reader->name_count = name_count;
    spsh_status rc = spsh__row_reader_new(input, &dialect, &reader->rows, err);
    if (rc != SPSH_OK) {
        free(reader);
        return rc;
    }
    *ret_reader = reader;
    return SPSH_OK;
}

void spsh__jsonl_reader_free(spsh__jsonl_reader *reader)
{
    if (reader == NULL)
        return;
    spsh__row_reader_free(reader->rows);
    spsh__builder_free(&reader->extras);
    free(reader);
}

static bool is_blank_line(spsh_bytes raw)
{
    json_cursor c = cursor_of(raw);
    skip_space(&c);
    return c.at == c.end;
}

spsh_status spsh__jsonl_reader_next(spsh__jsonl_reader *reader, spsh__jsonl_line *ret_line,
                                    spsh_error *err)
{
    spsh__row row;
    spsh_status rc;
    do {
        rc = spsh__row_reader_next(reader->rows, &row, err);
        if (rc != SPSH_OK)
            return rc;
    } while (row.problem == NULL && is_blank_line(row.raw));
    spsh__jsonl_line line = {
        .values = reader->values,
        .raw = row.raw,
        .line = row.line,
        .offset_bytes = row.offset_bytes,
        .problem = row.problem,
    };
    if (line.problem != NULL) {
        memset(reader->values, 0, sizeof(reader->values));
    } else {
        size_t offset = 0;
        spsh__builder_clear(&reader->extras);
        line.problem = spsh__json_pick(row.raw, reader->names, reader->name_count, reader->values,
                                       &reader->extras, &offset);
        line.offset_bytes += line.problem != NULL ? offset : 0;
        line.extras = spsh__builder_bytes(&reader->extras);
        if (reader->extras.failed)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for a line");
    }
    *ret_line = line;
    return SPSH_OK;
}

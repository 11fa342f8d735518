/* json_elements.c: see json_elements.h.
 *
 *     data    [ passed | keep ... element so far ... at | not scanned yet ... size )
 *
 * A new window is appended after the kept bytes. If no element is being kept, all bytes up to `at`
 * are dropped. A value ends at its closing bracket, so each byte is scanned once. A value that
 * crosses a window's end is continued with its saved state: the depth, and whether it is inside a
 * string.
 */
#include "json_elements.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

#define WINDOW_BYTES ((size_t)256 << 10)

struct spsh__json_elements {
    const spsh__text_input *input;
    uint8_t *data;
    size_t keep, at, size, capacity;
    uint64_t offset_bytes; /* offset of data in the file */
    uint64_t line;
    bool begun; /* at least one element was returned */
};

/** State of a value that is being scanned. */
typedef struct value_state {
    unsigned depth;
    bool in_string, escaped;
} value_state;

static spsh_status broken(const spsh__json_elements *e, const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: line %" PRIu64 ", byte %" PRIu64 ": %s",
                     e->input->name, e->line, e->offset_bytes + e->at, what);
}

/* Read the next window after the kept bytes. SPSH_E_END at the end of the input. */
static spsh_status read_more(spsh__json_elements *e, spsh_error *err)
{
    const size_t window = e->input->window_bytes != 0 ? e->input->window_bytes : WINDOW_BYTES;
    size_t got = 0;
    if (e->keep > 0) {
        memmove(e->data, e->data + e->keep, e->size - e->keep);
        e->offset_bytes += e->keep;
        e->at -= e->keep;
        e->size -= e->keep;
        e->keep = 0;
    }
    if (e->capacity - e->size < window) {
        const size_t capacity =
            e->capacity * 2 > e->size + window ? e->capacity * 2 : e->size + window;
        uint8_t *data = realloc(e->data, capacity);
        if (data == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: element of %zu bytes", e->input->name,
                             e->size);
        e->data = data;
        e->capacity = capacity;
    }
    spsh_status rc = e->input->read_at_fn(e->input->user, e->offset_bytes + e->size,
                                          e->data + e->size, window, &got, err);
    e->size += got;
    return rc != SPSH_OK ? rc : got == 0 ? SPSH_E_END : SPSH_OK;
}

/* Advance to the next byte that is not a blank. Keeps nothing. SPSH_E_END at the end of the input.
 */
static spsh_status skip_blanks(spsh__json_elements *e, uint8_t *ret_byte, spsh_error *err)
{
    for (;;) {
        for (; e->at < e->size; e->at++) {
            const uint8_t c = e->data[e->at];
            if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
                *ret_byte = c;
                e->keep = e->at;
                return SPSH_OK;
            }
            e->line += c == '\n';
        }
        e->keep = e->at;
        spsh_status rc = read_more(e, err);
        if (rc != SPSH_OK)
            return rc;
    }
}

static uint64_t load_u64le(const uint8_t *data)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)data[i] << (8 * i);
    return value;
}

/* Advance to the first quote or backslash, or near the end. Strings are most of the text, so this
 * scans eight bytes at a time. */
static size_t skip_plain(const uint8_t *data, size_t at, size_t size)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (; size - at >= 8; at += 8) {
        const uint64_t word = load_u64le(data + at);
        const uint64_t quote = word ^ (ones * '"');
        const uint64_t backslash = word ^ (ones * '\\');
        const uint64_t equal = ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash);
        if ((equal & (ones << 7)) != 0)
            break;
    }
    return at;
}

/* Scan the loaded bytes of a string. */
static void pass_string(spsh__json_elements *e, value_state *s)
{
    if (!s->escaped)
        e->at = skip_plain(e->data, e->at, e->size);
    for (; e->at < e->size; e->at++) {
        const uint8_t c = e->data[e->at];
        if (s->escaped) {
            s->escaped = false;
        } else if (c == '\\') {
            s->escaped = true;
        } else if (c == '"') {
            s->in_string = false;
            e->at++;
            return;
        }
    }
}

/* Bytes that matter inside brackets. */
static const bool is_structure[256] = {
    ['"'] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true, ['\n'] = true,
};

/* Scan the loaded bytes of a value. Returns true at its end. */
static bool pass_window(spsh__json_elements *e, value_state *s)
{
    while (e->at < e->size) {
        if (s->in_string) {
            pass_string(e, s);
            if (!s->in_string && s->depth == 0)
                return true;
            continue;
        }
        const uint8_t c = e->data[e->at];
        if (s->depth > 0 && !is_structure[c]) {
            e->at++;
            continue;
        }
        const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        if (s->depth == 0 && (blank || c == ',' || c == '}' || c == ']'))
            return true;
        e->line += c == '\n';
        s->in_string = c == '"';
        e->at++;
        if (c == '{' || c == '[')
            s->depth++;
        else if ((c == '}' || c == ']') && --s->depth == 0)
            return true;
    }
    return false;
}

/* Scan a value. Afterwards it is data from keep to at, unless it is too long. */
static spsh_status pass_value(spsh__json_elements *e, size_t size_bytes_max, bool *ret_too_long,
                              spsh_error *err)
{
    value_state s = {0};
    *ret_too_long = false;
    e->keep = e->at;
    while (!pass_window(e, &s)) {
        *ret_too_long = *ret_too_long || e->at - e->keep > size_bytes_max;
        if (*ret_too_long)
            e->keep = e->at;
        spsh_status rc = read_more(e, err);
        if (rc == SPSH_E_END)
            return broken(e, "the text ends inside a value", err);
        if (rc != SPSH_OK)
            return rc;
    }
    *ret_too_long = *ret_too_long || e->at - e->keep > size_bytes_max;
    return SPSH_OK;
}

static spsh_status no_array(const spsh__json_elements *e, const char *key, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: the file is not a JSON object with a list '%s'",
                     e->input->name, key);
}

/* Scan a key and its colon. *ret_equal: it is the wanted key. */
static spsh_status take_key(spsh__json_elements *e, const char *key, bool *ret_equal,
                            spsh_error *err)
{
    uint8_t byte = 0;
    bool too_long = false;
    const size_t length = strlen(key);
    spsh_status rc = pass_value(e, SPSH__JSON_ELEMENT_BYTES_MAX, &too_long, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_equal = !too_long && e->at - e->keep == length + 2 && e->data[e->keep] == '"' &&
                 memcmp(e->data + e->keep + 1, key, length) == 0;
    rc = skip_blanks(e, &byte, err);
    if (rc != SPSH_OK || byte != ':')
        return rc == SPSH_OK ? no_array(e, key, err) : rc;
    e->at++;
    return SPSH_OK;
}

/* Skip one member of the outer object. If it is the wanted array, stop after its opening bracket
 * instead. */
static spsh_status take_member(spsh__json_elements *e, const char *key, bool *ret_found,
                               spsh_error *err)
{
    uint8_t byte = 0;
    bool too_long = false;
    bool equal = false;
    spsh_status rc = skip_blanks(e, &byte, err);
    if (rc == SPSH_OK && byte != '"')
        return no_array(e, key, err);
    if (rc == SPSH_OK)
        rc = take_key(e, key, &equal, err);
    if (rc == SPSH_OK)
        rc = skip_blanks(e, &byte, err);
    if (rc != SPSH_OK)
        return rc;
    if (equal && byte == '[') {
        e->at++;
        *ret_found = true;
        return SPSH_OK;
    }
    rc = pass_value(e, SPSH__JSON_ELEMENT_BYTES_MAX, &too_long, err);
    if (rc == SPSH_OK)
        rc = skip_blanks(e, &byte, err);
    if (rc == SPSH_OK && byte != ',')
        return no_array(e, key, err);
    e->at += rc == SPSH_OK;
    return rc;
}

static spsh_status find_array(spsh__json_elements *e, const char *key, spsh_error *err)
{
    uint8_t byte = 0;
    bool found = false;
    spsh_status rc = skip_blanks(e, &byte, err);
    if (rc == SPSH_OK && e->offset_bytes + e->at == 0 && e->size - e->at >= 3 &&
        memcmp(e->data + e->at, "\xef\xbb\xbf", 3) == 0) {
        e->at += 3;
        rc = skip_blanks(e, &byte, err);
    }
    if (rc == SPSH_OK && byte != '{')
        return no_array(e, key, err);
    e->at += rc == SPSH_OK;
    while (rc == SPSH_OK && !found)
        rc = take_member(e, key, &found, err);
    return rc == SPSH_E_END || rc == SPSH_E_CORRUPT ? no_array(e, key, err) : rc;
}

spsh_status spsh__json_elements_new(const spsh__text_input *input, const char *key,
                                    spsh__json_elements **ret_elements, spsh_error *err)
{
    spsh__json_elements *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: reader of elements", input->name);
    e->input = input;
    e->line = 1;
    spsh_status rc = find_array(e, key, err);
    if (rc != SPSH_OK) {
        spsh__json_elements_free(e);
        return rc;
    }
    *ret_elements = e;
    return SPSH_OK;
}

spsh_status spsh__json_elements_next(spsh__json_elements *elements, spsh__json_element *ret_element,
                                     spsh_error *err)
{
    spsh__json_elements *e = elements;
    uint8_t byte = 0;
    bool too_long = false;
    spsh_status rc = skip_blanks(e, &byte, err);
    if (rc == SPSH_OK && byte == ']')
        return SPSH_E_END;
    if (rc == SPSH_OK && e->begun) {
        if (byte != ',')
            return broken(e, "a comma or the end of the list is missing", err);
        e->at++;
        rc = skip_blanks(e, &byte, err);
    }
    if (rc == SPSH_E_END)
        return broken(e, "the text ends inside the list", err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_element element = {.line = e->line, .offset_bytes = e->offset_bytes + e->at};
    rc = pass_value(e, SPSH__JSON_ELEMENT_BYTES_MAX, &too_long, err);
    if (rc != SPSH_OK)
        return rc;
    e->begun = true;
    if (too_long)
        element.problem = "an element is longer than 64 MiB";
    else
        element.raw = (spsh_bytes){e->data + e->keep, e->at - e->keep};
    *ret_element = element;
    return SPSH_OK;
}

void spsh__json_elements_free(spsh__json_elements *elements)
{
    if (elements == NULL)
        return;
    free(elements->data);
    free(elements);
}

/* yaml_lines.c: see yaml_lines.h. Line by line; the keys above a line are those before it that are
 * indented less.
 */
#include "yaml_lines.h"

#include <string.h>

#include "fail.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

typedef struct reader {
    const char *name;
    uint64_t line;
    const char *keys[SPSH__YAML_DEPTH_MAX];
    size_t indents[SPSH__YAML_DEPTH_MAX];
    size_t depth;
    spsh__yaml_value_fn value_fn;
    void *user;
} reader;

static spsh_status refuse(const reader *r, const char *what, spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_CORRUPT, "%s: line %llu: %s", r->name,
                            (unsigned long long)r->line, what);
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static bool is_rest_empty(const char *at)
{
    at += strspn(at, " \t");
    return *at == '\0' || *at == '#';
}

/* Take the quotes off the text at `at`; *ret_behind is what follows them, NULL when none do. */
static char *unquote(char *at, char **ret_behind)
{
    const char quote = *at++;
    char *text = at;
    char *end = at;
    *ret_behind = NULL;
    for (; *at != '\0'; at++) {
        if (*at == quote && quote == '\'' && at[1] == quote) {
            at++;
        } else if (*at == quote) {
            *ret_behind = at + 1;
            break;
        } else if (*at == '\\' && quote == '"') {
            at++;
            if (*at != '\\' && *at != '"' && *at != 't')
                return NULL;
            if (*at == 't')
                *at = '\t';
        }
        *end++ = *at;
    }
    if (*ret_behind != NULL)
        *end = '\0';
    return text;
}

/* The value at `at`, which goes to the end of the line; empty when there is none. */
static spsh_status read_value(const reader *r, char *at, const char **ret_text, spsh_error *err)
{
    at = skip_blanks(at);
    *ret_text = "";
    if (is_rest_empty(at))
        return SPSH_OK;
    if (*at == '"' || *at == '\'') {
        char *behind = NULL;
        const char *text = unquote(at, &behind);
        if (text == NULL || behind == NULL || !is_rest_empty(behind))
            return refuse(r, "the quotes are not understood", err);
        *ret_text = text;
        return SPSH_OK;
    }
    if (strchr("[{|>&*!%@`", *at) != NULL)
        return refuse(r, "only plain and quoted values are understood", err);
    char *end = strstr(at, " #");
    if (end == NULL)
        end = at + strlen(at);
    while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    *ret_text = at;
    return SPSH_OK;
}

static spsh_status give(const reader *r, bool is_item, const char *text, spsh_error *err)
{
    spsh__yaml_value value = {.is_item = is_item, .text = text, .line = r->line};
    for (size_t i = 0; i < r->depth; i++)
        value.keys[i] = r->keys[i];
    return r->value_fn(r->user, &value, err);
}

static spsh_status read_item(reader *r, size_t indent, char *at, spsh_error *err)
{
    const char *text = NULL;
    /* A list may stand as far to the left as its key. */
    while (r->depth > 0 && r->indents[r->depth - 1] > indent)
        r->depth--;
    if (r->depth == 0)
        return refuse(r, "a list without a key is not understood", err);
    at = skip_blanks(at);
    const bool is_quoted = *at == '"' || *at == '\'';
    spsh_status rc = read_value(r, at, &text, err);
    if (rc != SPSH_OK)
        return rc;
    if (*text == '\0' || (!is_quoted && strstr(text, ": ") != NULL))
        return refuse(r, "only lists of plain values are understood", err);
    return give(r, true, text, err);
}

static spsh_status read_key(reader *r, size_t indent, char *at, spsh_error *err)
{
    char *behind = NULL;
    const char *key = at;
    const char *text = NULL;
    if (*at == '"' || *at == '\'') {
        key = unquote(at, &behind);
        if (key == NULL || behind == NULL || *behind != ':')
            return refuse(r, "a key is followed by a colon", err);
    } else {
        behind = strchr(at, ':');
        if (behind == NULL)
            return refuse(r, "a key is followed by a colon", err);
        *behind = '\0';
    }
    behind++;
    if (*behind != '\0' && *behind != ' ' && *behind != '\t')
        return refuse(r, "a key is followed by a colon and a blank", err);
    while (r->depth > 0 && r->indents[r->depth - 1] >= indent)
        r->depth--;
    if (r->depth == SPSH__YAML_DEPTH_MAX)
        return refuse(r, "there are more levels of keys than are understood", err);
    r->keys[r->depth] = key;
    r->indents[r->depth++] = indent;
    spsh_status rc = read_value(r, behind, &text, err);
    return rc == SPSH_OK && *text != '\0' ? give(r, false, text, err) : rc;
}

static spsh_status read_line(reader *r, char *line, spsh_error *err)
{
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    const size_t indent = strspn(line, " ");
    char *at = line + indent;
    if (is_rest_empty(at))
        return SPSH_OK;
    if (*at == '\t')
        return refuse(r, "indentation is made of blanks", err);
    if (strcmp(line, "---") == 0 && r->depth == 0)
        return SPSH_OK;
    if (at[0] == '-' && (at[1] == ' ' || at[1] == '\0'))
        return read_item(r, indent, at + 1, err);
    return read_key(r, indent, at, err);
}

spsh_status spsh__yaml_read(char *text, const char *name, spsh__yaml_value_fn value_fn, void *user,
                            spsh_error *err)
{
    reader r = {.name = name, .value_fn = value_fn, .user = user};
    spsh_status rc = SPSH_OK;
    if (strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
        text += strlen(BYTE_ORDER_MARK);
    while (text != NULL && rc == SPSH_OK) {
        char *end = strchr(text, '\n');
        if (end != NULL)
            *end = '\0';
        r.line++;
        rc = read_line(&r, text, err);
        text = end == NULL ? NULL : end + 1;
    }
    return rc;
}

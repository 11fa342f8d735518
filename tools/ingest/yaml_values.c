/* yaml_values.c: see yaml_values.h. libyaml tells what begins and ends, one event after the other;
 * what is open is at most DEPTH_MAX mappings and one list, so nothing that a text says makes this
 * go deep.
 */
#include "yaml_values.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "fail.h"

/* A chain of copies: values point into it while it grows. */
typedef struct spsh__yaml_text {
    struct spsh__yaml_text *next;
    char bytes[];
} spsh__yaml_text;

typedef struct reader {
    const char *name;
    spsh__yaml yaml;
    const char *keys[SPSH__YAML_DEPTH_MAX];
    size_t depth;    /* mappings that are open */
    bool has_key;    /* the innermost mapping: its value is next */
    bool is_in_list; /* which is the value of the last key */
    bool has_document;
} reader;

static spsh_status no_memory(const reader *r, spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for its values", r->name);
}

static spsh_status refuse(const reader *r, const yaml_event_t *event, const char *what,
                          spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_CORRUPT, "%s: line %llu: %s", r->name,
                            (unsigned long long)event->start_mark.line + 1, what);
}

/* ---- values ---- */

/* NULL: no memory. */
static const char *keep(reader *r, const yaml_event_t *event)
{
    const size_t length = event->data.scalar.length;
    spsh__yaml_text *text = malloc(sizeof(*text) + length + 1);
    if (text == NULL)
        return NULL;
    memcpy(text->bytes, event->data.scalar.value, length);
    text->bytes[length] = '\0';
    text->next = r->yaml.texts;
    r->yaml.texts = text;
    return text->bytes;
}

static spsh_status add_value(reader *r, const yaml_event_t *event, spsh_error *err)
{
    spsh__yaml *y = &r->yaml;
    spsh__yaml_value value = {.is_item = r->is_in_list, .line = event->start_mark.line + 1};
    if (y->value_count == SPSH__YAML_VALUES_MAX)
        return SPSH_INGEST_FAIL(err, SPSH_E_LIMIT, "%s: line %llu: there are more than %zu values",
                                r->name, (unsigned long long)value.line, SPSH__YAML_VALUES_MAX);
    if (y->value_count == y->value_capacity) {
        const size_t capacity = y->value_capacity == 0 ? 64 : 2 * y->value_capacity;
        spsh__yaml_value *values = realloc(y->values, capacity * sizeof(*values));
        if (values == NULL)
            return no_memory(r, err);
        y->values = values;
        y->value_capacity = capacity;
    }
    for (size_t i = 0; i < r->depth; i++)
        value.keys[i] = r->keys[i];
    value.text = keep(r, event);
    if (value.text == NULL)
        return no_memory(r, err);
    y->values[y->value_count++] = value;
    return SPSH_OK;
}

/* ---- events ---- */

static bool is_null(const yaml_event_t *event)
{
    static const char *const words[] = {"~", "null", "Null", "NULL"};
    const char *text = (const char *)event->data.scalar.value;
    if (event->data.scalar.length == 0)
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static spsh_status take_scalar(reader *r, const yaml_event_t *event, spsh_error *err)
{
    if (event->data.scalar.tag != NULL)
        return refuse(r, event, "tags are not understood", err);
    if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
        return refuse(r, event, "a text has a NUL in it", err);
    if (r->depth == 0)
        return refuse(r, event, "a value without a key is not understood", err);
    if (!r->has_key) {
        const char *key = keep(r, event);
        r->keys[r->depth - 1] = key;
        r->has_key = true;
        return key == NULL ? no_memory(r, err) : SPSH_OK;
    }
    if (r->is_in_list && is_null(event))
        return refuse(r, event, "an item of a list is empty", err);
    if (!r->is_in_list)
        r->has_key = false;
    return is_null(event) ? SPSH_OK : add_value(r, event, err);
}

static spsh_status begin_mapping(reader *r, const yaml_event_t *event, spsh_error *err)
{
    if (event->data.mapping_start.tag != NULL)
        return refuse(r, event, "tags are not understood", err);
    if (r->is_in_list)
        return refuse(r, event, "only lists of plain values are understood", err);
    if (r->depth > 0 && !r->has_key)
        return refuse(r, event, "a key is a plain value", err);
    if (r->depth == SPSH__YAML_DEPTH_MAX)
        return refuse(r, event, "there are more levels of keys than are understood", err);
    r->depth++;
    r->has_key = false;
    return SPSH_OK;
}

static spsh_status begin_list(reader *r, const yaml_event_t *event, spsh_error *err)
{
    if (event->data.sequence_start.tag != NULL)
        return refuse(r, event, "tags are not understood", err);
    if (r->is_in_list)
        return refuse(r, event, "only lists of plain values are understood", err);
    if (r->depth == 0)
        return refuse(r, event, "a list without a key is not understood", err);
    if (!r->has_key)
        return refuse(r, event, "a key is a plain value", err);
    r->is_in_list = true;
    return SPSH_OK;
}

static spsh_status take_event(reader *r, const yaml_event_t *event, spsh_error *err)
{
    switch (event->type) {
    case YAML_STREAM_START_EVENT:
        return event->data.stream_start.encoding == YAML_UTF8_ENCODING
                   ? SPSH_OK
                   : refuse(r, event, "the text is not UTF-8", err);
    case YAML_DOCUMENT_START_EVENT:
        if (r->has_document)
            return refuse(r, event, "there is more than one document", err);
        r->has_document = true;
        return SPSH_OK;
    case YAML_ALIAS_EVENT: return refuse(r, event, "aliases are not understood", err);
    case YAML_SCALAR_EVENT: return take_scalar(r, event, err);
    case YAML_MAPPING_START_EVENT: return begin_mapping(r, event, err);
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        r->has_key = false;
        return SPSH_OK;
    case YAML_SEQUENCE_START_EVENT: return begin_list(r, event, err);
    case YAML_SEQUENCE_END_EVENT:
        r->is_in_list = false;
        r->has_key = false;
        return SPSH_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return SPSH_OK;
}

/* ---- errors of libyaml ---- */

/* Bytes that are no text have an offset instead of a line. */
static uint64_t line_of_problem(const yaml_parser_t *parser, const char *text, size_t size_bytes)
{
    uint64_t line = 1;
    if (parser->error != YAML_READER_ERROR)
        return parser->problem_mark.line + 1;
    for (size_t i = 0; i < size_bytes && i < parser->problem_offset; i++)
        line += text[i] == '\n';
    return line;
}

static spsh_status fail_as(const reader *r, const yaml_parser_t *parser, uint64_t line,
                           spsh_error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(r, err);
    return SPSH_INGEST_FAIL(err, SPSH_E_CORRUPT, "%s: line %llu: %s", r->name,
                            (unsigned long long)line,
                            parser->problem == NULL ? "is not understood" : parser->problem);
}

/* ---- all of it ---- */

spsh_status spsh__yaml_read(const char *text, size_t size_bytes, const char *name,
                            spsh__yaml *ret_yaml, spsh_error *err)
{
    reader r = {.name = name};
    yaml_parser_t parser;
    spsh_status rc = SPSH_OK;
    bool is_at_end = false;
    if (size_bytes > SPSH__YAML_BYTES_MAX)
        return SPSH_INGEST_FAIL(err, SPSH_E_LIMIT, "%s: is longer than %zu bytes", name,
                                SPSH__YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&parser))
        return no_memory(&r, err);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size_bytes);
    while (rc == SPSH_OK && !is_at_end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = fail_as(&r, &parser, line_of_problem(&parser, text, size_bytes), err);
            break;
        }
        is_at_end = event.type == YAML_STREAM_END_EVENT;
        rc = take_event(&r, &event, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (rc == SPSH_OK)
        *ret_yaml = r.yaml;
    else
        spsh__yaml_free(&r.yaml);
    return rc;
}

void spsh__yaml_free(spsh__yaml *yaml)
{
    while (yaml->texts != NULL) {
        spsh__yaml_text *next = yaml->texts->next;
        free(yaml->texts);
        yaml->texts = next;
    }
    free(yaml->values);
    *yaml = (spsh__yaml){0};
}

/* settings.c: see settings.h. libyaml reports begins and ends, one event at a time. At most
 * SPSH_SETTINGS_DEPTH_MAX mappings and one list are open, so no input can cause deep recursion.
 */
#include "speechshard/settings.h"

#include <string.h>
#include <yaml.h>

#include "buffer.h"

/* The values of the current key, one after another, each with a NUL. */
typedef struct values {
    spsh__buffer bytes;
    spsh__buffer
        texts; /* const char *[]; filled after the last value, since bytes may move until then */
    size_t count;
} values;

typedef struct reader {
    const char *name;
    spsh_setting_fn visit_fn;
    void *user;
    char keys[SPSH_SETTINGS_DEPTH_MAX][SPSH_SETTINGS_KEY_BYTES]; /* the last of each open mapping */
    uint64_t line;                                               /* line of the innermost key */
    size_t depth;                                                /* mappings that are open */
    bool has_key; /* innermost mapping has a key; its value is next */
    bool is_in_list;
    bool has_document;
    values values;
} reader;

static spsh_status no_memory(const reader *r, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory for its values", r->name);
}

static spsh_status refuse(const reader *r, const yaml_event_t *event, const char *what,
                          spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: line %llu: %s", r->name,
                     (unsigned long long)event->start_mark.line + 1, what);
}

/* ---- values ---- */

static spsh_status keep(reader *r, const char *text, size_t size, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    values *v = &r->values;
    if (spsh__buffer_append(&v->bytes, allocator, text, size, NULL) != SPSH_OK ||
        spsh__buffer_append(&v->bytes, allocator, "", 1, NULL) != SPSH_OK)
        return no_memory(r, err);
    v->count++;
    return SPSH_OK;
}

static spsh_status visit(reader *r, bool is_list, spsh_error *err)
{
    values *v = &r->values;
    const size_t texts_bytes = v->count * sizeof(const char *);
    v->texts.size_bytes = 0;
    if (spsh__buffer_reserve(&v->texts, spsh_allocator_default(), texts_bytes, NULL) != SPSH_OK)
        return no_memory(r, err);
    const char **texts = (const char **)(void *)v->texts.data;
    const char *at = (const char *)v->bytes.data;
    for (size_t i = 0; i < v->count; i++) {
        texts[i] = at;
        at += strlen(at) + 1;
    }
    spsh_setting setting = {
        .name = r->name, .texts = texts, .count = v->count, .is_list = is_list, .line = r->line};
    for (size_t i = 0; i < r->depth; i++)
        setting.keys[i] = r->keys[i];
    r->has_key = false;
    return r->visit_fn(r->user, &setting, err);
}

/* ---- events ---- */

static bool is_null(const yaml_event_t *event)
{
    static const char *const words[] = {"~", "null", "Null", "NULL"};
    const char *text = (const char *)event->data.scalar.value;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static spsh_status take_key(reader *r, const yaml_event_t *event, spsh_error *err)
{
    const char *key = (const char *)event->data.scalar.value;
    if (event->data.scalar.length == 0 || event->data.scalar.length >= sizeof(r->keys[0]))
        return refuse(r, event, "a key is empty or too long", err);
    memcpy(r->keys[r->depth - 1], key, event->data.scalar.length + 1);
    r->line = event->start_mark.line + 1;
    r->has_key = true;
    r->values.bytes.size_bytes = 0;
    r->values.count = 0;
    return SPSH_OK;
}

static spsh_status take_scalar(reader *r, const yaml_event_t *event, spsh_error *err)
{
    const char *text = (const char *)event->data.scalar.value;
    if (event->data.scalar.tag != NULL)
        return refuse(r, event, "tags are not supported", err);
    if (strlen(text) != event->data.scalar.length)
        return refuse(r, event, "a value contains a NUL", err);
    if (r->depth == 0 && event->data.scalar.length == 0)
        return SPSH_OK; /* a document of nothing but comments */
    if (r->depth == 0)
        return refuse(r, event, "a value has no key", err);
    if (!r->has_key)
        return take_key(r, event, err);
    if (r->values.count == SPSH_SETTINGS_VALUES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: line %llu: a list has more than %zu values",
                         r->name, (unsigned long long)event->start_mark.line + 1,
                         SPSH_SETTINGS_VALUES_MAX);
    const spsh_status rc = keep(r, text, is_null(event) ? 0 : event->data.scalar.length, err);
    return rc != SPSH_OK || r->is_in_list ? rc : visit(r, false, err);
}

static spsh_status begin_mapping(reader *r, const yaml_event_t *event, spsh_error *err)
{
    if (event->data.mapping_start.tag != NULL)
        return refuse(r, event, "tags are not supported", err);
    if (r->is_in_list)
        return refuse(r, event, "only lists of plain values are supported", err);
    if (r->depth > 0 && !r->has_key)
        return refuse(r, event, "a key must be a plain value", err);
    if (r->depth == SPSH_SETTINGS_DEPTH_MAX)
        return refuse(r, event, "keys are nested too deeply", err);
    r->depth++;
    r->has_key = false;
    return SPSH_OK;
}

static spsh_status begin_list(reader *r, const yaml_event_t *event, spsh_error *err)
{
    if (event->data.sequence_start.tag != NULL)
        return refuse(r, event, "tags are not supported", err);
    if (r->is_in_list)
        return refuse(r, event, "only lists of plain values are supported", err);
    if (r->depth == 0)
        return refuse(r, event, "a list has no key", err);
    if (!r->has_key)
        return refuse(r, event, "a key must be a plain value", err);
    r->is_in_list = true;
    return SPSH_OK;
}

static spsh_status take_event(reader *r, const yaml_event_t *event, spsh_error *err)
{
    switch (event->type) {
    case YAML_STREAM_START_EVENT:
        return event->data.stream_start.encoding == YAML_UTF8_ENCODING
                   ? SPSH_OK
                   : refuse(r, event, "the text is not valid UTF-8", err);
    case YAML_DOCUMENT_START_EVENT:
        if (r->has_document)
            return refuse(r, event, "the file has more than one document", err);
        r->has_document = true;
        return SPSH_OK;
    case YAML_ALIAS_EVENT: return refuse(r, event, "aliases are not supported", err);
    case YAML_SCALAR_EVENT: return take_scalar(r, event, err);
    case YAML_MAPPING_START_EVENT: return begin_mapping(r, event, err);
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        r->has_key = false;
        return SPSH_OK;
    case YAML_SEQUENCE_START_EVENT: return begin_list(r, event, err);
    case YAML_SEQUENCE_END_EVENT: r->is_in_list = false; return visit(r, true, err);
    case YAML_NO_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return SPSH_OK;
}

/* Bytes that are not valid text have an offset instead of a line. */
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
    return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: line %llu: %s", r->name, (unsigned long long)line,
                     parser->problem == NULL ? "this YAML is not supported" : parser->problem);
}

spsh_status spsh_settings_read(const char *text, size_t size_bytes, const char *name,
                               spsh_setting_fn visit_fn, void *user, spsh_error *err)
{
    reader r = {.name = name, .visit_fn = visit_fn, .user = user};
    yaml_parser_t parser;
    spsh_status rc = SPSH_OK;
    bool is_at_end = false;
    if (size_bytes > SPSH_SETTINGS_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the file is longer than %zu bytes", name,
                         SPSH_SETTINGS_BYTES_MAX);
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
    spsh__buffer_free(&r.values.bytes, spsh_allocator_default());
    spsh__buffer_free(&r.values.texts, spsh_allocator_default());
    return rc;
}

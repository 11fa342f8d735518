/* json_out.c: wraps jansson with a stack of open containers, and with nodes of parsed documents.
 * Keys keep the order in which they were added. */
#include "json_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <math.h>

#include "speechshard/inside.h"

enum { DEPTH_MAX = 8, REAL_DIGITS = 15, HEX_BYTES_MAX = 64 };

struct spsh_json {
    json_t *open[DEPTH_MAX]; /* open[0] is owned, the others belong to their parents */
    size_t depth;            /* index of the innermost open container */
    spsh_status failure;     /* the first one */
    char place[80];          /* the key at which the failure happened */
};

spsh_json *spsh__json_new(void)
{
    spsh_json *json = (spsh_json *)calloc(1, sizeof(*json));
    if (json == NULL)
        return NULL;
    json->open[0] = json_object();
    if (json->open[0] == NULL) {
        free(json);
        return NULL;
    }
    return json;
}

void spsh__json_free(spsh_json *json)
{
    if (json == NULL)
        return;
    json_decref(json->open[0]);
    free(json);
}

static void fail(spsh_json *json, spsh_status status, const char *key)
{
    if (json == NULL || json->failure != SPSH_OK)
        return;
    json->failure = status;
    snprintf(json->place, sizeof(json->place), "%s", key == NULL ? "(array)" : key);
}

/* Add value and take ownership of it. NULL: the caller ran out of memory when it made the value. */
static void add(spsh_json *json, const char *key, json_t *value)
{
    if (json == NULL || value == NULL) {
        json_decref(value);
        fail(json, SPSH_E_NO_MEMORY, key);
        return;
    }
    json_t *parent = json->open[json->depth];
    int rc = key == NULL ? json_array_append_new(parent, value)
                         : json_object_set_new(parent, key, value);
    if (rc != 0)
        fail(json, SPSH_E_NO_MEMORY, key);
}

void spsh__json_put_text(spsh_json *json, const char *key, spsh_bytes text)
{
    const char *data = text.data == NULL ? "" : (const char *)text.data;
    json_t *value = json_stringn(data, text.size_bytes);
    if (value == NULL) {
        /* jansson does not report the reason. Invalid UTF-8 is likelier than lack of memory. */
        fail(json, SPSH_E_SYNTAX, key);
        return;
    }
    add(json, key, value);
}

void spsh__json_put_text_or_null(spsh_json *json, const char *key, spsh_bytes text)
{
    if (text.size_bytes == 0)
        spsh__json_put_null(json, key);
    else
        spsh__json_put_text(json, key, text);
}

void spsh__json_put_string(spsh_json *json, const char *key, const char *text)
{
    if (text == NULL)
        spsh__json_put_null(json, key);
    else
        spsh__json_put_text(json, key, (spsh_bytes){(const uint8_t *)text, strlen(text)});
}

void spsh__json_put_u64(spsh_json *json, const char *key, uint64_t value)
{
    if (value > INT64_MAX)
        fail(json, SPSH_E_LIMIT, key);
    else
        add(json, key, json_integer((json_int_t)value));
}

void spsh__json_put_u64_named(spsh_json *json, spsh_bytes key, uint64_t value)
{
    const char *data = key.data == NULL ? "" : (const char *)key.data;
    json_t *checked = json_stringn(data, key.size_bytes);
    if (checked == NULL)
        fail(json, SPSH_E_SYNTAX, "(a key)");
    else
        spsh__json_put_u64(json, json_string_value(checked), value);
    json_decref(checked);
}

void spsh__json_put_real(spsh_json *json, const char *key, double value)
{
    add(json, key, isfinite(value) ? json_real(value) : json_null());
}

void spsh__json_put_bool(spsh_json *json, const char *key, bool value)
{
    add(json, key, json_boolean(value));
}

void spsh__json_put_null(spsh_json *json, const char *key)
{
    add(json, key, json_null());
}

void spsh__json_put_hex(spsh_json *json, const char *key, const uint8_t *bytes, size_t size_bytes)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * HEX_BYTES_MAX + 1];
    size_t count = size_bytes < HEX_BYTES_MAX ? size_bytes : HEX_BYTES_MAX;
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
    spsh__json_put_string(json, key, text);
}

void spsh__json_put_member(spsh_json *json, const char *key, const char *object)
{
    json_t *tree = json_loads(object, 0, NULL);
    json_t *value = json_object_get(tree, key);
    if (value == NULL)
        fail(json, SPSH_E_SYNTAX, key);
    else
        add(json, key, json_incref(value));
    json_decref(tree);
}

void spsh__json_put_parsed(spsh_json *json, const char *key, spsh_bytes text)
{
    if (text.size_bytes == 0) {
        add(json, key, json_object());
        return;
    }
    json_t *value = json_loadb((const char *)text.data, text.size_bytes,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (value == NULL)
        fail(json, SPSH_E_SYNTAX, key);
    else
        add(json, key, value);
}

char *spsh__json_find_text(spsh_bytes object, const char *key)
{
    json_t *json = json_loadb((const char *)object.data, object.size_bytes, 0, NULL);
    const char *text = json_string_value(json_object_get(json, key));
    char *copy = text == NULL ? NULL : strdup(text);
    json_decref(json);
    return copy;
}

/* After a failure containers are still counted, so that begin and end stay paired. */
static void begin(spsh_json *json, const char *key, json_t *container)
{
    if (json == NULL || json->depth + 1 >= DEPTH_MAX) {
        json_decref(container);
        fail(json, SPSH_E_LIMIT, key);
        return;
    }
    add(json, key, container);
    json->open[json->depth + 1] = json->failure == SPSH_OK ? container : json->open[json->depth];
    json->depth++;
}

void spsh__json_begin_object(spsh_json *json, const char *key)
{
    begin(json, key, json_object());
}

void spsh__json_begin_array(spsh_json *json, const char *key)
{
    begin(json, key, json_array());
}

void spsh__json_end(spsh_json *json)
{
    if (json != NULL && json->depth > 0)
        json->depth--;
}

/* *ret_text is written if everything was added; the object is emptied in any case. */
static spsh_status dump(spsh_json *json, size_t flags, char **ret_text, spsh_error *err)
{
    spsh_status failure = json == NULL ? SPSH_E_NO_MEMORY : json->failure;
    if (failure == SPSH_OK) {
        char *text = json_dumps(json->open[0], flags | JSON_REAL_PRECISION(REAL_DIGITS));
        failure = text == NULL ? SPSH_E_NO_MEMORY : SPSH_OK;
        *ret_text = text == NULL ? *ret_text : text;
    }
    if (failure == SPSH_E_SYNTAX)
        (void)SPSH_FAIL(err, failure, "JSON member %s: not UTF-8, or not JSON", json->place);
    else if (failure != SPSH_OK)
        (void)SPSH_FAIL(err, failure, "JSON: %s", spsh_status_text(failure));
    if (json != NULL) {
        json_object_clear(json->open[0]);
        json->depth = 0;
        json->failure = SPSH_OK;
    }
    return failure;
}

static spsh_status write_text(spsh_json *json, size_t flags, FILE *stream, spsh_error *err)
{
    char *text = NULL;
    const spsh_status rc = dump(json, flags, &text, err);
    if (rc != SPSH_OK)
        return rc;
    const bool is_written = fputs(text, stream) >= 0 && fputc('\n', stream) != EOF;
    const int os_errno = errno;
    free(text);
    return is_written
               ? SPSH_OK
               : SPSH_FAIL_OS(err, SPSH_E_IO, os_errno, "cannot write: %s", strerror(os_errno));
}

spsh_status spsh__json_write_line(spsh_json *json, FILE *stream, spsh_error *err)
{
    return write_text(json, JSON_COMPACT, stream, err);
}

spsh_status spsh__json_write_pretty(spsh_json *json, FILE *stream, spsh_error *err)
{
    return write_text(json, JSON_INDENT(2), stream, err);
}

spsh_status spsh__json_take_text(spsh_json *json, char **ret_text, spsh_error *err)
{
    return dump(json, JSON_COMPACT, ret_text, err);
}

spsh_status spsh__json_take_indented(spsh_json *json, char **ret_text, spsh_error *err)
{
    return dump(json, JSON_INDENT(2), ret_text, err);
}

/* ---- reading ---- */

spsh__json_node *spsh__json_node_read(spsh_bytes text)
{
    return json_loadb((const char *)text.data, text.size_bytes, JSON_REJECT_DUPLICATES, NULL);
}

void spsh__json_node_free(spsh__json_node *root)
{
    json_decref(root);
}

spsh__json_node *spsh__json_node_member(const spsh__json_node *object, const char *key)
{
    return json_object_get(object, key);
}

bool spsh__json_node_next(spsh__json_node *object, void **at, const char **ret_key,
                          spsh__json_node **ret_value)
{
    *at = *at == NULL ? json_object_iter(object) : json_object_iter_next(object, *at);
    *ret_key = json_object_iter_key(*at);
    *ret_value = json_object_iter_value(*at);
    return *at != NULL;
}

size_t spsh__json_node_count(const spsh__json_node *array)
{
    return json_array_size(array);
}

spsh__json_node *spsh__json_node_at(const spsh__json_node *array, size_t index)
{
    return json_array_get(array, index);
}

const char *spsh__json_node_string(const spsh__json_node *node)
{
    return json_string_value(node);
}

double spsh__json_node_number(const spsh__json_node *node)
{
    return json_is_number(node) ? json_number_value(node) : (double)NAN;
}

bool spsh__json_node_equal(const spsh__json_node *left, const spsh__json_node *right)
{
    return json_equal(left, right) != 0;
}

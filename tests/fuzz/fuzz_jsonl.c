/* fuzz_jsonl.c: JSON lines compared with jansson: both accept the same lines and return the same
 * values. Also compares the elements of a list in an object that is the whole input.
 *
 * The first byte chooses how small the reader's window is. Exceptions: jansson rejects numbers that
 * are out of range and NULs in keys, and ends the input at a NUL. Our reader rejects deep nesting.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/file_names.h"
#include "common/jsonl.h"
#include "ingest/metadata/json_elements.h"
#include "speechshard/inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"a", "b", "o.a", "o.b.c", "duration", "text"};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* The value that jansson has under a dotted name; NULL: none. */
static const json_t *find(const json_t *object, const char *name)
{
    char key[32];
    const char *dot = strchr(name, '.');
    if (dot == NULL)
        return json_object_get(object, name);
    memcpy(key, name, (size_t)(dot - name));
    key[dot - name] = '\0';
    return find(json_object_get(object, key), dot + 1);
}

static void compare_value(const spsh__json_value *got, const json_t *want)
{
    spsh__builder text = {0};
    uint64_t ns = 0;
    must(spsh__json_seconds(got, &ns) != SPSH__TIME_OK || ns <= SPSH__TIME_NS_MAX);
    if (got->kind == SPSH__JSON_STRING) {
        must(json_is_string(want));
        const spsh_bytes mine = spsh__json_text(got, &text);
        must(!text.failed && spsh__utf8_valid(mine));
        must(mine.size_bytes == json_string_length(want) &&
             memcmp(mine.data, json_string_value(want), mine.size_bytes) == 0);
    } else if (got->kind == SPSH__JSON_ARRAY) {
        spsh_bytes rest = got->raw;
        spsh__json_value element;
        size_t count = 0;
        for (; spsh__json_array_next(&rest, &element); count++)
            compare_value(&element, json_array_get(want, count));
        must(count == json_array_size(want));
    } else {
        must((got->kind == SPSH__JSON_OBJECT) == json_is_object(want));
        must((got->kind == SPSH__JSON_NUMBER) == json_is_number(want));
        must((got->kind == SPSH__JSON_TRUE) == json_is_true(want));
        must((got->kind == SPSH__JSON_NULL) == json_is_null(want));
    }
    spsh__builder_free(&text);
}

/* If a key appears twice, we use the last one, and inner names from each of its objects. We do not
 * match escaped keys. Both are rare and excluded from the comparison. */
static bool comparable(spsh_bytes raw)
{
    json_t *strict = json_loadb((const char *)raw.data, raw.size_bytes,
                                JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const bool is = strict != NULL && memchr(raw.data, '\\', raw.size_bytes) == NULL;
    json_decref(strict);
    return is;
}

static void compare_line(const spsh__jsonl_line *line)
{
    json_error_t error;
    json_t *object =
        json_loadb((const char *)line->raw.data, line->raw.size_bytes, JSON_ALLOW_NUL, &error);
    if (line->problem != NULL) {
        must(!json_is_object(object) || strstr(line->problem, "deep") != NULL);
        json_decref(object);
        return;
    }
    if (object == NULL) {
        must(json_error_code(&error) == json_error_numeric_overflow ||
             json_error_code(&error) == json_error_null_byte_in_key);
        return;
    }
    must(json_is_object(object));
    for (size_t i = 0; i < NAME_COUNT && comparable(line->raw); i++) {
        const json_t *want = find(object, names[i]);
        must((line->values[i].kind == SPSH__JSON_ABSENT) == (want == NULL));
        if (want != NULL)
            compare_value(&line->values[i], want);
    }
    if (line->extras.size_bytes > 0) {
        json_t *extras = json_loadb((const char *)line->extras.data, line->extras.size_bytes,
                                    JSON_ALLOW_NUL, NULL);
        must(json_is_object(extras) && json_object_size(extras) <= json_object_size(object));
        json_decref(extras);
    }
    json_decref(object);
}

/* If the input is an object with a list "a", the elements must equal those of jansson. Otherwise
 * the reader only has to end. */
static void compare_elements(const spsh__text_input *input, const spsh__text_memory *memory)
{
    json_t *object =
        json_loadb((const char *)memory->data, memory->size_bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *want = json_object_get(object, "a");
    const bool same =
        json_is_array(want) && comparable((spsh_bytes){memory->data, memory->size_bytes});
    spsh__json_elements *elements = NULL;
    spsh__json_element element;
    size_t count = 0;
    spsh_status rc = spsh__json_elements_new(input, "a", &elements, NULL);
    while (rc == SPSH_OK && (rc = spsh__json_elements_next(elements, &element, NULL)) == SPSH_OK) {
        must(element.offset_bytes + element.raw.size_bytes <= memory->size_bytes);
        if (same) {
            json_t *got = json_loadb((const char *)element.raw.data, element.raw.size_bytes,
                                     JSON_DECODE_ANY, NULL);
            must(got != NULL && json_equal(got, json_array_get(want, count)));
            json_decref(got);
        }
        count++;
    }
    must(rc == SPSH_E_END || rc == SPSH_E_CORRUPT || rc == SPSH_E_NOT_FOUND);
    must(!same || (rc == SPSH_E_END && count == json_array_size(want)));
    spsh__json_elements_free(elements);
    json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const spsh__text_memory memory = {data + 1, size - 1};
    spsh__text_input input = spsh__text_input_memory(&memory, "fuzz");
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    uint64_t number = 0;
    spsh_status rc;
    input.window_bytes = 16 + (size_t)data[0];
    must(spsh__jsonl_reader_new(&input, names, NAME_COUNT, &reader, NULL) == SPSH_OK);
    while ((rc = spsh__jsonl_reader_next(reader, &line, NULL)) == SPSH_OK) {
        must(line.line > number && line.offset_bytes <= memory.size_bytes);
        number = line.line;
        if (memchr(line.raw.data, '\0', line.raw.size_bytes) == NULL)
            compare_line(&line);
    }
    must(rc == SPSH_E_END);
    spsh__jsonl_reader_free(reader);
    compare_elements(&input, &memory);
    return 0;
}

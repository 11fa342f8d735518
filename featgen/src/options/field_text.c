/* field_text.c: one table gives each field's name, offset, and range. */
#include "field_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "decimal_text.h"
#include "speechshard/decimal.h"
#include "speechshard/featgen.h"
#include "speechshard/inside.h"
#include "speechshard/nearest_word.h"

enum { NAMES_MAX = 64, PERCENT_OF_ONE = 100 };

/* ---- words ---- */

typedef struct span {
    const char *at;
    size_t size;
} span;

static span trimmed(span text)
{
    while (text.size > 0 && text.at[0] == ' ') {
        text.at++;
        text.size--;
    }
    while (text.size > 0 && text.at[text.size - 1] == ' ')
        text.size--;
    return text;
}

static bool is_word(span text, const char *word)
{
    return strlen(word) == text.size && memcmp(word, text.at, text.size) == 0;
}

/* what, of: parts of the message, such as "preset of " and "features". */
static spsh_status unknown_word(const char *what, const char *of, span text, const char *nearest,
                                spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND, "unknown %s%s '%.*s'%s%s%s", what, of, (int)text.size,
                     text.at, nearest == NULL ? "" : "; did you mean '",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
}

static const spsh__field *field_named(const spsh__field_table *table, span name, spsh_error *err)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < table->field_count; i++) {
        if (is_word(name, table->fields[i].name))
            return &table->fields[i];
        if (count < NAMES_MAX)
            names[count++] = table->fields[i].name;
    }
    (void)unknown_word("field", "", name, spsh_nearest_word(name.at, name.size, names), err);
    return NULL;
}

/* ---- presets ---- */

static spsh_status take_preset(const spsh__field_table *table, span name, void *options,
                               spsh_error *err)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < table->preset_count; i++) {
        if (is_word(name, table->presets[i].name)) {
            memcpy(options, table->presets[i].options, table->options_bytes);
            return SPSH_OK;
        }
        if (count < NAMES_MAX)
            names[count++] = table->presets[i].name;
    }
    return unknown_word("preset of ", table->name, name,
                        spsh_nearest_word(name.at, name.size, names), err);
}

const char *spsh__preset_name(const spsh__field_table *table, uint32_t number)
{
    return number < table->preset_count ? table->presets[number].name : NULL;
}

spsh_status spsh__preset_get(const spsh__field_table *table, const char *name, void *options,
                             spsh_error *err)
{
    return take_preset(table, (span){name, strlen(name)}, options, err);
}

/* ---- values ---- */

/* A number with its range, as the field stores it. */
static spsh_status read_number(const spsh__field *field, span text, double *ret_value,
                               spsh_error *err)
{
    double value = 0;
    if (text.size == 0 || spsh_decimal_scan(text.at, text.size, &value) != text.size)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: '%.*s' is not a number", field->name,
                         (int)text.size, text.at);
    if (value < field->min || value > field->max)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %.*s is not in the range %.9g to %.9g",
                         field->name, (int)text.size, text.at, field->min, field->max);
    *ret_value = value;
    return SPSH_OK;
}

static spsh_status read_whole(const spsh__field *field, span text, uint32_t *ret_value,
                              spsh_error *err)
{
    double value = 0;
    spsh_status rc = read_number(field, text, &value, err);
    if (rc != SPSH_OK)
        return rc;
    if (value != floor(value))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: '%.*s' is not a whole number", field->name,
                         (int)text.size, text.at);
    *ret_value = (uint32_t)value;
    return SPSH_OK;
}

static spsh_status read_word(const spsh__field *field, span text, uint32_t *ret_value,
                             spsh_error *err)
{
    size_t count = 0;
    for (; field->words[count] != NULL; count++)
        if (is_word(text, field->words[count])) {
            *ret_value = (uint32_t)count;
            return SPSH_OK;
        }
    return unknown_word(field->name, "", text, spsh_nearest_word(text.at, text.size, field->words),
                        err);
}

static spsh_status read_truth(const spsh__field *field, span text, bool *ret_value, spsh_error *err)
{
    *ret_value = is_word(text, "on");
    if (!*ret_value && !is_word(text, "off"))
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: '%.*s' is not on or off", field->name,
                         (int)text.size, text.at);
    return SPSH_OK;
}

static spsh_status read_percents(const spsh__field *field, span text, uint32_t *values,
                                 spsh_error *err)
{
    uint32_t count = 0;
    while (text.size > 0) {
        const char *colon = (const char *)memchr(text.at, ':', text.size);
        const size_t size = colon == NULL ? text.size : (size_t)(colon - text.at);
        double factor = 0;
        if (size == 0 || spsh_decimal_scan(text.at, size, &factor) != size)
            return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: '%.*s' is not a number", field->name,
                             (int)size, text.at);
        const double percent = floor(factor * PERCENT_OF_ONE + 0.5);
        if (percent < field->min || percent > field->max ||
            fabs(factor * PERCENT_OF_ONE - percent) > 1e-9 * PERCENT_OF_ONE)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "%s: %.*s is not a multiple of 0.01 in the range %.9g to %.9g",
                             field->name, (int)size, text.at, field->min / PERCENT_OF_ONE,
                             field->max / PERCENT_OF_ONE);
        if (count == field->count_max)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: more than %u values", field->name,
                             field->count_max);
        values[1 + count++] = (uint32_t)percent;
        text.at += size + (colon != NULL ? 1 : 0);
        text.size -= size + (colon != NULL ? 1 : 0);
    }
    values[0] = count;
    for (uint32_t i = count; i < field->count_max; i++)
        values[1 + i] = 0;
    return SPSH_OK;
}

/* Return the address of the field. Options are void pointers: each kind of field has one C type. */
static void *place_of(const spsh__field *field, void *options)
{
    return (char *)options + field->offset;
}

static spsh_status read_value(const spsh__field *field, span text, void *options, spsh_error *err)
{
    void *place = place_of(field, options);
    double number = 0;
    spsh_status rc = SPSH_OK;
    switch (field->kind) {
    case SPSH__FIELD_U32: return read_whole(field, text, (uint32_t *)place, err);
    case SPSH__FIELD_ENUM: return read_word(field, text, (uint32_t *)place, err);
    case SPSH__FIELD_BOOL: return read_truth(field, text, (bool *)place, err);
    case SPSH__FIELD_PERCENTS: return read_percents(field, text, (uint32_t *)place, err);
    case SPSH__FIELD_FLOAT: break;
    }
    rc = read_number(field, text, &number, err);
    if (rc == SPSH_OK)
        *(float *)place = (float)number;
    return rc;
}

/* "field=value" */
static spsh_status assign(const spsh__field_table *table, span item, void *options, spsh_error *err)
{
    const char *equals = (const char *)memchr(item.at, '=', item.size);
    if (equals == NULL)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: '%.*s' is not FIELD=VALUE", table->name,
                         (int)item.size, item.at);
    const size_t name_size = (size_t)(equals - item.at);
    const spsh__field *field = field_named(table, trimmed((span){item.at, name_size}), err);
    if (field == NULL)
        return SPSH_E_NOT_FOUND;
    return read_value(field, trimmed((span){equals + 1, item.size - name_size - 1}), options, err);
}

spsh_status spsh__fields_parse(const spsh__field_table *table, const char *text, void *options,
                               spsh_error *err)
{
    span rest = {text, strlen(text)};
    spsh_status rc = SPSH_OK;
    memcpy(options, table->presets[0].options, table->options_bytes);
    for (bool is_first = true; rc == SPSH_OK && (is_first || rest.size > 0); is_first = false) {
        const span item = {rest.at, strcspn(rest.at, ",")};
        const size_t taken = item.size + (item.size < rest.size ? 1 : 0);
        rest.at += taken;
        rest.size -= taken;
        if (is_first && memchr(item.at, '=', item.size) == NULL)
            rc = take_preset(table, item, options, err);
        else
            rc = assign(table, item, options, err);
    }
    return rc;
}

/* ---- writing ---- */

/* Text written so far. size also counts the text beyond the capacity. */
typedef struct out_text {
    char *text;
    size_t capacity, size;
} out_text;

static void put(out_text *out, const char *text)
{
    for (; *text != '\0'; text++, out->size++)
        if (out->size + 1 < out->capacity)
            out->text[out->size] = *text;
}

static void put_float(out_text *out, float value)
{
    char digits[SPSH__DECIMAL_BYTES_MAX];
    (void)spsh__decimal_write(value, digits);
    put(out, digits);
}

static void put_whole(out_text *out, uint32_t value)
{
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%u", value);
    put(out, digits);
}

static void put_percents(out_text *out, const uint32_t *values)
{
    for (uint32_t i = 0; i < values[0]; i++) {
        put(out, i == 0 ? "" : ":");
        put_float(out, (float)values[1 + i] / PERCENT_OF_ONE);
    }
}

static void put_value(out_text *out, const spsh__field *field, const void *place)
{
    switch (field->kind) {
    case SPSH__FIELD_U32: put_whole(out, *(const uint32_t *)place); break;
    case SPSH__FIELD_FLOAT: put_float(out, *(const float *)place); break;
    case SPSH__FIELD_BOOL: put(out, *(const bool *)place ? "on" : "off"); break;
    case SPSH__FIELD_ENUM: put(out, field->words[*(const uint32_t *)place]); break;
    case SPSH__FIELD_PERCENTS: put_percents(out, (const uint32_t *)place); break;
    }
}

size_t spsh__fields_text(const spsh__field_table *table, const void *options, char *text,
                         size_t capacity_bytes)
{
    out_text out = {text, capacity_bytes, 0};
    for (size_t i = 0; i < table->field_count; i++) {
        const spsh__field *field = &table->fields[i];
        put(&out, i == 0 ? "" : ",");
        put(&out, field->name);
        put(&out, "=");
        put_value(&out, field, (const char *)options + field->offset);
    }
    if (capacity_bytes > 0)
        text[out.size < capacity_bytes ? out.size : capacity_bytes - 1] = '\0';
    return out.size;
}

/* ---- checking ---- */

static uint32_t word_count(const spsh__field *field)
{
    uint32_t count = 0;
    while (field->words[count] != NULL)
        count++;
    return count;
}

static bool is_number_good(const spsh__field *field, double value)
{
    return value >= field->min && value <= field->max; /* false for NaN */
}

static bool are_percents_good(const spsh__field *field, const uint32_t *values)
{
    if (values[0] > field->count_max)
        return false;
    for (uint32_t i = 0; i < values[0]; i++)
        if (!is_number_good(field, values[1 + i]))
            return false;
    return true;
}

static bool is_value_good(const spsh__field *field, const void *place)
{
    switch (field->kind) {
    case SPSH__FIELD_U32: return is_number_good(field, *(const uint32_t *)place);
    case SPSH__FIELD_FLOAT: return is_number_good(field, (double)*(const float *)place);
    case SPSH__FIELD_ENUM: return *(const uint32_t *)place < word_count(field);
    case SPSH__FIELD_PERCENTS: return are_percents_good(field, (const uint32_t *)place);
    case SPSH__FIELD_BOOL: return true;
    }
    return false;
}

spsh_status spsh__fields_check(const spsh__field_table *table, const void *options, spsh_error *err)
{
    for (size_t i = 0; i < table->field_count; i++) {
        const spsh__field *field = &table->fields[i];
        if (!is_value_good(field, (const char *)options + field->offset))
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: %s is out of range", table->name,
                             field->name);
    }
    return SPSH_OK;
}

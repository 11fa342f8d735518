/* field_text.h: structs of options as strings, "preset,field=value,field=value", and their ranges.
 *
 *     static const spsh__field fields[] = {
 *         {.name = "mel_count",
 *          .kind = SPSH__FIELD_U32,
 *          .offset = offsetof(spsh_feature_options, mel_count),
 *          .min = 1,
 *          .max = 1024},
 *     };
 *
 * Parsing, writing, and checking use one table, so that none of them can forget a field.
 */
#ifndef SPSH_FIELD_TEXT_H
#define SPSH_FIELD_TEXT_H

#include <stddef.h>

#include "speechshard/base.h"

typedef enum spsh__field_kind {
    SPSH__FIELD_U32 = 0,
    SPSH__FIELD_FLOAT = 1,
    SPSH__FIELD_BOOL = 2, /* on, off */
    SPSH__FIELD_ENUM = 3, /* one of `words`; the value is its index */
    SPSH__FIELD_PERCENTS =
        4, /* uint32_t count, then count_max values: "0.9:1:1.1" are 90, 100, 110 */
} spsh__field_kind;

typedef struct spsh__field {
    const char *name;
    spsh__field_kind kind;
    size_t offset;
    double min, max;          /* range of a number, inclusive */
    const char *const *words; /* words of an enumerator, NULL-terminated */
    uint32_t count_max;       /* maximum number of percents */
} spsh__field;

/* A struct of options with a name. */
typedef struct spsh__preset {
    const char *name;
    const void *options;
} spsh__preset;

/* Fields of a struct; name: name of the whole in messages ("features"). */
typedef struct spsh__field_table {
    const char *name;
    const spsh__field *fields;
    size_t field_count;
    const spsh__preset *presets; /* the first one applies to a string without a preset */
    size_t preset_count;
    size_t options_bytes; /* size of the struct */
} spsh__field_table;

/* Return the name of a preset by number; NULL after the last. */
const char *spsh__preset_name(const spsh__field_table *table, uint32_t number);

/* Options are written only on success. SPSH_E_NOT_FOUND: the message suggests the closest name. */
spsh_status spsh__preset_get(const spsh__field_table *table, const char *name, void *options,
                             spsh_error *err);

/* Parse a preset, unless the first item is an assignment, then assignments, separated by commas.
 * Blanks around names and values are ignored. options is written as far as the string was parsed,
 * and not checked. SPSH_E_SYNTAX (no '=', no value of the kind), SPSH_E_NOT_FOUND (the message
 * suggests the closest preset, field, or word), SPSH_E_INVALID_ARG (out of range).
 */
spsh_status spsh__fields_parse(const spsh__field_table *table, const char *text, void *options,
                               spsh_error *err);

/* Write all fields, in the table's order, as spsh_feature_options_text does. */
size_t spsh__fields_text(const spsh__field_table *table, const void *options, char *text,
                         size_t capacity_bytes);

/* SPSH_E_INVALID_ARG names the first field that is out of its range. */
spsh_status spsh__fields_check(const spsh__field_table *table, const void *options,
                               spsh_error *err);

#endif

/* field_text.h: structs of options as text, "preset,field=value,field=value", and their ranges.
 *
 *     static const spsh__field fields[] = {
 *         {.name = "mel_count",
 *          .kind = SPSH__FIELD_U32,
 *          .offset = offsetof(spsh_feature_options, mel_count),
 *          .min = 1,
 *          .max = 1024},
 *     };
 *
 * What is parsed, written and checked follows from one table, so that none of the three can forget
 * a field.
 */
#ifndef SPSH_FIELD_TEXT_H
#define SPSH_FIELD_TEXT_H

#include <stddef.h>

#include "speechshard/base.h"

typedef enum spsh__field_kind {
    SPSH__FIELD_U32 = 0,
    SPSH__FIELD_FLOAT = 1,
    SPSH__FIELD_BOOL = 2, /* on, off */
    SPSH__FIELD_ENUM = 3, /* of words; the value is the place among them */
    SPSH__FIELD_PERCENTS =
        4, /* uint32_t count, then count_max values: "0.9:1:1.1" are 90, 100, 110 */
} spsh__field_kind;

typedef struct spsh__field {
    const char *name;
    spsh__field_kind kind;
    size_t offset;
    double min, max;          /* of a number; both are allowed */
    const char *const *words; /* of an enumerator, NULL behind the last */
    uint32_t count_max;       /* of percents */
} spsh__field;

/* A struct of options with a name. */
typedef struct spsh__preset {
    const char *name;
    const void *options;
} spsh__preset;

/* A struct's fields; name: what the whole is called in messages ("features"). */
typedef struct spsh__field_table {
    const char *name;
    const spsh__field *fields;
    size_t field_count;
    const spsh__preset *presets; /* the first one is what a text without a preset changes */
    size_t preset_count;
    size_t options_bytes; /* of the struct */
} spsh__field_table;

/* By number; NULL behind the last. */
const char *spsh__preset_name(const spsh__field_table *table, uint32_t number);

/* options are written on success only. SPSH_E_NOT_FOUND: the message names the nearest. */
spsh_status spsh__preset_get(const spsh__field_table *table, const char *name, void *options,
                             spsh_error *err);

/*
 * A preset, unless the first item is an assignment; then assignments, commas between; blanks around
 * names and values do not count. options is written as far as text goes, and not checked.
 * SPSH_E_SYNTAX (no '=', no value of the kind), SPSH_E_NOT_FOUND (the message names the nearest
 * preset, field or word), SPSH_E_INVALID_ARG (out of range).
 */
spsh_status spsh__fields_parse(const spsh__field_table *table, const char *text, void *options,
                               spsh_error *err);

/* All fields, in the table's order. As spsh_feature_options_text. */
size_t spsh__fields_text(const spsh__field_table *table, const void *options, char *text,
                         size_t capacity_bytes);

/* SPSH_E_INVALID_ARG names the first field that is out of its range. */
spsh_status spsh__fields_check(const spsh__field_table *table, const void *options,
                               spsh_error *err);

#endif

/* field_text.h: structs of options as text, "field=value,field=value", and their ranges.
 *
 *     static const spsh__field fields[] = {
 *         {.name = "mel_count", .kind = SPSH__FIELD_U32, .offset = offsetof(struct options,
 * mel_count), .min = 1, .max = 1024},
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

/* A table of fields; name: what the whole is called in messages ("features"). */
typedef struct spsh__field_table {
    const char *name;
    const spsh__field *fields;
    size_t field_count;
} spsh__field_table;

/*
 * Assignments, commas between; blanks around names and values do not count. options is changed as
 * far as text goes. SPSH_E_SYNTAX (no '=', no value of the kind), SPSH_E_NOT_FOUND (the message
 * names the nearest field or word), SPSH_E_INVALID_ARG (out of range).
 */
spsh_status spsh__fields_parse(const spsh__field_table *table, const char *text, void *options,
                               spsh_error *err);

/* All fields, in the table's order. As spsh_feature_options_text. */
size_t spsh__fields_text(const spsh__field_table *table, const void *options, char *text,
                         size_t capacity_bytes);

/* SPSH_E_INVALID_ARG names the first field that is out of its range. */
spsh_status spsh__fields_check(const spsh__field_table *table, const void *options,
                               spsh_error *err);

/* The word that takes the fewest changes to become text; NULL when none is near. */
const char *spsh__nearest_word(const char *text, size_t size, const char *const *words,
                               size_t word_count);

#endif

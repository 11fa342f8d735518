/* table.h: a CSV or TSV manifest: what its columns are called and how it is written. */
#ifndef SPSH_INGEST_TABLE_H
#define SPSH_INGEST_TABLE_H

#include "common/byte_builder.h"
#include "common/row_reader.h"
#include "common/time_text.h"

typedef enum spsh__column_role {
    SPSH__COLUMN_AUDIO,
    SPSH__COLUMN_TEXT,
    SPSH__COLUMN_ID,
    SPSH__COLUMN_SPEAKER,
    SPSH__COLUMN_LANGUAGE,
    SPSH__COLUMN_DOMAIN,
    SPSH__COLUMN_SPLIT,
    SPSH__COLUMN_START,
    SPSH__COLUMN_END,
    SPSH__COLUMN_DURATION,
    SPSH__COLUMN_ROLES
} spsh__column_role;

#define SPSH__COLUMN_NONE SIZE_MAX

/** Columns that the user assigned, as "FIELD=NAME"; all zero: none. Borrowed. */
typedef struct spsh__column_rules {
    const char *const *texts;
    size_t count;
} spsh__column_rules;

/* The role that FIELD of "FIELD=NAME" names, and NAME; false: the rule is malformed. */
bool spsh__column_rule_parse(const char *rule, spsh__column_role *ret_role, const char **ret_name);

/* FIELDs as users type them, NULL-terminated. */
extern const char *const spsh__column_fields[];

/** A header row, read. Free with spsh__table_columns_free; all zero is empty. */
typedef struct spsh__table_columns {
    size_t count;
    size_t column_of[SPSH__COLUMN_ROLES]; /* SPSH__COLUMN_NONE: the table has none */
    uint64_t unit_ns[SPSH__COLUMN_ROLES]; /* of START, END, DURATION */
    spsh__builder text; /* names, and the JSON keys of the columns kept as extras */
    struct spsh__table_column {
        size_t name_at, name_bytes;
        size_t key_at, key_bytes; /* "name": with quotes and colon; 0 bytes: not an extra */
    } * columns;
} spsh__table_columns;

/* Without an audio column only count and column_of are filled: it is the header of something else.
 */
SPSH_NODISCARD spsh_status spsh__table_columns_parse(const spsh_bytes *names, size_t count,
                                                     const spsh__column_rules *rules,
                                                     spsh__table_columns *ret_columns,
                                                     spsh_error *err);
void spsh__table_columns_free(spsh__table_columns *columns);

/* The column of that name (case, '-', blank and '_' do not matter), or SPSH__COLUMN_NONE. */
size_t spsh__table_column_find(const spsh__table_columns *columns, spsh_bytes name);

/* Append the names of the columns that have no role, separated by commas. */
void spsh__table_unused(const spsh__table_columns *columns, spsh__builder *out);

/* The columns that have no role as a JSON object behind out's end; empty values are left out. */
void spsh__table_extras(const spsh__table_columns *columns, const spsh_bytes *fields,
                        size_t field_count, spsh__builder *out);

typedef enum spsh__table_quoting {
    SPSH__TABLE_QUOTING_DECIDE,
    SPSH__TABLE_QUOTING_RAW,
    SPSH__TABLE_QUOTING_RFC,
    SPSH__TABLE_NO_HEADER, /* pipes between fields, and no row of names, as LJ Speech has it */
} spsh__table_quoting;

typedef struct spsh__table_format {
    bool found;    /* a header row with an audio column, or none and rows that look alike */
    bool headless; /* the first row is data */
    spsh__dialect dialect;
    spsh__table_columns columns;
    size_t text_else;      /* column of the text where that of the text is empty; else NONE */
    uint64_t unclear_line; /* not 0: both ways of quoting fit, and differ from this line on */
} spsh__table_format;

/**
 * Find delimiter, quoting and columns. path tells by its extension which delimiter comes first.
 *
 * @param rules       columns that the user assigned, or NULL
 * @param ret_format  free its columns, also when found is false
 */
SPSH_NODISCARD spsh_status spsh__table_sniff(const spsh__text_input *input, const char *path,
                                             spsh__table_quoting quoting,
                                             const spsh__column_rules *rules,
                                             spsh__table_format *ret_format, spsh_error *err);

#endif

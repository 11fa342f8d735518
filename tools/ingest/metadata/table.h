/* table.h: detect the columns and the syntax of a CSV or TSV manifest. */
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

/** Columns that the user assigned, each "FIELD=NAME". All zero: none. Borrowed. */
typedef struct spsh__column_rules {
    const char *const *texts;
    size_t count;
} spsh__column_rules;

/* Parse "FIELD=NAME" into the role of FIELD and the name. Returns false if the rule is malformed.
 */
bool spsh__column_rule_parse(const char *rule, spsh__column_role *ret_role, const char **ret_name);

/* Valid FIELD names, NULL-terminated. */
extern const char *const spsh__column_fields[];

/** A parsed header row. Free with spsh__table_columns_free. All zero is empty. */
typedef struct spsh__table_columns {
    size_t count;
    size_t column_of[SPSH__COLUMN_ROLES]; /* SPSH__COLUMN_NONE: no such column */
    uint64_t unit_ns[SPSH__COLUMN_ROLES]; /* units of START, END, and DURATION */
    spsh__builder text; /* column names, and JSON keys of the columns kept as extras */
    struct spsh__table_column {
        size_t name_at, name_bytes;
        size_t key_at, key_bytes; /* "name": with quotes and colon; 0 bytes: not an extra */
    } * columns;
} spsh__table_columns;

/* Parse a header row. Without an audio column, fills only count and column_of, because the table is
 * something else.
 */
SPSH_NODISCARD spsh_status spsh__table_columns_parse(const spsh_bytes *names, size_t count,
                                                     const spsh__column_rules *rules,
                                                     spsh__table_columns *ret_columns,
                                                     spsh_error *err);
void spsh__table_columns_free(spsh__table_columns *columns);

/* Return the column with that name, or SPSH__COLUMN_NONE. Ignores case and treats '-', blank, and
 * '_' as equal. */
size_t spsh__table_column_find(const spsh__table_columns *columns, spsh_bytes name);

/* Append the names of the columns without a role, separated by commas. */
void spsh__table_unused(const spsh__table_columns *columns, spsh__builder *out);

/* Append the columns without a role to out as a JSON object. Omits empty values. */
void spsh__table_extras(const spsh__table_columns *columns, const spsh_bytes *fields,
                        size_t field_count, spsh__builder *out);

typedef enum spsh__table_quoting {
    SPSH__TABLE_QUOTING_DECIDE,
    SPSH__TABLE_QUOTING_RAW,
    SPSH__TABLE_QUOTING_RFC,
    SPSH__TABLE_NO_HEADER, /* fields separated by pipes, without a header row, as in LJ Speech */
} spsh__table_quoting;

typedef struct spsh__table_format {
    bool found;    /* a header row with an audio column, or similar rows without a header */
    bool headless; /* the first row is data */
    spsh__dialect dialect;
    spsh__table_columns columns;
    size_t text_else;      /* fallback column if the text column is empty; else SPSH__COLUMN_NONE */
    uint64_t unclear_line; /* not 0: both quoting styles parse, and the results differ from this
                              line on */
} spsh__table_format;

/**
 * Detect delimiter, quoting, and columns. The extension of path decides which delimiter is tried
 * first.
 *
 * @param rules       columns that the user assigned, or NULL
 * @param ret_format  the caller frees its columns, even if found is false
 */
SPSH_NODISCARD spsh_status spsh__table_sniff(const spsh__text_input *input, const char *path,
                                             spsh__table_quoting quoting,
                                             const spsh__column_rules *rules,
                                             spsh__table_format *ret_format, spsh_error *err);

#endif

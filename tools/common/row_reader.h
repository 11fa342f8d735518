/* row_reader.h: the text dialects of corpus metadata, as one streaming reader of rows.
 *
 *     spsh__row_reader *reader = NULL;
 *     spsh__dialect dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'};
 *     rc = spsh__row_reader_new(&input, &dialect, &reader, err);
 *     while ((rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK)
 *         if (row.problem == NULL) use(row.fields, row.field_count);
 *     spsh__row_reader_free(reader);            -- rc is SPSH_E_END after the last row
 *
 * Only LF ends a line. One CR before it and one leading UTF-8 byte order mark are dropped. Nothing
 * else is interpreted: "nan", "null", U+2028, and empty fields are passed unchanged.
 *
 *     RAW       split at the delimiter; no quotes, no escapes
 *     RFC       RFC 4180: "quoted fields" hold delimiters, line ends and doubled quotes; a quote
 *               inside an unquoted field is a plain character
 *     PIPE_PAD  split at the delimiter at most cuts_max times, blanks around a field trimmed; blank
 *               lines and lines that start with the comment byte are skipped
 *     KALDI     two fields: up to the first run of blanks, and the rest, trimmed; blank lines are
 *               skipped
 *
 * A row that breaks the dialect is returned with `problem` set, and reading resumes in the line
 * after the row's first line: one bad quote costs one row, not the rest of the file. A row longer
 * than SPSH__ROW_BYTES_MAX is also such a row, so memory stays below twice that.
 */
#ifndef SPSH_ROW_READER_H
#define SPSH_ROW_READER_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__ROW_BYTES_MAX  ((size_t)16 << 20)
#define SPSH__ROW_FIELDS_MAX ((size_t)4096)

typedef enum spsh__dialect_kind {
    SPSH__DIALECT_RAW,
    SPSH__DIALECT_RFC,
    SPSH__DIALECT_PIPE_PAD,
    SPSH__DIALECT_KALDI,
} spsh__dialect_kind;

typedef struct spsh__dialect {
    spsh__dialect_kind kind;
    uint8_t delimiter; /* unused by KALDI */
    uint8_t comment;   /* PIPE_PAD: first byte of a comment line, 0 for none */
    uint32_t cuts_max; /* PIPE_PAD: 0 for any number */
} spsh__dialect;

/** Source of a text. read_at_fn reads at most size_bytes bytes, and fewer only at the end of the
 * text. */
typedef struct spsh__text_input {
    spsh_status (*read_at_fn)(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                              size_t *ret_size_bytes, spsh_error *err);
    void *user;
    const char *name;    /* for messages */
    size_t window_bytes; /* bytes per read, at least 16; 0: 256 KiB; grows with long rows */
} spsh__text_input;

/** One row. Borrowed until the next call with the same reader. */
typedef struct spsh__row {
    const spsh_bytes *fields;
    size_t field_count;    /* 0 if there is a problem, else at least 1 */
    spsh_bytes raw;        /* bytes of the row in the file; of a broken row, its first line */
    uint64_t line;         /* 1-based */
    uint64_t offset_bytes; /* offset of its first byte in the file */
    const char *problem;   /* NULL, or a message about the problem */
} spsh__row;

/* Return a field by its index. Empty if the row has fewer fields. */
static inline spsh_bytes spsh__row_field(const spsh__row *row, size_t number)
{
    return number < row->field_count ? row->fields[number] : (spsh_bytes){0};
}

/* True if the row is an empty line. */
static inline bool spsh__row_is_blank(const spsh__row *row)
{
    return row->problem == NULL && row->field_count == 1 && row->fields[0].size_bytes == 0;
}

typedef struct spsh__row_reader spsh__row_reader;

/* input and everything that it points to are borrowed until free. dialect is copied. */
SPSH_NODISCARD spsh_status spsh__row_reader_new(const spsh__text_input *input,
                                                const spsh__dialect *dialect,
                                                spsh__row_reader **ret_reader, spsh_error *err);

/* Return the next row. SPSH_E_END: no more rows; SPSH_E_NO_MEMORY; or any error of read_at_fn. */
SPSH_NODISCARD spsh_status spsh__row_reader_next(spsh__row_reader *reader, spsh__row *ret_row,
                                                 spsh_error *err);

/* Return the bytes in memory after the last row: the next rows, of which the last may be cut off.
 * Only for hints, because the bytes are not parsed yet. */
spsh_bytes spsh__row_reader_ahead(const spsh__row_reader *reader);

void spsh__row_reader_free(spsh__row_reader *reader);

/** Text in memory as an input. */
typedef struct spsh__text_memory {
    const uint8_t *data;
    size_t size_bytes;
} spsh__text_memory;

spsh__text_input spsh__text_input_memory(const spsh__text_memory *memory, const char *name);

typedef enum spsh__quoting {
    SPSH__QUOTING_SAME,    /* both readings give the same fields, so RAW is right */
    SPSH__QUOTING_RAW,     /* only RAW gives every row the same number of fields */
    SPSH__QUOTING_RFC,     /* only RFC gives every row the same number of fields */
    SPSH__QUOTING_UNCLEAR, /* both do, with different fields: the user must choose */
} spsh__quoting;

/**
 * Read the first MiB of a delimited text with quoting off and on, and compare the fields.
 *
 * @param ret_line  line of the first difference, if UNCLEAR
 */
SPSH_NODISCARD spsh_status spsh__quoting_decide(const spsh__text_input *input, uint8_t delimiter,
                                                spsh__quoting *ret_quoting, uint64_t *ret_line,
                                                spsh_error *err);

#endif

/* scan_rows.h: read the rows of a table, or the lines of JSON, and report what cannot be read. */
#ifndef SPSH_INGEST_SCAN_ROWS_H
#define SPSH_INGEST_SCAN_ROWS_H

#include "common/jsonl.h"
#include "ingest/view/text_file.h"
#include "scan.h"

/* Called for each row. SPSH_E_END stops the reading, which then returns SPSH_OK. */
typedef spsh_status (*spsh__row_fn)(void *user, const spsh__row *row, const spsh__row_place *place,
                                    spsh_error *err);
typedef spsh_status (*spsh__line_fn)(void *user, const spsh__jsonl_line *line,
                                     const spsh__row_place *place, spsh_error *err);

typedef struct spsh__row_visitor {
    spsh__dialect dialect;
    /* Called for the first row, even if it is broken. NULL: the first row is data. */
    spsh_status (*header_fn)(void *user, const spsh__row *row, spsh_error *err);
    spsh__row_fn row_fn;
    /* Called before row_fn with the bytes after the row; NULL: not needed. */
    void (*ahead_fn)(const void *user, spsh_bytes ahead);
    void *user;
    const size_t *column_count; /* reject rows with more fields; NULL: any number is allowed */
    bool is_excluded;           /* count the rows as excluded, without row_fn */
    bool is_required;           /* an unreadable file is an error, not a reject */
} spsh__row_visitor;

/**
 * Read the rows of a text. Omits blank rows, and rejects broken ones. Frees the strings of a row
 * after it (scan_strings.h).
 *
 * @param file name for rejects
 */
SPSH_NODISCARD spsh_status spsh__scan_rows(spsh__scan *scan, const spsh__text_input *input,
                                           spsh_bytes file, const spsh__row_visitor *visitor,
                                           spsh_error *err);

typedef struct spsh__line_visitor {
    const char *const *names; /* see spsh__jsonl_reader_new */
    size_t name_count;
    spsh__line_fn line_fn;
    void *user;
    bool is_excluded; /* count the lines as excluded, without line_fn */
    /* Utterances of an excluded line; NULL: one each. */
    size_t (*rows_fn)(const spsh__jsonl_line *line);
} spsh__line_visitor;

/* The same for lines of JSON in a file of the view, which must be readable. */
SPSH_NODISCARD spsh_status spsh__scan_lines(spsh__scan *scan, const char *path,
                                            const spsh__line_visitor *visitor, spsh_error *err);

/* Open a metadata file of the view. An unreadable one is rejected, and then file->fd is -1. */
SPSH_NODISCARD spsh_status spsh__scan_open(spsh__scan *scan, const char *path,
                                           spsh__text_file *file, spsh_error *err);

/* Open a file and read its rows. */
SPSH_NODISCARD spsh_status spsh__scan_file_rows(spsh__scan *scan, const char *path,
                                                const spsh__row_visitor *visitor, spsh_error *err);

#endif

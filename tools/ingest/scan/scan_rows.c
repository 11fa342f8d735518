/* scan_rows.c: see scan_rows.h. */
#include "scan_rows.h"

#include "common/file_names.h"
#include "scan_strings.h"
#include "speechshard/inside.h"

static spsh_status refuse(spsh__scan *scan, spsh_reject_reason reason, const char *detail,
                          const spsh__row_place *place, spsh_error *err)
{
    const spsh_reject reject = {.reason = reason, .detail = detail, .rows = 1};
    return spsh__scan_reject(scan, &reject, place, err);
}

static spsh_status take_row(spsh__scan *scan, const spsh__row *row, spsh_bytes file,
                            const spsh__row_visitor *visitor, spsh_error *err)
{
    const spsh__row_place place = {file, row->line, row->offset_bytes, row->raw};
    scan->excluded_rows += visitor->is_excluded;
    if (visitor->is_excluded || spsh__row_is_blank(row))
        return SPSH_OK;
    if (row->problem != NULL)
        return refuse(scan, SPSH_REJECT_ROW_SYNTAX, row->problem, &place, err);
    if (visitor->column_count != NULL && row->field_count > *visitor->column_count)
        return refuse(scan, SPSH_REJECT_ROW_FIELD_COUNT, "the row has more fields than the header",
                      &place, err);
    return visitor->row_fn(visitor->user, row, &place, err);
}

spsh_status spsh__scan_rows(spsh__scan *scan, const spsh__text_input *input, spsh_bytes file,
                            const spsh__row_visitor *visitor, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(input, &visitor->dialect, &reader, err);
    if (rc == SPSH_OK && visitor->header_fn != NULL &&
        (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK)
        rc = visitor->header_fn(visitor->user, &row, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        const spsh__strings_mark mark = spsh__strings_here(scan);
        if (visitor->ahead_fn != NULL)
            visitor->ahead_fn(visitor->user, spsh__row_reader_ahead(reader));
        rc = take_row(scan, &row, file, visitor, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(scan, 1, err);
        spsh__strings_release(scan, mark);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status take_line(spsh__scan *scan, const spsh__jsonl_line *line, spsh_bytes file,
                             const spsh__line_visitor *visitor, spsh_error *err)
{
    const spsh__row_place place = {file, line->line, line->offset_bytes, line->raw};
    if (visitor->is_excluded) {
        scan->excluded_rows += visitor->rows_fn != NULL ? visitor->rows_fn(line) : 1;
        return SPSH_OK;
    }
    return line->problem != NULL ? refuse(scan, SPSH_REJECT_ROW_SYNTAX, line->problem, &place, err)
                                 : visitor->line_fn(visitor->user, line, &place, err);
}

spsh_status spsh__scan_lines(spsh__scan *scan, const char *path, const spsh__line_visitor *visitor,
                             spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    spsh_status rc = spsh__text_file_open(scan->options->view, path, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__jsonl_reader_new(&input, visitor->names, visitor->name_count, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__jsonl_reader_next(reader, &line, err)) == SPSH_OK) {
        const spsh__strings_mark mark = spsh__strings_here(scan);
        rc = take_line(scan, &line, spsh__bytes_of(path), visitor, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(scan, 1, err);
        spsh__strings_release(scan, mark);
    }
    spsh__jsonl_reader_free(reader);
    spsh__text_file_close(&file);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__scan_open(spsh__scan *scan, const char *path, spsh__text_file *file,
                            spsh_error *err)
{
    spsh_error opened = SPSH_ERROR_INIT;
    *file = (spsh__text_file){.fd = -1};
    if (scan->strings.failed)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh__text_file_open(scan->options->view, path, file, &opened);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    const spsh_reject reject = {
        .reason = SPSH_REJECT_UNREADABLE, .source = spsh__bytes_of(path), .detail = opened.message};
    return rc == SPSH_OK ? SPSH_OK : spsh__scan_reject(scan, &reject, NULL, err);
}

spsh_status spsh__scan_file_rows(spsh__scan *scan, const char *path,
                                 const spsh__row_visitor *visitor, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh_status rc = visitor->is_required
                         ? spsh__text_file_open(scan->options->view, path, &file, err)
                         : spsh__scan_open(scan, path, &file, err);
    if (rc != SPSH_OK || file.fd < 0)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__scan_rows(scan, &input, spsh__bytes_of(path), visitor, err);
    spsh__text_file_close(&file);
    return rc;
}

/* row_reader.c: a window over the text, and one function per dialect that takes a row out of it.
 *
 *     data: [ ...consumed... | begin: row being parsed ... | end ]      capacity
 *
 * A row function sees the bytes from begin to end. If they end before the row does, it returns
 * ROW_NEEDS_MORE. The caller then moves the row to the front of the window, doubles the window if
 * it is full, fills it, and parses the row again from its start. A row is parsed twice only if it
 * straddles the end of a window, and windows double, so the text's size bounds the extra work.
 * Fields point into the window. Only quoted fields with doubled quotes are copied, into a scratch
 * block as large as the window.
 *
 * After a broken RFC row, reading resumes after the row's first line. No text can make this
 * quadratic: the line with the quote that opened a broken row is passed over only once. Any later
 * quote that opens a field also ends the search of the quote before it.
 */
#include "row_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "file_names.h"
#include "grow.h"
#include "speechshard/inside.h"

#define WINDOW_BYTES_DEFAULT ((size_t)256 << 10)
#define WINDOW_BYTES_MIN     ((size_t)16)
#define SAMPLE_BYTES         ((size_t)1 << 20)
#define SAMPLE_CUT_ROW_MAX   ((size_t)64 << 10)

typedef enum row_result {
    ROW_DONE,
    ROW_SKIP,
    ROW_NEEDS_MORE,
    ROW_BROKEN,
    ROW_NO_MEMORY
} row_result;

struct spsh__row_reader {
    spsh__text_input input;
    spsh__dialect dialect;
    uint8_t *data;
    size_t begin, end, capacity;
    uint64_t data_offset; /* offset of data[0] in the text */
    uint64_t line;        /* line number of begin */
    bool at_end;          /* the text has nothing after end */
    bool discarding;      /* in a line that was too long, up to its LF */
    spsh_bytes *fields;
    size_t field_count, field_capacity;
    uint8_t *scratch;
    size_t scratch_used, scratch_capacity;
    size_t next;         /* set by a row function: offset of the next row */
    uint64_t line_count; /* set by a row function: number of LFs in this row */
    const char *problem;
};

static row_result add_field(spsh__row_reader *r, const uint8_t *data, size_t size_bytes)
{
    if (r->field_count == SPSH__ROW_FIELDS_MAX) {
        r->problem = "more than 4096 fields";
        return ROW_BROKEN;
    }
    if (r->field_count == r->field_capacity) {
        spsh_bytes *fields =
            spsh__grow(r->fields, &r->field_capacity, r->field_count + 1, sizeof(*fields));
        if (fields == NULL)
            return ROW_NO_MEMORY;
        r->fields = fields;
    }
    r->fields[r->field_count++] = (spsh_bytes){data, size_bytes};
    return ROW_DONE;
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static void trim(const uint8_t *data, size_t *begin, size_t *end)
{
    while (*begin < *end && is_blank(data[*begin]))
        (*begin)++;
    while (*end > *begin && is_blank(data[*end - 1]))
        (*end)--;
}

/* Take the line at begin. *ret_end: the end of the line without LF and CR. */
static row_result take_line(spsh__row_reader *r, size_t *ret_end)
{
    const uint8_t *lf = memchr(r->data + r->begin, '\n', r->end - r->begin);
    size_t end = r->end;
    if (lf == NULL) {
        if (!r->at_end)
            return ROW_NEEDS_MORE;
        r->next = r->end;
    } else {
        end = (size_t)(lf - r->data);
        r->next = end + 1;
        if (end > r->begin && r->data[end - 1] == '\r')
            end--;
    }
    r->line_count = 1;
    *ret_end = end;
    return ROW_DONE;
}

static row_result row_raw(spsh__row_reader *r)
{
    size_t end = 0;
    row_result result = take_line(r, &end);
    size_t at = r->begin;
    while (result == ROW_DONE) {
        const uint8_t *cut = memchr(r->data + at, r->dialect.delimiter, end - at);
        if (cut == NULL)
            return add_field(r, r->data + at, end - at);
        result = add_field(r, r->data + at, (size_t)(cut - r->data) - at);
        at = (size_t)(cut - r->data) + 1;
    }
    return result;
}

static row_result row_pipe_pad(spsh__row_reader *r)
{
    size_t end = 0;
    row_result result = take_line(r, &end);
    if (result != ROW_DONE)
        return result;
    size_t at = r->begin;
    size_t first = at;
    size_t last = end;
    trim(r->data, &first, &last);
    if (first == last || (r->dialect.comment != 0 && r->data[at] == r->dialect.comment))
        return ROW_SKIP;
    while (result == ROW_DONE) {
        const uint8_t *cut = NULL;
        if (r->dialect.cuts_max == 0 || r->field_count < r->dialect.cuts_max)
            cut = memchr(r->data + at, r->dialect.delimiter, end - at);
        first = at;
        last = cut == NULL ? end : (size_t)(cut - r->data);
        at = last + 1;
        trim(r->data, &first, &last);
        result = add_field(r, r->data + first, last - first);
        if (cut == NULL)
            break;
    }
    return result;
}

static row_result row_kaldi(spsh__row_reader *r)
{
    size_t end = 0;
    row_result result = take_line(r, &end);
    if (result != ROW_DONE)
        return result;
    size_t at = r->begin;
    trim(r->data, &at, &end);
    if (at == end)
        return ROW_SKIP;
    size_t key_end = at;
    while (key_end < end && !is_blank(r->data[key_end]))
        key_end++;
    result = add_field(r, r->data + at, key_end - at);
    if (result != ROW_DONE)
        return result;
    trim(r->data, &key_end, &end);
    return add_field(r, r->data + key_end, end - key_end);
}

/* Return the content of a quoted field: its bytes between the quotes, with doubled quotes undone.
 */
static row_result add_unescaped(spsh__row_reader *r, size_t at, size_t end)
{
    if (r->scratch_capacity < r->capacity) {
        /* This moves no copy of the current row: a row fits into the window, and the window does
         * not grow while a row is parsed. */
        uint8_t *scratch = realloc(r->scratch, r->capacity);
        if (scratch == NULL)
            return ROW_NO_MEMORY;
        r->scratch = scratch;
        r->scratch_capacity = r->capacity;
    }
    uint8_t *out = r->scratch + r->scratch_used;
    size_t size = 0;
    while (at < end) {
        const uint8_t *quote = memchr(r->data + at, '"', end - at);
        size_t run = quote == NULL ? end - at : (size_t)(quote - r->data) - at + 1;
        memcpy(out + size, r->data + at, run);
        size += run;
        at += quote == NULL ? run : run + 1;
    }
    r->scratch_used += size;
    return add_field(r, out, size);
}

static void count_lines(spsh__row_reader *r, size_t at, size_t end)
{
    const uint8_t *lf = NULL;
    while (at < end && (lf = memchr(r->data + at, '\n', end - at)) != NULL) {
        r->line_count++;
        at = (size_t)(lf - r->data) + 1;
    }
}

/* Take a quoted field whose first quote is at *pos. Afterwards *pos is at the delimiter, the LF, or
 * the end. */
static row_result rfc_quoted(spsh__row_reader *r, size_t *pos)
{
    const size_t begin = *pos + 1;
    size_t at = begin;
    bool doubled = false;
    for (;;) {
        const uint8_t *quote = memchr(r->data + at, '"', r->end - at);
        if (quote == NULL) {
            r->problem = "a quote is never closed";
            return r->at_end ? ROW_BROKEN : ROW_NEEDS_MORE;
        }
        at = (size_t)(quote - r->data) + 1;
        if (at == r->end && !r->at_end)
            return ROW_NEEDS_MORE;
        if (at == r->end || r->data[at] != '"')
            break;
        doubled = true;
        at++;
    }
    const size_t end = at - 1;
    if (at < r->end && r->data[at] == '\r') {
        if (at + 1 == r->end && !r->at_end)
            return ROW_NEEDS_MORE;
        if (at + 1 == r->end || r->data[at + 1] == '\n')
            at++;
    }
    if (at < r->end && r->data[at] != '\n' && r->data[at] != r->dialect.delimiter) {
        r->problem = "text follows a closing quote";
        return ROW_BROKEN;
    }
    count_lines(r, begin, end);
    *pos = at;
    return doubled ? add_unescaped(r, begin, end) : add_field(r, r->data + begin, end - begin);
}

static row_result rfc_plain(spsh__row_reader *r, size_t *pos)
{
    const uint8_t delimiter = r->dialect.delimiter;
    const size_t begin = *pos;
    size_t at = begin;
    while (at < r->end && r->data[at] != '\n' && r->data[at] != delimiter)
        at++;
    if (at == r->end && !r->at_end)
        return ROW_NEEDS_MORE;
    *pos = at;
    if (at < r->end && r->data[at] == '\n' && at > begin && r->data[at - 1] == '\r')
        at--;
    return add_field(r, r->data + begin, at - begin);
}

/* Abandon a broken row: reading resumes after the line in which the row began. */
static row_result rfc_break_off(spsh__row_reader *r)
{
    const uint8_t *lf = memchr(r->data + r->begin, '\n', r->end - r->begin);
    if (lf == NULL && !r->at_end)
        return ROW_NEEDS_MORE;
    r->next = lf == NULL ? r->end : (size_t)(lf - r->data) + 1;
    r->line_count = 1;
    return ROW_BROKEN;
}

static row_result row_rfc(spsh__row_reader *r)
{
    size_t pos = r->begin;
    r->line_count = 1;
    for (;;) {
        bool quoted = pos < r->end && r->data[pos] == '"';
        row_result result = quoted ? rfc_quoted(r, &pos) : rfc_plain(r, &pos);
        if (result == ROW_BROKEN)
            return rfc_break_off(r);
        if (result != ROW_DONE)
            return result;
        if (pos == r->end && !r->at_end)
            return ROW_NEEDS_MORE;
        r->next = pos == r->end ? pos : pos + 1;
        if (pos == r->end || r->data[pos] == '\n')
            return ROW_DONE;
        pos++;
    }
}

static row_result parse_row(spsh__row_reader *r)
{
    r->field_count = 0;
    r->scratch_used = 0;
    r->problem = NULL;
    switch (r->dialect.kind) {
    case SPSH__DIALECT_RAW: return row_raw(r);
    case SPSH__DIALECT_RFC: return row_rfc(r);
    case SPSH__DIALECT_PIPE_PAD: return row_pipe_pad(r);
    case SPSH__DIALECT_KALDI: return row_kaldi(r);
    }
    return ROW_BROKEN;
}

/* Read more text after end. The caller has checked that the row is not too long yet. */
static spsh_status fill(spsh__row_reader *r, spsh_error *err)
{
    if (r->begin > 0) {
        memmove(r->data, r->data + r->begin, r->end - r->begin);
        r->data_offset += r->begin;
        r->end -= r->begin;
        r->begin = 0;
    }
    r->next = r->begin; /* nothing after begin was returned, so reading may continue after an
                           error */
    if (r->end == r->capacity) {
        const size_t capacity = r->capacity * 2;
        assert(capacity > WINDOW_BYTES_MIN);
        uint8_t *data = realloc(r->data, capacity);
        if (data == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: a window of %zu bytes", r->input.name,
                             capacity);
        r->data = data;
        r->capacity = capacity;
    }
    size_t got = 0;
    spsh_status rc = r->input.read_at_fn(r->input.user, r->data_offset + r->end, r->data + r->end,
                                         r->capacity - r->end, &got, err);
    if (rc != SPSH_OK)
        return rc;
    r->at_end = got < r->capacity - r->end;
    r->end += got;
    return SPSH_OK;
}

static void give_row(const spsh__row_reader *r, spsh__row *ret_row)
{
    size_t end = r->next;
    if (end > r->begin && r->data[end - 1] == '\n') {
        end--;
        if (end > r->begin && r->data[end - 1] == '\r')
            end--;
    }
    *ret_row = (spsh__row){
        .fields = r->fields,
        .field_count = r->problem == NULL ? r->field_count : 0,
        .raw = {r->data + r->begin, end - r->begin},
        .line = r->line,
        .offset_bytes = r->data_offset + r->begin,
        .problem = r->problem,
    };
}

/* The window is full of one row. It ends at its first LF if there is one, else the rest of its line
 * is discarded by the next call. */
static void cut_long_row(spsh__row_reader *r)
{
    const uint8_t *lf = memchr(r->data + r->begin, '\n', r->end - r->begin);
    r->problem = "longer than 16 MiB";
    r->next = lf == NULL ? r->end : (size_t)(lf - r->data) + 1;
    r->line_count = lf == NULL ? 0 : 1;
    r->discarding = lf == NULL;
}

/* Drop text up to and with the LF of a line that was too long. */
static spsh_status discard_line(spsh__row_reader *r, spsh_error *err)
{
    while (r->discarding) {
        const uint8_t *lf = memchr(r->data + r->begin, '\n', r->end - r->begin);
        r->begin = lf == NULL ? r->end : (size_t)(lf - r->data) + 1;
        r->next = r->begin;
        if (lf != NULL || r->at_end) {
            r->discarding = false;
            r->line++;
            break;
        }
        spsh_status rc = fill(r, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Release the row that was returned or skipped. Its fields pointed into the window. */
static void pass_row(spsh__row_reader *r)
{
    r->begin = r->next;
    r->line += r->line_count;
    r->line_count = 0;
}

spsh_status spsh__row_reader_next(spsh__row_reader *reader, spsh__row *ret_row, spsh_error *err)
{
    spsh__row_reader *r = reader;
    pass_row(r);
    spsh_status rc = discard_line(r, err);
    while (rc == SPSH_OK) {
        if (r->begin == r->end && r->at_end)
            return SPSH_E_END;
        row_result result = r->begin == r->end ? ROW_NEEDS_MORE : parse_row(r);
        if (result == ROW_NO_MEMORY)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: a row", r->input.name);
        if (result == ROW_DONE || result == ROW_BROKEN) {
            give_row(r, ret_row);
            return SPSH_OK;
        }
        if (result == ROW_SKIP) {
            pass_row(r);
        } else if (r->end - r->begin >= SPSH__ROW_BYTES_MAX) {
            cut_long_row(r);
            give_row(r, ret_row);
            return SPSH_OK;
        } else {
            rc = fill(r, err);
        }
    }
    return rc;
}

spsh_bytes spsh__row_reader_ahead(const spsh__row_reader *reader)
{
    return (spsh_bytes){reader->data + reader->next, reader->end - reader->next};
}

spsh_status spsh__row_reader_new(const spsh__text_input *input, const spsh__dialect *dialect,
                                 spsh__row_reader **ret_reader, spsh_error *err)
{
    spsh__row_reader *r = calloc(1, sizeof(*r));
    size_t window = input->window_bytes == 0 ? WINDOW_BYTES_DEFAULT : input->window_bytes;
    spsh_status rc = SPSH_OK;
    if (window < WINDOW_BYTES_MIN)
        window = WINDOW_BYTES_MIN;
    if (r != NULL)
        r->data = malloc(window);
    if (r == NULL || r->data == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: a window of %zu bytes", input->name, window);
        goto out;
    }
    r->input = *input;
    r->dialect = *dialect;
    r->capacity = window;
    r->line = 1;
    rc = fill(r, err);
    if (rc != SPSH_OK)
        goto out;
    if (r->end >= 3 && memcmp(r->data, "\xef\xbb\xbf", 3) == 0)
        r->begin = r->next = 3;
    *ret_reader = r;
    r = NULL;
out:
    spsh__row_reader_free(r);
    return rc;
}

void spsh__row_reader_free(spsh__row_reader *reader)
{
    if (reader == NULL)
        return;
    free(reader->data);
    free(reader->fields);
    free(reader->scratch);
    free(reader);
}

static spsh_status read_memory(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                               size_t *ret_size_bytes, spsh_error *err)
{
    const spsh__text_memory *memory = user;
    (void)err;
    size_t left = offset_bytes < memory->size_bytes ? memory->size_bytes - offset_bytes : 0;
    *ret_size_bytes = left < size_bytes ? left : size_bytes;
    if (*ret_size_bytes > 0)
        memcpy(buffer, memory->data + offset_bytes, *ret_size_bytes);
    return SPSH_OK;
}

spsh__text_input spsh__text_input_memory(const spsh__text_memory *memory, const char *name)
{
    union {
        const spsh__text_memory *in;
        void *out;
    } user = {.in = memory}; /* read_memory casts it back to const */
    return (spsh__text_input){read_memory, user.out, name, 0};
}

/* Read a text input (user) as if it ended after SAMPLE_BYTES. */
static spsh_status read_sample(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                               size_t *ret_size_bytes, spsh_error *err)
{
    const spsh__text_input *input = user;
    const uint64_t left = offset_bytes < SAMPLE_BYTES ? SAMPLE_BYTES - offset_bytes : 0;
    const size_t wanted = left < size_bytes ? (size_t)left : size_bytes;
    *ret_size_bytes = 0;
    if (wanted == 0)
        return SPSH_OK;
    return input->read_at_fn(input->user, offset_bytes, buffer, wanted, ret_size_bytes, err);
}

typedef struct sample_reading {
    spsh__row_reader *reader;
    spsh__row row;
    bool ended;
    bool constant; /* no broken row, and every row has as many fields as the first */
    size_t field_count;
} sample_reading;

/* Whether the row may have been cut off by the end of the sample. A quote that is open for longer
 * than a row can reasonably be was not cut off: it is broken. */
static bool is_cut_off(const spsh__row *row)
{
    if (row->offset_bytes + row->raw.size_bytes + 2 >= SAMPLE_BYTES)
        return true;
    return row->problem != NULL && row->offset_bytes + SAMPLE_CUT_ROW_MAX >= SAMPLE_BYTES;
}

static spsh_status sample_next(sample_reading *s, spsh_error *err)
{
    spsh_status rc = spsh__row_reader_next(s->reader, &s->row, err);
    if (rc == SPSH_E_END || (rc == SPSH_OK && is_cut_off(&s->row))) {
        s->ended = true;
        return SPSH_OK;
    }
    if (rc != SPSH_OK)
        return rc;
    if (s->field_count == 0)
        s->field_count = s->row.field_count;
    if (s->row.problem != NULL || s->row.field_count != s->field_count)
        s->constant = false;
    return SPSH_OK;
}

static bool same_fields(const spsh__row *a, const spsh__row *b)
{
    if (a->field_count != b->field_count)
        return false;
    for (size_t i = 0; i < a->field_count; i++) {
        if (!spsh__bytes_equal(a->fields[i], b->fields[i]))
            return false;
    }
    return true;
}

/* Read both samples to their ends, and compare their rows until the first difference. */
static spsh_status sample_compare(sample_reading *raw, sample_reading *rfc, uint64_t *ret_line,
                                  spsh_error *err)
{
    bool agree = true;
    while (!raw->ended || !rfc->ended) {
        spsh_status rc = SPSH_OK;
        if (!raw->ended)
            rc = sample_next(raw, err);
        if (rc == SPSH_OK && !rfc->ended)
            rc = sample_next(rfc, err);
        if (rc != SPSH_OK)
            return rc;
        if (agree && !raw->ended && !rfc->ended && !same_fields(&raw->row, &rfc->row)) {
            agree = false;
            *ret_line = raw->row.line;
        }
    }
    return SPSH_OK;
}

spsh_status spsh__quoting_decide(const spsh__text_input *input, uint8_t delimiter,
                                 spsh__quoting *ret_quoting, uint64_t *ret_line, spsh_error *err)
{
    const spsh__dialect raw_dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = delimiter};
    const spsh__dialect rfc_dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = delimiter};
    spsh__text_input whole = *input;
    const spsh__text_input sample_input = {read_sample, &whole, input->name, input->window_bytes};
    sample_reading raw = {.constant = true};
    sample_reading rfc = {.constant = true};
    uint64_t line = 0;
    spsh_status rc = spsh__row_reader_new(&sample_input, &raw_dialect, &raw.reader, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_new(&sample_input, &rfc_dialect, &rfc.reader, err);
    if (rc == SPSH_OK)
        rc = sample_compare(&raw, &rfc, &line, err);
    spsh__row_reader_free(raw.reader);
    spsh__row_reader_free(rfc.reader);
    if (rc != SPSH_OK)
        return rc;
    if (line == 0)
        *ret_quoting = SPSH__QUOTING_SAME;
    else if (raw.constant && rfc.constant)
        *ret_quoting = SPSH__QUOTING_UNCLEAR;
    else
        *ret_quoting = rfc.constant ? SPSH__QUOTING_RFC : SPSH__QUOTING_RAW;
    *ret_line = line;
    return SPSH_OK;
}

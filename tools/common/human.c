/* human.c: numbers, text, and tables for people.
 *
 * Text from datasets is hostile. This file decodes it by the strict rules of UTF-8 and passes only
 * printable characters. In a UTF-8 locale (set by main), wcwidth gives the widths. Otherwise each
 * character takes one column.
 */
#include "human.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "grow.h"
#include "speechshard/inside.h"

/* ---- numbers ---- */

const char *spsh__human_bytes(uint64_t bytes, char dst[SPSH_HUMAN_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        value /= 1000;
    int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(dst, SPSH_HUMAN_BYTES, "%.*f %s", digits, value, units[unit]);
    return dst;
}

const char *spsh__human_count(uint64_t count, char dst[SPSH_HUMAN_BYTES])
{
    char digits[SPSH_HUMAN_BYTES];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            dst[used++] = ',';
        dst[used++] = digits[i];
    }
    dst[used] = '\0';
    return dst;
}

const char *spsh__human_duration(double seconds, char dst[SPSH_HUMAN_BYTES])
{
    if (seconds < 59.995) {
        snprintf(dst, SPSH_HUMAN_BYTES, "%.2f s", seconds);
    } else if (seconds < 3599.5) {
        uint64_t whole = (uint64_t)(seconds + 0.5);
        snprintf(dst, SPSH_HUMAN_BYTES, "%u min %02u s", (unsigned)(whole / 60),
                 (unsigned)(whole % 60));
    } else {
        uint64_t tenths = (uint64_t)(seconds / 360 + 0.5);
        char hours[SPSH_HUMAN_BYTES];
        spsh__human_count(tenths / 10, hours);
        snprintf(dst, SPSH_HUMAN_BYTES, "%.26s.%u h", hours, (unsigned)(tenths % 10));
    }
    return dst;
}

const char *spsh__human_percent(double part, double whole, char dst[SPSH_HUMAN_BYTES])
{
    snprintf(dst, SPSH_HUMAN_BYTES, "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
    return dst;
}

const char *spsh__human_format(char dst[SPSH_HUMAN_FORMAT_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(dst, SPSH_HUMAN_FORMAT_BYTES, format, args);
    va_end(args);
    return dst;
}

/* ---- text ---- */

/* Return the character at *at, and advance *at by at least one byte. UINT32_MAX: not UTF-8. */
static uint32_t next_character(spsh_bytes text, size_t *at)
{
    const spsh_bytes rest = {text.data + *at, text.size_bytes - *at};
    const uint8_t first = rest.data[0];
    const size_t length = first < 0x80 ? 1 : spsh__utf8_sequence(rest);
    *at += length == 0 ? 1 : length;
    if (length <= 1)
        return length == 0 ? UINT32_MAX : first;
    uint32_t character = (uint32_t)first & (0x7fU >> length);
    for (size_t i = 1; i < length; i++)
        character = character << 6 | (rest.data[i] & 0x3fU);
    return character;
}

/* Characters that reorder the text around them: a terminal would show something that is not there.
 */
static bool is_direction_control(uint32_t c)
{
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

/* Return the character to print for c: c itself, ' ', '?', or 0 for none. Sets its width in
 * columns. */
static uint32_t shown_character(uint32_t c, size_t *ret_columns)
{
    *ret_columns = is_direction_control(c) ? 0 : 1;
    if (is_direction_control(c))
        return 0;
    if (c == '\t' || c == '\n' || c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029)
        return ' ';
    if (c == UINT32_MAX || c < 0x20 || (c >= 0x7f && c < 0xa0))
        return '?';
    int width = c < 0x80 ? 1 : wcwidth((wchar_t)c);
    *ret_columns = width < 0 ? 1 : (size_t)width;
    return c;
}

size_t spsh__text_columns(spsh_bytes text)
{
    size_t columns = 0;
    for (size_t at = 0; at < text.size_bytes;) {
        size_t width = 0;
        shown_character(next_character(text, &at), &width);
        columns += width;
    }
    return columns;
}

void spsh__text_print(FILE *stream, spsh_bytes text, size_t columns_max)
{
    bool cut = columns_max != 0 && spsh__text_columns(text) > columns_max;
    size_t columns = 0;
    for (size_t at = 0; at < text.size_bytes;) {
        size_t begin = at, width = 0;
        uint32_t character = next_character(text, &at);
        uint32_t shown = shown_character(character, &width);
        if (cut && columns + width + 1 > columns_max) {
            fputs("\xe2\x80\xa6", stream);
            return;
        }
        columns += width;
        if (shown == character)
            (void)fwrite(text.data + begin, 1, at - begin, stream);
        else if (shown != 0)
            fputc((int)shown, stream);
    }
}

void spsh__text_print_field(FILE *stream, spsh_bytes text)
{
    for (size_t at = 0; at < text.size_bytes; at++) {
        uint8_t byte = text.data[at];
        fputc(byte == '\t' || byte == '\n' || byte == '\r' ? ' ' : byte, stream);
    }
}

/* ---- tables ---- */

struct spsh_table {
    size_t column_count;
    const char *alignment;
    char **cells; /* row by row */
    size_t cell_count, cell_capacity;
    bool failed;
};

spsh_table *spsh__table_new(const char *alignment)
{
    spsh_table *table = (spsh_table *)calloc(1, sizeof(*table));
    if (table == NULL)
        return NULL;
    table->column_count = strlen(alignment);
    table->alignment = alignment;
    return table;
}

static bool add_cell(spsh_table *table, const char *text)
{
    if (!SPSH_GROW(table->cells, table->cell_capacity, table->cell_count + 1))
        return false;
    table->cells[table->cell_count] = strdup(text);
    if (table->cells[table->cell_count] == NULL)
        return false;
    table->cell_count++;
    return true;
}

void spsh__table_row(spsh_table *table, ...)
{
    va_list cells;
    if (table == NULL)
        return;
    va_start(cells, table);
    for (size_t i = 0; i < table->column_count && !table->failed; i++)
        table->failed = !add_cell(table, va_arg(cells, const char *));
    va_end(cells);
}

static spsh_bytes cell_text(const spsh_table *table, size_t cell)
{
    return (spsh_bytes){(const uint8_t *)table->cells[cell], strlen(table->cells[cell])};
}

/* Return the columns left for the last cell of a row, at least 1. 0: no limit. */
static size_t last_cell_columns(const spsh_table *table, const size_t *widths, size_t columns_max)
{
    size_t before = 0;
    if (columns_max == 0)
        return 0;
    for (size_t i = 0; i + 1 < table->column_count; i++)
        before += widths[i] + 2;
    return before + 1 < columns_max ? columns_max - before : 1;
}

bool spsh__table_print(const spsh_table *table, FILE *stream, const char *indent,
                       size_t columns_max)
{
    const size_t columns = table == NULL || table->failed ? 0 : table->column_count;
    size_t *widths = columns == 0 ? NULL : (size_t *)calloc(columns, sizeof(*widths));
    if (widths == NULL)
        return false;
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t width = spsh__text_columns(cell_text(table, i));
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    if (columns_max != 0)
        columns_max -= strlen(indent) < columns_max ? strlen(indent) : columns_max - 1;
    size_t last_max = last_cell_columns(table, widths, columns_max);
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % columns;
        spsh_bytes text = cell_text(table, i);
        const int blanks = (int)(widths[column] - spsh__text_columns(text));
        if (column == 0 || column + 1 < columns || text.size_bytes > 0)
            fputs(column == 0 ? indent : "  ", stream);
        if (table->alignment[column] == 'r')
            fprintf(stream, "%*s", blanks, "");
        spsh__text_print(stream, text, column + 1 == columns ? last_max : 0);
        if (table->alignment[column] != 'r' && column + 1 < columns)
            fprintf(stream, "%*s", blanks, "");
        if (column + 1 == columns)
            fputc('\n', stream);
    }
    free(widths);
    return true;
}

bool spsh__table_finish(spsh_table *table)
{
    const bool is_printed = spsh__table_print(table, stdout, "", 0);
    spsh__table_free(table);
    return is_printed;
}

void spsh__table_free(spsh_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

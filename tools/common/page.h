/* page.h: the common parts of all pages: one style sheet (light and dark), sections, tables,
 * tiles.
 *
 *     spsh__page_open(out, "speechshard pack", NULL);
 *     spsh__page_section_open(out, "Sources");
 *     ...
 *     spsh__page_section_close(out);
 *     spsh__page_close(out);
 *
 * A page needs no other file. One short script shows the page's own path and date, which are not
 * in its bytes. A content security policy blocks every other script. The page is well-formed XML.
 * Strings of a corpus go through spsh__page_name or spsh__html_text (svg.h).
 */
#ifndef SPSH_PACK_PAGE_H
#define SPSH_PACK_PAGE_H

#include "svg.h"

/* more_style: NULL-terminated lines after the common style sheet; may be NULL. */
void spsh__page_open(spsh__builder *out, const char *title, const char *const *more_style);
void spsh__page_close(spsh__builder *out);

/* Write the list below the title: the subject of the page and the command that made it. The browser
 * fills in the last rows, the page's own path and date. what: markup. */
void spsh__page_made_open(spsh__builder *out);
void spsh__page_made_open_row(spsh__builder *out, const char *what);
void spsh__page_made_close_row(spsh__builder *out);
void spsh__page_made_close(spsh__builder *out, spsh_bytes command);

/* Append a word of a command line, quoted for a shell if necessary. */
void spsh__page_word(spsh__builder *line, const char *word);

void spsh__page_text(spsh__builder *out, const char *plain);
/* Append a name or text from a corpus. Its text direction cannot affect the rest of the page. */
void spsh__page_name(spsh__builder *out, spsh_bytes bytes);
/* Append a number in large print. The label is formatted, then escaped. */
void spsh__page_tile(spsh__builder *out, const char *value, const char *format, ...)
    SPSH_PRINTF(3, 4);

/* Append a line to the box of warnings, formatted, then escaped. *is_open: false before the first
 * line, which opens the box. */
void spsh__page_warn(spsh__builder *out, bool *is_open, const char *format, ...) SPSH_PRINTF(3, 4);
/* Append a warning such as "12 texts"; nothing if count is 0. */
void spsh__page_warn_count(spsh__builder *out, bool *is_open, uint64_t count, const char *text);
void spsh__page_warnings_close(spsh__builder *out, bool is_open);

/* title: markup. */
void spsh__page_section_open(spsh__builder *out, const char *title);
void spsh__page_section_close(spsh__builder *out);

/* head: cells, separated by '|'. A cell that begins with '#' heads a column of numbers. */
void spsh__page_table_open(spsh__builder *out, const char *head);
void spsh__page_table_close(spsh__builder *out);
void spsh__page_cell_count(spsh__builder *out, uint64_t count);
void spsh__page_cell_duration(spsh__builder *out, double seconds);
void spsh__page_cell_percent(spsh__builder *out, double part, double whole);
void spsh__page_cell_name(spsh__builder *out, spsh_bytes bytes);
void spsh__page_cell_bar(spsh__builder *out, double part, double whole, unsigned color);

/* Rows 0 ... count - 1 of a long table. The first rows are shown, the next rows are folded, and the
 * rest are only counted. */
typedef struct spsh__page_table {
    const void *user;
    const char *head;
    void (*row_fn)(spsh__builder *out, const void *user, size_t row); /* appends the cells */
    size_t count;
    const char *rest; /* name of the file that has all rows */
    bool has_total;   /* the last row is a sum */
} spsh__page_table;

void spsh__page_rows(spsh__builder *out, const spsh__page_table *table);

#endif

/* human.h: numbers, text, and tables for people. */
#ifndef SPSH_HUMAN_H
#define SPSH_HUMAN_H

#include <stdbool.h>
#include <stdio.h>

#include "speechshard/base.h"

/* ---- numbers and text for people; each function returns dst ---- */

#define SPSH_HUMAN_BYTES        32 /* capacity of each dst */
#define SPSH_HUMAN_FORMAT_BYTES 400

const char *spsh__human_bytes(uint64_t bytes, char dst[SPSH_HUMAN_BYTES]); /* "5.65 TB", "812 B" */
const char *spsh__human_count(uint64_t count, char dst[SPSH_HUMAN_BYTES]); /* "1,234,567" */
const char *
spsh__human_duration(double seconds,
                     char dst[SPSH_HUMAN_BYTES]); /* "1,234.5 h", "4 min 07 s", "3.21 s" */
const char *spsh__human_percent(double part, double whole,
                                char dst[SPSH_HUMAN_BYTES]); /* "12.3 %" */
const char *spsh__human_format(char dst[SPSH_HUMAN_FORMAT_BYTES], const char *format, ...)
    SPSH_PRINTF(2, 3); /* a longer text is cut */

/* The same with a temporary dst, for arguments of a call. It lives until the end of the enclosing
 * block. */
#define SPSH_SHOW_BYTES(bytes_)      spsh__human_bytes((bytes_), (char[SPSH_HUMAN_BYTES]){0})
#define SPSH_SHOW_COUNT(count_)      spsh__human_count((count_), (char[SPSH_HUMAN_BYTES]){0})
#define SPSH_SHOW_DURATION(seconds_) spsh__human_duration((seconds_), (char[SPSH_HUMAN_BYTES]){0})
#define SPSH_SHOW_PERCENT(part_, whole_)                                                           \
    spsh__human_percent((part_), (whole_), (char[SPSH_HUMAN_BYTES]){0})
#define SPSH_SHOW(...) spsh__human_format((char[SPSH_HUMAN_FORMAT_BYTES]){0}, __VA_ARGS__)

/** Return the width of the terminal that fd refers to, in columns; 0 if fd is not a terminal. */
unsigned spsh__terminal_columns(int fd);

/** Return the columns that UTF-8 text takes on a terminal. A byte that is not UTF-8 and a character
 * that is not printable take 1. */
size_t spsh__text_columns(spsh_bytes text);

/**
 * Write text for people. Control characters and bytes that are not UTF-8 become '?', tabs and line
 * ends become blanks, and direction marks are removed. So a hostile transcript cannot control the
 * terminal or break a line.
 *
 * @param columns_max  0: no limit; else longer text is cut, with an ellipsis
 */
void spsh__text_print(FILE *stream, spsh_bytes text, size_t columns_max);

/** Write text as a field of TAB-separated output. Only tabs and line ends change: they become
 * blanks.
 */
void spsh__text_print_field(FILE *stream, spsh_bytes text);

/* ---- tables ---- */

typedef struct spsh_table spsh_table;

/** alignment: 'l' or 'r' for each column; borrowed. NULL: no memory; the other functions take NULL,
 * and printing reports it. */
spsh_table *spsh__table_new(const char *alignment);
/** Add a row: one const char * per column, copied. A failure is reported by print. */
void spsh__table_row(spsh_table *table, ...);
/**
 * Print with aligned columns, two blanks apart, each line after indent.
 *
 * @param columns_max  maximum line width, to which the last cell is cut; 0: no limit
 * @return false: no memory
 */
bool spsh__table_print(const spsh_table *table, FILE *stream, const char *indent,
                       size_t columns_max);
/** Print to standard output without a limit, and free the table in any case. false: no memory. */
bool spsh__table_finish(spsh_table *table);
void spsh__table_free(spsh_table *table);

#endif

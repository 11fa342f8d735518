/* human.h: numbers, text and tables for people. */
#ifndef SPSH_HUMAN_H
#define SPSH_HUMAN_H

#include <stdbool.h>
#include <stdio.h>

#include "speechshard/base.h"

/* ---- numbers and text for people; each returns dst ---- */

#define SPSH_HUMAN_BYTES 32 /* room that each dst must have */

const char *spsh__human_bytes(uint64_t bytes, char dst[SPSH_HUMAN_BYTES]); /* "5.65 TB", "812 B" */
const char *spsh__human_count(uint64_t count, char dst[SPSH_HUMAN_BYTES]); /* "1,234,567" */
const char *
spsh__human_duration(double seconds,
                     char dst[SPSH_HUMAN_BYTES]); /* "1,234.5 h", "4 min 07 s", "3.21 s" */
const char *spsh__human_percent(double part, double whole,
                                char dst[SPSH_HUMAN_BYTES]); /* "12.3 %" */

/** Columns of the terminal behind a descriptor; 0 when it is none. */
unsigned spsh__terminal_columns(int fd);

/** Columns that UTF-8 text takes on a terminal; what is not UTF-8 or not printable counts 1. */
size_t spsh__text_columns(spsh_bytes text);

/**
 * Write text for people: control characters (and what is not UTF-8) become '?', tabs and line ends
 * a blank, marks of direction vanish, so that a hostile transcript cannot steer a terminal or break
 * a line.
 *
 * @param columns_max  0: no limit; else it is cut, with an ellipsis
 */
void spsh__text_print(FILE *stream, spsh_bytes text, size_t columns_max);

/** Write text as a field of TAB-separated output: as it is, but tabs and line ends become blanks.
 */
void spsh__text_print_field(FILE *stream, spsh_bytes text);

/* ---- tables ---- */

typedef struct spsh_table spsh_table;

/** alignment: 'l' or 'r' a column. NULL: no memory. */
spsh_table *spsh__table_new(const char *alignment);
/** A row: as many const char * as there are columns; copied. Failure is remembered until print. */
void spsh__table_row(spsh_table *table, ...);
/**
 * Print with aligned columns, two blanks apart, each line after indent.
 *
 * @param columns_max  of a line: the last cell is cut to it; 0: no limit
 * @return false: no memory
 */
bool spsh__table_print(const spsh_table *table, FILE *stream, const char *indent,
                       size_t columns_max);
void spsh__table_free(spsh_table *table);

#endif

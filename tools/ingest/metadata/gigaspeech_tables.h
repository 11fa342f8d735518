/* gigaspeech_tables.h: GigaSpeech as tables of cut segments, and helpers that its two forms share.
 */
#ifndef SPSH_INGEST_GIGASPEECH_TABLES_H
#define SPSH_INGEST_GIGASPEECH_TABLES_H

#include "ingest/scan/scan.h"

/* Return "audiobook", "podcast", or "youtube" if a folder of the path has that name, else empty. */
spsh_bytes spsh__giga_domain(spsh_bytes path);

/* Add the member non_speech if the whole transcript is one of the tags for audio without speech
 * (<SIL>, <MUSIC>, ...). */
void spsh__giga_mark_garbage(spsh__builder *extras, spsh_bytes text);

/* Return the dataset's speaker name. Empty if `written` is empty or a placeholder. */
spsh_bytes spsh__giga_speaker(spsh__scan *scan, spsh_bytes written);

/** State for the tables of one scan. */
typedef struct spsh__giga_tables spsh__giga_tables;

/* is_table_name: whether the file name is typical of such a table. is_table: whether its header has
 * the columns. */
bool spsh__giga_is_table_name(const char *name);
SPSH_NODISCARD spsh_status spsh__giga_is_table(const spsh__view *view, const char *path,
                                               bool *ret_fits, spsh_error *err);

SPSH_NODISCARD spsh_status spsh__giga_tables_new(spsh__scan *scan, spsh__giga_tables **ret_tables,
                                                 spsh_error *err);

/* Emit the segments of a table that no earlier table had. */
SPSH_NODISCARD spsh_status spsh__giga_table_scan(spsh__giga_tables *tables, const char *path,
                                                 spsh_error *err);

/* Report the count of rows that repeated segments of another subset. */
SPSH_NODISCARD spsh_status spsh__giga_tables_end(spsh__giga_tables *tables, spsh_error *err);
void spsh__giga_tables_free(spsh__giga_tables *tables);

#endif

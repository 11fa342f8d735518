/* gigaspeech_tables.h: GigaSpeech as tables of cut segments, and what its two forms share. */
#ifndef SPSH_INGEST_GIGASPEECH_TABLES_H
#define SPSH_INGEST_GIGASPEECH_TABLES_H

#include "ingest/scan/scan.h"

/* "audiobook", "podcast" or "youtube" when a folder of the path is called so; else empty. */
spsh_bytes spsh__giga_domain(spsh_bytes path);

/* Whether a text says that nobody speaks: one of the tags is all of it. */
bool spsh__giga_is_garbage(spsh_bytes text);

/* out becomes the speaker's name in a dataset; empty for nobody. */
spsh_bytes spsh__giga_speaker(spsh__builder *out, spsh_bytes written);

/** Tables of one scan. */
typedef struct spsh__giga_tables spsh__giga_tables;

/* Whether a file may be such a table by its name, and is one by its header. */
bool spsh__giga_is_table_name(const char *name);
SPSH_NODISCARD spsh_status spsh__giga_is_table(const spsh__view *view, const char *path,
                                               bool *ret_fits, spsh_error *err);

SPSH_NODISCARD spsh_status spsh__giga_tables_new(spsh__scan *scan, spsh__giga_tables **ret_tables,
                                                 spsh_error *err);

/* Emit the segments of a table that no table before had. */
SPSH_NODISCARD spsh_status spsh__giga_table_scan(spsh__giga_tables *tables, const char *path,
                                                 spsh_error *err);

/* Say how many rows were segments of another subset. */
SPSH_NODISCARD spsh_status spsh__giga_tables_end(spsh__giga_tables *tables, spsh_error *err);
void spsh__giga_tables_free(spsh__giga_tables *tables);

#endif

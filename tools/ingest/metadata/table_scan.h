/* table_scan.h: a CSV or TSV manifest with a header row, and the audio files it names. */
#ifndef SPSH_INGEST_TABLE_SCAN_H
#define SPSH_INGEST_TABLE_SCAN_H

#include "ingest/scan/ingest.h"
#include "ingest/scan/scan.h"
#include "table.h"

/* Emit the rows of the table of that name in the root of the options' view. */
SPSH_NODISCARD spsh_status spsh__table_scan(spsh__scan *scan, const char *name,
                                            spsh__table_quoting quoting, spsh_error *err);

/* Note the columns that no field of an utterance takes. They are kept as extras. */
SPSH_NODISCARD spsh_status spsh__table_note_unused(const spsh__scan *scan, const char *name,
                                                   const spsh__table_columns *columns,
                                                   spsh_error *err);

/**
 * Whether the file is a table of audio: it has an audio column, and one of its first rows names
 * audio that exists. A file that was given by name needs the column only; should its audio be
 * elsewhere, its rows will say so one by one.
 *
 * @param ret_has_split  whether it has a split column; may be NULL
 */
SPSH_NODISCARD spsh_status spsh__table_probe(const spsh__view *view, const char *name,
                                             spsh__table_quoting quoting, bool given,
                                             spsh_layout_probe *ret_probe, bool *ret_has_split,
                                             spsh_error *err);

#endif

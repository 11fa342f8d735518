/* table_scan.h: read a CSV or TSV manifest with a header row, and the audio files that it names. */
#ifndef SPSH_INGEST_TABLE_SCAN_H
#define SPSH_INGEST_TABLE_SCAN_H

#include "ingest/scan/ingest.h"
#include "ingest/scan/scan.h"
#include "table.h"

/* Emit the rows of a table in the root of the scan's view. */
SPSH_NODISCARD spsh_status spsh__table_scan(spsh__scan *scan, const char *name,
                                            spsh__table_quoting quoting, spsh_error *err);

/* Report the columns that map to no field of an utterance. They are kept as extras. */
SPSH_NODISCARD spsh_status spsh__table_note_unused(const spsh__scan *scan, const char *name,
                                                   const spsh__table_columns *columns,
                                                   spsh_error *err);

/**
 * Whether the file is a table of audio: it has an audio column, and one of its first rows names an
 * existing audio file. If the user named the file, the column is enough: a scan reports each row
 * whose audio is missing.
 *
 * @param ret_has_split whether it has a split column; may be NULL
 */
SPSH_NODISCARD spsh_status spsh__table_probe(const spsh__view *view, const char *name,
                                             spsh__table_quoting quoting, bool given,
                                             spsh_layout_probe *ret_probe, bool *ret_has_split,
                                             spsh_error *err);

#endif

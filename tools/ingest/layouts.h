/* layouts.h: the layouts behind the table in layouts.c, and what their probes share. */
#ifndef SPSH_INGEST_LAYOUTS_H
#define SPSH_INGEST_LAYOUTS_H

#include "ingest.h"

extern const spsh_layout spsh__layout_librispeech;
extern const spsh_layout spsh__layout_table;
extern const spsh_layout spsh__layout_table_raw;
extern const spsh_layout spsh__layout_table_rfc;
extern const spsh_layout spsh__layout_folder;

/* Fill evidence, cut to its size. */
void spsh__probe_say(spsh_layout_probe *probe, const char *format, ...) SPSH_PRINTF(2, 3);

#endif

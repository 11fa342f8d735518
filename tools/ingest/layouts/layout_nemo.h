/* layout_nemo.h: definitions shared by NeMo's manifests of files and of archives. */
#ifndef SPSH_INGEST_LAYOUT_NEMO_H
#define SPSH_INGEST_LAYOUT_NEMO_H

#include "ingest/metadata/json_manifest.h"

extern const spsh__json_format spsh__nemo_format;

#endif

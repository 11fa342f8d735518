/* layout_nemo.h: what NeMo's manifests of files and those of archives have in common. */
#ifndef SPSH_INGEST_LAYOUT_NEMO_H
#define SPSH_INGEST_LAYOUT_NEMO_H

#include "ingest/metadata/json_manifest.h"

extern const spsh__json_format spsh__nemo_format;

#endif

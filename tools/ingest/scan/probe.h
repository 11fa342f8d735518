/* probe.h: write the evidence of a layout's probe. */
#ifndef SPSH_PROBE_H
#define SPSH_PROBE_H

#include "ingest.h"

/** Write the evidence of a probe, truncated to its size. */
void spsh__probe_evidence(spsh_layout_probe *probe, const char *format, ...) SPSH_PRINTF(2, 3);

#endif

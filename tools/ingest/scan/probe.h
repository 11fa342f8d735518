/* probe.h: what a layout's probe says of a folder. */
#ifndef SPSH_PROBE_H
#define SPSH_PROBE_H

#include "ingest.h"

/** Write the evidence of a probe, cut to its size. */
void spsh__probe_say(spsh_layout_probe *probe, const char *format, ...) SPSH_PRINTF(2, 3);

#endif

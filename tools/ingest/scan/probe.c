/* probe.c: see probe.h. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>

void spsh__probe_evidence(spsh_layout_probe *probe, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (vsnprintf(probe->evidence, sizeof(probe->evidence), format, args) < 0)
        probe->evidence[0] = '\0';
    va_end(args);
}

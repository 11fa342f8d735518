/* base_internal.h: inside.h, and texts for errors of the system. */
#ifndef SPSH_BASE_INTERNAL_H
#define SPSH_BASE_INTERNAL_H

#include "speechshard/inside.h"

/* "No such file or directory" for ENOENT. Thread-safe. */
const char *spsh__os_text(int os_errno);

#endif

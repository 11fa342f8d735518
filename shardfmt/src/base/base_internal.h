/* base_internal.h: inside.h, and messages for operating system errors. */
#ifndef SPSH_BASE_INTERNAL_H
#define SPSH_BASE_INTERNAL_H

#include "speechshard/inside.h"

/* Return "No such file or directory" for ENOENT, etc. Thread-safe. */
const char *spsh__os_text(int os_errno);

#endif

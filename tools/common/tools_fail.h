/* tools_fail.h: failing in one expression, for the sources of tools. */
#ifndef SPSH_TOOLS_FAIL_H
#define SPSH_TOOLS_FAIL_H

#include "speechshard/base.h"

/* Each yields the constant, so that compiler and analyzer know that a failure is never SPSH_OK. */
#define SPSH_TOOLS_FAIL(err_, status_, ...)                                                        \
    (spsh_error_set((err_), (status_), 0, SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
#define SPSH_TOOLS_FAIL_OS(err_, status_, errno_, ...)                                             \
    (spsh_error_set((err_), (status_), (errno_), SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
#define SPSH_TOOLS_NO_MEMORY(err_) SPSH_TOOLS_FAIL((err_), SPSH_E_NO_MEMORY, "out of memory")

#endif

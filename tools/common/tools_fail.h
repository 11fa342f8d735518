/* tools_fail.h: failing in one expression, for the sources of this folder. */
#ifndef SPSH_TOOLS_FAIL_H
#define SPSH_TOOLS_FAIL_H

#include "speechshard/base.h"

/* Yields the constant, so that compiler and analyser know that a failure is never SPSH_OK. */
#define SPSH_PACK_FAIL(err_, status_, ...)                                                         \
    (spsh_error_set((err_), (status_), 0, SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
#define SPSH_PACK_NO_MEMORY(err_) SPSH_PACK_FAIL((err_), SPSH_E_NO_MEMORY, "out of memory")

#endif

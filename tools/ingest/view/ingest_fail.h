/* ingest_fail.h: failing in one expression, for the sources of this folder. */
#ifndef SPSH_INGEST_FAIL_H
#define SPSH_INGEST_FAIL_H

#include "speechshard/base.h"

/* Yields the constant, so that compiler and analyser know that a failure is never SPSH_OK. */
#define SPSH_INGEST_FAIL(err_, status_, ...)                                                       \
    (spsh_error_set((err_), (status_), 0, SPSH_OFFSET_NONE, __VA_ARGS__), (status_))
#define SPSH_INGEST_FAIL_OS(err_, status_, errno_, ...)                                            \
    (spsh_error_set((err_), (status_), (errno_), SPSH_OFFSET_NONE, __VA_ARGS__), (status_))

#endif

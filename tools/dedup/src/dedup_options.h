/* dedup_options.h: defaults and checks that the options of several functions share. */
#ifndef SPSH_DEDUP_OPTIONS_H
#define SPSH_DEDUP_OPTIONS_H

#include "speechshard/dedup.h"

uint32_t spsh__dedup_threads(uint32_t threads); /* 0: one per core */

/* Checks a path that has to be given. SPSH_E_INVALID_ARG names the field. */
SPSH_NODISCARD spsh_status spsh__dedup_path_check(const char *name, const char *path,
                                                  spsh_error *err);
/* Makes 0 the default, and checks the field memory_bytes. */
SPSH_NODISCARD spsh_status spsh__dedup_memory_take(uint64_t *memory_bytes, spsh_error *err);

#endif

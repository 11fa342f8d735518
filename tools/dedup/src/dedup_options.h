/* dedup_options.h: defaults and checks that several functions share: options, and disk space. */
#ifndef SPSH_DEDUP_OPTIONS_H
#define SPSH_DEDUP_OPTIONS_H

#include "speechshard/dedup.h"

/* Message of SPSH_E_END if fingerprints of other parts are missing. */
#define SPSH__PART_HAS_PRINTS                                                                      \
    "the fingerprints of this part are complete; run the same command again when the other parts " \
    "are complete"

uint32_t spsh__dedup_threads(uint32_t threads); /* threads: 0 is replaced by one per core */

/* Check a required path. SPSH_E_INVALID_ARG names the field. */
SPSH_NODISCARD spsh_status spsh__dedup_path_check(const char *name, const char *path,
                                                  spsh_error *err);
/* Replace 0 by the default, and check the field memory_bytes. */
SPSH_NODISCARD spsh_status spsh__dedup_memory_take(uint64_t *memory_bytes, spsh_error *err);
/* Check that path has need_bytes free. path is a directory, or can be created in an existing one.
 * SPSH_E_NO_SPACE states both numbers. If the free space is unknown, the check passes. */
SPSH_NODISCARD spsh_status spsh__work_space_check(const char *path, uint64_t need_bytes,
                                                  spsh_error *err);

#endif

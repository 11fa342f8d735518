/* source_prints.h: the segments of all datasets that sources name, each dataset once.
 *
 *     const spsh__fingerprint_run_options options = {.threads = 4, .part_count = 1};
 *     rc = spsh__source_prints_make(sources, source_count, &options, err);
 *     rc = spsh__print_set_open(sources, source_count, io, &set, err);
 */
#ifndef SPSH_DEDUP_SOURCE_PRINTS_H
#define SPSH_DEDUP_SOURCE_PRINTS_H

#include "print_set.h"
#include "segment/fingerprint_run.h"

/* Makes what is missing, as spsh__fingerprint_run does. A split that a dataset does not have is
 * SPSH_E_INVALID_ARG before anything is made. */
spsh_status spsh__source_prints_make(const spsh_dedup_source *sources, size_t source_count,
                                     const spsh__fingerprint_run_options *options, spsh_error *err);

/* Everything but temporary_bytes; measured for a short while in each dataset. Nothing is written.
 */
spsh_status spsh__source_prints_estimate(const spsh_dedup_source *sources, size_t source_count,
                                         const spsh_io *io, spsh_dedup_cost *ret_cost,
                                         spsh_error *err);

#endif

/* source_prints.h: make the segments of all datasets that the sources name, each dataset once.
 *
 *     const spsh__fingerprint_run_options options = {.threads = 4, .part_count = 1};
 *     rc = spsh__source_prints_make(sources, source_count, &options, err);
 *     rc = spsh__print_set_open(sources, source_count, io, &set, err);
 */
#ifndef SPSH_DEDUP_SOURCE_PRINTS_H
#define SPSH_DEDUP_SOURCE_PRINTS_H

#include "print_set.h"
#include "segment/fingerprint_run.h"

/* Make the missing segments, as spsh__fingerprint_run does. SPSH_E_INVALID_ARG before any work if a
 * dataset does not have one of the splits. */
spsh_status spsh__source_prints_make(const spsh_dedup_source *sources, size_t source_count,
                                     const spsh__fingerprint_run_options *options, spsh_error *err);

/* Estimate everything except temporary_bytes, by a short measurement in each dataset. Writes
 * nothing.
 */
spsh_status spsh__source_prints_estimate(const spsh_dedup_source *sources, size_t source_count,
                                         const spsh_io *io, spsh_dedup_cost *ret_cost,
                                         spsh_error *err);

#endif

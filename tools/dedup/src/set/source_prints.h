/* source_prints.h: the segments of all datasets that sources name, each dataset once.
 *
 *     const spsh__fingerprint_run_options options = {.threads = 4, .part_count = 1};
 *     rc = spsh__source_prints_make(sources, source_count, &options, stop, err);
 *     rc = spsh__print_set_open(sources, source_count, io, &set, err);
 */
#ifndef SPSH_DEDUP_SOURCE_PRINTS_H
#define SPSH_DEDUP_SOURCE_PRINTS_H

#include "print_set.h"
#include "segment/fingerprint_run.h"

/* Makes what is missing, as spsh__fingerprint_run does. A split that a dataset does not have is
 * SPSH_E_INVALID_ARG before anything is made. */
spsh_status spsh__source_prints_make(const spsh_dedup_source *sources, size_t source_count,
                                     const spsh__fingerprint_run_options *options,
                                     const volatile bool *stop, spsh_error *err);

/* What is there, and what making the rest would take. */
typedef struct spsh__source_estimate {
    double train_s, test_s; /* audio of the sides */
    double to_extract_s;    /* of the datasets, without fingerprint */
    double core_s;          /* to make them */
    uint64_t segment_bytes; /* of them */
} spsh__source_estimate;

/* Measured for a short while in each dataset; nothing is written. */
spsh_status spsh__source_prints_estimate(const spsh_dedup_source *sources, size_t source_count,
                                         const spsh_io *io, spsh__source_estimate *ret_estimate,
                                         spsh_error *err);

#endif

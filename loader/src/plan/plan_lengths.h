/* plan_lengths.h: lengths of all utterances in the cache directory, checked a few at a time.
 *
 * The lengths that a window needs lie all over the index, whose checksums are of 64 KiB: the first
 * window of a large dataset would read and check all of the column. Here checksums are of 256
 * bytes. Where the file is wrong or missing the index is asked.
 */
#ifndef SPSH_PLAN_LENGTHS_H
#define SPSH_PLAN_LENGTHS_H

#include "plan_internal.h"

void spsh__lengths_open(spsh_plan *plan);
/* Unless it is there. The datasets' columns have been checked. */
void spsh__lengths_save(const spsh_plan *plan);
void spsh__lengths_close(spsh_plan *plan);

/* Ask for what spsh__lengths_get will read. */
void spsh__lengths_prefetch(const spsh__plan_dataset *dataset, uint64_t position);

/* False: not known here. */
bool spsh__lengths_get(const spsh_plan *plan, uint32_t dataset, uint64_t position,
                       uint64_t *ret_samples);

#endif

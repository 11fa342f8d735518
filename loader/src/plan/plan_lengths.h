/* plan_lengths.h: a cache file of all utterance lengths, with small checksums.
 *
 * A window needs lengths from everywhere in the index. The index has a checksum per 64 KiB, so the
 * first window of a large dataset would read and check the whole column. This file has a checksum
 * per 256 bytes. If the file is missing or damaged, the index is read.
 */
#ifndef SPSH_PLAN_LENGTHS_H
#define SPSH_PLAN_LENGTHS_H

#include "plan_internal.h"

void spsh__lengths_open(spsh_plan *plan);
/* Write the file unless it exists. The datasets' columns must have been checked. */
void spsh__lengths_save(const spsh_plan *plan);
void spsh__lengths_close(spsh_plan *plan);

/* Prefetch the memory that spsh__lengths_get will read. */
void spsh__lengths_prefetch(const spsh__plan_dataset *dataset, uint64_t position);

/* False: the length must be read from the index. */
bool spsh__lengths_get(const spsh_plan *plan, uint32_t dataset, uint64_t position,
                       uint64_t *ret_samples);

#endif

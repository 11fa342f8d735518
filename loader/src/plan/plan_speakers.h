/* plan_speakers.h: limit the number of utterances per speaker. */
#ifndef SPSH_PLAN_SPEAKERS_H
#define SPSH_PLAN_SPEAKERS_H

#include "plan_internal.h"

/* passes: one bit per row of the dataset. If a speaker has more than options.speaker_utterances_max
 * bits, clear the bits of the rows with the largest draws. *ret_count: number of cleared bits. */
spsh_status spsh__plan_cap_speakers(const spsh_plan *plan, uint32_t dataset, uint32_t speaker_names,
                                    uint64_t *passes, uint64_t *ret_count, spsh_error *err);

#endif

/* plan_speakers.h: no more than so many utterances of a speaker. */
#ifndef SPSH_PLAN_SPEAKERS_H
#define SPSH_PLAN_SPEAKERS_H

#include "plan_internal.h"

/* Of each speaker of the dataset that has more rows than options.speaker_utterances_max in passes
 * (a bit a row), the bits of those with the largest draws are cleared; *ret_count of them. */
spsh_status spsh__plan_cap_speakers(const spsh_plan *plan, uint32_t dataset, uint32_t speaker_names,
                                    uint64_t *passes, uint64_t *ret_count, spsh_error *err);

#endif

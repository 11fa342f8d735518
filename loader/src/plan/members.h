/* members.h: the members of a domain: the positions in a dataset that belong to it, ascending.
 *
 * A list is a sequence of runs, at most one per block of 65,536 positions. A run has either
 * consecutive positions, or a 16-bit offset into the block per utterance. Adjacent runs of
 * consecutive positions are merged. So a dataset whose utterances are all served in one domain
 * needs a single run.
 */
#ifndef SPSH_MEMBERS_H
#define SPSH_MEMBERS_H

#include "speechshard/inside.h"

#define SPSH__MEMBERS_BLOCK UINT32_C(65536)

typedef struct spsh__member_run {
    uint64_t first;          /* index of its first member in the domain */
    uint64_t base;           /* position of the block, or of the first member without offsets */
    const uint16_t *offsets; /* NULL: consecutive positions */
} spsh__member_run;

/* Return the run of a member. runs[run_count].first must be the member count. */
const spsh__member_run *spsh__members_find(const spsh__member_run *runs, uint32_t run_count,
                                           uint64_t member);

static inline uint64_t spsh__member_position(const spsh__member_run *run, uint64_t member)
{
    uint64_t at = member - run->first;
    return run->base + (run->offsets == NULL ? at : run->offsets[at]);
}

#endif

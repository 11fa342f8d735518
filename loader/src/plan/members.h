/* members.h: which positions of a dataset belong to a domain of the plan, in ascending order.
 *
 * A list is a sequence of runs, at most one a block of 65,536 positions: either consecutive
 * positions, or 2 bytes an utterance, offsets into the block. Neighbouring runs of consecutive
 * positions are one run: a dataset all of which is served from one domain needs no memory at all.
 */
#ifndef SPSH_MEMBERS_H
#define SPSH_MEMBERS_H

#include "speechshard/inside.h"

#define SPSH__MEMBERS_BLOCK UINT32_C(65536)

typedef struct spsh__member_run {
    uint64_t first; /* number of its first member */
    uint64_t base;  /* position of the block; of the first member when there are no offsets */
    const uint16_t *offsets; /* NULL: consecutive positions */
} spsh__member_run;

/* The run that holds a member; runs[run_count].first is the number of members. */
const spsh__member_run *spsh__members_find(const spsh__member_run *runs, uint32_t run_count,
                                           uint64_t member);

static inline uint64_t spsh__member_position(const spsh__member_run *run, uint64_t member)
{
    uint64_t at = member - run->first;
    return run->base + (run->offsets == NULL ? at : run->offsets[at]);
}

#endif

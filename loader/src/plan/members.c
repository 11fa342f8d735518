/* members.c: find the run of a member.
 *
 * Most domains are spread evenly over a dataset, so a guess by proportion is usually right or
 * close. If a few steps do not reach the run, a binary search finds it.
 */
#include "members.h"

enum { GUESS_STEPS = 4 };

static const spsh__member_run *search(const spsh__member_run *runs, uint32_t low, uint32_t high,
                                      uint64_t member)
{
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (runs[middle].first <= member)
            low = middle;
        else
            high = middle;
    }
    return &runs[low];
}

const spsh__member_run *spsh__members_find(const spsh__member_run *runs, uint32_t run_count,
                                           uint64_t member)
{
    if (run_count == 1)
        return runs;
    double share = (double)member / (double)runs[run_count].first;
    uint32_t at = (uint32_t)(share * (double)run_count);
    at = at < run_count ? at : run_count - 1;
    for (uint32_t i = 0; i < GUESS_STEPS && runs[at].first > member; i++)
        at--;
    for (uint32_t i = 0; i < GUESS_STEPS && runs[at + 1].first <= member; i++)
        at++;
    if (runs[at].first > member)
        return search(runs, 0, at, member);
    if (runs[at + 1].first <= member)
        return search(runs, at + 1, run_count, member);
    return &runs[at];
}

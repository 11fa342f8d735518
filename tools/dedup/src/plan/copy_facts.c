/* copy_facts.c: statistics of all matches that the pages show. */
#include <math.h>

#include "copy_report.h"

static unsigned bar_of(double value, double end)
{
    const double bar = value / end * SPSH__HISTOGRAM_BARS;
    if (!(bar > 0))
        return 0;
    return bar < SPSH__HISTOGRAM_BARS ? (unsigned)bar : SPSH__HISTOGRAM_BARS - 1;
}

void spsh__copy_facts_count(spsh__copy_facts *facts, const spsh__match *match)
{
    const bool is_same = match->kind == SPSH_COPY_SAME_RECORDING ||
                         match->kind == SPSH_COPY_CONTAINED ||
                         match->kind == SPSH_COPY_SHARED_SEGMENT;
    facts->by_tier_class[match->tier][match->kind]++;
    if (match->tier != SPSH_TIER_ACOUSTIC)
        return;
    (is_same ? facts->ber_same : facts->ber_other)[bar_of(match->ber, 0.5)]++;
    (is_same ? facts->ncc_same : facts->ncc_other)[bar_of(fabs(match->ncc), 1)]++;
}

const spsh__match *spsh__plan_match(const spsh__plan_facts *facts, uint64_t number)
{
    if (number < facts->common.match_count)
        return &facts->matches[number];
    number -= facts->common.match_count;
    return number < facts->clusters->checked_count ? &facts->clusters->checked[number] : NULL;
}

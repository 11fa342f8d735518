/* dedupe_run.h: all findings of deduplication. dedupe_result.c gives the public access. */
#ifndef SPSH_DEDUPE_RUN_H
#define SPSH_DEDUPE_RUN_H

#include "plan/copy_report.h"

struct spsh_dedupe_result {
    spsh_dedupe_facts facts;
    spsh__print_set *set;
    spsh__copies_facts copies;
    spsh__match_list matches;
    spsh__clusters clusters;
    spsh__policy policy;
    spsh__plan_facts plan;
    spsh_dedupe_sum by_tier[SPSH_TIER_COUNT];
    uint64_t decisions[SPSH_DECISION_COUNT]; /* number of members per decision */
    uint64_t key_count;
    spsh_copy_member *members;     /* clusters.member_count items */
    spsh_boilerplate *boilerplate; /* clusters.boilerplate_count items */
};

#endif

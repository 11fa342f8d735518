/* dedupe_run.h: everything that deduplication has found. dedupe_result.c shows it. */
#ifndef SPSH_DEDUPE_RUN_H
#define SPSH_DEDUPE_RUN_H

#include "plan/copy_report.h"

struct spsh_dedupe_result {
    spsh_dedupe_facts facts;
    spsh__print_set *set;
    spsh__copies_facts copies;
    spsh__match *matches;
    size_t match_count, match_capacity;
    spsh__clusters clusters;
    spsh__policy policy;
    spsh__plan_facts plan;
    spsh_dedupe_sum by_tier[SPSH_TIER_COUNT];
    uint64_t decisions[SPSH_DECISION_COUNT]; /* members */
    uint64_t key_count;
    spsh_copy_member *members;     /* clusters.member_count */
    spsh_boilerplate *boilerplate; /* clusters.boilerplate_count */
};

#endif

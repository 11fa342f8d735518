/* dedupe_result.c: the public access to the findings of deduplication. */
#include <stdlib.h>

#include "dedupe_run.h"

const spsh_dedupe_facts *spsh_dedupe_result_facts(const spsh_dedupe_result *result)
{
    return &result->facts;
}

const spsh_dataset *spsh_dedupe_result_dataset(const spsh_dedupe_result *result, size_t index)
{
    return spsh__print_set_dataset(result->set, index);
}

uint64_t spsh_dedupe_result_matches(const spsh_dedupe_result *result, spsh_copy_tier tier,
                                    spsh_copy_class kind)
{
    return result->plan.common.by_tier_class[tier][kind];
}

const spsh_dedupe_sum *spsh_dedupe_result_dropped(const spsh_dedupe_result *result,
                                                  spsh_copy_tier tier)
{
    return &result->by_tier[tier];
}

uint64_t spsh_dedupe_result_decisions(const spsh_dedupe_result *result, spsh_copy_decision decision)
{
    return result->decisions[decision];
}

const spsh_copy_cluster *spsh_dedupe_result_cluster(const spsh_dedupe_result *result,
                                                    uint64_t index)
{
    return &result->clusters.clusters[index];
}

const spsh_copy_member *spsh_dedupe_result_member(const spsh_dedupe_result *result, uint64_t index)
{
    return &result->members[index];
}

const spsh_boilerplate *spsh_dedupe_result_boilerplate(const spsh_dedupe_result *result,
                                                       size_t index)
{
    return &result->boilerplate[index];
}

void spsh_dedupe_result_free(spsh_dedupe_result *result)
{
    if (result == NULL)
        return;
    spsh__clusters_free(&result->clusters);
    free(result->matches.items);
    free(result->members);
    free(result->boilerplate);
    spsh__print_set_close(result->set);
    free(result);
}

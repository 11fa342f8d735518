/* filter.h: names and bounds of the options, as numbers of one dataset. */
#ifndef SPSH_FILTER_H
#define SPSH_FILTER_H

#include "plan_internal.h"

/* Tables have an entry for each name of the dataset and, last, one for rows without a name. NULL:
 * everything passes. */
typedef struct spsh__filter {
    uint8_t *domains, *splits, *languages; /* 1: passes */
    double *weights;                       /* of domains; 0: not served */
    bool has_whole_weight; /* all of weights are that of the dataset, which its domains share */
    uint32_t domain_names, split_names, language_names, speaker_names;
    uint64_t *skipped; /* positions, ascending */
    uint64_t skipped_count;
} spsh__filter;

/* One for each dataset; *ret_filters is given back with spsh__filters_close, also after failure. */
spsh_status spsh__filters_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                               const spsh_plan_options *options, const spsh_allocator *allocator,
                               spsh__filter **ret_filters, spsh_error *err);
void spsh__filters_close(spsh__filter *filters, uint32_t dataset_count,
                         const spsh_allocator *allocator);

/* In a table of names. */
static inline uint32_t spsh__name_slot(uint32_t number, uint32_t names)
{
    return number < names ? number : names;
}

#endif

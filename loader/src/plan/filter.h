/* filter.h: the names in the options, converted to the name numbers of each dataset. */
#ifndef SPSH_FILTER_H
#define SPSH_FILTER_H

#include "plan_internal.h"

/* The filter of one dataset. A table has an entry for each name of the dataset, and a last entry
 * for rows without a name. NULL: every row passes. */
typedef struct spsh__filter {
    uint8_t *domains, *splits, *languages; /* 1: passes */
    double *weights;                       /* weights of domains; 0: not served */
    bool has_whole_weight; /* the domains share one weight of the dataset, stored in each entry */
    uint32_t domain_names, split_names, language_names, speaker_names;
    uint64_t *skipped; /* positions, ascending */
    uint64_t skipped_count;
} spsh__filter;

/* Create a filter for each dataset. Free *ret_filters with spsh__filters_close, also after a
 * failure. */
spsh_status spsh__filters_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                               const spsh_plan_options *options, const spsh_allocator *allocator,
                               spsh__filter **ret_filters, spsh_error *err);
void spsh__filters_close(spsh__filter *filters, uint32_t dataset_count,
                         const spsh_allocator *allocator);

/* Index of a name number in a table. */
static inline uint32_t spsh__name_slot(uint32_t number, uint32_t names)
{
    return number < names ? number : names;
}

#endif

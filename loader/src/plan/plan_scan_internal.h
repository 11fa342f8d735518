/* plan_scan_internal.h: a scan in progress: the results of its workers, and how they are merged. */
#ifndef SPSH_PLAN_SCAN_INTERNAL_H
#define SPSH_PLAN_SCAN_INTERNAL_H

#include "plan_scan.h"

/* Words of 64 bits for one bit per row of a block. */
enum { SPSH__SCAN_WORDS = SPSH__MEMBERS_BLOCK / 64 };

typedef struct spsh__scan_group {
    uint32_t domain; /* domain number in the dataset */
    uint32_t count;
    uint32_t first; /* is_consecutive: offset in the block; else index into the block's offsets */
    bool is_consecutive; /* consecutive rows, which need no offsets */
} spsh__scan_group;

typedef struct spsh__scan_block {
    uint16_t *offsets;
    spsh__scan_group *groups;
    uint32_t group_count;
} spsh__scan_block;

typedef struct spsh__scan_sum {
    uint64_t count, ticks, units, extra_items;
} spsh__scan_sum;

typedef struct spsh__scan_range {
    uint32_t rate_min, rate_max, channels_min, channels_max;
} spsh__scan_range;

typedef struct spsh__scan_copy {
    uint64_t original, position;
    uint32_t dataset;
} spsh__scan_copy;

typedef struct spsh__scan_dataset {
    uint64_t first_block, block_count;
    uint64_t first_domain; /* index of its first domain in sums */
    uint64_t *passes;      /* one bit per row; NULL: not kept */
} spsh__scan_dataset;

typedef struct spsh__scan_worker {
    spsh__scan_sum *sums;     /* per domain of all datasets */
    spsh__scan_range *ranges; /* per dataset */
    uint32_t *counts;         /* per domain of one dataset; all zero between blocks */
    uint32_t *touched;        /* domains in the current block */
    uint64_t passes[SPSH__SCAN_WORDS];
    spsh_plan_info info; /* counts only */
    uint64_t part_count_max;
    spsh__scan_copy *copies;
    uint64_t copy_count, copy_capacity;
    uint64_t long_row, long_ticks; /* first row over all datasets that is too long */
} spsh__scan_worker;

typedef enum spsh__scan_phase {
    SPSH__SCAN_BOTH,
    SPSH__SCAN_DECIDE,
    SPSH__SCAN_BUILD,
} spsh__scan_phase;

typedef struct spsh__index_scan {
    spsh_plan *plan;
    const spsh__filter *filters;
    spsh__scan_dataset *datasets;
    spsh__scan_worker *workers;
    uint32_t worker_count;
    spsh__scan_block *blocks;
    uint64_t block_count;
    uint64_t domain_count; /* domains of all datasets, plus one per dataset for rows without */
    spsh__scan_phase phase;
    uint64_t ticks_min, ticks_max;
} spsh__index_scan;

/* Add durations, saturating instead of wrapping: sums near the maximum are rejected later. */
static inline void spsh__scan_add(uint64_t *sum, uint64_t value)
{
    *sum = value > UINT64_MAX - *sum ? UINT64_MAX : *sum + value;
}

/* Merge the results of all workers into the plan's domains, member lists, and counts. */
spsh_status spsh__scan_results(spsh__index_scan *s, spsh_error *err);

#endif

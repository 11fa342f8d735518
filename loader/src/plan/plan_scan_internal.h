/* plan_scan_internal.h: a scan in progress: what workers leave, and what becomes of it. */
#ifndef SPSH_PLAN_SCAN_INTERNAL_H
#define SPSH_PLAN_SCAN_INTERNAL_H

#include "plan_scan.h"

/* Bits of a block's rows, in words of 64. */
enum { SPSH__SCAN_WORDS = SPSH__MEMBERS_BLOCK / 64 };

typedef struct spsh__scan_group {
    uint32_t domain; /* of the dataset */
    uint32_t count;
    uint32_t first;      /* consecutive: offset in the block; else index into the block's offsets */
    bool is_consecutive; /* needs no offsets */
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
    uint64_t first_domain; /* of its domains, in sums */
    uint64_t *passes;      /* a bit a row; NULL: not kept */
} spsh__scan_dataset;

typedef struct spsh__scan_worker {
    spsh__scan_sum *sums;     /* all datasets */
    spsh__scan_range *ranges; /* by dataset */
    uint32_t *counts;         /* by domain of one dataset, zero between blocks */
    uint32_t *touched;        /* domains of the block */
    uint64_t passes[SPSH__SCAN_WORDS];
    spsh_plan_info info; /* counts only */
    uint64_t part_count_max;
    spsh__scan_copy *copies;
    uint64_t copy_count, copy_capacity;
    uint64_t long_row, long_ticks; /* the first that is too long, over all datasets */
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
    uint64_t domain_count; /* slots of all datasets */
    spsh__scan_phase phase;
    uint64_t ticks_min, ticks_max;
} spsh__index_scan;

/* Sums of durations stop at the top instead of wrapping: what comes near is refused later. */
static inline void spsh__scan_add(uint64_t *sum, uint64_t value)
{
    *sum = value > UINT64_MAX - *sum ? UINT64_MAX : *sum + value;
}

/* The plan's domains, member lists and counts, from what all workers left. */
spsh_status spsh__scan_results(spsh__index_scan *s, spsh_error *err);

#endif

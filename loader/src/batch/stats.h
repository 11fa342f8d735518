/* stats.h: the counters of a loader, and their JSON form. */
#ifndef SPSH_STATS_H
#define SPSH_STATS_H

#include <pthread.h>

#include "speechshard/loader.h"

/* A histogram of gaps with 8 buckets per power of two: percentiles are at most 12.5 % too large. */
#define SPSH__GAP_BUCKETS 512

typedef struct spsh__gaps {
    uint64_t counts[SPSH__GAP_BUCKETS];
    uint64_t total, max_ns;
} spsh__gaps;

uint64_t spsh__thread_cpu_ns(pthread_t thread); /* 0: not available */

void spsh__gaps_add(spsh__gaps *gaps, uint64_t gap_ns);
/* An upper bound of a percentile; share: 0 ... 1. Returns 0 without gaps. */
uint64_t spsh__gaps_percentile(const spsh__gaps *gaps, double share);

/* Write JSON, with the length rules of snprintf. units: units served, per domain of the plan. */
size_t spsh__stats_json(const spsh_loader_stats *stats, const spsh_plan *plan,
                        const uint64_t *units, char *text, size_t capacity_bytes);

#endif

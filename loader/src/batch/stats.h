/* stats.h: what a loader counts, and how it is shown. */
#ifndef SPSH_STATS_H
#define SPSH_STATS_H

#include <pthread.h>

#include "speechshard/loader.h"

/* Gaps by their logarithm: 8 buckets an octave, so a percentile is right within 9 %. */
#define SPSH__GAP_BUCKETS 512

typedef struct spsh__gaps {
    uint64_t counts[SPSH__GAP_BUCKETS];
    uint64_t total, max_ns;
} spsh__gaps;

uint64_t spsh__thread_cpu_ns(pthread_t thread); /* 0: not known */

void spsh__gaps_add(spsh__gaps *gaps, uint64_t gap_ns);
/* An upper bound of the share'th part, 0 ... 1; 0 without gaps. */
uint64_t spsh__gaps_percentile(const spsh__gaps *gaps, double share);

/* As snprintf; units: served by domain of the plan. */
size_t spsh__stats_json(const spsh_loader_stats *stats, const spsh_plan *plan,
                        const uint64_t *units, char *text, size_t capacity_bytes);

#endif

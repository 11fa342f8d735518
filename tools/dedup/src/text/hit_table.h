/* hit_table.h: for each of many things, how many train utterances hit it, and the first of those of
 * each train split.
 *
 * Hits arrive from several threads in any order; what is kept depends only on which there were: the
 * lowest ordinals of each split and the count.
 */
#ifndef SPSH_DEDUP_HIT_TABLE_H
#define SPSH_DEDUP_HIT_TABLE_H

#include "set/train_splits.h"

typedef struct spsh__hit {
    uint64_t ordinal;   /* of the train utterance; at most one hit of a thing */
    double test, train; /* similarity, or the share that is covered: by the caller's tier */
} spsh__hit;

/* What is kept of the hits. */
typedef struct spsh__hit_rule {
    uint32_t keep;              /* 1 or more, of each thing and split */
    spsh__train_splits *splits; /* borrowed; NULL: all are one */
} spsh__hit_rule;

typedef struct spsh__hit_table spsh__hit_table;

spsh_status spsh__hit_table_open(uint64_t count, spsh__hit_rule rule, spsh__hit_table **ret_table,
                                 spsh_error *err);
/* Any thread. */
void spsh__hit_table_add(spsh__hit_table *table, uint64_t thing, const spsh__hit *hit);

/* After the last add: ascending ordinals. Returns how many hits there were, kept or not. */
uint64_t spsh__hit_table_get(const spsh__hit_table *table, uint64_t thing,
                             const spsh__hit **ret_hits, uint32_t *ret_kept);

/* What count things take. */
uint64_t spsh__hit_table_bytes(uint64_t count, spsh__hit_rule rule);
void spsh__hit_table_free(spsh__hit_table *table);

#endif

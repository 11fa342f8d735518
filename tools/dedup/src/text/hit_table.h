/* hit_table.h: for each of many things, the number of train utterances that hit it, and the first
 * hits of each train split.
 *
 * Hits arrive from several threads in any order. The result depends only on the set of hits: the
 * lowest ordinals of each split, and the count.
 */
#ifndef SPSH_DEDUP_HIT_TABLE_H
#define SPSH_DEDUP_HIT_TABLE_H

#include "set/train_splits.h"

typedef struct spsh__hit {
    uint64_t ordinal;   /* train utterance; hits each thing at most once */
    double test, train; /* similarity or covered share, depending on the tier of the caller */
} spsh__hit;

/* Which hits are kept. */
typedef struct spsh__hit_rule {
    uint32_t keep;              /* maximum number of kept hits per thing and split, at least 1 */
    spsh__train_splits *splits; /* borrowed; NULL: all train utterances form one split */
} spsh__hit_rule;

typedef struct spsh__hit_table spsh__hit_table;

spsh_status spsh__hit_table_open(uint64_t count, spsh__hit_rule rule, spsh__hit_table **ret_table,
                                 spsh_error *err);
/* Add a hit. Thread-safe. */
void spsh__hit_table_add(spsh__hit_table *table, uint64_t thing, const spsh__hit *hit);

/* Get the kept hits of a thing in ascending order of ordinals. Call after the last add. Returns the
 * number of hits, kept or not. */
uint64_t spsh__hit_table_get(const spsh__hit_table *table, uint64_t thing,
                             const spsh__hit **ret_hits, uint32_t *ret_kept);

/* Return the memory of a table for count things. */
uint64_t spsh__hit_table_bytes(uint64_t count, spsh__hit_rule rule);
void spsh__hit_table_free(spsh__hit_table *table);

#endif

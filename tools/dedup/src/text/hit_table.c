/* hit_table.c: one row of hits per thing, sorted by ordinal, with space for `keep` hits of each
 * split. One lock serves every 64th thing. A full split replaces its last hit by an earlier one.
 */
#include "hit_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { LOCKS = 64 };

struct spsh__hit_table {
    spsh__hit *hits;  /* `capacity` hits per thing */
    uint32_t *splits; /* split of each hit */
    uint64_t *counts; /* number of hits per thing, kept or not */
    uint32_t *kept;
    uint32_t capacity; /* maximum number of kept hits per thing */
    spsh__hit_rule rule;
    pthread_mutex_t locks[LOCKS];
};

/* Maximum number of hits in a row. */
static uint32_t capacity_of(spsh__hit_rule rule)
{
    return rule.keep * (rule.splits == NULL ? 1 : spsh__train_splits_count(rule.splits));
}

spsh_status spsh__hit_table_open(uint64_t count, spsh__hit_rule rule, spsh__hit_table **ret_table,
                                 spsh_error *err)
{
    const uint32_t capacity = capacity_of(rule);
    if (count >= SIZE_MAX / sizeof(spsh__hit) / capacity)
        return SPSH_NO_MEMORY(err);
    spsh__hit_table *table = calloc(1, sizeof(*table));
    if (table == NULL)
        return SPSH_NO_MEMORY(err);
    for (unsigned i = 0; i < LOCKS; i++)
        (void)pthread_mutex_init(&table->locks[i], NULL);
    table->capacity = capacity;
    table->rule = rule;
    /* The pages that calloc returns use no memory until a thing has hits. */
    table->hits = calloc((size_t)count + 1, capacity * sizeof(*table->hits));
    table->splits = calloc((size_t)count + 1, capacity * sizeof(*table->splits));
    table->counts = calloc((size_t)count + 1, sizeof(*table->counts));
    table->kept = calloc((size_t)count + 1, sizeof(*table->kept));
    if (table->hits == NULL || table->splits == NULL || table->counts == NULL ||
        table->kept == NULL) {
        spsh__hit_table_free(table);
        return SPSH_NO_MEMORY(err);
    }
    *ret_table = table;
    return SPSH_OK;
}

/* Make space for a hit of the split. If the split is full, remove its last hit if that is later
 * than ordinal. Returns false if the new hit must not be kept. */
static bool make_place(const spsh__hit_table *table, uint64_t thing, uint32_t split,
                       uint64_t ordinal)
{
    spsh__hit *row = table->hits + thing * table->capacity;
    uint32_t *splits = table->splits + thing * table->capacity;
    uint32_t of_split = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < table->kept[thing]; i++) {
        if (splits[i] == split) {
            of_split++;
            last = i;
        }
    }
    if (of_split < table->rule.keep)
        return true;
    if (row[last].ordinal < ordinal)
        return false;
    const uint32_t moved = --table->kept[thing] - last;
    memmove(row + last, row + last + 1, moved * sizeof(*row));
    memmove(splits + last, splits + last + 1, moved * sizeof(*splits));
    return true;
}

void spsh__hit_table_add(spsh__hit_table *table, uint64_t thing, const spsh__hit *hit)
{
    pthread_mutex_t *lock = &table->locks[thing % LOCKS];
    spsh__hit *row = table->hits + thing * table->capacity;
    uint32_t *splits = table->splits + thing * table->capacity;
    const uint32_t split = table->rule.splits == NULL
                               ? 0
                               : spsh__train_splits_number(table->rule.splits, hit->ordinal);
    (void)pthread_mutex_lock(lock);
    table->counts[thing]++;
    if (make_place(table, thing, split, hit->ordinal)) {
        uint32_t at = table->kept[thing]++;
        while (at > 0 && row[at - 1].ordinal > hit->ordinal) {
            row[at] = row[at - 1];
            splits[at] = splits[at - 1];
            at--;
        }
        row[at] = *hit;
        splits[at] = split;
    }
    (void)pthread_mutex_unlock(lock);
}

uint64_t spsh__hit_table_get(const spsh__hit_table *table, uint64_t thing,
                             const spsh__hit **ret_hits, uint32_t *ret_kept)
{
    *ret_hits = table->hits + thing * table->capacity;
    *ret_kept = table->kept[thing];
    return table->counts[thing];
}

uint64_t spsh__hit_table_bytes(uint64_t count, spsh__hit_rule rule)
{
    return count * (sizeof(uint64_t) + sizeof(uint32_t) +
                    capacity_of(rule) * (sizeof(spsh__hit) + sizeof(uint32_t)));
}

void spsh__hit_table_free(spsh__hit_table *table)
{
    if (table == NULL)
        return;
    for (unsigned i = 0; i < LOCKS; i++)
        (void)pthread_mutex_destroy(&table->locks[i]);
    free(table->hits);
    free(table->splits);
    free(table->counts);
    free(table->kept);
    free(table);
}
